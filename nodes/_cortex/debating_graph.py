"""CortexDebate's debating graph: which agents hear which others in a round (CortexDebate, section 4.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

from moot.nodes._cortex.trust import (
    THRESHOLDS,
    Evaluation,
    Graph,
    Opponents,
    Pruning,
    Weights,
    agents_heard,
    intimacy,
    mean_similarity,
    recalibrate_confidence,
    reliability,
    self_orientation,
    weight,
)
from moot.nodes._steps.score import average
from typing_extensions import TypedDict

FIRST_CONFIDENCE = 0.3
"""The confidence of an agent that has not stated one yet."""
SILENT_SIMILARITY = 1.0
"""The similarity of two agents whose outputs were never compared, e.g. because one has had no valid answer yet.

Their intimacy is then 0: an agent without an output has no different view to offer."""


class History(TypedDict):
    """The values that one round of debate passes to the next, as plain JSON."""

    confidence: dict[str, float]  # the last H of each agent
    reliability: dict[str, float]  # the last R of each agent
    kept: dict[str, int]  # each agent's P: how many edges from it to others have been kept so far
    similarity: dict[str, float]  # the last Sim of each `pair`


class Round(NamedTuple):
    """The weights of a round's edges, the edges that are kept, and the history for the next round."""

    weights: Weights
    kept: Opponents
    history: History


def first_history() -> History:
    """The history before the first round of debate: empty."""
    return {"confidence": {}, "reliability": {}, "kept": {}, "similarity": {}}


def pair(one: str, other: str) -> str:
    """The key of two agents, such as ``agent-1|agent-2``; it is the same in either order."""
    return "|".join(sorted((one, other)))


def peer_means(scores: Mapping[str, Mapping[str, float | None]]) -> dict[str, float | None]:
    """The mean of the scores that each agent's answer got from the others, if any (CortexDebate, appendix E)."""
    return {a: average([given.get(a) for scorer, given in scores.items() if scorer != a]) for a in scores}


def extend_history(
    history: History,
    d: int,
    confidences: Mapping[str, float | None],
    similarities: Mapping[str, float],
    thresholds: tuple[float, float, float] | None = THRESHOLDS,
) -> History:
    """The history after the answers of round d - 1: H of round d - 1, R_d and Sim_d, but the same P."""
    h: dict[str, float] = {}
    for agent, raw in confidences.items():
        # An agent that gave no confidence keeps its last H; so does a pair without a cosine its Sim.
        last = history["confidence"].get(agent, FIRST_CONFIDENCE)
        h[agent] = last if raw is None else recalibrate_confidence(raw, thresholds)
    similarity: dict[str, float] = {}
    for key in (pair(*both) for both in combinations(confidences, 2)):
        known = history["similarity"][key] if d > 1 else SILENT_SIMILARITY
        similarity[key] = mean_similarity(known, d, similarities.get(key, known))
    return {
        "confidence": h,
        "reliability": {a: reliability(history["reliability"][a] if d > 1 else 0.0, d, h[a]) for a in h},
        "kept": {a: history["kept"].get(a, 0) for a in h},
        "similarity": similarity,
    }


def edge_weights(
    known: History,
    d: int,
    credibilities: Mapping[str, float],
    evaluation: Evaluation = "mdm",
    peer_scores: Mapping[str, float | None] | None = None,
    n: int | None = None,
) -> Weights:
    """The weight of every edge i -> j in round d: W (CortexDebate, Eq. 9), or the weight of an ablation (5.3)."""
    # ``n`` is the number at the start, which may be larger.
    agents = known["confidence"]

    def weight_of_edge(i: str, j: str) -> float | None:
        if evaluation in ("none", "self", "peer"):
            return {"none": 1.0, "self": known["confidence"][i], "peer": (peer_scores or {}).get(i)}[evaluation]
        cr = (credibilities[i], known["reliability"][i])
        if evaluation == "mdm_without_i_and_s":
            return weight(*cr, 1.0, 0)
        return weight(
            *cr, intimacy(known["similarity"][pair(i, j)]), self_orientation(d, n or len(agents), known["kept"][i])
        )

    return {j: {i: w for i in agents if i != j and (w := weight_of_edge(i, j)) is not None} for j in agents}


def next_round(
    history: History,
    d: int,
    confidences: Mapping[str, float | None],
    similarities: Mapping[str, float],
    credibilities: Mapping[str, float],
    pruning: Pruning = "average",
    *,
    graph: Graph = "sparse",
    evaluation: Evaluation = "mdm",
    thresholds: tuple[float, float, float] | None = THRESHOLDS,
    peer_scores: Mapping[str, float | None] | None = None,
    seed: int = 0,
    n: int | None = None,
) -> Round:
    """The weights and kept edges of round d, after the answers of round d - 1 (CortexDebate, 4.2, steps 1 and 2)."""
    known = extend_history(history, d, confidences, similarities, thresholds)
    weights = edge_weights(known, d, credibilities, evaluation, peer_scores, n)
    kept = agents_heard(weights, graph, evaluation, pruning, d=d, seed=seed)
    times = Counter(i for sources in kept.values() for i in sources)
    return Round(weights, kept, {**known, "kept": {a: p + times[a] for a, p in known["kept"].items()}})
