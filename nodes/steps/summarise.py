"""What somebody who does not debate makes of answers: whether they agree, what they come to, a round in short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph.types import Send
from moot.core.errors import ReplyError, WorldError
from moot.nodes.models.ledger import missed
from moot.nodes.models.speaker import Speaker, as_speaker
from moot.nodes.runtime.budget import rounds_or_budget
from moot.nodes.runtime.node import Node, Run
from moot.nodes.runtime.state import DebaterState, DebateState, Task, Turn, recorded_round
from moot.nodes.speakers.hand_over import hand_over, new_turn
from moot.nodes.steps.compare import IN_WORDS, agreed_answer, answers_of, silence_of
from moot.nodes.texts.answers import same_answer
from moot.nodes.texts.replies import AgreeReply, FinalReply, SummaryReply, final_reply
from moot.nodes.texts.show import show_answers, show_claim, show_person
from moot.nodes.texts.task import wording

AGREE, SUMMARY, ROUND_SUMMARY = "madke/agree", "madke/summary", "chat_eval/summary"
"""Prompts."""


async def all_agree(
    claim: str, task: Task, answers: Sequence[Turn], model: Speaker | BaseChatModel, prompt: str = AGREE
) -> AgreeReply:
    """Whether debaters' answers agree, by a model (S4 3.2.2, Eq. 5): one call.

    Args:
        claim: what is debated.
        task: what an answer is.
        answers: turns with ``answer`` and ``rationale``.
        model: who compares them.
        prompt: the prompt's name.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    return await as_speaker(model, "judge").ask(prompt, _shown(claim, task, answers), AgreeReply)


