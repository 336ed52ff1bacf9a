"""The debate systems, one graph a module: ``moot.graphs.<name>.graph``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from moot.core.errors import UserError, nearest
from moot.core.garbage import collected_seldom

DESCRIPTIONS = {
    "tool_mad": "Tool-MAD: debaters with different retrieval tools rewrite their queries every round; faithfulness "
    "and answer relevance gate the consensus, else a judge decides.",
    "tool_mad_consistency": "Tool-MAD, first version: the same debaters stop at their first agreement; else a judge "
    "decides, who sees how close each debater's answers were to its evidence.",
    "madke": "MADKE: debaters share a pool of evidence, select from it what helps each of them, and talk it over until "
    "they agree.",
    "proclaim": "PROClaim: a trial. Two sides negotiate evidence and debate with progressive retrieval, then with "
    "sides switched, before a court and a critic; a panel judges the whole record, with a confidence.",
    "standard_mad": "Standard multi-agent debate: two debaters in turn over one retrieval, three rounds, one judge.",
    "standard_prompting": "Control: one call that answers at once, from what the model knows.",
    "chain_of_thought": "Control: one call that reasons step by step before it answers.",
    "self_consistency": "Control: several chains of thought and a vote; so many, or until a budget of tokens is used.",
    "rag": "Control: one retrieval from every source, then one call.",
    "react": "Control: one agent that searches with tools as often as it wants, within a bound, then answers.",
    "cortex_debate": "CortexDebate: a sparse debate; a trust formula says each round which agents each of them hears.",
    "multi_agent_voting": "Multi-agent voting: several agents answer once, without hearing each other, and vote.",
    "society_of_minds": "Multi-agent debate: every agent reads all others' answers each round; a vote at the end.",
    "tit_for_tat": "Two sides in turn before a moderator, who may prefer an answer after each round; else a judge.",
    "reconcile": "RECONCILE: a round table of agents with confidences, until all agree; else a weighted vote.",
    "chat_eval": "ChatEval: as multi-agent debate, with a summary of each round for the next one.",
    "peer_review": "Peer review: agents review each other's answers and revise their own by the reviews.",
    "group_debate": "GroupDebate: agents debate in small groups, which share summaries with each other.",
    "neighbor_debate": "Neighbor debate: agents in a ring, each of which hears its two neighbours.",
    "gated": "Debate behind a gate: agents answer independently; one answer with verified quotes ends it, otherwise "
    "another system's debate is held on their evidence.",
    "isolate": "Isolated reading, a defence against poisoned evidence: each origin of evidence is read by itself, and "
    "origins vote; one that another contradicts decides nothing.",
}
"""Every debate system, with the line that says what it is. ``langgraph.json`` says the same."""
OTHER_GRAPHS = {
    "find_claims": "Claims out of a text: those worth checking, each rewritten so that it stands alone, with its place "
    "in the text. No debate: what it finds can be debated.",
}
"""Graphs that are served beside the debate systems, and are none."""


@dataclass(frozen=True)
class DebateSystem:
    """A graph with its settings' class."""

    name: str
    description: str
    graph: Any
    settings: Any


def suggest(name: str, known: Iterable[str]) -> str:
    """What is said to somebody who gave an unknown name: the nearest one, and all.

    Args:
        name: what was given.
        known: the names that there are.
    """
    names = list(known)
    return f"{nearest(name, names)}Known: {', '.join(names)}."


def load_graph(name: str, *, others: bool = False) -> DebateSystem:
    """A debate system by name.

    Args:
        name: a key of `DESCRIPTIONS`.
        others: whether it may be one of `OTHER_GRAPHS`, too.

    Raises:
        UserError: there is no graph of that name.
    """
    known = DESCRIPTIONS | OTHER_GRAPHS if others else DESCRIPTIONS
    if name not in known:
        raise UserError(f"There is no graph {name!r}. {suggest(name, known)}", kind="unknown_graph")
    graph = import_module(f"moot.graphs.{name}").graph
    return DebateSystem(name, known[name], graph, graph.context_schema)


if TYPE_CHECKING:
    from moot.graphs.proclaim.court import discovery_graph as discovery_graph
    from moot.graphs.proclaim.court import expert_graph as expert_graph
    from moot.graphs.proclaim.negotiation import negotiation_graph as negotiation_graph
    from moot.graphs.proclaim.panel import panel_graph as panel_graph
    from moot.nodes.models.ceilings import shared_ceilings as shared_ceilings

PARTS = {
    "discovery_graph": "moot.graphs.proclaim.court",
    "expert_graph": "moot.graphs.proclaim.court",
    "negotiation_graph": "moot.graphs.proclaim.negotiation",
    "panel_graph": "moot.graphs.proclaim.panel",
    "shared_ceilings": "moot.nodes.models.ceilings",
}
"""Parts of a system that other graphs can take, and what bounds many debates, each with its module; imported when asked
for, as systems are."""


def __getattr__(name: str) -> Any:
    if name not in PARTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(PARTS[name]), name)


__all__ = [
    "DESCRIPTIONS",
    "OTHER_GRAPHS",
    "DebateSystem",
    "collected_seldom",
    "discovery_graph",
    "expert_graph",
    "load_graph",
    "negotiation_graph",
    "panel_graph",
    "shared_ceilings",
    "suggest",
]
