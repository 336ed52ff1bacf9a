"""The process that reads documents: files are hostile until they were read, and what reads them may crash.

It is given documents on its standard input, one after the other, and answers each on its standard output: a line of
JSON that says how many bytes follow, then those. It holds no keys, writes no files, and has limits of memory and time.
"""

from __future__ import annotations

import json
import os
import sys
from typing import IO, Any

from moot.core.documents.kinds import decoded, kind_of
from moot.core.documents.parts import Parsed, Unreadable

LONGEST_TEXT = 30_000_000
"""Characters of a document's texts together."""


def parse(content: bytes, name: str, charset: str | None = None) -> Parsed:
    """A document of any kind but JSONL.

    Args:
        content: its bytes.
        name: its name, for kinds that the content does not tell.
        charset: what came with it says of its encoding.

    Raises:
        Unreadable: it cannot be read.
    """
    kind = kind_of(content, name)
    if kind == "pdf":
        from moot.core.documents.pdf import read_pdf

        return read_pdf(content)
    if kind == "docx":
        from moot.core.documents.markup import read_docx

        return read_docx(content)
    text, notes = decoded(content, charset, markup=kind == "html")
    if kind == "html":
        from moot.core.documents.markup import read_html

        found = read_html(text)
    else:
        from moot.core.documents.plain import read_csv, read_text

        found = read_csv(text) if kind == "csv" else read_text(text, kind)
    found.notes.extend(notes)
    return found


def answer(content: bytes, name: str, charset: str | None) -> dict[str, Any]:
    """What is sent back of a document: what was read, or why it was not."""
    try:
        found = parse(content, name, charset)
        if (size := sum(len(part.text) for part in found.parts)) > LONGEST_TEXT:
            raise Unreadable(f"holds {size:,} characters; at most {LONGEST_TEXT:,} are read. Split it.")
        return {"parsed": found.as_json()}
    except Unreadable as error:
        return {"fault": str(error)}
    except MemoryError:
        return {"fault": "memory"}
    except RecursionError:
        return {"fault": "is nested too deeply to be read."}
    except Exception as error:  # whatever a hostile file makes a parser raise is that file's fault
        return {"fault": f"cannot be read ({type(error).__name__}: {' '.join(str(error).split())[:200]})."}


def limit(memory: int) -> None:
    """Sets the limits of this process, if the system has them: memory in bytes, and no files written."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def limit_time(seconds: float) -> None:
    """Ends this process once it has computed for so long from now on, even if nobody waits for it any more."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime + seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def serve(asked: IO[bytes], answers: IO[bytes]) -> None:
    """Reads documents until there are no more."""
    while line := asked.readline():
        head = json.loads(line)
        limit_time(head["seconds"])
        content = asked.read(head["size"])
        said = json.dumps(answer(content, head["name"], head["charset"])).encode()
        answers.write(b"%d\n" % len(said))
        answers.write(said)
        answers.flush()


def main() -> None:
    """The child's whole life; its one argument is its memory in bytes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a parser prints is no answer
    limit(int(sys.argv[1]))
    serve(sys.stdin.buffer, answers)
