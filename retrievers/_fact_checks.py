"""Fact checks by others, from Google's Fact Check Tools (https://developers.google.com/fact-check/tools/api).

``GOOGLE_FACT_CHECK_API_KEY`` is needed; ``FACT_CHECK_BASE_URL`` sets another address of the same API.
"""

from __future__ import annotations

from dataclasses import dataclass

from moot.retrievers._web import Source, WebResult, WebRetriever, ask
from pydantic import BaseModel, Field


class Publisher(BaseModel):
    """The fields that are read from a publisher."""

    name: str = ""
    site: str = ""


class Review(BaseModel):
    """The fields that are read from a review of a claim; ``rating`` is the publisher's own word."""

    publisher: Publisher = Publisher()
    url: str
    title: str = ""
    date: str | None = Field(default=None, alias="reviewDate")
    rating: str = Field(default="", alias="textualRating")


class Claim(BaseModel):
    """The fields that are read from a claim, which several publishers may have reviewed."""

    text: str
    claimant: str = ""
    date: str | None = Field(default=None, alias="claimDate")
    reviews: list[Review] = Field(default=[], alias="claimReview")


class Reply(BaseModel):
    """The fields that are read from an answer; an answer without results is an empty object."""

    claims: list[Claim] = []


@dataclass(frozen=True)
class FactCheck:
    """A fact check: the claim that was checked, by whom and when, the rating in the publisher's words, the address."""

    claim: str
    claimant: str
    publisher: str
    title: str
    rating: str
    date: str | None
    url: str

    @property
    def text(self) -> str:
        """The fact check in a sentence."""
        by = f" by {self.claimant}" if self.claimant else ""
        return f"{self.publisher} rated the claim “{self.claim}”{by}: {self.rating}."


class FactChecksRetriever(WebRetriever):
    """Searches for published fact checks; each result says who rated which claim, and how."""

    name = "fact_checks"
    source = Source(
        "Google Fact Check Tools",
        "https://factchecktools.googleapis.com",
        "FACT_CHECK_BASE_URL",
        "GOOGLE_FACT_CHECK_API_KEY",
        meanings=(
            (400, "api key", "authentication"),
            (403, "quota", "quota"),
            (403, "", "authentication"),
            (429, "quota", "quota"),
        ),
    )
    needs_key = True
    longest_query = 300
    most_results = 20

    async def find(self, query: str, k: int) -> list[WebResult]:
        """The fact checks of claims that match a query best."""
        return [
            WebResult(one.text, one.title, one.publisher, one.url, one.date, fact_check=True)
            for one in (await self.find_checks(query, k))[:k]
            if self.last_day is None or one.date is None or one.date[:10] <= self.last_day.isoformat()
        ]

    async def find_checks(self, query: str, k: int) -> list[FactCheck]:
        """The fact checks of claims that match a query best, as they are."""
        params = {"query": query, "pageSize": str(k), "key": self.source.key()}
        reply = await ask(self.source, self.limits, Reply.model_validate_json, "/v1alpha1/claims:search", params=params)
        return [
            FactCheck(
                claim.text,
                claim.claimant,
                review.publisher.name or review.publisher.site or "A publisher",
                review.title,
                review.rating or "without a rating",
                (review.date or "")[:10] or None,
                review.url,
            )
            for claim in reply.claims
            for review in claim.reviews
        ]
