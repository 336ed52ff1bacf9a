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
"""The roles: the finder extracts claims, the rater rates them, and the writer rewrites and joins them."""
LONGEST_TEXT = 1_000_000
"""Maximum number of characters of a text in which claims are found."""

Step = Literal["extract", "rate", "rewrite"]
ClaimKind = Literal["fact", "forecast", "opinion", "other"]


class ClaimSettings(Settings):
    """Settings of the graph that finds claims."""

    without: ClassVar = frozenset(
        {"calibration", "corpus", "embedder", "label_rules", "preset", "reader_summary", "verified_quotes"}
    )
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
        default=1500,
        ge=50,
        le=20_000,
        description="Maximum number of words of a part of the text; a longer sentence is a part of its own.",
    )

    def roles(self) -> set[str]:
        return {FINDER, RATER, WRITER}


class Section(TypedDict):
    """A section of a text, from the start of a page or a heading to the start of the next section.

    ``page`` is null if the text has no pages.
    """

    start: int
    page: int | None
    heading: str


class ClaimsInput(TypedDict):
    """The text in which claims are found, and where it comes from."""

    text: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT, description="The text.")]
    title: NotRequired[Annotated[str | None, Field(description="The text's title.")]]
    source: NotRequired[Annotated[str | None, Field(description="The text's file or website.")]]
    url: NotRequired[Annotated[str | None, Field(description="The text's address.")]]
    date: NotRequired[
        Annotated[str | None, Field(description="The date of publication: a year, a month or a day, e.g. 2020-10-25.")]
    ]
    sections: NotRequired[Annotated[list[Section] | None, Field(description="The starts of pages and headings.")]]
    note: NotRequired[Annotated[str | None, Field(description="How its file was read, such as what was left out.")]]


class Span(TypedDict):
    """A span of a text: the indexes (code points) of its start and its end (exclusive)."""

    start: int
    end: int


class Place(Span):
    """A passage of the text, with its position, page and heading."""

    quote: str
    page: int | None
    heading: str


class Filled(Span):
    """Words of a claim that its quote does not contain; the span is a span of the claim.

    ``computed`` says whether the words count as a time computed from the text's date.
    """

    computed: bool


class Ratings(TypedDict):
    """The ratings of a quote, each 0, 1 or 2."""

    checkable: int
    specific: int
    public_interest: int


class Rated(Place):
    """A quote with its ratings, and its check-worthiness (``score``, from 0 to 1); they are null without a rating.

    ``note`` says what a person should know about the claim; it is empty if there is nothing.
    """

    speaker: str | None
    score: float | None
    reason: str
    ratings: Ratings | None
    kind: ClaimKind | None
    note: str


class Claim(Rated):
    """A claim that can be understood without the text; ``also`` has the other places at which the text makes it."""

    id: str
    claim: str
    date: str | None
    filled: list[Filled]
    also: list[Place]


class Dropped(TypedDict):
    """A model's quote or claim that is not used, e.g. because the text does not contain it; ``why`` is a sentence.

    A quote that the text contains is never dropped, unless it is too long for a claim.
    """

    step: Step
    quote: str
    claim: str
    why: str


class Unread(Span):
    """A part of the text that gave no claims, because a step got no usable reply or a ceiling was reached.

    ``why`` is the text of the error, and ``kind`` the kind of the error.
    """

    why: str
    kind: str


class PartResults(TypedDict):
    """The results of a part. In the state of the whole graph, reducers join the results of all parts."""

    claims: Annotated[list[Claim], Field(description="Claims in the order of the text."), joined]
    left_out: Annotated[list[Rated], Field(description="Quotes below `min_score` or beyond `max_claims`."), joined]
    dropped: Annotated[list[Dropped], Field(description="Models' quotes and claims that are not used."), joined]
    unread: Annotated[list[Unread], Field(description="Parts without claims because of an error or a ceiling."), joined]
    calls: Annotated[list[Call], Field(description="Every exchange with a model."), joined]
    warnings: Annotated[list[Warned], Field(description="Problems that did not end the run."), merge_warnings]
    depth: Annotated[int, Field(description="The longest chain of calls that depend on each other."), deepest]
    error: Annotated[ErrorRecord | None, Field(title="Error", description="The error that ended the run."), first_error]


class ClaimsOutput(ClaimsInput, PartResults):
    """The output of the graph that finds claims."""

    status: Literal["done", "failed"]
    parts: Annotated[list[Span], Field(description="The parts of the text; each is read separately.")]
    usage: Annotated[dict[str, Any], Field(description="Calls and tokens, in total and by role; any ceilings.")]


class ClaimsState(ClaimsOutput):
    """The state of the graph that finds claims."""


class PartState(PartResults):
    """The state of the steps for one part: ``asked`` is the input of the graph, ``found`` has the quotes so far."""

    asked: ClaimsInput
    part: Span
    found: NotRequired[list[dict[str, Any]]]
