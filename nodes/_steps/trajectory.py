"""Decides by all answers of a debate, not by the last ones alone (Free-MAD, arXiv:2509.11035)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from moot.nodes._records.entries import Turn, Vote
from moot.nodes._records.reducers import recorded_round
from moot.nodes._runtime.ceilings import rounds_or_budget
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.turns import Known, Said, Started, new_turn, tells
from moot.nodes._steps.compare import (
    EQUIVALENCE,
    WORDED_KINDS,
    comparison_turn,
    group_answers,
    last_answers,
    votes_of,
)
from moot.nodes._steps.vote import SUM_DECIMALS, no_answer_error
from typing_extensions import TypedDict

TALLY = "tally"
"""The agent of the turn with the scores of a debate's answers."""


class AnswerScore(TypedDict):
    """An answer, and its score over all rounds of a debate."""

    answer: str
    score: float


class Tally(Started):
    """The scores of all answers that were given in a debate, the highest first."""

    step: Literal["tally"]
    answer_scores: list[AnswerScore]


@tells(Tally, late=True)
def tell_tally(turn: Turn, known: Known) -> Iterator[Said]:
    """The answers with their scores."""
    scores = "; ".join(f"{one['answer']} {one['score']:.4g}" for one in turn["answer_scores"])
    yield Said("answer_scores", "scores", scores, kind="finding")


def trajectory_scores(
    given: Sequence[tuple[str, int, int | None]], *, first: float, left: float, taken: float, kept: float
) -> dict[int, float]:
    """The score of each answer over a whole debate (Free-MAD, as reimplemented); answers are numbers of groups.

    All weights are divided by the round's number: later answers count less, because others have influenced them. An
    unusable reply counts for nothing, and the agent's next answer is compared with its last usable one.

    With the weights 20, 25, 30 and 20, agents a and b answer 0, then b changes to 1, and c answers 1 twice. The score
    of 0 is 20 + 20/2 + 20 - 25/2 = 37.5, and the score of 1 is 30/2 + 20 + 20/2 = 45.

    Args:
        given: for each answer, in order: its agent, its round (from 1), and the group of equal answers that it belongs
            to; None if the reply was unusable.
        first: what an agent's first answer adds.
        left: what the old answer loses if an agent changes its answer.
        taken: what the new answer gains if an agent changes its answer.
        kept: what an answer gains if an agent keeps it.

    Returns:
        The score of each group, in the order in which the groups were first given.
    """
    scores: dict[int, float] = {}
    last: dict[str, int] = {}

    def add(group: int, points: float) -> None:
        scores[group] = scores.get(group, 0.0) + points

    for agent, round, group in given:
        if group is None:
            continue
        before = last.get(agent)
        if before is None:
            add(group, first / round)
        elif before == group:
            add(group, kept / round)
        else:
            add(before, -left / round)
            add(group, taken / round)
        last[agent] = group
    return scores


def decide_by_trajectory_node() -> Node:
    """Ends the debate with the answer that has the highest score over all rounds (`trajectory_scores`).

    Reads: claim, task, turns, rounds, calls. The settings need ``first_weight``, ``left_weight``, ``taken_weight`` and
    ``kept_weight``. A tie goes to the answer that was given first. The role ``equivalence`` compares free-text answers
    of all rounds if their texts differ. The scores are in a turn of the step ``tally``. If no agent ever gave a usable
    answer, the debate fails.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        given = [turn for turn in state["turns"] if turn["step"] == "respond"]
        in_words = state["task"]["kind"] in WORDED_KINDS
        speaker = await run.speaker("equivalence") if in_words else None
        answers = [turn.get("answer") for turn in given]
        groups, checks = await group_answers(state["claim"], state["task"], answers, speaker)
        own = run.settings
        scores = trajectory_scores(
            [(turn["agent"], turn["round"], group) for turn, group in zip(given, groups, strict=True)],
            first=own.first_weight,
            left=own.left_weight,
            taken=own.taken_weight,
            kept=own.kept_weight,
        )
        if not scores:
            raise no_answer_error(state)
        words = {group: answer for answer, group in zip(reversed(answers), reversed(groups), strict=True)}
        # The sort is stable: among equal scores, the answer that was given first stays first.
        ranked = sorted(scores, key=lambda group: -round(scores[group], SUM_DECIMALS))
        turn = new_turn(state["rounds"], TALLY, TALLY)
        turn["answer_scores"] = [{"answer": words[group], "score": round(scores[group], 6)} for group in ranked]
        votes = last_votes(state, given, groups)
        return {
            "turns": [*(comparison_turn(t, made) for t, made in zip(given, checks, strict=True) if made), turn],
            "votes": votes,
            "answer": words[ranked[0]],
            "raw_verdict": words[ranked[0]],
            "stop_reason": rounds_or_budget(state, own),
            **recorded_round(state["rounds"], reason="every_round", votes=votes),
        }

    return Node(step, prompts=(EQUIVALENCE,))


def last_votes(state: DebateState, given: Sequence[Turn], groups: Sequence[int | None]) -> list[Vote]:
    """The last answers as votes, with the groups of all answers of the debate."""
    group_of = {(turn["agent"], turn["round"]): group for turn, group in zip(given, groups, strict=True)}
    last = [turn for turn in last_answers(state["turns"]) if turn.get("outcome") != "failed"]
    return votes_of(last, [group_of[turn["agent"], turn["round"]] for turn in last])
