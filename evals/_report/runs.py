"""Tables about runs (logs, settings, errors and warnings), and notes for the reader.

A function for a table returns None if the table would have no row.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from moot.evals._report.comparison import Study
from moot.evals._report.scores import SYSTEM, TITLES
from moot.evals._report.tables import Cell, Table, columns, make_table
from moot.evals._runs.logs import LoggedRun
from moot.nodes._steps.score import average
from moot.retrievers._evidence import clean

LONGEST_SETTINGS = 2000
"""Maximum number of characters of settings that are shown."""


def runs_table(study: Study) -> Table | None:
    """The logs of all systems: a row for each run."""
    heads = [SYSTEM, *columns("count", seed=""), *columns("share", score=TITLES[study.first_measure])]
    heads += columns("count", items="", errors="", not_run="")
    heads += columns("text", status="", created="", log="", versions="")
    rows: list[list[Cell]] = []
    for system in study.measured:
        for run, items in zip(system.runs, system.items, strict=True):
            failed = sum(observation.outcome is None for observation in items.values())
            score = average([observation.scores.get(study.first_measure) for observation in items.values()])
            counts: list[Cell] = [len(items) - failed, failed, run.planned_count - len(items) or ""]
            texts: list[Cell] = [run.status, run.created, run.file, run.versions]
            rows.append([system.label, "" if run.seed is None else run.seed, score, *counts, *texts])
    return make_table("runs", "Runs", "Each row is a log. Items without an outcome count as errors.", heads, rows)


def settings_table(study: Study) -> Table | None:
    """Each system's settings, except the seed, and its models with the names that endpoints reported for them."""
    heads = [SYSTEM, *columns("text", settings="", models="models (as endpoints name them)")]
    rows = []
    for system in study.measured:
        settings = {key: value for key, value in system.runs[0].settings.items() if key != "seed"}
        text = clean(json.dumps(settings, ensure_ascii=False, sort_keys=True, default=str))
        cut = f"{text[:LONGEST_SETTINGS]}... ({len(text):,} characters)" if len(text) > LONGEST_SETTINGS else text
        reported_models = sorted({pair for observation in system.observations for pair in observation.models})
        models = [f"{model} ({reported})" if reported else model for model, reported in reported_models]
        rows.append([system.label, cut, ", ".join(models)])
    caption = "Settings are as in the logs, without the seed. Settings that are not in the logs have their defaults."
    return make_table("settings", "Settings", caption, heads, rows)


def errors_table(study: Study) -> Table | None:
    """The number of missing items by the kind of error, with an example."""
    heads = [SYSTEM, *columns("text", error=""), *columns("count", items=""), *columns("text", example="for example")]
    rows: list[list[Cell]] = []
    for system in study.measured:
        failed = [observation for observation in system.observations if observation.outcome is None]
        for kind, count in Counter(str(observation.error) for observation in failed).most_common():
            example = next(observation for observation in failed if str(observation.error) == kind)
            rows.append([system.label, kind, count, f"{example.id}: {example.detail}"])
    caption = (
        "These items are missing data: only the table of policies has scores that count them, as wrong or as right."
    )
    return make_table("errors", "Errors", caption, heads, rows)


def warnings_table(study: Study) -> Table | None:
    """The number of items with each kind of warning, and the number of these warnings."""
    heads = [SYSTEM, *columns("text", warning=""), *columns("count", items="", times="warnings")]
    rows: list[list[Cell]] = []
    for system in study.measured:
        items, times = Counter[str](), Counter[str]()
        for observation in system.observations:
            items.update(observation.warnings.keys())
            times.update(observation.warnings)
        rows += [[system.label, kind, items[kind], count] for kind, count in times.most_common()]
    return make_table(
        "warnings", "Warnings", "Warnings by kind; result documents say where each warning occurred.", heads, rows
    )


# --- notes ------------------------------------------------------------------------------------------------------------


