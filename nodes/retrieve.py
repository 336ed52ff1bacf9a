"""Retrieval (S1, algorithm 1, Retrieve): a debater's evidence for a round."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.language_models import BaseChatModel
from moot.nodes.replies import KeywordsReply, SummaryReply
from moot.nodes.run import Node, Run
from moot.nodes.show import show_claim, show_evidence
from moot.nodes.speaker import Speaker, as_speaker
from moot.nodes.state import DebaterState, Task
from moot.nodes.task import wording
from moot.prompts import as_data, fill, load
from moot.retrievers import Evidence, Retriever
from moot.retrievers.errors import ReplyError, WorldError
from moot.retrievers.evidence import clean, evidence_id
from moot.retrievers.search import SCHOLARLY, resolve


async def retrieve(query: str, retriever: Retriever, k: int = 3, *, agent: str = "", round: int = 0) -> list[Evidence]:
    """The best ``k`` pieces of a source for a query, marked with who asked and when.

    Raises:
        UserError, WorldError: the source is misconfigured, or could not answer.
    """
    found = await retriever.search(query, k)
    marks = {"round": round, "agent": agent}
    return [{**piece, "retrievals": [{**r, **marks} for r in piece["retrievals"]]} for piece in found]  # type: ignore[typeddict-item]


async def find_keywords(claim: str, task: Task, query: str, model: Speaker | BaseChatModel) -> list[str]:
    """A query as keywords for a scholarly source (S0 C.2): one call.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    speaker = as_speaker(model, "debater")
    values = wording(task) | {"name": speaker.role, "claim": show_claim(claim, task), "query": as_data("query", query)}
    reply = await speaker.ask(fill(load("tool_mad/keywords"), values), KeywordsReply)
    return reply.keywords


async def summarise(claim: str, task: Task, piece: Evidence, model: Speaker | BaseChatModel) -> Evidence:
    """A piece of evidence with a summary in place of its text (S0 C.2), and so with an id of its own: one call.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    speaker = as_speaker(model, "source_summariser")
    values = wording(task) | {"claim": show_claim(claim, task), "evidence": show_evidence([piece])}
    reply = await speaker.ask(fill(load("tool_mad/source_summary"), values), SummaryReply)
    text = clean(reply.summary) or piece["text"]
    return {**piece, "text": text, "id": evidence_id(piece["source"], text)}


def retrieve_node() -> Node:
    """Adds the evidence for the query in the debater's turn; without a query, for the claim itself.

    Reads: claim, task, debater, turns. A scholarly source is asked by keywords, and its abstracts are summarised where
    the setting ``source_summaries`` says so; where a model gives none, the query and the abstract stay, with a
    warning. A source that fails leaves the round without evidence, and a warning says so.
    """

    async def step(state: DebaterState, run: Run) -> dict[str, Any]:
        debater, turn = state["debater"], state["turns"][0]
        query = turn.get("query") or state["claim"]
        scholarly = resolve(debater["retriever"])[0] in SCHOLARLY
        retriever = await run.retriever(debater["retriever"])
        asked = await keywords_of(state, query, run) if scholarly else query
        found: list[Evidence] = []
        try:
            found = await retrieve(asked, retriever, run.settings.k, agent=debater["name"], round=turn["round"])
        except WorldError as error:
            run.ledger.warn("retrieval_failed", f"{retriever.name}: {error.detail}")
        else:
            if not found:
                run.ledger.warn("empty_retrieval", f"{retriever.name} found nothing for {asked!r}.")
        if scholarly and run.settings.source_summaries == "model":
            found = list(await asyncio.gather(*(summary_of(state, piece, run) for piece in found)))
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


async def keywords_of(state: DebaterState, query: str, run: Run) -> str:
    """The keywords of a query, or the query with a warning."""
    speaker = await run.speaker(state["debater"]["name"], state["debater"].get("model"))
    try:
        return " ".join(await find_keywords(state["claim"], state["task"], query, speaker))
    except ReplyError as error:
        run.ledger.warn("query_not_formulated", f"{error.detail} The query itself was searched.")
        return query


async def summary_of(state: DebaterState, piece: Evidence, run: Run) -> Evidence:
    """A piece with its summary, or as it was with a warning."""
    speaker = await run.speaker("source_summariser")
    try:
        return await summarise(state["claim"], state["task"], piece, speaker)
    except WorldError as error:
        run.ledger.warn("source_not_summarised", f"{piece['id']}: {error.detail} The abstract itself is shown.")
        return piece
