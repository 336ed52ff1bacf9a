"""PROClaim on the scripted endpoint: which failures end a trial, and which do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from moot.graphs.proclaim import graph

from tests.conftest import StartStub
from tests.graphs.full_trial import (
    ALL_ROUNDS,
    FinishedTrial,
    exhibit_names,
    expected_round,
    expert_testimony,
    experts,
    find_turns,
    full_trial,
    ids,
    names_of,
    near,
    requests_with,
    shared_trial,
    statements_in,
    trace,
)
from tests.graphs.scripted_agents import CLAIM, rule
from tests.graphs.scripted_trial import (
    NAMES,
    SIDES,
    TEXTS,
    argues,
    counsel,
    debate_entry,
    default_argument,
    default_rules,
    judge_rules,
    kinds,
    names,
    outcome,
    premise_rule,
    prompts,
    role_for,
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


@pytest.mark.parametrize(
    ("side", "phase", "name", "place"),
    [
        ("plaintiff", "primary", "plaintiff", "plaintiff: argue, round 2"),
        ("defense", "primary", "defense", "defense: argue, round 2"),
        ("defense", "switched", "plaintiff", "plaintiff: argue, switched, round 2"),
    ],
)
async def test_a_trial_fails_if_the_model_of_a_counsel_fails(
    start_stub: StartStub, side: str, phase: str, name: str, place: str
) -> None:
    first_argument = argues(side, default_argument(side, 1, phase), phase=phase)
    stub = start_stub([*first_argument, counsel(side, "argue", phase, status=500), *full_trial()])
    document = await trial()
    assert outcome(document)[:4] == ("failed", None, None, None)
    assert (document["confidence"], document["votes"]) == (None, [])
    assert (document["error"]["kind"], document["error"]["where"]) == ("server_error", place)
    assert f"stub-{name}" in document["error"]["detail"]
    assert [t["argument"] for t in turns(document, "argue", phase).values() if t["round"] == 1] == [
        default_argument("plaintiff", 1, phase),
        default_argument("defense", 1, phase),
    ]
    kept_turns = expected_round("primary", 1) + expected_round("switched", 1)
    assert {turn for group in kept_turns for turn in group} <= set(trace(document))
    assert [e["status"] for e in document["evidence"] if NAMES[e["text"]] in ("A", "B", "K")] == [
        "admitted",
        "disputed",
        "discovered",
    ]
    assert not prompts(stub, "judge-1") + prompts(stub, "analyser")
    failed = [call for call in document["calls"] if call["outcome"] == "failed"]
    assert [(call["role"], call["phase"], call["round"]) for call in failed] == [(name, phase, 2)]


async def test_the_error_names_the_counsel_whose_model_is_always_down(start_stub: StartStub) -> None:
    """The trial continues after the failed challenge, and fails at the argument."""
    start_stub([rule("defense", status=500), *full_trial()])
    document = await trial()
    assert outcome(document)[:2] == ("failed", None)
    assert document["error"]["where"].startswith("defense: argue")
    assert len([e for e in document["evidence"] if "weight" in e]) == 12
    assert turns(document, "challenge", "negotiation")["defense", 0]["challenges"] is None


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
    star = "*" if phase == "switched" else ""
    answering = [statements_in(p) for p in prompts(stub, role_for("defense", phase), "argue", "defense")]
    assert answering == ["", f"d1{star} p2{star}"]
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


@pytest.fixture(scope="module", params=FAULTS)
def degraded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, FinishedTrial]]:
    """A fault (see `FAULTS`), and a trial that is done in spite of it.

    The fault affects six roles, one judge, both sides' gaps and reflections, and the rating of exhibit A.
    """
    fault: str = request.param
    failing = [
        rule(role, **FAULTS[fault]) for role in ("miner", "negotiator", "retrieval", "court", "critic", "analyser")
    ]
    failing += [rule("judge-2", **FAULTS[fault]), rule("arbiter", f"\n{TEXTS['A']}\n", **FAULTS[fault])]
    failing += [
        counsel(side, step, phase, **FAULTS[fault])
        for side in SIDES
        for step in ("gap", "reflect")
        for phase in ("primary", "switched")
    ]
    wanted = [r for r in experts(*ALL_ROUNDS) if "expert" not in r["model"]]
    rules = [*failing, *wanted, *judge_rules("SUPPORTED", "NOT SUPPORTED", "SUPPORTED"), *default_rules()]
    with shared_trial(tmp_path_factory.mktemp("degraded"), rules, max_rounds=3, switched_rounds=3) as finished:
        yield fault, finished


def test_a_trial_continues_if_most_of_its_roles_fail(degraded: tuple[str, FinishedTrial]) -> None:
    fault, (document, _) = degraded
    assert outcome(document) == ("done", "SUPPORTS", "SUPPORTED", "max_rounds", 3)

    missing = {
        "premises": ["premises"],
        "stance_queries": ["supporting_query", "challenging_query"],
        "rule_on_expert": ["granted", "reason"],
        "close": ["close", "reason"],
        "critique": ["plaintiff", "defense", "unresolved_premises", "recommendations", "debate_resolved"],
        "reflect": ["logic", "novelty", "rebuttal", "flaws", "discovery_need", "refined_stance"],
        "analyse": ["plaintiff_counsel", "defense_counsel", "overall", "contradictions"],
    }
    for step, fields in missing.items():
        found = find_turns(document, step=step)
        assert found
        assert all(
            (t["outcome"], t["scores"], *map(t.get, fields)) == (fault, {}, *[None] * len(fields)) for t in found
        )
        assert all(field in turn for turn in found for field in fields)
    assert not find_turns(document, step="testify")
    assert not find_turns(document, step="retrieve_premise")


def test_the_claim_is_the_query_if_the_roles_that_write_queries_fail(degraded: tuple[str, FinishedTrial]) -> None:
    _, (document, _) = degraded
    # The claim finds only known exhibits, so each side searches only once in each debate.
    searched = find_turns(document, step="discover")
    assert [(t["gap"], t["formulated"], t["query"]) for t in searched] == [(None, None, CLAIM)] * 4
    assert {(t["scores"]["novelty"], t["ended"]) for t in searched} == {(0, "redundancy")}


def test_an_exhibit_without_a_weight_is_shown_only_to_judges(degraded: tuple[str, FinishedTrial]) -> None:
    """Exhibit A could not be weighed. Later searches find it again."""
    fault, (document, stub) = degraded
    weights = {NAMES[e["text"]]: (e.get("weight"), e["status"]) for e in document["evidence"]}
    assert weights == {"A": (None, "seed"), **dict.fromkeys("BCDE", (0.72, "admitted"))}
    [weighed] = [t for t in find_turns(document, step="weigh") if t["evidence_ids"] == ids("A")]
    assert [weighed[key] for key in ("relevance", "credibility", "scores", "outcome")] == [None, None, {}, fault]
    for side in ("plaintiff", "defense"):
        assert {exhibit_names(p) for p in prompts(stub, side, "argue")} == {"B C D E"}
    assert exhibit_names(prompts(stub, "judge-1")[0]) == "B C D E A"


def test_two_judges_decide_if_one_of_three_judges_fails(degraded: tuple[str, FinishedTrial]) -> None:
    _, (document, _) = degraded
    # Both judges agree: 0.8 + 0.3 x 0.6. Consistency and reflection are unknown.
    assert document["confidence"] == near(0.98)
    assert [document["confidence_parts"][key] for key in ("consistency", "role_switch", "winning_reflection")] == [
        None,
        0,
        None,
    ]
    assert document["votes"][1] == {"agent": "judge-2", "answer": None, "group": None}
    panel = document["metrics"]["panel"]
    assert (panel["without_verdict"], panel["agreement"], panel["dissent"]) == (["judge-2"], 1, [])
    assert debate_entry(document)["reflection"] == {side: [None] * 3 for side in SIDES}
    assert debate_entry(document)["reflection_total"] == [None] * 3


def test_warnings_name_the_role_step_and_round_of_failures(degraded: tuple[str, FinishedTrial]) -> None:
    fault, (document, _) = degraded
    warned = {(w["kind"], w["where"]) for w in document["warnings"]}
    places = {
        *(
            f"{who}, negotiation"
            for who in ("miner: premises", "negotiator: stance_queries", "arbiter: weigh_exhibit 1")
        ),
        *(f"{who}, panel" for who in ("analyser: analyse_consistency", "judge-2: judge")),
        *(
            f"{side}: {step}{phase}, round 1"
            for side in SIDES
            for step in ("state_gap", "reflect", "formulate_query")
            for phase in ("", ", switched")
        ),
        *(f"{who}{phase}, round 2" for who in ("court: court", "critic: critique") for phase in ("", ", switched")),
    }
    assert places <= {where for _, where in warned}
    assert {kind for kind, _ in warned} == {
        "call_failed" if fault == "failed" else "unparsed",
        "query_not_formulated",
        "query_not_refined",
        "not_weighed",
    }


@fault
async def test_a_trial_continues_if_steps_other_than_arguments_fail(start_stub: StartStub, fault: str) -> None:
    failing = [
        counsel("plaintiff", "challenge", **FAULTS[fault]),
        counsel("defense", "gap", times=None, **FAULTS[fault]),
        rule("court", "`query`", **FAULTS[fault]),
        rule("expert", "field plaintiff primary 1", **FAULTS[fault]),
        counsel("defense", "request_expert", **FAULTS[fault]),
    ]
    stub = start_stub([*failing, *full_trial()])
    document = await trial(max_rounds=1, switched_rounds=1)
    assert outcome(document)[:2] == ("done", "SUPPORTS")
    challenged = turns(document, "challenge", "negotiation")
    assert (challenged["plaintiff", 0]["challenges"], challenged["plaintiff", 0]["outcome"]) == (None, fault)
    assert challenged["defense", 0]["outcome"] == "ok"
    searched = turns(document, "discover")
    assert (searched["plaintiff", 1]["formulated"], searched["plaintiff", 1]["query"]) == ("first #K #A8 #B",) * 2
    assert names_of(document, searched["plaintiff", 1]["joined"]) == "K A8"
    assert (searched["defense", 1]["gap"], searched["defense", 1]["formulated"]) == (None, "#0")
    [testimony] = turns(document, "testify").values()
    assert [testimony[key] for key in ("testimony", "citations", "outcome")] == [None, [], fault]
    assert turns(document, "request_expert")["defense", 1]["needed"] is None
    assert list(turns(document, "rule_on_expert")) == [("plaintiff", 1)]
    assert statements_in(prompts(stub, "judge-1")[0]) == "p1 d1 p1* d1* xp1* xd1*"


@fault
async def test_a_trial_fails_if_all_judges_fail(start_stub: StartStub, fault: str) -> None:
    start_stub([rule("judge-.", **FAULTS[fault]), *full_trial()])
    document = await trial()
    assert outcome(document) == ("failed", None, None, None, 2)
    assert (document["confidence"], document["confidence_parts"]) == (None, None)
    assert "judge" in document["error"]["detail"]
    assert [(t["verdict"], t["outcome"]) for t in find_turns(document, step="judge")] == [(None, fault)] * 3
    assert [entry["stop_reason"] for entry in document["debates"]] == ["max_rounds"] * 2  # both debates are kept


async def test_an_expert_is_called_only_if_the_court_grants_the_request(start_stub: StartStub) -> None:
    asked = [r for r in experts(("primary", 1)) if "`granted`" not in r["match"]]
    rulings = [
        rule("court", f"{field} primary 1.*`granted`", fields={"granted": granted, "reason": f"On {field}."})
        for field, granted in (("field plaintiff", False), ("field defense", True))
    ]
    stub = start_stub([*asked, *rulings, *default_rules()])
    document = await trial(max_rounds=1)
    assert {at: (t["granted"], t["agent"]) for at, t in turns(document, "rule_on_expert").items()} == {
        ("plaintiff", 1): (False, "court"),
        ("defense", 1): (True, "court"),
    }
    assert {at: (t["testimony"], t["expertise"]) for at, t in turns(document, "testify").items()} == {
        ("defense", 1): (expert_testimony("defense", 1), "field defense primary 1")
    }
    # The prompts of the court and of the expert show the reason for a request. The expert sees only a granted request.
    for side in SIDES:
        requests = requests_with(stub, f"To clear up field {side} primary 1.")
        assert [role for role, _ in requests] == ["court"] + ["expert"] * (side == "defense")
    assert not turns(document, "testify", "switched")


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


async def test_a_trial_continues_if_the_endpoint_refuses_requests_of_some_roles(start_stub: StartStub) -> None:
    failing = ("judge-2", "analyser", "critic", "retrieval", "court")
    start_stub([*(rule(role, status=400) for role in failing), *default_rules()])
    document = await trial()
    assert document["status"] == "done"
    assert document["metrics"]["panel"]["without_verdict"] == ["judge-2"]
    assert document["confidence_parts"]["consistency"] is None
    searched = find_turns(document, step="discover")
    assert {(t["formulated"], t["query"]) for t in searched} == {(None, CLAIM)}
    failed = {w["where"] for w in document["warnings"] if w["kind"] == "call_failed"}
    assert {place for place in failed if not place.startswith("court")} == {
        "judge-2: judge, panel",
        "analyser: analyse_consistency, panel",
        *(f"critic: critique{phase}, round {n}" for phase in ("", ", switched") for n in (1, 2)),
    }


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
