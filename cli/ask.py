"""Asks the person at the terminal: shows the value of an interrupt, and reads the reply line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moot.cli.screen import Screen
from moot.core.errors import MootError
from moot.nodes._runtime.settings import Moment
from moot.nodes._runtime.turns import titled
from moot.nodes._texts.given_files import read_given
from moot.retrievers._evidence import clean
from rich.console import Console
from rich.text import Text

LONGEST = 400
"""Number of characters after which `_shorten` cuts a text."""


class PersonPrompt(Screen):
    """Shows questions on standard error, and reads a person's replies from standard input."""

    def __init__(self) -> None:
        super().__init__(Console(stderr=True, soft_wrap=True))

    def reply(self, value: Mapping[str, Any]) -> Any:
        """Shows an interrupt's value and returns the person's reply.

        An empty reply is returned as True, which accepts the proposal.

        Raises:
            EOFError: the input has ended.
            KeyboardInterrupt: the person pressed Ctrl-C.
        """
        self.print_line("")
        if "problem" in value:
            self.print_line(value["problem"], "red")
        self.print_line(value["about"], "bold")
        return ASK_FUNCTIONS[value["kind"]](self, value["proposed"]) or True

    def read_line(self, prompt: str) -> str:
        """Prints a prompt and reads a line, without the spaces around it."""
        return self.console.input(Text(f"{clean(prompt)}> ")).strip()

    def read_lines(self, prompt: str) -> Iterable[str]:
        """Yields lines until the person enters an empty line."""
        while line := self.read_line(prompt):
            yield line


def _ask_queries(person: PersonPrompt, proposed: Mapping[str, Any]) -> dict[str, Any]:
    changed = {}
    for name, query in proposed["queries"].items():
        person.print_line(f"{name}: {query}", indent=2)
        if line := person.read_line(f"new query for {name} (empty: keep this one)"):
            changed[name] = line
    return {"queries": changed} if changed else {}


def _ask_premises(person: PersonPrompt, proposed: Mapping[str, Any]) -> dict[str, Any]:
    for number, premise in enumerate(proposed["premises"], 1):
        person.print_line(f"{number}. {premise}", indent=2)
    premises = list(person.read_lines("all premises, one per line, then an empty line (no premise: keep these)"))
    return {"premises": premises} if premises else {}


def _ask_evidence(person: PersonPrompt, proposed: Mapping[str, Any]) -> dict[str, Any]:
    pieces = proposed["evidence"]
    for number, piece in enumerate(pieces, 1):
        person.print_line(f"{number}. {titled(piece)}", indent=2)
        person.print_line(_shorten(piece["text"]), "dim", indent=5)
    ids = {str(number): piece["id"] for number, piece in enumerate(pieces, 1)}
    numbers = person.read_line("numbers to strike (empty: none)").replace(",", " ").split()
    struck = [ids.get(number, number) for number in numbers]
    lines = person.read_lines("add a text, or @FILE (empty: no more texts)")
    added = [text for line in lines for text in _read_texts(person, line)]
    return {key: value for key, value in (("strike", struck), ("add", added)) if value}


def _read_texts(person: PersonPrompt, line: str) -> list[Any]:
    if not line.startswith("@"):
        return [{"text": line}]
    try:
        return read_given(line[1:])
    except MootError as error:
        person.print_line(error.detail, "red")
        return []


def _ask_remark(person: PersonPrompt, proposed: Mapping[str, Any]) -> dict[str, Any]:
    for one in proposed["answers"]:
        answer = " - ".join(filter(None, (one["answer"], _shorten(one["reasons"] or ""))))
        person.print_line(f"{one['agent']}: {answer}", indent=2)
    remark = person.read_line("a remark (empty: none)")
    return {"remark": remark} if remark else {}


def _ask_verdict(person: PersonPrompt, proposed: Mapping[str, Any]) -> dict[str, Any]:
    person.print_line(str(proposed["verdict"]), indent=2)
    for one in proposed["reasons"]:
        person.print_line(f"{one['agent']}: {one['reasons']}", indent=2)
    question = person.read_line("a question (empty: accept the verdict)")
    return {"question": question} if question else {}


def _shorten(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST else f"{flat[:LONGEST]}..."


ASK_FUNCTIONS: dict[Moment, Callable[[PersonPrompt, Mapping[str, Any]], dict[str, Any]]] = {
    "queries": _ask_queries,
    "premises": _ask_premises,
    "evidence": _ask_evidence,
    "remark": _ask_remark,
    "verdict": _ask_verdict,
}
"""The functions that ask the person, by moment. Each returns the reply; an empty reply accepts the proposal."""
