"""Summaries of a round, for the next round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langgraph.types import Send
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import Task, Turn
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebaterState, DebateState
from moot.nodes._runtime.turns import Known, Said, Started, new_turn, tells, with_reply
from moot.nodes._speakers.turns import send_turn
from moot.nodes._texts.replies import SummaryReply
from moot.nodes._texts.show import show_answers, show_claim
from moot.nodes._texts.task import wording

PROMPT = "chat_eval/summary"


class Summary(Started):
    """A summary of a round, for the next round."""

    step: Literal["summarise"]
    summary: str | None
    outcome: str


@tells(Summary, late=True)
def tell_summary(turn: Turn, known: Known) -> Iterator[Said]:
    """The summary of the round."""
    if turn["summary"] is None:
        yield Said("summary", "sums up", outcome=turn["outcome"])
    else:
        yield Said("summary", "sums up", turn["summary"])


async def sum_up_round(
    claim: str, task: Task, answers: Sequence[Turn], model: Speaker | BaseChatModel, prompt: str = PROMPT
) -> SummaryReply:
    """A summary of a round's answers, for the next round: one call."""
    values = wording(task) | {"claim": show_claim(claim, task), "answers": show_answers(answers)}
    return await as_speaker(model, "summariser").ask(prompt, values, SummaryReply)


def to_summariser(state: DebateState, answers: Sequence[Turn], name: str = "summariser") -> Send:
    """Builds the `Send` of answers to the summariser, with a new turn of the agent ``name``.

    Args:
        state: the debate's state.
        answers: the answers to summarise.
        name: the agent of the new turn.
    """
    turn: Turn = {**new_turn(state["rounds"], name, "summarise"), "role": "summariser"}
    return send_turn("summarise", state, {"name": "summariser"}, turn, opponents=answers, evidence=[])


def summary_node(prompt: str = PROMPT) -> Node:
    """Writes a summary of the answers in ``opponents`` into the turn.

    Reads: claim, task, opponents, turns. The summary is null if an external cause or a ceiling makes the call fail,
    or if no reply is usable. A `UserError` ends the debate.

    Args:
        prompt: the prompt's name.
    """

    async def step(state: DebaterState, run: NodeContext) -> dict[str, Any]:
        speaker = await run.speaker("summariser")
        call = sum_up_round(state["claim"], state["task"], state["opponents"], speaker, prompt)
        return {"turns": [await with_reply(state["turns"][0], SummaryReply, call, run.record)]}

    return Node(step, prompts=(prompt,))


def summaries_of(turns: Sequence[Turn], round: int) -> list[Turn]:
    """The turns of a round that summarise answers, including turns whose summary is null.

    Args:
        turns: the debate's turns.
        round: the round's number.
    """
    return [turn for turn in turns if turn["step"] == "summarise" and turn["round"] == round]
