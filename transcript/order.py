"""Orders the events of concurrent debates for readers: a round of one debate, then a round of another."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class DebateOrder(Generic[T]):
    """Decides which of several concurrent debates to show.

    Events of the other debates wait until the shown debate's round is over. The round is over once the shown debate has
    an event of another round, or the last event of this debate was shown.
    """

    def __init__(self, first: str) -> None:
        self.debate, self.round = first, 1
        self.ended: set[str] = set()
        self.waiting: dict[str, deque[tuple[int, T, bool]]] = {}

    def add_event(self, debate: str, round: int, event: T, *, last: bool = False) -> list[T]:
        """Adds an event in a round of a debate, and returns the events to show now, in order.

        ``last`` is true for the last event of the debate.
        """
        self.waiting.setdefault(debate, deque()).append((round, event, last))
        shown = []
        while waiting := self._next():
            _, event, last = waiting.popleft()
            shown.append(event)
            if last:
                self.ended.add(self.debate)
        return shown

    def take_waiting(self) -> list[T]:
        """Returns and removes all events that still wait, first those of the shown debate.

        Call it when all debates have ended.
        """
        order = sorted(self.waiting, key=lambda name: name != self.debate)
        shown = [event for debate in order for _, event, _ in self.waiting[debate]]
        self.waiting.clear()
        return shown

    def _next(self) -> deque[tuple[int, T, bool]] | None:
        """The queue with the next event to show; None if no waiting event may be shown yet, or if no event waits.

        If the shown round is over, another debate comes next, or the same debate if no other debate has waiting events.
        """
        own = self.waiting.get(self.debate)
        if own and own[0][0] == self.round:
            return own
        if not own and self.debate not in self.ended:
            return None  # the shown round continues
        for debate in sorted(self.waiting, key=lambda name: name == self.debate):
            if waiting := self.waiting[debate]:
                self.debate, self.round = debate, waiting[0][0]
                return waiting
        return None
