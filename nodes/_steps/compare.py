"""Consensus: groups of equal answers, the stop conditions of debates, and the record of a round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from langchain_core.language_models import BaseChatModel
from moot.core.errors import Outcome, ReplyError, WorldError
from moot.nodes._models.caller import all_at_once
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import RoundReason, StopReason, Task, Turn, Vote
from moot.nodes._records.reducers import recorded_round
from moot.nodes._runtime.budget import was_cut
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebateState
from moot.nodes._steps.score import average
from moot.nodes._texts.answers import same_answer, surely_differ
from moot.nodes._texts.replies import SameReply
from moot.nodes._texts.show import show_claim
from moot.prompts import as_data

METRICS = ("faithfulness", "answer_relevance", "consistency")
"""Scores of answers that are averaged over a debate, if answers have them."""
EQUIVALENCE = "tasks/equivalence"
"""The prompt that compares answers."""
WORDED_KINDS = ("short_answer", "expression")
"""Kinds of tasks whose answers may be the same in different words."""


def answers_of(turns: Sequence[Turn], round: int | None = None) -> list[Turn]:
    """The debaters' answers of a round, by default of the last one, in the order of the debaters.

    Args:
        turns: the debate's turns; answers are the turns of the step ``respond``.
        round: the round's number; None for the last round.
    """
    given = [t for t in turns if t["step"] == "respond"]
    last = max((t["round"] for t in given), default=0) if round is None else round
    return [t for t in given if t["round"] == last]


def last_answers(turns: Sequence[Turn]) -> list[Turn]:
    """The answers of the last round; agents that a ceiling kept from answering have their previous answers instead.

    Each sample of an agent counts as an agent of its own.

    Args:
        turns: the debate's turns.
    """

    def speaker_of(turn: Turn) -> tuple[Any, ...]:
        return turn["agent"], turn.get("number")

    given = {speaker_of(turn): turn for turn in turns if turn["step"] == "respond" and not was_cut(turn)}
    return [given.get(speaker_of(turn), turn) if was_cut(turn) else turn for turn in answers_of(turns)]


def common_outcome(turns: Sequence[Turn]) -> Outcome:
    """The outcome of unusable replies, if all have the same, else ``unparsed``."""
    outcomes = {turn.get("outcome") for turn in turns} & set(get_args(Outcome)) - {"ok"}
    return outcomes.pop() if len(outcomes) == 1 else "unparsed"  # type: ignore[return-value]


def agreed_answer(votes: Sequence[Vote]) -> str | None:
    """The answer of all voters, in the first voter's words; None without votes, or if they differ or lack an answer.

    Args:
        votes: one for each agent.
    """
    groups = {vote["group"] for vote in votes}
    return votes[0]["answer"] if len(groups) == 1 and None not in groups else None


@dataclass(frozen=True)
class Comparison:
    """Whether two answers mean the same, according to a model; ``same`` is None without a usable reply."""

    first: str
    second: str
    same: bool | None
    reason: str


async def same_meaning(claim: str, task: Task, first: str, second: str, model: Speaker | BaseChatModel) -> Comparison:
    """Whether two answers mean the same (Tool-MAD, first version, C.2): one call.

    Args:
        claim: the claim of the debate.
        task: the form of an answer.
        first: an answer.
        second: another answer.
        model: the model that compares them.

    Raises:
        UserError, WorldError: the call failed.
    """
    speaker = as_speaker(model, "equivalence")
    shown = {"first": as_data("answer", first, number="1"), "second": as_data("answer", second, number="2")}
    values = {"subject": task["subject"], "claim": show_claim(claim, task), **shown}
    try:
        reply = await speaker.ask(EQUIVALENCE, values, SameReply)
    except ReplyError as error:
        return Comparison(first, second, None, error.detail)
    return Comparison(first, second, reply.same, reply.reason)


async def group_answers(
    claim: str, task: Task, answers: Sequence[str | None], model: Speaker | BaseChatModel | None = None
) -> tuple[list[int | None], list[list[Comparison]]]:
    """Groups equal answers: by their texts and, if answers are in words, also by the model.

    Answers are processed in order. Each is compared with the first answer of every group, by parallel calls. No answer
    joins a group with a member that certainly differs from it: "212 km" and "212 miles" stay in two groups, even if
    "212" is in one of them.

    Args:
        claim: the claim of the debate.
        task: the form of an answer.
        answers: one for each agent, None if the agent gave none.
        model: the model that compares free-text answers; without a model only texts are compared.

    Returns:
        For each answer its group's number, from 0, or None if there is no answer; and the comparisons made for each
        answer.

    Raises:
        UserError, WorldError: a call failed.
    """
    groups: list[list[str]] = []
    group_of_each: list[int | None] = []
    checks: list[list[Comparison]] = []
    for answer in answers:
        made: list[Comparison] = []
        group = None
        if answer is not None:
            fit = [i for i, members in enumerate(groups) if not any(surely_differ(one, answer) for one in members)]
            group = next((i for i in fit if same_answer(task, groups[i][0], answer)), None)
            if group is None and model is not None and task["kind"] in WORDED_KINDS:
                made = await all_at_once(same_meaning(claim, task, groups[i][0], answer, model) for i in fit)
                group = next((i for i, check in zip(fit, made, strict=True) if check.same), None)
            if group is None:
                group = len(groups)
                groups.append([])
            groups[group].append(answer)
        group_of_each.append(group)
        checks.append(made)
    return group_of_each, checks


def average_scores(turns: Sequence[Turn]) -> dict[str, dict[str, float | None]]:
    """Each debater's mean of each score over its rounds so far; None if none of the values is known.

    Args:
        turns: the debate's turns; turns of the step ``respond`` have scores.
    """
    given = [t for t in turns if t["step"] == "respond"]
    agents = list(dict.fromkeys(t["agent"] for t in given))
    measured = [m for m in METRICS if any(m in t.get("scores", {}) for t in given)]
    return {
        agent: {m: average([t.get("scores", {}).get(m) for t in given if t["agent"] == agent]) for m in measured}
        for agent in agents
    }


def agreed_or_disputed(votes: Sequence[Vote], round: int) -> RoundReason:
    """A round's reason in ``round_log`` if the debate ends when all agree; first answers (round 0) never end it."""
    if agreed_answer(votes) is None:
        return "disputed"
    return "agreed" if round > 0 else "first_answers"


