"""Run a plan as a set of Inspect's evaluations, with a log for each cell. An interrupted run can be resumed.

A run of a cell is identified by the cell's key (`moot.evals._runs.plan.Cell`), and by the parts that the cell depends
on besides its settings (`moot.evals._runs.identity`). If an earlier run is the same in both, only samples that failed,
or are neither in the log nor in its recovery buffer, are run. Otherwise all the cell's samples are run. If only the
parts differ from those of an earlier run, a message names the different parts.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from copy import copy
from dataclasses import dataclass
from io import StringIO
from math import inf
from pathlib import Path
from typing import Any

from inspect_ai import Task, eval_set, task_with
from inspect_ai.log import (
    EvalLog,
    MetadataEdit,
    ProvenanceData,
    TagsEdit,
    edit_eval_log,
    read_eval_log_sample_summaries,
    recoverable_eval_logs,
    write_eval_log,
)
from inspect_ai.log._recover._buffer import read_buffer_recovery_data
from inspect_ai.solver import Solver
from moot.core.endpoint import close_clients
from moot.core.errors import USER_KINDS, UserError
from moot.core.files import exclusive_folder, write_atomically, write_error
from moot.core.home import private_files
from moot.evals._analyses.graders import check_grader
from moot.evals._attacks.solver import attacked
from moot.evals._benchmarks.catalogue import load_benchmark
from moot.evals._runs.controls import control
from moot.evals._runs.hooks import Watch, watch_samples
from moot.evals._runs.identity import differences, digest, endpoints, parts_of
from moot.evals._runs.plan import Cell, Plan, PlannedBenchmark, make_cells
from moot.evals._runs.reference import moot_metadata, read_log_headers
from moot.evals._runs.shards import Shard, folder_of
from moot.evals._runs.solver import debate, make_question
from moot.evals._runs.tasks import TASKS, telling
from moot.evals._stats.measures import load_extra
from moot.graphs import load_graph, shared_ceilings
from moot.nodes import StoreUse, store_use
from moot.nodes._models.budget import Budget, debates_within
from moot.nodes._models.chat_models import open_chat_model
from moot.nodes._models.spend import UNBOUNDED, Spend
from moot.nodes._models.spend import in_words as amount
from moot.nodes._runtime.settings import checked_settings

log = logging.getLogger(__name__)

CELLS_AT_ONCE = 4
"""Maximum number of cells that run at the same time. Each of them gets an equal part of `Limits.at_once`."""
MOST_WRITES, LEAST_SAMPLES = 20, 10
"""Approximate maximum number of writes of a log, and minimum number of samples between two writes."""
SPENDING_BYTES = 160
"""Size of the file with the spending of runs: JSON, and spaces, so that each value replaces the last one whole."""
LOCK = ".moot.lock"
"""Name of the lock file that prevents a second run in the same folder of logs."""


@dataclass(frozen=True)
class Limits:
    """Limits of the run of a plan.

    ``budget``, ``max_cost`` and ``max_calls`` limit this run together with earlier runs of the plan that had one of
    these three limits. Samples whose debates are stopped by a limit are missing data.
    """

    at_once: int = 16
    """Maximum number of samples in flight."""
    time_limit: int | None = None
    """Maximum number of seconds for a sample. A sample that takes longer is missing data, and is not run again with
    this limit. With another time limit, all samples are run again."""
    retry_on_error: int = 0
    """Number of immediate retries of a failed sample."""
    fail_on_error: float | None = None
    """Number of failed samples (or their share, if below 1) at which a cell is stopped; None: never."""
    budget: int | None = None
    """Maximum number of tokens of all debates."""
    max_cost: float | None = None
    """Maximum cost of all debates in USD."""
    max_calls: int | None = None
    """Maximum number of model calls of all debates."""
    max_seconds: float | None = None
    """Maximum number of seconds of this run."""

    @property
    def has_ceiling(self) -> bool:
        """Whether tokens, cost, calls or seconds are limited."""
        return any(limit is not None for limit in (self.budget, self.max_cost, self.max_calls, self.max_seconds))

    @contextmanager
    def apply_ceilings(self, spent: Path, tell: Callable[[str], None]) -> Iterator[None]:
        """Within this context, all debates share the limits of tokens, cost, calls and seconds."""
        ceiling = Spend(*(inf if limit is None else limit for limit in (self.budget, self.max_cost, self.max_calls)))
        if ceiling == UNBOUNDED:
            with shared_ceilings(max_seconds=self.max_seconds):
                yield
            return
        seconds = inf if self.max_seconds is None else self.max_seconds
        with open_spending(spent) as (before, keep):
            if any(before):
                cost = "" if self.max_cost is None else f", ${before.usd:.6f}"
                took = f"{amount('calls', before.calls)} and {amount('tokens', before.tokens)}{cost}"
                tell(f"Earlier runs took up to {took}, which count against the ceilings (see {spent.name}).")
            with debates_within(Budget(ceiling, seconds, spent=before, counts_earlier=False, keep=keep)):
                yield


@contextmanager
def open_spending(path: Path) -> Iterator[tuple[Spend, Callable[[Spend], object]]]:
    """A context manager: the spending that a file has, and a function that replaces it without a wait for the disk."""
    try:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0)
    except OSError as error:
        raise write_error(path, error) from error
    with file:
        try:
            before = Spend(**json.loads(file.read() or "{}"))
        except (ValueError, TypeError) as error:
            detail = f"{path} is damaged. Remove it, if the spending of earlier runs need not count."
            raise UserError(detail, kind="invalid_file") from error

        def keep(spent: Spend) -> None:
            file.seek(0)
            file.write(json.dumps(spent._asdict()).ljust(SPENDING_BYTES).encode())

        yield before, keep


def run_plan(
    plan: Plan,
    logs: Path,
    limits: Limits,
    watch: Callable[[int, int], Watch],
    tell: Callable[[str], None] = log.warning,
    shard: Shard | None = None,
) -> list[EvalLog]:
    """Run the unfinished part of a plan: debates first, then controls and attacks. Blocking.

    Args:
        plan: the plan to run.
        logs: the folder of the logs; it may contain other logs.
        limits: limits of the run.
        watch: a function of the number of all samples and the number of samples that need no further run. It returns a
            callback, which is called for every sample that ends.
        tell: called with notes about the items, such as those that no system can tell apart, and with messages about
            differences from earlier runs in the folder, and about their spending.
        shard: the part of the items to run, into a folder of its own in ``logs``; by default all items. The limits
            then bound this shard.

    Returns:
        The log of each cell that has a log, without its samples, in the plan's order.

    Raises:
        UserError: the plan is invalid, a benchmark's data cannot be read, a system cannot be opened (for example
            because a key is missing), the judge also debates and the plan does not allow this, a log in the folder or
            the prices cannot be read, the folder cannot be written, another run writes to it, or it has the logs of a
            run that is divided into other shards.
        WorldError: the disk is full or fails, or the Chroma server failed.
        KeyboardInterrupt: the user stopped the run; no further sample was started.
    """
    cells = make_cells(plan)
    if not plan.judge_may_debate:
        judged_cells = [cell for cell in cells if load_benchmark(cell.task.name).needs_judge]
        check_grader(plan.judge, [(cell.system, cell.graph, cell.settings) for cell in judged_cells])
    logs = folder_of(logs.absolute(), shard)
    no_output = redirect_stdout(StringIO())  # discards texts that Inspect prints
    with private_files(), exclusive_folder(logs, "run", LOCK), no_output:
        return _run_cells(cells, plan, logs, limits, watch, tell, shard)


def _run_cells(
    cells: Sequence[Cell],
    plan: Plan,
    logs: Path,
    limits: Limits,
    watch: Callable[[int, int], Watch],
    tell: Callable[[str], None],
    shard: Shard | None,
) -> list[EvalLog]:
    with telling(tell):
        tasks = {task: make_task(task, plan, shard) for task in dict.fromkeys(cell.task for cell in cells)}
    cells = [cell for cell in cells if len(tasks[cell.task].dataset)]  # a shard may have no item of a small benchmark
    debates = [cell for cell in cells if not (cell.control or cell.attack)]
    asyncio.run(preflight(debates, tasks, plan.judge))
    parts: dict[str, dict[str, Any]] = {}
    for cell in cells:  # in `cells`, a debate comes before its controls, which need the parts of the debate
        parts[cell.key] = cell_parts(plan, cell, tasks[cell.task], parts, limits.time_limit)
    keys = {key: log_key(key, parts_of_cell) for key, parts_of_cell in parts.items()}
    for message in new_run_messages(cells, parts, logs):
        tell(message)
    samples = sum(len(tasks[cell.task].dataset) for cell in cells)
    plan_hash = save_plan(plan, logs)
    spent = logs / f"plan-{plan_hash}.spent"

    def build_task(cell: Cell) -> Task:
        key, task = keys[cell.key], copy(tasks[cell.task])
        solver = make_solver(cell, logs, keys)
        run_metadata = {"key": key, "parts": parts[cell.key], "plan": plan_hash}
        metadata = (task.metadata or {})["moot"] | cell.log_metadata() | plan_metadata(plan) | run_metadata
        labels: dict[str, Any] = {"metadata": {"moot": metadata, **shown_metadata(metadata)}, "tags": tags_of(metadata)}
        return task_with(task, solver=solver, model="none" if cell.model is None else f"moot/{cell.model}", **labels)

    with (
        watch_samples(watch(samples, count_finished_samples(keys.values(), logs))),
        limits.apply_ceilings(spent, tell),
    ):
        _run_tasks([build_task(cell) for cell in debates], logs, limits)
        _run_tasks([build_task(cell) for cell in cells if cell.control or cell.attack], logs, limits)
    found = newest_logs(logs)
    return [refresh_metadata(found[keys[cell.key]], cell, plan) for cell in cells if keys[cell.key] in found]


def plan_metadata(plan: Plan) -> dict[str, Any]:
    """The metadata of a plan's logs that say which tests it states, and which are corrected together."""
    tests = [test.model_dump(mode="json", exclude_defaults=True) for test in plan.tests]
    return {"family": plan.family, "tests": tests}


