// A debate's questions to a person (LangGraph's interrupts): each is a proposal to accept, to change or to answer.

import { fault, h, link } from "./dom.js";
import { TextsField } from "./given.js";
import { t } from "./text.js";

/**
 * A form for interrupts. `answer` is called with the value that resumes the debate; `names` are agents' display names.
 */
export function question(asked, answer, names = {}) {
  const forms = asked.map((one) => formOf(one.value, (agent) => names[agent]?.[0] ?? agent));
  const problem = h("div", {});
  const send = async (event, replies) => {
    event.preventDefault();
    const buttons = [...box.querySelectorAll("button")];
    buttons.forEach((button) => (button.disabled = true));
    try {
      const given = replies();
      await answer(asked.length === 1 ? given[0] : Object.fromEntries(asked.map((one, i) => [one.id, given[i]])));
    } catch (error) {
      problem.replaceChildren(fault(error.message));
      buttons.forEach((button) => (button.disabled = false));
    }
  };
  const box = h(
    "form",
    { class: "question", "aria-labelledby": "question", onsubmit: (event) => send(event, () => forms.map((form) => form.read())) },
    h("h2", { id: "question", tabindex: -1 }, t("The debate waits for your answer")),
    forms.map((form) => form.node),
    problem,
    h("div", { class: "acts" }, h("button", { type: "submit", class: "btn main" }, t("Send")), h("button", { type: "button", class: "btn", onclick: (event) => send(event, () => forms.map(() => ({ accept: true }))) }, t("Accept everything as it is"))),
  );
  return box;
}

/** The form of a question, and a function that reads the reply. An unchanged proposal counts as accepted. */
function formOf(value, named) {
  const asked = value !== null && typeof value === "object" ? value : { about: String(value) };
  const { node, read } = (KINDS[asked.kind] ?? anything)(asked.proposed ?? {}, asked, named);
  const about = String(asked.about ?? "A question").replace(/ \((round \d+), ([^)]+)\)$/, (_, round, agent) => ` (${round}, ${named(agent)})`);
  const reply = () => {
    const said = read();
    return said && Object.values(said).some((one) => Object.keys(one ?? {}).length) ? said : { accept: true };
  };
  return { node: h("fieldset", {}, h("legend", { dir: "auto" }, about), asked.problem && fault(asked.problem), node), read: reply };
}

const KINDS = { queries, premises, evidence, remark, verdict };

function queries(proposed, _, named) {
  const areas = Object.entries(proposed.queries ?? {}).map(([name, query]) => [name, query, area(t("Search of {name}", { name: named(name) }), query)]);
  const changed = () => areas.filter(([, query, field]) => field.area.value.trim() && field.area.value !== query).map(([name, , field]) => [name, field.area.value]);
  return { node: areas.map(([, , field]) => field.node), read: () => ({ queries: Object.fromEntries(changed()) }) };
}

function premises(proposed) {
  const given = (proposed.premises ?? []).map((one) => one.replaceAll("\n", " "));
  const field = area(t("Premises (one per line)"), given.join("\n"));
  const lines = () => field.area.value.split("\n").map((one) => one.trim()).filter(Boolean);
  return { node: field.node, read: () => (lines().join("\n") === given.join("\n") ? null : { premises: lines() }) };
}

/** Evidence to strike, and texts to add. */
export function evidence(proposed) {
  const boxes = (proposed.evidence ?? []).map((piece) => [piece.id, h("input", { type: "checkbox", id: newId() }), piece]);
  const rows = boxes.map(([, box, piece]) =>
    h("li", {}, h("label", { for: box.id }, box, ` ${t("Strike {title}", { title: piece.title || piece.source })}`), h("details", {}, h("summary", {}, t("Text")), piece.url && h("p", {}, link(piece.url)), h("blockquote", { dir: "auto" }, piece.text))),
  );
  const more = new TextsField();
  const read = () => ({ strike: boxes.filter(([, box]) => box.checked).map(([id]) => id), add: more.read() });
  return { node: [h("ul", { class: "list" }, rows), more.node], read };
}

function remark(proposed, _, named) {
  const said = (proposed.answers ?? []).map((one) => h("li", { dir: "auto" }, `${named(one.agent)}: ${one.answer ?? ""} ${one.reasons ?? ""}`));
  const field = area(t("Your remark"), "");
  return { node: [h("ul", {}, said), field.node], read: () => ({ remark: field.area.value.trim() }) };
}

function verdict(proposed, _, named) {
  const reasons = (proposed.reasons ?? []).map((one) => h("li", { dir: "auto" }, `${named(one.agent)}: ${one.reasons ?? ""}`));
  const field = area(t("Your question; the verdict is then decided again"), "");
  const draft = h("p", {}, t("Draft:") + " ", h("strong", {}, proposed.answer ?? proposed.verdict ?? t("no answer")));
  return { node: [draft, h("ul", {}, reasons), field.node], read: () => ({ question: field.area.value.trim() }) };
}

/** A question of an unknown kind: it is shown as JSON, and answered with JSON or text. */
function anything(_, asked) {
  const field = area(t("Your answer (JSON, or text)"), "");
  const read = () => {
    try {
      return JSON.parse(field.area.value);
    } catch {
      return { answer: field.area.value };
    }
  };
  return { node: [h("pre", { tabindex: 0 }, JSON.stringify(asked, null, 2)), field.node], read };
}

let count = 0;

function newId() {
  return `answer-${(count += 1)}`;
}

function area(label, text) {
  const input = h("textarea", { id: newId(), rows: Math.min(12, text.split("\n").length + 1), dir: "auto" });
  input.value = text;
  return { area: input, node: h("div", { class: "field" }, h("label", { for: input.id }, label), input) };
}
