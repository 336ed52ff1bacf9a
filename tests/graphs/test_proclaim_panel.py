"""PROClaim's panel: its size, its settings, and the answer that follows from its verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from moot.graphs.proclaim import ProclaimSettings, graph
from pydantic import ValidationError

from tests.conftest import StartStub
from tests.graphs.scripted_agents import Rule, final_votes, rule
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
    roles_sharing_model,
    side_by_side,
    trial,
    trial_of,
    turns,
)

# --- the panel --------------------------------------------------------------------------------------------------------

PANELS: list[tuple[list[str | None], str, int, int]] = [
    ([S], S, 1, 1),
    ([N], N, 1, 1),
    ([I], I, 1, 1),
    ([S, S, S], S, 3, 3),
    ([S, N, N], N, 2, 3),
    ([N, I, I], I, 2, 3),
    ([S, N, I], S, 1, 3),  # all differ, so the chief judge's verdict wins
    ([I, N, S], I, 1, 3),
    ([None, N, N], N, 2, 2),
    ([None, N, S], N, 1, 2),  # a tie: the first judge with a verdict decides
    ([S, None, N], S, 1, 2),
    ([None, None, N], N, 1, 1),
    ([N, N, S, S, S], S, 3, 5),
    ([S, N, N, S, I], S, 2, 5),
    ([S, N, I, N, None], N, 2, 4),
    ([S, I, N, N, I], I, 2, 5),  # a tie of I and N, and I is first in the judges' order
    ([N, S, S, N, I], N, 2, 5),
    ([None, S, N, I, None], S, 1, 3),
    ([N, S, None, None, None], N, 1, 2),
    ([N, S, S, S, N, S, N], S, 4, 7),
    ([S, N, N, I, I, N, S], N, 3, 7),  # the most frequent verdict wins without half of the votes
    ([N, S, I, N, S, I, N], N, 3, 7),
    ([I, I, I, I, I, I, I], I, 7, 7),
]
"""The judges' verdicts in order, the panel's verdict, the number of votes for it, and the number of all votes."""


def panel_rules(verdicts: Sequence[str | None]) -> list[Rule]:
    """Rules for the judges. A judge without a verdict gives an unusable reply, also to the second request."""
    silent = [
        rule(f"judge-{n}", reply="I would rather not say.") for n, verdict in enumerate(verdicts, 1) if verdict is None
    ]
    scores = [(n, n + 1, n + 2) for n, _ in enumerate(verdicts, 1)]
    return [*silent, *judge_rules(*(verdict or S for verdict in verdicts), scores=scores)]


async def test_the_verdict_with_the_most_votes_is_the_panels_verdict(start_stub: StartStub) -> None:
    """If several verdicts have the most votes, the first of them in the judges' order wins."""
    start_stub(side_by_side([*panel_rules(verdicts), *default_rules()] for verdicts, *_ in PANELS))
    for number, (verdicts, verdict, winning, votes) in enumerate(PANELS):
        document = await trial_of(number, judges=len(verdicts), **ONE_ROUND)
        label = {S: "SUPPORTS", N: "REFUTES", I: "NOT ENOUGH INFO"}
        assert outcome(document) == ("done", label[verdict], verdict, "max_rounds", 1), verdicts
        assert final_votes(document) == {f"judge-{n}": v and label[v] for n, v in enumerate(verdicts, 1)}
        parts = document["confidence_parts"]
        assert parts["consensus_strength"] == pytest.approx(winning / votes, abs=1e-6)
        scored = [n for n, v in enumerate(verdicts, 1) if v]
        # The three scores of judge n add up to 3 n + 3.
        assert parts["quality"] == pytest.approx(sum(3 * n + 3 for n in scored) / len(scored) / 30, abs=1e-6)
        assert parts["base"] == pytest.approx(0.8 * parts["consensus_strength"] + 0.3 * parts["quality"], abs=1e-5)
        report = document["metrics"]["panel"]
        assert report["without_verdict"] == [f"judge-{n}" for n, v in enumerate(verdicts, 1) if v is None]
        assert {v: count for v, count in report["verdicts"].items() if count} == Counter(v for v in verdicts if v)
        assert [d["agent"] for d in report["dissent"]] == [
            f"judge-{n}" for n, v in enumerate(verdicts, 1) if v and v != verdict
        ]
        assert len(turns(document, "judge", "panel")) == len(verdicts)


async def test_a_judge_whose_call_fails_is_not_counted(start_stub: StartStub) -> None:
    start_stub([rule("judge-1", status=500), *judge_rules(S, N, N), *default_rules()])
    document = await trial(**ONE_ROUND)
    assert outcome(document)[:3] == ("done", "REFUTES", N)
    assert final_votes(document) == {"judge-1": None, "judge-2": "REFUTES", "judge-3": "REFUTES"}
    assert document["confidence_parts"]["consensus_strength"] == 1
    [warning] = [w for w in document["warnings"] if w["kind"] != "empty_retrieval"]
    assert "judge-1" in warning["where"]