def refresh_metadata(log: EvalLog, cell: Cell, plan: Plan) -> EvalLog:
    """Update a log's metadata, such as label, position and stated tests, from the current plan; return the log.

    The log's file is written only if the metadata differ.
    """
    metadata = moot_metadata(log)
    now = cell.log_metadata() | plan_metadata(plan)
    current = metadata | json.loads(json.dumps(now, default=str)) | {"key": metadata["key"]}
    if current == metadata:
        return log
    provenance = ProvenanceData(author="moot", reason="The plan has another label, position or tests.")
    old, new = tags_of(metadata), tags_of(current)
    changed = TagsEdit(tags_add=sorted({*new} - {*old}), tags_remove=sorted({*old} - {*new}))
    edits = [
        MetadataEdit(metadata_set={"moot": current, **shown_metadata(current)}),
        *([changed] if old != new else []),
    ]
    log = edit_eval_log(log, edits, provenance)
    write_eval_log(log, header_only=True)
    return log


SHOWN_FIELDS = ("system", "graph", "model", "seed", "control", "of")
"""Metadata that distinguish logs for a reader of Inspect's viewer; they also become a log's tags."""


def shown_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a log for Inspect's viewer and data frames: `SHOWN_FIELDS` and the settings, if present."""
    return {key: metadata[key] for key in (*SHOWN_FIELDS, "settings") if metadata.get(key) is not None}


