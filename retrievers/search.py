"""Sources by name, behind one protocol.

    chroma:CORPUS   dense search: the corpus's Chroma collection, by cosine
    bm25:CORPUS     lexical search over the same passages
    tavily          web search (TAVILY_API_KEY)
    web             tavily where its key is set, else bm25 over the corpus
    openalex        abstracts of scholarly works

Without ``:CORPUS`` the debate's corpus is meant; where none is set, the demo corpora: the encyclopaedia for ``chroma``,
news and notices for the others.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from moot.retrievers.corpus import (
    Corpus,
    Passage,
    all_passages,
    check_dimension,
    chroma_errors,
    corpus_state,
    open_corpus,
)
from moot.retrievers.encoders import DEFAULT_ENCODER, Encoder, open_encoder
from moot.retrievers.endpoint import (
    DEFAULT_LIMITS,
    Limits,
    made_in_thread,
    made_once,
    make_client,
    retry_after_seconds,
    said_by,
    with_retries,
)
from moot.retrievers.errors import MootError, UserError, WorldError
from moot.retrievers.evidence import Evidence, Retriever, clean, make_evidence
from moot.retrievers.lazy import imported
from moot.retrievers.openalex import OpenAlexRetriever
from pydantic import BaseModel, FiniteFloat, ValidationError

ABOUT = {
    "chroma": "a collection of passages, searched by meaning",
    "bm25": "a search engine that matches words",
    "tavily": "a web search engine",
    "openalex": "an index of scholarly works",
}
"""What a source is, in a few words for a debater."""
ONLINE = ("tavily", "openalex")
"""Sources without a corpus."""
SCHOLARLY = ("openalex",)
"""Sources that are asked by keywords, and whose pieces are abstracts."""
TAVILY = "https://api.tavily.com"
LONGEST_WEB_QUERY = 400
"""Characters of a query that Tavily takes; the rest is cut off."""
MOST_WEB_RESULTS = 20
"""Results per search that Tavily gives at most."""


async def open_retriever(
    name: str,
    *,
    corpus: str | None = None,
    encoder: str = DEFAULT_ENCODER,
    limits: Limits = DEFAULT_LIMITS,
) -> Retriever:
    """The source of that name, opened once per process or event loop.

    Args:
        name: as in this module's text.
        corpus: the corpus of names that give none.
        encoder: the encoder of dense search, by name.
        limits: how web sources, and encoders behind an endpoint, may be called.

    Raises:
        UserError: an unknown source, a missing corpus or key.
    """
    kind, given = resolve(name)
    if kind == "tavily":
        return TavilyRetriever(limits)
    if kind == "openalex":
        return OpenAlexRetriever(limits)
    if kind == "chroma":
        return await open_chroma(given or corpus or "demo-encyclopaedia", encoder, limits)
    return await open_bm25(given or corpus or "demo-news")


def resolve(name: str) -> tuple[str, str]:
    """The kind of a source's name (a key of `ABOUT`), and its corpus or "".

    Raises:
        UserError: an unknown source.
    """
    kind, colon, given = name.partition(":")
    if kind == "web" and not given:
        kind = "tavily" if os.environ.get("TAVILY_API_KEY") else "bm25"
    if kind not in ABOUT or (colon and (kind in ONLINE or not given)):
        raise UserError(
            f"The retriever {name!r} is unknown. Known: chroma, chroma:CORPUS, bm25, bm25:CORPUS, tavily, web, "
            "openalex.",
            kind="unknown_retriever",
        )
    return kind, given


async def open_chroma(corpus: str, encoder: str, limits: Limits = DEFAULT_LIMITS) -> ChromaRetriever:
    """Dense search in a corpus, opened once per event loop and state of the corpus."""

    async def make() -> ChromaRetriever:
        tool = await open_encoder(encoder, limits)
        return ChromaRetriever(await open_corpus(corpus, tool.name), tool, corpus)

    state = await asyncio.to_thread(corpus_state, corpus)
    return await made_once(("chroma", corpus, state, encoder, limits), make)


async def open_bm25(corpus: str) -> Bm25Retriever:
    """Lexical search in a corpus, opened once per event loop and state of the corpus."""
    state = await asyncio.to_thread(corpus_state, corpus)
    return await made_in_thread(("bm25", corpus, state), lambda: Bm25Retriever(corpus, all_passages(corpus)))


class ChromaRetriever:
    """Dense search in a corpus. Scores are cosines."""

    def __init__(self, corpus: Corpus, encoder: Encoder, name: str) -> None:
        self.name = f"chroma:{name}"
        self.encoder = encoder.name
        self.passages = corpus.manifest.passages
        self._corpus = corpus
        self._encoder = encoder

    async def search(self, query: str, k: int) -> list[Evidence]:
        """The ``k`` passages nearest to the query.

        Raises:
            UserError: the encoder's vectors do not fit the corpus, or the corpus is damaged.
            WorldError: the encoder's endpoint failed.
        """
        query = clean(query)
        if not query:
            return []
        vectors = await self._encoder.embed([query])
        check_dimension(self._corpus.manifest, len(vectors[0]))
        found = await asyncio.to_thread(self._query, vectors, k)
        rows = zip(found["documents"][0], found["metadatas"][0], found["distances"][0], strict=True)
        return [self._piece(query, text, about, distance) for text, about, distance in rows]

    def _query(self, vectors: list[list[float]], k: int) -> Any:
        include = ["documents", "metadatas", "distances"]
        with chroma_errors(self._corpus.manifest.name, "it cannot be searched"):
            return self._corpus.collection.query(query_embeddings=vectors, n_results=k, include=include)

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

    def __init__(self, name: str, passages: list[Passage]) -> None:
        bm25s = imported("bm25s")
        if not passages:
            raise UserError(f"The corpus {name!r} is empty. Index some files into it.", kind="empty_corpus")
        self.name = f"bm25:{name}"
        self.passages = len(passages)
        self._stored = passages
        self._index = bm25s.BM25()
        tokens = bm25s.tokenize([f"{p.title}. {p.text}" for p in passages], stopwords="en", show_progress=False)
        if not any(tokens.ids):
            raise UserError(
                f"The corpus {name!r} holds no words to search for; use chroma:{name}.", kind="empty_corpus"
            )
        self._index.index(tokens, show_progress=False)

    async def search(self, query: str, k: int) -> list[Evidence]:
        """The ``k`` best passages that share a word with the query."""
        return await asyncio.to_thread(self._search, clean(query), k)

    def _search(self, query: str, k: int) -> list[Evidence]:
        bm25s = imported("bm25s")
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


class TavilyResult(BaseModel):
    """A result of Tavily's, as far as it is read. ``content`` is an excerpt of the page."""

    url: str
    content: str
    title: str | None = None
    score: FiniteFloat | None = None
    published_date: str | None = None


