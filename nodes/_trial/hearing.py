"""The statements in a round in court: the counsel's arguments and the experts' testimonies (PROClaim, section 2.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import Task, Turn
from moot.nodes._runtime.node import Node
from moot.nodes._runtime.state import TrialState
from moot.nodes._steps.responding import quote_check
from moot.nodes._trial.counsel import (
    LONGEST_FIELD,
    common_values,
    exhibits_by_setting,
    exhibits_of,
    next_turn_starter,
    one_line,
    own_turn,
    round_values,
    show_recent,
    show_record,
    show_round,
    side_of,
    trial_subject,
    visible_exhibits,
)
from moot.nodes._trial.replies import (
    ArgumentReply,
    ExpertRequestReply,
    ExpertRulingReply,
    TestimonyReply,
)
from moot.nodes._trial.step import Step, with_parameters
from moot.prompts import as_data
from moot.prompts._files import join_blocks
from moot.retrievers import Evidence

# --- steps ------------------------------------------------------------------------------------------------------------


ARGUE = Step("proclaim/argue", ArgumentReply)
REQUEST = Step("proclaim/request_expert", ExpertRequestReply)
RULE = Step("proclaim/rule_on_expert", ExpertRulingReply, "court")
TESTIFY = Step("proclaim/testify", TestimonyReply, "expert")


@with_parameters(
    advice="the critic's advice for the side after the last round.",
    flaws="the weaknesses that the side found in its own case after the last round.",
    stance="the side's case in the words of its last reflection.",
    verified_quotes="whether an argument needs a verified quote, if there are exhibits.",
)
async def argue(
    claim: str,
    task: Task,
    premises: Sequence[str],
    exhibits: Sequence[Evidence],
    history: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    side: str,
    advice: Sequence[str] = (),
    flaws: Sequence[str] = (),
    stance: str = "",
    round: int = 0,
    max_rounds: int | None = None,
    verified_quotes: bool = False,
    prompt: str = ARGUE.prompt,
) -> ArgumentReply:
    """A side's argument for a round (PROClaim, section 2.5, step 2)."""
    shown = {"exhibits": show_record(exhibits), "statements": show_recent(history), "advice": show_advice(advice)}
    shown |= {"reflection": show_reflection(flaws, stance), "round": show_round(round, max_rounds)}
    ids = {piece["id"] for piece in exhibits}
    speaker = as_speaker(model, side)
    check: Any = quote_check(exhibits, ids, speaker) if verified_quotes and exhibits else None
    values = common_values(claim, task, premises) | shown
    return await ARGUE.ask(speaker, values, prompt, side=side, evidence_ids=sorted(ids), check=check)


@with_parameters()
async def request_expert(
    claim: str,
    task: Task,
    history: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    side: str,
    round: int = 0,
    max_rounds: int | None = None,
    prompt: str = REQUEST.prompt,
) -> ExpertRequestReply:
    """A side's decision whether to request an expert, with the field and the reason (PROClaim, section 2.5, step 3)."""
    shown = {"statements": show_recent(history), "round": show_round(round, max_rounds)}
    values = common_values(claim, task) | shown
    return await REQUEST.ask(model, values, prompt, side=side)


@with_parameters(
    side="the side that requests the expert: ``plaintiff`` or ``defense``.",
    expertise="the expert's field.",
    reason="the side's reason for the request.",
)
async def rule_on_expert(
    claim: str,
    task: Task,
    history: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    side: str,
    expertise: str,
    reason: str,
    round: int = 0,
    max_rounds: int | None = None,
    prompt: str = RULE.prompt,
) -> ExpertRulingReply:
    """The court's decision whether to hear the expert that a side requests (PROClaim, section 2.5, step 3)."""
    request = as_data("request", f"By the {side}: an expert in {one_line(expertise, LONGEST_FIELD)}.\nReason: {reason}")
    shown = {"statements": show_recent(history), "request": request, "round": show_round(round, max_rounds)}
    values = common_values(claim, task) | shown
    return await RULE.ask(model, values, prompt)


