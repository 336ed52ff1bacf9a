"""Runs a batch with several workers during faults, and checks its results and the number of repeated calls."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moot.core.postgres.connection import Postgres

from tests.cluster.postgres import Server
from tests.commands import COMMAND
from tests.conftest import StubEndpoint
from tests.forked import start

DEADLY, ENDLESS = "Deadly otters.", "Endless otters."
"""The claim of a row that kills its process, and the claim of a row that never ends."""
POISON = {
    "graph": "rag",
    "settings": json.dumps({"sources": ["langchain:tests.cli.deadly:shelf"]}),
}
"""The graph and the settings of these rows."""
SILENCE = 3.0
"""Seconds without a heartbeat after which a worker loses its rows, in experiments."""
WAIT_SECONDS = 600.0
"""Maximum time of one wait in an experiment, in seconds."""


@dataclass
class QueueExperiment:
    """A batch and its workers.

    Args:
        folder: a new folder.
        server: the Postgres server.
        stub: the endpoint.
        at_once: the number of debates in flight in a worker.
        silence: seconds without a heartbeat after which a worker loses its rows. On a busy machine, heartbeats may be
            late by seconds.
        workers: the started workers, except those that were killed or terminated.
        faults: how many times a worker was killed, terminated or frozen.
    """

    folder: Path
    server: Server
    stub: StubEndpoint
    at_once: int = 8
    silence: float = SILENCE
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    faults: int = 0

    def __post_init__(self) -> None:
        self.postgres = Postgres(self.server.url)
        self.postgres.prepare()
        self.ask("UPDATE moot.about SET silence = %s * interval '1 second'", self.silence)
        self.ask("DELETE FROM moot.workers")  # workers that an earlier experiment killed
        self._stack = ExitStack()
        self.env = {**os.environ, "OPENAI_BASE_URL": self.stub.url, "OPENAI_API_KEY": "none"}
        self.env["MOOT_LANGCHAIN_SOURCES"] = "tests.cli.deadly:shelf"
        self.env |= {"MOOT_HOME": str(self.folder / "home"), "MOOT_QUEUE": self.server.url}

    def ask(self, query: str, *values: Any) -> list[Any]:
        """Run a query; return its rows. The list is empty for a command that returns no rows."""

        def job(cursor: Any) -> list[Any]:
            cursor.execute(query, values)
            return cursor.fetchall() if cursor.description else []

        return self.postgres.do(job)

    def command(self, *words: object) -> subprocess.Popen[bytes]:
        """Start a command of moot in a new process group. Its child processes are in the same group."""
        log = self._stack.enter_context((self.folder / "log.txt").open("ab"))
        words = (*COMMAND, *words)
        return start([*map(str, words)], env=self.env, stdout=log, stderr=log, start_new_session=True)

    def start_worker(self, *words: object) -> subprocess.Popen[bytes]:
        """Start another worker."""
        worker = self.command("worker", "--at-once", self.at_once, *words)
        self.workers.append(worker)
        return worker

    def submit(self, rows: int, *, poison: str = "", words: tuple[object, ...] = ()) -> subprocess.Popen[bytes]:
        """Start the command that queues a batch and collects its results.

        ``poison`` is the claim of one of the rows. If it is empty, all rows have usual claims.
        """
        with (self.folder / "claims.csv").open("w", newline="") as file:
            lines = csv.DictWriter(file, ["claim", "graph", "settings"])
            lines.writeheader()
            for number in range(rows):
                is_poison = poison and number == rows // 2
                lines.writerow({"claim": poison, **POISON} if is_poison else {"claim": f"Claim {number:05} on otters."})
        system = () if "--graphs" in words else ("--graph", "tit_for_tat")
        words = (*system, "--model", "openai:stub", *words)
        return self.command("batch", self.folder / "claims.csv", "--out", self.folder / "out", *words)

    def count_ended_rows(self) -> int:
        """The number of rows that are done or have failed."""
        return int(self.ask("SELECT count(*) FROM moot.rows WHERE status IN ('done', 'failed')")[0][0])

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds.

        Raises:
            TimeoutError: the condition did not hold within `WAIT_SECONDS`.
        """
        until = time.monotonic() + WAIT_SECONDS
        while not condition():
            if time.monotonic() > until:
                raise TimeoutError((self.folder / "log.txt").read_text()[-3000:])
            time.sleep(0.05)

    # --- events -----------------------------------------------------------------------------------------------------

    def kill(self, draw: random.Random) -> None:
        """Kill one of the workers, and start another."""
        worker = self.workers.pop(draw.randrange(len(self.workers)))
        worker.kill()
        worker.wait()
        self.faults += 1
        self.start_worker()

    def terminate(self, draw: random.Random) -> None:
        """Terminate one of the workers, and start another. A terminated worker releases its rows at once."""
        worker = self.workers.pop(draw.randrange(len(self.workers)))
        worker.terminate()
        if (code := worker.wait()) != 128 + signal.SIGTERM:
            raise AssertionError(f"a worker that was terminated had exit code {code}")
        self.faults += 1
        self.start_worker()

    def restart_postgres(self, draw: random.Random) -> None:
        """Stop Postgres, and start it again after up to two seconds."""
        self.server.stop()
        time.sleep(draw.uniform(0, 2))
        self.server.start()

    def freeze(self, draw: random.Random) -> None:
        """Freeze a worker with its processes until the queue counts the worker as dead, then let them continue."""
        worker = self.workers[draw.randrange(len(self.workers))]
        os.killpg(worker.pid, signal.SIGSTOP)
        before = self.ask("SELECT max(id) FROM moot.workers")[0][0]
        own_rows = "SELECT count(*) FROM moot.workers WHERE pid = %s AND id <= %s"
        self.wait(lambda: not self.ask(own_rows, worker.pid, before)[0][0])
        os.killpg(worker.pid, signal.SIGCONT)
        self.faults += 1

    # --- results ----------------------------------------------------------------------------------------------------

    def table(self) -> list[dict[str, str]]:
        """The lines of the batch's ``table.csv``."""
        with (self.folder / "out" / "table.csv").open(encoding="utf-8-sig", newline="") as file:
            return list(csv.DictReader(file))

    def repeated_calls(self) -> int:
        """The number of calls with a prompt that an earlier call had."""
        asked = Counter(self.stub.prompts())
        return sum(asked.values()) - len(asked)

    def end(self) -> None:
        """Kill all workers that still run, and close the connection and the log."""
        for worker in self.workers:
            with suppress(ProcessLookupError):  # if the process has ended already
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
        self.postgres.close()
        self._stack.close()


