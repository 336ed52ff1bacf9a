"""The steps after the debates of a trial: the analysis of consistency, and the judges (PROClaim, section 2.8)."""

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
    analyse_node,
    compile_record_node,
    judge_record_node,
    statements,
    to_judges,
)


def begin(state: TrialState) -> Next:
    """Routes to the analysis of consistency if both sides spoke in the switched debate, else to ``compile_record``.

    The analysis is made only once, even if a person asks the panel to decide again.
    """
    sides = {turn["side"] for turn in statements(state["turns"]) if turn["phase"] == "switched"}
    analysed = any(turn["step"] == "analyse" for turn in state["turns"])
    return "analyse_consistency" if len(sides) == 2 and not analysed else "compile_record"


def judge(state: TrialState, settings: TrialSettings) -> Next:
    """Sends the whole record to every judge."""
    return to_judges("judge", state, settings)


def panel_graph(kind: type[TrialSettings]) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph of the analysis of consistency and then of all judges in parallel (PROClaim, section 2.8).

    Args:
        kind: the settings class of the parent graph.
    """
    graph = DebateGraph(kind, TrialState, input_schema=TrialInput, output_schema=TrialUpdate)
    graph.add_node("analyse_consistency", analyse_node())
    graph.add_node("compile_record", compile_record_node())
    graph.add_node("judge", judge_record_node())
    graph.add_conditional_edges(START, begin, ["analyse_consistency", "compile_record"])
    graph.add_edge("analyse_consistency", "compile_record")
    graph.add_conditional_edges("compile_record", judge, ["judge", END])
    graph.add_edge("judge", END)
    return graph.compile(name="panel")
