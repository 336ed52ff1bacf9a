// Form fields for the settings in a method's schema; the server checks their values.

import { h } from "./dom.js";
import { t } from "./text.js";

const HINTS = { model: "models", sources: "sources", corpus: "corpora" };

/** Display names of settings; a setting without one uses its own name. */
const NAMES = {
  max_rounds: t("Most rounds"),
  rounds: t("Rounds"),
  max_cost: t("Stop at (US dollars)"),
  max_calls: t("Limit on model calls"),
  max_seconds: t("Limit on time (seconds)"),
  budget: t("Limit on tokens"),
  fact_checks_decide: t("Fact checks by others may decide"),
  claim_page: t("The page on which the claim appeared"),
  site_labels: t("Your labels of sites (JSON)"),
  sites_never: t("Never from these sites"),
  sites_only: t("Only from these sites"),
  check_retractions: t("Ask Crossref about retractions"),
  published_before: t("Only evidence from before"),
  ask_person: t("Ask me about"),
  k: t("Passages for each search"),
  max_per_host: t("Most passages from one website"),
  label_rules: t("Rules for claims that are covered in part, or that report speech"),
  own_answer: t("Debaters read their own last answer"),
  query_reason: t("Say why there is another round when a search is worded"),
  conformity: t("What agents are told about others' answers"),
  agreement: t("When a debate ends early"),
  max_origin_share: t("Largest share of near-duplicates in a search (0 to 1)"),
  read_pages: t("Read the pages that a web search finds"),
  respect_robots: t("Read only pages that robots.txt allows"),
  archive: t("Copies of cited pages in the Wayback Machine"),
  calibration: t("Calibration file (a path on the server)"),
  datamarking: t("Mark the words of evidence"),
  assess: t("Assess the answers that decide: does a quote bear them out?"),
  require_warrant: t("Only verdicts that a quote bears out"),
  second_opinion: t("Ask for a second opinion on the verdict"),
  doubt_below: t("Doubt a verdict whose second opinion is below (0 to 1)"),
  robustness: t("Test what the verdict depends on"),
  robustness_calls: t("Most model calls for tests of the verdict"),
  max_evidence_tokens: t("Longest passage shown to a model (tokens)"),
  model: t("Model"),
  models: t("Models of single roles (JSON)"),
  temperature: t("Randomness (temperature)"),
  max_tokens: t("Longest reply (tokens)"),
  context_tokens: t("Context window of the model (tokens)"),
  seed: t("Random seed"),
  structured_output: t("How structured output is requested"),
  verified_quotes: t("Only answers with a quote that is in its source"),
  embedder: t("Embedding model"),
  corpus: t("Collection of documents"),
  reader_summary: t("Write a summary for readers"),
  timeout: t("Longest wait for a reply (seconds)"),
  attempts: t("Tries for each call"),
  max_concurrency: t("Most parallel calls"),
  requests_per_minute: t("Most calls per minute"),
  on_failure: t("How a debate fails (for programs)"),
  max_wait: t("Longest wait if the endpoint limits the rate (seconds)"),
  sources: t("Where to search (separated by commas)"),
  fallback: t("Where to search if a source fails (separated by commas)"),
  debaters: t("Who debates"),
  preset: t("Preset"),
  hear: t("Whom an agent hears"),
  agents: t("Who debates"),
  min_agents: t("Fewest agents who must answer"),
  retrieval: t("When to search"),
  query_formulation: t("How searches are worded"),
  keep_evidence: t("Keep evidence of earlier rounds"),
  plan: t("Plan the search first"),
  passages_travel: t("Show debaters what others quoted"),
  open_continues: t("Search on while the claim is open"),
  source_summaries: t("Sum up long sources"),
  reranker: t("Rerank passages with"),
  scoring: t("When answers are checked"),
  faithfulness_threshold: t("Share of statements that must be in the passages (0 to 1)"),
  answer_relevance_threshold: t("Required nearness to the claim (0 to 1)"),
  questions: t("Questions to measure nearness to the claim"),
  judges: t("Judges"),
  switched_rounds: t("Rounds with sides switched"),
  min_rounds: t("Fewest rounds"),
  claim_form: t("Form of the claim when nearness is measured"),
  cross_encoder: t("Cross-encoder"),
  selection: t("Debaters select their evidence"),
  web_titles: t("Show the titles of web pages"),
  sequential_talk: t("Agents speak one after the other"),
  temperatures: t("Randomness of single roles (JSON)"),
  seed_k: t("Passages for the claim itself"),
  max_premises: t("Most premises of the claim"),
  admitted_above: t("Weight above which evidence is admitted"),
  disputed_above: t("Weight above which evidence is disputed"),
  role_switch: t("Debate again with sides switched"),
  switch_same_model: t("Switch sides even if both have one model"),
  procedure: t("Procedure of the trial"),
  progressive_retrieval: t("Search during the debate"),
  self_reflection: t("Sides rate their own case"),
  novelty_threshold: t("Novelty that new evidence needs (0 to 2)"),
  redundant_similarity: t("Similarity above which evidence is redundant (-1 to 1)"),
  redundant_share: t("Share of redundant evidence that ends a search (0 to 1)"),
  min_request_similarity: t("Similarity to the request that evidence needs (-1 to 1)"),
  max_retrievals: t("Most searches of a side in a debate"),
  relevance_gain: t("Gain in relevance that a further search needs"),
  plateau: t("Smallest change of a side's rating that counts"),
  exhaustion: t("Novelty below which the debate ends"),
  exhibits: t("How exhibits are shown"),
  panel_tokens: t("How much of the record a judge reads (tokens)"),
  inconclusive: t("If the judges come to no conclusion"),
  consensus_weight: t("Weight of the judges' agreement"),
  quality_weight: t("Weight of the judges' scores"),
  verdict_labels: t("Names of the judges' findings (JSON)"),
  demonstrations: t("Show worked examples first"),
  samples: t("Number of answers"),
  max_tool_calls: t("Most searches and look-ups"),
  debating_graph: t("Who hears whom"),
  evaluation: t("How trust in others is measured"),
  pruning: t("Which agents are heard"),
  similarity: t("How answers are compared"),
  recalibration: t("Corrected confidences (JSON)"),
  voting: t("How votes count"),
  group_size: t("Agents in a group"),
  debate: t("Which method debates"),
  debate_settings: t("Settings of that debate (JSON)"),
  trigger: t("When there is a debate"),
  min_verified: t("Fewest origins that must be quoted"),
  max_origins: t("Most origins that are read"),
  max_documents: t("Most documents that are read"),
  one_answer_ends: t("End when one answer is left"),
  first_weight: t("Points for a first answer"),
  left_weight: t("Points that a given-up answer loses"),
  taken_weight: t("Points for a new answer"),
  kept_weight: t("Points for a kept answer"),
};

