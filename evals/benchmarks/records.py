"""What the records of a benchmark become, and how one field of a record is read.

A record is an object as its benchmark publishes it. A function for each benchmark (`records_claims`, `records_choice`,
`records_answers`) makes an `Item` of it, or raises `Broken` or `Skipped`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Record:
    """An object of a file or of a dataset on the Hub, and where it stands."""

    fields: Mapping[str, Any]
    where: str
    """For errors, e.g. ``fever.jsonl, line 3``."""
    index: int = 0
    """Its place in its file, from 0."""
    file: str = ""
    """Its file within the folder, without the ending."""
    id: str = ""
    """From the list of ids beside its file, where there is one."""


@dataclass(frozen=True)
class Item:
    """One claim or question of a benchmark, with what answers are measured by.

    Only ``claim``, ``options``, ``claim_date`` and ``speaker`` are for the system under test, and ``given`` where it is
    asked to read that.
    """

    claim: str
    gold: tuple[str, ...]
    """For labels and choices the one label or letter of moot's task; for short answers every accepted answer; for
    numbers and expressions the final value. Each is written as `moot.nodes.texts.answers.read_answer` reads it."""
    options: tuple[str, ...] = ()
    """What the letters from A stand for."""
    task: str = ""
    """A key of `moot.nodes.texts.task.TASKS` if it is another than its benchmark's."""
    labels: tuple[str, ...] = ()
    """The answers to choose from, of the task ``labels``."""
    id: str = ""
    stratum: str = ""
    """A class of items that the benchmark reports by: a subject, a type, a number of hops."""
    group: str = ""
    """What it shares with items that are not independent of it, such as a claim or a page; empty for nothing."""
    claim_date: str | None = None
    """The ISO day on which the claim was said, for the system."""
    speaker: str | None = None
    """Who said it, for the system."""
    published_before: str | None = None
    """The ISO day of the claim: evidence from this day on would be a leak."""
    gold_evidence: Mapping[str, Any] | None = None
    """What retrieval is measured by, as plain JSON; never for the system. It holds, where the benchmark says them:

    - ``pages``: titles of gold pages; ``documents``: ids of gold documents; ``urls``; ``texts``: gold sentences;
    - ``sets``: alternative sets of [page or document, sentence], each of which is enough (FEVER score);
    - ``sentences``: of each text in ``given`` where its sentences begin, in code points (HotpotQA's supporting facts);
    - ``questions``: [{question, answers}] that a fact-checker asked (AVeriTeC).
    """
    given: tuple[tuple[str, str], ...] = ()
    """(title, text) that the benchmark hands to whoever answers, where an answer means nothing without: LongBench's
    documents, HotpotQA's ten paragraphs, the sentence that a claim of HealthVer is labelled by."""
    source: str = ""
    """Where the record stands."""


@dataclass(frozen=True)
class Reading:
    """Items, and what has to be said about them: how many records were left out and why, what comes twice."""

    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()


class Broken(Exception):  # noqa: N818 - says what is wrong with a record
    """A record that is not what its benchmark publishes; the text says which field, and what is wrong with it."""


class Skipped(Exception):  # noqa: N818 - says why a record is left out
    """A record that cannot be asked or measured, as some published ones cannot; the text says why, for all such."""


UNLABELLED = "no gold answer, as in test sets"


def text(record: Record, *names: str) -> str:
    """The first of the fields that is there, as a text without white space around it; a number is written out.

    Raises:
        Broken: none is there, or it holds no text.
    """
    found = optional(record, *names)
    if not found:
        there = next((name for name in names if name in record.fields), None)
        problem = "holds no text" if there else "is missing"
        raise Broken(f"the field {there or ' or '.join(names)} {problem}")
    return found


def optional(record: Record, *names: str) -> str:
    """As `text`; empty where there is none.

    Raises:
        Broken: the field holds something else than a text or a number.
    """
    for name in names:
        value = record.fields.get(name)
        if value is not None:
            return plain(value, name)
    return ""


def plain(value: Any, name: str) -> str:
    """A text or a number as a text.

    Raises:
        Broken: it is neither; ``name`` says where it was found.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Broken(f"the field {name} holds another kind of value than a text")
    return str(value).strip()


def answer(record: Record, *names: str) -> str:
    """As `text`, of the field that holds the gold answer.

    Raises:
        Skipped: there is none.
        Broken: it is no text.
    """
    if not (found := optional(record, *names)):
        raise Skipped(UNLABELLED)
    return found


@contextmanager
def published_shape(name: str) -> Iterator[None]:
    """What goes wrong while a nested field is read says which field it was."""
    try:
        yield
    except (TypeError, LookupError, AttributeError, ValueError) as error:
        raise Broken(f"the field {name} has another shape than the published one") from error


def evidence(**parts: Any) -> dict[str, Any] | None:
    """Gold evidence of the parts that hold anything; None where none does."""
    return {name: part for name, part in parts.items() if part} or None


BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "-COLON-": ":"}


def page_title(name: str) -> str:
    """The title of a Wikipedia page as it reads, from how FEVER or SQuAD write it (``Ram-Leela_-LRB-film-RRB-``)."""
    for written, sign in BRACKETS.items():
        name = name.replace(written, sign)
    return name.replace("_", " ").strip()


def group_of(shared: str) -> str:
    """A short name for a text that several items share, such as a paragraph."""
    return hashlib.sha256(shared.encode()).hexdigest()[:12] if shared else ""


ELEMENTS = r"(?:sentence|header_cell|cell|item|table_caption|title|section)(?:_\d+)*"
"""A part of a page as FEVEROUS names it: ``sentence_0``, ``cell_0_1_1``."""


def titles(pairs: Any) -> list[str]:
    """The pages or documents of [page, sentence] pairs, each once, in order."""
    return list(dict.fromkeys(page for page, _ in pairs))
