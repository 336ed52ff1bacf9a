// The start page: a claim, an article or an address, three choices, one button. Everything else is folded.

import { ask } from "./api.js";
import { modelName, recent } from "./past.js";
import { announce, fault, h } from "./dom.js";
import { fieldsOf, foldsOf, json, labelled, linesOf, lists } from "./fields.js";
import { TextsField } from "./given.js";
import { begin } from "./live.js";

const EXAMPLE = "The platypus is a mammal that lays eggs.";
/** What to expect of the built-in model. */
const BUILT_IN = "Tiny, free, offline. Shows each step; its verdicts mean nothing";
const FIRST = ["max_rounds", "rounds", "max_cost", "published_before", "ask_person"];
const LONGEST = 4000;
/** The maximum number of words in a line that counts as a claim of a list. */
const LONGEST_LINE = 40;
const BULLET = /^(?:[-*•–]|\d{1,3}[.)])\s+/;
/** Tokens of a call's prompt and of its reply, measured in debates; for estimates of the cost. */
const A_CALL = [1000, 100];

const THOROUGH = [
  { key: "quick", graph: "rag", name: "Quick check", short: "Quick", about: "One search, then one answer. Seconds" },
  { key: "debate", graph: "tool_mad", name: "Debate", about: "Two debaters, up to three rounds. A minute or two" },
  { key: "trial", graph: "proclaim", name: "Trial", about: "Both sides argued, sides switched, three judges. Several minutes" },
];

/** Shows the form for a new check. `again` is the id of a past debate that fills in the form, or null. `many` gets all that is no single claim. */
export async function newCheck(main, again, many) {
  document.title = "New check - moot";
  const [choices, old] = await Promise.all([ask("/moot/api/choices"), again ? ask(`/moot/api/debates/${encodeURIComponent(again)}`) : null]);
  const home = new Home(choices, many);
  main.replaceChildren(home.node);
  if (old) home.repeat(old.document);
  home.update();
  const listed = await recent(); // after the form, which does not wait for the list
  if (home.node.isConnected) main.append(...listed); // otherwise a check has begun
}

