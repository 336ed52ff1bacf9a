"""Agreement checks by a judge, final answers by a summariser, and summaries of a round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Annotated, Any, Literal, NotRequired

from langchain_core.language_models import BaseChatModel
from langgraph.types import Send
from moot.core.errors import ReplyError, WorldError
from moot.core.redaction import redact
from moot.nodes._models.ledger import record_failed_call
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import Task, Turn
from moot.nodes._records.reducers import recorded_round
from moot.nodes._runtime.budget import Decision, rounds_or_budget, stopped_by_ceiling
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebaterState, DebateState
from moot.nodes._runtime.turns import Known, Said, Started, new_turn, tells
from moot.nodes._speakers.turns import send_turn
from moot.nodes._steps.compare import WORDED_KINDS, agreed_answer, common_outcome, last_answers
from moot.nodes._steps.responding import tell_answer
from moot.nodes._texts.answers import ABSTENTION, same_answer, surely_differ
from moot.nodes._texts.replies import Reply, SummaryReply, Text, answer_type, by_task
from moot.nodes._texts.show import show_answers, show_claim, show_remarks
from moot.nodes._texts.task import wording
from pydantic import AfterValidator, WithJsonSchema, create_model

AGREE, SUMMARY, ROUND_SUMMARY = "madke/agree", "madke/summary", "chat_eval/summary"
"""The names of the prompts."""


class AgreeReply(Reply):
    """Whether all answers agree."""

    reason: str
    agree: bool


class Agreement(Started):
    """A model's judgement of whether a round's answers agree."""

    step: Literal["agree"]
    agree: bool | None
    agreed: NotRequired[bool]
    reason: str | None
    outcome: str


@tells(Agreement)
def tell_agreement(turn: Turn, known: Known) -> Iterator[Said]:
    """The judge's reply, and what counts instead if the votes contradict it."""
    if turn["agree"] is None:
        yield Said("agree", "finds", outcome=turn["outcome"])
        return
    found = "agreement" if turn["agree"] else "no agreement"
    if turn.get("agreed", turn["agree"]) != turn["agree"]:
        counts = "an agreement: the answers are the same" if turn["agreed"] else "no agreement: the answers differ"
        found += f" (counts as {counts})"
    yield Said("agree", "finds", found, turn["reason"], "finding")


class FinalReply(Reply):
    """The final answer of a debate."""

    rationale: Text
    answer: str


def final_reply(task: Task, given: Sequence[str] = ()) -> type[FinalReply]:
    """The class of the final reply, whose ``answer`` must equal a given one (`same_answer`), if any is given."""
    return _final_reply(task, tuple(dict.fromkeys(given)))


@by_task
def _final_reply(task: Task, given: tuple[str, ...]) -> type[FinalReply]:
    def check_given(text: str) -> str:
        if given and not any(same_answer(task, one, text) for one in given):
            raise ValueError(f"is {redact(text)[:80]!r}, which nobody answered; choose among {list(given)}")
        return text

    narrowed = [WithJsonSchema({"type": "string", "enum": list(given)})] if given else []
    answer = answer_type(task, may_abstain=ABSTENTION in given)
    kind: Any = Annotated[answer, AfterValidator(check_given), *narrowed]
    return create_model("FinalReply", __base__=FinalReply, answer=(kind, ...))


class Summary(Started):
    """A summary of a round, for the next round."""

    step: Literal["summarise"]
    summary: str | None
    outcome: str


class FinalAnswer(Started):
    """A summariser's final answer."""

    step: Literal["summarise"]
    answer: str | None
    rationale: str | None
    outcome: str


@tells(Summary, FinalAnswer, late=True)
def tell_summary(turn: Turn, known: Known) -> Iterator[Said]:
    """A summary of a round, or the final answer."""
    if "summary" in turn:
        yield Said("summary", "sums up", turn["summary"] or "", outcome="" if turn["summary"] else turn["outcome"])
    yield from tell_answer(turn, "concludes", "decision")


async def all_agree(
    claim: str, task: Task, answers: Sequence[Turn], model: Speaker | BaseChatModel, prompt: str = AGREE
) -> AgreeReply:
    """Whether debaters' answers agree, according to a model (MADKE 3.2.2, Eq. 5): one call."""
    return await as_speaker(model, "judge").ask(prompt, prompt_values(claim, task, answers), AgreeReply)


async def sum_up(
    claim: str, task: Task, answers: Sequence[Turn], model: Speaker | BaseChatModel, prompt: str = SUMMARY
) -> FinalReply:
    """The final answer, which is one of the debaters' last answers (MADKE 3.2.2, Eq. 6): one call."""
    # If there are none, every answer of the task is valid.
    given = [str(turn["answer"]) for turn in answers if turn.get("answer") is not None]
    return await as_speaker(model, "summariser").ask(
        prompt, prompt_values(claim, task, answers), final_reply(task, given)
    )


def prompt_values(claim: str, task: Task, answers: Sequence[Turn]) -> dict[str, str]:
    return wording(task) | {"claim": show_claim(claim, task), "answers": show_answers(answers)}


