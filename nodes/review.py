"""Reviews: what one agent says of another's answer, and scores that agents give each other; one call each."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph.types import Send
from moot.nodes.agents import AgentsSettings, last_round, present
from moot.nodes.replies import ReviewReply, ScoreReply
from moot.nodes.run import Node, Run
from moot.nodes.show import show_answers, show_claim, show_persona
from moot.nodes.speaker import Speaker, as_speaker, missed
from moot.nodes.speakers import declared, hand_over, new_turn
from moot.nodes.state import DebaterState, DebateState, Task, Turn
from moot.nodes.task import wording
from moot.prompts import fill, load
from moot.retrievers.errors import WorldError


async def review(
    claim: str, task: Task, answer: Turn, model: Speaker | BaseChatModel, *, persona: str | None = None
) -> ReviewReply:
    """A review of another agent's answer: one call.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    speaker = as_speaker(model, "agent")
    return await speaker.ask(_filled("peer_review/review", claim, task, answer, speaker, persona), ReviewReply)


async def score_answer(
    claim: str, task: Task, answer: Turn, model: Speaker | BaseChatModel, *, persona: str | None = None
) -> ScoreReply:
    """What another agent's answer is worth, from 0 to 1 (S3, appendix E): one call.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    speaker = as_speaker(model, "agent")
    return await speaker.ask(_filled("cortex_debate/score", claim, task, answer, speaker, persona), ScoreReply)


def _filled(
    prompt: str, claim: str, task: Task, answer: Turn, speaker: Speaker, persona: str | None
) -> tuple[str, str]:
    values = {"name": speaker.role, "claim": show_claim(claim, task), "answer": show_answers([answer])}
    return fill(load(prompt), wording(task) | values | {"persona": show_persona(persona)})


def review_node(ask: Any = review, fields: tuple[str, ...] = ("comment", "confidence")) -> Node:
    """Writes what an agent says of the one answer among ``opponents`` into its turn.

    Reads: claim, task, debater, opponents, turns. Where no usable reply comes, or none at all, the fields are null.

    Args:
        ask: `review` or `score_answer`.
        fields: the fields of its reply.
    """

    async def step(state: DebaterState, run: Run) -> dict[str, Any]:
        turn, speaker = state["turns"][0], await run.speaker_of(state["debater"])
        persona = state["debater"].get("persona")
        try:
            said = await ask(state["claim"], state["task"], state["opponents"][0], speaker, persona=persona)
        except WorldError as error:
            return {"turns": [{**turn, **dict.fromkeys(fields), "outcome": missed(error, run.ledger)}]}
        return {"turns": [{**turn, **{field: getattr(said, field) for field in fields}, "outcome": "ok"}]}

    return Node(step)


def reviews_of(state: DebateState, name: str) -> list[Turn]:
    """The reviews of an agent's last answer."""
    return [
        turn
        for turn in state["turns"]
        if turn["step"] == "review" and turn.get("reviewed") == name and turn["round"] == state["rounds"]
    ]


def to_reviewers(to: str, state: DebateState, settings: AgentsSettings, step: str = "review") -> list[Send]:
    """Every agent goes to every other one's last answer, where that one gave any."""
    last = last_round(state, settings)
    sends = []
    for agent in present(state, settings):
        for number, (name, answer) in enumerate(last.items(), 1):
            if name != agent.name and answer.get("answer") is not None:
                turn: Turn = {**new_turn(answer["round"], agent.name, step, number), "reviewed": name}
                sends.append(hand_over(to, state, declared(agent), turn, opponents=[answer]))
    return sends
