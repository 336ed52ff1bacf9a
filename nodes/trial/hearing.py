"""What is said in court in a round (PROClaim; S2, section 2.5): arguments, and the testimony of experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from moot.nodes.models.speaker import Speaker, as_speaker
from moot.nodes.runtime.node import Node
from moot.nodes.runtime.state import Task, TrialState, Turn
from moot.nodes.steps.respond import quote_check
from moot.nodes.trial.counsel import (
    SO_FAR,
    about,
    case,
    given,
    handed,
    show_statements,
    trial_node,
    turn_after,
)
from moot.nodes.trial.replies import (
    ArgumentReply,
    ExpertRequestReply,
    ExpertRulingReply,
    TestimonyReply,
)
from moot.prompts import as_data, fill, listed, load
from moot.retrievers import Evidence

# --- steps ------------------------------------------------------------------------------------------------------------


async def argue(
    claim: str,
    task: Task,
    premises: Sequence[str],
    exhibits: Sequence[Evidence],
    said: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    side: str,
    advice: Sequence[str] = (),
    verified_quotes: bool = False,
    prompt: str = "proclaim/argue",
) -> ArgumentReply:
    """A side's argument for a round (S2, section 2.5, step 2).

    Args:
        claim: what is tried.
        task: what an answer is.
        premises: what the claim rests on.
        exhibits: the evidence on record.
        said: the last arguments and testimonies.
        model: who speaks for the side.
        side: ``plaintiff`` or ``defense``.
        advice: what the critic advised the side after the last round.
        verified_quotes: refuse an argument that quotes nothing which stands in the evidence.
        prompt: the prompt's name.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    values = case(claim, task, premises, exhibits) | {"statements": show_statements(said, SO_FAR)}
    values |= {"side": side, "position": values[f"{side}_holds"], "advice": show_advice(advice)}
    ids = {piece["id"] for piece in exhibits}
    check: Any = quote_check(exhibits, ids) if verified_quotes and exhibits else None
    return await as_speaker(model, side).ask(fill(load(prompt), values), ArgumentReply, sorted(ids), check)


async def request_expert(
    claim: str,
    task: Task,
    premises: Sequence[str],
    said: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    side: str,
    prompt: str = "proclaim/request_expert",
) -> ExpertRequestReply:
    """Whether a side wants an expert to testify (S2, section 2.5, step 3).

    Args:
        claim: what is tried.
        task: what an answer is.
        premises: what the claim rests on.
        said: the last arguments and testimonies.
        model: who speaks for the side.
        side: ``plaintiff`` or ``defense``.
        prompt: the prompt's name.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    values = case(claim, task, premises) | {"statements": show_statements(said, SO_FAR)}
    values |= {"side": side, "position": values[f"{side}_holds"]}
    return await as_speaker(model, side).ask(fill(load(prompt), values), ExpertRequestReply)


async def rule_on_expert(
    claim: str,
    task: Task,
    premises: Sequence[str],
    said: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    side: str,
    expertise: str,
    reason: str,
    prompt: str = "proclaim/rule_on_expert",
) -> ExpertRulingReply:
    """Whether the court hears the expert that a side wants (S2, section 2.5, step 3).

    Args:
        claim: what is tried.
        task: what an answer is.
        premises: what the claim rests on.
        said: the last arguments and testimonies.
        model: who decides it.
        side: who asks for the expert: ``plaintiff`` or ``defense``.
        expertise: what the expert knows.
        reason: why the side asks for one.
        prompt: the prompt's name.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    request = as_data("request", f"By the {side}: an expert on {expertise}.\nReason: {reason}")
    values = case(claim, task, premises) | {"statements": show_statements(said, SO_FAR), "request": request}
    return await as_speaker(model, "court").ask(fill(load(prompt), values), ExpertRulingReply)


async def give_testimony(
    claim: str,
    task: Task,
    premises: Sequence[str],
    exhibits: Sequence[Evidence],
    said: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    expertise: str,
    reason: str,
    prompt: str = "proclaim/testify",
) -> TestimonyReply:
    """An expert's testimony from the record (S2, section 2.5, step 3).

    Args:
        claim: what is tried.
        task: what an answer is.
        premises: what the claim rests on.
        exhibits: the evidence on record.
        said: the last arguments and testimonies.
        model: who testifies.
        expertise: on what.
        reason: what the side that called for it wants to have clarified.
        prompt: the prompt's name.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    request = as_data("request", f"Expertise: {expertise}\nTo clarify: {reason}")
    values = case(claim, task, premises, exhibits) | {"statements": show_statements(said, SO_FAR), "request": request}
    ids = sorted(piece["id"] for piece in exhibits)
    return await as_speaker(model, "expert").ask(fill(load(prompt), values), TestimonyReply, ids)


def show_advice(advice: Sequence[str]) -> str:
    """What the critic advised under a heading; nothing where it advised nothing."""
    lines = listed((f"- {line}" for line in advice), empty="")
    return f"What the critic advised your side after the last round:\n{as_data('advice', lines)}" if lines else ""


# --- nodes ------------------------------------------------------------------------------------------------------------


def argue_node() -> Node:
    """Writes a side's argument into its turn; where its counsel cannot be reached, there is no trial.

    Reads: claim, task, premises, evidence, heard, debater, turns.
    """

    async def ask(state: TrialState, speaker: Speaker, settings: Any) -> ArgumentReply:
        return await argue(
            *about(state),
            state["evidence"],
            state["heard"],
            speaker,
            side=str(handed(state)["side"]),
            advice=state["debater"].get("advice", []),
            verified_quotes=settings.verified_quotes,
        )

    return trial_node("proclaim/argue", ArgumentReply, ask, shown=given, vital=True)


def request_expert_node() -> Node:
    """Writes whether a side wants an expert into its turn. Reads: claim, task, premises, heard, turns."""

    async def ask(state: TrialState, speaker: Speaker, settings: Any) -> ExpertRequestReply:
        side = str(handed(state)["side"])
        return await request_expert(*about(state), state["heard"], speaker, side=side)

    return trial_node("proclaim/request_expert", ExpertRequestReply, ask)


def rule_on_expert_node() -> Node:
    """Adds the court's turn: whether it hears the expert that a side wants. Reads: claim, task, heard, turns."""

    async def ask(state: TrialState, speaker: Speaker, settings: Any) -> ExpertRulingReply:
        wanted = handed(state)
        return await rule_on_expert(
            *about(state),
            state["heard"],
            speaker,
            side=str(wanted["side"]),
            expertise=str(wanted["expertise"]),
            reason=str(wanted["reason"]),
        )

    return trial_node("proclaim/rule_on_expert", ExpertRulingReply, ask, turn_after("court", "rule_on_expert"))


def testify_node() -> Node:
    """Adds the expert's turn. Reads: claim, task, premises, evidence, heard, turns."""
    begin = turn_after("expert", "testify")

    async def ask(state: TrialState, speaker: Speaker, settings: Any) -> TestimonyReply:
        wanted = handed(state)
        return await give_testimony(
            *about(state),
            state["evidence"],
            state["heard"],
            speaker,
            expertise=str(wanted["expertise"]),
            reason=str(wanted["reason"]),
        )

    return trial_node(
        "proclaim/testify",
        TestimonyReply,
        ask,
        lambda state: {**begin(state), "expertise": handed(state)["expertise"]},
        shown=given,
    )
