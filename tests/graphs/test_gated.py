"""The gated debate: agents answer independently (the gate). By default, a debate follows only if the claim stays open.

The tests cover when the debate runs, which evidence it gets, and the costs of both parts.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.evals._runs.identity import code_version, parts_of
from moot.graphs import load_graph
from moot.nodes._runtime.settings import checked_settings
from moot.nodes._steps.gate import verified_origins
from moot.nodes._texts.given import check_given
from moot.transcript import Live, ending, round_sections
from moot.transcript.report.report import report

from tests.conftest import CLAIM, StartStub

NEWS = {"retriever": "bm25:demo-news"}
GATE_AGENTS = [{"name": "one", **NEWS}, {"name": "two", "retriever": "bm25:demo-encyclopaedia"}]
DEBATERS = [{"name": "rag", "retriever": "bm25:demo-news"}, {"name": "search", "retriever": "bm25:demo-news"}]
TOOL_MAD_SETTINGS = {"debaters": DEBATERS, "scoring": "consensus_only", "max_rounds": 2}
LETTER = {"id": "letter-1", "text": "The platypus lays one to three eggs.", "url": "https://a.org/1"}
NOTE = {"id": "note-2", "text": "A note says that monotremes hatch from eggs.", "url": "https://b.org/2"}
CITES = {"citations": [{"evidence_id": "letter-1", "quote": "The platypus lays one to three eggs"}]}


def says(role: str, answer: str, **fields: Any) -> dict[str, Any]:
    """A rule for an agent's answer."""
    return {"model": f"stub-{role}$", "match": "your `answer`", "fields": {"answer": answer, "citations": [], **fields}}


def settings_of(**settings: Any) -> Any:
    """The settings of a gated debate in which each role has its own model."""
    system = load_graph("gated")
    inner = (
        {**TOOL_MAD_SETTINGS, **settings.pop("debate_settings", {})}
        if settings.get("debate", "tool_mad") == "tool_mad"
        else {}
    )
    plain = {"agents": GATE_AGENTS, "query_formulation": False, "attempts": 1, "model": "openai:stub", "k": 2}
    without_models = checked_settings(system.settings, {**plain, "debate_settings": inner, **settings})
    roles = {role: f"openai:stub-{role}" for role in without_models.roles()}
    return checked_settings(system.settings, {**plain, "debate_settings": inner, "models": roles, **settings})


async def debate(given: list[dict[str, str]] | None = None, **settings: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"claim": CLAIM, "given": given or [LETTER, NOTE]}
    document: dict[str, Any] = await load_graph("gated").graph.ainvoke(asked, context=settings_of(**settings))
    return document


# --- the gate ---------------------------------------------------------------------------------------------------------


async def test_the_log_has_one_start_and_one_end_for_the_whole_debate(
    start_stub: StartStub, caplog: pytest.LogCaptureFixture
) -> None:
    start_stub([says("one", "SUPPORTS"), says("two", "REFUTES")])
    with caplog.at_level(logging.INFO, "moot.debates"):
        document = await debate()
    assert document["metrics"]["gate"]["passed"] is False
    logged = [(record.getMessage(), record.__dict__["graph"]) for record in caplog.records]
    assert logged == [("debate begun", "gated"), ("debate ended", "gated")]


async def test_equal_readers_at_temperature_0_cause_a_warning(start_stub: StartStub) -> None:
    """Equal readers have the same model and the same source."""
    start_stub([says("one", "SUPPORTS", **CITES), says("two", "SUPPORTS")])
    same = [{"name": name, **NEWS} for name in ("one", "two")]
    models = dict.fromkeys(("one", "two"), "openai:stub-one")

    async def named_in_warnings(temperature: float | None, **settings: Any) -> list[str]:
        document = await debate(temperature=temperature, models=models, **settings)
        assert document["metrics"]["gate"]["passed"]
        return [w["detail"].partition(":")[0] for w in document["warnings"] if w["kind"] == "readers_alike"]

    assert await named_in_warnings(0, agents=same) == ["one, two"]
    assert await named_in_warnings(0.7, agents=same) == []
    assert await named_in_warnings(None, agents=same) == []  # the endpoint's default temperature applies
    assert await named_in_warnings(0) == []  # each reader has its own source


