"""Abstentions: an agent that was shown evidence may answer that the evidence does not tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moot.graphs import load_graph
from moot.nodes._texts.answers import ABSTENTION

from tests.conftest import DEMO, MODELS, StartStub, reading_demo, says

GIVEN = [{"text": "The mill in the valley had two bells.", "title": "The mill"}]
ASKED: Mapping[str, Any] = {"claim": "Who built the mill?", "task": "short_answer", "given": GIVEN}
DEBATERS = [{"name": "rag"}, {"name": "search"}]
ALL_MODELS = {**MODELS, "equivalence": "openai:stub-equivalence"}


async def debate(name: str = "tool_mad", asked: Mapping[str, Any] = ASKED, **settings: Any) -> dict[str, Any]:
    system = load_graph(name)
    quick = {"scoring": "consensus_only", "debaters": DEBATERS, "max_rounds": 1, "models": ALL_MODELS}
    known = {**quick, **settings} if name == "tool_mad" else {**reading_demo(system.settings), **settings}
    document: dict[str, Any] = await system.graph.ainvoke(dict(asked), context=system.settings.model_validate(known))
    return document


async def test_no_model_compares_an_abstention_with_an_answer(start_stub: StartStub) -> None:
    stub = start_stub([says("rag", ABSTENTION), says("search", "Ada"), says("judge", "Ada")])
    document = await debate()
    assert (document["answer"], document["stop_reason"]) == ("Ada", "max_rounds")
    assert "abstained" not in document["metrics"]
    assert [vote["group"] for vote in document["votes"]] == [0, 1]
    assert not stub.prompts("equivalence")
    assert f"Answer: {ABSTENTION}" in stub.prompts("judge")[0] or f">\n{ABSTENTION}\n<" in stub.prompts("judge")[0]


async def test_a_judge_may_abstain(start_stub: StartStub) -> None:
    start_stub([says("rag", "Bea"), says("search", "Ada"), says("judge", "Insufficient evidence.")])
    document = await debate(models={**ALL_MODELS, "equivalence": "openai:stub-none"})
    assert (document["answer"], document["raw_verdict"], document["stop_reason"]) == (None, ABSTENTION, "max_rounds")


async def test_a_summariser_may_not_abstain_if_no_debater_abstains(start_stub: StartStub) -> None:
    models = {"debater-1": "openai:stub-d", "debater-2": "openai:stub-e"}
    settings: dict[str, Any] = {"models": models, "sources": DEMO}
    start_stub([says("d", "Ada"), says("e", "Bea"), {"fields": {"answer": "Unknown", "selected": []}}])
    document = await debate("madke", model="openai:stub", **settings)
    assert document["error"]["kind"] == "unparsed"


async def test_debaters_without_evidence_may_not_abstain(start_stub: StartStub) -> None:
    stub = start_stub([{"fields": {"answer": "Unknown"}}])
    claim_only = {key: value for key, value in ASKED.items() if key != "given"}
    document = await debate("madke", claim_only, model="openai:stub", sources=[])
    assert ABSTENTION not in "".join(stub.prompts())
    assert document["error"]["kind"] == "unparsed"


async def test_a_label_worded_like_an_abstention_is_an_ordinary_answer(start_stub: StartStub) -> None:
    start_stub([{"fields": {"answer": ABSTENTION}}])
    asked = {"claim": "The mill is old.", "labels": ["true", ABSTENTION]}
    document = await debate("standard_prompting", asked, model="openai:stub")
    assert document["answer"] == ABSTENTION
    assert "abstained" not in document["metrics"]
