"""Isolated reading: who reads which origin, how evidence is grouped, and when there is no verdict."""

from __future__ import annotations

from typing import Any

import pytest
from moot.graphs import load_graph
from moot.nodes._records.entries import Vote
from moot.nodes._steps.isolate import group_by_origin, weighted_votes
from moot.nodes._steps.vote import majority
from moot.nodes._texts.answers import ABSTENTION
from moot.nodes._texts.given import check_given
from moot.nodes._texts.task import make_task
from moot.retrievers import Evidence
from moot.transcript.end import verdict as ended_by

from tests.conftest import StartStub

CLAIM = "The harbour of Aldmoor was closed in 1931."
NEI = "NOT ENOUGH INFO"
WORDS = (
    "storm fleet harbour master wrote ledger pilots refused anchor tide winter summer council voted funds crane rope"
)


def page(host: str, word: str, path: str = "") -> dict[str, str]:
    """A text of a website. It starts with ``word``, which the rules match.

    Texts for different values of ``word`` have no word pair in common, so they are not near-duplicates.
    """
    body = " ".join(f"{word}{i} {one}" for i, one in enumerate(WORDS.split() * 2))
    return {"text": f"{word}: {body}.", "title": f"{word} {path}", "url": f"https://{host}/{path}"}


def says(word: str, answer: str | None, **fields: Any) -> dict[str, Any]:
    """A rule for the answer to prompts that contain this word and a colon. An empty word matches every prompt."""
    return {"match": f"{word}:", "fields": {"answer": answer, "citations": [], **fields}}


async def run_isolate(
    given: list[dict[str, str]], task: dict[str, Any] | None = None, **settings: Any
) -> dict[str, Any]:
    system = load_graph("isolate")
    chosen = system.settings.model_validate({"model": "openai:stub", "retrieval": "none", "attempts": 1, **settings})
    document: dict[str, Any] = await system.graph.ainvoke(
        {"claim": CLAIM, "given": given, **(task or {})}, context=chosen
    )
    return document


def ending_lines(document: dict[str, Any]) -> list[Any]:
    """The lines of the live output about the end of a debate."""
    return [*ended_by(document, {})]


# --- the procedure ----------------------------------------------------------------------------------------------------


def votes(*answers: str | None) -> list[Vote]:
    """One agent's votes with these answers, numbered from 1. None stands for an unusable reply."""
    groups = {answer: i for i, answer in enumerate(dict.fromkeys(filter(None, answers)))}
    return [
        {"agent": "agent-1", "answer": a, "group": groups[a] if a else None, "number": i}
        for i, a in enumerate(answers, 1)
    ]


@pytest.mark.parametrize(
    ("answers", "ranks", "won"),
    [
        (("S", "R", "S"), (1, 1, 2), "S"),  # 1 + 1/2 against 1
        (("R", "S", "S"), (1, 2, 3), None),  # 1 against 1/2 + 1/3: R has a single, contradicted origin
        (("R", "S", "S", "S"), (1, 1, 2, 3), "S"),  # 1 against 1 + 1/2 + 1/3
        (("R", "S", "R", "S"), (1, 1, 2, 2), None),  # 3/2 against 3/2
        (("S",), (4,), "S"),  # no origin contradicts S
        (("S", NEI, None), (2, 1, 1), "S"),  # the undecided label does not contradict S
        ((NEI, NEI), (1, 2), NEI),
        ((ABSTENTION, ABSTENTION, None), (1, 2, 3), ABSTENTION),
    ],
)
def test_the_answer_with_the_greatest_weight_wins_unless_it_ties(
    answers: tuple[str | None, ...], ranks: tuple[int, ...], won: str | None
) -> None:
    """It also does not win if only one origin gives it, and another origin contradicts that origin."""
    task = make_task("labels", ["S", "R", NEI])
    read_origins: Any = [{"origin": str(i), "rank": rank, "evidence_ids": []} for i, rank in enumerate(ranks)]
    counted = weighted_votes(task, votes(*answers), read_origins)
    weights = [vote.get("weight", 0.0) for vote in counted]
    assert {w * rank for w, rank in zip(weights, ranks, strict=True) if w} == {1}
    winner = majority(counted, weights, tie="none", contested=2)
    assert (winner["answer"] if winner else None) == won


def test_evidence_is_grouped_by_origin_and_sorted_by_best_rank() -> None:
    """A reprint belongs to the origin of its original."""
    pieces = check_given([page("a.org", "alpha"), page("b.org", "beta"), page("www.a.org", "gamma", "2")])
    reprint: Evidence = {**pieces[1], "id": "reprint", "url": "https://copy.net/x"}
    for piece, rank in zip(pieces, (3, 2, 1), strict=True):
        piece["retrievals"][0]["rank"] = rank
    assert group_by_origin([*pieces, reprint]) == [
        {"origin": "a.org", "rank": 1, "evidence_ids": [pieces[0]["id"], pieces[2]["id"]]},
        {"origin": "b.org", "rank": 2, "evidence_ids": [pieces[1]["id"], "reprint"]},
    ]


# --- the graph --------------------------------------------------------------------------------------------------------


async def test_many_pages_of_one_host_have_one_vote(start_stub: StartStub) -> None:
    """Each origin is read in a separate call. A mirrored page belongs to the origin of its original."""
    flood = [page("evil.com", "poison", str(i)) | {"text": page("evil.com", "poison")["text"] + f" {i}"} for i in "abc"]
    mirrored = page("mirror.net", "poison") | {"text": flood[0]["text"] + " Reprinted."}
    given = [*flood, mirrored, page("a.org", "alpha"), page("b.org", "beta"), page("c.org", "gamma")]
    stub = start_stub([says("poison", "REFUTES"), says("gamma", NEI), says("", "SUPPORTS")])
    document = await run_isolate(given)
    # Weights are 1 / rank: 1 for evil.com, and 1/5 + 1/6 for the other answer. So the heavier answer has a single
    # origin, which others contradict.
    assert (document["status"], document["answer"], document["stop_reason"]) == ("done", None, "single_pass")
    assert document["metrics"]["abstained"] is True
    assert [len(origin["evidence_ids"]) for origin in document["metrics"]["origins"]] == [4, 1, 1, 1]
    assert (len(document["calls"]), document["depth"], document["rounds"]) == (4, 1, 1)
    for prompt in stub.prompts():
        assert sum(f"{word}:" in prompt for word in ("poison", "alpha", "beta", "gamma")) == 1
    assert [vote["group"] is None for vote in document["votes"]] == [False, False, False, True]
    assert document["metrics"]["undecided"] == "contradicted"
    output = [line.text for line in ending_lines(document)]
    assert output[0].startswith("Read one by one: 1 evil.com, 2 a.org, 3 b.org, 4 c.org")
    assert output[1].startswith("Verdict: none, as the answer with the greatest weight rests on one origin, and")


async def test_a_debate_without_usable_replies_fails(start_stub: StartStub) -> None:
    start_stub([{"reply": "It depends."}])
    document = await run_isolate([page("a.org", "alpha"), page("b.org", "beta")])
    assert (document["status"], document["error"]["kind"]) == ("failed", "unparsed")