export class Home {
  constructor(choices, many) {
    this.choices = choices;
    this.many = many;
    const { lacks, model } = choices;
    this.own = choices.corpora.filter((one) => !one.startsWith("demo-"));
    this.claim = h("textarea", { id: "claim", rows: 3, required: true, dir: "auto", placeholder: "Paste it here. Several claims: one on each line", oninput: () => this.update() });
    this.thorough = new Choice("thorough", "How thorough", THOROUGH, "debate", () => this.choose(this.thorough.value.graph));
    this.evidence = new Choice(
      "evidence",
      "Which evidence",
      [
        { key: "documents", name: "My documents", short: "Mine", about: this.own.length ? `“${this.own[0]}”, or others` : "", lacks: () => (this.#hasDocuments() ? "" : "None yet. Choose this to add some") },
        { key: "wikipedia", name: "Wikipedia", about: "Searched as it is today" },
        { key: "web", name: "Web", about: "Searched as it is today", lacks: () => lacks.web, never: Boolean(lacks.web) },
      ],
      "wikipedia",
      () => this.#evidenceChosen(),
    );
    this.model = new Choice(
      "model",
      "Which model",
      [
        { key: "embedded", name: "Built in", about: BUILT_IN, lacks: () => lacks.embedded, never: Boolean(lacks.embedded) },
        { key: model, name: modelName(model), about: choices.about, lacks: () => lacks[model], never: Boolean(lacks[model]) },
        { key: "other", name: "Another", about: "By name, from any provider" },
      ],
      lacks[model] ? choices.usual : model,
      () => this.#modelChosen(),
    );
    this.named = h("input", { id: "model-name", type: "text", list: "known-models", placeholder: "provider:name, for example ollama:qwen3:8b", autocomplete: "off", oninput: () => this.update() });
    this.byName = h("div", { class: "field byname", hidden: true }, h("label", { for: "model-name" }, "Name of the model"), this.named);
    this.given = new TextsField(() => this.update());
    const sample = { "demo-encyclopaedia": "a small sample encyclopaedia", "demo-news": "small sample news" };
    this.collection = h("select", { id: "collection", onchange: () => this.update() }, h("option", { value: "" }, "none: only the texts added here"), [...this.own, ...Object.keys(sample)].map((one) => h("option", { value: one }, sample[one] ?? `“${one}”`)));
    this.collection.value = this.own[0] ?? "";
    this.documents = h("details", { class: "fold", id: "documents" }, h("summary", {}, h("span", { class: "nb" }, "My documents"), h("span", { class: "quiet" }, "files and texts that are shown to every agent")), h("div", { class: "inside" }, this.given.node, labelled("And search in", this.collection, "Collections are made with moot index.")));
    this.#rest();
    this.#build();
    this.choose("tool_mad");
  }

  /** Creates the folded fields: speaker, limits, method, answers, and every setting of the method. */
  #rest() {
    const { choices } = this;
    this.speaker = h("input", { id: "speaker", type: "text", maxlength: 200, dir: "auto", autocomplete: "off", placeholder: "Name or outlet" });
    this.date = h("input", { id: "claim-date", type: "text", pattern: "\\d{4}(-\\d\\d){0,2}", placeholder: "2020-10-21", title: "A year, a month or a day: 2020, 2020-10, 2020-10-21", autocomplete: "off" });
    this.preset = h("select", { id: "preset", "aria-describedby": "preset-about", onchange: () => this.fill() }, h("option", { value: "" }, "none"), choices.presets.map(({ name }) => h("option", { value: name }, name)));
    this.presetAbout = h("p", { class: "quiet tiny", id: "preset-about" });
    this.graph = h("select", { id: "graph", "aria-describedby": "graph-about", onchange: () => this.choose(this.graph.value) }, choices.graphs.map(({ name }) => h("option", { value: name }, choices.methods[name] ?? name)));
    this.about = h("p", { class: "quiet tiny", id: "graph-about" });
    this.task = h("select", { id: "task" }, h("option", { value: "" }, "the method's default"), Object.entries(choices.tasks).map(([name, about]) => h("option", { value: name }, `${name} - ${about}`)));
    this.labels = h("textarea", { id: "labels", rows: 3 });
    this.options = h("textarea", { id: "options", rows: 3 });
    this.more = h("textarea", { id: "more", rows: 3, placeholder: '{"models": {"judge": "openai:gpt-5-mini"}}', spellcheck: "false" });
    this.fields = [];
    this.first = h("div", { class: "grid" });
    this.folds = h("div", {});
  }

  #build() {
    this.problem = h("div", {});
    this.button = h("button", { type: "submit", class: "btn main" }, "Check it");
    this.line = h("p", { id: "line" });
    this.button.setAttribute("aria-describedby", "line");
    this.instead = h("button", { type: "button", class: "link", hidden: true, onclick: () => this.#useOtherKind() });
    const example = h("button", { type: "button", class: "link", onclick: () => this.#example() }, EXAMPLE);
    const files = h("button", { type: "button", class: "link files", onclick: () => this.#open(this.documents) }, "Add documents");
    this.node = h(
      "form",
      { class: "ask", onsubmit: (event) => this.send(event) },
      h("h1", {}, "Check a claim"),
      h("p", { class: "lede" }, "Language models search for evidence, argue over it, and quote the passages that support their verdict."),
      this.choices.unset && this.choices.usual !== "embedded" && firstModel(),
      h("div", { class: "box" }, h("label", { for: "claim" }, "A claim, an article or a web address"), this.claim, h("div", { class: "under" }, h("span", {}, "Try: ", example), files)),
      h("div", { class: "three" }, this.thorough.node, this.evidence.node, this.model.node),
      this.byName,
      this.problem,
      h("div", { class: "go" }, this.button, h("div", {}, this.line, this.instead)),
      this.documents,
      h(
        "details",
        { class: "fold", id: "more-options" },
        h("summary", {}, h("span", { class: "nb" }, "More options"), h("span", { class: "quiet" }, "who said it and when, rounds, limits, when to ask you")),
        h("div", { class: "inside" }, h("div", { class: "grid" }, labelled("Who said it", this.speaker), labelled("When it was said or published", this.date)), this.first),
      ),
      h(
        "details",
        { class: "fold", id: "expert" },
        h("summary", {}, h("span", { class: "nb" }, "Method and every setting"), h("span", { class: "quiet" }, "for experts in debate systems")),
        h(
          "div",
          { class: "inside" },
          h("div", { class: "two" }, h("div", {}, labelled("Method", this.graph), this.about), h("div", {}, labelled("Ready-made set of settings", this.preset), this.presetAbout)),
          h("details", { class: "fold" }, h("summary", {}, h("span", { class: "nb" }, "Kind of answer"), h("span", { class: "quiet" }, "task, labels, options")), h("div", { class: "grid" }, labelled("Task", this.task), labelled("Your own labels (one per line)", this.labels), labelled("Options to choose from (one per line)", this.options))),
          this.folds,
          labelled("Settings as JSON; they override all others", this.more),
        ),
      ),
      lists(this.choices),
    );
    this.node.addEventListener("invalid", ({ target }) => this.#open(target.closest("details")), true); // otherwise, the invalid field would be hidden
    this.node.addEventListener("change", () => this.update());
  }

  #open(fold) {
    for (let at = fold; at; at = at.parentElement.closest("details")) at.open = true;
    if (fold === this.documents) this.given.button.focus();
  }

  #example() {
    this.claim.value = EXAMPLE;
    this.forced = null;
    this.update();
    this.claim.focus();
  }

  #useOtherKind() {
    this.forced = this.other;
    this.update();
    this.button.focus();
  }

  #evidenceChosen() {
    if (this.evidence.key === "documents" && !this.#hasDocuments()) this.#open(this.documents);
    this.update();
  }

  #modelChosen() {
    this.byName.hidden = this.model.key !== "other";
    if (!this.byName.hidden) this.named.focus();
    this.update();
  }

  #hasDocuments() {
    return Boolean(this.collection?.value || this.given?.count);
  }

  /** Shows the settings of the chosen method; typed values of settings that both methods have are kept. */
  choose(graph) {
    const { about, settings } = this.choices.graphs.find(({ name }) => name === graph);
    this.graph.value = graph;
    this.thorough.set(THOROUGH.find((one) => one.graph === graph)?.key);
    this.about.textContent = about;
    this.properties = settings.properties;
    this.fields = fieldsOf(settings, this.fields);
    this.first.replaceChildren(...FIRST.flatMap((name) => this.fields.filter((one) => one.name === name)).map((one) => one.node));
    this.folds.replaceChildren(...foldsOf(this.fields, FIRST));
    this.update();
  }

  /** Replaces the fields' values with those of the chosen preset. */
  fill() {
    const preset = this.choices.presets.find(({ name }) => name === this.preset.value) ?? { about: "", graph: this.graph.value, settings: {} };
    this.task.value = preset.task ?? "";
    this.fields = [];
    this.choose(preset.graph);
    this.#fillIn(preset.settings);
    const set = Object.keys(preset.settings).map((name) => this.fields.find((one) => one.name === name)?.title ?? name);
    this.presetAbout.textContent = set.length ? `${preset.about} It fills in: ${[...set, ...(preset.task ? ["Task"] : [])].join(", ")}.` : "";
    this.update();
  }

  /** Fills in the values of settings that have a field; the other values go into the JSON field. */
  #fillIn(settings) {
    const rest = {};
    for (const [name, value] of Object.entries(settings)) {
      const field = this.fields.find((one) => one.name === name);
      if (field && value !== null) field.write(value);
      else if (value !== null) rest[name] = value;
    }
    if (Object.keys(rest).length) this.more.value = JSON.stringify(rest);
  }

  /** Fills in a past debate's claim, texts and settings. */
  repeat({ claim, graph, settings, task, evidence }) {
    this.claim.value = claim;
    this.forced = "claim";
    this.choose(graph);
    const { properties } = this.choices.graphs.find(({ name }) => name === graph).settings;
    const set = Object.entries(settings).filter(([name, value]) => properties[name] && JSON.stringify(value) !== JSON.stringify(properties[name].default));
    const simple = ([name]) => !["debaters", "agents", "models"].includes(name);
    this.#fillIn(Object.fromEntries(set.filter(simple)));
    const others = Object.fromEntries(set.filter((one) => !simple(one)));
    if (Object.keys(others).length) this.more.value = JSON.stringify(others);
    if (task?.name && task.name in this.choices.tasks) this.task.value = task.name;
    this.speaker.value = task?.speaker ?? "";
    this.date.value = task?.claim_date ?? "";
    const given = (evidence ?? []).filter((piece) => piece.retrievals.some((one) => one.retriever === "given" && one.agent === "given"));
    given.forEach(({ id, title, text, url, published, page, heading }) => this.given.add(kept({ id, title, text, url, published, page, heading })));
    if (given.length) this.documents.open = true;
    this.node.querySelector("#expert").open = set.length > 0;
  }

  /** Updates the button, the hints and the estimate, for the kind of the pasted text and the choices. */
  update() {
    const text = this.claim.value.trim();
    this.kind = this.forced ?? kindOf(text);
    const builtIn = this.model.key === "embedded" && !this.more.value.includes('"model"');
    const reads = this.kind === "article" || this.kind === "url"; // claims must be found by a model
    this.button.textContent = this.kind === "claim" ? "Check it" : this.kind === "list" ? "List these claims" : builtIn ? "List its sentences" : "Find its claims";
    this.other = this.kind === "list" && isLong(text) ? "article" : "claim";
    this.instead.textContent = this.other === "article" ? "Find its claims instead" : "Check it as one claim instead";
    this.instead.hidden = (this.kind !== "article" && this.kind !== "list") || (this.other === "claim" && text.length > LONGEST);
    for (const one of [this.thorough, this.evidence, this.model]) one.update();
    const searches = this.properties && (this.properties.sources || this.properties.debaters?.default?.some?.((one) => one.retriever));
    this.evidence.disable(searches ? "" : "This method does not search: the models answer from what they know.");
    const hint = this.kind === "list" ? `${linesOf(text).length} lines, each read as one claim: they are listed for you to tick.` : reads && builtIn ? "The built-in model is too weak to find claims: every sentence is listed for you to tick." : this.kind === "url" ? "The page is read, and the claims in it are listed for you to tick." : this.kind === "article" ? "This looks like an article: the claims in it are listed for you to tick." : this.#cost();
    this.line.textContent = hint;
  }

  #cost() {
    const { calls, cost } = this.estimate();
    const limit = this.fields.find((one) => one.name === "max_cost")?.read();
    const builtIn = this.model.key === "embedded";
    return `At most about ${inWords({ calls, cost })}${builtIn ? ", free" : ""}. It stops ${limit ? `at $${limit}, or ` : ""}when you stop it.${builtIn ? " The built-in model only shows how a check runs: its verdict will mean nothing." : ""}`;
  }

