"""The processes of ``moot batch --workers`` are replaced if they are killed while they run no row."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from moot.cli.batch.jobs import Job
from moot.cli.batch.outcomes import Outcome
from moot.cli.batch.process import Worker
from moot.cli.batch.runner import Rows
from moot.cli.batch.worker import WorkerConfig
from moot.cli.batch.workers import ProcessRunner
from moot.graphs import load_graph
from moot.nodes._runtime.settings import checked_settings

CLAIMS = ("An otter sleeps by day.", "A badger sleeps by night.", "A heron sleeps upright.")


async def test_two_workers_that_die_before_they_end_a_row_end_their_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    started: list[Worker] = []
    start_worker = Worker.start

    async def start_and_kill(config: str) -> Worker:
        started.append(await start_worker(config))
        started[-1]._process.kill()
        await started[-1]._reading
        return started[-1]

    async def no_row_ends(job: Job, outcome: Outcome) -> None:
        raise AssertionError(job)

    monkeypatch.setattr(Worker, "start", start_and_kill)
    config = WorkerConfig(str(tmp_path), "off", math.inf)
    jobs = [Job(1, "r1", "standard_prompting", "1" * 32, {"claim": CLAIMS[1]}, {"model": "fake:0"})]
    await ProcessRunner(1, 1, config).run_rows(Rows(iter(jobs)), no_row_ends)
    assert (len(started), "2 worker processes were killed" in caplog.text) == (2, True)


async def test_a_worker_that_is_killed_between_two_rows_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Worker] = []
    ended: list[str] = []
    start_worker = Worker.start

    async def start_and_keep(config: str) -> Worker:
        started.append(await start_worker(config))
        return started[-1]

    async def kill_after_the_first_row(job: Job, outcome: Outcome) -> None:
        ended.append(outcome["status"])
        if len(ended) == 1:
            started[0]._process.kill()
            await started[0]._reading

    monkeypatch.setattr(Worker, "start", start_and_keep)
    settings = checked_settings(load_graph("standard_prompting").settings, {"model": "fake:0"}, "").model_dump(
        mode="json"
    )
    jobs = [Job(n, f"r{n}", "standard_prompting", f"{n:032}", {"claim": CLAIMS[n]}, settings) for n in range(3)]
    config = WorkerConfig(str(tmp_path), "off", math.inf)
    await ProcessRunner(1, 1, config).run_rows(Rows(iter(jobs)), kill_after_the_first_row)
    assert (ended, len(started)) == (["done"] * 3, 2)
