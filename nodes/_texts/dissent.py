"""Finds the dissent in a debate: answers other than the verdict, their best arguments, and changes of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, combinations
from typing import Any

from moot.core.errors import BUDGET_EXHAUSTED
from moot.nodes._records.entries import GATE, OPPOSITE
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
    quotes for the first time; only verified quotes count. ``towards_verdict`` is whether the new answer is the verdict;
    null without a verdict, or if the verdict is withheld.

    If two sides with fixed stances debate, the answer is that of the side that the moderator finds ahead. Then
    ``after`` is this side, and ``evidence_ids`` are those that it quotes for the first time in this round. The same
    holds for a trial's critic, with the panel's verdicts as answers; and a counsel that concedes changes its answer.
    """

    round: int
    before: str
    answer: str
    after: list[str]
    evidence_ids: list[str]
    towards_verdict: bool | None


class Dissent(TypedDict):
    """The answers other than the verdict, and the changes of answers in a debate.

    ``votes`` counts each last answer, the most frequent first. ``minority`` are the last answers other than the
    verdict, without votes that do not count: of readers of one text each, those whose text leaves the claim open.
    ``asked_again`` counts the answers that could be changes: those of speakers who had given an answer before. A
    free-text answer in other words is a change, unless the debate found that it means the same as the one before.
    """

    votes: list[AnswerCount]
    minority: list[MinorityAnswer]
    changes: list[Change]
    asked_again: int


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
    groups = _turns_by_group(document, last_turns(deciding), verdict)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    uncounted = {(vote["agent"], vote.get("number")) for vote in document["votes"] if is_uncounted(vote)}
    others = [
        [turn for turn in turns if speaker_key(turn) not in uncounted] for key, turns in ordered if key != VERDICT
    ]
    changes, asked_again = _changes(document, _answers_by_speaker(document), answering_agent)
    return {
        "votes": [{"answer": _answer_of(turns[0]), "votes": len(turns)} for _, turns in ordered],
        "minority": [_minority_answer(turns, answering_agent) for turns in others if turns],
        "changes": changes,
        "asked_again": asked_again,
    }


def is_uncounted(vote: Mapping[str, Any]) -> bool:
    """Whether a vote has an answer, but does not count: it leaves the claim open, and others do not."""
    return vote["answer"] is not None and vote["group"] is None


def speaker_key(turn: Mapping[str, Any]) -> SpeakerKey:
    """Who speaks in a turn: of a sampled agent, each number is a speaker."""
    return turn["agent"], turn.get("number")


def last_turns(turns: Iterable[Any]) -> dict[SpeakerKey, Any]:
    """Each speaker's last turn; an earlier one replaces a turn that a ceiling prevented."""
    found: dict[SpeakerKey, Any] = {}
    for turn in turns:
        if turn.get("outcome") != BUDGET_EXHAUSTED or speaker_key(turn) not in found:
            found[speaker_key(turn)] = turn
    return found


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


