"""Searches moot's corpora by meaning (dense), by words (lexical), or by both (hybrid)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from moot.core.endpoint import DEFAULT_LIMITS, Limits, create_once, create_once_in_thread, once_per_loop
from moot.core.errors import UserError, copy_error
from moot.core.lazy import imported
from moot.retrievers._corpus import (
    Corpus,
    all_passages,
    check_dimension,
    check_vectors,
    corpus_state,
    open_corpus,
    recent_state,
)
from moot.retrievers._cross_encoders import CrossScorer, open_cross_encoder
from moot.retrievers._encoders import Encoder, Vector, open_encoder, unit_vectors
from moot.retrievers._evidence import Evidence, clean, encoded_text, make_evidence
from moot.retrievers._filling import chroma_errors, damaged

T = TypeVar("T")
Row = tuple[str, str, str, str, str | None, str | None, str | None, str | None, str | None, str | None, str | None]
"""A stored passage: id, title, text, source, url, published, page, heading, fetched, sha256, note.

It is a tuple of strings, because the garbage collector does not track such tuples. Otherwise 100,000 passages would
slow the collector down.
"""

Found = list[tuple[str, dict[str, str], float]]
"""Results of dense search: text, metadata, and distance."""

DENSE_WEIGHT = 0.65
"""The weight of dense search in `fuse`. Like `K1`, it is tuned on the benchmarks' split `rest`; see docs/figures.md."""
K1, B = 1.2, 0.75
"""BM25's parameters in hybrid search."""
CANDIDATES = 100
"""How many passages of each search are fused (or ``k`` passages, if ``k`` is larger)."""
RERANKED = 30
"""How many of the fused passages a cross-encoder reranks (or ``k`` passages, if ``k`` is larger)."""
QUERIES_AT_ONCE = 64
"""Maximum number of queries in a request to Chroma. A query that is sent alone takes about ten times as long as a query
in a full request.
"""
PATIENCE = 1.0
"""Seconds after which a batch of queries is sent, even if the batch before it has no answer yet."""
SMALL = 5000
"""If a corpus has more passages, BM25 searches it in a thread. For other corpora, starting the thread would take longer
than the search.
"""
STORED = ["documents", "metadatas", "embeddings"]
"""The fields of a passage in a collection: its text, its metadata, and its vector."""


# --- opening ----------------------------------------------------------------------------------------------------------


async def state_of(corpus: str, *, recent: bool) -> str:
    """A corpus's state (`corpus_state`), or with ``recent`` a cached state if there is one (`recent_state`)."""
    known = recent_state(corpus) if recent else None
    return await asyncio.to_thread(corpus_state, corpus) if known is None else known


async def open_chroma(
    corpus: str, encoder: str, limits: Limits = DEFAULT_LIMITS, *, recent: bool = False
) -> ChromaRetriever:
    """Opens dense search in a corpus, once per event loop and state of the corpus (`state_of`); see `open_or_last`."""

    async def make() -> ChromaRetriever:
        await asyncio.to_thread(check_vectors, corpus)
        text_encoder = await open_encoder(encoder, limits)
        return ChromaRetriever(await open_corpus(corpus, text_encoder.name), text_encoder, corpus)

    state = await state_of(corpus, recent=recent)
    key = ("chroma", corpus, encoder, limits)
    return await open_or_last(key, create_once((*key, state), make))


async def open_bm25(corpus: str, *, recent: bool = False) -> Bm25Retriever:
    """Opens lexical search in a corpus, once per event loop and state of the corpus (`state_of`); see
    `open_or_last`.
    """
    state = await state_of(corpus, recent=recent)

    async def make() -> Bm25Retriever:
        rows = await open_rows(corpus, state)
        return await asyncio.to_thread(Bm25Retriever, corpus, rows)

    return await open_or_last(("bm25", corpus), create_once(("bm25", corpus, state), make))


async def open_rows(corpus: str, state: str) -> list[Row]:
    """Every passage of a corpus, in the order of the ids, read once per event loop and state of the corpus."""

    def read() -> list[Row]:
        return [
            (p.id, p.title, p.text, clean(p.source), p.url, p.published, p.page, p.heading, p.fetched, p.sha256, p.note)
            for p in all_passages(corpus)
        ]

    return await create_once_in_thread(("rows", corpus, state), read)