def agreement_node(prompt: str = AGREE) -> Node:
    """Asks the role ``judge`` whether the last round's answers agree.

    Reads: claim, task, turns, rounds, votes. In the judge's turn, ``agree`` is the judge's reply. It is null if no
    reply was usable, or a ceiling left too little for the call. ``agreed``, also in this turn, is the step's result.

    The judge's reply decides only if the votes do not show whether the answers agree (`undecided`). Otherwise the votes
    decide, and a reply that contradicts them causes a warning. The debate fails if the call fails.

    Args:
        prompt: the prompt's name.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        turn = new_turn(state["rounds"], "judge", "agree")
        speaker, answers = await run.speaker("judge"), last_answers(state["turns"])
        try:
            reply = await all_agree(state["claim"], state["task"], answers, speaker, prompt)
            found: dict[str, Any] = {"agree": reply.agree, "reason": reply.reason, "outcome": "ok"}
        except ReplyError as error:
            found = {"agree": None, "reason": None, "outcome": error.kind}
        agreed = agreed_answer(state["votes"]) is not None
        if undecided(state):
            agreed = found["agree"] is True
        elif found["agree"] not in (agreed, None):
            finding, votes = ("no agreement", "are the same") if agreed else ("an agreement", "differ or are missing")
            run.ledger.warn("judge_contradicts_votes", f"The judge found {finding}, but the answers {votes}.")
        record = recorded_round(state["rounds"], reason="agreed" if agreed else "no_agreement")
        return {"turns": [{**turn, **found, "agreed": agreed}], **record}

    return Node(step, prompts=(prompt,))


def undecided(state: DebateState) -> bool:
    """Whether the votes are not enough to tell if the answers agree.

    This is so if all agents gave free-text answers that are not all in one group, and no two answers certainly differ.
    For example, an answer and an abstention certainly differ (`surely_differ`).

    Args:
        state: the debate's state.
    """
    given = [vote["answer"] for vote in state["votes"]]
    if state["task"]["kind"] not in WORDED_KINDS or agreed_answer(state["votes"]) is not None:
        return False
    answers = [answer for answer in given if answer is not None]
    return answers == given and not any(surely_differ(one, other) for one, other in combinations(answers, 2))


def agreed_in(turns: Sequence[Turn], round: int) -> bool:
    """Whether the answers of a round agree according to the judge's turn; False if the round has no such turn."""
    judged = [turn for turn in turns if turn["step"] == "agree" and turn["round"] == round]
    return any(turn.get("agreed", turn.get("agree")) for turn in judged)


def all_agreed(state: DebateState) -> bool:
    """Whether the last round's answers agree, according to the votes or the judge's turn.

    Args:
        state: the debate's state.
    """
    return agreed_answer(state["votes"]) is not None or agreed_in(state["turns"], state["rounds"])


def summarise_node(prompt: str = SUMMARY) -> Node:
    """Ends the debate with an answer that the role ``summariser`` makes from the last round's answers.

    Reads: claim, task, turns, rounds, votes. If no debater gave an answer, the debate fails. But if a ceiling kept at
    least one debater from answering, the summariser answers from the claim alone. The debate also fails if the
    summariser's call fails, or if its reply is unusable or has an answer that no debater gave.

    Args:
        prompt: the prompt's name.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        answers = last_answers(state["turns"])
        if all(turn.get("answer") is None for turn in answers) and not any(map(stopped_by_ceiling, answers)):
            raise ReplyError(
                "No debater gave a usable answer in the last round, so there is nothing to sum up. "
                "Try another model, or another value of `structured_output`.",
                common_outcome(answers),
            )
        speaker = await run.speaker_of({"name": "summariser", "told": show_remarks(state["turns"])})
        reply = await sum_up(state["claim"], state["task"], answers, speaker, prompt)
        turn = new_turn(state["rounds"], "summariser", "summarise")
        return {
            "turns": [{**turn, "answer": reply.answer, "rationale": reply.rationale, "outcome": "ok"}],
            "answer": reply.answer,
            "raw_verdict": reply.answer,
            "stop_reason": "consensus" if all_agreed(state) else rounds_or_budget(state, run.settings),
        }

    return Node(step, prompts=(prompt,), decides=lambda settings: {"summariser": Decision(prompt, final_reply)})


# --- summaries of a round -------------------------------------------------------------------------------------------


async def sum_up_round(
    claim: str, task: Task, answers: Sequence[Turn], model: Speaker | BaseChatModel, prompt: str = ROUND_SUMMARY
) -> str:
    """A summary of a round's answers, for the next round: one call."""
    reply = await as_speaker(model, "summariser").ask(prompt, prompt_values(claim, task, answers), SummaryReply)
    return reply.summary


def to_summariser(state: DebateState, answers: Sequence[Turn], name: str = "summariser") -> Send:
    """Builds the `Send` of answers to the summariser, with a new turn of the agent ``name``.

    Args:
        state: the debate's state.
        answers: the answers to summarise.
        name: the agent of the new turn.
    """
    turn: Turn = {**new_turn(state["rounds"], name, "summarise"), "role": "summariser"}
    return send_turn("summarise", state, {"name": "summariser"}, turn, opponents=answers, evidence=[])


def summary_node(prompt: str = ROUND_SUMMARY) -> Node:
    """Writes a summary of the answers in ``opponents`` into the turn.

    Reads: claim, task, opponents, turns. The summary is null if an external cause or a ceiling makes the call fail,
    or if no reply is usable. A `UserError` ends the debate.

    Args:
        prompt: the prompt's name.
    """

    async def step(state: DebaterState, run: NodeContext) -> dict[str, Any]:
        turn, speaker = state["turns"][0], await run.speaker("summariser")
        try:
            summary = await sum_up_round(state["claim"], state["task"], state["opponents"], speaker, prompt)
        except WorldError as error:
            return {"turns": [{**turn, "summary": None, "outcome": record_failed_call(error, run.ledger)}]}
        return {"turns": [{**turn, "summary": summary, "outcome": "ok"}]}

    return Node(step, prompts=(prompt,))


def summaries_of(turns: Sequence[Turn], round: int) -> list[Turn]:
    """The turns of a round that summarise answers, including turns whose summary is null.

    Args:
        turns: the debate's turns.
        round: the round's number.
    """
    return [turn for turn in turns if turn["step"] == "summarise" and turn["round"] == round]
