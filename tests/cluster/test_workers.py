"""Tests of workers that cannot run rows or cannot reach Postgres, and of rows without a worker."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from unittest.mock import AsyncMock, Mock

import pytest
from moot.cli.batch.process import Worker, Workers
from moot.core.errors import WorldError
from moot.service.queue import worker
from moot.service.queue.runner import WorkerWatch

from tests.cluster.experiment import DEADLY, QueueExperiment, new_experiment
from tests.cluster.postgres import Server, binaries, running_postgres
from tests.commands import moot
from tests.conftest import StartStub, free_port

if TYPE_CHECKING:
    from moot.service.queue.rows import QueuedRows

pytest.importorskip("procrastinate", reason="the extra `queue` is not installed")
pytestmark = pytest.mark.skipif(binaries() is None, reason="no Postgres is installed (initdb is not found)")


@pytest.fixture
def server() -> Iterator[Server]:
    with running_postgres() as found:
        yield found


@contextmanager
def changed_environment(experiment: QueueExperiment, **variables: str) -> Iterator[None]:
    """Context manager: changes variables of the commands that start within it; an empty value unsets a variable."""
    before, experiment.env = experiment.env, {**experiment.env, **variables}
    experiment.env = {name: value for name, value in experiment.env.items() if value}
    yield
    experiment.env = before


def log_of(experiment: QueueExperiment) -> str:
    """The log of an experiment's commands, with spaces instead of line breaks."""
    return " ".join((experiment.folder / "log.txt").read_text().split())


def wait_for_workers(experiment: QueueExperiment, count: int) -> None:
    """Wait until the queue has exactly this number of workers."""
    experiment.wait(lambda: experiment.ask("SELECT count(*) FROM moot.workers")[0][0] == count)


async def test_close_succeeds_after_a_call_of_end_was_cancelled() -> None:
    """A call of `end` is cancelled if a worker shuts down while its heartbeat task ends a process."""
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec("cat", stdin=pipe, stdout=pipe)
    process = Worker(started)
    ending = asyncio.create_task(process.end())
    await asyncio.sleep(0)  # lets `end` run until it waits for the end of the process's output
    ending.cancel()
    await process.close()
    assert started.returncode == -signal.SIGKILL


async def test_a_failed_replacement_of_a_dead_process_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Workers(1, {})
    dead, fresh = Mock(is_dead=True), Mock(is_dead=False)
    machine._processes, machine._load = [dead], {dead: 0}
    start = AsyncMock(side_effect=[WorldError("no memory", kind="worker_killed"), fresh])
    monkeypatch.setattr(Worker, "start", start)
    with pytest.raises(WorldError):
        await machine._least_busy_process()
    assert await machine._least_busy_process() is fresh
    assert machine._processes == [fresh]


def test_a_worker_without_an_api_key_leaves_its_rows_to_others(
    server: Server, start_stub: StartStub, tmp_path: Path
) -> None:
    with new_experiment(tmp_path / "experiment", server, start_stub(latency_ms=50), silence=60) as experiment:
        with changed_environment(experiment, OPENAI_BASE_URL="", OPENAI_API_KEY=""):
            keyless = experiment.start_worker()
        wait_for_workers(experiment, 1)
        able = experiment.start_worker()
        wait_for_workers(experiment, 2)
        batch = experiment.submit(30)
        experiment.wait(lambda: batch.poll() is not None)
        assert {row["status"] for row in experiment.table()} == {"done"}
        assert keyless.wait(30) == 2
        assert "OPENAI_API_KEY is not set" in log_of(experiment)
        assert "This worker cannot process its rows, so it ends; other workers get them." in log_of(experiment)
        assert able.poll() is None


def test_a_batch_stops_if_its_only_worker_has_no_api_key(server: Server, start_stub: StartStub, tmp_path: Path) -> None:
    """The worker continues to run. With another worker, the same command completes the batch."""
    with new_experiment(tmp_path / "experiment", server, start_stub(), silence=60) as experiment:
        with changed_environment(experiment, OPENAI_BASE_URL="", OPENAI_API_KEY=""):
            keyless = experiment.start_worker()
        batch = experiment.submit(30)
        experiment.wait(lambda: batch.poll() is not None)
        assert batch.returncode == 3
        assert any("OPENAI_API_KEY is not set" in row["error"] for row in experiment.table())
        assert "No further row was started: all rows would fail like this one." in log_of(experiment)
        assert keyless.poll() is None
        experiment.start_worker()
        wait_for_workers(experiment, 2)
        keyless.terminate()
        keyless.wait()
        again = experiment.submit(30)
        experiment.wait(lambda: again.poll() is not None)
        assert {row["status"] for row in experiment.table()} == {"done"}


