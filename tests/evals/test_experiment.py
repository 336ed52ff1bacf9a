"""Tests of sending logs to LangSmith as experiments. A local collector takes the place of LangSmith."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from moot.cli.evaluations import eval_experiment
from moot.core.errors import UserError, WorldError
from moot.evals._runs.experiment import ENDPOINT, experiment_of

from tests.collector import collecting
from tests.conftest import free_port
from tests.evals.made_logs import debate, failed_document, write_log

KEY = "canary-of-the-log-1234567890"


def write_example(folder: Path, name: str) -> Path:
    """Write a log with a right answer and with a failed debate whose error contains `KEY`."""
    documents = {
        "s1": debate("SUPPORTS", confidence=0.75, scores={"rag": {"faithfulness": 0.5, "answer_relevance": None}}),
        "s2": failed_document(detail=f"The key {KEY} was refused."),
    }
    gold = {"s1": "SUPPORTS", "s2": "REFUTES"}
    return write_log(folder, name, documents, gold, scores={"s1": {"accuracy": 1.0}}, system=name)


def test_a_log_is_sent_as_an_experiment_without_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOME_API_KEY", KEY)
    with collecting() as collector:
        for name, value in collector.environment.items():
            monkeypatch.setenv(name, value)
        eval_experiment(write_example(tmp_path, "ours"), as_json=True)
    assert json.loads(capsys.readouterr().out) == {"path": ENDPOINT}
    sent = collector.posted[ENDPOINT]
    assert (sent["dataset_name"], sent["experiment_name"].split()[0]) == ("moot fever", "ours")
    right, missing = sent["results"]
    assert right["actual_outputs"]["answer"] == "SUPPORTS"
    assert (right["inputs"], right["expected_outputs"]) == ({"claim": "claim s1"}, {"answer": "SUPPORTS"})
    given = {score["key"]: score["score"] for score in right["evaluation_scores"]}
    assert given == {"accuracy": 1.0, "faithfulness": 0.5, "confidence": 0.75}
    assert missing["error"] == "The key [SOME_API_KEY] was refused."
    assert missing["evaluation_scores"] == []
    assert KEY not in json.dumps(sent)


def test_unreadable_logs_and_an_unreachable_endpoint_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.eval").write_text("no log")
    with pytest.raises(UserError, match="cannot be read as a log"):
        experiment_of(tmp_path / "broken.eval")
    monkeypatch.setenv("LANGSMITH_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(WorldError, match="Check LANGSMITH_ENDPOINT"):
        eval_experiment(write_example(tmp_path, "ours"), as_json=True)