  /** The estimated maximum of one check, {calls, cost}; the cost is in USD, or null if no price is known. */
  estimate() {
    const setting = (name, otherwise) => Number(this.fields.find((one) => one.name === name)?.read() ?? this.properties[name]?.default ?? otherwise);
    const speakers = (this.properties.debaters?.default ?? this.properties.agents?.default)?.length ?? 1;
    const rounds = setting("max_rounds", setting("rounds", 1));
    const callsByMethod = { rag: 1, standard_prompting: 1, chain_of_thought: 1, self_consistency: 5, react: 7, multi_agent_voting: 3, tool_mad: speakers * rounds * 5 + 1, proclaim: 20 + 7 * rounds + 14 };
    const calls = callsByMethod[this.graph.value] ?? speakers * (rounds + 1) + rounds;
    const price = this.choices.prices[this.#modelName()];
    return { calls, cost: price ? (calls * (A_CALL[0] * price.input + A_CALL[1] * price.output)) / 1e6 : null };
  }

  #modelName() {
    return this.model.key === "other" ? this.named.value.trim() : this.model.key;
  }

  async send(event) {
    event.preventDefault();
    this.button.disabled = true;
    this.problem.replaceChildren();
    try {
      if (this.kind !== "claim") {
        await this.many(this.node.closest("main"), this.kind, this.claim.value.trim(), this.request());
        return;
      }
      if (this.claim.value.length > LONGEST) throw new Error(`A claim has at most ${LONGEST.toLocaleString("en")} characters; this text has ${this.claim.value.length.toLocaleString("en")}.`);
      const { graph, input, context } = this.request();
      announce("The check begins.");
      const asked = [graph, { claim: this.claim.value, ...input }, context];
      const signature = JSON.stringify(asked);
      if (signature !== this.signature) this.key = uuid(); // a retry after an error is the same debate
      this.signature = signature;
      await begin(this.node.closest("main"), this.key, ...asked);
    } catch (error) {
      this.problem.replaceChildren(fault(error.message));
      this.button.disabled = false;
    }
  }

