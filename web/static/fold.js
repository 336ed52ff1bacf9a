// A debate as it grows. What nodes write is joined here as the server joins it, so that a debate can be watched between
// two states of the server; in the end the server's document takes its place.

const STANDINGS = ["seed", "discarded", "disputed", "discovered", "admitted"];
const PHASES = ["negotiation", "primary", "switched", "panel"];

/** What replaces a value on the server, where it would be joined to it: LangGraph's Overwrite as JSON. */
export const anew = (value) => ({ __overwrite__: value });

/** Joins what a node wrote. Graphs within the debate hand on what they found when they end, and their own turns now. */
export function fold(debate, written, inner) {
  for (const [key, value] of Object.entries(written)) {
    if (value?.__overwrite__ !== undefined) debate[key] = value.__overwrite__;
    else if (key === "turns") debate.turns = joinTurns(debate.turns ?? [], value);
    else if (key === "evidence") debate.evidence = joinEvidence(debate.evidence ?? [], value);
    else if (key === "round_log") debate.round_log = joinRounds(debate.round_log ?? [], value);
    else if (key === "warnings" || key === "debates") joinList(debate, key, value);
    else if (!inner) debate[key] = value;
  }
}

const KEYS = new WeakMap();

/** A text that tells a turn from others; it is made once, as turns are replaced and not changed. */
export function keyOf(turn) {
  if (!KEYS.has(turn)) KEYS.set(turn, JSON.stringify([turn.phase, turn.round, turn.agent, turn.step, turn.number ?? null]));
  return KEYS.get(turn);
}

function joinTurns(old, more) {
  const turns = new Map(old.map((turn) => [keyOf(turn), turn]));
  for (const turn of more) {
    const known = turns.get(keyOf(turn));
    turns.set(keyOf(turn), known ? { ...known, ...turn, scores: { ...known.scores, ...turn.scores } } : turn);
  }
  return [...turns.values()].sort((a, b) => placeOf(a) - placeOf(b));
}

function placeOf({ phase, round }) {
  return ((PHASES.indexOf(phase) + 5) % 5) * 1000 + round;
}

function joinRounds(old, more) {
  const rounds = new Map();
  for (const one of [...old, ...more]) rounds.set(placeOf(one), { ...rounds.get(placeOf(one)), ...one });
  return [...rounds.values()].sort((a, b) => placeOf(a) - placeOf(b));
}

function joinEvidence(old, more) {
  const pieces = new Map(old.map((piece) => [piece.id, piece]));
  for (const piece of more) {
    const known = pieces.get(piece.id);
    pieces.set(piece.id, known ? joinPiece(known, piece) : piece);
  }
  return [...pieces.values()];
}

function joinPiece(known, piece) {
  const found = new Map([...known.retrievals, ...piece.retrievals].map((one) => [JSON.stringify(one), one]));
  const joined = { ...known, ...piece, retrievals: [...found.values()] };
  const standing = (of) => STANDINGS.indexOf(of.status);
  if (known.status && standing(known) > standing(piece)) joined.status = known.status;
  return joined;
}

function joinList(debate, key, more) {
  const known = new Map((debate[key] ?? []).map((one) => [JSON.stringify(one), one]));
  for (const one of more) known.set(JSON.stringify(one), one);
  debate[key] = [...known.values()];
}
