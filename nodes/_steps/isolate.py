"""Answers from one origin of evidence each, and a vote among them (after ReliabilityRAG, arXiv:2509.23519)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langgraph.types import Send
from moot.nodes._records.entries import Task, Vote
from moot.nodes._records.pieces import Pieces
from moot.nodes._records.reducers import recorded_round
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebaterState, DebateState
from moot.nodes._runtime.turns import new_turn
from moot.nodes._speakers.single import AGENT, to_agent
from moot.nodes._speakers.turns import send_turn
from moot.nodes._steps.compare import EQUIVALENCE, close_round
from moot.nodes._steps.vote import majority, vote_node
from moot.nodes._texts.answers import ABSTENTION
from moot.nodes._texts.show import best_rank
from moot.nodes._texts.task import EVIDENCE_REASONS, unsettled_label
from moot.retrievers._evidence import Evidence, active_evidence
from moot.retrievers._origins import origins
from typing_extensions import TypedDict

FEWEST_ORIGINS = 2
"""An answer that another origin contradicts can win only if at least this many origins give it."""


class OriginGroup(TypedDict):
    """An origin of evidence: its name, the best rank of its pieces (from 1), and their ids."""

    origin: str
    rank: int
    evidence_ids: list[str]


def group_by_origin(evidence: Iterable[Evidence]) -> list[OriginGroup]:
    """Groups the active evidence by origin, the best rank first; an unranked piece has its position; blocking."""
    pieces = active_evidence(evidence)
    named = origins(pieces)
    found: dict[str, OriginGroup] = {}
    for place, piece in enumerate(pieces, 1):
        name, rank = named[piece["id"]], best_rank(piece, place)
        origin = found.setdefault(name, {"origin": name, "rank": rank, "evidence_ids": []})
        origin["rank"] = min(origin["rank"], rank)
        origin["evidence_ids"].append(piece["id"])
    return sorted(found.values(), key=lambda origin: origin["rank"])


def group_origins_node() -> Node:
    """Groups the evidence by origin, keeps the ``max_origins`` origins with the best ranks, and warns about the others.

    Reads: evidence, metrics. The groups are written to ``origins`` of the debate's ``metrics``.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        found = await asyncio.to_thread(group_by_origin, state["evidence"])
        read, others = found[: run.settings.max_origins], found[run.settings.max_origins :]
        if others:
            names = ", ".join(origin["origin"] for origin in others)
            run.record.warn(
                "origins_left_out",
                f"`max_origins` is {run.settings.max_origins}, so these origins were not read: {names}.",
            )
        return {"metrics": {**state["metrics"], "origins": read}}

    return Node(step)


def to_origins(state: DebateState) -> list[Send] | Send:
    """Builds one `Send` for each origin, so that the agent answers from each origin's evidence alone, in parallel.

    If there are no origins, the agent answers once, without evidence.

    Args:
        state: the debate's state.
    """
    known = Pieces(state["evidence"])
    return [
        send_turn(
            "answer",
            state,
            {"name": AGENT, "sample": number},
            new_turn(1, AGENT, number=number),
            evidence=[known[id] for id in origin["evidence_ids"]],
        )
        for number, origin in enumerate(state["metrics"]["origins"], 1)
    ] or to_agent(state)


def origin_instructions(state: DebaterState, settings: Any) -> Mapping[str, str]:
    """Values of the prompt's placeholders, which ask the agent not to go beyond the origin's evidence.

    Without evidence, the prompt has no such request.

    Args:
        state: the agent's state.
        settings: the debate's settings.
    """
    if not state["evidence"]:
        return {"untold": ""}
    task = state["task"]
    words = {"grounds": "the evidence in front of you", "reasons": EVIDENCE_REASONS.format(subject=task["subject"])}
    if task["kind"] == "short_answer":  # the task's own rules say how to write an open answer
        return words | {"untold": "- Leave open what this evidence leaves open. Do not guess."}
    rule = answer_is(unsettled_label(task))
    return words | {"untold": f"- If this evidence does not tell the answer, {rule}. Do not guess."}


def answer_is(label: str | None) -> str:
    """The part of a rule of a prompt that demands a label or, without one, an abstention."""
    return f"`answer` is {label}" if label else f"`answer` is, in these very words: {ABSTENTION}"


def is_decisive(task: Task, vote: Vote) -> bool:
    """Whether an origin gave an answer, and the answer does not leave the claim open."""
    return vote["answer"] not in (None, ABSTENTION, unsettled_label(task))


def weighted_votes(task: Task, votes: Sequence[Vote], groups: Sequence[OriginGroup]) -> list[Vote]:
    """The votes of origins; the weight of each is the reciprocal of the best rank of its origin."""
    ranks = {number: origin["rank"] for number, origin in enumerate(groups, 1)}
    return [
        vote if vote["group"] is None else {**vote, "weight": 1 / ranks.get(vote.get("number", 0), 1)}
        for vote in decisive_votes(task, votes)
    ]


def decisive_votes(task: Task, votes: Sequence[Vote]) -> list[Vote]:
    """The votes of readers of different texts: one that leaves the claim open only counts if all leave it open.

    Such a reader contradicts no other. A vote that does not count has no group.
    """
    some = any(is_decisive(task, vote) for vote in votes)
    return [vote if is_decisive(task, vote) or not some else {**vote, "group": None} for vote in votes]


def decide_by_origins_node() -> Node:
    """Ends the debate with the answer of the largest consistent set of origins, by weight.

    Reads: claim, task, turns, calls, metrics. Origins that give the same answer are consistent. There is no verdict if
    there is a tie, or if the leading answer has only one origin and another origin contradicts it. Without a verdict,
    the debate's ``metrics`` have the reason as ``undecided``: ``tie`` or ``contradicted``. If no origin gives a usable
    answer, the debate fails.
    """
    # A leading answer of only one origin does not win if another origin contradicts it.
    vote = vote_node(
        "single_pass", weigh=lambda vote, settings: vote.get("weight"), tie="none", contested=FEWEST_ORIGINS
    )

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        closed = await close_round(state, run)
        votes = weighted_votes(state["task"], closed["votes"], state["metrics"]["origins"])
        closed |= {"votes": votes} | recorded_round(closed["rounds"], reason="single_pass", votes=votes)
        decided = await vote.step({**state, **closed, "turns": state["turns"]}, run)
        if decided["answer"] is None:
            counted = [one.get("weight", 0.0) for one in votes]
            why = "contradicted" if majority(votes, counted, "none") else "tie"
            decided["metrics"] = {**decided["metrics"], "undecided": why}
        return closed | decided

    return Node(step, prompts=(EQUIVALENCE,))
