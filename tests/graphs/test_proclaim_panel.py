"""PROClaim's panel: its size, its settings, and the answer that follows from its verdict."""

from __future__ import annotations

from typing import Any

import pytest
from moot.graphs.proclaim import ProclaimSettings, graph
from pydantic import ValidationError

from tests.conftest import StartStub
from tests.graphs.scripted_agents import final_votes, rule
from tests.graphs.scripted_trial import (
    LIBRARY,
    ONE_ROUND,
    I,
    N,
    S,
    default_rules,
    judge_rules,
    kinds,
    outcome,
    prompts,
    trial,
)

# --- the panel --------------------------------------------------------------------------------------------------------


async def test_judges_may_have_their_own_models_names_and_personas(start_stub: StartStub) -> None:
    stub = start_stub([rule("daniel", fields={"verdict": I}), *default_rules()])
    daniel = {"name": "daniel", "model": "openai:stub-daniel", "persona": "A retired metrologist."}
    bench: list[Any] = ["openai:stub-judge-2", daniel, {}]
    models = {role: f"openai:stub-{role}" for role in ("plaintiff", "defense", "critic", "judge-3")}
    chosen = {"model": "openai:stub-court", "models": models, "judges": bench, "sources": [LIBRARY], **ONE_ROUND}
    settings = ProclaimSettings.model_validate({**chosen, "embedder": "openai:stub-embedding"})
    assert {"judge-1", "daniel", "judge-3"} <= settings.roles()
    document = await graph.ainvoke({"claim": "It holds."}, context=settings)
    asked = {call["agent"]: call["model"] for call in document["calls"] if call["phase"] == "panel"}
    assert asked == {
        "judge-1": "openai:stub-judge-2",
        "daniel": "openai:stub-daniel",
        "judge-3": "openai:stub-judge-3",  # from `models`
    }
    assert final_votes(document) == {"judge-1": "REFUTES", "daniel": "NOT ENOUGH INFO", "judge-3": "SUPPORTS"}
    assert outcome(document)[:3] == ("done", "REFUTES", N)
    with_persona = {
        name: "A retired metrologist." in prompts(stub, name)[0] for name in ("daniel", "judge-2", "judge-3")
    }
    assert with_persona == {"daniel": True, "judge-2": False, "judge-3": False}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"judges": 2}, "odd number of judges, not 2"),
        ({"judges": 4}, "odd number of judges, not 4"),
        ({"judges": ["openai:a", "openai:b"]}, "odd number of judges, not 2"),
        ({"judges": 0}, "judges\n.*at least 1"),
        ({"judges": []}, "judges\n.*at least 1"),
        ({"judges": 17}, "judges\n.*at most 15"),
        ({"judges": "openai:a"}, "expected a list"),
        ({"judges": [{"name": "solomon"}, {"name": "solomon"}, {}]}, "its own name"),
        ({"judges": [{"name": "critic"}]}, "these names are reserved: .*critic"),
        ({"judges": [{"name": "plaintiff"}, {}, {}]}, "its own name"),
        ({"judges": [{"nmae": "solomon"}]}, "nmae"),
        ({"temperatures": {"stenographer": 0.1}}, "no role 'stenographer'; known are .*judges"),
        ({"temperatures": {"court": 2.1}}, "temperatures.court\n.*less than or equal to 2"),
        ({"temperatures": 0.3}, "temperatures\n.*dictionary"),
        ({"models": {"judge-4": "openai:a"}}, "no role 'judge-4'; known are .*judge-3.*reporter"),
        ({"models": {"judge-2": "openai:a"}, "judges": 1}, "no role 'judge-2'"),
        ({"models": {"jury": "openai:a"}}, "no role 'jury'"),
        ({"inconclusive": "guess"}, "'abstain' or 'burden_of_refutation'"),
        ({"verdict_labels": {"MAYBE": "x"}}, "'SUPPORTED', 'NOT SUPPORTED' or 'INCONCLUSIVE'"),
        ({"max_rounds": 0}, "max_rounds\n"),
        ({"min_rounds": 0}, "min_rounds\n"),
        ({"switched_rounds": 0}, "switched_rounds\n"),
        ({"max_retrievals": 0}, "max_retrievals\n"),
        ({"seed_k": 0}, "seed_k\n"),
        ({"redundant_share": 1.1}, "redundant_share\n"),
        ({"novelty_threshold": -0.1}, "novelty_threshold\n"),
        ({"admitted_above": 1.5}, "admitted_above\n"),
        ({"panel_tokens": 10}, "panel_tokens\n"),
        ({"role_swich": False}, "role_swich"),
    ],
)
def test_invalid_settings_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=f"(?s){message}"):
        ProclaimSettings.model_validate(given)


# --- from the verdict to the answer -----------------------------------------------------------------------------------

