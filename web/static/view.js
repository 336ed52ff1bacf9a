// A debate, live or past: what it comes to, its rounds with the debaters side by side, the evidence, what it cost.
//
// What is said of it comes from the server, in the words of the command line: sections of lines {who, what, text, tone,
// turn}. Here they are put in their places, with citations, scores and drawings.

import { figure, h, link, marked, shownOf, sync } from "./dom.js";
import { graphOf } from "./drawing.js";
import { keyOf } from "./fold.js";

const METRICS = ["faithfulness", "answer_relevance", "consistency"];
const SCORES = /^scores r\d+$/;

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

  /** `said` is what the server says of it: sections, and of a debate that is over its end; or a fault. */
  show(debate, said = null) {
    Object.assign(this, { debate, said });
    this.pieces = new Map((debate.evidence ?? []).map((piece) => [piece.id, piece]));
    this.title.textContent = debate.claim || "(no claim)";
    const opening = said?.sections?.[0]?.lines.filter((one) => !one.who).map((one) => one.text) ?? [];
    this.about.textContent = [...(opening.length ? opening : [debate.graph]), debate.started_at && new Date(debate.started_at).toLocaleString()].filter(Boolean).join(" · ");
    const over = said?.end || said?.fault || debate.error;
    sync(this.verdict, over ? [{ key: "end", state: [said, debate.error], make: () => verdictOf(debate, said, this.pieces) }] : []);
    sync(this.warnings, warningsOf(debate, said));
    sync(this.rounds, said?.fault ? wordless(debate) : sectionsOf(debate, said?.sections ?? [], this.pieces));
    this.#evidence();
    sync(this.costs, [{ key: "costs", state: [said?.end, debate.settings], make: () => costsOf(debate, said?.end) }]);
  }

  #evidence() {
    const pieces = this.debate?.evidence ?? [];
    const wanted = this.filter.value.trim().toLowerCase();
    const quoted = quotesOf(this.debate?.turns ?? []);
    const kept = pieces.filter((piece) => !wanted || `${piece.title}\n${piece.text}\n${piece.source}`.toLowerCase().includes(wanted));
    this.count.textContent = wanted ? `Evidence (${kept.length} of ${pieces.length})` : `Evidence (${pieces.length})`;
    this.found.parentElement.hidden = !pieces.length;
    this.filter.parentElement.hidden = pieces.length < 10;
    this.found.classList.toggle("many", pieces.length > 100);
    const marks = (piece) => this.said?.marks?.[piece.id] ?? [];
    sync(this.found, kept.map((piece) => ({ key: piece.id, state: [piece, quoted.get(piece.id), marks(piece)], make: () => cardOf(piece, quoted.get(piece.id) ?? [], marks(piece)) })));
  }
}

// --- rounds ----------------------------------------------------------------------------------------------------------

/** Who stands side by side; others come below. */
function debatersOf({ settings = {} }) {
  if (settings.switched_rounds !== undefined) return ["plaintiff", "defense"];
  const declared = settings.debaters ?? settings.agents;
  return Array.isArray(declared) ? declared.map((one) => one.name) : [];
}

function sectionsOf(debate, [opening, ...rounds], pieces) {
  const before = opening && { ...opening, heading: rounds.length ? "Before the first round" : "Answers", lines: opening.lines.filter((one) => one.who) };
  const told = before?.lines.length ? [before, ...rounds] : rounds;
  return told.map((section) => {
    const turns = section.lines.map((line) => debate.turns?.[line.turn]).map((turn) => [turn?.scores, turn?.citations]);
    const known = section.lines.map((line) => linked(line.text, pieces).length);
    return { key: section.heading, state: [section, turns, known], make: () => sectionOf(section, debate, pieces) };
  });
}

function sectionOf(section, debate, pieces) {
  const id = `round-${section.heading.replace(/\W+/g, "-")}`;
  const graph = section.graph === null ? null : (debate.graphs ?? []).find(({ round }) => round === section.graph);
  const shown = (line) => line.what === "cites" || (graph && line.what === "hears" && line.turn === null); // with more, elsewhere
  const lines = section.lines.filter((line) => !shown(line));
  const speakers = Map.groupBy(lines.filter((line) => line.who), (line) => line.who);
  const card = (name) => speakerCard(name, speakers.get(name), debate, pieces);
  const debaters = debatersOf(debate).filter((name) => speakers.has(name));
  const shares = []; // cards beside each other, and notes, as they come
  for (const { who, text } of lines) {
    if (!who) shares.push(h("p", { class: "note", dir: "auto" }, linked(text, pieces)));
    else if (speakers.has(who)) {
      const side = debaters.includes(who);
      if (side || shares.at(-1)?.dataset.side !== "others") shares.push(h("div", { class: "columns", "data-side": side ? "debaters" : "others" }));
      const names = side ? debaters : [who];
      shares.at(-1).append(...names.map(card));
      names.forEach((name) => speakers.delete(name));
    }
  }
  return h("section", { class: "round", "aria-labelledby": id }, h("h2", { id }, section.heading), graph && graphOf(graph), shares);
}

