"""Runs debates of the service during faults, and counts the results: the part of ``make cluster`` that needs Aegra.

The service has one web process and two workers. They run the commands of ``deploy/compose.yaml``, without containers.
For each class of faults, 40 debates run. Each fault is caused after a random number of calls.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from moot.core.postgres.connection import Postgres

from tests.conftest import running_stub
from tests.service.running import Service, running_service

DEBATES = 40
ROUNDS = 3
WORKERS = ("worker-1", "worker-2")
LATENCY = 1000
"""Milliseconds that the endpoint takes for a call."""
CONTEXT = {"model": "openai:stub", "max_rounds": ROUNDS}
DOCS_PAGE = Path(__file__).parents[2] / "docs/howto/service.md"
BEGIN, END = "<!-- make cluster: begin -->", "<!-- make cluster: end -->"
"""The lines before and after the table in the docs."""
HEAD = (
    "| fault | times | ended without help | resumed on request | without a verdict | listed twice | "
    "calls made again, of those in flight | runs that ended as errors | as expected |"
)


@dataclass
class ServiceExperiment:
    """The debates of one user during a fault.

    Args:
        service: the service that runs them.
        name: the beginning of the debates' claims. Other experiments have other names.
        draw: the random generator that selects moments, workers and pauses.
        runs: the ids of the thread and the run of each debate. A debate that was resumed on request has a further pair.
        in_flight: the number of calls in flight when events were caused, summed over the events.
    """

    service: Service
    name: str
    draw: random.Random
    runs: list[tuple[str, str]] = field(default_factory=list)
    in_flight: int = 0

    def __post_init__(self) -> None:
        self.before = len(self.service.stub.prompts())
        self.client = self.service.client_of("bob")

    def begin(self) -> None:
        """Start the debates, each as a run on its own thread."""
        for number in range(DEBATES):
            thread = self.client.post("/threads", json={}).raise_for_status().json()["thread_id"]
            asked = {"assistant_id": "society_of_minds", "input": {"claim": f"{self.name} {number}."}}
            run = self.client.post(f"/threads/{thread}/runs", json={**asked, "context": CONTEXT})
            self.runs.append((thread, run.raise_for_status().json()["run_id"]))

    def calls_made(self) -> int:
        """The number of calls that the endpoint has received since this experiment began."""
        return len(self.service.stub.prompts()) - self.before

    def statuses(self) -> list[str]:
        """The statuses of the runs; empty if the server does not answer a request or answers with an error."""
        try:
            replies = [self.client.get(f"/threads/{thread}/runs/{run}") for thread, run in self.runs]
        except httpx.TransportError:
            return []
        return [reply.json()["status"] for reply in replies] if all(reply.is_success for reply in replies) else []

    def have_ended(self) -> bool:
        """Whether all runs have ended; false if there are no runs, or if `statuses` is empty after an error."""
        found = self.statuses()
        return bool(found) and not {"pending", "running"} & {*found}

    def listed(self) -> list[dict[str, Any]]:
        """The debates of this experiment, as the web page lists them."""
        found: list[dict[str, Any]] = []
        page = pages = 1
        while page <= pages:
            asked: dict[str, str | int] = {"q": self.name, "page": page}
            reply = self.client.get("/moot/api/debates", params=asked).raise_for_status().json()
            found, page, pages = found + reply["debates"], page + 1, reply["pages"]
        return found

    def unfinished(self) -> list[Any]:
        """All debates in the database that are not done, each with its run, for diagnosis."""
        query = (
            "SELECT d.id, d.status, to_timestamp(d.updated)::text, d.note, s.seen::text, r.status, r.updated_at::text, "
            "r.execution_params -> '_retry_count' FROM moot.stored_runs AS d "
            "LEFT JOIN runs AS r ON r.run_id = d.server_run LEFT JOIN moot.servers AS s ON s.id = d.owner "
            "WHERE d.status <> 'done'"
        )
        with closing(Postgres(self.service.postgres.url)) as postgres:
            return postgres.do(lambda cursor: cursor.execute(query).fetchall())

    def resume(self) -> int:
        """Resume those listed debates that a user can resume on the web page; return their number."""
        asked = [one["debate"] for one in self.listed() if one.get("can") == "resume"]
        for id in asked:
            reply = self.client.post(f"/moot/api/debates/{id}/resume").raise_for_status().json()
            self.runs.append((reply["thread_id"], reply["run_id"]))
        return len(asked)

    def cause(self, event: Callable[[ServiceExperiment], None]) -> None:
        """Add the number of calls in flight to ``in_flight``, then cause an event."""
        stats = self.service.stub.url.removesuffix("/v1") + "/stub/stats"
        self.in_flight += int(httpx.get(stats).json()["in_flight"])
        event(self)

    # --- events -----------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """Kill one of the workers, and start it again."""
        worker = self.draw.choice(WORKERS)
        self.service.wait_for(lambda: self.service.is_ready(worker), f"{worker} is not ready")
        self.service.kill(worker)
        self.service.start(worker)

    def kill_both(self) -> None:
        """Kill both workers at once, and start them again."""
        for worker in WORKERS:
            self.service.wait_for(lambda worker=worker: self.service.is_ready(worker), f"{worker} is not ready")  # type: ignore[misc]
        for worker in WORKERS:
            self.service.kill(worker)
        for worker in WORKERS:
            self.service.start(worker)

    def kill_page(self) -> None:
        """Kill the web process, and wait until a new one is ready."""
        self.service.wait_for(lambda: self.service.is_ready("page"), "the page is not ready")
        self.service.kill("page")
        self.service.start("page")
        self.service.wait_for(lambda: self.service.is_ready("page"), "the page is not ready")

    def restart_postgres(self) -> None:
        """Stop Postgres, and start it again after up to five seconds."""
        self.service.postgres.stop()
        time.sleep(self.draw.uniform(0, 5))
        self.service.postgres.start()

    def restart_redis(self) -> None:
        """Kill Redis, and start it again after up to five seconds. Redis stores nothing on disk."""
        self.service.kill("redis")
        time.sleep(self.draw.uniform(0, 5))
        self.service.start("redis")

    def freeze(self) -> None:
        """Freeze a worker until it has lost its debates, then let it continue."""
        worker = self.service.processes[self.draw.choice(WORKERS)]
        own_runs = f"{socket.gethostname()}-{worker.pid}-%"
        query = "SELECT count(*) FROM runs WHERE status = 'running' AND claimed_by LIKE %s"
        os.kill(worker.pid, signal.SIGSTOP)
        try:
            with closing(Postgres(self.service.postgres.url)) as postgres:
                self.service.wait_for(
                    lambda: not postgres.do(lambda cursor: cursor.execute(query, (own_runs,)).fetchone()[0]),
                    "no worker has taken the debates of the frozen worker",
                )
        finally:
            os.kill(worker.pid, signal.SIGCONT)

    def pause(self) -> None:
        """Freeze a worker for 1 to 11 seconds, less than the time after which it loses its debates."""
        worker = self.service.processes[self.draw.choice(WORKERS)]
        os.kill(worker.pid, signal.SIGSTOP)
        time.sleep(self.draw.uniform(1, 11))
        os.kill(worker.pid, signal.SIGCONT)


@dataclass(frozen=True)
class Fault:
    """A class of faults.

    Args:
        name: one word, for ``--only``.
        description: the text for the table.
        events: the events, in the order in which they are caused.
        may_need_resuming: whether debates may have to be resumed on request.
        may_repeat_calls: whether calls in flight may be made again.
    """

    name: str
    description: str
    events: tuple[Callable[[ServiceExperiment], None], ...]
    may_need_resuming: bool = False
    may_repeat_calls: bool = False


@dataclass(frozen=True)
class Result:
    """The counts at the end of an experiment.

    Args:
        ended_alone: debates with a verdict that were not resumed on request.
        resumed: debates that got their verdict after they were resumed on request.
        lost: debates without a verdict.
        listed_twice: entries of the list with a debate that an earlier entry has.
        repeated_calls: calls that were made again.
        in_flight: calls that were in flight when the events happened.
        errors: runs that had the server's status ``error`` before debates were resumed.
    """

    ended_alone: int
    resumed: int
    lost: int
    listed_twice: int
    repeated_calls: int
    in_flight: int
    errors: int

    def deviations(self, fault: Fault) -> list[str]:
        """A description of each figure that is not as expected."""
        most = self.in_flight if fault.may_repeat_calls else 0
        found = [f"{self.lost} debates have no verdict"] * bool(self.lost)
        found += [f"{self.listed_twice} debates are listed twice"] * bool(self.listed_twice)
        found += [f"{self.resumed} debates did not end by themselves"] * bool(
            self.resumed and not fault.may_need_resuming
        )
        return found + [f"{self.repeated_calls} calls were made again, instead of at most {most}"] * (
            self.repeated_calls > most
        )

    def row(self, fault: Fault) -> str:
        """The line of the table for this result, in Markdown."""
        verdict = "**no**" if self.deviations(fault) else "yes"
        repeated = f"{self.repeated_calls} of {self.in_flight}"
        counts = (
            len(fault.events),
            self.ended_alone,
            self.resumed,
            self.lost,
            self.listed_twice,
            repeated,
            self.errors,
        )
        return f"| {fault.description} | {' | '.join(map(str, counts))} | {verdict} |"


FAULTS = (
    Fault("kills", "`kill -9` of one of the workers", (ServiceExperiment.kill,) * 4, may_repeat_calls=True),
    Fault("both", "`kill -9` of both workers at once", (ServiceExperiment.kill_both,), may_repeat_calls=True),
    Fault(
        "frozen",
        "a worker is frozen (SIGSTOP) until the other has its debates",
        (ServiceExperiment.freeze,) * 2,
        may_repeat_calls=True,
    ),
    Fault("paused", "a worker is frozen for 1 to 11 seconds", (ServiceExperiment.pause,) * 3, may_repeat_calls=True),
    Fault("page", "`kill -9` of the page's process", (ServiceExperiment.kill_page,) * 2),
    Fault("redis", "Redis is killed, and away for up to 5 seconds", (ServiceExperiment.restart_redis,) * 3),
    Fault(
        "postgres",
        "Postgres is restarted, and away for up to 5 seconds",
        (ServiceExperiment.restart_postgres,) * 2,
        may_need_resuming=True,
        may_repeat_calls=True,
    ),
)
"""The faults, in the order of the table."""


def run_fault(service: Service, fault: Fault, seed: int) -> Result:
    """Run 40 debates during a fault, and resume interrupted debates; return the results."""
    experiment = ServiceExperiment(service, f"{fault.name.title()} {seed}", random.Random(f"{fault.name} {seed}"))
    with experiment.client:
        experiment.begin()
        moments = sorted(experiment.draw.sample(range(1, DEBATES * 3 * ROUNDS * 8 // 10), len(fault.events)))
        for after, event in zip(moments, fault.events, strict=True):
            service.wait_for(lambda after=after: experiment.calls_made() >= after, f"fewer than {after} calls")  # type: ignore[misc]
            experiment.cause(event)
            print(
                f"  {event.__name__} after {after} calls, in flight so far {experiment.in_flight}",
                file=sys.stderr,
                flush=True,
            )
        service.wait_for(experiment.have_ended, f"not all runs ended: {experiment.statuses()}")
        failed = experiment.statuses().count("error")
        first = [one["status"] for one in experiment.listed()]
        for row in experiment.unfinished():
            print(f"  {row}", file=sys.stderr)
        while experiment.resume():
            service.wait_for(experiment.have_ended, f"not all runs ended: {experiment.statuses()}")
        found = experiment.listed()
        documents = [one for one in found if one["status"] == "done"]
        needed = sum(
            len(experiment.client.get(f"/moot/api/debates/{one['id']}/json").raise_for_status().json()["calls"])
            for one in documents
        )
        return Result(
            ended_alone=first.count("done"),
            resumed=len(documents) - first.count("done"),
            lost=DEBATES - len({one["debate"] for one in documents}),
            listed_twice=len(found) - len({one["debate"] for one in found}),
            repeated_calls=experiment.calls_made() - needed,
            in_flight=experiment.in_flight,
            errors=failed,
        )


def run_faults(folder: Path, faults: list[Fault], seed: int) -> dict[Fault, Result | None]:
    """Run the experiment of each fault; return the results, with None for an experiment that raised an error.

    Raises:
        AssertionError: the service did not start, or a worker was not ready before an experiment.
    """
    found: dict[Fault, Result | None] = {}
    with running_stub(folder / "stub", latency_ms=LATENCY) as stub, running_service(folder, stub) as service:
        for fault in faults:
            started, found[fault] = time.monotonic(), None
            for name in WORKERS:
                service.wait_for(lambda name=name: service.is_ready(name), f"{name} is not ready")  # type: ignore[misc]
            try:
                found[fault] = result = run_fault(service, fault, seed)
                outcome = "; ".join(result.deviations(fault)) or "as expected"
                outcome += f"; {result.errors} runs ended as errors" * bool(result.errors)
            except Exception as error:  # noqa: BLE001 (the other experiments still run)
                outcome = f"{type(error).__name__}: {error}"
            print(f"service {fault.name}: {outcome} ({time.monotonic() - started:.0f} s)", file=sys.stderr, flush=True)
    return found


def table(results: dict[Fault, Result | None]) -> str:
    """A table of results for the docs, in Markdown."""
    lines = [
        result.row(fault) if result else f"| {fault.description} | {len(fault.events)} " + "| ? " * 6 + "| **no** |"
        for fault, result in results.items()
    ]
    return "\n".join([HEAD, "|---" * 9 + "|", *lines])


def write_table(results: dict[Fault, Result | None]) -> None:
    """Replace the table in the docs by a table of these results."""
    before, rest = DOCS_PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    DOCS_PAGE.write_text(f"{before}{BEGIN}\n\n{table(results)}\n\n{END}{after}")