@contextmanager
def new_experiment(
    folder: Path, server: Server, stub: StubEndpoint, at_once: int = 8, silence: float = SILENCE
) -> Iterator[QueueExperiment]:
    """Context manager: yields an experiment in a new folder, and ends its workers at exit."""
    folder.mkdir()
    found = QueueExperiment(folder, server, stub, at_once, silence)
    try:
        yield found
    finally:
        found.end()


def run_with_faults(
    experiment: QueueExperiment, rows: int, faults: Sequence[Callable[[random.Random], None]], seed: int
) -> list[str]:
    """Run a batch with two workers during faults; return the deviations from the expected result.

    One of the rows kills its process.

    Args:
        experiment: the experiment.
        rows: the number of rows.
        faults: the faults. They are caused in random order, each after a random number of ended rows.
        seed: the seed of the random numbers.
    """
    draw = random.Random(seed)
    experiment.start_worker()
    experiment.start_worker()
    batch = experiment.submit(rows, poison=DEADLY)
    for after, fault in zip(
        sorted(draw.sample(range(1, rows * 9 // 10), len(faults))), draw.sample(faults, len(faults)), strict=True
    ):
        experiment.wait(lambda after=after: experiment.count_ended_rows() >= after or batch.poll() is not None)  # type: ignore[misc]
        fault(draw)
        print(f"{fault.__name__} after {after} rows", file=sys.stderr, flush=True)
    experiment.wait(lambda: batch.poll() is not None)
    return deviations(experiment, rows)


def deviations(experiment: QueueExperiment, rows: int) -> list[str]:
    """A description of each unexpected status or document, and of too many repeated calls.

    Only the row that kills its process is expected to fail.
    """
    table, found = experiment.table(), []
    statuses = Counter(row["status"] for row in table)
    if statuses != Counter({"done": rows - 1, "failed": 1}):
        found.append(f"rows: {dict(statuses)}")
    lost = [row for row in table if row["status"] == "failed" and row["claim"] != DEADLY]
    found += [f"{row['claim']}: {row['error']}" for row in lost]
    documents = [
        json.loads((experiment.folder / "out" / row["document"]).read_text()) for row in table if row["document"]
    ]
    found += [f"no verdict: {document['id']}" for document in documents if document["status"] != "done"]
    if len({document["id"] for document in documents}) != rows - 1:
        found.append("two rows have the same document")
    [[many]] = experiment.ask("SELECT count(*) FROM moot.rows WHERE status = 'done' AND document IS NOT NULL")
    if many != rows - 1:
        found.append(f"documents in the queue: {many}")
    # The process that the poisoned row kills may run other rows, whose calls are then repeated.
    if experiment.repeated_calls() > (experiment.faults + 1) * experiment.at_once:
        found.append(f"repeated calls: {experiment.repeated_calls()}")
    return found
