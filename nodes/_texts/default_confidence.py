"""The default confidence in a verdict: the share of votes or answers that agree with it.

This share is not calibrated. Systems that decide by votes use the winner's share of the votes, by weight. Some systems
compute a confidence of their own. All other systems use the share of answers, over all rounds, that equal the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moot.nodes._records.entries import RoundRecord, Task, Vote
from moot.nodes._texts.answers import same_answer

CONFIDENCE = ("confidence", "confidence_parts", "confidence_from")
"""The keys of a result document that describe the confidence in the verdict."""
CONFIDENCE_DECIMALS = 6
"""Decimal places of a confidence and of its parts."""
NO_VERDICT = "there is no verdict"
ONE_ANSWER = "at most one answer was given, so there is nothing to compare"
NO_SAME_WORDS = "no answer has the text of the verdict, and short answers and expressions are only compared as texts"
"""Reasons for a missing confidence."""


def vote_share(votes: Sequence[Vote], group: int) -> float:
    """The total weight of a group's votes, divided by the total weight of all votes with an answer; in [0, 1]."""
    weights = [(vote["group"], vote.get("weight", 1.0)) for vote in votes if vote["group"] is not None]
    if not sum(weight for _, weight in weights):
        raise ValueError("all votes with an answer have weight 0")
    return sum(weight for other, weight in weights if other == group) / sum(weight for _, weight in weights)


def answers_like(task: Task, rounds: Sequence[RoundRecord], verdict: str) -> tuple[int, int]:
    """The number of answers in all rounds that equal the verdict, and the number of all answers."""
    same = given = 0
    for record in rounds:
        votes = [(vote["group"], vote["answer"]) for vote in record.get("votes", []) if vote["group"] is not None]
        # The answers of one group count as the same: one that equals the verdict stands for all of them.
        groups = {group for group, answer in votes if answer is not None and same_answer(task, answer, verdict)}
        same += sum(group in groups for group, _ in votes)
        given += len(votes)
    return same, given


def confidence_by_votes(votes: Sequence[Vote], won: Vote | None) -> dict[str, Any]:
    """The confidence in a verdict by votes, as keys of a document; {} without a winner or with only one answer."""
    counted = [vote for vote in votes if vote["group"] is not None]
    if won is None or won["group"] is None or len(counted) < 2:
        return {}
    share = vote_share(counted, won["group"])
    winners = [vote for vote in counted if vote["group"] == won["group"]]
    found = f"{len(winners)} of {len(counted)} votes"
    if any("weight" in vote for vote in counted):
        weighed, total = (sum(vote.get("weight", 1.0) for vote in some) for some in (winners, counted))
        found = f"{weighed:.3g} of {total:.3g} in weight, {found}"
    if silent := sum(vote["answer"] is None for vote in votes):
        found += f"; {silent} without an answer"
    if excluded := len(votes) - len(counted) - silent:
        found += f"; {excluded} not counted"
    stated = [sure for vote in winners if (sure := vote.get("confidence")) is not None]
    parts = {"vote_share": round(share, CONFIDENCE_DECIMALS)}
    parts |= {"stated": round(sum(stated) / len(stated), CONFIDENCE_DECIMALS)} if stated else {}
    return {"confidence": round(share, CONFIDENCE_DECIMALS), "confidence_parts": parts, "confidence_from": found}


def confidence_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """The confidence of a finished debate, as keys of its document; if it is null, ``confidence_from`` says why."""
    answer, known = state["answer"], {key: state.get(key) for key in CONFIDENCE}
    if answer is None:  # a trial's panel may be confident in a verdict for which the task has no label
        own = known["confidence"] is not None and "vote_share" not in (known["confidence_parts"] or {})
        return known if own else _without_confidence(NO_VERDICT)
    same, given = answers_like(state["task"], state["round_log"], answer)
    shares = {"answer_share": round(same / given, CONFIDENCE_DECIMALS)} if given > 1 else {}
    rounds = sum(bool(record.get("votes")) for record in state["round_log"])
    # A confidence that is already in the state is kept.
    if known["confidence"] is not None:
        return known | ({"confidence_parts": {**(known["confidence_parts"] or {}), **shares}} if rounds > 1 else {})
    if not shares:
        return _without_confidence(ONE_ANSWER)
    if not same and state["task"]["kind"] in ("short_answer", "expression"):
        return _without_confidence(NO_SAME_WORDS)
    found = f"{same} of {given} answers" + (f" in {rounds} rounds" if rounds > 1 else "")
    return {"confidence": shares["answer_share"], "confidence_parts": shares, "confidence_from": found}


def _without_confidence(why: str) -> dict[str, Any]:
    return {"confidence": None, "confidence_parts": None, "confidence_from": why}
