"""Results of others' search tools as evidence: LangChain documents, and the answers of LangChain and MCP tools.

Such tools return texts, documents, or objects and lists of objects, also as JSON or as Python writes them. Each vendor
has other names for a result's text, title, address and date.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any

from moot.core.errors import UserError, WorldError
from moot.retrievers._evidence import Evidence, clean, make_evidence
from moot.retrievers._user_source import UserSource, short_error, short_text

LISTS = (
    *("results", "organic", "organic_results", "web", "webPages", "value", "items", "documents", "articles", "news"),
    *("data", "hits", "result"),
)
"""The names of lists of results in an answer, in order of preference; a list may be in an object with such a name."""
TEXTS = ("page_content", "content", "text", "snippet", "body", "description", "summary", "highlights", "extract")
TITLES = ("title", "name", "heading")
ADDRESSES = ("url", "link", "href", "uri", "source")
DATES = ("published", "published_date", "publishedDate", "date", "page_age")
SCORES = ("score",)
QUERIES = ("query", "q", "search_query", "question", "search", "search_term", "input", "tool_input", "text", "keywords")
"""The names of a tool's argument for the query, in order of preference."""
COUNTS = ("max_results", "num_results", "count", "limit", "k", "n", "top_k")
"""The names of a tool's argument for the number of results."""
MOST = 20
"""The largest number of results that a tool is asked for, if it does not say how many it allows."""
LONGEST = 5_000_000
"""Maximum number of characters of an answer."""
NOTHING = re.compile(
    r"no (good |relevant )?[\w ]{0,40}(results?|documents?|pages?) (was |were )?found\.?", re.IGNORECASE
)
"""How tools say in place of a result that they found nothing."""
FAULT = re.compile(r"(\w+\.)*\w*(Error|Exception|Timeout)\(.*\)", re.DOTALL)
"""How tools write an exception in place of a result."""
WIKIPEDIA_PAGE = re.compile(r"Page: (.+)\nSummary: ([\s\S]+)")


class ToolSource(UserSource):
    """A search tool as a source: its results, in its order, as pieces."""

    gives_snippets = True

    async def _answer(self, query: str, k: int) -> Any:
        """What the tool returns; each subclass implements this."""
        raise NotImplementedError

    async def _pieces(self, query: str, k: int) -> list[Evidence]:
        return pieces_of(await self._answer(query, k), query, self.name)[:k]


