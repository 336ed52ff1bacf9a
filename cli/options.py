"""Settings from the command line."""

from __future__ import annotations

import copy
import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from moot.core.config import operators_model
from moot.core.errors import UserError
from moot.nodes._runtime.settings import Settings, checked_settings, with_usual_model


def parse_settings(kind: type[Settings], pairs: Sequence[str], given: dict[str, Any], graph: str = "") -> Settings:
    """A graph's settings from ``KEY=VALUE`` pairs. Dotted keys set nested fields; later pairs override earlier pairs.

    Args:
        kind: the graph's settings.
        pairs: e.g. ``k=5``, ``models.judge=openai:gpt-4o``, ``debaters=[...]``; values are read as JSON, else as text.
        given: settings from options such as ``--model``; the pairs override them.
        graph: the graph's name, for errors.

    Raises:
        UserError: as `parse_pairs`; or a setting is unknown, or a value is not valid.
    """
    return chosen_settings(kind, parse_pairs(pairs, given, kind().model_dump(mode="json")), graph)


def chosen_settings(kind: type[Settings], values: Mapping[str, Any], graph: str = "") -> Settings:
    """A graph's settings from values of the command line and the configuration; see `checked_settings`.

    The model of MOOT_MODEL is added here, so that an error about it names the variable.
    """
    usual = {"model"} if values.get("model") == operators_model() else set()
    return with_usual_model(checked_settings(kind, {k: v for k, v in values.items() if k not in usual}, graph))


def with_evidence(
    system: Any, pairs: Sequence[str], values: Mapping[str, Any], evidence: str, *, given: bool
) -> dict[str, Any]:
    """The settings of ``--evidence`` for a system; ``values`` are its settings without ``pairs``."""
    from moot.graphs._evidence import evidence_settings

    chosen = parse_pairs(pairs, values, system.settings().model_dump(mode="json"))
    return evidence_settings(system.settings, evidence.split(","), chosen, graph=system.name, given=given)


def parse_pairs(
    pairs: Sequence[str], given: Mapping[str, Any] | None = None, defaults: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Plain values from ``KEY=VALUE`` pairs, which override ``given``; dotted keys set nested values.

    Args:
        pairs: the pairs.
        given: values that the pairs change.
        defaults: all settings with their defaults. If KEY has no value yet, ``KEY.N`` sets an element of its default
            list.

    Raises:
        UserError: a pair has no ``=`` or no key; or as `set_at_key`.
    """
    values: dict[str, Any] = copy.deepcopy(dict(given or {}))
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set takes KEY=VALUE, not {pair!r}.", kind="invalid_setting")
        set_at_key(values, key.strip(), text, defaults or {})
    return values


def parse_labels(text: str | None) -> list[str] | dict[str, str] | None:
    """Labels from the command line; None for None.

    Args:
        text: labels as CSV, or as a JSON list or object. In CSV, a label that contains a comma is in quotation marks.

    Raises:
        UserError: the JSON or CSV is not valid, or there is no label.
    """
    if text is None:
        return None
    labels: list[str] | dict[str, str]
    if text.lstrip()[:1] in ("[", "{"):
        try:
            labels = json.loads(text)
        except ValueError as error:
            raise UserError(f"--labels is not valid JSON ({error}).", kind="invalid_task") from error
    else:
        try:
            rows = list(csv.reader(io.StringIO(text), skipinitialspace=True, strict=True))
        except csv.Error as error:
            raise UserError(f"--labels is not valid CSV ({error}).", kind="invalid_task") from error
        labels = [label.strip() for row in rows for label in row]
    if not labels:
        raise UserError("--labels names no label.", kind="invalid_task")
    return labels


def read_sites(text: str) -> list[str]:
    """Sites from an option: domains with commas between them, or a file with one a line (after #: a comment)."""
    lines = _lines_of(Path(text)) if Path(text).is_file() else text.split(",")
    return [site for line in lines if (site := line.partition("#")[0].strip())]


def read_site_labels(path: Path) -> dict[str, str]:
    """A user's labels by site, from a CSV file with a domain and a label (or a weight) in each row.

    Raises:
        UserError: the file cannot be read, or a row has no label.
    """
    labels: dict[str, str] = {}
    for number, row in enumerate(csv.reader(_lines_of(path)), 1):
        cells = [cell.strip() for cell in row if cell.strip()]
        if number == 1 and cells[:1] in (["domain"], ["site"]):
            continue
        if len(cells) == 1:
            raise UserError(f"{path}, row {number}: {cells[0][:100]!r} has no label.", kind="invalid_file")
        if cells:
            labels[cells[0]] = ", ".join(cells[1:])
    return labels


def _lines_of(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as UTF-8 text ({error}).", kind="invalid_file") from error


def set_at_key(values: dict[str, Any], key: str, text: str, defaults: dict[str, Any]) -> None:
    """Sets the value at a dotted key; a number in the key is the index of a list element, from 0.

    Args:
        values: the values; they are changed.
        key: the dotted key.
        text: the value as JSON; if it is not valid JSON, the text itself is the value.
        defaults: as for `parse_pairs`. If ``defaults`` is not empty and lacks the setting, ``text`` is stored
            unchanged.

    Raises:
        UserError: a part of the key is already a plain value, or a list has no such element.
    """
    path = key.split(".")
    if defaults and path[0] not in defaults:  # an unknown setting: validation reports it later
        values[path[0]] = text
        return
    if len(path) > 1 and path[1].isdecimal():
        values.setdefault(path[0], defaults.get(path[0], []))
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = text
    target: Any = values
    for i, part in enumerate(path):
        last = i + 1 == len(path)
        if isinstance(target, list):
            if not part.isdecimal() or int(part) >= len(target):
                raise UserError(
                    f"--set {key}: the list has {len(target)} elements, numbered from 0.", kind="invalid_setting"
                )
            index: Any = int(part)
        elif isinstance(target, dict):
            index = part
        else:
            raise UserError(f"--set {key}: {path[i - 1]} is already a plain value.", kind="invalid_setting")
        if last:
            target[index] = value
        else:
            target = target[index] if isinstance(target, list) else target.setdefault(index, {})
