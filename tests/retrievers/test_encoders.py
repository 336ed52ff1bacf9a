"""The local encoder: its vectors for short and long lists, its batches, and its use by many tasks and threads."""

from __future__ import annotations

import asyncio
import math
import threading

import pytest
from moot.retrievers import open_encoder
from moot.retrievers._corpus import demo_passages
from moot.retrievers._encoders import FEW, Encoder, SentenceEncoder, Vector, encode, load_sentence_encoder

LONG = " ".join(p.text for p in demo_passages("demo-news")[:12])  # more tokens than the model reads
MANY = [p.text for p in demo_passages("demo-encyclopaedia")]
TEXTS = MANY[:FEW]
ODD = ["", "?", "lake", "Lake.", "湖", "\U0001f3d4\ufe0f", "a " * 300, LONG]


def cosine(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


@pytest.fixture
async def encoder() -> Encoder:
    return await open_encoder()


async def test_vectors_of_short_and_long_lists_are_close_to_full_precision() -> None:
    encoder = load_sentence_encoder("all-MiniLM-L6-v2")
    texts = TEXTS + ODD
    precise = encode(encoder._model, texts)
    long = await encoder.embed(texts)
    quick = [vector for text in texts for vector in await encoder.embed([text])]
    assert min(map(cosine, precise, quick)) >= 0.99
    assert min(map(cosine, precise, long)) >= 0.99
    assert all(math.hypot(*v) == pytest.approx(1, abs=1e-4) for v in long + quick)
    assert {len(v) for v in long + quick} == {384}


class PausedModel:
    """Replaces an encoder's model for short lists: it records each batch, waits for ``go``, and calls the model."""

    def __init__(self, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[list[str]] = []
        self.begun, self.go = threading.Event(), threading.Event()
        self.real = encoder._encode_short
        monkeypatch.setattr(encoder, "_encode_short", self)

    def __call__(self, texts: list[str]) -> list[Vector]:
        self.batches.append(texts)
        self.begun.set()
        assert self.go.wait(60)
        return self.real(texts)


async def test_a_text_that_is_being_encoded_is_not_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds even if the call that sent the text first is cancelled."""
    encoder = load_sentence_encoder("all-MiniLM-L6-v2")
    paused_model = PausedModel(encoder, monkeypatch)
    a, b, c = (f"{word}, asked for by several debates" for word in ("One", "Two", "Three"))
    cancelled, first = (asyncio.ensure_future(encoder.embed([a, b])) for _ in range(2))
    await asyncio.to_thread(paused_model.begun.wait, 60)
    cancelled.cancel()
    second, third = (asyncio.ensure_future(encoder.embed(texts)) for texts in ([c, b], [b, a]))
    await asyncio.sleep(0)
    paused_model.go.set()
    assert await third == (await first)[::-1] == paused_model.real([b, a])
    assert await second == paused_model.real([c, b])
    assert paused_model.batches == [[a, b], [c]]
    assert cancelled.cancelled()


async def test_an_error_reaches_all_waiting_calls_and_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = load_sentence_encoder("all-MiniLM-L6-v2")
    paused_model = PausedModel(encoder, monkeypatch)
    paused_model.go.set()
    real = paused_model.real

    def fail(texts: list[str]) -> list[Vector]:
        raise IndexError(texts)

    paused_model.real = fail
    text = "A text that fails once"
    failed = await asyncio.gather(*(encoder.embed([text]) for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in failed] == [IndexError] * 3
    paused_model.real = real
    assert await encoder.embed([text]) == real([text])
    assert paused_model.batches == [[text], [text]]


@pytest.mark.parametrize("count", [FEW, 3 * FEW])
async def test_vectors_are_in_the_order_of_their_texts(encoder: Encoder, count: int) -> None:
    """Each text is in the list twice."""
    texts = [f"{text} ({count})" for text in MANY[: count // 2]]
    repeated = texts * 2
    vectors = await encoder.embed(repeated)
    alone = {text: (await encoder.embed([text]))[0] for text in texts}
    assert len(vectors) == count
    for text, vector in zip(repeated, vectors, strict=True):
        assert max(alone, key=lambda other: cosine(alone[other], vector)) == text


async def test_a_cancelled_call_does_not_affect_other_calls(encoder: Encoder) -> None:
    texts = [f"Given up or not, {i}" for i in range(8)]
    tasks = [asyncio.ensure_future(encoder.embed([text])) for text in texts]
    await asyncio.gather(asyncio.to_thread(int), return_exceptions=True)
    for task in tasks[::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results[1::2]:
        assert isinstance(result, list)
    assert await encoder.embed(texts[1::2]) == [r[0] for r in results[1::2] if isinstance(r, list)]


def test_event_loops_in_two_threads_share_one_encoder() -> None:
    texts = [f"Sentence {i} of two threads" for i in range(8)]
    found: dict[int, tuple[Encoder, list[Vector]]] = {}
    together = threading.Barrier(2)

    async def use(thread: int) -> None:
        encoder = await open_encoder()
        together.wait(60)
        vectors = await asyncio.gather(*(encoder.embed([text]) for text in texts))
        found[thread] = encoder, [vector for row in vectors for vector in row]

    threads = [threading.Thread(target=lambda i=i: asyncio.run(use(i))) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0][0] is found[1][0] is load_sentence_encoder("all-MiniLM-L6-v2")
    assert found[0][1] == found[1][1]
