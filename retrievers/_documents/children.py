"""Parses documents in child processes with limits on memory and time, because a document may be malicious."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from moot.core.errors import UserError
from moot.retrievers._documents.parse import Kind, parse
from moot.retrievers._documents.parsed import ParsedDocument, UnreadableDocument

MEMORY = 2 * 2**30
"""The maximum memory (address space) of a child process, in bytes."""
SECONDS = 60.0
"""The time limit for a document, in seconds. Each MiB of the document adds one second."""
AT_ONCE = max(1, min(4, os.cpu_count() or 1))
"""The maximum number of child processes of one call of `read_documents`."""
PASSED_VARIABLES = ("PATH", "PYTHONPATH", "VIRTUAL_ENV", "HOME", "LANG", "LC_ALL", "TMPDIR")
"""The environment variables that a child process gets. Variables with keys are not among them."""


class Child:
    """Parses documents in a child process, after whose death or delay a new process parses the next document."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, file: Path, kind: Kind) -> ParsedDocument:
        """Parses a document; UnreadableDocument also if this takes too much time or memory; blocking."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        seconds = SECONDS + file.stat().st_size / 2**20
        late = threading.Event()

        def give_up() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, give_up)
        timer.start()
        try:
            process.stdin.write(json.dumps([os.fspath(file.absolute()), kind]).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):  # the process ended, perhaps in the middle of its answer
            self.close()
            why = (
                f"more than {seconds:.0f} seconds"
                if late.is_set()
                else f"more than {MEMORY // 2**20:,} MiB of memory, or it crashes the reader"
            )
            raise UnreadableDocument(f"reading it takes {why}")
        found: ParsedDocument | str = json.loads(line)
        if isinstance(found, str):
            raise UnreadableDocument(found)
        return found

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ},
            start_new_session=True,  # so that Ctrl-C goes to the parent only
        )
        return self._process

    def close(self) -> None:
        """Ends the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            for end in (self._process.stdin, self._process.stdout):
                with suppress(OSError):
                    end.close()  # type: ignore[union-attr]
            self._process.wait()
            self._process = None


def read_documents(files: Iterable[tuple[Path, Kind]]) -> Iterator[ParsedDocument | UnreadableDocument]:
    """Yields each document parsed, or the reason why it cannot be read, in the order of the files; blocking."""
    # Several documents are parsed at once, each in a child process.
    idle = [Child() for _ in range(AT_ONCE)]
    children = tuple(idle)

    def read(file: Path, kind: Kind) -> ParsedDocument | UnreadableDocument:
        child = idle.pop()
        try:
            return child.read(file, kind)
        except UnreadableDocument as error:
            return error
        except OSError as error:
            return UnreadableDocument(f"the operating system reports an error ({error.strerror or error})")
        finally:
            idle.append(child)

    pool = ThreadPoolExecutor(AT_ONCE)
    ahead: deque[Future[ParsedDocument | UnreadableDocument]] = deque()
    try:
        for file, kind in files:
            ahead.append(pool.submit(read, file, kind))
            if len(ahead) > 2 * AT_ONCE:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        for future in ahead:
            future.cancel()
        for child in children:
            child.close()
        pool.shutdown()


def read_document(file: Path, name: str, kind: Kind) -> ParsedDocument:
    """Parses one document in a child process; ``name`` is the document's name in the error; blocking."""
    (found,) = read_documents([(file, kind)])
    if isinstance(found, UnreadableDocument):
        raise unreadable(name, found)
    return found


def unreadable(name: str, why: UnreadableDocument) -> UserError:
    """The error for a document that cannot be read."""
    return UserError(f"{name} cannot be read: {why}.", kind="invalid_file")


def limit_process() -> None:
    """Limits this process's memory, and prevents it from writing files or a core dump; does nothing on Windows."""
    with suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Parses the document that each line of standard input names, and writes a line with the result."""
    with suppress(AttributeError):  # Windows has no SIGPIPE
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # so that libraries cannot print into the results
    limit_process()
    for line in sys.stdin:
        file, kind = json.loads(line)
        try:
            answer: ParsedDocument | str = parse(Path(file), kind)
        except UnreadableDocument as error:
            answer = str(error)
        except MemoryError:  # the process must end, because it may still hold data of this document
            return
        except RecursionError:
            answer = "it is nested too deeply"
        except Exception:  # noqa: BLE001 - a parser may fail in any way on a malicious document
            answer = f"it is damaged, or it is not a {kind} file"
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
