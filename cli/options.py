"""Settings from the command line."""

from __future__ import annotations

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
    values: dict[str, Any] = dict(given)
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set takes KEY=VALUE, not {pair!r}.", kind="invalid_setting")
        put(values, key.strip(), text)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problems = "; ".join(problem(kind, e) for e in error.errors()[:5])
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
        return labels
    return [label.strip() for label in text.split(",")]


def put(values: dict[str, Any], key: str, text: str) -> None:
    """Puts a value at a dotted key.

    Raises:
        UserError: a part of the key is already a plain value.
    """
    *path, last = key.split(".")
    place: Any = values
    for part in path:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            raise UserError(f"--set {key}: {part} is already a plain value.", kind="invalid_setting")
    try:
        place[last] = json.loads(text)
    except ValueError:
        place[last] = text


def problem(kind: type[Settings], error: Any) -> str:
    """One of Pydantic's errors in a sentence."""
    place = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        known = ", ".join(sorted(kind.model_fields))
        return f"There is no setting {place!r}; known are {known}"
    return (
        f"{place}: {error['msg'].removeprefix('Value error, ')} (given: {json.dumps(error['input'], default=str)[:80]})"
    )
