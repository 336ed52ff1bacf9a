"""Debates among n agents: their settings, their topologies (which agents hear which), and the start of rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from langgraph.types import Send
from moot.nodes._records.entries import Turn
from moot.nodes._runtime.ceilings import no_round_left
from moot.nodes._runtime.node import Node
from moot.nodes._runtime.opening import Needs
from moot.nodes._runtime.settings import Settings, ask_person, by_preset
from moot.nodes._runtime.state import DebaterState, DebateState
from moot.nodes._runtime.turns import new_turn
from moot.nodes._speakers.turns import (
    SHARED_ROLES,
    Agent,
    check_unique_names,
    needs_for,
    number_speakers,
    send_turn,
    speaker_declaration,
)
from moot.nodes._steps.compare import answers_of
from moot.nodes._steps.responding import respond_node
from moot.nodes._texts.show import show_heard, show_opponents
from pydantic import AfterValidator, Field, model_validator

Topology = Callable[[str, Sequence[str]], list[str]]
"""Takes an agent's name and the names of all agents; returns the names of those that the agent hears."""


def _check_names(agents: tuple[Agent, ...]) -> tuple[Agent, ...]:
    check_unique_names((agent.name for agent in agents), {"summariser", "judge", "moderator"} | SHARED_ROLES)
    return agents


Agents = Annotated[tuple[Agent, ...], number_speakers("agent"), AfterValidator(_check_names)]
"""The type of a field with agents, which may be given as a list or as their number; see `n_agents`."""


def n_agents(count: int) -> tuple[Agent, ...]:
    """Agents named ``agent-1``, ``agent-2`` and so on, with default settings.

    Args:
        count: the number of agents.
    """
    return tuple(Agent(name=f"agent-{i}") for i in range(1, count + 1))


Conformity = Literal["neutral", "independent"]
CONFORMITY = {
    "neutral": "\n- Use what the others say as additional information.",
    "independent": "\n- Check each step of what the others say{and_own}. Take over what is right, whoever says it; do "
    "not give way to a majority or to how sure somebody sounds.",
}
"""What agents are told about others' answers (`RoundsSettings.conformity`)."""


class AgentsSettings(Settings):
    """Settings of debates among n agents."""

    other_roles: ClassVar[frozenset[str]] = frozenset()
    """The roles that speak besides the agents."""

    temperature: float | None = Field(
        default=0.7,
        ge=0,
        le=2,
        description="Sampling temperature; null leaves it to the endpoint. At 0, agents on one model hardly differ.",
    )
    agents: Agents = Field(
        default=n_agents(3), min_length=2, max_length=50, description="The agents: a list, or their number."
    )
    min_agents: int = Field(
        default=2,
        ge=1,
        le=50,
        description="Minimum number of agents for the debate to continue, if models of other agents cannot be reached.",
    )
    max_concurrency: int = Field(
        default=32, ge=1, le=1000, description="Maximum number of parallel calls to one endpoint."
    )

    def roles(self) -> set[str]:
        return {agent.name for agent in self.agents} | self.other_roles | SHARED_ROLES

    @model_validator(mode="after")
    def _check_min_agents(self) -> AgentsSettings:
        if self.min_agents > len(self.agents) > 1:
            raise ValueError(f"min_agents: there are only {len(self.agents)} agents")
        return self


class RoundsSettings(AgentsSettings):
    """Settings of debates among n agents in rounds."""

    max_rounds: int = Field(
        default=5, ge=1, le=20, description="Maximum number of rounds; the first answers are the first round."
    )
    conformity: Conformity = by_preset(
        paper="neutral",
        practical="independent",
        description="What agents are told about others' answers. neutral: to use them as additional information; "
        "independent: to check each step, and not to give way to a majority or to how sure somebody sounds.",
    )
    ask_person: tuple[Literal["remark"], ...] = ask_person()


S = TypeVar("S", bound=RoundsSettings)


def agents_needs(settings: AgentsSettings) -> Needs:
    """The resources that a debate among agents needs.

    Args:
        settings: the debate's settings.
    """
    return needs_for(settings, {a.name: a.model for a in settings.agents} | dict.fromkeys(settings.other_roles))


# --- topologies -----------------------------------------------------------------------------------------------------


def all_others(name: str, names: Sequence[str]) -> list[str]:
    """The names of all other agents.

    Args:
        name: the agent's name.
        names: the names of all agents, in their order.
    """
    return [other for other in names if other != name]


def neighbours(name: str, names: Sequence[str]) -> list[str]:
    """The two neighbours of an agent in a ring.

    In a ring of two agents, each agent has one neighbour. A single agent has none.

    Args:
        name: the agent's name.
        names: the names of all agents, in their order.
    """
    at = names.index(name)
    return list(dict.fromkeys(n for n in (names[at - 1], names[(at + 1) % len(names)]) if n != name))


def no_agents(name: str, names: Sequence[str]) -> list[str]:
    """An empty list, for agents that hear no other agent.

    Args:
        name: the agent's name.
        names: the names of all agents, in their order.
    """
    return []


