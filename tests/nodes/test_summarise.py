"""The judge's reply about an agreement: when the reply decides, and how it is shown."""

from __future__ import annotations

from typing import Any

import pytest
from moot.nodes import Settings, make_task
from moot.nodes._models.step_record import StepRecord
from moot.nodes._runtime.node import NodeContext
from moot.nodes._steps.agreeing import agreement_node, all_agreed
from moot.nodes._steps.compare import group_answers, votes_of
from moot.nodes._texts.answers import ABSTENTION

from tests.conftest import StartStub

LABELS, FREE_TEXT = make_task(), make_task("squad")


@pytest.mark.parametrize(
    ("task", "answers", "agree", "agreed", "warns"),
    [
        (LABELS, ("SUPPORTS", "REFUTES"), True, False, True),
        (LABELS, ("SUPPORTS", "REFUTES"), False, False, False),
        (LABELS, ("SUPPORTS", "SUPPORTS"), False, True, True),
        (FREE_TEXT, ("the UK", "Great Britain"), True, True, False),
        (FREE_TEXT, ("the UK", "Great Britain"), False, False, False),
        (FREE_TEXT, ("the UK", "UK."), False, True, True),
        (FREE_TEXT, ("the UK", None), True, False, True),
        (FREE_TEXT, ("the UK", "Great Britain", ABSTENTION), True, False, True),
        (FREE_TEXT, (ABSTENTION, ABSTENTION), True, True, False),
        (FREE_TEXT, ("the UK", "Great Britain"), None, False, False),
    ],
)
async def test_the_judge_decides_only_if_the_votes_are_undecided(
    start_stub: StartStub, task: Any, answers: tuple[str | None, ...], agree: bool | None, agreed: bool, warns: bool
) -> None:
    """``agree`` is the judge's reply (None: no usable reply), and ``agreed`` is the result."""
    start_stub([{"fields": {"agree": agree, "reason": "As I read them."}}])
    turns: Any = [{"round": 1, "agent": f"debater-{i}", "step": "respond", "answer": a} for i, a in enumerate(answers)]
    # Without a model, answers are grouped by their text.
    votes = votes_of(turns, (await group_answers("", task, answers))[0])
    state: Any = {"claim": "It is an island.", "task": task, "turns": turns, "votes": votes, "rounds": 1}
    run = NodeContext(Settings(model="openai:stub-judge", attempts=1), StepRecord())
    update = await agreement_node().step(state, run)
    [turn] = update["turns"]
    assert (turn["agree"], turn["agreed"], turn["outcome"]) == (agree, agreed, "unparsed" if agree is None else "ok")
    assert [record["reason"] for record in update["round_log"]] == ["agreed" if agreed else "no_agreement"]
    assert [w["kind"] for w in run.record.warnings].count("judge_contradicts_votes") == warns
    state["turns"] = [*turns, turn]
    assert all_agreed(state) == agreed
