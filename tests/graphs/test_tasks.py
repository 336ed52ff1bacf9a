"""Tool-MAD with several kinds of tasks, its two versions, and its ablations, on the scripted endpoint."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest
from moot.graphs.tool_mad import ToolMadSettings, graph
from moot.graphs.tool_mad_consistency import ConsistencySettings
from moot.graphs.tool_mad_consistency import graph as consistency_graph

from tests.conftest import MODELS, READERS, StartStub, says, supports

ALL_MODELS = {**MODELS, "equivalence": "openai:stub-equivalence"}
VANILLA = [{"name": "rag"}, {"name": "search"}]
"""Debaters without sources."""


async def debate(given: dict[str, Any], **settings: Any) -> dict[str, Any]:
    chosen = {"models": ALL_MODELS, "debaters": VANILLA, "scoring": "consensus_only", "max_rounds": 2, **settings}
    document: dict[str, Any] = await graph.ainvoke(given, context=ToolMadSettings.model_validate(chosen))
    return document


def equivalence_rule(same: bool) -> dict[str, Any]:
    """A rule for the model that decides whether two answers mean the same. It always replies ``same``."""
    return {"model": "stub-equivalence", "fields": {"same": same, "reason": "by its name"}}


@pytest.mark.parametrize(
    ("given", "first", "second", "answer"),
    [
        ({"claim": "Is it so?", "task": "pubmedqa"}, "Yes.", "yes", "yes"),
        ({"claim": "It is so.", "task": "averitec"}, "refuted", "REFUTED", "Refuted"),
        ({"claim": "It is so.", "labels": ["true", "unproven"]}, True, "true", "true"),
        ({"claim": "Which?", "task": "medqa", "options": ["iron", "gold"]}, "B", "gold", "B"),
        ({"claim": "How many?", "task": "gsm8k"}, "$1,860", 1860, "1860"),
        ({"claim": "How many?", "task": "number"}, "1/2", 0.5, "0.5"),
        ({"claim": "How much?", "task": "math"}, "\\dfrac12", "\\frac{1}{2}", "\\dfrac12"),
        ({"claim": "Where?", "task": "nq_open"}, "the Hague", "The Hague.", "the Hague"),
    ],
)
async def test_answers_that_differ_only_in_notation_agree(
    start_stub: StartStub, given: dict[str, Any], first: Any, second: Any, answer: str
) -> None:
    stub = start_stub([says("rag", first), says("search", second)])
    document = await debate(given)
    assert (document["answer"], document["stop_reason"], document["rounds"]) == (answer, "consensus", 1)
    assert not stub.prompts("equivalence")


async def test_short_answers_with_different_wording_are_compared_by_a_model(start_stub: StartStub) -> None:
    rules = [
        says("rag", "NYC", 1),
        says("search", "New York City", 1),
        {**equivalence_rule(False), "times": 1},
        equivalence_rule(True),
    ]
    start_stub([*rules, says("rag", "Big Apple"), says("search", "New York City")])
    document = await debate({"claim": "Where is it?", "task": "triviaqa"})
    assert (document["answer"], document["stop_reason"], document["rounds"]) == ("Big Apple", "consensus", 2)
    compared = [t for t in document["turns"] if t["step"] == "compare"]
    assert [t["comparisons"] for t in compared] == [
        [{"with": "NYC", "same": False, "reason": "by its name"}],
        [{"with": "Big Apple", "same": True, "reason": "by its name"}],
    ]
    assert [c["role"] for c in document["calls"]].count("equivalence") == 2
    assert document["depth"] == 4  # answer, comparison, answer, comparison
    assert [v["group"] for v in document["votes"]] == [0, 0]


async def test_answers_do_not_agree_if_their_comparison_is_unusable(start_stub: StartStub) -> None:
    rules = [says("rag", "NYC"), says("search", "New York"), {"model": "stub-equivalence", "reply": "Perhaps."}]
    start_stub([*rules, says("judge", "New York")])
    document = await debate({"claim": "Where is it?", "task": "short_answer"}, max_rounds=1)
    assert (document["answer"], document["stop_reason"]) == ("New York", "max_rounds")
    assert [c["same"] for t in document["turns"] if t["step"] == "compare" for c in t["comparisons"]] == [None]
    assert "unparsed" in {w["kind"] for w in document["warnings"]}


async def test_prompts_for_a_question_do_not_mention_a_claim(start_stub: StartStub) -> None:
    stub = start_stub([says("rag", "B"), says("search", "A"), says("judge", "A")])
    debaters = [{"name": "rag"}, {"name": "search", "retriever": "bm25:demo-news"}]
    await debate({"claim": "Which metal is lighter?", "options": ["iron", "gold"]}, debaters=debaters, max_rounds=1)
    for prompt in stub.prompts():
        assert "<question>" in prompt
        assert "<claim>" not in prompt
        assert "check a claim" not in prompt
    for prompt in (*stub.prompts("rag"), *stub.prompts("judge")):
        assert "A - iron" in prompt
        assert "The question to answer:" in prompt


# --- the two versions -------------------------------------------------------------------------------------------------


DISPUTE = [says("rag", "SUPPORTS"), says("search", "REFUTES"), says("judge", "SUPPORTS"), *supports([True, False])]
CLAIM = "The kilogram is no longer defined by a metal cylinder kept in France."


async def debate_with_consistency(**settings: Any) -> dict[str, Any]:
    chosen = {
        "models": MODELS,
        "debaters": READERS,
        "embedder": "openai:stub-embedding",
        "cross_encoder": "no-such/encoder",
        **settings,
    }
    document: dict[str, Any] = await consistency_graph.ainvoke(
        {"claim": CLAIM}, context=ConsistencySettings.model_validate(chosen)
    )
    return document


async def test_the_first_version_stops_at_the_first_agreement(start_stub: StartStub) -> None:
    """An agreement is not scored."""
    stub = start_stub(
        [
            says("rag", "REFUTES", 1),
            says("rag", "SUPPORTS"),
            says("search", "SUPPORTS"),
        ]
    )
    document = await debate_with_consistency()
    assert (document["answer"], document["stop_reason"], document["rounds"]) == ("SUPPORTS", "consensus", 2)
    assert document["scores"] == {}
    assert not stub.prompts("judge")


async def test_each_version_shows_the_judge_a_different_kind_of_score(start_stub: StartStub) -> None:
    """The first version shows consistency, the second faithfulness. Both show the same answers and evidence."""
    stub = start_stub(DISPUTE)
    settings = {"models": MODELS, "debaters": READERS, "embedder": "openai:stub-embedding"}
    second = await graph.ainvoke({"claim": CLAIM}, context=ToolMadSettings.model_validate(settings))
    first = await debate_with_consistency()
    [second_prompt, first_prompt] = stub.prompts("judge")
    # Before the averages, both prompts show the same answers and evidence.
    assert second_prompt.partition("Averages")[0] == first_prompt.partition("Averages")[0]
    assert "faithfulness" in second_prompt.partition("Averages")[2]
    assert "consistency" not in second_prompt
    assert "consistency" in first_prompt.partition("Averages")[2]
    assert "faithfulness" not in first_prompt
    assert first["metrics"]["similarity"] == "cosine of openai:stub-embedding"
    assert [w["kind"] for w in first["warnings"]] == ["cross_encoder_missing"]
    # Queries and answers of three rounds need 12 calls, the verdict one. The second version adds 18 calls for scores.
    for document, calls in ((first, 13), (second, 31)):
        assert (document["stop_reason"], document["rounds"], len(document["calls"])) == ("max_rounds", 3, calls)
    given = [t["scores"]["consistency"] for t in first["turns"] if t["agent"] == "rag"]
    assert first["scores"]["rag"]["consistency"] == pytest.approx(sum(given) / 3)


async def test_a_debater_without_evidence_has_no_consistency_score(start_stub: StartStub) -> None:
    start_stub(DISPUTE)
    document = await debate_with_consistency(debaters=VANILLA, max_rounds=1)
    assert document["scores"] == {"rag": {"consistency": None}, "search": {"consistency": None}}


# --- ablations --------------------------------------------------------------------------------------------------------

SOURCES = {"vanilla": None, "rag": "chroma:demo-encyclopaedia", "search": "bm25:demo-news"}
TEAMS = [
    ("vanilla", "vanilla"),
    ("rag", "vanilla"),
    ("search", "vanilla"),
    ("rag", "rag"),
    ("search", "search"),
    ("rag", "search"),
    ("rag", "search", "vanilla"),
]


@pytest.mark.parametrize("team", TEAMS, ids="-".join)
async def test_ablations_change_the_calls_and_the_judges_prompt(start_stub: StartStub, team: tuple[str, ...]) -> None:
    scores = supports([True, False])[0]["fields"]
    stub = start_stub(
        [{"model": "stub-other", "fields": {"answer": "REFUTES"}}, {"fields": {"answer": "SUPPORTS", **scores}}]
    )
    readers = sum(kind != "vanilla" for kind in team)
    seen = 0
    for rounds, query_formulation, scoring in product([1, 3], [True, False], ["on", "all_rounds"]):
        given = {
            "model": "openai:stub",
            "models": {"debater-0": "openai:stub-other"},
            "embedder": "openai:stub-embedding",
            "debaters": [{"name": f"debater-{i}", "retriever": SOURCES[kind]} for i, kind in enumerate(team)],
            "max_rounds": rounds,
            "query_formulation": query_formulation,
            "scoring": scoring,
        }
        if "chroma:demo-encyclopaedia" in [SOURCES[kind] for kind in team]:
            given["embedder"] = "all-MiniLM-L6-v2"
        document = await graph.ainvoke({"claim": CLAIM}, context=ToolMadSettings.model_validate(given))
        prompts, seen = stub.prompts()[seen:], len(stub.prompts())
        nodes = [c["node"] for c in document["calls"]]
        assert (document["status"], document["stop_reason"], document["rounds"]) == ("done", "max_rounds", rounds)
        assert Counter(nodes) == Counter(
            formulate_query=readers * rounds * query_formulation,
            respond=len(team) * rounds,
            faithfulness=2 * readers * rounds * (scoring == "on"),
            answer_relevance=len(team) * rounds * (scoring == "on"),
            judge=1,
        )
        judged = prompts[-1]
        assert [f"Round {r}\n" in judged for r in range(1, 6)] == [r <= rounds for r in range(1, 6)]
        assert ("Averages of each debater" in judged) == (scoring == "on")
        assert ("<evidence" in judged) == (readers > 0)
        queries = {t["query"] for t in document["turns"] if t["step"] == "respond"}
        assert (CLAIM in queries) == (readers > 0 and not query_formulation)
        depth_without_scores = rounds * (2 if readers and query_formulation else 1) + 1
        assert document["depth"] == depth_without_scores + ((2 if readers else 1) if scoring == "on" else 0)


@pytest.mark.parametrize("scoring", ["on", "all_rounds", "consensus_only"])
@pytest.mark.parametrize("team", TEAMS, ids="-".join)
async def test_the_scoring_setting_decides_when_agreeing_debaters_stop(
    start_stub: StartStub, team: tuple[str, ...], scoring: str
) -> None:
    start_stub([{"fields": {"answer": "SUPPORTS", **supports([True, True], CLAIM)[0]["fields"]}}])
    debaters = [{"name": f"debater-{i}", "retriever": SOURCES[kind]} for i, kind in enumerate(team)]
    given = {"model": "openai:stub", "debaters": debaters, "scoring": scoring, "query_formulation": False}
    document = await graph.ainvoke({"claim": CLAIM}, context=ToolMadSettings.model_validate(given))
    assert (document["stop_reason"], document["rounds"]) == {
        "on": ("stable_consensus", 1),
        "all_rounds": ("max_rounds", 3),
        "consensus_only": ("consensus", 1),
    }[scoring]
