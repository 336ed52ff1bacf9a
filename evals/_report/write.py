"""A report that compares systems: its studies with their tables, notes and pictures, and its files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from moot.core.errors import UserError
from moot.core.files import write_atomically, write_error
from moot.evals._analyses.audit import read_decisions
from moot.evals._report import analyses, effects
from moot.evals._report import debates as report_debates
from moot.evals._report.audited import Decisions, audited_table
from moot.evals._report.comparison import Study, check_baseline, studies_of
from moot.evals._report.confidence import calibration_table, reliability_table, selective_table, thresholds_table
from moot.evals._report.findings import findings_of
from moot.evals._report.html import html_page
from moot.evals._report.overview import overview_table
from moot.evals._report.papers import methods_paragraph, paper_files
from moot.evals._report.pictures import draw_pictures
from moot.evals._report.published import published_table
from moot.evals._report.runs import errors_table, runs_table, settings_table, study_notes, warnings_table
from moot.evals._report.scores import (
    confusion_table,
    costs_table,
    labels_table,
    seeds_table,
    strata_table,
    systems_table,
)
from moot.evals._report.sections import Report, Section
from moot.evals._report.tables import Table, as_csv, as_latex, as_markdown, as_records
from moot.evals._report.tests import (
    Comparison,
    across_table,
    comparisons_of,
    differences_table,
    policies_table,
    stated_comparisons,
)
from moot.evals._runs.logs import LoggedRun, read_runs
from moot.evals._runs.stated import StatedTest
from moot.evals._stats.significance import Family
from moot.nodes._models.prices import cost_of, read_prices
from moot.transcript.templates import escaped


def compare(
    paths: Sequence[Path],
    *,
    against: str | None = None,
    tests: Sequence[StatedTest] = (),
    prices: Path | None = None,
    audit: Path | None = None,
) -> Report:
    """Compare the systems in logs. Blocking.

    ``tests``: the tests to make. Without them, and without ``against``, the tests are those that the logs' plans state;
    without these, each system is compared with its controls and with the first system. ``audit``: a file of decisions
    on labels (`moot.evals._analyses.audit`).
    """
    decisions = read_decisions(audit) if audit else {}
    table_of_prices = read_prices(prices)
    runs, notes = read_runs(paths, partial(cost_of, prices=table_of_prices))
    studies = studies_of(runs)
    check_baseline(studies, against)
    family, description, family_notes = family_of(runs)
    stated = list(dict.fromkeys(tests or ([] if against else [test for run in runs for test in run.tests])))
    across: list[Comparison] = []
    if stated:
        compared, across = stated_comparisons(studies, stated, family)
        description = description.replace("all tests of this report", "all tests that were stated")
    else:
        compared = comparisons_of(studies, against, family)
    pairs = list(zip(studies, compared, strict=True))
    sections = tuple(
        _make_section(n, study, tests, description, decisions) for n, (study, tests) in enumerate(pairs, 1)
    )
    notes += family_notes
    created, overview = datetime.now(UTC).isoformat(timespec="seconds"), overview_table(studies)
    findings = findings_of(pairs, family, across)
    between = across_table(across, description)
    published = published_table(studies)
    every = [*chain.from_iterable(compared), *across]
    methods = methods_paragraph(studies, every, family)
    report = Report(sections, tuple(notes), created, version("moot"), overview, findings, published, between, methods)
    return replace(report, paper=partial(paper_files, studies, every, methods))


def family_of(runs: Sequence[LoggedRun]) -> tuple[Family, str, list[str]]:
    """Which tests Holm's correction covers together, from the runs' plans."""
    stated = {run.family for run in runs}
    benchmark_tests = "those of this benchmark and model"
    if stated == {"benchmark"}:
        return "benchmark", f"{benchmark_tests}, the family that the plan states", []
    all_tests = "all tests of this report"
    if stated == {"report"}:
        return "report", f"{all_tests}, the family that the plan states (or its default)", []
    notes = [
        "The plans of the logs do not all state the same family of tests, so all tests of this report are one family."
    ]
    return (
        "report",
        f"{all_tests}, the default, because the plans state no common family",
        notes if len(stated) > 1 else [],
    )


def _make_section(number: int, study: Study, tests: Sequence[Comparison], family: str, decisions: Decisions) -> Section:
    table_functions: list[Callable[[Study], Table | None]] = [
        *(systems_table, partial(audited_table, decisions=decisions)),
        *(partial(differences_table, compared=tests, family=family), labels_table, confusion_table),
        *(costs_table, seeds_table, policies_table, calibration_table, reliability_table, selective_table),
        thresholds_table,
        *(*effects.TABLES, *report_debates.TABLES, *analyses.TABLES, strata_table),
        *(errors_table, warnings_table, runs_table, settings_table),
    ]
    tables = tuple(table for make in table_functions if (table := make(study)) is not None)
    notes = study_notes(study)
    if not tests:
        notes.append("Nothing is tested here: there is no baseline, or the stated tests name others.")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{number}-{study.benchmark.name}-{study.model or 'models'}")[:80]
    benchmark = study.benchmark
    return Section(name, study.title, benchmark.name, benchmark.licence, study.model, study.data, tables, tuple(notes))


def with_pictures(section: Section) -> Section:
    """A copy of a section with its pictures, which are drawn from its tables."""
    drawn = tuple(draw_pictures({table.key: table for table in section.tables}))
    return Section(**{**vars(section), "pictures": drawn})


def report_tables(report: Report) -> list[Table]:
    """The tables of a report that cover all its studies."""
    return [table for table in (report.overview, report.across, report.published) if table]


def as_document(report: Report) -> dict[str, Any]:
    """A report as plain JSON, without its pictures."""
    return {
        "moot_version": report.moot_version,
        "compared_at": report.created,
        "notes": list(report.notes),
        "headline": report.findings.headline,
        "findings": list(report.findings.sentences),
        "methods": report.methods,
        "not_measured": [{"what": what, "why": why} for what, why in report.findings.not_measured],
        "tables": {table.key: as_records(table) for table in report_tables(report)},
        "studies": [
            {
                "benchmark": section.benchmark,
                "model": section.model,
                "data": section.data,
                "licence": section.licence,
                "notes": list(section.notes),
                "tables": {table.key: as_records(table) for table in section.tables},
            }
            for section in report.sections
        ],
    }


# --- files ------------------------------------------------------------------------------------------------------------


def create_folders(folder: Path) -> None:
    """Create the folder for a report, and its subfolders."""
    try:
        for part in (folder, folder / "tables", folder / "pictures", folder / "paper"):
            part.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"The folder {folder} cannot be created ({error.strerror}).", kind="missing_file") from error


def write_report(report: Report, folder: Path) -> list[Path]:
    """Write ``report.md``, ``report.html``, tables (CSV, LaTeX), pictures (SVG, PNG, PDF), and files for papers."""
    create_folders(folder)
    sections = tuple(map(with_pictures, report.sections))
    report = replace(report, sections=sections)
    files: dict[str, str | bytes] = {"report.md": markdown_page(report), "report.html": html_page(report)}
    files |= report.paper()
    tables = {table.key: table for table in report_tables(report)}
    for section in sections:
        tables |= {f"{section.name}-{table.key}": table for table in section.tables}
        for picture in section.pictures:
            files[f"pictures/{section.name}-{picture.key}.svg"] = picture.svg
            files[f"pictures/{section.name}-{picture.key}.png"] = picture.png
            files[f"pictures/{section.name}-{picture.key}.pdf"] = picture.pdf
    for name, table in tables.items():
        files |= {f"tables/{name}.csv": as_csv(table), f"tables/{name}.tex": as_latex(table, f"tab:{name}")}
    try:
        for name, content in files.items():
            write_atomically(folder / name, content)
    except OSError as error:
        raise write_error(folder / name, error) from error
    return [folder / "report.md", folder / "report.html"]


def markdown_page(report: Report) -> str:
    """A report in Markdown, with links to its pictures."""
    lines = [f"# {escaped(report.findings.headline)}", f"moot {report.moot_version}, {report.created}."]
    lines += [*_bullets(report.findings.sentences), *map(as_markdown, report_tables(report))]
    lines += ["### Methods", escaped(report.methods)]
    lines += ["### What was not measured", *_bullets([f"{what}: {why}" for what, why in report.findings.not_measured])]
    lines += _bullets(report.notes)
    for section in report.sections:
        lines += [f"## {escaped(section.title)}", f"Licence of the data: {escaped(section.licence)}."]
        lines += _bullets(section.notes)
        drawn = {picture.table_key: picture for picture in section.pictures}
        for table in section.tables:
            lines.append(as_markdown(table))
            if picture := drawn.get(table.key):
                lines.append(f"![{escaped(picture.alt)}](pictures/{section.name}-{picture.key}.svg)")
    return "\n\n".join(lines) + "\n"


def _bullets(notes: Sequence[str]) -> list[str]:
    return ["\n".join(f"- {escaped(note)}" for note in notes)] if notes else []
