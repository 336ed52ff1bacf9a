// The state of a running debate. Updates of nodes are merged here as the server's reducers merge them, so that a debate
// can be watched between two states of the server. At the end, the server's document replaces this state.

const STANDINGS = ["seed", "discarded", "disputed", "discovered", "admitted"];
const PHASES = ["negotiation", "primary", "switched", "panel"];

/** LangGraph's Overwrite as JSON: the server's reducer replaces its value with this value, without merging them. */
export const overwrite = (value) => ({ __overwrite__: value });

const JOINED = { turns: joinTurns, evidence: joinEvidence, round_log: joinRounds, warnings: joinList, debates: joinList, corpora: joinList };

/**
 * Merges updates of nodes ({written, inner}[], in order) together, so that each list is merged only once. A subgraph
 * (`inner`) returns most values when it ends; only its lists, such as turns, are merged now.
 */
export function mergeUpdates(debate, updates) {
  const more = {};
  for (const { written, inner } of updates) {
    for (const [key, value] of Object.entries(written)) {
      if (value?.__overwrite__ !== undefined) {
        debate[key] = value.__overwrite__;
        delete more[key];
      } else if (key in JOINED) (more[key] ??= []).push(...value);
      else if (!inner) debate[key] = value;
    }
  }
  for (const [key, list] of Object.entries(more)) debate[key] = JOINED[key](debate[key] ?? [], list);
}

const KEYS = new WeakMap();

/** A turn's key, cached because a turn object never changes: an update replaces it. */
function keyOf(turn) {
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

/** A sort key: by phase, then by round; unknown phases come last. */
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

function joinList(old, more) {
  return [...new Map([...old, ...more].map((one) => [textOf(one), one])).values()];
}

const TEXTS = new WeakMap();

function textOf(one) {
  if (!TEXTS.has(one)) TEXTS.set(one, JSON.stringify(one));
  return TEXTS.get(one);
}