def attacked(role: str, answer: str | None, **reply: Any) -> dict[str, Any]:
    """A rule for the answer of an agent that attacks its own."""
    fields = {} if answer is None else {"fields": {"answer": answer, "citations": []}}
    return {"model": f"stub-{role}$", "match": "Attack your own answer", **fields, **reply}


async def test_answers_that_withstand_an_attack_by_their_own_agents_end_it(start_stub: StartStub) -> None:
    agree = [says("one", "SUPPORTS", **CITES), says("two", "SUPPORTS", **CITES)]
    stub = start_stub([attacked("one", "SUPPORTS"), attacked("two", "SUPPORTS"), *agree])
    document = await debate(trigger="self_critique")
    gate = document["metrics"]["gate"]
    assert (document["answer"], document["stop_reason"], len(document["calls"])) == ("SUPPORTS", "consensus", 4)
    assert (gate["passed"], gate["fired"], gate["debate"], gate["spent"]["calls"]) == (True, None, None, 4)
    assert gate["critique"] == {"answers": {"one": "SUPPORTS", "two": "SUPPORTS"}, "changed": []}
    [prompt] = [p for p in stub.prompts() if "Attack your own answer" in p and "two" in p]
    assert all(text in prompt for text in (LETTER["text"], "What you answered last:", "Answer: SUPPORTS"))
    assert [record["reason"] for record in document["round_log"]] == ["first_answers", "unchanged"]


@pytest.mark.parametrize("second", [attacked("two", "REFUTES"), attacked("two", None, reply="Hm.")])
async def test_a_debate_follows_if_an_agent_gives_its_answer_up(start_stub: StartStub, second: dict[str, Any]) -> None:
    """An unusable reply withstands nothing."""
    agree = [says("one", "SUPPORTS", **CITES), says("two", "SUPPORTS", **CITES)]
    debaters = [says("rag", "REFUTES"), says("search", "REFUTES")]
    start_stub([attacked("one", "SUPPORTS"), second, *agree, *debaters])
    document = await debate(trigger="self_critique")
    gate = document["metrics"]["gate"]
    assert (gate["passed"], gate["fired"], gate["critique"]["changed"]) == (False, "self_critique", ["two"])
    assert (gate["debate"]["graph"], document["answer"]) == ("tool_mad", "REFUTES")
    assert gate["spent"]["calls"] + gate["debate"]["calls"] == len(document["calls"])
    # Without this trigger, the same answers end it.
    assert (await debate())["metrics"]["gate"]["fired"] is None


async def test_a_ceiling_that_prevents_the_attacks_leaves_the_debate(start_stub: StartStub) -> None:
    agree = [says("one", "SUPPORTS", **CITES), says("two", "SUPPORTS", **CITES), says("judge", "REFUTES")]
    start_stub([attacked("one", "SUPPORTS"), *agree])
    for most, changed in ((3, ["one", "two"]), (4, ["two"])):
        document = await debate(trigger="self_critique", max_calls=most)
        assert (document["status"], document["stop_reason"]) == ("done", "budget_exhausted")
        assert document["metrics"]["gate"]["critique"]["changed"] == changed
        found = [(record["phase"], record["round"], record["reason"]) for record in document["round_log"]]
        assert found[:2] == [("gate", 0, "first_answers"), ("gate", 1, "changed")]


