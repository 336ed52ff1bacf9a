"""The outcomes of a batch as a table: in ``table.csv`` and ``table.xlsx`` in the batch's folder, and on the screen."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path
from textwrap import shorten
from typing import Any

from moot.core.batches import SAME_AS, SAME_ROW, Row
from moot.core.files import write_error
from moot.core.sheets import Cell, write_tables
from moot.core.words import count_with_noun
from moot.retrievers._evidence import clean
from moot.transcript.columns import DEBATE_COLUMNS, Columns, cells_of_row, header_of
from moot.transcript.outcome import Outcome, cells_of
from moot.web.reviews import cells_of_review, of_debates
from rich.console import Console
from rich.table import Table
from rich.text import Text

FILE, SHEET = "table.csv", "table.xlsx"
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
MOST_NAMED = 20
"""Maximum number of rows that are named in a sentence."""
AT_ONCE = 500
"""Number of rows whose reviews are looked up at a time."""
NOT_BEGUN = "not begun"
"""The status of a debate without an outcome."""
LEFT_OUT = "left out"
"""The status of a row that is not checked because a person said so."""


@dataclass(frozen=True)
class TableRow:
    """A row of the table.

    ``outcomes`` maps the name of each system to the outcome of its debate, or to None if there is no outcome yet. For a
    bad row, ``outcomes`` maps an empty name to the failed outcome.
    """

    number: int
    id: str
    claim: str
    label: str | None
    group: str | None
    outcomes: dict[str, Outcome | None]
    files: Mapping[str, str] = field(default_factory=dict)
    """The names of the debates' files, by system; without a suffix."""
    job: Mapping[str, Any] = field(default_factory=dict)
    """The job of the row's first debate, with the row's cells in the file."""
    reviews: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What editors decided (`moot.web.reviews.in_lists`), by system."""

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of the row, by the columns of the table."""
        asked = self.job.get("asked") or {}
        origin = {"speaker": asked.get("speaker"), "date": asked.get("claim_date")}
        return {
            "row": self.number,
            **{name: getattr(self, name) for name in ("id", "claim", "label", "group")},
            **origin,
        }


def table_rows(rows: Iterable[Row]) -> Iterator[TableRow]:
    """Yields a row of the table for the debates of each row of the file."""
    groups = (list(group) for _, group in groupby(rows, lambda row: row.number))
    while some := [*islice(groups, AT_ONCE)]:
        reviewed = of_debates([_key(one) for debates in some for one in debates])
        for debates in some:
            row = debates[0]
            outcomes = {one.system: None if one.outcome is None else dict(one.outcome) for one in debates}
            files = {one.system: one.file for one in debates}
            reviews = {one.system: reviewed[_key(one)] for one in debates if _key(one) in reviewed}
            yield TableRow(row.number, row.id, row.claim, row.label, row.group, outcomes, files, row.job, reviews)


def _key(row: Row) -> str:
    """The id of a row's debate: that of the first row if it repeats one."""
    return str(row.job.get(SAME_AS, row.key))


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
    cut_rows: list[str] = field(default_factory=list)
    """The ids of the first rows with such answers."""
    rows_not_begun: list[str] = field(default_factory=list)
    """The ids of the first rows without an outcome."""
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
        cut_short = sum(one.get("stop_reason") == "budget_exhausted" for one in answered)
        self.cut_short += cut_short
        for ids, applies in ((self.cut_rows, cut_short), (self.rows_not_begun, None in row.outcomes.values())):
            if applies and len(ids) < MOST_NAMED:
                ids.append(clean(row.id))
        for system, outcome in row.outcomes.items():
            self.statuses[NOT_BEGUN if outcome is None else outcome["status"]] += 1
            if outcome is not None and outcome["status"] not in ("done", LEFT_OUT):
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
        outcomes = row.outcomes.values()
        has_failed = any(one is not None and one["status"] not in ("done", LEFT_OUT) for one in outcomes)
        if has_failed and len(self.failed) < MOST_SHOWN:
            self.failed.append(row)


