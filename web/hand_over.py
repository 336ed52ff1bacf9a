"""Handing over: checks as one archive, which another moot opens.

An archive has, for each check, the documents of all versions, with the text, the hash and the quotes of each page that
was read; their reports; and the history of what editors decided, with its hashes and their notes. Everything here
blocks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import sqlalchemy as sa
from moot.core.archives import ArchiveKind, FileList, ListedFile, new_archive
from moot.core.errors import MootError, UserError
from moot.core.files import read_bounded
from moot.core.fingerprints import moot_version
from moot.core.reviews import PAST, History, checked_history, history_of, join_history
from moot.core.store import in_parts, open_store
from moot.core.tables import documents, rows
from moot.transcript.report.report import report
from moot.web import debates
from moot.web.kept import HEX, ID, LARGEST, Document, id_time, parse_document, parse_stored
from moot.web.reviews import FOR_APPROVERS, report_of

LIST = "checks.json"
"""The name of the list of the files in an archive."""
HISTORY = "history.jsonl"
NAME = re.compile(rf"checks/[0-9a-f]{{32}}/(?:{ID.pattern}\.(?:json|html)|history\.jsonl)")
"""The names of the files in an archive."""
MOST_BYTES = 4 * 2**30
"""Maximum number of bytes of all files in an archive, unpacked."""


class CheckList(FileList):
    """The list of an archive of checks."""

    moot_checks: Literal[1]


ARCHIVE = ArchiveKind("checks", LIST, CheckList, NAME, MOST_BYTES)


@dataclass
class Counted:
    """The number of checks, of documents and of entries of histories."""

    checks: int = 0
    documents: int = 0
    entries: int = 0


@dataclass
class Imported(Counted):
    """What was added to the store, the number of checks that were here already, and why others were not added.

    ``decided`` has the decisions that were added, in words: an archive is not signed, so it may name anybody.
    """

    same: int = 0
    refused: list[str] = field(default_factory=list)
    decided: list[str] = field(default_factory=list)


# --- out --------------------------------------------------------------------------------------------------------------


def checks_of_list(id: str) -> list[str]:
    """The checks of a list of claims, of the page or of ``moot batch``, that have a document."""
    keys = sa.select(rows.c.key).where(rows.c.batch == id).order_by(rows.c.number)
    found = debates.read(lambda connection: connection.scalars(keys).all())
    checks = checks_of(found)
    if not checks:
        raise UserError(f"There is no list {id[:40]!r} with a check that has ended.", kind="missing_file")
    return checks


def checks_of(of_debates: Iterable[str]) -> list[str]:
    """The checks to which debates belong, each once; those without a document are left out."""
    query = sa.select(documents.c.debate, documents.c.of_check).where(debates.mine())
    asked = list(of_debates)

    def find(connection: sa.Connection) -> dict[str, str]:
        parts = (connection.execute(query.where(documents.c.debate.in_(some))) for some in in_parts(asked))
        return {row.debate: row.of_check for found in parts for row in found}

    known = debates.read(find)
    return list(dict.fromkeys(known[id] for id in asked if id in known))


def export_checks(checks: Iterable[str], file: Path) -> Counted:
    """Writes the archive of checks."""
    counted = Counted()
    files: dict[str, ListedFile] = {}
    with new_archive(file) as archive:
        for check in checks:
            counted.checks += 1
            contents: dict[str, bytes] = {}
            for stem in debates.versions(check):
                contents[f"checks/{check}/{stem}.json"] = debates.content_of(stem)
                contents[f"checks/{check}/{stem}.html"] = report_of(stem, "html").encode()
                counted.documents += 1
            history = history_of(open_store(), check)
            counted.entries += len(history)
            lines = (json.dumps({"entry": one.model_dump_json(), "hash": one.hash}) + "\n" for one in history)
            contents[f"checks/{check}/{HISTORY}"] = "".join(lines).encode()
            files |= {name: ARCHIVE.add(archive, name, content) for name, content in contents.items()}
        about = CheckList(moot_checks=1, version=moot_version(), files=files)
        archive.writestr(LIST, about.model_dump_json(indent=1))
    return counted


# --- in ---------------------------------------------------------------------------------------------------------------


@dataclass
class Packed:
    """A check in an archive: its documents by their ids, and its history."""

    check: str
    documents: dict[str, Document]
    history: History


def import_checks(file: Path) -> Imported:
    """Adds the checks in an archive to the store. Each is added completely or not at all, and nothing is changed.

    Nothing is added if some file of the archive is damaged, or not what its name says.
    """
    with TemporaryDirectory(prefix="moot-checks-") as folder:
        place = Path(folder) / "unpacked"
        about = ARCHIVE.unpack(file, place)
        unpacked: dict[str, list[Path]] = {}
        for name in about.files:  # the documents of a check in the order of its versions
            unpacked.setdefault(name.split("/")[1], []).append(place / name)
        for check, paths in unpacked.items():
            for document in _read(file, paths, check).documents.values():
                report(document, "md")  # so that no document is stored that cannot be shown
        imported, store = Imported(), open_store()
        for check, paths in unpacked.items():
            try:
                packed = _read(file, paths, check)
                n_documents, n_entries = store.do(partial(_add, packed=packed))
            except UserError as error:
                imported.refused.append(f"{check[:8]}: {error.detail}")
                continue
            imported.documents += n_documents
            imported.entries += n_entries
            imported.checks += bool(n_documents or n_entries)
            imported.same += not (n_documents or n_entries)
            added = packed.history[len(packed.history) - n_entries :]
            imported.decided += [
                f"{check[:8]}: {PAST[one.action]} by {one.person}" for one in added if one.action in FOR_APPROVERS
            ]
    return imported


def _read(file: Path, paths: Sequence[Path], check: str) -> Packed:
    """Reads and checks a check that was unpacked, from its files."""
    found: dict[str, Document] = {}
    name = ""
    try:
        for path in paths:
            if path.suffix != ".json":
                continue
            name = path.name
            document = parse_document(read_bounded(path, LARGEST))
            named = (document.get("replaces") or {}).get("check") or document["id"]
            if named != check or not path.stem.startswith(f"{id_time(document)}-"):
                raise UserError("It is the document of another check.", kind="invalid_file")
            found[path.stem] = document
        name = HISTORY
        lines = read_bounded(paths[0].parent / HISTORY, LARGEST).decode().splitlines()
        stored = [json.loads(line) for line in lines]
        history = checked_history([(str(one["entry"]), str(one["hash"])) for one in stored], check)
        if not found:
            raise UserError("It has no document of this check.", kind="invalid_file")
    except MootError as error:
        raise UserError(
            f"{file} cannot be imported: {check[:8]}, {name}: {error.detail}", kind="invalid_file"
        ) from error
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        why = f"{type(error).__name__}: {str(error)[:100]}"
        raise UserError(
            f"{file} cannot be imported: {check[:8]}, {name} is damaged ({why}).", kind="invalid_file"
        ) from error
    return Packed(check, found, history)


def _add(connection: sa.Connection, packed: Packed) -> tuple[int, int]:
    """Adds a check to the store; returns the numbers of added documents and entries."""
    n_entries = join_history(open_store(), connection, packed.check, packed.history)
    here = sa.select(documents.c.id, documents.c.content).where(documents.c.id.in_([*packed.documents]))
    known = {row.id: row.content for row in connection.execute(here)}
    count = 0
    for stem, document in packed.documents.items():
        new = debates.new_document(document)
        if stem not in known:
            debate = document["id"] if HEX.fullmatch(document["id"]) else stem[-32:]
            whose = {"debate": debate, "of_check": packed.check, "person": None}
            connection.execute(sa.insert(documents).values(**new.row(stem), **whose))
            count += 1
        elif parse_stored(debates.text_of(stem, known[stem])) != document:
            raise UserError(
                f"Its document {stem} is another one than the document here. Nothing of this check was added. To keep "
                "both, import it under another MOOT_HOME.",
                kind="review_conflict",
            )
    return count, n_entries
