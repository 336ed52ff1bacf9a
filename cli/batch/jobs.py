"""The debates of each row of a batch. A debate keeps its id on every run, unless its input or settings change."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moot.cli.options import chosen_settings, parse_pairs
from moot.cli.resuming import check_models, check_packages
from moot.core.errors import UserError
from moot.evals._benchmarks.claim_files import BadRow, ClaimRow
from moot.graphs import load_graph
from moot.nodes._runtime.settings import Settings

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
        named: settings from options such as ``--model``. They override ``preset``, and ``pairs`` override them.
        preset: the default settings of `moot.core.config`, overridden by a preset's settings.

    Raises:
        UserError: as the method `settings`; or there are several systems, and a pair names a setting that none has.
    """

    systems: Sequence[str]
    asked: Mapping[str, Any]
    pairs: Sequence[str]
    named: Mapping[str, Any]
    preset: Mapping[str, Any]

    def __post_init__(self) -> None:
        known = {name for system in self.systems for name in load_graph(system).settings.model_fields}
        for pair in self.pairs:
            if len(self.systems) > 1 and (name := _setting_name(pair)) and name not in known:
                raise UserError(f"None of the systems has a setting {name!r}.", kind="invalid_setting")
        for system in self.systems:
            self.settings(system, {})

    def settings(self, system: str, own: Mapping[str, Any]) -> Settings:
        """The settings of a row's debate.

        Args:
            system: the debate system. If the batch has several systems, pairs for settings that this system lacks are
                ignored.
            own: the row's settings, which override all other settings.

        Raises:
            UserError: the system or a setting is unknown, a pair has no ``=``, a value is not valid, or the debate
                would ask a person.
        """
        kind = load_graph(system).settings
        several = len(self.systems) > 1
        pairs = [pair for pair in self.pairs if not several or _setting_name(pair) in kind.model_fields]
        given = parse_pairs(pairs, {**self.preset, **self.named}, kind().model_dump(mode="json"))
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
    """

    number: int
    name: str
    system: str
    key: str
    asked: Mapping[str, Any]
    settings: Mapping[str, Any]
    most: Sequence[float] = ()


def jobs_of(row: ClaimRow, name: str, options: BatchOptions, batch: str) -> list[Job]:
    """The debates of a row.

    Args:
        row: the row.
        name: the name of the row's files, without a suffix.
        options: the options for all rows.
        batch: the batch's id.

    Raises:
        UserError: the row's system or settings are not valid, or the row names a system although ``options`` have
            several.
    """
    several = len(options.systems) > 1
    if row.graph and several:
        raise UserError(
            "The row names a graph, and --graphs names several: leave out the row's graph or --graphs.",
            kind="bad_request",
        )
    given = [*options.asked["given"], *({"title": title, "text": text} for title, text in row.given)]
    own = {"claim": row.claim, "labels": list(row.labels), "claim_date": row.claim_date, "speaker": row.speaker}
    asked = {**options.asked, **{key: value for key, value in own.items() if value}, "given": given}
    jobs = []
    for system in [row.graph] if row.graph else options.systems:
        settings = options.settings(system, row.settings).model_dump(mode="json")
        content = json.dumps([batch, row.id, system, asked, settings], sort_keys=True, ensure_ascii=False)
        key = hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()[:32]
        jobs.append(Job(row.number, f"{name}.{system}" if several else name, system, key, asked, settings))
    return jobs


def check_first_row(rows: Iterable[ClaimRow | BadRow], options: BatchOptions, *, here: bool = True) -> None:
    """Checks the models of the first row whose settings are valid; if it runs ``here``, also the packages. Blocking.

    Raises:
        UserError: as `check_models` and `check_packages`; or the file of claims cannot be read.
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
        return


def file_name(id: str, *, taken: bool = False) -> str:
    """A safe file name for any id. It is never a path, a device or the name for another id.

    Args:
        id: the row's id.
        taken: whether another id, which differs only in case, already has the name without a hash.
    """
    if SAFE_ID.fullmatch(id) and not RESERVED.fullmatch(id) and not taken:
        return id
    readable = re.sub(r"[^A-Za-z0-9_]+", "-", id).strip("-")[:40] or "row"
    return f"{readable}-{hashlib.sha256(id.encode(errors='surrogatepass')).hexdigest()[:16]}"


def _setting_name(pair: str) -> str:
    return pair.partition("=")[0].strip().partition(".")[0]