async def test_all_comparisons_of_an_attack_are_recorded(start_stub: StartStub) -> None:
    """The second agent's new answer is compared with the first one's, and with its own first answer."""
    same = {"model": "stub-equivalence$", "fields": {"same": True}}
    attacks = [attacked("one", "the big emu"), attacked("two", "an emu bird")]
    start_stub([same, *attacks, says("one", "an emu", **CITES), says("two", "emu, large", **CITES)])
    asked = {"claim": "Which bird?", "task": "short_answer", "given": [LETTER, NOTE]}
    document = await load_graph("gated").graph.ainvoke(asked, context=settings_of(trigger="self_critique"))
    compared = [turn for turn in document["turns"] if turn["step"] == "compare"]
    assert sum(len(turn["comparisons"]) for turn in compared) == 4
    assert [call["role"] for call in document["calls"]].count("equivalence") == 4


async def test_changes_before_the_debate_are_told_as_such(start_stub: StartStub) -> None:
    agree = [says("one", "SUPPORTS", **CITES), says("two", "SUPPORTS", **CITES)]
    sides = [{"model": f"stub-{side}$", "fields": {"citations": []}} for side in ("affirmative", "negative")]
    found = {"ahead": "negative", "decided": True, "reason": "So."}
    moderates = {"model": "stub-moderator$", "match": "which side is `ahead`", "fields": found}
    attacks = [attacked("one", "SUPPORTS"), attacked("two", "REFUTES")]
    start_stub([*attacks, *agree, *sides, moderates, says("moderator", "REFUTES")])
    document = await debate(trigger="self_critique", debate="debate_cv")
    ended = [line.text for line in ending(document).lines]
    assert "The debate changed 1 of 2 later answers, to the verdict." in ended
    assert "SUPPORTS to REFUTES (the verdict) before the debate" in ended
    text = report(document, "md", "en")
    assert "Before the debate, Debater B changed from “Supported” to “Refuted”, the verdict." in text
    assert "| Who | First answers | After its own attack | Decision |" in text
    assert "- Debater A, Supported" in text
    told = [(section.heading, line.text) for section in round_sections(document) for line in section.lines]
    assert ("Round 1", "The debate stops: the moderator can decide.") in told


async def test_the_gate_says_what_let_the_debate_follow(start_stub: StartStub) -> None:
    debaters = [says("rag", "REFUTES"), says("search", "REFUTES")]
    start_stub([says("one", "SUPPORTS", **CITES), says("two", "SUPPORTS"), *debaters])
    for settings, fired, answer in (
        ({}, None, "SUPPORTS"),
        ({"min_verified": 2}, "unverified", "REFUTES"),
        ({"trigger": "always"}, "always", "REFUTES"),
        ({"trigger": "never", "min_verified": 2}, "unverified", "SUPPORTS"),
        ({"trigger": "self_critique", "min_verified": 2}, "unverified", "REFUTES"),  # nobody is asked to attack
    ):
        document = await debate(**settings)
        assert (document["metrics"]["gate"]["fired"], document["answer"]) == (fired, answer), settings
        assert "critique" not in document["metrics"]["gate"]


def assesses(*bears: str) -> dict[str, Any]:
    """A rule for the scorer: what each quote of an answer does for it."""
    quotes = [{"index": index, "bears": one} for index, one in enumerate(bears)]
    return {"model": "stub-scorer$", "reply": json.dumps({"statements": [], "quotes": quotes})}


