"""Tells, before a list of claims is paid for, what is odd about it, and asks a person at a terminal."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import NamedTuple

from moot.cli.batch.jobs import BatchOptions, doubt_of_row
from moot.cli.earlier import tell_earlier_checks
from moot.cli.models import at_terminal, read_line, say
from moot.core.errors import UserError
from moot.core.files import write_atomically
from moot.core.words import count_with_noun
from moot.evals._benchmarks.claim_files import ClaimRow, ClaimsFile
from moot.nodes._models.replies import Mode
from moot.retrievers._evidence import clean
from moot.web.repeats import MOST_COMPARED, near_claims

MARKER = ".batch.as_is"
"""The file in the folder of a batch whose odd rows are checked as they are."""
LEFT_OUT = ".batch.left_out"
"""The file in the folder of a batch with the numbers of the rows that are left out, as a JSON list."""
ROWS = re.compile(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?")
"""The number of a row, or its range of rows."""
MOST_RANGE = 100_000
"""Maximum number of rows that a range names."""
MOST_LINES = 20
"""Maximum number of rows of a kind that are told."""


Ask = Callable[[Callable[[], str]], str]


class Chosen(NamedTuple):
    """What is chosen about a list before it costs anything.

    ``as_is`` says whether odd rows are checked. ``left_out`` has the numbers of the rows that are not checked; None if
    nothing was said about that.
    """

    as_is: bool
    left_out: Set[int] | None


def ask_about(claims: ClaimsFile, options: BatchOptions, mode: Mode, ask: Ask, chosen: Chosen) -> tuple[Chosen, Mode]:
    """What is ``chosen`` about a list in the end, and how stored replies are used. Blocking.

    Says on standard error which rows are probably no claims, which claims are nearly the same, and which were checked
    before. A person at a terminal is asked about each; Ctrl-C ends the command before it costs. Without a terminal, odd
    rows become bad rows, and rows that are nearly the same are checked.
    """
    as_is, left_out = chosen
    rows, doubts = list[tuple[int, str]](), list[str]()  # without the rows' texts, which may be long
    places: dict[int, str] = {}
    for row in claims:
        if isinstance(row, ClaimRow) and row.number not in (left_out or ()):
            rows.append((row.number, row.claim))
            places[row.number] = f"row {row.number} (line {row.line})"
            if why := doubt_of_row(row, options.asked):
                doubts.append(f"{places[row.number]}, {row.claim[:60]!r}: {why}")
    if doubts and not as_is:
        _tell(f"{count_with_noun(len(doubts), 'row')} may be no claim:", doubts)
        if at_terminal():
            as_is = _says_yes(ask, "Check such rows as they are? y: yes; Enter: no, they are left out as bad rows. ")
    pairs = near_claims([claim for _, claim in rows])
    near = {rows[b][0]: f"{places[rows[b][0]]}, {rows[b][1][:80]!r}: as row {rows[a][0]}" for a, b in pairs}
    if near:
        only = f" (of the first {MOST_COMPARED:,})" if len(rows) > MOST_COMPARED else ""
        remedy = "" if at_terminal() else ". Each is checked, unless --leave-out names it"
        _tell(f"{count_with_noun(len(near), 'row')}{only} nearly the same as an earlier one{remedy}:", [*near.values()])
        if at_terminal():
            left_out = (left_out or set()) | _ask_for_rows(ask, near.keys())
            rows = [row for row in rows if row[0] not in left_out]
    again = tell_earlier_checks([claim for _, claim in rows])
    if again:
        remedy = (
            "With the same model and settings, --replies reuse takes the stored replies, so that you do not pay again."
        )
        told = f"{'All' if again == len(rows) else again} of the {len(rows)} claims were checked before."
        _tell(told if mode == "reuse" else f"{told} {remedy}", [])
    if again and at_terminal():
        how = "Enter: go on, with stored replies where they fit; p: go on and pay again; Ctrl-C: stop. "
        if ask(lambda: read_line(how)).strip().lower() != "p" and mode == "record":
            mode = "reuse"
    return Chosen(as_is, left_out), mode


def _ask_for_rows(ask: Ask, near: Set[int]) -> Set[int]:
    """The rows, of those that are nearly the same as others, that a person leaves out."""
    numbers = ", ".join(map(str, sorted(near)[:2]))
    how = f"Rows to leave out, such as {numbers}; a: all of them; Enter: none, check each; Ctrl-C: stop. "
    while True:
        said = ask(lambda: read_line(how)).strip().lower()
        if said in ("a", "all"):
            return {*near}
        try:
            return row_numbers(said)
        except UserError as error:
            say(error.detail)


def row_numbers(text: str) -> Set[int]:
    """The numbers in a text such as ``3, 7-9``; none in an empty text.

    Raises:
        UserError: the text has something else, or a range that ends before it begins or is longer than `MOST_RANGE`.
    """
    found: set[int] = set()
    for part in text.split(",") if text.strip() else ():
        first, last = (match[1], match[2] or match[1]) if (match := ROWS.fullmatch(part)) else ("", "")
        if not first or not 0 <= int(last) - int(first) < MOST_RANGE:
            raise UserError(
                f"{part.strip()[:40]!r} names no rows. Give their numbers, such as 3, 7-9.", kind="bad_request"
            )
        found.update(range(int(first), int(last) + 1))
    return found


def keep_choices(folder: Path, chosen: Chosen) -> Chosen:
    """What is chosen about the list of a batch: what was said now, else in an earlier run in its folder. Blocking."""
    marker, rows = folder / MARKER, folder / LEFT_OUT
    if chosen.as_is:
        marker.touch()
    if chosen.left_out is not None:
        write_atomically(rows, json.dumps(sorted(chosen.left_out)))
    left_out = chosen.left_out or set()
    if chosen.left_out is None and rows.exists():
        try:
            left_out = {int(number) for number in json.loads(rows.read_bytes())}
        except (OSError, ValueError, TypeError) as error:
            remedy = "Remove it, and name the rows with --leave-out."
            raise UserError(f"{rows} has no list of rows. {remedy}", kind="invalid_file") from error
    return Chosen(marker.exists(), left_out)


def _says_yes(ask: Ask, question: str) -> bool:
    return ask(lambda: read_line(question)).strip().lower() in ("y", "yes")


def _tell(lead: str, lines: Sequence[str]) -> None:
    more = [f"and {len(lines) - MOST_LINES:,} more"] if len(lines) > MOST_LINES else []
    print(lead, *(f"  {clean(line)}" for line in (*lines[:MOST_LINES], *more)), sep="\n", file=sys.stderr, flush=True)  # noqa: T201
