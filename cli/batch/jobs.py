"""The debates of each row of a batch. A debate keeps its id on every run, unless its input or settings change."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from moot.cli.options import chosen_settings, parse_pairs, with_evidence
from moot.cli.resuming import check_models, check_packages, note_reading
from moot.core.errors import UserError
from moot.evals._benchmarks.claim_files import BadRow, ClaimRow
from moot.graphs import load_graph
from moot.nodes._runtime.settings import EvidenceSettings, Settings
from moot.nodes._texts.task import TASKS
from moot.retrievers._languages import DEFAULT
from moot.transcript.language import check_language
from moot.web.repeats import doubt_of, same_claim

SAFE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,59}")
"""Ids that can be file names unchanged, unless `RESERVED` matches them."""
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)|.*-[0-9a-f]{16}", re.IGNORECASE)
"""Ids that cannot be file names: Windows device names, and names of the form that `file_name` makes from other ids."""


@dataclass(frozen=True)
class BatchOptions:
    """The options of the command line that apply to every row.

    Args:
        systems: the debate systems; a row that names no system runs on each.
        asked: the input of the debates, except the claim.
        pairs: settings, as ``KEY=VALUE``.
        named: settings from options such as ``--model``. They override ``defaults``, and ``pairs`` override them.
        defaults: the default settings of `moot.core.config`.
        evidence: the words of ``--evidence``; systems that do not search ignore them if the batch has several.
        language: the language of all reports; None for that of each claim.

    Raises:
        UserError: as the method `settings`; there are no texts in the language; or there are several systems, and a
            pair names a setting that none has.
    """

    systems: Sequence[str]
    asked: Mapping[str, Any]
    pairs: Sequence[str]
    named: Mapping[str, Any]
    defaults: Mapping[str, Any]
    evidence: str | None = None
    language: str | None = None

    def __post_init__(self) -> None:
        if self.language is not None:
            check_language(self.language)
        known = {name for system in self.systems for name in load_graph(system).settings.model_fields}
        for pair in self.pairs:
            if len(self.systems) > 1 and (name := _setting_name(pair)) and name not in known:
                raise UserError(f"None of the systems has a setting {name!r}.", kind="invalid_setting")
        for system in self.systems:
            self.settings(system, {})

    def settings(self, system: str, own: Mapping[str, Any]) -> Settings:
        """The settings of a row's debate; ``own`` ones override all others, and pairs of other systems are ignored."""
        kind = load_graph(system).settings
        several = len(self.systems) > 1
        pairs = [pair for pair in self.pairs if not several or _setting_name(pair) in kind.model_fields]
        values = {"preset": "practical", **self.defaults, **self.named}
        if self.evidence is not None and (not several or issubclass(kind, EvidenceSettings)):
            texts = bool(self.asked.get("given"))
            values |= with_evidence(load_graph(system), pairs, {**values, **own}, self.evidence, given=texts)
        given = parse_pairs(pairs, values, kind().model_dump(mode="json"))
        settings = chosen_settings(kind, {**given, **own}, system)
        if getattr(settings, "ask_person", ()):
            raise UserError("A batch cannot ask a person: leave out `ask_person`.", kind="invalid_setting")
        return settings


@dataclass(frozen=True)
class Job:
    """A debate of a row, as plain JSON values, so that another process can run it.

    Args:
        number: the number of the row.
        name: the name of the debate's files, without a suffix.
        system: the debate system.
        key: the debate's id. It stays the same on every run, unless the debate's input or settings change.
        asked: the debate's input.
        settings: the debate's settings.
        most: if several processes run the batch, the tokens, USD and calls that this debate may take, including its
            earlier runs; empty if the batch has no such ceilings, or one process that runs all rows.
        written: the row's cells in the file, for the table.
        language: the language of the report, if the claim's own one is not certain.
        asked_language: the language of the report that was asked for; None for the claim's.
    """

    number: int
    name: str
    system: str
    key: str
    asked: Mapping[str, Any]
    settings: Mapping[str, Any]
    most: Sequence[float] = ()
    written: Sequence[str] = ()
    language: str = DEFAULT
    asked_language: str | None = None


def jobs_of(row: ClaimRow, name: str, options: BatchOptions, batch: str, language: str) -> list[Job]:
    """The debates of a row."""
    several = len(options.systems) > 1
    if row.graph and several:
        raise UserError(
            "The row names a graph, and --graphs names several: leave out the row's graph or --graphs.",
            kind="bad_request",
        )
    asked, jobs = row.input_of(options.asked), []
    for system in [row.graph] if row.graph else options.systems:
        settings = options.settings(system, row.settings).model_dump(mode="json")
        about = (row.number, f"{name}.{system}" if several else name, system, "", asked, settings)
        job = Job(*about, written=row.written, language=language, asked_language=options.language)
        jobs.append(replace(job, key=debate_key(batch, row.id, job)))
    return jobs


def debate_key(batch: str, row: str, job: Job) -> str:
    """The id of a debate of a batch's row."""
    content = json.dumps([batch, row, job.system, job.asked, job.settings], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()[:32]


def doubt_of_row(row: ClaimRow, shared: Mapping[str, Any]) -> str:
    """Why the row is probably no claim (`doubt_of`); empty if it may be one, or if its task needs no sentence."""
    asked = row.input_of(shared)
    named = asked.get("task") or ("choice" if asked.get("options") else "labels")
    return doubt_of(row.claim) if named not in TASKS or TASKS[named].kind == "labels" else ""


def content_of(job: Job) -> bytes:
    """What a debate depends on. Debates of two rows with equal contents are the same debate, so that one is enough."""
    asked = {**job.asked, "claim": same_claim(job.asked["claim"])}
    content = json.dumps([job.system, asked, job.settings], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(content.encode(errors="surrogatepass")).digest()


def check_first_row(rows: Iterable[ClaimRow | BadRow], options: BatchOptions, *, here: bool = True) -> None:
    """Checks the models of the first row whose settings are valid; if it runs ``here``, also the packages. Blocking.

    Says on standard error what reading pages takes.
    """
    for row in rows:
        if isinstance(row, BadRow):
            continue
        systems = [row.graph] if row.graph else options.systems
        try:
            chosen = [(options.settings(system, row.settings), load_graph(system)) for system in systems]
        except UserError:
            continue  # the row becomes a bad row
        for settings, system in chosen:
            if here:
                check_packages(settings, system)
            check_models(settings, system)
            note_reading(settings, system)
        return


def file_name(id: str, *, taken: bool = False) -> str:
    """A safe file name for any id: no path, no device and, if it is ``taken`` but for case, not that of another id."""
    if SAFE_ID.fullmatch(id) and not RESERVED.fullmatch(id) and not taken:
        return id
    readable = re.sub(r"[^A-Za-z0-9_]+", "-", id).strip("-")[:40] or "row"
    return f"{readable}-{hashlib.sha256(id.encode(errors='surrogatepass')).hexdigest()[:16]}"


def _setting_name(pair: str) -> str:
    return pair.partition("=")[0].strip().partition(".")[0]
