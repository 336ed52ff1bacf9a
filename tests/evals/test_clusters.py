"""Statistics of grouped items agree with figures by hand and with statsmodels. Reports use the groups of their logs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import nan, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moot.evals._report.scores import systems_table
from moot.evals._report.tests import differences_table
from moot.evals._stats.clusters import ClusteredMean, by_group, cluster_bootstrap, clustered_mean, clustered_wilson
from moot.evals._stats.measures import load_extra
from moot.evals._stats.significance import Interval, PairedTest, bootstrap, sign_flips, wilson

from tests.evals.made_logs import debate
from tests.evals.made_study import GOLD, R, S, records, study

approx: Any = pytest.approx
GROUPS = st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=4), min_size=2, max_size=8)


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


@settings(deadline=None, max_examples=30)  # the first call imports statsmodels
@given(GROUPS)
def test_the_standard_error_equals_that_of_statsmodels(groups: list[list[float]]) -> None:
    values = [value for group in groups for value in group]
    which = [i for i, group in enumerate(groups) for _ in group]
    found = clustered_mean(groups)
    if len(set(values)) == 1:
        assert (found.se, found.reason) == (None, "no spread")
        return
    fitted = load_extra("statsmodels.api").OLS(values, np.ones(len(values)))
    theirs = fitted.fit(cov_type="cluster", cov_kwds={"groups": which, "use_correction": True})
    assert (found.value, found.se) == approx((theirs.params[0], theirs.bse[0]), abs=1e-12)


def test_a_statistic_that_cannot_be_computed_has_a_reason() -> None:
    assert clustered_mean([]) == ClusteredMean(None, None, 0, 0, "no items")
    assert clustered_mean([[1.0, 0.0]]) == ClusteredMean(0.5, None, 2, 1, "one group")
    assert clustered_mean([[1.0], [1.0]]) == ClusteredMean(1.0, None, 2, 2, "no spread")
    assert clustered_wilson([], missing=2) == Interval(None, None, None, 0, 2, reason="no items")
    assert clustered_wilson([[True, False]]) == Interval(0.5, None, None, 2, reason="one group")
    assert clustered_wilson([[True, True], [True]]) == Interval(1.0, None, None, 3, reason="no spread")
    assert cluster_bootstrap([], mean_of, 1) == Interval(None, None, None, 0, 1, reason="no items")
    assert cluster_bootstrap([[1.0, 0.0]], mean_of) == Interval(0.5, None, None, 2, reason="one group")
    assert cluster_bootstrap([[1.0], [1.0]], mean_of) == Interval(1.0, None, None, 2, reason="no spread")
    undefined = cluster_bootstrap([[1.0], [0.0]], lambda kinds: lambda counts: np.full(len(counts), nan))
    assert undefined == Interval(None, None, None, 2, reason="undefined")
    assert sign_flips([1.0, 1.0], [0.0, 0.0], "aa").p is None
    assert sign_flips([1.0, 1.0], [0.0, 0.0], "aa").reason == "one group"


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


@settings(max_examples=20)
@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=12))
def test_intervals_with_one_item_per_group_equal_those_without_groups(values: list[float]) -> None:
    """There is one exception: if all values are equal, `cluster_bootstrap` gives an interval without ends."""
    found, alone = cluster_bootstrap([[value] for value in values], mean_of), bootstrap(values)
    assert found.value == approx(alone.value)
    if found.low is None:
        assert len(set(values)) == 1
    else:
        assert (found.low, found.high) == approx((alone.low, alone.high))
    right = [value == 1 for value in values]
    assert clustered_wilson([[item] for item in right]) == wilson(right)


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


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3)), min_size=2, max_size=10))
def test_the_sign_test_of_groups_covers_all_sign_patterns(items: list[tuple[int, int]]) -> None:
    groups = by_group([group for _, group in items], [float(value) for value, _ in items])
    found = sign_flips([float(value) for value, _ in items], [0.0] * len(items), [group for _, group in items])
    if len(groups) == 1:
        assert found.p is None
        return
    sums = [sum(group) for group in groups]
    flipped = [
        abs(sum(s * sign for s, sign in zip(sums, signs, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(sums))
    ]
    assert found.p == approx(np.mean([total >= abs(sum(sums)) for total in flipped]))


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
    wide, narrow = rows["a"]["wilson"], rows["b"]["wilson"]
    assert wide.value == narrow.value == 0.5
    assert wide.high - wide.low > 1.2 * (narrow.high - narrow.low)
    together = study(tmp_path / "one", a=(half, {"groups": dict.fromkeys(GOLD, "x")}), b=(right, {}))
    assert records(systems_table(together))["a"]["accuracy"].reason == "one group"
    assert records(differences_table(together))["b"]["test"] == "not computable: one group"
