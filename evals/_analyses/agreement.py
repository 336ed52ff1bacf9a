"""Agreement of two graders on the same answers: the share of equal grades, and Cohen's kappa with its interval."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from moot.evals._stats.clusters import by_group, cluster_bootstrap
from moot.evals._stats.measures import load_extra
from moot.evals._stats.metrics import ratio
from moot.evals._stats.panel_measures import cohen_kappa
from moot.evals._stats.significance import Array, Interval, Statistic


class Agreement(NamedTuple):
    """The agreement of two graders on the answers that both graded."""

    kappa: Interval
    """Cohen's kappa with its 95% interval. The value is None if kappa is undefined, and the ends are None if the
    interval is undefined."""
    share: float | None
    """The share of answers on which the graders agree, in [0, 1]; None if no answer has both grades."""
    both: int
    """The number of answers that both graders call right."""
    first: int
    """The number of answers that only the first grader calls right."""
    second: int
    """The number of answers that only the second grader calls right."""
    neither: int
    """The number of answers that both graders call wrong."""


def agreement(
    first: Sequence[bool | None], second: Sequence[bool | None], groups: Sequence[Hashable] | None = None
) -> Agreement:
    """The agreement of two graders on the answers that both graded.

    If every answer has its own group, the interval is kappa ± 1.96 standard errors, cut at -1 and 1. statsmodels
    computes the large-sample standard error (Fleiss, Cohen and Everitt 1969), which is 0 if the graders agree on every
    answer. If answers share a group, they are not independent. The bootstrap over groups then computes the interval
    (`cluster_bootstrap`).
    """
    group_ids = range(len(first)) if groups is None else groups
    both = [None if a is None or b is None else (a, b) for a, b in zip(first, second, strict=True)]
    grouped = by_group(group_ids, both)
    pairs = [pair for pair in both if pair is not None]
    missing = both.count(None)
    counts = [pairs.count(kind) for kind in ((True, True), (True, False), (False, True), (False, False))]
    share = (counts[0] + counts[3]) / len(pairs) if pairs else None
    value = cohen_kappa([str(a) for a, _ in pairs], [str(b) for _, b in pairs])
    if value is None:
        return Agreement(Interval(None, None, None, len(pairs), missing), share, *counts)
    if len(grouped) < len(pairs):
        return Agreement(cluster_bootstrap(grouped, _kappa, missing), share, *counts)
    # statsmodels also computes a test, which is not used here and may divide by 0
    with np.errstate(divide="ignore", invalid="ignore"):
        result = load_extra("statsmodels.stats.inter_rater").cohens_kappa(np.array(counts).reshape(2, 2))
    low, high = max(-1.0, float(result.kappa_low)), min(1.0, float(result.kappa_upp))
    return Agreement(Interval(value, low, high, len(pairs), missing), share, *counts)


def _kappa(kinds: Sequence[tuple[bool, bool]]) -> Statistic:
    """Make a function that computes kappa from the count of each pair of grades; NaN if agreement by chance is 1."""
    first, second = np.array(kinds, dtype=float).T

    def kappa_of_counts(counts: Array) -> Array:
        n = counts.sum(axis=-1)
        agree, a, b = (ratio(counts @ indicator, n) for indicator in ((first == second).astype(float), first, second))
        chance = a * b + (1 - a) * (1 - b)
        return ratio(agree - chance, 1 - chance)

    return kappa_of_counts
