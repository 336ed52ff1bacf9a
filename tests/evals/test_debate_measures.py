"""Measures of debates and of their evidence, with figures worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from moot.evals._stats.debate_measures import (
    collisions,
    consistent,
    consistent_share,
    context_tokens,
    correct_revisions,
    debates,
    kept_edges,
    mean_debates_by_agent,
    right_consistent_share,
    viewpoint_collisions,
)
from moot.evals._stats.outcomes import EvidenceCount, count_evidence
from moot.nodes._texts.task import make_task

ANSWERS: list[dict[str, str | None]] = [
    {"a": "A", "b": "B", "c": "B"},
    {"a": "B", "b": "A", "c": "B"},
    {"a": "B", "b": "B", "c": None},
]
"""The agents' answers by round, from 0. The right answer is B."""
EDGES = [{"a": ["b", "c"], "b": ["a"], "c": ["b"]}, {"a": ["b"], "b": ["c"], "c": ["b"]}]
"""For each agent, the agents that it hears, by round from 1. An edge x -> y means that y hears x.

An edge collides if its agents gave different answers in the round before.
Round 1: b -> a and c -> a collide, and a becomes right. a -> b collides, and b becomes wrong. b -> c does not collide.
Round 2: b -> a collides, and a stays right. c -> b collides, and b becomes right. b -> c collides, and c gives no
answer.
"""


def turn(round: int, agent: str, answer: str | None, step: str = "respond", **more: Any) -> dict[str, Any]:
    return {"round": round, "phase": "primary", "agent": agent, "step": step, "answer": answer, **more}


def call(round: int, role: str, tokens: int | None, node: str = "respond") -> dict[str, Any]:
    return {"node": node, "role": role, "phase": "primary", "round": round, "prompt_tokens": tokens}


def document(**more: Any) -> dict[str, Any]:
    """A document of a debate with `ANSWERS` and `EDGES`; ``more`` replaces fields. c's vote has no answer."""
    return {
        "status": "done",
        "task": make_task("choice", options=["one", "two", "three"]),
        "stop_reason": "max_rounds",
        "turns": [turn(d, agent, answer) for d, given in enumerate(ANSWERS) for agent, answer in given.items()],
        "votes": votes(0, 0, None),
        "graphs": [{"round": d, "kept": edges} for d, edges in enumerate(EDGES, 1)],
        "calls": [],
        **more,
    }


def votes(*groups: int | None) -> list[dict[str, Any]]:
    """The votes of a, b and c. Agents with the same number gave the same answer; None is no answer."""
    named = zip("abc", groups, strict=False)
    return [{"agent": a, "answer": None if g is None else f"answer {g}", "group": g} for a, g in named]


def judged_document(*findings: bool | None) -> dict[str, Any]:
    """A document with the judge's finding in each round: whether the agents agree. None is an unusable reply."""
    judged = [turn(d, "judge", None, "agree", agree=one) for d, one in enumerate(findings, 1)]
    return document(turns=[*document()["turns"], *judged])


# --- consistency ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("debate", "expected"),
    [
        (document(), False),
        (document(stop_reason="consensus", votes=[]), True),
        (document(stop_reason="stable_consensus"), True),
        (document(votes=votes(0, 0, 0)), True),  # agreed in the last round
        (document(votes=votes(0, 0, 1)), False),
        (document(votes=votes(None, None, None)), False),  # without answers, there is no consensus
        (document(votes=[]), False),
        (document(status="failed", stop_reason=None, votes=votes(0, 0, 0)), False),
        (document(status="interrupted", votes=votes(0, 0, 0)), False),
        (judged_document(False, True), True),
        (judged_document(True, False), False),
        ({**judged_document(False), "stop_reason": "consensus"}, True),  # the stop reason decides, not the judge
        # the judge said that the agents agree, but the answers differ
        (document(turns=[turn(1, "judge", None, "agree", agree=True, agreed=False)]), False),
        (judged_document(False, None), False),  # the judge's last reply was not usable
        ({**judged_document(False), "votes": votes(0, 0, 0)}, False),  # if a judge was asked, votes do not count
        ({**judged_document(True), "status": "failed"}, False),
    ],
)
def test_consistent_debates_are_recognised(debate: dict[str, Any], expected: bool) -> None:
    assert consistent(debate) is expected


