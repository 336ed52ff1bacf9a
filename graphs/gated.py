"""Debate behind a gate, moot's own system: a debate follows only if independent answers do not settle the claim.

several agents answer independently, each from its own retrieval; every quote is checked
if all agents give the same answer, and their verified quotes come from enough origins, this answer is the verdict
otherwise another system debates and starts with the evidence of all these agents; its verdict is the verdict

The setting ``when`` can make the debate follow always or never.
"""

from __future__ import annotations

from typing import Any

from langgraph.graph import START
from moot.graphs import load_graph
from moot.nodes import (
    SINGLE_PROMPT,
    Debate,
    DebateState,
    GateSettings,
    Needs,
    Next,
    Settings,
    Task,
    debate_node,
    debater_graph,
    end_agreed_node,
    gate_needs,
    gate_node,
    gate_roles,
    stop_reason_without_debate,
    to_readers,
    vote_node,
)


class GatedSettings(GateSettings):
    """Settings of a debate behind a gate."""

    def roles(self) -> set[str]:
        """The roles that may have their own model; ValueError if the gate and the debate share a name."""
        return gate_roles(self, self.inner_settings())

    def inner_settings(self) -> Settings:
        """The settings of the debate behind the gate; UserError if one is unknown or invalid."""
        return inner_debate(self)[1]


def inner_debate(settings: GateSettings) -> tuple[Any, Settings]:
    """The graph and the settings of the debate behind the gate; UserError if a setting is unknown or invalid."""
    system = load_graph(settings.debate)
    return system.graph, settings.of_debate(system.settings)


def needs(settings: GatedSettings) -> Needs:
    """The resources of the gate; unless the setting ``when`` is never, also those of the debate behind it."""
    graph, inner = inner_debate(settings)
    return gate_needs(settings, graph.builder.needs(inner))


def check(settings: GatedSettings, task: Task) -> None:
    """Raises a UserError if the debate behind the gate does not support the task."""
    graph, inner = inner_debate(settings)
    graph.builder.check(inner, task)


def gate(state: DebateState, settings: GatedSettings) -> Next:
    """Routes after the gate's answers, as the setting ``when`` says."""
    if settings.when != "always" and state["metrics"]["gate"]["passed"]:
        return "agree"
    return "vote" if settings.when == "never" else "debate"


builder = Debate("gated", GatedSettings, needs, check)
builder.add_node("reader", debater_graph(GatedSettings, SINGLE_PROMPT, "reader"))
builder.add_node("check_gate", gate_node())
builder.add_node("agree", end_agreed_node(lambda settings: "consensus"))
builder.add_node("vote", vote_node(stop_reason_without_debate))
builder.add_node("debate", debate_node(inner_debate, lambda settings: settings.when != "never"))
builder.add_conditional_edges(START, to_readers, ["reader"])
builder.add_edge("reader", "check_gate")
builder.add_conditional_edges("check_gate", gate, ["agree", "vote", "debate"])
builder.add_verdict("agree")
builder.add_verdict("vote")
builder.add_verdict("debate")
graph = builder.compile(name="Debate behind a gate")
