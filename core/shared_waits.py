"""Waits that endpoints ask for, shared by all processes of this machine that use the same home folder.

Each endpoint that has refused a call or asked for a wait has a file. The modification time of the file is the moment
until which no process calls the endpoint. The content of the file is the pace of the refused process: its calls per
second before the refusal. The content is 0 if the endpoint asked for a wait without a refusal. A wait of more than a
minute, such as the time until a day's quota is renewed, applies to one model or source and has its own file. Before
each call, a process checks whether these files have changed; this takes about four microseconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import os
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING

from moot.core.endpoint import without_user
from moot.core.home import moot_home, private_folder

if TYPE_CHECKING:
    from moot.core.limiter import Limiter

log = logging.getLogger(__name__)

LATEST = 70.0
"""The longest wait in seconds that is read from a file.

Waits for a whole endpoint are shorter, so a longer one only shows that the clock was changed.
"""
LATEST_LONG = 86_400.0 * 8
"""The longest wait of one model or source, in seconds, that is read from a file: a quota is for a week at most."""


class SharedWait:
    """The waits of one endpoint; see `moot.core.limiter.Share`. This share does not limit concurrent calls.

    Args:
        address: the endpoint's address.
        gate: the endpoint's limiter in this process.
    """

    granted = most = sys.maxsize

    def __init__(self, address: str, gate: Limiter) -> None:
        self._gate = weakref.proxy(gate)  # a cycle would keep limiters of ended event loops alive
        self._path = str(moot_home() / "waits" / hashlib.sha256(without_user(address).encode()).hexdigest())
        self._address = without_user(address)
        self._seen = 0
        self._reported = 0
        self._long: dict[str, tuple[str, int]] = {}  # by model or source: the path and the last known time of its file
        self._writer = ThreadPoolExecutor(1, "moot-waits")  # because searches may use all threads of the loop

    def request_more(self) -> None:
        """See `Share`. Does nothing, because all calls are granted."""

    def report_wait(self, seconds: float, pace: float) -> None:
        """See `Share`. A thread writes the file; if this fails, a warning is logged."""
        self._reported = time_ns() + int(seconds * 1e9)
        content = str(pace).encode()
        asyncio.get_running_loop().run_in_executor(self._writer, self._write, self._path, self._reported, content)

    def report_long_wait(self, name: str, seconds: float) -> str:
        """See `Share`. A thread writes the file; if this fails, a warning is logged."""
        path, until = self._long_wait_path(name), time_ns() + int(seconds * 1e9)
        content = f"{self._address} {name}".encode()

        def note_written(_: object) -> None:
            with suppress(OSError):  # the file could not be written
                written = os.lstat(path).st_mtime_ns
                if written <= until:  # otherwise another process has written a longer wait, which the next call reads
                    self._long[name] = path, written

        loop = asyncio.get_running_loop()
        write = loop.run_in_executor(self._writer, self._write, path, until, content, LATEST_LONG)
        write.add_done_callback(note_written)
        return advice_for(path)

    def _long_wait_path(self, name: str) -> str:
        return f"{self._path}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"

    def update(self, name: str = "") -> None:
        """See `Share`."""
        if name:
            self._update_long_wait(name)
        try:
            until = os.lstat(self._path).st_mtime_ns
        except OSError:  # no process was refused yet, or the folder cannot be read
            return
        if until == self._seen:
            return
        self._seen = until
        left = (until - time_ns()) / 1e9
        if until > self._reported and 0 < left < LATEST:
            self._gate.refuse_elsewhere(left, self._read_pace())

    def _update_long_wait(self, name: str) -> None:
        """Applies a long wait of a model or a source if its file has changed; ends the wait if the file is gone."""
        if (known := self._long.get(name)) is None:
            known = self._long[name] = self._long_wait_path(name), 0
        path, seen = known
        try:
            until = os.lstat(path).st_mtime_ns
        except OSError:
            if seen:  # a user has deleted the file, to end the wait
                self._long[name] = path, 0
                self._gate.reopen(name)
            return
        if until == seen:
            return
        self._long[name] = path, until
        left = (until - time_ns()) / 1e9
        if 0 < left < LATEST_LONG:
            self._gate.close_elsewhere(name, left, advice_for(path))

    def _read_pace(self) -> float:
        """The pace of the refused process, or 0 (see the module); infinite if it is unknown."""
        try:
            file = os.open(self._path, os.O_RDONLY)
            try:
                return float(os.pread(file, 32, 0))
            finally:
                os.close(file)
        except (OSError, ValueError, AttributeError):  # the file is removed or damaged, or this is Windows
            return math.inf

    def _write(self, file_path: str, until: int, content: bytes, latest: float = LATEST) -> None:
        """Writes a file with the time ``until`` in nanoseconds. Blocking.

        A file that already has this or a later time is kept, unless its wait is longer than ``latest`` seconds.
        """
        path = Path(file_path)
        try:
            private_folder(path.parent)
            if path.exists() and until <= path.stat().st_mtime_ns < time_ns() + latest * 1e9:
                return
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with suppress(OSError):  # if the disk is full, the file stays empty, but its time still shares the wait
                os.write(file, content)
            os.close(file)
            os.utime(path, ns=(until, until))
        except OSError as error:
            log.warning("Other processes do not learn that %s asks for a wait: %s", self._address, error)


def advice_for(path: str) -> str:
    """The end of an error's text: how a user ends the long wait whose file has this path."""
    return f" If the endpoint accepts calls again, delete {path}."
