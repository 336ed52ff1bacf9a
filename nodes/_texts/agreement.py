"""The default confidence of a debate: the agreement of the answers with its verdict.

It is an uncalibrated share. Systems that decide by votes use the winner's share of the votes; all others use the
share of answers, over all rounds, that give the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moot.nodes._records.entries import RoundRecord, Task, Vote
from moot.nodes._texts.answers import same_answer

CONFIDENCE = ("confidence", "confidence_parts", "confidence_from")
"""Keys of a document for the confidence in its verdict."""
CONFIDENCE_DECIMALS = 6
"""Decimal places of a confidence."""
NO_VERDICT = "there is no verdict"
ONE_ANSWER = "there is only one answer, and none to compare it with"
NO_SAME_WORDS = "no agent answered in the words of the verdict, and answers in words are only compared as texts"
"""Reasons for a missing confidence."""


def vote_share(votes: Sequence[Vote], group: int) -> float:
    """The weight of a group's votes / the weight of all votes with an answer, in [0, 1].

    Args:
        votes: the votes; a vote without a ``weight`` has weight 1.
        group: the group, as in ``group`` of its votes.

    Raises:
        ValueError: all votes with an answer have weight 0, or no vote has an answer.
    """
    weights = [(vote["group"], vote.get("weight", 1.0)) for vote in votes if vote["group"] is not None]
    if not sum(weight for _, weight in weights):
        raise ValueError("all votes with an answer have weight 0")
    return sum(weight for other, weight in weights if other == group) / sum(weight for _, weight in weights)


def answers_like(task: Task, rounds: Sequence[RoundRecord], verdict: str) -> tuple[int, int]:
    """How many answers of all rounds give the verdict, and how many answers there are.

    The answers of one group in a round count as the same: if one of them is the verdict, all of them count.

    Args:
        task: the form of an answer.
        rounds: the debate's ``round_log``; records without votes do not count.
        verdict: the verdict, as an answer of the task.
    """
    same = given = 0
    for record in rounds:
        votes = [(vote["group"], vote["answer"]) for vote in record.get("votes", []) if vote["group"] is not None]
        groups = {group for group, answer in votes if answer is not None and same_answer(task, answer, verdict)}
        same += sum(group in groups for group, _ in votes)
        given += len(votes)
    return same, given


def confidence_by_votes(votes: Sequence[Vote], won: Vote | None) -> dict[str, Any]:
    """The confidence of a verdict by votes, as in a document; {} without a winner or with fewer than two answers.

    Args:
        votes: the deciding votes, with their weights if these differ.
        won: a vote for the winning answer; None if no answer won.
    """
    counted = [vote for vote in votes if vote["group"] is not None]
    if won is None or won["group"] is None or len(counted) < 2:
        return {}
    share = vote_share(counted, won["group"])
    winners = [vote for vote in counted if vote["group"] == won["group"]]
    found = f"{len(winners)} of {len(counted)} votes"
    if any("weight" in vote for vote in counted):
        weighed, total = (sum(vote.get("weight", 1.0) for vote in some) for some in (winners, counted))
        found = f"{weighed:.3g} of {total:.3g} in weight, {found}"
    if silent := len(votes) - len(counted):
        found += f"; {silent} without an answer"
    stated = [sure for vote in winners if (sure := vote.get("confidence")) is not None]
    parts = {"vote_share": round(share, CONFIDENCE_DECIMALS)}
    parts |= {"stated": round(sum(stated) / len(stated), CONFIDENCE_DECIMALS)} if stated else {}
    return {"confidence": round(share, CONFIDENCE_DECIMALS), "confidence_parts": parts, "confidence_from": found}


def confidence_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """The confidence of a finished debate, as in its document; null if there is none, with the reason.

    A confidence from the system itself stays; only a share of votes is dropped if there is no verdict. If answers of
    several rounds are known, the share of them that gives the verdict is among the parts.

    Args:
        state: a debate's state; its ``answer`` is None if the verdict is an abstention.
    """
    answer, known = state["answer"], {key: state.get(key) for key in CONFIDENCE}
    if answer is None:  # a panel may have a confidence in a verdict for which the task has no label
        own = known["confidence"] is not None and "vote_share" not in (known["confidence_parts"] or {})
        return known if own else _without_confidence(NO_VERDICT)
    same, given = answers_like(state["task"], state["round_log"], answer)
    shares = {"answer_share": round(same / given, CONFIDENCE_DECIMALS)} if given > 1 else {}
    rounds = sum(bool(record.get("votes")) for record in state["round_log"])
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
