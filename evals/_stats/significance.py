"""Uncertainty of figures and differences: intervals over items, paired tests, and Holm's correction.

Missing items (None) do not enter a figure; the result reports their number. Paired functions take the values of two
systems for the same items in the same order; an item counts if both values are known.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, Literal

import numpy as np
from moot.evals._stats.measures import load_extra

Array = Any
"""A numpy array."""
Statistic = Callable[..., Array]
"""Computes the figure of each resample.

It takes an array of shape (resamples, items), and returns an array of shape (resamples,). An undefined figure is NaN.
If runs are drawn, too, it takes further arrays, one for each system, of shape (resamples, runs): how often each run was
drawn.
"""

CONFIDENCE = 0.95
RESAMPLES = 2000
SEED = 20261120
BATCH = 200
"""Number of resamples drawn together; with 2,000 items, they need a few megabytes."""
ONE_GROUP = "one group"
"""The reason why there is no result if all items are in one group."""
SLACK = 1e-12
"""Sums of differences up to this size count as 0, because they differ from 0 only by floating-point errors."""
FINEST = 5040
"""`in_units` looks for a unit of 1, 1/2, 1/3 and so on, down to 1 / this number."""
MOST_UNITS = 2**17
"""Maximum number of units to which the sizes of differences may add up; if there are more, `in_units` rounds."""
SMALLEST_P = 1e-300
"""Smaller p-values are given as this value, because a float would round them to 0."""


@dataclass(frozen=True)
class Interval:
    """A figure and the ends of its interval."""

    value: float | None
    """The figure of all known items; None if the figure is undefined."""
    low: float | None
    """The lower end; None if the value is None or there is no interval."""
    high: float | None
    """The upper end; None if ``low`` is None."""
    n: int
    """The number of known items."""
    missing: int = 0
    """The number of unknown items."""
    undefined: int = 0
    """The number of resamples in which the figure is undefined. The ends are computed without them."""
    reason: str = ""
    """Why the value or the ends are None; empty if none of them is None, or if the reason is not stated."""


def bootstrap(
    items: Sequence[float | None],
    statistic: Statistic = lambda drawn: drawn.mean(axis=1),
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval:
    """A figure with its percentile bootstrap interval over items (Efron 1979).

    For a share of few items, or a share near 0 or 1, the bootstrap's interval is too narrow: use `wilson` instead. If
    all items have the same value, the bootstrap's interval has no width.

    Args:
        items: a number for each item; None if the item is missing.
        statistic: computes the figure of each resample; by default the mean.
        confidence: the share of the resamples within the interval.
        resamples: the number of resamples.
        seed: the seed of the generator (numpy's PCG64); the same seed gives the same interval.

    Returns:
        An interval without a value if every item is missing or the figure is undefined. It has a value but no ends if
        the figure is undefined in every resample.

    Raises:
        ValueError: the confidence is not between 0 and 1, or ``resamples`` is less than 1.
    """
    known = np.array([item for item in items if item is not None])
    return stratified_bootstrap(
        [known], statistic, missing=len(items) - len(known), confidence=confidence, resamples=resamples, seed=seed
    )


def stratified_bootstrap(
    samples: Sequence[Sequence[float] | Array],
    statistic: Statistic = lambda drawn: drawn.mean(axis=1),
    *,
    missing: int = 0,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    runs: Sequence[int] = (),
) -> Interval:
    """The mean of several samples' figures with its bootstrap interval; each sample is resampled separately. The
    interval has no value if there is no sample, a sample is empty, or a sample's figure is undefined.

    ``runs``: the number of runs of each system whose runs are drawn besides the items; the statistic then takes them as
    further arguments (`draw_runs`).
    """
    if not 0 < confidence < 1 or resamples < 1:
        raise ValueError("an interval needs a confidence between 0 and 1, and at least one resample")
    given = [np.asarray(sample) for sample in samples]
    n = sum(map(len, given))
    if not given or not all(map(len, given)):
        return Interval(None, None, None, n, missing)
    value = float(np.mean([statistic(sample[None], *(np.ones((1, n_runs)) for n_runs in runs)) for sample in given]))
    if np.isnan(value):
        return Interval(None, None, None, n, missing)
    generator = np.random.default_rng(seed)

    def draw(rows: int) -> Array:
        drawn = [sample[generator.integers(len(sample), size=(rows, len(sample)))] for sample in given]
        drawn_runs = [draw_runs(generator, n_runs, rows) for n_runs in runs]
        return np.mean([statistic(items, *drawn_runs) for items in drawn], axis=0)

    figures = np.concatenate([draw(min(BATCH, resamples - done)) for done in range(0, resamples, BATCH)])
    defined = figures[~np.isnan(figures)]
    if not len(defined):
        return Interval(value, None, None, n, missing, resamples)
    tail = (1 - confidence) / 2
    low, high = np.quantile(defined, [tail, 1 - tail]).tolist()
    return Interval(value, low, high, n, missing, resamples - len(defined))


def draw_runs(generator: np.random.Generator, runs: int, rows: int) -> Array:
    """How often each run is in each resample: ``runs`` - 1 of them are drawn with replacement; a single run is kept.

    With ``runs`` - 1 draws, the variance of a resampled mean is that of the mean of runs, s^2 / runs (Rao and Wu 1988);
    with ``runs`` draws, it would be too small by the factor (runs - 1) / runs. If items are drawn, too, the variance
    within items counts up to three times, so the interval is rather too wide (Owen 2007).
    """
    return np.ones((rows, 1)) if runs == 1 else generator.multinomial(runs - 1, [1 / runs] * runs, size=rows)


def wilson(correct: Sequence[bool | None], confidence: float = CONFIDENCE) -> Interval:
    """A share with its Wilson score interval (Wilson 1927), by statsmodels.

    The interval is suitable for few items, and for shares near 0 or 1.

    Args:
        correct: whether each item is right; None if the item is missing.
        confidence: the confidence level of the interval, such as 0.95.

    Returns:
        An interval without a value if every item is missing.

    Raises:
        UserError: statsmodels is not installed.
        ValueError: the confidence is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ValueError("an interval needs a confidence between 0 and 1")
    known = [bool(right) for right in correct if right is not None]
    n, missing = len(known), len(correct) - len(known)
    if not n:
        return Interval(None, None, None, 0, missing)
    proportion = load_extra("statsmodels.stats.proportion")
    low, high = proportion.proportion_confint(sum(known), n, alpha=1 - confidence, method="wilson")
    return Interval(sum(known) / n, float(low), float(high), n, missing)


# --- tests ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairedTest:
    """A two-sided test of whether two systems are equally good on the same items."""

    better: int
    """The number of items on which the first system is better."""
    worse: int
    """The number of items on which the second system is better."""
    p: float | None
    """The p-value, at least `SMALLEST_P`; 1 if no item differs. None if no item is known for both systems, or if there
    are several items and all are in one group."""
    n: int
    """The number of items that are known for both systems."""
    missing: int
    """The number of all other items."""
    name: str
    """The name of the test."""
    groups: int = 0
    """The number of groups of the n items; equal to n if each item is its own group."""
    reason: str = ""
    """Why there is no p-value; empty if there is one."""


def mcnemar(first: Sequence[bool | None], second: Sequence[bool | None], *, exact: bool = True) -> PairedTest:
    """Test whether two systems are right equally often on the same items (McNemar 1947), by statsmodels.

    Args:
        first: whether the first system is right on each item; None if the item is missing.
        second: the same for the second system.
        exact: whether to use the binomial test of ``better`` out of ``better`` + ``worse`` with probability 1/2. This
            test is valid for any number of discordant items, and `power` computes its power. If False, the test is the
            chi-square test with Edwards' continuity correction, for comparison with papers. It is an approximation,
            which needs at least 25 discordant items.

    Raises:
        UserError: statsmodels is not installed.
        ValueError: the lists have different lengths.
    """
    pairs = list(zip(first, second, strict=True))
    known = [(bool(a), bool(b)) for a, b in pairs if a is not None and b is not None]
    ours, theirs = known.count((True, False)), known.count((False, True))
    p: float | None = None
    if known:
        table = [[known.count((True, True)), ours], [theirs, known.count((False, False))]]
        tables = load_extra("statsmodels.stats.contingency_tables")
        found = float(tables.mcnemar(table, exact=exact, correction=True).pvalue) if ours + theirs else 1.0
        p = max(found, SMALLEST_P)
    name = "McNemar, exact" if exact else "McNemar, chi-square"
    reason = "" if known else "no items"
    return PairedTest(ours, theirs, p, len(known), len(pairs) - len(known), name, len(known), reason)


def sign_flips(
    first: Sequence[float | None], second: Sequence[float | None], groups: Sequence[Hashable] | None = None
) -> PairedTest:
    """Test whether two systems have the same mean on the same items: an exact paired permutation test (Fisher 1935).

    Under the null hypothesis each item's difference is equally likely to be positive or negative. The p-value is the
    share of all sign patterns whose sum is at least as far from 0 as the observed sum. With G groups, it can be as
    small as 2 / 2^G. If all values are 0 or 1 and each item is its own group, this is McNemar's exact test. Items of a
    group need not be independent: their differences change sign together (Winkler et al. 2015, whole-block
    exchangeability). Nor need the runs of an item be independent, because an item has one difference, that of its means
    over runs. If the two systems have different numbers of runs, their means have different distributions, so positive
    and negative differences are not exactly alike. Then the p-value is an approximation, which needs many items.

    Args:
        first: the first system's value of each item, such as its mean over runs; None if the item is missing.
        second: the second system's values.
        groups: the group of each item; by default each item is its own group.

    Returns:
        A test whose name says so if differences were rounded (`in_units`).

    Raises:
        ValueError: the lists have different lengths, or a value is not a finite number.
    """
    group_ids = range(len(first)) if groups is None else groups
    pairs = list(zip(first, second, group_ids, strict=True))
    known = [(a - b, group) for a, b, group in pairs if a is not None and b is not None]
    if not np.isfinite([difference for difference, _ in known]).all():
        raise ValueError("the values of the items must be finite numbers")
    sums: dict[Hashable, list[float]] = {}
    for difference, group in known:
        sums.setdefault(group, []).append(difference)
    reason = ONE_GROUP if len(sums) == 1 < len(known) else "" if known else "no items"
    units, rounded = in_units([fsum(of_group) for of_group in sums.values()])
    p: float | None = None
    if not reason:
        least = min(int(units[units > 0].sum()), int(-units[units < 0].sum()))
        p = min(1.0, max(2 * float(flip_chances(abs(units), least).sum()), SMALLEST_P))
    better, worse = (sum(sign * difference > 0 for difference, _ in known) for sign in (1, -1))
    test_name = "sign flips" if len(sums) == len(known) else "sign flips of groups"
    name = f"{test_name}, {'exact for rounded differences' if rounded else 'exact'}"
    return PairedTest(better, worse, p, len(known), len(pairs) - len(known), name, len(sums), reason)


def in_units(differences: Sequence[float]) -> tuple[Array, bool]:
    """Differences as whole numbers of a common unit, without those that are 0, and whether they were rounded.

    Differences between means over a and b runs are multiples of 1 / (a x b). If differences have no such unit, or too
    many units, they are rounded to multiples of their total size / `MOST_UNITS`. Sign flips of the rounded differences
    are an exact test, too, because neither the unit nor the rounding depends on signs.
    """
    nonzero = np.array([difference for difference in differences if abs(difference) > SLACK])
    size = float(np.abs(nonzero).sum())
    for parts in range(1, FINEST + 1):
        units = np.round(nonzero * parts)
        if size * parts <= MOST_UNITS and units.all() and (np.abs(nonzero * parts - units) < 1e-9).all():
            return units.astype(int), False
    units = np.round(nonzero / size * MOST_UNITS).astype(int)
    return units[units != 0], True


def flip_chances(sizes: Array, most: int, chance: float = 0.5) -> Array:
    """The probabilities of the sums 0, 1, ..., ``most`` of flipped sizes, by the shift algorithm (Streitberg and
    Roehmel 1986).

    For example, sizes of 1, 1 and 2 have 8 patterns. None flipped has the sum 0, two patterns have the sum 1, two have
    2, two have 3, and one has 4. So for ``most`` = 2 the result is 1/8, 2/8, 2/8.
    """
    chances = np.zeros(most + 1)
    chances[0] = 1.0
    for size in sizes:
        flipped = chance * chances[: max(0, most + 1 - size)]
        chances *= 1 - chance
        chances[size:] += flipped
    return chances


Family = Literal["report", "benchmark"]
"""Which tests `holm` corrects together: all of a report, or those of one benchmark with one model."""


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p-values adjusted for the number of tests (Holm 1979), in the same order, by statsmodels.

    If every test with an adjusted p-value of at most alpha counts as significant, the probability of any false positive
    is at most alpha. A test without a p-value (None) stays None and is not counted.

    Args:
        p_values: the p-value of each test; None if the test could not be made.

    Raises:
        UserError: statsmodels is not installed.
        ValueError: a p-value is outside [0, 1].
    """
    known = [p for p in p_values if p is not None]
    if not all(0 <= p <= 1 for p in known):
        raise ValueError("p-values must be numbers from 0 to 1")
    if not known:
        return list(p_values)
    adjusted = load_extra("statsmodels.stats.multitest").multipletests(known, method="holm")[1]
    remaining = iter(adjusted.tolist())
    return [None if p is None else next(remaining) for p in p_values]
