"""Query formulation (Tool-MAD, algorithm 1, Query): a debater's search query for a round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from moot.core.errors import ReplyError
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import Searched, Task, Turn
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebaterState
from moot.nodes._runtime.turns import Known, Said
from moot.nodes._steps.retrieving import sources_of
from moot.nodes._texts.plans import queries_of, show_asked, show_plan
from moot.nodes._texts.replies import QueriesReply, QueryReply
from moot.nodes._texts.show import show_claim, show_opponents
from moot.nodes._texts.task import make_task, wording
from moot.prompts import as_data
from moot.retrievers._search import about_source

PROMPT, PLANNED_PROMPT = "tool_mad/query", "tool_mad/queries"
"""The prompts for one query and, with the setting ``plan``, for one or two."""

LAST_QUERY = (
    "Your last query. Write a different one. You may see only what the new one finds, so keep the names, dates and "
    "figures that matter most:"
)


QUOTED = (
    "\n- What another debater quotes is evidence for you only once your own search has found it. If such a quote would "
    "decide the {subject}, ask for its passage, with the names, dates and figures that it holds. If your last query "
    "asked for it and the answers still differ, look for something else."
)
"""The rule for quotes of others, which needs such quotes."""


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
        "quoted": QUOTED.format(subject=task["subject"]) if any(turn.get("citations") for turn in opponents) else "",
    }
    reply = await speaker.ask(prompt, values, QueryReply)
    return reply.query


OWN_WORDS = (
    "\n- Ask in other words than the earlier searches, above all those that found nothing new: another name, the event "
    "or the report behind the {subject}, the words in which somebody would report it."
)
AGAIN = (
    "\n- What another debater quotes is evidence for you only once your own search has found it. If such a quote would "
    "decide the {subject}, one query may ask for its passage, with the names, dates and figures that it holds."
)
"""Rules of the prompt for one or two queries that need earlier searches, or quotes that no debater is shown again."""


async def formulate_queries(
    claim: str,
    speaker: Speaker,
    *,
    task: Task,
    tool: str,
    opponents: Sequence[Turn] = (),
    why: str = "",
    plan: Turn | None = None,
    asked: Sequence[Searched] = (),
    passages_travel: bool = False,
) -> list[str]:
    """Asks a model for one or two search queries, with what was searched for so far (``asked``)."""
    quoted = any(turn.get("citations") for turn in opponents)
    values = wording(task) | {
        "name": speaker.role,
        "tool": tool,
        "claim": show_claim(claim, task),
        "plan": show_plan(plan, task["subject"]),
        "why": why,
        "opponents": show_opponents(opponents),
        "asked": show_asked(asked),
        "own_words": OWN_WORDS.format(subject=task["subject"]) if asked else "",
        "again": AGAIN.format(subject=task["subject"]) if quoted and not passages_travel else "",
    }
    reply = await speaker.ask(PLANNED_PROMPT, values, QueriesReply)
    return list(dict.fromkeys(reply.queries))


def tell_query(turn: Turn, known: Known) -> Iterator[Said]:
    """The queries of a turn, without the claim itself, and without those of a plan, which are told there."""
    if turn.get("query") == known.claim and turn["round"] <= 1:
        return
    for query in queries_of(turn):
        if query != known.claim:
            yield Said("query", "asks", query)


def query_node(prompt: str = PROMPT) -> Node:
    """Writes a query into the debater's turn; with the setting ``plan``, one or two, in reply to another prompt.

    Reads: claim, task, debater, opponents, previous_query, turns and, if present, why, plan and asked. If the model
    returns no usable query, or if a ceiling prevents the call, the query is the claim itself, with a warning.

    Args:
        prompt: the name of the prompt for one query.
    """

    async def step(state: DebaterState, run: NodeContext) -> dict[str, Any]:
        debater, turn = state["debater"], state["turns"][0]
        speaker = await run.speaker_of(debater)

        def description(source: str) -> str:
            return about_source(source, run.settings.corpus)

        shown: Any = {
            "task": state["task"],
            "tool": " and ".join(dict.fromkeys(map(description, sources_of(debater)))),
            "opponents": state["opponents"],
            "why": state.get("why", ""),
        }
        try:
            if getattr(run.settings, "plan", False):
                shown |= {"plan": state.get("plan"), "asked": state.get("asked", ())}
                shown |= {"passages_travel": getattr(run.settings, "passages_travel", False)}
                queries = await formulate_queries(state["claim"], speaker, **shown)
            else:
                shown |= {"previous_query": state["previous_query"], "prompt": prompt}
                queries = [await formulate_query(state["claim"], speaker, **shown)]
        except ReplyError as error:
            run.record.warn("query_not_formulated", f"{error.detail} The claim itself was used as the query.")
            queries = [state["claim"]]
        several = {"queries": queries} if len(queries) > 1 else {}
        return {"turns": [{**turn, "query": queries[0], **several}]}

    return Node(step, prompts=(prompt, PLANNED_PROMPT))
