"""Logs in Inspect's format, built from result documents without running an evaluation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalPlan,
    EvalPlanStep,
    EvalSample,
    EvalSpec,
    write_eval_log,
)
from inspect_ai.scorer import Score
from moot.nodes._records.entries import Call
from moot.nodes._runtime.document import blank_document, usage
from moot.nodes._runtime.settings import Settings
from moot.nodes._texts.task import make_task

LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")


def debate(answer: str | None, *rounds: Sequence[str | None], task: str = "fever", **more: Any) -> dict[str, Any]:
    """The result document of a debate.

    Args:
        answer: the verdict; None if the debate abstained.
        rounds: for each round, the answers of its speakers.
        task: a key of `moot.nodes._texts.task.TASKS`.
        more: more fields of the document. They replace fields that this function sets.
    """
    turns = [
        {
            "round": n,
            "phase": "primary",
            "agent": f"agent-{i}",
            "step": "respond",
            "answer": said,
            "rationale": "why",
        }
        for n, round_answers in enumerate(rounds, 1)
        for i, said in enumerate(round_answers, 1)
    ]
    document = blank_document("society_of_minds", Settings())
    return document | {
        "status": "done",
        "claim": "Saffron is a spice.",
        "task": make_task(task),
        "answer": answer,
        "raw_verdict": answer,
        "stop_reason": "max_rounds",
        "rounds": len(rounds),
        "turns": turns,
        "calls": [call()],
        "usage": usage([call()]),
        "seconds": 1.5,
        **more,
    }


def call(prompt: int | None = 1000, completion: int | None = 500, model: str = "openai:gpt-4o-mini") -> Call:
    """The record of a call with a usable reply."""
    return {
        "node": "answer",
        "role": "agent-1",
        "agent": "agent-1",
        "phase": "primary",
        "round": 1,
        "model": model,
        "reported_model": None,
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "seconds": 0.1,
        "attempts": 1,
        "outcome": "ok",
    }


def failed_document(kind: str = "timeout", detail: str = "No reply within 120 s.") -> dict[str, Any]:
    """The result document of a debate that failed."""
    error = {"kind": kind, "where": "answer", "detail": detail, "retryable": True}
    return debate(None) | {"status": "failed", "error": error, "stop_reason": None}


Documents = Mapping[str, Mapping[str, Any] | None]
"""Result documents by the item's id; None for a sample without a document."""


def write_log(
    folder: Path,
    name: str,
    documents: Documents,
    gold: Mapping[str, str | Sequence[str]],
    *,
    status: Any = "success",
    created: str = "2026-01-01T00:00:00+00:00",
    planned: Sequence[str] = (),
    scores: Mapping[str, Mapping[str, float | str]] | None = None,
    strata: Mapping[str, str] | None = None,
    groups: Mapping[str, str] | None = None,
    task_id: str = "",
    failing: Sequence[str] = (),
    again: Documents | None = None,
    items: str = "",
    inputs: Mapping[str, Any] | None = None,
    judge: str | None = None,
    of_key: str | None = None,
    ending: str = "eval",
    **facts: Any,
) -> Path:
    """Write a log; return its path.

    Args:
        folder: the log's folder.
        name: the file's name without its suffix.
        documents: a document for each sample. A sample has an error if its document is missing or not ``done``.
        gold: right answers by the item's id.
        status: Inspect's status of the run.
        created: the time of the start in ISO format.
        planned: the ids of all planned items; empty if exactly the items of ``documents`` were planned.
        scores: for each item's id, the item's scores by metric.
        strata: strata by the item's id.
        groups: groups by the item's id.
        task_id: Inspect's id of the task.
        failing: ids of samples that failed although their debate was done.
        again: the documents of a second epoch; None for one epoch.
        items: the digest of the items; empty for none.
        inputs: what comes with each claim, as in a sample's metadata.
        judge: the model that judged free-text answers.
        of_key: for a control, the key of the debate's log; it becomes the argument ``of`` of the solver. None: the log
            has no solver.
        ending: the file's suffix: eval or json.
        facts: moot's metadata of the log; ``benchmark`` is fever unless it is given.
    """
    samples = [
        EvalSample(
            id=id,
            epoch=epoch,
            input=f"claim {id}",
            target=one if isinstance(one := gold[id], str) else list(one),
            metadata={
                "task": "fever",
                "stratum": (strata or {}).get(id, ""),
                "group": (groups or {}).get(id),
                "moot": inputs,
            },
            store={} if document is None else {"moot:document": json.dumps(document)},
            scores={key: Score(value=value) for key, value in (scores or {}).get(id, {}).items()},
            error=None if document and document["status"] == "done" and id not in failing else failure(document),
        )
        for epoch, of_epoch in enumerate((documents, again or {}), 1)
        for id, document in of_epoch.items()
    ]
    ids = list(planned or documents)
    spec = EvalSpec(
        created=created,
        task="debate",
        task_id=task_id or name,
        task_version=items or 0,
        task_args={"data": "/somewhere/claims.jsonl", "judge": judge},
        model="none/none",
        dataset=EvalDataset(samples=len(ids), sample_ids=ids),
        config=EvalConfig(epochs=2 if again else 1),
        metadata={"moot": {"benchmark": "fever", **facts}},
    )
    path = folder / f"{name}.{ending}"
    plan = EvalPlan(steps=[EvalPlanStep(solver="moot/control", params={"of": of_key})] if of_key else [])
    write_eval_log(EvalLog(status=status, eval=spec, plan=plan, samples=samples), str(path))
    return path


def failure(document: Mapping[str, Any] | None) -> EvalError:
    """Inspect's error record of a failed sample."""
    message = document["error"]["detail"] if document and document["error"] else "the connection was lost"
    return EvalError(message=message, traceback="", traceback_ansi="")