def _answers_by_speaker(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The usable answers of all rounds, in order, without samples of one agent, which are no changes of its answer.

    If sides with fixed positions debate, the positions of those who may change theirs (`_positions`) are the answers.
    """
    fixed = _positions(document)
    given = [
        turn
        for turn in document["turns"]
        if turn["step"] == "respond" and (turn["phase"] == GATE or (turn["phase"] == "primary" and not fixed))
    ]
    return [turn for turn in [*given, *fixed] if turn.get("answer") is not None and "number" not in turn]


VERDICT_FOR: Mapping[str, str] = {"plaintiff": "SUPPORTED", "defense": "NOT SUPPORTED"}
"""The verdict of a trial for which each side argues."""


def _positions(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Whom a moderator or a trial's critic finds ahead, and whether counsel concede, as answers in the order of turns.

    Before its first argument, a counsel has the position of its side. Only the primary debate of a trial counts.
    """
    found: list[Mapping[str, Any]] = []
    for turn in document["turns"]:
        if turn.get("leans") is not None:
            found.append(turn | {"answer": turn["leans"]})
        elif turn["phase"] == "primary" and turn["step"] == "critique" and (ahead := _side_ahead(turn)):
            found.append(turn | {"answer": VERDICT_FOR[ahead], "ahead": ahead})
        elif turn["phase"] == "primary" and turn["step"] == "argue" and turn.get("concedes") is not None:
            side = turn["side"]
            if not any(one["agent"] == turn["agent"] for one in found):
                found.append({**turn, "round": 0, "answer": VERDICT_FOR[side], "citations": []})
            found.append(turn | {"answer": VERDICT_FOR[OPPOSITE[side] if turn["concedes"] else side]})
    return found


def _side_ahead(critique: Mapping[str, Any]) -> str | None:
    """The side of a trial that the critic finds ahead; None for neither, or without a usable reply.

    It is the other one than the ``weaker`` side; in the full procedure, which has none, the side with the higher sum of
    scores.
    """
    if "weaker" in critique:
        return OPPOSITE.get(critique["weaker"])
    if critique["debate_resolved"] is None:
        return None
    scored = {side: sum(critique[side][name] for name in ("logic", "evidence", "rebuttal")) for side in VERDICT_FOR}
    difference = round(scored["plaintiff"] - scored["defense"], 9)
    return None if not difference else "plaintiff" if difference > 0 else "defense"


def _trial_verdict(document: Mapping[str, Any]) -> str | None:
    """The verdict of a panel; SUPPORTED if it is inconclusive, and the claim counts as not refuted."""
    burden = any(warned["kind"] == "burden_of_refutation" for warned in document["warnings"])
    verdict: str | None = VERDICT_FOR["plaintiff"] if burden else document["raw_verdict"]
    return verdict


def _sameness(document: Mapping[str, Any]) -> Callable[[str, str], bool]:
    """A function that says whether two answers are the same, as far as the debate found it.

    Free-text answers are also the same if votes have them in one group, or if a model found that they mean the same, or
    if both are the same as a third one.
    """
    task, turns = document["task"], document["turns"]
    if task["kind"] in ("labels", "number"):
        return lambda one, other: same_answer(task, one, other)
    said = {(t["phase"], t["round"], t["agent"], t.get("number")): t.get("answer") for t in turns if "answer" in t}
    found: list[tuple[str, str]] = []
    for votes in (document["votes"], *(record.get("votes") or [] for record in document["round_log"])):
        for one, other in combinations([vote for vote in votes if vote["group"] is not None], 2):
            found += [(one["answer"], other["answer"])] if one["group"] == other["group"] else []
    for turn in turns:
        answer = said.get((turn["phase"], turn["round"], turn["agent"], turn.get("number")))
        if turn["step"] == "compare" and answer is not None:
            found += [(check["with"], answer) for check in turn["comparisons"] if check["same"]]
    answers = {*said.values(), document["answer"], *chain.from_iterable(found)} - {None}
    found += [(one, other) for one, other in combinations(answers, 2) if same_answer(task, one, other)]
    alike = {answer: {answer} for answer in answers}
    for one, other in found:
        both = alike[one] | alike[other]
        alike.update(dict.fromkeys(both, both))
    return lambda one, other: one == other or other in alike.get(one, ())


def _changes(
    document: Mapping[str, Any], given: Sequence[Mapping[str, Any]], answering_agent: Any
) -> tuple[list[Change], int]:
    """The answers that differ from the speaker's previous one, in order; and how many answers could be changes."""
    changes: list[Change] = []
    asked_again = 0
    last: dict[str, str] = {}
    quoted: dict[str, set[str]] = {}
    same = _sameness(document)
    # Readers of one document each hear only the aggregator.
    speaking = [turn for turn in document["turns"] if turn["step"] == "aggregate"] or given
    for turn in given:
        speaker, answer, round = turn["agent"], turn["answer"], turn["round"]
        before = last.get(speaker)
        last[speaker] = answer
        new = [quote["evidence_id"] for quote in _verified_quotes(turn)]
        found = [id for id in dict.fromkeys(new) if id not in quoted.get(speaker, set())]
        quoted.setdefault(speaker, set()).update(new)
        asked_again += before is not None
        if before is None or same(before, answer):
            continue
        of_trial = turn["step"] in ("argue", "critique")
        verdict = _trial_verdict(document) if of_trial else document["answer"] or document["raw_verdict"]
        heard = [
            agent
            for agent, said in _last_answers(speaking, turn).items()
            if agent != speaker and said is not None and same(said, answer)
        ]
        changes.append(
            answering_agent(turn)
            | {
                "round": round,
                "before": before,
                "answer": answer,
                "after": [turn["ahead"]] if "ahead" in turn else heard,
                "evidence_ids": _newly_argued(document, turn) if "ahead" in turn else found,
                "towards_verdict": None if verdict is None else same(answer, verdict),
            }
        )
    return changes, asked_again


def _last_answers(speaking: Iterable[Mapping[str, Any]], turn: Mapping[str, Any]) -> dict[str, str | None]:
    """Each agent's last answer before a turn's round, in the same phase; None if it was invalid."""
    return {
        one["agent"]: one.get("answer")
        for one in speaking
        if one["phase"] == turn["phase"] and one["round"] < turn["round"]
    }


def _newly_argued(document: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """The ids of the evidence that a side quotes for the first time in the round in which it is found ahead."""
    rounds: dict[str, int] = {}
    for turn in document["turns"]:
        if turn["step"] == "argue" and turn["side"] == found["ahead"] and turn["phase"] == found["phase"]:
            for quote in _verified_quotes(turn):
                rounds.setdefault(quote["evidence_id"], turn["round"])
    return [id for id, first in rounds.items() if first == found["round"]]