def test_a_batch_stops_after_three_source_outages_in_succession(
    server: Server, start_stub: StartStub, tmp_path: Path
) -> None:
    """The outages of all processes count together."""
    with new_experiment(tmp_path / "experiment", server, start_stub(), silence=60) as experiment:
        systems = ("--graphs", "rag,chain_of_thought", "--set", "attempts=1")  # the second system does not search
        with changed_environment(experiment, WIKIPEDIA_BASE_URL=f"http://127.0.0.1:{free_port()}"):
            experiment.start_worker("--workers", 2, "--at-once", 1)
        wait_for_workers(experiment, 1)
        batch = experiment.submit(30, words=systems)
        experiment.wait(lambda: batch.poll() is not None)
        statuses = [row["rag: status"] for row in experiment.table()]
        assert (batch.returncode, {*statuses}) == (3, {"failed", "not begun"})
        assert 3 <= statuses.count("failed") <= 6
        assert "No further row was started: the sources of 3 rows in succession" in log_of(experiment)


def test_a_worker_imports_only_modules_that_its_environment_lists(
    server: Server, start_stub: StartStub, tmp_path: Path
) -> None:
    with new_experiment(tmp_path / "experiment", server, start_stub(), silence=60) as experiment:
        with changed_environment(experiment, MOOT_LANGCHAIN_SOURCES=""):
            experiment.start_worker()
        batch = experiment.submit(3, poison=DEADLY)
        experiment.wait(lambda: batch.poll() is not None)
        [failed] = [row for row in experiment.table() if row["status"] != "done"]
        assert "'langchain:tests.cli.deadly:shelf' is not listed by this server" in failed["error"]


async def test_a_worker_waits_while_postgres_is_unreachable(
    server: Server,
    start_stub: StartStub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stub, warned = start_stub(latency_ms=50), list[str]()
    monkeypatch.setattr(worker.log, "warning", lambda text, *values: warned.append(text % values))
    monkeypatch.setattr(worker, "PATIENCE", 0.5)
    monkeypatch.setattr(worker, "CONNECT_SECONDS", 0.5)
    with new_experiment(tmp_path / "experiment", server, stub, silence=60) as experiment:
        working = asyncio.create_task(worker.QueueWorker(server.url, 1, 4, 60).work(drain=False))
        started = "SELECT 1 FROM procrastinate_workers"
        await asyncio.to_thread(experiment.wait, lambda: bool(experiment.ask(started)) or working.done())
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(experiment.wait, lambda: "could not be used" in str(warned) or working.done())
        await asyncio.to_thread(server.start)
        assert not working.done()
        batch = experiment.submit(5)
        await asyncio.to_thread(experiment.wait, lambda: batch.poll() is not None)
        assert {row["status"] for row in experiment.table()} == {"done"}
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working


def test_each_absence_of_workers_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    counts = [0, 0, 2, 1, 0, 0]
    rows = SimpleNamespace(workers=lambda: [("worker", 1, 1)] * counts.pop(0))
    watch = WorkerWatch(cast("QueuedRows", rows))
    reports = []
    while counts:
        watch.check()
        reports.append(capsys.readouterr().err.count("No worker"))
    assert reports == [1, 0, 0, 0, 1, 0]


def test_a_batch_waits_for_the_first_worker(server: Server, start_stub: StartStub, tmp_path: Path) -> None:
    """A message says that no worker runs. The status of the batch counts its calls, although they have no price."""
    with new_experiment(tmp_path / "experiment", server, start_stub(), silence=60) as experiment:
        batch = experiment.submit(3)
        experiment.wait(lambda: "No worker takes rows from the queue" in log_of(experiment))
        experiment.start_worker()
        experiment.wait(lambda: batch.poll() is not None)
        assert {row["status"] for row in experiment.table()} == {"done"}
        shown = moot("batch", "status", "--queue", server.url).stdout
        assert "9 calls" in shown  # three rows of three calls
        assert "no price known for 3 rows" in " ".join(shown.split())
        assert "$" not in shown
