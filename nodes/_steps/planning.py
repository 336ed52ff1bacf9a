"""The plan before the first search: whom and what the claim is about, its premises, and two queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from moot.core.errors import ReplyError, WorldError
from moot.nodes._models.speaker import Speaker
from moot.nodes._records.entries import Task, Turn
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.settings import PLANNER
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.turns import Known, Said, Started, new_turn, outcome_of, tells
from moot.nodes._texts.replies import Reply, Text
from moot.nodes._texts.show import show_claim
from moot.nodes._texts.task import wording
from pydantic import Field

PROMPT = "plan/plan"
TO_PLAN = {
    "claim": {
        "premises_of": "what would all have to be true so that the claim holds, said outright or taken for granted",
        "two_queries": "The first looks for evidence that the claim holds, the second for evidence that it does not "
        "hold, or only in part",
    },
    "question": {
        "premises_of": "what the question takes for granted, and what has to be found out on the way to its answer",
        "two_queries": "The first looks for what answers the question, the second for what has to be known first, or "
        "for what speaks for another answer",
    },
}
"""The words of the prompt that differ between claims and questions."""
OWN_WORDS = (
    ' If the claim has the form "X said that ..." and X is the one by whom the claim itself was said, list what has to '
    "be true of what X said, not that X said it."
)
"""The rule for the premises of a claim with a speaker: the labels' rules judge what the speaker said."""


class PlanReply(Reply):
    """A plan of the first search."""

    subject: Text
    premises: list[Text]
    queries: Annotated[list[Text], Field(min_length=2, max_length=2)]


class Plan(Started):
    """The plan of the first search; its fields are null if the call gave none. Every agent searches for ``queries``."""

    step: Literal["plan"]
    subject: str | None
    premises: list[str] | None
    queries: list[str] | None
    outcome: str


@tells(Plan, headed=False)
def tell_plan(turn: Turn, known: Known) -> Iterator[Said]:
    """The subject, the premises and the queries of a plan, or why there is none."""
    if turn["queries"] is None:
        yield Said("plan", "plans", outcome=outcome_of(turn))
        return
    yield Said("plan", "plans", turn["subject"])
    for premise in turn["premises"]:
        yield Said("premises", "premise", premise)
    for query in turn["queries"]:
        yield Said("queries", "asks", query)


async def plan_search(claim: str, task: Task, speaker: Speaker) -> PlanReply:
    """Asks a model for the plan of the first search."""
    own_words = OWN_WORDS if task.get("label_rules") and task.get("speaker") else ""
    values = wording(task) | TO_PLAN[task["subject"]] | {"claim": show_claim(claim, task), "own_words": own_words}
    return await speaker.ask(PROMPT, values, PlanReply)


def plan_node(phase: str = "primary") -> Node:
    """Writes the plan as a turn of round 0; without a usable reply, the turn has none, with a warning."""

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        turn = new_turn(0, PLANNER, "plan", phase=phase)
        speaker = await run.speaker(PLANNER)
        try:
            reply = await plan_search(state["claim"], state["task"], speaker)
        except WorldError as error:
            outcome = error.kind if isinstance(error, ReplyError) else "failed"
            run.record.warn("search_not_planned", f"{error.detail} The claim itself is searched for.")
            return {"turns": [{**turn, **dict.fromkeys(PlanReply.model_fields), "outcome": outcome}]}
        return {"turns": [{**turn, **reply.model_dump(), "outcome": "ok"}]}

    return Node(step, prompts=(PROMPT,), idle=lambda state, settings: not settings.plans)
