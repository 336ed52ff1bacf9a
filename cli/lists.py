"""Opens lists of claims, and asks a person at a terminal what a list does not show."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from moot.cli.models import at_terminal, pick, read_line, say
from moot.core.errors import UserError
from moot.evals._benchmarks.claim_files import ClaimsFile, ListOptions, ListQuestion
from moot.evals._benchmarks.list_dates import ORDERS


def list_options(columns: list[str], dates: str | None, sheet: str | None, charset: str | None) -> ListOptions:
    """The options of a list, from the command line.

    Raises:
        UserError: a column is not ``NAME=COLUMN``, or there is no such order of dates.
    """
    own: dict[str, str] = {}
    for pair in columns:
        name, _, column = map(str.strip, pair.partition("="))
        if not (name and column):
            problem = f"--column takes moot's name and the list's, such as claim=Behauptung, not {pair!r}."
            raise UserError(problem, kind="invalid_setting")
        own[name] = column
    order = next((one for one in ORDERS if one == dates), None)
    if dates and not order:
        raise UserError(f"--dates is one of {', '.join(ORDERS)}, not {dates!r}.", kind="invalid_setting")
    return ListOptions(own, order, sheet, charset)


def open_list(file: Path, options: ListOptions, ask: Callable[[Callable[[], str]], str]) -> ClaimsFile:
    """Opens a list of claims; a person at a terminal is asked what it does not show, one question after the other.

    Args:
        file: the list.
        options: what the command line says about it.
        ask: calls the function that asks the person, such as `Stop.ask`.

    Raises:
        UserError: as `ClaimsFile`; also if nobody answers a question of the list.
    """
    while True:
        try:
            return ClaimsFile(file, options)
        except ListQuestion as question:
            if not at_terminal():
                raise
            options = question.answer(ask(partial(_ask, question)), options)


def _ask(question: ListQuestion) -> str:
    """The answer that a person chooses.

    Raises:
        ListQuestion: the person chose none.
    """
    choices = list(question.choices)
    say(f"moot: {question.text}")
    for number, name in enumerate(choices, 1):
        say(f"  {number}  {name}{f': {about}' if (about := question.choices[name]) else ''}")
    while line := read_line("Which one? Type its number (Enter: none): "):
        chosen = line if line in choices else pick(choices, line)
        if chosen is not None:
            return chosen
    raise question
