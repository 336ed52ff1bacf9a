"""Result documents of debates on the fake model, and changed copies of these documents."""

from __future__ import annotations

import copy
import itertools
import json
import sqlite3
import time
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

from moot.graphs import load_graph
from moot.nodes._texts.quotes import check_citations
from moot.nodes._texts.replies import Quote
from moot.retrievers._evidence import Evidence, make_evidence

Document = dict[str, Any]
CLAIM = "The platypus is a mammal that lays eggs."
LEXICAL = [{"name": "rag", "retriever": "bm25:demo-news"}, {"name": "search", "retriever": "bm25:demo-news"}]
SETTINGS: dict[str, dict[str, Any]] = {
    "tool_mad": {"max_rounds": 1, "scoring": "all_rounds", "debaters": LEXICAL},
    "proclaim": {"max_rounds": 2, "sources": ["bm25:demo-news"], "judges": 1, "progressive_retrieval": False},
    "cortex_debate": {"max_rounds": 2, "evaluation": "peer"},
    "madke": {"max_rounds": 1, "sources": ["bm25:demo-news"], "fallback": []},
    "chain_of_thought": {},
}
"""Maps graphs to settings with which a debate needs no encoder."""

ACTIONS = (
    "<script>{}</script>",
    "<img src=x onerror={}>",
    "<svg onload={}>",
    "<svg><script>{}</script></svg>",
    "<iframe srcdoc='<script>parent.{}</script>'></iframe>",
    "<iframe src='javascript:parent.{}'></iframe>",
    "<body onload={}>",
    "<details open ontoggle={}>",
    "<input autofocus onfocus={}>",
    "<video><source onerror={}></video>",
    "<audio src onerror={}>",
    "<math href='javascript:{}'>x</math>",
    "<a href='javascript:{}'>x</a>",
    "[x](javascript:{})",
    "![x](x 'y\" onerror={} z=\"')",
    "<javascript:{}>",
    "javascript:{}",
    "JaVaScRiPt:{}",
    "java\tscript:{}",
    "\x01javascript:{}",
    "data:text/html,<script>{}</script>",
    "vbscript:{}",
    "https://x.test/\"onmouseover={} x='",
    "{{{{constructor.constructor('{}')()}}}}",
    "<object data='javascript:{}'></object>",
)
ENDS = ("", '">', "'>", "</p></style></title></script>-->")
PAYLOADS = [end + action.format("top.ran=1") for end, action in itertools.product(ENDS, ACTIONS)]
"""100 texts. If a page executes one of them instead of showing it, the page's ``ran`` is set."""

DEBATES: dict[str, Document] = {}
"""The documents that `a_debate` has made, by graph."""


async def a_debate(graph: str = "tool_mad") -> Document:
    """A copy of the document of a debate on the fake model. The debate runs once per graph."""
    if graph not in DEBATES:
        system = load_graph(graph)
        context = system.settings(model="fake:3", **SETTINGS[graph])
        document: Document = await system.graph.ainvoke({"claim": CLAIM}, context=context)
        DEBATES[graph] = {key: document[key] for key in system.graph.output_schema.__annotations__}
    return copy.deepcopy(DEBATES[graph])


def with_evidence(document: Document, count: int) -> Document:
    """The debate with ``count`` more pieces of evidence, at least one.

    The debate's first answer gets a verified quote from the first new piece.
    """
    document = copy.deepcopy(document)
    pieces = [
        piece(f"🦆 Platypuses lay eggs 🥚, as echidnas do. Piece {number}.", f"Title {number}")
        for number in range(count)
    ]
    document["evidence"] = [*pieces, *document["evidence"]]
    turn = next(turn for turn in document["turns"] if turn["step"] == "respond")
    quote = Quote(evidence_id=pieces[0]["id"], quote="lay eggs 🥚, as echidnas")
    turn["citations"] = [*check_citations([quote], pieces, [pieces[0]["id"]]), *turn["citations"]]
    turn["evidence_ids"] = [pieces[0]["id"], *turn["evidence_ids"]]
    return document


def with_quotes(document: Document, count: int, length: int) -> Document:
    """The debate with ``count`` quotes of about ``length`` characters in its first answer, in place of older quotes."""
    document = copy.deepcopy(document)
    pieces = [piece(f"Piece {number}. {'lays eggs ' * (length // 10)}", f"Title {number}") for number in range(count)]
    document["evidence"] = [*pieces, *document["evidence"]]
    turn = next(turn for turn in document["turns"] if turn["step"] == "respond")
    ids = [one["id"] for one in pieces]
    turn["citations"] = check_citations(
        [Quote(evidence_id=one["id"], quote=one["text"]) for one in pieces], pieces, ids
    )
    turn["evidence_ids"] = [*ids, *turn["evidence_ids"]]
    return document


def piece(text: str, title: str) -> Evidence:
    """A piece of evidence that the debater ``rag`` found in round 1."""
    made = make_evidence(text=text, title=title, source="tests", query=title, score=None, retriever="tests")
    made["retrievals"][0] |= {"agent": "rag", "round": 1}
    return made


def full_of(document: Document, payloads: list[str]) -> Document:
    """The debate with payloads in place of texts of models, sources and people. Each payload occurs at least once."""
    document = copy.deepcopy(document)
    texts = itertools.cycle(payloads)
    document["evidence"] = [
        {**piece(f"{number}{one}", one), **dict.fromkeys(("title", "text", "url", "source", "published"), one)}
        for number, one in enumerate(payloads)
    ]
    for one in document["evidence"]:
        one["summary_of"] = one["text"]
    ids = [one["id"] for one in document["evidence"]]
    document["claim"] = "".join(payloads)[:4000]
    for turn in document["turns"]:
        fields = {
            key: next(texts) for key in ("query", "rationale", "thought", "comment", "summary", "argument", "gap")
        }
        turn |= fields | {"evidence_ids": ids, "answer": next(texts), "premises": [next(texts)], "reason": next(texts)}
        turn["confidence"] = 5.0
        turn["tool"], turn["reviewed"], turn["preferred"], turn["outcome"] = (next(texts) for _ in range(4))
        quotes = [Quote(evidence_id=id, quote=one) for one in payloads[:30] for id in (one, ids[0])]
        turn["citations"] = check_citations(quotes, document["evidence"], ids)
    document["warnings"] = [{"kind": one, "where": one, "detail": one} for one in payloads]
    document["corpora"] = [
        {"agent": one, "requested": one, "retriever": one, "passages": None, "encoder": None} for one in payloads
    ]
    document["models"] = {one: {"model": one, "reported": [one]} for one in payloads}
    document["settings"]["embedder"] = payloads[0]
    document["answer"] = document["raw_verdict"] = payloads[1]
    document["votes"] = [{"agent": one, "answer": one, "group": 0} for one in payloads]
    document["moot_version"] = payloads[2]
    return document


def contents(home: Path) -> dict[str, Document]:
    """The stored documents of a home folder, by id."""
    with closing(sqlite3.connect(home / "store.sqlite")) as file:
        return {
            id: json.loads(zlib.decompress(packed)) for id, packed in file.execute("SELECT id, content FROM documents")
        }


def set_content(home: Path, id: str, content: bytes) -> None:
    """Replace the content of a stored document."""
    with closing(sqlite3.connect(home / "store.sqlite", isolation_level=None)) as file:
        values = (zlib.compress(content), time.time(), id)
        file.execute("UPDATE documents SET content = ?, written = ? WHERE id = ?", values)
