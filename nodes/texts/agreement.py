"""The confidence of a debate whose system has no formula of its own: how far those who answered agree with its verdict.

It is raw: a share of votes or of answers, which no data were used to calibrate. Systems that decide by votes have the
winner's share of them; all others the share of all answers, of all rounds, that give the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moot.nodes.records.entries import RoundRecord, Task, Vote
from moot.nodes.texts.answers import same_answer

CONFIDENCE = ("confidence", "confidence_parts", "confidence_from")
"""Keys of a document that say how sure its verdict is."""
PLACES = 6
"""Decimal places of a confidence."""
NO_VERDICT = "there is no verdict to be sure of"
ONE_ANSWER = "there is one answer, and no other to hold it against"
OTHER_WORDS = "nobody answered in the words of the verdict, and answers in words are compared by their texts alone"
"""Why there is no confidence."""


def vote_share(votes: Sequence[Vote], group: int) -> float:
    """What the votes of a group weigh / what all votes with an answer weigh, in [0, 1].

    Args:
        votes: who answered what; a vote without a ``weight`` weighs 1.
        group: whose share.

    Raises:
        ValueError: no vote with an answer weighs anything.
    """
    weights = [(vote["group"], vote.get("weight", 1.0)) for vote in votes if vote["group"] is not None]
    if not sum(weight for _, weight in weights):
        raise ValueError("there is no share of no votes")
    return sum(weight for of, weight in weights if of == group) / sum(weight for _, weight in weights)


def answers_like(task: Task, rounds: Sequence[RoundRecord], verdict: str) -> tuple[int, int]:
    """How many answers of all rounds give the verdict, and how many there are.

    In a round the answers of one group are the same; a group gives the verdict if one of its texts does.

    Args:
        task: what an answer is.
        rounds: the debate's ``round_log``; those without votes do not count.
        verdict: an answer.
    """
    same = given = 0
    for record in rounds:
        votes = [(vote["group"], vote["answer"]) for vote in record.get("votes", []) if vote["group"] is not None]
        groups = {group for group, answer in votes if answer is not None and same_answer(task, answer, verdict)}
        same += sum(group in groups for group, _ in votes)
        given += len(votes)
    return same, given


def confidence_by_votes(votes: Sequence[Vote], won: Vote | None) -> dict[str, Any]:
    """The confidence of a verdict that votes decided, as a document has it; {} if there are not two of them.

    Args:
        votes: of those who decided, with their weights if they do not count alike.
        won: the vote of the winner; None where there is none.
    """
    counted = [vote for vote in votes if vote["group"] is not None]
    if won is None or won["group"] is None or len(counted) < 2:
        return {}
    share = vote_share(counted, won["group"])
    of_it = [vote for vote in counted if vote["group"] == won["group"]]
    found = f"{len(of_it)} of {len(counted)} votes"
    if any("weight" in vote for vote in counted):
        weighed, total = (sum(vote.get("weight", 1.0) for vote in some) for some in (of_it, counted))
        found = f"{weighed:.3g} of {total:.3g} in weight, {found}"
    if silent := len(votes) - len(counted):
        found += f"; {silent} without an answer"
    stated = [sure for vote in of_it if (sure := vote.get("confidence")) is not None]
    parts = {"vote_share": round(share, PLACES)}
    parts |= {"stated": round(sum(stated) / len(stated), PLACES)} if stated else {}
    return {"confidence": round(share, PLACES), "confidence_parts": parts, "confidence_from": found}


def confidence_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """The confidence of a debate that is done, as its document has it; null if there is none, with the reason.

    What the system itself found stands. Where answers of several rounds are known, the share of those that give the
    verdict is among the parts.

    Args:
        state: a debate's, with its ``answer`` as its document has it.
    """
    answer, known = state["answer"], {key: state.get(key) for key in CONFIDENCE}
    if answer is None:  # a panel is sure of a verdict for which the task has no label
        own = known["confidence"] is not None and "vote_share" not in (known["confidence_parts"] or {})
        return known if own else _none(NO_VERDICT)
    same, given = answers_like(state["task"], state["round_log"], answer)
    shares = {"answer_share": round(same / given, PLACES)} if given > 1 else {}
    rounds = sum(bool(record.get("votes")) for record in state["round_log"])
    if known["confidence"] is not None:
        return known | ({"confidence_parts": {**(known["confidence_parts"] or {}), **shares}} if rounds > 1 else {})
    if not shares:
        return _none(ONE_ANSWER)
    if not same and state["task"]["kind"] in ("short_answer", "expression"):
        return _none(OTHER_WORDS)
    found = f"{same} of {given} answers" + (f" in {rounds} rounds" if rounds > 1 else "")
    return {"confidence": shares["answer_share"], "confidence_parts": shares, "confidence_from": found}


def _none(why: str) -> dict[str, Any]:
    return {"confidence": None, "confidence_parts": None, "confidence_from": why}
