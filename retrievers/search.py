"""Sources by name, behind one protocol.

    chroma:CORPUS   dense search: the corpus's Chroma collection, by cosine
    bm25:CORPUS     lexical search over the same passages
    tavily          web search (TAVILY_API_KEY)
    web             tavily where its key is set, else bm25 over the corpus

Without ``:CORPUS`` the debate's corpus is meant; where none is set, the demo corpora: the encyclopaedia for ``chroma``,
news and notices for the others.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from moot.retrievers.corpus import Corpus, Passage, all_passages, corpus_state, open_corpus
from moot.retrievers.encoders import DEFAULT_ENCODER, Encoder, open_encoder
from moot.retrievers.endpoint import made_in_thread, made_once, with_retries
from moot.retrievers.errors import MootError, UserError, WorldError
from moot.retrievers.evidence import Evidence, Retriever, clean, make_evidence

RETRIEVER_NAMES = ("chroma", "bm25", "tavily", "web")


async def open_retriever(
    name: str,
    *,
    corpus: str | None = None,
    encoder: str = DEFAULT_ENCODER,
    attempts: int = 3,
    timeout: float = 60.0,
) -> Retriever:
    """The source of that name, opened once per process or event loop.

    Args:
        name: as in this module's text.
        corpus: the corpus of names that give none.
        encoder: the encoder of dense search, by name.
        attempts: most requests per search, for web sources and encoders behind an endpoint.
        timeout: seconds per request, for the same.

    Raises:
        UserError: an unknown source, a missing corpus or key.
    """
    kind, _, given = name.partition(":")
    if kind not in RETRIEVER_NAMES or (given and kind in ("tavily", "web")):
        raise UserError(
            f"The retriever {name!r} is unknown. Known: chroma, chroma:CORPUS, bm25, bm25:CORPUS, tavily, web.",
            kind="unknown_retriever",
        )
    if kind == "web":
        kind = "tavily" if os.environ.get("TAVILY_API_KEY") else "bm25"
    if kind == "tavily":
        return TavilyRetriever(attempts, timeout)
    if kind == "chroma":
        return await open_chroma(given or corpus or "demo-encyclopaedia", encoder, attempts, timeout)
    return await open_bm25(given or corpus or "demo-news")


async def open_chroma(corpus: str, encoder: str, attempts: int = 3, timeout: float = 60.0) -> ChromaRetriever:
    """Dense search in a corpus, opened once per event loop and state of the corpus."""

    async def make() -> ChromaRetriever:
        tool = await open_encoder(encoder, attempts=attempts, timeout=timeout)
        return ChromaRetriever(await open_corpus(corpus, tool.name), tool, corpus)

    state = await asyncio.to_thread(corpus_state, corpus)
    return await made_once(("chroma", corpus, state, encoder, attempts, timeout), make)


async def open_bm25(corpus: str) -> Bm25Retriever:
    """Lexical search in a corpus, opened once per event loop and state of the corpus."""
    state = await asyncio.to_thread(corpus_state, corpus)
    return await made_in_thread(("bm25", corpus, state), lambda: Bm25Retriever(corpus, all_passages(corpus)))


class ChromaRetriever:
    """Dense search in a corpus. Scores are cosines."""

    about = "a collection of passages, searched by meaning"

    def __init__(self, corpus: Corpus, encoder: Encoder, name: str) -> None:
        self.name = f"chroma:{name}"
        self.encoder = encoder.name
        self.passages = corpus.manifest.passages
        self._corpus = corpus
        self._encoder = encoder

    async def search(self, query: str, k: int) -> list[Evidence]:
        """The ``k`` passages nearest to the query."""
        vectors = await self._encoder.embed([query])
        found = await asyncio.to_thread(
            self._corpus.collection.query,
            query_embeddings=vectors,
            n_results=k,
            include=["documents", "metadatas", "distances"],
        )
        rows = zip(found["documents"][0], found["metadatas"][0], found["distances"][0], strict=True)
        return [self._piece(query, text, about, distance) for text, about, distance in rows]

    def _piece(self, query: str, text: str, about: dict[str, str], distance: float) -> Evidence:
        return make_evidence(
            text=text,
            title=about.get("title", ""),
            source=about["source"],
            url=about.get("url"),
            published=about.get("published"),
            query=query,
            score=round(1 - distance, 6),
            retriever=self.name,
        )


class Bm25Retriever:
    """Lexical search over a corpus's passages (BM25, English stop words, no stemming). Building blocks."""

    about = "a search engine that matches words"

    def __init__(self, name: str, passages: list[Passage]) -> None:
        import bm25s

        if not passages:
            raise UserError(f"The corpus {name!r} is empty. Index some files into it.", kind="empty_corpus")
        self.name = f"bm25:{name}"
        self.passages = len(passages)
        self._stored = passages
        self._index = bm25s.BM25()
        tokens = bm25s.tokenize([f"{p.title}. {p.text}" for p in passages], stopwords="en", show_progress=False)
        self._index.index(tokens, show_progress=False)

    async def search(self, query: str, k: int) -> list[Evidence]:
        """The ``k`` best passages that share a word with the query."""
        return await asyncio.to_thread(self._search, query, k)

    def _search(self, query: str, k: int) -> list[Evidence]:
        import bm25s

        tokens = bm25s.tokenize([query], stopwords="en", show_progress=False, return_ids=False)
        if not tokens[0]:
            return []
        rows, scores = self._index.retrieve(tokens, k=min(k, self.passages), show_progress=False)
        found = [(self._stored[int(r)], float(s)) for r, s in zip(rows[0], scores[0], strict=True) if s > 0]
        return [
            make_evidence(
                **p.model_dump(include={"text", "title", "url", "published"}),
                source=clean(p.source) or "(no source)",
                query=query,
                score=round(score, 6),
                retriever=self.name,
            )
            for p, score in found
        ]


