"""Systems that were measured on one benchmark with one model, and who is compared with whom.

Lines of a comparison are all of one kind (`System`): a debate system, a control that was measured beside it, or a
control that is derived without any call. Each holds what its items came to, run by run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from moot.evals.benchmarks import Benchmark
from moot.evals.derived import first_round_majority, label_prior, policy_labels, went_on
from moot.evals.item_scores import COMPUTED
from moot.evals.logs import Run
from moot.evals.observations import Observation, computed_scores
from moot.graphs import suggest
from moot.nodes.task import TASKS
from moot.retrievers.errors import UserError

SECOND = {"accuracy": "macro_f1", "exact_match": "token_f1"}
"""What is compared beside a benchmark's first measure, where the benchmark has it."""
SAME_TOKENS = "self_consistency"
"""What the control is called that takes as many tokens as its debate."""
FIRST_ROUND, PRIOR, NOTHING_SETTLED = "first-round majority", "label prior", "always"

Items = Mapping[str, Observation]


@dataclass(frozen=True, eq=False)
class System:
    """A line of the comparison.

    Attributes:
        label: its name, of which there is one in a study.
        items: for each run what every item came to, by the item's id.
        runs: the logs, in the same order; none for a control that is derived.
        control: what kind of control it is; None for a system of its own.
        of: the label of the system whose control it is.
    """

    label: str
    items: tuple[Items, ...]
    runs: tuple[Run, ...] = ()
    control: str | None = None
    of: str | None = None

    @cached_property
    def observations(self) -> list[Observation]:
        """Of all runs."""
        return [seen for items in self.items for seen in items.values()]

    @cached_property
    def answered(self) -> list[Observation]:
        """Those whose item is not missing."""
        return [seen for seen in self.observations if seen.outcome is not None]

    @property
    def errors(self) -> int:
        """Items that failed."""
        return len(self.observations) - len(self.answered)

    @property
    def not_run(self) -> int:
        """Items that no sample is of, as a run was stopped."""
        return sum(run.planned - len(run.observations) for run in self.runs)

    @cached_property
    def gold(self) -> dict[str, tuple[str, ...]]:
        """Each item's right answers."""
        return {id: seen.gold for items in reversed(self.items) for id, seen in items.items()}


@dataclass(frozen=True)
class Study:
    """A benchmark with a model, and the systems in the order in which they are shown: each before its controls."""

    benchmark: Benchmark
    model: str | None
    systems: tuple[System, ...]
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What it is called."""
        return f"{self.benchmark.title}, {self.model or 'several models'}"

    @property
    def headline(self) -> str:
        """The measure that systems are ranked and tested by; it is right or wrong of each item."""
        return next(name for name in self.benchmark.metrics if name in COMPUTED)

    @property
    def second(self) -> str | None:
        """What is compared beside it."""
        name = SECOND.get(self.headline)
        return name if name in self.benchmark.metrics else None

    @property
    def measured(self) -> list[System]:
        """The systems that have logs."""
        return [system for system in self.systems if system.runs]


# --- studies ----------------------------------------------------------------------------------------------------------


def studies_of(runs: Sequence[Run]) -> list[Study]:
    """One study for each benchmark and model, in the order of the runs."""
    groups: dict[tuple[str, str | None], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.benchmark.name, run.model), []).append(run)
    return [_study(group) for group in groups.values()]


def _study(runs: Sequence[Run]) -> Study:
    systems, notes = _systems(runs)
    benchmark = runs[0].benchmark
    labels = {system.label for system in systems}
    roots = [system for system in systems if system.of not in labels - {system.label}]
    ordered: list[System] = []
    for root in roots:
        controls = [system for system in systems if system.of == root.label and system not in roots]
        controls.sort(key=lambda system: (system.control != SAME_TOKENS, system.label))
        ordered += [root, *controls, *_first_round(root, benchmark)]
    ordered += [system for system in systems if system not in ordered]  # controls of controls
    return Study(benchmark, runs[0].model, (*ordered, *_constant(systems, benchmark)), tuple(notes))


def _systems(runs: Sequence[Run]) -> tuple[list[System], list[str]]:
    """Runs that differ in nothing but their seed are runs of one system; labels that several share are numbered."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        settings = {key: value for key, value in run.settings.items() if key != "seed"}
        groups.setdefault(
            json.dumps([run.system, run.control, run.of, settings], sort_keys=True, default=str), []
        ).append(run)
    systems: list[System] = []
    notes: list[str] = []
    for group in groups.values():
        group.sort(key=lambda run: (run.seed is None, run.seed or 0, run.created))
        label, others = group[0].system, sum(s.runs[0].system == group[0].system for s in systems)
        if others:
            notes.append(f"{label} was run with different settings: {label} ({others + 1}) is a system of its own.")
            label = f"{label} ({others + 1})"
        items = tuple({seen.id: seen for seen in run.observations} for run in group)
        systems.append(System(label, items, tuple(group), group[0].control, group[0].of))
    return systems, notes


