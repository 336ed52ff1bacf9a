"""Documents read in child processes, several at once, each with a limit of time and memory."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import IO

from moot.core.errors import UserError
from moot.core.documents.parts import Parsed

LARGEST = 256 * 2**20
"""Bytes of a document at most."""
KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONPATH", "SYSTEMROOT", "VIRTUAL_ENV")
"""What a child has of the environment: no keys."""


@dataclass(frozen=True)
class Bounds:
    """What reading one document may take: seconds, bytes of memory, and how many are read at once."""

    seconds: float = 120.0
    memory: int = 2**30
    at_once: int = max(1, min(4, os.cpu_count() or 1))


BOUNDS = Bounds()


class Readers:
    """Children that read documents; begun when they are needed, and ended with the block. Threads may share one."""

    def __init__(self, bounds: Bounds = BOUNDS) -> None:
        self.bounds = bounds
        self._free: queue.LifoQueue[subprocess.Popen[bytes] | None] = queue.LifoQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._running: set[subprocess.Popen[bytes]] = set()
        for _ in range(bounds.at_once):
            self._free.put(None)

    def __enter__(self) -> Readers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the children, those that are busy too. Blocking."""
        with self._lock:
            self._closed = True
            running, self._running = self._running, set()
        for child in running:
            _end(child)

    def read(self, content: bytes, name: str, charset: str | None = None) -> Parsed:
        """A document of any kind but JSONL. Blocking: waits for a child that has nothing to do.

        Args:
            content: its bytes.
            name: its name, for kinds that the content does not tell, and for errors.
            charset: what came with it says of its encoding.

        Raises:
            UserError: it cannot be read; the text names it.
        """
        if len(content) > LARGEST:
            raise unreadable(name, f"has {len(content) // 2**20:,} MiB; at most {LARGEST // 2**20} MiB are read.")
        child = self._free.get()
        try:
            if child is None or child.poll() is not None:
                child = self._begin()
            said = self._asked(child, content, name, charset)
        except BaseException:
            child = self._ended(child)
            raise
        finally:
            self._free.put(child if child is not None and child.poll() is None else None)
        if "fault" in said:
            raise unreadable(name, self._memory() if said["fault"] == "memory" else said["fault"])
        return Parsed.of_json(said["parsed"])

    def _begin(self) -> subprocess.Popen[bytes]:
        kept = {variable: os.environ[variable] for variable in KEPT if variable in os.environ}
        with self._lock:
            if self._closed:
                raise RuntimeError("These readers are closed.")
            child = subprocess.Popen(
                # -P: no module in the current folder, which may hold anything, is imported.
                [sys.executable, "-P", "-c", "from moot.core.documents.child import main; main()", str(self.bounds.memory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=kept,
                start_new_session=True,  # an interruption of the terminal is ours to handle
            )
            self._running.add(child)
        return child

    def _ended(self, child: subprocess.Popen[bytes] | None) -> None:
        if child is not None:
            with self._lock:
                self._running.discard(child)
            _end(child)

    def _asked(self, child: subprocess.Popen[bytes], content: bytes, name: str, charset: str | None) -> dict[str, object]:
        late = threading.Event()

        def stop() -> None:
            late.set()
            child.kill()

        clock = threading.Timer(self.bounds.seconds, stop)
        clock.daemon = True
        clock.start()
        head = {"name": name, "charset": charset, "size": len(content), "seconds": self.bounds.seconds}
        try:
            assert child.stdin is not None and child.stdout is not None
            child.stdin.write(json.dumps(head).encode() + b"\n")
            child.stdin.write(content)
            child.stdin.flush()
            said: dict[str, object] = json.loads(_answer(child.stdout))
        except (OSError, EOFError) as error:
            code = child.wait()
            if late.is_set() or -code == getattr(signal, "SIGXCPU", None):
                raise unreadable(
                    name, f"took longer than {self.bounds.seconds:g} s to read, and was given up. Split it."
                ) from error
            died = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            raise unreadable(name, f"made its reader crash ({died}): it is broken, or {self._memory()}") from error
        finally:
            clock.cancel()
        return said

    def _memory(self) -> str:
        return f"needs more than {self.bounds.memory // 2**20:,} MiB of memory to be read. Split it."


def unreadable(name: str, why: str) -> UserError:
    """The error for a document that cannot be read."""
    return UserError(f"{name}: {why}", kind="invalid_file")


def _answer(stream: IO[bytes]) -> bytes:
    line = stream.readline(32)
    content = stream.read(int(line)) if line.endswith(b"\n") else b""
    if not line or len(content) < int(line):
        raise EOFError
    return content


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            try:
                stream.close()
            except BrokenPipeError:  # what it had not read yet
                continue
    child.wait()
