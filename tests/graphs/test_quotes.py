"""How debates check, count and mark citations, and when they request an answer again, on the scripted endpoint."""

from __future__ import annotations

from typing import Any

import pytest
from moot.graphs.tool_mad import ToolMadSettings, graph
from moot.graphs.tool_mad_consistency import ConsistencySettings
from moot.graphs.tool_mad_consistency import graph as consistency_graph
from moot.nodes._texts.quotes import text_hash
from moot.nodes._texts.verdict import verdict_citations
from moot.retrievers import Evidence, open_retriever
from moot.transcript import ending

from tests.conftest import MODELS, StartStub, says

CLAIM = "The kilogram is no longer defined by a metal cylinder kept in France."
SOURCES = {"rag": "bm25:demo-encyclopaedia", "search": "bm25:demo-news"}
UNVERIFIED = "[this quote is not in the evidence]"
FABRICATED = "[the agent that cites this id was never shown it]"
INVENTED = {"evidence_id": "ev-0000000000", "quote": "never said"}


async def first_result_of(name: str) -> Evidence:
    """The first result of a debater's source for the claim."""
    return (await (await open_retriever(SOURCES[name])).search(CLAIM, 1))[0]


def settings(**more: Any) -> dict[str, Any]:
    debaters = [{"name": name, "retriever": source} for name, source in SOURCES.items()]
    return {"models": MODELS, "debaters": debaters, "query_formulation": False, **more}


async def debate(**more: Any) -> dict[str, Any]:
    chosen = ToolMadSettings.model_validate(settings(**{"scoring": "all_rounds", "max_rounds": 1} | more))
    document: dict[str, Any] = await graph.ainvoke({"claim": CLAIM}, context=chosen)
    return document


def citation_of(piece: Evidence, quote: str) -> dict[str, str]:
    return {"evidence_id": piece["id"], "quote": quote}


def right_citation(piece: Evidence) -> dict[str, str]:
    """A citation that quotes six words of a piece of evidence."""
    return citation_of(piece, " ".join(piece["text"].split()[2:8]))


def wrong_citation(piece: Evidence) -> dict[str, str]:
    """A citation of a piece of evidence. The quote has one word too many, so the piece does not contain the quote."""
    words = piece["text"].split()[2:8]
    return citation_of(piece, " ".join([*words[:3], "never", *words[3:]]))


def turn_of(document: dict[str, Any], agent: str, number: int = 1) -> dict[str, Any]:
    turn: dict[str, Any] = next(t for t in document["turns"] if (t["agent"], t["round"]) == (agent, number))
    return turn


def outcomes_of_calls(document: dict[str, Any], role: str) -> list[str]:
    return [c["outcome"] for c in document["calls"] if c["role"] == role]


