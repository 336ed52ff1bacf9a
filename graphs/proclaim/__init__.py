"""Trial with progressive retrieval and switched sides (PROClaim; Chowdhury et al., algorithm 1).

negotiate the evidence:
    find the premises of the claim, and at the same time a supporting and a challenging query
    search with the claim, with every premise and with both queries
    each side challenges the other side's evidence
    weigh every piece: it is admitted, disputed or discarded
hold two debates at the same time; in the second one, the two counsel switch sides
in every round of each debate:
    a side that has not stopped searching says which evidence it lacks, and searches; new evidence joins the record
    the plaintiff argues, then the defense
    each side may ask for an expert; the court decides whether to hear the expert
    each side reflects on its case, the critic scores both sides, and the court may close the debate
after a minimum number of rounds, a debate ends if the sides' scores of their own cases stop changing, if searches find
    little that is new, or if the critic or the court says so; it ends at the latest after its maximum number of rounds
analyse how consistently the counsel argued, then let every judge of a panel read the whole record
decide by the judges' majority; compute the confidence from their votes and scores, the counsel's consistency and the
    winner's last reflection
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.graph import START
from moot.graphs.proclaim.court import court_graph
from moot.graphs.proclaim.negotiation import negotiation_graph
from moot.graphs.proclaim.panel import panel_graph
from moot.nodes import (
    CompiledDebate,
    Debate,
    DebateState,
    Next,
    TrialSettings,
    check_trial_task,
    decide_node,
    join_node,
    to_debates,
    trial_needs,
)

if TYPE_CHECKING:
    from moot.graphs.contexts import ProclaimContext


class ProclaimSettings(TrialSettings):
    """Settings of PROClaim."""


def debate(state: DebateState, settings: ProclaimSettings) -> Next:
    """Starts the primary debate and, with `switches_sides`, the switched debate in parallel."""
    debates = {"primary": "primary_debate"} | ({"switched": "switched_debate"} if settings.switches_sides else {})
    return to_debates(state, debates)


def deliberate(state: DebateState) -> Next:
    """Routes to the panel of judges."""
    return "panel"


def decide(state: DebateState) -> Next:
    """Routes to the node that decides from the judges' verdicts."""
    return "decide"


builder = Debate("proclaim", ProclaimSettings, trial_needs, check_trial_task)
builder.add_node("negotiation", negotiation_graph(ProclaimSettings))
builder.add_node("primary_debate", court_graph(ProclaimSettings, "primary_debate"))
builder.add_node("switched_debate", court_graph(ProclaimSettings, "switched_debate"))
builder.add_node("gather_debates", join_node())
builder.add_node("panel", panel_graph(ProclaimSettings))
builder.add_node("decide", decide_node())
builder.add_edge(START, "negotiation")
builder.add_conditional_edges("negotiation", debate, ["primary_debate", "switched_debate"])
builder.add_edge("primary_debate", "gather_debates")
builder.add_edge("switched_debate", "gather_debates")
builder.add_conditional_edges("gather_debates", deliberate, ["panel"])
builder.add_conditional_edges("panel", decide, ["decide"])
builder.add_verdict("decide", on_question="panel")
graph: CompiledDebate[ProclaimSettings | ProclaimContext] = builder.compile(name="PROClaim")
