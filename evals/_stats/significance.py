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
Statistic = Callable[[Array], Array]
"""Computes the figure of each resample.

It takes an array of shape (resamples, items), and returns an array of shape (resamples,). An undefined figure is NaN.
"""

CONFIDENCE = 0.95
RESAMPLES = 2000
SEED = 20261120
BATCH = 200
"""Number of resamples drawn together; with 2,000 items, they need a few megabytes."""
ONE_GROUP = "one group"
"""The reason why there is no result if all items are in one group."""
FLIPS = 9999
"""Maximum number of sign patterns in a permutation test.

If more patterns are possible, this number of patterns is drawn at random. Otherwise the test uses all patterns and is
exact.
"""

DIGITS = 12
"""Number of decimals to which means of differences are rounded, so that values that differ only by errors of
floating-point arithmetic are ties."""
SLACK = 10.0**-DIGITS
"""Sums of differences up to this size count as 0, because they differ from 0 only by floating-point errors."""


@dataclass(frozen=True)
class Interval:
    """A figure and the ends of its interval.

    Attributes:
        value: the figure of all known items; None if the figure is undefined.
        low: the lower end; None if the value is None or there is no interval.
        high: the upper end; None if ``low`` is None.
        n: the number of known items.
        missing: the number of unknown items.
        undefined: the number of resamples in which the figure is undefined. The ends are computed without them.
        reason: why the value or the ends are None; empty if none of them is None, or if the reason is not stated.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    missing: int = 0
    undefined: int = 0
    reason: str = ""


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
) -> Interval:
    """The mean of several samples' figures with its bootstrap interval; each sample is resampled separately.

    Args:
        samples: the items of each sample.
        statistic: as for `bootstrap`.
        missing: the number of unknown items, which is only passed on to the result.
        confidence: as for `bootstrap`.
        resamples: as for `bootstrap`.
        seed: as for `bootstrap`.

    Returns:
        An interval without a value if there is no sample, a sample is empty, or a sample's figure is undefined. It has
        a value but no ends if every resample has an undefined figure.

    Raises:
        ValueError: as `bootstrap`.
    """
    if not 0 < confidence < 1 or resamples < 1:
        raise ValueError("an interval needs a confidence between 0 and 1, and at least one resample")
    given = [np.asarray(sample) for sample in samples]
    n = sum(map(len, given))
    if not given or not all(map(len, given)):
        return Interval(None, None, None, n, missing)
    value = float(np.mean([statistic(sample[None]) for sample in given]))
    if np.isnan(value):
        return Interval(None, None, None, n, missing)
    generator = np.random.default_rng(seed)
    figures = np.concatenate(
        [
            np.mean([statistic(s[generator.integers(len(s), size=(rows, len(s)))]) for s in given], axis=0)
            for rows in (min(BATCH, resamples - done) for done in range(0, resamples, BATCH))
        ]
    )
    defined = figures[~np.isnan(figures)]
    if not len(defined):
        return Interval(value, None, None, n, missing, resamples)
    tail = (1 - confidence) / 2
    low, high = np.quantile(defined, [tail, 1 - tail]).tolist()
    return Interval(value, low, high, n, missing, resamples - len(defined))


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
    """A two-sided test of whether two systems are equally good on the same items.

    Attributes:
        better: the number of items on which the first system is better.
        worse: the number of items on which the second system is better.
        p: the p-value; 1 if no item differs. None if no item is known for both systems, or if there are several items
            and all are in one group.
        n: the number of items that are known for both systems.
        missing: the number of all other items.
        name: the name of the test.
        groups: the number of groups of the n items; equal to n if each item is its own group.
        reason: why there is no p-value; empty if there is one.
    """

    better: int
    worse: int
    p: float | None
    n: int
    missing: int
    name: str
    groups: int = 0
    reason: str = ""


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
        p = float(tables.mcnemar(table, exact=exact, correction=True).pvalue) if ours + theirs else 1.0
    name = "McNemar, exact" if exact else "McNemar, chi-square"
    reason = "" if known else "no items"
    return PairedTest(ours, theirs, p, len(known), len(pairs) - len(known), name, len(known), reason)


def sign_flips(
    first: Sequence[float | None],
    second: Sequence[float | None],
    groups: Sequence[Hashable] | None = None,
    *,
    seed: int = SEED,
) -> PairedTest:
    """Test whether two systems have the same mean on the same items: a paired permutation test (Fisher 1935), by scipy.

    Under the null hypothesis each item's difference is equally likely to be positive or negative. If all values are 0
    or 1, each item is its own group, and all sign patterns are used, this is McNemar's exact test. Items of a group
    need not be independent: their differences change sign together (Winkler et al. 2015, whole-block exchangeability).
    So the p-value with G groups is at least 2 / 2^G.

    Args:
        first: the first system's value of each item, such as its mean over runs; None if the item is missing.
        second: the second system's values.
        groups: the group of each item; by default each item is its own group.
        seed: the seed of the generator that draws sign patterns, if more than `FLIPS` patterns are possible.

    Raises:
        UserError: scipy is not installed.
        ValueError: the lists have different lengths.
    """
    group_ids = range(len(first)) if groups is None else groups
    pairs = list(zip(first, second, group_ids, strict=True))
    known = [(a - b, group) for a, b, group in pairs if a is not None and b is not None]
    sums: dict[Hashable, list[float]] = {}
    for difference, group in known:
        sums.setdefault(group, []).append(difference)
    totals = [fsum(of_group) for of_group in sums.values()]
    nonzero = [total for total in totals if abs(total) > SLACK]  # a change of sign has no effect on a total of 0
    reason = ONE_GROUP if len(sums) == 1 < len(known) else "" if known else "no items"
    p = None if reason else 1.0
    if len(nonzero) > 1:
        found = load_extra("scipy.stats").permutation_test(
            (nonzero,),
            lambda drawn, axis: drawn.mean(axis=axis).round(DIGITS),
            permutation_type="samples",
            vectorized=True,
            n_resamples=FLIPS,
            batch=BATCH,
            rng=np.random.default_rng(seed),
        )
        p = float(found.pvalue)
    better, worse = (sum(sign * difference > 0 for difference, _ in known) for sign in (1, -1))
    test_name = "sign flips" if len(sums) == len(known) else "sign flips of groups"
    how = "exact" if 2 ** len(nonzero) <= FLIPS else f"{FLIPS:,} drawn"
    missing = len(pairs) - len(known)
    return PairedTest(better, worse, p, len(known), missing, f"{test_name}, {how}", len(sums), reason)


Family = Literal["report", "benchmark"]
"""Which tests `holm` corrects together: all of a report, or those of one benchmark with one model."""


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p-values adjusted for the number of tests (Holm 1979), in the same order.

    If every test with an adjusted p-value of at most alpha counts as significant, the probability of any false positive
    is at most alpha. A test without a p-value (None) stays None and is not counted.

    Args:
        p_values: the p-value of each test; None if the test could not be made.

    Raises:
        ValueError: a p-value is outside [0, 1].
    """
    known = [p for p in p_values if p is not None]
    if not all(0 <= p <= 1 for p in known):
        raise ValueError("p-values must be numbers from 0 to 1")
    if not known:
        return list(p_values)
    # Not done by statsmodels, because its function runs the garbage collector in each call.
    order = np.argsort(known)
    adjusted = np.empty(len(known))
    adjusted[order] = np.minimum(1, np.maximum.accumulate(np.array(known)[order] * np.arange(len(known), 0, -1)))
    remaining = iter(adjusted.tolist())
    return [None if p is None else next(remaining) for p in p_values]
