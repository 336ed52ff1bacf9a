"""CortexDebate (Sun et al., Findings of ACL 2025, algorithm 1): trust decides which others an agent hears.

every agent answers independently and states its confidence
repeat at least once, until all agents give the same answer or the rounds are used up:
    for each agent, weigh all other agents: credibility x reliability x intimacy / (self-orientation + 1)
    for each agent, keep the other agents whose weight is at least the mean of these weights
    every agent reads the last answers of the agents kept for it, but not its own, and answers again
the most frequent answer of the last round is the verdict; a tie gives no verdict
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moot.nodes import (
    Agents,
    CompiledDebate,
    Debate,
    DebateState,
    Next,
    WeighingSettings,
    agent_node,
    agreed_answer,
    compare_node,
    consensus_or_rounds,
    graph_report,
    n_agents,
    no_round_left,
    peer_score_node,
    to_agents,
    to_reviewers,
    vote_node,
    weigh_node,
    weighing_needs,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import CortexDebateContext

# --- settings -------------------------------------------------------------------------------------------------------


class CortexSettings(WeighingSettings):
    """Settings of CortexDebate. The defaults are the paper's, except those of `embedder` and `temperature`.

    The paper states no temperature.
    """

    agents: Agents = Field(
        default=n_agents(5), min_length=2, max_length=50, description="The agents: a list, or their number."
    )
    max_rounds: int = Field(
        default=5, ge=1, le=20, description="Maximum number of rounds of debate after the first answers."
    )


# --- edges ----------------------------------------------------------------------------------------------------------


def consensus(state: DebateState, settings: CortexSettings) -> Next:
    """Routes to the vote if all agree, or if the rounds or the budget are used up; else to the weighing of the agents.

    An agreement in round 0 does not end the debate. With the setting ``evaluation`` at peer, the agents first score
    each other's answers, if there are answers to score.
    """
    agreed = agreed_answer(state["votes"]) is not None
    if no_round_left(state, settings) or (state["rounds"] > 0 and agreed):
        return "vote"
    scores = to_reviewers("score_peers", state, settings, "score") if settings.evaluation == "peer" else []
    return scores or "weigh_edges"


def debate(state: DebateState, settings: CortexSettings) -> Next:
    """Starts the next round, from round 0. Every agent hears the agents that the newest debating graph keeps for it.

    There is no graph before round 0, in which all agents answer independently.
    """
    graphs = state["graphs"]
    return to_agents(
        "answer", state, settings, lambda name, names: graphs[-1]["kept"][name] if graphs else [], first=0, own=False
    )


# --- the graph ------------------------------------------------------------------------------------------------------

builder = Debate("cortex_debate", CortexSettings, weighing_needs)
builder.add_node("answer", agent_node("cortex_debate/revise", confidence=True))
builder.add_node("compare_answers", compare_node())
builder.add_node("score_peers", peer_score_node())
builder.add_node("weigh_edges", weigh_node())
builder.add_node("vote", vote_node(consensus_or_rounds, tie="none", report=graph_report))
builder.add_round(debate, ["answer"])
builder.add_edge("answer", "compare_answers")
builder.add_conditional_edges("compare_answers", consensus, ["score_peers", "weigh_edges", "vote"])
builder.add_edge("score_peers", "weigh_edges")
builder.add_conditional_edges("weigh_edges", debate, ["answer"])
builder.add_verdict("vote")
graph: CompiledDebate[CortexSettings | CortexDebateContext] = builder.compile(name="CortexDebate")
