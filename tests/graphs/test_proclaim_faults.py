"""PROClaim on the scripted endpoint: which failures end a trial, and which do not."""

from __future__ import annotations

from typing import Any

import pytest
from moot.graphs.proclaim import graph

from tests.conftest import StartStub
from tests.graphs.scripted_agents import CLAIM, rule
from tests.graphs.scripted_trial import (
    argues,
    counsel,
    debate_entry,
    default_argument,
    default_rules,
    find_turns,
    kinds,
    names,
    outcome,
    premise_rule,
    prompts,
    searches,
    stance_rule,
    trial,
    trial_settings,
    turns,
)

# --- faults -----------------------------------------------------------------------------------------------------------

FAULTS: dict[str, dict[str, Any]] = {"failed": {"status": 500}, "unparsed": {"reply": "I would rather not say."}}
"""Faults by their outcome: the model is down, or all its replies are unusable."""
fault = pytest.mark.parametrize("fault", FAULTS)


@pytest.mark.parametrize("phase", ["primary", "switched"])
async def test_a_trial_continues_if_a_side_gives_no_usable_argument_in_one_round(
    start_stub: StartStub, phase: str
) -> None:
    mute = counsel("plaintiff", "argue", phase, 2, reply="I would rather not say.")  # twice: the request is repeated
    stub = start_stub(
        [mute, *argues("plaintiff", default_argument("plaintiff", 2, phase), phase=phase), *default_rules()]
    )
    document = await trial()
    assert document["status"] == "done"
    arguments = turns(document, "argue", phase)
    assert {at: (t["argument"], t["outcome"]) for at, t in arguments.items()} == {
        ("plaintiff", 1): (None, "unparsed"),
        ("defense", 1): (default_argument("defense", 1, phase), "ok"),
        ("plaintiff", 2): (default_argument("plaintiff", 2, phase), "ok"),
        ("defense", 2): (default_argument("defense", 2, phase), "ok"),
    }
    assert (arguments["plaintiff", 1]["citations"], debate_entry(document, phase)["rounds"]) == ([], 2)
    assert "I would rather not say." not in "".join(prompts(stub, "judge-1"))
    assert set(kinds(document)) == {"unparsed"}


async def test_a_trial_fails_if_a_side_gives_no_argument_in_the_whole_primary_debate(start_stub: StartStub) -> None:
    stub = start_stub([counsel("defense", "argue", reply="I would rather not say."), *default_rules()])
    document = await trial()
    assert outcome(document)[:4] == ("failed", None, None, None)
    assert document["error"]["kind"] == "unparsed"
    assert "defense" in document["error"]["detail"]
    assert [t["argument"] for t in turns(document, "argue").values() if t["side"] == "plaintiff"] == [
        default_argument("plaintiff", 1),
        default_argument("plaintiff", 2),
    ]
    assert len(turns(document, "argue", "switched")) == 4  # the turns of the other debate are kept
    assert not prompts(stub, "judge-1")


async def test_consistency_is_unknown_if_a_side_gives_no_argument_in_the_switched_debate(start_stub: StartStub) -> None:
    mute = counsel("defense", "argue", "switched", reply="I would rather not say.")
    stub = start_stub([mute, *default_rules()])
    document = await trial()
    assert outcome(document)[:2] == ("done", "SUPPORTS")
    [warning] = [w for w in document["warnings"] if w["kind"] == "side_not_heard"]
    assert "defense" in warning["detail"]
    assert not prompts(stub, "analyser")
    parts = document["confidence_parts"]
    assert (parts["consistency"], parts["role_switch"]) == (None, 0)


@fault
async def test_a_trial_fails_if_all_judges_fail(start_stub: StartStub, fault: str) -> None:
    start_stub([rule("judge-.", **FAULTS[fault]), *default_rules()])
    document = await trial()
    assert outcome(document) == ("failed", None, None, None, 2)
    assert (document["confidence"], document["confidence_parts"]) == (None, None)
    assert "judge" in document["error"]["detail"]
    assert [(t["verdict"], t["outcome"]) for t in find_turns(document, step="judge")] == [(None, fault)] * 3
    assert [entry["stop_reason"] for entry in document["debates"]] == ["max_rounds"] * 2  # both debates are kept


@pytest.mark.parametrize("fallback", [[], ["bm25:demo-encyclopaedia"]])
async def test_a_trial_fails_if_the_first_search_fails_without_a_fallback(
    start_stub: StartStub, fallback: list[str]
) -> None:
    """With a fallback the trial continues."""
    stub = start_stub(default_rules())
    document = await trial(f"{CLAIM} #down", fallback=fallback)
    if fallback:
        assert document["status"] == "done"
        assert [t["retrieval"] for t in find_turns(document, step="retrieve_seed")] == ["ok"]
    else:
        assert outcome(document)[:2] == ("failed", None)
        assert (document["error"]["kind"], document["error"]["retryable"]) == ("retrieval_failed", True)
        assert not find_turns(document, step="weigh") + prompts(stub, "plaintiff")
        done = {t["step"]: t.get("outcome", t.get("retrieval")) for t in document["turns"]}
        assert done == {"premises": "ok", "stance_queries": "ok", "retrieve_seed": "failed"}
    assert kinds(document) == ["retrieval_failed", *["stand_in"] * bool(fallback)]


async def test_a_trial_continues_if_searches_after_the_first_fail(start_stub: StartStub) -> None:
    down = [premise_rule("First. #down", "Second. #F"), stance_rule("#down", "against #H")]
    start_stub([*down, *searches("plaintiff", "#down", "again #K"), *default_rules()])
    document = await trial()
    assert outcome(document)[:2] == ("done", "SUPPORTS")
    assert names(e for e in document["evidence"] if "weight" in e) == "A B C D E F H"
    assert [t["retrieval"] for t in find_turns(document, phase="negotiation") if "retrieval" in t] == [
        "ok",
        "failed",
        "ok",
        "failed",
        "ok",
    ]
    searched = turns(document, "discover")
    assert [(searched["plaintiff", n]["retrieval"], searched["plaintiff", n]["scores"]["novelty"]) for n in (1, 2)] == [
        ("failed", None),
        ("ok", 1),
    ]
    assert kinds(document) == ["retrieval_failed"] * 3


@fault
async def test_a_trial_fails_before_its_debates_if_no_evidence_can_be_weighed(
    start_stub: StartStub, fault: str
) -> None:
    stub = start_stub([rule("arbiter", **FAULTS[fault]), *default_rules()])
    document = await trial()
    assert (document["status"], document["answer"], document["debates"]) == ("failed", None, [])
    assert document["error"]["kind"] == {"failed": "nothing_weighed"}.get(fault, fault)
    assert document["error"]["where"] == "rule"
    assert {piece["status"] for piece in document["evidence"]} == {"seed"}
    assert not prompts(stub, "plaintiff", "argue")


async def test_a_trial_with_a_failed_debate_runs_close_once_and_no_panel(start_stub: StartStub) -> None:
    start_stub([counsel("plaintiff", "argue", "switched", status=500), *default_rules()])
    steps = [step async for step in graph.astream({"claim": CLAIM}, context=trial_settings(), stream_mode="updates")]
    done = [node for step in steps for node in step]
    assert done.count("close") == 1
    assert "panel" not in done
