"""How many items it takes to tell two systems apart, before they are run.

Two designs: both systems on the same items, compared by the exact McNemar test, or each on items of its own, compared
by the test of two proportions. Paired items pay where both systems are right on much the same ones: what counts is the
share of discordant items, on which one alone is right. Tests are two-sided.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from moot.evals.stats.measures import package

ALPHA = 0.05
POWER = 0.8
MOST = 10**8
"""Items that are looked for at most."""
SLACK = 1e-9


def discordance(first: float, second: float) -> tuple[float, float, float]:
    """The share of discordant items that two accuracies allow: the least, that of independent errors, and the most.

    Raises:
        ValueError: an accuracy outside [0, 1].
    """
    if not (0 <= first <= 1 and 0 <= second <= 1):
        raise ValueError("an accuracy is a share from 0 to 1")
    independent = first * (1 - second) + second * (1 - first)
    return abs(first - second), independent, min(first + second, 2 - first - second)


def power(first: float, second: float, n: int, discordant: float | None = None, alpha: float = ALPHA) -> float:
    """The chance that a test of n items finds the difference of two systems significant, in [0, 1].

    Args:
        first: one system's accuracy, in [0, 1].
        second: the other's.
        n: items; for two samples, of each system.
        discordant: the share of items on which one system alone is right. It makes the design paired, and the power
            that of the exact McNemar test, summed over how many items are discordant. None: two samples, and
            statsmodels' power of the z-test.
        alpha: the level of significance.

    Raises:
        UserError: scipy or statsmodels is not installed.
        ValueError: no item, an alpha that is not between 0 and 1, or a share that the accuracies do not allow.
    """
    least, _, most = discordance(first, second)
    if n < 1 or not 0 < alpha < 1:
        raise ValueError("a test needs an item, and an alpha between 0 and 1")
    if discordant is None:
        # The formula divides by what the two accuracies vary, which is nothing where both are 0 or 1.
        a, b = (min(max(accuracy, SLACK), 1 - SLACK) for accuracy in (first, second))
        proportion = package("statsmodels.stats.proportion")
        return float(proportion.power_proportions_2indep(a - b, b, n, alpha=alpha, return_results=False))
    if not least - SLACK <= discordant <= most + SLACK:
        raise ValueError(f"accuracies of {first} and {second} allow discordant shares of {least:.4f} to {most:.4f}")
    if discordant <= 0:
        return 0.0
    return _mcnemar_power(min((discordant + first - second) / (2 * discordant), 1.0), discordant, n, alpha)


def _mcnemar_power(share: float, discordant: float, n: int, alpha: float) -> float:
    """Power where that share of the discordant items is the first system's alone."""
    binom = package("scipy.stats").binom
    spread = 10 * sqrt(n * discordant * (1 - discordant)) + 10  # what is further off has no weight
    middle = n * discordant
    counts = np.arange(max(0, int(middle - spread)), min(n, int(middle + spread)) + 1)
    fewest: Any = binom.ppf(alpha / 2, counts, 0.5)
    fewest = np.where(2 * binom.cdf(fewest, counts, 0.5) <= alpha, fewest, fewest - 1)
    found = binom.cdf(fewest, counts, share) + binom.sf(counts - fewest - 1, counts, share)
    return float(min(1.0, (binom.pmf(counts, n, discordant) * found).sum()))


def items_needed(
    first: float, second: float, discordant: float | None = None, target: float = POWER, alpha: float = ALPHA
) -> int | None:
    """The number of items (of each system, for two samples) with which `power` reaches a target.

    The power of an exact test goes up in small steps forth and back: with one item less it is below the target,
    but a few numbers smaller still may reach it too.

    Args:
        first: one system's accuracy.
        second: the other's.
        discordant: as for `power`.
        target: the power that is wanted.
        alpha: the level of significance.

    Returns:
        None where no number does: equal accuracies, or more than `MOST` items.

    Raises:
        UserError: scipy or statsmodels is not installed.
        ValueError: as `power`, or a target that is not between alpha and 1.
    """
    if not alpha < target < 1:
        raise ValueError("a power is a share between alpha and 1")
    enough = 1
    while power(first, second, enough, discordant, alpha) < target:
        enough *= 2
        if first == second or enough > MOST:
            return None
    few = enough // 2
    while enough - few > 1:
        middle = (few + enough) // 2
        if power(first, second, middle, discordant, alpha) < target:
            few = middle
        else:
            enough = middle
    return enough


def minimum_detectable_effect(
    accuracy: float, n: int, discordant: float | None = None, target: float = POWER, alpha: float = ALPHA
) -> float | None:
    """How much better than an accuracy a system must be for n items to show it with a power, in (0, 1].

    Args:
        accuracy: of the system that is to be beaten.
        n: items; for two samples, of each system.
        discordant: as for `power`; a difference is at most as large.
        target: the power that is wanted.
        alpha: the level of significance.

    Returns:
        None where n items would not show even the largest difference.

    Raises:
        UserError: scipy or statsmodels is not installed.
        ValueError: as `items_needed`.
    """
    if not alpha < target < 1:
        raise ValueError("a power is a share between alpha and 1")
    room = 1 - accuracy
    largest = room if discordant is None else min(room, discordant, 2 * room - discordant)

    def lacking(effect: float) -> float:
        return power(accuracy + effect, accuracy, n, discordant, alpha) - target

    if largest <= SLACK or lacking(largest) < 0:
        return None
    return float(package("scipy.optimize").brentq(lacking, min(SLACK, largest / 2), largest))


@dataclass(frozen=True)
class Design:
    """What n items can show in one design; ``discordant`` is None for two samples."""

    name: str
    discordant: float | None
    power: float
    items_needed: int | None
    detectable: float | None


@dataclass(frozen=True)
class Separation:
    """Whether n items can tell two accuracies apart.

    Attributes:
        difference: the first accuracy less the second.
        n: items.
        smallest_p: of the exact McNemar test, in the luckiest pairing that these accuracies allow on n items, in which
            all discordant items are the better system's. No other pairing has a smaller one.
        separable: whether that is significant: where it is not, n items with these accuracies never are.
        designs: two samples, and paired ones from the fewest discordant items to the most.
    """

    difference: float
    n: int
    smallest_p: float
    separable: bool
    designs: tuple[Design, ...]


def separation(
    first: float,
    second: float,
    n: int,
    discordant: float | None = None,
    target: float = POWER,
    alpha: float = ALPHA,
) -> Separation:
    """What n items can show of two systems' accuracies, in every design.

    Args:
        first: one system's accuracy, on n items or as it is expected.
        second: the other's.
        n: items; for two samples, of each system.
        discordant: a share that is known, from logs of both systems; it is added to the designs.
        target: the power that is wanted.
        alpha: the level of significance.

    Raises:
        UserError: scipy or statsmodels is not installed.
        ValueError: as `power` and `items_needed`.
    """
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
    apart = round(least * n)
    smallest = float(package("scipy.stats").binomtest(0, apart).pvalue) if apart else 1.0
    return Separation(first - second, n, smallest, smallest <= alpha, designs)
