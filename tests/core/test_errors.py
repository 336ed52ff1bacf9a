"""Errors suggest a similar name for a misspelt name. Errors for wrong settings name the command `moot settings`."""

from __future__ import annotations

from typing import Any

import pytest
from moot.core.errors import UserError, did_you_mean
from moot.graphs import load_graph
from moot.graphs._registry import DESCRIPTIONS, OTHER_GRAPHS
from moot.nodes._runtime.settings import checked_settings


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("max_round", ["max_seconds", "max_rounds"], "max_rounds"),
        ("max-rounds", ["max_rounds"], "max_rounds"),
        ("tool_mat", ["tool_mad"], "tool_mad"),
        ("temprature", ["temperature"], "temperature"),
        ("max_rounds", ["max_seconds"], ""),  # the names only share a word
        ("min_cost", ["max_cost"], ""),
    ],
)
def test_only_a_similar_name_is_suggested(name: str, known: list[str], meant: str) -> None:
    assert did_you_mean(name, known) == (f"Did you mean {meant}? " if meant else "")
    unlike: Any = 5
    assert did_you_mean(unlike, known) == ""


@pytest.mark.parametrize("graph", [*DESCRIPTIONS, *OTHER_GRAPHS])
def test_an_error_for_a_wrong_setting_names_moot_settings(graph: str) -> None:
    """If `checked_settings` is called without the graph's name, the error does not name `moot settings`."""
    kind = load_graph(graph, others=True).settings
    with pytest.raises(UserError, match=f"See: moot settings {graph}$"):
        checked_settings(kind, {"nonsense": 1}, graph)
    with pytest.raises(UserError) as caught:
        checked_settings(kind, {"nonsense": 1})
    assert "See:" not in caught.value.detail
