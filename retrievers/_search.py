"""Opens sources of evidence by their names. All sources have one protocol (`Retriever`).

    chroma:CORPUS   dense search: the corpus's Chroma collection, by cosine
    bm25:CORPUS     lexical search (BM25) over the corpus's passages
    hybrid:CORPUS   dense and lexical search, fused
    searxng         your own SearXNG (SEARXNG_BASE_URL)
    ddgs            DuckDuckGo and others, without a key (the package ddgs)
    tavily          web search (TAVILY_API_KEY)
    serper          Google's results (SERPER_API_KEY)
    brave           Brave's results (BRAVE_API_KEY)
    web             the first of these five that is set up (see `web_search`), else bm25 of the debate's corpus, else
                    wikipedia
    wikipedia       passages of Wikipedia's articles in the claim's language
    openalex        abstracts of scholarly works
    pubmed          abstracts of biomedical papers
    arxiv           abstracts of preprints
    fact_checks     published fact checks (GOOGLE_FACT_CHECK_API_KEY)
    langchain:MODULE:ATTRIBUTE
                    your own LangChain retriever, vector store, search tool or search wrapper
    mcp:SERVER/TOOL a tool of an MCP server, both of which the operator lists
    object:NAME     one that the settings of a debate in Python hold; only the debate itself opens it
    NAME            a source of an installed package, which an entry point of the group ``moot.sources`` declares: an
                    object with ``async def search(query, k)``

Without ``:CORPUS``, the debate's corpus is searched. If the debate has no corpus, wikipedia is searched instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from inspect import getdoc, iscoroutinefunction
from typing import Any

from moot.core.callers import names_in_variable
from moot.core.endpoint import DEFAULT_LIMITS, Limits
from moot.core.errors import UserError, did_you_mean
from moot.core.installed import Plugins
from moot.retrievers._arxiv import ArxivRetriever
from moot.retrievers._brave import BraveRetriever
from moot.retrievers._corpus import corpus_digest
from moot.retrievers._ddgs import DdgsRetriever
from moot.retrievers._encoders import DEFAULT_ENCODER
from moot.retrievers._evidence import Retriever
from moot.retrievers._fact_checks import FactChecksRetriever
from moot.retrievers._langchain_source import open_langchain
from moot.retrievers._languages import DEFAULT, language_of
from moot.retrievers._local import open_bm25, open_chroma, open_hybrid
from moot.retrievers._mcp_source import open_mcp
from moot.retrievers._normalise import WEB_SEARCHES
from moot.retrievers._openalex import OpenAlexRetriever
from moot.retrievers._pubmed import PubMedRetriever
from moot.retrievers._searxng import SearxngRetriever
from moot.retrievers._serper import SerperRetriever
from moot.retrievers._sites import ALL_SITES, Sites
from moot.retrievers._tavily import TavilyRetriever
from moot.retrievers._user_source import InstalledSource
from moot.retrievers._web import WebRetriever
from moot.retrievers._wikipedia import WikipediaRetriever

ABOUT = {
    "chroma": "a collection of passages, searched by meaning",
    "bm25": "a search engine that matches words",
    "hybrid": "a collection of passages, searched by meaning and by words",
    **dict.fromkeys(WEB_SEARCHES, "a web search engine"),
    "wikipedia": "an encyclopaedia",
    "openalex": "an index of scholarly works",
    "pubmed": "an index of biomedical papers",
    "arxiv": "an archive of preprints in the sciences",
    "fact_checks": "published fact checks by others",
    "langchain": "a collection of documents",
    "mcp": "a search tool",
    "object": "a collection of documents",
}
"""A description of each source in a few words, for a debater."""
WEB: dict[str, type[WebRetriever]] = {
    "searxng": SearxngRetriever,
    "ddgs": DdgsRetriever,
    "tavily": TavilyRetriever,
    "serper": SerperRetriever,
    "brave": BraveRetriever,
    "wikipedia": WikipediaRetriever,
    "openalex": OpenAlexRetriever,
    "pubmed": PubMedRetriever,
    "arxiv": ArxivRetriever,
    "fact_checks": FactChecksRetriever,
}
ONLINE = tuple(WEB)
"""The names of the sources on the web."""
INSTALLED = Plugins("source", {*ABOUT, "web", "given", "person"}, "unknown_retriever")
"""Sources of installed packages. A server's callers may name them, because the server's operator has installed them."""
CORPUS_SOURCES = ("chroma", "bm25", "hybrid")
"""The kinds of sources that search corpora."""
PREFERRED = "MOOT_WEB_SEARCH"
"""The environment variable with the web searches that ``web`` may use, in order; by default, all of `WEB_SEARCHES`."""
NO_WEB_SEARCH = "no web search is set up"
SET_UP_WEB_SEARCH = (
    'Without a key: pip install "moot[ddgs]", or a SearXNG of your own (SEARXNG_BASE_URL). With a key: TAVILY_API_KEY, '
    "SERPER_API_KEY or BRAVE_API_KEY."
)
STAND_IN = "wikipedia"
"""The source that is searched instead of a source that lacks a corpus or a key. It needs neither."""
PAID = ("tavily", "serper", "brave")
"""Sources whose vendors charge for each search."""
SCHOLARLY = ("openalex",)
"""Sources for which a model turns the query into keywords, and whose abstracts can be summarised."""


async def open_retriever(
    name: str,
    *,
    corpus: str | None = None,
    encoder: str = DEFAULT_ENCODER,
    limits: Limits = DEFAULT_LIMITS,
    published_before: str | None = None,
    sites: Sites = ALL_SITES,
    reranker: str | None = None,
    recent: bool = False,
    claim: str = "",
) -> Retriever:
    """The source with this name. A corpus is opened once per event loop, and reopened if it has changed.

    Args:
        name: a name as in this module's docstring.
        corpus: the corpus for names without ``:CORPUS``; None or empty for no corpus.
        encoder: the name of the encoder for dense search.
        limits: limits of web sources, and of encoders behind an endpoint. For LangChain objects and sources of
            packages, only ``timeout`` is used.
        published_before: a day in ISO form; web sources that can filter by date leave out pieces published on this day
            or later.
        sites: the sites to which search engines that can do so confine themselves.
        reranker: the name of the cross-encoder that reranks the best passages of hybrid search; None for no reranking.
        recent: whether a cached state of the corpus, at most one second old, may be used. Set ``recent`` only if the
            corpus has been opened before.
        claim: the debated claim; Wikipedia is searched in its language. By default, in English.

    Raises:
        UserError: the source is unknown or misconfigured, or ``published_before`` is not a day. Or the source's corpus,
            encoder, reranker, package or key is missing or cannot be used.
        WorldError: the Chroma server or the encoder's endpoint failed.
    """
    if not isinstance(name, str):
        raise UserError(
            f"A source is opened by its name, a text, not by a {type(name).__name__}. A retriever or vector store of "
            "LangChain needs no opening: name it in the settings as it is.",
            kind="unknown_retriever",
        )
    kind, given = resolve(name, corpus)
    if kind == "wikipedia":
        language = await asyncio.to_thread(language_of, claim) if claim else DEFAULT
        return WikipediaRetriever(limits, published_before, language)
    if kind in WEB:
        return WEB[kind](limits, published_before, sites)
    if kind == "langchain":
        return await open_langchain(given, limits)
    if kind == "mcp":
        return await open_mcp(given, limits)
    if kind == "object":
        raise UserError(
            f"{name} is an object of a Python program, which this debate does not have. Pass the object again, or name "
            "it as langchain:MODULE:ATTRIBUTE.",
            kind="unknown_retriever",
        )
    if kind in INSTALLED.names():
        return InstalledSource(kind, await asyncio.to_thread(installed_source, kind), limits)
    if kind == "chroma":
        return await open_chroma(given, encoder, limits, recent=recent)
    if kind == "hybrid":
        return await open_hybrid(given, encoder, limits, reranker, recent=recent)
    return await open_bm25(given, recent=recent)


def about_source(name: str, corpus: str | None = None) -> str:
    """The description of a source for a debater, for a package's source the first line of its docstring; blocking."""
    kind, _ = resolve(name, corpus)
    if kind in ABOUT:
        return ABOUT[kind]
    return (getdoc(installed_source(kind)) or "a collection of documents").partition("\n")[0].rstrip(".")


