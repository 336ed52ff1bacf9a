"""Which of Inspect's logs count: those of debate systems on moot's benchmarks, and of several tries the right one."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moot.evals.benchmarks import BENCHMARKS
from moot.evals.measures import package
from moot.retrievers.errors import UserError
from moot.retrievers.evidence import clean

IDENTITY = ("system", "graph", "benchmark", "model", "seed", "control", "of", "settings")
"""What moot's metadata of a log say of the system that was run."""
UNREADABLE = (OSError, ValueError, LookupError, RuntimeError, zipfile.BadZipFile)
"""What Inspect raises for a file that is no log, or a damaged one."""


@dataclass(frozen=True)
class Header:
    """A log without its samples, and moot's own metadata of it."""

    path: Path
    log: Any
    facts: Mapping[str, Any]

    @property
    def identity(self) -> str:
        """What a log and its retry have in common."""
        if "system" in self.facts:
            return json.dumps([self.facts.get(name) for name in IDENTITY], sort_keys=True, default=str)
        return str(self.log.eval.task_id)

    @property
    def planned(self) -> int:
        """How many items there were to be run."""
        return len({str(id) for id in self.log.eval.dataset.sample_ids or ()})

    @property
    def created(self) -> str:
        """The ISO moment."""
        return str(self.log.eval.created)


def find_logs(paths: Sequence[Path]) -> list[Path]:
    """Every log file, each once: those named, then those in the folders, by name (which begins with the time).

    Raises:
        UserError: a path that does not exist.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise UserError(f"There is no file or folder {path}. Name .eval files, or folders.", kind="missing_file")
        files = sorted(path.rglob("*.eval")) if path.is_dir() else [path]
        found |= {file.resolve(): file for file in files if file.resolve() not in found}
    return list(found.values())


def read_headers(files: Sequence[Path]) -> tuple[list[Header], list[str]]:
    """The logs of debate systems on moot's benchmarks, without samples; notes about the other files.

    Raises:
        UserError: Inspect is not installed.
    """
    headers, notes = [], []
    read = package("inspect_ai.log").read_eval_log
    for file in files:
        try:
            log = read(str(file), header_only=True)
        except UNREADABLE as error:
            notes.append(f"{file.name}: it cannot be read as a log ({clean(str(error))[:120]}); left out.")
            continue
        facts = (log.eval.metadata or {}).get("moot") or {}
        if facts.get("benchmark") in BENCHMARKS:
            headers.append(Header(file, log, facts))
        else:
            named = facts.get("benchmark")
            why = f"its benchmark {clean(str(named))!r} is unknown" if named else "it is no log of moot's benchmarks"
            notes.append(f"{file.name}: {why}; left out.")
    return headers, notes


def without_superseded(headers: Sequence[Header]) -> tuple[list[Header], list[str]]:
    """One log of each identity, and notes about the others.

    Of logs that succeeded it is the one of most items, and of several the newest; where none did, the one that holds
    most samples.
    """
    groups: dict[str, list[Header]] = {}
    for header in headers:
        groups.setdefault(header.identity, []).append(header)
    kept: set[int] = set()
    notes = []
    for group in groups.values():
        succeeded = [header for header in group if header.log.status == "success"]
        best = max(succeeded, key=lambda h: (h.planned, h.created)) if succeeded else max(group, key=_held)
        kept.add(id(best))
        notes += [f"{h.path.name}: superseded by {best.path.name}; left out." for h in group if h is not best]
    return [header for header in headers if id(header) in kept], notes


def _held(header: Header) -> tuple[int, str]:
    """How many samples a log holds, then when it was made."""
    read = package("inspect_ai.log").read_eval_log_sample_summaries
    return len(read(str(header.path))) if header.planned else 0, header.created
