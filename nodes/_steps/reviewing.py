"""Reviews and scores of an agent's answer by another agent. Each takes one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from langchain_core.language_models import BaseChatModel
from langgraph.types import Send
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import Task, Turn
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebaterState, DebateState
from moot.nodes._runtime.turns import Known, Said, Started, new_turn, tells, with_reply
from moot.nodes._speakers.agents import AgentsSettings, active_agents, last_round
from moot.nodes._speakers.turns import send_turn, speaker_declaration
from moot.nodes._texts.replies import Reply, ScoreReply, Text
from moot.nodes._texts.show import show_answers, show_claim, show_given, show_persona
from moot.nodes._texts.task import wording
from moot.retrievers import Evidence
from pydantic import Field

REVIEW, SCORE = "peer_review/review", "cortex_debate/score"
"""The names of the prompts."""


class ReviewReply(Reply):
    """A reviewer's comment on an answer, and the reviewer's confidence in this comment."""

    comment: Text
    confidence: Annotated[float, Field(ge=1, le=10, allow_inf_nan=False)]


class Review(Started):
    """An agent's review of another agent's answer, with the reviewer's confidence from 1 to 10."""

    step: Literal["review"]
    number: int
    reviewed: str
    comment: str | None
    confidence: float | None
    outcome: str


class PeerScore(Started):
    """An agent's score for another agent's answer."""

    step: Literal["score"]
    number: int
    reviewed: str
    score: float | None
    outcome: str


@tells(Review)
def tell_review(turn: Turn, known: Known) -> Iterator[Said]:
    """The comment on another agent's answer, with the reviewer's confidence."""
    sure = "" if turn["confidence"] is None else f" (sure: {turn['confidence']:g} of 10)"
    if turn["comment"] is None:
        yield Said("comment", "reviews", turn["reviewed"], outcome=turn["outcome"])
    else:
        yield Said("comment", "reviews", f"{turn['reviewed']}: {turn['comment']}{sure}")


@tells(PeerScore)
def tell_peer_score(turn: Turn, known: Known) -> Iterator[Said]:
    """The score of another agent's answer."""
    if turn["score"] is None:
        yield Said("score", "scores", turn["reviewed"], outcome=turn["outcome"])
    else:
        yield Said("score", "scores", f"{turn['reviewed']}: {turn['score']:.2f}")


async def review(
    claim: str,
    task: Task,
    answer: Turn,
    model: Speaker | BaseChatModel,
    *,
    evidence: Sequence[Evidence] = (),
    persona: str | None = None,
) -> ReviewReply:
    """A review of another agent's answer: one call.

    Args:
        claim: the claim of the debate.
        task: the form of an answer.
        answer: the other agent's turn, with ``answer`` and ``rationale``.
        model: the reviewer's model.
        evidence: all evidence; the prompt shows only the texts that were given with the claim.
        persona: the reviewer's persona.

    Returns:
        The review, with ``comment``, and ``confidence`` from 1 to 10.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    speaker = as_speaker(model, "agent")
    values = _prompt_values(claim, task, answer, evidence, persona) | {"name": speaker.role}
    return await speaker.ask(REVIEW, values, ReviewReply)


async def score_answer(
    claim: str,
    task: Task,
    answer: Turn,
    model: Speaker | BaseChatModel,
    *,
    evidence: Sequence[Evidence] = (),
    persona: str | None = None,
) -> ScoreReply:
    """A score of another agent's answer, from 0 to 1 (CortexDebate, appendix E): one call."""
    speaker = as_speaker(model, "agent")
    values = _prompt_values(claim, task, answer, evidence, persona) | {"name": speaker.role}
    return await speaker.ask(SCORE, values, ScoreReply)


def _prompt_values(
    claim: str, task: Task, answer: Turn, evidence: Sequence[Evidence], persona: str | None
) -> dict[str, str]:
    values = {"claim": show_claim(claim, task), "given": show_given(evidence), "answer": show_answers([answer])}
    return wording(task) | values | {"persona": show_persona(persona)}


def review_node() -> Node:
    """Reviews the only answer in ``opponents``; writes ``comment`` and ``confidence`` into the reviewer's turn.

    Reads: claim, task, debater, opponents, evidence, turns. Both fields are null if an external cause or a ceiling
    makes the call fail, or if no reply is usable. A `UserError` ends the debate.
    """
    return _node(review, ReviewReply, REVIEW)


def peer_score_node() -> Node:
    """Scores the only answer in ``opponents`` (CortexDebate, appendix E); writes ``score`` into the scorer's turn.

    Reads: claim, task, debater, opponents, evidence, turns. ``score`` (from 0 to 1) is null if an external cause or a
    ceiling makes the call fail, or if no reply is usable. A `UserError` ends the debate.
    """
    return _node(score_answer, ScoreReply, SCORE)


def _node(ask: Any, kind: type[Reply], prompt: str) -> Node:
    """Writes the reply of ``ask`` into the turn."""

    async def step(state: DebaterState, run: NodeContext) -> dict[str, Any]:
        speaker, answer = await run.speaker_of(state["debater"]), state["opponents"][0]
        shown = {"evidence": state["evidence"], "persona": state["debater"].get("persona")}
        call = ask(state["claim"], state["task"], answer, speaker, **shown)
        return {"turns": [await with_reply(state["turns"][0], kind, call, run.record)]}

    return Node(step, prompts=(prompt,))


def reviews_of(state: DebateState, name: str) -> list[Turn]:
    """The last round's reviews of an agent's answer, including reviews that failed.

    Args:
        state: the debate's state.
        name: the name of the agent whose answer was reviewed.
    """
    return [
        turn
        for turn in state["turns"]
        if turn["step"] == "review" and turn.get("reviewed") == name and turn["round"] == state["rounds"]
    ]


def to_reviewers(to: str, state: DebateState, settings: AgentsSettings, step: str = "review") -> list[Send]:
    """Builds one `Send` for each review. Every active agent reviews the last round's valid answers of all other agents.

    An agent without a valid answer in the last round reviews others, but is not reviewed.

    Args:
        to: the name of the node that reviews.
        state: the debate's state.
        settings: the debate's settings.
        step: the step of the reviewers' turns.
    """
    last = last_round(state, settings)
    sends = []
    for agent in active_agents(state, settings):
        for number, (name, answer) in enumerate(last.items(), 1):
            if name != agent.name and answer.get("answer") is not None:
                turn: Turn = {**new_turn(answer["round"], agent.name, step, number), "reviewed": name}
                sends.append(send_turn(to, state, speaker_declaration(agent), turn, opponents=[answer]))
    return sends