def warnings_of(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [(w["kind"], w["detail"]) for w in document["warnings"]]


async def test_quotes_are_checked_against_the_cited_evidence(start_stub: StartStub) -> None:
    """The document counts the verified, the unverified and the fabricated citations."""
    mine, other = await first_result_of("rag"), await first_result_of("search")
    reformatted = citation_of(mine, f"“{right_citation(mine)['quote'].replace(' ', chr(10))}”")
    start_stub([
        says("rag", "SUPPORTS", citations=[reformatted, wrong_citation(mine)]),
        says("search", "REFUTES", citations=[INVENTED]),
        says("judge", "SUPPORTS", citations=[right_citation(other), right_citation(mine), wrong_citation(other)]),
    ])  # fmt: skip
    document = await debate()
    good, bad = turn_of(document, "rag")["citations"]
    assert (good["verified"], bad["verified"], bad["start"], bad["end"]) == (True, False, None, None)
    assert mine["text"][good["start"] : good["end"]] == right_citation(mine)["quote"]
    assert good["text_hash"] == bad["text_hash"] == text_hash(mine["text"])
    [invented] = turn_of(document, "search")["citations"]
    assert (invented["fabricated"], invented["verified"], invented["text_hash"]) == (True, False, None)
    assert [c["verified"] for c in turn_of(document, "judge")["citations"]] == [True, True, False]
    assert document["metrics"]["citations"] == {"total": 6, "verified": 3, "unverified": 2, "fabricated": 1}
    kinds = [kind for kind, _ in warnings_of(document)]
    assert sorted(kinds) == ["fabricated_citation", "unverified_quote", "unverified_quote"]
    for piece in (mine, other):
        about = f"quotes {wrong_citation(piece)['quote'][:80]!r}, which is not in {piece['id']}"
        assert ("unverified_quote", about) in warnings_of(document)
    assert document["answer"] == "SUPPORTS"
    assert verdict_citations(document) == turn_of(document, "judge")["citations"]


async def test_later_prompts_mark_unverified_and_fabricated_quotes(start_stub: StartStub) -> None:
    mine, other = await first_result_of("rag"), await first_result_of("search")
    stub = start_stub([
        says("rag", "SUPPORTS", citations=[right_citation(mine), wrong_citation(mine)]),
        says("search", "REFUTES", citations=[right_citation(other), INVENTED]),
        says("judge", "SUPPORTS"),
    ])  # fmt: skip
    await debate(max_rounds=2)
    first, second = stub.prompts("stub-search")
    assert "<citations>" not in first
    [judged] = stub.prompts("judge")
    for prompt in (second, judged):
        lines = [
            f"{mine['id']}: {right_citation(mine)['quote']}",
            f"{UNVERIFIED} {mine['id']}: {wrong_citation(mine)['quote']}",
        ]
        assert "\n".join(["<citations>", *lines, "</citations>"]) in prompt
    for prompt in (stub.prompts("stub-rag")[1], judged):
        assert f"<citations>\n{other['id']}: " in prompt
        assert f"\n{FABRICATED} {INVENTED['evidence_id']}: never said" in prompt
        assert f"{UNVERIFIED} {INVENTED['evidence_id']}" not in prompt


async def test_a_debater_may_repeat_an_opponents_verified_quote(start_stub: StartStub) -> None:
    """The debater never sees the quoted evidence itself. An altered quote is not verified."""
    mine = await first_result_of("rag")
    stub = start_stub([
        says("rag", "SUPPORTS", citations=[right_citation(mine)]),
        says("search", "REFUTES", 1, citations=[right_citation(mine)]),
        says("search", "REFUTES", citations=[right_citation(mine), wrong_citation(mine)]),
        says("judge", "REFUTES"),
    ])  # fmt: skip
    document = await debate(max_rounds=2)
    [before] = turn_of(document, "search")["citations"]
    assert (before["fabricated"], before["verified"]) == (True, False)  # debater `search` has not seen the quote yet
    again, altered = turn_of(document, "search", 2)["citations"]
    assert (again["fabricated"], again["verified"], altered["verified"]) == (False, True, False)
    assert mine["text"][again["start"] : again["end"]] == right_citation(mine)["quote"]
    assert again["text_hash"] == altered["text_hash"] == text_hash(mine["text"])
    assert mine["text"] not in "".join(stub.prompts("stub-search"))
    assert mine["id"] not in turn_of(document, "search", 2)["evidence_ids"]
    [in_document] = [piece for piece in document["evidence"] if piece["id"] == mine["id"]]
    assert {r["agent"] for r in in_document["retrievals"]} == {"rag"}
    assert "cited" not in document


@pytest.mark.parametrize("first", ["wrong", "none", "invented"])
async def test_an_answer_without_a_verified_quote_is_requested_again(start_stub: StartStub, first: str) -> None:
    mine, other = await first_result_of("rag"), await first_result_of("search")
    given, fault = {
        "wrong": ([wrong_citation(mine)], f"which is not in {mine['id']}"),
        "none": ([], "there are none"),
        "invented": ([INVENTED], "which was not shown"),
    }[first]
    stub = start_stub([
        says("rag", "REFUTES", 1, citations=given),
        says("rag", "SUPPORTS", citations=[wrong_citation(mine), right_citation(mine)]),
        *(says(who, "SUPPORTS", citations=[right_citation(other)]) for who in ("search", "judge")),
    ])  # fmt: skip
    document = await debate(verified_quotes=True)
    assert outcomes_of_calls(document, "rag") == ["unquoted", "ok"]
    assert outcomes_of_calls(document, "search") == outcomes_of_calls(document, "judge") == ["ok"]
    turn = turn_of(document, "rag")
    assert (turn["answer"], turn["outcome"]) == ("SUPPORTS", "ok")
    assert [c["verified"] for c in turn["citations"]] == [False, True]
    assert fault in stub.prompts("stub-rag")[1]
    assert [kind for kind, _ in warnings_of(document)] == ["unquoted", "unverified_quote", "single_origin"]
    assert fault in next(c["detail"] for c in document["calls"] if c["outcome"] == "unquoted")


async def test_an_agent_has_no_answer_after_two_replies_without_a_verified_quote(start_stub: StartStub) -> None:
    mine, other = await first_result_of("rag"), await first_result_of("search")
    start_stub([
        says("rag", "SUPPORTS", citations=[wrong_citation(mine)]),
        says("search", "SUPPORTS", citations=[right_citation(other)]),
        says("judge", "REFUTES", citations=[right_citation(other)]),
    ])  # fmt: skip
    document = await debate(verified_quotes=True)
    turn = turn_of(document, "rag")
    assert (turn["answer"], turn["rationale"], turn["citations"], turn["outcome"]) == (None, None, [], "unquoted")
    assert outcomes_of_calls(document, "rag") == ["unquoted", "unquoted"]
    assert document["votes"][0] == {"agent": "rag", "answer": None, "group": None}
    assert (document["answer"], document["stop_reason"]) == ("REFUTES", "max_rounds")
    assert document["metrics"]["citations"] == {"total": 2, "verified": 2, "unverified": 0, "fabricated": 0}


@pytest.mark.parametrize("unparsed_first", [True, False])
async def test_an_answer_is_requested_at_most_twice(start_stub: StartStub, unparsed_first: bool) -> None:
    mine, other = await first_result_of("rag"), await first_result_of("search")
    unparsed = {"model": "stub-rag$", "reply": "I would say SUPPORTS."}
    unquoted = says("rag", "SUPPORTS", citations=[wrong_citation(mine)])
    failures = [unparsed, unquoted] if unparsed_first else [unquoted, unparsed]
    good = [says(who, "SUPPORTS", citations=[right_citation(other)]) for who in ("rag", "search", "judge")]
    start_stub([*({**rule, "times": 1} for rule in failures), *good])
    document = await debate(verified_quotes=True)
    expected = ["unparsed", "unquoted"] if unparsed_first else ["unquoted", "unparsed"]
    assert outcomes_of_calls(document, "rag") == expected
    assert (turn_of(document, "rag")["answer"], turn_of(document, "rag")["outcome"]) == (None, expected[-1])


@pytest.mark.parametrize("second", ["right", "wrong"])
async def test_a_judge_without_a_verified_quote_is_asked_once_more(start_stub: StartStub, second: str) -> None:
    """If the second reply has no verified quote either, the debate fails."""
    mine, other = await first_result_of("rag"), await first_result_of("search")
    judged = [right_citation(mine)] if second == "right" else [wrong_citation(mine)]
    start_stub([
        says("rag", "SUPPORTS", citations=[right_citation(mine)]),
        says("search", "REFUTES", citations=[right_citation(other)]),
        says("judge", "REFUTES", 1, citations=[wrong_citation(mine)]),
        says("judge", "SUPPORTS", citations=judged),
    ])  # fmt: skip
    document = await debate(verified_quotes=True)
    assert outcomes_of_calls(document, "judge") == ["unquoted", "ok" if second == "right" else "unquoted"]
    if second == "right":
        assert (document["status"], document["answer"]) == ("done", "SUPPORTS")
        return
    assert (document["status"], document["answer"], document["stop_reason"]) == ("failed", None, None)
    assert (document["error"]["kind"], document["error"]["where"]) == ("unquoted", "judge, round 1")
    assert f"which is not in {mine['id']}" in document["error"]["detail"]
    assert document["metrics"]["citations"]["total"] == 2


async def test_without_evidence_no_verified_quote_is_required(start_stub: StartStub) -> None:
    start_stub([says("rag", "SUPPORTS"), says("search", "REFUTES"), says("judge", "SUPPORTS", citations=[INVENTED])])
    document = await debate(verified_quotes=True, debaters=[{"name": "rag"}, {"name": "search"}])
    assert (document["status"], document["answer"]) == ("done", "SUPPORTS")
    assert {c["outcome"] for c in document["calls"]} == {"ok"}


async def test_by_default_no_verified_quote_is_required(start_stub: StartStub) -> None:
    start_stub([says("rag", "SUPPORTS"), says("search", "REFUTES"), says("judge", "SUPPORTS")])
    document = await debate()
    assert (document["status"], len(document["calls"])) == ("done", 3)
    assert document["metrics"]["citations"] == {"total": 0, "verified": 0, "unverified": 0, "fabricated": 0}


async def test_tool_mad_consistency_also_requires_verified_quotes(start_stub: StartStub) -> None:
    mine, other = await first_result_of("rag"), await first_result_of("search")
    start_stub([
        says("rag", "SUPPORTS", citations=[right_citation(mine)]),
        says("search", "REFUTES", citations=[wrong_citation(other)]),
        says("judge", "SUPPORTS", citations=[right_citation(other)]),
    ])  # fmt: skip
    more = {"max_rounds": 1, "embedder": "openai:stub-embedding", "cross_encoder": "no-such/encoder"}
    chosen = ConsistencySettings.model_validate(settings(verified_quotes=True, **more))
    document = await consistency_graph.ainvoke({"claim": CLAIM}, context=chosen)
    assert document["metrics"] == {
        "similarity": "cosine of openai:stub-embedding",
        "citations": {"total": 2, "verified": 2, "unverified": 0, "fabricated": 0},
        "verdict_citations": {"total": 1, "verified": 1, "unverified": 0, "fabricated": 0},
    }
    assert turn_of(document, "search")["outcome"] == "unquoted"


async def test_the_final_output_says_which_quotes_were_found_in_the_evidence(start_stub: StartStub) -> None:
    mine = await first_result_of("rag")
    start_stub([
        says("rag", "SUPPORTS"),
        says("search", "REFUTES"),
        says("judge", "SUPPORTS", citations=[right_citation(mine), wrong_citation(mine)]),
    ])  # fmt: skip
    cited = [line.text for line in ending(await debate()).lines if line.what == "cites"]
    assert [text.partition(": ")[2] for text in cited] == [
        f'"{right_citation(mine)["quote"]}" (found word for word)',
        f'"{wrong_citation(mine)["quote"]}" (not found in the text)',
    ]
