"""What a node says that is taken into somebody else's graph, where its state or its settings lack what it reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moot.core.errors import UserError


class Keys(dict[str, Any]):
    """A state whose missing keys are named in an error that says what to do.

    Args:
        state: what is there.
        node: who reads it.
    """

    def __init__(self, state: Mapping[str, Any], node: str) -> None:
        super().__init__(state)
        self._node = node

    def __missing__(self, key: str) -> Any:
        raise UserError(
            f"The node {self._node} reads the state's key {key!r}, which is not there. What it reads is named in the "
            "docstring of its factory; .mapped(reads, writes) takes it from keys of your own.",
            kind="missing_state",
        )


def no_settings(node: str) -> UserError:
    """The error of a node without settings."""
    return UserError(
        f"The node {node} has no settings: call the graph with context=Settings(...), or give it some with "
        ".having(Settings(...)).",
        kind="missing_settings",
    )


def no_setting(node: str, name: str | None, settings: Any) -> UserError:
    """The error of a node whose settings lack a field that it reads."""
    return UserError(
        f"The node {node} reads the setting {name!r}, which {type(settings).__name__} has not. Give it settings of a "
        "graph that has this node, or of a class of your own with that field.",
        kind="missing_settings",
    )
