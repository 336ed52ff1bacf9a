"""CortexDebate's debating graph: who hears whom in a round, by trust (CortexDebate, section 4.2).

The functions are pure and take plain values. An edge i -> j means that agent j reads the last answer of agent i. The
agent i is the source of the edge, and j is its target. Weights have the form ``{target: {source: weight}}``. Opponents
have the form ``{target: [source, ...]}``. Every agent is a target, in the order of the agents, and no agent is its own
source.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from random import Random
from statistics import median
from typing import Literal, NamedTuple

from moot.nodes._steps.score import average
from typing_extensions import TypedDict

Graph = Literal["full", "sparse"]
Evaluation = Literal["none", "mdm", "mdm_without_i_and_s", "self", "peer"]
Pruning = Literal["average", "top-3", "bottom-3-removed", "median"]
Weights = dict[str, dict[str, float]]
Opponents = dict[str, list[str]]

THRESHOLDS = (0.3, 0.6, 0.8)
"""The thresholds low, middle and high for recalibrating confidences (CortexDebate, Eq. 2)."""
TOLERANCE = 1e-9
"""Values count as equal up to this relative difference, because rounding may make equal values differ."""

# --- the factors ----------------------------------------------------------------------------------------------------


def recalibrate_confidence(h: float, thresholds: tuple[float, float, float] | None = THRESHOLDS) -> float:
    """Recalibrated confidence: high if h >= high, middle if h >= middle, else max(h, low) (CortexDebate, Eq. 2)."""
    if not 0 <= h <= 1:
        raise ValueError(f"a confidence must be in [0, 1], not {h}")
    if thresholds is None:
        return h
    low, middle, high = thresholds
    if not low <= middle <= high:
        raise ValueError(f"thresholds must ascend, unlike {thresholds}")
    return high if h >= high else middle if h >= middle else max(h, low)


def loss(parameters: float, tokens: float) -> float:
    """L = 406.4 / N^0.34 + 410.7 / M^0.28 + 1.69, the expected loss with N parameters and M tokens (CortexDebate, Eq.
    3).
    """
    if not (0 < parameters < math.inf and 0 < tokens < math.inf):
        raise ValueError(f"parameters and tokens are counts above 0, not {parameters} and {tokens}")
    return float(406.4 / parameters**0.34 + 410.7 / tokens**0.28 + 1.69)


def credibility(parameters: float, tokens: float) -> float:
    """C = 1 / L(N, M), below 1 / 1.69 (CortexDebate, Eq. 4)."""
    return 1 / loss(parameters, tokens)


def credibilities(
    sizes: Mapping[str, tuple[float | None, float | None] | None],
) -> tuple[dict[str, float], list[str]]:
    """Each agent's C, and the agents whose N or M is unknown; if there are any, C is 1 for all agents (our choice)."""
    found: dict[str, float] = {}
    for agent, size in sizes.items():
        parameters, tokens = size or (None, None)
        if parameters is not None and tokens is not None:
            found[agent] = credibility(parameters, tokens)
    unknown = [agent for agent in sizes if agent not in found]
    return (dict.fromkeys(sizes, 1.0) if unknown else found), unknown


def reliability(previous: float, d: int, confidence: float) -> float:
    """R_d = (R_{d-1} (d - 1) + H) / d: the mean of an agent's confidences in rounds 0 to d - 1 (CortexDebate, Eq.
    5).
    """
    if d < 1:
        raise ValueError(f"rounds of debate are counted from 1, not {d}")
    return (previous * (d - 1) + confidence) / d


def mean_similarity(previous: float, d: int, cosine: float) -> float:
    """Sim_d = (Sim_{d-1} (d - 1) + cos) / d, in [-1, 1] (CortexDebate, Eq. 6)."""
    if math.isnan(cosine):
        raise ValueError("the cosine is not a number")
    return reliability(previous, d, max(-1.0, min(1.0, cosine)))


def intimacy(similarity: float) -> float:
    """I = 1 - Sim (CortexDebate, Eq. 7), in [0, 2]: the mean distance between the outputs of two agents."""
    return 1 - similarity


def self_orientation(d: int, n: int, kept_before: int) -> int:
    """S_d = (d - 1)(n - 1) - P_d (CortexDebate, Eq. 8): how often others did not keep an agent before round d."""
    most = (d - 1) * (n - 1)
    if not 0 <= kept_before <= most:
        raise ValueError(f"before round {d} an agent among {n} is kept 0 to {most} times, not {kept_before}")
    return most - kept_before


def weight(c: float, r: float, i: float, s: float) -> float:
    """W = C R I / (S + 1) (CortexDebate, Eq. 9), from credibility C, reliability R, intimacy I and self-orientation
    S.
    """
    # The + 1 is our choice. The paper divides by S, but S is 0 for all agents at d = 1.
    return c * r * i / (s + 1)


# --- the agents heard -----------------------------------------------------------------------------------------------


def at_least(weights: Mapping[str, float], threshold: float) -> list[str]:
    """The sources whose weight reaches the threshold, within `TOLERANCE`."""
    return [i for i, w in weights.items() if w >= threshold or math.isclose(w, threshold, rel_tol=TOLERANCE)]


