"""Runs the service with the commands of ``deploy/compose.yaml``, but without containers."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from moot.core.lazy import imported
from moot.core.postgres.connection import Postgres

from tests.cluster.postgres import Server, binaries, running_postgres
from tests.conftest import StubEndpoint, free_port

DEPLOY = Path(__file__).parents[2] / "deploy"
PRICES = DEPLOY / "prices.example.jsonl"
LIMITS = {
    "ann": 'corpora = ["press"]\ndebates_a_day = 30',
    "bob": "",
    "cid": "",
    **dict.fromkeys(("dee", "eve", "fay"), "usd_a_day = 0.5"),
    "gus": "debates_a_day = 3",
    "hal": "debates_a_day = 1",
    **dict.fromkeys(("ida", "kim", "lea"), "tokens_a_day = 10_000"),
    "moe": 'house = "daily"',
    "nia": 'house = "daily"\napproves = true',
    "oli": "approves = true",
}
"""Maps each user to the lines of ``users.toml`` that set the user's corpora and limits."""
TOKENS = {name: f"{name}-and-a-token-of-{name}" for name in LIMITS}
OURS = ("page", "worker-1", "worker-2", "chroma")
"""The processes that `Service.start_all` starts from the project's image."""
PATIENCE = 180.0
"""Seconds that a step may take on a busy machine."""
CONTEXT = {"model": "openai:stub"}


@cache
def python() -> str | None:
    """The path of the Python that runs the service; None if this Python lacks the extra `service`.

    It is ``MOOT_SERVICE_PYTHON`` if this variable is set. Otherwise it is the Python that runs the tests.
    """
    named = str(Path(os.environ.get("MOOT_SERVICE_PYTHON", sys.executable)).absolute())
    found = subprocess.run([named, "-c", "import aegra_api, procrastinate"], capture_output=True, check=False)
    return None if found.returncode else named


def missing_requirements() -> str:
    """A message that names a missing requirement of these tests; empty if nothing is missing."""
    if python() is None:
        return "no Python with the extra `service` (MOOT_SERVICE_PYTHON)"
    return "" if binaries() and shutil.which("redis-server") else "no Postgres or no Redis is installed"


def compose() -> dict[str, Any]:
    """The services in ``deploy/compose.yaml``, by name."""
    services: dict[str, Any] = imported("yaml").safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return services


