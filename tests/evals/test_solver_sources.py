"""Evaluations do not search the fact checks of others."""

from __future__ import annotations

from typing import Any

import pytest
from moot.core.errors import UserError
from moot.evals._runs.solver import debate


@pytest.mark.parametrize(
    ("graph", "settings"),
    [
        ("rag", {"sources": ["fact_checks"]}),
        ("rag", {"fallback": ["fact_checks"]}),
        ("tool_mad", {"debaters": [{"name": "a", "retriever": ["bm25", "fact_checks"]}, {"name": "b"}]}),
    ],
)
def test_an_evaluation_refuses_the_source_of_fact_checks(graph: str, settings: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="may have the answers"):
        debate(graph, **settings)
    debate(graph)
