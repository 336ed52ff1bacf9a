"""Settings from the command line."""

from __future__ import annotations

import copy
import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from moot.core.errors import UserError
from moot.nodes.runtime.settings import Settings, checked_settings
from moot.retrievers.documents.children import read_document, unreadable
from moot.retrievers.documents.fetch import fetch, is_url
from moot.retrievers.documents.parse import Unreadable, kind_of, texts_of
from moot.retrievers.files import NAMES, READERS


def parse_settings(kind: type[Settings], pairs: Sequence[str], given: dict[str, Any]) -> Settings:
    """A graph's settings from ``KEY=VALUE`` pairs; dotted keys reach nested fields, later pairs win.

    Args:
        kind: the graph's settings.
        pairs: e.g. ``k=5``, ``models.judge=openai:gpt-4o``, ``debaters=[...]``; JSON where it parses, else text.
        given: settings that have options of their own.

    Raises:
        UserError: no ``=``, an unknown setting, a value out of its range.
    """
    return checked_settings(kind, parse_pairs(pairs, given, kind().model_dump(mode="json")))


def parse_pairs(
    pairs: Sequence[str], given: Mapping[str, Any] | None = None, defaults: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Plain values from ``KEY=VALUE`` pairs, over those that are given; ``defaults`` are what dotted keys reach into.

    Raises:
        UserError: no ``=``, or a dotted key that reaches nothing.
    """
    values: dict[str, Any] = copy.deepcopy(dict(given or {}))
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set takes KEY=VALUE, not {pair!r}.", kind="invalid_setting")
        put(values, key.strip(), text, defaults or {})
    return values


def parse_labels(text: str | None) -> list[str] | dict[str, str] | None:
    """Labels from the command line: CSV, in which quotation marks hold a comma, or a JSON list or object.

    Raises:
        UserError: JSON or CSV that is not valid, or no label.
    """
    if text is None:
        return None
    labels: list[str] | dict[str, str]
    if text.lstrip()[:1] in ("[", "{"):
        try:
            labels = json.loads(text)
        except ValueError as error:
            raise UserError(f"--labels is no valid JSON ({error}).", kind="invalid_task") from error
    else:
        try:
            rows = list(csv.reader(io.StringIO(text), skipinitialspace=True, strict=True))
        except csv.Error as error:
            raise UserError(f"--labels is no valid CSV ({error}).", kind="invalid_task") from error
        labels = [label.strip() for row in rows for label in row]
    if not labels:
        raise UserError("--labels names no label.", kind="invalid_task")
    return labels


def read_given(given: str | Path) -> list[Any]:
    """What a file or a page gives with a claim: of JSON Lines a text a line, of a document one for each page or
    heading, of ``.txt`` and ``.md`` one.

    Args:
        given: a file, or an address that begins with http:// or https://.

    Raises:
        UserError: it cannot be read, is of another kind, or a line is no JSON.
        WorldError: a page cannot be fetched.
    """
    if is_url(str(given)):
        found = fetch(str(given))
        more = {"source": urlsplit(found.from_url).hostname, "url": found.from_url}
        path = found.file
    else:
        path, more = Path(given), {"source": Path(given).name}
    try:
        kind = kind_of(path) if path.suffix.lower() != ".jsonl" else None
    except Unreadable as why:
        raise unreadable(path.name, why) from why
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).", kind="invalid_file") from error
    if kind:
        parsed = read_document(path, path.name, kind)
        return [{**text, **more} for text in texts_of(parsed, str(more["source"]))]
    if (suffix := path.suffix.lower()) not in READERS:
        raise UserError(f"--given takes {', '.join(NAMES)} files, not {path}.", kind="invalid_file")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text. Save the file as UTF-8.", kind="invalid_file") from error
    if suffix != ".jsonl":
        return [{"text": text, "title": str(given) if is_url(str(given)) else path.stem, **more}]
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    return [_read_line(line, f"{path}, line {number}") for number, line in lines]


def _read_line(line: str, where: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: no valid JSON ({error}).", kind="invalid_file") from error


def put(values: dict[str, Any], key: str, text: str, defaults: dict[str, Any]) -> None:
    """Puts a value at a dotted key; numbers in it count the elements of a list, from 0.

    Raises:
        UserError: a part of the key is already a plain value, or a list has no such element.
    """
    path = key.split(".")
    if defaults and path[0] not in defaults:  # no setting at all, as is said of it later
        values[path[0]] = text
        return
    if len(path) > 1 and path[1].isdecimal():
        values.setdefault(path[0], defaults.get(path[0], []))
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = text
    place: Any = values
    for i, part in enumerate(path):
        last = i + 1 == len(path)
        if isinstance(place, list):
            if not part.isdecimal() or int(part) >= len(place):
                raise UserError(f"--set {key}: the list has {len(place)} elements, from 0.", kind="invalid_setting")
            index: Any = int(part)
        elif isinstance(place, dict):
            index = part
        else:
            raise UserError(f"--set {key}: {path[i - 1]} is already a plain value.", kind="invalid_setting")
        if last:
            place[index] = value
        else:
            place = place[index] if isinstance(place, list) else place.setdefault(index, {})