  /** A request for a debate, {graph, input without a claim, context}; `each` is the estimate, `builtIn` says if its model is built in. */
  request() {
    const context = { ...this.#chosenSettings(), ...this.#typedSettings() };
    return { graph: this.graph.value, input: this.#input(), context, each: this.estimate(), builtIn: context.model === this.choices.embedded };
  }

  /** The request, with another model if one is given. */
  plain(model) {
    const { context, ...others } = this.request();
    return { ...others, context: { ...context, ...(model && { model }) } };
  }

  #input() {
    const input = {};
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

  /** Settings from the three choices; typed settings override them. */
  #chosenSettings() {
    const model = this.#modelName();
    const typed = this.#typedSettings();
    if (!model && !typed.model && !typed.models) throw new Error(this.model.key ? "Name the model, or choose another one." : "Choose a model.");
    const chosen = model ? { model: model === "embedded" ? this.choices.embedded : model } : {};
    const debaters = this.properties.debaters?.default;
    const own = debaters?.some?.((one) => one.retriever) ? debaters : null;
    if (!own && !this.properties.sources) return chosen;
    if (typed.debaters || typed.sources || typed.corpus || typed.retrieval) return chosen;
    if (this.evidence.key !== "documents") {
      const source = this.evidence.key;
      return { ...chosen, ...(own ? { debaters: own.map((one) => ({ ...one, retriever: source })) } : { sources: [source] }) };
    }
    const name = this.collection.value;
    if (name) return { ...chosen, ...(own ? { debaters: own.map((one, i) => ({ ...one, retriever: `${i % 2 ? "bm25" : "chroma"}:${name}` })) } : { sources: [`hybrid:${name}`] }) };
    if (!this.given.count) throw new Error("There are no documents yet: add some under “My documents”, or choose other evidence.");
    return { ...chosen, ...(this.properties.retrieval ? { retrieval: "none" } : { sources: [] }) };
  }

  #typedSettings() {
    const typed = Object.fromEntries(this.fields.map((field) => [field.name, field.read()]).filter(([, value]) => value !== undefined));
    return { ...typed, ...(this.more.value.trim() ? json("Settings as JSON", this.more.value) : {}) };
  }
}

