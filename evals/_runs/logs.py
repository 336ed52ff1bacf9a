"""Read Inspect's logs of debates, with the result of every item.

To save memory, each result document is reduced to an observation as soon as it is read
(`moot.evals._stats.observations`).
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any

from moot.core.errors import UserError
from moot.core.words import count_with_noun
from moot.evals._benchmarks.catalogue import Benchmark, load_benchmark
from moot.evals._runs.log_files import (
    UNREADABLE,
    Header,
    LoggedShard,
    find_logs,
    read_headers,
    without_superseded,
)
from moot.evals._runs.shards import missing_shards
from moot.evals._runs.stated import StatedTest
from moot.evals._stats.measures import load_extra
from moot.evals._stats.observations import CostOf, Observation, observe
from moot.evals._stats.official import drop_uncomputable
from moot.evals._stats.outcomes import Document
from moot.evals._stats.sharing import SharedParts
from moot.nodes._runtime.state import VerdictOutput
from moot.retrievers._evidence import clean
from pydantic import TypeAdapter, ValidationError
from typing_extensions import get_type_hints

REPORT_FIELDS = (
    *("status", "error", "graph", "task", "answer", "raw_verdict", "stop_reason", "rounds", "turns", "scores"),
    *("confidence", "confidence_parts", "confidence_from", "graphs", "round_log"),
    *("votes", "debates", "metrics", "calls", "usage", "depth", "seconds", "settings", "warnings", "moot_version"),
    *("evidence", "corpora"),
)
"""Fields of result documents that reports read and check."""
LOGS_OF_A_PROCESS = 12
"""With fewer logs, a further process would take longer to start than to read them."""
AT_ONCE = 50
"""Number of samples read together, because opening a log takes longer than reading a sample."""
PARTS_NOT_READ = {"events", "messages", "attachments"}
"""Parts of samples that `samples_in` does not read at first."""


@dataclass(frozen=True)
class LoggedRun:
    """The contents of one log: one run of a system on a benchmark."""

    file: str
    """The log's name."""
    benchmark: Benchmark
    """The benchmark that the items belong to."""
    system: str
    """The system's label."""
    graph: str
    """The system's graph; empty if the log does not name it."""
    model: str | None
    """The system's model; None if no single model was set, or if the log does not name the model."""
    seed: int | None
    """The seed of the run; None if no seed was set."""
    control: str | None
    """The name of the control, retrieval variant or attack, if the system is one of these; else None."""
    of: str | None
    """The label of the system that the control belongs to; None without ``control``."""
    key: str | None
    """The key of the log, which identifies the system, its settings and its data; None if the log has no key."""
    of_key: str | None
    """For a control or an attack, the key of the log of the original system; else None."""
    position: int | None
    """The system's place in the plan; for a control, the place of its system; None if the log has none."""
    settings: Mapping[str, Any]
    """The system's settings."""
    status: str
    """Inspect's status: success, error, cancelled or started."""
    created: str
    """The date and time of the log's creation, in ISO format."""
    items: str
    """A digest of the benchmark's items; empty if the task has no version."""
    data: str
    """The name of the items' file; empty if the log does not name it."""
    judge: str | None
    """The model that judged free-text answers; None if there was no judge."""
    planned_count: int
    """The number of items that were planned; if the log does not list them, the number of observations."""
    observations: tuple[Observation, ...] = ()
    """An observation of each item that was run."""
    notes: tuple[str, ...] = ()
    """Notes about the run, for the reader of a report."""
    versions: str = ""
    """The versions of moot, of Inspect and of other packages that the log names."""
    equal: str | None = None
    """The unit of the budget that the control shares with its system; None if they share no budget, or if the log does
    not name the unit."""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """Everything that the system depended on besides its settings (`moot.evals._runs.identity`)."""
    family: str = ""
    """The plan's family of tests (`moot.evals._stats.significance.Family`); empty if it is unknown."""
    shard: LoggedShard | None = None
    """The shard whose items these are; None for a whole run, also if its shards were joined."""
    planned: tuple[str, ...] = ()
    """For a shard, the ids of its planned items, in order."""
    tests: tuple[StatedTest, ...] = ()
    """The tests that the plan states."""
    ceiling: float | None = None
    """The best possible accuracy, if some items ask the same question but have different right answers; else None."""


