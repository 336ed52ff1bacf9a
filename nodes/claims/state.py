"""What the finding of claims is asked with, hands from step to step, and comes to."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, NotRequired

from moot.core.errors import ErrorRecord
from moot.nodes.records.entries import Call, Warned
from moot.nodes.records.reducers import deepest, first_error, joined, merge_warnings
from moot.nodes.runtime.settings import Settings
from pydantic import Field
from typing_extensions import TypedDict

FINDER, RATER, WRITER = "claim_finder", "claim_rater", "claim_writer"
"""The roles: who extracts, who rates, and who rewrites and joins."""
LONGEST_TEXT = 1_000_000
"""Characters of a text."""

Step = Literal["extract", "rate", "rewrite"]
Kind = Literal["fact", "forecast", "opinion", "other"]


class ClaimSettings(Settings):
    """Settings of the finding of claims."""

    without: ClassVar = frozenset({"calibration", "corpus", "embedder", "reader_summary", "verified_quotes"})
    why_without: ClassVar = "Finding claims looks for no evidence and gives no verdict"

    split: bool = Field(
        False, description="On: a quote that says several things becomes a claim for each that can be checked alone."
    )
    min_score: float = Field(
        0.5, ge=0, le=1, description="Claims that are less worth checking are listed, but neither rewritten nor kept."
    )
    max_claims: int | None = Field(
        None, ge=1, le=10_000, description="Most claims that are kept, those with the highest scores; null for all."
    )
    part_words: int = Field(1500, ge=50, le=20_000, description="Words of the text that one call reads.")

    def roles(self) -> set[str]:
        """Who may have a model of its own."""
        return {FINDER, RATER, WRITER}


class Section(TypedDict):
    """Where a page or a heading begins: up to the next one the text is of it. ``page`` is null without pages."""

    start: int
    page: int | None
    heading: str


class ClaimsInput(TypedDict):
    """A text whose claims are looked for."""

    text: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT, description="The text.")]
    title: NotRequired[Annotated[str | None, Field(description="Its title.")]]
    source: NotRequired[Annotated[str | None, Field(description="Its file or website.")]]
    url: NotRequired[Annotated[str | None, Field(description="Its address.")]]
    date: NotRequired[
        Annotated[str | None, Field(description="When it was published: a year, a month or a day, as 2020-10-25.")]
    ]
    sections: NotRequired[Annotated[list[Section] | None, Field(description="Where its pages and headings begin.")]]


class Span(TypedDict):
    """Code points of a text, from ``start`` to ``end`` (exclusive)."""

    start: int
    end: int


class Place(Span):
    """Words of the text, and where they stand."""

    quote: str
    page: int | None
    heading: str


class Filled(Span):
    """Words of a claim that its quote does not have. ``computed``: a time that was reckoned from the text's date."""

    computed: bool


class Ratings(TypedDict):
    """Each 0, 1 or 2."""

    checkable: int
    specific: int
    public_interest: int


class Rated(Place):
    """A quote with how much it is worth checking (``score``, 0 to 1)."""

    speaker: str | None
    score: float
    reason: str
    ratings: Ratings
    kind: Kind


class Claim(Rated):
    """A claim that stands alone; ``also`` are other places of the text that say the same."""

    id: str
    claim: str
    date: str | None
    filled: list[Filled]
    also: list[Place]


class Dropped(TypedDict):
    """What a model returned and the text does not bear out; ``why`` in a sentence."""

    step: Step
    quote: str
    claim: str
    why: str


class Unread(Span):
    """A part of the text of which a step gave nothing that could be used."""

    why: str
    kind: str


class Came(TypedDict):
    """What the parts come to."""

    claims: Annotated[list[Claim], Field(description="Claims in the order of the text."), joined]
    left_out: Annotated[list[Rated], Field(description="What is less worth checking than `min_score`."), joined]
    dropped: Annotated[list[Dropped], Field(description="What models returned that is not in the text."), joined]
    unread: Annotated[list[Unread], Field(description="Parts that no model gave a usable reply on."), joined]
    calls: Annotated[list[Call], Field(description="Every exchange with a model."), joined]
    warnings: Annotated[list[Warned], Field(description="What went wrong without ending the run."), merge_warnings]
    depth: Annotated[int, Field(description="The longest chain of calls in which each waited for the last."), deepest]
    error: Annotated[ErrorRecord | None, Field(title="Error", description="What ended the run."), first_error]


class ClaimsOutput(ClaimsInput, Came):
    """What a text comes to."""

    status: Literal["done", "failed"]
    parts: Annotated[list[Span], Field(description="What one call reads.")]
    usage: Annotated[dict[str, Any], Field(description="Calls and tokens, in all and by role.")]


class ClaimsState(ClaimsOutput):
    """What the nodes read and write."""


class PartState(Came):
    """What the steps of one part read: the text as `ClaimsInput` has it, and the part."""

    asked: ClaimsInput
    part: Span
    found: NotRequired[list[dict[str, Any]]]