@pytest.mark.parametrize(
    ("scorer", "fired", "warrants"),
    [
        (assesses("entails"), None, {"entails": 1}),
        (assesses("neither"), "unwarranted", {"neither": 1}),
        ({"model": "stub-scorer$", "reply": "Hm."}, "unwarranted", {"unknown": 1}),
    ],
)
async def test_a_debate_follows_if_no_quote_bears_the_common_answer_out(
    start_stub: StartStub, scorer: dict[str, Any], fired: str | None, warrants: dict[str, int]
) -> None:
    debaters = [says("rag", "REFUTES"), says("search", "REFUTES")]
    start_stub([scorer, says("one", "SUPPORTS", **CITES), says("two", "SUPPORTS"), *debaters])
    document = await debate(trigger="unwarranted")
    gate = document["metrics"]["gate"]
    assert (gate["fired"], gate["warrants"], gate["passed"]) == (fired, warrants, fired is None)
    assert document["answer"] == ("REFUTES" if fired else "SUPPORTS")
    # Only the answer with a quote is assessed, and an unusable reply is asked for once more.
    asked = [call["node"] for call in document["calls"] if call["role"] == "scorer"]
    assert asked == ["assess_answers"] * (2 if "unknown" in warrants else 1)
    assert document["round_log"][0]["reason"] == ("unwarranted" if fired else "agreed")


async def test_an_open_answer_needs_no_quote_that_bears_it_out(start_stub: StartStub) -> None:
    start_stub([assesses("neither"), says("one", "NOT ENOUGH INFO", **CITES), says("two", "NOT ENOUGH INFO")])
    document = await debate(trigger="unwarranted")
    assert (document["metrics"]["gate"]["fired"], document["answer"]) == (None, "NOT ENOUGH INFO")


OPEN = "NOT ENOUGH INFO"


async def test_after_an_agreement_that_nothing_is_settled_the_debate_searches_on(start_stub: StartStub) -> None:
    """Its debaters leave the claim open, too, from the gate's evidence, and then search, told what was asked."""
    rules = [says("one", OPEN, **CITES), says("two", OPEN, **CITES)]
    debaters = [{**says(role, OPEN), "times": 1} for role in ("rag", "search")]
    stub = start_stub([*rules, *debaters, says("rag", "REFUTES"), says("search", "REFUTES")])
    document = await debate(open_continues=True, plan=True)
    gate = document["metrics"]["gate"]
    assert (gate["passed"], gate["fired"], gate["agreed"], gate["debate"]["graph"]) == (False, "open", OPEN, "tool_mad")
    assert (document["answer"], document["rounds"]) == ("REFUTES", 2)
    found = [(record["phase"], record["round"], record["reason"]) for record in document["round_log"]]
    assert found == [("gate", 0, "open"), ("primary", 1, "open"), ("primary", 2, "agreed")]
    asked = [prompt for prompt in stub.prompts("rag") if "Write your next search" in prompt]
    assert asked
    assert all(re.search('<searched_for round="0" by="one, two"', prompt) for prompt in asked)
    # The debaters read the plan of the gate.
    assert all("<plan>\nAbout: " in prompt for prompt in stub.prompts("rag"))
    text = "\n".join(line.text for part in round_sections(document) for line in part.lines)
    assert "The gate leaves the claim open, as all agents did: the debate goes on." in text
    assert "the debate has not searched yet, so the debate searches on" in text


async def test_such_an_agreement_may_also_end_it(start_stub: StartStub) -> None:
    start_stub([says("one", OPEN, **CITES), says("two", OPEN, **CITES)])
    for settings in ({}, {"open_continues": True, "trigger": "never"}, {"min_verified": 0}):
        document = await debate(**settings)
        gate = document["metrics"]["gate"]
        assert (gate["passed"], gate["fired"], document["answer"]) == (True, None, OPEN), settings
        assert document["stop_reason"] == "consensus"
    kind = load_graph("gated").settings
    assert (kind().open_continues, kind(preset="practical").open_continues) == (False, True)
    assert "verified" not in "\n".join(line.text for part in round_sections(document) for line in part.lines)


# --- faults, ceilings, settings ---------------------------------------------------------------------------------------


async def test_a_failed_debate_fails_the_run_but_keeps_the_gates_turns(start_stub: StartStub) -> None:
    start_stub([says("one", "SUPPORTS"), says("two", "REFUTES"), {"status": 401}])
    document = await debate()
    assert (document["status"], document["answer"]) == ("failed", None)
    assert document["error"]["kind"] == "authentication"
    assert [turn["agent"] for turn in document["turns"] if turn["phase"] == "gate"] == ["one", "two"]


