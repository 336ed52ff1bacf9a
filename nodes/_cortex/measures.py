"""Measures of the document of a CortexDebate: who heard whom, and which agents heard an answer unlike their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from moot.nodes._texts.answers import same_answer, surely_differ

Document = Mapping[str, Any]


class Edge(NamedTuple):
    """An edge kept for a round: ``target`` reads the last answer of ``source``, unless a ceiling prevents its call."""

    round: int
    source: str
    target: str


def kept_edges(document: Document) -> list[Edge]:
    """All kept edges, in the order of the rounds; empty if no round followed the first answers."""
    return [
        Edge(graph["round"], source, target)
        for graph in document["graphs"]
        for target, sources in graph["kept"].items()
        for source in sources
    ]


def debates(document: Document) -> dict[str, int]:
    """How often other agents heard each agent, in all rounds: its number of debates (CortexDebate, Table 4)."""
    edges = kept_edges(document)
    agents = dict.fromkeys(agent for graph in document["graphs"] for agent in graph["kept"])
    return {agent: sum(edge.source == agent for edge in edges) for agent in agents}


def collisions(document: Document) -> list[Edge]:
    """The kept edges between agents whose answers of the previous round differ; both answers must be valid."""
    found = []
    for edge in kept_edges(document):
        groups = groups_in(document, edge.round - 1)
        if edge.source in groups and edge.target in groups and groups[edge.source] != groups[edge.target]:
            found.append(edge)
    return found


def groups_in(document: Document, round: int) -> dict[str, int]:
    """Each agent's group, from 0: agents with the same answer in a round, by `same_answer` or by a model's check."""
    turns = [turn for turn in document["turns"] if turn["round"] == round]
    checked = {turn["agent"]: turn.get("comparisons", []) for turn in turns if turn["step"] == "compare"}
    members: list[list[str]] = []
    groups: dict[str, int] = {}
    for turn in turns:
        answer = turn.get("answer") if turn["step"] == "respond" else None
        if answer is not None:
            same = {check["with"] for check in checked.get(turn["agent"], []) if check["same"]}
            possible = [i for i, given in enumerate(members) if not any(surely_differ(one, answer) for one in given)]
            alike = [i for i in possible if same_answer(document["task"], members[i][0], answer)]
            alike += [i for i in possible if members[i][0] in same]
            groups[turn["agent"]] = group = alike[0] if alike else len(members)
            members += [] if alike else [[]]
            members[group].append(answer)
    return groups


def answers_by_round(document: Document) -> dict[tuple[int, str], str | None]:
    """The answers, by round (from 0) and agent; an answer that is not valid is None."""
    given = [turn for turn in document["turns"] if turn["step"] == "respond"]
    return {(turn["round"], turn["agent"]): turn.get("answer") for turn in given}
