"""The record of what happened while a node ran: calls to models, and what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from moot.core.errors import MootError, ReplyError
from moot.nodes.records.entries import Call, Turn, Warned

T = TypeVar("T")

branch: ContextVar[tuple[int, ...]] = ContextVar("branch", default=(0,))
"""Where in its node a coroutine is: how many groups of calls at once came before, then which of a group it is, and so
on inward. What is written down stands in this order, whichever call ends first."""


@dataclass
class Ledger:
    """What happened while a node ran. ``depth`` is the longest chain of calls in which each waited for the last.

    Calls and warnings stand in the order in which their branches were begun.
    """

    node: str = ""
    phase: str = "primary"
    round: int = 0
    agent: str | None = None
    number: int | None = None
    calls: list[Call] = field(default_factory=list)
    warnings: list[Warned] = field(default_factory=list)
    depth: int = 0
    asked: Counter[Any] = field(default_factory=Counter, repr=False)
    """How often each branch has asked the same."""
    _places: tuple[list[tuple[int, ...]], list[tuple[int, ...]]] = field(default_factory=lambda: ([], []), repr=False)

    def note(self, call: Call) -> None:
        """Writes a call down."""
        _insert(self.calls, self._places[0], call)

    def part(self) -> Ledger:
        """An empty ledger for the same place."""
        return Ledger(self.node, self.phase, self.round, self.agent, self.number)

    def warn(self, kind: str, detail: str, where: str | None = None) -> None:
        """Notes something that went wrong without ending the debate."""
        warned: Warned = {"kind": kind, "where": where or self.place(), "detail": detail}
        _insert(self.warnings, self._places[1], warned)

    def take(self, turn: Turn) -> None:
        """What is written down from now on belongs to this turn."""
        self.phase, self.round, self.agent = turn["phase"], turn["round"], turn["agent"]
        self.number = turn.get("number")

    def place(self) -> str:
        """Where we are, in words."""
        who = f"{self.agent}: " if self.agent else ""
        which = f" {self.number}" if self.number else ""
        phase = "" if self.phase == "primary" else f", {self.phase}"
        counted = self.round or (self.agent and not phase)
        return f"{who}{self.node}{which}{phase}" + (f", round {self.round}" if counted else "")


def _insert(items: list[T], places: list[tuple[int, ...]], item: T) -> None:
    """Adds an item after those of earlier branches and its own."""
    place = branch.get()
    at = len(places)
    while at and places[at - 1] > place:
        at -= 1
    places.insert(at, place)
    items.insert(at + len(items) - len(places) + 1, item)


def missed(error: MootError, ledger: Ledger) -> str:
    """The outcome of a call that the debate does without; a warning says why, where replies have not said it."""
    if isinstance(error, ReplyError):
        return error.kind
    ledger.warn("call_failed", f"{error.detail} The debate goes on without it.")
    return "failed"


def tokens_of(calls: Sequence[Call]) -> int:
    """Tokens of prompts and replies in these calls, as far as they were counted."""
    return sum((call["prompt_tokens"] or 0) + (call["completion_tokens"] or 0) for call in calls)
