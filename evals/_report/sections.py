"""What a report consists of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from moot.evals._report.drawing import Picture
from moot.evals._report.findings import NO_FINDINGS, Findings
from moot.evals._report.tables import Table


@dataclass(frozen=True)
class Section:
    """A study in a report; the names of its files begin with ``name``."""

    name: str
    title: str
    benchmark: str
    licence: str
    model: str | None
    data: str
    tables: tuple[Table, ...]
    notes: tuple[str, ...]
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class Report:
    """A report: its sections, its findings, its tables over all studies, and notes that belong to no single section."""

    sections: tuple[Section, ...]
    notes: tuple[str, ...]
    created: str
    moot_version: str
    overview: Table | None = None
    findings: Findings = NO_FINDINGS
    published: Table | None = None
    across: Table | None = None
    methods: str = ""
    paper: Callable[[], Mapping[str, str | bytes]] = dict
    """Makes the files for a paper, by their paths; they are drawn only if a report is written."""
