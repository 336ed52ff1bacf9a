"""``moot eval audit``: lists the items on which systems agree against the label, for a person to decide."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer
from moot.cli.output import write_document
from moot.core.files import check_writable, write_atomically, write_error
from moot.core.words import count_with_noun
from moot.evals._analyses.audit import (
    OWN,
    Agreement,
    AuditFile,
    is_touched,
    merged,
    read_audit_file,
    read_audited,
    rows_to_decide,
    written,
)


def audit_logs(logs: Sequence[Path], out: Path, at_least: int, agreement: Agreement, *, as_json: bool) -> None:
    """Writes the file of decisions; rows into which a person has written stay as they are.

    Raises:
        UserError: the logs or the file cannot be used.
        WorldError: the file cannot be written.
    """
    check_writable(out)
    known = read_audit_file(out) if out.exists() else AuditFile()
    items, notes = read_audited(logs)
    fresh = list(rows_to_decide(items, at_least, agreement))
    file = merged(known, fresh)
    try:
        write_atomically(out, written(file))
    except OSError as error:
        raise write_error(out, error) from error
    decided = sum(is_touched(row) for _, row in file.rows)
    runs = "all runs gave" if agreement == "all" else "more than half of the runs gave"
    rule = f"{runs} the same answer, at least {at_least} of them, and it is not the label"
    document = {
        "file": str(out),
        "rule": rule,
        "items": len(items),
        "listed": len(fresh),
        "rows": len(file.rows),
        "with_words_of_a_person": decided,
        "notes": notes,
    }
    write_document(document, as_json=as_json, out=None)
    if as_json:
        return
    typer.echo(f"{len(fresh)} of {count_with_noun(len(items), 'item')} listed: {rule}.")
    if decided:
        typer.echo(f"{count_with_noun(decided, 'row')} with words of a person kept as they were.")
    typer.echo(f"Written to {out}. Fill in {', '.join(OWN)}; then: moot eval compare LOGS --audit {out}")
    for note in notes:
        typer.echo(note, err=True)
