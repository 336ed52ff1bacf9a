"""What Inspect keeps of samples that are not in a log yet, so that a killed run goes on, written once a sample.

Inspect commits each of a sample's some twenty events to its recovery database by itself. A debate's calls are no events
of Inspect's: those of a sample that is running say only that it began, and a sample that was running is run again. So
they are written together, with what completes the sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from sqlite3 import Connection
from typing import Any
from unittest.mock import patch

# Inspect has no option between each event (`log_realtime`) and no recovery at all; its class is the only place to be in
from inspect_ai._eval.task import log as task_log
from inspect_ai.event import ModelEvent
from inspect_ai.log import EvalSampleSummary
from inspect_ai.log._recorders.buffer.database import SampleBufferDatabase
from inspect_ai.log._recorders.buffer.history import SampleHistory
from inspect_ai.log._recorders.types import SampleEvent

TOGETHER = 100
"""Events of a sample that are written together at most: as many as Inspect holds in memory if it bounds them."""


class SampleWise(SampleBufferDatabase):
    """Inspect's recovery database, with a sample's events committed when it ends."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """As Inspect's."""
        self._waiting: dict[tuple[str, int], list[SampleEvent]] = {}
        super().__init__(*args, **options)

    def log_events(self, events: list[SampleEvent]) -> None:
        """Keeps them until their sample ends, or until they are many."""
        for event in events:
            key = (str(event.id), event.epoch)
            waiting = self._waiting.setdefault(key, [])
            waiting.append(event)
            if len(waiting) == TOGETHER:
                self._write(*key)

    def complete_sample(self, summary: EvalSampleSummary, **more: Any) -> None:
        """Writes what waits, then says that the sample is whole."""
        self._write(summary.id, summary.epoch)
        super().complete_sample(summary, **more)

    def remove_samples(self, samples: list[tuple[str | int, int]]) -> None:
        """Forgets them: they are in the log, or are run anew."""
        for id, epoch in samples:
            self._waiting.pop((str(id), epoch), None)
        super().remove_samples(samples)

    @contextmanager
    def open_sample_history(self, id: str | int, epoch: int) -> Iterator[SampleHistory]:
        """All of a sample's events."""
        self._write(id, epoch)
        with super().open_sample_history(id, epoch) as history:
            yield history

    def _condense_event(self, conn: Connection, event: SampleEvent) -> SampleEvent:
        """Leaves a debate's calls as they are: they hold no messages, and nothing long."""
        one = event.event
        if isinstance(one, ModelEvent) and not one.input and one.call is None:
            return event
        return super()._condense_event(conn, event)

    def _write(self, id: str | int, epoch: int) -> None:
        if waiting := self._waiting.pop((str(id), epoch), None):
            super().log_events(waiting)


def samples_written_once() -> AbstractContextManager[object]:
    """Has Inspect use `SampleWise` meanwhile."""
    return patch.object(task_log, "SampleBufferDatabase", SampleWise)
