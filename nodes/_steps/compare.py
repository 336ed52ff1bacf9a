"""Compares the answers of a round: groups those that mean the same, and records whether all agents agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from langchain_core.language_models import BaseChatModel
from moot.core.errors import Outcome, ReplyError, WorldError
from moot.nodes._models.parallel import all_at_once
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import RoundReason, StopReason, Task, Turn, Vote
from moot.nodes._records.reducers import recorded_round
from moot.nodes._runtime.ceilings import stopped_by_ceiling
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.turns import Known, Said, TurnBase, numbered, tells
from moot.nodes._steps.score import METRICS, average
from moot.nodes._texts.answers import same_answer, surely_differ
from moot.nodes._texts.dissent import speaker_key
from moot.nodes._texts.plans import searches_so_far
from moot.nodes._texts.replies import Reply
from moot.nodes._texts.show import show_claim
from moot.nodes._texts.task import leaves_open
from moot.prompts import as_data

EQUIVALENCE = "tasks/equivalence"
"""The name of the prompt that compares two answers."""
WORDED_KINDS = ("short_answer", "expression")
"""Kinds of tasks in which answers in different words may mean the same."""


def answers_of(turns: Sequence[Turn], round: int | None = None) -> list[Turn]:
    """The turns with the answers of a round, by default of the last round, in their order.

    Args:
        turns: the debate's turns. Those of the step ``respond`` count as answers, even without a usable answer.
        round: the round's number; None for the last round.
    """
    given = [t for t in turns if t["step"] == "respond"]
    last = max((t["round"] for t in given), default=0) if round is None else round
    return [t for t in given if t["round"] == last]


def last_answers(turns: Sequence[Turn]) -> list[Turn]:
    """The last round's answers; a speaker's earlier answer replaces one that a ceiling prevented."""
    given = {speaker_key(turn): turn for turn in turns if turn["step"] == "respond" and not stopped_by_ceiling(turn)}
    return [given.get(speaker_key(turn), turn) if stopped_by_ceiling(turn) else turn for turn in answers_of(turns)]


def common_outcome(turns: Sequence[Turn]) -> Outcome:
    """The outcome that all unusable replies have in common, without failed or prevented calls; else ``unparsed``."""
    outcomes = {turn.get("outcome") for turn in turns} & set(get_args(Outcome)) - {"ok"}
    return outcomes.pop() if len(outcomes) == 1 else "unparsed"  # type: ignore[return-value]


def agreed_answer(votes: Sequence[Vote]) -> str | None:
    """The answer on which all votes agree, in the words of the first vote; None if they do not agree.

    Without votes, or if a vote has no group (no answer, or an answer that does not count), there is no agreement.

    Args:
        votes: the votes of a round.
    """
    groups = {vote["group"] for vote in votes}
    return votes[0]["answer"] if len(groups) == 1 and None not in groups else None


class SameReply(Reply):
    """Whether two answers mean the same."""

    reason: str
    same: bool


class Comparison(TurnBase):
    """A model's comparison of an answer with other answers."""

    step: Literal["compare"]
    role: str
    comparisons: list[dict[str, Any]]


@tells(Comparison)
def tell_comparison(turn: Turn, known: Known) -> Iterator[Said]:
    """A line for each other answer: whether it means the same."""
    for check in turn["comparisons"]:
        found = {True: "means the same as", False: "differs from", None: "no usable reply on"}[check["same"]]
        yield Said("comparisons", numbered("compared", turn), f'{found} "{check["with"]}"', check["reason"])


@dataclass(frozen=True)
class SameMeaning:
    """Whether two answers mean the same, according to a model, and the model's reason."""

    first: str
    second: str
    same: bool | None  # None if there is no usable reply, or a ceiling prevented the call
    reason: str  # the error if ``same`` is None


async def same_meaning(claim: str, task: Task, first: str, second: str, model: Speaker | BaseChatModel) -> SameMeaning:
    """Asks a model, in one call, whether two answers mean the same (Tool-MAD, first version, section C.2)."""
    speaker = as_speaker(model, "equivalence")
    shown = {"first": as_data("answer", first, number="1"), "second": as_data("answer", second, number="2")}
    values = {"subject": task["subject"], "claim": show_claim(claim, task), **shown}
    try:
        reply = await speaker.ask(EQUIVALENCE, values, SameReply)
    except ReplyError as error:
        return SameMeaning(first, second, None, error.detail)
    return SameMeaning(first, second, reply.same, reply.reason)


