"""Who heard whom in a CortexDebate, and where two views met: what its document's ``graphs`` and ``turns`` show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from moot.nodes.answers import same_answer

Document = Mapping[str, Any]


class Edge(NamedTuple):
    """In a round, one agent (``source``) whose last answer another one (``target``) read."""

    round: int
    source: str
    target: str


def kept_edges(document: Document) -> list[Edge]:
    """Every edge that was kept, by rounds; none where the debate came to no round of debate."""
    return [
        Edge(graph["round"], source, target)
        for graph in document["graphs"]
        for target, sources in graph["kept"].items()
        for source in sources
    ]


def debates(document: Document) -> dict[str, int]:
    """By agent, its debates: how often it was kept as somebody's opponent, over all rounds (S3, Table 4)."""
    edges = kept_edges(document)
    agents = dict.fromkeys(agent for graph in document["graphs"] for agent in graph["kept"])
    return {agent: sum(edge.source == agent for edge in edges) for agent in agents}


def collisions(document: Document) -> list[Edge]:
    """The kept edges of a round d whose two answers of round d - 1 differ. With an answer that is null none does."""
    answers = answers_by_round(document)
    found = []
    for edge in kept_edges(document):
        one, other = (answers.get((edge.round - 1, agent)) for agent in (edge.source, edge.target))
        if one is not None and other is not None and not same_answer(document["task"], one, other):
            found.append(edge)
    return found


def answers_by_round(document: Document) -> dict[tuple[int, str], str | None]:
    """Each agent's answer in each round, from 0; null where it gave none that could be read."""
    given = [turn for turn in document["turns"] if turn["step"] == "respond"]
    return {(turn["round"], turn["agent"]): turn.get("answer") for turn in given}
