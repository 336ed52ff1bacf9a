"""``moot eval ragas``: measures the verdicts in logs, or in a result document, with RAGAS's own metrics."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from moot.cli.compare import terminal_table
from moot.cli.tables import show
from moot.core.endpoint import close_clients
from moot.core.errors import MootError
from moot.core.files import check_writable, write_atomically, write_error
from moot.evals._report.tables import Cell, Column, Table, as_csv, columns
from moot.evals._runs.ragas import METRICS, AnsweredSample, MetricValue, check_installed, measure, read_answers
from moot.evals._stats.outcomes import mean_score
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

INTERRUPTED = 130
"""The exit code after Ctrl-C."""
UNMEASURED = MetricValue(None, "not measured: the command ended first", failed=True)
MOST_REASONS = 5
"""Maximum number of reasons for missing values that are printed for each metric."""
MOST_IDS = 5
"""Maximum number of samples that are named with each reason."""
RUN_COLUMNS = (Column("system", "system"), *columns("text", benchmark="", model="", seed="", file="log"))
"""Columns that identify a row's run."""


@dataclass(frozen=True)
class Options:
    """Options of the command line.

    ``log`` is a log, a folder of logs, or a result document. ``limit`` is the maximum number of samples of each log; if
    it is None, all samples are measured.
    """

    log: Path
    model: str
    embedder: str
    limit: int | None
    at_once: int


def measure_log(options: Options, *, as_json: bool, out: Path | None) -> int:
    """Measures verdicts, prints a table or a JSON document, and returns the exit code.

    The code is `INTERRUPTED` if Ctrl-C ended the measurement early, 3 if calls failed for some samples, else 0. After
    Ctrl-C, the figures so far are printed and written. After an error, the figures so far are printed and written if
    there are any, and then the error is raised.

    Raises:
        UserError: the same as for `read_answers` and `measure`, or ``out`` cannot be written.
        WorldError: the same as for `measure`, or the disk is full or fails.
    """
    if out is not None:
        check_writable(out)
    os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")  # otherwise RAGAS would send data about its use
    logging.getLogger("instructor").setLevel(logging.CRITICAL)  # moot itself reports each failure once
    check_installed()
    samples, notes = read_answers(options.log, options.limit)
    console = Console(stderr=True)
    measured: dict[int, dict[str, MetricValue]] = {}
    ended: MootError | None = None
    try:
        _measure_all(samples, options, measured, console)
    except MootError as error:
        ended = error
    except KeyboardInterrupt:
        console.print("Interrupted.")
    if ended is not None and not measured:
        raise ended
    figures = [measured.get(n) or dict.fromkeys(METRICS, UNMEASURED) for n in range(len(samples))]
    _write_results(samples, figures, options, as_json=as_json, out=out)
    for note in [*notes, *_missing_notes(samples, figures)]:
        console.print(note, markup=False, highlight=False, soft_wrap=True)
    if ended is not None:
        raise ended
    if len(measured) < len(samples):
        return INTERRUPTED
    return 3 if any(figure.failed for sample in figures for figure in sample.values()) else 0


def _measure_all(
    samples: Sequence[AnsweredSample], options: Options, measured: dict[int, dict[str, MetricValue]], console: Console
) -> None:
    """Measures all samples with a progress bar; stores the figures of each sample in ``measured``, by its index."""
    bars = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("samples"))
    with Progress(*bars, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=len(samples))

        def store_figures(index: int, figures: dict[str, MetricValue]) -> None:
            measured[index] = figures
            progress.update(bar, completed=len(measured))

        async def work() -> None:
            try:
                await measure(samples, options.model, options.embedder, options.at_once, store_figures)
            finally:
                await close_clients()

        asyncio.run(work())


