"""Systems that were measured on one benchmark with one model, and the pairs of systems to compare.

Each row of a comparison is a `System`: a debate system, a control that was run, or a control that was not run, but is
derived from the logs of debate systems. A `System` contains the observations of its items, run by run.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from moot.core.errors import UserError
from moot.evals._benchmarks.catalogue import Benchmark
from moot.evals._runs.logs import LoggedRun
from moot.evals._runs.stated import ALWAYS_OPEN, FIRST_ROUND, PRIOR
from moot.evals._stats.metrics import COMPUTED
from moot.evals._stats.observations import Observation, computed_scores
from moot.graphs._registry import suggest
from moot.nodes._texts.task import TASKS, make_task
from moot.nodes._trial.panel import verdict_labels

SECOND_MEASURES = {"accuracy": "macro_f1", "exact_match": "token_f1"}
"""The second measure to compare, by the first measure. Only benchmarks that have this second measure use it."""

Items = Mapping[str, Observation]
"""The observations of a run, by the item's id."""
Cluster = tuple[str, str]
"""The key of an item's group; see `Observation.cluster`."""


@dataclass(frozen=True, eq=False)
class System:
    """A system in a comparison: a debate system or a control."""

    label: str
    """The system's name, which is unique in a study."""
    items: tuple[Items, ...]
    """For each run, the observations by the item's id."""
    runs: tuple[LoggedRun, ...] = ()
    """The logs of the runs, in the same order; empty for a derived control."""
    control: str | None = None
    """The kind of control, retrieval variant or attack; None if the system is none of these."""
    of: str | None = None
    """The label of the system that a control, variant or attack belongs to; None if this system is unknown, for a
    control with a constant answer, and if ``control`` is None."""

    @cached_property
    def observations(self) -> list[Observation]:
        """The observations of all runs."""
        return [observation for items in self.items for observation in items.values()]

    @cached_property
    def answered(self) -> list[Observation]:
        """The observations with an outcome; an abstention is an outcome."""
        return [observation for observation in self.observations if observation.outcome is not None]

    @property
    def errors(self) -> int:
        """The number of observations without an outcome. An item that failed in several runs counts several times."""
        return len(self.observations) - len(self.answered)

    @property
    def not_run(self) -> int:
        """The number of planned items without a sample, for example because a run was stopped, summed over the runs."""
        return sum(run.planned_count - len(run.observations) for run in self.runs)

    @cached_property
    def gold(self) -> dict[str, tuple[str, ...]]:
        """Each item's right answers, from the first run that has the item."""
        return {id: observation.gold for items in reversed(self.items) for id, observation in items.items()}

    @cached_property
    def clusters(self) -> dict[str, Cluster]:
        """Each item's group, from any run that names one."""
        sorted_observations = sorted(self.observations, key=lambda observation: bool(observation.group))
        return {observation.id: observation.cluster for observation in sorted_observations}


def same_items(systems: Sequence[System]) -> frozenset[str]:
    """The items for which every system has an outcome, with the same right answers; empty if there is no such item."""
    answered = [s for s in systems if s.answered]
    known = [{observation.id for observation in system.answered} for system in answered]
    shared = set.intersection(*known) if known else set[str]()
    return frozenset(id for id in shared if len({system.gold[id] for system in answered}) == 1)


@dataclass(frozen=True)
class Study:
    """A benchmark with a model, and the systems in display order: each system comes before its controls."""

    benchmark: Benchmark
    model: str | None
    systems: tuple[System, ...]
    notes: tuple[str, ...] = ()
    data: str = ""
    """The name of the study's items and judge, if other studies have the same benchmark and model; else empty."""

    @property
    def title(self) -> str:
        """The study's title."""
        named = f"{self.benchmark.title}, {self.model or 'several models'}"
        return f"{named}, {self.data}" if self.data else named

    @property
    def first_measure(self) -> str:
        """The benchmark's first measure that needs no model."""
        return next(name for name in self.benchmark.metrics if name in COMPUTED)

    @property
    def second_measure(self) -> str | None:
        """The second measure to compare (`SECOND_MEASURES`); None if there is none."""
        name = SECOND_MEASURES.get(self.first_measure)
        return name if name in self.benchmark.metrics else None

    @property
    def measured(self) -> list[System]:
        """The systems that have logs."""
        return [system for system in self.systems if system.runs]

    @cached_property
    def same_items(self) -> frozenset[str]:
        """The ids of the items on which scores are computed: the result of `same_items` for all systems."""
        return same_items(self.systems)


# --- studies ----------------------------------------------------------------------------------------------------------

Group = list[LoggedRun]
"""Runs of one system, which have the same `_system_key`."""


def studies_of(runs: Sequence[LoggedRun]) -> list[Study]:
    """Make the studies of runs: usually one for each benchmark and model."""
    together: dict[tuple[str, str | None], list[LoggedRun]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.position is None, run.position or 0, run.created)):
        together[run.benchmark.name, run.model].append(run)
    return [study for group in together.values() for study in _split_by_data(group)]


