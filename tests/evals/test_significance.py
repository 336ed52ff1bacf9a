"""Intervals, tests and power, compared with figures worked out by hand, with scipy, and with simulations."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from dataclasses import astuple
from fractions import Fraction
from functools import partial
from math import comb, sqrt
from operator import mul
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.evals._report.comparison import System
from moot.evals._report.tests import flips_detectable_difference, mcnemar_detectable_difference
from moot.evals._stats.estimates import difference
from moot.evals._stats.observations import Observation
from moot.evals._stats.sample_size import discordance, items_needed, minimum_detectable_effect, power, separation
from moot.evals._stats.significance import (
    SMALLEST_P,
    Interval,
    PairedTest,
    bootstrap,
    flip_chances,
    holm,
    mcnemar,
    sign_flips,
    stratified_bootstrap,
    wilson,
)
from moot.retrievers import UserError

from tests.evals.known import S1_ACCURACY, S1_ITEMS

approx: Any = pytest.approx  # with the type Any, mypy accepts it in fields of type float


def first_right(wins: int, n: int) -> list[bool | None]:
    """Correctness of n items, of which the first ``wins`` are right."""
    return [i < wins for i in range(n)]


# --- intervals --------------------------------------------------------------------------------------------------------


def test_bootstrap_of_two_items_by_hand() -> None:
    # Half of the resamples have the mean 1/2. The means 0 and 1 have a quarter each.
    found = bootstrap([0.0, 1.0, None], confidence=0.9)
    assert found == Interval(0.5, 0.0, 1.0, 2, missing=1)
    assert bootstrap([0.0, 1.0], confidence=0.4) == Interval(0.5, 0.5, 0.5, 2)


def test_resamples_with_an_undefined_figure_are_left_out() -> None:
    found = bootstrap([1, 2], lambda drawn: np.where((drawn == 1).all(axis=1), np.nan, 1.0), resamples=400)
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)
    assert found.undefined == approx(100, abs=40)  # a quarter of 400
    assert bootstrap([1, 2], lambda drawn: np.full(len(drawn), np.nan)) == Interval(None, None, None, 2)


def test_a_stratified_bootstrap_resamples_each_sample_separately() -> None:
    single, both = bootstrap([0.0, 1.0] * 50), stratified_bootstrap([[0.0, 1.0] * 50, [1.0] * 9], missing=2)
    assert (both.value, both.n, both.missing) == (0.75, 109, 2)
    assert single.low is not None
    assert single.high is not None
    assert (both.low, both.high) == approx((0.5 + single.low / 2, 0.5 + single.high / 2), abs=0.03)
    assert stratified_bootstrap([[1.0], []]) == Interval(None, None, None, 1)
    assert stratified_bootstrap([]) == Interval(None, None, None, 0)


def bootstrap_difference(*systems: Sequence[float | None]) -> Interval:
    """The mean difference of two systems' scores, with its interval. A missing score is None."""
    items = [
        {str(i): Observation(str(i), ("x",), outcome="x", scores={"accuracy": one}) for i, one in enumerate(scores)}
        for scores in systems
    ]
    first, second = (System("", (of_one,)) for of_one in items)
    return difference(first, second, "accuracy", list(items[0]))


def test_the_paired_bootstrap_uses_items_known_for_both_systems() -> None:
    first, second = [1.0, 1.0, 0.0, 1.0, None, 1.0], [0.0, 1.0, 0.0, 1.0, 1.0, None]
    found = bootstrap_difference(first, second)
    assert found.value == 0.25
    assert (found.low, found.n, found.missing) == (0.0, 4, 2)
    same = bootstrap_difference(first, first)  # a system does not differ from itself on any item
    assert same == Interval(0.0, approx(-0.4345, abs=1e-4), approx(0.4345, abs=1e-4), 5, missing=1)  # Tango's


def test_wilson_interval_by_hand() -> None:
    z, p, n = 1.959963984540054, 0.73, 200
    middle, half = p + z * z / (2 * n), z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = ((middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n))
    assert wilson([*first_right(146, 200), None]) == Interval(p, approx(low), approx(high), 200, missing=1)
    all_right = wilson([True] * 10)  # the bootstrap's interval would have no width
    assert all_right == Interval(1.0, approx(10 / (10 + z * z)), approx(1.0), 10)
    assert wilson([None, None]) == Interval(None, None, None, 0, missing=2)


