"""What is thought of a round when it is over (PROClaim; S2, sections 2.5 and 2.6): reflection, critic, court."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from moot.nodes.models.speaker import Speaker
from moot.nodes.runtime.node import Node
from moot.nodes.runtime.state import Task, TrialState, Turn
from moot.nodes.trial.counsel import (
    OTHER,
    RECENT,
    SO_FAR,
    about,
    case,
    on_record,
    said_in,
    show_statements,
    side_of,
    statements,
    this_round,
    turn_of,
)
from moot.nodes.trial.replies import (
    ClosingReply,
    CritiqueReply,
    ReflectionReply,
)
from moot.nodes.trial.step import Step, explained
from moot.nodes.trial.stopping import reflection_score
from moot.retrievers import Evidence

# --- steps ------------------------------------------------------------------------------------------------------------


REFLECT = Step("proclaim/reflect", ReflectionReply)
CRITIQUE = Step("proclaim/critique", CritiqueReply, "critic")
CLOSE = Step("proclaim/close", ClosingReply, "court")


@explained(own="the side's own last arguments.", others="those of the other side.")
async def reflect(
    claim: str,
    task: Task,
    premises: Sequence[str],
    own: Sequence[Turn],
    others: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    side: str,
    prompt: str = REFLECT.prompt,
) -> ReflectionReply:
    """What a counsel thinks of its own side's last arguments (S2, section 2.6)."""
    shown = {
        "own": show_statements(own, "Your last arguments:", "Your side has made no argument yet."),
        "others": show_statements(others, "The other side's last arguments:", "The other side has made none yet."),
    }
    return await REFLECT.ask(model, case(claim, task, premises) | shown, prompt, side=side)


@explained(said="what was said in the round.")
async def critique(
    claim: str,
    task: Task,
    premises: Sequence[str],
    exhibits: Sequence[Evidence],
    said: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    prompt: str = CRITIQUE.prompt,
) -> CritiqueReply:
    """A critic's view of both sides in a round, and of what is still open (S2, section 2.6)."""
    shown = show_statements(said, "What was said in this round:", "Nothing was said in this round.")
    return await CRITIQUE.ask(model, case(claim, task, premises, exhibits) | {"statements": shown}, prompt)


@explained()
async def close_or_go_on(
    claim: str,
    task: Task,
    premises: Sequence[str],
    said: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    prompt: str = CLOSE.prompt,
) -> ClosingReply:
    """Whether the court closes the debate after a round (S2, section 2.5, iv)."""
    shown = show_statements(said, SO_FAR, "Nothing was said yet.")
    return await CLOSE.ask(model, case(claim, task, premises) | {"statements": shown}, prompt)


# --- nodes ------------------------------------------------------------------------------------------------------------


def reflect_node() -> Node:
    """Writes what a counsel thinks of its own side into its turn, with the reflection score.

    Reads: claim, task, premises, heard, turns.
    """

    def ask(state: TrialState, speaker: Speaker, settings: Any) -> Awaitable[ReflectionReply]:
        side, said = side_of(state), [turn for turn in state["heard"] if turn["step"] == "argue"]
        own, others = ([turn for turn in said if turn["side"] == of][-2:] for of in (side, OTHER[side]))
        return reflect(*about(state), own, others, speaker, side=side)

    return REFLECT.node(
        ask, scores=lambda said: {"reflection": reflection_score(said.logic, said.novelty, said.rebuttal)}
    )


def critique_node() -> Node:
    """Adds the critic's turn. Reads: claim, task, premises, rounds, turns, evidence."""

    def ask(state: TrialState, speaker: Speaker, settings: Any) -> Awaitable[CritiqueReply]:
        said = [turn for turn in statements(state["turns"]) if turn["round"] == this_round(state)]
        return critique(*about(state), on_record(state["evidence"]), said, speaker)

    begin = turn_of(CRITIQUE.role, "critique")
    return CRITIQUE.node(ask, begin, shown=lambda state, settings: on_record(state["evidence"]))


def court_node() -> Node:
    """Adds the court's turn: whether it closes the debate. Reads: claim, task, premises, rounds, turns."""
    return CLOSE.node(
        lambda state, speaker, settings: close_or_go_on(*about(state), statements(state["turns"], RECENT), speaker),
        turn_of(CLOSE.role, "close"),
    )


def advice_for(turns: Sequence[Turn], side: str, round: int) -> list[str]:
    """What the critic advised a side after a round."""
    said = next((turn["recommendations"] for turn in said_in(turns, round, "critique")), None)
    return (said or {}).get(side, [])
