"""Run Python programs in forked processes, which start in milliseconds.

A *fork server* is a process that has imported moot and forks other processes. A forked process has its own pid,
signals, environment, folder, arguments and streams, and it ends as other Python processes do. It differs from a newly
started process in two ways: moot is imported already, and strings have the same hashes in all forked processes.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from asyncio.streams import FlowControlMixin
from contextlib import suppress
from typing import Any

from moot.graphs._registry import DESCRIPTIONS, OTHER_GRAPHS, graph_path
from moot.nodes._runtime.tracing import ENVIRONMENT as SET_BY_MOOT

WORKER = "moot.cli.batch.child"
"""The program that runs the rows of a batch. Commands start it."""
COMMAND_MODULES = "cli.main cli.verify cli.asking cli.beside cli.resuming cli.tables cli.batch.batch graphs.tool_mad"
WEB_MODULES = "serve pages threads mcp idempotency checks guard metrics"
WEB_LIBRARIES = (
    "anyio._backends._asyncio blockbuster cloudpickle croniter fastapi grpc.aio grpc_health.v1.health_pb2 grpc_tools "
    "httpcore jsonschema_rs langchain.agents langgraph.checkpoint.memory langgraph.store.memory langgraph_cli.cli "
    "langgraph_grpc_common.checkpointer opentelemetry.exporter.otlp.proto.http.metric_exporter "
    "opentelemetry.exporter.prometheus sse_starlette structlog truststore uvicorn.protocols.http.httptools_impl "
    "uvicorn.protocols.websockets.websockets_sansio_impl uvloop"
)
IMPORTED = {
    "commands": [*(f"moot.{name}" for name in COMMAND_MODULES.split()), "langchain_openai", "chromadb"],
    "evaluations": ["moot.cli.eval_run", "moot.evals._runs.run_plan", "moot.evals._runs.registry"],
    "servers": [
        *(f"moot.web.{name}" for name in WEB_MODULES.split()),
        *(graph_path(name).partition(":")[0] for name in DESCRIPTIONS | OTHER_GRAPHS),
        *WEB_LIBRARIES.split(),
    ],
}
"""The modules that a fork server imports. Commands, evaluations and web servers each have their own fork server.

``langgraph_api`` is not imported, for two reasons. It reads environment variables at import. Also, moot treats each
process that has imported ``langgraph_api`` as a web server.
"""
READ_AT_IMPORT = ("FORCE_", "HF_", "INSPECT_", "LANG", "LC_", "NO_COLOR", "OMP_", "OTEL_", "PYTHON", "TERM", "TZ")
"""Prefixes of the environment variables that Python or libraries read at import.

If such a variable differs from its value at the start of the tests, `start` does not fork. Variables in
`SET_BY_MOOT` are not compared.
"""
READ_LATER = {"LANGGRAPH_CLI_NO_ANALYTICS", "LANGGRAPH_NO_VERSION_CHECK", "OTEL_BSP_SCHEDULE_DELAY"}
READ_LATER |= {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_METRICS_EXPORTER"}
"""Variables with a prefix in `READ_AT_IMPORT` that web servers nevertheless read only after their start.

When `start` starts a web server, differences in these variables do not count.
"""
create_subprocess_exec = asyncio.create_subprocess_exec
OPTIONS = {"stdin", "stdout", "stderr", "text", "cwd", "env", "start_new_session", "bufsize"}
FORK_SERVER = "from tests.forked import run_fork_server; exec(run_fork_server())"
AT_START: dict[str, str] = {}
"""The environment at the start of the tests. Tests may change ``os.environ`` later.

If this dictionary is empty, ``os.environ`` is used.
"""
_orders: dict[str, socket.socket] = {}
"""The sockets for orders to fork servers, by key of `IMPORTED`.

The fork server for commands forks the other fork servers.
"""
_fork_servers: list[subprocess.Popen[bytes]] = []
"""The fork servers that this process has started."""


class Forked(subprocess.Popen[Any]):
    """Like `subprocess.Popen`, for commands of the form ``[sys.executable, "-c", program, *words]``."""

    def __init__(self, command: list[str], imported: str = "commands", **options: Any) -> None:
        self._orders = _fork_server_socket(imported)
        self._waiting = threading.Lock()
        super().__init__(command, **options)

    def _execute_child(self, args: list[str], *options: Any) -> None:
        """Start the process, with the positional arguments that `subprocess.Popen` passes to this method."""
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
        if self._waiting.acquire(blocking=False):  # fails if another thread already waits for the end
            with suppress(subprocess.TimeoutExpired):
                self._read_end(0)
            self._waiting.release()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        with self._waiting:
            return self._read_end(timeout)

    def _read_end(self, timeout: float | None) -> int:
        if self.returncode is None:
            waiting = select.poll()  # unlike `select.select`, it accepts file descriptors above 1023
            waiting.register(self._answers, select.POLLIN)
            if not waiting.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            with self._answers:
                self.returncode = os.waitstatus_to_exitcode(int(self._answers.readline()))
        return self.returncode


def start(command: list[str], *, server: bool = False, **options: Any) -> subprocess.Popen[Any]:
    """Start a program in a forked process if its command, options and environment allow it.

    Otherwise start it with `subprocess.Popen`. ``server`` says whether the program is a web server.
    """
    if command[:2] != [sys.executable, "-c"] or options.keys() - OPTIONS:
        return subprocess.Popen(command, **options)
    environment, begun = options.get("env") or os.environ, _initial_environment()
    names = {*environment, *begun} - SET_BY_MOOT.keys() - (READ_LATER if server else set())
    differs = {name for name in names if environment.get(name) != begun.get(name)}
    if any(name.startswith(READ_AT_IMPORT) for name in differs):
        return subprocess.Popen(command, **options)
    evaluation = command[3:4] == ["eval"]
    return Forked(command, "servers" if server else "evaluations" if evaluation else "commands", **options)


class AsyncProcess:
    """A started program, with those methods of `asyncio.subprocess.Process` that moot uses."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.kill = process.kill

    async def connect(self, limit: int) -> AsyncProcess:
        """Connect the pipes to the event loop."""
        loop, self.stdout = asyncio.get_running_loop(), asyncio.StreamReader(limit)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self.stdout), self._process.stdout)
        written, protocol = await loop.connect_write_pipe(FlowControlMixin, self._process.stdin)
        self.stdin = asyncio.StreamWriter(written, protocol, None, loop)
        return self

    async def wait(self) -> int:
        """Wait for the end; return the exit code."""
        return await asyncio.to_thread(self._process.wait)


