"""A short form of `make cluster`: two workers run rows. One worker is killed, and Postgres is restarted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.experiment import new_experiment, run_with_faults
from tests.cluster.postgres import Server, binaries, running_postgres
from tests.conftest import StartStub

pytest.importorskip("procrastinate", reason="the extra `queue` is not installed")
pytestmark = pytest.mark.skipif(binaries() is None, reason="no Postgres is installed (initdb is not found)")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_postgres() as found:
        yield found


def test_each_row_ends_once_despite_faults(server: Server, start_stub: StartStub, tmp_path: Path) -> None:
    """Only the row that kills its process fails."""
    stub = start_stub(latency_ms=200)
    with new_experiment(tmp_path / "experiment", server, stub) as experiment:
        assert run_with_faults(experiment, 20, [experiment.kill, experiment.restart_postgres], seed=1) == []
