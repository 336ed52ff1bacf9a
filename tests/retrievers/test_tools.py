"""LangChain's search tools and wrappers as sources, and the forms in which tools answer."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.tools import StructuredTool, Tool, ToolException
from moot.nodes._runtime.settings import SourcesSettings
from moot.retrievers import MootError, UserError, WorldError, open_retriever
from moot.retrievers._results import pieces_of, tool_arguments

ROW = {"title": "Baikal", "link": "https://example.org/baikal", "snippet": "A deep lake.", "date": "2024-05-01"}


@dataclass
class Found:
    """A result as an object."""

    title: str
    url: str
    text: str
    published_date: str


@dataclass
class Response:
    """An answer as an object."""

    results: list[Found]


def tool(answer: Any, **options: Any) -> StructuredTool:
    """A tool that answers each query with ``answer``."""

    def search(query: str) -> Any:
        """Searches."""
        return answer

    return StructuredTool.from_function(search, **options)


async def found_by(monkeypatch: pytest.MonkeyPatch, searcher: object, k: int = 5) -> list[Any]:
    """The pieces that a source ``langchain:own:it`` finds."""
    made = ModuleType("own")
    vars(made)["it"] = searcher
    monkeypatch.setitem(sys.modules, "own", made)
    return [*await (await open_retriever("langchain:own:it")).search("deepest lake", k)]


FORMS = [
    [ROW],
    json.dumps([ROW]),
    str([ROW]),
    {"query": "q", "images": [], "results": [{"url": ROW["link"], "content": ROW["snippet"], **ROW, "score": 0.9}]},
    json.dumps({"searchParameters": {"q": "q"}, "organic": [ROW], "credits": 1}),
    {"type": "search", "web": {"results": [{**ROW, "description": ROW["snippet"], "page_age": "2024-05-01"}]}},
    {"webPages": {"value": [{"name": "Baikal", "url": ROW["link"], "snippet": ROW["snippet"], "date": "2024-05-01"}]}},
    {"result": [ROW]},
    [
        Document(
            ROW["snippet"],
            metadata={"title": "Baikal", "source": ROW["link"], "url": ROW["link"], "date": "2024-05-01"},
        )
    ],
    Response([Found("Baikal", ROW["link"], ROW["snippet"], "2024-05-01")]),
    [json.dumps(ROW)],
    [{"title": "Baikal", "url": ROW["link"], "highlights": ["A deep", "lake."], "publishedDate": "2024-05-01"}],
]
"""The same result in the forms of LangChain's tools for DuckDuckGo, Brave, Searx, Tavily, Serper, Bing and Exa, and of
MCP servers."""


@pytest.mark.parametrize("answer", FORMS, ids=range(len(FORMS)))
async def test_results_in_the_forms_of_usual_tools_become_evidence(
    monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    [piece] = await found_by(monkeypatch, tool(answer))
    assert (piece["title"], piece["text"], piece["source"]) == ("Baikal", "A deep lake.", ROW["link"])
    assert (piece["url"], piece["published"]) == (ROW["link"], "2024-05-01")
    assert piece["retrievals"][0]["retriever"] == "langchain:own:it"


async def test_the_artifact_of_a_tool_is_preferred_to_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of DuckDuckGoSearchResults, whose text is no JSON."""
    answer = (f"snippet: {ROW['snippet']}, title: Baikal", [ROW])
    [piece] = await found_by(monkeypatch, tool(answer, response_format="content_and_artifact"))
    assert (piece["text"], piece["url"]) == ("A deep lake.", ROW["link"])


async def test_plain_texts_become_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    [piece] = await found_by(monkeypatch, Tool("search", lambda query: f"About {query}.", "Searches."))
    assert (piece["text"], piece["source"], "url" in piece) == ("About deepest lake.", "langchain:own:it", False)
    text = "Page: Baikal\nSummary: A lake.\nIt is deep.\n\nPage: Loch\nSummary: A lake, too."
    first, second = await found_by(monkeypatch, tool(text))
    assert (first["title"], first["text"], second["title"]) == ("Baikal", "A lake.\nIt is deep.", "Loch")


class Wrapper:
    """As DuckDuckGoSearchAPIWrapper."""

    def results(self, query: str, max_results: int, source: str | None = None) -> list[dict[str, str]]:
        return [
            {"title": f"{query} {n}", "snippet": "Deep.", "link": f"https://example.org/{n}"}
            for n in range(max_results)
        ]