def _write_results(
    samples: Sequence[AnsweredSample],
    figures: Sequence[dict[str, MetricValue]],
    options: Options,
    *,
    as_json: bool,
    out: Path | None,
) -> None:
    """Prints a table of means, or with ``as_json`` the document with all figures; writes the figures to ``out``.

    A file that ends in .csv gets the table of samples. Another file gets the document.

    Raises:
        UserError, WorldError: the file cannot be written. Then the document is printed.
    """
    document = {
        "moot_version": version("moot"),
        "ragas_version": version("ragas"),
        "model": options.model,
        "embedder": options.embedder,
        "systems": _as_records(by_run := systems_table(samples, figures)),
        "samples": _as_records(by_sample := samples_table(samples, figures)),
    }
    text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    if as_json:
        print(text, end="")  # noqa: T201
    else:
        hidden = [column.key for column in RUN_COLUMNS if column.key == "file" or not any(by_run.column(column.key))]
        show(terminal_table(by_run.without(hidden)))
    if out is not None:
        try:
            write_atomically(out, as_csv(by_sample) if out.suffix == ".csv" else text)
        except OSError as error:  # the result has cost money: print it instead of losing it
            print("" if as_json else text, end="")  # noqa: T201
            raise write_error(out, error) from error


def systems_table(samples: Sequence[AnsweredSample], figures: Sequence[dict[str, MetricValue]]) -> Table:
    """A table with one row per run: each metric's mean, and the numbers of samples with and without a value."""
    heads = [*RUN_COLUMNS, *columns("count", samples="")]
    for name, title in METRICS.items():
        heads += [Column(name, title, "share"), *columns("count", **{f"{name}_n": "n", f"{name}_missing": "missing"})]
    rows = []
    for _, group in groupby(zip(samples, figures, strict=True), key=lambda pair: pair[0].file):
        measured = list(group)
        row: list[Cell] = [*_run_cells(measured[0][0]), len(measured)]
        for name in METRICS:
            score = mean_score([figure[name].value for _, figure in measured])
            row += [score.value, score.n, score.missing]
        rows.append(row)
    return Table("systems", "RAGAS", "", tuple(heads), tuple(map(tuple, rows)))


def samples_table(samples: Sequence[AnsweredSample], figures: Sequence[dict[str, MetricValue]]) -> Table:
    """A table with one row per sample: each metric's value, or the reason why the value is missing."""
    heads = [*RUN_COLUMNS, *columns("text", id="sample")]
    for name, title in METRICS.items():
        heads += [Column(name, title, "share"), Column(f"{name}_missing", "missing")]
    rows = [
        [
            *_run_cells(sample),
            sample.id,
            *(cell for name in METRICS for cell in (row[name].value, row[name].reason)),
        ]
        for sample, row in zip(samples, figures, strict=True)
    ]
    return Table("samples", "Samples", "", tuple(heads), tuple(map(tuple, rows)))


def _run_cells(sample: AnsweredSample) -> list[Cell]:
    """The cells of `RUN_COLUMNS` for the run of a sample."""
    seed = "" if sample.seed is None else str(sample.seed)
    return [sample.system, sample.benchmark, sample.model or "", seed, sample.file]


def _as_records(table: Table) -> list[dict[str, Any]]:
    names = [column.key for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def _missing_notes(samples: Sequence[AnsweredSample], figures: Sequence[dict[str, MetricValue]]) -> list[str]:
    """Notes on missing values: for each metric, the most frequent reasons, each with some of its samples."""
    lines = []
    for name, title in METRICS.items():
        each = zip(samples, figures, strict=True)
        missing = [
            (figure[name].reason, f"{sample.system} {sample.id}") for sample, figure in each if figure[name].reason
        ]
        for why, times in Counter(why for why, _ in missing).most_common(MOST_REASONS):
            ids = [id for reason, id in missing if reason == why]
            more = f" and {times - MOST_IDS} more" if times > MOST_IDS else ""
            named = f"{', '.join(ids[:MOST_IDS])}{more}"
            lines.append(f"No {title} for {times} sample{'s' * (times > 1)} ({named}): {' '.join(why.split())[:300]}")
    return lines
