"""The vector caches of encoders: texts that a search found are not encoded again, and each cache has a limit."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from moot.retrievers import Passage, WorldError, index_passages, open_encoder, open_retriever
from moot.retrievers._encoders import CACHED_TEXTS, FEW, Vector, VectorCache, vectors_of
from moot.retrievers._evidence import encoded_text

from ..conftest import StartStub, StubEndpoint
from .conftest import Serve

STUB = "openai:stub-embedding"
PASSAGES = [
    Passage(id="1", title="Pumps", text="A machine that moves water uphill needs power. It is rarely silent."),
    Passage(id="2", title="", text="Still water gathers in a hollow."),
    Passage(id="3", title=" Spare\u200b parts ", text="Part QX-1187 fits\x00 the water pump."),
    Passage(id="4", title="\u200b", text="Ice floats on water."),
]


@pytest.fixture
async def stub(start_stub: StartStub, empty_home: Path) -> StubEndpoint:
    """A scripted endpoint that has encoded the corpus `pumps`. The encoder's cache is empty."""
    endpoint = start_stub()
    await index_passages("pumps", PASSAGES, encoder=STUB)
    encoder: Any = await open_encoder(STUB)
    encoder._vectors.clear()  # because indexing a small corpus caches its vectors
    return endpoint


def texts_per_request(stub: StubEndpoint) -> list[int]:
    """The number of texts in each embedding request so far."""
    return [call["inputs"] for call in stub.calls() if call["structured"] == "embedding"]


def cosine(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


# --- results of searches ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["chroma", "hybrid"])
async def test_texts_found_by_dense_or_hybrid_search_are_not_encoded_again(stub: StubEndpoint, kind: str) -> None:
    encoder: Any = await open_encoder(STUB)
    found = await (await open_retriever(f"{kind}:pumps", encoder=STUB)).search("water pump", 4)
    before = texts_per_request(stub)
    vectors = await vectors_of(found, encoder)
    assert texts_per_request(stub) == before
    assert len(found) == 4
    again = await encoder._request_all([encoded_text(p["title"], p["text"]) for p in found])
    assert list(map(cosine, vectors, again)) == pytest.approx([1] * 4, abs=1e-6)
    assert [math.hypot(*v) for v in vectors] == pytest.approx([1] * 4, abs=1e-6)
    assert {type(x) for v in vectors for x in v} == {float}


# --- the cache --------------------------------------------------------------------------------------------------------


async def test_only_texts_that_are_not_cached_are_requested(stub: StubEndpoint) -> None:
    encoder = await open_encoder(STUB)
    given = await encoder.embed(["some", "words"])
    encoder.remember(["b", "d"], given)
    before = texts_per_request(stub)
    vectors = await encoder.embed(["a", "b", "c", "d", "a"])
    assert texts_per_request(stub) == [*before, 2]  # each text once
    assert [vectors[1], vectors[3]] == given
    assert vectors[0] == vectors[4] == (await encoder.embed(["a"]))[0]
    assert vectors[2] == (await encoder.embed(["c"]))[0]
    assert texts_per_request(stub) == [*before, 2]  # the vectors of a and c are cached
    many = [str(n) for n in range(FEW + 1)]
    assert await encoder.embed(many) == await encoder.embed(many)
    # The vectors of a long list are not cached, because the list may be a corpus.
    assert texts_per_request(stub) == [*before, 2, FEW + 1, FEW + 1]


async def test_new_vectors_of_a_wrong_length_or_number_are_refused(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The right length is that of the cached vectors."""
    response: Any = {"data": [{"index": 0, "embedding": [0.6, 0.8]}], "model": "m"}
    monkeypatch.setenv("OPENAI_BASE_URL", (await serve(lambda n, body: web.json_response(response))).url + "/v1")
    encoder = await open_encoder("openai:m")
    encoder.remember(["a"], [[1.0, 0.0, 0.0]])
    assert await encoder.embed(["a"]) == [[1.0, 0.0, 0.0]]
    with pytest.raises(WorldError, match="different lengths"):
        await encoder.embed(["a", "b"])
    response["data"] *= 2
    with pytest.raises(WorldError, match="2 vectors for 1 texts"):
        await encoder.embed(["a", "b"])


def test_a_full_cache_drops_the_least_recently_used_vectors() -> None:
    memory = VectorCache()
    texts = [str(i) for i in range(CACHED_TEXTS)]
    memory.remember(texts, [[1.0]] * CACHED_TEXTS)
    assert len(memory.cached(texts)) == CACHED_TEXTS
    assert memory.cached(["1"]) == {"1": [1.0]}
    memory.remember(["0", "new", "newer"], [[2.0]] * 3)
    assert memory.cached(["0", "1", "2", "3", "4", "new"]) == {"0": [2.0], "1": [1.0], "4": [1.0], "new": [2.0]}
    memory.remember([f"{i} more" for i in range(3 * CACHED_TEXTS)], [[3.0]] * 3 * CACHED_TEXTS)
    assert len(memory._vectors) == CACHED_TEXTS


def test_several_threads_can_use_one_cache() -> None:
    memory = VectorCache()

    def use(thread: int) -> None:
        for i in range(400):
            texts = [str(n) for n in range(i * 30 + thread, i * 30 + thread + 20)]
            memory.remember(texts, [[float(text)] for text in texts])
            assert all(vector == [float(text)] for text, vector in memory.cached(texts).items())

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(use, range(8)))
    assert len(memory._vectors) == CACHED_TEXTS
