"""The number of items needed to distinguish two systems, computed before the systems run.

In a paired design, both systems answer the same items, and the exact McNemar test compares them. In a design of two
samples, each system has its own items, and the test of two proportions compares them. The power of a paired design
depends on the share of discordant items, on which only one system is right. For equal differences of accuracies, fewer
discordant items mean more power. Tests are two-sided.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from moot.evals._stats.measures import load_extra
from moot.evals._stats.significance import SMALLEST_P

ALPHA = 0.05
POWER = 0.8
MOST_ITEMS = 10**8
"""`items_needed` tries no larger number of items."""
SLACK = 1e-9
"""Tolerance for rounding."""


def discordance(first: float, second: float) -> tuple[float, float, float]:
    """The least share of discordant items for two accuracies, that of independent errors, and the greatest."""
    if not (0 <= first <= 1 and 0 <= second <= 1):
        raise ValueError("accuracies must be between 0 and 1")
    independent = first * (1 - second) + second * (1 - first)
    return abs(first - second), independent, min(first + second, 2 - first - second)


def power(first: float, second: float, n: int, discordant: float | None = None, alpha: float = ALPHA) -> float:
    """The probability that a test of n items finds the difference of two systems significant, in [0, 1].

    Args:
        first: one system's accuracy, in [0, 1].
        second: the other system's accuracy.
        n: the number of items; for two samples, the number of each system's items.
        discordant: the share of items on which only one system is right. If given, the design is paired, and the power
            is that of the exact McNemar test, averaged over the possible numbers of discordant items. If None, each
            system has its own sample, and the power is that of the z-test, by statsmodels.
        alpha: the level of significance.

    Raises:
        UserError: scipy or statsmodels is not installed.
        ValueError: there is no item, an accuracy is outside [0, 1], alpha is outside (0, 1), or the two accuracies do
            not allow this share of discordant items.
    """
    least, _, most = discordance(first, second)
    if n < 1 or not 0 < alpha < 1:
        raise ValueError("a test needs at least one item, and an alpha between 0 and 1")
    if discordant is None:
        # The formula divides by the variance of the two accuracies, which is 0 if both are 0 or 1.
        a, b = (min(max(accuracy, SLACK), 1 - SLACK) for accuracy in (first, second))
        proportion = load_extra("statsmodels.stats.proportion")
        return float(proportion.power_proportions_2indep(a - b, b, n, alpha=alpha, return_results=False))
    if not least - SLACK <= discordant <= most + SLACK:
        raise ValueError(f"accuracies of {first} and {second} allow discordant shares of {least:.4f} to {most:.4f}")
    if discordant <= 0:
        return 0.0
    return _mcnemar_power(min((discordant + first - second) / (2 * discordant), 1.0), discordant, n, alpha)


def _mcnemar_power(share: float, discordant: float, n: int, alpha: float) -> float:
    """Power of the exact McNemar test if the first system is right on this share of the discordant items."""
    binom = load_extra("scipy.stats").binom
    spread = 10 * sqrt(n * discordant * (1 - discordant)) + 10  # counts further from the mean have almost no weight
    middle = n * discordant
    counts = np.arange(max(0, int(middle - spread)), min(n, int(middle + spread)) + 1)
    # The test is significant if one of the systems is right on at most `critical` of the discordant items.
    critical: Any = binom.ppf(alpha / 2, counts, 0.5)
    critical = np.where(2 * binom.cdf(critical, counts, 0.5) <= alpha, critical, critical - 1)
    significant = binom.cdf(critical, counts, share) + binom.sf(counts - critical - 1, counts, share)
    return float(min(1.0, (binom.pmf(counts, n, discordant) * significant).sum()))


def items_needed(
    first: float, second: float, discordant: float | None = None, target: float = POWER, alpha: float = ALPHA
) -> int | None:
    """The number of items (of each system, for two samples) with which `power` reaches a target.

    One item fewer does not reach the target. But the power of an exact test does not rise monotonically, so even
    smaller numbers of items may reach the target.

    None if the accuracies are equal, or if none of the numbers 1, 2, 4, 8, ... up to `MOST_ITEMS` reaches the target.
    """
    if not alpha < target < 1:
        raise ValueError("the required power must be between alpha and 1")
    upper = 1
    while power(first, second, upper, discordant, alpha) < target:
        upper *= 2
        if first == second or upper > MOST_ITEMS:
            return None
    lower = upper // 2
    while upper - lower > 1:
        middle = (lower + upper) // 2
        if power(first, second, middle, discordant, alpha) < target:
            lower = middle
        else:
            upper = middle
    return upper


def minimum_detectable_effect(
    accuracy: float, n: int, discordant: float | None = None, target: float = POWER, alpha: float = ALPHA
) -> float | None:
    """The smallest gain over an accuracy that a test of n items finds significant with a given power, in (0, 1].

    Args:
        accuracy: the accuracy of the baseline.
        n: the number of items, as for `power`.
        discordant: as for `power`; the gain cannot be larger than this share, nor so small that the accuracies do not
            allow this share.
        target: the required power.
        alpha: the level of significance.

    Returns:
        None if a test of n items does not have this power even for the largest possible gain, or if no gain is
        possible.

    Raises:
        UserError: scipy or statsmodels is not installed.
        ValueError: as `items_needed`. If no gain is possible, only the target is checked.
    """
    if not alpha < target < 1:
        raise ValueError("the required power must be between alpha and 1")
    room = 1 - accuracy
    largest = room if discordant is None else min(room, discordant, 2 * room - discordant)
    # a small baseline does not allow a large share of discordant items without a gain
    smallest = max(min(SLACK, largest / 2), 0 if discordant is None else discordant - 2 * accuracy)

    def power_gap(effect: float) -> float:
        return power(accuracy + effect, accuracy, n, discordant, alpha) - target

    if largest <= SLACK or power_gap(largest) < 0:
        return None
    if power_gap(smallest) >= 0:
        return smallest
    return float(load_extra("scipy.optimize").brentq(power_gap, smallest, largest))


@dataclass(frozen=True)
class Design:
    """A design, with results for two accuracies and n items.

    ``discordant``: the share of discordant items; None for two samples. ``power``: the power of a test of n items.
    ``items_needed``: the result of `items_needed`. ``detectable``: the smallest gain over the second accuracy
    (`minimum_detectable_effect`).
    """

    name: str
    discordant: float | None
    power: float
    items_needed: int | None
    detectable: float | None


@dataclass(frozen=True)
class Separation:
    """Whether n items can distinguish two accuracies."""

    difference: float
    """The first accuracy minus the second."""
    n: int
    """The number of items."""
    smallest_p: float
    """The smallest p-value of the exact McNemar test that these accuracies allow on n items. It occurs if the better
    system is right on all discordant items."""
    separable: bool
    """Whether the smallest p-value is significant; if not, this test of n items with these accuracies is never
    significant."""
    designs: tuple[Design, ...]
    """First the design of two samples; then three paired designs: with the fewest discordant items, with independent
    errors, and with the most discordant items. If a share of discordant items is given, a paired design with this share
    comes last."""


def separation(
    first: float,
    second: float,
    n: int,
    discordant: float | None = None,
    target: float = POWER,
    alpha: float = ALPHA,
) -> Separation:
    """Whether n items can distinguish two systems' accuracies, in each of several designs (`Separation.designs`)."""
    least, independent, most = discordance(first, second)
    shares = {"two samples": None, "paired, fewest discordant": least, "paired, independent errors": independent}
    shares |= {"paired, most discordant": most} | ({} if discordant is None else {"paired, as given": discordant})
    designs = tuple(
        Design(
            name,
            share,
            power(first, second, n, share, alpha),
            items_needed(first, second, share, target, alpha),
            minimum_detectable_effect(second, n, share, target, alpha),
        )
        for name, share in shares.items()
    )
    n_discordant = round(least * n)
    smallest = max(2.0 ** (1 - n_discordant), SMALLEST_P) if n_discordant else 1.0
    return Separation(first - second, n, smallest, smallest <= alpha, designs)
