"""Figures that the papers S1 and S2 print agree with ours. `tests.evals.known` has the figures and names the papers."""

from __future__ import annotations

from typing import Any

import pytest
from moot.evals._stats.metrics import under_policies

from tests.evals.known import (
    S2_TABLE_3,
    S2_TABLE_5,
    SUPPORT,
    Check,
    checks,
    labels_and_outcomes,
)


@pytest.mark.parametrize("check", checks(), ids=lambda check: f"{check.source}: {check.what}")
def test_our_figures_agree_with_the_printed_figures(check: Check) -> None:
    assert check.agrees, check


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