class TavilyRetriever:
    """Web search by Tavily. ``TAVILY_BASE_URL`` names another address of the same API."""

    name = "tavily"
    about = "a web search engine"

    def __init__(self, attempts: int = 3, timeout: float = 60.0) -> None:
        self._key = os.environ.get("TAVILY_API_KEY", "")
        if not self._key:
            raise UserError(
                "TAVILY_API_KEY is not set, so the web cannot be searched. Set it, or use the retriever `web` "
                "(which falls back to lexical search), `bm25:CORPUS` or `chroma:CORPUS`.",
                kind="missing_key",
            )
        self._attempts = attempts
        self._timeout = timeout

    async def _client(self) -> Any:
        base_url = os.environ.get("TAVILY_BASE_URL")

        def make() -> Any:
            from tavily import AsyncTavilyClient

            return AsyncTavilyClient(self._key, api_base_url=base_url, client_source="moot")

        return await made_in_thread(("tavily", base_url, self._key), make)

    async def search(self, query: str, k: int) -> list[Evidence]:
        """The first ``k`` results for a query."""

        async def call() -> Any:
            try:
                return await client.search(query[:400], max_results=k, timeout=self._timeout)
            except Exception as error:
                raise explain_tavily(error) from error

        client = await self._client()
        reply, _ = await with_retries(call, self._attempts)
        return [
            make_evidence(
                text=str(row["content"]),
                title=str(row.get("title") or ""),
                source=str(row["url"]),
                url=str(row["url"]),
                published=row.get("published_date"),
                query=query,
                score=row.get("score"),
                retriever=self.name,
            )
            for row in reply.get("results", [])[:k]
            if row.get("content") and row.get("url")
        ]


def explain_tavily(error: Exception) -> MootError:
    """An exception of the Tavily client, as an error of ours that says what to do."""
    import httpx
    from tavily import errors

    if isinstance(error, errors.InvalidAPIKeyError):
        return UserError("Tavily refused the key. Check TAVILY_API_KEY.", kind="authentication")
    if isinstance(error, errors.ForbiddenError):
        return UserError(f"Tavily refused the search ({error}). Check the plan's quota.", kind="quota")
    if isinstance(error, errors.UsageLimitExceededError):
        return WorldError("Tavily is receiving too many searches. Try later.", kind="rate_limited", retryable=True)
    if isinstance(error, errors.TimeoutError):
        return WorldError("Tavily did not answer in time. Try again later.", kind="timeout", retryable=True)
    if isinstance(error, httpx.HTTPStatusError):
        text = f"Tavily failed (HTTP {error.response.status_code}). Try again later."
        return WorldError(text, kind="server_error", retryable=error.response.status_code >= 500)
    if isinstance(error, httpx.TransportError):
        return WorldError(f"Tavily could not be reached ({error}).", kind="unreachable", retryable=True)
    return WorldError(f"Tavily sent an answer that cannot be read ({type(error).__name__}).", kind="bad_response")
