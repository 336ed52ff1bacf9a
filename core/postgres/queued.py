"""The batches and the rows of a queue, as its workers and commands see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class QueuedBatch:
    """A batch in the queue."""

    id: str  # 16 hexadecimal digits
    file: str  # the name of its file of claims, or of the corpus that it indexes
    mode: str  # how its debates use the store
    until: float  # the latest end, in seconds since 1970; infinite without a limit
    stopped: str = ""  # the reason why no further row is started; empty if the batch is not stopped


@dataclass(frozen=True)
class AssignedRow:
    """A row that was given to a worker; if ``alone``, the worker must run no other row at the same time."""

    key: str
    job: dict[str, Any]
    batch: QueuedBatch
    alone: bool


@dataclass(frozen=True)
class EndedRow:
    """A row that has ended, with its outcome and its result document (None if it has no document)."""

    key: str
    job: dict[str, Any]
    outcome: dict[str, Any]
    document: dict[str, Any] | None