async def open_hybrid(
    corpus: str, encoder: str, limits: Limits = DEFAULT_LIMITS, reranker: str | None = None, *, recent: bool = False
) -> HybridRetriever:
    """Opens hybrid search in a corpus, once per event loop and state of the corpus (`state_of`); see `open_or_last`."""

    async def make() -> HybridRetriever:
        dense = await open_chroma(corpus, encoder, limits)
        rows = await open_rows(corpus, state)

        def index() -> LexicalIndex:
            # Titles count double.
            texts = [f"{title}. {title}. {text}" if title else text for _, title, text, *_ in rows]
            return LexicalIndex(corpus, texts, k1=K1, b=B, stem=True)

        lexical = await create_once_in_thread(("stems", corpus, state), index)
        scorer = await open_cross_encoder(reranker) if reranker else None
        return HybridRetriever(dense, rows, lexical, scorer)

    state = await state_of(corpus, recent=recent)
    key = ("hybrid", corpus, encoder, limits, reranker)
    return await open_or_last(key, create_once((*key, state), make))


async def open_or_last(key: tuple[Any, ...], opening: Awaitable[T]) -> T:
    """Awaits ``opening`` or, if the corpus is unfinished, returns the event loop's last result for ``key``."""
    opened: dict[Any, T] = once_per_loop(("opened last", *map(os.environ.get, ("MOOT_HOME", "MOOT_CHROMA_URL"))), dict)
    try:
        opened[key] = found = await opening
    except UserError as error:
        if error.kind != "unfinished_corpus" or key not in opened:
            raise
        # A debate continues with the earlier state of a corpus that is being indexed.
        return opened[key]
    return found


# --- dense ------------------------------------------------------------------------------------------------------------


class WaitingQuery(NamedTuple):
    """A query that waits for Chroma: its vector, the number of results, and the future for the results."""

    vector: Vector
    k: int
    result: asyncio.Future[Found]


class ChromaRetriever:
    """Dense search in a corpus; scores are cosines, and the encoder caches the vectors of the found passages."""

    def __init__(self, corpus: Corpus, encoder: Encoder, name: str) -> None:
        self.name = f"chroma:{name}"
        self.corpus = name
        self.encoder = encoder.name
        self.passages = corpus.manifest.passages
        self._corpus = corpus
        self._encoder = encoder
        self._queue: list[WaitingQuery] = []
        self._answering: asyncio.Task[None] | None = None

    async def search(self, query: str, k: int) -> list[Evidence]:
        """At most ``k`` passages, those nearest to the query; none for a blank query."""
        query = clean(query)
        if not query:
            return []
        found = await self._nearest(await self.embed(query), k)
        return [self._piece(query, text, about, distance) for text, about, distance in found]

    async def _nearest(self, vector: Vector, k: int) -> Found:
        """The results for a query's vector; queries that wait at the same time are sent together (`_answer_queue`)."""
        future: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._queue.append(WaitingQuery(vector, k, future))
        if self._answering is None or self._answering.done():
            self._answering = asyncio.create_task(self._answer_queue())
        return await future

    async def _answer_queue(self) -> None:
        """Sends the waiting queries in batches; the queries of a batch have the same ``k``."""
        while self._queue:
            k = self._queue[0].k
            same_k = [query for query in self._queue if query.k == k]
            self._queue = same_k[QUERIES_AT_ONCE:] + [query for query in self._queue if query.k != k]
            batch = [query for query in same_k[:QUERIES_AT_ONCE] if not query.result.done()]
            await asyncio.wait([asyncio.create_task(self._answer_batch(batch))], timeout=PATIENCE)

    async def _answer_batch(self, batch: Sequence[WaitingQuery]) -> None:
        """Sends a batch of queries to Chroma, and sets the results or the errors of the queries."""
        if not batch:
            return
        vectors = [query.vector for query in batch]
        answers: list[Any]
        try:
            answers = await asyncio.to_thread(self._query_batch, vectors, batch[0].k)
            if len(answers) < len(vectors):
                raise damaged(self._corpus.manifest.name, "some queries have no answer")
        except Exception as error:  # noqa: BLE001 - raised for every caller of the batch
            answers = [copy_error(error) for _ in batch]
        for query, answer in zip(batch, answers, strict=True):
            if not query.result.done():
                set_answer = query.result.set_exception if isinstance(answer, Exception) else query.result.set_result
                set_answer(answer)

    async def embed(self, query: str) -> Vector:
        """The query's vector; UserError if the corpus's vectors have another dimension."""
        vector = (await self._encoder.embed([query]))[0]
        check_dimension(self._corpus.manifest, len(vector))
        return vector

    def cosines(self, vector: Vector, count: int, others: Sequence[str]) -> dict[str, float]:
        """The cosines of ``vector`` with the ``count`` nearest passages and with ``others`` (ids), by id; blocking."""
        np = imported("numpy")
        found = self._query([vector], count, [])
        near = {i: 1 - float(d) for i, d in zip(found["ids"][0], found["distances"][0], strict=True)}
        missing = [i for i in others if i not in near]
        if not missing:
            return near
        with chroma_errors(self._corpus.manifest.name, "it cannot be searched"):
            rows = self._corpus.collection.get(ids=missing, include=["embeddings"])
        if len(rows["ids"]) < len(missing):
            raise damaged(self._corpus.manifest.name, "passages have disappeared since it was opened")
        cosines = np.asarray(rows["embeddings"]) @ np.asarray(vector)
        return near | dict(zip(rows["ids"], cosines.tolist(), strict=True))

    def cache_vectors(self, ids: Sequence[str]) -> None:
        """Makes the encoder cache the vectors of these passages; blocking."""
        with chroma_errors(self._corpus.manifest.name, "it cannot be read"):
            rows = self._corpus.collection.get(ids=list(ids), include=STORED)
        self._remember(*(rows[column] for column in STORED))

    def _query_batch(self, vectors: Sequence[Vector], k: int) -> list[Found]:
        """The results for each vector; the encoder caches the vectors of the found passages."""
        found = self._query(vectors, k, STORED)
        for columns in zip(*(found[column] for column in STORED), strict=True):
            self._remember(*columns)
        results = (found[column] for column in ("documents", "metadatas", "distances"))
        return [[*zip(*rows, strict=True)] for rows in zip(*results, strict=True)]

    def _remember(self, texts: Sequence[str], about: Sequence[dict[str, str]], vectors: Sequence[Vector]) -> None:
        # Texts and vectors must both come from the collection, because passages may have changed since the opening.
        encoded = [encoded_text(some.get("title", ""), text) for text, some in zip(texts, about, strict=True)]
        self._encoder.remember(encoded, unit_vectors(vectors))

    def _query(self, vectors: Sequence[Vector], k: int, include: list[str]) -> Any:
        with chroma_errors(self._corpus.manifest.name, "it cannot be searched"):
            return self._corpus.collection.query(
                query_embeddings=list(vectors), n_results=k, include=[*include, "distances"]
            )

    def _piece(self, query: str, text: str, about: dict[str, str], distance: float) -> Evidence:
        return make_evidence(
            text=text,
            title=about.get("title", ""),
            source=about["source"],
            url=about.get("url"),
            published=about.get("published"),
            page=about.get("page"),
            heading=about.get("heading"),
            fetched=about.get("fetched"),
            sha256=about.get("sha256"),
            note=about.get("note"),
            query=query,
            score=round(1 - distance, 6),
            retriever=self.name,
        )


