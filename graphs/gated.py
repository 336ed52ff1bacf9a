"""Debate behind a gate, moot's own system: a debate follows only if independent answers do not settle the claim.

several agents answer independently, each from its own retrieval; every quote is checked
if all agents give the same answer, and their verified quotes come from enough origins, this answer is the verdict
otherwise another system debates and starts with the evidence of all these agents; its verdict is the verdict

With ``trigger=unwarranted``, the debate also follows if no quote of the agents bears their common answer out. With
``trigger=self_critique``, each agent is asked once to attack its own answer, and the debate also follows if an agent
changes it. The setting can also make the debate follow always or never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph.graph import START
from moot.graphs import load_graph
from moot.nodes import (
    SINGLE_PROMPT,
    CompiledDebate,
    Debate,
    DebateState,
    GateSettings,
    Needs,
    Next,
    Settings,
    Task,
    assess_node,
    debate_node,
    debater_graph,
    end_agreed_node,
    gate_needs,
    gate_node,
    gate_roles,
    quoting_answers,
    respond_node,
    self_critique_node,
    stop_reason_without_debate,
    to_readers,
    to_self_critique,
    vote_node,
    warrants_node,
)

if TYPE_CHECKING:
    from moot.graphs.contexts import GatedContext


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
    """The resources of the gate; unless the setting ``trigger`` is never, also those of the debate behind it."""
    graph, inner = inner_debate(settings)
    return gate_needs(settings, graph.builder.needs(inner))


def check(settings: GatedSettings, task: Task) -> None:
    """Raises a UserError if the debate behind the gate does not support the task."""
    graph, inner = inner_debate(settings)
    graph.builder.check(inner, task)


def gate(state: DebateState, settings: GatedSettings) -> Next:
    """Routes after the gate's answers: if they agree, to what the setting ``trigger`` also asks for, else `follow`."""
    if state["metrics"]["gate"]["passed"]:
        if settings.trigger == "unwarranted":
            return "assess_answers"
        if settings.trigger == "self_critique":
            return to_self_critique(state, settings)
    return follow(state, settings)


def follow(state: DebateState, settings: GatedSettings) -> Next:
    """Routes to the debate or to the end, as the setting ``trigger`` says."""
    if settings.trigger != "always" and state["metrics"]["gate"]["passed"]:
        return "agree"
    return "vote" if settings.trigger == "never" else "debate"


builder = Debate("gated", GatedSettings, needs, check)
builder.add_plan("gate")
builder.add_node("reader", debater_graph(GatedSettings, SINGLE_PROMPT, "reader"))
builder.add_node("check_gate", gate_node())
builder.add_node("assess_answers", assess_node(quoting_answers, lambda settings: True))
builder.add_node("check_warrants", warrants_node())
builder.add_node("attack", respond_node("gated/attack"))
builder.add_node("check_attacks", self_critique_node())
builder.add_node("agree", end_agreed_node(lambda settings: "consensus"))
builder.add_node("vote", vote_node(stop_reason_without_debate))
builder.add_node("debate", debate_node(inner_debate, lambda settings: settings.trigger != "never"))
builder.add_conditional_edges(START, to_readers, ["reader"])
builder.add_edge("reader", "check_gate")
builder.add_conditional_edges("check_gate", gate, ["assess_answers", "attack", "agree", "vote", "debate"])
builder.add_edge("assess_answers", "check_warrants")
builder.add_conditional_edges("check_warrants", follow, ["agree", "debate"])
builder.add_edge("attack", "check_attacks")
builder.add_conditional_edges("check_attacks", follow, ["agree", "debate"])
builder.add_verdict("agree")
builder.add_verdict("vote")
builder.add_verdict("debate")
graph: CompiledDebate[GatedSettings | GatedContext] = builder.compile(name="Debate behind a gate")
