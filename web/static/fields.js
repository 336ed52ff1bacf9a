// Form fields for the settings in a method's schema; the server checks their values.

import { h } from "./dom.js";

const HINTS = { model: "models", sources: "sources", corpus: "corpora" };

/** Display names of settings; a setting without one uses its own name. */
const NAMES = {
  max_rounds: "Most rounds",
  rounds: "Rounds",
  max_cost: "Stop at (US dollars)",
  max_calls: "Limit on model calls",
  max_seconds: "Limit on time (seconds)",
  budget: "Limit on tokens",
  published_before: "Only evidence from before",
  ask_person: "Ask me about",
  k: "Passages for each search",
  max_per_host: "Most passages from one website",
  max_origin_share: "Largest share of near-duplicates in a search (0 to 1)",
  calibration: "Calibration file (a path on the server)",
  datamarking: "Mark the words of evidence",
  robustness: "Test what the verdict depends on",
  robustness_calls: "Most model calls for tests of the verdict",
  max_evidence_tokens: "Longest passage shown to a model (tokens)",
  model: "Model",
  models: "Models of single roles (JSON)",
  temperature: "Randomness (temperature)",
  max_tokens: "Longest reply (tokens)",
  context_tokens: "Context window of the model (tokens)",
  seed: "Random seed",
  structured_output: "How structured output is requested",
  verified_quotes: "Only answers with a quote that is in its source",
  embedder: "Embedding model",
  corpus: "Collection of documents",
  reader_summary: "Write a summary for readers",
  timeout: "Longest wait for a reply (seconds)",
  attempts: "Tries for each call",
  max_concurrency: "Most parallel calls",
  requests_per_minute: "Most calls per minute",
  on_failure: "How a debate fails (for programs)",
  max_wait: "Longest wait if the endpoint limits the rate (seconds)",
  sources: "Where to search (separated by commas)",
  fallback: "Where to search if a source fails (separated by commas)",
  debaters: "Who debates",
  agents: "Who debates",
  min_agents: "Fewest agents who must answer",
  retrieval: "When to search",
  query_formulation: "How searches are worded",
  keep_evidence: "Keep evidence of earlier rounds",
  source_summaries: "Sum up long sources",
  reranker: "Rerank passages with",
  scoring: "When answers are checked",
  faithfulness_threshold: "Share of statements that must be in the passages (0 to 1)",
  answer_relevance_threshold: "Required nearness to the claim (0 to 1)",
  questions: "Questions to measure nearness to the claim",
  judges: "Judges",
  switched_rounds: "Rounds with sides switched",
  min_rounds: "Fewest rounds",
  claim_form: "Form of the claim when nearness is measured",
  cross_encoder: "Cross-encoder",
  selection: "Debaters select their evidence",
  web_titles: "Show the titles of web pages",
  sequential_talk: "Agents speak one after the other",
  temperatures: "Randomness of single roles (JSON)",
  seed_k: "Passages for the claim itself",
  max_premises: "Most premises of the claim",
  admitted_above: "Weight above which evidence is admitted",
  disputed_above: "Weight above which evidence is disputed",
  role_switch: "Debate again with sides switched",
  progressive_retrieval: "Search during the debate",
  self_reflection: "Sides rate their own case",
  novelty_threshold: "Novelty that new evidence needs (0 to 2)",
  redundant_similarity: "Similarity above which evidence is redundant (-1 to 1)",
  redundant_share: "Share of redundant evidence that ends a search (0 to 1)",
  min_request_similarity: "Similarity to the request that evidence needs (-1 to 1)",
  max_retrievals: "Most searches of a side in a debate",
  relevance_gain: "Gain in relevance that a further search needs",
  plateau: "Smallest change of a side's rating that counts",
  exhaustion: "Novelty below which the debate ends",
  exhibits: "How exhibits are shown",
  panel_tokens: "How much of the record a judge reads (tokens)",
  inconclusive: "If the judges come to no conclusion",
  consensus_weight: "Weight of the judges' agreement",
  quality_weight: "Weight of the judges' scores",
  verdict_labels: "Names of the judges' findings (JSON)",
  demonstrations: "Show worked examples first",
  samples: "Number of answers",
  max_tool_calls: "Most searches and look-ups",
  debating_graph: "Who hears whom",
  evaluation: "How trust in others is measured",
  pruning: "Which agents are heard",
  similarity: "How answers are compared",
  recalibration: "Corrected confidences (JSON)",
  voting: "How votes count",
  group_size: "Agents in a group",
  debate: "Which method debates",
  debate_settings: "Settings of that debate (JSON)",
  when: "When there is a debate",
  min_verified: "Fewest origins that must be quoted",
  max_origins: "Most origins that are read",
};