/** How to get a model, for a person who has none yet. */
function firstModel() {
  const code = (text) => h("code", {}, text);
  return h(
    "p",
    { class: "note", id: "first-model" },
    h("b", {}, "First, a model. "),
    "With Ollama: choose “Another” and type ",
    code("ollama:qwen3:8b"),
    ". With a key: stop moot, type ",
    code("export OPENAI_API_KEY=..."),
    " with your key, and start moot again. No model yet? ",
    h("a", { href: "/moot/example" }, "See a finished check"),
    ".",
  );
}

/** A number of calls and their cost, in words. */
export function inWords({ calls, cost }) {
  const dollars = cost ? ` and ${cost < 0.001 ? "under $0.001" : `$${cost.toPrecision(cost < 0.1 ? 1 : 2)}`}` : "";
  return `${calls.toLocaleString("en")} model ${calls === 1 ? "call" : "calls"}${dollars}`;
}

/** The kind of a pasted text: claim, list, article or url. */
export function kindOf(text) {
  if (/^https?:\/\/\S+$/i.test(text)) return "url";
  const lines = linesOf(text);
  const apart = !/\n\s*\n/.test(text) || !isLong(text) || lines.every((line) => BULLET.test(line)); // otherwise, the lines are paragraphs
  if (lines.length > 1 && apart && lines.every((line) => !/^\p{Ll}/u.test(line) && line.split(/\s+/).length <= LONGEST_LINE)) return "list";
  return isLong(text) ? "article" : "claim";
}

