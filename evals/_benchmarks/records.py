"""Records and items of benchmarks, and functions that read single fields of a record.

A record is an object as its benchmark publishes it. For each benchmark, a reader (in `records_claims`, `records_choice`
or `records_answers`) makes an `Item` from a record, or raises `InvalidRecord` or `SkippedRecord`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field, StrictInt, StrictStr, TypeAdapter, ValidationError
from typing_extensions import TypedDict


@dataclass(frozen=True)
class Record:
    """An object from a file or from a dataset on the Hub, and the place where it was found."""

    fields: Mapping[str, Any]
    where: str
    """The place for error messages, such as ``fever.jsonl, line 3``."""
    index: int = 0
    """The record's position in its file or dataset, from 0."""
    file: str = ""
    """The path of the record's file within the user's folder, without the ending; empty for the Hub."""
    id: str = ""
    """The record's id in the list of ids beside the file, or in a file of claims; empty if neither has one."""


@dataclass(frozen=True)
class Item:
    """One claim or question of a benchmark, with the data to score answers.

    Prompts show only ``claim``, ``options``, ``labels``, ``given``, ``claim_date`` and ``speaker``. The debate also
    gets the task and ``published_before``, but no other field.
    """

    claim: str
    gold: tuple[str, ...]
    """The right answers, in a form that `moot.nodes._texts.answers.read_answer` reads: one label or letter of the task,
    all accepted short answers, or one number or expression. `ABSTENTION` alone: the evidence does not tell."""
    options: tuple[str, ...] = ()
    """The texts of the options; the first option has the letter A."""
    task: str = ""
    """A key of `moot.nodes._texts.task.TASKS` if the item's task differs from its benchmark's."""
    labels: tuple[str, ...] = ()
    """The labels to choose from; only for the task ``labels``."""
    id: str = ""
    stratum: str = ""
    """The class of items for which the benchmark reports a separate score: a subject, a type, a number of hops."""
    group: str = ""
    """A name shared by items that depend on each other, such as items about one page; empty for independent items."""
    claim_date: str | None = None
    """The ISO date of the claim, shown to the system."""
    speaker: str | None = None
    """The speaker of the claim, shown to the system."""
    published_before: str | None = None
    """The ISO day of the claim. Evidence from this day or later could reveal the answer, so searches leave it out."""
    gold_evidence: Mapping[str, Any] | None = None
    """Gold evidence for measuring retrieval, as plain JSON; never shown to the system. Each benchmark has some of these
    keys:

    - ``pages``: titles of gold pages; ``documents``: ids of gold documents; ``urls``: addresses of gold pages;
      ``texts``: gold sentences or paragraphs;
    - ``sets``: alternative sets of [page or document, sentence], each of which is enough (FEVER score);
    - ``sentences``: for each text in ``given``, the offsets of its sentences, in code points (HotpotQA's supporting
      facts);
    - ``questions``: the questions of a fact-checker with their answers, as [{question, answers}] (AVeriTeC);
    - ``wrong_answers``: answers that misleading texts among the given ones suggest (RAMDocs).
    """
    given: tuple[tuple[str, str], ...] = ()
    """(title, text) of each text that comes with the claim or question, such as LongBench's documents, HotpotQA's
    paragraphs, or the sentence that HealthVer's annotators read with a claim."""
    source: str = ""
    """The record's place, for error messages."""


@dataclass(frozen=True)
class Reading:
    """Items, and notes for users: for example, how many records are left out, and why."""

    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()
    conflicting: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By right answer, the ids of items whose question, with all that comes with it, also occurs with another right
    answer (`moot.evals._benchmarks.records_items.conflicting_items`)."""


class InvalidRecord(Exception):  # noqa: N818 - says what is wrong with a record
    """A record that is not in its benchmark's published format; the text says why."""


class SkippedRecord(Exception):  # noqa: N818 - says why a record is left out
    """A record that is valid, but cannot be used as an item; the text is the reason. Notes count records by reason."""


