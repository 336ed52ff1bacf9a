"""Send an evaluation's log to LangSmith as an experiment.

LangSmith accepts whole experiments that ran elsewhere, with their items, and shows experiments with the same dataset
name side by side. API keys and other secrets in a log are hidden before the log is sent (`moot.core.redaction`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import langsmith
from inspect_ai.log import EvalLog, EvalSample, read_eval_log, read_eval_log_samples
from langsmith.utils import LangSmithAuthError, LangSmithError
from moot.core.errors import UserError, WorldError
from moot.core.redaction import hide_secrets
from moot.evals._runs.log_files import UNREADABLE
from moot.evals._runs.reference import moot_metadata
from moot.evals._runs.solver import document_in
from moot.nodes._runtime.tracing import scores_of

ENDPOINT = "/datasets/upload-experiment"
OUTPUTS = ("answer", "raw_verdict", "confidence", "stop_reason", "rounds", "depth", "seconds", "usage")
"""Fields of a result document that become an item's outputs."""


def experiment_of(path: Path) -> dict[str, Any]:
    """Convert a log to an experiment in LangSmith's format, with a row for each sample. Blocking."""
    try:
        log = read_eval_log(str(path), header_only=True)
        metadata = moot_metadata(log)
        dataset = " ".join(str(part) for part in ("moot", metadata.get("benchmark"), log.eval.task_version) if part)
        samples = read_eval_log_samples(str(path), all_samples_required=False, exclude_fields={"messages"})
        rows = [make_row(sample, dataset, log) for sample in samples]
    except UNREADABLE as error:
        raise UserError(f"{path} cannot be read as a log of an evaluation ({error}).", kind="invalid_file") from error
    if not rows:
        raise UserError(f"{path} contains no sample.", kind="invalid_file")
    body = {
        "experiment_name": f"{metadata.get('system') or log.eval.task} {log.eval.created} {log.eval.eval_id}",
        "dataset_name": dataset,
        "experiment_start_time": min(row["start_time"] for row in rows),
        "experiment_end_time": max(row["end_time"] for row in rows),
        "experiment_metadata": metadata | {"packages": log.eval.packages},
        "results": rows,
    }
    cleaned: dict[str, Any] = hide_secrets(json.loads(json.dumps(body, default=str)))
    return cleaned


def make_row(sample: EvalSample, dataset: str, log: EvalLog) -> dict[str, Any]:
    """Make a row from a sample; the row of an item has the same id in all experiments with the same dataset name."""
    document = document_in(sample)
    begin = sample.started_at or log.eval.created
    row = {
        "row_id": str(uuid5(NAMESPACE_URL, f"{dataset}\x1f{sample.id}")),
        "inputs": {"claim": sample.input, **({"choices": sample.choices} if sample.choices else {})},
        "expected_outputs": {"answer": sample.target},
        "actual_outputs": {name: document[name] for name in OUTPUTS} if document else None,
        "evaluation_scores": [
            dict(zip(("key", "score", "comment"), score, strict=True)) for score in sample_scores(sample)
        ],
        "start_time": begin,
        "end_time": sample.completed_at or begin,
        "run_name": document["graph"] if document else log.eval.task,
        "error": sample.error.message if sample.error else None,
        "run_metadata": {"sample": sample.id, "epoch": sample.epoch, **(sample.metadata or {})},
    }
    return {name: value for name, value in row.items() if value is not None}


def sample_scores(sample: EvalSample) -> Iterator[tuple[str, float, str | None]]:
    """Yield a sample's finite numeric scores, then the scores within the debate, each as (key, score, comment)."""
    for key, score in (sample.scores or {}).items():
        if isinstance(score.value, int | float) and isfinite(score.value):
            yield key, score.value, None
    document = document_in(sample)
    yield from scores_of(document) if document else ()


def send_experiment(experiment: Mapping[str, Any]) -> dict[str, Any]:
    """Send an experiment and return LangSmith's reply. Blocking."""
    client = langsmith.Client(auto_batch_tracing=False)
    try:
        body = json.dumps(experiment).encode()
        reply = client.request_with_retries("POST", ENDPOINT, request_kwargs={"data": body})
        experiment_reply: dict[str, Any] = reply.json()
    except LangSmithAuthError as error:
        raise UserError(
            f"LangSmith refused the key ({error}). Check LANGSMITH_API_KEY.", kind="authentication"
        ) from error
    except (LangSmithError, ValueError) as error:
        text = (
            f"The experiment could not be sent to {client.api_url} ({error}). Check LANGSMITH_ENDPOINT and the network."
        )
        raise WorldError(text, kind="unreachable", retryable=True) from error
    return experiment_reply