@with_parameters(
    expertise="the expert's field; the prompt shows it on one line, and cuts it after 120 characters.",
    reason="the side's reason for the request: the question that the expert should answer.",
)
async def give_testimony(
    claim: str,
    task: Task,
    exhibits: Sequence[Evidence],
    history: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    expertise: str,
    reason: str,
    whole: bool = False,
    prompt: str = TESTIFY.prompt,
) -> TestimonyReply:
    """An expert's testimony from the record (PROClaim, section 2.5, step 3)."""
    shown = {"exhibits": show_record(exhibits, history, whole=whole), "statements": show_recent(history)}
    shown |= {"request": as_data("request", reason), "expertise": one_line(expertise, LONGEST_FIELD)}
    ids = sorted(piece["id"] for piece in visible_exhibits(exhibits, history, whole=whole))
    return await TESTIFY.ask(model, common_values(claim, task) | shown, prompt, evidence_ids=ids)


def show_advice(advice: Sequence[str]) -> str:
    """The critic's advice under a heading; empty if there is no advice."""
    lines = join_blocks((f"- {line}" for line in advice), empty="")
    return f"What the critic advised your side after the last round:\n{as_data('advice', lines)}" if lines else ""


def show_reflection(flaws: Sequence[str], stance: str) -> str:
    """The findings of a side's last reflection on its own case, under a heading; empty if there are none."""
    lines = [f"Flaw: {flaw}" for flaw in flaws] + ([f"Your case, as you would put it now: {stance}"] if stance else [])
    heading = "What you found when you looked back at your own case after the last round:"
    return f"{heading}\n{as_data('reflection', chr(10).join(lines))}" if lines else ""


# --- nodes ------------------------------------------------------------------------------------------------------------


def argue_node() -> Node:
    """Writes a side's argument into the side's turn. If the counsel's model cannot be reached, the trial fails.

    Reads: claim, task, phase, evidence, heard, debater, turns and, if present, premises and rounds.
    """
    return ARGUE.node(
        lambda state, speaker, settings: argue(
            *trial_subject(state),
            state["evidence"],
            state["heard"],
            speaker,
            side=side_of(state),
            advice=state["debater"].get("advice", []),
            flaws=state["debater"].get("flaws", []),
            stance=state["debater"].get("stance", ""),
            **round_values(state, settings),
            verified_quotes=settings.verified_quotes,
        ),
        shown=exhibits_of,
        vital=True,
    )


def request_expert_node() -> Node:
    """Writes a side's decision on requesting an expert into the side's turn.

    Reads: claim, task, phase, heard, turns and, if present, rounds and debater.
    """
    return REQUEST.node(
        lambda state, speaker, settings: request_expert(
            state["claim"], state["task"], state["heard"], speaker, side=side_of(state), **round_values(state, settings)
        )
    )


def rule_on_expert_node() -> Node:
    """Adds the court's turn with its ruling on a side's request for an expert.

    Reads: claim, task, phase, heard, turns and, if present, rounds and debater.
    """
    return RULE.node(
        lambda state, speaker, settings: rule_on_expert(
            state["claim"],
            state["task"],
            state["heard"],
            speaker,
            side=side_of(state),
            expertise=expertise_of(state),
            reason=reason_of(state),
            **round_values(state, settings),
        ),
        next_turn_starter(RULE.role, "rule_on_expert"),
    )


def testify_node() -> Node:
    """Adds the expert's turn with the testimony.

    Reads: claim, task, evidence, heard, turns and, if present, debater.
    """
    begin = next_turn_starter(TESTIFY.role, "testify")
    return TESTIFY.node(
        lambda state, speaker, settings: give_testimony(
            state["claim"],
            state["task"],
            state["evidence"],
            state["heard"],
            speaker,
            expertise=expertise_of(state),
            reason=reason_of(state),
            whole=settings.exhibits == "whole",
        ),
        lambda state: {**begin(state), "expertise": expertise_of(state)},
        shown=exhibits_by_setting,
    )


def expertise_of(state: TrialState) -> str:
    """The field of the expert, from the turn with the side's request."""
    return str(own_turn(state)["expertise"])


def reason_of(state: TrialState) -> str:
    """The reason for the request of an expert, from the turn with the side's request."""
    return str(own_turn(state)["reason"])
