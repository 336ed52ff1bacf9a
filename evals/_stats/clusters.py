"""Uncertainty of a figure if items come in groups, such as claims about one page or variants of a claim.

Items of a group are similar, so intervals that assume independent items are too narrow. Here standard errors are
cluster-robust, and the bootstrap draws whole groups. An item without a group is its own group. If no item has a group,
the results are the same as for independent items. A figure that cannot be computed is None, with a ``reason``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import TypeVar

import numpy as np
from moot.evals._stats.measures import load_extra
from moot.evals._stats.significance import (
    CONFIDENCE,
    ONE_GROUP,
    Array,
    Interval,
    Statistic,
    stratified_bootstrap,
    wilson,
)

NO_ITEMS, NO_SPREAD, UNDEFINED = "no items", "no spread", "undefined"
"""Reasons why a figure or its interval cannot be computed. No spread: all items have the same value, or the figure is
the same in so many resamples that both ends of the interval are equal. Undefined: the figure's divisor is 0 for the
items themselves, or in every resample."""
FEW_GROUPS = 30
"""With fewer groups than this, intervals tend to be too narrow (Cameron and Miller 2015 name 20 to 50)."""
ROUNDING = 1e-12
"""An interval narrower than this counts as without spread, because its ends differ only by rounding."""
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class ClusteredMean:
    """A mean and its standard error."""

    value: float | None
    """The mean of all items; None if there is no item."""
    se: float | None
    """The mean's standard error; None if it cannot be computed."""
    n: int
    """The number of items."""
    groups: int
    """The number of groups."""
    reason: str = ""
    """Why ``value`` or ``se`` is None; empty if neither is."""


def by_group(groups: Iterable[Hashable], values: Iterable[T | None]) -> list[list[T]]:
    """The known values of each group; groups without known values are left out."""
    found: dict[Hashable, list[T]] = {}
    for group, value in zip(groups, values, strict=True):
        if value is not None:
            found.setdefault(group, []).append(value)
    return list(found.values())


def clustered_mean(groups: Sequence[Sequence[float]]) -> ClusteredMean:
    """A mean with its cluster-robust standard error (Liang and Zeger 1986; for evaluations Miller 2024).

    se² = G / (G - 1) x the sum over G groups of (the sum over the group's items of (value - mean))² / n², for n items.
    With one item in each group, se is s / sqrt(n). Here s is the standard deviation of the values, with divisor n - 1.
    """
    sizes = np.array([len(group) for group in groups], dtype=float)
    n, count = int(sizes.sum()), len(groups)
    if not n:
        return ClusteredMean(None, None, 0, 0, NO_ITEMS)
    sums = np.array([sum(group) for group in groups], dtype=float)
    mean = float(sums.sum() / n)
    if count < 2:
        return ClusteredMean(mean, None, n, count, ONE_GROUP)
    if len({value for group in groups for value in group}) == 1:
        return ClusteredMean(mean, None, n, count, NO_SPREAD)
    spread = float(((sums - mean * sizes) ** 2).sum())
    return ClusteredMean(mean, sqrt(count / (count - 1) * spread) / n, n, count)


def clustered_wilson(groups: Sequence[Sequence[bool]], missing: int = 0, confidence: float = CONFIDENCE) -> Interval:
    """A share of right items with Wilson's interval for the effective number of independent items.

    The effective number of items is p (1 - p) / se² x (t(n - 1) / t(G - 1))², but at most n. Here p is the share, se is
    from `clustered_mean`, and t is the quantile of Student's distribution, for n items in G groups (Korn and Graubard
    1998; with Wilson's interval Dean and Pagano 2015). If every group has one item, the interval is that of `wilson`.
    If all items are right, or all are wrong, each group counts as one item.

    The interval has no value if there is no item.
    """
    if not 0 < confidence < 1:
        raise ValueError("the confidence must be between 0 and 1")
    right = [item for group in groups for item in group]
    if len(groups) == len(right):
        found = wilson(right, confidence)
        return replace(found, missing=missing, reason="" if right else NO_ITEMS)
    mean = clustered_mean(groups)
    if mean.value is None or (mean.se is None and mean.reason != NO_SPREAD):
        return Interval(mean.value, None, None, mean.n, missing, reason=mean.reason)
    effective = float(mean.groups if mean.se is None else mean.n)
    if mean.se:
        t = load_extra("scipy.stats").t
        t_ratio = t.ppf((1 + confidence) / 2, mean.n - 1) / t.ppf((1 + confidence) / 2, mean.groups - 1)
        effective = min(effective, mean.value * (1 - mean.value) / mean.se**2 * t_ratio**2)
    proportion = load_extra("statsmodels.stats.proportion")
    low, high = proportion.proportion_confint(mean.value * effective, effective, alpha=1 - confidence, method="wilson")
    return Interval(mean.value, float(low), float(high), mean.n, missing)