@dataclass
class Service:
    """A running service.

    Args:
        folder: the folder in which its processes run.
        postgres: its database.
        stub: the endpoint that it calls.
        variables: further variables of `.env`.
        ports: the local port of each process, by name.
        processes: the started processes, by name.
    """

    folder: Path
    postgres: Server
    stub: StubEndpoint
    variables: Mapping[str, str] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=lambda: {name: free_port() for name in (*OURS, "redis")})
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def environment(self, name: str) -> dict[str, str]:
        """The variables of a process in ``deploy/compose.yaml``, with local addresses."""
        known = {
            "OPENAI_BASE_URL": self.stub.url,
            "OPENAI_API_KEY": "stub",
            "POSTGRES_PASSWORD": "unused",
            **self.variables,
        }
        found = dict(known) if "env_file" in compose()[name] else {}
        for key, value in compose()[name].get("environment", {}).items():
            text = re.sub(r"\$\{(\w+):[-?]([^}]*)\}", lambda one: known.get(one[1], one[2]), str(value))
            text = re.sub(r"^postgresql://.*", self.postgres.url, text)
            text = {"/run/secrets/users": str(self.folder / "users.toml"), "/prices": str(PRICES)}.get(text, text)
            for host, port in (("redis:6379", "redis"), ("chroma:8000", "chroma")):
                text = text.replace(f"//{host}", f"//127.0.0.1:{self.ports[port]}")
            found[key] = text
        return found

    def start(self, name: str) -> None:
        """Start a process with its command in ``deploy/compose.yaml``."""
        program, *words = compose()[name]["command"]
        port = str(self.ports.setdefault(name, free_port()))
        named = {"8000": port, "0.0.0.0": "127.0.0.1", "/data": str(self.folder / "chroma")}
        command = [program] if name == "redis" else [str(Path(python() or "").with_name(program))]
        command += [named.get(word, word) for word in words] + (["--port", port] if name == "redis" else [])
        home = {"MOOT_HOME": str(self.folder / f"home-{name}"), "HF_HUB_OFFLINE": "1", "LANGSMITH_TRACING": "false"}
        home |= {"OTEL_EXPORTER_PROMETHEUS_PORT": port}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, cwd=self.folder, env=os.environ | home | self.environment(name), stdout=log, stderr=log
            )

    def log(self, name: str) -> str:
        """The last 3000 characters of a process's log."""
        return (self.folder / f"{name}.log").read_text()[-3000:]

    def wait_for(self, condition: Callable[[], bool], message: str) -> None:
        """Wait until a condition holds. Fail with the message after `PATIENCE` seconds."""
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until, message
            time.sleep(0.1)

    def is_ready(self, name: str) -> bool:
        """Whether a web process, a worker or Chroma reports that it is ready. Fails if the process has ended."""
        assert self.processes[name].poll() is None, self.log(name)
        try:
            path = "/api/v2/heartbeat" if name == "chroma" else "/ready"
            return httpx.get(f"http://127.0.0.1:{self.ports[name]}{path}").status_code == 200
        except httpx.TransportError:
            return False

    def start_all(self) -> None:
        """Start Redis and the processes of `OURS`, and wait until `OURS` are ready."""
        for name in ("redis", *OURS):
            self.start(name)
        for name in OURS:
            self.wait_for(lambda name=name: self.is_ready(name), f"{name} is not ready")  # type: ignore[misc]

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL, as if its machine failed."""
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()

    def restart(self, name: str) -> None:
        """Start an ended process again, and wait until it is ready."""
        self.start(name)
        self.wait_for(lambda: self.is_ready(name), f"{name} is not ready")

    def client_of(self, user: str, process: str = "page") -> httpx.Client:
        """A client of a process, with the token of a user."""
        headers = {"Authorization": f"Bearer {TOKENS[user]}"}
        return httpx.Client(base_url=f"http://127.0.0.1:{self.ports[process]}", headers=headers, timeout=PATIENCE)

    def query(self, query: str, *values: Any) -> list[Any]:
        """Query the database; return the rows."""
        with closing(Postgres(self.postgres.url)) as postgres:
            found: list[Any] = postgres.do(lambda cursor: cursor.execute(query, values).fetchall())
            return found

    def end(self) -> None:
        """Terminate all processes. Kill each process that does not end within 30 seconds."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def running_service(folder: Path, stub: StubEndpoint, variables: Mapping[str, str] | None = None) -> Iterator[Service]:
    """Run a service of one web process and two workers, with the users of `LIMITS`."""
    digests = {name: hashlib.sha256(token.encode()).hexdigest() for name, token in TOKENS.items()}
    users = [f'[{name}]\ntoken_sha256 = "{digest}"\n{LIMITS[name]}' for name, digest in digests.items()]
    (folder / "users.toml").write_text("\n".join(users))
    with ExitStack() as stack:
        service = Service(folder, stack.enter_context(running_postgres()), stub, variables or {})
        stack.callback(service.end)
        service.start_all()
        yield service


def begin(client: httpx.Client, claim: str, graph: str = "society_of_minds", **context: Any) -> tuple[str, str]:
    """Start a debate; return the ids of its thread and its run."""
    thread = client.post("/threads", json={}).raise_for_status().json()["thread_id"]
    asked = {"assistant_id": graph, "input": {"claim": claim}, "context": {**CONTEXT, **context}}
    run = client.post(f"/threads/{thread}/runs", json=asked).raise_for_status().json()
    return thread, run["run_id"]


def unfinished_debates(service: Service) -> list[Any]:
    """The debates that are not done, each with its worker's last heartbeat. Error messages show these rows."""
    return service.query(
        "SELECT d.id, d.status, d.owner, d.server_run, d.note, to_timestamp(d.updated), s.seen, now() "
        "FROM moot.stored_runs AS d LEFT JOIN moot.servers AS s ON s.id = d.owner WHERE d.status <> 'done'"
    )


def status(client: httpx.Client, place: tuple[str, str]) -> str:
    """The status of a run. ``place`` has the id of the thread and the id of the run."""
    found: str = client.get(f"/threads/{place[0]}/runs/{place[1]}").json()["status"]
    return found
