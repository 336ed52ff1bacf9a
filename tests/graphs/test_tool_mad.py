"""Tool-MAD on the scripted endpoint: calls, prompts, stop reasons and failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from moot.graphs.tool_mad import ToolMadSettings, builder, graph
from moot.nodes._texts.verdict import verdict_citations

from tests.conftest import MODELS, READERS, StartStub, says, supports

CLAIM = "The kilogram is no longer defined by a metal cylinder kept in France."


async def debate(claim: str = CLAIM, **settings: Any) -> dict[str, Any]:
    given = {"models": MODELS, "debaters": READERS, "embedder": "openai:stub-embedding", **settings}
    document: dict[str, Any] = await graph.ainvoke({"claim": claim}, context=ToolMadSettings.model_validate(given))
    return document


def agreement(answer: str = "SUPPORTS") -> list[dict[str, Any]]:
    """Rules: both debaters give this answer in every round."""
    return [says("rag", answer), says("search", answer)]


async def test_an_agreement_with_high_scores_ends_the_debate_in_the_first_round(start_stub: StartStub) -> None:
    stub = start_stub([*agreement(), *supports([True, True], CLAIM)])
    document = await debate()
    assert (document["status"], document["answer"], document["stop_reason"]) == ("done", "SUPPORTS", "stable_consensus")
    assert document["rounds"] == 1
    assert document["scores"] == {
        a: {"faithfulness": 1.0, "answer_relevance": pytest.approx(1)} for a in ("rag", "search")
    }
    assert document["votes"] == [{"agent": a, "answer": "SUPPORTS", "group": 0} for a in ("rag", "search")]
    assert not stub.prompts("judge")
    assert document["depth"] == 4  # query, answer, statements, verdicts
    # Each of the two debaters needs these four calls, and a call for questions that runs in parallel.
    assert document["usage"]["calls"] == len(document["calls"]) == 10


async def test_a_debate_continues_after_an_agreement_with_low_faithfulness(start_stub: StartStub) -> None:
    start_stub([*agreement(), *supports([True, False], CLAIM), says("judge", "REFUTES")])
    document = await debate(max_rounds=2)
    assert (document["rounds"], document["stop_reason"], document["answer"]) == (2, "max_rounds", "REFUTES")
    assert document["scores"]["rag"]["faithfulness"] == 0.5


@pytest.mark.parametrize(("threshold", "stop"), [(0.5, "stable_consensus"), (0.51, "max_rounds")])
async def test_faithfulness_must_reach_its_threshold(start_stub: StartStub, threshold: float, stop: str) -> None:
    """The faithfulness is 0.5."""
    start_stub([*agreement(), *supports([True, False], CLAIM), says("judge", "SUPPORTS")])
    assert (await debate(max_rounds=1, faithfulness_threshold=threshold))["stop_reason"] == stop


async def test_the_judge_sees_all_disputed_rounds_and_the_average_scores(start_stub: StartStub) -> None:
    def scorer(share: list[bool], answer: str) -> list[dict[str, Any]]:
        return [rule | {"match": answer} for rule in supports(share, CLAIM)]

    # Faithfulness of rag: 0.75, 0.25, 0.25, on average 1.25 / 3. Faithfulness of search: 0.5 in each round.
    rules = [
        says("rag", "SUPPORTS", 1, rationale="rag speaks first"),
        says("rag", "SUPPORTS", rationale="rag speaks again"),
        says("search", "REFUTES", rationale="search speaks"),
        *scorer([True, True, True, False], "rag speaks first"),
        *scorer([True, False, False, False], "rag speaks again"),
        *scorer([True, True, False, False], "search speaks"),
        says("judge", "NOT ENOUGH INFO"),
    ]
    # Each statement contains the text that its rule matches, so that the rule also matches the prompt for verdicts.
    for rule in rules[3:6]:
        rule["fields"]["statements"] = [f"{rule['match']} {i}" for i in range(4)]
    stub = start_stub(rules)
    document = await debate()
    assert (document["answer"], document["stop_reason"], document["rounds"]) == ("NOT ENOUGH INFO", "max_rounds", 3)
    assert document["scores"]["rag"]["faithfulness"] == pytest.approx(1.25 / 3)
    assert document["scores"]["search"]["faithfulness"] == pytest.approx(0.5)
    [seen] = stub.prompts("judge")
    assert "- rag: faithfulness 0.42 (3 rounds), answer relevance 1.00 (3 rounds)" in seen
    assert "- search: faithfulness 0.50 (3 rounds), answer relevance 1.00 (3 rounds)" in seen
    assert all(f"Round {r}" in seen for r in (1, 2, 3))
    assert all(piece["id"] in seen for piece in document["evidence"])
    assert document["depth"] == 9  # query and answer in three rounds, statements, verdicts, the judge


async def test_debaters_see_each_others_answers_from_the_second_round_on(start_stub: StartStub) -> None:
    stub = start_stub([says("rag", "SUPPORTS", rationale="RAGSAYS"), says("search", "REFUTES", rationale="SEARCHSAYS")])
    document = await debate(max_rounds=2)
    turns = {(t["agent"], t["round"]): t for t in document["turns"]}
    for name, other in (("rag", "SEARCHSAYS"), ("search", "RAGSAYS")):
        first_query, first_answer, second_query, second_answer = stub.prompts(f"stub-{name}")
        assert other not in first_query + first_answer
        assert other in second_query
        assert other in second_answer
        assert turns[name, 1]["query"] in second_query
        for i in turns[name, 1]["evidence_ids"]:
            assert i in first_answer
        assert f'<answer by="{name}">' not in second_query
        assert second_answer.index(other) < second_answer.index(f'What you answered last:\n<answer by="{name}">')
        assert "Look for what decides between them.\n<answers>\nrag: SUPPORTS\nsearch: REFUTES\n" in second_query
        assert "Why there is another round" not in first_query
    assert set(turns["rag", 1]["evidence_ids"]).isdisjoint(turns["search", 1]["evidence_ids"])
    sources = {c["agent"]: c["retriever"] for c in document["corpora"]}
    assert sources == {"rag": "chroma:demo-encyclopaedia", "search": "bm25:demo-news"}


async def test_a_debate_fails_if_no_debater_gives_a_parsable_answer(start_stub: StartStub) -> None:
    start_stub([
        {"model": "stub-rag$", "match": "your `answer`", "reply": "I would rather not say."},
        {"model": "stub-search$", "match": "your `answer`", "reply": "Nor would I."},
        says("judge", "SUPPORTS"),
    ])  # fmt: skip
    document = await debate(max_rounds=2)
    assert document["status"] == "failed"  # no debater gave a usable answer, so there is nothing to judge
    assert document["error"]["kind"] == "unparsed"
    assert document["answer"] is None
    assert {t["answer"] for t in document["turns"]} == {None}
    assert {t["outcome"] for t in document["turns"]} == {"unparsed"}
    assert sum(w["kind"] == "unparsed" for w in document["warnings"]) == 8  # 2 debaters x 2 rounds x 2 requests


async def test_the_judge_decides_if_one_debater_gives_no_parsable_answer(start_stub: StartStub) -> None:
    unusable = {"model": "stub-rag$", "match": "your `answer`", "reply": '{"answer": "SUPP'}
    start_stub([unusable, says("search", "SUPPORTS"), *supports([True], CLAIM), says("judge", "SUPPORTS")])
    document = await debate(max_rounds=1)
    assert (document["stop_reason"], document["answer"]) == ("max_rounds", "SUPPORTS")
    assert document["scores"]["rag"] == {"faithfulness": None, "answer_relevance": None}


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ({"reply": "no JSON"}, "unparsed"),
        ({"reply": '{"answer": "SUPPORTS", "ra'}, "unparsed"),
        ({"reply": ""}, "empty"),
        ({"finish": "content_filter"}, "refused"),
        ({"finish": "length"}, "cut"),
        ({"status": 401}, "authentication"),
        ({"status": 404}, "unknown_model"),
        ({"status": 429, "retry_after": "0"}, "rate_limited"),
        ({"status": 500, "retry_after": "0"}, "server_error"),
        ({"raw": "<html>busy</html>"}, "bad_response"),
    ],
)
async def test_without_a_usable_reply_of_the_judge_there_is_no_verdict(
    start_stub: StartStub, rule: dict[str, Any], kind: str
) -> None:
    start_stub([{"model": "stub-judge", **rule}])
    document = await debate(max_rounds=1, scoring="all_rounds", max_wait=0)
    assert (document["status"], document["answer"], document["stop_reason"]) == ("failed", None, None)
    assert document["error"]["kind"] == kind
    assert len(document["turns"]) == 2  # the debaters' turns are kept
    assert len(document["error"]["detail"]) > 20


async def test_a_debate_fails_if_the_endpoint_is_unreachable(
    start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_stub()
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    document = await debate(embedder="all-MiniLM-L6-v2", attempts=1)
    assert (document["status"], document["error"]["kind"]) == ("failed", "unreachable")


async def test_an_unknown_corpus_is_an_error_before_any_call(start_stub: StartStub) -> None:
    start_stub([])
    document = await debate(debaters=[{"name": "rag", "retriever": "chroma:none"}, {"name": "search"}])
    assert (document["status"], document["error"]["kind"]) == ("failed", "unknown_corpus")
    assert document["calls"] == []


async def test_a_consensus_is_not_stable_if_the_scoring_calls_fail(start_stub: StartStub) -> None:
    """The scores that these calls would give are then unknown."""
    start_stub([*agreement(), {"model": "stub-scorer", "status": 500, "retry_after": "0"}, says("judge", "REFUTES")])
    document = await debate(max_rounds=1)
    assert (document["stop_reason"], document["answer"]) == ("max_rounds", "REFUTES")
    assert document["scores"]["rag"] == {"faithfulness": None, "answer_relevance": None}
    assert sum(w["kind"] == "score_missing" for w in document["warnings"]) == 4  # two scores of two debaters


async def test_a_fabricated_citation_is_marked(start_stub: StartStub) -> None:
    invented = [{"evidence_id": "ev-0000000000", "quote": "never said"}]
    start_stub([says("rag", "SUPPORTS", citations=invented), says("search", "SUPPORTS"), *supports([True], CLAIM)])
    document = await debate()
    nowhere = {"verified": False, "start": None, "end": None, "text_hash": None}
    assert document["turns"][0]["citations"] == [{**invented[0], "fabricated": True, **nowhere}]
    assert [w["kind"] for w in document["warnings"]] == ["fabricated_citation", "fabricated_citations"]
    assert verdict_citations(document) == []


async def test_without_query_formulation_the_claim_is_the_query(start_stub: StartStub) -> None:
    stub = start_stub()
    document = await debate(query_formulation=False, max_rounds=2, scoring="all_rounds")
    assert {t["query"] for t in document["turns"] if t["step"] == "respond"} == {CLAIM}
    assert len(stub.prompts("stub-rag")) == 2


@pytest.mark.parametrize(
    ("scoring", "rounds", "stop"), [("all_rounds", 3, "max_rounds"), ("consensus_only", 1, "consensus")]
)
async def test_the_scorer_is_called_only_if_scoring_is_on(
    start_stub: StartStub, scoring: str, rounds: int, stop: str
) -> None:
    stub = start_stub([*agreement(), says("judge", "SUPPORTS")])
    document = await debate(scoring=scoring)
    assert (document["rounds"], document["stop_reason"], document["scores"]) == (rounds, stop, {})
    assert not stub.prompts("scorer")
    assert all("faithfulness 0" not in prompt for prompt in stub.prompts("judge"))


async def test_without_sources_answer_relevance_alone_makes_a_consensus_stable(start_stub: StartStub) -> None:
    start_stub([*agreement(), *supports([False], CLAIM)])
    document = await debate(debaters=[{"name": "rag"}, {"name": "search"}])
    assert document["stop_reason"] == "stable_consensus"
    assert document["scores"]["rag"]["faithfulness"] is None
    assert document["evidence"] == []


async def test_evidence_that_three_debaters_find_is_stored_once(start_stub: StartStub) -> None:
    start_stub()
    debaters = [{"name": n, "retriever": "bm25:demo-news"} for n in ("one", "two", "three")]
    document = await debate(model="openai:stub", models={}, debaters=debaters, query_formulation=False, max_rounds=1)
    assert [t["agent"] for t in document["turns"]] == ["one", "two", "three", "judge"]
    assert len(document["evidence"]) == 3
    assert {r["agent"] for r in document["evidence"][0]["retrievals"]} == {"one", "two", "three"}


async def test_the_next_debate_on_a_thread_starts_from_empty_state(start_stub: StartStub) -> None:
    start_stub(
        [*(r | {"match": "saffron"} for r in agreement("REFUTES")), *agreement(), *supports([True, True], CLAIM)]
    )
    checkpointed = builder.compile(checkpointer=InMemorySaver())

    async def run_on_thread(given: dict[str, Any], **settings: Any) -> dict[str, Any]:
        chosen = ToolMadSettings.model_validate(
            {"models": MODELS, "debaters": READERS, "embedder": "openai:stub-embedding"}
            | {"scoring": "consensus_only", **settings}
        )
        config: Any = {"configurable": {"thread_id": "one"}}
        document: dict[str, Any] = await checkpointed.ainvoke(given, config, context=chosen)
        return document

    first = await run_on_thread({"claim": CLAIM, "labels": ["SUPPORTS", "REFUTES"]})
    assert (first["answer"], first["task"]["name"], len(first["calls"])) == ("SUPPORTS", "labels", 4)
    failed = await run_on_thread({"claim": "  "})
    assert (failed["status"], failed["error"]["kind"], failed["turns"]) == ("failed", "invalid_claim", [])
    failed = await run_on_thread(
        {"claim": CLAIM}, debaters=[{"name": "rag", "retriever": "bm25:none"}, {"name": "search"}]
    )
    assert failed["error"]["kind"] == "unknown_corpus"
    second = await run_on_thread({"claim": "Bees make saffron."})
    assert (second["status"], second["answer"], second["task"]["name"]) == ("done", "REFUTES", "fever")
    assert (second["rounds"], len(second["turns"]), len(second["calls"]), second["depth"]) == (1, 2, 4, 2)
    assert {r["query"] for e in second["evidence"] for r in e["retrievals"]} == {t["query"] for t in second["turns"]}


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"models": {**MODELS, "judge": "nobody:x"}}, "unknown_provider"),
        ({"embedder": "no-such/model"}, "unknown_encoder"),
    ],
)
async def test_unknown_models_and_encoders_are_errors_before_any_call(
    start_stub: StartStub, settings: dict[str, Any], kind: str
) -> None:
    start_stub([])
    document = await debate(**{"debaters": [{"name": "rag"}, {"name": "search"}], **settings})
    assert (document["error"]["kind"], document["error"]["where"], document["calls"]) == (kind, "open", [])


def test_misspelt_roles_are_refused() -> None:
    with pytest.raises(ValueError, match="no role 'jugde'"):
        ToolMadSettings.model_validate({"models": {"jugde": "fake:1"}})


async def test_disputed_rounds_are_scored_after_the_last_round(start_stub: StartStub) -> None:
    stub = start_stub([says("rag", "SUPPORTS"), says("search", "REFUTES"), *supports([True], CLAIM)])
    document = await debate()
    models = [r["model"] for r in stub.requests()]
    assert models[:12].count("stub-scorer") == 0  # these requests are for queries and answers
    assert all(t["scores"]["faithfulness"] == 1 for t in document["turns"] if t["step"] == "respond")
    assert document["depth"] == 9


async def test_faithfulness_is_unknown_if_the_endpoint_refuses_to_score_it(start_stub: StartStub) -> None:
    start_stub([{"model": "stub-scorer", "match": "Give `verdicts`", "status": 400}, *agreement()])
    document = await debate(max_rounds=1)
    assert document["status"] == "done", document["error"]
    assert document["turns"][0]["scores"]["faithfulness"] is None
    assert [w["kind"] for w in document["warnings"]].count("score_missing") == 2


async def test_without_a_context_the_default_settings_apply() -> None:
    document = await graph.ainvoke({"claim": "  "})
    assert document["error"]["kind"] == "invalid_claim"
    assert document["settings"]["max_rounds"] == 3
    assert set(document) == set(graph.output_schema.__annotations__)


async def test_answers_are_read_without_structured_output(start_stub: StartStub) -> None:
    stub = start_stub([
        {"match": "your `answer`", "reply": 'Well. {"rationale": "So it is.", "citations": [], "answer": "supports"}'},
        {"match": "the `query`", "reply": '```json\n{"query": "kilogram"}\n```'},
    ])  # fmt: skip
    document = await debate(structured_output="text", scoring="consensus_only")
    assert (document["answer"], document["stop_reason"]) == ("SUPPORTS", "consensus")
    assert {request["response_format"] for request in stub.requests()} == {None}


async def test_parallel_debates_share_the_limit_of_concurrent_calls(start_stub: StartStub) -> None:
    stub = start_stub(latency_ms=5)
    claims = [f"{CLAIM} {i}" for i in range(8)]
    documents = await asyncio.gather(
        *(debate(claim, max_concurrency=4, max_rounds=1, embedder="all-MiniLM-L6-v2") for claim in claims)
    )
    assert {d["status"] for d in documents} == {"done"}
    assert max(c["in_flight"] for c in stub.calls()) <= 4
