"""Evidence in plain words: the sources of each kind of system, and words that cannot be used."""

from __future__ import annotations

from typing import Any

import pytest
from moot.core.errors import UserError
from moot.graphs import load_graph
from moot.graphs._evidence import evidence_settings
from moot.graphs._registry import DESCRIPTIONS
from moot.nodes._runtime.settings import EvidenceSettings
from moot.retrievers import Passage, index_passages


def chosen(graph: str, *words: str, corpus: str | None = "demo-news", **more: Any) -> Any:
    """The sources of a system for words: its list, or its debaters' sources by their names."""
    given = more.pop("given", False)
    kind = load_graph(graph).settings
    found = evidence_settings(kind, words, {"corpus": corpus, **more}, graph=graph, given=given)
    kind.model_validate(found)
    readers = found.get("debaters") or found.get("agents")
    return {one["name"]: one["retriever"] for one in readers} if readers else found


@pytest.fixture(autouse=True)
def searxng(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARXNG_BASE_URL", "http://127.0.0.1:9")


def test_systems_with_a_list_search_all_sources() -> None:
    assert chosen("rag", "wikipedia", "web ", "documents") == {"sources": ["hybrid:demo-news", "web", "wikipedia"]}
    assert chosen("proclaim", "openalex", "web", "web") == {"sources": ["web", "openalex"]}


def test_debaters_share_the_sources() -> None:
    assert chosen("tool_mad", "web") == {"rag": "web", "search": "web"}
    assert chosen("tool_mad", "web", "documents") == {"rag": "hybrid:demo-news", "search": "web"}
    assert chosen("tool_mad", "web", "documents", "wikipedia") == {
        "rag": ["hybrid:demo-news", "wikipedia"],
        "search": "web",
    }
    assert chosen("tool_mad", "documents") == {"rag": "chroma:demo-news", "search": "bm25:demo-news"}
    assert chosen("gated", "web", "documents") == {
        "reader-1": "hybrid:demo-news",
        "reader-2": "web",
        "reader-3": "hybrid:demo-news",
    }
    three = [{"name": name, "retriever": "web", "model": "fake:1"} for name in ("a", "b", "c")]
    kept = evidence_settings(
        load_graph("tool_mad").settings, ["web", "wikipedia"], {"debaters": three}, graph="tool_mad"
    )
    assert [(one["name"], one["retriever"], one["model"]) for one in kept["debaters"]] == [
        ("a", "web", "fake:1"),
        ("b", "wikipedia", "fake:1"),
        ("c", "web", "fake:1"),
    ]


def test_texts_with_the_claim_are_documents() -> None:
    assert chosen("rag", "documents", corpus=None, given=True) == {"retrieval": "none"}
    assert chosen("proclaim", "documents", corpus=None, given=True) == {"sources": []}
    assert chosen("tool_mad", "documents", corpus=None, given=True) == {"retrieval": "none"}
    assert chosen("rag", "web", "documents", corpus=None, given=True) == {"sources": ["web"]}
    assert chosen("rag", "documents", given=True) == {"sources": ["hybrid:demo-news"]}


async def test_documents_without_vectors_are_searched_by_words() -> None:
    await index_passages("plain", [Passage(id="1", text="A lake.")], encoder="none")
    assert chosen("rag", "documents", corpus="plain") == {"sources": ["bm25:plain"]}
    assert chosen("tool_mad", "documents", corpus="plain") == {"rag": "bm25:plain", "search": "bm25:plain"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["wiki", "web"],
            "no evidence 'wiki'. Choose from documents, web, wikipedia, or name sources. .* Known: chroma",
        ),
        ([" ", ""], "Name at least one kind of evidence"),
        (["documents"], "there is no corpus and no text. Make a corpus .moot index"),
        (["web"], 'no web search is set up. Without a key: pip install "moot.ddgs.",'),
    ],
)
def test_words_that_cannot_be_used_are_refused(monkeypatch: pytest.MonkeyPatch, words: list[str], message: str) -> None:
    monkeypatch.delenv("SEARXNG_BASE_URL")
    with pytest.raises(UserError, match=message):
        chosen("rag", *words, corpus=None)


@pytest.mark.parametrize("graph", sorted(DESCRIPTIONS))
def test_a_system_takes_the_words_or_says_that_it_does_not_search(graph: str) -> None:
    if issubclass(load_graph(graph).settings, EvidenceSettings):
        assert "wikipedia" in str(chosen(graph, "wikipedia"))
        return
    with pytest.raises(UserError, match=f"{graph} does not search"):
        chosen(graph, "wikipedia")
