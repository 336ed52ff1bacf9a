"""Python programs in processes that are forked from one which has imported moot: they start in milliseconds.

A forked process is its own: pid, signals, environment, folder, arguments and streams, and Python's usual end. Unlike in
a newly started one, moot is imported already, and strings have the same hashes in all of them.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Any

from moot.nodes._runtime.tracing import ENVIRONMENT as SET_BY_MOOT

BASE = "cli.main cli.verify cli.asking cli.beside cli.resuming cli.tables cli.batch.run graphs.tool_mad graphs.presets"
IMPORTED = [*(f"moot.{name}" for name in BASE.split()), "langchain_openai", "chromadb"]
"""What `moot verify` and `moot batch` import."""
EVALUATIONS = ["moot.cli.run", "moot.evals._runs.run", "moot.evals._runs.registry"]
"""What `moot eval run` imports besides."""
READ_AT_IMPORT = ("FORCE_", "HF_", "INSPECT_", "LANG", "LC_", "NO_COLOR", "OMP_", "OTEL_", "PYTHON", "TERM", "TZ")
"""Variables that Python or libraries read when they are imported: with others, a process has to be newly started."""
OPTIONS = {"stdin", "stdout", "stderr", "text", "cwd", "env", "start_new_session"}
SERVER = "from tests.forked import serve; exec(serve())"
AT_START: dict[str, str] = {}
"""The environment at the start of the tests; a test may change it before a process that forks others is started."""
_servers: dict[bool, tuple[subprocess.Popen[bytes], socket.socket, dict[str, str]]] = {}
"""For evaluations and for other programs, when one is needed."""


class Forked(subprocess.Popen[Any]):
    """As `subprocess.Popen`, for commands of the form ``[sys.executable, "-c", program, *words]``."""

    def _execute_child(self, args: list[str], *options: Any) -> None:
        """Start the process. The options are those that `subprocess.Popen` gives."""
        folder, environment, pipes = options[4], options[5], options[9:15]
        order = {"argv": args[1:], "cwd": str(folder or os.getcwd()), "env": dict(environment or os.environ)}
        order["session"] = options[20]
        answers, answering = os.pipe()
        self._answers = os.fdopen(answers)
        streams = [given if given != -1 else usual for usual, given in enumerate((pipes[0], pipes[3], pipes[5]))]
        socket.send_fds(_server(args)[0], [json.dumps(order).encode() + b"\n"], [answering, *streams])
        os.close(answering)
        self.pid = int(self._answers.readline())
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and select.select([self._answers], [], [], 0)[0]:
            self._wait(None)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None:
            if not select.select([self._answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            with self._answers:
                self.returncode = os.waitstatus_to_exitcode(int(self._answers.readline()))
        return self.returncode


def start(command: list[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a program in a new process: forked if that makes no difference, else newly, by `subprocess.Popen`."""
    if command[:2] != [sys.executable, "-c"] or options.keys() - OPTIONS:
        return subprocess.Popen(command, **options)
    environment, begun = options.get("env") or os.environ, _server(command)[1]
    names = {*environment, *begun} - SET_BY_MOOT.keys()
    differs = {name for name in names if environment.get(name) != begun.get(name)}
    kind = subprocess.Popen if any(name.startswith(READ_AT_IMPORT) for name in differs) else Forked
    return kind(command, **options)


def _server(command: list[str]) -> tuple[socket.socket, dict[str, str]]:
    """The socket for orders to the process that forks this command, and the environment in which it began."""
    evaluation = command[3:4] == ["eval"]
    if evaluation not in _servers:
        ours, theirs = socket.socketpair()
        modules = [*IMPORTED, *(EVALUATIONS if evaluation else [])]
        words = [sys.executable, "-c", SERVER, str(theirs.fileno()), *modules]
        with theirs:
            pipe = subprocess.PIPE  # tests read pipes too, and Python chooses a stream's buffer when it starts
            begun = AT_START or dict(os.environ)
            process = subprocess.Popen(words, stdin=pipe, stdout=pipe, pass_fds=[theirs.fileno()], env=begun)
        _servers[evaluation] = process, ours, begun
    return _servers[evaluation][1:]


def end_servers() -> None:
    """End the processes that fork the others."""
    while _servers:
        process, orders, _ = _servers.popitem()[1]
        orders.close()
        process.communicate()


def serve() -> str:
    """Import modules, then fork a process for each order. Returns only in these processes, with their programs."""
    orders = socket.socket(fileno=int(sys.argv[1]))
    for module in sys.argv[2:]:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    while received := _receive(orders):
        order, (answering, *streams) = received
        if os.fork() == 0:  # this process waits for the program, and reports its end
            if (program := os.fork()) == 0:
                orders.close()
                os.close(answering)
                return _begin(order, streams)
            for number in streams:
                os.close(number)
            with suppress(BrokenPipeError):  # nobody waits any more
                os.write(answering, f"{program}\n".encode())
                os.write(answering, f"{os.waitpid(program, 0)[1]}\n".encode())
            os._exit(0)
        for number in (answering, *streams):
            os.close(number)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    os._exit(0)


def _receive(orders: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next order and its file descriptors; None at the end."""
    text, numbers = b"", []
    while not text.endswith(b"\n"):
        part, more, *_ = socket.recv_fds(orders, 65536, 4)
        if not part:
            return None
        text += part
        numbers += more
    return json.loads(text), numbers


def _begin(order: dict[str, Any], streams: list[int]) -> str:
    """Become the ordered process; return its program."""
    for usual, given in enumerate(streams):
        os.dup2(given, usual)
        os.close(given)
    if order["session"]:
        os.setsid()
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    _, program, *words = order["argv"]
    sys.argv[:] = ["-c", *words]
    return str(program)
