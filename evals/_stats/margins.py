"""Tests of a margin: are two systems equally good, or is one at least not worse, up to a margin stated beforehand?

A test of a difference that finds none does not show that two systems are equally good. These tests can: their null
hypothesis is that the difference is at least the margin. The differences are those of the same items (paired), and
standard errors allow for groups of items.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

from moot.evals._stats.clusters import NO_SPREAD, by_group, clustered_mean
from moot.evals._stats.measures import load_extra
from moot.evals._stats.sample_size import ALPHA

Claim = Literal["different", "equivalent", "not_worse"]
"""What a test can show of two systems: that they differ, that they differ by less than a margin, or that the first is
worse by less than a margin at most."""


@dataclass(frozen=True)
class MarginTest:
    """A test of equivalence or of non-inferiority."""

    margin: float
    """The margin, as a difference of scores."""
    p: float | None
    """The p-value; None if it cannot be computed."""
    value: float | None
    """The mean difference, the first system minus the second; None if no item is known for both."""
    low: float | None
    """The lower end of the 90% interval of the difference. The first system is not worse, at the level 0.05, if this
    end is above minus the margin."""
    high: float | None
    """The upper end. The systems are equivalent, at the level 0.05, if both ends are within the margin."""
    n: int
    """The number of items that are known for both systems."""
    missing: int
    """The number of all other items."""
    reason: str = ""
    """Why there is no p-value; empty if there is one."""


def equivalence(
    first: Sequence[float | None],
    second: Sequence[float | None],
    margin: float,
    groups: Sequence[Hashable] | None = None,
) -> MarginTest:
    """Test whether two systems' means on the same items differ by less than a margin (TOST: Schuirmann 1987).

    The p-value is the larger one of two one-sided paired t-tests. For items without groups it is that of
    ``statsmodels.stats.weightstats.ttost_paired``.

    Args:
        first: the first system's value of each item, such as its mean over runs; None if the item is missing.
        second: the second system's values.
        margin: the margin, in the values' unit; it must be stated before the results are known.
        groups: the group of each item; by default each item is its own group. Standard errors are then cluster-robust,
            with one degree of freedom fewer than groups.

    Returns:
        A test without a p-value if there are fewer than two groups, or if all differences are the same.

    Raises:
        UserError: scipy is not installed.
        ValueError: the margin is not positive, or the lists have different lengths.
    """
    return margin_test([paired_differences(first, second, groups)], margin, "equivalent")


def non_inferiority(
    first: Sequence[float | None],
    second: Sequence[float | None],
    margin: float,
    groups: Sequence[Hashable] | None = None,
) -> MarginTest:
    """Test whether the first system's mean is worse than the second's by less than a margin, by a one-sided t-test.

    Args:
        first: the first system's value of each item, such as its mean over runs; None if the item is missing.
        second: the second system's values.
        margin: as for `equivalence`.
        groups: as for `equivalence`.

    Returns:
        A test without a p-value if there are fewer than two groups, or if all differences are the same.

    Raises:
        UserError: scipy is not installed.
        ValueError: the margin is not positive, or the lists have different lengths.
    """
    return margin_test([paired_differences(first, second, groups)], margin, "not_worse")


Differences = tuple[list[list[float]], int]
"""The known differences of items, by group, and the number of items without a difference."""


def paired_differences(
    first: Sequence[float | None], second: Sequence[float | None], groups: Sequence[Hashable] | None = None
) -> Differences:
    """The differences between the values of the same items, by group, and the number of unknown differences."""
    items = [None if a is None or b is None else a - b for a, b in zip(first, second, strict=True)]
    return by_group(range(len(items)) if groups is None else groups, items), items.count(None)


def margin_test(benchmarks: Sequence[Differences], margin: float, claim: Claim) -> MarginTest:
    """A test of the mean over benchmarks of the mean difference of their items; each benchmark has the same weight.

    For K benchmarks with standard errors s_k, the standard error is sqrt(sum s_k²) / K. The degrees of freedom are
    those of Satterthwaite, (sum s_k²)² / sum (s_k⁴ / (G_k - 1)), for G_k groups of items; for one benchmark, G - 1.
    """
    if not margin > 0:
        raise ValueError(f"a margin must be positive, not {margin}")
    means = [clustered_mean(groups) for groups, _ in benchmarks]
    n, missing, k = sum(mean.n for mean in means), sum(count for _, count in benchmarks), len(means)
    values = [mean.value for mean in means if mean.value is not None]
    value = sum(values) / k if len(values) == k else None
    variances = [(mean.se**2, mean.groups) for mean in means if mean.se is not None]
    reasons = [mean.reason for mean in means if mean.reason and mean.reason != NO_SPREAD]
    if value is None or reasons or not variances:
        reason = reasons[0] if reasons else NO_SPREAD
        return MarginTest(margin, None, value, None, None, n, missing, reason)
    se = sqrt(sum(variance for variance, _ in variances)) / k
    freedom = sum(variance for variance, _ in variances) ** 2 / sum(v**2 / (count - 1) for v, count in variances)
    t = load_extra("scipy.stats").t
    above, below = float(t.sf((value + margin) / se, freedom)), float(t.cdf((value - margin) / se, freedom))
    half = float(t.ppf(1 - ALPHA, freedom)) * se
    p = max(above, below) if claim == "equivalent" else above
    return MarginTest(margin, p, value, value - half, value + half, n, missing)
