"""Every benchmark as an Inspect task: ``inspect eval moot/fever -T data=paper_dev.jsonl --model moot/openai:NAME``.

A task reads the records in their published format (`moot.evals._benchmarks.catalogue`). They are in the file or folder
``data``; without ``data``, they are read from the Hub. The default solver is a debate by Tool-MAD.
`--solver moot/debate -S graph=proclaim` chooses another system (Inspect ignores ``-S`` without ``--solver``). Gold
evidence and right answers never reach the debate.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from functools import partial
from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Scorer
from moot.evals._benchmarks.catalogue import (
    BENCHMARKS,
    JUDGED_MEASURES,
    Benchmark,
    Item,
    benchmark_names,
    load_benchmark,
    read_benchmark,
)
from moot.evals._benchmarks.records_items import best_possible_accuracy
from moot.evals._runs import scorers
from moot.evals._runs.inspect_side import GRADER, choose_grader
from moot.evals._runs.solver import debate
from moot.evals._stats.averitec import METEOR_MEASURES, why_no_meteor
from moot.evals._stats.official import OFFICIAL_MEASURES
from moot.evals._stats.outcomes import INPUTS

log = logging.getLogger(__name__)
_tell: ContextVar[Callable[[str], object]] = ContextVar("tell", default=log.warning)


@contextmanager
def telling(tell: Callable[[str], object]) -> Iterator[None]:
    """Context manager: notes about the items of tasks that are made inside it are told; by default they are logged."""
    token = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(token)


def make_sample(item: Item, benchmark: Benchmark) -> Sample:
    """Convert an item to an Inspect sample."""
    plain = asdict(item)
    metadata = {key: plain[key] for key in ("stratum", "group", "gold_evidence", "source") if plain[key]}
    given = [{"title": title, "text": text} for title, text in item.given]
    inputs = {
        "task": item.task or benchmark.task,
        "labels": list(item.labels),
        "given": given,
        "published_before": item.published_before,
    }
    inputs |= {"claim_date": item.claim_date, "speaker": item.speaker}
    return Sample(
        input=item.claim,
        choices=list(item.options) or None,
        target=list(item.gold),
        id=item.id,
        metadata={**metadata, INPUTS: {key: value for key, value in inputs.items() if value}},
    )


def make_scorers(benchmark: Benchmark, judge: str | None = None) -> list[Scorer]:
    """Make the scorers of a benchmark; without those that need a judge, or data, that are missing."""
    judge = choose_grader(judge)
    known: dict[str, Callable[[], Scorer]] = {
        "accuracy": scorers.accuracy,
        "exact_match": scorers.exact_match,
        "token_f1": scorers.token_f1,
        "numeric_match": scorers.numeric_match,
        **{name: partial(getattr(scorers, name), judge) for name in JUDGED_MEASURES if judge},
        **{name: getattr(scorers, name) for name in OFFICIAL_MEASURES},
    }
    without = METEOR_MEASURES if needs_meteor(benchmark) and why_no_meteor() else ()
    wanted = [name for name in benchmark.metrics if name in known and name not in without]
    return [*(known[name]() for name in wanted), scorers.citation_precision(), scorers.gold_recall()]


def needs_meteor(benchmark: Benchmark) -> bool:
    """Whether a measure of a benchmark needs METEOR."""
    return any(name in METEOR_MEASURES for name in benchmark.metrics)


def items_digest(items: Sequence[Item]) -> str:
    """A digest of items. It is the task's version, so that Inspect never resumes a log of other items."""
    plain = json.dumps([_identifying_fields(item) for item in items], sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()[:16]


def _identifying_fields(item: Item) -> dict[str, object]:
    """The fields that identify an item. Its source and its group do not count."""
    fields = asdict(item) | {"source": "", "group": ""}
    empty = [key for key in ("claim_date", "speaker", "group", "task", "labels") if not fields[key]]
    return {key: value for key, value in fields.items() if key not in empty}


def benchmark_task(
    name: str, data: str | None = None, limit: int | None = None, seed: int | None = None, judge: str | None = None
) -> Task:
    """Make an Inspect task from a benchmark.

    Args:
        name: the benchmark's name, as for `moot.evals._benchmarks.catalogue.load_benchmark`.
        data: a file or folder in the published format; by default the data are read from the Hub.
        limit: maximum number of items.
        seed: the seed that draws the items at random; by default the first items are taken.
        judge: the model that judges free-text answers, as provider:name; by default the model of Inspect's role
            ``grader``. If both are missing, answers are not judged.

    Raises:
        UserError: as `moot.evals._benchmarks.catalogue.read_benchmark` or `make_scorers`.
    """
    benchmark = load_benchmark(name)
    reading = read_benchmark(name, None if data is None else Path(data), limit=limit, seed=seed)
    notes = list(reading.notes)
    if needs_meteor(benchmark) and (lacking := why_no_meteor()):
        left_out = ", ".join(METEOR_MEASURES)
        adds = "inspect score LOG --scorer moot/averitec_score --action append --overwrite"
        notes.append(f"{left_out} are left out. {lacking} Then `{adds}` adds one of them to a log")
    judged = [measure for measure in benchmark.metrics if measure in JUDGED_MEASURES]
    if judged and choose_grader(judge) is None:
        notes.append(f"{', '.join(judged)}: left out, as no judge is named (--judge MODEL, or Inspect's role {GRADER})")
    for note in notes:
        _tell.get()(f"{benchmark.title}: {note}.")
    metadata: dict[str, object] = {
        "benchmark": name,
        "title": benchmark.title,
        "licence": benchmark.licence,
        "notes": notes,
        "conflicting": {gold: list(ids) for gold, ids in reading.conflicting.items()},
    }
    metadata |= {} if (best := best_possible_accuracy(reading.items, benchmark.task)) is None else {"ceiling": best}
    return Task(
        dataset=MemoryDataset([make_sample(item, benchmark) for item in reading.items], name=name, location=data),
        solver=debate(),
        scorer=make_scorers(benchmark, judge),
        version=items_digest(reading.items),
        metadata={"moot": metadata},
    )


def _task_function(name: str) -> Callable[..., Task]:
    def build(
        data: str | None = None, limit: int | None = None, seed: int | None = None, judge: str | None = None
    ) -> Task:
        return benchmark_task(name, data, limit, seed, judge)

    # the title of an installed benchmark is in its package, which is imported only when the task is created
    title = BENCHMARKS[name].title if name in BENCHMARKS else name
    build.__doc__ = f"{title}; see `benchmark_task`."
    registered: Callable[..., Task] = task(name=name)(build)
    return registered


TASKS: dict[str, Callable[..., Task]] = {name: _task_function(name) for name in benchmark_names()}
"""All tasks by name. Inspect calls a task ``moot/NAME``."""