async def group_answers(
    claim: str, task: Task, answers: Sequence[str | None], model: Speaker | BaseChatModel | None = None
) -> tuple[list[int | None], list[list[SameMeaning]]]:
    """Groups answers that mean the same: each answer's group, from 0, and the model's comparisons for each answer."""
    groups: list[list[str]] = []
    group_of_each: list[int | None] = []
    checks: list[list[SameMeaning]] = []
    for answer in answers:
        made: list[SameMeaning] = []
        group = None
        if answer is not None:
            # "212 km" and "212 miles" stay in two groups, even if "212" is in one of them.
            possible = [
                i for i, members in enumerate(groups) if not any(surely_differ(member, answer) for member in members)
            ]
            group = next((i for i in possible if same_answer(task, groups[i][0], answer)), None)
            if group is None and model is not None and task["kind"] in WORDED_KINDS:
                made = await all_at_once(same_meaning(claim, task, groups[i][0], answer, model) for i in possible)
                group = next((i for i, check in zip(possible, made, strict=True) if check.same), None)
            if group is None:
                group = len(groups)
                groups.append([])
            groups[group].append(answer)
        group_of_each.append(group)
        checks.append(made)
    return group_of_each, checks


def average_scores(turns: Sequence[Turn]) -> dict[str, dict[str, float | None]]:
    """The mean of each score over a debater's rounds so far, by debater and score; None if no value is known."""
    given = [t for t in turns if t["step"] == "respond"]
    agents = list(dict.fromkeys(t["agent"] for t in given))
    measured = [m for m in METRICS if any(m in t.get("scores", {}) for t in given)]
    return {
        agent: {m: average([t.get("scores", {}).get(m) for t in given if t["agent"] == agent]) for m in measured}
        for agent in agents
    }


def agreed_or_disputed(votes: Sequence[Vote], round: int) -> RoundReason:
    """The ``reason`` of a round's record, for debates that end when all agree, except on first answers (round 0)."""
    if agreed_answer(votes) is None:
        return "disputed"
    return "agreed" if round > 0 else "first_answers"


def compare_node(finds: Callable[[Any], RoundReason | None] = lambda settings: None) -> Node:
    """Closes a round: writes its number, its votes, and its record in ``round_log``.

    Reads: claim, task, turns and, for ``open_continues``, evidence. Votes for answers that mean the same have the same
    ``group``. The role ``equivalence`` compares two free-text answers if their texts differ. The reply is recorded in a
    turn of the agent that gave the second answer. If the settings have ``min_agents``, the debate fails after a round
    in which fewer than ``min_agents`` agents could be reached, or not all of them if the round has fewer.

    Args:
        finds: takes the settings; returns the ``reason`` of the round's record. None stands for the result of
            `agreed_or_disputed`, or ``open`` for an agreement that the evidence settles nothing if the setting
            ``open_continues`` is on. A later step may replace the reason.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        closed = await close_round(state, run)
        votes, round = closed["votes"], closed["rounds"]
        found = finds(run.settings) or agreed_or_disputed(votes, round)
        continues = getattr(run.settings, "open_continues", False)
        if found == "agreed" and continues and leaves_open(state["task"], agreed_answer(votes)):
            searches = searches_so_far(state["turns"], state["evidence"])
            return closed | recorded_round(round, reason="open", votes=votes, searches=searches)
        return closed | recorded_round(round, reason=found, votes=votes)

    return Node(step, prompts=(EQUIVALENCE,))


def compare_texts_node(finds: RoundReason | None = "every_round") -> Node:
    """Closes a round like `compare_node`, but without a model: only answers with the same text get the same ``group``.

    Reads: claim, task, turns.

    Args:
        finds: the ``reason`` of the round's record; None for the result of `agreed_or_disputed`. A later step may
            replace the reason.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        closed = await close_round(state, run, by_text=True)
        votes, round = closed["votes"], closed["rounds"]
        return closed | recorded_round(round, reason=finds or agreed_or_disputed(votes, round), votes=votes)

    return Node(step)


