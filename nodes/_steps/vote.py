"""Voting: the answer with the most votes, or the largest sum of weights, becomes the verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from moot.core.errors import BUDGET_EXHAUSTED, ReplyError, WorldError
from moot.nodes._records.entries import StopReason, Vote
from moot.nodes._records.reducers import recorded_round
from moot.nodes._runtime.ceilings import rounds_or_budget
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebateState
from moot.nodes._steps.compare import EQUIVALENCE, agreed_answer, answers_of, close_round, common_outcome
from moot.nodes._texts.default_confidence import confidence_by_votes

Tie = Literal["first", "none"]
"""The rule if several answers have the largest sum: the answer with the ``first`` vote wins, or none."""
SUM_DECIMALS = 9
"""Decimal places to which sums of weights are rounded before they are compared."""


def majority(
    votes: Sequence[Vote], weights: Sequence[float] | None = None, tie: Tie = "first", contested: int = 1
) -> Vote | None:
    """The first vote for the answer with the largest sum of weights; None if no answer wins."""
    sums: dict[int, float] = {}
    for vote, weight in zip(votes, [1.0] * len(votes) if weights is None else weights, strict=True):
        if vote["group"] is not None:
            sums[vote["group"]] = sums.get(vote["group"], 0.0) + weight
    if not sums:
        return None
    most = round(max(sums.values()), SUM_DECIMALS)
    leading = [group for group, total in sums.items() if round(total, SUM_DECIMALS) == most]
    won = [vote for vote in votes if vote["group"] == leading[0]]
    # Against other answers, an answer needs at least ``contested`` votes.
    if (tie == "none" and len(leading) > 1) or (len(sums) > 1 and len(won) < contested):
        return None
    return won[0]


def confidence_weight(confidence: float) -> float:
    """The weight of a vote with this confidence (RECONCILE, arXiv:2309.13007, section 4.3).

    Args:
        confidence: the voter's confidence, from 0 to 1.
    """
    steps = ((1.0, 1.0), (0.9, 0.8), (0.8, 0.5))
    return next((weight for least, weight in steps if confidence >= least), 0.3 if confidence > 0.6 else 0.1)


def consensus_or_rounds(state: DebateState, settings: Any) -> StopReason:
    """The stop reason: ``consensus``, or the one from `rounds_or_budget`.

    It is ``consensus`` if all agents agree in the last round, unless that is round 0.

    Args:
        state: the debate's state.
        settings: the settings. If they have no ``max_rounds``, the rounds count as used up.
    """
    agreed = agreed_answer(state["votes"]) is not None and state["rounds"] > 0
    return "consensus" if agreed else rounds_or_budget(state, settings)


def no_answer_error(state: DebateState) -> WorldError | ReplyError:
    """The error of a debate that ends without a usable answer to count."""
    answers = answers_of(state["turns"])
    if {turn.get("outcome") for turn in answers} == {BUDGET_EXHAUSTED}:
        return WorldError("A ceiling was reached before any agent answered. Raise it.", kind=BUDGET_EXHAUSTED)
    outcome = common_outcome(answers)
    last = next((call["detail"] for call in reversed(state.get("calls", [])) if call.get("detail")), "")
    said = f" (the last reply: {last.rstrip('.')})" if last else ""
    advice = "raise `max_tokens`" if outcome == "cut" else "another value of `structured_output`"
    advice = f"Try another model, or {advice}."
    return ReplyError(f"No agent gave a usable answer, so there is nothing to count{said}. {advice}", outcome)


def vote_node(
    reason: StopReason | Callable[[DebateState, Any], StopReason],
    weigh: Callable[[Vote, Any], float | None] = lambda vote, settings: None,
    tie: Tie = "first",
    report: Callable[[DebateState], dict[str, Any]] = lambda state: {},
    contested: int = 1,
) -> Node:
    """Ends the debate with the answer that won the vote of the last round (`majority`).

    Reads: votes, turns, calls, metrics. If no vote has an answer, the debate fails. If no answer wins, the verdict is
    null.
    If an answer wins, and at least two votes have an answer, the node also writes the confidence in the verdict
    (`confidence_by_votes`). If ``tie`` is ``none``, ``abstained`` in the debate's ``metrics`` says whether no answer
    won.

    Args:
        reason: the stop reason, or a function of the state and the settings that returns it.
        weigh: takes a vote that has an answer, and the settings; returns the vote's weight, or None for a weight of 1.
        tie: the rule if several answers have the largest sum of weights. With ``first``, the answer with the earliest
            vote wins; with ``none``, no answer wins.
        report: takes the state; returns entries for the debate's ``metrics``.
        contested: minimum number of votes that an answer needs to win, if there are several answers.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        votes = state["votes"]
        if all(vote["group"] is None for vote in votes):
            raise no_answer_error(state)
        weights = [weigh(v, run.settings) if v["group"] is not None else None for v in votes]
        votes = [v if w is None else {**v, "weight": w} for v, w in zip(votes, weights, strict=True)]
        won = majority(votes, [v.get("weight", 1.0) for v in votes], tie, contested)
        answer = won["answer"] if won else None
        why = reason if isinstance(reason, str) else reason(state, run.settings)
        metrics = {**state["metrics"], **report(state)} | ({"abstained": won is None} if tie == "none" else {})
        update = {"answer": answer, "raw_verdict": answer, "stop_reason": why, "metrics": metrics}
        update |= confidence_by_votes(votes, won)
        return update if votes == state["votes"] else {**update, "votes": votes}

    return Node(step)


def conclude_node(
    reason: StopReason | Callable[[DebateState, Any], StopReason],
    by_text: Callable[[Any], bool] = lambda settings: False,
) -> Node:
    """Compares the last round's answers, and ends the debate with the answer that has the most votes.

    Reads: claim, task, turns, calls, metrics and, if present, rounds. This node replaces `compare_node` and
    `vote_node` in systems that compare answers only once, at the end of the debate.

    Args:
        reason: the stop reason, or a function of the state and the settings that returns it.
        by_text: takes the settings; returns whether free-text answers are compared only by their texts.
    """
    vote = vote_node(reason)

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        closed = await close_round(state, run, by_text=by_text(run.settings))
        found = "every_round" if state.get("rounds") else "single_pass"
        closed |= recorded_round(closed["rounds"], reason=found, votes=closed["votes"])
        return closed | await vote.step({**state, **closed, "turns": state["turns"]}, run)

    return Node(step, prompts=(EQUIVALENCE,))
