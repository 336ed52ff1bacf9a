"""Running a plan as a set of Inspect's evaluations: a log for each cell, gone on with after whatever stopped it.

A cell is found again by its system with every setting, model and seed, and by all that it depends on beside them
(`moot.evals.identity.parts`): what differs in any of them is another run, and what differs is said. Samples that a log
or its recovery buffer holds are not run again; failed ones are.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from copy import copy
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
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
from moot.core.files import not_written, write_whole
from moot.core.garbage import collected_seldom
from moot.evals.analyses.graders import check_grader
from moot.evals.attacks.solver import attacked
from moot.evals.benchmarks.catalogue import BENCHMARKS
from moot.evals.identity.parts import differences, digest, endpoints, parts_of
from moot.evals.runs.controls import control
from moot.evals.runs.hooks import Watch, watching
from moot.evals.runs.plan import Benchmarked, Cell, Plan, cells_of
from moot.evals.runs.recovery import samples_written_once
from moot.evals.runs.reference import facts_of, headers
from moot.evals.runs.solver import debate, question_of
from moot.evals.runs.tasks import TASKS
from moot.evals.stats.measures import package
from moot.graphs import load_graph, shared_ceilings
from moot.nodes.models.chat_models import open_chat_model
from moot.nodes.runtime.settings import checked_settings

log = logging.getLogger(__name__)

SIDE_BY_SIDE = 4
"""Cells that run at the same time, each with its share of the samples in flight."""
WRITINGS, LEAST_WRITTEN = 20, 10
"""How often a log is written at most while samples end, and how many of them are written together at least."""
LOCK = ".moot.lock"
"""The file that keeps a second run out of a folder of logs."""


@dataclass(frozen=True)
class Limits:
    """How a plan is run.

    Attributes:
        at_once: samples in flight.
        time_limit: seconds that a sample may take; one that takes longer is missing data, and is not tried again with
            the same limit. Another limit is another run.
        retry_on_error: how often a failed sample is tried again at once.
        fail_on_error: failed samples of a cell, as a number or a share below 1, with which it is given up; None: never.
        budget: most tokens of all debates together; the samples beyond it are missing data (``budget_exhausted``).
        max_cost: most USD.
        max_calls: most calls to models.
        max_seconds: most seconds of the whole evaluation.
    """

    at_once: int = 16
    time_limit: int | None = None
    retry_on_error: int = 0
    fail_on_error: float | None = None
    budget: int | None = None
    max_cost: float | None = None
    max_calls: int | None = None
    max_seconds: float | None = None

    def shared(self) -> AbstractContextManager[Any]:
        """The ceilings that all debates of the evaluation share."""
        return shared_ceilings(
            budget=self.budget, max_cost=self.max_cost, max_calls=self.max_calls, max_seconds=self.max_seconds
        )


def run_plan(
    plan: Plan,
    logs: Path,
    limits: Limits,
    watch: Callable[[int, int], Watch],
    tell: Callable[[str], None] = log.warning,
) -> list[EvalLog]:
    """Runs what of a plan has not been run, controls after the debates that they are matched to. Blocking.

    Args:
        plan: what to run.
        logs: the folder of the logs; it may hold others.
        limits: how it is run.
        watch: makes what is told of every sample, from the number of all samples and of those that logs hold.
        tell: is told of each cell that is another run than one that the folder has, and what differs.

    Returns:
        A log without its samples for each cell, in the plan's order.

    Raises:
        UserError: as `cells_of` and `opened`, data that cannot be read, a folder that cannot be made or that another
            run writes to.
        KeyboardInterrupt: somebody stopped it; nothing further was begun.
    """
    cells = cells_of(plan)
    if not plan.judge_may_debate:
        in_words = [cell for cell in cells if "judged" in BENCHMARKS[cell.task.name].metrics]
        check_grader(plan.judge, [(cell.system, cell.graph, cell.settings) for cell in in_words])
    logs = logs.absolute()
    with alone_in(logs), redirect_stdout(StringIO()):  # Inspect's greetings go nowhere
        return _run_cells(cells, plan, logs, limits, watch, tell)


def _run_cells(
    cells: Sequence[Cell],
    plan: Plan,
    logs: Path,
    limits: Limits,
    watch: Callable[[int, int], Watch],
    tell: Callable[[str], None],
) -> list[EvalLog]:
    first = [cell for cell in cells if not (cell.control or cell.attack)]
    items = {task: items_of(task, plan) for task in dict.fromkeys(cell.task for cell in first)}
    asyncio.run(opened(first, items, plan.judge))
    parts: dict[str, dict[str, Any]] = {}
    for cell in cells:  # controls come after their debates
        parts[cell.key] = parts_in(plan, cell, items[cell.task], parts)
    keys = {key: log_key(key, known) for key, known in parts.items()}
    for said in other_runs(cells, parts, logs):
        tell(said)
    samples = sum(len(items[cell.task].dataset) for cell in cells)
    saved = save_plan(plan, logs)

    def task_of(cell: Cell) -> Task:
        key, task = keys[cell.key], copy(items[cell.task])
        solver = solver_of(cell, logs, keys)
        told = {"key": key, "parts": parts[cell.key], "plan": saved, "family": plan.family}
        facts = (task.metadata or {})["moot"] | cell.facts() | told
        named: dict[str, Any] = {"metadata": {"moot": facts, **shown(facts)}, "tags": tags_of(facts)}
        return task_with(task, solver=solver, model="none" if cell.model is None else f"moot/{cell.model}", **named)

    with watching(watch(samples, held(keys.values(), logs))), collected_seldom(), limits.shared():
        _run([task_of(cell) for cell in first], logs, limits)
        _run([task_of(cell) for cell in cells if cell.control or cell.attack], logs, limits)
    found = newest_logs(logs)
    return [said_anew(found[keys[cell.key]], cell) for cell in cells if keys[cell.key] in found]


@contextmanager
def alone_in(logs: Path) -> Iterator[None]:
    """Keeps other runs out of a folder, which is made where it is not there.

    Raises:
        UserError: another run has it, or it cannot be made.
    """
    lock = FileLock(logs / LOCK)
    try:
        logs.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout as error:
        raise UserError(
            f"Another run writes to {logs}: wait for it, or name another folder.", kind="invalid_setting"
        ) from error
    except OSError as error:
        raise UserError(
            f"No logs can be written to {logs} ({error.strerror}): name another folder.", kind="invalid_file"
        ) from error
    try:
        yield
    finally:
        lock.release()


def said_anew(log: EvalLog, cell: Cell) -> EvalLog:
    """A log with what the plan says of its cell now: labels and places may change without anything being run again."""
    facts = facts_of(log)
    now = facts | json.loads(json.dumps(cell.facts(), default=str)) | {"key": facts["key"]}
    if now == facts:
        return log
    why = ProvenanceData(author="moot", reason="The plan calls the system otherwise.")
    old, new = tags_of(facts), tags_of(now)
    changed = TagsEdit(tags_add=sorted({*new} - {*old}), tags_remove=sorted({*old} - {*new}))
    edits = [MetadataEdit(metadata_set={"moot": now, **shown(now)}), *([changed] if old != new else [])]
    log = edit_eval_log(log, edits, why)
    write_eval_log(log, header_only=True)
    return log


TOLD = ("system", "graph", "model", "seed", "control", "of")
"""What tells logs apart at a glance; settings beside."""


def shown(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a log's metadata say for those who read it elsewhere, as in Inspect's viewer and data frames."""
    return {key: facts[key] for key in (*TOLD, "settings") if facts.get(key) is not None}


