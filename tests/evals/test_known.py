"""Figures that the papers S1 and S2 print agree with ours. `tests.evals.known` has the figures and names the papers."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from moot.evals._stats.calibration import ks_stability
from moot.evals._stats.measures import load_extra
from moot.evals._stats.metrics import accuracy, macro_f1, under_policies
from moot.evals._stats.significance import wilson

from tests.conftest import SHARED
from tests.evals.known import (
    LABELS,
    S1_ACCURACY,
    S1_INTERVALS,
    S1_ITEMS,
    S1_TOLERANCE,
    S2_TABLE_3,
    S2_TABLE_5,
    SUPPORT,
    Check,
    checks,
    labels_and_outcomes,
)

approx: Any = pytest.approx
TABLES = SHARED / "data" / "known" / "proclaim_recovered_tables.json"
PAPERS = SHARED / "papers"
ROWS = {**S2_TABLE_3, **S2_TABLE_5}


@pytest.mark.parametrize("check", checks(), ids=lambda check: f"{check.source}: {check.what}")
def test_our_figures_agree_with_the_printed_figures(check: Check) -> None:
    assert check.agrees, check


def test_a_check_agrees_within_its_tolerance() -> None:
    assert not Check("", "", printed=0.8167, computed=0.8168, tolerance=0.00005).agrees
    assert Check("", "", printed=0.66, computed=0.65, tolerance=S1_TOLERANCE).agrees


def test_every_printed_figure_has_a_check() -> None:
    assert len(checks()) == 2 * len(S1_INTERVALS) + 2 * len(ROWS) == 30


def test_s1s_intervals_are_near_binomial_and_wilson_intervals() -> None:
    binom = load_extra("scipy.stats").binom
    for dataset, printed in S1_INTERVALS.items():
        share = S1_ACCURACY[dataset]["Tool-MAD"]
        # with more and more resamples, the ends of a bootstrap interval approach these quantiles
        ends = binom.ppf([0.025, 0.975], S1_ITEMS, share) / S1_ITEMS
        assert printed == approx(ends, abs=S1_TOLERANCE + 1e-9)
        right = round(S1_ITEMS * share)
        interval = wilson([True] * right + [False] * (S1_ITEMS - right))
        assert (interval.low, interval.high) == approx(printed, abs=0.015)


def test_accuracy_and_macro_f1_of_one_row_by_hand() -> None:
    gold, outcomes = labels_and_outcomes(S2_TABLE_3["run 2"])
    assert (len(gold), gold.count("REFUTE"), outcomes.count("REFUTE")) == (117, 62, 44)
    assert accuracy(gold, outcomes).value == (30 + 41) / 117
    assert macro_f1(gold, outcomes).value == approx((60 / (60 + 14 + 32) + 82 / (82 + 32 + 14)) / 2)


def test_the_policy_for_abstentions_decides_the_rank_of_standard_mad() -> None:
    found: dict[str, dict[str, Any]] = {}
    for name, row in S2_TABLE_5.items():
        scores = under_policies(*labels_and_outcomes(row), supported=SUPPORT)
        found[name] = {policy: score.value if score else None for policy, score in scores.items()}
    # of 120 outcomes, 32 + (54 - 28) are right, and 30 + 28 are abstentions
    standard_mad = found["standard MAD"]
    assert standard_mad == {
        "wrong": 58 / 120,
        "left_out": 58 / 62,
        "open_label": None,
        "burden_of_refutation": 86 / 120,
    }
    # The accuracy of standard MAD is the lowest under one policy, and the highest under another.
    assert all(standard_mad["wrong"] < other["wrong"] for name, other in found.items() if other is not standard_mad)
    assert all(
        standard_mad["left_out"] > other["left_out"] for name, other in found.items() if other is not standard_mad
    )


def test_the_differences_that_s2_prints_follow_from_its_tables() -> None:
    full = S2_TABLE_3["majority"].accuracy
    losses = {name: round(100 * (full - row.accuracy), 1) for name, row in S2_TABLE_5.items()}
    assert list(losses.values()) == [10.0, 4.2, 3.3, 7.5, 0.8]


def test_the_matrices_of_s2s_runs_add_up_to_the_printed_total() -> None:
    """The paper prints the same matrix for the majority of the runs and for run 1."""
    runs = [S2_TABLE_3[f"run {n}"].matrix for n in range(3)]
    total = tuple(tuple(sum(run[i][j] for run in runs) for j in (0, 1)) for i in (0, 1))
    assert total == S2_TABLE_3["weighted total"].matrix
    assert S2_TABLE_3["majority"].matrix == S2_TABLE_3["run 1"].matrix


@pytest.mark.skipif(not TABLES.is_file(), reason="the recovered tables (../shared/data/known) are not here")
def test_our_copy_of_s2s_tables_equals_the_authors_results() -> None:
    recovered: dict[str, Any] = json.loads(TABLES.read_text(encoding="utf-8"))
    theirs = {**recovered["table3_9_10"], **recovered["table5_13_ablations"]}
    assert len(theirs) == len(ROWS)
    for row, ours in zip(theirs.values(), ROWS.values(), strict=True):
        assert (row["acc"], row["mf1"]) == (ours.accuracy, ours.macro_f1)
        assert tuple(map(tuple, row["conf"])) == ours.matrix
        assert sum(map(sum, ours.matrix)) == row["n"]
        assert tuple(row["inconclusive"]) == ours.inconclusive if "inconclusive" in row else ours.inconclusive is None
    assert LABELS == ("REFUTE", "SUPPORT")


@pytest.mark.skipif(not TABLES.is_file(), reason="the recovered tables (../shared/data/known) are not here")
def test_some_values_that_s2_prints_as_ks_are_outside_the_range_of_ks() -> None:
    recovered = json.loads(TABLES.read_text(encoding="utf-8"))["table3_9_10"]
    printed = [d for row in recovered.values() for d in row.get("D", [])]
    assert max(printed) > 1
    assert min(printed) < 0
    distances = ks_stability([[0.0, 1.0], [0.1, 0.9]])
    assert distances[1].value == 1.0  # the largest possible value


@pytest.mark.skipif(not PAPERS.is_dir(), reason="the papers' text (../shared/papers) is not here")
def test_our_copy_of_s1s_tables_equals_the_papers_text() -> None:
    lines = (PAPERS / "S1.txt").read_text(encoding="utf-8").splitlines()
    for dataset, (low, high) in S1_INTERVALS.items():
        found = [line.split(" ", 2) for line in lines if re.fullmatch(r"\w+ 0\.\d+ \(0\.\d+, 0\.\d+\)", line)]
        assert [ends for name, _, ends in found if name.lower() == dataset.lower()] == [f"({low}, {high})"]
    for number, system in enumerate(("MADKE", "Tool-MAD")):
        printed = next(line for line in lines if line.startswith(f"+ {system} "))  # GPT-4o-mini's line is first
        ours = [f"{100 * figures[system]:.1f}" for figures in S1_ACCURACY.values()]
        assert printed.split()[2:6] == ours, number
