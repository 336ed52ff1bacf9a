"""PROClaim's panel: the verdict, its confidence, and the agreement of the judges."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from moot.nodes._records.entries import Turn
from moot.nodes._runtime.state import DebateState
from moot.nodes._trial.confidence import (
    QUALITIES,
    VERDICTS,
    PanelVerdict,
    Verdict,
    base_confidence,
    consensus_strength,
    final_confidence,
    judge_quality,
    mean_scores,
    panel_verdict,
    reflection_adjustment,
    role_switch_adjustment,
)
from moot.nodes._trial.panel import confidence_of, panel_report

from tests.each import each

SUP, NOT, INC = VERDICTS
SHARE, TEN = st.floats(0, 1), st.floats(0, 10)
VERDICT = st.sampled_from(VERDICTS)

# --- verdict --------------------------------------------------------------------------------------------------------


@each(
    ("verdicts", "verdict", "winning", "votes", "tied"),
    [
        ([SUP, SUP, SUP], SUP, 3, 3, False),
        ([NOT, SUP, NOT], NOT, 2, 3, False),
        ([SUP, INC, INC], INC, 2, 3, False),  # the chief judge is outvoted
        ([INC, SUP, NOT], INC, 1, 3, True),  # all differ, so the chief judge's verdict wins
        ([NOT, SUP, INC], NOT, 1, 3, True),
        ([None, SUP, NOT], SUP, 1, 2, True),  # the chief judge has no verdict, so the second judge's wins
        ([SUP, None, NOT], SUP, 1, 2, True),
        ([NOT, NOT, None], NOT, 2, 2, False),
        ([None, None, INC], INC, 1, 1, False),
        ([INC], INC, 1, 1, False),
        ([SUP, NOT, NOT, INC, NOT], NOT, 3, 5, False),
        ([SUP, NOT, NOT, INC, None], NOT, 2, 4, False),  # half of the votes are enough
        ([INC, SUP, NOT, NOT, SUP], SUP, 2, 5, True),  # SUP and NOT are tied, and SUP comes first
        ([SUP, SUP, NOT, NOT, INC], SUP, 2, 5, True),  # a tie that includes the chief judge's verdict, which wins
        ([NOT, INC, SUP, SUP, NOT], NOT, 2, 5, True),
        ([INC, NOT, SUP, SUP, NOT], NOT, 2, 5, True),  # the chief judge's verdict has one vote; the second judge's wins
        ([None, INC, SUP, NOT, NOT], NOT, 2, 4, False),
        ([None, INC, SUP, NOT, INC], INC, 2, 4, False),
        ([INC, NOT, None, SUP, SUP], SUP, 2, 4, False),
        ([NOT, SUP, None, SUP, NOT], NOT, 2, 4, True),
        ([None, SUP, NOT, NOT, SUP], SUP, 2, 4, True),
        ([INC, None, SUP, NOT, None], INC, 1, 3, True),
        ([None, None, NOT, SUP, INC], NOT, 1, 3, True),
        ([INC, NOT, SUP, NOT, SUP, INC, SUP], SUP, 3, 7, False),  # fewer than half of the votes are enough
        ([INC, NOT, SUP, NOT, SUP, INC, None], INC, 2, 6, True),
    ],
)
def test_the_most_frequent_verdict_wins(
    verdicts: list[Verdict | None], verdict: Verdict, winning: int, votes: int, tied: bool
) -> None:
    """Of the tied verdicts, the one that comes first in the list wins. The first verdict is the chief judge's."""
    assert panel_verdict(verdicts) == PanelVerdict(verdict, winning, votes, tied)


# --- confidence -----------------------------------------------------------------------------------------------------


def judge_scores(evidence: float, validity: float, reliability: float) -> dict[str, float]:
    """The scores of a judge, by quality."""
    return dict(zip(QUALITIES, (evidence, validity, reliability), strict=True))


def judge_turns(verdicts: Sequence[Verdict | None], scores: Sequence[tuple[float, float, float]]) -> list[Turn]:
    """The turns of judges. A judge without a verdict has neither scores nor a reason."""
    turns = []
    for number, (verdict, score) in enumerate(zip(verdicts, scores, strict=True), 1):
        own_scores = judge_scores(*score) if verdict else dict.fromkeys(QUALITIES)
        more = {"verdict": verdict, "reason": f"Reason {number}." if verdict else None}
        turns.append({"agent": f"judge-{number}", "phase": "panel", "step": "judge", **own_scores, **more})
    return cast("list[Turn]", turns)


