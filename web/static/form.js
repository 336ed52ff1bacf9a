// The form of a new debate. Its settings are those that the chosen graph's schema names; the server checks them.

import { ask } from "./api.js";
import { announce, fault, h } from "./dom.js";
import { Texts } from "./given.js";
import { begin } from "./live.js";

const COMMON = ["model", "debaters", "sources", "corpus", "max_rounds", "rounds", "ask_person"];
const HINTS = { model: "models", sources: "sources", corpus: "corpora" };

/** Asks for a claim, and begins. */
export async function newDebate(main) {
  const choices = await ask("/moot/api/choices");
  document.title = "New debate - moot";
  new Form(choices, main).show();
}

class Form {
  constructor(choices, main) {
    Object.assign(this, { choices, main });
    this.claim = h("textarea", { id: "claim", rows: 3, required: true, maxlength: 4000, dir: "auto" });
    this.preset = h("select", { id: "preset", "aria-describedby": "preset-about", onchange: () => this.fill() }, h("option", { value: "" }, "none: the defaults"), choices.presets.map(({ name }) => h("option", { value: name }, name)));
    this.presetAbout = h("p", { class: "quiet", id: "preset-about" });
    this.graph = h("select", { id: "graph", onchange: () => this.choose() }, choices.graphs.map(({ name }) => h("option", { value: name }, name)));
    this.about = h("p", { class: "quiet", id: "graph-about" });
    this.graph.setAttribute("aria-describedby", "graph-about");
    this.task = h("select", { id: "task" }, h("option", { value: "" }, "by default"), Object.entries(choices.tasks).map(([name, about]) => h("option", { value: name }, `${name} - ${about}`)));
    this.labels = h("textarea", { id: "labels", rows: 3 });
    this.options = h("textarea", { id: "options", rows: 3 });
    this.speaker = h("input", { id: "speaker", type: "text", maxlength: 200, dir: "auto", autocomplete: "off" });
    this.date = h("input", { id: "claim-date", type: "text", pattern: "\\d{4}(-\\d\\d){0,2}", placeholder: "2020-10-25", title: "A year, a month or a day: 2020, 2020-10, 2020-10-25", autocomplete: "off" });
    this.given = new Texts();
    this.fields = [];
    this.common = h("div", { class: "fields" });
    this.others = h("div", { class: "fields" });
    this.more = h("textarea", { id: "more", rows: 3, placeholder: '{"models": {"judge": "openai:gpt-5-mini"}}', spellcheck: "false" });
    this.problem = h("div", {});
    this.button = h("button", { type: "submit" }, "Start the debate");
    this.node = this.#built();
    this.node.addEventListener("invalid", ({ target }) => target.closest("details")?.setAttribute("open", ""), true); // else nobody sees why
    this.choose();
  }