async def sum_up(
    claim: str, task: Task, answers: Sequence[Turn], model: Speaker | BaseChatModel, prompt: str = SUMMARY
) -> FinalReply:
    """The answer that debaters' last answers come to (S4 3.2.2, Eq. 6), of labels and numbers one of theirs: one call.

    Args:
        claim: what is debated.
        task: what an answer is.
        answers: turns with ``answer`` and ``rationale``.
        model: who sums up.
        prompt: the prompt's name.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    given = [str(turn["answer"]) for turn in answers if turn.get("answer") is not None]
    return await as_speaker(model, "summariser").ask(prompt, _shown(claim, task, answers), final_reply(task, given))


def _shown(claim: str, task: Task, answers: Sequence[Turn]) -> dict[str, str]:
    return wording(task) | {"claim": show_claim(claim, task), "answers": show_answers(answers)}


def agreement_node(prompt: str = AGREE) -> Node:
    """Asks the role ``judge`` whether the last round's answers agree.

    Reads: claim, task, turns, rounds, votes. Without a usable reply ``agree`` is null, and the debate goes on. So it
    does where the judge finds an agreement of labels or numbers that differ; a warning tells where it and the votes
    contradict each other.

    Args:
        prompt: the prompt's name.
    """

    async def step(state: DebateState, run: Run) -> dict[str, Any]:
        turn = new_turn(state["rounds"], "judge", "agree")
        speaker, answers = await run.speaker("judge"), answers_of(state["turns"])
        try:
            said = await all_agree(state["claim"], state["task"], answers, speaker, prompt)
        except ReplyError as error:
            return {"turns": [{**turn, "agree": None, "reason": None, "outcome": error.kind}]}
        same = agreed_answer(state["votes"]) is not None
        if state["task"]["kind"] not in IN_WORDS and said.agree != same:
            found, voted = ("an agreement", "differ") if said.agree else ("no agreement", "are the same")
            run.ledger.warn("judge_contradicts_votes", f"The judge found {found}, but the answers {voted}.")
        agree = said.agree and (same or state["task"]["kind"] in IN_WORDS)
        record = recorded_round(state["rounds"], reason="agreed" if agree else "no_agreement")
        return {"turns": [{**turn, "agree": agree, "reason": said.reason, "outcome": "ok"}], **record}

    return Node(step, prompts=(prompt,))


def agreed_in(turns: Sequence[Turn], round: int) -> bool:
    """Whether the judge found that the answers of a round agree.

    Args:
        turns: of the debate.
        round: its number.
    """
    return any(turn["step"] == "agree" and turn["round"] == round and turn.get("agree") for turn in turns)


def summarise_node(prompt: str = SUMMARY) -> Node:
    """Ends the debate with what the role ``summariser`` makes of the last round's answers.

    Reads: claim, task, turns, rounds, budget, calls. Where nobody gave an answer there is nothing to sum up, and where
    the summariser gives none there is no verdict: the debate fails.

    Args:
        prompt: the prompt's name.
    """

    async def step(state: DebateState, run: Run) -> dict[str, Any]:
        answers = answers_of(state["turns"])
        if all(turn.get("answer") is None for turn in answers):
            raise ReplyError(
                "No debater gave a usable answer in the last round, so there is nothing to sum up. "
                "Try another model, or another `structured_output`.",
                silence_of(answers),
            )
        speaker = await run.speaker_of({"name": "summariser", "told": show_person(state["turns"])})
        said = await sum_up(state["claim"], state["task"], answers, speaker, prompt)
        given = [turn["answer"] for turn in answers if turn.get("answer") is not None]
        if not any(same_answer(state["task"], said.answer, str(answer)) for answer in given):
            run.ledger.warn("new_answer", f"The summariser's answer {said.answer!r} is in none of the debaters' words.")
        turn = new_turn(state["rounds"], "summariser", "summarise")
        agreed = agreed_in(state["turns"], state["rounds"])
        return {
            "turns": [{**turn, "answer": said.answer, "rationale": said.rationale, "outcome": "ok"}],
            "answer": said.answer,
            "raw_verdict": said.answer,
            "stop_reason": "consensus" if agreed else rounds_or_budget(state, run.settings),
        }

    return Node(step, prompts=(prompt,))


# --- summaries of a round -------------------------------------------------------------------------------------------


async def sum_up_round(
    claim: str, task: Task, answers: Sequence[Turn], model: Speaker | BaseChatModel, prompt: str = ROUND_SUMMARY
) -> str:
    """A summary of answers for those who go on debating: one call.

    Args:
        claim: what is debated.
        task: what an answer is.
        answers: turns with ``answer`` and ``rationale``.
        model: who sums up.
        prompt: the prompt's name.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    reply = await as_speaker(model, "summariser").ask(prompt, _shown(claim, task, answers), SummaryReply)
    return reply.summary


def to_summariser(state: DebateState, answers: Sequence[Turn], name: str = "summariser") -> Send:
    """Answers of the last round go to be summed up, in the name of ``name``.

    Args:
        state: the debate.
        answers: what is summed up.
        name: whose turn it is.
    """
    turn: Turn = {**new_turn(state["rounds"], name, "summarise"), "role": "summariser"}
    return hand_over("summarise", state, {"name": "summariser"}, turn, opponents=answers, evidence=[])


def summary_node(prompt: str = ROUND_SUMMARY) -> Node:
    """Sums up the answers among ``opponents``.

    Without a usable reply, or any, the summary is null, and the debate goes on.

    Reads: claim, task, opponents, turns.

    Args:
        prompt: the prompt's name.
    """

    async def step(state: DebaterState, run: Run) -> dict[str, Any]:
        turn, speaker = state["turns"][0], await run.speaker("summariser")
        try:
            summary = await sum_up_round(state["claim"], state["task"], state["opponents"], speaker, prompt)
        except WorldError as error:
            return {"turns": [{**turn, "summary": None, "outcome": missed(error, run.ledger)}]}
        return {"turns": [{**turn, "summary": summary, "outcome": "ok"}]}

    return Node(step, prompts=(prompt,))


def summaries_of(turns: Sequence[Turn], round: int) -> list[Turn]:
    """The summaries of a round.

    Args:
        turns: of the debate.
        round: its number.
    """
    return [turn for turn in turns if turn["step"] == "summarise" and turn["round"] == round]
