"""The outcomes of a batch as a table: in ``table.csv`` in the batch's folder, and on the screen."""

from __future__ import annotations

import csv
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from textwrap import shorten
from typing import Any

from moot.cli.batch.outcomes import Outcome
from moot.core.batches import Row
from moot.core.files import escape_formula, write_error
from moot.core.words import count_with_noun
from moot.retrievers._evidence import clean
from moot.transcript.columns import DEBATE_COLUMNS, ROW_COLUMNS
from rich.console import Console
from rich.table import Table
from rich.text import Text

FILE = "table.csv"
COLUMNS = (*DEBATE_COLUMNS, "document", "report")
MOST_SHOWN = 50
"""Maximum number of rows on the screen. If the table has more, only failed and bad rows are printed."""
LONGEST = 60
"""Maximum length of a claim on the screen, in characters."""
MOST_ANSWERS = 10
"""Maximum number of different answers of a system that are printed."""
MOST_FAULTS = 10
"""Maximum number of errors that are printed."""
LONGEST_FAULT = 300
"""Maximum length of an error on the screen, in characters.

The most frequent error is printed in full if it is also the first error of the table.
"""
NOT_BEGUN = "not begun"
"""The status of a debate without an outcome."""


@dataclass(frozen=True)
class TableRow:
    """A row of the table.

    ``outcomes`` maps the name of each system to the outcome of its debate, or to None if there is no outcome yet. For a
    bad row, ``outcomes`` maps an empty name to the failed outcome.
    """

    number: int
    id: str
    name: str
    claim: str
    label: str | None
    group: str | None
    outcomes: dict[str, Outcome | None]


def table_rows(rows: Iterable[Row]) -> Iterator[TableRow]:
    """Yields a row of the table for the debates of each row of the file."""
    for number, group in groupby(rows, lambda row: row.number):
        debates = list(group)
        row = debates[0]
        outcomes = {one.system: None if one.outcome is None else dict(one.outcome) for one in debates}
        yield TableRow(number, row.id, row.name, row.claim, row.label, row.group, outcomes)


@dataclass
class Summary:
    """Counts over all rows, collected while the table is written."""

    systems: Sequence[str]
    several: bool
    rows: int = 0
    complete: int = 0
    """Number of rows whose debates are all done."""
    unanswered: int = 0
    """Number of debates that are done and found no answer."""
    statuses: Counter[str] = field(default_factory=Counter)
    cut_short: int = 0
    """Number of answers from debates that a ceiling ended early."""
    answers: dict[str, Counter[str]] = field(default_factory=dict)
    first: list[TableRow] = field(default_factory=list)
    failed: list[TableRow] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    """The number of debates and bad rows by shortened error, for the first `MOST_FAULTS` + 1 different errors."""
    first_row_of_fault: dict[str, str] = field(default_factory=dict)
    """The id of the first row with each error of `faults`, followed by the debate's system if there is one."""
    first_error: str = ""
    """The first error in full, because an error ends with the remedy."""

    def note(self, row: TableRow) -> None:
        """Counts a row, and stores it if it may be shown on the screen."""
        self.rows += 1
        done = {system: one for system, one in row.outcomes.items() if one is not None and one["status"] == "done"}
        self.complete += len(done) == len(row.outcomes)
        self.unanswered += sum(one["answer"] is None for one in done.values())
        answered = [one for one in done.values() if one["answer"] is not None]
        self.cut_short += sum(one.get("stop_reason") == "budget_exhausted" for one in answered)
        for system, outcome in row.outcomes.items():
            self.statuses[NOT_BEGUN if outcome is None else outcome["status"]] += 1
            if outcome is not None and outcome["status"] != "done":
                error = clean(outcome["error"] or "")
                fault = shorten(error, LONGEST_FAULT, placeholder=" ...")
                self.first_error = self.first_error or error
                if len(self.faults) <= MOST_FAULTS or fault in self.faults:
                    self.faults[fault] += 1
                    place = f"{clean(row.id)} {f'({system})' if system else ''}".strip()
                    self.first_row_of_fault.setdefault(fault, place)
            if system in done:
                self.answers.setdefault(system, Counter())[str(done[system]["answer"] or "no answer")] += 1
        if len(self.first) < MOST_SHOWN:
            self.first.append(row)
        has_failed = any(one is not None and one["status"] != "done" for one in row.outcomes.values())
        if has_failed and len(self.failed) < MOST_SHOWN:
            self.failed.append(row)


def write_table(rows: Iterable[TableRow], folder: Path, systems: Sequence[str]) -> Summary:
    """Writes the table, a row at a time, and returns its summary. Blocking.

    Args:
        rows: the rows, in order.
        folder: the batch's folder.
        systems: the systems of the command line. If there are several, each has its own columns.

    Raises:
        UserError, WorldError: the table cannot be written; an old table is left unchanged.
    """
    several = len(systems) > 1
    summary = Summary(systems, several)
    path, partial = folder / FILE, folder / f".{FILE}.{secrets.token_hex(8)}.part"
    titles = [f"{system}: {name}" for system in systems for name in COLUMNS[1:]] if several else COLUMNS
    try:
        # the encoding writes a byte order mark, without which spreadsheets do not read the file as UTF-8
        with partial.open("x", encoding="utf-8-sig", newline="") as file:
            lines = csv.writer(file)
            lines.writerow((*ROW_COLUMNS, *(["agree"] if several else []), *titles))
            for row in rows:
                summary.note(row)
                lines.writerow(map(escape_formula, _cells(row, systems)))
        partial.replace(path)
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        partial.unlink(missing_ok=True)
    return summary


