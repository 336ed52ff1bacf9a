"""Orders concurrent debates for reading: a round of one debate, then a round of another."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class DebateOrder(Generic[T]):
    """Decides which of several concurrent debates to show.

    Events of the other debates wait until the round of the shown debate is over.

    Args:
        first: the debate that is shown first.
    """

    def __init__(self, first: str) -> None:
        self.debate, self.round = first, 1
        self.over: set[str] = set()
        self.waiting: dict[str, deque[tuple[int, T, bool]]] = {}

    def add_event(self, debate: str, round: int, event: T, *, last: bool = False) -> list[T]:
        """Adds an event in a round of a debate, and returns the events to show now, in order.

        ``last`` is true if no event of the debate follows.
        """
        self.waiting.setdefault(debate, deque()).append((round, event, last))
        shown = []
        while waiting := self._next():
            _, event, last = waiting.popleft()
            shown.append(event)
            if last:
                self.over.add(self.debate)
        return shown

    def rest(self) -> list[T]:
        """Returns and removes all events that still wait. Called when all debates have ended."""
        order = sorted(self.waiting, key=lambda name: name != self.debate)
        shown = [event for debate in order for _, event, _ in self.waiting[debate]]
        self.waiting.clear()
        return shown

    def _next(self) -> deque[tuple[int, T, bool]] | None:
        """The queue with the next event to show: of the shown round or, if that is over, of another debate.

        None if the shown round is not over, or if nothing waits.
        """
        own = self.waiting.get(self.debate)
        if own and own[0][0] == self.round:
            return own
        if not own and self.debate not in self.over:
            return None  # its round continues
        for debate in sorted(self.waiting, key=lambda name: name == self.debate):
            if waiting := self.waiting[debate]:
                self.debate, self.round = debate, waiting[0][0]
                return waiting
        return None
