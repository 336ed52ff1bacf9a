"""The record of a node's run: its calls to models, and its warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from moot.core.errors import MootError, ReplyError
from moot.nodes._models.parallel import branch, chain
from moot.nodes._records.entries import Call, Turn, Warned

T = TypeVar("T")


@dataclass
class StepRecord:
    """What a node's run did: its calls, its warnings, and its place in the debate."""

    node: str = ""
    phase: str = "primary"
    round: int = 0
    agent: str | None = None
    number: int | None = None
    # Calls and warnings are sorted by `branch`.
    calls: list[Call] = field(default_factory=list)
    warnings: list[Warned] = field(default_factory=list)
    depth: int = 0  # the longest chain of calls that depend on each other
    times_made: Counter[Any] = field(default_factory=Counter, repr=False)
    """How often each coroutine has made each call, by call and coroutine."""
    _places: tuple[list[tuple[int, ...]], list[tuple[int, ...]]] = field(default_factory=lambda: ([], []), repr=False)
    """The branches of the calls, and those of the warnings."""

    def add_call(self, call: Call) -> None:
        """Records a call, which depends on the calls before it in its coroutine."""
        chain.set(chain.get() + 1)
        self.depth = max(self.depth, chain.get())
        _insert(self.calls, self._places[0], call)

    def warn(self, kind: str, detail: str, where: str | None = None) -> None:
        """Records a problem that does not end the debate; ``where`` is by default the current `place`."""
        warned: Warned = {"kind": kind, "where": where or self.place(), "detail": detail}
        _insert(self.warnings, self._places[1], warned)

    def set_turn(self, turn: Turn) -> None:
        """Sets the turn that later entries belong to."""
        self.phase, self.round, self.agent = turn["phase"], turn["round"], turn["agent"]
        self.number = turn.get("number")

    def place(self) -> str:
        """The node with its agent, number, phase and round, in words."""
        who = f"{self.agent}: " if self.agent else ""
        which = f" {self.number}" if self.number else ""
        phase = "" if self.phase == "primary" else f", {self.phase}"
        counted = self.round or (self.agent and not phase)
        return f"{who}{self.node}{which}{phase}" + (f", round {self.round}" if counted else "")


def _insert(items: list[T], places: list[tuple[int, ...]], item: T) -> None:
    """Inserts an item after all items of earlier branches and of its own branch."""
    place = branch.get()
    at = len(places)
    while at and places[at - 1] > place:
        at -= 1
    places.insert(at, place)
    items.insert(at + len(items) - len(places) + 1, item)


def record_failed_call(error: MootError, record: StepRecord) -> str:
    """Records the failure of an optional call, and returns the outcome of the call's turn."""
    # The speaker has already warned of an unusable reply. ``close`` warns of what a ceiling ended (`BudgetExhausted`).
    if isinstance(error, ReplyError):
        return error.kind
    record.warn("call_failed", f"{error.detail} The debate goes on without this call.")
    return "failed"


def tokens_of(calls: Sequence[Call]) -> int:
    """The tokens of the prompts and replies of calls; a missing count adds none."""
    return sum((call["prompt_tokens"] or 0) + (call["completion_tokens"] or 0) for call in calls)
