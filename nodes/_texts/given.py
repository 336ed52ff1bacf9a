"""Texts given with a claim, checked and turned into evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, NotRequired

from moot.core.errors import UserError
from moot.core.redaction import environment_keys, hide_environment_keys
from moot.nodes._records.entries import Searched, Turn
from moot.retrievers._evidence import GIVEN, Evidence, Retrieval, active_evidence, clean, make_evidence, merge_evidence
from moot.retrievers._normalise import iso_date
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError
from typing_extensions import TypedDict

MOST_GIVEN = 200
"""Maximum number of texts given with a claim."""
LONGEST_GIVEN = 400_000
"""Maximum number of characters of all texts given with a claim together."""

INHERITED: Retrieval = {"query": "", "score": None, "retriever": GIVEN, "round": 0, "agent": "gate"}
"""The retrieval entry that marks inherited evidence. Its query is empty, unlike the query of a search."""
Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$")]
Short = Annotated[str, StringConstraints(max_length=4000)]


class GivenText(TypedDict):
    """A text given with a claim. The default of ``id`` is a hash of source and text, as for evidence from a search."""

    text: Annotated[str, Field(min_length=1, max_length=LONGEST_GIVEN, description="The text.")]
    id: NotRequired[Annotated[Id | None, Field(description="Its id in citations; default: a hash of source and text.")]]
    title: NotRequired[Annotated[Short | None, Field(description="Its title.")]]
    source: NotRequired[Annotated[Short | None, Field(description="Its origin.")]]
    url: NotRequired[Annotated[Short | None, Field(description="Its address.")]]
    published: NotRequired[Annotated[Short | None, Field(description="When it was published, e.g. 2020-10-25.")]]
    page: NotRequired[Annotated[Short | None, Field(description="Its page in a document.")]]
    heading: NotRequired[Annotated[Short | None, Field(description="Its heading in a document.")]]
    fetched: NotRequired[Annotated[Short | None, Field(description="When its web page was read: 2026-11-23T07:50Z.")]]
    sha256: NotRequired[Annotated[Short | None, Field(description="The SHA-256 of the web page's bytes, as hex.")]]
    note: NotRequired[Annotated[Short | None, Field(description="How it was read, e.g. what was left out.")]]


_TEXTS: TypeAdapter[list[GivenText]] = TypeAdapter(list[GivenText])


_inherited: ContextVar[tuple[Evidence, ...]] = ContextVar("inherited_evidence", default=())
_searches: ContextVar[tuple[Searched, ...]] = ContextVar("inherited_searches", default=())
_plan: ContextVar[Turn | None] = ContextVar("inherited_plan", default=None)


@contextmanager
def inherit_evidence(evidence: Iterable[Evidence], searches: Iterable[Searched], plan: Turn | None) -> Iterator[None]:
    """A context in which a debate inherits an outer debate's active evidence, unless its input has ``given``.

    It also inherits what the outer debate searched for, and its plan.
    """
    pieces: list[Evidence] = [
        {**piece, "retrievals": [*piece["retrievals"], INHERITED]} for piece in active_evidence(evidence)
    ]
    tokens = _inherited.set(tuple(pieces)), _searches.set(tuple(searches)), _plan.set(plan)
    try:
        yield
    finally:
        _inherited.reset(tokens[0])
        _searches.reset(tokens[1])
        _plan.reset(tokens[2])


def inherited_evidence() -> list[Evidence]:
    """The evidence inherited from the outer debate (`inherit_evidence`); empty if there is none."""
    return list(_inherited.get())


def inherited_searches() -> list[Searched]:
    """What the outer debate searched for (`inherit_evidence`); empty if there is none."""
    return list(_searches.get())


def inherited_plan() -> Turn | None:
    """The turn with the outer debate's plan (`inherit_evidence`); None if there is none."""
    return _plan.get()


def as_outer_evidence(evidence: Iterable[Evidence]) -> list[Evidence]:
    """An inner debate's evidence without the entry `INHERITED`, to be added to the outer debate's evidence."""
    return [
        {**piece, "retrievals": [found for found in piece["retrievals"] if not INHERITED.items() <= found.items()]}
        for piece in evidence
    ]


def check_given(given: Any) -> list[Evidence]:
    """Checks the texts given with a claim (`GivenText`), and returns them as evidence without repetitions; blocking."""
    if isinstance(given, list | tuple) and len(given) > MOST_GIVEN:
        raise _invalid_given_error(f"there are {len(given):,} texts")
    try:
        texts = _TEXTS.validate_python([] if given is None else given)
    except ValidationError as error:
        raise _invalid_given_error(_problem_in_words(error.errors(include_url=False)[0])) from error
    if (total := sum(len(text["text"]) for text in texts)) > LONGEST_GIVEN:
        raise _invalid_given_error(f"the texts have {total:,} characters")
    keys = environment_keys()
    pieces = [hide_environment_keys(_as_evidence(text, number), keys) for number, text in enumerate(texts, 1)]
    kept = merge_evidence((), pieces)
    known = {piece["id"]: piece["text"] for piece in kept}
    if other := next((piece for piece in pieces if piece["text"] != known[piece["id"]]), None):
        raise _invalid_given_error(f"two different texts have the id {other['id']}")
    return kept


def _as_evidence(given: GivenText, number: int) -> Evidence:
    piece = make_evidence(
        text=given["text"],
        title=given.get("title") or "",
        source=clean(given.get("source") or "") or GIVEN,
        query="",
        score=None,
        retriever=GIVEN,
        url=given.get("url"),
        published=given.get("published"),
        page=given.get("page"),
        heading=given.get("heading"),
        fetched=given.get("fetched"),
        sha256=given.get("sha256"),
        note=given.get("note"),
    )
    if not piece["text"]:
        raise _invalid_given_error(f"text {number} has no visible text")
    if published := piece.get("published"):
        piece["published"] = iso_date(published) or published
    piece["retrievals"] = [{**piece["retrievals"][0], "round": 0, "agent": GIVEN}]
    return {**piece, "id": given.get("id") or piece["id"]}


def _problem_in_words(error: Any) -> str:
    """A validation error of Pydantic in words, with the number of the text and the name of the field, if known."""
    number, *field = error["loc"] or ("",)
    place = f"text {number + 1}{''.join(f', {part}' for part in field)}: " if isinstance(number, int) else ""
    return f"{place}{error['msg']}"


def _invalid_given_error(problem: str) -> UserError:
    return UserError(
        f"`given` cannot be used: {problem}. It must list at most {MOST_GIVEN} objects, each with `text` and, if "
        f"known, `id` (letters, digits and ._:-), `title`, `source`, `url`, `published`; all texts together have at "
        f"most {LONGEST_GIVEN:,} characters.",
        kind="invalid_given",
    )