def study_notes(study: Study) -> list[str]:
    """Notes on a study, shown beside its tables."""
    notes = [*study.notes, *_item_notes(study), *_run_notes(study)]
    if study.model is None:
        notes.append(
            "No single model was set for these systems, so their roles may have different models (see the settings)."
        )
    return list(dict.fromkeys(notes))


def _item_notes(study: Study) -> Iterator[str]:
    """Notes about items and judges that differ between systems or logs."""
    sets = {system.label: set(system.gold) for system in study.measured}
    everywhere, anywhere = set.intersection(*sets.values()), set.union(*sets.values())
    if len(everywhere) < len(anywhere):
        counts = ", ".join(f"{label} {len(ids)}" for label, ids in sets.items())
        yield (
            f"The systems were not measured on the same items: {len(everywhere)} of {len(anywhere)} are common to all "
            f"({counts}). Scores of systems are over the common items with an outcome, paired tests over the items "
            "that both systems have, and the other tables over all items of a system."
        )
    golds: dict[str, set[tuple[str, ...]]] = {}
    for system in study.measured:
        for id, gold in system.gold.items():
            golds.setdefault(id, set()).add(gold)
    if differing := sorted(id for id, answers in golds.items() if len(answers) > 1):
        yield (
            f"The right answers of {len(differing)} items differ between systems (for example, item {differing[0]}). "
            "Scores of systems leave these items out, and so do paired tests of systems that differ in them."
        )
    if len(versions := {run.items for run in _all_runs(study)}) > 1:
        yield f"The logs have {len(versions)} different sets of items, according to their tasks' versions."
    if len(judges := {run.judge or "none" for run in _all_runs(study)}) > 1:
        yield f"Free-text answers were judged by different models: {', '.join(sorted(judges))}."


def _run_notes(study: Study) -> Iterator[str]:
    """Notes about incomplete runs and about costs, and the notes in the logs."""
    runs = _all_runs(study)
    files_by_note: dict[str, list[str]] = {}
    for run in runs:
        if run.status != "success":
            yield f"{run.file} ({run.system}): Inspect's status is {run.status}."
        if run.planned_count > len(run.observations):
            left = run.planned_count - len(run.observations)
            yield f"{run.file} ({run.system}): {left} of {run.planned_count} items were not run."
        for note in run.notes:
            files_by_note.setdefault(note, []).append(run.file)
    for note, files in files_by_note.items():
        yield f"{'all logs' if 1 < len(files) == len(runs) else ', '.join(files)}: {note}."
    if unpriced := unpriced_models(study):
        yield (
            f"No price is known for {', '.join(unpriced)}. The cost of calls without a price is unknown, not zero; see "
            "--prices."
        )
    for system in study.measured:
        if without_document := sum(observation.document is None for observation in system.observations):
            yield (
                f"{system.label}: {without_document} samples have no result document, so their cost and the total cost "
                "are unknown."
            )
        if uncounted := sum(observation.tokens is None for observation in system.answered):
            yield f"{system.label}: the endpoint did not count all tokens of {uncounted} items."
        documents = [observation.document for observation in system.observations if observation.document is not None]
        if from_store := sum(document["from_store"] for document in documents):
            calls = sum(document["calls"] for document in documents)
            yield (
                f"{system.label}: {from_store} of {calls} replies were stored by an earlier run; costs include them, "
                "and the seconds of these items are unknown."
            )


def unpriced_models(study: Study) -> list[str]:
    """The models whose price seems to be unknown."""
    observations = [
        observation for system in study.measured for observation in system.answered if observation.tokens is not None
    ]
    priced = {model for observation in observations if observation.cost is not None for model, _ in observation.models}
    return sorted(
        {model for observation in observations if observation.cost is None for model, _ in observation.models} - priced
    )


def _all_runs(study: Study) -> list[LoggedRun]:
    return [run for system in study.measured for run in system.runs]
