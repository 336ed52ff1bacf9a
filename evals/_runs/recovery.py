"""Inspect's recovery database, from which a killed run resumes, with few writes for each sample.

Inspect commits each of a sample's roughly twenty events to its recovery database separately. The events of an
unfinished debate do not help recovery: they do not include its calls, and after a kill the sample is run again. So here
a sample's events are written together: when the sample is complete, or when `MOST_WAITING` events wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from sqlite3 import Connection
from typing import Any
from unittest.mock import patch

# Inspect's only other option is no recovery at all (`log_realtime` off), so its class is extended here
from inspect_ai._eval.task import log as task_log
from inspect_ai.event import ModelEvent
from inspect_ai.log import EvalSampleSummary
from inspect_ai.log._recorders.buffer.database import SampleBufferDatabase
from inspect_ai.log._recorders.buffer.history import SampleHistory
from inspect_ai.log._recorders.types import SampleEvent

MOST_WAITING = 100
"""Number of waiting events of a sample at which they are written: Inspect's bounded mode keeps as many in memory."""


class SampleWiseDatabase(SampleBufferDatabase):
    """Inspect's recovery database, which commits a sample's events when it ends or `MOST_WAITING` events wait."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Open the database with the arguments of Inspect's class."""
        self._waiting: dict[tuple[str, int], list[SampleEvent]] = {}
        super().__init__(*args, **options)

    def log_events(self, events: list[SampleEvent]) -> None:
        """Keep events until their sample is complete, or until `MOST_WAITING` events of the sample wait."""
        for event in events:
            key = (str(event.id), event.epoch)
            waiting = self._waiting.setdefault(key, [])
            waiting.append(event)
            if len(waiting) == MOST_WAITING:
                self._write_waiting(*key)

    def complete_sample(self, summary: EvalSampleSummary, **more: Any) -> None:
        """Write the waiting events, then mark the sample as complete."""
        self._write_waiting(summary.id, summary.epoch)
        super().complete_sample(summary, **more)

    def remove_samples(self, samples: list[tuple[str | int, int]]) -> None:
        """Remove samples, with their waiting events, that are in the log or will run again."""
        for id, epoch in samples:
            self._waiting.pop((str(id), epoch), None)
        super().remove_samples(samples)

    @contextmanager
    def open_sample_history(self, id: str | int, epoch: int) -> Iterator[SampleHistory]:
        """Write a sample's waiting events, then open all its events."""
        self._write_waiting(id, epoch)
        with super().open_sample_history(id, epoch) as history:
            yield history

    def _condense_event(self, conn: Connection, event: SampleEvent) -> SampleEvent:
        """Do not condense events of a debate's calls, because they contain no messages and no long text."""
        call = event.event
        if isinstance(call, ModelEvent) and not call.input and call.call is None:
            return event
        return super()._condense_event(conn, event)

    def _write_waiting(self, id: str | int, epoch: int) -> None:
        if waiting := self._waiting.pop((str(id), epoch), None):
            super().log_events(waiting)


def use_sample_wise_database() -> AbstractContextManager[object]:
    """Within this context, Inspect uses `SampleWiseDatabase`."""
    return patch.object(task_log, "SampleBufferDatabase", SampleWiseDatabase)
