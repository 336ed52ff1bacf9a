"""Robustness checks: the decision is repeated with less evidence, or with the evidence in reverse order."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from moot.graphs import load_graph
from moot.nodes._texts.robustness_checks import Check, Quoted, robustness_result, say_opposite, state_same_fact
from moot.nodes._texts.verdict import outcome_in_words
from moot.retrievers._evidence import evidence_id
from moot.transcript import ending
from moot.transcript.report.report import report

from tests.conftest import CLAIM, StartStub
from tests.graphs.origin_shelf import Shelf, page

KEY, SAME, OTHER = (
    "In 2019 keepers in Sydney found three leathery eggs of a platypus in its burrow.",
    "Three leathery eggs of a platypus were found by keepers in Sydney in 2019, says a magazine.",
    "The platypus has a bill, webbed feet, and a tail like that of a beaver.",
)
shelf = Shelf(finds=[page("key.org", 1, KEY), page("www.same.org", 2, SAME), page("other.org", 3, OTHER)])
SOURCE = "langchain:tests.graphs.test_robustness:shelf"
IDS = {host: evidence_id(host, text) for host, text in (("key.org", KEY), ("www.same.org", SAME), ("other.org", OTHER))}
BECOMES = (
    "Without key.org the answer becomes NOT ENOUGH INFO. "
    "With no evidence the model says NOT ENOUGH INFO from what it knows."
)


def says(answer: str, *, match: str = "", role: str = "", **more: Any) -> dict[str, Any]:
    """A rule: prompts that match ``match`` and go to the model of ``role`` get this answer, by default all prompts."""
    rule: dict[str, Any] = {"fields": {"answer": answer, "rationale": "So it says.", "citations": [], **more}}
    return rule | ({"match": match} if match else {}) | ({"model": role} if role else {})


def citation_of(host: str, quote: str) -> dict[str, str]:
    return {"evidence_id": IDS[host], "quote": quote}


async def run_debate(name: str, **more: Any) -> dict[str, Any]:
    system = load_graph(name)
    defaults: dict[str, Any] = {"model": "openai:stub", "robustness": True, "sources": [SOURCE]}
    settings = system.settings.model_validate(defaults | more)
    document: dict[str, Any] = await system.graph.ainvoke({"claim": CLAIM}, context=settings)
    assert document["status"] == "done", document["error"]
    return document


def outcomes_of_checks(document: dict[str, Any]) -> list[tuple[str, list[str], int, int, str | None]]:
    checks: list[Check] = document["robustness"]["checks"]
    return [(c["kind"], c["without"], len(c["evidence_ids"]), c["turns_left_out"], c["answer"]) for c in checks]


async def test_all_outputs_name_the_source_without_which_the_verdict_changes(start_stub: StartStub) -> None:
    """The outputs are the text in the terminal, the outcome in words, and the HTML and Markdown reports."""
    quotes = [citation_of("key.org", KEY), citation_of("www.same.org", SAME)]
    stub = start_stub([says("SUPPORTS", match="In 2019 keepers", citations=quotes), says("NOT ENOUGH INFO")])
    document = await run_debate("rag")
    assert outcomes_of_checks(document) == [
        ("origin", ["key.org"], 2, 0, "NOT ENOUGH INFO"),
        ("origin", ["same.org"], 2, 0, "SUPPORTS"),
        ("reversed", [], 3, 0, "SUPPORTS"),
        ("no_evidence", ["key.org", "same.org", "other.org"], 0, 0, "NOT ENOUGH INFO"),
        ("origin", ["other.org"], 2, 0, "SUPPORTS"),
        ("pair", ["key.org", "same.org"], 1, 0, "NOT ENOUGH INFO"),
    ]
    found = document["robustness"]
    assert (found["step"], found["holds"], found["falls_without"], found["said"]) == (
        "answer", False, ["key.org"], BECOMES,
    )  # fmt: skip
    calls = [call for call in document["calls"] if call["node"] == "robustness"]
    assert (len(calls), document["usage"]["calls"], document["depth"]) == (6, 7, 2)
    first, *again = [prompt for prompt in stub.prompts() if KEY in prompt and SAME in prompt and OTHER in prompt]
    assert first.index(KEY) < first.index(SAME) < first.index(OTHER)
    (reverse,) = again
    assert reverse.index(OTHER) < reverse.index(SAME) < reverse.index(KEY)
    output = [line.text for line in ending(document).lines]
    assert BECOMES in output
    assert BECOMES in outcome_in_words(document)
    for kind in ("html", "md"):
        assert "Asked again: without key.org the answer becomes NOT ENOUGH INFO." in report(document, kind).replace(
            "\\", ""
        )


async def test_checks_that_reach_a_ceiling_do_not_change_the_verdict(start_stub: StartStub) -> None:
    """The checks do not change the stop reason either."""
    start_stub([says("SUPPORTS", citations=[citation_of("key.org", KEY[:37])])])
    document = await run_debate("rag", max_calls=3, sources=[SOURCE])
    assert (document["answer"], document["stop_reason"]) == ("SUPPORTS", "single_pass")
    outcomes = {check["outcome"] for check in document["robustness"]["checks"]}
    assert outcomes == {"ok", "budget_exhausted"}
    assert document["robustness"]["holds"] is None
    assert "gave no answer" in document["robustness"]["said"]
    assert not document["robustness"]["said"].startswith("Unknown: ")


def test_quotes_state_the_same_fact_if_they_have_enough_words_in_common() -> None:
    assert state_same_fact([KEY], [OTHER, SAME])
    assert not state_same_fact([KEY], [OTHER])
    assert not state_same_fact([], [KEY])
    assert not state_same_fact(["In 2019."], ["In 2019."])  # too few words


def test_state_same_fact_has_its_documented_error_rates() -> None:
    """`SAME_FACT` documents them. The pairs were written before the threshold was chosen."""
    pairs = [json.loads(line) for line in (Path(__file__).parent / "same_facts.jsonl").read_text().splitlines()]
    found = Counter(one["same"] for one in pairs if state_same_fact(one["quotes"][:1], one["quotes"][1:]))
    assert (len(pairs), found[True], found[False]) == (40, 17, 2)  # 20 pairs state the same fact, 20 do not


def test_robustness_result_sums_up_the_checks() -> None:
    def check(kind: Any, same: bool | None, *without: str) -> Check:
        made: Any = {
            "evidence_ids": [],
            "turns_left_out": 0,
            "answer": "S" if same else "R",
            "outcome": "ok",
        }
        made |= {"kind": kind, "without": list(without), "same": same}
        return made  # type: ignore[no-any-return]

    a, b = check("origin", True, "a"), check("origin", True, "b")
    assert robustness_result("judge", [a, b], 0)["holds"] is True
    assert robustness_result("judge", [a, b], 1)["holds"] is None
    assert robustness_result("judge", [a, check("origin", None, "b")], 0)["holds"] is None
    fell = robustness_result(
        "judge", [check("origin", False, "a"), check("origin", None, "b"), check("pair", False, "b", "c")], 0
    )
    assert (fell["holds"], fell["falls_without"]) == (False, ["a"])
    many = robustness_result("judge", [check("origin", False, f"{c}.org") for c in "abcde"], 0)["said"]
    assert many == "Without a.org or b.org or c.org, or any of 2 others the answer becomes R."
    both = "Without both b and c, which say the same, it becomes R."
    assert fell["said"] == f"Without a the answer becomes R. {both} 1 of 3 checks gave no answer."
    known = robustness_result("judge", [a, check("reversed", False), check("no_evidence", True)], 0)["said"]
    assert known == (
        "The answer is the same without any one source. With the evidence in reversed order it becomes R. "
        "With no evidence the model says S, the same, from what it knows."
    )


def test_quotes_that_say_opposite_things_are_no_pair() -> None:
    """The second pair was removed together, as if both said the same, in a debate on hydroxychloroquine."""
    assert not say_opposite(Quoted("It fell.", "S"), Quoted("It had fallen.", "S"))
    assert say_opposite(
        Quoted("does not support the use of hydroxychloroquine to reduce mortality in patients", "R"),
        Quoted("Hydroxychloroquine is associated with a decreased mortality in patients", "R"),
    )
    assert say_opposite(Quoted("It fell.", "S"), Quoted("It grew.", "R"))
    assert say_opposite(Quoted("It fell.", "S"), Quoted("It grew.", "S", holds=False))
    assert not say_opposite(Quoted("It fell.", "S", holds=False), Quoted("It sank.", "R"))
    assert not say_opposite(Quoted("It fell."), Quoted("It sank.", "R"))