def _split_by_data(runs: Sequence[LoggedRun]) -> list[Study]:
    """Make one study, or one for each `_data_key` if the runs of a system or a control have different keys."""
    by_data: dict[tuple[str, str | None], list[LoggedRun]] = defaultdict(list)
    for run in runs:
        by_data[_data_key(run)].append(run)
    roots, controls, _ = _group_runs(runs)
    if all(len(set(map(_data_key, group))) == 1 for group in (*roots, *(group for group, _ in controls))):
        return [_make_study(runs)]
    return [_make_study(same_data, _data_title(same_data[0])) for same_data in by_data.values()]


def _data_key(run: LoggedRun) -> tuple[str, str | None]:
    """The data that a run's scores are based on: its items, and the judge of free-text answers."""
    return run.items, run.judge if run.benchmark.needs_judge else None


def _data_title(run: LoggedRun) -> str:
    _, judge = _data_key(run)
    judging = f", judged by {judge}" if judge else ""
    place = f"of {run.data}" if run.data else "from the Hub"
    return f"{run.planned_count:,} items {place} ({run.items[:8] or 'no digest'}){judging}"


def _make_study(runs: Sequence[LoggedRun], data: str = "") -> Study:
    benchmark, names = runs[0].benchmark, Counter[str]()
    roots, controls, notes = _group_runs(runs)
    if data:
        notes.append(
            "A system was run on several sets of items, or several models judged its answers. Each set of items "
            "with each judge has its own study."
        )
    systems: list[System] = []
    for root in roots:
        system = _make_system(root, names, notes)
        own_controls = [_make_system(group, names, notes, system.label) for group, debate in controls if debate is root]
        systems += [
            system,
            *sorted(own_controls, key=lambda control: control.label),
            *_first_round_controls(system, benchmark),
        ]
    constants = _constant_controls(systems, benchmark)
    ceilings = [run.ceiling for run in runs if run.ceiling is not None]
    if ceilings:
        notes.append(
            "Some items ask the same question but have different right answers, so a system that gives them the "
            f"same answer has an accuracy of at most {min(ceilings):.3f}."
        )
    notes += [f"{name}: not computable, because {reason}." for name, reason in benchmark.uncomputed.items()]
    return Study(benchmark, runs[0].model, (*systems, *constants), tuple(dict.fromkeys(notes)), data)


def _group_runs(runs: Sequence[LoggedRun]) -> tuple[list[Group], list[tuple[Group, Group]], list[str]]:
    """Group runs by system.

    Three lists. The first has the runs of each system. The second has the runs of each control, paired with the runs of
    its system. A control whose system is unknown is in the first list, and the third list has a note on it.
    """
    roots: dict[str, Group] = defaultdict(list)
    for run in (run for run in runs if run.of is None):
        roots[_system_key(run)].append(run)
    by_key = {run.key: group for group in roots.values() for run in group if run.key}
    labelled: dict[str, list[Group]] = defaultdict(list)
    for group in roots.values():
        for label in {run.system for run in group}:
            labelled[label].append(group)
    controls: dict[tuple[str, int], tuple[Group, Group]] = {}
    notes = []
    for run in (run for run in runs if run.of is not None):
        named = labelled.get(str(run.of), [])
        debate = by_key.get(run.of_key or "") or (named[0] if len(named) == 1 else None)
        if debate is not None:
            controls.setdefault((_system_key(run), id(debate)), ([], debate))[0].append(run)
            continue
        roots[_system_key(run)].append(run)
        reason = f"there are {len(named)} systems of that name" if named else "there is no log of that system"
        notes.append(f"{run.system} is a control of {run.of}, but {reason}, so it is a separate system here.")
    return list(roots.values()), list(controls.values()), notes


def _system_key(run: LoggedRun) -> str:
    """A key that the runs of a system share.

    It consists of the graph (the label, if the log names no graph), the kind of control, the unit of the budget, the
    settings, and some parts. The seed and the endpoints are left out, because runs of one system may differ in them.
    """
    parts = {key: run.parts.get(key) for key in ("behaviour", "corpora", "prompts", "sources")}
    settings = {key: value for key, value in run.settings.items() if key != "seed"}
    identity = [run.graph or run.system, run.control, run.equal or "tokens", settings, parts]
    return json.dumps(identity, sort_keys=True, default=str)