async def close_round(state: DebateState, run: NodeContext, *, by_text: bool = False) -> dict[str, Any]:
    """Compares a round's answers; returns the writes of `compare_node` without the round's record."""
    spoken = last_answers(state["turns"])
    reached = [t for t in spoken if t.get("outcome") != "failed"]
    least = min(getattr(run.settings, "min_agents", 0), len(spoken))
    if len(reached) < least:
        raise WorldError(
            f"Only {len(reached)} of {len(spoken)} agents could be reached in round {spoken[0]['round']}; at least "
            f"{least} must be reached (`min_agents`). See the warnings for the reasons.",
            kind="too_few_agents",
            retryable=True,
        )
    answers = [t.get("answer") for t in reached]
    in_words = state["task"]["kind"] in WORDED_KINDS and not by_text
    speaker = await run.speaker("equivalence") if in_words else None
    groups, checks = await group_answers(state["claim"], state["task"], answers, speaker)
    turns = [comparison_turn(turn, made) for turn, made in zip(reached, checks, strict=True) if made]
    rounds = max((turn["round"] for turn in reached), default=0)
    return {"rounds": rounds, "votes": votes_of(reached, groups), "turns": turns}


async def compare_with(
    state: DebateState, run: NodeContext, before: Sequence[Turn], now: Sequence[Turn]
) -> tuple[list[str], list[Turn]]:
    """The agents whose answers differ from those ``before``, and the turns with a model's comparisons of free texts.

    An unusable reply differs from an answer, and equals another unusable reply.
    """
    earlier = {turn["agent"]: turn.get("answer") for turn in before}
    speaker = await run.speaker("equivalence") if state["task"]["kind"] in WORDED_KINDS else None
    changed, compared = [], []
    for turn in now:
        both = [earlier[turn["agent"]], turn.get("answer")]
        groups, checks = await group_answers(state["claim"], state["task"], both, speaker)
        changed += [turn["agent"]] if groups[0] != groups[1] else []
        compared += [comparison_turn(turn, checks[1])] if checks[1] else []
    return changed, compared


def votes_of(turns: Sequence[Turn], groups: Sequence[int | None]) -> list[Vote]:
    """A round's answers as votes; ``groups`` has the group of each answer."""
    votes: list[Vote] = []
    for turn, group in zip(turns, groups, strict=True):
        vote: Vote = {"agent": turn["agent"], "answer": turn.get("answer"), "group": group}
        if "number" in turn:
            vote["number"] = turn["number"]
        if "confidence" in turn:
            vote["confidence"] = turn["confidence"]
        votes.append(vote)
    return votes


def comparison_turn(turn: Turn, made: Sequence[SameMeaning]) -> Turn:
    """The turn with a model's comparisons of a turn's answer."""
    comparisons = [{"with": c.first, "same": c.same, "reason": c.reason} for c in made]
    key: Turn = {k: turn[k] for k in ("round", "phase", "agent", "number") if k in turn}
    return {**key, "step": "compare", "role": "equivalence", "comparisons": comparisons}


def average_scores_node(stable: Callable[[DebateState, Any], bool] | None = None) -> Node:
    """Averages each debater's scores over its rounds.

    Reads: turns, and with the argument ``stable`` also votes and rounds.

    Args:
        stable: takes the state and the settings; returns whether the scores of the last round's answers reach their
            thresholds. The function is called only if the answers agree. Then its result becomes the ``reason`` of the
            round's record: ``stable`` or ``unstable``. None if scores decide nothing.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        update: dict[str, Any] = {"scores": average_scores(state["turns"])}
        if stable is None or agreed_answer(state["votes"]) is None:
            return update
        last = [(turn["agent"], turn.get("scores", {})) for turn in answers_of(state["turns"])]
        scores = {agent: {metric: given[metric] for metric in METRICS if metric in given} for agent, given in last}
        found = "stable" if stable(state, run.settings) else "unstable"
        return update | recorded_round(state["rounds"], reason=found, scores=scores)

    return Node(step)


def end_agreed_node(reason: Callable[[Any], StopReason]) -> Node:
    """Ends the debate with the agreed answer of the last round. Reads: votes. Without an agreement, the answer is null.

    Args:
        reason: takes the settings; returns the stop reason.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        answer = agreed_answer(state["votes"])
        return {"answer": answer, "raw_verdict": answer, "stop_reason": reason(run.settings)}

    return Node(step)