class Serper:
    """As GoogleSerperAPIWrapper."""

    def results(self, query: str, **more: Any) -> dict[str, Any]:
        assert not more
        return {"organic": [ROW, ROW]}


class Encyclopaedia:
    """As WikipediaAPIWrapper."""

    def load(self, query: str) -> list[Document]:
        return [Document(f"About {query}.")]


@pytest.mark.parametrize(("wrapper", "count"), [(Wrapper(), 3), (Serper(), 2), (Encyclopaedia(), 1)])
async def test_wrappers_of_search_apis_are_searched(
    monkeypatch: pytest.MonkeyPatch, wrapper: object, count: int
) -> None:
    assert len(await found_by(monkeypatch, wrapper, 3)) == count


@pytest.mark.parametrize("answer", [[], "", "[]", None, {"results": []}, "No good search result found",
                                    [{"Result": "No good DuckDuckGo Search Result was found"}],
                                    "No good Wikipedia Search Result was found"], ids=str)  # fmt: skip
async def test_an_answer_without_results_finds_nothing(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    assert await found_by(monkeypatch, tool(answer)) == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([{"colour": "blue", "size": 3}], "results with colour, size, in which there is no text. A result needs"),
        ({"colour": "blue"}, "results with colour"),
        ([3], "a list of int"),
        ("HTTPError('401 Client Error: Unauthorized')", "reports a fault: HTTPError.'401"),
        ({"error": ValueError("no key")}, "reports a fault: ValueError: no key"),
        ({"error": "Your key SECRET-0123456789 is invalid."}, r"fault: Your key \[LAKE_API_KEY\] is"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_an_error(
    monkeypatch: pytest.MonkeyPatch, answer: Any, words: str
) -> None:
    monkeypatch.setenv("LAKE_API_KEY", "SECRET-0123456789")
    with pytest.raises(WorldError, match=words):
        await found_by(monkeypatch, tool(answer))


@pytest.mark.parametrize("form", ["content", "content_and_artifact"])
async def test_an_error_that_a_tool_handles_is_no_evidence(monkeypatch: pytest.MonkeyPatch, form: Any) -> None:
    def search(query: str) -> Any:
        """Searches."""
        raise ToolException("The quota is used up.")

    handled = StructuredTool.from_function(search, handle_tool_error=True, response_format=form)
    with pytest.raises(MootError, match="The quota is used up"):
        await found_by(monkeypatch, handled)


SCHEMA = {"properties": {"q": {"type": "string"}, "count": {"type": "integer", "maximum": 8}}, "required": ["q"]}


@pytest.mark.parametrize(
    ("schema", "fixed", "expected"),
    [
        (SCHEMA, {}, {"q": "lake", "count": 8}),
        (SCHEMA, {"count": 2}, {"q": "lake", "count": 2}),
        ({"properties": {"term": {"type": "string"}}}, {}, {"term": "lake"}),
        (
            {"properties": {"a": {"type": "string"}, "query": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
            {},
            {"query": "lake"},
        ),
        (
            {"properties": {"term": {"type": "string"}, "lang": {"type": "string"}}, "required": ["term", "lang"]},
            {"lang": "de"},
            {"term": "lake", "lang": "de"},
        ),
    ],
)
def test_the_arguments_of_a_tool_follow_its_schema(schema: Any, fixed: Any, expected: Any) -> None:
    assert tool_arguments("a tool", schema, "lake", 30, fixed) == expected


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (
            {"properties": {"query": {"type": "string"}, "a": {}, "b": {}}, "required": ["a", "b"]},
            "needs the arguments a, b",
        ),
        ({"properties": {"number": {"type": "integer"}}}, "takes no query"),
        ({}, "takes no query"),
    ],
)
def test_a_tool_that_does_not_take_a_query_alone_is_refused(schema: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        tool_arguments("a tool", schema, "lake", 5, {})


def test_a_long_answer_is_an_error() -> None:
    with pytest.raises(WorldError, match="more than 5,000,000 characters"):
        pieces_of("x" * 5_000_001, "lake", "a tool")


def test_deeply_nested_text_is_a_text() -> None:
    [piece] = pieces_of("[" * 200_000, "lake", "a tool")
    assert piece["text"].startswith("[[")


def test_settings_take_tools_and_wrappers_as_objects() -> None:
    settings = SourcesSettings(sources=(tool([ROW]), Wrapper()))
    assert settings.sources == ("object:search", "object:Wrapper")
    with pytest.raises(UserError, match="search tool or search wrapper"):
        SourcesSettings(sources=(Wrapper,))
