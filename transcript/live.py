"""Writes the text of a debate while it runs: the new lines of each node's update.

A turn grows while its speaker works: first a query, then the results, then an answer. Subgraphs return their turns
again, unchanged. So each field of a turn is shown once, when it first appears.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from moot.nodes._records.entries import PERSON, Turn
from moot.nodes._records.reducers import turn_key
from moot.nodes._runtime.settings import Settings
from moot.nodes._runtime.turns import numbered
from moot.transcript.end import end
from moot.transcript.kinds import words_of
from moot.transcript.line import Line, own_line
from moot.transcript.trial import is_ruled_before_debates
from moot.transcript.words import is_late, pieces_of

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


HeadedLines = tuple[str | None, list[Line]]
"""A heading, or None for no new heading, and its lines."""


class Live:
    """Makes the lines of a debate that still runs."""

    def __init__(self, settings: Settings) -> None:
        self._words = words_of(settings)
        self._words.decided = {}
        self.speakers = self._words.speakers
        self._shown: set[Hashable] = set()
        self._order: DebateOrder[HeadedLines] | None = (
            DebateOrder(self._words.concurrent_phases[0]) if self._words.concurrent_phases else None
        )

    def feed(self, update: Mapping[str, Any]) -> list[Line]:
        """The new lines of a node's update; headings have the tone ``heading``.

        An update with an error has no lines, because `end` shows the error.
        """
        if update.get("error"):
            return []
        self._words.update(update)
        return list(self._update_lines(update))

    def end(self, document: Mapping[str, Any]) -> list[Line]:
        """The lines that were not shown before, then the lines on how the debate ended."""
        ending = [*end(document, self._words.verdict(document))]
        shown = "\n".join(line.text for line in ending)
        missing = [
            Line(turn["agent"], numbered("because", turn), reason)
            for reason, turn in (self._words.decided or {}).items()
            if reason not in shown  # there is no verdict, or it shows only some of the reasons
        ]
        return [*self._with_headings(self._order.take_waiting() if self._order else []), *missing, *ending]

    def _update_lines(self, update: Mapping[str, Any]) -> Iterator[Line]:
        """The new lines of an update without an error, in reading order."""
        words, turns, pieces = self._words, update.get("turns") or [], pieces_of(update)
        if update.get("graph"):
            yield from words.opening(update, pieces)
        stop = update.get("stop_reason")
        decided = any(map(decides, turns))
        if decided:
            yield from self._once(("stop", stop), words.stop(stop))
        for turn in turns:
            yield from self._turn_lines(turn)
        closed = [(record["phase"], record["round"]) for record in update.get("round_log") or []]
        for record in words.rounds:
            if (record["phase"], record["round"]) in closed:
                for line in words.after_round(record):
                    yield from self._once(("round", record["phase"], record["round"], line), [line])
        yield from self._unshown(words.weights(update.get("votes") or []))
        for entry in update.get("graphs") or []:
            heading = words.round_heading(entry["round"])
            yield from self._once(("hears", entry["round"]), self._with_headings([(heading, [*words.hearing(entry)])]))
        if not decided:
            yield from self._once(("stop", stop), words.stop(stop))
        if any(piece.get("status") == "seed" for piece in pieces):
            yield from self._once("pools", words.pools(pieces))
        if any(map(is_ruled_before_debates, pieces)):
            yield from self._once("rulings", words.rulings(pieces))
        for entry in update.get("debates") or []:
            yield from self._once(("stops", entry["phase"]), self._stop_lines(entry))

    def _turn_lines(self, turn: Turn) -> Iterator[Line]:
        """The lines of a turn's new parts. Lines of concurrent debates may wait for their place in the order."""
        # Scores arrive one by one: an update may have only a part of the turn.
        turn = next(known for known in self._words.turns if turn_key(known) == turn_key(turn))
        heading, kind = self._words.heading(turn), "decision" if decides(turn) else "turn"
        for part, said in self._words.parts(turn).items():
            key = (kind, turn_key(turn), part)
            if key in self._shown:
                continue
            self._shown.add(key)
            lines = [*self._words.lines(turn, said)]
            if self._order and turn["phase"] in self._words.concurrent_phases:
                yield from self._with_headings(self._order.add_event(turn["phase"], turn["round"], (heading, lines)))
            else:
                yield from self._with_headings([(heading, lines)])
        if turn.get("question"):
            # Forgets the earlier decision, so that the decision after the question is shown.
            self._shown = {key for key in self._shown if not (isinstance(key, tuple) and key[0] == "decision")}
            self._words.decided = {}

    def _stop_lines(self, entry: Mapping[str, Any]) -> Iterator[Line]:
        """The lines on the stop of a concurrent debate; they may wait for their place in the order."""
        if self._order:
            lines: HeadedLines = (None, [*self._words.concurrent_debate_stop(entry)])
            yield from self._with_headings(self._order.add_event(entry["phase"], entry["rounds"], lines, last=True))

    def _with_headings(self, parts: Iterable[HeadedLines]) -> Iterator[Line]:
        """The lines of all parts, each after its heading. A heading that was shown before is left out."""
        for heading, lines in parts:
            if heading:
                yield from self._unshown([own_line(heading, "heading")])
            yield from lines

    def _once(self, key: Hashable, lines: Iterable[Line]) -> Iterator[Line]:
        """The lines, unless lines with this key were shown before."""
        if key not in self._shown:
            self._shown.add(key)
            yield from lines

    def _unshown(self, lines: Iterable[Line]) -> Iterator[Line]:
        """The lines, without those that were shown before."""
        for line in lines:
            yield from self._once(line, [line])


def decides(turn: Turn) -> bool:
    """Whether a turn belongs to a step that may decide the debate."""
    return is_late(turn) and turn["agent"] != PERSON