def test_shares_of_consistent_debates_by_hand() -> None:
    all_kinds = [document(stop_reason="consensus"), judged_document(True), document(), document(status="failed")]
    assert consistent_share(all_kinds) == 0.5
    assert right_consistent_share(all_kinds, [True, False, True, True]) == 0.25
    assert right_consistent_share(all_kinds, [True] * 4) == consistent_share(all_kinds)
    assert right_consistent_share(all_kinds, [False] * 4) == 0.0


# --- CortexDebate ---------------------------------------------------------------------------------------------------


def test_the_debates_of_each_agent_by_hand() -> None:
    """An agent's number of debates is the number of kept edges from it."""
    assert len(kept_edges(document())) == 7
    assert debates(document()) == {"a": 1, "b": 4, "c": 2}
    full = document(graphs=[{"round": 1, "kept": {"a": ["b", "c"], "b": ["a", "c"], "c": ["a", "b"]}}])
    assert debates(full) == {"a": 2, "b": 2, "c": 2}
    assert mean_debates_by_agent([document(), full]) == {"a": 1.5, "b": 3.0, "c": 2.0}
    assert mean_debates_by_agent([full, document(graphs=[])]) == {"a": 1.0, "b": 1.0, "c": 1.0}
    assert mean_debates_by_agent([document(graphs=[])]) == {}


def test_viewpoint_collisions_by_hand() -> None:
    assert collisions(document()) == [
        *((1, "b", "a"), (1, "c", "a"), (1, "a", "b")),
        *((2, "b", "a"), (2, "c", "b"), (2, "b", "c")),
    ]
    assert viewpoint_collisions(document()) == 6
    assert viewpoint_collisions(document(graphs=[])) == 0


def test_correct_revisions_by_hand() -> None:
    assert correct_revisions(document(), "B") == 3  # b -> a, c -> a; then c -> b
    assert correct_revisions(document(), lambda answer: answer == "B") == 3
    assert correct_revisions(document(), "A") == 1  # a -> b in round 1
    assert correct_revisions(document(), "C") == 0


def test_context_tokens_by_hand() -> None:
    calls = [
        *(call(0, agent, 100) for agent in "abc"),
        call(1, "a", 300),
        call(1, "a", 450),  # a retry, which does not count
        call(1, "b", None),  # the first attempt failed
        call(1, "b", 200),
        call(1, "c", None),
        call(1, "a", 999, node="score_peers"),
        call(1, "judge", 999),
    ]
    assert context_tokens(document(calls=calls)) == {"a": 200, "b": 150, "c": 100}
    assert context_tokens(document()) == dict.fromkeys("abc")


def test_the_evidence_count_by_hand() -> None:
    def piece(*retrievals: tuple[str, str]) -> dict[str, Any]:
        return {"retrievals": [{"retriever": source, "query": query} for source, query in retrievals]}

    found = {
        "evidence": [piece(("bm25:a", "one"), ("chroma:b", "one")), piece(("bm25:a", "one")), piece(("given", ""))],
        "corpora": [
            {"agent": "x", "retriever": "wikipedia", "failed": True},
            {"agent": "x", "retriever": "wikipedia", "requested": "web", "failed": True},
            {"agent": "y", "retriever": "bm25:a"},
        ],
        "warnings": [{"kind": "stand_in"}, {"kind": "unparsed"}],
    }
    assert count_evidence(found) == EvidenceCount(pieces=3, searches=2, failed=1, stood_in=1)
