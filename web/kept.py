"""A document as the store keeps it: its checks, its id, its text, its entry in the list."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from contextvars import ContextVar
from dataclasses import asdict
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from moot.core.errors import UserError
from moot.nodes._runtime.document import check_schema
from moot.nodes._runtime.settings import DEMONSTRATION
from moot.nodes._runtime.state import CheckedQuote, ResultDocument
from moot.nodes._steps.reader import checked_quotes
from moot.nodes._texts.quotes import find_quote
from moot.nodes._texts.verdict import nothing_found, verdict_citations
from moot.retrievers._archives import website_of
from moot.transcript.document import settings_to_read, unfit_error
from moot.transcript.language import speaking
from moot.transcript.report.head import verdict_chip
from moot.transcript.report.sources import web_address
from pydantic import TypeAdapter, ValidationError

current_user: ContextVar[str | None] = ContextVar("current_user", default=None)
"""The name of the current user; None on a server without `MOOT_USERS`. Users cannot see each other's debates, except
`colleagues`."""
may_approve: ContextVar[bool] = ContextVar("may_approve", default=True)
"""Whether the current user may approve, correct and withdraw checks. The operator of a service says who may."""
colleagues: ContextVar[Collection[str]] = ContextVar("colleagues", default=())
"""The users whose checks the current user may read if they are in review or were decided, and decide about."""

Document = dict[str, Any]
ID = re.compile(r"[0-9]{8}T[0-9]{6}-[0-9a-f]{32}")
"""A document's id: the debate's start time (UTC), then the debate's id. Imported documents, and further
branches of a finished debate, have a random part in place of the debate's id."""
HEX = re.compile(r"[0-9a-f]{32}")
"""A debate's id, as in the debate's document and in the table."""
LARGEST = 32 * 2**20
"""Maximum size of a document, in bytes. Larger documents are refused."""
TIME_FORMAT = "%Y%m%dT%H%M%S"
LIST_FIELDS = ("claim", "graph", "status", "answer", "started_at")


def parse_document(content: bytes) -> Document:
    """Parses and checks a result document from outside, for example from ``moot verify --out``."""
    document = parse_stored(content)
    settings_to_read(document)
    _check_quotes(document)
    return document


def parse_stored(content: bytes) -> Document:
    """Parses JSON as a result document."""
    if len(content) > LARGEST:
        raise unfit_error(f"it has more than {LARGEST // 2**20} MiB")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:  # a UnicodeDecodeError is also a ValueError
        raise unfit_error(f"it is not valid JSON ({str(error)[:200]})") from error
    return checked_document(value)


def checked_document(value: Any) -> Document:
    """Checks that a value is a result document; returns it without unknown fields."""
    try:
        check_schema(value)
        document: Document = _document_adapter().validate_python(value, strict=True)
        start_time(document)
        json.dumps(document, allow_nan=False, ensure_ascii=False).encode()
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(map(str, first["loc"]))
        raise unfit_error(f"{path}{': ' if path else ''}{first['msg']}"[:300]) from error
    except (ValueError, RecursionError) as error:
        raise unfit_error(str(error)[:300]) from error
    return document


@lru_cache(maxsize=1)
def _document_adapter() -> TypeAdapter[Any]:
    return TypeAdapter(ResultDocument)


def _check_quotes(document: Document) -> None:
    texts = {piece["id"]: piece["text"] for piece in document["evidence"]}
    for turn in document["turns"]:
        for citation in turn.get("citations") or []:
            span = (citation["start"], citation["end"])
            if citation["verified"] and find_quote(citation["quote"], texts.get(citation["evidence_id"], "")) != span:
                raise unfit_error(f"a quote marked as verified is not in {citation['evidence_id'][:40]!r}")
    if summary := document.get("reader_summary"):
        known = checked_quotes(document)
        named = [quote for sentence in summary["sentences"] for quote in sentence["citations"]]
        named += [{key: stance[key] for key in CheckedQuote.__annotations__} for stance in summary["stances"]]
        if any(quote not in known for quote in named):
            raise unfit_error("its summary cites a quote that was not checked")


def start_time(document: Document) -> datetime:
    """When a debate began, in UTC."""
    try:
        return datetime.fromisoformat(document["started_at"]).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"the start time {document['started_at']} is not in the years 1 to 9999") from error


def no_debate_error() -> UserError:
    """The error for a debate that does not exist."""
    return UserError("There is no such debate: it was deleted, or the link is wrong.", kind="missing_file")


def document_text(document: Document) -> str:
    """A document as the text of its file."""
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def id_time(document: Document) -> str:
    """A debate's start time, as the first part of a document's id."""
    return f"{start_time(document):{TIME_FORMAT}}"


def id_time_at(started: float) -> str:
    """A time (``started``, in seconds since 1970) as the first part of a document's id."""
    return f"{datetime.fromtimestamp(started, UTC):{TIME_FORMAT}}"


def entry_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document's entry in lists, without its id: the fields `LIST_FIELDS`, and the answer as a ``chip``.

    ``evidence`` says if the debate found nothing (`nothing_found`). ``demonstration`` is true if all models were the
    built-in one or fake. ``sites`` has the website on which the claim appeared, then those that the verdict quotes.
    """
    fields = {key: document[key] for key in LIST_FIELDS}
    models = [one["model"].partition(":")[0] for one in document["models"].values()]
    with speaking("en"):  # the entry is stored; the page puts the answer's word into its language
        chip = asdict(verdict_chip(document))
    return {
        **fields,
        "evidence": nothing_found(document),
        "chip": chip,
        "demonstration": bool(models) and all(one in DEMONSTRATION for one in models),
        "sites": sites_of(document),
    }


def sites_of(document: Mapping[str, Any]) -> list[str]:
    """The website on which a claim appeared, if it is known, then those of the sources that the verdict quotes."""
    pieces = {piece["id"]: piece.get("url") for piece in document["evidence"]}
    cited = [pieces.get(one["evidence_id"]) for one in verdict_citations(dict(document)) if one["verified"]]
    page = (document["task"] or {}).get("appeared_at")
    return [*dict.fromkeys(filter(None, (website_of(web_address(url)) for url in (page, *cited))))]
