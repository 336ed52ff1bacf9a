"""Right answers by the original labels and by those that a person audited (`moot.evals._analyses.audit`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from moot.core.errors import UserError
from moot.core.words import count_with_noun
from moot.evals._analyses.audit import DECISIONS, Decision
from moot.evals._report.comparison import Study, System
from moot.evals._report.scores import INTERVALS, SYSTEM, TITLES, name_cell
from moot.evals._report.tables import Cell, Table, columns, make_table
from moot.evals._stats.estimates import estimate
from moot.evals._stats.observations import Observation, computed_scores

Decisions = Mapping[tuple[str, str], Decision | None]
"""Decisions on labels by benchmark and id; None for a row without a decision."""


def audited_table(study: Study, decisions: Decisions) -> Table | None:
    """Each system's right answers by the original and by the audited labels; None without a row for this benchmark."""
    listed = {id: decision for (benchmark, id), decision in decisions.items() if benchmark == study.benchmark.name}
    if not listed:
        return None
    check_items(study, listed)
    first, same = study.first_measure, study.same_items
    labels = {id: decision.label for id, decision in listed.items() if decision is not None}
    clear = same - {id for id, label in labels.items() if label is None}
    heads = [SYSTEM, *columns("count", answers="answers to the same items", right="right, original labels")]
    heads += columns("share", original=f"{TITLES[first]}, original labels")
    heads += columns("count", clear="answers to items with a clear label", audited_right="right, audited labels")
    heads += columns("share", audited=f"{TITLES[first]}, audited labels")
    rows: list[list[Cell]] = []
    for system in study.systems:
        audited = with_labels(system, labels, study)
        counts: list[Cell] = [*count_right(system, first, same), estimate(system, first, same)]
        counts += [*count_right(audited, first, clear), estimate(audited, first, clear)]
        rows.append([name_cell(system), *counts])
    kinds = Counter("" if decision is None else decision.kind for decision in listed.values())
    decided = ", ".join(f"{kinds[kind]} {kind}" for kind in DECISIONS)
    counted = f"{decided}, {kinds['']} without a decision"
    unknown = len(listed.keys() - {id for system in study.systems for id in system.gold})
    return make_table(
        "audited",
        f"Audited labels ({counted})",
        f"Decisions on {count_with_noun(len(listed), 'item')} on which systems agreed against the label: "
        f"{counted}. Those without a decision count with their original label. Items with an unclear label "
        f"are left out on the right. {'' if not unknown else f'{unknown} of them are not in these logs. '}"
        "Systems chose these items, so an audit finds only errors that count against systems: the original labels "
        "remain the measure for comparisons with papers, and all other tables and all tests use them. Answers are "
        f"summed over runs. In brackets: 95% intervals over groups of items, {INTERVALS}.",
        heads,
        rows,
    )


def check_items(study: Study, listed: Mapping[str, Decision | None]) -> None:
    """Refuse decisions on items of other data: another question or label has the same id."""
    for system in study.measured:
        for observation in system.observations:
            decision = listed.get(observation.id)
            if decision and (decision.gold, decision.digest) != (observation.gold, observation.digest):
                raise UserError(
                    f"The decision on the item {observation.id!r} of {study.benchmark.title} is about another question "
                    "or label than these logs have. Compare it with logs of the data that were audited.",
                    kind="invalid_file",
                )


def with_labels(system: System, labels: Mapping[str, str | None], study: Study) -> System:
    """A copy of a system whose right answers are the audited labels, where there is one."""

    def rescored(observation: Observation) -> Observation:
        if (label := labels.get(observation.id)) is None or label in observation.gold:
            return observation
        scores = {**observation.scores, **computed_scores(study.benchmark, observation.outcome, (label,))}
        return replace(observation, gold=(label,), scores=scores)

    return replace(
        system, items=tuple({id: rescored(observation) for id, observation in run.items()} for run in system.items)
    )


def count_right(system: System, measure: str, ids: frozenset[str]) -> tuple[int, int]:
    """The number of answers to some items, and that of right ones, each summed over the system's runs."""
    given = [one for one in system.answered if one.id in ids]
    return len(given), sum(one.scores.get(measure) == 1 for one in given)
