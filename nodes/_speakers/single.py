"""Systems with a single agent: their settings, resources and start."""

from __future__ import annotations

from collections.abc import Iterable

from langgraph.types import Send
from moot.nodes._runtime.opening import Needs
from moot.nodes._runtime.settings import PLANNER, Settings, SourcesSettings
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.turns import new_turn
from moot.nodes._speakers.turns import SHARED_ROLES, needs_for, send_turn
from pydantic import Field

AGENT = "agent-1"
"""The name of the agent in a system with a single agent."""


class DemonstrationSettings(Settings):
    """Settings of systems whose first prompt can show worked examples."""

    demonstrations: int = Field(
        default=0,
        ge=0,
        le=3,
        description="Number of worked examples before the question; each kind of task has 2 or 3.",
    )


class SingleAgentSettings(DemonstrationSettings):
    """Settings of systems with one agent that does not search."""

    def roles(self) -> set[str]:
        return {AGENT} | SHARED_ROLES


class SingleReaderSettings(SourcesSettings):
    """Settings of systems with one agent that reads evidence."""

    def roles(self) -> set[str]:
        return {AGENT, PLANNER} | SHARED_ROLES


def single_needs(settings: Settings) -> Needs:
    """The resources that a system with one agent needs.

    Args:
        settings: the system's settings.
    """
    sources = settings.sources_to_open() if isinstance(settings, SourcesSettings) else ()
    return needs_for(settings, {AGENT: None}, sources)


def to_agent(state: DebateState) -> Send:
    """Builds the `Send` that makes the single agent answer, with all active evidence (see `active_evidence`).

    Args:
        state: the debate's state.
    """
    return send_turn("answer", state, {"name": AGENT}, new_turn(1, AGENT), evidence=state["evidence"])


def to_samples(state: DebateState, numbers: Iterable[int]) -> list[Send]:
    """Builds one `Send` for each number, so that the single agent answers several times, independently.

    Args:
        state: the debate's state.
        numbers: the numbers of the answers, from 1.
    """
    return [
        send_turn("answer", state, {"name": AGENT, "sample": number}, new_turn(1, AGENT, number=number))
        for number in numbers
    ]
