"""The pairs of systems to compare: those that a user states; else each system with its controls and the first one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

from moot.core.errors import UserError
from moot.evals._report.comparison import Study, System
from moot.evals._runs.stated import EACH, POOLED, StatedTest
from moot.evals._stats.margins import Claim
from moot.graphs._registry import suggest


class Pair(NamedTuple):
    """A system and its baseline on one benchmark."""

    study: Study
    """The system's study."""
    first: System
    """The system."""
    second: System
    """Its baseline."""
    second_study: Study
    """The baseline's study; another one if the two systems have different models."""

    @property
    def between_models(self) -> bool:
        """Whether the two systems have different models."""
        return self.study is not self.second_study


class Wanted(NamedTuple):
    """A test to make: its pairs, one for each benchmark, and what it is to show."""

    pairs: tuple[Pair, ...]
    claim: Claim = "different"
    margin: float | None = None


def pairs_of(study: Study, against: str | None) -> list[Pair]:
    """The systems to compare, each with its baseline; [] if the study has no baseline.

    The baseline ``against`` is a system's label, for all other systems; or a kind of control, for the control's own
    system. A control with a constant answer belongs to no system, so all other systems are compared with it. Without a
    baseline, each system is compared with each of its controls, and those that belong to no other system with the
    first of them.
    """
    systems = study.systems
    named = [s for s in systems if s.label == against]
    named = named or [s for s in systems if s.control == against and s.of is None and not s.runs]
    if against is not None and named:
        return [Pair(study, system, named[0], study) for system in systems if system is not named[0]]
    by_label = {system.label: system for system in systems}
    own = [Pair(study, by_label[s.of], s, study) for s in systems if s.of is not None and against in (None, s.control)]
    first, *others = [system for system in study.measured if system.of is None]
    return own if against is not None else [*own, *(Pair(study, other, first, study) for other in others)]


def stated_pairs(studies: Sequence[Study], test: StatedTest) -> list[Wanted]:
    """The tests that a stated test asks for; UserError if no system is meant.

    Two systems with the same model are compared if there are any; otherwise, all with these labels and models are.
    """
    pairs = [pair for group in _same_items(studies) for pair in _pairs_in(group, test)]
    on_one = [pair for pair in pairs if pair.study.benchmark.name == test.benchmark]
    if test.benchmark not in (EACH, POOLED):
        pairs = on_one
    if not pairs:
        known = dict.fromkeys(system.label for study in studies for system in study.systems)
        models = ", ".join(dict.fromkeys(str(study.model) for study in studies))
        places = ", ".join(dict.fromkeys(study.benchmark.name for study in studies))
        missing = [name for name in (test.first, test.second) if name not in known]
        raise UserError(
            f"The stated test of {test.first} against {test.second} on {test.benchmark} finds no pair of systems. "
            f"{suggest(missing[0], known) if missing else f'The models are {models}; the benchmarks are {places}.'}",
            kind="invalid_setting",
        )
    if test.benchmark != POOLED:
        return [Wanted((pair,), test.claim, test.margin) for pair in pairs]
    by_models: dict[tuple[str | None, str | None], list[Pair]] = {}
    for pair in pairs:
        by_models.setdefault((pair.study.model, pair.second_study.model), []).append(pair)
    if not (pooled := [tuple(group) for group in by_models.values() if len(group) > 1]):
        raise UserError(
            f"The stated test of {test.first} against {test.second} is to be pooled, but both are together on one "
            "benchmark only.",
            kind="invalid_setting",
        )
    return [Wanted(group, test.claim, test.margin) for group in pooled]


def _same_items(studies: Sequence[Study]) -> Iterable[list[Study]]:
    """Studies of the same benchmark and items, which differ in their models."""
    groups: dict[tuple[str, str], list[Study]] = {}
    for study in studies:
        groups.setdefault((study.benchmark.name, study.data), []).append(study)
    return groups.values()


def _pairs_in(studies: Sequence[Study], test: StatedTest) -> list[Pair]:
    """The pairs that a stated test means, among studies of the same items."""

    def named(name: str, model: str | None) -> list[tuple[Study, System]]:
        chosen = [(study, s) for study in studies for s in study.systems if model in (None, study.model)]
        by_label = [(study, s) for study, s in chosen if s.label == name]
        return by_label or [(study, s) for study, s in chosen if s.control == name and s.of in (None, test.first)]

    sides = named(test.first, test.first_model), named(test.second, test.second_model)
    pairs: list[Pair] = []
    for (study, a), (other, b) in product(*sides):
        if a is not b and not any((a, b) == (pair.second, pair.first) for pair in pairs):
            pairs.append(Pair(study, a, b, other))
    return [pair for pair in pairs if not pair.between_models] or pairs
