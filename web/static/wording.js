// What is said of a turn: lines of {what, text, tone}. They follow from what was written, whichever graph wrote it.

import { h } from "./dom.js";

const ANSWERS = { respond: "answers", judge: "decides", summarise: "concludes" };
const POOLS = { seed: "for the claim itself", premises: "for the premises", plaintiff: "to support it", defense: "to challenge it" };
const SIDES = ["plaintiff", "defense"];

export const STOPS = {
  max_rounds: "The rounds are used up.",
  budget_exhausted: "The budget is used up.",
  judge_preference: "The debate stops: the moderator prefers an answer.",
};

export const COURT_STOPS = {
  reflection_plateau: "the sides' reflections hardly change any more",
  critic_resolved: "the critic finds it resolved",
  novelty_exhausted: "what is found is hardly new any more",
  judicial_signal: "the court closes it",
  max_rounds: "its rounds are used up",
  budget_exhausted: "its share of the budget is used up",
};

/** A figure; what is not known is said to be unknown. */
export function figure(value, digits = 2) {
  return typeof value === "number" ? value.toFixed(digits) : "unknown";
}

/** A piece of evidence by its title, with a link to its card; by its id where it is not known. */
export function named(id, pieces) {
  const piece = pieces.get(id);
  if (!piece) return h("span", { class: "bad" }, `${String(id).slice(0, 80)} (no such piece was shown)`);
  return h("a", { href: `#${cardId(id)}` }, piece.title || piece.source);
}

/** The id of a piece's card on the page. */
export function cardId(id) {
  return `evidence-${encodeURIComponent(id)}`;
}

/** Who speaks: counsel by the side that they speak for. */
export function speakerOf(turn) {
  return SIDES.includes(turn.agent) ? turn.side || turn.agent : turn.agent;
}

/** The lines of a turn. */
export function linesOf(turn, pieces) {
  const lines = [];
  for (const [field, say] of Object.entries(FIELDS)) {
    if (turn[field] === undefined) continue;
    lines.push(...[say(turn, pieces) || []].flat());
  }
  if (turn.outcome === "failed") lines.push(line("fails", "its model could not be asked", "bad"));
  return lines;
}

function line(what, text, tone = "") {
  return { what, text, tone };
}

const unusable = (turn) => `nothing that can be used (${turn.outcome ?? "unparsed"})`;
const because = (text, reason) => (reason ? [text, " - ", reason] : text);
const separated = (parts) => parts.flatMap((part, i) => (i ? ["; ", part] : [part]));
const told = (turn, what, text, before = "", tone = "main") =>
  text === null ? line(what, unusable(turn), "bad") : line(what, [before, text], tone);

function found(turn, pieces) {
  const number = turn.number === undefined ? "" : ` (${turn.pool === "premises" ? "premise " : ""}${turn.number})`;
  if (turn.retrieval === "failed") return line(`finds${number}`, "nothing, as a source could not be searched", "bad");
  const ids = turn.joined ?? turn.evidence_ids ?? [];
  if (!turn.evidence_ids?.length) return line(`finds${number}`, "nothing");
  const many = turn.joined ? `${turn.evidence_ids.length} pieces, ${ids.length || "none"} of them new` : `${ids.length} pieces`;
  const novelty = turn.scores?.novelty === undefined ? "" : ` (mean novelty ${figure(turn.scores.novelty)})`;
  return line(`finds${number}`, [many, novelty, ids.length ? ": " : "", separated(ids.map((id) => named(id, pieces)))]);
}

function reviewed(turn, pieces) {
  const names = (ids) => separated(ids.map((id) => named(id, pieces)));
  const said = Object.entries(turn.queries ?? {}).map(([name, query]) => line("asks", `for ${name}: ${query}`, "note"));
  for (const premise of turn.premises ?? []) said.push(line("premise", premise, "note"));
  if (turn.struck?.length) said.push(line("strikes", names(turn.struck), "note"));
  if (turn.added?.length) said.push(line("adds", names(turn.added), "note"));
  if (turn.remark) said.push(line("remarks", turn.remark, "note"));
  if (turn.question) said.push(line("questions", `the verdict: ${turn.question}`, "note"));
  return said.length ? said : line("accepts", String(turn.step).replace("review_", ""));
}