# --- tests ------------------------------------------------------------------------------------------------------------


def pairs(both: int, first: int, second: int, neither: int) -> tuple[list[bool | None], list[bool | None]]:
    """Correctness of two systems. Each argument is a number of items; its name says which systems are right on them.

    There is one more item, which is missing for the first system.
    """
    ours = [True] * (both + first) + [False] * (second + neither)
    theirs = [True] * both + [False] * first + [True] * second + [False] * neither
    return [*ours, None], [*theirs, True]


def test_mcnemar_by_hand() -> None:
    exact = 2 * (comb(10, 0) + comb(10, 1) + comb(10, 2)) / 2**10
    assert mcnemar(*pairs(5, 8, 2, 5)) == PairedTest(8, 2, approx(exact), 20, 1, "McNemar, exact", 20)
    # (|8 - 2| - 1)² / 10 = 2.5, whose chi-square tail at one degree of freedom is 0.1138
    assert mcnemar(*pairs(5, 8, 2, 5), exact=False).p == approx(0.11385, abs=1e-5)
    assert mcnemar(*pairs(5, 2, 8, 5)).p == approx(exact)
    many = pairs(100, 230, 180, 50)
    assert mcnemar(*many).p == approx(mcnemar(*many, exact=False).p, rel=0.02)


@pytest.mark.parametrize("test", [mcnemar, partial(mcnemar, exact=False), sign_flips])
def test_paired_tests_accept_zero_or_one_discordant_items(test: Any) -> None:
    def numbers_of(first: list[Any], second: list[Any]) -> tuple[Any, ...]:
        return astuple(test(first, second))[:-3]

    assert numbers_of([True, False], [True, False]) == (0, 0, 1.0, 2, 0)
    assert numbers_of([None], [True]) == (0, 0, None, 0, 1)
    assert test([], []).p is None
    assert test([], []).reason == "no items"
    assert numbers_of([True], [False]) == (1, 0, approx(1.0), 1, 0)
    with pytest.raises(ValueError, match="shorter"):
        test([True], [])


@pytest.mark.parametrize(("first", "second"), [(8, 2), (1, 9), (3, 3), (12, 0), (1, 0)])
def test_the_sign_flip_test_of_single_runs_equals_the_mcnemar_test(first: int, second: int) -> None:
    found, exact = sign_flips(*pairs(5, first, second, 5)), mcnemar(*pairs(5, first, second, 5))
    assert found.p == approx(exact.p)
    assert (found.better, found.worse, found.n, found.missing) == (first, second, exact.n, 1)
    assert found.name == "sign flips, exact"


def test_the_sign_flip_test_of_means_over_runs_by_hand() -> None:
    # The differences 1, 1/2, -1/2 add up to 1. With all patterns of signs, the sums are 2, 1, 1, 0, 0, -1, -1, -2.
    # Six of these eight sums are at least as far from 0 as 1 is.
    found = sign_flips([1.0, 1.0, 0.0, 0.5, None], [0.0, 0.5, 0.5, 0.5, 1.0])
    assert found == PairedTest(2, 1, approx(2 * 3 / 8), 4, 1, "sign flips, exact", 4)
    with pytest.raises(ValueError, match="finite"):
        sign_flips([float("nan"), 1.0], [0.0, 0.0])


def test_the_distribution_of_flipped_sizes_by_hand() -> None:
    # Sizes of 1, 1 and 2. With a chance of 1/4, none is flipped in 27/64, one of the two ones in 2 x 9/64, and 2 comes
    # from the size 2 (9/64) or from both ones (3/64).
    assert flip_chances(np.array([1, 1, 2]), 2).tolist() == [1 / 8, 2 / 8, 2 / 8]
    assert flip_chances(np.array([1, 1, 2]), 2, 1 / 4) == approx([27 / 64, 18 / 64, 12 / 64])
    assert flip_chances(np.array([7]), 2).tolist() == [1 / 2, 0, 0]