def sort_by_weight(weights: Mapping[str, float], sources: Iterable[str]) -> list[str]:
    """The sources by descending weight, in their order if weights are equal; sources without a weight come last."""
    return sorted(sources, key=lambda i: weights.get(i, -math.inf), reverse=True)


def highest(weights: Mapping[str, float], count: int) -> list[str]:
    """The ``count`` sources with the highest weights, in their order; of equal ones, the earlier are chosen."""
    chosen = sort_by_weight(weights, weights)[:count]
    return [i for i in weights if i in chosen]


PRUNING_RULES: dict[Pruning, Callable[[Mapping[str, float]], list[str]]] = {
    "average": lambda weights: at_least(weights, math.fsum(weights.values()) / len(weights)),
    "median": lambda weights: at_least(weights, median(weights.values())),
    "top-3": lambda weights: highest(weights, 3),
    "bottom-3-removed": lambda weights: highest(weights, max(1, len(weights) - 3)),
}
"""The pruning rules by name. Each takes the weights of the edges into one target, and returns the sources to keep.

There must be at least one weight. CortexDebate's own rule is ``average``: it keeps edges with at least the mean weight
(Eq. 10, 11). The other rules are variants (appendix D.1). In the paper, each agent has four opponents, so that
``bottom-3-removed`` keeps one of them. If an agent has three or fewer opponents, this rule also keeps one (our choice).
"""


def agents_heard(
    weights: Weights,
    graph: Graph = "sparse",
    evaluation: Evaluation = "mdm",
    pruning: Pruning = "average",
    *,
    d: int = 1,
    seed: int = 0,
) -> Opponents:
    """The agents whose last answers each agent reads (CortexDebate, Eq. 12; 5.3 and appendix E)."""
    others = {j: [i for i in weights if i != j] for j in weights}
    if graph == "full":
        # This order is our choice, because the paper names no order.
        return {j: sort_by_weight(weights[j], others[j]) for j in weights}
    if evaluation == "none":
        # Half of the opponents, rounded up, drawn at random, is our choice.
        drawn = {j: Random(f"{seed}|{d}|{j}").sample(others[j], (len(others[j]) + 1) // 2) for j in weights}
        return {j: [i for i in others[j] if i in drawn[j]] for j in weights}
    if evaluation in ("self", "peer"):
        scores = {i: w for edges in weights.values() for i, w in edges.items()}
        mean = math.fsum(scores.values()) / max(1, len(scores))
        # There may be none.
        above = [i for i, w in scores.items() if w > mean and not math.isclose(w, mean, rel_tol=TOLERANCE)]
        return {j: [i for i in others[j] if i in above] for j in weights}
    return {j: PRUNING_RULES[pruning](weights[j]) if weights[j] else [] for j in weights}


# --- a round --------------------------------------------------------------------------------------------------------

FIRST_CONFIDENCE = 0.3
"""The confidence of an agent that has not stated one yet."""
SILENT_SIMILARITY = 1.0
"""The similarity of two agents whose outputs were never compared, e.g. because one has had no valid answer yet.

Their intimacy is then 0: an agent without an output has no different view to offer."""


class History(TypedDict):
    """The values that one round passes to the next, as plain JSON: fields of an entry of ``graphs``."""

    recalibrated: dict[str, float]  # the last H of each agent
    reliability: dict[str, float]  # the last R of each agent
    participation: dict[str, int]  # each agent's P: how many edges from it to others have been kept so far
    similarity: dict[str, float]  # the last Sim of each `pair`


class Round(NamedTuple):
    """The weights of a round's edges, the edges that are kept, and the history for the next round."""

    weights: Weights
    kept: Opponents
    history: History


def first_history() -> History:
    """The history before the first round of debate: empty."""
    return {"recalibrated": {}, "reliability": {}, "participation": {}, "similarity": {}}


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
        last = history["recalibrated"].get(agent, FIRST_CONFIDENCE)
        h[agent] = last if raw is None else recalibrate_confidence(raw, thresholds)
    similarity: dict[str, float] = {}
    for key in (pair(*both) for both in combinations(confidences, 2)):
        known = history["similarity"][key] if d > 1 else SILENT_SIMILARITY
        similarity[key] = mean_similarity(known, d, similarities.get(key, known))
    return {
        "recalibrated": h,
        "reliability": {a: reliability(history["reliability"][a] if d > 1 else 0.0, d, h[a]) for a in h},
        "participation": {a: history["participation"].get(a, 0) for a in h},
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
    agents = known["recalibrated"]

    def weight_of_edge(i: str, j: str) -> float | None:
        if evaluation in ("none", "self", "peer"):
            return {"none": 1.0, "self": known["recalibrated"][i], "peer": (peer_scores or {}).get(i)}[evaluation]
        cr = (credibilities[i], known["reliability"][i])
        if evaluation == "mdm_without_i_and_s":
            return weight(*cr, 1.0, 0)
        return weight(
            *cr,
            intimacy(known["similarity"][pair(i, j)]),
            self_orientation(d, n or len(agents), known["participation"][i]),
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
    return Round(
        weights, kept, {**known, "participation": {a: p + times[a] for a, p in known["participation"].items()}}
    )
