"""Settings from the command line."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

from moot.nodes.settings import Settings
from moot.retrievers.errors import UserError
from pydantic import ValidationError


def parse_settings(kind: type[Settings], pairs: Sequence[str], given: dict[str, Any]) -> Settings:
    """A graph's settings from ``KEY=VALUE`` pairs; dotted keys reach nested fields, later pairs win.

    Args:
        kind: the graph's settings.
        pairs: e.g. ``k=5``, ``models.judge=openai:gpt-4o``, ``debaters=[...]``; JSON where it parses, else text.
        given: settings that have options of their own.

    Raises:
        UserError: no ``=``, an unknown setting, a value out of its range.
    """
    values: dict[str, Any] = copy.deepcopy(given)
    defaults = kind().model_dump(mode="json")
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set takes KEY=VALUE, not {pair!r}.", kind="invalid_setting")
        put(values, key.strip(), text, defaults)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problems = "; ".join(dict.fromkeys(problem(kind, e) for e in error.errors()[:5]))
        raise UserError(f"{problems}. See: moot settings GRAPH", kind="invalid_setting") from error


def parse_labels(text: str | None) -> list[str] | dict[str, str] | None:
    """Labels from the command line: texts between commas, or a JSON list or object."""
    if text is None:
        return None
    if text.lstrip()[:1] in ("[", "{"):
        try:
            labels: list[str] | dict[str, str] = json.loads(text)
        except ValueError as error:
            raise UserError(f"--labels is no valid JSON ({error}).", kind="invalid_task") from error
        if not labels:
            raise UserError("--labels names no label.", kind="invalid_task")
        return labels
    return [label.strip() for label in text.split(",")]


def put(values: dict[str, Any], key: str, text: str, defaults: dict[str, Any]) -> None:
    """Puts a value at a dotted key; numbers in it count the elements of a list, from 0.

    Raises:
        UserError: a part of the key is already a plain value, or a list has no such element.
    """
    path = key.split(".")
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


def problem(kind: type[Settings], error: Any) -> str:
    """One of Pydantic's errors in a sentence."""
    place = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden" and len(error["loc"]) > 1:
        return f"{'.'.join(map(str, error['loc'][:-1]))}: there is no field {error['loc'][-1]!r}"
    if error["type"] == "extra_forbidden":
        known = ", ".join(sorted(kind.model_fields))
        return f"There is no setting {place!r}; known are {known}"
    if error["type"] == "string_pattern_mismatch" and "model" in place:
        return f"{place.split('.constrained')[0]}: name a model as provider:name, not {json.dumps(error['input'])[:80]}"
    said = error["msg"].removeprefix("Value error, ").replace("Tuple", "The list").replace(" after validation", "")
    if not place:
        return str(said)
    return f"{place}: {said} (given: {json.dumps(error['input'], default=str)[:80]})"
