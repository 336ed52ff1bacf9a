"""Quality of confidences: calibration, the gain from abstaining, and stability over rounds.

The measures of calibration take two lists in the same order. For each item, one list contains the system's confidence
in its answer, in [0, 1], and the other whether the answer was right. An item without a judgement (None) is missing. An
item with a judgement but without a confidence is left out. If no item has both, a score has the value None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from moot.evals._stats.measures import load_extra
from moot.evals._stats.outcomes import Score, mean_score
from moot.nodes._texts.calibrated import SCORE_DECIMALS

BINS = 10


class Bin(NamedTuple):
    """A bin of confidences in (low, high]; the first bin includes ``low``.

    ``confidence`` and ``accuracy`` are the means over the bin's items; None if the bin is empty.
    """

    low: float
    high: float
    n: int
    confidence: float | None
    accuracy: float | None


class RiskPoint(NamedTuple):
    """The result of answering only if the confidence is at least ``threshold``."""

    threshold: float
    coverage: float
    """Answered items / all items with a confidence and a judgement."""
    risk: float
    """Wrong answers / answered items."""


class RiskCoverage(NamedTuple):
    """A risk-coverage curve and the area under it (AURC); the first point has the highest threshold."""

    points: list[RiskPoint]
    area: Score


def _known_pairs(confidences: Sequence[float | None], correct: Sequence[bool | None]) -> tuple[Any, Any, int, int]:
    """Confidences and judgements (0 or 1) of the items with both, and the numbers of missing and left-out items."""
    pairs = list(zip(confidences, correct, strict=True))
    known = [(confidence, right) for confidence, right in pairs if confidence is not None and right is not None]
    if not all(0 <= confidence <= 1 for confidence, _ in known):
        raise ValueError("confidences must be numbers from 0 to 1")
    missing = sum(right is None for _, right in pairs)
    values = np.array(known, dtype=float).reshape(-1, 2)
    return values[:, 0], values[:, 1], missing, len(pairs) - len(known) - missing


def reliability_bins(
    confidences: Sequence[float | None], correct: Sequence[bool | None], bins: int = BINS, *, mass: bool = False
) -> list[Bin]:
    """The bins of a reliability diagram, lowest confidence first; [] if no item has a confidence and a judgement.

    With ``mass``, the edges are quantiles of the confidences; equal confidences share a bin, so there may be fewer
    bins. Otherwise, bins have equal width over [0, 1], and empty bins are included.
    """
    if bins < 1:
        raise ValueError("a diagram needs at least one bin")
    confidence, right, _, _ = _known_pairs(confidences, correct)
    if not len(confidence):
        return []
    shares = np.linspace(0, 1, bins + 1)
    edges = np.percentile(confidence, shares * 100) if mass else shares
    bin_numbers = np.searchsorted(edges[1:-1], confidence)  # the same bins as in scikit-learn's calibration_curve
    counts = np.bincount(bin_numbers, minlength=bins)
    sums = [np.bincount(bin_numbers, weights=values, minlength=bins) for values in (confidence, right)]
    return [
        Bin(float(low), float(high), int(n), float(c / n) if n else None, float(r / n) if n else None)
        for low, high, n, c, r in zip(edges, edges[1:], counts, *sums, strict=False)
        if n or not mass
    ]


def ece(
    confidences: Sequence[float | None], correct: Sequence[bool | None], bins: int = BINS, *, mass: bool = False
) -> Score:
    """Expected calibration error, in [0, 1] (PROClaim, Eq. 9).

    It is the sum over bins of n / N x |accuracy - mean confidence|, for n items in the bin and N items in all bins. The
    value depends on the bins: report them, and show `reliability_bins` next to the value.

    Args:
        confidences: the confidence of each item's answer; None if it is missing.
        correct: whether each item's answer was right, in the same order; None if it is missing.
        bins: the number of bins.
        mass: as for `reliability_bins`.

    Raises:
        ValueError: as `reliability_bins`.
    """
    confidence, _, missing, left_out = _known_pairs(confidences, correct)
    filled = [b for b in reliability_bins(confidences, correct, bins, mass=mass) if b.n]
    gaps = [b.n * abs(b.accuracy - b.confidence) for b in filled if b.accuracy is not None and b.confidence is not None]
    n = len(confidence)
    return Score(sum(gaps) / n if n else None, n, missing, left_out)


def brier_score(confidences: Sequence[float | None], correct: Sequence[bool | None]) -> Score:
    """Brier score: the mean of (confidence - y)², in [0, 1], with y = 1 for a right answer and y = 0 for a wrong one.

    If the confidence is always 0.5, the score is 0.25.

    Args:
        confidences: the confidence of each item's answer; None if it is missing.
        correct: whether each item's answer was right, in the same order; None if it is missing.

    Raises:
        ValueError: lists of different lengths, or a confidence outside [0, 1].
    """
    confidence, right, missing, left_out = _known_pairs(confidences, correct)
    score = mean_score(((confidence - right) ** 2).tolist())
    return Score(score.value, score.n, missing, left_out)


def risk_coverage(confidences: Sequence[float | None], correct: Sequence[bool | None]) -> RiskCoverage:
    """The risk-coverage curve of a system that answers only with enough confidence (Geifman and El-Yaniv 2017).

    The risk of items is their share of wrong answers. The area is the mean over k = 1...N of the risk of the k most
    confident of N items, in [0, 1]. Lower is better; the expected area of a random order is the risk of all items. If
    items have equal confidence, the area is the average over all their orders.

    Args:
        confidences: the confidence of each item's answer; None if it is missing.
        correct: whether each item's answer was right, in the same order; None if it is missing.

    Returns:
        One point for each different confidence. If no item has both a confidence and a judgement, there is no point,
        and the area's value is None.

    Raises:
        ValueError: lists of different lengths, or a confidence outside [0, 1].
    """
    confidence, right, missing, left_out = _known_pairs(confidences, correct)
    n = len(confidence)
    if not n:
        return RiskCoverage([], Score(None, 0, missing, left_out))
    thresholds, places, counts = np.unique(-confidence, return_inverse=True, return_counts=True)
    wrong = np.bincount(places, weights=1 - right)
    answered = counts.cumsum()
    risks = np.repeat(wrong / counts, counts).cumsum() / np.arange(1, n + 1)
    points = [
        RiskPoint(float(-threshold), float(k / n), float(errors / k))
        for threshold, k, errors in zip(thresholds, answered, wrong.cumsum(), strict=True)
    ]
    return RiskCoverage(points, Score(float(risks.mean()), n, missing, left_out))


class PassingAnswers(NamedTuple):
    """The answers that pass a threshold."""

    n: int
    """The number of passing answers."""
    share: float
    """Passing answers / all answers, in [0, 1]."""
    right: float | None
    """Right passing answers / passing answers, in [0, 1]; None if no answer passes."""


def accuracy_at(scores: Sequence[float], correct: Sequence[bool], threshold: float) -> PassingAnswers:
    """The number and share of answers that reach a threshold, and the share of right answers among them."""
    if not scores:
        raise ValueError("there must be at least one answer")
    passing = [right for score, right in zip(scores, correct, strict=True) if score >= threshold]
    return PassingAnswers(len(passing), len(passing) / len(scores), sum(passing) / len(passing) if passing else None)


def ks_stability(trajectories: Sequence[Sequence[float | None]]) -> dict[int, Score]:
    """How far the distribution of a figure in each round is from its distribution in the debates' last rounds.

    The distance is the two-sample Kolmogorov-Smirnov statistic, by scipy: the largest distance between the two
    distribution functions, in [0, 1]. Both samples come from the debates that reached the round, so debates that ended
    earlier have no influence. If the round is the last one of all these debates, the distance is 0. There is no
    p-value, because a p-value needs independent samples.

    PROClaim (appendix E) prints values from -0.03 to 1.14 for this statistic. Values outside [0, 1] are impossible, so
    this function does not reproduce the paper's values.

    ``value`` is the distance over ``n`` debates; None if ``n`` is 0.
    """
    by_round: dict[int, Score] = {}
    for n in range(max(map(len, trajectories), default=0)):
        reached = [(values[n], values[-1]) for values in trajectories if n < len(values)]
        known = [(value, last) for value, last in reached if value is not None and last is not None]
        statistic = None
        if known:
            current, final = zip(*known, strict=True)
            with np.errstate(divide="ignore", invalid="ignore"):  # the p-value, which is not used, may divide by 0
                statistic = float(load_extra("scipy.stats").ks_2samp(current, final, method="asymp").statistic)
        by_round[n + 1] = Score(statistic, len(known), len(reached) - len(known), len(trajectories) - len(reached))
    return by_round


# --- fitting a calibration; `moot.nodes._texts.calibrated` explains calibrations -----------------------------------


def score_counts(scores: Sequence[float]) -> list[tuple[float, int]]:
    """How often each score occurs, lowest score first; scores are rounded to `SCORE_DECIMALS` decimals."""
    given = np.round(np.asarray(scores, dtype=float), SCORE_DECIMALS)
    if not given.size or not ((given >= 0) & (given <= 1)).all():
        raise ValueError("there must be at least one score, and scores must be numbers from 0 to 1")
    values, counts = np.unique(given, return_counts=True)
    return [(float(value), int(count)) for value, count in zip(values, counts, strict=True)]


def confidence_threshold(confidences: Sequence[float | None], right: Sequence[bool], alpha: float) -> float | None:
    """The lowest confidence from which verdicts may be used.

    With this threshold, the expected share of debates whose verdict is used and wrong is at most alpha.

    The threshold is the least of the given confidences c with (W + 1) / (n + 1) <= alpha. W is the number of wrong
    verdicts with a confidence of at least c, and n is the number of all debates (arXiv:2208.02814, Eq. 4).

    Returns the threshold; None if no given confidence fulfils the inequality.
    """
    pairs = [
        (confidence, is_right)
        for confidence, is_right in zip(confidences, right, strict=True)
        if confidence is not None
    ]
    n = len(confidences)
    if not n:
        raise ValueError("there must be at least one debate")
    given = np.array([confidence for confidence, _ in pairs], dtype=float)
    wrong = np.array([not is_right for _, is_right in pairs], dtype=bool)
    fit = [c for c in np.unique(given) if (wrong[given >= c].sum() + 1) / (n + 1) <= alpha]
    return float(min(fit)) if fit else None
