"""Tool-MAD's debaters: the reasons for another round, the evidence that they keep, and the basis of their answers."""

from __future__ import annotations

from typing import Any, cast

import pytest
from moot.graphs.tool_mad import ToolMadSettings, graph
from moot.transcript import round_sections

from tests.conftest import MODELS, READERS, StartStub, says

CLAIM = "The kilogram is no longer defined by a metal cylinder kept in France."


async def debate(asked: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    models = MODELS | {"equivalence": "openai:stub-equivalence"}
    given = {"models": models, "debaters": READERS, "embedder": "openai:stub-embedding", "max_rounds": 2, **settings}
    document: dict[str, Any] = await graph.ainvoke(
        cast(Any, {"claim": CLAIM, **(asked or {})}), context=ToolMadSettings.model_validate(given)
    )
    assert (document["status"], document["error"]) == ("done", None)
    return document


@pytest.mark.parametrize(
    ("task", "answer"), [("medqa", "A"), ("gsm8k", "4"), ("hotpotqa", "Paris"), ("fever", "SUPPORTS")]
)
async def test_faithfulness_counts_only_if_answers_must_follow_from_the_evidence(
    start_stub: StartStub, task: str, answer: str
) -> None:
    question, must_follow = "Which one is it?", task in ("hotpotqa", "fever")
    scorer = [{"model": "stub-scorer", "fields": {"questions": [question] * 3, "statements": []}}]
    stub = start_stub([*(says(role, answer) for role in ("rag", "search", "judge")), *scorer])
    asked = {"claim": question, "task": task} | ({"options": ["Iron", "Zinc"]} if task == "medqa" else {})
    document = await debate(asked, max_rounds=1)
    assert document["stop_reason"] == ("max_rounds" if must_follow else "stable_consensus")
    given = [turn["scores"] for turn in document["turns"] if turn["step"] == "respond"]
    assert [scores["faithfulness"] for scores in given] == [None, None]
    judged = [prompt for prompt in stub.prompts("stub-scorer") if "`statements`" in prompt]
    assert [("and takes from the evidence" in prompt) for prompt in judged] == [not must_follow] * 2
    assert ("score_missing" in [warned["kind"] for warned in document["warnings"]]) == must_follow
    output = [line.text for section in round_sections(document) for line in section.lines]
    assert any("faithfulness not applicable; answer relevance 1.00 >= 0.80" in text for text in output) != must_follow
    assert any("not stable (rag's faithfulness, search's faithfulness" in text for text in output) == must_follow