function speakerCard(name, lines, debate, pieces) {
  const turns = Map.groupBy(lines, (line) => line.turn);
  return h("article", { class: "speaker" }, h("h3", {}, name), [...turns].map(([place, said]) => turnOf(debate.turns[place], said, pieces)));
}

function turnOf(turn, lines, pieces) {
  const rows = [];
  for (const line of lines.filter((one) => !SCORES.test(one.what))) {
    const said = h("dd", { dir: "auto" }, textOf(line, turn, pieces));
    const last = rows.at(-1);
    if (last?.what === line.what && last.tone === line.tone) last.said.push(said);
    else rows.push({ ...line, said: [said] });
  }
  const told = rows.map(({ what, tone, said }) => h("div", { class: tone || null }, h("dt", {}, what), said));
  const scores = lines.filter((one) => SCORES.test(one.what)).map((one) => scoresOf(one, turn));
  return h("div", { class: "turn", "data-turn": turn && keyOf(turn) }, h("dl", {}, told), scores, citationsOf(turn?.citations ?? [], pieces));
}

/** A line's text, its answer set off, with a link to reasons that stand with the verdict. */
function textOf({ text }, turn, pieces) {
  const answer = turn?.answer ?? turn?.verdict ?? turn?.preferred;
  if (!answer || !text.startsWith(answer)) return linked(text, pieces);
  const [, before, there] = /^(.*?)(see the verdict)?$/s.exec(text.slice(answer.length));
  return [h("strong", {}, answer), linked(before, pieces), there && h("a", { href: "#verdict" }, there)];
}

/** A text in which a piece's id in brackets, with its title before it, is a link to its card. */
function linked(text, pieces) {
  const parts = [];
  let at = 0;
  for (const { 0: whole, 1: id, index } of text.matchAll(/\[([^[\]\s]{1,64})\]/g)) {
    const piece = pieces.get(id);
    if (!piece) continue;
    const before = text.slice(at, index);
    const source = ` (${piece.source})`;
    const named = piece.title || piece.source;
    const end = [`${named}${source} `, `${named} `].find((one) => before.endsWith(one)) ?? "";
    parts.push(before.slice(0, before.length - end.length), h("a", { href: `#${cardId(id)}` }, end ? named : id), end.length > named.length + 1 ? source : "");
    at = index + whole.length;
  }
  return [...parts, text.slice(at)];
}

/** The scores of an answer; where a score has a threshold, the line says which side of it it is on. */
function scoresOf({ text }, turn) {
  const given = METRICS.filter((metric) => turn.scores?.[metric] !== undefined);
  const parts = text.split("; ").map((part, i) => {
    const [tone, mark] = part.includes(" >= ") ? ["good", "✓ "] : part.includes(" < ") ? ["low", "✗ "] : [null, ""];
    const value = turn.scores?.[given[i]];
    return h("li", { class: tone }, `${mark}${part} `, typeof value === "number" && h("meter", { min: 0, max: 1, value, "aria-label": given[i].replaceAll("_", " ") }));
  });
  return h("ul", { class: "scores" }, parts);
}

/** The turns of a debate that this version has no words for: what stands in them. */
function wordless(debate) {
  return (debate.turns ?? []).map((turn, i) => {
    const held = Object.entries(turn).filter(([, value]) => typeof value === "string" || typeof value === "number");
    const make = () => h("div", { class: "columns" }, h("article", { class: "speaker" }, h("dl", {}, held.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { dir: "auto" }, String(value)))))));
    return { key: i, state: held, make };
  });
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
  const where = known && !citation.fabricated ? h("a", { href: `#${cardId(known.id)}` }, known.title || known.source) : h("code", {}, String(citation.evidence_id).slice(0, 80));
  return h("li", { class: tone }, h("span", { class: "mark" }, `${said}: `), h("q", { dir: "auto" }, citation.quote), " in ", where);
}

