"""A ceiling of `moot eval run` counts the calls of all runs of the same command, including killed runs."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from moot.core.errors import UserError
from moot.evals._runs.run_plan import open_spending

from tests.commands import moot_process
from tests.conftest import StartStub
from tests.evals.test_runs import AT_ONCE, command, run_and_stop
from tests.evals.test_solver import claims


def test_a_damaged_file_of_spending_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "plan.spent").write_text("no JSON")
    with pytest.raises(UserError, match="damaged"), open_spending(tmp_path / "plan.spent"):
        pass


def test_a_ceiling_of_calls_holds_over_killed_runs(start_stub: StartStub, tmp_path: Path) -> None:
    """With a higher ceiling, the same command then runs the missing samples."""
    stub, kills, most = start_stub(latency_ms=50), 2, 24
    line = command(tmp_path, claims(tmp_path / "fever.jsonl", *["SUPPORTS"] * 32))
    bounded = [*line, "--max-calls", str(most)]
    for kill in range(kills):
        assert run_and_stop(stub, bounded, 8 * (kill + 1), signal.SIGKILL) == -signal.SIGKILL
    ended = moot_process(*bounded[3:])
    assert ended.returncode == 3, ended.stderr  # the code 3 means that samples are missing
    assert "Earlier runs took up to" in ended.stderr
    # The ceiling also includes calls that a kill interrupted, even if they never reached the endpoint.
    assert most - kills * AT_ONCE <= len(stub.calls()) <= most
    finished = moot_process(*line[3:], "--max-calls", 4 * most)
    assert finished.returncode == 0, finished.stderr
