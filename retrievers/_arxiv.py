"""arXiv: abstracts of preprints (https://info.arxiv.org/help/api/user-manual.html).

No key is needed; ``ARXIV_BASE_URL`` sets another address of the same API.
"""

from __future__ import annotations

import re

from moot.retrievers._web import Source, WebResult, WebRetriever, ask, read_xml, text_within
from pydantic import BaseModel, Field

ATOM = "{http://www.w3.org/2005/Atom}"
TOTAL = "{http://a9.com/-/spec/opensearch/1.1/}totalResults"
FIRST_DAY = "199101010000"
"""A time before the first preprint, in arXiv's format for dates."""
OPERATORS = ("AND", "OR", "NOT", "ANDNOT", "TO")


class Entry(BaseModel):
    """The fields of a feed entry that moot reads; ``published`` is the date of the first version."""

    id: str = Field(min_length=1)
    title: str
    summary: str
    published: str = ""


class Preprint(Entry):
    """An entry for a preprint; its date is required."""

    published: str = Field(pattern=r"^\d{4}-\d\d-\d\d")


def words_of(query: str) -> list[str]:
    """The query's words, without the (upper-case) operators of arXiv's query language."""
    words = re.findall(r"\w+(?:[-'’.]\w+)*", query)
    return [word for word in words if word not in OPERATORS]


class ArxivRetriever(WebRetriever):
    """Search for preprints that share words with the query; each result is an abstract."""

    name = "arxiv"
    source = Source("arXiv", "https://export.arxiv.org", "ARXIV_BASE_URL")
    longest_query = 300
    most_results = 100

    async def find(self, query: str, k: int) -> list[WebResult]:
        """The abstracts of the preprints that match the query best; empty if the query has no words."""
        words = words_of(query)
        if not words:
            return []
        # A preprint matches if any of its fields, such as the title or the abstract, has a word of the query.
        search_query = " OR ".join(f"all:{word}" for word in words)
        if self.last_day:
            search_query = f"({search_query}) AND submittedDate:[{FIRST_DAY} TO {self.last_day:%Y%m%d}2359]"
        params = {"search_query": search_query, "start": "0", "max_results": str(k), "sortBy": "relevance"}
        entries = await ask(self.source, self.limits, self._read, "/api/query", params=params)
        links = [re.sub("^http:", "https:", entry.id) for entry in entries]
        return [
            WebResult(entry.summary, entry.title, link, link, entry.published[:10])
            for entry, link in zip(entries, links, strict=True)
        ]

    def _read(self, body: bytes) -> list[Preprint]:
        """The preprints in a feed."""
        feed = read_xml(body, f"{ATOM}feed")
        fields = [
            {name: text_within(e.find(ATOM + name)) for name in Entry.model_fields}
            for e in feed.findall(f"{ATOM}entry")
        ]
        for entry in map(Entry.model_validate, fields):
            # arXiv sends an error message as an entry of a feed with status 200.
            if "/api/errors" in entry.id or entry.title == "Error":
                raise self.source.refusal(200, entry.summary)
        self.source.check_empty(fields, int(text_within(feed.find(TOTAL)) or 0))
        return [Preprint.model_validate(entry) for entry in fields]