def confidence(
    turns: list[Turn],
    consistency: float | None = None,
    plaintiff: Sequence[float | None] = (),
    defense: Sequence[float | None] = (),
    analysed: bool = True,
) -> dict[str, Any]:
    """The confidence of a trial, its parts and its basis.

    Args:
        turns: the turns of the judges.
        consistency: the analyser's overall score; None if the analyser's reply was unusable.
        plaintiff, defense: the reflection scores of each side in the primary debate.
        analysed: whether the analyser had a turn.
    """
    decided = panel_verdict([cast("Verdict | None", turn["verdict"]) for turn in turns])
    assert decided is not None
    analysis = {"agent": "analyser", "phase": "panel", "step": "analyse", "overall": consistency}
    primary = {"phase": "primary", "reflection": {"plaintiff": list(plaintiff), "defense": list(defense)}}
    # The reflection scores of the switched debate must not count.
    switched = {"phase": "switched", "reflection": {"plaintiff": [0.99], "defense": [0.01]}}
    state = {"turns": [*turns, *([analysis] if analysed else [])], "debates": [primary, switched]}
    return confidence_of(decided, turns, cast("DebateState", state))


def test_the_formulas_reproduce_the_worked_example() -> None:
    example_scores = [judge_scores(7, 8, 8), judge_scores(7, 6, 8), judge_scores(8, 7, 9)]
    assert mean_scores(example_scores) == {
        "evidence_strength": pytest.approx(22 / 3),
        "argument_validity": 7,
        "scientific_reliability": pytest.approx(25 / 3),
    }
    sigma, quality = consensus_strength(2, 3), judge_quality(example_scores)
    assert quality == pytest.approx((22 / 3 + 7 + 25 / 3) / 30)
    assert base_confidence(sigma, quality) == pytest.approx(0.676667 + 0.01 * 25 / 3, abs=5e-7)
    assert base_confidence(sigma, quality) == pytest.approx(0.76)
    assert reflection_adjustment(0.57) == pytest.approx(0.042)
    assert final_confidence(0.76, role_switch_adjustment(8.5), 0.042, 2, 3) == pytest.approx(0.902)


def test_the_document_has_the_confidence_of_the_worked_example() -> None:
    turns = judge_turns([NOT, SUP, NOT], [(7, 8, 8), (7, 6, 8), (8, 7, 9)])
    found = confidence(turns, 8.5, plaintiff=[0.9, 0.9], defense=[0.2, 0.57])
    assert found == {
        "confidence": 0.902,
        "confidence_from": "2 of 3 judges' votes, their scores, the counsel's consistency, "
        "the winner's last reflection",
        "confidence_parts": {
            "consensus_strength": 0.666667,
            "quality": 0.755556,
            "base": 0.76,
            "consistency": 8.5,
            "role_switch": 0.1,
            "winning_reflection": 0.57,
            "reflection": 0.042,
        },
    }


def test_the_consensus_strength_is_the_share_of_winning_votes() -> None:
    """Impossible numbers of votes are refused."""
    assert [consensus_strength(*counts) for counts in ((3, 3), (1, 1), (1, 2), (2, 5))] == [1, 1, 0.5, 0.4]
    for winning, votes in ((0, 0), (0, 3), (4, 3), (-1, 3)):
        with pytest.raises(ValueError, match="cannot have won"):
            consensus_strength(winning, votes)


@pytest.mark.parametrize(
    ("consistency", "adjustment"),
    [
        *[(10, 0.10), (7, 0.10), (math.nextafter(7, 0), 0), (6, 0), (5, 0)],
        *[(math.nextafter(5, 0), -0.05), (0, -0.05), (None, 0)],
    ],
)
def test_consistency_adjusts_the_confidence_in_steps(consistency: float | None, adjustment: float) -> None:
    assert role_switch_adjustment(consistency) == adjustment


@pytest.mark.parametrize(
    ("score", "adjustment"),
    [(1, 0.3), (0.75, 0.15), (0.5, 0), (0.4, -0.06), (0.25, -0.15), (0.2, -0.15), (0, -0.15), (None, 0)],
)
def test_reflection_adjusts_the_confidence_linearly_above_a_minimum(score: float | None, adjustment: float) -> None:
    assert reflection_adjustment(score) == pytest.approx(adjustment)


@each(
    ("base", "winning", "votes", "expected"),
    [
        (0.7, 2, 3, 0.5),
        (0.25, 2, 3, 0.10),
        (0.1, 3, 3, 0.10),
        (0.1, 1, 1, 0.10),
        (0.25, 1, 2, 0.05),
        (0.1, 1, 3, 0),
        (0.1, 3, 5, 0),
        (0.1, 4, 5, 0.10),
        (0.1, 4, 6, 0.10),
        (0.1, 4, 7, 0),
        (0.1, 5, 7, 0.10),
        (0.1, 6, 9, 0.10),
        (0.1, 10, 15, 0.10),
    ],
)
def test_the_confidence_is_at_least_0_10_with_two_thirds_of_the_votes(
    base: float, winning: int, votes: int, expected: float
) -> None:
    assert final_confidence(base, -0.05, -0.15, winning, votes) == pytest.approx(expected)


def test_the_confidence_is_at_most_1() -> None:
    assert final_confidence(1.1, 0.1, 0.3, 3, 3) == 1
    assert final_confidence(1.1, -0.05, -0.05, 3, 3) == 1  # a base above 1 absorbs small penalties
    assert final_confidence(1.1, -0.05, -0.15, 3, 3) == pytest.approx(0.9)
    assert final_confidence(base_confidence(2 / 3, 1), 0.1, 0.3, 2, 3) == 1  # two of three votes can give 1


