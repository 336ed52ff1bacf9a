"""LangChain retrievers and vector stores of the user, named by module and attribute."""

from __future__ import annotations

import asyncio
import datetime
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from moot.core.endpoint import Limits
from moot.retrievers import UserError, WorldError, from_documents, open_retriever
from moot.retrievers._gather import search_all
from moot.retrievers._normalise import Rules

KEY = "key-0123456789"
SHOP_MODULE = """
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever


class Shop(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        about = {"title": "Prices", "source": "prices.txt", "url": "https://example.org", "date": "2024-05-01", "n": 1}
        return [Document(f"About {query}.", metadata=about), Document(" "), Document("More.", metadata={"source": 7})]


class shelf:
    shop = Shop()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory, whose modules are unloaded after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def add_module(monkeypatch: pytest.MonkeyPatch, **attributes: object) -> None:
    """Add a module ``own`` with these attributes to `sys.modules`."""
    made = ModuleType("own")
    vars(made).update(attributes)
    monkeypatch.setitem(sys.modules, "own", made)


async def test_documents_of_a_users_retriever_become_evidence(folder: Path) -> None:
    (folder / "own_shop.py").write_text(SHOP_MODULE)
    retriever = await open_retriever("langchain:own_shop:shelf.shop")
    first, second = await retriever.search("lamps\x00", 5)
    assert (first["text"], first["title"], first["source"]) == ("About lamps.", "Prices", "prices.txt")
    assert (first["url"], first["published"]) == ("https://example.org", "2024-05-01")
    name = "langchain:own_shop:shelf.shop"
    assert first["retrievals"] == [{"query": "lamps", "score": None, "retriever": name}]
    assert (second["text"], second["source"], second["title"]) == ("More.", name, "(no title)")
    assert len(await retriever.search("lamps", 1)) == 1
    assert await retriever.search(" ", 5) == []


async def test_a_vector_store_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=32))
    await store.aadd_documents([Document("A lake."), Document("A moon."), Document("A river.")])
    add_module(monkeypatch, store=store)
    found = await (await open_retriever("langchain:own:store")).search("A moon.", 2)
    assert (len(found), found[0]["text"]) == (2, "A moon.")
    assert found[0]["retrievals"][0]["score"] == pytest.approx(1)


def retriever_with(search: object) -> object:
    """A retriever that calls the blocking function ``search`` with each query."""
    from langchain_core.retrievers import BaseRetriever

    class Own(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):  # type: ignore[no-untyped-def]
            return search(query)  # type: ignore[operator]

    return Own()


async def test_a_blocking_search_does_not_block_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    add_module(monkeypatch, slow=retriever_with(lambda query: [Document("Late.")] if go.wait(30) else []))
    searching = asyncio.create_task((await open_retriever("langchain:own:slow")).search("lake", 1))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(go.set)  # runs only if the event loop is not blocked
    assert [piece["text"] for piece in await searching] == ["Late."]


async def test_a_slow_search_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    add_module(monkeypatch, slow=retriever_with(lambda query: go.wait(30)))
    retriever = await open_retriever("langchain:own:slow", limits=Limits(timeout=0.1))
    with pytest.raises(WorldError, match="in time") as caught:
        await retriever.search("lake", 1)
    go.set()
    assert (caught.value.kind, caught.value.retryable) == ("timeout", True)


def raise_error(query: str) -> object:
    raise RuntimeError(f"not with {KEY} " + "x" * 1000)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (raise_error, r"RuntimeError: not with \[SHOP_API_KEY\] x"),
        (lambda q: ["words"], "AttributeError"),
        (len, "TypeError"),
    ],
    ids=["raises", "strings", "number"],
)
async def test_failures_of_a_search_are_short_errors_without_keys(
    monkeypatch: pytest.MonkeyPatch, search: object, message: str
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", KEY)
    add_module(monkeypatch, shop=retriever_with(search))
    with pytest.raises(WorldError, match=f"langchain:own:shop failed \\({message}") as caught:
        await (await open_retriever("langchain:own:shop")).search("lake", 1)
    assert (caught.value.kind, len(caught.value.detail) < 400) == ("search_failed", True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("langchain", "is unknown. Known: chroma"),
        ("langchain:own", "is unknown. Known: chroma"),
        ("langchain::store", "is unknown. Known: chroma"),
        ("langchain:own:", "is unknown. Known: chroma"),
        ("langchain:no_such_module:store", "ModuleNotFoundError"),
        ("langchain:own:store", "AttributeError"),
        ("langchain:own:make.store", "AttributeError"),
        ("langchain:own:make", "is of the type function, not a LangChain retriever"),
        ("langchain:own:kind", "is of the type (ABCMeta|ModelMetaclass), not a LangChain retriever"),
        ("langchain:..own:x", "cannot be opened"),
    ],
)
async def test_names_that_lead_to_no_retriever_are_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    add_module(monkeypatch, make=lambda: None, kind=InMemoryVectorStore)
    with pytest.raises(UserError, match=message) as caught:
        await open_retriever(name)
    assert caught.value.kind == "unknown_retriever"


async def test_a_module_that_raises_an_error_at_import_is_a_user_error(folder: Path) -> None:
    (folder / "own_broken.py").write_text("import os\nos.environ['NOT_THERE_AT_ALL']")
    with pytest.raises(UserError, match="KeyError: 'NOT_THERE_AT_ALL'"):
        await open_retriever("langchain:own_broken:store")


async def test_a_server_opens_only_listed_retrievers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "own_shop.py").write_text(SHOP_MODULE)
    monkeypatch.setitem(sys.modules, "langgraph_api", ModuleType("langgraph_api"))
    for listed in ("", "own_shop:shelf", "other:store"):
        monkeypatch.setenv("MOOT_LANGCHAIN_SOURCES", listed)
        with pytest.raises(UserError, match="MOOT_LANGCHAIN_SOURCES") as caught:
            await open_retriever("langchain:own_shop:shelf.shop")
        assert caught.value.kind == "unknown_retriever"
    assert "own_shop" not in sys.modules
    monkeypatch.setenv("MOOT_LANGCHAIN_SOURCES", "other:store, own_shop:shelf.shop")
    assert len(await (await open_retriever("langchain:own_shop:shelf.shop")).search("lamps", 5)) == 2


async def test_dates_numbers_and_texts_in_metadata_become_publication_dates(monkeypatch: pytest.MonkeyPatch) -> None:
    dates: list[Any] = [datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1, 12), 2024, "2024-01", None, ["2024"]]
    documents = [Document(f"Entry {i}.", metadata={"date": day}) for i, day in enumerate(dates)]
    add_module(monkeypatch, own=retriever_with(lambda query: documents))
    own = await open_retriever("langchain:own:own")
    found = await own.search("lamps", 9)
    assert [p.get("published", "")[:4] for p in found] == ["2024"] * 4 + [""] * 2
    left = await search_all([(own, "lamps")], Rules(9, published_before=datetime.date(2024, 1, 1)))
    assert [p["text"] for p in left.evidence] == ["Entry 4.", "Entry 5."]


async def test_a_score_of_nan_becomes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Store(InMemoryVectorStore):
        async def asimilarity_search_with_score(self, query, k=4, **options):  # type: ignore[no-untyped-def]
            return [(Document("A moon."), float("nan"))]

    add_module(monkeypatch, store=Store(DeterministicFakeEmbedding(size=32)))
    [piece] = await (await open_retriever("langchain:own:store")).search("A moon.", 1)
    assert piece["retrievals"][0]["score"] is None


async def test_a_system_exit_in_user_code_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "leaves.py").write_text("raise SystemExit(5)")
    with pytest.raises(UserError, match="SystemExit"):
        await open_retriever("langchain:leaves:x")

    def leave(query: str) -> Any:
        raise SystemExit(5)

    add_module(monkeypatch, own=retriever_with(leave))
    with pytest.raises(WorldError, match="SystemExit"):
        await (await open_retriever("langchain:own:own")).search("lamps", 1)


def test_from_documents_returns_evidence_without_duplicates() -> None:
    about = {"source": "prices.txt", "title": "Prices", "page": 3}
    found = [Document("Lamps are cheap.", metadata=about), Document(" "), Document("Lamps are cheap.", metadata=about)]
    named, plain = from_documents([*found, Document("More.")], "lamps", "shelf")
    assert (named["text"], named["title"], named["source"]) == ("Lamps are cheap.", "Prices", "prices.txt")
    assert (plain["source"], plain["retrievals"]) == (
        "shelf",
        [{"query": "lamps", "score": None, "retriever": "shelf"}],
    )