def tool_arguments(
    name: str, schema: Mapping[str, Any], query: str, k: int, fixed: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a tool, by the JSON schema of its input: the query, the number of results, and fixed values."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = [one for one in schema.get("required", ()) if one not in fixed]
    texts = [one for one, about in properties.items() if _has_type(about, "string") and one not in fixed]
    only = [one for one in required if one in texts] or texts
    place = next((one for one in QUERIES if one in texts), only[0] if len(only) == 1 else None)
    lacking = [one for one in required if one != place]
    if place is None or lacking:
        what = f"needs the argument{'s' * (len(lacking) > 1)} {', '.join(lacking)}" if lacking else "takes no query"
        raise UserError(
            f"{name} {what}. A source is a tool that needs only a query. Give it the other arguments in `tools` of "
            "the MCP server's entry, or in a LangChain tool of your own.",
            kind="unknown_retriever",
        )
    counts = {
        one: min(k, int(properties[one].get("maximum", MOST)))
        for one in COUNTS
        if one in properties and one not in fixed and _has_type(properties[one], "integer", "number")
    }
    return {**fixed, **counts, place: query}


def _has_type(about: Mapping[str, Any], *types: str) -> bool:
    """Whether a value of one of the types may be given, or any value."""
    options = [about, *about.get("anyOf", ())]
    named = [one["type"] for one in options if "type" in one]
    return not named or any(one in types or (isinstance(one, list) and {*one} & {*types}) for one in named)


def pieces_of(answer: Any, query: str, name: str) -> list[Evidence]:
    """The results in a tool's answer as pieces; WorldError if it reports a fault, or has nothing that can be used."""
    rows = list(_rows(answer, name))
    pieces = [piece for row in rows if (piece := _piece(row, query, name))["text"]]
    if rows and not pieces:
        found = f"a list of {type(rows[0]).__name__}"
        if isinstance(rows[0], Mapping):
            found = f"results with {', '.join(str(one) for one in [*rows[0]][:8]) or 'no fields'}"
        raise WorldError(
            f"{name} answered with {found[:200]}, in which there is no text. A result needs a text, as "
            f"{', '.join(TEXTS[1:4])} or {TEXTS[4]}.",
            kind="bad_response",
        )
    return [piece for piece in pieces if not NOTHING.fullmatch(piece["text"])]


def _rows(answer: Any, name: str) -> Iterator[Any]:
    """The results in an answer, each a text, a document or a mapping."""
    if isinstance(answer, str):
        answer = _parsed(answer, name)
    if isinstance(answer, str):
        if answer.strip():
            yield from (part for part in re.split(r"\n\n(?=Page: )", answer))
    elif isinstance(answer, list | tuple):
        for one in answer:
            yield from _rows(one, name) if isinstance(one, str | list | tuple) else [one]
    elif answer is not None:
        fields = _fields(answer)
        inside = _inside(fields)
        if (fault := fields.get("error")) and not inside:
            raise fault_error(name, fault)
        if inside is None:
            yield answer
        else:
            yield from _rows(inside, name)


def _inside(fields: Mapping[str, Any]) -> Any:
    """What holds the results in an object: a list, or another object if this one has no text; None for a result."""
    if [*fields] == ["result"]:
        return fields["result"]
    kinds: tuple[type, ...] = (list, tuple) if _first(fields, TEXTS) else (list, tuple, dict)
    return next((fields[one] for one in LISTS if isinstance(fields.get(one), kinds)), None)


def fault_error(name: str, fault: object) -> WorldError:
    """The error of a tool that answered with a fault."""
    said = short_error(fault) if isinstance(fault, BaseException) else short_text(fault)
    return WorldError(f"{name} reports a fault: {said.rstrip('.')}. Test it on its own.", kind="search_failed")


def _parsed(text: str, name: str) -> Any:
    """The value that a text writes in JSON or in Python; another text is returned unchanged."""
    if len(text) > LONGEST:
        raise WorldError(
            f"{name} sent an answer of more than {LONGEST:,} characters. Ask it for fewer results.", kind="bad_response"
        )
    text = text.strip()
    if FAULT.fullmatch(text):
        raise fault_error(name, text)
    if not text.startswith(("[", "{")):
        return text
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return text


def _fields(value: Any) -> Mapping[str, Any]:
    """The fields of a mapping, or the attributes of an object."""
    return value if isinstance(value, Mapping) else getattr(value, "__dict__", {})


def _piece(row: Any, query: str, name: str) -> Evidence:
    if hasattr(row, "page_content"):
        return piece_of(row, query, None, name)
    if isinstance(row, str):
        page = WIKIPEDIA_PAGE.fullmatch(row.strip())
        row = {"title": page[1], "text": page[2]} if page else {"text": row}
    fields = {**_fields(row)}
    if [*fields] == ["Result"]:  # LangChain's wrappers say so that they found nothing
        fields["text"] = fields["Result"]
    url = _first(fields, ADDRESSES)
    is_address = url.startswith(("http://", "https://"))
    return make_evidence(
        text=_first(fields, TEXTS),
        title=_first(fields, TITLES),
        source=url or name,
        url=url if is_address else None,
        published=_first(fields, DATES) or None,
        query=query,
        score=_score(next((fields[one] for one in SCORES if one in fields), None)),
        retriever=name,
    )


def _first(fields: Mapping[str, Any], names: Iterable[str]) -> str:
    """The first text, number or list of texts under one of the names that is not blank; else an empty text."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            value = " ".join(value)
        if isinstance(value, str | int | date) and not isinstance(value, bool) and clean(str(value)):
            return str(value)
    return ""


def _score(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def piece_of(document: Any, query: str, score: float | None, retriever: str) -> Evidence:
    """Converts a LangChain document to a piece of evidence; metadata of unsuitable types are ignored."""
    about = {name: value for name, value in document.metadata.items() if isinstance(value, str)}
    dates = (document.metadata.get(name) for name in ("published", "date"))
    return make_evidence(
        text=document.page_content,
        title=about.get("title", ""),
        source=about.get("source") or retriever,
        url=about.get("url"),
        published=next((str(day) for day in dates if isinstance(day, str | int | date) and day), None),
        query=query,
        score=_score(score),
        retriever=retriever,
    )