UNLABELLED = "no gold answer, as in test sets"


def text_field(record: Record, *names: str) -> str:
    """The first of the named fields that is not None, as a text without surrounding white space."""
    found = optional_field(record, *names)
    if not found:
        present = next((name for name in names if name in record.fields), None)
        problem = "is empty" if present else "is missing"
        raise InvalidRecord(f"the field {present or ' or '.join(names)} {problem}")
    return found


def optional_field(record: Record, *names: str) -> str:
    """As `text_field`, but an empty text if all named fields are missing or None, or if the value is empty."""
    for name in names:
        value = record.fields.get(name)
        if value is not None:
            return to_text(value, name)
    return ""


def to_text(value: Any, name: str) -> str:
    """Convert a text or a number to a text without surrounding white space."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidRecord(f"the field {name} is neither a text nor a number")
    return str(value).strip()


def gold_answer(record: Record, *names: str) -> str:
    """As `text_field`, for the field with the gold answer."""
    if not (found := optional_field(record, *names)):
        raise SkippedRecord(UNLABELLED)
    return found


@contextmanager
def published_shape(name: str) -> Iterator[None]:
    """Context manager: errors in reading a nested field become `InvalidRecord`, which names the field."""
    try:
        yield
    except (TypeError, LookupError, AttributeError, ValueError) as error:
        raise InvalidRecord(f"the field {name} does not have the published shape") from error


def drop_empty(**parts: Any) -> dict[str, Any] | None:
    """Make an item's gold evidence from the parts that are not empty; None if all parts are empty."""
    return {name: part for name, part in parts.items() if part} or None


BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "-COLON-": ":"}


def page_title(name: str) -> str:
    """The readable title of a Wikipedia page, from the spelling of FEVER or SQuAD (``Ram-Leela_-LRB-film-RRB-``)."""
    for written, sign in BRACKETS.items():
        name = name.replace(written, sign)
    return name.replace("_", " ").strip()


def group_name(shared: str) -> str:
    """The group name of items that share a text, such as a paragraph."""
    return hashlib.sha256(shared.encode()).hexdigest()[:12] if shared else ""


ELEMENTS = r"(?:sentence|header_cell|cell|item|table_caption|title|section)(?:_\d+)*"
"""Pattern for the names of the elements of a page in FEVEROUS: ``sentence_0``, ``cell_0_1_1``."""


class GoldQuestion(TypedDict):
    """A question of a fact-checker with its answers."""

    question: StrictStr
    answers: list[StrictStr]


class GoldEvidence(TypedDict, total=False):
    """The shape of `Item.gold_evidence`; an installed benchmark may add further keys."""

    pages: list[StrictStr]
    documents: list[StrictStr | StrictInt]
    urls: list[StrictStr]
    texts: list[StrictStr]
    sets: list[
        Annotated[
            list[tuple[StrictStr, StrictInt | Annotated[StrictStr, Field(pattern=f"^{ELEMENTS}$")]]],
            Field(min_length=1),
        ]
    ]
    sentences: list[list[StrictInt]]
    questions: list[GoldQuestion]
    wrong_answers: list[StrictStr]


_GOLD_EVIDENCE = TypeAdapter(GoldEvidence)


def check_gold_evidence(gold_evidence: Mapping[str, Any]) -> None:
    """InvalidRecord if no score could read an item's gold evidence; found before a debate is paid for."""
    try:
        _GOLD_EVIDENCE.validate_python(gold_evidence)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(map(str, problem["loc"]))
        raise InvalidRecord(
            f"the gold evidence does not have the published shape ({place}: {problem['msg']})"
        ) from error


def unique_titles(pairs: Any) -> list[str]:
    """The titles in pairs of [title, sentence], in order and without repetitions."""
    return list(dict.fromkeys(page for page, _ in pairs))
