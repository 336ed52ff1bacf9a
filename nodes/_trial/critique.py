"""The evaluation of a round: reflections, the critic, and the court (PROClaim, sections 2.5 and 2.6)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from moot.nodes._models.speaker import Speaker
from moot.nodes._records.entries import Task, Turn
from moot.nodes._runtime.node import Node
from moot.nodes._runtime.state import TrialState
from moot.nodes._trial.counsel import (
    OPPOSITE,
    common_values,
    exhibits_by_setting,
    on_record,
    round_values,
    show_recent,
    show_record,
    show_round,
    show_statements,
    side_of,
    statements,
    trial_subject,
    turn_starter,
    turns_in_round,
    visible_exhibits,
)
from moot.nodes._trial.replies import (
    ClosingReply,
    CritiqueReply,
    ReflectionReply,
)
from moot.nodes._trial.step import Step, with_parameters
from moot.nodes._trial.stopping import reflection_score
from moot.retrievers import Evidence

# --- steps ------------------------------------------------------------------------------------------------------------


REFLECT = Step("proclaim/reflect", ReflectionReply)
CRITIQUE = Step("proclaim/critique", CritiqueReply, "critic")
CLOSE = Step("proclaim/close", ClosingReply, "court")


@with_parameters(
    own="the side's own last arguments.",
    others="the other side's last arguments.",
    exhibits="the evidence on record.",
    history="the arguments and testimonies whose quotes from exhibits are shown; by default ``own`` and ``others``.",
)
async def reflect(
    claim: str,
    task: Task,
    premises: Sequence[str],
    own: Sequence[Turn],
    others: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    side: str,
    exhibits: Sequence[Evidence] = (),
    history: Sequence[Turn] = (),
    whole: bool = False,
    round: int = 0,
    max_rounds: int | None = None,
    prompt: str = REFLECT.prompt,
) -> ReflectionReply:
    """A counsel's assessment of its own side's last arguments (PROClaim, section 2.6)."""
    both = statements([*own, *others])
    shown = {
        "exhibits": show_record(exhibits, history or both, whole=whole),
        "statements": show_statements(both, "What the two sides argued last, in its order:", "Nothing was argued yet."),
        "round": show_round(round, max_rounds),
    }
    return await REFLECT.ask(model, common_values(claim, task, premises) | shown, prompt, side=side)


@with_parameters(history="the statements so far; all of them are shown.")
async def critique(
    claim: str,
    task: Task,
    premises: Sequence[str],
    exhibits: Sequence[Evidence],
    history: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    whole: bool = False,
    round: int = 0,
    max_rounds: int | None = None,
    prompt: str = CRITIQUE.prompt,
) -> CritiqueReply:
    """A critic's scores of both sides in a round, its advice, and the unresolved premises (PROClaim, section 2.6)."""
    shown = {
        "exhibits": show_record(exhibits, history, whole=whole),
        "statements": show_statements(history, "What was said so far, in its order:", "Nothing was said so far."),
        "round": show_round(round, max_rounds),
    }
    return await CRITIQUE.ask(model, common_values(claim, task, premises) | shown, prompt)


@with_parameters()
async def whether_to_close(
    claim: str,
    task: Task,
    premises: Sequence[str],
    history: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    round: int = 0,
    max_rounds: int | None = None,
    prompt: str = CLOSE.prompt,
) -> ClosingReply:
    """The court's decision whether to close the debate after a round (PROClaim, section 2.5, iv)."""
    shown = {"statements": show_recent(history, "Nothing was said yet."), "round": show_round(round, max_rounds)}
    return await CLOSE.ask(model, common_values(claim, task, premises) | shown, prompt)


# --- nodes ------------------------------------------------------------------------------------------------------------


def reflect_node() -> Node:
    """Writes a counsel's assessment of its own side's case into the counsel's turn, with the reflection score.

    The counsel is shown the last two arguments of each side.

    Reads: claim, task, phase, evidence, heard, turns and, if present, premises, rounds and debater.
    """

    def ask(state: TrialState, speaker: Speaker, settings: Any) -> Awaitable[ReflectionReply]:
        side, history = side_of(state), [turn for turn in state["heard"] if turn["step"] == "argue"]
        own, others = ([turn for turn in history if turn["side"] == party][-2:] for party in (side, OPPOSITE[side]))
        return reflect(
            *trial_subject(state),
            own,
            others,
            speaker,
            side=side,
            exhibits=state["evidence"],
            history=state["heard"],
            whole=settings.exhibits == "whole",
            **round_values(state, settings),
        )

    return REFLECT.node(
        ask,
        shown=exhibits_by_setting,
        scores=lambda reply: {"reflection": reflection_score(reply.logic, reply.novelty, reply.rebuttal)},
    )


def critique_node() -> Node:
    """Adds the critic's turn.

    Reads: claim, task, phase, turns, evidence and, if present, premises, rounds and debater.
    """

    def ask(state: TrialState, speaker: Speaker, settings: Any) -> Awaitable[CritiqueReply]:
        return critique(
            *trial_subject(state),
            on_record(state["evidence"], state["turns"]),
            statements(state["turns"]),
            speaker,
            whole=settings.exhibits == "whole",
            **round_values(state, settings),
        )

    def shown(state: TrialState, settings: Any) -> list[Evidence]:
        record = on_record(state["evidence"], state["turns"])
        return visible_exhibits(record, statements(state["turns"]), whole=settings.exhibits == "whole")

    return CRITIQUE.node(ask, turn_starter(CRITIQUE.role, "critique"), shown=shown)


def court_node() -> Node:
    """Adds the court's turn, which decides whether to close the debate.

    Reads: claim, task, phase, turns and, if present, premises, rounds and debater.
    """
    return CLOSE.node(
        lambda state, speaker, settings: whether_to_close(
            *trial_subject(state), statements(state["turns"]), speaker, **round_values(state, settings)
        ),
        turn_starter(CLOSE.role, "close"),
    )


def side_findings(turns: Sequence[Turn], side: str, round: int) -> dict[str, Any]:
    """The ``flaws`` and the ``stance`` from a side's reflection after a round; both empty without a reflection."""
    for turn in turns_in_round(turns, round, "reflect"):
        if turn["side"] == side:
            return {"flaws": turn.get("flaws") or [], "stance": turn.get("refined_stance") or ""}
    return {"flaws": [], "stance": ""}


def advice_for(turns: Sequence[Turn], side: str, round: int) -> list[str]:
    """The critic's advice for a side after a round; empty if the critic gave no advice."""
    advice = next((turn["recommendations"] for turn in turns_in_round(turns, round, "critique")), None)
    return (advice or {}).get(side, [])
