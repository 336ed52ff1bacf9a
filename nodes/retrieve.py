"""Retrieval (S1, algorithm 1, Retrieve): a debater's evidence for a round."""

from __future__ import annotations

from typing import Any

from moot.nodes.run import Node, Run
from moot.nodes.state import DebaterState
from moot.retrievers import Evidence, Retriever
from moot.retrievers.errors import WorldError


async def retrieve(query: str, retriever: Retriever, k: int = 3, *, agent: str = "", round: int = 0) -> list[Evidence]:
    """The best ``k`` pieces of a source for a query, marked with who asked and when.

    Raises:
        UserError, WorldError: the source is misconfigured, or could not answer.
    """
    found = await retriever.search(query, k)
    marks = {"round": round, "agent": agent}
    return [{**piece, "retrievals": [{**r, **marks} for r in piece["retrievals"]]} for piece in found]  # type: ignore[typeddict-item]


def retrieve_node() -> Node:
    """Adds the evidence for the query in the debater's turn; without a query, for the claim itself.

    Reads: claim, debater, turns. A source that fails leaves the round without evidence, and a warning says so.
    """

    async def step(state: DebaterState, run: Run) -> dict[str, Any]:
        debater, turn = state["debater"], state["turns"][0]
        query = turn.get("query") or state["claim"]
        retriever = await run.retriever(debater["retriever"])
        found: list[Evidence] = []
        try:
            found = await retrieve(query, retriever, run.settings.k, agent=debater["name"], round=turn["round"])
        except WorldError as error:
            run.ledger.warn("retrieval_failed", f"{retriever.name}: {error.detail}")
        else:
            if not found:
                run.ledger.warn("empty_retrieval", f"{retriever.name} found nothing for {query!r}.")
        reading = {
            "agent": debater["name"],
            "requested": debater["retriever"],
            "retriever": retriever.name,
            "passages": getattr(retriever, "passages", None),
            "encoder": getattr(retriever, "encoder", None),
        }
        return {
            "turns": [{**turn, "query": query, "evidence_ids": [piece["id"] for piece in found]}],
            "evidence": found,
            "corpora": [reading],
        }

    return Node(step)
