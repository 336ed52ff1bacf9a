"""``moot eval compare``: compares debate systems and their controls, from evaluation logs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from moot.cli.tables import show
from moot.core.errors import UserError
from moot.evals._report.html import HIDDEN_COLUMNS
from moot.evals._report.tables import Nested, Table, format_cell, is_numeric
from moot.evals._report.write import as_document, compare, create_folders, write_report
from moot.evals._runs.stated import read_tests
from rich.console import Console
from rich.table import Table as Screen
from rich.text import Text

PRINTED = ("systems", "audited", "differences", "costs", "seeds", "errors")
"""Keys of the tables that are printed. A written report has all tables."""
NOT_PRINTED = (
    "of",
    "elsewhere",
    "priced",
    "total",
    "front_tokens",
    "relative_cost",
    "relative_seconds",
    "detectable",
    "example",
    "sd",
    "lowest",
    "highest",
)
"""Columns that the printed tables leave out. Written reports and JSON documents have these columns."""


def compare_logs(
    logs: Sequence[Path],
    *,
    out: Path | None,
    against: str | None,
    tests: Path | None,
    prices: Path | None,
    as_json: bool,
    audit: Path | None = None,
) -> None:
    """Compares the systems in logs, writes a report to the folder ``out`` if it is given, and prints the comparison.

    Args:
        logs: logs, and folders of logs.
        out: the report's folder; None for no report.
        against: the baseline: a system or a kind of control. If None, each system is compared with its own controls and
            with the first system.
        tests: a YAML file with the tests to make, such as a plan; None for those that the logs' plans state, if any.
        prices: a file of prices, which override moot's own prices.
        as_json: whether to print only a JSON document.
        audit: a file of decisions on labels, by `moot eval audit`; None for the original labels alone.

    Raises:
        UserError: there is nothing to compare, ``against`` is unknown, a log or the file of prices cannot be used, a
            package is missing, or ``out`` cannot be written.
        WorldError: the disk is full or fails.
    """
    if out is not None:
        create_folders(out)
    if against and tests:
        raise UserError("--against and --tests both say what is tested: give one of them.", kind="invalid_setting")
    stated = read_tests(tests) if tests else ()
    report = compare(logs, against=against, tests=stated, prices=prices, audit=audit)
    written = [] if out is None else write_report(report, out)
    if as_json:
        print(json.dumps(as_document(report), ensure_ascii=False, indent=2))  # noqa: T201
        return
    console = Console(soft_wrap=True)
    console.print(Text(f"\n{report.findings.headline}", style="bold"))
    for sentence in report.findings.sentences:
        console.print(Text(f"- {sentence}"))
    if report.overview is not None and len(report.sections) > 1:
        show(terminal_table(report.overview.without((*HIDDEN_COLUMNS, "lost"))))
    if report.across is not None:
        show(terminal_table(report.across.without(NOT_PRINTED)))
    for section in report.sections:
        console.print(Text(f"\n{section.title}", style="bold"))
        for made in section.tables:
            if made.key in PRINTED:
                show(terminal_table(made.without(NOT_PRINTED)))
        for note in section.notes:
            console.print(Text(f"note: {note}", style="dim"))
    for note in report.notes:
        console.print(Text(f"note: {note}", style="dim"))
    for measure, why in report.findings.not_measured:
        console.print(Text(f"not measured: {measure}: {why}", style="dim"))
    unprinted = dict.fromkeys(
        made.title for section in report.sections for made in section.tables if made.key not in PRINTED
    )
    if out is None and unprinted:
        console.print(
            Text(f"note: --out DIR also writes pictures and these tables: {', '.join(unprinted)}", style="dim")
        )
    for file in written:
        Console(stderr=True, soft_wrap=True).print(Text(f"wrote {file}"))


def terminal_table(table: Table) -> Screen:
    """A table of a report as rich prints it; the names of nested rows are indented."""
    screen = Screen(box=None, padding=(0, 2, 0, 0), title=Text(table.title), title_justify="left", title_style="bold")
    for column in table.columns:
        screen.add_column(Text(column.title), justify="right" if is_numeric(column) else "left", vertical="bottom")
    for row in table.rows:
        cells = [format_cell(cell, column.kind) for cell, column in zip(row, table.columns, strict=True)]
        cells[0] = f"  {cells[0]}" if isinstance(row[0], Nested) else cells[0]
        screen.add_row(*map(Text, cells))
    return screen