def _cells(row: TableRow, systems: Sequence[str]) -> list[str]:
    cells = [str(row.number), row.id, row.claim, row.label or "", row.group or ""]
    if len(systems) == 1:
        [(system, outcome)] = row.outcomes.items()
        return [*cells, system, *_debate_cells(row, system, outcome, suffix="")]
    cells.append(_agreement(row))
    for system in systems:
        outcome = row.outcomes.get(system, row.outcomes.get(""))
        cells += _debate_cells(row, system, outcome, suffix=f".{system}")
    return cells


def _debate_cells(row: TableRow, system: str, outcome: Outcome | None, suffix: str) -> list[str]:
    if outcome is None:
        return [NOT_BEGUN, *[""] * (len(COLUMNS) - 2)]
    spent = outcome.get("spent") or {}
    found: dict[str, Any] = {**outcome, **spent}
    names = COLUMNS[1:-2]
    cells = ["" if found.get(name) is None else str(found[name]) for name in names]
    files = [f"{row.name}{suffix}{end}" if spent else "" for end in (".json", ".html")]
    return cells + files


def _agreement(row: TableRow) -> str:
    """``yes`` if all systems have the same answer, ``no`` if answers differ; empty if a system has no answer."""
    answers = {one["answer"] for one in row.outcomes.values() if one is not None}
    all_answered = None not in row.outcomes.values() and None not in answers
    return ("yes" if len(answers) == 1 else "no") if all_answered else ""


def show_table(summary: Summary, folder: Path, console: Console, stop_reason: str) -> None:
    """Prints the table and a summary. Of more than `MOST_SHOWN` rows, only failed and bad rows are printed.

    Args:
        summary: as `write_table` returns it.
        folder: the batch's folder.
        console: the console to print on.
        stop_reason: why no further row was started; empty if nothing stopped the batch.
    """
    shown = summary.first if summary.rows <= MOST_SHOWN else summary.failed
    if shown:
        if summary.rows > MOST_SHOWN:
            console.print(f"Failed and bad rows (at most {MOST_SHOWN}):")
        console.print(_screen_table(shown, summary))
    for index, (fault, times) in enumerate(summary.faults.most_common(MOST_FAULTS)):
        text = (
            summary.first_error if not index and summary.first_error.startswith(fault.removesuffix(" ...")) else fault
        )
        first, more = summary.first_row_of_fault[fault], f" and {times - 1:,} more" if times > 1 else ""
        console.print(Text(f"{first}{more}: {text}", style="red"), soft_wrap=True)
    if len(summary.faults) > MOST_FAULTS:
        console.print(Text("The table has the other errors.", style="red"))
    for system, answers in summary.answers.items():
        counts = ", ".join(f"{answer} {count:,}" for answer, count in answers.most_common(MOST_ANSWERS))
        more = f" and {count_with_noun(left, 'other answer')}" if (left := len(answers) - MOST_ANSWERS) > 0 else ""
        console.print(Text(f"{system}: {clean(counts)}{more}"))
    unanswered = f"; {count_with_noun(summary.unanswered, 'debate')} found no answer" if summary.unanswered else ""
    nouns = {"failed": ("debate", " failed"), "bad": ("bad row", ""), NOT_BEGUN: ("debate", " not begun")}
    counted = ((summary.statuses[status], noun, state) for status, (noun, state) in nouns.items())
    lost = ", ".join(count_with_noun(n, noun) + state for n, noun, state in counted if n)
    text = f"{summary.complete:,} of {summary.rows:,} rows are done{unanswered}" + (f"; {lost}" if lost else "")
    report = "ID.SYSTEM.html" if summary.several else "ID.html"
    reports = f"; its folder also has the reports ({report})" if summary.statuses["done"] else ""
    console.print(Text(f"{text}. The table: {folder / FILE}{reports}", style="bold"), soft_wrap=True)
    if summary.cut_short:
        verdicts = (
            "1 verdict is from a debate"
            if summary.cut_short == 1
            else f"{summary.cut_short:,} verdicts are from debates"
        )
        text = f"{verdicts} that a ceiling ended early (stop_reason is budget_exhausted in the table)."
        console.print(Text(text, style="yellow"), soft_wrap=True)
    if stop_reason:
        lead = "No further row was started" if summary.statuses[NOT_BEGUN] else "Not all rows are done"
        console.print(Text(f"{lead}: {stop_reason}.", style="yellow"), soft_wrap=True)
    elif summary.statuses["failed"] + summary.statuses[NOT_BEGUN]:
        console.print(Text("Run the same command again for the rows that failed or were not begun."))


def _screen_table(rows: Sequence[TableRow], summary: Summary) -> Table:
    with_label = any(row.label for row in rows)
    titles = ["id", "claim", *(["label"] if with_label else [])]
    titles += summary.systems if summary.several else ["answer"]
    table = Table(*titles, box=None, padding=(0, 2, 0, 0))
    for row in rows:
        cells = [Text(clean(row.id)), Text(shorten(clean(row.claim), LONGEST, placeholder=" ..."))]
        cells += [Text(clean(row.label or ""))] if with_label else []
        given = [row.outcomes.get(s, row.outcomes.get("")) for s in summary.systems] if summary.several else None
        cells += [_answer_cell(one) for one in given or row.outcomes.values()]
        table.add_row(*cells)
    return table


def _answer_cell(outcome: Outcome | None) -> Text:
    if outcome is None:
        return Text(NOT_BEGUN, style="dim")
    if outcome["status"] == "done":
        basis = f" ({outcome['evidence']})" if outcome.get("evidence") else ""
        return Text(clean(outcome["answer"] or "no answer") + basis, style="bold" if outcome["answer"] else "")
    return Text("bad row" if outcome["status"] == "bad" else "failed", style="red")
