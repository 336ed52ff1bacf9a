"""Inspect can rescore the log of a run that was killed and resumed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from inspect_ai.log import read_eval_log
from moot.evals._runs.reference import read_log_headers

from tests.commands import moot_process
from tests.conftest import StartStub
from tests.evals.test_runs import command, mean, run_and_stop
from tests.evals.test_solver import claims, says


def test_inspect_rescores_a_resumed_log_with_the_same_result(start_stub: StartStub, tmp_path: Path) -> None:
    stub = start_stub([says("SUPPORTS")], latency_ms=50)
    data = claims(tmp_path / "fever.jsonl", *["SUPPORTS", "SUPPORTS", "REFUTES"] * 8)
    line = command(tmp_path, data)
    assert run_and_stop(stub, line, 21, signal.SIGKILL) == -signal.SIGKILL
    assert moot_process(*line[3:]).returncode == 0
    log = read_eval_log(str(next(read_log_headers(str(tmp_path / "logs"))).location))
    recovered = [sample for sample in log.samples or [] if not sample.store]  # samples of the killed run
    assert 0 < len(recovered) < 24
    again = tmp_path / "again.eval"
    score = [sys.executable, "-m", "inspect_ai", "score", log.location, "--output-file", str(again)]
    subprocess.run([*score, "--action", "overwrite", "--display", "none"], check=True)
    scored = read_eval_log(str(again))
    assert mean(scored) == mean(log) == 2 / 3
    assert scored.results is not None
    assert {score.name: score.scored_samples for score in scored.results.scores}["accuracy"] == 24