const FIELDS = {
  about: reviewed,
  thought: (t) => t.thought && line("thinks", t.thought),
  premises: (t) => t.about === undefined && (t.premises ? t.premises.map((one, i) => line(`premise ${i + 1}`, one, "main")) : line("finds", unusable(t), "bad")),
  supporting_query: (t) =>
    t.supporting_query === null
      ? line("asks", unusable(t), "bad")
      : [line("asks", `to support it: ${t.supporting_query}`), line("asks", `to challenge it: ${t.challenging_query}`)],
  gap: (t) => told(t, "lacks", t.gap, "", ""),
  tool: (t) => line("asks", `${t.tool}: ${t.query || "(not carried out)"}`),
  query: (t) =>
    t.query && t.tool === undefined && line("asks", [t.pool ? `${POOLS[t.pool] ?? t.pool}: ` : "", t.query, t.formulated && t.formulated !== t.query ? " (as the court refined it)" : ""]),
  retrieval: found,
  ended: (t) => t.ended && line("searches", `no more: ${String(t.ended).replaceAll("_", " ")}`),
  challenges: (t, pieces) => {
    if (t.challenges === null) return line("challenges", unusable(t), "bad");
    if (!t.challenges.length) return line("challenges", "nothing");
    return t.challenges.map((one) => line("challenges", because(named(one.evidence_id, pieces), one.reason)));
  },
  relevance: (t, pieces) => {
    const about = separated((t.evidence_ids ?? []).map((id) => named(id, pieces)));
    if (t.relevance === null) return line("weighs", [about, " ", unusable(t)], "bad");
    return line("weighs", [about, `: relevance ${figure(t.relevance)}, credibility ${figure(t.credibility)}`]);
  },
  selected: (t, pieces) => {
    if (t.selected === null) return line("selects", "nothing: its reply could not be used", "bad");
    const dropped = t.dropped?.length ? ` (there is no item ${t.dropped.join(", ")})` : "";
    const chosen = t.selected.length ? separated((t.evidence_ids ?? []).map((id) => named(id, pieces))) : "nothing";
    return line("selects", because([chosen, dropped], t.reason));
  },
  comparisons: (t) =>
    t.comparisons.map((check) => {
      const same = check.same === null ? "no usable reply on" : check.same ? "means the same as" : "differs from";
      return line("compared", because(`${same} "${check.with}"`, check.reason));
    }),
  agree: (t) => line("finds", because(t.agree === null ? unusable(t) : t.agree ? "agreement" : "no agreement", t.reason), "note"),
  preferred: (t) => line("prefers", because(t.preferred || ((t.outcome ?? "ok") === "ok" ? "no answer yet" : unusable(t)), t.reason), "note"),
  comment: (t) => {
    const sure = typeof t.confidence === "number" ? ` (sure: ${t.confidence} of 10)` : "";
    return line("reviews", `${t.reviewed ?? "an answer"}: ${t.comment === null ? unusable(t) : t.comment + sure}`);
  },
  score: (t) => line("scores", `${t.reviewed ?? "an answer"}: ${t.score === null ? unusable(t) : figure(t.score)}`),
  summary: (t) => line("sums up", t.summary || unusable(t), "main"),
  argument: (t) => told(t, "argues", t.argument, t.side && t.side !== t.agent ? `(by the ${t.agent}'s counsel) ` : ""),
  needed: (t) => (t.needed === null ? line("wants", unusable(t), "bad") : t.needed && line("wants", because(`an expert on ${t.expertise}`, t.reason))),
  granted: (t) => {
    const whose = `the ${t.side}'s expert`;
    if (t.granted === null) return line("rules", `on ${whose} ${unusable(t)}`, "bad");
    return line(t.granted ? "hears" : "refuses", because(whose, t.reason), "note");
  },
  testimony: (t) => told(t, "testifies", t.testimony, `(called by the ${t.side}, on ${t.expertise}) `),
  flaws: (t) => {
    if (typeof t.scores?.reflection !== "number") return line("reflects", unusable(t), "bad");
    const parts = `logic ${figure(t.logic)}, novelty ${figure(t.novelty)}, rebuttal ${figure(t.rebuttal)}`;
    return line("reflects", because(`${figure(t.scores.reflection)} (${parts})`, (t.flaws ?? []).join(" ")));
  },
  debate_resolved: (t) => {
    if (t.debate_resolved === null) return line("scores", unusable(t), "bad");
    const lines = SIDES.filter((side) => t[side]).map((side) => {
      const of = t[side];
      return line("scores", because(`${side}: logic ${figure(of.logic)}, evidence ${figure(of.evidence)}, rebuttal ${figure(of.rebuttal)}`, of.reason));
    });
    if (t.debate_resolved) lines.push(line("finds", "the debate resolved", "note"));
    if (t.unresolved_premises?.length) lines.push(line("finds", `still open: ${t.unresolved_premises.join("; ")}`));
    return lines;
  },
  close: (t) => line("decides", because(t.close === null ? unusable(t) : t.close ? "to close the debate" : "to go on", t.reason), "note"),
  overall: (t) => {
    if (t.overall === null) return line("finds", unusable(t), "bad");
    const counsel = SIDES.map((side) => `the ${side}'s counsel ${figure(t[`${side}_counsel`], 1)}`).join(", ");
    return [line("finds", `consistency ${figure(t.overall, 1)} of 10 (${counsel})`, "note"), ...(t.contradictions ?? []).map((one) => line("finds", `a contradiction: ${one}`))];
  },
  verdict: (t) => {
    if (t.verdict === null) return line("decides", unusable(t), "bad");
    const marks = `evidence ${figure(t.evidence_strength, 1)}, arguments ${figure(t.argument_validity, 1)}, reliability ${figure(t.scientific_reliability, 1)} of 10`;
    return line("decides", because([h("strong", {}, t.verdict), ` (${marks})`], t.reason), "main");
  },
  answer: (t) => {
    const what = t.number === undefined ? ANSWERS[t.step] ?? t.step : `answer ${t.number}`;
    if (t.answer === null) return line(what, unusable(t), "bad");
    const sure = typeof t.confidence === "number" ? ` (confidence ${figure(t.confidence)})` : "";
    return line(what, [h("strong", {}, t.answer), sure, t.rationale ? [" - ", t.rationale] : ""], "main");
  },
};