def interval_of_equal(difference: Interval, n: int) -> Interval:
    """A mean paired difference of n independent items that all differ by 0, by 1 or by -1, with Tango's score interval
    (Tango 1998), which then follows from Wilson's; any other difference is returned as it is.

    >>> found = interval_of_equal(Interval(0.0, None, None, 50), 50)
    >>> round(found.low, 4), round(found.high, 4)
    (-0.0714, 0.0714)
    """
    if difference.value == 0:
        bound = wilson([False] * n).high
        return replace(difference, low=-(bound or 0), high=bound, reason="")
    if difference.value in (1, -1):
        inner = difference.value * (2 * (wilson([True] * n).low or 0) - 1)
        return replace(difference, low=min(inner, difference.value), high=max(inner, difference.value), reason="")
    return difference


def mean_of_intervals(intervals: Sequence[Interval]) -> Interval:
    """The mean of independent figures, with an interval from the figures' intervals (MOVER: Zou and Donner 2008).

    For K figures x with intervals [l, u] and the mean m, the result's interval reaches from m - sqrt(sum (x - l)²) / K
    to m + sqrt(sum (u - x)²) / K.

    The interval has no value if there is no figure or a figure has no value, and without ends if a figure has no
    interval.
    """
    n, missing, k = (
        sum(interval.n for interval in intervals),
        sum(interval.missing for interval in intervals),
        len(intervals),
    )
    values = [interval.value for interval in intervals if interval.value is not None]
    if not k or len(values) < k:
        return Interval(None, None, None, n, missing, reason="a figure is missing")
    mean = sum(values) / k
    distances = [(x.value - x.low, x.high - x.value) for x in intervals if None not in (x.value, x.low, x.high)]  # type: ignore[operator]
    if len(distances) < k:
        return Interval(mean, None, None, n, missing, reason="a figure has no interval")
    below, above = (sqrt(sum(distance**2 for distance in side)) / k for side in zip(*distances, strict=True))
    return Interval(mean, mean - below, mean + above, n, missing)


def cluster_bootstrap(
    groups: Sequence[Sequence[T]],
    figure: Callable[[Sequence[T]], Statistic],
    missing: int = 0,
    runs: Sequence[int] = (),
) -> Interval:
    """A figure with its percentile bootstrap interval over groups (Field and Welsh 2007: the cluster bootstrap).

    Groups are drawn with replacement, each with all its items. With one item in each group, the resamples are those of
    `bootstrap`. ``figure`` takes the kinds of items (each different item once), and returns a function from counts of
    kinds, of shape (resamples, kinds), to figures, of shape (resamples,); NaN is undefined. ``runs``: as for
    `stratified_bootstrap`.

    The interval has a ``reason`` and no ends if there is no item, the figure is undefined, there is only one group, or
    both ends are the same.
    """
    kinds = {item: i for i, item in enumerate(dict.fromkeys(item for group in groups for item in group))}
    if not kinds:
        return Interval(None, None, None, 0, missing, reason=NO_ITEMS)
    # groups with equal items are also of one kind, so a resample is a list of kinds of groups
    group_counts = [frozenset(Counter(kinds[item] for item in group).items()) for group in groups]
    group_kinds = {group: i for i, group in enumerate(dict.fromkeys(group_counts))}
    count_matrix = np.zeros((len(group_kinds), len(kinds)))
    for group, i in group_kinds.items():
        for kind, count in group:
            count_matrix[i, kind] = count
    of_counts = figure(list(kinds))

    def statistic(drawn: Array, *drawn_runs: Array) -> Array:
        rows, n = len(drawn), len(group_kinds)
        offsets = drawn + n * np.arange(rows)[:, None]
        counts = np.bincount(offsets.ravel(), minlength=rows * n).reshape(rows, n) @ count_matrix
        return of_counts(counts, *drawn_runs)

    sample = [group_kinds[group] for group in group_counts]
    found = replace(stratified_bootstrap([sample], statistic, runs=runs), n=sum(map(len, groups)), missing=missing)
    if found.low is None or found.high is None:
        return replace(found, reason=UNDEFINED)
    if len(groups) < 2:
        return replace(found, low=None, high=None, reason=ONE_GROUP)
    if found.high - found.low < ROUNDING:
        return replace(found, low=None, high=None, reason=NO_SPREAD)
    return found
