"""Asks the person at the terminal: shows an interrupt, and reads the reply line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moot.cli.screen import Screen
from moot.core.errors import MootError
from moot.nodes._runtime.settings import Moment
from moot.nodes._texts.given_files import read_given
from moot.retrievers._evidence import clean
from moot.transcript.line import titled
from rich.console import Console
from rich.text import Text

SHOWN = 400
"""Most characters of a text that are shown."""


class PersonPrompt(Screen):
    """The person at the terminal, or the lines of the standard input."""

    def __init__(self) -> None:
        super().__init__(Console(stderr=True, soft_wrap=True))

    def reply(self, value: Mapping[str, Any]) -> Any:
        """The reply to an interrupt with this value.

        Raises:
            EOFError: there are no more lines.
            KeyboardInterrupt: the person pressed Ctrl-C.
        """
        self.print_line("")
        if "problem" in value:
            self.print_line(value["problem"], "red")
        self.print_line(value["about"], "bold")
        return ASK[value["kind"]](self, value["proposed"]) or True

    def typed(self, what: str) -> str:
        """One line, typed after a prompt."""
        return self.console.input(Text(f"{clean(what)}> ")).strip()

    def lines(self, what: str) -> Iterable[str]:
        """Lines up to the first empty one."""
        while said := self.typed(what):
            yield said


def _queries(person: PersonPrompt, proposed: Mapping[str, Any]) -> dict[str, Any]:
    changed = {}
    for name, query in proposed["queries"].items():
        person.print_line(f"{name}: {query}", indent=2)
        if said := person.typed(f"{name}, another query (empty: this one)"):
            changed[name] = said
    return {"queries": changed} if changed else {}


def _premises(person: PersonPrompt, proposed: Mapping[str, Any]) -> dict[str, Any]:
    for number, premise in enumerate(proposed["premises"], 1):
        person.print_line(f"{number}. {premise}", indent=2)
    said = list(person.lines("all premises again, one per line (empty: keep these, or the end)"))
    return {"premises": said} if said else {}


def _evidence(person: PersonPrompt, proposed: Mapping[str, Any]) -> dict[str, Any]:
    pieces = proposed["evidence"]
    for number, piece in enumerate(pieces, 1):
        person.print_line(f"{number}. {titled(piece)}", indent=2)
        person.print_line(_short(piece["text"]), "dim", indent=5)
    ids = {str(number): piece["id"] for number, piece in enumerate(pieces, 1)}
    numbers = person.typed("strike numbers (empty: none)").replace(",", " ").split()
    struck = [ids.get(number, number) for number in numbers]
    added = [text for said in person.lines("add a text, or @FILE (empty: none)") for text in _texts(person, said)]
    return {key: value for key, value in (("strike", struck), ("add", added)) if value}


def _texts(person: PersonPrompt, said: str) -> list[Any]:
    if not said.startswith("@"):
        return [{"text": said}]
    try:
        return read_given(said[1:])
    except MootError as error:
        person.print_line(error.detail, "red")
        return []


def _remark(person: PersonPrompt, proposed: Mapping[str, Any]) -> dict[str, Any]:
    for one in proposed["answers"]:
        said = " - ".join(filter(None, (one["answer"], _short(one["reasons"] or ""))))
        person.print_line(f"{one['agent']}: {said}", indent=2)
    said = person.typed("a remark (empty: none)")
    return {"remark": said} if said else {}


def _verdict(person: PersonPrompt, proposed: Mapping[str, Any]) -> dict[str, Any]:
    person.print_line(str(proposed["verdict"]), indent=2)
    for one in proposed["reasons"]:
        person.print_line(f"{one['agent']}: {one['reasons']}", indent=2)
    said = person.typed("a question (empty: accept the verdict)")
    return {"question": said} if said else {}


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= SHOWN else f"{flat[:SHOWN]}..."


ASK: dict[Moment, Callable[[PersonPrompt, Mapping[str, Any]], dict[str, Any]]] = {
    "queries": _queries,
    "premises": _premises,
    "evidence": _evidence,
    "remark": _remark,
    "verdict": _verdict,
}
"""By moment, the function that asks; an empty reply accepts the proposal."""
