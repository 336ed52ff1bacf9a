"""A debate in court (PROClaim, sections 2.4 to 2.7), and the subgraphs of its rounds."""

from __future__ import annotations

from typing import Any

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from moot.nodes import (
    DebateGraph,
    Next,
    TrialSettings,
    TrialState,
    TrialUpdate,
    admit_node,
    argue_node,
    close_round_node,
    court_node,
    critique_node,
    discovery_query_node,
    gap_node,
    human_review_node,
    join_node,
    lacks_nothing,
    may_ask_experts,
    may_close,
    refine_node,
    reflect_node,
    remark_first,
    request_expert_node,
    retrieve_node,
    rule_on_discoveries_node,
    rule_on_expert_node,
    still_searching,
    testify_node,
    to_argument,
    to_discovery,
    to_discovery_arbiter,
    to_expert_requests,
    to_reflection,
    weigh_exhibit_node,
)

Graph = CompiledStateGraph[Any, Any, Any, Any]

# --- a debate -------------------------------------------------------------------------------------------------------


def next_round(state: TrialState, settings: TrialSettings) -> Next:
    """Starts the next round, or ends the debate if it has a stop reason."""
    if state.get("stop_reason"):
        return END
    searching = settings.searches_in_debates and still_searching(state)
    return to_discovery("discovery", state, settings) if searching else to_plaintiff(state)


def after_searches(state: TrialState) -> Next:
    """Sends each result that waits for the arbiter to the arbiter; without any, routes to the plaintiff."""
    return to_discovery_arbiter("weigh_discovery", state) or to_plaintiff(state)


def to_plaintiff(state: TrialState) -> Next:
    """Routes to the plaintiff, who argues from the current record."""
    return to_argument("argue", state, "plaintiff")


def after_argument(state: TrialState, settings: TrialSettings) -> Next:
    """Routes to the defense after the plaintiff's argument, and to the requests for experts after both arguments.

    If no expert can be asked for (`may_ask_experts`), it routes to the evaluation of the round.
    """
    this_round = state["rounds"] + 1
    spoken = [turn for turn in state["turns"] if turn["step"] == "argue" and turn["round"] == this_round]
    if len(spoken) == 1:
        return to_argument("argue", state, "defense")
    return to_expert_requests("expert_witness", state) if may_ask_experts(state, settings) else "gather_testimony"


def to_evaluation(state: TrialState, settings: TrialSettings) -> Next:
    """Starts the evaluation of the round: the critic, the reflections and the court, in parallel."""
    reflections = to_reflection("reflect", state) if settings.self_reflection else []
    return [*reflections, "critique", *(["court"] if may_close(state, settings) else [])]


def court_graph(kind: type[TrialSettings], name: str) -> Graph:
    """The graph of one debate in court; ``kind`` is the settings class of the parent graph."""
    court = DebateGraph(kind, TrialState, output_schema=TrialUpdate)
    court.add_node("discovery", discovery_graph(kind))
    court.add_node("admit_discoveries", admit_node())
    court.add_node("weigh_discovery", weigh_exhibit_node())
    court.add_node("rule_on_discoveries", rule_on_discoveries_node())
    court.add_node("argue", argue_node())
    court.add_node("expert_witness", expert_graph(kind))
    court.add_node("gather_testimony", join_node())
    court.add_node("reflect", reflect_node())
    court.add_node("critique", critique_node())
    court.add_node("court", court_node())
    court.add_node("close_round", close_round_node())
    court.add_node("human_remark", human_review_node("remark"))
    court.add_conditional_edges(START, next_round, ["discovery", "argue", END])
    court.add_edge("discovery", "admit_discoveries")
    court.add_conditional_edges("admit_discoveries", after_searches, ["weigh_discovery", "argue", END])
    court.add_edge("weigh_discovery", "rule_on_discoveries")
    court.add_conditional_edges("rule_on_discoveries", to_plaintiff, ["argue", END])
    court.add_conditional_edges("argue", after_argument, ["argue", "expert_witness", "gather_testimony", END])
    court.add_edge("expert_witness", "gather_testimony")
    court.add_conditional_edges("gather_testimony", to_evaluation, ["reflect", "critique", "court", END])
    court.add_edge("reflect", "close_round")
    court.add_edge("critique", "close_round")
    court.add_edge("court", "close_round")
    court.add_conditional_edges("close_round", remark_first(next_round), ["human_remark", "discovery", "argue", END])
    court.add_conditional_edges("human_remark", next_round, ["discovery", "argue", END])
    return court.compile(name=name)


# --- parts of a round -----------------------------------------------------------------------------------------------


def discovery_graph(kind: type[TrialSettings]) -> Graph:
    """The graph of one side's search in a round (progressive retrieval; PROClaim, section 2.4).

    Args:
        kind: the settings class of the parent graph.
    """
    graph = DebateGraph(kind, TrialState, output_schema=TrialUpdate)
    graph.add_node("state_gap", gap_node())
    graph.add_node("formulate_query", discovery_query_node())
    graph.add_node("refine_query", refine_node())
    graph.add_node("retrieve", retrieve_node())
    graph.add_edge(START, "state_gap")
    graph.add_conditional_edges("state_gap", route_gap, ["formulate_query", END])
    graph.add_edge("formulate_query", "refine_query")
    graph.add_edge("refine_query", "retrieve")
    graph.add_edge("retrieve", END)
    return graph.compile(name="discovery")


def route_gap(state: TrialState) -> str:
    """Routes to the query, or to the end of the subgraph if the side lacks nothing."""
    return END if lacks_nothing(state["turns"][0]) else "formulate_query"


def route_expert_request(state: TrialState) -> str:
    """Routes to the court's ruling if the side requests an expert, else to the end of the subgraph."""
    return "rule_on_expert" if state["turns"][0].get("needed") else END


def route_testimony(state: TrialState) -> str:
    """Routes to the testimony if the court admits the expert, else to the end of the subgraph."""
    return "testify" if any(turn.get("granted") for turn in state["turns"]) else END


def expert_graph(kind: type[TrialSettings]) -> Graph:
    """The graph of one side's expert: request, the court's ruling, and testimony (PROClaim, section 2.5, step 3).

    Args:
        kind: the settings class of the parent graph.
    """
    graph = DebateGraph(kind, TrialState, output_schema=TrialUpdate)
    graph.add_node("request_expert", request_expert_node())
    graph.add_node("rule_on_expert", rule_on_expert_node())
    graph.add_node("testify", testify_node())
    graph.add_edge(START, "request_expert")
    graph.add_conditional_edges("request_expert", route_expert_request, ["rule_on_expert", END])
    graph.add_conditional_edges("rule_on_expert", route_testimony, ["testify", END])
    graph.add_edge("testify", END)
    return graph.compile(name="expert")
