"""The processes that run rows are replaced if they are killed or hang, on the command line and on a queue."""

from __future__ import annotations

import asyncio
import math
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from moot.cli.batch import process
from moot.cli.batch.process import Worker, Workers
from moot.core.errors import WorldError
from moot.graphs import load_graph
from moot.nodes._runtime.settings import checked_settings

CLAIMS = ("An otter sleeps by day.", "A badger sleeps by night.", "A heron sleeps upright.")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Worker]:
    """The processes that are started."""
    found: list[Worker] = []
    start_worker = Worker.start

    async def start_and_keep(config: Mapping[str, Any]) -> Worker:
        found.append(await start_worker(config))
        return found[-1]

    monkeypatch.setattr(Worker, "start", start_and_keep)
    return found


def row(number: int) -> dict[str, Any]:
    """A row with a debate of a claim."""
    settings = checked_settings(load_graph("standard_prompting").settings, {"model": "fake:0"}, "")
    key = f"{number:032}"
    job = {"number": number, "name": f"r{number}", "system": "standard_prompting", "key": key}
    job |= {"asked": {"claim": CLAIMS[number]}, "settings": settings.model_dump(mode="json")}
    return {"key": key, "job": job, "mode": "off", "until": math.inf}


async def test_a_process_that_is_killed_between_two_rows_is_replaced(tmp_path: Path, started: list[Worker]) -> None:
    async with Workers(1, {"folder": str(tmp_path)}) as workers:
        for number in range(3):
            answer = await workers.run(row(number))
            assert answer is not None
            assert answer["outcome"]["status"] == "done"
            if number == 0:
                await started[0].end()
    assert len(started) == 2
    assert all(one.is_dead for one in started)


async def test_a_process_that_hangs_is_ended_and_its_row_runs_alone(
    tmp_path: Path, started: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "CHECK_SECONDS", 0.1)
    async with Workers(1, {"folder": str(tmp_path)}) as workers:
        os.kill(started[0]._process.pid, signal.SIGSTOP)
        running = asyncio.create_task(workers.run(row(0)))
        await asyncio.sleep(0)
        monkeypatch.setattr(process, "SILENT_SECONDS", 0.0)
        await started[0]._reading  # until the process has ended
        monkeypatch.setattr(process, "SILENT_SECONDS", 60.0)
        answer = await running
    assert answer is not None
    assert answer["outcome"]["status"] == "done"
    assert len(started) == 2


async def test_processes_that_cannot_start_end_the_batch(
    monkeypatch: pytest.MonkeyPatch, started: list[Worker]
) -> None:
    monkeypatch.setattr(process, "PROGRAM", "moot.no_such_program")
    with pytest.raises(WorldError, match="ended before it was ready"):
        async with Workers(2, {}):
            raise AssertionError
