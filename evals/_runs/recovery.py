"""A recovery database for Inspect that needs few writes for each sample. A killed run resumes from this database.

A sample has roughly twenty events, and Inspect's own database commits each of them separately. The events of an
unfinished debate do not help recovery: they do not include the debate's calls, and after a kill the sample is run
again. So this database writes the events of a sample together. It writes them when the sample is complete, or when
`MOST_WAITING` events wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from sqlite3 import Connection
from typing import Any
from unittest.mock import patch

# Inspect has no option for the writes of recovery, only one that turns recovery off (`log_realtime`); so this module
# extends Inspect's class
from inspect_ai._eval.task import log as task_log
from inspect_ai.event import ModelEvent
from inspect_ai.log import EvalSampleSummary
from inspect_ai.log._recorders.buffer.database import SampleBufferDatabase
from inspect_ai.log._recorders.buffer.history import SampleHistory
from inspect_ai.log._recorders.types import SampleEvent

MOST_WAITING = 100
"""Number of waiting events of a sample at which they are written; Inspect's bounded mode keeps the same number."""


class SampleWiseDatabase(SampleBufferDatabase):
    """Inspect's recovery database, but the events of a sample are committed together."""

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
        """Remove samples and their waiting events. Inspect removes samples that are in the log or will run again."""
        for id, epoch in samples:
            self._waiting.pop((str(id), epoch), None)
        super().remove_samples(samples)

    @contextmanager
    def open_sample_history(self, id: str | int, epoch: int) -> Iterator[SampleHistory]:
        """Write a sample's waiting events, then open the history of the sample."""
        self._write_waiting(id, epoch)
        with super().open_sample_history(id, epoch) as history:
            yield history

    def _condense_event(self, conn: Connection, event: SampleEvent) -> SampleEvent:
        """Condense an event as Inspect does. A debate's call stays as it is: it has no messages and no long text."""
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
