"""Sources by name, behind one protocol.

    chroma:CORPUS   dense search: the corpus's Chroma collection, by cosine
    bm25:CORPUS     lexical search over the same passages
    hybrid:CORPUS   both, fused
    tavily          web search (TAVILY_API_KEY)
    serper          Google's results (SERPER_API_KEY)
    web             tavily where its key is set, else serper where its is, else bm25 over the corpus; a debate with a
                    model of the user's own and no corpus reads wikipedia then
    wikipedia       the first sections of Wikipedia's articles
    openalex        abstracts of scholarly works
    pubmed          abstracts of biomedical papers
    arxiv           abstracts of preprints
    langchain:MODULE:ATTRIBUTE
                    a LangChain retriever or vector store of your own

Without ``:CORPUS`` the debate's corpus is meant; where none is set, the demo corpora: the encyclopaedia for ``chroma``
and ``hybrid``, news and notices for the others.
"""

from __future__ import annotations

from collections.abc import Iterable

from moot.core.endpoint import DEFAULT_LIMITS, Limits
from moot.core.errors import UserError, nearest
from moot.retrievers.arxiv import ArxivRetriever
from moot.retrievers.corpus import corpus_digest
from moot.retrievers.encoders import DEFAULT_ENCODER
from moot.retrievers.evidence import Retriever
from moot.retrievers.langchain_source import open_langchain
from moot.retrievers.local import open_bm25, open_chroma, open_hybrid
from moot.retrievers.openalex import OpenAlexRetriever
from moot.retrievers.pubmed import PubMedRetriever
from moot.retrievers.serper import SerperRetriever
from moot.retrievers.tavily import TavilyRetriever
from moot.retrievers.web import WebRetriever
from moot.retrievers.wikipedia import WikipediaRetriever

ABOUT = {
    "chroma": "a collection of passages, searched by meaning",
    "bm25": "a search engine that matches words",
    "hybrid": "a collection of passages, searched by meaning and by words",
    "tavily": "a web search engine",
    "serper": "a web search engine",
    "wikipedia": "an encyclopaedia",
    "openalex": "an index of scholarly works",
    "pubmed": "an index of biomedical papers",
    "arxiv": "an archive of preprints in the sciences",
    "langchain": "a collection of documents",
}
"""What a source is, in a few words for a debater."""
WEB: dict[str, type[WebRetriever]] = {
    "tavily": TavilyRetriever,
    "serper": SerperRetriever,
    "wikipedia": WikipediaRetriever,
    "openalex": OpenAlexRetriever,
    "pubmed": PubMedRetriever,
    "arxiv": ArxivRetriever,
}
ONLINE = tuple(WEB)
"""Sources without a corpus."""
DEMO = {"chroma": "demo-encyclopaedia", "hybrid": "demo-encyclopaedia", "bm25": "demo-news"}
"""The demo corpora of names that give no corpus."""
SCHOLARLY = ("openalex",)
"""Sources that are asked by keywords, and whose pieces are abstracts."""


async def open_retriever(
    name: str,
    *,
    corpus: str | None = None,
    encoder: str = DEFAULT_ENCODER,
    limits: Limits = DEFAULT_LIMITS,
    published_before: str | None = None,
    reranker: str | None = None,
    keyless_web: str = "bm25",
    recent: bool = False,
) -> Retriever:
    """The source of that name, opened once per process or event loop.

    Args:
        name: as in this module's text.
        corpus: the corpus of names that give none.
        encoder: the encoder of dense search, by name.
        limits: how web sources, and encoders behind an endpoint, may be called.
        published_before: a day in ISO form; web sources that can tell are not asked for what was published on it or
            later.
        reranker: the cross-encoder that hybrid search has its best passages ranked by, by name; None for none.
        keyless_web: the kind of source that ``web`` is without a key, bm25 or wikipedia.
        recent: whether a corpus may be taken as it was a moment ago (`RECENT`): for those who opened it before.

    Raises:
        UserError: an unknown source, a missing corpus or key.
    """
    kind, given = resolve(name, keyless_web)
    corpus = given or corpus or demo_corpus(kind)
    if kind in WEB:
        return WEB[kind](limits, published_before)
    if kind == "langchain":
        return await open_langchain(given, limits)
    if kind == "chroma":
        return await open_chroma(corpus, encoder, limits, recent=recent)
    if kind == "hybrid":
        return await open_hybrid(corpus, encoder, limits, reranker, recent=recent)
    return await open_bm25(corpus, recent=recent)


def demo_corpus(name: str, corpus: str | None = None) -> str:
    """The demo corpus that is read under a source's name; empty if that or the setting ``corpus`` names another."""
    return "" if corpus else DEMO.get(name, "")


def contents(names: Iterable[str], corpus: str | None, keyless_web: str) -> tuple[dict[str, str], dict[str, str]]:
    """What is read under the names of sources. Blocking.

    Args:
        names: as in this module's text.
        corpus: the corpus of names that give none.
        keyless_web: the kind of source that ``web`` is without a key, bm25 or wikipedia.

    Returns:
        By corpus the digest of its passages; by name the kind of source, if the name does not say it.

    Raises:
        UserError: an unknown source or corpus, an unfinished or a damaged one.
    """
    kinds = {name: resolve(name, keyless_web) for name in sorted(set(names))}
    read = {given or corpus or demo_corpus(kind) for kind, given in kinds.values() if kind in DEMO}
    digests = {name: corpus_digest(name) for name in sorted(read)}
    return digests, {name: kind for name, (kind, _) in kinds.items() if kind != name.partition(":")[0]}


def resolve(name: str, keyless_web: str = "bm25") -> tuple[str, str]:
    """The kind of a source's name (a key of `ABOUT`), and what follows: a corpus, a module and attribute, or "".

    Args:
        name: as in this module's text.
        keyless_web: the kind of source that ``web`` is without a key, bm25 or wikipedia.

    Raises:
        UserError: an unknown source.
    """
    kind, colon, given = name.partition(":")
    if kind == "web" and not colon:
        kind = next((k for k in ("tavily", "serper") if WEB[k].source.key()), keyless_web)
    unfit = kind in ONLINE or not given
    if kind == "langchain":
        colon, unfit = ":", not all(given.partition(":"))
    if kind not in ABOUT or (colon and unfit):
        meant = "" if kind in ABOUT else nearest(kind, ABOUT)
        raise UserError(
            f"The retriever {name!r} is unknown. {meant}Known: chroma, bm25, hybrid (each alone or with :CORPUS), "
            f"{', '.join(ONLINE)}, web, langchain:MODULE:ATTRIBUTE.",
            kind="unknown_retriever",
        )
    return kind, given