def read_runs(paths: Sequence[Path], cost_of: CostOf) -> tuple[list[LoggedRun], list[str]]:
    """Read all usable logs that are not superseded, and make notes about the other files. Blocking."""
    headers, notes = read_headers(find_logs(paths))
    headers, left_out = without_superseded(headers)
    notes += left_out
    runs = []
    for header, run in zip(headers, _read_all(headers, cost_of), strict=True):
        if run.observations:
            runs.append(run)
        else:
            notes.append(f"{header.path.name}: it contains no sample; left out.")
    runs = join_shards(runs)
    if not runs:
        reasons = " ".join(notes) or "The named files and folders contain no log."
        raise UserError(f"No log of a debate system can be compared. {reasons}", kind="missing_file")
    return runs, notes


def _read_all(headers: Sequence[Header], cost_of: CostOf) -> Iterator[LoggedRun]:
    """Read logs in their order, many of them in several processes, since most of the time is spent on parsing."""
    processes = min(os.cpu_count() or 1, len(headers) // LOGS_OF_A_PROCESS)
    if processes < 2:
        yield from (_read_run(header, cost_of) for header in headers)
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_read_run, headers, repeat(cost_of))


def _read_run(header: Header, cost_of: CostOf) -> LoggedRun:
    """Read a log with all its samples."""
    spec, metadata = header.log.eval, header.metadata
    benchmark = load_benchmark(metadata["benchmark"])
    found, repeated, first = _observations(header, benchmark, cost_of)
    observations, uncomputed = drop_uncomputable(list(found.values()), benchmark.metrics)
    settings = metadata.get("settings", first.get("settings")) or {}
    label, model = metadata.get("system") or first.get("graph"), metadata.get("model", settings.get("model"))
    seed, position = metadata.get("seed"), metadata.get("position")
    notes = [f"the benchmark's reader: {note}" for note in metadata.get("notes") or ()]
    judge, speakers = (
        _optional_text(header.arguments.get("judge")),
        {m for observation in observations for m, _ in observation.models},
    )
    notes += [f"{judge} judged answers of debates in which it also spoke"] if judge in speakers else []
    notes += [f"left out: {count_with_noun(repeated, 'further sample')} of the same items"] if repeated else []
    notes += uncomputed
    return LoggedRun(
        file=clean(header.path.name),
        benchmark=benchmark,
        system=clean(str(label or "unknown system")),
        graph=clean(str(metadata.get("graph") or "")),
        model=_optional_text(model),
        seed=seed if isinstance(seed, int) else None,
        control=_optional_text(metadata.get("control")),
        of=_optional_text(metadata.get("of")),
        key=_optional_text(metadata.get("key")),
        of_key=header.of_key,
        position=position if isinstance(position, int) else None,
        settings=settings,
        status=header.log.status,
        created=header.created,
        items=header.items,
        data=clean(Path(str(header.arguments.get("data") or "")).name),
        judge=judge,
        ceiling=_optional_number(metadata.get("ceiling")),
        planned_count=max(header.planned_count, len(observations)),
        observations=tuple(observations),
        notes=tuple(clean(note) for note in notes),
        versions=_versions(spec, first),
        equal=_optional_text(metadata.get("equal")),
        parts=metadata.get("parts") or {},
        family=clean(str(metadata.get("family") or "")),
        tests=_stated_tests(header.path, metadata.get("tests") or ()),
        shard=header.shard,
        planned=tuple(map(str, spec.dataset.sample_ids or ())) if header.shard else (),
    )


def join_shards(runs: Sequence[LoggedRun]) -> list[LoggedRun]:
    """Runs, in which the shards of each run are one run, with its items in the order of the undivided run."""
    found: dict[str | int, list[LoggedRun]] = {}
    for run in runs:
        found.setdefault(_shared_key(run) if run.shard and run.key else id(run), []).append(run)
    return [_joined(shards) for shards in found.values()]


def _shared_key(run: LoggedRun) -> str:
    """A key that the shards of a run share, though each may have called a server of its own."""
    parts = {name: part for name, part in run.parts.items() if name not in ("endpoints", "of")}  # `of` has them, too
    return json.dumps([str(run.key).partition(".")[0], run.items, parts], sort_keys=True, default=str)


