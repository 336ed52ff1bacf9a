"""Tool-MAD on special domains, as its first version has it: abstracts from OpenAlex, and a corpus of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web
from moot.graphs.tool_mad import ToolMadSettings, graph
from moot.retrievers import Passage, index_passages

from tests.conftest import StartStub
from tests.retrievers.conftest import Serve, serve
from tests.retrievers.vendors import WORK

__all__ = ["serve"]


SOURCES = {
    "medqa": {"rag": "chroma:pubmed", "search": "web"},
    "pubmedqa": {"rag": "chroma", "search": "openalex"},
}


async def debate(task: str, given: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Run a debate on a task with the sources of its domain."""
    debaters = [{"name": name, "retriever": source} for name, source in SOURCES[task].items()]
    chosen = {"debaters": debaters, "scoring": "consensus_only", "model": "openai:stub", **more}
    settings = ToolMadSettings.model_validate(chosen)
    document: dict[str, Any] = await graph.ainvoke(cast(Any, {"task": task, **given}), context=settings)
    return document


@pytest.mark.parametrize("summaries", ["model", "none"])
async def test_debaters_on_pubmedqa_read_abstracts_or_their_summaries(
    start_stub: StartStub, serve: Serve, monkeypatch: pytest.MonkeyPatch, summaries: str
) -> None:
    index: Any = WORK["abstract_inverted_index"]
    works = [
        {"id": f"https://openalex.org/W{i}", "abstract_inverted_index": {**index, f"Study {i}.": [5]}} for i in range(3)
    ]
    alex = await serve(lambda n, body: web.json_response({"results": works}))
    monkeypatch.setenv("OPENALEX_BASE_URL", alex.url)
    fields = {"keywords": ["hydrocele", "newborn"], "summary": "It was studied.", "answer": "yes", "citations": []}
    stub = start_stub([{"fields": fields}])
    given = {"claim": "Is less more?"}
    document = await debate("pubmedqa", given, source_summaries=summaries, corpus="demo-encyclopaedia")
    assert (document["status"], document["answer"], document["stop_reason"]) == ("done", "yes", "consensus")
    roles = [c["role"] for c in document["calls"]]
    assert roles.count("source_summariser") == (3 if summaries == "model" else 0)
    assert roles.count("search") == 3  # query, keywords, answer
    found = [e for e in document["evidence"] if e["retrievals"][0]["retriever"] == "openalex"]
    assert len({e["id"] for e in found}) == 3
    assert {e["retrievals"][0]["query"] for e in found} == {"hydrocele newborn"}
    text = "It was studied." if summaries == "model" else "Less is more. Less surgery. Study 1."
    assert text in {e["text"] for e in found}
    assert [e.get("summary_of", "")[-8:] for e in found] == [f"Study {i}." * (summaries == "model") for i in range(3)]
    assert any(text in prompt and "your `answer`" in prompt for prompt in stub.prompts())
    # The chain of calls: query, keywords, a summary if a model writes it, and the answer.
    assert document["depth"] == (4 if summaries == "model" else 3)


async def test_an_abstract_without_a_usable_summary_is_shown_in_full(
    start_stub: StartStub, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    alex = await serve(lambda n, body: web.json_response({"results": [WORK]}))
    monkeypatch.setenv("OPENALEX_BASE_URL", alex.url)
    stub = start_stub(
        [
            {"match": "its `summary`", "reply": ""},
            {"match": "the `keywords`", "reply": "none"},
            {"fields": {"answer": "no"}},
        ]
    )
    document = await debate("pubmedqa", {"claim": "Is less more?"}, corpus="demo-encyclopaedia")
    assert document["status"] == "done"
    text = "Less is more. Less surgery."
    assert text in {e["text"] for e in document["evidence"]}
    assert any(text in prompt and "your `answer`" in prompt for prompt in stub.prompts())
    assert {"source_not_summarised", "query_not_formulated"} <= {w["kind"] for w in document["warnings"]}


async def test_a_debate_on_medqa_reads_the_users_corpus_pubmed(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this corpus the debate fails, and the error names the command `moot index`."""
    start_stub([{"match": "your `answer`", "fields": {"answer": "B", "citations": []}}])
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    given = {"claim": "Which drug acts on the loop?", "options": ["aspirin", "furosemide"]}
    missing = await debate("medqa", given, corpus="demo-news")
    assert (missing["error"]["kind"], "moot index" in missing["error"]["detail"]) == ("unknown_corpus", True)
    await index_passages(
        "pubmed", [Passage(id="1", title="Loop", text="Furosemide acts on the loop.", source="PubMed")]
    )
    document = await debate("medqa", given, corpus="demo-news")  # the corpus demo-news replaces the web
    assert (document["answer"], document["stop_reason"]) == ("B", "consensus")
    assert {c["retriever"] for c in document["corpora"]} == {"chroma:pubmed", "bm25:demo-news"}
