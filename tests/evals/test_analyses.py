"""Tables of the papers' analyses and of calibration, compared with figures that were worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from moot.evals._analyses.weights import reweighted_confidence, search_weight
from moot.evals._report.analyses import (
    agents_table,
    consensus_rounds_table,
    judge_choices_table,
    read_panels,
    score_gaps_table,
    viewpoints_table,
    weights_table,
)

from tests.evals.made_logs import debate
from tests.evals.made_study import R, S, study, value

Document = dict[str, Any]


def debate_in_rounds(answer: str | None, *rounds: list[str | None], **more: Any) -> Document:
    """The result document of a debate, with its rounds in the round log. Each answer is S, R or None."""
    log = [
        {
            "round": n,
            "phase": "primary",
            "reason": "every_round",
            "votes": [
                {
                    "agent": f"agent-{i}",
                    "answer": said,
                    "group": None if said is None else [S, R].index(said),
                }
                for i, said in enumerate(round_answers, 1)
            ],
        }
        for n, round_answers in enumerate(rounds, 1)
    ]
    return debate(answer, *rounds, round_log=log, **more)


def judged_debate(answer: str, answers: list[str], averages: list[float], *, judge: bool = True) -> Document:
    """The document of a debate of one round. An agent's average score (``averages``) is the score of its only answer.

    ``judge``: whether a judge gave the debate's answer.
    """
    made = debate_in_rounds(answer, answers)  # type: ignore[arg-type]
    for turn, score in zip(made["turns"], averages, strict=True):
        turn["scores"] = {"consistency": score, "questions": ["?"]}
    scores = {f"agent-{i}": {"consistency": score} for i, score in enumerate(averages, 1)}
    turn = {"round": 1, "phase": "primary", "agent": "judge", "step": "judge", "answer": answer}
    return made | {"scores": scores, "turns": [*made["turns"], *([turn] if judge else [])]}


def rows_of(table: Any) -> list[dict[str, Any]]:
    """The rows of a table as dictionaries, by the columns' keys."""
    keys = [column.key for column in table.columns]
    return [dict(zip(keys, row, strict=True)) for row in table.rows]


JUDGED = {
    "1": judged_debate(S, [S, R], [0.9, 0.4]),  # the judge takes the answer with the higher score; it is right
    "2": judged_debate(R, [S, R], [0.2, 0.6]),  # the judge takes the answer with the higher score; it is wrong
    "3": judged_debate(S, [S, R], [0.3, 0.5]),  # the judge takes the answer with the lower score; it is right
    "4": judged_debate(R, [R, R], [0.5, 0.7], judge=False),  # the debate has no judge
    "5": judged_debate(R, [S, R], [0.5, 0.5]),  # both scores are equal
}


def test_counts_and_mean_scores_of_right_and_wrong_answers_by_hand(tmp_path: Path) -> None:
    last, all_rounds = rows_of(score_gaps_table(study(tmp_path, a=(JUDGED, {}))))
    assert (last["right"], last["wrong"]) == (6, 4)
    assert last["right_mean"] == pytest.approx((0.9 + 0.2 + 0.3 + 0.5 + 0.7 + 0.5) / 6)
    assert last["wrong_mean"] == pytest.approx((0.4 + 0.6 + 0.5 + 0.5) / 4)
    assert {**last, "rounds": "all rounds"} == all_rounds  # each debate has only one round


def test_choices_of_the_judge_by_hand(tmp_path: Path) -> None:
    [row] = rows_of(judge_choices_table(study(tmp_path, a=(JUDGED, {}))))
    assert row["judged"] == 3
    assert [value(row[key]) for key in ("follows", "higher_right", "lower_right")] == pytest.approx(
        [2 / 3, 1 / 3, 2 / 3]
    )


SEVERAL_ROUNDS = {
    "1": debate_in_rounds(S, [S, S]),  # ended after one round
    "2": debate_in_rounds(S, [S, R], [S, S]),
    "4": debate_in_rounds(R, [S, R], [R, None], [S, R]),
}


def test_consensus_after_each_round_by_hand(tmp_path: Path) -> None:
    rows = rows_of(consensus_rounds_table(study(tmp_path, a=(SEVERAL_ROUNDS, {}))))
    assert [row["held"] for row in rows] == [3, 2, 1]
    assert [row["consensus"] for row in rows] == pytest.approx([1 / 3, 2 / 3, 2 / 3])
    assert [row["consensus_held"] for row in rows] == pytest.approx([1 / 3, 1 / 2, 0])


def test_the_accuracy_and_context_of_each_agent_by_hand(tmp_path: Path) -> None:
    first, second = rows_of(agents_table(study(tmp_path, a=(SEVERAL_ROUNDS, {}))))
    assert [value(first[key]) for key in ("first", "last")] == pytest.approx([2 / 3, 2 / 3])
    assert [value(second[key]) for key in ("first", "last")] == pytest.approx([2 / 3, 1])
    assert first["context"] == 1000  # the prompt tokens of the agent's only call
    assert "debates" not in first  # no debate was sparse


def test_viewpoint_collisions_and_correct_revisions_per_item_by_hand(tmp_path: Path) -> None:
    graphs = [{"round": 2, "kept": {"agent-1": ["agent-2"], "agent-2": ["agent-1"]}}]
    sparse = debate_in_rounds(S, [R, S], [S, S], graphs=graphs)  # agent-2 corrects agent-1
    agreed = debate_in_rounds(S, [S, S], graphs=[])
    made = study(tmp_path, a=({"1": sparse, "2": sparse, "3": agreed, "4": agreed}, {}))
    [row] = rows_of(viewpoints_table(made))
    assert (row["items"], row["debates"], row["dvc"], row["cvr"], row["ratio"]) == (4, 2, 1.0, 0.5, 0.5)
    first, _ = rows_of(agents_table(made))
    assert first["debates"] == 0.5  # agent-2 heard agent-1 in two of four debates


PARTS = {"consensus_strength": 2 / 3, "quality": 0.7, "base": 0.74, "consistency": 8.0, "role_switch": 0.1}
PARTS |= {"winning_reflection": 0.5, "reflection": 0.0}
VOTES = [{"agent": f"judge-{i}", "answer": said, "group": said == R} for i, said in enumerate((S, S, R), 1)]


def test_the_calibration_error_with_each_weight_of_votes_by_hand(tmp_path: Path) -> None:
    trials = {id: debate(S, votes=VOTES, confidence=0.84, confidence_parts=PARTS) for id in "12345678"}
    made = study(tmp_path, trial=(trials, {}))
    [system] = made.measured
    panels = read_panels(system, made)
    assert [panel.right for panel in panels] == [True] * 3 + [False] * 5
    assert reweighted_confidence(panels[0], 0.8) == pytest.approx(0.8 * 2 / 3 + 0.3 * 0.7 + 0.1)
    rows = rows_of(weights_table(made))
    assert [row["weight"] for row in rows] == ["0.5", "0.6", "0.7", "0.8", "0.9", "chosen on the other folds"]
    assert rows[0]["ece"] == pytest.approx(0.5 * 2 / 3 + 0.31 - 3 / 8)  # all confidences are in one bin
    assert rows[-1]["folds"] == "0.5, 0.5, 0.5, 0.5, 0.5"
    assert rows[-1]["ece"] == pytest.approx(rows[0]["ece"])
    assert search_weight(panels[:4]) is None  # fewer panels than folds