@given(st.data(), st.integers(1, 12), st.integers(1, 12))
def test_p_values_of_unequal_numbers_of_runs_cover_all_sign_patterns(
    data: st.DataObject, ours: int, theirs: int
) -> None:
    counts = st.tuples(st.integers(0, ours), st.integers(0, theirs), st.integers(0, 4))
    items = data.draw(st.lists(counts, min_size=2, max_size=9).filter(lambda items: len({g for *_, g in items}) > 1))
    totals: dict[int, Fraction] = {}
    for a, b, group in items:
        totals[group] = totals.get(group, Fraction()) + Fraction(a, ours) - Fraction(b, theirs)
    flipped = [abs(sum(map(mul, totals.values(), signs))) for signs in itertools.product((1, -1), repeat=len(totals))]
    expected = np.mean([total >= abs(sum(totals.values())) for total in flipped])
    found = sign_flips([a / ours for a, *_ in items], [b / theirs for _, b, _ in items], [group for *_, group in items])
    assert found.p == approx(expected, rel=1e-9)


def test_no_p_value_is_rounded_to_0() -> None:
    assert SMALLEST_P > 0
    won: tuple[Any, Any] = [True] * 4000, [False] * 4000
    assert [sign_flips(*won).p, mcnemar(*won).p, mcnemar(*won, exact=False).p] == [SMALLEST_P] * 3
    assert separation(0.9, 0.1, 4000).smallest_p == SMALLEST_P
    assert separation(0.9, 0.1, 50).smallest_p == 2.0**-39


@pytest.mark.parametrize("count", [3, 20])
def test_sums_that_differ_only_by_rounding_are_ties(count: int) -> None:
    """The differences add up to 0, so each pattern of signs has a sum at least as far from 0."""
    thirds = [1 / 3, 1 / 3, -2 / 3]
    assert sign_flips(thirds * count, [0.0] * 3 * count).p == 1


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == approx([0.03, 0.06, 0.06])
    assert holm([0.01, None, 0.04]) == [approx(0.02), None, approx(0.04)]
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
    assert holm([None]) == [None]
    with pytest.raises(ValueError, match="from 0 to 1"):
        holm([1.2])


# --- power ------------------------------------------------------------------------------------------------------------


def test_discordance_by_hand() -> None:
    assert discordance(0.73, 0.72) == approx((0.01, 0.73 * 0.28 + 0.72 * 0.27, 0.55))
    assert discordance(0.2, 0.3) == approx((0.1, 0.2 * 0.7 + 0.3 * 0.8, 0.5))
    with pytest.raises(ValueError, match="between 0 and 1"):
        discordance(73, 72)


def test_power_of_mcnemars_test_by_hand() -> None:
    # All 8 items are discordant. 8 : 0 and 7 : 1 have p = 2/256 and 18/256, so only 8 : 0 and 0 : 8 are significant.
    assert power(0.9, 0.1, 8, 1.0) == approx(0.9**8 + 0.1**8)
    assert power(0.9, 0.1, 5, 1.0) == 0.0  # 5 : 0 has p = 0.0625
    assert power(0.5, 0.5, 40, 0.0) == 0.0
    assert power(0.8, 0.7, 3000, 0.3) == approx(1.0)


def test_power_of_two_samples_agrees_with_a_textbook() -> None:
    # An example of Fleiss, without a continuity correction: to tell the accuracies 0.6 and 0.5 apart with a power of
    # 0.8, each system needs 388 items.
    by_hand = 1.959964 * sqrt(2 * 0.55 * 0.45) + 0.841621 * sqrt(0.6 * 0.4 + 0.5 * 0.5)
    assert items_needed(0.6, 0.5) == approx((by_hand / 0.1) ** 2, abs=1) == approx(388, abs=1)
    assert power(0.5, 0.5, 100) == approx(0.05)
    assert power(1.0, 0.0, 5) == approx(1.0)


@pytest.mark.parametrize("discordant", [None, 0.2])
def test_the_number_of_items_needed_reaches_the_target_power(discordant: float | None) -> None:
    needed = items_needed(0.8, 0.7, discordant)
    assert needed is not None
    assert power(0.8, 0.7, needed, discordant) >= 0.8 > power(0.8, 0.7, needed - 1, discordant)
    assert items_needed(0.7, 0.8, discordant) == needed
    assert items_needed(0.7, 0.7, discordant) is None
    assert items_needed(0.7 + 1e-6, 0.7) is None  # it would take more items than any benchmark has


