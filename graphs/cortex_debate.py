"""CortexDebate (Sun et al., Findings of ACL 2025; S3, algorithm 1): a sparse debate, in which trust says who is heard.

every agent answers on its own and says how sure it is
repeat until all give one answer, or the rounds are used up:
    weigh every agent for every other one: credibility x reliability x intimacy / self-orientation
    keep, for each agent, those who weigh at least the mean of all that it could hear
    every agent reads the last answers of those and answers anew
the answer that most agents give in the last round is the verdict; of a tie there is none
"""

from __future__ import annotations

from typing import Any

from langgraph.graph import END, START
from langgraph.runtime import Runtime
from langgraph.types import Send
from moot.nodes.cortex.weigh import WeighingSettings, graph_report, weigh_node
from moot.nodes.runtime.budget import no_round_left
from moot.nodes.runtime.node import DebateGraph, settings_of
from moot.nodes.runtime.opening import Needs, close_node, open_node
from moot.nodes.runtime.state import ClaimInput, DebateState, VerdictOutput
from moot.nodes.speakers.agents import Agents, agent_node, agents_needs, everyone, so_many, to_agents
from moot.nodes.steps.compare import agreed_answer, compare_node
from moot.nodes.steps.person import person_node, remark_first
from moot.nodes.steps.review import SCORE, review_node, score_answer, to_reviewers
from moot.nodes.steps.vote import consensus_or_rounds, vote_node
from pydantic import Field

# --- settings -------------------------------------------------------------------------------------------------------


class CortexSettings(WeighingSettings):
    """Settings of CortexDebate. The defaults are the paper's, but for its embedder; it names no temperature."""

    agents: Agents = Field(so_many(5), min_length=2, max_length=50, description="Who debates: a list, or how many.")
    max_rounds: int = Field(5, ge=1, le=20, description="Most rounds of debate (D) after the first answers.")


def needs(settings: CortexSettings) -> Needs:
    """What a debate with these settings uses."""
    return Needs(roles=agents_needs(settings).roles, encoder=settings.evaluation == "mdm")


# --- edges ----------------------------------------------------------------------------------------------------------


def begin(state: DebateState, runtime: Runtime[Any]) -> list[Send] | str:
    """The first answers are round 0."""
    settings = settings_of(runtime, CortexSettings)
    return "close" if state["error"] else to_agents("answer", state, settings, everyone, first=0)


def consensus(state: DebateState, runtime: Runtime[Any]) -> list[Send] | str:
    """One answer ends the debate, and so does the last round; the same answers at first do not."""
    settings = settings_of(runtime, CortexSettings)
    agreed = agreed_answer(state["votes"]) is not None
    if state["error"]:
        return "close"
    if no_round_left(state, settings) or (state["rounds"] > 0 and agreed):
        return "vote"
    scores = to_reviewers("score_peers", state, settings, "score") if settings.evaluation == "peer" else []
    return scores or "weigh_edges"


def debate(state: DebateState, runtime: Runtime[Any]) -> list[Send] | str:
    """Every agent hears those whose edges to it were kept."""
    settings = settings_of(runtime, CortexSettings)
    if state["error"]:
        return "close"
    kept = state["graphs"][-1]["kept"]
    return to_agents("answer", state, settings, lambda name, names: kept[name], own=False)


# --- the graph ------------------------------------------------------------------------------------------------------

builder = DebateGraph(CortexSettings, DebateState, input_schema=ClaimInput, output_schema=VerdictOutput)
builder.add_node("open", open_node("cortex_debate", needs))
builder.add_node("answer", agent_node("cortex_debate/revise", confidence=True))
builder.add_node("compare_answers", compare_node())
builder.add_node("score_peers", review_node(score_answer, ("score",), SCORE))
builder.add_node("weigh_edges", weigh_node())
builder.add_node("hear_remark", person_node("remark"))
builder.add_node("vote", vote_node(consensus_or_rounds, tie="none", report=graph_report))
builder.add_node("close", close_node())
builder.add_edge(START, "open")
builder.add_conditional_edges("open", begin, ["answer", "close"])
builder.add_edge("answer", "compare_answers")
builder.add_conditional_edges("compare_answers", consensus, ["score_peers", "weigh_edges", "vote", "close"])
builder.add_edge("score_peers", "weigh_edges")
builder.add_conditional_edges("weigh_edges", remark_first(debate), ["hear_remark", "answer", "close"])
builder.add_conditional_edges("hear_remark", debate, ["answer", "close"])
builder.add_edge("vote", "close")
builder.add_edge("close", END)
graph = builder.compile(name="CortexDebate")