def tags_of(metadata: Mapping[str, Any]) -> list[str]:
    """A log's tags, such as ``system:tool_mad``."""
    return [f"{key}:{metadata[key]}" for key in SHOWN_FIELDS if metadata.get(key) is not None]


def cell_parts(
    plan: Plan, cell: Cell, task: Task, debates: Mapping[str, Mapping[str, Any]], time_limit: int | None
) -> dict[str, Any]:
    """Everything that a cell depends on besides its settings. Blocking."""
    parts = parts_of(cell.graph, cell.settings) | {"items": str(task.version), "judge": plan.judge}
    if plan.judge:
        parts["endpoints"] |= endpoints(plan.judge)
    if time_limit is not None:  # Inspect runs all samples again if the limit is another one
        parts["time_limit"] = time_limit
    return parts | ({"of": digest(debates[cell.of.key])} if cell.of and (cell.control or cell.attack) else {})


def log_key(cell: str, parts: Mapping[str, Any]) -> str:
    """The key that identifies a log: the cell's key, and a digest of the parts that the cell depends on."""
    return f"{cell}.{digest(parts)}"


def new_run_messages(cells: Sequence[Cell], parts: Mapping[str, Mapping[str, Any]], logs: Path) -> Iterator[str]:
    """Yield a message for each cell that is run again although the folder has a log of the cell."""
    newest = newest_logs(logs)
    for cell in cells:
        earlier = [log for key, log in newest.items() if key.partition(".")[0] == cell.key]
        if earlier and log_key(cell.key, parts[cell.key]) not in newest:
            known = [(moot_metadata(log).get("parts") or {}, file_name(log)) for log in earlier]
            candidates = [(differences(noted, parts[cell.key]), name) for noted, name in known]
            changed, other = min(candidates, key=lambda candidate: len(candidate[0]))
            yield (
                f"{cell.system} on {cell.task.name} is run again, because it is not the same run as {other}: these "
                f"differ: {', '.join(changed)}."
            )


def file_name(log: EvalLog) -> str:
    """The name of a log's file."""
    return Path(log.location).name


def save_plan(plan: Plan, logs: Path) -> str:
    """Write a plan into the folder of its logs, so that the plan can be run again."""
    fields = plan.model_dump(mode="json", exclude_defaults=True)
    name = digest(fields)
    file = logs / f"plan-{name}.yaml"
    try:
        write_atomically(file, load_extra("yaml").safe_dump(fields, sort_keys=False, allow_unicode=True))
    except OSError as error:
        raise write_error(file, error) from error
    return name


