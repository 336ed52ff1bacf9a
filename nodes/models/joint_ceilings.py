"""Ceilings that several processes of a machine share: what each has spent, holds and keeps back, in a file of memory.

Each process has a place of its own in the file and reads those of all. A call's room is looked for and taken under a
lock on the file, which the system drops if a process is killed.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moot.nodes.models.ceilings import NOTHING, Ceilings, Spend

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

SPENT, HELD, KEPT = range(3)
IS_POSSIBLE = fcntl is not None
"""Whether this system has the locks that it takes."""
FIELDS = struct.Struct("3d")
PLACE = 3 * FIELDS.size
"""Bytes of a process: tokens, USD and calls that it has spent, that it holds, and that it keeps back."""
AGAIN = 0.2
"""Seconds after which somebody who waits for room looks whether another process has left some."""


class JointFile:
    """The file.

    Args:
        path: where it is.
        places: of how many processes; 0 to open one that is there.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, path: Path, places: int = 0) -> None:
        self._handle = os.open(path, os.O_RDWR | (os.O_CREAT | os.O_TRUNC if places else 0), 0o600)
        if places:
            os.ftruncate(self._handle, places * PLACE)
        self._memory = mmap.mmap(self._handle, 0)
        self.places = range(len(self._memory) // PLACE)

    def close(self) -> None:
        """Closes the file."""
        self._memory.close()
        os.close(self._handle)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Within it no other process is within it."""
        fcntl.lockf(self._handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._handle, fcntl.LOCK_UN)

    def read(self, place: int, what: int) -> Spend:
        """What a process has there."""
        return Spend(*FIELDS.unpack_from(self._memory, place * PLACE + what * FIELDS.size))

    def write(self, place: int, what: int, spend: Spend) -> None:
        """Puts what a process has there."""
        FIELDS.pack_into(self._memory, place * PLACE + what * FIELDS.size, *spend)

    def total(self, what: int, but: int | None = None) -> Spend:
        """What all have, but for one."""
        total = NOTHING
        for place in self.places:
            total = total if place == but else total.plus(self.read(place, what))
        return total

    def left_by_dead(self, place: int) -> None:
        """A process was killed: what it held may have been spent, and nothing is kept back for it any more."""
        with self.alone():
            self.write(place, SPENT, self.read(place, SPENT).plus(self.read(place, HELD)))
            self.write(place, HELD, NOTHING)
            self.write(place, KEPT, NOTHING)


class JointCeilings(Ceilings):
    """The ceilings as one of the processes has them.

    Args:
        file: the file.
        place: the process's own.
        most: the bounds.
        seconds: most seconds from now.
    """

    again = AGAIN

    def __init__(self, file: JointFile, place: int, most: Spend, seconds: float) -> None:
        self._file = file
        self._place = place
        earlier = file.read(place, SPENT)
        super().__init__(most, seconds)
        self.spent = earlier

    @property
    def spent(self) -> Spend:
        """What this process has spent."""
        return self._file.read(self._place, SPENT)

    @spent.setter
    def spent(self, spend: Spend) -> None:
        self._file.write(self._place, SPENT, spend)

    @property
    def held(self) -> Spend:
        """What is reserved for its calls in flight."""
        return self._file.read(self._place, HELD)

    @held.setter
    def held(self, spend: Spend) -> None:
        self._file.write(self._place, HELD, spend)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """As of `JointFile`; what is kept back is told to the others."""
        with self._file.alone():
            yield
            self._file.write(self._place, KEPT, super().kept())

    def in_flight(self) -> Spend:
        """What is reserved for the calls of all processes."""
        return self._file.total(HELD)

    def kept(self) -> Spend:
        """What is kept back in all processes."""
        return super().kept().plus(self._file.total(KEPT, but=self._place))

    def _room(self) -> Spend:
        return self.most.minus(self._file.total(SPENT)).minus(self._file.total(HELD)).minus(self.kept())
