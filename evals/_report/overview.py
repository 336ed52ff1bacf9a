"""The main table of a report: systems in rows, and benchmarks in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from moot.evals._report.comparison import Study, System
from moot.evals._report.scores import INTERVALS, SYSTEM, TITLES, count_less_evidence
from moot.evals._report.tables import Cell, Column, Nested, Table, columns, make_table
from moot.evals._runs.stated import ALWAYS_OPEN
from moot.evals._stats.clusters import mean_of_intervals
from moot.evals._stats.estimates import estimate
from moot.evals._stats.significance import Interval
from moot.nodes._steps.score import average

CONSTANT_NAMES = {ALWAYS_OPEN: "always the label for open claims"}
"""Names in the overview for controls with a constant answer, by kind. A kind without an entry is itself the name."""


@dataclass
class Line:
    """A row of the overview: a system with a model. A place is the index of a benchmark among the columns, from 0."""

    name: str
    nested: bool
    model: str
    scores_by_place: dict[int, Interval] = field(default_factory=dict)
    systems_by_place: dict[int, System] = field(default_factory=dict)


def overview_lines(studies: Sequence[Study]) -> tuple[list[tuple[str, list[int]]], list[Line]]:
    """The columns and lines of the overview."""
    places: dict[tuple[str, str], int] = {}
    counts: dict[int, list[int]] = {}
    lines: dict[tuple[str, str | None, str], Line] = {}
    for study in studies:
        ids = study.same_items
        place = places.setdefault((study.benchmark.title, study.data), len(places))
        counts.setdefault(place, []).append(len(ids))
        for system in study.systems:
            derived = system.of is None and not system.runs
            name = CONSTANT_NAMES.get(str(system.control), str(system.control)) if derived else system.label
            key = (name, system.of, study.model or "several models")
            line = lines.setdefault(key, Line(key[0], system.of is not None, key[2]))
            line.scores_by_place[place] = estimate(system, study.first_measure, ids)
            line.systems_by_place[place] = system
    titles = [", ".join(filter(None, named)) for named in places]
    return [(title, counts[place]) for place, title in enumerate(titles)], list(lines.values())


def overview_table(studies: Sequence[Study]) -> Table | None:
    """The scores of systems on benchmarks, with averages and costs; None if no study has a system."""
    benchmarks, lines = overview_lines(studies)
    many_models = len({line.model for line in lines}) > 1
    heads = [SYSTEM, *columns("text", model="")]
    for n, (title, items) in enumerate(benchmarks, 1):
        count = f"{min(items)}" if min(items) == max(items) else f"{min(items)} to {max(items)}"
        heads.append(Column(f"score_{n}", f"{title} (n = {count})", "share"))
    heads += columns("share", average="average")
    heads += columns("number", tokens="tokens per item", calls="calls per item", seconds="seconds per item")
    heads += columns("money", cost="USD per item")
    heads += columns("count", errors="missing answers", lost="items with less evidence")
    measures = list(dict.fromkeys(TITLES[study.first_measure] for study in studies))
    rows = [_line_cells(line, len(benchmarks), many_models) for line in lines]
    return make_table(
        "overview",
        "Systems and benchmarks",
        f"{', '.join(measures).capitalize()}. In brackets: 95% intervals over groups of items, {INTERVALS}. "
        "On each benchmark, all systems with one model are compared on the "
        "same items: those for which every system has an answer or an abstention, and for which all logs have the "
        "same right answers. The average gives each benchmark the same weight; its interval assumes independent "
        "benchmarks (Zou and Donner 2008). A system that was not run on all benchmarks has no average. Tokens, calls, "
        "seconds and USD are means over the benchmarks' means. Missing answers are those of items on which a run "
        "failed. Items with less evidence are items for which a source failed, a fallback was used, or nothing was "
        "found.",
        heads,
        rows,
    )


def _line_cells(line: Line, benchmarks: int, many_models: bool) -> list[Cell]:
    name: Cell = Nested(line.name) if line.nested else line.name
    scores: list[Cell] = [line.scores_by_place.get(place) for place in range(benchmarks)]
    known = [line.scores_by_place[place] for place in range(benchmarks) if place in line.scores_by_place]
    mean = mean_of_intervals(known) if len(known) == benchmarks > 1 else None
    logged = [system for system in line.systems_by_place.values() if system.runs]
    means = [[average_cost(system, figure) for system in logged] for figure in ("tokens", "calls", "seconds", "cost")]
    spent: list[Cell] = ["" if not logged else None if None in values else average(values) for values in means]
    errors: Cell = sum(system.errors for system in logged) if logged else ""
    less_evidence: Cell = sum(count_less_evidence(system) for system in logged) if logged else ""
    return [name, line.model if many_models else "", *scores, mean, *spent, errors, less_evidence]


def average_cost(system: System, figure: str) -> float | None:
    """The average tokens, calls, seconds or cost in USD of a system's items."""
    observations = system.answered
    if figure == "tokens":
        return average([observation.tokens for observation in observations])
    return average(
        [observation.cost if figure == "cost" else observation.figure(figure) for observation in observations]
    )