/** Groups of settings. All other settings are in a further group, and prompts in the last group. */
const GROUPS = [
  ["Limits", ["max_calls", "max_seconds", "budget", "timeout", "attempts", "max_concurrency", "requests_per_minute", "max_wait"]],
  ["Models", ["model", "models", "temperature", "max_tokens", "context_tokens", "seed", "structured_output", "embedder"]],
  ["Searching", ["debaters", "sources", "fallback", "corpus", "retrieval", "query_formulation", "k", "max_per_host", "max_origin_share", "datamarking", "max_evidence_tokens", "keep_evidence", "source_summaries", "reranker"]],
];

/** The folded groups of a method's settings, without the settings that are shown elsewhere. */
export function foldsOf(fields, elsewhere) {
  const left = fields.filter((one) => !elsewhere.includes(one.name));
  const named = new Set(GROUPS.flatMap(([, names]) => names));
  const groups = GROUPS.map(([heading, names]) => [heading, names.flatMap((name) => left.filter((one) => one.name === name))]);
  const prompt = (one) => one.name.endsWith("_prompt");
  groups.push(["How this method works", left.filter((one) => !named.has(one.name) && !prompt(one))]);
  groups.push(["Prompts", left.filter(prompt)]);
  return groups
    .filter(([, of]) => of.length)
    .map(([heading, of]) => h("details", { class: "fold" }, h("summary", {}, h("span", { class: "nb" }, heading), h("span", { class: "quiet" }, of.map((one) => one.title.replace(/ \(.*/, "")).slice(0, 4).join(", "), of.length > 4 && ` and ${of.length - 4} more`)), h("div", { class: "grid" }, of.map((one) => one.node))));
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
    throw new Error(`${name}: not valid JSON (${error.message})`);
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
  const inputs = debaters.map((one) => h("input", { id: `setting-${name}-${one.name}`, type: "text", list: "known-sources", placeholder: "as chosen above", autocomplete: "off" }));
  const read = () => {
    if (inputs.every((input) => !input.value.trim())) return undefined;
    return debaters.map((one, i) => ({ ...one, retriever: inputs[i].value.trim() || one.retriever }));
  };
  const write = (of) => of.forEach(({ name: whose, retriever }) => {
    const place = debaters.findIndex((one) => one.name === whose);
    if (place >= 0) inputs[place].value = retriever ?? "";
  });
  const node = h("div", { class: "two" }, debaters.map((_, i) => labelled(`Where debater ${"ABCDEFGH"[i]} searches`, inputs[i])));
  return { name, title: "Where each debater searches", read, write, node };
}

/** A field for a setting: {name, title, read, write, node}. Empty fields are not sent, so that the default applies. */
function fieldOf(name, schema) {
  if (name === "debaters" && schema.default?.some?.((one) => one.retriever)) return sourcesOf(name, schema.default);
  const id = `setting-${name}`;
  const title = NAMES[name] ?? titled(name.replace(/_prompt$/, "").replaceAll("_", " "));
  const shown = schema.default === undefined || schema.default === null ? "no limit" : typeof schema.default === "string" ? schema.default : JSON.stringify(schema.default);
  const unset = schema.default === null && !/max|budget|before/.test(name) ? "not set" : shown;
  const { input, read, write = (value) => (input.value = typeof value === "string" ? value : JSON.stringify(value)) } = inputOf(name, id, title, schema, name === "model" ? "as chosen above" : unset.slice(0, 200));
  return { name, title, read, write, node: labelled(title, input, schema.description) };
}

function titled(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Display names of choices. */
const WORDS = { queries: "searches", premises: "premises", evidence: "the evidence", remark: "a remark after each round", verdict: "the draft verdict", true: "yes", false: "no" };

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
    const input = h("select", { id }, h("option", { value: "" }, `by default: ${inWords(shown)}`), choices.map((one, i) => h("option", { value: i + 1 }, inWords(one))));
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
    input.placeholder = name === "sources" ? "as chosen above" : "nowhere";
    const write = (value) => (input.value = value.join(", "));
    return { input, write, read: () => (input.value.trim() ? input.value.split(",").map((one) => one.trim()).filter(Boolean) : undefined) };
  }
  return { input, read: () => (input.value.trim() === "" ? undefined : schema.type === "string" ? input.value.trim() : json(title, input.value)) };
}

/** Suggestions for names of models, sources and collections. */
export function lists(choices) {
  return Object.values(HINTS).map((name) => h("datalist", { id: `known-${name}` }, choices[name].map((value) => h("option", { value }))));
}
