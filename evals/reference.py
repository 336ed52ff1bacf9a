"""What a debate took on each sample, read from its log for the controls that are measured beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inspect_ai.log import EvalLog, list_eval_logs, read_eval_log, read_eval_log_samples
from moot.evals.solver import DOCUMENT
from moot.retrievers.errors import UserError

ORIGIN = ("id", "title", "text", "source", "url", "published")
"""Fields of evidence that are given on."""


@dataclass(frozen=True)
class Reference:
    """A debate on a sample: its tokens (None where they were not all counted), its rounds, what it ended with."""

    tokens: int | None
    rounds: int
    evidence: list[dict[str, Any]]


def references(logs: str, of: str) -> dict[str, Reference]:
    """What a debate took, by sample; without those where it failed. Blocking.

    Raises:
        UserError: there is no log of the debate.
    """
    log = newest_log(logs, of)
    if log is None:
        raise UserError(f"{logs} has no log of the debate that this is a control of.", kind="missing_file")
    documents = (
        (str(sample.id), sample.store[DOCUMENT])
        for sample in read_eval_log_samples(log.location, all_samples_required=False)
        if DOCUMENT in sample.store and not sample.error
    )
    return {id: reference_of(document) for id, document in documents if document["status"] == "done"}


def reference_of(document: dict[str, Any]) -> Reference:
    """What a control takes of a result document."""
    usage = document["usage"]
    tokens = usage["prompt_tokens"] + usage["completion_tokens"]
    evidence = [{key: piece[key] for key in ORIGIN if key in piece} for piece in document["evidence"]]
    return Reference(None if usage["uncounted"] else tokens, max(document["rounds"], 1), evidence)


def newest_log(logs: str, key: str) -> EvalLog | None:
    """The newest log of a cell, without its samples; None where there is none."""
    return next((log for log in headers(logs) if facts_of(log).get("key") == key), None)


def headers(logs: str) -> Iterator[EvalLog]:
    """The logs of a folder without their samples, the newest first."""
    if Path(logs).is_dir():
        for info in list_eval_logs(logs):
            yield read_eval_log(info, header_only=True)


def facts_of(log: EvalLog) -> dict[str, Any]:
    """What moot says of a log."""
    facts: dict[str, Any] = (log.eval.metadata or {}).get("moot") or {}
    return facts
