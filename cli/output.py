"""Result documents: printed, or written to a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from moot.core.errors import UserError


def check_writable(file: Path) -> None:
    """Sees before the work that its document can be written.

    Raises:
        UserError: it cannot.
    """
    if not file.parent.is_dir():
        raise UserError(f"There is no folder {file.parent} to write {file.name} to.", kind="missing_file")
    there = file.exists()
    try:
        file.open("a").close()
    except OSError as error:
        raise UserError(f"{file} cannot be written ({error.strerror}).", kind="missing_file") from error
    if not there:
        file.unlink()


def give(document: dict[str, Any], *, as_json: bool, out: Path | None) -> None:
    """Writes a document to a file, where one is named, and prints it, where that is wanted.

    Raises:
        UserError: the file cannot be written.
    """
    text = json.dumps(document, ensure_ascii=False, indent=2)
    if out is not None:
        try:
            out.write_text(text + "\n", encoding="utf-8")
        except OSError as error:  # what was paid for is shown rather than lost
            print(text)  # noqa: T201
            raise UserError(f"{out} cannot be written ({error.strerror}).", kind="missing_file") from error
    if as_json:
        print(text)  # noqa: T201
