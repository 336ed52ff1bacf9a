"""Measures of confidences (calibration, risk-coverage, stability) agree with figures by hand and with scikit-learn."""

from __future__ import annotations

from typing import Any

import pytest
from moot.evals._stats.calibration import (
    Bin,
    RiskPoint,
    brier_score,
    ece,
    ks_stability,
    reliability_bins,
    risk_coverage,
)
from moot.evals._stats.outcomes import Score

approx: Any = pytest.approx  # Any, so that mypy accepts it in fields of type float
CONFIDENCES = [0.95, 0.95, 0.55, 0.6, 0.0, None, 0.7]
CORRECT = [True, False, True, True, False, True, None]
"""Five items have both a confidence and a judgement. Three are right: 0.55, 0.6, and one of the two with 0.95."""


# --- calibration ------------------------------------------------------------------------------------------------------


def test_bins_of_equal_width_by_hand() -> None:
    bins = reliability_bins(CONFIDENCES, CORRECT)
    assert [b.n for b in bins] == [1, 0, 0, 0, 0, 2, 0, 0, 0, 2]
    assert bins[0] == Bin(0.0, 0.1, 1, 0.0, 0.0)
    assert bins[1] == Bin(0.1, 0.2, 0, None, None)
    assert bins[5] == Bin(0.5, approx(0.6), 2, approx(0.575), 1.0)
    assert bins[9] == Bin(0.9, 1.0, 2, approx(0.95), 0.5)


def test_bins_of_equal_mass_by_hand() -> None:
    bins = reliability_bins([0.1, 0.2, 0.3, 0.8], [False, False, True, True], 2, mass=True)
    assert bins == [Bin(0.1, 0.25, 2, approx(0.15), 0.0), Bin(0.25, 0.8, 2, approx(0.55), 1.0)]
    together = reliability_bins([0.5, 0.5, 0.5, 0.9], [True, False, True, True], 4, mass=True)
    assert [(b.n, b.accuracy) for b in together] == [(3, approx(2 / 3)), (1, 1.0)]


def test_ece_by_hand() -> None:
    by_hand = (1 * 0 + 2 * (1 - 0.575) + 2 * (0.95 - 0.5)) / 5
    assert ece(CONFIDENCES, CORRECT) == Score(approx(by_hand), 5, missing=1, left_out=1)
    assert ece([0.1, 0.2, 0.3, 0.8], [False, False, True, True], 2, mass=True).value == approx(0.15 / 2 + 0.45 / 2)
    assert ece([1.0, 0.0], [True, False]).value == 0.0
    assert ece([1.0, 0.0], [False, True]).value == 1.0


def test_brier_score_by_hand() -> None:
    by_hand = (0.05**2 + 0.95**2 + 0.45**2 + 0.4**2 + 0) / 5
    assert brier_score(CONFIDENCES, CORRECT) == Score(approx(by_hand), 5, missing=1, left_out=1)
    assert brier_score([0.5, 0.5], [True, False]).value == 0.25


def test_without_confidences_all_measures_are_none_or_empty() -> None:
    nothing = Score(None, 0, missing=1, left_out=2)
    assert ece([None] * 3, [True, None, False]) == brier_score([None] * 3, [True, None, False]) == nothing
    assert risk_coverage([None] * 3, [True, None, False]) == ([], nothing)
    assert reliability_bins([None], [True]) == []
    assert ece([], []) == Score(None, 0)


# --- risk and coverage ------------------------------------------------------------------------------------------------


def test_risk_coverage_by_hand() -> None:
    points, area = risk_coverage([0.6, 0.9, None, 0.8, 0.7, 0.5], [False, True, True, False, True, None])
    assert points == [
        RiskPoint(0.9, 1 / 4, 0.0),
        RiskPoint(0.8, 2 / 4, 1 / 2),
        RiskPoint(0.7, 3 / 4, approx(1 / 3)),
        RiskPoint(0.6, 1.0, 1 / 2),
    ]
    assert area == Score(approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4), 4, missing=1, left_out=1)


def test_risk_coverage_of_equal_confidences_by_hand() -> None:
    points, area = risk_coverage([0.8, 0.8, 0.8, 0.4], [True, False, True, True])
    assert points == [RiskPoint(0.8, 3 / 4, approx(1 / 3)), RiskPoint(0.4, 1.0, 1 / 4)]
    assert area.value == approx((1 / 3 + 1 / 3 + 1 / 3 + 1 / 4) / 4)


# --- stability --------------------------------------------------------------------------------------------------------


def test_ks_stability_by_hand() -> None:
    trajectories: list[list[float | None]] = [[0.1, 0.5], [0.2, 0.6], [0.3, 0.7], [0.9, 0.9]]
    found = ks_stability(trajectories)
    # Three of four confidences are at most 0.3 in the first round, none in the last.
    assert found == {1: Score(3 / 4, 4), 2: Score(0.0, 4)}


def test_ks_stability_of_debates_of_unequal_length() -> None:
    trajectories: list[list[float | None]] = [[0.1, 0.5, 0.9], [0.2, None, 0.9], [0.9], [0.4, None], []]
    found = ks_stability(trajectories)
    # The first three debates have 0.1, 0.2 and 0.9 in round 1, and 0.9 in their last rounds. The last confidence of
    # the fourth debate is unknown. The fifth debate has no round.
    assert found == {
        1: Score(approx(2 / 3), 3, missing=1, left_out=1),
        2: Score(1.0, 1, missing=2, left_out=2),
        3: Score(0.0, 2, left_out=3),
    }
    assert ks_stability([]) == ks_stability([[]]) == {}
    assert ks_stability([[None, 0.5]])[1] == Score(None, 0, missing=1)
