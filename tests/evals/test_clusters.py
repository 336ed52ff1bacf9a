"""Statistics of grouped items agree with figures by hand and with statsmodels. Reports use the groups of their logs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import nan, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from moot.evals._report.scores import systems_table
from moot.evals._report.tests import differences_table
from moot.evals._stats.clusters import (
    ClusteredMean,
    cluster_bootstrap,
    clustered_mean,
    clustered_wilson,
    interval_of_equal,
)
from moot.evals._stats.measures import load_extra
from moot.evals._stats.significance import Interval, PairedTest, bootstrap, sign_flips, wilson

from tests.evals.made_logs import debate
from tests.evals.made_study import GOLD, R, S, records, study

approx: Any = pytest.approx


def mean_of(kinds: Sequence[float]) -> Any:
    """A function that computes the mean of each resample, from the counts of the values ``kinds`` in it."""
    values = np.array(kinds)
    return lambda counts: counts @ values / counts.sum(axis=1)


def test_the_standard_error_by_hand() -> None:
    # The mean is 3/5. The groups' sums minus (mean x size) are 0.8, -0.2 and -0.6. 3/2 x (0.64 + 0.04 + 0.36) is 1.56.
    # So se is sqrt(1.56) / 5, because there are five items.
    found = clustered_mean([[1.0, 1.0], [1.0, 0.0], [0.0]])
    assert found == ClusteredMean(approx(0.6), approx(sqrt(1.56) / 5), 5, 3)
    single = clustered_mean([[1.0], [1.0], [0.0], [0.0]])
    assert single.se == approx(sqrt(1 / 3) / 2)  # s / sqrt(n)


def test_a_statistic_that_cannot_be_computed_has_a_reason() -> None:
    assert clustered_mean([]) == ClusteredMean(None, None, 0, 0, "no items")
    assert clustered_mean([[1.0, 0.0]]) == ClusteredMean(0.5, None, 2, 1, "one group")
    assert clustered_mean([[1.0], [1.0]]) == ClusteredMean(1.0, None, 2, 2, "no spread")
    assert clustered_wilson([], missing=2) == Interval(None, None, None, 0, 2, reason="no items")
    assert clustered_wilson([[True, False]]) == Interval(0.5, None, None, 2, reason="one group")
    two_groups, two_items = clustered_wilson([[True, True], [True]]), wilson([True, True])
    assert (two_groups.low, two_groups.high, two_groups.n) == (two_items.low, two_items.high, 3)
    assert cluster_bootstrap([], mean_of, 1) == Interval(None, None, None, 0, 1, reason="no items")
    assert cluster_bootstrap([[1.0, 0.0]], mean_of) == Interval(0.5, None, None, 2, reason="one group")
    assert cluster_bootstrap([[1.0], [1.0]], mean_of) == Interval(1.0, None, None, 2, reason="no spread")
    undefined = cluster_bootstrap([[1.0], [0.0]], lambda kinds: lambda counts: np.full(len(counts), nan))
    assert undefined == Interval(None, None, None, 2, reason="undefined")
    assert sign_flips([1.0, 1.0], [0.0, 0.0], "aa").p is None
    assert sign_flips([1.0, 1.0], [0.0, 0.0], "aa").reason == "one group"


def tango(better: int, worse: int, n: int, difference: float) -> float:
    """Tango's score statistic of a paired difference (Statistics in Medicine 17, 1998, 891-908)."""
    b = (2 * n - better + worse) * difference - better - worse
    q = (sqrt(b**2 + 8 * n * worse * difference * (1 - difference)) - b) / (4 * n)
    return (better - worse - n * difference) / sqrt(n * (2 * q + difference * (1 - difference)))


def test_a_difference_that_is_the_same_on_every_item_has_tangos_interval() -> None:
    none, all_better, all_worse = (interval_of_equal(Interval(v, None, None, 30), 30) for v in (0.0, 1.0, -1.0))
    assert none.high is not None
    assert all_better.low is not None
    assert tango(0, 0, 30, none.high) == approx(-1.959964)
    assert tango(30, 0, 30, all_better.low) == approx(1.959964)
    assert (none.low, all_better.high, all_worse.low, all_worse.high) == (-none.high, 1, -1, -all_better.low)
    half = Interval(0.5, None, None, 30, reason="no spread")
    assert interval_of_equal(half, 30) == half


