"""Tool-MAD with several kinds of tasks, its two versions, and its ablations, on the scripted endpoint."""

from __future__ import annotations

from typing import Any

from moot.graphs.tool_mad import ToolMadSettings, graph

from tests.conftest import MODELS, StartStub, says

ALL_MODELS = {**MODELS, "equivalence": "openai:stub-equivalence"}
VANILLA = [{"name": "rag"}, {"name": "search"}]
"""Debaters without sources."""


async def debate(given: Any, **settings: Any) -> dict[str, Any]:
    chosen = {"models": ALL_MODELS, "debaters": VANILLA, "scoring": "consensus_only", "max_rounds": 2, **settings}
    document: dict[str, Any] = await graph.ainvoke(given, context=ToolMadSettings.model_validate(chosen))
    return document


async def test_answers_do_not_agree_if_their_comparison_is_unusable(start_stub: StartStub) -> None:
    rules = [says("rag", "NYC"), says("search", "New York"), {"model": "stub-equivalence", "reply": "Perhaps."}]
    start_stub([*rules, says("judge", "New York")])
    document = await debate({"claim": "Where is it?", "task": "short_answer"}, max_rounds=1)
    assert (document["answer"], document["stop_reason"]) == ("New York", "max_rounds")
    assert [c["same"] for t in document["turns"] if t["step"] == "compare" for c in t["comparisons"]] == [None]
    assert "unparsed" in {w["kind"] for w in document["warnings"]}


# --- the two versions -------------------------------------------------------------------------------------------------


# --- ablations --------------------------------------------------------------------------------------------------------
