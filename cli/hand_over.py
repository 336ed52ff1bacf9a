"""``moot export`` and ``moot import``: checks as one archive, for another moot."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from moot.cli.history import document_id
from moot.cli.report import read_document
from moot.core.errors import UserError
from moot.core.files import check_writable
from moot.core.words import count_with_noun
from moot.retrievers._evidence import clean
from moot.web import debates
from moot.web.hand_over import Counted, checks_of, checks_of_list, export_checks, import_checks


def export(names: Sequence[str], out: Path, list_id: str | None) -> int:
    """Writes the archive of checks, and returns the exit code."""
    if out.suffix.lower() != ".zip":
        raise UserError(f"--out takes a name that ends in .zip, not {out.name}.", kind="invalid_file")
    check_writable(out)
    checks = [*(check for name in names for check in _checks_named(name))]
    checks += checks_of_list(list_id) if list_id else []
    if not checks:
        raise UserError("Name checks by their ids (see `moot list`), or give --list.", kind="bad_request")
    counted = export_checks(dict.fromkeys(checks), out)
    print(f"{out}: {_in_words(counted)}, with the notes of editors.")  # noqa: T201
    return 0


def _checks_named(name: str) -> Iterable[str]:
    """The checks that an id names, or the documents in a folder of `moot batch`."""
    if not (folder := Path(name)).is_dir():
        return [debates.check_of(document_id(name))]
    ids = [str(read_document(file)["id"]) for file in sorted(folder.glob("*.json"))]
    known = {id: checks_of([id]) for id in ids}
    if left := [id for id, checks in known.items() if not checks]:
        raise UserError(
            f"{folder} has documents of checks that are not stored here: {', '.join(id[:8] for id in left[:5])}. "
            "Remove them, or name the checks by their ids.",
            kind="missing_file",
        )
    return [check for checks in known.values() for check in checks]


def import_(file: Path) -> int:
    """Adds the checks in an archive to the store, and returns the exit code: 2 if some were not added, else 0."""
    found = import_checks(file)
    here = f"; {count_with_noun(found.same, 'check')} here already" if found.same else ""
    print(f"Added: {_in_words(found)}{here}.")  # noqa: T201
    for one in found.decided:
        print(clean(f"  {one} (as the archive says, which is not signed)"))  # noqa: T201
    for why in found.refused:
        print(f"moot: {clean(why)}", file=sys.stderr)  # noqa: T201
    return 2 if found.refused else 0


def _in_words(counted: Counted) -> str:
    parts = (counted.checks, "check"), (counted.documents, "document")
    entries = f"{counted.entries:,} {'entry' if counted.entries == 1 else 'entries'} of their histories"
    return f"{', '.join(count_with_noun(*part) for part in parts)} and {entries}"