def _make_system(group: Group, names: Counter[str], notes: list[str], of: str | None = None) -> System:
    """Make a system from its runs, with the label of its newest log.

    If several systems have the same label, the second and all further systems get a number. If several logs have the
    same seed, for example because the items were read from different places, the newest successful log is used. If no
    log is successful, the newest log is used.
    """
    newest: dict[Any, LoggedRun] = {}
    for run in sorted(group, key=lambda run: (run.status == "success", run.created)):
        # each log without a key counts as a run of its own, because its retries cannot be recognised
        run_id = run.seed if run.key else run.file
        if other := newest.get(run_id):
            same = f"{run.file} has the same seed, settings and items"
            notes.append(f"{other.file} ({other.system}): left out, because {same}.")
        newest[run_id] = run
    runs = sorted(newest.values(), key=lambda run: (run.seed is None, run.seed or 0, run.created))
    label = max(runs, key=lambda run: run.created).system
    names[label] += 1
    if names[label] > 1:
        numbered = f"{label} ({names[label]})"
        if of is None:
            differing = "its graph, version, settings, sources, corpora or prompts"
            notes.append(f"Several systems are named {label}: {numbered} differs from the others in {differing}.")
        label = numbered
    items = tuple({observation.id: observation for observation in run.observations} for run in runs)
    return System(label, items, tuple(runs), runs[0].control, of)


def _first_round_controls(system: System, benchmark: Benchmark) -> list[System]:
    """The control with the majority answers of first rounds; [] if these cannot differ from the final answers."""
    if not first_round_majority_is_useful(system.observations):
        return []
    items = tuple(
        {id: with_outcome(observation, first_round_majority(observation), benchmark) for id, observation in run.items()}
        for run in system.items
    )
    return [System(f"{system.label} {FIRST_ROUND}", items, (), FIRST_ROUND, system.label)]


def _constant_controls(systems: Sequence[System], benchmark: Benchmark) -> list[System]:
    """Two controls with a constant answer: the most frequent right label, and the label for open claims."""
    if TASKS[benchmark.task].kind not in ("labels", "choice"):
        return []
    first = {id: observation for system in reversed(systems) for run in system.items for id, observation in run.items()}
    shared = same_items(systems) or first.keys()
    prior, (open_label, _) = label_prior([first[id].gold[0] for id in shared]), policy_labels(benchmark.task)
    given = [(PRIOR, f"{PRIOR}: {prior}", prior)]
    if open_label and open_label != prior:
        given.append((ALWAYS_OPEN, f"{ALWAYS_OPEN} {open_label}", open_label))
    return [
        System(
            name, ({id: with_outcome(observation, label, benchmark) for id, observation in first.items()},), (), kind
        )
        for kind, name, label in given
    ]


def first_round_majority(observation: Observation) -> str | None:
    """The majority answer in the first round of a debate. Returns the answer; `ABSTAINED` if no speaker answered or the
    majority answer is an abstention; None if the item is missing, or the debate has no answer turns.
    """
    if observation.outcome is None or not observation.answers:
        return None
    return observation.answers[0].answer


def first_round_majority_is_useful(observations: Sequence[Observation]) -> bool:
    """Whether the majority answer of the first round is a useful control: it can differ from the final answer.

    It is useful if at least one debate had several speakers in its first round, and more than one round.
    """
    return any(len(observation.answers) > 1 and observation.answers[0].speakers > 1 for observation in observations)


def label_prior(gold: Sequence[str]) -> str:
    """The label that is right most often; in a tie, the alphabetically first.

    On the same items, no other constant answer is right more often.
    """
    if not gold:
        raise ValueError("there must be at least one label")
    counts = Counter(gold)
    return min(counts, key=lambda label: (-counts[label], label))


def policy_labels(task: str) -> tuple[str | None, str | None]:
    """A task's label for claims without enough evidence, and its label for true claims.

    None stands for a label that the task does not have.
    """
    if TASKS[task].kind != "labels" or not TASKS[task].labels:
        return None, None
    labels = verdict_labels(make_task(task))
    return labels.get("INCONCLUSIVE"), labels["SUPPORTED"]


def with_outcome(observation: Observation, outcome: str | None, benchmark: Benchmark) -> Observation:
    """Copy an observation with a new outcome and the scores of this outcome, without the figures of the old outcome."""
    scores = computed_scores(benchmark, outcome, observation.gold)
    error = "missing" if outcome is None else None
    return Observation(
        observation.id,
        observation.gold,
        observation.stratum,
        outcome,
        outcome,
        scores,
        error=error,
        group=observation.group,
    )


# --- baselines -----------------------------------------------------------------------------------------------


def common_items(first: System, second: System) -> list[str]:
    """The ids of the items that both systems have with the same right answers, including items without an outcome."""
    return [id for id, gold in first.gold.items() if second.gold.get(id) == gold]


def check_baseline(studies: Sequence[Study], against: str | None) -> None:
    """Refuse a baseline that is neither a system nor a kind of control in any study; None is accepted."""
    known = dict.fromkeys(name for study in studies for s in study.systems for name in (s.label, s.control) if name)
    if against is not None and against not in known:
        raise UserError(f"There is no system or control {against!r}. {suggest(against, known)}", kind="invalid_setting")
