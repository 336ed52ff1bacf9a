"""A sample of `make cluster`: rows over two workers, of which one is killed, during a restart of Postgres."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.postgres import Server, binaries, running_postgres
from tests.cluster.trial import new_trial, run_with_faults
from tests.conftest import StartStub

pytest.importorskip("procrastinate", reason="the extra `queue` is not installed")
pytestmark = pytest.mark.skipif(binaries() is None, reason="no Postgres is installed (initdb is not found)")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_postgres() as found:
        yield found


def test_no_row_is_lost_or_done_twice(server: Server, start_stub: StartStub, tmp_path: Path) -> None:
    stub = start_stub(latency_ms=200)
    with new_trial(tmp_path / "trial", server, stub) as trial:
        assert run_with_faults(trial, 20, [trial.kill, trial.restart], seed=1) == []
