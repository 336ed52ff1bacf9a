"""A ceiling of `moot eval run` counts the calls of all runs of the same command, including killed runs."""

from __future__ import annotations

import pickle
import signal
from pathlib import Path
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.evals._report.ceilings import unknown_cost, what_logs_show
from moot.evals._runs.run_plan import open_spending
from moot.evals._stats.sample_size import minimum_detectable_effect

from tests.commands import moot_process
from tests.conftest import StartStub
from tests.evals.made_logs import debate, write_log
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


def test_a_run_that_stops_at_a_ceiling_says_what_its_items_can_find(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub()
    data = claims(tmp_path / "fever.jsonl", *["SUPPORTS", "REFUTES"] * 8)
    ended = moot_process(*command(tmp_path, data)[3:], "--graph", "chain_of_thought", "--max-calls", 20)
    assert ended.returncode == 3, ended.stderr
    (row,) = [text for text in ended.stdout.splitlines() if text.startswith("FEVER")]
    *_, items, planned, detectable = row.split()
    assert int(items) <= 10
    assert (planned, detectable == "none" or float(detectable) > 0.5) == ("16", True)
    assert "cannot be found" in " ".join(ended.stdout.split())


def test_finished_items_can_show_differences_between_systems_alone(tmp_path: Path) -> None:
    """With 100 items, 20 of which differ, McNemar's test finds a difference of about 0.13 with a power of 80%."""
    gold = {str(i): "SUPPORTS" for i in range(100)}
    for place, (system, wrong) in enumerate({"first": range(10), "second": range(10, 20)}.items()):
        documents = {id: debate("REFUTES" if int(id) in wrong else "SUPPORTS") for id in gold}
        facts: dict[str, Any] = {"system": system, "graph": system, "key": system, "position": place}
        write_log(tmp_path, system, documents, gold, planned=[*gold, "more"], **facts)
        if system == "first":
            assert list(what_logs_show(tmp_path)) == []
    (one,) = what_logs_show(tmp_path)
    assert (one.system, one.against, one.items, one.of) == ("second", "first", 100, 101)
    assert one.detectable == pytest.approx(minimum_detectable_effect(0.8, 100, 0.2), abs=0.01)
    assert list(what_logs_show(tmp_path / "none")) == []


def test_processes_that_read_logs_can_be_given_the_cost() -> None:
    assert pickle.loads(pickle.dumps(unknown_cost))([]) is None
