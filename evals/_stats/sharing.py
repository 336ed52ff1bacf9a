"""Equal parts of observations are kept in memory once: most debates have the same agents, labels, counts and scores."""

from __future__ import annotations

from collections import Counter
from dataclasses import is_dataclass
from typing import Any, TypeVar

T = TypeVar("T")
SMALL = (bool, int, float, type(None))
"""Types whose values are not worth sharing."""


class SharedParts:
    """Replaces parts of values by equal parts of earlier values; values that are shared must never be changed."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def share(self, value: T) -> T:
        """An equal value, whose parts are those of earlier values wherever these are equal."""
        shared: T = self._shared(value)[1]
        return shared

    def _shared(self, value: Any) -> tuple[Any, Any]:
        """A key that only equal values of one type have, and the shared value."""
        kind = type(value)
        if kind is str:
            return value, self._known.setdefault(value, value)
        if kind in SMALL:
            return (kind, value), value
        if isinstance(value, list | tuple):
            pairs = [*map(self._shared, value)]
            key = (kind, *[key for key, _ in pairs])
        elif kind is dict or kind is Counter or is_dataclass(value):
            parts = value if isinstance(value, dict) else vars(value)
            pairs = [*map(self._shared, parts.values())]
            key = (kind, *parts, *[key for key, _ in pairs])
        else:
            return id(value), value  # of a type whose copies may not be equal
        if (known := self._known.get(key)) is not None:
            return key, known
        shared = [part for _, part in pairs]
        if isinstance(value, list | tuple):
            copied = kind._make(shared) if hasattr(kind, "_make") else kind(shared)
        else:
            names = map(self._shared, parts)
            copied = dict(zip([name for _, name in names], shared, strict=True))
            copied = copied if kind is dict else kind(copied) if kind is Counter else kind(**copied)
        return key, self._known.setdefault(key, copied)