@pytest.mark.parametrize(("n", "discordant"), [(200, None), (200, 0.3), (1000, 0.1)])
def test_the_minimum_detectable_effect_has_the_target_power(n: int, discordant: float | None) -> None:
    effect = minimum_detectable_effect(0.6, n, discordant)
    assert effect is not None
    assert power(0.6 + effect, 0.6, n, discordant) == approx(0.8, abs=1e-6)
    more = minimum_detectable_effect(0.6, 4 * n, discordant)
    assert more is not None
    assert effect / 2.3 < more < effect / 1.7  # with four times the items, half the difference is detectable


def test_no_effect_is_detectable_if_the_largest_gain_is_too_small() -> None:
    assert minimum_detectable_effect(0.99, 50) is None
    assert minimum_detectable_effect(1.0, 50) is None
    assert minimum_detectable_effect(0.6, 100, 0.05) is None


@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_the_detectable_mean_difference_is_that_of_the_sign_flip_test(alpha: float) -> None:
    sizes = [1.0, 1.0, 0.5, 1.0, 0.5, 1.0, 0.75, 1.0, 0.25, 1.0]
    found = flips_detectable_difference([[size] for size in sizes] + [[0.0]] * 5, alpha)
    assert isinstance(found, float)
    better = (1 + found * 15 / sum(sizes)) / 2  # the probability that a difference favours the better system
    found_power = 0.0
    for signs in itertools.product((1, -1), repeat=len(sizes)):
        values = list(map(mul, sizes, signs))
        p = sign_flips(values, [0.0] * len(values)).p
        assert p is not None
        if p <= alpha and sum(values) > 0:
            found_power += better ** signs.count(1) * (1 - better) ** signs.count(-1)
    assert found_power == approx(0.8, abs=1e-3)


@pytest.mark.parametrize("tests", [1, 255])
@pytest.mark.parametrize("n", [1, 5, 6, 7, 17, 18])
def test_no_difference_is_detectable_only_if_the_largest_is_not_significant(n: int, tests: int) -> None:
    alpha, largest = 0.05 / tests, sign_flips([1.0] * n, [0.0] * n).p
    assert largest is not None
    for wins in (0, n // 2, n):
        once = mcnemar_detectable_difference(mcnemar(first_right(wins, n), [False] * n), alpha)
        groups = flips_detectable_difference([[float(i < wins)] * 3 for i in range(n)], alpha)
        assert (once == "none", groups == "none") == (largest > alpha, largest > alpha)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.73, 0.72, 0), "one item"),
        ((0.73, 0.72, 9, None, 1.5), "alpha"),
        ((0.73, 0.72, 9, 0.005), "allow discordant shares of 0.0100 to 0.5500"),
        ((0.73, 0.72, 9, 0.6), "allow discordant"),
        ((1.2, 0.72, 9), "between 0 and 1"),
    ],
)
def test_invalid_arguments_of_power_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        power(*arguments)


def test_200_items_cannot_separate_tool_mad_from_madke_on_fever() -> None:
    fever = S1_ACCURACY["FEVER"]
    found = separation(fever["Tool-MAD"], fever["MADKE"], S1_ITEMS)
    # Tool-MAD is right on 146 items, MADKE on 144. In the best case, only two items are discordant, and Tool-MAD is
    # right on both.
    assert (found.difference, found.smallest_p, found.separable) == (approx(0.01), 0.5, False)
    best = [mcnemar(*pairs(144 - lost, 2 + lost, lost, 54 - lost)) for lost in range(54)]
    assert all(test.p is not None and test.p >= 0.5 and test.n == 200 for test in best)
    assert max(design.power for design in found.designs) < 0.06
    needed = {design.name: design.items_needed for design in found.designs}
    assert needed == {
        "two samples": 31297,
        "paired, fewest discordant": 790,
        "paired, independent errors": 31496,
        "paired, most discordant": 43366,
    }
    assert min(design.detectable or 1 for design in found.designs) > 0.11


def test_the_error_names_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "statsmodels"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "statsmodels", None)
    calls: list[Any] = [lambda: wilson([True]), lambda: power(0.6, 0.5, 9)]
    for call in calls:
        with pytest.raises(
            UserError, match="Measuring needs the package statsmodels.*(make setup|pip install)"
        ) as caught:
            call()
        assert caught.value.kind == "missing_package"
