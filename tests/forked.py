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
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Any

from moot.graphs._registry import DESCRIPTIONS, OTHER_GRAPHS, graph_path
from moot.nodes._runtime.tracing import ENVIRONMENT as SET_BY_MOOT

BASE = "cli.main cli.verify cli.asking cli.beside cli.resuming cli.tables cli.batch.run graphs.tool_mad graphs.presets"
WEB = "serve pages threads mcp idempotency checks guard metrics service.stores service.quotas"
OF_SERVERS = (
    "anyio._backends._asyncio blockbuster cloudpickle croniter fastapi grpc.aio grpc_health.v1.health_pb2 grpc_tools "
    "httpcore jsonschema_rs langchain.agents langgraph.checkpoint.memory langgraph.store.memory langgraph_cli.cli "
    "langgraph_grpc_common.checkpointer opentelemetry.exporter.otlp.proto.http.metric_exporter "
    "opentelemetry.exporter.prometheus sse_starlette structlog truststore uvicorn.protocols.http.httptools_impl "
    "uvicorn.protocols.websockets.websockets_sansio_impl uvloop"
)
IMPORTED = {
    "commands": [*(f"moot.{name}" for name in BASE.split()), "langchain_openai", "chromadb"],
    "evaluations": ["moot.cli.run", "moot.evals._runs.run", "moot.evals._runs.registry"],
    "servers": [
        *(f"moot.web.{name}" for name in WEB.split()),
        *(graph_path(name).partition(":")[0] for name in DESCRIPTIONS | OTHER_GRAPHS),
        *OF_SERVERS.split(),
    ],
}
"""What `moot verify` and `moot batch` import; what `moot eval run` and servers import besides.

Of servers, ``langgraph_api`` is not imported: it reads its variables then, and moot takes the process for a server.
"""
READ_AT_IMPORT = ("FORCE_", "HF_", "INSPECT_", "LANG", "LC_", "NO_COLOR", "OMP_", "OTEL_", "PYTHON", "TERM", "TZ")
"""Variables that Python or libraries read when they are imported: with others, a process has to be newly started."""
READ_LATER = {"LANGGRAPH_CLI_NO_ANALYTICS", "LANGGRAPH_NO_VERSION_CHECK", "OTEL_BSP_SCHEDULE_DELAY"}
READ_LATER |= {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_METRICS_EXPORTER"}
"""Variables that a server reads after its start."""
OPTIONS = {"stdin", "stdout", "stderr", "text", "cwd", "env", "start_new_session"}
SERVER = "from tests.forked import serve; exec(serve())"
AT_START: dict[str, str] = {}
"""The environment at the start of the tests; a test may change it before a process that forks others is started."""
_servers: dict[str, tuple[subprocess.Popen[bytes], socket.socket]] = {}
"""The processes that fork others, by what they have imported. The first forks the rest, when they are needed."""


class Forked(subprocess.Popen[Any]):
    """As `subprocess.Popen`, for commands of the form ``[sys.executable, "-c", program, *words]``."""

    def __init__(self, command: list[str], imported: str = "commands", **options: Any) -> None:
        self._orders = _server(imported)
        super().__init__(command, **options)

    def _execute_child(self, args: list[str], *options: Any) -> None:
        """Start the process. The options are those that `subprocess.Popen` gives."""
        folder, environment, pipes = options[4], options[5], options[9:15]
        order = {"argv": args[1:], "cwd": str(folder or os.getcwd()), "env": dict(environment or os.environ)}
        order["session"] = options[20]
        answers, answering = os.pipe()
        self._answers = os.fdopen(answers)
        streams = [given if given != -1 else usual for usual, given in enumerate((pipes[0], pipes[3], pipes[5]))]
        socket.send_fds(self._orders, [json.dumps(order).encode() + b"\n"], [answering, *streams])
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


def start(command: list[str], *, server: bool = False, **options: Any) -> subprocess.Popen[Any]:
    """Start a program in a new process: forked if that makes no difference, else newly, by `subprocess.Popen`."""
    if command[:2] != [sys.executable, "-c"] or options.keys() - OPTIONS:
        return subprocess.Popen(command, **options)
    environment, begun = options.get("env") or os.environ, _at_start()
    names = {*environment, *begun} - SET_BY_MOOT.keys() - (READ_LATER if server else set())
    differs = {name for name in names if environment.get(name) != begun.get(name)}
    if any(name.startswith(READ_AT_IMPORT) for name in differs):
        return subprocess.Popen(command, **options)
    evaluation = command[3:4] == ["eval"]
    return Forked(command, "servers" if server else "evaluations" if evaluation else "commands", **options)


def _at_start() -> dict[str, str]:
    return AT_START or dict(os.environ)


def _server(imported: str) -> socket.socket:
    """The socket for orders to the process that has imported these modules and forks others."""
    if imported not in _servers:
        command = [sys.executable, "-c", SERVER, *IMPORTED[imported]]
        kind: Any = subprocess.Popen if imported == "commands" else Forked
        ours, theirs = socket.socketpair()
        with theirs:  # tests read pipes too, and Python chooses a stream's buffer when it starts
            process = kind(command, stdin=theirs, stdout=subprocess.PIPE, env=_at_start())
        _servers[imported] = process, ours
    return _servers[imported][1]


def end_servers() -> None:
    """End the processes that fork the others."""
    while _servers:
        process, orders = _servers.popitem()[1]
        orders.close()
        process.communicate()


def serve() -> str:
    """Import modules, then fork a process for each order. Returns only in these processes, with their programs."""
    orders = socket.socket(fileno=os.dup(0))
    for module in sys.argv[1:]:
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
    signal.alarm(10)  # ends this process if a test's process still runs
    with suppress(ChildProcessError):
        while os.waitpid(-1, 0)[0]:  # so that their processor time counts
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
