"""Settings, input, state and output of the graph that finds claims."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, NotRequired

from moot.core.errors import ErrorRecord
from moot.nodes._records.entries import Call, Warned
from moot.nodes._records.reducers import deepest, first_error, joined, merge_warnings
from moot.nodes._runtime.settings import Settings
from pydantic import Field
from typing_extensions import TypedDict

FINDER, RATER, WRITER = "claim_finder", "claim_rater", "claim_writer"
"""The roles: the extractor, the rater, and the writer, which rewrites and joins claims."""
LONGEST_TEXT = 1_000_000
"""Maximum number of characters of a text."""

Step = Literal["extract", "rate", "rewrite"]
ClaimKind = Literal["fact", "forecast", "opinion", "other"]


class ClaimSettings(Settings):
    """Settings of the graph that finds claims."""

    without: ClassVar = frozenset({"calibration", "corpus", "embedder", "reader_summary", "verified_quotes"})
    why_without: ClassVar = "find_claims searches for no evidence and gives no verdict"

    split: bool = Field(
        default=False,
        description="On: a quote with several statements becomes a claim for each statement that can be checked alone.",
    )
    min_score: float = Field(
        default=0.5, ge=0, le=1, description="Claims with a lower score are only listed (`left_out`)."
    )
    max_claims: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Maximum number of claims; those with the highest scores are kept. null keeps all.",
    )
    part_words: int = Field(
        default=1500, ge=50, le=20_000, description="Maximum number of words of the text that one call reads."
    )

    def roles(self) -> set[str]:
        """The roles that may have a model of their own."""
        return {FINDER, RATER, WRITER}


class Section(TypedDict):
    """The start of a page or a heading; it extends to the start of the next one. ``page`` is null without pages."""

    start: int
    page: int | None
    heading: str


class ClaimsInput(TypedDict):
    """A text to find claims in."""

    text: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT, description="The text.")]
    title: NotRequired[Annotated[str | None, Field(description="Its title.")]]
    source: NotRequired[Annotated[str | None, Field(description="Its file or website.")]]
    url: NotRequired[Annotated[str | None, Field(description="Its address.")]]
    date: NotRequired[
        Annotated[str | None, Field(description="When it was published: a year, a month or a day, as 2020-10-25.")]
    ]
    sections: NotRequired[Annotated[list[Section] | None, Field(description="The starts of its pages and headings.")]]


class Span(TypedDict):
    """A span of a text: the indexes (code points) of its start and its end (exclusive)."""

    start: int
    end: int


class Place(Span):
    """A passage of the text and its position."""

    quote: str
    page: int | None
    heading: str


class Filled(Span):
    """Words of a claim that its quote lacks; ``computed``: whether they are a time computed from the text's date."""

    computed: bool


class Ratings(TypedDict):
    """The ratings of a quote, each 0, 1 or 2."""

    checkable: int
    specific: int
    public_interest: int


class Rated(Place):
    """A quote and its score of check-worthiness (``score``, 0 to 1)."""

    speaker: str | None
    score: float
    reason: str
    ratings: Ratings
    kind: ClaimKind


class Claim(Rated):
    """A claim that can be understood without the text; ``also`` has the other places of the text with this claim."""

    id: str
    claim: str
    date: str | None
    filled: list[Filled]
    also: list[Place]


class Dropped(TypedDict):
    """A model's quote or claim that is not used, e.g. because the text does not contain it; ``why`` is a sentence."""

    step: Step
    quote: str
    claim: str
    why: str


class Unread(Span):
    """A part of the text without claims, because a step got no usable reply or a ceiling was reached.

    ``why`` is a sentence, and ``kind`` is the kind of the error.
    """

    why: str
    kind: str


class PartResults(TypedDict):
    """The joined results of all parts so far."""

    claims: Annotated[list[Claim], Field(description="Claims in the order of the text."), joined]
    left_out: Annotated[list[Rated], Field(description="Quotes below `min_score` or beyond `max_claims`."), joined]
    dropped: Annotated[list[Dropped], Field(description="Models' quotes and claims that are not used."), joined]
    unread: Annotated[list[Unread], Field(description="Parts without a usable reply, or beyond a ceiling."), joined]
    calls: Annotated[list[Call], Field(description="Every exchange with a model."), joined]
    warnings: Annotated[list[Warned], Field(description="Problems that did not end the run."), merge_warnings]
    depth: Annotated[int, Field(description="The longest chain of calls that depend on each other."), deepest]
    error: Annotated[ErrorRecord | None, Field(title="Error", description="The error that ended the run."), first_error]


class ClaimsOutput(ClaimsInput, PartResults):
    """The output of the graph."""

    status: Literal["done", "failed"]
    parts: Annotated[list[Span], Field(description="The parts of the text that are read separately.")]
    usage: Annotated[dict[str, Any], Field(description="Calls and tokens, in total and by role.")]


class ClaimsState(ClaimsOutput):
    """The state of the graph."""


class PartState(PartResults):
    """The input of the steps for one part: the text as in `ClaimsInput`, and the part."""

    asked: ClaimsInput
    part: Span
    found: NotRequired[list[dict[str, Any]]]