  #built() {
    const lists = Object.values(HINTS).map((name) => h("datalist", { id: `known-${name}` }, this.choices[name].map((value) => h("option", { value }))));
    return h(
      "form",
      { onsubmit: (event) => this.send(event) },
      labelled("Claim or question", this.claim),
      h("div", { class: "fields" }, h("div", {}, labelled("Preset", this.preset), this.presetAbout), h("div", {}, labelled("Graph", this.graph), this.about)),
      this.common,
      h("details", {}, h("summary", {}, "Who said it, and when"), h("div", { class: "fields" }, labelled("Said by", this.speaker), labelled("Date of the claim (a year, a month or a day)", this.date))),
      h("details", {}, h("summary", {}, "Evidence of your own: texts that everybody who answers is shown"), this.given.node),
      h("details", {}, h("summary", {}, "Answers: task, labels, options"), h("div", { class: "fields" }, labelled("Task", this.task), labelled("Labels of your own (one a line)", this.labels), labelled("Options to choose from (one a line)", this.options))),
      h("details", {}, h("summary", {}, "More settings"), this.others, labelled("Settings as JSON; they have the last word", this.more)),
      this.problem,
      this.button,
      lists,
    );
  }

  /** Shows the form, with what was typed into it. */
  show() {
    document.title = "New debate - moot";
    this.problem.replaceChildren();
    this.button.disabled = false;
    this.main.replaceChildren(h("h1", {}, "New debate"), this.node);
  }

  /** Shows the settings of the chosen graph; what was typed into fields that it has, too, stays. */
  choose() {
    const { about, settings } = this.choices.graphs.find(({ name }) => name === this.graph.value);
    this.about.textContent = about;
    this.fields = Object.entries(settings.properties).map(([name, schema]) => {
      const known = resolved(schema, settings);
      const same = this.fields.find((one) => one.name === name && one.kind === JSON.stringify(known));
      return same ?? { ...fieldOf(name, known), kind: JSON.stringify(known) };
    });
    this.common.replaceChildren(...COMMON.flatMap((name) => this.fields.filter((one) => one.name === name)).map((one) => one.node));
    this.others.replaceChildren(...this.fields.filter((one) => !COMMON.includes(one.name)).map((one) => one.node));
  }

  /** Fills in what the chosen preset sets, in place of what was there. */
  fill() {
    const preset = this.choices.presets.find(({ name }) => name === this.preset.value) ?? { about: "", graph: this.graph.value, settings: {} };
    this.graph.value = preset.graph;
    this.task.value = preset.task ?? "";
    this.fields = [];
    this.choose();
    for (const [name, value] of Object.entries(preset.settings)) this.fields.find((one) => one.name === name).write(value);
    const set = Object.keys(preset.settings).map((name) => name.replaceAll("_", " "));
    this.presetAbout.textContent = set.length ? `${preset.about} It fills in: ${[...set, ...(preset.task ? ["task"] : [])].join(", ")}.` : "";
  }

  async send(event) {
    event.preventDefault();
    this.button.disabled = true;
    try {
      announce("The debate begins.");
      const asked = [this.graph.value, this.#input(), this.#context()];
      const signature = JSON.stringify(asked);
      if (signature !== this.signature) this.key = uuid(); // what is sent again, after an error, is the same debate
      this.signature = signature;
      await begin(this.main, this.key, ...asked, () => this.show());
      this.signature = null;
    } catch (error) {
      this.problem.replaceChildren(fault(error.message));
      this.button.disabled = false;
    }
  }

  #input() {
    const input = { claim: this.claim.value };
    if (this.task.value) input.task = this.task.value;
    if (this.speaker.value.trim()) input.speaker = this.speaker.value.trim();
    if (this.date.value.trim()) input.claim_date = this.date.value.trim();
    for (const name of ["labels", "options"]) {
      const lines = linesOf(this[name].value);
      if (lines.length) input[name] = lines;
    }
    const given = this.given.read();
    if (given.length) input.given = given;
    return input;
  }

  #context() {
    const given = Object.fromEntries(this.fields.map((field) => [field.name, field.read()]).filter(([, value]) => value !== undefined));
    return { ...given, ...(this.more.value.trim() ? json("Settings as JSON", this.more.value) : {}) };
  }
}

function labelled(text, input, hint = "") {
  const label = input.id ? h("label", { for: input.id }, text) : h("p", { class: "label" }, text);
  return h("div", { class: "field" }, label, input, hint && h("p", { class: "quiet", id: input.id ? `${input.id}-hint` : null }, hint));
}

/** A random UUID; `crypto.randomUUID` is missing if the page comes from another machine without TLS. */
function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

function linesOf(text) {
  return text.split("\n").map((one) => one.trim()).filter(Boolean);
}