def tags_of(facts: Mapping[str, Any]) -> list[str]:
    """A log's tags, such as ``system:tool_mad``."""
    return [f"{key}:{facts[key]}" for key in TOLD if facts.get(key) is not None]


def parts_in(plan: Plan, cell: Cell, task: Task, debates: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What a cell depends on beside its settings: its items, who judges answers, and what `parts_of` says. Blocking.

    Args:
        plan: the cell's.
        cell: the cell.
        task: with its items.
        debates: by a cell's key what it depends on; that of a control's debate is among them.
    """
    parts = parts_of(cell.graph, cell.settings) | {"items": str(task.version), "judge": plan.judge}
    if plan.judge:
        parts["endpoints"] |= endpoints(plan.judge)
    return parts | ({"of": digest(debates[cell.of.key])} if cell.of and (cell.control or cell.attack) else {})


def log_key(cell: str, parts: Mapping[str, Any]) -> str:
    """What tells a log from every other: the cell's key, and what the cell depends on beside its settings."""
    return f"{cell}.{digest(parts)}"


def other_runs(cells: Sequence[Cell], parts: Mapping[str, Mapping[str, Any]], logs: Path) -> Iterator[str]:
    """Of each cell that is another run than one of the same settings in the folder: that it is, and what differs."""
    found = newest_logs(logs)
    for cell in cells:
        before = [one for key, one in found.items() if key.partition(".")[0] == cell.key]
        if before and log_key(cell.key, parts[cell.key]) not in found:
            known = [(facts_of(one).get("parts"), name_of(one)) for one in before]
            differ = [(differences(noted, parts[cell.key]), name) for noted, name in known if noted]
            said, than = min(differ, key=lambda one: len(one[0]), default=([], known[0][1]))
            told = f"these differ: {', '.join(said)}" if differ else "an older moot did not note what it depends on"
            yield f"{cell.system} on {cell.task.name} is another run than {than}: {told}."


def name_of(log: EvalLog) -> str:
    """The name of a log's file."""
    return Path(log.location).name


def save_plan(plan: Plan, logs: Path) -> str:
    """Writes a plan beside its logs, as it can be run again; its hash, which stands in the file's name and the logs.

    Raises:
        UserError: the file cannot be written.
    """
    said = plan.model_dump(mode="json", exclude_defaults=True)
    name = digest(said)
    file = logs / f"plan-{name}.yaml"
    try:
        write_whole(file, package("yaml").safe_dump(said, sort_keys=False, allow_unicode=True))
    except OSError as error:
        raise not_written(file, error) from error
    return name


async def opened(cells: Sequence[Cell], tasks: Mapping[Benchmarked, Task], judge: str | None) -> None:
    """Opens each system on the first sample of its benchmark, so that what it lacks is said before anything is run.

    Raises:
        UserError: a key, a source, an encoder that is missing, a judge that cannot be, or a task that the system does
            not take.
    """
    try:
        if judge is not None:
            await open_chat_model(judge)
        for cell in cells:
            system, sample = load_graph(cell.graph), next(iter(tasks[cell.task].dataset))
            settings = checked_settings(system.settings, cell.settings)
            question = question_of(str(sample.input), sample.choices, sample.metadata)
            begun = await system.graph.ainvoke(question, context=settings, interrupt_after=["open"])
            if (error := begun["error"]) and error["kind"] in USER_KINDS:
                raise UserError(f"{cell.system} on {cell.task.name}: {error['detail']}", kind=error["kind"])
    finally:
        await close_clients()


def newest_logs(logs: Path) -> dict[str, EvalLog]:
    """The newest log of each key, without its samples."""
    return {facts_of(log).get("key", ""): log for log in reversed(list(headers(str(logs))))}


def held(keys: Iterable[str], logs: Path) -> int:
    """How many samples logs and their recovery buffers hold that need not be run again."""
    newest = newest_logs(logs)
    there = {log.location for log in (newest[key] for key in keys if key in newest)}
    broken_off = {one.log.name for one in recoverable_eval_logs(str(logs))}
    done = 0
    for place in there:
        buffer = read_buffer_recovery_data(place) if place in broken_off else None
        ended = [*read_eval_log_sample_summaries(place), *(buffer.completed if buffer else ())]
        done += len({(str(one.id), one.epoch) for one in ended if not one.error})  # one just written may be in both
    return done


def solver_of(cell: Cell, logs: Path, keys: Mapping[str, str]) -> Solver:
    """The solver of a cell; the log of the debate that it follows is there by now."""
    key = keys[cell.key]
    if cell.of is None or not (cell.control or cell.attack):
        return debate(cell.graph, run=key, **cell.settings)
    of = keys[cell.of.key]
    if cell.attack:
        how = {name: value for name, value in cell.attack.items() if name != "texts"}
        return attacked(logs=str(logs), of=of, graph=cell.graph, run=key, **how, **cell.settings)
    assert cell.control is not None
    return control(cell.control, str(logs), of, run=key, equal=cell.equal or "tokens", **cell.settings)


def items_of(benchmarked: Benchmarked, plan: Plan) -> Task:
    """A benchmark of a plan as Inspect's task."""
    data = None if benchmarked.data is None else str(benchmarked.data)
    return TASKS[benchmarked.name](data, benchmarked.limit, plan.sample_seed, plan.judge)


def _run(tasks: Sequence[Task], logs: Path, limits: Limits) -> None:
    if not tasks:
        return
    side_by_side = min(SIDE_BY_SIDE, len(tasks), limits.at_once)
    with samples_written_once():
        _, ended = eval_set(
            list(tasks),
            str(logs),
            model="none",  # of tasks that name none
            display="none",
            score_display=False,  # else all scores are counted again and again for a display that is not there
            log_dir_allow_dirty=True,
            # each writing copies all of the log; what is not in it yet, the recovery database holds
            log_buffer=max(LEAST_WRITTEN, max(len(task.dataset) for task in tasks) // WRITINGS),
            retry_attempts=1,
            retry_immediate=False,
            max_tasks=side_by_side,
            max_samples=max(1, limits.at_once // side_by_side),
            time_limit=limits.time_limit,
            retry_on_error=limits.retry_on_error or None,
            # all samples are run before a cell with failed ones counts as not done: they are tried again next time
            fail_on_error=True if limits.fail_on_error is None else limits.fail_on_error,
            continue_on_fail=limits.fail_on_error is None,
            acp_server=False,
            ctl_server=False,
            log_level="error",
        )
    # of an interrupted evaluation Inspect gives a cancelled log, or none
    if len(ended) < len(tasks) or any(log.status == "cancelled" for log in ended):
        raise KeyboardInterrupt
