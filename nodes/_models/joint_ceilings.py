"""Ceilings that the processes of one machine share through a memory-mapped file.

Each process writes its spending and reservations to its own section of the file, and reads all sections. A call's
budget is checked and taken under a lock on the file. If a process is killed, the operating system releases the lock.
`lasting_ceilings` keeps the file, so that the ceilings span several runs.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moot.core.files import write_error
from moot.nodes._models.ceilings import Ceilings, debates_within
from moot.nodes._models.spend import NOTHING, Spend

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

SPENT, IN_FLIGHT, RESERVED = range(3)
"""The kinds of amounts in a section: spent, reserved for calls in flight, and reserved for roles that decide."""
HAS_PROCESS_LOCKS = fcntl is not None
"""Whether this operating system supports locks between processes."""
FIELDS = struct.Struct("3d")
PROCESS_BYTES = 3 * FIELDS.size
"""Bytes of a process's section of the file. The section has the tokens, USD and calls for each kind of amount."""
RECHECK_SECONDS = 0.2
"""Seconds after which a waiting call checks whether another process has released budget."""


class JointFile:
    """The memory-mapped file in which several processes keep their spending and reservations."""

    # Without ``slots`` (the number of processes), opens an existing file. With them, fills the file with zeros, unless
    # it is ``lasting`` and for the same number of processes.
    def __init__(self, path: Path, slots: int = 0, *, lasting: bool = False) -> None:
        self._handle = os.open(path, os.O_RDWR | (os.O_CREAT if slots else 0), 0o600)
        if slots and not (lasting and os.fstat(self._handle).st_size == slots * PROCESS_BYTES):
            os.ftruncate(self._handle, 0)
            # Zeros are written, because on a full disk a write to the map of a sparse file would kill the process.
            os.write(self._handle, bytes(slots * PROCESS_BYTES))
        self._memory = mmap.mmap(self._handle, 0)
        self.slots = range(len(self._memory) // PROCESS_BYTES)

    def close(self) -> None:
        """Closes the file."""
        self._memory.close()
        os.close(self._handle)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """A lock between processes; it does nothing without `HAS_PROCESS_LOCKS`: then there is only one process."""
        if not HAS_PROCESS_LOCKS:
            yield
            return
        fcntl.lockf(self._handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._handle, fcntl.LOCK_UN)

    def read(self, slot: int, kind: int) -> Spend:
        """Reads an amount of a process; ``kind`` is `SPENT`, `IN_FLIGHT` or `RESERVED`."""
        return Spend(*FIELDS.unpack_from(self._memory, slot * PROCESS_BYTES + kind * FIELDS.size))

    def write(self, slot: int, kind: int, spend: Spend) -> None:
        """Writes an amount of a process; ``kind`` is as in `read`."""
        FIELDS.pack_into(self._memory, slot * PROCESS_BYTES + kind * FIELDS.size, *spend)

    def total(self, kind: int, without: int | None = None) -> Spend:
        """The sum of the amounts of a kind over all processes, except the process with the number ``without``."""
        total = NOTHING
        for slot in self.slots:
            total = total if slot == without else total.plus(self.read(slot, kind))
        return total

    def settle_killed(self, slot: int) -> None:
        """Counts the calls in flight of a killed process as spent, and releases its reservation for decisions."""
        with self.lock():
            self.write(slot, SPENT, self.read(slot, SPENT).plus(self.read(slot, IN_FLIGHT)))
            self.write(slot, IN_FLIGHT, NOTHING)
            self.write(slot, RESERVED, NOTHING)


class JointCeilings(Ceilings):
    """Ceilings that several processes share; each process has its own instance, for its ``slot`` of the file."""

    recheck_seconds = RECHECK_SECONDS

    def __init__(self, file: JointFile, slot: int, most: Spend, seconds: float) -> None:
        self._file = file
        self._slot = slot
        super().__init__(most, seconds, spent=file.read(slot, SPENT), adds_earlier_runs=False)

    @property
    def spent(self) -> Spend:
        """The spending in this process's section, including that of earlier processes which had this section."""
        return self._file.read(self._slot, SPENT)

    @spent.setter
    def spent(self, spend: Spend) -> None:
        self._file.write(self._slot, SPENT, spend)

    @property
    def reserved(self) -> Spend:
        """The reservations for this process's calls in flight."""
        return self._file.read(self._slot, IN_FLIGHT)

    @reserved.setter
    def reserved(self, spend: Spend) -> None:
        self._file.write(self._slot, IN_FLIGHT, spend)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """The lock of `JointFile`; before its release, the reservation for roles that decide is written to the file."""
        with self._file.lock():
            yield
            self._file.write(self._slot, RESERVED, super().decision_reserve())

    def in_flight(self) -> Spend:
        """The reservations of all processes for calls in flight."""
        return self._file.total(IN_FLIGHT)

    def decision_reserve(self) -> Spend:
        """The reservations of all processes for roles that decide."""
        return super().decision_reserve().plus(self._file.total(RESERVED, without=self._slot))

    def _available(self) -> Spend:
        return (
            self.most.minus(self._file.total(SPENT)).minus(self._file.total(IN_FLIGHT)).minus(self.decision_reserve())
        )


@contextmanager
def lasting_ceilings(path: Path, most: Spend, seconds: float) -> Iterator[Ceilings]:
    """Context manager: debates in it share ceilings that span all runs with a file; ``seconds`` are of this run."""
    try:
        file = JointFile(path, 1, lasting=True)
    except OSError as error:
        raise write_error(path, error) from error
    try:
        # Only one process at a time may use the file; this is not checked.
        file.settle_killed(0)
        with debates_within(JointCeilings(file, 0, most, seconds)) as ceilings:
            yield ceilings
    finally:
        file.close()
