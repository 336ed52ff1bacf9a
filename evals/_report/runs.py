"""Tables about runs: logs, settings, errors and warnings; and notes for the reader."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from moot.evals._report.comparison import Study
from moot.evals._report.scores import SYSTEM, TITLES
from moot.evals._report.tables import Cell, Table, columns, table
from moot.evals._runs.logs import LoggedRun
from moot.nodes._steps.score import average
from moot.retrievers._evidence import clean

LONGEST = 2000
"""Maximum number of characters shown of settings."""


def runs_table(study: Study) -> Table | None:
    """Every log that counts."""
    heads = [SYSTEM, *columns("count", seed=""), *columns("share", score=TITLES[study.headline])]
    heads += columns("count", items="", errors="", not_run="")
    heads += columns("text", status="", created="", log="", versions="")
    rows: list[list[Cell]] = []
    for system in study.measured:
        for run, items in zip(system.runs, system.items, strict=True):
            failed = sum(seen.outcome is None for seen in items.values())
            score = average([seen.scores.get(study.headline) for seen in items.values()])
            counts: list[Cell] = [len(items) - failed, failed, run.planned - len(items) or ""]
            said: list[Cell] = [run.status, run.created, run.file, run.versions]
            rows.append([system.label, "" if run.seed is None else run.seed, score, *counts, *said])
    return table("runs", "Runs", "One log each; items are those with an outcome.", heads, rows)


def settings_table(study: Study) -> Table | None:
    """The settings of each system, and the names that endpoints reported for its models."""
    heads = [SYSTEM, *columns("text", settings="", models="models (as endpoints name them)")]
    rows = []
    for system in study.measured:
        settings = {key: value for key, value in system.runs[0].settings.items() if key != "seed"}
        text = clean(json.dumps(settings, ensure_ascii=False, sort_keys=True, default=str))
        cut = f"{text[:LONGEST]}... ({len(text):,} characters)" if len(text) > LONGEST else text
        called = sorted({pair for seen in system.observations for pair in seen.models})
        models = [f"{model} ({reported})" if reported else model for model, reported in called]
        rows.append([system.label, cut, ", ".join(models)])
    return table("settings", "Settings", "As in the logs; all others are defaults.", heads, rows)


def errors_table(study: Study) -> Table | None:
    """Why items are missing."""
    heads = [SYSTEM, *columns("text", error=""), *columns("count", items=""), *columns("text", example="for example")]
    rows: list[list[Cell]] = []
    for system in study.measured:
        failed = [seen for seen in system.observations if seen.outcome is None]
        for kind, count in Counter(str(seen.error) for seen in failed).most_common():
            example = next(seen for seen in failed if str(seen.error) == kind)
            rows.append([system.label, kind, count, f"{example.id}: {example.detail}"])
    caption = "These items are missing data: they count in no score, neither as right nor as wrong."
    return table("errors", "Errors", caption, heads, rows)


def warnings_table(study: Study) -> Table | None:
    """Warnings: problems that did not end debates."""
    heads = [SYSTEM, *columns("text", warning=""), *columns("count", items="", times="")]
    rows: list[list[Cell]] = []
    for system in study.measured:
        items, times = Counter[str](), Counter[str]()
        for seen in system.observations:
            items.update(seen.warnings.keys())
            times.update(seen.warnings)
        rows += [[system.label, kind, items[kind], count] for kind, count in times.most_common()]
    return table("warnings", "Warnings", "By kind; a result document says where each arose.", heads, rows)


# --- notes ------------------------------------------------------------------------------------------------------------


def notes_of(study: Study) -> list[str]:
    """Notes on a study, shown beside its tables."""
    notes = [*study.notes, *_of_items(study), *_of_runs(study)]
    if study.model is None:
        notes.append("These systems have models of their own, or several: see the settings.")
    return list(dict.fromkeys(notes))


def _of_items(study: Study) -> Iterator[str]:
    """Notes on items that differ between systems or logs."""
    sets = {system.label: set(system.gold) for system in study.measured}
    everywhere, anywhere = set.intersection(*sets.values()), set.union(*sets.values())
    if len(everywhere) < len(anywhere):
        counts = ", ".join(f"{label} {len(ids)}" for label, ids in sets.items())
        yield (
            f"The systems were not measured on the same items: {len(everywhere)} of {len(anywhere)} are common to all "
            f"({counts}). Scores are of each system's own items; paired tests take those that both have."
        )
    golds: dict[str, set[tuple[str, ...]]] = {}
    for system in study.measured:
        for id, gold in system.gold.items():
            golds.setdefault(id, set()).add(gold)
    if differing := sorted(id for id, several in golds.items() if len(several) > 1):
        yield (
            f"The right answers of {len(differing)} items differ between logs (such as {differing[0]}); paired tests "
            "leave these items out."
        )
    if len(versions := {run.items for run in _runs(study)}) > 1:
        yield f"The logs are of {len(versions)} different sets of items, by their tasks' versions."
    if len(judges := {str(run.judge) for run in _runs(study)}) > 1:
        yield f"Answers in words were judged by different models: {', '.join(sorted(judges))}."


def _of_runs(study: Study) -> Iterator[str]:
    """Notes on incomplete runs, notes from logs, and unknown costs."""
    runs = _runs(study)
    said: dict[str, list[str]] = {}
    for run in runs:
        if run.status != "success":
            yield f"{run.file} ({run.system}): Inspect's status is {run.status}."
        if run.planned > len(run.observations):
            left = run.planned - len(run.observations)
            yield f"{run.file} ({run.system}): {left} of {run.planned} items were not run."
        for note in run.notes:
            said.setdefault(note, []).append(run.file)
    for note, files in said.items():
        yield f"{'all logs' if 1 < len(files) == len(runs) else ', '.join(files)}: {note}."
    if unpriced := unpriced_models(study):
        yield f"No price is known for {', '.join(unpriced)}: what they cost is unknown, and never zero; see --prices."
    for system in study.measured:
        if lost := sum(seen.document is None for seen in system.observations):
            yield (
                f"{system.label}: {lost} samples left no result document: what they took is unknown, and so is what "
                "all samples took."
            )
        if uncounted := sum(seen.tokens is None for seen in system.answered):
            yield f"{system.label}: the endpoint did not count all tokens of {uncounted} items."
        told = [seen.document for seen in system.observations if seen.document is not None]
        if kept := sum(document["from_ledger"] for document in told):
            calls = sum(document["calls"] for document in told)
            yield f"{system.label}: {kept} of {calls} calls came from the ledger and cost nothing."


def unpriced_models(study: Study) -> list[str]:
    """Models of items with known tokens but unknown cost, except models that have a known cost."""
    seen = [one for system in study.measured for one in system.answered if one.tokens is not None]
    priced = {model for one in seen if one.cost is not None for model, _ in one.models}
    return sorted({model for one in seen if one.cost is None for model, _ in one.models} - priced)


def _runs(study: Study) -> list[LoggedRun]:
    return [run for system in study.measured for run in system.runs]
