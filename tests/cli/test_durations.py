"""Durations, and the estimates of the remaining time of batches and plans, are written in words."""

from __future__ import annotations

import io

import pytest
from inspect_ai.log import EvalSample
from moot.cli.batch.progress import BatchProgress
from moot.cli.eval_run import ProgressBar
from moot.transcript.line import format_duration
from rich.console import Console


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.0 s"),
        (4.24, "4.2 s"),
        (9.97, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (125, "2 min 5 s"),
        (3599.7, "1 h"),
        (3900, "1 h 5 min"),
        (86_400, "1 day"),
        (183_700, "2 days 3 h"),
    ],
)
def test_durations_are_written_in_words(seconds: float, words: str) -> None:
    assert format_duration(seconds) == words


def test_batches_and_plans_estimate_the_remaining_time_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), width=200)
    batch, plan = BatchProgress(console, 3, None, None, (0, 0.0)), ProgressBar(console)
    plan.begin(3, 0)
    monkeypatch.setattr("time.monotonic", lambda: max(batch.started, plan.started) + 12)
    with batch:
        batch.note({"status": "done", "paid": {"tokens": 100, "usd": 0.01}})
        assert batch.estimate() == "about 24 s and 200 tokens ($0.02) to go"
        batch.ended = 3
        assert batch.estimate() == "none to go"
    plan.count_sample(EvalSample(id=1, epoch=1, input="x", target="y"))
    assert plan.estimate() == "about 24 s and 0 tokens to go"
