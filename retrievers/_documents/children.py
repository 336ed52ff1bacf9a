"""Parses documents in child processes with limits on memory and time, because a document may be malicious."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from moot.core.errors import UserError
from moot.retrievers._documents.ocr import LANGUAGES
from moot.retrievers._documents.parse import Kind, check_package, parse
from moot.retrievers._documents.parsed import ParsedDocument, UnreadableDocument
from moot.retrievers._documents.rows import read_workbook
from moot.retrievers._documents.tables import Sheet

MEMORY = 2 * 2**30
"""The maximum memory (address space) of a child process, in bytes."""
SECONDS = 60.0
"""The time limit for a page, or for a document without pages, in seconds. Each MiB of the document adds one second."""
LONGEST = 600.0
"""The time limit for a document with pages, in seconds: OCR takes about 3 seconds for a page."""
AT_ONCE = max(1, min(4, os.cpu_count() or 1))
"""The maximum number of child processes of one call of `read_documents`."""
PASSED_VARIABLES = (
    *("PATH", "PYTHONPATH", "VIRTUAL_ENV", "HOME", "LANG", "LC_ALL", "TMPDIR"),
    *(LANGUAGES, "TESSDATA_PREFIX"),
)
"""The environment variables that a child process gets. Variables with keys are not among them."""


class Child:
    """Parses documents in a child process, after whose death or delay a new process parses the next document."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, file: Path, kind: Kind | Literal["sheets"], longest: float) -> Any:
        """Parses a document, or reads a workbook's sheets; UnreadableDocument also if this takes too much; blocking."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        seconds = SECONDS + file.stat().st_size / 2**20
        end = time.monotonic() + longest
        line = b"\n"
        try:
            process.stdin.write(json.dumps([os.fspath(file.absolute()), kind]).encode() + b"\n")
            process.stdin.flush()
            while line == b"\n":  # an empty line: a page is read
                line, late = _next_line(process, min(seconds, end - time.monotonic()))
        except BrokenPipeError:
            line, late = b"", False
        if not line.endswith(b"\n"):  # the process ended, perhaps in the middle of its answer
            self.close()
            why = (
                f"more than {seconds:.0f} seconds for a page, or {longest:.0f} for all. Give a part of it"
                if late
                else f"more than {MEMORY // 2**20:,} MiB of memory, or it crashes the reader"
            )
            raise UnreadableDocument(f"reading it takes {why}")
        found = json.loads(line)
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
            _kill(self._process)
            for end in (self._process.stdin, self._process.stdout):
                with suppress(OSError):
                    end.close()  # type: ignore[union-attr]
            self._process.wait()
            self._process = None


def _next_line(process: subprocess.Popen[bytes], seconds: float) -> tuple[bytes, bool]:
    """A child's next line, and whether the child was killed because it took longer than ``seconds``."""
    assert process.stdout is not None
    late = threading.Event()

    def give_up() -> None:
        late.set()
        _kill(process)

    timer = threading.Timer(max(0.0, seconds), give_up)
    timer.start()
    try:
        return process.stdout.readline(), late.is_set()
    finally:
        timer.cancel()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a child, and if it runs tesseract, this too; on Windows, tesseract ends by its own time limit."""
    with suppress(ProcessLookupError):
        if process.poll() is None and hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def read_documents(files: Iterable[tuple[Path, Kind]]) -> Iterator[ParsedDocument | UnreadableDocument]:
    """Yields each document parsed, or the reason why it cannot be read, in the order of the files; blocking."""
    # Several documents are parsed at once, each in a child process.
    idle = [Child() for _ in range(AT_ONCE)]
    children = tuple(idle)

    def read(file: Path, kind: Kind) -> ParsedDocument | UnreadableDocument:
        child = idle.pop()
        try:
            found: ParsedDocument = child.read(file, kind, LONGEST)
            return found
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


def read_page(file: Path, kind: Kind, seconds: float) -> ParsedDocument:
    """Parses a web page within a time limit, in one of `AT_ONCE` child processes that live on; blocking."""
    with _places:
        kept = _kept.setdefault(os.getpid(), [])
        child = kept.pop() if kept else Child()
        try:
            found: ParsedDocument = child.read(file, kind, seconds)
            return found
        finally:
            kept.append(child)


_places = threading.BoundedSemaphore(AT_ONCE)
_kept: dict[int, list[Child]] = {}
"""The idle child processes of `read_page`, by the process that started them; they end with it."""


@atexit.register
def _close_kept() -> None:
    for child in _kept.pop(os.getpid(), ()):
        child.close()


def read_sheets(file: Path, name: str) -> tuple[list[Sheet], str]:
    """The sheets of an Excel workbook and a note about them, read in a child process as by `read_document`."""
    check_package("xlsx")
    child = Child()
    try:
        sheets, note = child.read(file, "sheets", LONGEST)
        return sheets, note
    except UnreadableDocument as why:
        raise unreadable(name, why) from why
    finally:
        child.close()


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

    def tick() -> None:
        answers.write("\n")
        answers.flush()

    for line in sys.stdin:
        file, kind = json.loads(line)
        try:
            answer: Any = read_workbook(Path(file)) if kind == "sheets" else parse(Path(file), kind, tick)
        except UnreadableDocument as error:
            answer = str(error)
        except MemoryError:  # the process must end, because it may still hold data of this document
            return
        except RecursionError:
            answer = "it is nested too deeply"
        except Exception:  # noqa: BLE001 - a parser may fail in any way on a malicious document
            answer = f"it is damaged, or it is not a {'workbook' if kind in ('xlsx', 'sheets') else f'{kind} file'}"
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