async def start_async(*command: str, **options: Any) -> Any:
    """Like `asyncio.create_subprocess_exec`, but start the program `WORKER` with `start`."""
    if command[:2] != (sys.executable, "-m") or command[2] != WORKER:
        return await create_subprocess_exec(*command, **options)
    limit = options.pop("limit")
    program = f"from {command[2]} import main; main()"
    return await AsyncProcess(start([sys.executable, "-c", program], bufsize=0, **options)).connect(limit)


def _initial_environment() -> dict[str, str]:
    return AT_START or dict(os.environ)


def _fork_server_socket(imported: str) -> socket.socket:
    """The socket for orders to the fork server that imports ``IMPORTED[imported]``; starts this server if necessary."""
    if imported not in _orders:
        command = [sys.executable, "-c", FORK_SERVER, *IMPORTED[imported]]
        kind: Any = subprocess.Popen if imported == "commands" else Forked
        ours, theirs = socket.socketpair()
        # Python chooses the buffering of stdout at the start, and forked processes inherit this choice. So stdout is a
        # pipe here, as in tests.
        with theirs:
            _fork_servers.append(kind(command, stdin=theirs, stdout=subprocess.PIPE, env=_initial_environment()))
        _orders[imported] = ours
    return _orders[imported]


def end_fork_servers() -> None:
    """End the fork servers."""
    while _orders:
        _orders.popitem()[1].close()
    while _fork_servers:
        _fork_servers.pop().communicate()


def run_fork_server() -> str:
    """Import the modules in ``sys.argv``, then fork a process for each order.

    Only a forked process returns from this function. It returns the source text of its program.
    """
    for module in sys.argv[1:]:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    return _follow(socket.socket(fileno=os.dup(0)))


def _follow(orders: socket.socket) -> str:
    """Fork a process for each order. Only a forked process returns: it returns the source text of its program."""
    while received := _receive(orders):
        order, (answering, *streams) = received
        if os.fork() == 0:  # the child reports the pid and later the status of the program
            if (program := os.fork()) == 0:
                orders.close()
                os.close(answering)
                return _begin(order, streams)
            for number in streams:
                os.close(number)
            with suppress(BrokenPipeError):  # raised if the process that gave the order has ended
                os.write(answering, f"{program}\n".encode())
                os.write(answering, f"{os.waitpid(program, 0)[1]}\n".encode())
            os._exit(0)
        for number in (answering, *streams):
            os.close(number)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    signal.alarm(10)  # ends this process after 10 seconds if a forked process still runs
    with suppress(ChildProcessError):
        while os.waitpid(-1, 0)[0]:  # adds the processor time of forked processes to that of this process
            pass
    os._exit(0)


def _receive(orders: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next order and its file descriptors; None if the other end is closed."""
    text, numbers = b"", []
    while not text.endswith(b"\n"):
        part, more, *_ = socket.recv_fds(orders, 65536, 4)
        if not part:
            return None
        text += part
        numbers += more
    return json.loads(text), numbers


def _begin(order: dict[str, Any], streams: list[int]) -> str:
    """Take the streams, folder, environment and arguments of an order; return the source text of its program."""
    for usual, given in enumerate(streams):
        os.dup2(given, usual)
        os.close(given)
    if order["session"]:
        os.setsid()
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    _, program, *words = order["argv"]
    if "--workers" in words or words[:1] == ["worker"]:
        ours, theirs = socket.socketpair()
        if os.fork() == 0:  # the child is the fork server for the command's workers
            ours.close()
            for usual in range(3):  # otherwise the child would keep the command's output open
                os.dup2(os.open(os.devnull, os.O_RDWR), usual)
            return _follow(theirs)
        theirs.close()
        AT_START.update(order["env"])
        _orders["commands"] = ours
        asyncio.create_subprocess_exec = start_async  # type: ignore[assignment]
    sys.argv[:] = ["-c", *words]
    return str(program)