def test_the_bootstrap_draws_whole_groups() -> None:
    # One group has three items, the other has one. Half of the resamples have the mean 3/4, a quarter 1, a quarter 0.
    groups = [[1.0, 1.0, 1.0], [0.0]]
    found = cluster_bootstrap(groups, mean_of, missing=1)
    assert found == Interval(0.75, 0.0, 1.0, 4, 1)
    means = [np.mean(groups[a] + groups[b]) for a, b in itertools.product(range(2), repeat=2)]
    assert sorted(means) == [0.0, 0.75, 0.75, 1.0]
    generator = np.random.default_rng(7)
    many = [[float(x)] * 4 for x in generator.integers(0, 2, 100)]
    found, alone = cluster_bootstrap(many, mean_of), bootstrap([x for group in many for x in group])
    assert found.high is not None
    assert found.low is not None
    assert alone.high is not None
    assert alone.low is not None
    assert (found.high - found.low) / (alone.high - alone.low) == approx(2.0, rel=0.1)  # four equal items count as one
    assert (found.high - found.low) / 2 == approx(1.96 * (clustered_mean(many).se or 0), rel=0.1)


def test_wilson_uses_the_effective_number_of_items() -> None:
    # In 40 groups of two equal items, se² is that of 40 single items, p (1 - p) / 39. So the effective number of items
    # is 39 x (t(79) / t(39))².
    groups = [[i < 28] * 2 for i in range(40)]
    t = load_extra("scipy.stats").t
    effective = 0.7 * 0.3 / (clustered_mean(groups).se or 0) ** 2 * (t.ppf(0.975, 79) / t.ppf(0.975, 39)) ** 2
    assert effective == approx(39 * (1.99045 / 2.02269) ** 2, rel=1e-4)
    z, p = 1.959963984540054, 0.7
    middle, half = p + z * z / (2 * effective), z * sqrt(p * (1 - p) / effective + (z / (2 * effective)) ** 2)
    scale = 1 + z * z / effective
    assert clustered_wilson(groups) == Interval(
        approx(p), approx((middle - half) / scale), approx((middle + half) / scale), 80
    )
    opposed = clustered_wilson([[True, False]] * 30)  # the effective number is at most the number of items
    assert opposed == wilson([True, False] * 30)


def test_the_sign_test_flips_whole_groups() -> None:
    # The groups' sums are 2, 1, -1 and 0. Their sum is 2. Sign flips give 4, 2, 2, 0, 0, -2, -2 and -4. Six of these
    # eight are at least as far from 0 as 2.
    first, second = [1.0, 1.0, 1.0, 0.0, 0.5, None], [0.0, 0.0, 0.0, 1.0, 0.5, 1.0]
    found = sign_flips(first, second, "aabcdd")
    assert found == PairedTest(3, 1, approx(6 / 8), 5, 1, "sign flips of groups, exact", 4)
    together = sign_flips([1.0] * 8, [0.0] * 8, "aabbccdd")
    assert together.p == approx(2 / 2**4)  # for single items, it would be 2 / 2^8
    # Group a's differences cancel out, except for rounding.
    cancelled = sign_flips([1 / 3, 2 / 3, 1.0], [1.0, 0.0, 2 / 3], "aab")
    assert cancelled.p == approx(1.0)


def test_a_report_uses_the_groups_of_its_logs(tmp_path: Path) -> None:
    right, wrong = (
        {id: debate(answer) for id, answer in GOLD.items()},
        {id: debate(R if answer == S else S) for id, answer in GOLD.items()},
    )
    groups = dict(zip(GOLD, "aabbccdd", strict=True))
    made = study(tmp_path / "groups", a=(wrong, {"groups": groups}), b=(right, {}))
    row = records(differences_table(made))["b"]
    assert (row["better"], row["groups"], row["p"]) == (8, 4, approx(2 / 2**4))
    assert row["test"] == "sign flips of groups, exact"
    alone = records(differences_table(study(tmp_path / "alone", a=(wrong, {}), b=(right, {}))))["b"]
    assert (alone["p"], alone["test"]) == (approx(2 / 2**8), "McNemar, exact")
    half = right | {id: wrong[id] for id in "1256"}
    rows = records(systems_table(study(tmp_path / "half", a=(half, {"groups": groups}), b=(half, {}))))
    wide, narrow = rows["a"]["accuracy"], rows["b"]["accuracy"]
    assert wide.value == narrow.value == 0.5
    assert wide.high - wide.low > 1.2 * (narrow.high - narrow.low)
    together = study(tmp_path / "one", a=(half, {"groups": dict.fromkeys(GOLD, "x")}), b=(right, {}))
    assert records(systems_table(together))["a"]["accuracy"].reason == "one group"
    assert records(differences_table(together))["b"]["test"] == "not computable: one group"
