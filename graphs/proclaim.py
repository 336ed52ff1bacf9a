"""Trial with progressive retrieval and switched sides (PROClaim; Chowdhury et al.; S2, algorithm 1).

negotiate the evidence:
    find what the claim rests on, and beside that a supporting and a challenging query
    search for the claim, for every premise and with both queries
    each side challenges what the other one found
    weigh every piece: it is admitted, disputed or discarded
debate, and at the same time debate with the counsel on each other's sides; in every round:
    each side that still searches states a gap; a query is formulated and refined; what is new joins the record
    the plaintiff argues, then the defense
    each side may ask for an expert, whom the court may hear
    each side reflects, the critic scores both, the court closes or goes on
until reflections or discoveries bring nothing new, the critic or the court ends it, or the rounds are used up
analyse how consistently the counsel argued, then let every judge of a panel read the whole record
decide by majority; confidence comes from votes, the judges' scores, consistency and the winner's reflection
"""

from __future__ import annotations

from typing import Any

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send
from moot.nodes.runtime.node import DebateGraph, settings_of
from moot.nodes.runtime.opening import close_node, open_node
from moot.nodes.runtime.state import ClaimInput, DebateState, TrialState, TrialUpdate, VerdictOutput
from moot.nodes.speakers.agents import gather_node
from moot.nodes.steps.person import person_node, question_or, remark_first
from moot.nodes.trial.counsel import said_in, this_round
from moot.nodes.trial.courtroom import (
    TrialSettings,
    close_round_node,
    to_argument,
    to_debates,
    to_experts,
    to_reflection,
    trial_needs,
)
from moot.nodes.trial.critique import court_node, critique_node, reflect_node
from moot.nodes.trial.discovery import admit_node, still_searching, to_discovery
from moot.nodes.trial.hearing import argue_node
from moot.nodes.trial.panel import decide_node, fits
from moot.nodes.trial.phases import discovery_graph, expert_graph, negotiation_graph, panel_graph


class ProclaimSettings(TrialSettings):
    """Settings of PROClaim. The defaults are the paper's."""


# --- a debate in court ----------------------------------------------------------------------------------------------


def next_round(state: TrialState, runtime: Runtime[Any]) -> list[Send] | str:
    """A round begins with what each side still searches for; without that with the plaintiff's argument."""
    settings = settings_of(runtime, ProclaimSettings)
    if state.get("error") or state.get("stop_reason"):
        return END
    searching = settings.searches_on and still_searching(state)
    return to_discovery("discovery", state, settings) if searching else to_argument("argue", state, "plaintiff")


def plaintiff_first(state: TrialState) -> list[Send] | str:
    """The plaintiff argues from what is on record now."""
    return END if state.get("error") else to_argument("argue", state, "plaintiff")


def then_defense(state: TrialState) -> list[Send] | str:
    """The defense answers the plaintiff; after both each side may ask for an expert."""
    if state.get("error"):
        return END
    spoken = len(said_in(state["turns"], this_round(state), "argue"))
    return to_argument("argue", state, "defense") if spoken == 1 else to_experts("expert_witness", state)


def look_back(state: TrialState, runtime: Runtime[Any]) -> list[Send | str] | str:
    """Both sides reflect, while the critic and the court look at the round."""
    settings = settings_of(runtime, ProclaimSettings)
    if state.get("error"):
        return END
    reflections = to_reflection("reflect", state) if settings.self_reflection else []
    return [*reflections, "critique", *(["court"] if settings.searches_on else [])]


def court_graph(name: str) -> CompiledStateGraph[Any, Any, Any, Any]:
    """One debate, from the admitted evidence to the reason why it stops."""
    court = DebateGraph(ProclaimSettings, TrialState, output_schema=TrialUpdate)
    court.add_node("discovery", discovery_graph(ProclaimSettings))
    court.add_node("admit_discoveries", admit_node())
    court.add_node("argue", argue_node())
    court.add_node("expert_witness", expert_graph(ProclaimSettings))
    court.add_node("gather_testimony", gather_node())
    court.add_node("reflect", reflect_node())
    court.add_node("critique", critique_node())
    court.add_node("court", court_node())
    court.add_node("close_round", close_round_node())
    court.add_node("hear_remark", person_node("remark"))
    court.add_conditional_edges(START, next_round, ["discovery", "argue", END])
    court.add_edge("discovery", "admit_discoveries")
    court.add_conditional_edges("admit_discoveries", plaintiff_first, ["argue", END])
    court.add_conditional_edges("argue", then_defense, ["argue", "expert_witness", END])
    court.add_edge("expert_witness", "gather_testimony")
    court.add_conditional_edges("gather_testimony", look_back, ["reflect", "critique", "court", END])
    court.add_edge("reflect", "close_round")
    court.add_edge("critique", "close_round")
    court.add_edge("court", "close_round")
    court.add_conditional_edges("close_round", remark_first(next_round), ["hear_remark", "discovery", "argue", END])
    court.add_conditional_edges("hear_remark", next_round, ["discovery", "argue", END])
    return court.compile(name=name)


# --- the trial ------------------------------------------------------------------------------------------------------


def negotiate(state: DebateState) -> str:
    """What cannot be opened is not tried."""
    return "close" if state.get("error") else "negotiation"


def debate(state: DebateState, runtime: Runtime[Any]) -> list[Send] | str:
    """The switched debate waits for nothing in the primary one, so both are held at the same time."""
    settings = settings_of(runtime, ProclaimSettings)
    if state.get("error"):
        return "close"
    debates = {"primary": "primary_debate"} | ({"switched": "switched_debate"} if settings.role_switch else {})
    return to_debates(state, debates)


def deliberate(state: DebateState) -> str:
    """Where a debate failed there is nothing to judge."""
    return "close" if state.get("error") else "panel"


def decide(state: DebateState) -> str:
    """Where the panel failed there is nothing to count."""
    return "close" if state.get("error") else "decide"


builder = DebateGraph(ProclaimSettings, DebateState, input_schema=ClaimInput, output_schema=VerdictOutput)
builder.add_node("open", open_node("proclaim", trial_needs, fits))
builder.add_node("negotiation", negotiation_graph(ProclaimSettings))
builder.add_node("primary_debate", court_graph("primary_debate"))
builder.add_node("switched_debate", court_graph("switched_debate"))
builder.add_node("gather_debates", gather_node())
builder.add_node("panel", panel_graph(ProclaimSettings))
builder.add_node("decide", decide_node())
builder.add_node("review_verdict", person_node("verdict", phase="panel"))
builder.add_node("close", close_node())
builder.add_edge(START, "open")
builder.add_conditional_edges("open", negotiate, ["negotiation", "close"])
builder.add_conditional_edges("negotiation", debate, ["primary_debate", "switched_debate", "close"])
builder.add_edge("primary_debate", "gather_debates")
builder.add_edge("switched_debate", "gather_debates")
builder.add_conditional_edges("gather_debates", deliberate, ["panel", "close"])
builder.add_conditional_edges("panel", decide, ["decide", "close"])
builder.add_edge("decide", "review_verdict")
builder.add_conditional_edges("review_verdict", question_or("panel"), ["panel", "close"])
builder.add_edge("close", END)
graph = builder.compile(name="PROClaim")
