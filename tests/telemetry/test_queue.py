"""Telemetry of a worker whose queue is in a real Postgres, and of the worker's processes."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.cluster.postgres import binaries, running_postgres
from tests.commands import COMMAND
from tests.conftest import StartStub
from tests.telemetry.receiver import receiving

pytest.importorskip("procrastinate", reason="the extra `queue` is not installed")
pytestmark = pytest.mark.skipif(binaries() is None, reason="no Postgres is installed (initdb is not found)")

ROWS = 4


def test_a_worker_and_its_processes_send_telemetry(start_stub: StartStub, tmp_path: Path) -> None:
    """The worker sends the length of the queue, and its processes send the counts of their debates."""
    stub = start_stub([{"match": "Claim number 0", "delay_ms": 600_000, "times": 1}])
    (tmp_path / "claims.csv").write_text("claim\n" + "".join(f"Claim number {n} is true.\n" for n in range(ROWS)))
    batch = ("batch", str(tmp_path / "claims.csv"), "--out", str(tmp_path / "out"), "--model", "openai:gpt-4o-mini")
    queue = {"metric": "moot.queue.length", "moot__queue": "postgres"}
    with running_postgres() as postgres, receiving() as receiver:
        environment = os.environ | {"MOOT_QUEUE": postgres.url, "MOOT_HOME": str(tmp_path / "home")}
        sent = environment | receiver.environment | {"OTEL_METRIC_EXPORT_INTERVAL": "200", "LOG_JSON": "true"}
        log = (tmp_path / "log").open("w")
        words = [*COMMAND, *batch, "--graph", "standard_prompting"]
        with (
            log,
            subprocess.Popen(words, env=environment, stdout=log, stderr=log) as collecting,
            subprocess.Popen([*COMMAND, "worker", "--at-once", "1"], env=sent, stdout=log, stderr=log) as worker,
        ):
            try:
                receiver.wait_for(
                    lambda: (
                        receiver.total(**queue, moot__state="running") == 1
                        and receiver.total(**queue, moot__state="waiting") == ROWS - 1
                    )
                )
                while not stub.requests():
                    time.sleep(0.05)
                worker.terminate()
                assert worker.wait(120) == 143, (tmp_path / "log").read_text()
                assert subprocess.run([*COMMAND, "worker", "--drain"], env=sent, check=False).returncode == 0
                assert collecting.wait(120) == 0
            finally:
                collecting.kill()
                worker.kill()
    assert receiver.total("moot.debates", moot__status="done") == ROWS
    assert receiver.total("moot.cost.usd") > 0
    processes = {resource["service.instance.id"] for resource in receiver.resources}
    assert len(processes) == 3  # two workers, and the process that ended debates
    assert "debate begun" in (tmp_path / "log").read_text()
