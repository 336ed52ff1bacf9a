"""The steps before the debates of a trial: search, challenges and admission (PROClaim, sections 2.1 to 2.3)."""

from __future__ import annotations

from typing import Any

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from moot.nodes import (
    DebateGraph,
    Next,
    TrialInput,
    TrialSettings,
    TrialState,
    TrialUpdate,
    challenge_node,
    disclose_node,
    human_review_node,
    join_node,
    premises_node,
    retrieve_node,
    rule_node,
    stance_queries_node,
    to_arbiter,
    to_challengers,
    to_pool_searches,
    to_seed_search,
    weigh_exhibit_node,
)


def begin(state: TrialState, settings: TrialSettings) -> Next:
    """Starts three steps in parallel: premises, queries and a first search; without sources, only the premises."""
    if not settings.sources:
        return "premises"
    return ["premises", "stance_queries", to_seed_search("seed_retrieval", state, settings)]


def to_review(state: TrialState, settings: TrialSettings) -> Next:
    """Routes to the review of the queries; without sources, to the review of the texts given with the claim."""
    return "review_queries" if settings.sources else "review_evidence"


def search(state: TrialState, settings: TrialSettings) -> Next:
    """Starts a search for each premise, up to `max_premises`, and a search with each side's query.

    If there is neither a premise nor a query, it routes to the review of the evidence.
    """
    return to_pool_searches("retrieve", state, settings) or "review_evidence"


def challenge(state: TrialState) -> Next:
    """Starts each side's challenge of the other side's evidence and of the given texts.

    If no side has anything to challenge, it routes to ``gather_challenges``.
    """
    return to_challengers("challenge", state) or "gather_challenges"


def weigh(state: TrialState) -> Next:
    """Sends every piece of evidence to the arbiter, who weighs it; without evidence, routes to the ruling."""
    return to_arbiter("weigh_exhibit", state) or "rule"


def negotiation_graph(kind: type[TrialSettings]) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph of the search for evidence, the sides' challenges, and the admission (PROClaim, sections 2.1 to 2.3).

    Args:
        kind: the settings class of the parent graph.
    """
    graph = DebateGraph(kind, TrialState, input_schema=TrialInput, output_schema=TrialUpdate)
    graph.add_node("premises", premises_node())
    graph.add_node("stance_queries", stance_queries_node())
    graph.add_node("seed_retrieval", retrieve_node(required=True))
    graph.add_node("gather_queries", join_node())
    graph.add_node("review_premises", human_review_node("premises", phase="negotiation"))
    graph.add_node("review_queries", human_review_node("queries", phase="negotiation"))
    graph.add_node("retrieve", retrieve_node())
    graph.add_node("review_evidence", human_review_node("evidence", phase="negotiation"))
    graph.add_node("disclose", disclose_node())
    graph.add_node("challenge", challenge_node())
    graph.add_node("gather_challenges", join_node())
    graph.add_node("weigh_exhibit", weigh_exhibit_node())
    graph.add_node("rule", rule_node())
    graph.add_conditional_edges(START, begin, ["premises", "stance_queries", "seed_retrieval"])
    graph.add_edge("premises", "gather_queries")
    graph.add_edge("stance_queries", "gather_queries")
    graph.add_edge("seed_retrieval", "gather_queries")
    graph.add_edge("gather_queries", "review_premises")
    graph.add_conditional_edges("review_premises", to_review, ["review_queries", "review_evidence"])
    graph.add_conditional_edges("review_queries", search, ["retrieve", "review_evidence", END])
    graph.add_edge("retrieve", "review_evidence")
    graph.add_edge("review_evidence", "disclose")
    graph.add_conditional_edges("disclose", challenge, ["challenge", "gather_challenges", END])
    graph.add_edge("challenge", "gather_challenges")
    graph.add_conditional_edges("gather_challenges", weigh, ["weigh_exhibit", "rule", END])
    graph.add_edge("weigh_exhibit", "rule")
    graph.add_edge("rule", END)
    return graph.compile(name="negotiation")