# --- lexical ----------------------------------------------------------------------------------------------------------


class LexicalIndex:
    """BM25 (Robertson and Zaragoza, as in bm25s) over texts, without English stop words."""

    def __init__(self, corpus: str, texts: Sequence[str], *, k1: float = 1.5, b: float = 0.75, stem: bool) -> None:
        bm25s = imported("bm25s")
        if not texts:
            raise UserError(f"The corpus {corpus!r} is empty. Index some files into it.", kind="empty_corpus")
        stemmer = imported("Stemmer").Stemmer("english") if stem else None
        self._options: dict[str, Any] = {"stopwords": "en", "stemmer": stemmer, "show_progress": False}
        # ``k1``: how strongly repetitions of a word count (0: not at all). ``b``: how strongly long texts are penalised
        # (0 to 1).
        self._index = bm25s.BM25(k1=k1, b=b)
        tokens = bm25s.tokenize(list(texts), **self._options)
        if not any(tokens.ids):
            raise UserError(
                f"The corpus {corpus!r} has no words to search for; use chroma:{corpus}.", kind="empty_corpus"
            )
        self._index.index(tokens, show_progress=False)

    def scores(self, query: str) -> Any:
        """One weight (0 or more) for each text, as an array; None if the query has no words, or only stop words."""
        tokens = imported("bm25s").tokenize([query], return_ids=False, **self._options)[0]
        return self._index.get_scores(tokens) if tokens else None


def best_rows(scores: Any, count: int) -> list[int]:
    """The indices of the ``count`` highest scores above 0, highest first; equal scores keep their order."""
    np = imported("numpy")
    rows = np.flatnonzero(scores > 0)
    if len(rows) > count:
        least = np.partition(scores[rows], -count)[-count]
        rows = rows[scores[rows] >= least]
    return rows[np.argsort(-scores[rows], kind="stable")][:count].tolist()  # type: ignore[no-any-return]