NEI = "NOT ENOUGH INFO"
OWN = {"task": "labels", "labels": ["Fine", "Wrong", "Hm"]}
ANSWERS: list[tuple[dict[str, Any], dict[str, Any], tuple[str, str, str | None], bool]] = [
    ({}, {}, ("SUPPORTS", "REFUTES", NEI), False),
    ({"task": "fever"}, {"inconclusive": "abstain"}, ("SUPPORTS", "REFUTES", NEI), False),
    ({"task": "fever"}, {"inconclusive": "burden_of_refutation"}, ("SUPPORTS", "REFUTES", "SUPPORTS"), True),
    ({"task": "faviq"}, {}, ("SUPPORTS", "REFUTES", "SUPPORTS"), True),
    ({"task": "faviq"}, {"inconclusive": "burden_of_refutation"}, ("SUPPORTS", "REFUTES", "SUPPORTS"), True),
    ({"task": "faviq"}, {"inconclusive": "abstain"}, ("SUPPORTS", "REFUTES", None), False),
    ({"task": "averitec"}, {}, ("Supported", "Refuted", "Not Enough Evidence"), False),
    ({"task": "scifact"}, {}, ("SUPPORT", "CONTRADICT", NEI), False),
    ({"task": "check_covid_binary"}, {}, ("SUPPORT", "REFUTE", "SUPPORT"), True),
    ({"task": "check_covid"}, {}, ("SUPPORT", "REFUTE", "NOTENOUGHINFO"), False),
    ({"task": "healthver"}, {}, ("Supports", "Refutes", "Neutral"), False),
    # HoVer's second label also covers undecided claims.
    ({"task": "hover"}, {}, ("SUPPORTED", "NOT_SUPPORTED", "NOT_SUPPORTED"), False),
    ({"task": "hover"}, {"inconclusive": "burden_of_refutation"}, ("SUPPORTED", "NOT_SUPPORTED", "SUPPORTED"), True),
    ({"task": "pubmedqa", "claim": "Does it hold?"}, {}, ("yes", "no", "maybe"), False),
    ({"labels": ["True", "False"]}, {}, ("True", "False", "True"), True),
    (OWN, {"verdict_labels": {S: "Fine", N: "Wrong", I: "Hm"}}, ("Fine", "Wrong", "Hm"), False),
    (OWN, {"verdict_labels": {S: "fine", N: "WRONG"}}, ("Fine", "Wrong", "Fine"), True),
    (
        OWN,
        {"verdict_labels": {S: "Fine", N: "Wrong", I: "Hm"}, "inconclusive": "burden_of_refutation"},
        ("Fine", "Wrong", "Fine"),
        True,
    ),
    ({"task": "fever"}, {"verdict_labels": {I: "REFUTES", N: NEI}}, ("SUPPORTS", NEI, "REFUTES"), False),
]
"""The input, the settings, the answers for S, N and I, and whether the burden of refutation gives the answer for I."""


async def test_verdicts_become_answers_of_the_task(start_stub: StartStub) -> None:
    start_stub([*judge_rules(I, N, S), *default_rules()])
    for given, settings, (supported, refuted, inconclusive), burden in ANSWERS:
        document = await trial("It holds.", given, **settings, **ONE_ROUND)
        # All verdicts differ, so the chief judge's verdict wins.
        assert outcome(document)[:3] == ("done", inconclusive, I), given
        assert final_votes(document) == {"judge-1": inconclusive or I, "judge-2": refuted, "judge-3": supported}
        assert kinds(document) == (["burden_of_refutation"] if burden else [])
        assert document["confidence_parts"]["reflection"] == 0
        assert document["confidence_parts"]["winning_reflection"] is None


UNFIT_TASKS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"task": "short_answer"}, {}),
    ({"task": "number"}, {}),
    ({"task": "math"}, {}),
    ({"options": ["one", "two", "three"]}, {}),
    ({"labels": ["red", "green"]}, {}),
    ({"labels": ["Supported", "green"]}, {}),
    ({"labels": ["Supported", "True", "False"]}, {}),  # two labels fit one verdict
    (OWN, {"verdict_labels": {S: "Fine"}}),
    (OWN, {"verdict_labels": {S: "Fine", N: "Untrue"}}),
    (OWN, {"verdict_labels": {S: "Fine", N: "Fine"}}),
    (OWN, {"verdict_labels": {S: "Fine", N: "Wrong", I: "Unsure"}}),
    ({"task": "fever"}, {"verdict_labels": {I: "UNSURE"}}),
]
"""Inputs and settings whose labels do not fit the verdicts."""


async def test_a_task_whose_labels_do_not_fit_the_verdicts_is_refused_before_any_call(start_stub: StartStub) -> None:
    stub = start_stub(default_rules())
    for given, settings in UNFIT_TASKS:
        document = await trial("It holds.", given, **settings)
        assert (document["status"], document["error"]["kind"]) == ("failed", "unfit_task"), given
        assert "verdict_labels" in document["error"]["detail"]
        assert (document["answer"], document["calls"], document["debates"]) == (None, [], [])
    assert stub.calls() == []
