"""Peer review (Xu et al., 2023, arXiv:2311.08152): agents revise by what the others say of their answers.

every agent answers on its own
repeat for each round of reviews:
    every agent reviews every other one's answer, all reviews at the same time
    every agent reads the reviews of its answer and answers anew
the answer that most agents give in the last round is the verdict; a tie goes to the earliest agent
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from langgraph.graph import END, START
from langgraph.runtime import Runtime
from langgraph.types import Send
from moot.nodes.runtime.budget import BudgetSettings, no_round_left, rounds_or_budget
from moot.nodes.runtime.node import DebateGraph, settings_of
from moot.nodes.runtime.opening import close_node, open_node
from moot.nodes.runtime.settings import ask_person
from moot.nodes.runtime.state import ClaimInput, DebaterState, DebateState, VerdictOutput
from moot.nodes.speakers.agents import AgentsSettings, agent_node, agents_needs, gather_node, nobody, to_agents
from moot.nodes.steps.compare import compare_node
from moot.nodes.steps.person import person_node, remark_first
from moot.nodes.steps.review import review_node, reviews_of, to_reviewers
from moot.nodes.steps.vote import conclude_node
from moot.nodes.texts.show import show_heard
from pydantic import Field


class PeerReviewSettings(BudgetSettings, AgentsSettings):
    """Settings of peer review."""

    rounds: int = Field(1, ge=1, le=19, description="Rounds of review and revision after the first answers.")
    ask_person: tuple[Literal["remark"], ...] = ask_person()

    @property
    def max_rounds(self) -> int:
        """Most rounds, the first answers included."""
        return self.rounds + 1


def answer(state: DebateState, runtime: Runtime[Any]) -> list[Send] | str:
    """Every agent answers, from the second round on with the reviews of its last answer."""
    settings = settings_of(runtime, PeerReviewSettings)
    if state["error"]:
        return "close"
    return to_agents("answer", state, settings, nobody, heard=lambda name: reviews_of(state, name))


def after_round(state: DebateState, runtime: Runtime[Any]) -> list[Send] | str:
    """The answers are reviewed; without an answer there is nothing to review."""
    settings = settings_of(runtime, PeerReviewSettings)
    if state["error"]:
        return "close"
    if no_round_left(state, settings):
        return "vote"
    return to_reviewers("review", state, settings) or answer(state, runtime)


def reviews(state: DebaterState, settings: Any) -> Mapping[str, str]:
    """The reviews of an agent's answer."""
    return {"heard": show_heard(state.get("heard") or []) or "(no review came)"}


builder = DebateGraph(PeerReviewSettings, DebateState, input_schema=ClaimInput, output_schema=VerdictOutput)
builder.add_node("open", open_node("peer_review", agents_needs))
builder.add_node("answer", agent_node("peer_review/revise", heard=reviews))
builder.add_node("compare_answers", compare_node(by_text=True))
builder.add_node("review", review_node())
builder.add_node("hand_back", gather_node())
builder.add_node("hear_remark", person_node("remark"))
builder.add_node("vote", conclude_node(rounds_or_budget))
builder.add_node("close", close_node())
builder.add_edge(START, "open")
builder.add_conditional_edges("open", answer, ["answer", "close"])
builder.add_edge("answer", "compare_answers")
after_answers = ["hear_remark", "review", "answer", "vote", "close"]
builder.add_conditional_edges("compare_answers", remark_first(after_round), after_answers)
builder.add_edge("review", "hand_back")
builder.add_conditional_edges("hand_back", remark_first(answer), ["hear_remark", "answer", "close"])
builder.add_conditional_edges("hear_remark", answer, ["answer", "close"])
builder.add_edge("vote", "close")
builder.add_edge("close", END)
graph = builder.compile(name="Peer review")
