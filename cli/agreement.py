"""``moot eval agreement``: measures the agreement of each pair of graders of free-text answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

from moot.cli.compare import terminal_table
from moot.cli.tables import show
from moot.core.endpoint import close_clients
from moot.core.errors import UserError
from moot.core.files import check_writable, write_atomically, write_error
from moot.evals._analyses.agreement import agreement
from moot.evals._analyses.graders import GradableAnswer, add_human_grades, ask_graders, read_gradable_answers
from moot.evals._report.tables import Cell, Column, Table, as_csv, as_records, columns
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

HEADS = (
    *columns("text", first="grader", second="and", of=""),
    *columns("count", n="both graded", missing="a grade is missing"),
    *columns("share", share="agree", kappa="Cohen's kappa"),
    *columns("count", both="both right", only_first="first alone", only_second="second alone", neither="both wrong"),
)


def measure_agreement(
    logs: Sequence[Path], models: Sequence[str], gold: Path | None, at_once: int, *, as_json: bool, out: Path | None
) -> None:
    """Lets models grade the answers in logs, and prints the agreement of each pair of graders.

    Args:
        logs: logs and folders of logs.
        models: the models that grade every answer, as provider:name.
        gold: a file of people's judgements; None for no file.
        at_once: maximum number of calls at the same time.
        as_json: whether to print a JSON document.
        out: a file to write; None for no file. If its name ends in .csv, only the grades of each answer are written,
            otherwise the JSON document.

    Raises:
        UserError: the logs or ``gold`` cannot be used, there are fewer than two graders, a model cannot be asked, or a
            package is not installed.
        UserError, WorldError: ``out`` cannot be written.
    """
    if out is not None:
        check_writable(out)
    answers, notes = read_gradable_answers(logs)
    if gold is not None:
        add_human_grades(answers, gold)
    console = Console(stderr=True)
    if models:
        notes += _ask_graders_with_progress(answers, list(dict.fromkeys(models)), at_once, console)
    table = pairs_table(answers)
    if not table.rows:
        raise UserError(
            "The only grader is the comparison of texts: add a model with --grader or a file with --gold.",
            kind="invalid_setting",
        )
    document = {
        "moot_version": version("moot"),
        "pairs": as_records(table),
        "answers": as_records(grades_table(answers)),
    }
    text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    if as_json:
        print(text, end="")  # noqa: T201
    else:
        show(terminal_table(table))
        console.print(table.caption, markup=False, highlight=False)
    for note in notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)
    if out is not None:
        try:
            write_atomically(out, as_csv(grades_table(answers)) if out.suffix == ".csv" else text)
        except OSError as error:
            raise write_error(out, error) from error


def _ask_graders_with_progress(
    answers: Sequence[GradableAnswer], models: Sequence[str], at_once: int, console: Console
) -> list[str]:
    """Runs `ask_graders` with a progress bar, and returns the errors of failed calls."""
    bars = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*bars, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=len(answers) * len(models))

        async def work() -> list[str]:
            try:
                return await ask_graders(answers, models, at_once, lambda: progress.advance(bar))
            finally:
                await close_clients()

        return asyncio.run(work())


def grader_names(answers: Sequence[GradableAnswer]) -> list[str]:
    """The names of all graders, each once."""
    return list(dict.fromkeys(name for answer in answers for name in answer.grades))


def pairs_table(answers: Sequence[GradableAnswer]) -> Table:
    """A table with two rows for each pair of graders: all answers, and answers whose text equals no right answer."""
    rows: list[tuple[Cell, ...]] = []
    different = [answer for answer in answers if not answer.same_text]
    for first, second in combinations(grader_names(answers), 2):
        for label, group in (("all answers", answers), ("texts that differ", different)):
            ours, theirs = ([one.grades.get(name) for one in group] for name in (first, second))
            found = agreement(ours, theirs, [one.group for one in group])
            n, missing = found.kappa.n, found.kappa.missing
            counts = (found.both, found.first, found.second, found.neither)
            rows.append((first, second, label, n, missing, found.share, found.kappa, *counts))
    caption = (
        "95% intervals are from the large-sample standard error. If an item was answered more than once, or if items "
        "belong together, the intervals are from a bootstrap over groups. An answer whose text equals a right answer "
        "is graded right without a call to the model: to compare models, read the rows `texts that differ`. Kappa is "
        "undefined if both graders call all answers right, if both call all answers wrong, or if no answer has the "
        "grades of both."
    )
    return Table("pairs", "Agreement of graders", caption, HEADS, tuple(rows))


def grades_table(answers: Sequence[GradableAnswer]) -> Table:
    """A table with a row for each answer and a column for each grader."""
    names = grader_names(answers)
    heads = [*columns("text", system="", file="log", id="sample", answer="", gold="")]
    heads += [Column(name, name) for name in names]
    words: dict[Any, str] = {True: "right", False: "wrong", None: ""}
    rows = [
        (one.system, one.file, one.id, one.outcome, " / ".join(one.gold), *(words[one.grades.get(n)] for n in names))
        for one in answers
    ]
    return Table("answers", "Grades", "", tuple(heads), tuple(rows))