/** What settings do that everybody sees; the others have the description for developers, in English. */
const ABOUT = {
  max_rounds: t("The debate may end earlier."),
  published_before: t("A day, such as 2020-10-25: what was published on it or later is left out. Sources without a date stay, with a warning."),
  max_cost: t("Near this amount the check ends with what it has. Searches are not counted."),
  ask_person: t("The check waits for your answer at these points."),
};

/** Groups of settings. All other settings are in a further group, and prompts in the last group. */
const GROUPS = [
  [t("Limits"), ["max_calls", "max_seconds", "budget", "timeout", "attempts", "max_concurrency", "requests_per_minute", "max_wait"]],
  [t("Models"), ["model", "models", "temperature", "max_tokens", "context_tokens", "seed", "structured_output", "embedder"]],
  [t("Searching"), ["debaters", "sources", "fallback", "corpus", "retrieval", "plan", "query_formulation", "k", "max_per_host", "max_origin_share", "read_pages", "respect_robots", "archive", "datamarking", "max_evidence_tokens", "keep_evidence", "passages_travel", "open_continues", "source_summaries", "sites_only", "sites_never", "site_labels", "claim_page", "fact_checks_decide", "check_retractions", "reranker"]],
];

/** The folded groups of a method's settings, without the settings that are shown elsewhere. */
export function foldsOf(fields, elsewhere) {
  const left = fields.filter((one) => !elsewhere.includes(one.name));
  const named = new Set(GROUPS.flatMap(([, names]) => names));
  const groups = GROUPS.map(([heading, names]) => [heading, names.flatMap((name) => left.filter((one) => one.name === name))]);
  const prompt = (one) => one.name.endsWith("_prompt");
  groups.push([t("How this method works"), left.filter((one) => !named.has(one.name) && !prompt(one))]);
  groups.push([t("Prompts"), left.filter(prompt)]);
  return groups
    .filter(([, of]) => of.length)
    .map(([heading, of]) => h("details", { class: "fold" }, h("summary", {}, h("span", { class: "nb" }, heading), h("span", { class: "quiet" }, of.map((one) => one.title.replace(/ \(.*/, "")).slice(0, 4).join(", "), of.length > 4 && ` ${t("and {count} more", { count: of.length - 4 })}`)), h("div", { class: "grid" }, of.map((one) => one.node))));
}

/** The fields of a graph; equal fields keep their typed values. */
export function fieldsOf(schema, before) {
  return Object.entries(schema.properties).map(([name, one]) => {
    const known = resolved(one, schema);
    const kind = JSON.stringify(known);
    return before.find((old) => old.name === name && old.kind === kind) ?? { ...fieldOf(name, known), kind, default: known.default };
  });
}

export function labelled(text, input, hint = "") {
  const label = input.id ? h("label", { for: input.id }, text) : h("p", { class: "label" }, text);
  if (hint && input.id) input.setAttribute("aria-describedby", `${input.id}-hint`);
  return h("div", { class: "field" }, label, input, hint && h("p", { class: "quiet tiny", id: input.id ? `${input.id}-hint` : null }, hint));
}

export function linesOf(text) {
  return text.split("\n").map((one) => one.trim()).filter(Boolean);
}

export function json(name, text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(t("{name}: not valid JSON ({why})", { name, why: error.message }));
  }
}

