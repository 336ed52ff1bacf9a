"""Presets: named bundles of graph, task and settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from moot.core.errors import UserError
from moot.graphs._registry import suggest
from moot.nodes._models.chat_models import EMBEDDED


@dataclass(frozen=True)
class Preset:
    """A graph, a task and settings under one name; the other options of ``moot verify --preset NAME`` override them."""

    about: str = ""
    graph: str = "tool_mad"
    task: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def _debaters(**sources: str) -> list[dict[str, str]]:
    """The declarations of debaters, from their sources by name."""
    return [{"name": name, "retriever": source} for name, source in sources.items()]


NO_ORIGIN_LIMIT = {"max_origin_share": 1.0}
"""No limit on near-duplicates, as in the papers: the best k results of each search are used."""
MADKE = {
    "model": "openai:gpt-3.5-turbo",
    "temperature": 0.5,
    "structured_output": "text",
    "k": 5,
    "web_titles": False,
    **NO_ORIGIN_LIMIT,
}
"""Settings that all of MADKE's experiments share (MADKE, section 4.4)."""

PRESETS = {
    "fast": Preset(
        "Fast: at most two rounds; the first agreement decides; nothing is scored.",
        settings={"max_rounds": 2, "k": 2, "scoring": "consensus_only"},
    ),
    "paper": Preset(
        "Tool-MAD as in the paper, on its model: at most three rounds, three documents per query, both thresholds.",
        settings={"model": "openai:gpt-4o-mini", "temperature": 0.0, "max_rounds": 3, "k": 3, **NO_ORIGIN_LIMIT},
    ),
    "thorough": Preset(
        "Thorough, at a higher cost: up to five rounds, five documents per query, five questions for answer "
        "relevance, and a verified quote for every answer from evidence.",
        settings={"max_rounds": 5, "k": 5, "questions": 5, "verified_quotes": True},
    ),
    "offline": Preset(
        "Nothing leaves this machine: the embedded model, and the demo corpora instead of the web.",
        settings={"model": EMBEDDED, "debaters": _debaters(rag="chroma:demo-encyclopaedia", search="bm25:demo-news")},
    ),
    "medqa": Preset(
        "MedQA as in the paper: one debater reads a corpus of PubMed abstracts, the other searches the web. Index "
        "the abstracts under the name pubmed first.",
        task="medqa",
        settings={"debaters": _debaters(rag="chroma:pubmed", search="web"), **NO_ORIGIN_LIMIT},
    ),
    "pubmedqa": Preset(
        "PubMedQA as in the paper: summaries of scholarly abstracts from OpenAlex, instead of a web search.",
        task="pubmedqa",
        settings={"debaters": _debaters(rag="chroma", search="openalex"), **NO_ORIGIN_LIMIT},
    ),
    "proclaim": Preset(
        "PROClaim as in the paper: a corpus of PubMed abstracts; claims that the panel leaves open count as "
        "supported. Index the abstracts under the name covid first; the paper's models: plans/s2-table-3.yaml.",
        graph="proclaim",
        settings={
            "sources": ["chroma:covid"],
            "inconclusive": "burden_of_refutation",
            "switched_rounds": 10,
            **NO_ORIGIN_LIMIT,
        },
    ),
    "cortex_debate": Preset(
        "CortexDebate as in the paper: up to five rounds, texts compared by OpenAI's embeddings; the paper's five "
        "agents and their models: plans/s3-table-1.yaml.",
        graph="cortex_debate",
        settings={"max_rounds": 5, "embedder": "openai:text-embedding-3-large"},
    ),
    "madke": Preset(
        "MADKE as in the paper, on one of its models: Wikipedia and a web search, five documents of each.",
        graph="madke",
        settings={**MADKE, "sources": ["wikipedia", "serper"]},
    ),
    "madke_textbooks": Preset(
        "MADKE on medical questions as in the paper: Wikipedia and a corpus of medical textbooks. Index the textbooks "
        "under the name textbooks first.",
        graph="madke",
        settings={**MADKE, "sources": ["wikipedia", "chroma:textbooks"]},
    ),
}
"""Every preset by name.

Presets with a task have Tool-MAD's settings for special domains (its first version, sections 4.4 and C.2; its second
version, section IV-D).
"""


def load_preset(name: str | None) -> Preset:
    """A preset by name, or only the default graph if the name is None; UserError if there is no such preset."""
    if name is None:
        return Preset()
    if name not in PRESETS:
        raise UserError(f"There is no preset {name!r}. {suggest(name, PRESETS)}", kind="unknown_preset")
    return PRESETS[name]
