"""Prints the lines of a transcript: speaker, action and text. All texts are printed as plain text, without markup."""

from __future__ import annotations

from collections.abc import Iterable

from moot.cli.signals import end_now
from moot.retrievers._evidence import clean
from moot.transcript import Line
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

NARROW, WIDE = 10, 20
"""Minimum and maximum width of the column for speakers' names."""
STYLES = {
    "heading": "bold",
    "aside": "dim",
    "answer": "cyan",
    "finding": "magenta",
    "person": "green",
    "warning": "yellow",
    "caution": "yellow",
    "caveat": "bold yellow",
    "outcome": "bold green",
    "failure": "bold red",
}
"""Rich styles by tone."""
UNINDENTED = {"heading", "aside", "caution", "outcome", "failure"}
"""Tones of lines without a speaker that are not indented."""
PROBLEMS = {"caution", "failure", "warning"}
"""Tones of lines without a speaker that report problems. These lines go to the error console."""


class PipedConsole(Console):
    """A console for lines that are printed while a debate runs."""

    def on_broken_pipe(self) -> None:
        """Ends the process at once, because the debate would turn rich's `SystemExit` into tracebacks."""
        end_now(1)


class Screen:
    """Prints the lines of a transcript.

    Args:
        console: the console for all lines.
        speakers: names of speakers. The longest sets the width of the column, from `NARROW` to `WIDE`.
        errors: the console for problems; by default ``console``.
    """

    def __init__(self, console: Console, speakers: Iterable[str] = (), errors: Console | None = None) -> None:
        self.console, self.errors = console, errors or console
        self.width = min(max((len(name) for name in speakers), default=0), WIDE)
        self.width = max(self.width, NARROW)

    def show(self, lines: Iterable[Line]) -> None:
        """Prints lines: those with a speaker, an action or the tone ``more`` in columns, the others as plain text."""
        for line in lines:
            style = STYLES.get(line.tone, "")
            if line.who or line.what or line.tone == "more":
                self.print_row(line.who, line.what, line.text, style, line.link)
            else:
                self.print_line(line.text, style, 0 if line.tone in UNINDENTED else 2, is_problem=line.tone in PROBLEMS)

    def print_row(self, agent: str, action: str, text: str, style: str = "", link: str = "") -> None:
        """Prints speaker, action and text in columns; all lines of the text have the same indent.

        If the terminal supports links, the text is a link to the address ``link``. Otherwise, the address follows the
        text.
        """
        head, body = f"  {agent:<{self.width}} {action:<10} ", clean(str(text))
        if link and self.console.is_terminal and self.console.color_system:
            style = f"{style} link {link}".strip()
        elif link:
            body = f"{body} {link}"
        if not self.console.is_terminal:
            self.console.print(Text(head) + Text(body.replace("\n", "\n" + " " * len(head)), style=style))
            return
        row = Table.grid()
        row.add_column(width=len(head), style="dim")
        row.add_column()
        row.add_row(Text(head), Text(body, style=style))
        self.console.print(row)

    def print_line(self, text: str, style: str = "", indent: int = 0, *, is_problem: bool = False) -> None:
        """Prints a text without a speaker. Control characters are removed, because the text may quote a source.

        Args:
            text: the text.
            style: a Rich style.
            indent: the number of spaces before the text.
            is_problem: whether the text goes to the error console.
        """
        console = self.errors if is_problem else self.console
        if console.is_terminal:  # only a terminal wraps lines; `Padding` also indents the wrapped lines
            console.print(Padding(Text(clean(text), style=style), (0, 0, 0, indent), expand=False))
        else:
            console.print(Text(" " * indent + clean(text), style=style))
