"""Finds the dissent in a debate: answers other than the verdict, their best arguments, and changes of answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moot.nodes._records.entries import GATE
from moot.nodes._texts.answers import same_answer
from typing_extensions import TypedDict

SpeakerKey = tuple[str, int | None]
"""An agent's name and the number of its sample, if any."""
VERDICT = ""
"""The key of the group whose answer is the verdict."""


class AnsweringAgent(TypedDict):
    """The agent that answered, and its model; ``number`` distinguishes samples of one agent, else it is null."""

    agent: str
    model: str | None
    number: int | None


class EvidenceQuote(TypedDict):
    """A quote from a piece of evidence."""

    evidence_id: str
    quote: str


class AnswerCount(TypedDict):
    """An answer, and the number of agents whose last answer it is; null stands for no answer.

    Each sample of an agent counts as a separate agent.
    """

    answer: str | None
    votes: int


class MinorityAnswer(TypedDict):
    """An answer, and the argument for it with the most verified quotes; if several have the most, the first of them.

    ``by`` are the agents with this answer; ``answer`` is null for agents without an answer. ``quotes`` are the verified
    quotes cited with the argument.
    """

    answer: str | None
    by: list[AnsweringAgent]
    argument: str | None
    quotes: list[EvidenceQuote]


class Change(AnsweringAgent):
    """An answer that differs from the same speaker's previous valid answer.

    ``before`` is the previous answer, and ``answer`` the new answer. ``after`` are the other agents whose last answer
    before ``round`` is the same as the new answer. ``evidence_ids`` are the ids of the evidence that the speaker
    quotes for the first time; only verified quotes count.
    """

    round: int
    before: str
    answer: str
    after: list[str]
    evidence_ids: list[str]


class Dissent(TypedDict):
    """The answers other than the verdict, and the changes of answers in a debate.

    ``votes`` counts each last answer, the most frequent first. ``minority`` are the last answers other than the
    verdict. ``changes`` has only changes of labels and numbers: free-text answers may differ but mean the same.
    """

    votes: list[AnswerCount]
    minority: list[MinorityAnswer]
    changes: list[Change]


def dissent_of(document: Mapping[str, Any]) -> Dissent:
    """The dissent in a debate: votes, agents whose answer is not the verdict, and changed answers."""
    models = {call["role"]: call["model"] for call in reversed(document["calls"])}
    judged = [turn for turn in document["turns"] if turn["step"] == "judge" and "verdict" in turn]
    answers = [turn for turn in document["turns"] if turn["step"] == "respond"]
    given = [turn for turn in answers if turn["phase"] == "primary"]
    given = given or [turn for turn in answers if turn["phase"] == GATE]  # no debate followed the gate
    # The judges if a panel decided; the last answer of each of them, or of each sample, is a vote.
    deciding = judged or given

    def answering_agent(turn: Mapping[str, Any]) -> AnsweringAgent:
        return {"agent": turn["agent"], "model": models.get(turn["agent"]), "number": turn.get("number")}

    verdict = document["raw_verdict"] if judged else document["answer"] or document["raw_verdict"]
    last: dict[SpeakerKey, Any] = {_speaker_key(turn): turn for turn in deciding}
    groups = _turns_by_group(document, last, verdict)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return {
        "votes": [{"answer": _answer_of(turns[0]), "votes": len(turns)} for _, turns in ordered],
        "minority": [_minority_answer(turns, answering_agent) for key, turns in ordered if key != VERDICT],
        "changes": [] if judged else _changes(document, given, answering_agent),
    }


def _speaker_key(turn: Mapping[str, Any]) -> SpeakerKey:
    return turn["agent"], turn.get("number")


def _answer_of(turn: Mapping[str, Any]) -> str | None:
    answer: str | None = turn.get("verdict", turn.get("answer"))
    return answer


def _turns_by_group(
    document: Mapping[str, Any], last: Mapping[SpeakerKey, Any], verdict: str | None
) -> dict[Any, list[Any]]:
    """Each speaker's last turn by the vote's group, or else by the answer; the verdict's group has the key
    `VERDICT`.
    """
    voted = {(vote["agent"], vote.get("number")): vote["group"] for vote in document["votes"]}
    groups: dict[Any, list[Any]] = {}
    for speaker, turn in last.items():
        answer = _answer_of(turn)
        key = f"group {voted[speaker]}" if voted.get(speaker) is not None else answer
        groups.setdefault(key, []).append(turn)
    of_verdict = [
        key for key, turns in groups.items() if any(_same_answer(document, _answer_of(t), verdict) for t in turns)
    ]
    return {VERDICT if of_verdict and key == of_verdict[0] else key: turns for key, turns in groups.items()}


def _same_answer(document: Mapping[str, Any], one: str | None, other: str | None) -> bool:
    """Whether two answers are the same; False if one of them is None."""
    if one is None or other is None:
        return False
    return one == other or same_answer(document["task"], one, other)


def _verified_quotes(turn: Mapping[str, Any]) -> list[EvidenceQuote]:
    cited = turn.get("citations") or []
    return [{"evidence_id": c["evidence_id"], "quote": c["quote"]} for c in cited if c["verified"]]


def _minority_answer(turns: Sequence[Mapping[str, Any]], answering_agent: Any) -> MinorityAnswer:
    """The answer of a group of turns, with the argument that has the most verified quotes."""
    best = max(turns, key=lambda turn: len(_verified_quotes(turn)))
    argument = best.get("rationale") or best.get("reason")
    return {
        "answer": _answer_of(best),
        "by": [answering_agent(t) for t in turns],
        "argument": argument,
        "quotes": _verified_quotes(best),
    }


def _changes(document: Mapping[str, Any], given: Sequence[Mapping[str, Any]], answering_agent: Any) -> list[Change]:
    """The answers that differ from the speaker's previous valid one, in order; only for labels and numbers."""
    if document["task"]["kind"] not in ("labels", "number"):
        return []
    changes: list[Change] = []
    last: dict[SpeakerKey, str] = {}
    quoted: dict[SpeakerKey, set[str]] = {}
    for place, turn in enumerate(given):
        speaker, answer = (turn["agent"], None), turn.get("answer")
        if answer is None or "number" in turn:  # several samples of one agent are not changes of its answer
            continue
        new = [quote["evidence_id"] for quote in _verified_quotes(turn)]
        if (before := last.get(speaker)) is not None and not _same_answer(document, before, answer):
            heard = [t["agent"] for t in given[:place] if t["agent"] != turn["agent"]]
            heard = [
                agent
                for agent in dict.fromkeys(heard)
                if _same_answer(document, _last_answer(given[:place], agent, turn["round"]), answer)
            ]
            found = [id for id in dict.fromkeys(new) if id not in quoted.get(speaker, set())]
            change = {"round": turn["round"], "before": before, "answer": answer, "after": heard}
            changes.append(answering_agent(turn) | change | {"evidence_ids": found})
        last[speaker] = answer
        quoted.setdefault(speaker, set()).update(new)
    return changes


def _last_answer(given: Sequence[Mapping[str, Any]], agent: str, round: int) -> str | None:
    """An agent's last answer before a round; None if there is no earlier answer, or if the last one was invalid."""
    answers = [turn.get("answer") for turn in given if turn["agent"] == agent and turn["round"] < round]
    return answers[-1] if answers else None