async def test_live_output_says_that_there_is_no_verdict_if_a_run_ends_before_the_gate_decides(
    start_stub: StartStub,
) -> None:
    start_stub([{"status": 401}])
    document = await debate()
    assert (document["status"], document["metrics"].get("gate")) == ("failed", None)
    interrupted = {**document, "status": "interrupted", "error": None}  # as after SIGTERM
    for ended in (document, interrupted):
        assert "no verdict" in "\n".join(line.text for line in Live(settings_of()).end(ended)).lower()


async def test_a_ceiling_of_calls_holds_for_gate_and_debate_together(start_stub: StartStub) -> None:
    """One call is reserved for the judge."""
    rules = [says("one", "SUPPORTS"), says("two", "REFUTES"), says("rag", "SUPPORTS"), says("search", "REFUTES")]
    start_stub([*rules, says("judge", "REFUTES")])
    for most in (1, 3, 5):
        document = await debate(max_calls=most)
        assert (document["status"], document["answer"], len(document["calls"])) == ("done", "REFUTES", most)
        assert document["stop_reason"] == "budget_exhausted"
        assert document["calls"][-1]["role"] == "judge"


def test_the_debate_inherits_settings_that_debate_settings_do_not_replace() -> None:
    tool_mad = load_graph("tool_mad").settings
    inner = settings_of(temperature=0.3, budget=50_000, debate_settings={"k": 7}).of_debate(tool_mad)
    # `budget` is not inherited, because it bounds the gate and the debate together.
    assert (inner.temperature, inner.k, inner.budget, inner.retrieval) == (0.3, 7, None, "later")
    assert inner.models["rag"] == "openai:stub-rag"
    pool = settings_of(debate="standard_mad").of_debate(load_graph("standard_mad").settings)
    assert (pool.retrieval, pool.k) == ("none", 2)


def test_invalid_settings_of_the_gate_or_the_debate_are_refused() -> None:
    for wrong, message in (
        ({"debate_settings": {"rounds": 3}}, "There is no setting 'rounds'"),
        ({"debate": "gated"}, "debate: "),
        ({"models": {"judges": "fake:1"}}, "there is no role 'judges'"),
        ({"agents": [{"name": "rag"}, {"name": "two"}]}, "'rag' is also a role in tool_mad"),
    ):
        with pytest.raises(UserError, match=message):
            checked_settings(load_graph("gated").settings, wrong)


async def test_a_task_that_does_not_fit_the_debate_is_refused_before_any_call(start_stub: StartStub) -> None:
    stub = start_stub()
    asked = {"claim": "How many?", "task": "number"}
    document = await load_graph("gated").graph.ainvoke(asked, context=settings_of(debate="proclaim"))
    assert (document["error"]["kind"], stub.requests()) == ("unfit_task", [])


def test_verified_quotes_count_once_per_origin() -> None:
    pieces = check_given([LETTER, NOTE, {"id": "again", "text": "Another page.", "url": "https://www.a.org/9"}])
    turns: Any = [
        {"citations": [{"evidence_id": "letter-1", "verified": True}, {"evidence_id": "again", "verified": True}]},
        {"citations": [{"evidence_id": "note-2", "verified": False}]},
        {},
    ]
    assert verified_origins(turns, pieces) == ["a.org"]


def test_the_identity_of_a_run_includes_the_debate_behind_the_gate() -> None:
    first, other = (parts_of("gated", {"model": "fake:1", "debate": name}) for name in ("tool_mad", "madke"))
    assert {"tool_mad/judge", "rag/answer"} <= set(first["prompts"])
    assert "madke/summary" in other["prompts"]
    assert first["behaviour"] == f"gated {code_version()}+tool_mad {code_version()}" != other["behaviour"]
