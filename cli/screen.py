"""Lines on the screen: who, what, and a text. Everything from models and evidence is printed as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moot.retrievers.evidence import clean
from rich.console import Console
from rich.table import Table
from rich.text import Text

NARROW, WIDE = 10, 20
"""Least and most columns of a speaker's name."""
WRONG = {"bold red", "yellow"}
"""Styles of lines of our own about what went wrong, which go to the console ``errors``."""


class Screen:
    """Where lines go.

    Args:
        console: prints them.
        speakers: names that lines begin with.
    """

    def __init__(self, console: Console, speakers: Iterable[str] = ()) -> None:
        self.console = self.errors = console
        self.width = min(max((len(name) for name in speakers), default=0), WIDE)
        self.width = max(self.width, NARROW)

    def line(self, agent: str, what: str, text: str, style: str = "") -> None:
        """One line: who, what, and a text that continues under itself."""
        head, body = f"  {agent:<{self.width}} {what:<10} ", clean(str(text))
        if not self.console.is_terminal:
            self.console.print(Text(head) + Text(body.replace("\n", "\n" + " " * len(head)), style=style))
            return
        row = Table.grid()
        row.add_column(width=len(head), style="dim")
        row.add_column()
        row.add_row(Text(head), Text(body, style=style))
        self.console.print(row)

    def say(self, text: str, style: str = "", indent: int = 0) -> None:
        """A line of our own; what it quotes is cleaned with it."""
        console = self.errors if style in WRONG else self.console
        console.print(Text(" " * indent + clean(text), style=style))


def titled(piece: Mapping[str, Any]) -> str:
    """A piece of evidence by its title, with its id."""
    return f"{piece['title'] or piece['source']} [{piece['id']}]"


def counted(count: int, one: str) -> str:
    """A number with its noun: ``1 call``, ``1,200 calls``."""
    return f"{count:,} {one}{'' if count == 1 else 's'}"


def list_of(words: Iterable[str]) -> str:
    """Words as a sentence lists them: ``a, b and c``."""
    *most, last = list(words) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def has_rounds(settings: Mapping[str, Any]) -> bool:
    """Whether a system with these settings goes round after round."""
    return bool({"max_rounds", "rounds"} & set(settings))


def numbered(what: str, turn: Mapping[str, Any]) -> str:
    """What somebody does, with the turn's number where it has one."""
    return f"{what} {turn['number']}" if "number" in turn else what