/** The claims of a list, one per line, without bullets and numbers. */
export function claimsOf(text) {
  return linesOf(text).map((line) => line.replace(BULLET, ""));
}

function isLong(text) {
  return text.split(/\s+/).length > 90 || text.length > LONGEST;
}

function kept(of) {
  return Object.fromEntries(Object.entries(of).filter(([, value]) => value !== undefined && value !== null && value !== ""));
}

/** One of the three choices: radio buttons, each with a description; on a narrow screen, segments with one hint. */
class Choice {
  constructor(name, legend, options, chosen, changed) {
    this.options = options;
    this.hint = h("p", { class: "hints", "aria-hidden": "true" });
    this.rows = options.map((one) => {
      const input = h("input", { type: "radio", name, id: `${name}-${one.key}`, value: one.key, checked: one.key === chosen, disabled: one.never, "aria-describedby": `${name}-${one.key}-about`, onchange: changed });
      const about = h("small", { id: `${name}-${one.key}-about` });
      const node = h("div", { class: "opt" }, input, h("div", {}, h("label", { for: input.id }, one.name), about));
      return { one, input, about, node };
    });
    this.node = h("fieldset", { class: "choice" }, h("legend", {}, legend), this.rows.map((row) => row.node), this.hint);
  }

  get key() {
    return this.rows.find(({ input }) => input.checked)?.one.key;
  }

  get value() {
    return this.options.find((one) => one.key === this.key);
  }

  set(key) {
    for (const { one, input } of this.rows) input.checked = one.key === key;
  }

  update() {
    for (const { one, about } of this.rows) {
      const lacks = one.lacks?.() ?? "";
      about.textContent = lacks || one.about;
      about.classList.toggle("w", Boolean(lacks));
    }
    const at = this.rows.find(({ input }) => input.checked);
    const never = this.rows.filter(({ one }) => one.never).map(({ one, about }) => `${one.name}: ${about.textContent}`);
    this.hint.textContent = [at ? at.about.textContent : "", ...never].filter(Boolean).join(". ");
  }

  /** Disables the choice, and says why. */
  disable(why) {
    this.node.classList.toggle("silent", Boolean(why));
    for (const { one, input } of this.rows) input.disabled = Boolean(why) || one.never === true;
    if (why) this.rows.forEach(({ about }) => (about.textContent = ""));
    this.why ??= this.node.appendChild(h("p", { class: "why-not tiny" }));
    this.why.textContent = why;
    this.why.hidden = !why;
  }
}

/** A random UUID; `crypto.randomUUID` is missing if the page comes from another machine without TLS. */
export function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