TOP_SCORES = [(10, 10, 10), (10, 10, 10), (10, 10, 10)]


def adjustment_parts(found: dict[str, Any]) -> list[Any]:
    return [found["confidence_parts"][name] for name in ("winning_reflection", "reflection", "role_switch")]


@pytest.mark.parametrize(
    ("verdict", "expected"), [(SUP, [0.8, 0.18, 0.1]), (NOT, [0.1, -0.15, 0.1]), (INC, [None, 0, 0.1])]
)
def test_only_the_reflection_of_the_winning_side_counts(verdict: Verdict, expected: list[float | None]) -> None:
    turns = judge_turns([verdict] * 3, TOP_SCORES)
    assert adjustment_parts(confidence(turns, 7, plaintiff=[0.1, 0.8], defense=[0.9, 0.1])) == expected


def test_judges_without_a_verdict_do_not_count() -> None:
    with_two_votes = confidence(judge_turns([SUP, None, NOT], [(9, 9, 9), (0, 0, 0), (3, 3, 3)]), analysed=False)
    assert (
        with_two_votes["confidence_parts"] | {"consensus_strength": 0.5, "quality": 0.6, "base": 0.58}
        == with_two_votes["confidence_parts"]
    )
    with_one_vote = confidence(judge_turns([None, None, NOT], [(0, 0, 0), (0, 0, 0), (6, 6, 6)]), analysed=False)
    assert with_one_vote["confidence"] == 0.98  # 0.8 + 0.3 x 0.6


@given(
    st.lists(st.tuples(st.none() | VERDICT, st.tuples(TEN, TEN, TEN)), min_size=1, max_size=7),
    st.none() | TEN,
    st.lists(st.none() | SHARE, max_size=3),
    st.lists(st.none() | SHARE, max_size=3),
)
@example([(SUP, (0.0, 0.0, 0.0))], 5.0, [0.4999999], [0.4999999])  # the rounded adjustment must not be -0.0
def test_any_confidence_is_the_clamped_sum_of_its_parts(
    panel: list[tuple[Verdict | None, tuple[float, float, float]]],
    consistency: float | None,
    plaintiff: list[float | None],
    defense: list[float | None],
) -> None:
    turns = judge_turns([verdict for verdict, _ in panel], [scores for _, scores in panel])
    given_verdicts = [verdict for verdict, _ in panel if verdict]
    if not given_verdicts:
        return
    found = confidence(turns, consistency, plaintiff, defense)
    most, votes = max(Counter(given_verdicts).values()), len(given_verdicts)
    parts_by_name = found["confidence_parts"]
    assert 0 <= found["confidence"] <= 1
    assert found["confidence"] >= 0.10 or 3 * most < 2 * votes
    assert parts_by_name["consensus_strength"] == round(most / votes, 6)
    assert 0 <= parts_by_name["quality"] <= 1
    assert -0.15 <= parts_by_name["reflection"] <= 0.3
    assert parts_by_name["role_switch"] in (0.10, 0, -0.05)
    total = parts_by_name["base"] + parts_by_name["role_switch"] + parts_by_name["reflection"]
    assert found["confidence"] == pytest.approx(min(1, max(0.10 if 3 * most >= 2 * votes else 0, total)), abs=5e-6)
    for number in (found["confidence"], *parts_by_name.values()):
        assert number is None or (math.isfinite(number) and str(number) != "-0.0")


# --- the agreement of the panel -----------------------------------------------------------------------------------


def report(verdicts: Sequence[Verdict | None], scores: Sequence[tuple[float, float, float]]) -> dict[str, Any]:
    """The report on a panel whose judges gave these verdicts and scores."""
    decided = panel_verdict(verdicts)
    assert decided is not None
    return panel_report(judge_turns(verdicts, scores), decided)


def test_the_report_has_the_votes_agreement_scores_and_dissent() -> None:
    assert report([NOT, SUP, NOT], [(7, 8, 8), (7, 6, 8), (8.3, 7, 9)]) == {
        "verdicts": {SUP: 1, NOT: 2, INC: 0},
        "judges": 3,
        "without_verdict": [],
        "unanimous": False,
        "tied": False,
        "agreement": pytest.approx(1 / 3),
        "means": pytest.approx(dict(zip(QUALITIES, (22.3 / 3, 7, 25 / 3), strict=True))),
        "spread": {"evidence_strength": 1.3, "argument_validity": 2, "scientific_reliability": 1},
        "dissent": [{"agent": "judge-2", "verdict": SUP, "reason": "Reason 2."}],
    }


def test_the_report_names_judges_without_a_verdict() -> None:
    found = report([None, SUP, INC], [(0, 0, 0), (5, 5, 5), (5, 5, 5)])
    assert (found["judges"], found["without_verdict"]) == (3, ["judge-1"])
    assert (found["tied"], found["unanimous"], found["agreement"]) == (True, False, 0)
    assert [one["agent"] for one in found["dissent"]] == ["judge-3"]
    assert found["spread"] == judge_scores(0, 0, 0)  # the scores of a judge without a verdict do not count