def write_table(
    rows: Iterable[TableRow],
    folder: Path,
    systems: Sequence[str],
    own: Columns,
    stop_reason: str = "",
    *,
    with_sheet: bool = False,
) -> Summary:
    """Writes the table, a row at a time, and returns its summary. Blocking.

    Args:
        rows: the rows.
        folder: the folder of the batch.
        systems: the systems of the batch.
        own: the columns of the list.
        stop_reason: why debates were not begun.
        with_sheet: whether it is also written as .xlsx.
    """
    summary = Summary(systems, len(systems) > 1)
    wanted = [FILE, *([SHEET] if with_sheet else [])]
    partial = {name: folder / f".{name}.{secrets.token_hex(8)}.part" for name in wanted}
    names = [f"{system}: {name}" for system in systems for name in COLUMNS[1:]]
    header = header_of(own, ["agree", *names] if summary.several else COLUMNS)

    def lines() -> Iterator[list[Cell]]:
        for row in rows:
            summary.note(row)
            yield cells_of_row(own, row.job.get("written") or (), row.facts, _debates_cells(row, systems, stop_reason))

    try:
        with ExitStack() as files:
            text = files.enter_context(partial[FILE].open("x", encoding="utf-8", newline=""))
            sheet = files.enter_context(partial[SHEET].open("xb")) if with_sheet else None
            write_tables(header, lines(), text, sheet)
        for name in wanted:
            partial[name].replace(folder / name)
    except OSError as error:
        raise write_error(folder / FILE, error) from error
    finally:
        for path in partial.values():
            path.unlink(missing_ok=True)
    return summary


def _debates_cells(row: TableRow, systems: Sequence[str], stop_reason: str) -> list[Cell]:
    if len(systems) == 1:
        [(system, outcome)] = row.outcomes.items()
        return [system, *_debate_cells(row, system, outcome, stop_reason)]
    cells: list[Cell] = [_agreement(row)]
    for system in systems:
        cells += _debate_cells(row, system, row.outcomes.get(system, row.outcomes.get("")), stop_reason)
    return cells


def _debate_cells(row: TableRow, system: str, outcome: Outcome | None, stop_reason: str) -> list[Cell]:
    found: dict[str, Any] = {"status": NOT_BEGUN, "stop_reason": stop_reason} if outcome is None else cells_of(outcome)
    found["same_as_row"] = row.job.get(SAME_ROW)
    if outcome and outcome["status"] == "done":
        found |= cells_of_review(row.reviews.get(system, {"stage": "new"}))
    if outcome and outcome.get("spent"):
        found |= {"document": f"{row.files[system]}.json", "report": f"{row.files[system]}.html"}
    return [found.get(name) for name in COLUMNS[1:]]


def _agreement(row: TableRow) -> str:
    """``yes`` if all systems have the same answer, ``no`` if answers differ; empty if a system has no answer."""
    answers = {one["answer"] for one in row.outcomes.values() if one is not None}
    all_answered = None not in row.outcomes.values() and None not in answers
    return ("yes" if len(answers) == 1 else "no") if all_answered else ""


def show_table(summary: Summary, folder: Path, console: Console, stop_reason: str) -> None:
    """Prints the table and a summary. Of more than `MOST_SHOWN` rows, only failed and bad rows are printed."""
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
    nouns = {
        "failed": ("debate", " failed"),
        "bad": ("bad row", ""),
        NOT_BEGUN: ("debate", " not begun"),
        LEFT_OUT: ("row", " left out"),
    }
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
        named = _named(summary.cut_rows, summary.cut_short)
        text = f"{verdicts} that a ceiling ended early ({named}; stop_reason is budget_exhausted in the table)."
        console.print(Text(text, style="yellow"), soft_wrap=True)
    if stop_reason:
        left = summary.statuses[NOT_BEGUN]
        lead = "No further row was started" if left else "Not all rows are done"
        named = f" Not begun: {_named(summary.rows_not_begun, left)}." if left else ""
        console.print(Text(f"{lead}: {stop_reason}.{named}", style="yellow"), soft_wrap=True)
    elif summary.statuses["failed"] + summary.statuses[NOT_BEGUN]:
        console.print(Text("Run the same command again for the rows that failed or were not begun."))


def _named(ids: Sequence[str], count: int) -> str:
    """The first rows of a kind, of ``count`` ones."""
    more = f" and {count - MOST_NAMED:,} more" if count > MOST_NAMED else ""
    return f"{'row' if len(ids) == 1 else 'rows'} {', '.join(ids)}{more}"


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
    if outcome["status"] == LEFT_OUT:
        return Text(LEFT_OUT, style="dim")
    return Text("bad row" if outcome["status"] == "bad" else "failed", style="red")
