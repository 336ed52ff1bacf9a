"""Tool-MAD's debaters: the reasons for another round, the evidence that they keep, and the basis of their answers."""

from __future__ import annotations

import re
from typing import Any

import pytest
from moot.graphs.tool_mad import ToolMadSettings, graph
from moot.transcript import round_sections

from tests.conftest import MODELS, READERS, StartStub, says, supports

CLAIM = "The kilogram is no longer defined by a metal cylinder kept in France."
LETTER = {"id": "letter-1", "text": "The cylinder was retired in 2019."}
VANILLA = [{"name": "rag", "retriever": "chroma:demo-encyclopaedia"}, {"name": "search"}]
"""Debaters of whom only the first has a source."""


async def debate(asked: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    models = MODELS | {"equivalence": "openai:stub-equivalence"}
    given = {"models": models, "debaters": READERS, "embedder": "openai:stub-embedding", "max_rounds": 2, **settings}
    document: dict[str, Any] = await graph.ainvoke(
        {"claim": CLAIM, **(asked or {})}, context=ToolMadSettings.model_validate(given)
    )
    assert (document["status"], document["error"]) == ("done", None)
    return document


def query_rule(role: str, query: str, times: int | None = None) -> dict[str, Any]:
    """A rule for a debater's query. It applies ``times`` times, or always if ``times`` is None."""
    rule = {"model": f"stub-{role}$", "match": "the `query`", "fields": {"query": query}}
    return rule | ({"times": times} if times else {})


async def test_the_query_prompt_explains_low_scores(start_stub: StartStub) -> None:
    agreed = [says("rag", "SUPPORTS"), says("search", "SUPPORTS")]
    stub = start_stub([*agreed, *supports([True, False], CLAIM), says("judge", "SUPPORTS")])
    await debate(debaters=VANILLA)
    first, _, second, _ = stub.prompts("stub-rag")
    assert "Scores from 0 to 1" not in first
    reason = second[second.index("Why there is another round") : second.index("What the others")]
    answers = ["<answers>", "rag: SUPPORTS", "search: SUPPORTS", "</answers>"]
    low = "- rag: faithfulness 0.50 < 0.70 (how much of what it said follows from the evidence it had)"
    assert reason.strip().split("\n")[1:] == [
        *answers,
        *("Scores from 0 to 1, each too low:", low),
        *("Statements that do not follow from the evidence of the debater who made them:", '<statement by="rag">'),
        *("Statement 1.", "</statement>"),
    ]


async def test_the_query_prompt_has_no_scores_if_all_rounds_are_held(start_stub: StartStub) -> None:
    stub = start_stub([says("rag", "SUPPORTS"), says("search", "SUPPORTS"), says("judge", "SUPPORTS")])
    await debate(scoring="all_rounds")
    second = stub.prompts("stub-rag")[2]
    assert "this debate runs all its rounds" in second
    assert "too low" not in second
    assert " < " not in second


@pytest.mark.parametrize("keeps", [True, False])
async def test_cited_evidence_is_kept_only_if_keep_evidence_is_set(start_stub: StartStub, keeps: bool) -> None:
    query, other = "kilogram Planck constant", "platypus eggs"
    probe = start_stub([query_rule("rag", query), says("rag", "SUPPORTS"), says("search", "REFUTES")])
    found_ids = (await debate(max_rounds=1, k=1, scoring="all_rounds"))["turns"][0]["evidence_ids"]
    assert len(probe.prompts("stub-rag")) == 2
    stub = start_stub([
        query_rule("rag", query, 1),
        query_rule("rag", other),
        says("rag", "SUPPORTS", citations=[{"evidence_id": found_ids[0], "quote": "anything"}]),
        says("search", "REFUTES"),
        says("judge", "SUPPORTS"),
    ])  # fmt: skip
    document = await debate(k=1, scoring="all_rounds", keep_evidence=keeps)
    first, second = (t["evidence_ids"] for t in document["turns"] if t["agent"] == "rag")
    assert first == found_ids
    assert (found_ids[0] in second, len(second)) == (keeps, 2 if keeps else 1)
    assert [f'<evidence id="{i}">' in stub.prompts("stub-rag")[3] for i in found_ids + second] == [
        keeps,
        *[True] * len(second),
    ]
    assert any(t["agent"] == "search" and found_ids[0] not in t["evidence_ids"] for t in document["turns"])


@pytest.mark.parametrize("asked", [{}, {"given": [LETTER]}])
async def test_debaters_use_their_knowledge_only_if_they_have_no_source_and_no_given_texts(
    start_stub: StartStub, asked: dict[str, Any]
) -> None:
    stub = start_stub([says("rag", "SUPPORTS"), says("search", "REFUTES"), says("judge", "SUPPORTS")])
    await debate(asked, debaters=VANILLA, max_rounds=1, scoring="all_rounds")
    [vanilla], reader = stub.prompts("stub-search"), stub.prompts("stub-rag")[1]
    no_texts = not asked
    for prompt, knows in ((vanilla, no_texts), (reader, False)):
        assert ("Answer from what you know." in prompt) == knows
        assert ("SUPPORTS - the claim is true" in prompt) == knows
        assert ("SUPPORTS - the evidence shows that the claim is true" in prompt) != knows
        assert ("Say nothing that the evidence does not bear out" in prompt) != knows
        assert ("Change your answer if theirs is better founded" in prompt) == knows
        assert ('Your evidence is the text under "Evidence in front of you"' in prompt) != knows
    assert ("(none: no search was made)" in vanilla) == no_texts


async def test_a_debater_whose_search_found_nothing_may_not_use_its_knowledge(start_stub: StartStub) -> None:
    stub = start_stub(
        [query_rule("rag", "xyzzy"), says("rag", "REFUTES"), says("search", "REFUTES"), says("judge", "REFUTES")]
    )
    readers = [
        {"name": "rag", "retriever": "bm25:demo-news"},
        {"name": "search", "retriever": "chroma:demo-encyclopaedia"},
    ]
    document = await debate(debaters=readers, max_rounds=1, scoring="all_rounds")
    assert document["turns"][0]["retrieval"] == "empty"
    prompt = stub.prompts("stub-rag")[1]
    assert "(no evidence was found)" in prompt
    assert "Answer from what you know." not in prompt
    assert "the evidence shows that the claim is true" in prompt


@pytest.mark.parametrize(
    ("task", "may_reason"), [("medqa", True), ("gsm8k", True), ("hotpotqa", False), ("fever", False)]
)
async def test_only_exam_and_math_tasks_allow_reasoning_beyond_the_evidence(
    start_stub: StartStub, task: str, may_reason: bool
) -> None:
    answer = {"medqa": "A", "gsm8k": "4", "hotpotqa": "Paris", "fever": "SUPPORTS"}[task]
    stub = start_stub([says(role, answer) for role in ("rag", "search", "judge")])
    asked = {"task": task} | ({"options": ["Iron", "Zinc"]} if task == "medqa" else {})
    await debate(asked, max_rounds=1, scoring="all_rounds")
    for prompt in (stub.prompts("stub-rag")[1], stub.prompts("stub-search")[1]):
        assert ("Say nothing that the evidence does not bear out" in prompt) != may_reason
        assert ("Evidence need not state the answer." in prompt) == may_reason
    [judged] = stub.prompts("judge")
    assert ("and what you know" in judged) == may_reason


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


async def test_low_answer_relevance_alone_continues_a_debate_on_a_math_task(start_stub: StartStub) -> None:
    scorer = [{"model": "stub-scorer", "fields": {"questions": ["Who was it?"] * 3, "statements": []}}]
    stub = start_stub([*(says(role, "4") for role in ("rag", "search", "judge")), *scorer])
    document = await debate({"claim": "How many are there?", "task": "gsm8k"})
    assert document["stop_reason"] == "max_rounds"
    second, [judged] = stub.prompts("stub-rag")[2], stub.prompts("judge")
    assert re.findall("^- rag: (.*?) 0", second, re.M) == ["answer relevance"]
    assert "faithfulness" not in second + judged[judged.index("Averages of") :]
    output = [line.text for section in round_sections(document) for line in section.lines]
    assert sum("not stable (rag's answer relevance, search's answer relevance below" in text for text in output) == 2


async def test_prompts_of_debaters_start_alike_and_name_the_debater_at_the_end(start_stub: StartStub) -> None:
    stub = start_stub([says("rag", "SUPPORTS"), says("search", "REFUTES"), says("judge", "SUPPORTS")])
    await debate(scoring="all_rounds")
    rag, search = stub.prompts("stub-rag"), stub.prompts("stub-search")
    assert len(rag) == 4
    for of_rag, of_search in zip(rag, search, strict=True):
        assert of_rag[: of_rag.index("</claim>")] == of_search[: of_search.index("</claim>")]
        assert "<" not in of_rag[of_rag.rindex('You are "rag"') :]
        assert "<" not in of_search[of_search.rindex('You are "search"') :]
        assert '"rag"' not in of_rag[: of_rag.index("</claim>")]
