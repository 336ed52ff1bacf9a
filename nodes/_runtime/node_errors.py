"""Errors of nodes that have no settings, or that read a missing key of the state or a missing field of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moot.core.errors import UserError


class StateKeys(dict[str, Any]):
    """A state in which access to a missing key (``state[key]``) raises a `UserError` that names the remedy."""

    def __init__(self, state: Mapping[str, Any], node: str) -> None:
        super().__init__(state)
        self._node = node

    def __missing__(self, key: str) -> Any:
        raise UserError(
            f"The node {self._node} reads the state's key {key!r}, which is missing. The docstring of the node's "
            "factory lists the keys; .with_keys(reads, writes) converts from your keys.",
            kind="missing_state",
        )


def missing_settings_error(node: str) -> UserError:
    """The error of a node that has no settings."""
    return UserError(
        f"The node {node} has no settings: call the graph with context=Settings(...), give its own context a key "
        "'debate' with such settings, or set the node's settings with .with_settings(Settings(...)).",
        kind="missing_settings",
    )


def missing_setting_error(node: str, name: str | None, settings: Any) -> UserError:
    """The error of a node whose settings lack a field that the node reads."""
    return UserError(
        f"The node {node} reads the setting {name!r}, which {type(settings).__name__} does not have. Use settings of a "
        "graph that has this node, or of your own class with that field.",
        kind="missing_settings",
    )