class Bm25Retriever:
    """Lexical search in a corpus: BM25 without stemming."""

    def __init__(self, name: str, rows: list[Row]) -> None:
        self.name = f"bm25:{name}"
        self.passages = len(rows)
        self._stored = rows
        self._index = LexicalIndex(name, [f"{title}. {text}" for _, title, text, *_ in rows], stem=False)

    async def search(self, query: str, k: int) -> list[Evidence]:
        """At most ``k`` passages that share a word other than stop words with the query, best first."""
        if self.passages <= SMALL:
            return self._search(clean(query), k)
        return await asyncio.to_thread(self._search, clean(query), k)

    def _search(self, query: str, k: int) -> list[Evidence]:
        scores = self._index.scores(query)
        rows = [] if scores is None else best_rows(scores, k)
        return [as_evidence(self._stored[row], query, float(scores[row]), self.name) for row in rows]


def as_evidence(row: Row, query: str, score: float, retriever: str) -> Evidence:
    """A stored passage as a piece of evidence."""
    _, title, text, source, url, published, page, heading, fetched, sha256, note = row
    return make_evidence(
        text=text,
        title=title,
        source=source or "(no source)",
        url=url,
        published=published,
        page=page,
        heading=heading,
        fetched=fetched,
        sha256=sha256,
        note=note,
        query=query,
        score=round(score, 6),
        retriever=retriever,
    )


# --- hybrid -----------------------------------------------------------------------------------------------------------


def fuse(dense: Mapping[str, float], lexical: Mapping[str, float], weight: float = DENSE_WEIGHT) -> dict[str, float]:
    """The fused scores by id, highest first: ``w cos / max cos + (1 - w) BM25 / max BM25``."""
    most_dense, most_lexical = max(dense.values(), default=0.0), max(lexical.values(), default=0.0)
    # A passage without a lexical score shares no word with the query. Without a score above 0, a search's term is 0.
    fused = {
        i: weight * (cosine / most_dense if most_dense > 0 else 0.0)
        + (1 - weight) * (lexical.get(i, 0.0) / most_lexical if most_lexical > 0 else 0.0)
        for i, cosine in dense.items()
    }
    return dict(sorted(fused.items(), key=lambda item: -item[1]))


class HybridRetriever:
    """Dense and lexical search together, with the scores of the cross-encoder if there is one, else of `fuse`."""

    def __init__(
        self, dense: ChromaRetriever, rows: list[Row], lexical: LexicalIndex, scorer: CrossScorer | None
    ) -> None:
        self.name = f"hybrid:{dense.corpus}"
        self.encoder = dense.encoder
        self.passages = dense.passages
        self._dense = dense
        self._stored = rows
        self._rows = {row[0]: index for index, row in enumerate(rows)}
        self._lexical = lexical
        self._scorer = scorer

    async def search(self, query: str, k: int) -> list[Evidence]:
        """At most ``k`` passages, the best by meaning and words; none for a blank query."""
        query = clean(query)
        if not query:
            return []
        vector = await self._dense.embed(query)
        fused = await asyncio.to_thread(self._fused, query, vector, max(CANDIDATES, k))
        if self._scorer:
            fused = await self._rerank(query, list(fused)[: max(RERANKED, k)], self._scorer)
        best = list(fused.items())[:k]
        if best:
            await asyncio.to_thread(self._dense.cache_vectors, [i for i, _ in best])
        return [as_evidence(self._stored[self._rows[i]], query, score, self.name) for i, score in best]

    def _fused(self, query: str, vector: Vector, count: int) -> dict[str, float]:
        """The fused scores of the best ``count`` passages of each search, by id, highest first."""
        scores = self._lexical.scores(query)
        lexical = [] if scores is None else [self._stored[row][0] for row in best_rows(scores, count)]
        dense = self._dense.cosines(vector, count, lexical)
        # A passage that was stored after the rows were read has no row, and is left out.
        known = {i: self._rows[i] for i in dense if i in self._rows}
        words = {} if scores is None else {i: float(scores[row]) for i, row in known.items()}
        return fuse({i: dense[i] for i in known}, words)

    async def _rerank(self, query: str, ids: list[str], scorer: CrossScorer) -> dict[str, float]:
        """The cross-encoder's ratings of these passages, by id, highest first."""
        rows = [self._stored[self._rows[i]] for i in ids]
        rated = await scorer.compare(query, [encoded_text(title, text) for _, title, text, *_ in rows])
        return dict(sorted(zip(ids, rated, strict=True), key=lambda item: -item[1]))