def _joined(runs: Sequence[LoggedRun]) -> LoggedRun:
    first = min(runs, key=lambda run: run.shard or (0, 0, 0))
    if first.shard is None:
        return first
    divisions = sorted({(run.shard.of, run.shard.items) for run in runs if run.shard})
    if len(divisions) > 1:
        ways = " and in ".join(f"{of:,}" for of, _ in divisions)
        raise UserError(
            f"The logs of {first.system} on {first.benchmark.title} divide its items in {ways} shards, so some items "
            "would count twice. Name only the folders of one division.",
            kind="invalid_setting",
        )
    of, items = divisions[0]
    places = {
        id: run.shard.number - 1 + of * place for run in runs if run.shard for place, id in enumerate(run.planned)
    }
    observations = sorted(
        (observation for run in runs for observation in run.observations), key=lambda one: places.get(one.id, items)
    )
    missing = missing_shards([run.shard.number for run in runs if run.shard], of)
    notes = [*(note for run in runs for note in run.notes), *([missing] if missing else [])]
    return replace(
        first,
        file=f"{first.file} and {len(runs) - 1} further shards" if len(runs) > 1 else first.file,
        status=next((run.status for run in runs if run.status != "success"), first.status),
        created=max(run.created for run in runs),
        planned_count=max(items, len(observations)),
        observations=tuple(observations),
        notes=tuple(dict.fromkeys(notes)),
        shard=None,
        planned=(),
    )


def _observations(
    header: Header, benchmark: Benchmark, cost_of: CostOf
) -> tuple[dict[str, Observation], int, Document]:
    """One observation of each item, the number of further samples of the same items, and the first result document."""
    observations: dict[str, Observation] = {}
    first: Document = {}
    parts = SharedParts()
    repeated, place = 0, ""
    try:
        for sample, found in samples_in(header):
            place = f", sample {clean(str(sample.id))[:80]}"
            document = None if found is None else checked_document(found, REPORT_FIELDS)
            first = first or document or {}
            observation = parts.share(observe(sample, benchmark, cost_of, document))
            repeated += observation.id in observations
            observations.setdefault(observation.id, observation)
    except (*UNREADABLE, TypeError, AttributeError) as error:
        raise damaged_error(f"{header.path}{place}", error) from error
    return observations, repeated, first


def samples_in(header: Header) -> Iterator[tuple[Any, Any]]:
    """Yield each sample of a log with its result document (None if it has none), in the order of the items.

    Samples are read in batches. Those without a document are read once more, with their events, which contain the
    document of a recovered sample. A log that does not list its items yields nothing.
    """
    from moot.evals._runs.solver import document_in  # this import needs Inspect

    log, file = load_extra("inspect_ai.log"), str(header.path)
    places = {str(id): place for place, id in enumerate(header.log.eval.dataset.sample_ids or ())}
    summaries = log.read_eval_log_sample_summaries(file) if places else []
    keys = sorted(((s.id, s.epoch) for s in summaries), key=lambda key: (places.get(str(key[0]), len(places)), key[1]))
    for start in range(0, len(keys), AT_ONCE):
        samples = log.read_eval_log_samples_by_id(file, keys[start : start + AT_ONCE], exclude_fields=PARTS_NOT_READ)
        read = [(sample, document_in(sample)) for sample in samples]
        without_document = [(sample.id, sample.epoch) for sample, document in read if document is None]
        full_samples = (
            log.read_eval_log_samples_by_id(file, without_document, exclude_fields={"messages"})
            if without_document
            else []
        )
        documents = {(sample.id, sample.epoch): document_in(sample) for sample in full_samples}
        for sample, document in read:
            yield sample, document or documents[sample.id, sample.epoch]


def damaged_error(place: str, error: Exception) -> UserError:
    """Make an error about a log or a document that is not in moot's format."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    else:
        reason = " ".join(repr(error).split())
    return UserError(
        f"{place}: it is not in moot's format ({clean(reason)[:200]}). Run this evaluation again with this "
        "version of moot, or leave the log out.",
        kind="invalid_file",
    )


def checked_document(found: Any, names: Sequence[str]) -> Document:
    """Check the fields ``names`` of a result document, and return only these fields."""
    return {name: _type_adapter(name).validate_python(found[name]) for name in names}


@lru_cache
def _type_adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(_document_types()[name])


@lru_cache(maxsize=1)
def _document_types() -> dict[str, Any]:
    return get_type_hints(VerdictOutput)


def _stated_tests(path: Path, found: Iterable[Any]) -> tuple[StatedTest, ...]:
    """The tests that a log's metadata state."""
    try:
        return tuple(map(StatedTest.model_validate, found))
    except (ValidationError, TypeError) as error:
        raise damaged_error(str(path), error) from error


def _optional_number(value: object) -> float | None:
    """A number from a log's metadata; None if the value is missing or not a number."""
    return float(value) if isinstance(value, int | float) else None


def _optional_text(value: object) -> str | None:
    """A text from a log's metadata; None if the value is missing or empty."""
    return clean(str(value)) or None if value is not None else None


def _versions(spec: Any, document: Document) -> str:
    packages = {"moot": document.get("moot_version"), **(spec.packages or {})}
    return clean(", ".join(f"{name} {version}" for name, version in packages.items() if version))
