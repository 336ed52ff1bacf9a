"""CortexDebate's debating graph: decides from the last round's answers who hears whom (CortexDebate, section 4.2)."""

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
"""The similarity of a pair with an agent that has no output yet. So its intimacy is 0: it offers no other view."""


class History(TypedDict):
    """The values that one round of debate passes to the next, as plain JSON.

    These are the last H (``confidence``), R (``reliability``) and P (``kept``) of each agent, and the last Sim
    (``similarity``) of each `pair`.
    """

    confidence: dict[str, float]
    reliability: dict[str, float]
    kept: dict[str, int]
    similarity: dict[str, float]


class Round(NamedTuple):
    """The weights of a round's edges, the edges that are kept, and the history for the next round."""

    weights: Weights
    kept: Opponents
    history: History


def first_history() -> History:
    """The history before the first round of debate: empty."""
    return {"confidence": {}, "reliability": {}, "kept": {}, "similarity": {}}


def pair(one: str, other: str) -> str:
    """The key of two agents, the same in either order: ``agent-1|agent-2``."""
    return "|".join(sorted((one, other)))


def peer_means(scores: Mapping[str, Mapping[str, float | None]]) -> dict[str, float | None]:
    """The mean of the scores that others gave each agent's answer (CortexDebate, appendix E); None without scores.

    Args:
        scores: ``{scorer: {scored: score}}``, with every agent as a scorer.
    """
    return {a: average([given.get(a) for scorer, given in scores.items() if scorer != a]) for a in scores}


def extend_history(
    history: History,
    d: int,
    confidences: Mapping[str, float | None],
    similarities: Mapping[str, float],
    thresholds: tuple[float, float, float] | None = THRESHOLDS,
) -> History:
    """The history with the answers of round d - 1: H of that round, R_d and Sim_d; P_d stays the same.

    An agent that gave no confidence keeps its last H; if there is none, H is `FIRST_CONFIDENCE`. A pair without a
    cosine keeps its last Sim; if there is none, Sim is `SILENT_SIMILARITY`. The arguments are those of `next_round`.
    """
    h: dict[str, float] = {}
    for agent, raw in confidences.items():
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
    """The weight of every edge i -> j in round d: MDM's W (CortexDebate, Eq. 9), or an ablation's weight (5.3).

    Args:
        known: the history from `extend_history`.
        d: the round of debate, from 1.
        credibilities: C by agent.
        evaluation: the formula of the weight. ``mdm``: W. ``mdm_without_i_and_s``: C R. ``self``: i's confidence H.
            ``peer``: i's mean score; if it is unknown, the edge has no weight. ``none``: 1.
        peer_scores: from `peer_means`; only for ``peer``.
        n: the number of agents at the start of the debate; by default the number of agents in ``known``.
    """
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
    """The edges of round d, from the answers of round d - 1 (CortexDebate, section 4.2, steps 1 and 2).

    In the returned history, ``confidence`` has the H of round d - 1.

    Args:
        history: the history returned for the round before; at d = 1 from `first_history`.
        d: the round of debate, from 1.
        confidences: every agent's raw confidence of round d - 1, in the order of the agents; None if it gave none.
        similarities: the cosines of the outputs of round d - 1, by `pair`, for the pairs that could be compared.
        credibilities: C by agent.
        pruning, graph, evaluation, seed: as for `agents_heard`.
        thresholds: as for `recalibrate_confidence`.
        peer_scores, n: as for `edge_weights`.

    Raises:
        KeyError: an agent has no credibility, but the formula needs it; or d is above 1, and an agent has no history.
        ValueError: a value is out of its range, or d does not fit the history.
    """
    known = extend_history(history, d, confidences, similarities, thresholds)
    weights = edge_weights(known, d, credibilities, evaluation, peer_scores, n)
    kept = agents_heard(weights, graph, evaluation, pruning, d=d, seed=seed)
    times = Counter(i for sources in kept.values() for i in sources)
    return Round(weights, kept, {**known, "kept": {a: p + times[a] for a, p in known["kept"].items()}})