def installed_source(name: str) -> Any:
    """The object that a package declares as the source with this name, and which the first use imports; blocking."""
    found = INSTALLED.load(name)
    if isinstance(found, type) or not iscoroutinefunction(getattr(found, "search", None)):
        raise INSTALLED.error(name, "it is not an object with `async def search(query, k)`")
    return found


def contents(names: Iterable[str], corpus: str | None) -> tuple[dict[str, str], dict[str, str]]:
    """The digest of each corpus, and the kind of each source whose name does not begin with it (``web``); blocking."""
    kinds = {name: resolve(name, corpus) for name in sorted(set(names))}
    corpora = {given for kind, given in kinds.values() if kind in CORPUS_SOURCES}
    digests = {name: corpus_digest(name) for name in sorted(corpora)}
    return digests, {name: kind for name, (kind, _) in kinds.items() if kind != name.partition(":")[0]}


def web_search() -> str | None:
    """The source that ``web`` stands for: the first web search that is set up; None if none is."""
    names = [*names_in_variable(PREFERRED)] or WEB_SEARCHES
    if unknown := next((name for name in names if name not in WEB_SEARCHES), None):
        raise UserError(
            f"{PREFERRED} names {unknown[:60]!r}, which is no web search. Known: {', '.join(WEB_SEARCHES)}.",
            kind="invalid_environment",
        )
    return next((name for name in names if WEB[name].is_set_up()), None)


def resolve(name: str, corpus: str | None = None) -> tuple[str, str]:
    """The kind of a source (a key of `ABOUT`, or a package's source), and its corpus or object, if any."""
    kind, colon, given = name.partition(":")
    INSTALLED.check(kind)
    if kind == "web" and not colon:
        kind = web_search() or "bm25"
    known = [*ABOUT, *INSTALLED.names()]
    is_invalid = kind not in CORPUS_SOURCES or not given
    if kind == "langchain":
        colon, is_invalid = ":", not all(given.partition(":"))
    if kind == "mcp":
        colon, is_invalid = ":", not all(given.partition("/"))
    if kind == "object":
        is_invalid = not given
    if kind not in known or (colon and is_invalid):
        advice = "" if kind in known else did_you_mean(kind, known)
        raise UserError(
            f"The retriever {name!r} is unknown. {advice}Known: chroma, bm25, hybrid (each alone or with :CORPUS), "
            f"{', '.join([*ONLINE, 'web', *INSTALLED.names()])}, langchain:MODULE:ATTRIBUTE, mcp:SERVER/TOOL.",
            kind="unknown_retriever",
        )
    if kind in CORPUS_SOURCES and not (given := given or corpus or ""):
        # For a source that needs a corpus and has none
        return STAND_IN, ""
    return kind, given
