"""PubMed: abstracts of biomedical papers, from NCBI's E-utilities (https://www.ncbi.nlm.nih.gov/books/NBK25499/).

No key is needed. ``NCBI_API_KEY``, which allows more searches per second, and ``NCBI_EMAIL`` are sent if they are set.
``PUBMED_BASE_URL`` sets another address of the same API.
"""

from __future__ import annotations

import os
import re
from typing import Annotated, Any
from xml.etree.ElementTree import Element

from moot.retrievers._web import Source, WebResult, WebRetriever, ask, month_number, read_xml, text_within
from pydantic import BaseModel, Field

Pmid = Annotated[str, Field(pattern=r"^\d+$")]


RETRACTED = "Retracted Publication"
"""The publication type of works that were retracted; the notice itself has the type "Retraction of Publication"."""


class SearchResult(BaseModel):
    """The fields that are read from ESearch's result: the papers' ids, or the error."""

    idlist: list[Pmid] | None = None
    count: int = 0
    error: str | None = Field(default=None, alias="ERROR")


class SearchReply(BaseModel):
    """An answer of ESearch, which reports many errors with HTTP status 200."""

    error: str | None = None
    esearchresult: SearchResult | None = None


class Paper(BaseModel):
    """The fields that are read from a record of EFetch; ``title`` and ``abstract`` are empty if the record has none."""

    pmid: Pmid
    title: str
    abstract: str
    published: str | None
    retracted: str | None


def parse_paper(record: Element) -> Paper:
    """Parses a record of a PubmedArticleSet (https://dtd.nlm.nih.gov/ncbi/pubmed/doc/out/250101/index.html)."""
    pmid = text_within(record.find(".//PMID"))
    notice = record.find(".//CommentsCorrections[@RefType='RetractionIn']/PMID")
    types = {text_within(kind) for kind in record.findall(".//PublicationType")}
    is_retracted = RETRACTED in types or record.find(".//CommentsCorrections[@RefType='RetractionIn']") is not None
    sections = [(part.get("Label"), text_within(part)) for part in record.findall(".//Abstract/AbstractText")]
    return Paper(
        pmid=pmid,
        title=text_within(record.find(".//ArticleTitle")) or text_within(record.find(".//BookTitle")),
        abstract="\n".join(f"{label}: {text}" if label else text for label, text in sections if text),
        published=iso_pub_date(record.find(".//PubDate")),
        retracted=page_of(text_within(notice) or pmid) if is_retracted else None,
    )


def page_of(pmid: str) -> str:
    """The address of a paper's record."""
    return f"https://pubmed.ncbi.nlm.nih.gov/{pmid}/"


def iso_pub_date(element: Element | None) -> str | None:
    """A PubDate in ISO form: a year, a month or a day, as precise as the element; None if it has no year."""
    if element is None:
        return None
    year, month, day, words = (element.findtext(tag, "").strip() for tag in ("Year", "Month", "Day", "MedlineDate"))
    if not year:
        years = re.findall(r"\b\d{4}\b", words)
        return years[-1] if years else None  # "1998 Dec-1999 Jan" gives 1999, when the issue was complete
    number = int(month) if month.isdecimal() else month_number(month)
    if not number:
        return year
    return f"{year}-{number:02}-{int(day):02}" if day.isdecimal() else f"{year}-{number:02}"


class PubMedRetriever(WebRetriever):
    """Searches for papers in two requests: one for their ids, and one for their records."""

    name = "pubmed"
    source = Source(
        "PubMed",
        "https://eutils.ncbi.nlm.nih.gov/entrez/eutils",
        "PUBMED_BASE_URL",
        "NCBI_API_KEY",
        meanings=(
            (400, "api key", "authentication"),
            (200, "rate limit", "rate_limited"),
            (200, "api key", "authentication"),
            (200, "backend", "server_error"),
        ),
    )
    longest_query = 300
    most_results = 100

    async def find(self, query: str, k: int) -> list[WebResult]:
        """The papers that match a query best; the text of each is its abstract, which may be empty."""
        ids = await self._find_ids(query, k)
        papers = {paper.pmid: paper for paper in await self._fetch_papers(ids)} if ids else {}
        return [
            WebResult(
                paper.abstract,
                paper.title,
                f"PubMed {paper.pmid}",
                page_of(paper.pmid),
                paper.published,
                retracted=paper.retracted,
            )
            for paper in (papers[id] for id in ids if id in papers)
        ]

    async def _find_ids(self, query: str, k: int) -> list[str]:
        """The ids of the papers that match a query best, best first."""
        params = {"term": query, "retmax": str(k), "retmode": "json", "sort": "relevance"}
        if self.last_day:
            params |= {"datetype": "pdat", "mindate": "1000/01/01", "maxdate": f"{self.last_day:%Y/%m/%d}"}

        def read(body: bytes) -> list[str]:
            reply = SearchReply.model_validate_json(body)
            found = reply.esearchresult
            if error := reply.error or (found and found.error):
                raise self.source.refusal(200, error)
            if found is None or found.idlist is None:
                raise ValueError("it has neither results nor an error")
            self.source.check_empty(found.idlist, found.count)
            return found.idlist

        return await ask(self.source, self.limits, read, "/esearch.fcgi", params=self._common_parameters() | params)

    async def _fetch_papers(self, ids: list[str]) -> list[Paper]:
        """The records with these ids, in the order of PubMed's answer; some ids may have no record."""

        def read(body: bytes) -> list[Paper]:
            papers = [parse_paper(record) for record in read_xml(body, "PubmedArticleSet")]
            self.source.check_empty(papers, len(ids))
            return papers

        params = {"id": ",".join(ids), "retmode": "xml", "rettype": "abstract"}
        return await ask(self.source, self.limits, read, "/efetch.fcgi", params=self._common_parameters() | params)

    def _common_parameters(self) -> dict[str, Any]:
        """The parameters that both requests have in common."""
        optional = {"api_key": self.source.key(), "email": os.environ.get("NCBI_EMAIL", "").strip()}
        return {"db": "pubmed", "tool": "moot"} | {name: value for name, value in optional.items() if value}
