"""The phases of a trial that are the same whatever is debated (PROClaim; S2), each a subgraph."""

from __future__ import annotations

from typing import Any

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send
from moot.nodes.runtime.node import DebateGraph, settings_of
from moot.nodes.runtime.state import TrialInput, TrialState, TrialUpdate
from moot.nodes.speakers.agents import gather_node
from moot.nodes.steps.person import person_node
from moot.nodes.steps.retrieve import retrieve_node
from moot.nodes.trial.counsel import handed, statements
from moot.nodes.trial.courtroom import TrialSettings
from moot.nodes.trial.discovery import discovery_query_node, gap_node, refine_node
from moot.nodes.trial.hearing import request_expert_node, rule_on_expert_node, testify_node
from moot.nodes.trial.negotiation import (
    challenge_node,
    disclose_node,
    premises_node,
    rule_node,
    stance_queries_node,
    to_arbiter,
    to_challengers,
    to_pools,
    to_seed,
    weigh_exhibit_node,
)
from moot.nodes.trial.panel import analyse_node, compile_record_node, judge_record_node, to_judges

Graph = CompiledStateGraph[Any, Any, Any, Any]


def negotiation_graph(kind: type[TrialSettings]) -> Graph:
    """Before the debates: what is found, what each side holds against it, what is admitted (S2, section 2.3).

    Args:
        kind: the settings' class of the graph that it becomes a part of.
    """

    def begin(state: TrialState, runtime: Runtime[Any]) -> list[Send | str] | str:
        settings = settings_of(runtime, kind)
        if not settings.sources:
            return "review_evidence"
        return ["premises", "stance_queries", to_seed("seed_retrieval", state, settings)]

    def search(state: TrialState, runtime: Runtime[Any]) -> list[Send] | str:
        if state.get("error"):
            return END
        return to_pools("retrieve", state, settings_of(runtime, kind)) or "review_evidence"

    def challenge(state: TrialState) -> list[Send] | str:
        return END if state.get("error") else to_challengers("challenge", state) or "gather_challenges"

    def weigh(state: TrialState) -> list[Send] | str:
        return END if state.get("error") else to_arbiter("weigh_exhibit", state) or "rule"

    graph = DebateGraph(kind, TrialState, input_schema=TrialInput, output_schema=TrialUpdate)
    graph.add_node("premises", premises_node())
    graph.add_node("stance_queries", stance_queries_node())
    graph.add_node("seed_retrieval", retrieve_node(required=True))
    graph.add_node("gather_queries", gather_node())
    graph.add_node("review_premises", person_node("premises", phase="negotiation"))
    graph.add_node("review_queries", person_node("queries", phase="negotiation"))
    graph.add_node("retrieve", retrieve_node())
    graph.add_node("review_evidence", person_node("evidence", phase="negotiation"))
    graph.add_node("disclose", disclose_node())
    graph.add_node("challenge", challenge_node())
    graph.add_node("gather_challenges", gather_node())
    graph.add_node("weigh_exhibit", weigh_exhibit_node())
    graph.add_node("rule", rule_node())
    graph.add_conditional_edges(START, begin, ["premises", "stance_queries", "seed_retrieval", "review_evidence"])
    graph.add_edge(["premises", "stance_queries", "seed_retrieval"], "gather_queries")
    graph.add_edge("gather_queries", "review_premises")
    graph.add_edge("review_premises", "review_queries")
    graph.add_conditional_edges("review_queries", search, ["retrieve", "review_evidence", END])
    graph.add_edge("retrieve", "review_evidence")
    graph.add_edge("review_evidence", "disclose")
    graph.add_conditional_edges("disclose", challenge, ["challenge", "gather_challenges", END])
    graph.add_edge("challenge", "gather_challenges")
    graph.add_conditional_edges("gather_challenges", weigh, ["weigh_exhibit", "rule", END])
    graph.add_edge("weigh_exhibit", "rule")
    graph.add_edge("rule", END)
    return graph.compile(name="negotiation")


def discovery_graph(kind: type[TrialSettings]) -> Graph:
    """One side's progressive retrieval in a round (S2, section 2.4).

    Args:
        kind: the settings' class of the graph that it becomes a part of.
    """
    graph = DebateGraph(kind, TrialState, output_schema=TrialUpdate)
    graph.add_node("state_gap", gap_node())
    graph.add_node("formulate_query", discovery_query_node())
    graph.add_node("refine_query", refine_node())
    graph.add_node("retrieve", retrieve_node())
    graph.add_edge(START, "state_gap")
    graph.add_edge("state_gap", "formulate_query")
    graph.add_edge("formulate_query", "refine_query")
    graph.add_edge("refine_query", "retrieve")
    graph.add_edge("retrieve", END)
    return graph.compile(name="discovery")


def expert_graph(kind: type[TrialSettings]) -> Graph:
    """One side's expert: wanted or not, granted or not, heard (S2, section 2.5, step 3).

    Args:
        kind: the settings' class of the graph that it becomes a part of.
    """

    def wanted(state: TrialState) -> str:
        return "rule_on_expert" if handed(state).get("needed") and not state.get("error") else END

    def granted(state: TrialState) -> str:
        return "testify" if any(turn.get("granted") for turn in state["turns"]) else END

    graph = DebateGraph(kind, TrialState, output_schema=TrialUpdate)
    graph.add_node("request_expert", request_expert_node())
    graph.add_node("rule_on_expert", rule_on_expert_node())
    graph.add_node("testify", testify_node())
    graph.add_edge(START, "request_expert")
    graph.add_conditional_edges("request_expert", wanted, ["rule_on_expert", END])
    graph.add_conditional_edges("rule_on_expert", granted, ["testify", END])
    graph.add_edge("testify", END)
    return graph.compile(name="expert")


def panel_graph(kind: type[TrialSettings]) -> Graph:
    """After the debates: how consistently the counsel argued, then every judge, at the same time (S2, section 2.8).

    Args:
        kind: the settings' class of the graph that it becomes a part of.
    """

    def begin(state: TrialState) -> str:
        heard = {turn["side"] for turn in statements(state["turns"]) if turn["phase"] == "switched"}
        analysed = any(turn["step"] == "analyse" for turn in state["turns"])  # the panel decides anew on a question
        return "analyse_consistency" if len(heard) == 2 and not analysed else "compile_record"

    def judge(state: TrialState, runtime: Runtime[Any]) -> list[Send] | str:
        return END if state.get("error") else to_judges("judge", state, settings_of(runtime, kind))

    graph = DebateGraph(kind, TrialState, input_schema=TrialInput, output_schema=TrialUpdate)
    graph.add_node("analyse_consistency", analyse_node())
    graph.add_node("compile_record", compile_record_node())
    graph.add_node("judge", judge_record_node())
    graph.add_conditional_edges(START, begin, ["analyse_consistency", "compile_record"])
    graph.add_edge("analyse_consistency", "compile_record")
    graph.add_conditional_edges("compile_record", judge, ["judge", END])
    graph.add_edge("judge", END)
    return graph.compile(name="panel")
