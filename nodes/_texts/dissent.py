"""Dissent: the answers other than the verdict with their best arguments, and changes of answers with their cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moot.nodes._records.entries import GATE
from moot.nodes._runtime.turns import AnsweringAgent, Change, Dissent, EvidenceQuote, MinorityAnswer
from moot.nodes._texts.answers import same_answer

Who = tuple[str, int | None]


def dissent_of(document: Mapping[str, Any]) -> Dissent:
    """The dissent in a debate: agents with another answer than the verdict, and changes of answers.

    The agents are the judges of a panel, if one decided; else the agents that answered.

    Args:
        document: a result document, or the state that becomes one.
    """
    models = {call["role"]: call["model"] for call in reversed(document["calls"])}
    judged = [turn for turn in document["turns"] if turn["step"] == "judge" and "verdict" in turn]
    answers = [turn for turn in document["turns"] if turn["step"] == "respond"]
    given = [turn for turn in answers if turn["phase"] == "primary"]
    given = given or [turn for turn in answers if turn["phase"] == GATE]  # no debate followed the gate
    said = judged or given

    def by(turn: Mapping[str, Any]) -> AnsweringAgent:
        return {"agent": turn["agent"], "model": models.get(turn["agent"]), "number": turn.get("number")}

    verdict = document["raw_verdict"] if judged else document["answer"] or document["raw_verdict"]
    last: dict[Who, Any] = {_who(turn): turn for turn in said}
    groups = _groups(document, last, verdict)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return {
        "votes": [{"answer": _answer(turns[0]), "votes": len(turns)} for _, turns in ordered],
        "minority": [_argument(turns, by) for same, turns in ordered if same != ""],
        "changes": [] if judged else _changes(document, given, by),
    }


def _who(turn: Mapping[str, Any]) -> Who:
    return turn["agent"], turn.get("number")


def _answer(turn: Mapping[str, Any]) -> str | None:
    said: str | None = turn.get("verdict", turn.get("answer"))
    return said


def _groups(document: Mapping[str, Any], last: Mapping[Who, Any], verdict: str | None) -> dict[Any, list[Any]]:
    """Last answers by the group of their votes; the key of the verdict's group is an empty text."""
    voted = {(vote["agent"], vote.get("number")): vote["group"] for vote in document["votes"]}
    groups: dict[Any, list[Any]] = {}
    for who, turn in last.items():
        answer = _answer(turn)
        key = f"group {voted[who]}" if voted.get(who) is not None else answer
        groups.setdefault(key, []).append(turn)
    ours = [key for key, turns in groups.items() if any(_same(document, _answer(t), verdict) for t in turns)]
    return {"" if ours and key == ours[0] else key: turns for key, turns in groups.items()}


def _same(document: Mapping[str, Any], one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return False
    return one == other or same_answer(document["task"], one, other)


def _quotes(turn: Mapping[str, Any]) -> list[EvidenceQuote]:
    cited = turn.get("citations") or []
    return [{"evidence_id": c["evidence_id"], "quote": c["quote"]} for c in cited if c["verified"]]


def _argument(turns: Sequence[Mapping[str, Any]], by: Any) -> MinorityAnswer:
    best = max(turns, key=lambda turn: len(_quotes(turn)))
    reason = best.get("rationale") or best.get("reason")
    return {"answer": _answer(best), "by": [by(t) for t in turns], "argument": reason, "quotes": _quotes(best)}


def _changes(document: Mapping[str, Any], given: Sequence[Mapping[str, Any]], by: Any) -> list[Change]:
    """Answers that differ from the same speaker's last one, in order."""
    if document["task"]["kind"] not in ("labels", "number"):
        return []
    changes: list[Change] = []
    last: dict[Who, str] = {}
    quoted: dict[Who, set[str]] = {}
    for place, turn in enumerate(given):
        who, answer = (turn["agent"], None), turn.get("answer")
        if answer is None or "number" in turn:  # samples do not change
            continue
        new = [quote["evidence_id"] for quote in _quotes(turn)]
        if (before := last.get(who)) is not None and not _same(document, before, answer):
            heard = [t["agent"] for t in given[:place] if t["agent"] != turn["agent"]]
            heard = [
                agent
                for agent in dict.fromkeys(heard)
                if _same(document, _last(given[:place], agent, turn["round"]), answer)
            ]
            found = [id for id in dict.fromkeys(new) if id not in quoted.get(who, set())]
            change = {"round": turn["round"], "before": before, "answer": answer, "after": heard}
            changes.append(by(turn) | change | {"evidence_ids": found})
        last[who] = answer
        quoted.setdefault(who, set()).update(new)
    return changes


def _last(given: Sequence[Mapping[str, Any]], agent: str, round: int) -> str | None:
    """An agent's last answer in an earlier round."""
    said = [turn.get("answer") for turn in given if turn["agent"] == agent and turn["round"] < round]
    return said[-1] if said else None