/** A schema with its references resolved and "or null" removed. */
function resolved(schema, root) {
  if (schema.$ref) return { ...root.$defs[schema.$ref.split("/").pop()], ...schema };
  const kinds = (schema.anyOf ?? []).filter((one) => one.type !== "null");
  if (kinds.length === 1) return { ...schema, ...resolved(kinds[0], root) };
  return schema;
}

/** A field for each debater's source, if debaters have their own sources. */
function sourcesOf(name, debaters) {
  const inputs = debaters.map((one) => h("input", { id: `setting-${name}-${one.name}`, type: "text", list: "known-sources", placeholder: t("as chosen above"), autocomplete: "off" }));
  const read = () => {
    if (inputs.every((input) => !input.value.trim())) return undefined;
    return debaters.map((one, i) => ({ ...one, retriever: inputs[i].value.trim() || one.retriever }));
  };
  const write = (of) => of.forEach(({ name: whose, retriever }) => {
    const place = debaters.findIndex((one) => one.name === whose);
    if (place >= 0) inputs[place].value = retriever ?? "";
  });
  const node = h("div", { class: "two" }, debaters.map((_, i) => labelled(t("Where debater {letter} searches", { letter: "ABCDEFGH"[i] }), inputs[i])));
  return { name, title: t("Where each debater searches"), read, write, node };
}

