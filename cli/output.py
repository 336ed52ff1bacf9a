"""Writes JSON documents to a file, and prints them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moot.core.files import write_atomically, write_error


def write_document(
    document: dict[str, Any],
    *,
    as_json: bool,
    out: Path | None,
    render: Callable[[dict[str, Any]], str] | None = None,
) -> None:
    """Writes a document to a file if one is named, and prints it if ``as_json``.

    Args:
        document: the document.
        as_json: whether to print the document.
        out: the file; None for no file.
        render: renders the file's content; by default the document as JSON.

    Raises:
        UserError, WorldError: the file cannot be written. An old file is left unchanged, and the document is printed.
    """
    text = json.dumps(document, ensure_ascii=False, indent=2)
    if out is not None:
        try:
            write_atomically(out, render(document) if render else text + "\n")
        except OSError as error:  # the result may have cost money: print it instead of losing it
            print(text)  # noqa: T201
            raise write_error(out, error) from error
    if as_json:
        print(text)  # noqa: T201
