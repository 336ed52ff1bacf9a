// A debate, live or past: what it comes to, its rounds with the debaters side by side, the evidence, what it cost.

import { h, link, marked, sync } from "./dom.js";
import { graphOf } from "./drawing.js";
import { keyOf } from "./fold.js";
import { COURT_STOPS, STOPS, cardId, figure, linesOf, named, speakerOf } from "./wording.js";

const METRICS = ["faithfulness", "answer_relevance", "consistency"];
const COURT = {
  negotiation: () => "Negotiation of the evidence",
  primary: (round) => `Primary debate, round ${round}`,
  switched: (round) => `Switched debate, round ${round} (the counsel have changed sides)`,
  panel: () => "Panel",
};

/** Shows a debate in an element; it may be shown again as it grows. */
export class DebateView {
  constructor(root) {
    this.title = h("h1", { dir: "auto" });
    this.about = h("p", { class: "quiet" });
    this.bar = h("div", { class: "bar" });
    this.slot = h("div", {});
    this.verdict = h("div", {});
    this.warnings = h("div", {});
    this.rounds = h("div", {});
    this.count = h("h2", { id: "evidence" });
    this.filter = h("input", { type: "search", id: "filter", oninput: () => this.#evidence() });
    this.found = h("div", { class: "cards" });
    this.costs = h("div", {});
    const evidence = h("section", { "aria-labelledby": "evidence" }, this.count, h("div", { class: "field" }, h("label", { for: "filter" }, "Show only evidence with"), this.filter), this.found);
    root.replaceChildren(this.title, this.about, this.bar, this.slot, this.verdict, this.warnings, this.rounds, evidence, this.costs);
  }

  /** `end` is what the server says of a debate that is over: its lines, the verdict's citations. */
  show(debate, end = null) {
    this.debate = debate;
    this.pieces = new Map((debate.evidence ?? []).map((piece) => [piece.id, piece]));
    this.title.textContent = debate.claim || "(no claim)";
    const answers = debate.task ? (debate.task.labels?.length ? debate.task.labels.join(", ") : String(debate.task.kind).replaceAll("_", " ")) : "";
    this.about.textContent = [debate.graph, answers && `answers: ${answers}`, debate.started_at && new Date(debate.started_at).toLocaleString()].filter(Boolean).join(" · ");
    sync(this.verdict, end || debate.error ? [{ key: "end", state: [end, debate.error], make: () => verdictOf(debate, end, this.pieces) }] : []);
    sync(this.warnings, warningsOf(debate));
    sync(this.rounds, this.#rounds());
    this.#evidence();
    sync(this.costs, [{ key: "costs", state: [debate.usage, debate.models, debate.settings, debate.corpora], make: () => costsOf(debate) }]);
  }

  #rounds() {
    const { debate } = this;
    const groups = new Map();
    const group = (phase, round) => {
      const key = `${phase}|${phase === "negotiation" || phase === "panel" ? 0 : round}`;
      if (!groups.has(key)) groups.set(key, { key, phase, round, turns: [], graphs: [], stop: null });
      return groups.get(key);
    };
    for (const turn of debate.turns ?? []) group(turn.phase, turn.round).turns.push(turn);
    for (const entry of debate.graphs ?? []) group("primary", entry.round).graphs.push(entry);
    for (const entry of debate.debates ?? []) group(entry.phase, entry.rounds).stop = entry;
    const order = Object.keys(COURT);
    return [...groups.values()]
      .sort((a, b) => order.indexOf(a.phase) - order.indexOf(b.phase) || a.round - b.round)
      .map((one) => this.#round(one));
  }

  #round(group) {
    const { debate, pieces } = this;
    const shown = group.turns.map((turn) => [turn, (turn.evidence_ids ?? []).filter((id) => pieces.has(id)).length]);
    return { key: group.key, state: [shown, group.graphs, group.stop], make: () => roundOf(group, debate, pieces) };
  }

  #evidence() {
    const pieces = this.debate?.evidence ?? [];
    const wanted = this.filter.value.trim().toLowerCase();
    const quoted = quotesOf(this.debate?.turns ?? []);
    const kept = pieces.filter((piece) => !wanted || `${piece.title}\n${piece.text}\n${piece.source}`.toLowerCase().includes(wanted));
    this.count.textContent = wanted ? `Evidence (${kept.length} of ${pieces.length})` : `Evidence (${pieces.length})`;
    this.filter.parentElement.hidden = pieces.length < 10;
    sync(this.found, kept.map((piece) => ({ key: piece.id, state: [piece, quoted.get(piece.id)], make: () => cardOf(piece, quoted.get(piece.id) ?? []) })));
  }
}

// --- rounds ----------------------------------------------------------------------------------------------------------

function inCourt(debate) {
  return debate.settings?.switched_rounds !== undefined;
}

function headingOf(group, debate) {
  if (inCourt(debate)) return (COURT[group.phase] ?? (() => group.phase))(group.round);
  if (group.turns.length && group.turns.every((turn) => turn.step === "retrieve")) return "Retrieval";
  const rounds = debate.settings?.max_rounds !== undefined || debate.settings?.rounds !== undefined;
  if (!rounds) return "Answers";
  return group.round === 0 ? "First answers (round 0)" : `Round ${group.round}`;
}

/** Who stands side by side; others come below. */
function debatersOf(debate) {
  if (inCourt(debate)) return new Set(["plaintiff", "defense"]);
  const declared = debate.settings?.debaters ?? debate.settings?.agents;
  return new Set(Array.isArray(declared) ? declared.map((one) => one.name) : []);
}

function roundOf(group, debate, pieces) {
  const id = `round-${group.phase}-${group.round}`;
  const speakers = new Map();
  const debaters = debatersOf(debate);
  for (const turn of group.turns) {
    const bench = debaters.size > 0 && !debaters.has(speakerOf(turn));
    const key = JSON.stringify([bench, speakerOf(turn)]);
    if (!speakers.has(key)) speakers.set(key, { name: speakerOf(turn), bench, turns: [] });
    speakers.get(key).turns.push(turn);
  }
  const place = (name) => [...debaters].indexOf(name);
  const all = [...speakers.values()].sort((a, b) => (a.bench || b.bench ? 0 : place(a.name) - place(b.name)));
  const cards = (bench) => all.filter((one) => one.bench === bench).map((one) => speakerCard(one, debate, pieces));
  const stop = group.stop && h("p", { class: "note" }, `The ${group.phase} debate stops after ${group.stop.rounds} ${group.stop.rounds === 1 ? "round" : "rounds"}: ${COURT_STOPS[group.stop.stop_reason] ?? group.stop.stop_reason}.`);
  return h(
    "section",
    { class: "round", "aria-labelledby": id },
    h("h2", { id }, headingOf(group, debate)),
    group.graphs.map(graphOf),
    h("div", { class: "columns" }, cards(false)),
    h("div", { class: "columns" }, cards(true)),
    stop,
  );
}

function speakerCard({ name, turns }, debate, pieces) {
  return h("article", { class: "speaker" }, h("h3", {}, name), turns.map((turn) => turnOf(turn, debate, pieces)));
}

function turnOf(turn, debate, pieces) {
  const lines = linesOf(turn, pieces).map(({ what, text, tone }) => h("div", { class: tone || null }, h("dt", {}, what), h("dd", { dir: "auto" }, text)));
  return h("div", { class: "turn", "data-turn": keyOf(turn) }, h("dl", {}, lines), scoresOf(turn, debate), citationsOf(turn.citations ?? [], pieces));
}

function scoresOf(turn, debate) {
  const given = METRICS.filter((metric) => turn.scores?.[metric] !== undefined);
  if (!given.length) return null;
  return h("ul", { class: "scores" }, given.map((metric) => scoreOf(metric, turn, debate.settings ?? {})));
}

function scoreOf(metric, turn, settings) {
  const value = turn.scores[metric];
  const threshold = settings[`${metric}_threshold`];
  const name = metric.replaceAll("_", " ");
  if (typeof value !== "number") return h("li", { class: "bad" }, `${name} unknown${threshold === undefined ? "" : ` (needs ${figure(threshold)})`}`);
  const gauge = h("meter", { min: 0, max: 1, value, "aria-label": name });
  if (threshold === undefined) return h("li", {}, `${name} ${figure(value)} `, gauge);
  const reached = value >= threshold;
  return h("li", { class: reached ? "good" : "low" }, `${reached ? "✓" : "✗"} ${name} ${figure(value)} ${reached ? "≥" : "<"} ${figure(threshold)} `, gauge);
}

function citationsOf(citations, pieces) {
  if (!citations.length) return null;
  return h("ul", { class: "citations" }, citations.map((one) => citationOf(one, pieces)));
}

function citationOf(citation, pieces) {
  const known = pieces.get(citation.evidence_id);
  const [tone, said] = citation.fabricated
    ? ["bad", "✗ fabricated: no such piece was shown"]
    : citation.verified
      ? ["good", `✓ found word for word${known?.summary_of === undefined ? "" : " in a summary"}`]
      : ["low", `✗ not found in the ${known?.summary_of === undefined ? "text" : "summary"}`];
  const where = citation.fabricated ? h("code", {}, String(citation.evidence_id).slice(0, 80)) : named(citation.evidence_id, pieces);
  return h("li", { class: tone }, h("span", { class: "mark" }, `${said}: `), h("q", { dir: "auto" }, citation.quote), " in ", where);
}

// --- evidence --------------------------------------------------------------------------------------------------------

function quotesOf(turns) {
  const quoted = new Map();
  for (const turn of turns) {
    for (const one of turn.citations ?? []) {
      if (!one.verified || !Number.isInteger(one.start) || !Number.isInteger(one.end)) continue;
      if (!quoted.has(one.evidence_id)) quoted.set(one.evidence_id, []);
      quoted.get(one.evidence_id).push([one.start, one.end, turn.agent]);
    }
  }
  return quoted;
}

function cardOf(piece, quotes) {
  const facts = [piece.struck && "struck by a person", piece.source, piece.published, piece.status, piece.weight !== undefined && `weight ${figure(piece.weight)}`, piece.truncated && "cut to length", piece.summary_of !== undefined && "a model's summary"];
  const by = [...new Set(quotes.map(([, , agent]) => agent))];
  const queries = [...new Set(piece.retrievals.map((one) => `${one.agent ?? "?"} (${one.retriever}): ${one.query || "given with the claim"}`))];
  return h(
    "details",
    { class: piece.struck ? "card struck" : "card", id: cardId(piece.id) },
    h("summary", {}, h("span", { class: "title", dir: "auto" }, piece.title || piece.source), " ", h("span", { class: "quiet" }, facts.filter(Boolean).join(" · ")), by.length ? h("span", { class: "mark good" }, ` ✓ quoted by ${by.join(", ")}`) : null),
    piece.url && h("p", {}, link(piece.url)),
    h("blockquote", { dir: "auto" }, marked(piece.text, quotes)),
    piece.summary_of !== undefined && h("details", {}, h("summary", {}, "What was summarised"), h("blockquote", { dir: "auto" }, piece.summary_of)),
    h("p", { class: "quiet" }, `Found by ${queries.join("; ")}`, ` [${piece.id}]`),
  );
}

// --- the end ---------------------------------------------------------------------------------------------------------

function verdictOf(debate, end, pieces) {
  const heading = (text) => h("h2", { id: "verdict" }, text);
  if (debate.error) {
    return h("section", { class: "verdict failed", "aria-labelledby": "verdict" }, heading("No verdict"), h("p", { role: "alert" }, debate.error.detail), h("p", { class: "quiet" }, `${debate.error.kind}, at ${debate.error.where}`));
  }
  if (end.fault) return h("section", { class: "verdict failed" }, heading(debate.answer ?? "No verdict"), h("p", {}, end.fault));
  const [first, ...lines] = end.lines;
  const said = lines.filter((line) => line.what !== "cites" && !["yellow", "dim"].includes(line.tone)); // said elsewhere on the page
  const stop = STOPS[debate.stop_reason];
  return h(
    "section",
    { class: debate.status === "done" ? "verdict" : "verdict failed", "aria-labelledby": "verdict" },
    heading(first.text),
    stop && h("p", { class: "note" }, stop),
    h("dl", {}, said.map((line) => h("div", { class: line.tone || null }, line.who || line.what ? h("dt", {}, `${line.who} ${line.what}`) : null, h("dd", { dir: "auto" }, line.text)))),
    end.citations.length ? [h("h3", {}, "It rests on"), citationsOf(end.citations, pieces)] : debate.status === "done" && h("p", {}, "It cites nothing."),
  );
}

function warningsOf(debate) {
  const warnings = debate.warnings ?? [];
  if (!warnings.length) return [];
  const demo = warnings.filter((one) => one.kind === "demo_model").map((one) => one.detail);
  const times = new Map();
  for (const one of warnings.filter((w) => w.kind !== "demo_model")) {
    const text = `${one.kind} (${one.where}): ${one.detail}`;
    times.set(text, (times.get(text) ?? 0) + 1);
  }
  const list = [...times].map(([text, count]) => h("li", { dir: "auto" }, text + (count > 1 ? ` (${count} times)` : "")));
  const make = () => h("div", { class: "warnings" }, [...new Set(demo)].map((text) => h("p", { class: "note" }, `⚠ ${text}`)), list.length ? h("details", {}, h("summary", {}, `⚠ Warnings (${list.length})`), h("ul", {}, list)) : null);
  return [{ key: "warnings", state: warnings, make }];
}

function costsOf(debate) {
  const { usage } = debate;
  const models = [...new Set(Object.values(debate.models ?? {}).map((of) => of.model))].join(", ");
  const read = (debate.corpora ?? []).map((one) => `${one.agent} read ${one.retriever}${one.failed ? " (failed)" : ""}`);
  const facts = [
    usage?.calls > 0 && `${usage.prompt_tokens} + ${usage.completion_tokens} tokens in ${usage.calls} calls`,
    usage?.uncounted ? `${usage.uncounted} calls uncounted` : "",
    debate.seconds ? `${figure(debate.seconds, 1)} s` : "",
    debate.stop_reason && `stop reason: ${debate.stop_reason}`,
    models,
    read.join("; "),
  ];
  return h("section", { "aria-labelledby": "about" }, h("h2", { id: "about" }, "About this debate"), h("p", {}, facts.filter(Boolean).join(" · ")), h("details", {}, h("summary", {}, "Settings"), h("pre", { tabindex: 0 }, JSON.stringify(debate.settings ?? {}, null, 2))));
}
