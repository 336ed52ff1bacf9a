"""Select Inspect's logs of debate systems on moot's benchmarks: one log for each run, even if the run was retried."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from moot.core.errors import UserError
from moot.evals._benchmarks.catalogue import benchmark_names
from moot.evals._stats.measures import load_extra
from moot.retrievers._evidence import clean

IDENTITY_FIELDS = ("system", "graph", "benchmark", "model", "seed", "control", "of", "settings")
"""Metadata that identify the run of a log, if the log has no key."""
LOG_PATTERNS = ("*.eval", "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T*.json")
"""Patterns for the names of logs. Of Inspect's JSON files, only logs have names that begin with the time."""
UNREADABLE = (OSError, ValueError, LookupError, RuntimeError, zipfile.BadZipFile)
"""Inspect's exceptions for a damaged log, or for a file that is not a log."""


class LoggedShard(NamedTuple):
    """A shard of a run, and the number of items of all its shards (`moot.evals._runs.shards`)."""

    number: int
    of: int
    items: int


@dataclass(frozen=True)
class Header:
    """A log without its samples, and moot's metadata in it."""

    path: Path
    log: Any
    metadata: Mapping[str, Any]

    @property
    def identity(self) -> str:
        """The identity that a log and its retries share: the system with its settings, the items, and the judge.

        The identity is the log's key, which does not depend on the system's label, with the number of the log's shard.
        If the log has no key but names the system, the identity consists of `IDENTITY_FIELDS`, the items and the judge.
        Otherwise, it is Inspect's task id.
        """
        if "key" in self.metadata:
            return str(self.metadata["key"]) + (f" {self.shard.number}/{self.shard.of}" if self.shard else "")
        if "system" in self.metadata:
            identity = [*(self.metadata.get(name) for name in IDENTITY_FIELDS), self.items, self.arguments.get("judge")]
            return json.dumps(identity, sort_keys=True, default=str)
        return str(self.log.eval.task_id)

    @property
    def shard(self) -> LoggedShard | None:
        """The shard whose items the log has; None if it has all items."""
        return None if (noted := self.metadata.get("shard")) is None else LoggedShard(**noted)

    @property
    def label(self) -> str:
        """The system's label; empty if the log does not name it."""
        return clean(str(self.metadata.get("system") or ""))

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The task's arguments, such as ``data``, ``limit`` and ``judge``."""
        return self.log.eval.task_args or {}

    @property
    def items(self) -> str:
        """A digest of the benchmark's items, which is the task's version; empty if the task has no version."""
        return clean(str(self.log.eval.task_version or ""))

    @property
    def of_key(self) -> str | None:
        """The key of the log of the debate to which a control or an attack belongs; None for other systems."""
        keys = (step.params.get("of") for step in self.log.plan.steps)
        return next((str(key) for key in keys if key), None)

    @property
    def planned_count(self) -> int:
        """The number of items that were planned; 0 if the log does not list them."""
        return len({str(id) for id in self.log.eval.dataset.sample_ids or ()})

    @property
    def created(self) -> str:
        """The date and time of the log's creation in ISO format."""
        return str(self.log.eval.created)


def find_logs(paths: Sequence[Path]) -> list[Path]:
    """All log files, each once: the named files, and the logs at any depth in the named folders."""
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise UserError(f"There is no file or folder {path}. Name logs, or folders of logs.", kind="missing_file")
        files = sorted(file for name in LOG_PATTERNS for file in path.rglob(name)) if path.is_dir() else [path]
        found |= {file.resolve(): file for file in files if file.resolve() not in found}
    return list(found.values())


def read_headers(files: Sequence[Path]) -> tuple[list[Header], list[str]]:
    """The logs of debate systems on moot's benchmarks, without their samples, and notes about the other files."""
    headers, notes = [], []
    read = load_extra("inspect_ai.log").read_eval_log
    for file in files:
        try:
            log = read(str(file), header_only=True)
        except UNREADABLE as error:
            notes.append(f"{file.name}: it cannot be read as a log ({clean(str(error))[:120]}); left out.")
            continue
        metadata = log.metadata.get("moot") or {}
        if metadata.get("benchmark") in benchmark_names():
            headers.append(Header(file, log, metadata))
        else:
            named = metadata.get("benchmark")
            reason = (
                f"its benchmark {clean(str(named))!r} is unknown" if named else "it is not a log of moot's benchmarks"
            )
            notes.append(f"{file.name}: {reason}; left out.")
    return headers, notes


def without_superseded(headers: Sequence[Header]) -> tuple[list[Header], list[str]]:
    """Keep one log of each identity, and make notes about the others."""
    groups: dict[str, list[Header]] = {}
    for header in headers:
        groups.setdefault(header.identity, []).append(header)
    kept_ids: set[int] = set()
    notes = []
    for group in groups.values():
        succeeded = [header for header in group if header.log.status == "success"]
        best = max(succeeded, key=lambda h: h.created) if succeeded else max(group, key=_count_and_date)
        kept_ids.add(id(best))
        notes += [_superseded_note(header, best) for header in group if header is not best]
    return [header for header in headers if id(header) in kept_ids], notes


def _superseded_note(header: Header, best: Header) -> str:
    renamed = f" (there, {header.label} is called {best.label})" if header.label != best.label else ""
    return f"{header.path.name}: superseded by {best.path.name}{renamed}; left out."


def _count_and_date(header: Header) -> tuple[int, str]:
    """The number of samples in a log (0 if the log does not list its items), then the date of the log."""
    read = load_extra("inspect_ai.log").read_eval_log_sample_summaries
    return len(read(str(header.path))) if header.planned_count else 0, header.created