async def preflight(cells: Sequence[Cell], tasks: Mapping[PlannedBenchmark, Task], judge: str | None) -> None:
    """Open each system on the first sample of its benchmark, to report the user's errors before any debate runs."""
    try:
        if judge is not None:
            await open_chat_model(judge)
        for cell in cells:
            system, sample = load_graph(cell.graph), next(iter(tasks[cell.task].dataset))
            settings = checked_settings(system.settings, cell.settings, cell.graph)
            question = make_question(str(sample.input), sample.choices, sample.metadata)
            with store_use(StoreUse("off")):  # no debate begins
                opened = await system.graph.ainvoke(question, context=settings, interrupt_after=["open"])
            if (error := opened["error"]) and error["kind"] in USER_KINDS:
                raise UserError(f"{cell.system} on {cell.task.name}: {error['detail']}", kind=error["kind"])
    finally:
        await close_clients()


def newest_logs(logs: Path) -> dict[str, EvalLog]:
    """The newest log with each key, without its samples, by the key; the key is empty if a log has none."""
    return {moot_metadata(log).get("key", ""): log for log in reversed(list(read_log_headers(str(logs))))}


def count_finished_samples(keys: Iterable[str], logs: Path) -> int:
    """The number of samples that need no further run, in the logs with these keys and in their recovery buffers."""
    newest = newest_logs(logs)
    recoverable = {recovery.log.name for recovery in recoverable_eval_logs(str(logs))}
    done = 0
    for location in {newest[key].location for key in keys if key in newest}:
        # Inspect's public counts do not say which samples are both in the log and in the buffer
        buffer = read_buffer_recovery_data(location) if location in recoverable else None
        ended = [*read_eval_log_sample_summaries(location), *(buffer.completed if buffer else ())]
        done += len({(str(sample.id), sample.epoch) for sample in ended if not sample.error})
    return done


def make_solver(cell: Cell, logs: Path, keys: Mapping[str, str]) -> Solver:
    """Make the solver of a cell."""
    key = keys[cell.key]
    if cell.of is None or not (cell.control or cell.attack):
        return debate(cell.graph, run=key, **cell.settings)
    debate_key = keys[cell.of.key]
    if cell.attack:
        arguments = {name: value for name, value in cell.attack.items() if name != "texts"}
        return attacked(logs=str(logs), of=debate_key, graph=cell.graph, run=key, **arguments, **cell.settings)
    assert cell.control is not None
    return control(cell.control, str(logs), debate_key, run=key, equal=cell.equal or "tokens", **cell.settings)


def make_task(benchmark: PlannedBenchmark, plan: Plan, shard: Shard | None = None) -> Task:
    """Make an Inspect task from a plan's benchmark; its version is the digest of the items of all shards."""
    data = None if benchmark.data is None else str(benchmark.data)
    task = TASKS[benchmark.name](data, benchmark.limit, plan.sample_seed, plan.judge)
    if shard is None:
        return task
    moot = {**(task.metadata or {})["moot"], "shard": shard.note(task.dataset)}
    return task_with(task, dataset=shard.part_of(task.dataset), metadata={"moot": moot})


def _run_tasks(tasks: Sequence[Task], logs: Path, limits: Limits) -> None:
    if not tasks:
        return
    parallel_tasks = min(CELLS_AT_ONCE, len(tasks), limits.at_once)
    _, ended = eval_set(
        list(tasks),
        str(logs),
        model="none",  # for tasks that name no model
        display="none",
        score_display=False,  # otherwise Inspect keeps recomputing all scores for a display that is off
        log_dir_allow_dirty=True,
        # few writes, because each copies the whole log; the recovery database has the samples meanwhile
        log_buffer=max(LEAST_SAMPLES, max(len(task.dataset) for task in tasks) // MOST_WRITES),
        retry_attempts=1,
        retry_immediate=False,
        max_tasks=parallel_tasks,
        max_samples=max(1, limits.at_once // parallel_tasks),
        time_limit=limits.time_limit,
        retry_on_error=limits.retry_on_error or None,
        # by default all samples are run, even if some fail. A cell with failed samples counts as not done, so
        # the next run repeats these samples.
        fail_on_error=True if limits.fail_on_error is None else limits.fail_on_error,
        continue_on_fail=limits.fail_on_error is None,
        acp_server=False,
        ctl_server=False,
        log_level="error",
    )
    # for an interrupted evaluation, Inspect returns a cancelled log or no log
    if len(ended) < len(tasks) or any(log.status == "cancelled" for log in ended):
        raise KeyboardInterrupt
