"""Query formulation (Tool-MAD, algorithm 1, Query): a debater's search query for a round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from moot.core.errors import ReplyError
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import Task, Turn
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebaterState
from moot.nodes._runtime.turns import Known, Said
from moot.nodes._steps.retrieving import sources_of
from moot.nodes._texts.replies import QueryReply
from moot.nodes._texts.show import show_claim, show_opponents
from moot.nodes._texts.task import make_task, wording
from moot.prompts import as_data
from moot.retrievers._search import about_source

PROMPT = "tool_mad/query"

LAST_QUERY = (
    "Your last query. Write a different one. You may see only what the new one finds, so keep the names, dates and "
    "figures that matter most:"
)


async def formulate_query(
    claim: str,
    model: Speaker | BaseChatModel,
    *,
    task: Task | None = None,
    tool: str = "a search engine",
    opponents: Sequence[Turn] = (),
    why: str = "",
    previous_query: str | None = None,
    prompt: str = PROMPT,
) -> str:
    """Asks a model for one search query for a claim.

    Args:
        claim: the claim of the debate.
        model: the model that writes the query.
        task: the form of an answer; by default FEVER's labels.
        tool: the search tool that gets the query, in a few words.
        opponents: the other debaters' last answers.
        why: the reason for another round, from `show_why`; empty in the first round.
        previous_query: the debater's last query; None if there is none.
        prompt: the prompt's name.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    speaker = as_speaker(model, "debater")
    task = task or make_task(claim=claim)
    values = wording(task) | {
        "name": speaker.role,
        "tool": tool,
        "claim": show_claim(claim, task),
        "previous_query": f"{LAST_QUERY}\n{as_data('query', previous_query)}" if previous_query else "",
        "why": why,
        "opponents": show_opponents(opponents),
    }
    reply = await speaker.ask(prompt, values, QueryReply)
    return reply.query


def tell_query(turn: Turn, known: Known) -> Iterator[Said]:
    """The query of a turn, unless it is the claim itself."""
    if turn.get("query") and turn["query"] != known.claim:
        yield Said("query", "asks", turn["query"])


def query_node(prompt: str = PROMPT) -> Node:
    """Writes a query into the debater's turn.

    Reads: claim, task, debater, opponents, previous_query, turns and, if present, why. If the model returns no usable
    query, or if a ceiling prevents the call, the query is the claim itself, with a warning.

    Args:
        prompt: the prompt's name.
    """

    async def step(state: DebaterState, run: NodeContext) -> dict[str, Any]:
        debater, turn = state["debater"], state["turns"][0]
        speaker = await run.speaker_of(debater)

        def description(source: str) -> str:
            return about_source(source, run.settings.corpus)

        try:
            query = await formulate_query(
                state["claim"],
                speaker,
                task=state["task"],
                tool=" and ".join(dict.fromkeys(map(description, sources_of(debater)))),
                opponents=state["opponents"],
                why=state.get("why", ""),
                previous_query=state["previous_query"],
                prompt=prompt,
            )
        except ReplyError as error:
            run.record.warn("query_not_formulated", f"{error.detail} The claim itself was used as the query.")
            query = state["claim"]
        return {"turns": [{**turn, "query": query}]}

    return Node(step, prompts=(prompt,))
