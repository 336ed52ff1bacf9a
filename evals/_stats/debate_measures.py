"""Measures of debates, from result documents: MADKE's consistency, and CortexDebate's measures of rounds.

A result document is the plain JSON object that a graph returns (`moot.nodes.VerdictOutput`). CortexDebate's paper
reports means per question. For several documents, compute the mean of a measure over the documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moot.nodes._cortex.measures import answers_by_round, collisions, debates, kept_edges
from moot.nodes._steps.compare import agreed_answer
from moot.nodes._steps.score import average
from moot.nodes._texts.answers import same_answer

Document = Mapping[str, Any]

# --- consistency ----------------------------------------------------------------------------------------------------


def consistent(document: Document) -> bool:
    """Whether the speakers of a debate agreed at its end.

    A debate that is not done is not consistent. A debate that stopped by consensus is consistent. After another stop
    reason, the debate is consistent if the judge who checks for agreement found agreement in its last reply (MADKE). If
    no such judge was asked, the debate is consistent if there are votes, and all of them give the same answer.
    """
    if document["status"] != "done":
        return False
    if document["stop_reason"] in ("consensus", "stable_consensus"):
        return True
    judgements = [turn for turn in document["turns"] if turn["step"] == "agree"]
    if judgements:
        return judgements[-1].get("agreed", judgements[-1].get("agree")) is True
    return agreed_answer(document["votes"]) is not None


def consistent_share(documents: Sequence[Document]) -> float:
    """Cons = consistent debates / all debates, in [0, 1] (MADKE, Eq. 8). Failed debates also count in the divisor."""
    return right_consistent_share(documents, [True] * len(documents))


def right_consistent_share(documents: Sequence[Document], correct: Sequence[bool]) -> float:
    """Co2 = consistent debates with a right answer / all debates, in [0, 1] (MADKE, Eq. 7).

    Failed debates also count in the divisor.
    """
    if not documents:
        raise ValueError("there must be at least one document")
    if len(documents) != len(correct):
        raise ValueError(f"{len(documents)} documents need as many judgements, not {len(correct)}")
    both = [consistent(document) and right for document, right in zip(documents, correct, strict=True)]
    return sum(both) / len(both)


# --- CortexDebate ---------------------------------------------------------------------------------------------------


def mean_debates_by_agent(documents: Sequence[Document]) -> dict[str, float]:
    """Avg-DN: how often other agents heard each agent, as a mean per question (`debates`; CortexDebate, Table 4).

    If all n agents hear each other, this number is rounds x (n - 1). A document without a round of debate counts as 0
    for each agent.
    """
    if not documents:
        raise ValueError("there must be at least one document")
    counts = [debates(document) for document in documents]
    agents = dict.fromkeys(agent for count in counts for agent in count)
    return {agent: sum(count.get(agent, 0) for count in counts) / len(counts) for agent in agents}


def viewpoint_collisions(document: Document) -> int:
    """DVC of one question: the number of `collisions` in all rounds of its debate (CortexDebate, Table 3).

    Args:
        document: a result document of `cortex_debate`.
    """
    return len(collisions(document))


def correct_revisions(document: Document, correct: Callable[[str], bool] | str) -> int:
    """CVR of one question: the number of `collisions` that corrected the answer of an agent (CortexDebate, Table 3).

    In a collision, an agent reads a different answer of another agent. A collision of round d counts if the reading
    agent was wrong in round d - 1, and in round d gives the answer that it read, which is right. If it read this answer
    from two agents, both collisions count.
    """
    task, answers = document["task"], answers_by_round(document)

    def is_right(answer: str) -> bool:
        return same_answer(task, answer, correct) if isinstance(correct, str) else correct(answer)

    revised = 0
    for d, source, target in collisions(document):
        before, after, shown = answers[d - 1, target], answers.get((d, target)), answers[d - 1, source]
        if before is not None and after is not None and shown is not None:
            revised += not is_right(before) and is_right(after) and same_answer(task, after, shown)
    return revised


ANSWERING = ("respond", "answer", "argue")
"""Nodes in which agents answer."""


def context_tokens(document: Document) -> dict[str, float | None]:
    """The mean length of each agent's prompts for an answer, over the rounds, in tokens (CortexDebate, Table 7).

    In each round, only the agent's first call with a known number of tokens counts, so retries after an unusable reply
    add nothing.

    Args:
        document: a result document of any system whose agents answer in rounds.

    Returns:
        The mean by agent; None for an agent if the tokens of none of its prompts are known.
    """
    agents = dict.fromkeys(turn["agent"] for turn in document["turns"] if turn["step"] == "respond")
    sent: dict[tuple[str, int, str], int] = {}
    for call in document["calls"]:
        if call["role"] in agents and call["node"] in ANSWERING and call["prompt_tokens"] is not None:
            sent.setdefault((call["phase"], call["round"], call["role"]), call["prompt_tokens"])
    return {agent: average([n for (_, _, role), n in sent.items() if role == agent]) for agent in agents}


__all__ = [
    "collisions",
    "consistent",
    "consistent_share",
    "context_tokens",
    "correct_revisions",
    "debates",
    "kept_edges",
    "mean_debates_by_agent",
    "right_consistent_share",
    "viewpoint_collisions",
]