/** A field for a setting: {name, title, read, write, node}. Empty fields are not sent, so that the default applies. */
function fieldOf(name, schema) {
  if (name === "debaters" && schema.default?.some?.((one) => one.retriever)) return sourcesOf(name, schema.default);
  const id = `setting-${name}`;
  const title = NAMES[name] ?? titled(name.replace(/_prompt$/, "").replaceAll("_", " "));
  const shown = schema.default === undefined || schema.default === null ? t("no limit") : typeof schema.default === "string" ? schema.default : JSON.stringify(schema.default);
  const unset = schema.default === null && !/max|budget|before/.test(name) ? t("not set") : shown;
  const { input, read, write = (value) => (input.value = typeof value === "string" ? value : JSON.stringify(value)) } = inputOf(name, id, title, schema, name === "model" ? t("as chosen above") : unset.slice(0, 200));
  return { name, title, read, write, node: labelled(title, input, ABOUT[name] ?? (schema.description && h("span", { lang: "en", dir: "ltr" }, forReaders(schema.description)))) };
}

/** A setting's description with the names that this page has for settings and for a value that is not set. */
function forReaders(text) {
  return text.replace(/`(\w+)`/g, (_, name) => `“${NAMES[name] ?? name.replaceAll("_", " ")}”`).replace(/\bNull\b/g, "Empty").replace(/ \((budget_exhausted)\)/, "");
}

function titled(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Display names of choices. */
const WORDS = { queries: t("searches"), premises: t("premises"), evidence: t("the evidence"), remark: t("a remark after each round"), verdict: t("the draft verdict"), true: t("yes"), false: t("no") };

function inWords(value) {
  return WORDS[value] ?? String(value).replaceAll("_", " ");
}

/** Checkboxes for several choices. */
function severalOf(id, title, choices) {
  const boxes = choices.map((one) => [one, h("input", { type: "checkbox", id: `${id}-${one}` })]);
  const input = h("div", { role: "group", "aria-label": title, class: "boxes" }, boxes.map(([one, box]) => h("label", { for: box.id }, box, ` ${inWords(one)}`)));
  const read = () => (boxes.some(([, box]) => box.checked) ? boxes.filter(([, box]) => box.checked).map(([one]) => one) : undefined);
  return { input, read, write: (value) => boxes.forEach(([one, box]) => (box.checked = value.includes(one))) };
}

function inputOf(name, id, title, schema, shown) {
  const choices = schema.enum ?? (schema.type === "boolean" ? [true, false] : null);
  if (choices) {
    const input = h("select", { id }, h("option", { value: "" }, t("by default: {value}", { value: inWords(shown) })), choices.map((one, i) => h("option", { value: i + 1 }, inWords(one))));
    return { input, read: () => (input.value ? choices[Number(input.value) - 1] : undefined), write: (value) => (input.value = choices.indexOf(value) + 1) };
  }
  const several = schema.type === "array" && (schema.items?.enum ?? (schema.items?.const && [schema.items.const]));
  if (several) return severalOf(id, title, several);
  if (schema.langgraph_type === "prompt") {
    const input = h("textarea", { id, rows: 4, dir: "auto" });
    input.value = schema.default;
    return { input, read: () => (input.value === schema.default ? undefined : input.value) };
  }
  if (schema.type === "integer" || schema.type === "number") {
    const input = h("input", { id, type: "number", step: schema.type === "integer" ? 1 : "any", min: schema.minimum, max: schema.maximum, placeholder: shown });
    return { input, read: () => (input.value === "" ? undefined : Number(input.value)) };
  }
  const input = h("input", { id, type: "text", list: HINTS[name] && `known-${HINTS[name]}`, placeholder: shown, autocomplete: "off" });
  if (name === "sources" || name === "fallback") {
    input.placeholder = name === "sources" ? t("as chosen above") : "nowhere";
    const write = (value) => (input.value = value.join(", "));
    return { input, write, read: () => (input.value.trim() ? input.value.split(",").map((one) => one.trim()).filter(Boolean) : undefined) };
  }
  return { input, read: () => (input.value.trim() === "" ? undefined : schema.type === "string" ? input.value.trim() : json(title, input.value)) };
}

/** Suggestions for names of models, sources and collections. */
export function lists(choices) {
  return Object.values(HINTS).map((name) => h("datalist", { id: `known-${name}` }, choices[name].map((value) => h("option", { value }))));
}
