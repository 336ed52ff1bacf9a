"""Notices of retraction, from Crossref's records of works and of Retraction Watch.

Source: https://www.crossref.org/documentation/retrieve-metadata/rest-api/. ``CROSSREF_MAILTO`` is sent if it is set.
``CROSSREF_BASE_URL`` sets another address of the same API.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from moot.core.endpoint import DEFAULT_LIMITS, Limits
from moot.retrievers._evidence import Evidence, make_evidence
from moot.retrievers._normalise import origins_of
from moot.retrievers._web import Source, ask
from pydantic import BaseModel, Field

DOI = re.compile(r"(?:https?://(?:dx\.)?doi\.org/|\bdoi:\s*)(10\.\d{4,9}/[^\s?#]+)", re.IGNORECASE)
"""A DOI that is written as one. A path of a publisher's own page that contains a DOI may have more after it."""
TYPES = {"retraction", "withdrawal", "removal"}
"""The kinds of updates that take a work back. Corrections and expressions of concern leave it standing."""
MOST_AT_ONCE = 50
"""Maximum number of DOIs of one request, which has them in its address."""


class Update(BaseModel):
    """An update of a work: its kind, and the DOI of the notice."""

    DOI: str = ""
    type: str = ""


class Work(BaseModel):
    """The fields that are read from a work."""

    DOI: str
    updated_by: list[Update] = Field(default=[], alias="updated-by")


class Message(BaseModel):
    """The works of an answer; an unknown DOI has none."""

    items: list[Work]


class Works(BaseModel):
    """The fields that are read from an answer of the API."""

    message: Message


class RetractionNotices:
    """Searches Crossref for the notices of retraction of works, which a query names by their DOIs."""

    name = "crossref"
    source = Source("Crossref", "https://api.crossref.org", "CROSSREF_BASE_URL")

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.limits = limits

    async def search(self, query: str, k: int) -> list[Evidence]:
        """One piece for each retracted work: its source is the work's DOI, its address that of the notice."""
        found: dict[str, str] = {}
        asked = query.split()
        for dois in (asked[i : i + MOST_AT_ONCE] for i in range(0, len(asked), MOST_AT_ONCE)):
            params = {
                "filter": ",".join(f"doi:{doi}" for doi in dois),
                "select": "DOI,updated-by",
                "rows": str(len(dois)),
            }
            if contact := os.environ.get("CROSSREF_MAILTO", "").strip():
                params["mailto"] = contact
            works = await ask(self.source, self.limits, Works.model_validate_json, "/works", params=params)
            found |= notices_of(works.message.items)
        return [
            make_evidence(text="Retracted.", source=doi, url=notice, retriever=self.name)
            for doi, notice in list(found.items())[:k]
        ]


def notices_of(works: Iterable[Work]) -> dict[str, str]:
    """The address of the first notice of each retracted work, by the work's DOI in lower case."""
    updates = {work.DOI.lower(): [update for update in work.updated_by if update.type in TYPES] for work in works}
    return {doi: f"https://doi.org/{found[0].DOI or doi}" for doi, found in updates.items() if found}


def doi_of(piece: Evidence) -> str:
    """The DOI of a piece in lower case, from its addresses and sources; empty if none of them is a DOI."""
    texts = [text for origin in origins_of(piece) for text in (origin.get("url", ""), origin["source"])]
    found = (DOI.match(unquote(text)) for text in texts)
    # Commas separate the filters of a request.
    return next((doi[1].lower() for doi in found if doi and "," not in doi[1]), "")


BY_TITLE = "its title"
"""The mark of a work that says itself that it was retracted."""
_TITLED = re.compile(r"\W*(?:retracted|withdrawn)(?: (?:article|paper|study))?\s?[:\])]", re.IGNORECASE)


def with_titles(pieces: Iterable[Evidence]) -> list[Evidence]:
    """The pieces, with `BY_TITLE` for works whose title begins with ``RETRACTED:``, ``[Withdrawn]`` or the like."""
    return [
        {**piece, "retracted": BY_TITLE} if "retracted" not in piece and _TITLED.match(piece["title"]) else piece
        for piece in pieces
    ]


def with_notices(pieces: Iterable[Evidence], notices: Mapping[str, str]) -> list[Evidence]:
    """The pieces, with ``retracted`` for those whose DOI has a notice and that have no such mark yet."""
    marked: list[Evidence] = []
    for piece in pieces:
        notice = notices.get(doi_of(piece))
        marked.append({**piece, "retracted": notice} if notice and "retracted" not in piece else piece)
    return marked