async def test_a_trial_without_any_verdict_has_no_answer(start_stub: StartStub) -> None:
    start_stub([*panel_rules([None, None, None]), *default_rules()])
    document = await trial(**ONE_ROUND)
    assert (document["answer"], document["raw_verdict"], document["confidence"]) == (None, None, None)
    assert document["error"]["kind"] == "unparsed"
    assert "judge" in document["error"]["detail"]
    assert [t["outcome"] for t in turns(document, "judge", "panel").values()] == ["unparsed"] * 3
    assert {entry["phase"] for entry in document["debates"]} == {"primary"}


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


def test_the_default_settings_are_those_of_the_paper() -> None:
    settings = ProclaimSettings()
    temperatures = {
        0.5: "plaintiff defense expert",
        0.2: "court arbiter",
        0.3: "critic miner analyser negotiator retrieval",
    }
    for temperature, who in temperatures.items():
        assert {settings.temperature_of(role) for role in who.split()} == {temperature}
    assert {settings.temperature_of(judge.name) for judge in settings.judges} == {0.3}
    assert [judge.name for judge in settings.judges] == ["judge-1", "judge-2", "judge-3"]
    assert (settings.seed_k, settings.k, settings.max_rounds, settings.min_rounds) == (5, 3, 10, 2)
    assert (settings.switched_rounds, settings.max_retrievals, settings.relevance_gain) == (2, 10, None)
    assert (settings.admitted_above, settings.disputed_above) == (0.5, 0.1)
    assert (settings.novelty_threshold, settings.redundant_similarity, settings.redundant_share) == (0.20, 0.85, 0.70)
    assert (settings.plateau, settings.exhaustion, settings.inconclusive) == (0.05, 0.10, None)
    assert settings.role_switch is settings.progressive_retrieval is settings.self_reflection is True


def test_the_setting_temperatures_applies_to_the_named_roles() -> None:
    settings = ProclaimSettings.model_validate(
        {"temperatures": {"court": 0, "judges": 0.9, "expert": None}, "judges": 5}
    )
    found = {role: settings.temperature_of(role) for role in ("court", "judge-5", "expert", "critic", "plaintiff")}
    assert found == {"court": 0, "judge-5": 0.9, "expert": None, "critic": 0.3, "plaintiff": 0.5}


async def test_a_warning_names_the_judges_and_the_critic_without_a_model_of_their_own(start_stub: StartStub) -> None:
    """The critic should not share a model with a counsel, nor a judge with a counsel or another judge."""
    start_stub(default_rules())
    base = {role: f"openai:stub-{role}" for role in ("plaintiff", "defense", "critic", "court", "expert", "miner")}
    panel = [f"openai:stub-judge-{number}" for number in (1, 2, 3)]
    plaintiff, defense = base["plaintiff"], base["defense"]
    cases: list[tuple[dict[str, Any], list[Any], set[str]]] = [
        ({}, panel, set()),
        ({}, [panel[0], plaintiff, panel[2]], {"judge-2"}),
        ({"judge-2": plaintiff}, panel, {"judge-2"}),
        ({"judge-2": "openai:stub-fourth"}, [panel[0], plaintiff, panel[2]], set()),
        ({"critic": defense}, [*panel[:2], {"name": "daniel", "model": plaintiff}], {"critic", "daniel"}),
        ({"critic": {"model": defense, "temperature": 1.0}}, panel, {"critic"}),  # only the temperature differs
        ({"court": plaintiff, "expert": defense, "critic": panel[0]}, panel[:1] * 3, {"judge-1", "judge-2", "judge-3"}),
        ({"plaintiff": defense}, panel, set()),
        ({}, [defense], {"judge-1"}),
        ({"defense": "openai:stub-other"}, [defense], set()),
    ]
    for models, bench, expected in cases:
        settings: dict[str, Any] = {
            "models": {**base, **models},
            "judges": bench,
            "sources": [LIBRARY],
            **ONE_ROUND,
        }
        settings |= {"model": "openai:stub-rest", "embedder": "openai:stub-embedding"}
        document = await graph.ainvoke({"claim": "It holds."}, context=ProclaimSettings.model_validate(settings))
        assert document["status"] == "done"
        assert roles_sharing_model(document) == expected, models


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


async def test_there_is_no_warning_if_the_burden_of_refutation_is_not_needed(start_stub: StartStub) -> None:
    start_stub([*judge_rules(I, S, S), *default_rules()])
    document = await trial("It holds.", {"task": "faviq"}, **ONE_ROUND)
    assert outcome(document)[:3] == ("done", "SUPPORTS", S)
    assert kinds(document) == []


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
