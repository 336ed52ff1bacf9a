"""Functions that run a moot command or a Python program, and return its output."""

from __future__ import annotations

import asyncio
import io
import logging
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest
from moot.cli.main import run
from moot.cli.signals import Threads

from tests.forked import start, start_async

COMMAND = [sys.executable, "-c", "from moot.cli.main import run; run()"]


def moot(*words: object, typed: str = "") -> subprocess.CompletedProcess[str]:
    """Run a moot command in this process, with ``typed`` as its standard input; return its exit code and output.

    The processes that run rows of batches are forked (see `tests.forked`).
    """
    arguments = [str(word) for word in words]
    out, err, langsmith = io.StringIO(), io.StringIO(), logging.getLogger("langsmith")
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["moot", *arguments])
        patch.setattr(asyncio, "create_subprocess_exec", start_async)
        patch.setattr(sys, "stdin", io.StringIO(typed))
        patch.setattr(langsmith, "level", langsmith.level)
        patch.setattr(Threads, "busy", False)  # otherwise, a command with a busy thread would end this process
        try:
            run()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def moot_process(*words: object, typed: str = "") -> subprocess.CompletedProcess[str]:
    """Run a moot command in a new process, with ``typed`` as its standard input; return its exit code and output.

    Raises:
        TimeoutExpired: the command runs for more than 200 seconds.
    """
    pipe = subprocess.PIPE
    with start([*COMMAND, *map(str, words)], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        out, err = process.communicate(typed, timeout=200)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def output_of(program: str, typed: str = "") -> str:
    """Run a Python program in this process, with ``typed`` as its standard input; return its standard output."""
    with redirect_stdout(io.StringIO()) as out, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.StringIO(typed))
        exec(compile(program, "program", "exec"), {"__name__": "__main__"})
    return out.getvalue()
