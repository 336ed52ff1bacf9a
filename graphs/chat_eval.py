"""ChatEval with a summariser (Chan et al., ICLR 2024, arXiv:2308.07201): everybody hears everybody, and a summary.

every agent answers on its own
repeat until the rounds are used up:
    the summariser sums up the round
    every agent reads the summary and the others' last answers and answers anew
the answer that most agents give in the last round is the verdict; a tie goes to the earliest agent
"""

from __future__ import annotations

from typing import Any, ClassVar

from langgraph.graph import END, START
from langgraph.runtime import Runtime
from langgraph.types import Send
from moot.nodes.runtime.budget import no_round_left, rounds_or_budget
from moot.nodes.runtime.node import DebateGraph, settings_of
from moot.nodes.runtime.opening import close_node, open_node
from moot.nodes.runtime.state import ClaimInput, DebateState, VerdictOutput
from moot.nodes.speakers.agents import RoundsSettings, agent_node, agents_needs, everyone, last_round, to_agents
from moot.nodes.steps.compare import compare_node
from moot.nodes.steps.person import person_node, remark_first
from moot.nodes.steps.summarise import summaries_of, summary_node, to_summariser
from moot.nodes.steps.vote import conclude_node
from pydantic import Field


class ChatEvalSettings(RoundsSettings):
    """Settings of ChatEval."""

    other_roles: ClassVar[frozenset[str]] = frozenset({"summariser"})
    max_rounds: int = Field(2, ge=1, le=20, description="Rounds (T); the first answers are the first round.")


def answer(state: DebateState, runtime: Runtime[Any]) -> list[Send] | str:
    """Every agent goes into the next round, with the summary of the last one."""
    settings = settings_of(runtime, ChatEvalSettings)
    heard = summaries_of(state["turns"], state["rounds"])
    return "close" if state["error"] else to_agents("answer", state, settings, everyone, heard=lambda name: heard)


def after_round(state: DebateState, runtime: Runtime[Any]) -> Send | str:
    """A round that is not the last is summed up."""
    settings = settings_of(runtime, ChatEvalSettings)
    if state["error"]:
        return "close"
    if no_round_left(state, settings):
        return "vote"
    return to_summariser(state, list(last_round(state, settings).values()))


builder = DebateGraph(ChatEvalSettings, DebateState, input_schema=ClaimInput, output_schema=VerdictOutput)
builder.add_node("open", open_node("chat_eval", agents_needs))
builder.add_node("answer", agent_node())
builder.add_node("compare_answers", compare_node(by_text=True))
builder.add_node("summarise", summary_node())
builder.add_node("hear_remark", person_node("remark"))
builder.add_node("vote", conclude_node(rounds_or_budget))
builder.add_node("close", close_node())
builder.add_edge(START, "open")
builder.add_conditional_edges("open", answer, ["answer", "close"])
builder.add_edge("answer", "compare_answers")
builder.add_conditional_edges("compare_answers", after_round, ["summarise", "vote", "close"])
builder.add_conditional_edges("summarise", remark_first(answer), ["hear_remark", "answer", "close"])
builder.add_conditional_edges("hear_remark", answer, ["answer", "close"])
builder.add_edge("vote", "close")
builder.add_edge("close", END)
graph = builder.compile(name="ChatEval")
