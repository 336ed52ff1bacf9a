"""Abstentions: an agent that was shown evidence may answer that the evidence does not tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from moot.evals._stats.observations import round_answers
from moot.evals._stats.outcomes import ABSTAINED, outcome_of
from moot.graphs import load_graph
from moot.nodes._texts.answers import ABSTENTION
from moot.nodes._texts.verdict import outcome_in_words
from moot.transcript import ending

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


@pytest.mark.parametrize("other", [ABSTENTION, "The evidence does not tell.", "the texts don't say", "not known"])
async def test_abstention_of_all_agents_is_a_consensus_without_a_verdict(start_stub: StartStub, other: str) -> None:
    stub = start_stub([says("rag", ABSTENTION), says("search", other)])
    document = await debate()
    assert [vote["answer"] for vote in document["votes"]] == [ABSTENTION, ABSTENTION]
    assert {t["outcome"] for t in document["turns"] if t["step"] == "respond"} == {"ok"}
    assert (document["status"], document["stop_reason"]) == ("done", "consensus")
    assert (document["answer"], document["raw_verdict"], document["metrics"]["abstained"]) == (None, ABSTENTION, True)
    assert outcome_of(document) == ABSTAINED
    assert [one.answer for one in round_answers(document)] == [ABSTAINED]
    reason = document["turns"][0]["rationale"]
    assert reason
    assert outcome_in_words(document).startswith("No verdict: the evidence does not tell. (consensus)")
    assert reason in outcome_in_words(document)
    summary = [line.text for line in ending(document).lines]
    assert summary[0] == "Verdict: none, as the evidence does not tell (consensus)"
    assert reason in summary
    assert not stub.prompts("equivalence")
    assert ABSTENTION in stub.prompts("rag")[0]


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


async def test_voters_may_abstain(start_stub: StartStub) -> None:
    start_stub([{"fields": {"answer": ABSTENTION}}])
    document = await debate("multi_agent_voting", model="openai:stub")
    assert (document["answer"], document["raw_verdict"], document["metrics"]["abstained"]) == (None, ABSTENTION, True)


@pytest.mark.parametrize("selected", [[1], []])
async def test_debaters_with_shared_evidence_may_abstain(start_stub: StartStub, selected: list[int]) -> None:
    """If the debaters abstain, the summariser may abstain too. The debaters need not select a text of the evidence."""
    stub = start_stub([{"fields": {"answer": "Unknown", "selected": selected}}])
    document = await debate("madke", model="openai:stub", sources=DEMO)
    assert (document["status"], document["answer"], document["raw_verdict"]) == ("done", None, ABSTENTION)
    offer = f"neither the evidence nor what you know tells it, `answer` is, in these very words: {ABSTENTION}"
    debater_prompts = [prompt for prompt in stub.prompts() if "You are one of several debaters" in prompt]
    assert sum(offer in prompt for prompt in debater_prompts) == 2


async def test_a_summariser_may_not_abstain_if_no_debater_abstains(start_stub: StartStub) -> None:
    settings: dict[str, Any] = {"models": {"debater-1": "openai:stub-d", "debater-2": "openai:stub-d"}, "sources": DEMO}
    start_stub([says("d", "Ada"), {"fields": {"answer": "Unknown", "selected": []}}])
    document = await debate("madke", model="openai:stub", **settings)
    assert document["error"]["kind"] == "unparsed"


async def test_debaters_without_evidence_may_not_abstain(start_stub: StartStub) -> None:
    stub = start_stub([{"fields": {"answer": "Unknown"}}])
    claim_only = {key: value for key, value in ASKED.items() if key != "given"}
    document = await debate("madke", claim_only, model="openai:stub", sources=[])
    assert ABSTENTION not in "".join(stub.prompts())
    assert document["error"]["kind"] == "unparsed"


async def test_a_single_agent_without_evidence_may_not_abstain(start_stub: StartStub) -> None:
    stub = start_stub([{"fields": {"answer": "I don't know"}}])
    claim_only = {key: value for key, value in ASKED.items() if key != "given"}
    document = await debate("standard_prompting", claim_only, model="openai:stub")
    assert ABSTENTION not in stub.prompts()[0]
    assert document["error"]["kind"] == "unparsed"


async def test_a_label_worded_like_an_abstention_is_an_ordinary_answer(start_stub: StartStub) -> None:
    start_stub([{"fields": {"answer": ABSTENTION}}])
    asked = {"claim": "The mill is old.", "labels": ["true", ABSTENTION]}
    document = await debate("standard_prompting", asked, model="openai:stub")
    assert document["answer"] == ABSTENTION
    assert "abstained" not in document["metrics"]
