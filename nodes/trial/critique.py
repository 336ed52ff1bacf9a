"""What is thought of a round when it is over (PROClaim; S2, sections 2.5 and 2.6): reflection, critic, court."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from moot.nodes.models.speaker import Speaker, as_speaker
from moot.nodes.runtime.node import Node
from moot.nodes.runtime.state import Task, TrialState, Turn
from moot.nodes.trial.counsel import (
    OTHER,
    RECENT,
    SO_FAR,
    about,
    case,
    handed,
    on_record,
    said_in,
    show_statements,
    statements,
    this_round,
    trial_node,
    turn_of,
)
from moot.nodes.trial.replies import (
    ClosingReply,
    CritiqueReply,
    ReflectionReply,
)
from moot.nodes.trial.stopping import reflection_score
from moot.prompts import fill, load
from moot.retrievers import Evidence

# --- steps ------------------------------------------------------------------------------------------------------------


async def reflect(
    claim: str,
    task: Task,
    premises: Sequence[str],
    own: Sequence[Turn],
    others: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    side: str,
    prompt: str = "proclaim/reflect",
) -> ReflectionReply:
    """What a counsel thinks of its own side's last arguments (S2, section 2.6).

    Args:
        claim: what is tried.
        task: what an answer is.
        premises: what the claim rests on.
        own: the side's own last arguments.
        others: those of the other side.
        model: who speaks for the side.
        side: ``plaintiff`` or ``defense``.
        prompt: the prompt's name.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    values = case(claim, task, premises) | {"side": side}
    values |= {
        "position": values[f"{side}_holds"],
        "own": show_statements(own, "Your last arguments:", "Your side has made no argument yet."),
        "others": show_statements(others, "The other side's last arguments:", "The other side has made none yet."),
    }
    return await as_speaker(model, side).ask(fill(load(prompt), values), ReflectionReply)


async def critique(
    claim: str,
    task: Task,
    premises: Sequence[str],
    exhibits: Sequence[Evidence],
    said: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    prompt: str = "proclaim/critique",
) -> CritiqueReply:
    """A critic's view of both sides in a round, and of what is still open (S2, section 2.6).

    Args:
        claim: what is tried.
        task: what an answer is.
        premises: what the claim rests on.
        exhibits: the evidence on record.
        said: what was said in the round.
        model: who criticises.
        prompt: the prompt's name.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    values = case(claim, task, premises, exhibits)
    values["statements"] = show_statements(said, "What was said in this round:", "Nothing was said in this round.")
    return await as_speaker(model, "critic").ask(fill(load(prompt), values), CritiqueReply)


async def close_or_go_on(
    claim: str,
    task: Task,
    premises: Sequence[str],
    said: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    prompt: str = "proclaim/close",
) -> ClosingReply:
    """Whether the court closes the debate after a round (S2, section 2.5, iv).

    Args:
        claim: what is tried.
        task: what an answer is.
        premises: what the claim rests on.
        said: the last arguments and testimonies.
        model: who decides it.
        prompt: the prompt's name.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    values = case(claim, task, premises) | {"statements": show_statements(said, SO_FAR, "Nothing was said yet.")}
    return await as_speaker(model, "court").ask(fill(load(prompt), values), ClosingReply)


# --- nodes ------------------------------------------------------------------------------------------------------------


def reflect_node() -> Node:
    """Writes what a counsel thinks of its own side into its turn, with the reflection score.

    Reads: claim, task, premises, heard, turns.
    """

    async def ask(state: TrialState, speaker: Speaker, settings: Any) -> ReflectionReply:
        side = str(handed(state)["side"])
        said = [turn for turn in state["heard"] if turn["step"] == "argue"]
        return await reflect(
            *about(state),
            [turn for turn in said if turn["side"] == side][-2:],
            [turn for turn in said if turn["side"] == OTHER[side]][-2:],
            speaker,
            side=side,
        )

    def scores(said: ReflectionReply) -> dict[str, float]:
        return {"reflection": reflection_score(said.logic, said.novelty, said.rebuttal)}

    return trial_node("proclaim/reflect", ReflectionReply, ask, scores=scores)


def critique_node() -> Node:
    """Adds the critic's turn. Reads: claim, task, premises, rounds, turns, evidence."""

    async def ask(state: TrialState, speaker: Speaker, settings: Any) -> CritiqueReply:
        said = [turn for turn in statements(state["turns"]) if turn["round"] == this_round(state)]
        return await critique(*about(state), on_record(state["evidence"]), said, speaker)

    return trial_node(
        "proclaim/critique",
        CritiqueReply,
        ask,
        turn_of("critic", "critique"),
        shown=lambda state, settings: on_record(state["evidence"]),
    )


def court_node() -> Node:
    """Adds the court's turn: whether it closes the debate. Reads: claim, task, premises, rounds, turns."""

    async def ask(state: TrialState, speaker: Speaker, settings: Any) -> ClosingReply:
        said = statements(state["turns"], RECENT)
        return await close_or_go_on(*about(state), said, speaker)

    return trial_node("proclaim/close", ClosingReply, ask, turn_of("court", "close"))


def advice_for(turns: Sequence[Turn], side: str, round: int) -> list[str]:
    """What the critic advised a side after a round."""
    said = next((turn["recommendations"] for turn in said_in(turns, round, "critique")), None)
    return (said or {}).get(side, [])