def compare_node(
    *,
    by_text: bool = False,
    finds: RoundReason | Callable[[Any], RoundReason | None] | None = None,
    until_agreed: bool | None = None,
) -> Node:
    """Closes a round: writes its number, its votes with the groups of equal answers, and its record in ``round_log``.

    Reads: claim, task, turns. The role ``equivalence`` compares different free-text answers; its replies are
    recorded in a turn of the agent whose answer was compared.

    Args:
        by_text: whether only texts are compared, without a model.
        finds: the ``reason`` of the round's record, or a function of the settings that returns it; a later step may
            replace it. None stands for the result of `agreed_or_disputed` if an agreement ends the debate, else for
            ``every_round``.
        until_agreed: whether an agreement ends the debate; by default only if ``by_text`` is false.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        closed = await close_round(state, run, by_text=by_text)
        votes, round = closed["votes"], closed["rounds"]
        found = finds(run.settings) if callable(finds) else finds
        ends = not by_text if until_agreed is None else until_agreed
        found = found or (agreed_or_disputed(votes, round) if ends else "every_round")
        return closed | recorded_round(round, reason=found, votes=votes)

    return Node(step, prompts=(EQUIVALENCE,))


async def close_round(state: DebateState, run: NodeContext, *, by_text: bool = False) -> dict[str, Any]:
    """Compares a round's answers; returns the writes of `compare_node` without the round's record.

    Raises:
        UserError, WorldError: a comparison failed, or fewer than ``min_agents`` agents could be reached.
    """
    spoken = last_answers(state["turns"])
    last = [t for t in spoken if t.get("outcome") != "failed"]
    least = min(getattr(run.settings, "min_agents", 0), len(spoken))  # some rounds have fewer agents
    if len(last) < least:
        raise WorldError(
            f"Only {len(last)} of {len(spoken)} agents could be reached in round {spoken[0]['round']}; `min_agents` is "
            f"{least}. See the warnings for the reasons.",
            kind="too_few_agents",
            retryable=True,
        )
    answers = [t.get("answer") for t in last]
    in_words = state["task"]["kind"] in WORDED_KINDS and not by_text
    speaker = await run.speaker("equivalence") if in_words else None
    groups, checks = await group_answers(state["claim"], state["task"], answers, speaker)
    turns = [_comparison_turn(turn, made) for turn, made in zip(last, checks, strict=True) if made]
    return {"rounds": max((turn["round"] for turn in last), default=0), "votes": votes_of(last, groups), "turns": turns}


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


def _comparison_turn(turn: Turn, made: Sequence[Comparison]) -> Turn:
    comparisons = [{"with": c.first, "same": c.same, "reason": c.reason} for c in made]
    key = {k: turn[k] for k in ("round", "phase", "agent", "number") if k in turn}
    return {**key, "step": "compare", "role": "equivalence", "comparisons": comparisons}  # type: ignore[typeddict-item]


def average_scores_node(stable: Callable[[DebateState, Any], bool] | None = None) -> Node:
    """Averages each debater's scores over its rounds. Reads: turns, and with ``stable`` votes and rounds.

    Args:
        stable: takes the state and the settings; returns whether the scores of the last round's answers reach their
            thresholds. It is called only if the answers agree; its result is written to the round's record in
            ``round_log``. None if scores decide nothing.
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
    """Ends the debate with the agreed answer of the last round. Reads: votes.

    Args:
        reason: takes the settings; returns the stop reason.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        answer = agreed_answer(state["votes"])
        return {"answer": answer, "raw_verdict": answer, "stop_reason": reason(run.settings)}

    return Node(step)
