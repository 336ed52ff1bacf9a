"""Robustness checks: the decision is repeated with less evidence, or with the evidence in reverse order."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from moot.graphs import load_graph
from moot.nodes._texts.robustness_checks import Check, robustness_result, state_same_fact
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
        "answer", False, ["key.org"], "Falls without key.org.",
    )  # fmt: skip
    calls = [call for call in document["calls"] if call["node"] == "robustness"]
    assert (len(calls), document["usage"]["calls"], document["depth"]) == (6, 7, 2)
    first, *again = [prompt for prompt in stub.prompts() if KEY in prompt and SAME in prompt and OTHER in prompt]
    assert first.index(KEY) < first.index(SAME) < first.index(OTHER)
    (reverse,) = again
    assert reverse.index(OTHER) < reverse.index(SAME) < reverse.index(KEY)
    output = [line.text for line in ending(document).lines]
    assert "Falls without key.org." in output
    assert "Falls without key.org." in outcome_in_words(document)
    for kind in ("html", "md"):
        assert "Asked again, it falls without key.org" in report(document, kind).replace("\\", "")


async def test_checks_hide_an_origins_evidence_and_turns_from_the_judge(start_stub: StartStub) -> None:
    """A turn is hidden if it has verified citations, and all of them are of this origin."""
    of_key, of_other = citation_of("key.org", KEY[:37]), citation_of("other.org", OTHER[:23])
    stub = start_stub([
        says("SUPPORTS", role="one", query="eggs", citations=[of_key], rationale="Keepers saw it."),
        says("REFUTES", role="two", query="eggs", citations=[of_other], rationale="A bill."),
        says("SUPPORTS"),
    ])  # fmt: skip
    debaters = [{"name": name, "retriever": SOURCE, "model": f"openai:{name}"} for name in ("one", "two")]
    document = await run_tool_mad(debaters, robustness_calls=2)
    assert outcomes_of_checks(document) == [
        ("reversed", [], 3, 0, "SUPPORTS"),
        ("no_evidence", ["key.org", "same.org", "other.org"], 0, 2, "SUPPORTS"),
    ]
    assert (document["robustness"]["holds"], document["robustness"]["not_asked"]) == (None, 3)
    assert document["robustness"]["said"].startswith("Whether it holds without any one source is not known. The same")
    document = await run_tool_mad(debaters)
    assert document["robustness"]["said"] == "Holds without any one source. The same answer comes without any evidence."
    [without_key] = [c for c in document["robustness"]["checks"] if c["without"] == ["key.org"]]
    assert without_key["turns_left_out"] == 1
    prompts_without_key = [
        prompt for prompt in stub.prompts() if KEY not in prompt and OTHER in prompt and SAME in prompt
    ]
    [prompt] = prompts_without_key
    assert "A bill." in prompt
    assert "Keepers saw it." not in prompt


async def run_tool_mad(debaters: list[dict[str, str]], **more: Any) -> dict[str, Any]:
    system = load_graph("tool_mad")
    defaults: dict[str, Any] = {"model": "openai:stub", "robustness": True, "debaters": debaters, "max_rounds": 1}
    settings = system.settings.model_validate(defaults | {"scoring": "all_rounds"} | more)
    document: dict[str, Any] = await system.graph.ainvoke({"claim": CLAIM}, context=settings)
    assert (document["status"], document["stop_reason"]) == ("done", "max_rounds")
    return document


async def test_checks_of_an_agreement_count_only_if_one_call_reproduces_it(start_stub: StartStub) -> None:
    """This call answers from all evidence, as in ``rag``."""
    fields: dict[str, Any] = {"selected": [1], "reason": "It helps."}
    for answer, words in (("SUPPORTS", "Holds without any one source."), ("REFUTES", "Unknown: with all")):
        start_stub([says(answer, match="on your own. Answer from"), says("SUPPORTS", **fields)])
        document = await run_debate("madke", max_rounds=1)
        assert document["answer"] == "SUPPORTS"
        assert outcomes_of_checks(document)[0] == ("all", [], 3, 0, answer)
        assert document["robustness"]["holds"] is (True if answer == "SUPPORTS" else None)
        assert (document["robustness"]["step"], document["robustness"]["said"][: len(words)]) == ("answer", words)


@pytest.mark.parametrize("name", ["rag", "react"])
async def test_checks_that_reach_a_ceiling_do_not_change_the_verdict(start_stub: StartStub, name: str) -> None:
    """The checks do not change the stop reason either."""
    start_stub([says("SUPPORTS", citations=[citation_of("key.org", KEY[:37])])])
    document = await run_debate(name, max_calls=3, sources=[SOURCE])
    assert (document["answer"], document["stop_reason"]) == ("SUPPORTS", "single_pass")
    outcomes = {check["outcome"] for check in document["robustness"]["checks"]}
    assert outcomes == ({"ok", "budget_exhausted"} if name == "rag" else {"budget_exhausted"})
    assert document["robustness"]["holds"] is None
    assert "gave no answer" in document["robustness"]["said"]
    assert document["robustness"]["said"].startswith("Unknown: ") == (name != "rag")


async def test_no_check_runs_if_the_setting_is_off_or_there_is_no_evidence(start_stub: StartStub) -> None:
    start_stub([says("SUPPORTS")])
    off = await run_debate("rag", robustness=False)
    assert (off["robustness"], off["usage"]["calls"]) == (None, 1)
    empty = await run_debate("madke", retrieval="none", max_rounds=1)
    assert empty["robustness"]["checks"] == []
    assert empty["robustness"]["said"] == "There is no evidence to remove: the verdict was decided without evidence."


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
        made: Any = {"evidence_ids": [], "turns_left_out": 0, "answer": None, "outcome": "ok"}
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
    assert many == "Falls without a.org or b.org or c.org, or any of 2 others."
    both = "Falls without both b and c, which say the same."
    assert fell["said"] == f"Falls without a. {both} 1 of 3 checks gave no answer."
