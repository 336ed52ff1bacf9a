"""Serper: Google's results (https://serper.dev/playground).

``SERPER_API_KEY`` is needed; ``SERPER_BASE_URL`` sets another address of the same API.
"""

from __future__ import annotations

import re
from typing import Any

from moot.retrievers._web import Source, WebResult, WebRetriever, ask, month_number
from pydantic import BaseModel


class Result(BaseModel):
    """The fields that are read from a result; ``date`` is Google's text, e.g. "Jan 5, 2024" or "3 days ago"."""

    link: str
    position: int
    title: str = ""
    snippet: str = ""
    date: str | None = None


class Reply(BaseModel):
    """The fields that are read from an answer of the API."""

    organic: list[Result]
    message: Any = None


def iso_google_date(shown: str | None) -> str | None:
    """A date such as "Jan 5, 2024" in ISO form; other texts, and None, are returned unchanged."""
    parts = re.fullmatch(r"([A-Za-z]{3,9})\.? (\d{1,2}), (\d{4})", shown or "")
    month = month_number(parts[1]) if parts else None
    return f"{parts[3]}-{month:02}-{int(parts[2]):02}" if parts and month else shown


class SerperRetriever(WebRetriever):
    """Searches Google through Serper; the text of each result is Google's snippet."""

    name = "serper"
    source = Source(
        "Serper",
        "https://google.serper.dev",
        "SERPER_BASE_URL",
        "SERPER_API_KEY",
        meanings=(
            (400, "not enough credits", "quota"),
            (403, "not enough credits", "quota"),
            (403, "", "authentication"),
        ),
    )
    gives_snippets = True
    needs_key = True
    reads_operators = True
    longest_query = 2048
    most_results = 100

    async def find(self, query: str, k: int) -> list[WebResult]:
        """Google's organic results, in Google's order."""
        body: dict[str, Any] = {"q": query, "num": k}
        if day := self.last_day:
            body["tbs"] = f"cdr:1,cd_min:1/1/1900,cd_max:{day.month}/{day.day}/{day.year}"
        headers = {"X-API-KEY": self.source.key()}
        rows = await ask(self.source, self.limits, self._read, "/search", body=body, headers=headers)
        ranked = sorted(rows, key=lambda row: row.position)
        return [WebResult(row.snippet, row.title, row.link, row.link, iso_google_date(row.date)) for row in ranked]

    def _read(self, body: bytes) -> list[Result]:
        reply = Reply.model_validate_json(body)
        self.source.check_empty(reply.organic, 0, reply.message)
        return reply.organic