/** The id of a piece's card on the page. */
function cardId(id) {
  return `evidence-${encodeURIComponent(id)}`;
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

function cardOf(piece, quotes, marks) {
  const cut = piece.shown?.length > 0;
  const weight = piece.weight !== undefined && `weight ${figure(piece.weight)} (relevance ${figure(piece.relevance)} × credibility ${figure(piece.credibility)})`;
  const searched = piece.retrievals.filter((one) => one.retriever !== "given");
  const facts = [(searched.length > 0 || piece.source !== "given") && piece.source, piece.page && `page ${piece.page}`, piece.published, piece.status, weight];
  const by = [...new Set(quotes.map(([, , agent]) => agent))];
  const queries = [...new Set(searched.map((one) => `${one.agent ?? "?"} (${one.retriever}): ${one.query || "the claim"}`))];
  return h(
    "details",
    { class: piece.struck ? "card struck" : "card", id: cardId(piece.id) },
    h("summary", {}, h("span", { class: "title", dir: "auto" }, piece.title || piece.source), " ", marks.map((mark) => [h("span", { class: "badge" }, mark), " "]), h("span", { class: "quiet" }, facts.filter(Boolean).join(" · ")), by.length ? h("span", { class: "mark good" }, ` ✓ quoted by ${by.join(", ")}`) : null),
    piece.url && h("p", {}, link(piece.url)),
    h("blockquote", { dir: "auto" }, cut ? shownOf(piece.text, quotes, piece.shown) : marked(piece.text, quotes)),
    cut && h("details", {}, h("summary", {}, "The whole text, of which the debate was shown a part"), h("blockquote", { dir: "auto" }, marked(piece.text, quotes))),
    piece.summary_of !== undefined && h("details", {}, h("summary", {}, "What was summarised"), h("blockquote", { dir: "auto" }, piece.summary_of)),
    h("p", { class: "quiet" }, queries.length > 0 && `Found by ${queries.join("; ")} `, `[${piece.id}]`),
  );
}

// --- the end ---------------------------------------------------------------------------------------------------------

function verdictOf(debate, said, pieces) {
  const section = (kind, heading, ...more) => h("section", { class: kind, "aria-labelledby": "verdict" }, h("h2", { id: "verdict" }, heading), more);
  if (debate.error) return section("verdict failed", "No verdict", h("p", { role: "alert" }, debate.error.detail), h("p", { class: "quiet" }, `${debate.error.kind}, at ${debate.error.where}`));
  if (said.fault) return section("verdict failed", debate.answer ?? "No verdict", h("p", {}, said.fault));
  const [first, ...lines] = said.end.lines;
  const shown = lines.filter((line) => line.what !== "cites" && line.text !== said.end.cites && !["warning", "caution", "caveat", "aside"].includes(line.tone)); // these are elsewhere
  return section(
    debate.status !== "done" ? "verdict failed" : said.caveats?.length ? "verdict doubtful" : "verdict",
    first.text,
    debate.status === "done" && caveatsOf(said),
    h("dl", {}, shown.map((line) => h("div", { class: line.tone || null }, line.who || line.what ? h("dt", {}, `${line.who} ${line.what}`) : null, h("dd", { dir: "auto" }, linked(line.text, pieces))))),
    debate.status === "done" && [said.end.citations.length > 0 && h("h3", {}, "It cites"), citationsOf(said.end.citations, pieces), h("p", {}, said.end.cites)],
  );
}

function caveatsOf(said) {
  return (said.caveats ?? []).map((text) => h("p", { class: "caveat", dir: "auto" }, `⚠ ${text}`));
}

/** What did not work; what is to be known of the verdict stands beside it once there is one. */
function warningsOf(debate, said) {
  const told = said?.warnings ?? (debate.warnings ?? []).map((one) => `${one.kind} (${one.where}): ${one.detail}`);
  const caveats = said && !(said.end && debate.status === "done") ? caveatsOf(said) : [];
  if (!told.length && !caveats.length) return [];
  const list = told.length > 0 && h("details", {}, h("summary", {}, `⚠ Warnings (${told.length})`), h("ul", {}, told.map((text) => h("li", { dir: "auto" }, text))));
  return [{ key: "warnings", state: [told, said?.caveats, caveats.length], make: () => h("div", { class: "warnings" }, caveats, list) }];
}

function costsOf(debate, end) {
  const spent = end?.lines.filter((line) => line.tone === "aside").map((line) => h("p", {}, line.text));
  return h("section", { "aria-labelledby": "about" }, h("h2", { id: "about" }, "About this debate"), spent, h("details", {}, h("summary", {}, "Settings"), h("pre", { tabindex: 0 }, JSON.stringify(debate.settings ?? {}, null, 2))));
}
