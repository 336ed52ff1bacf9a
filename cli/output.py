"""Writes JSON documents to a file, and prints them; says at the start what the demonstration model can do."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from moot.core.files import write_atomically, write_error


def note_demonstration(models: Collection[str], results: str = "verdicts") -> None:
    """Prints on standard error what to expect of the demonstration model, if it is one of the models.

    Args:
        models: the names of the models.
        results: the word for the models' results.
    """
    if any(name.startswith("embedded:") for name in models):
        text = f"it only shows how moot runs, and its {results} mean nothing. It may take minutes."
        print(f"moot: the demonstration model answers (135 million parameters): {text}", file=sys.stderr)  # noqa: T201


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