def same_group(groups: Sequence[Sequence[str]]) -> Topology:
    """Makes a topology in which each agent hears the other agents of its group.

    Args:
        groups: the names of each group's agents.
    """
    return lambda name, names: [n for group in groups if name in group for n in group if n != name and n in names]


def groups_of(names: Sequence[str], size: int) -> list[list[str]]:
    """Divides agents into groups of 2 or 3, in their order; a single agent is a group.

    With ``size`` 2 there are as many groups as possible, with 3 as few as possible.

    Args:
        names: the agents' names.
        size: 2 or 3.
    """
    count = max(1, len(names) // 2 if size == 2 else math.ceil(len(names) / 3))
    bound = math.floor if size == 2 else math.ceil
    ends = [bound(len(names) * i / count) for i in range(count + 1)]
    return [list(names[a:b]) for a, b in pairwise(ends) if a < b]


# --- rounds ---------------------------------------------------------------------------------------------------------


def active_agents(state: DebateState, settings: AgentsSettings) -> list[Agent]:
    """The agents that are still in the debate; an agent leaves it if its model cannot be reached."""
    left = {t["agent"] for t in state["turns"] if t["step"] == "respond" and t.get("outcome") == "failed"}
    return [agent for agent in settings.agents if agent.name not in left]


def last_round(state: DebateState, settings: AgentsSettings) -> dict[str, Turn]:
    """The active agents' answers in the last round, by the agents' names.

    Args:
        state: the debate's state.
        settings: the debate's settings.
    """
    names = {agent.name for agent in active_agents(state, settings)}
    return {turn["agent"]: turn for turn in answers_of(state["turns"]) if turn["agent"] in names}


def to_agents(
    to: str,
    state: DebateState,
    settings: AgentsSettings,
    hears: Topology,
    *,
    first: int = 1,
    own: bool = True,
    **more: Callable[[str], Any],
) -> list[Send]:
    """Builds the `Send`s of all active agents for the next round.

    Each agent gets the last answers of the agents that it hears and, with ``own``, its own last answer.

    Args:
        to: the node.
        state: the debate's state.
        settings: the debate's settings.
        hears: the topology of the round.
        first: the number of the debate's first round.
        own: whether an agent sees its own last answer.
        more: further keys of the node's input; each function takes an agent's name and returns the key's value.
    """
    last, agents = last_round(state, settings), active_agents(state, settings)
    names = [agent.name for agent in agents]
    round = max((turn["round"] + 1 for turn in last.values()), default=first)
    sends = []
    for agent in agents:
        heard = [last[name] for name in hears(agent.name, names) if name in last]
        further = {key: value(agent.name) for key, value in more.items()}
        turn, before = new_turn(round, agent.name), last.get(agent.name) if own else None
        sends.append(send_turn(to, state, speaker_declaration(agent), turn, opponents=heard, own=before, **further))
    return sends


def round_router(kind: type[S], hears: Topology, end: str = "vote") -> Callable[[DebateState, S], list[Send] | str]:
    """Makes a router that starts the next round at the node ``answer``.

    If no round or no budget is left, the router returns the node ``end``.

    Args:
        kind: the class of the settings that the router takes.
        hears: the topology of all rounds.
        end: the node after the last round.
    """

    def another_round(state: DebateState, settings: S) -> list[Send] | str:
        return end if no_round_left(state, settings) else to_agents("answer", state, settings, hears)

    return another_round


def heard_placeholder(state: DebaterState, settings: Any) -> Mapping[str, str]:
    """The placeholder ``heard``: summaries and reviews, then the others' answers; or a note that nobody is heard."""
    parts = [show_heard(state.get("heard") or []), show_opponents(state["opponents"])]
    return {"heard": "\n\n".join(part for part in parts if part) or "(nobody else is heard)"}


def conformity_placeholder(state: DebaterState, settings: Any) -> Mapping[str, str]:
    """The placeholder ``conformity``: what an agent is told about others' answers; empty if it reads none."""
    reads = state["opponents"] or state.get("heard")
    told = CONFORMITY[getattr(settings, "conformity", "neutral")] if reads else ""
    return {"conformity": told.format(and_own=", and your own once more" if state.get("own") else "")}


def agent_node(then: str | None = "agents/revise", *, confidence: bool = False, heard: Any = heard_placeholder) -> Node:
    """Writes an agent's answer in a round; see `respond_node`.

    Reads: claim, task, debater, opponents, turns and, if present, evidence, own, cited, heard, pool, retrieval, steps,
    plan.

    Args:
        then: the prompt of agents that see an answer, their own or another agent's; None if no agent sees an answer.
        confidence: whether agents state a confidence.
        heard: takes the state and the settings; returns a mapping from the placeholder ``heard`` to its value.
    """

    def more(state: DebaterState, settings: Any) -> Mapping[str, str]:
        return {**conformity_placeholder(state, settings), **heard(state, settings)}

    return respond_node("agents/answer", then=then, confidence=confidence, may_leave=True, more=more)


def join_node() -> Node:
    """Joins parallel branches: the next node starts after all of them. Reads: nothing."""

    async def step(state: DebateState, run: Any) -> dict[str, Any]:
        return {}

    return Node(step)