class TavilyReply(BaseModel):
    """An answer of Tavily's, as far as it is read."""

    results: list[TavilyResult]


class TavilyRetriever:
    """Web search by Tavily. ``TAVILY_BASE_URL`` names another address of the same API."""

    name = "tavily"

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._key = os.environ.get("TAVILY_API_KEY", "")
        if not self._key:
            raise UserError(
                "TAVILY_API_KEY is not set, so the web cannot be searched. Set it, or use the retriever `web` "
                "(which falls back to lexical search), `bm25:CORPUS` or `chroma:CORPUS`.",
                kind="missing_key",
            )
        self._limits = limits

    async def _client(self) -> Any:
        base_url = os.environ.get("TAVILY_BASE_URL")

        def make_http() -> Any:
            hooks = {"response": [check_tavily]}
            return make_client(imported("httpx").AsyncClient, base_url or TAVILY, event_hooks=hooks)

        def make() -> Any:
            return imported("tavily").AsyncTavilyClient(
                self._key, api_base_url=base_url, client_source="moot", client=http
            )

        http = await made_in_thread(("http for tavily", base_url, self._key), make_http)
        return await made_in_thread(("tavily", base_url, self._key), make)

    async def search(self, query: str, k: int) -> list[Evidence]:
        """The first ``k`` results for a query (20 at most) that hold text."""
        query = clean(query)[:LONGEST_WEB_QUERY]
        if not query:
            return []

        async def call() -> TavilyReply:
            try:
                found = await client.search(query, max_results=min(k, MOST_WEB_RESULTS), timeout=self._limits.timeout)
                return TavilyReply.model_validate(found)
            except MootError:
                raise
            except Exception as error:
                raise explain_tavily(error) from error

        client = await self._client()
        reply, _ = await with_retries(call, self._limits.attempts)
        return [
            make_evidence(
                text=row.content,
                title=row.title or "",
                source=row.url,
                url=row.url,
                published=row.published_date,
                query=query,
                score=row.score,
                retriever=self.name,
            )
            for row in reply.results[:k]
            if clean(row.content)
        ]


async def check_tavily(response: Any) -> None:
    """Raises our error for what is no answer; Tavily's client drops the Retry-After header and adds missing results."""
    status, body = response.status_code, await response.aread()
    if status == 200:
        TavilyReply.model_validate_json(body)
        return
    try:
        detail = json.loads(body).get("detail")
        said = said_by(detail.get("error") if isinstance(detail, dict) else detail)
    except (ValueError, AttributeError):
        said = ""
    if status == 401:
        raise UserError(f"Tavily refused the key (HTTP 401{said}). Check TAVILY_API_KEY.", kind="authentication")
    if status in (403, 432, 433):
        raise UserError(f"Tavily refused the search (HTTP {status}{said}). Check the plan's quota.", kind="quota")
    if status == 429 or status >= 500:
        raise WorldError(
            f"Tavily is receiving too many searches (HTTP 429{said}). Try again later."
            if status == 429
            else f"Tavily failed (HTTP {status}{said}). Try again later.",
            kind="rate_limited" if status == 429 else "server_error",
            retryable=True,
            retry_after=retry_after_seconds(response.headers.get("retry-after")),
        )
    raise UserError(
        f"Tavily did not accept the search (HTTP {status}{said}). Check TAVILY_BASE_URL and the query.",
        kind="bad_request",
    )


def explain_tavily(error: Exception) -> MootError:
    """An exception of the Tavily client, as an error of ours that says what to do."""
    httpx, errors = imported("httpx"), imported("tavily.errors")
    if isinstance(error, errors.TimeoutError):
        return WorldError("Tavily did not answer in time. Try again later.", kind="timeout", retryable=True)
    if isinstance(error, httpx.TransportError):
        why = str(error) or type(error).__name__
        text = f"Tavily could not be reached ({why}). Check the network and TAVILY_BASE_URL."
        return WorldError(text, kind="unreachable", retryable=True)
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        why = f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    else:
        why = type(error).__name__
    return WorldError(f"Tavily sent an answer that cannot be read ({why}). Check TAVILY_BASE_URL.", kind="bad_response")