def _first_round(system: System, benchmark: Benchmark) -> list[System]:
    """What a debate's first round would have said, where that is another thing than its end."""
    if not went_on(system.observations):
        return []
    items = tuple(
        {id: answering(seen, first_round_majority(seen), benchmark) for id, seen in one.items()} for one in system.items
    )
    return [System(f"{system.label} {FIRST_ROUND}", items, (), FIRST_ROUND, system.label)]


def _constant(systems: Sequence[System], benchmark: Benchmark) -> list[System]:
    """What always one label comes to: the one that is right most often, and the one for open cases."""
    if TASKS[benchmark.task].kind not in ("labels", "choice"):
        return []
    first = {id: seen for system in reversed(systems) for one in system.items for id, seen in one.items()}
    prior, (open_label, _) = label_prior([seen.gold[0] for seen in first.values()]), policy_labels(benchmark.task)
    given = {f"{PRIOR}: {prior}": prior} | ({f"{NOTHING_SETTLED} {open_label}": open_label} if open_label else {})
    return [
        System(name, ({id: answering(seen, label, benchmark) for id, seen in first.items()},), (), name.split(":")[0])
        for name, label in given.items()
    ]


def answering(seen: Observation, outcome: str | None, benchmark: Benchmark) -> Observation:
    """An item with another outcome, and nothing else of what it came to."""
    scores = computed_scores(benchmark, outcome, seen.gold)
    error = "missing" if outcome is None else None
    return Observation(seen.id, seen.gold, seen.stratum, outcome, outcome, scores, error=error)


# --- who is compared with whom ----------------------------------------------------------------------------------------


def common_items(first: System, second: System) -> list[str]:
    """The items that both were measured on, with the same right answers."""
    return [id for id, gold in first.gold.items() if second.gold.get(id) == gold]


def pairs_of(study: Study, against: str | None) -> list[tuple[System, System]]:
    """Which systems are compared, each with its baseline; none where the study has no such baseline.

    Args:
        study: with all systems.
        against: a system's label, or a kind of control, which each system has its own of. By default each system is
            compared with its control of as many tokens or, where it has none, with the first system.
    """
    systems = study.systems
    if against is None:
        own = _with_controls(systems, SAME_TOKENS)
        first = study.measured[0]
        done = {first.label, *(system.label for system, _ in own)}
        return own + [(s, first) for s in study.measured if s.of is None and s.label not in done]
    named = next((system for system in systems if system.label == against), None)
    if named is not None:
        return [(system, named) for system in systems if system is not named]
    return _with_controls(systems, against)


def check_against(studies: Sequence[Study], against: str | None) -> None:
    """Refuses a baseline that no study has.

    Raises:
        UserError: there is none of that name.
    """
    known = dict.fromkeys(name for study in studies for s in study.systems for name in (s.label, s.control) if name)
    if against is not None and against not in known:
        raise UserError(f"There is no system or control {against!r}. {suggest(against, known)}", kind="invalid_setting")


def _with_controls(systems: Sequence[System], kind: str) -> list[tuple[System, System]]:
    by_label = {system.label: system for system in systems}
    controls = [system for system in systems if system.control == kind and system.of in by_label]
    return [(by_label[str(control.of)], control) for control in controls]