function json(name, text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${name}: no valid JSON (${error.message})`);
  }
}

/** A schema whose references, and whose "or null", are taken away. */
function resolved(schema, root) {
  if (schema.$ref) return { ...root.$defs[schema.$ref.split("/").pop()], ...schema };
  const kinds = (schema.anyOf ?? []).filter((one) => one.type !== "null");
  if (kinds.length === 1) return { ...schema, ...resolved(kinds[0], root) };
  return schema;
}

/** What each debater reads, where debaters have sources of their own. */
function sourcesOf(name, debaters) {
  const inputs = debaters.map((one) => h("input", { id: `setting-${name}-${one.name}`, list: "known-sources", placeholder: one.retriever, autocomplete: "off" }));
  const read = () => {
    if (inputs.every((input) => !input.value.trim())) return undefined;
    return debaters.map((one, i) => ({ ...one, retriever: inputs[i].value.trim() || one.retriever }));
  };
  const write = (of) => of.forEach(({ name: whose, retriever }) => (inputs[debaters.findIndex((one) => one.name === whose)].value = retriever));
  return { name, read, write, node: h("div", { class: "fields" }, debaters.map((one, i) => labelled(`Source of ${one.name}`, inputs[i]))) };
}

/** A field for a setting: {name, read, write, node}. What is left empty is not sent, so that the default holds. */
function fieldOf(name, schema) {
  if (name === "debaters" && schema.default?.some?.((one) => one.retriever)) return sourcesOf(name, schema.default);
  const id = `setting-${name}`;
  const shown = schema.default === undefined || schema.default === null ? "" : typeof schema.default === "string" ? schema.default : JSON.stringify(schema.default);
  const { input, read, write = (value) => (input.value = typeof value === "string" ? value : JSON.stringify(value)) } = inputOf(name, id, schema, shown.slice(0, 200));
  if (schema.description && input.id) input.setAttribute("aria-describedby", `${id}-hint`);
  return { name, read, write, node: labelled(name.replaceAll("_", " "), input, schema.description) };
}

/** Boxes to tick. */
function severalOf(name, id, choices) {
  const boxes = choices.map((one) => [one, h("input", { type: "checkbox", id: `${id}-${one}` })]);
  const input = h("div", { role: "group", "aria-label": name.replaceAll("_", " "), class: "boxes" }, boxes.map(([one, box]) => h("label", { for: box.id }, box, ` ${one}`)));
  const read = () => (boxes.some(([, box]) => box.checked) ? boxes.filter(([, box]) => box.checked).map(([one]) => one) : undefined);
  return { input, read, write: (value) => boxes.forEach(([one, box]) => (box.checked = value.includes(one))) };
}

function inputOf(name, id, schema, shown) {
  const choices = schema.enum ?? (schema.type === "boolean" ? [true, false] : null);
  if (choices) {
    const input = h("select", { id }, h("option", { value: "" }, `by default (${shown})`), choices.map((one, i) => h("option", { value: i + 1 }, String(one))));
    return { input, read: () => (input.value ? choices[Number(input.value) - 1] : undefined), write: (value) => (input.value = choices.indexOf(value) + 1) };
  }
  if (schema.type === "array" && schema.items?.enum) return severalOf(name, id, schema.items.enum);
  if (schema.langgraph_type === "prompt") {
    const input = h("textarea", { id, rows: 4, dir: "auto" });
    input.value = schema.default;
    return { input, read: () => (input.value === schema.default ? undefined : input.value) };
  }
  const list = HINTS[name] && `known-${HINTS[name]}`;
  if (schema.type === "integer" || schema.type === "number") {
    const input = h("input", { id, type: "number", step: schema.type === "integer" ? 1 : "any", min: schema.minimum, max: schema.maximum, placeholder: shown });
    return { input, read: () => (input.value === "" ? undefined : Number(input.value)) };
  }
  const input = h("input", { id, type: "text", list, placeholder: shown, autocomplete: "off" });
  if (name === "sources" || name === "fallback") {
    input.placeholder = (schema.default ?? []).join(", ");
    return { input, read: () => (input.value.trim() ? input.value.split(",").map((one) => one.trim()).filter(Boolean) : undefined), write: (value) => (input.value = value.join(", ")) };
  }
  return { input, read: () => (input.value.trim() === "" ? undefined : schema.type === "string" ? input.value.trim() : json(name, input.value)) };
}
