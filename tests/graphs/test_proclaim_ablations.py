"""PROClaim's ablations, trials without sources, and a record that exceeds `panel_tokens`."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from moot.graphs.proclaim import ProclaimSettings, graph
from moot.nodes._trial.panel import fit_record

from tests.conftest import StartStub
from tests.graphs.scripted_agents import Rule, rule
from tests.graphs.scripted_trial import (
    LIBRARY,
    LOW_NOVELTY,
    SEARCHING,
    SIDES,
    YES,
    I,
    N,
    S,
    both_reflect,
    calls_by_round,
    closes,
    counsel,
    criticises,
    debate_entry,
    default_argument,
    default_rules,
    exhibits_in,
    id_of,
    kinds,
    outcome,
    premise_rule,
    prompts,
    received_chat_calls,
    reflects,
    roles,
    roles_sharing_model,
    searches,
    side_by_side,
    stop_of,
    trial,
    trial_of,
    weighs,
)

# --- ablations --------------------------------------------------------------------------------------------------------


async def test_without_a_role_switch_there_is_one_debate(start_stub: StartStub) -> None:
    stub = start_stub(default_rules())
    document = await trial(role_switch=False)
    assert outcome(document) == ("done", "SUPPORTS", S, "max_rounds", 2)
    assert [entry["phase"] for entry in document["debates"]] == ["primary"]
    assert {call["phase"] for call in document["calls"]} == {"negotiation", "primary", "panel"}
    assert roles(document) == ProclaimSettings().roles() - {"analyser", "expert", "equivalence", "source_summariser"}
    parts = document["confidence_parts"]
    assert (parts["consistency"], parts["role_switch"]) == (None, 0)
    assert document["confidence"] == pytest.approx(parts["base"] + parts["reflection"])
    [judged] = prompts(stub, "judge-1")
    assert default_argument("plaintiff", 2) in judged
    assert default_argument("plaintiff", 2, "switched") not in judged


async def test_without_progressive_retrieval_both_debates_have_three_rounds(start_stub: StartStub) -> None:
    """The settings for rounds have no effect. Reflections, the critic and the court do not end a debate."""
    steady = [r for phase in ("primary", "switched") for r in both_reflect([0.5] * 3, [0.5] * 3, phase=phase)]
    resolved = [r for phase in ("primary", "switched") for r in criticises(*YES, phase=phase)]
    stub = start_stub([*steady, *resolved, *closes(*YES), *default_rules()])
    document = await trial(progressive_retrieval=False, min_rounds=1, max_rounds=1, switched_rounds=1)
    assert outcome(document) == ("done", "SUPPORTS", S, "max_rounds", 3)
    for phase in ("primary", "switched"):
        assert stop_of(document, phase) == ("max_rounds", 3)
        # 2 arguments, 2 replies that request no expert, 2 reflections, 1 critique
        assert calls_by_round(document, phase) == [7] * 3
        entry = debate_entry(document, phase)
        assert (entry["novelty"], entry["reflection_total"]) == ([None] * 3, [1.0] * 3)
    assert not {"retrieval", "court"} & roles(document)
    assert not [p for side in SIDES for p in prompts(stub, side, "gap")]
    assert not {turn["step"] for turn in document["turns"]} & {"discover", "close"}
    assert document["confidence_parts"]["reflection"] == 0  # (0.5 - 0.5) x 0.6; both sides still reflect
    assert document["confidence_parts"]["winning_reflection"] == 0.5


@pytest.mark.parametrize("given", [[], [{"title": "A page", "text": "It grows in the east."}]])
async def test_without_sources_a_trial_weighs_only_given_texts(
    start_stub: StartStub, given: list[dict[str, str]]
) -> None:
    stub = start_stub([premise_rule("It holds. #F", "It is a plant."), *default_rules()])
    document = await trial(given={"given": given}, sources=[], max_rounds=2, max_premises=1)
    assert (document["status"], document["rounds"], document["corpora"]) == ("done", 2, [])
    assert [piece["text"] for piece in document["evidence"]] == [text["text"] for text in given]
    steps = Counter(turn["step"] for turn in document["turns"])
    assert (steps["premises"], steps["weigh"], steps["challenge"]) == (1, len(given), 2 * len(given))
    assert kinds(document) == ([] if given else ["nothing_admitted", "no_evidence"])
    assert not {"stance_queries", "retrieve_seed", "discover"} & steps.keys()
    assert all("It holds. #F" in prompt for prompt in prompts(stub, "plaintiff", "argue"))


async def test_the_arbiter_weighs_given_texts_after_both_sides_challenged_them(start_stub: StartStub) -> None:
    texts = {"good": "It grows in the east.", "open": "It may grow.", "bad": "Nothing grows."}
    given = [{"id": name, "text": text} for name, text in texts.items()]
    found = {"good": (0.9, 0.8), "open": (0.6, 0.5), "bad": (0.2, 0.5)}
    rules = [
        rule("arbiter", f"\n{texts[name]}\n", fields={"relevance": r, "credibility": c})
        for name, (r, c) in found.items()
    ]
    for side, names in (("plaintiff", ("bad",)), ("defense", ("bad", "open"))):
        challenges = [{"evidence_id": name, "reason": f"The {side} objects to {name}."} for name in names]
        rules.append(counsel(side, "challenge", fields={"challenges": challenges}))
    stub = start_stub([*rules, *default_rules()])
    document = await trial(given={"given": given}, sources=[])
    assert document["status"] == "done"
    assert {p["id"]: (p["pool"], p["status"], p["weight"]) for p in document["evidence"]} == {
        "good": ("given", "admitted", 0.72),
        "open": ("given", "disputed", 0.3),
        "bad": ("given", "discarded", 0.1),
    }
    for side in SIDES:
        (challenging,) = prompts(stub, side, "challenge", side)
        assert [i in challenging for i in texts.values()] == [True] * 3
        for arguing in prompts(stub, side, "argue"):
            assert [i in arguing for i in texts.values()] == [True, False, False]
    weighed = {name: next(p for p in prompts(stub, "arbiter") if texts[name] in p) for name in texts}
    assert {name: re.findall("The ([a-z]+) objects", prompt) for name, prompt in weighed.items()} == {
        "good": [],
        "open": ["defense"],
        "bad": ["plaintiff", "defense"],
    }
    (record,) = prompts(stub, "judge-1")
    assert [i in record for i in texts.values()] == [True, True, False]


WITHOUT_REFLECTION: dict[str, tuple[list[Rule], str, int]] = {
    "nothing": (both_reflect([0.5] * 4, [0.5] * 4), "max_rounds", 4),
    "critic": (criticises(*YES), "critic_resolved", 2),
    "novelty": (searches("plaintiff", *LOW_NOVELTY), "novelty_exhausted", 2),
    "court": (closes(*YES), "judicial_signal", 2),
}
"""For each case: the script, and the debate's stop reason and number of rounds."""


async def test_without_reflection_the_other_stop_reasons_still_apply(start_stub: StartStub) -> None:
    start_stub(side_by_side([*rules, *default_rules()] for rules, _, _ in WITHOUT_REFLECTION.values()))
    for number, (_, reason, rounds) in enumerate(WITHOUT_REFLECTION.values()):
        document = await trial_of(number, self_reflection=False, max_rounds=4)
        assert stop_of(document) == (reason, rounds)
        assert calls_by_round(document) == [SEARCHING - 2] * rounds
        entry = debate_entry(document)
        assert entry["reflection"] == {side: [None] * rounds for side in SIDES}
        assert entry["reflection_total"] == [None] * rounds
        assert "reflect" not in {turn["step"] for turn in document["turns"]}
        parts = document["confidence_parts"]
        assert (parts["winning_reflection"], parts["reflection"], parts["consistency"]) == (None, 0, 6)
        assert document["confidence"] == pytest.approx(parts["base"])


@pytest.mark.parametrize("reflecting", [True, False])
async def test_the_query_prompt_shows_the_need_from_the_previous_rounds_reflection(
    start_stub: StartStub, reflecting: bool
) -> None:
    """Without reflections, the prompt shows no need."""
    wants = [r for side in SIDES for r in reflects(side, 0.2, 0.8, discovery_need=f"Need of the {side}.")]
    lacks = [*searches("plaintiff", "#I", "#J"), *searches("defense", "#K", "#L")]
    stub = start_stub([*wants, *lacks, *default_rules()])
    document = await trial(self_reflection=reflecting, role_switch=False)
    assert document["status"] == "done"
    asked = [re.findall(r"Gap: #(\w)|Need of the (\w+)\.", prompt) for prompt in prompts(stub, "retrieval")]
    later = {"J": ["plaintiff"], "L": ["defense"]} if reflecting else {"J": [], "L": []}
    assert {gap: [need for _, need in needs] for (gap, _), *needs in asked} == {"I": [], "K": [], **later}


@pytest.mark.parametrize("switched", [True, False])
@pytest.mark.parametrize("retrieving", [True, False])
@pytest.mark.parametrize("reflecting", [True, False])
async def test_every_combination_of_ablations_runs_with_one_model_for_all_roles(
    start_stub: StartStub, switched: bool, retrieving: bool, reflecting: bool
) -> None:
    stub = start_stub([{"fields": {"citations": [], "challenges": []}}])
    settings = {"role_switch": switched, "progressive_retrieval": retrieving, "self_reflection": reflecting}
    chosen = {"model": "openai:stub", "sources": [LIBRARY], "max_rounds": 3, "judges": 1 if switched else 5, **settings}
    chosen |= {"embedder": "openai:stub-embedding"}
    document = await graph.ainvoke({"claim": "It holds."}, context=ProclaimSettings.model_validate(chosen))
    assert (document["status"], document["error"]) == ("done", None)
    assert document["answer"] in document["task"]["labels"]
    assert document["raw_verdict"] in (S, N, I)
    assert [entry["phase"] for entry in document["debates"]] == ["primary", "switched"][: 1 + switched]
    assert received_chat_calls(stub) == len(document["calls"])
    asked = roles(document)
    names = ["judge-1"] if switched else [f"judge-{n}" for n in range(1, 6)]
    assert {role for role in asked if role.startswith("judge")} == set(names)
    assert ("analyser" in asked, "retrieval" in asked) == (switched, retrieving)
    steps = {turn["step"] for turn in document["turns"]}
    assert ("reflect" in steps, "discover" in steps) == (reflecting, retrieving)
    if not retrieving:
        assert {(entry["stop_reason"], entry["rounds"]) for entry in document["debates"]} == {("max_rounds", 3)}
    assert roles_sharing_model(document) == {"critic", *names}
    assert json.loads(json.dumps(document)) == document


# --- the length of the record -----------------------------------------------------------------------------------------


async def test_a_record_that_is_too_long_loses_its_last_exhibits(start_stub: StartStub) -> None:
    ruled = [*weighs(1, 0.9, "C"), *weighs(1, 0.6, "A"), *weighs(0.5, 0.5, "D"), *weighs(0.4, 0.4, "E")]
    ruled += weighs(0.1, 0.1, "B")
    finds = [*searches("plaintiff", "#I", "#0"), *searches("defense", "#0", "#J")]
    finds += searches("defense", "#K", phase="switched")
    rules = [*ruled, *finds, *default_rules()]
    stub = start_stub(rules)
    document = await trial()
    assert "exhibits_left_out" not in kinds(document)
    full = exhibits_in(prompts(stub, "judge-1")[0])
    assert full[:5] == ["C", *"FGH", "A"]  # by weight: 0.9, three of 0.72, 0.6
    assert sorted(full[5:8]) == ["I", "J", "K"]  # evidence found in court has no weight
    assert full[8:] == ["D", "E"]  # disputed, with the weights 0.25 and 0.16; B was discarded
    least_tokens: dict[int, int] = {}  # by the number of exhibits that are left out
    for tokens in range(500, 6000, 10):
        _, left = fit_record(document["claim"], document["task"], document["turns"], document["evidence"], tokens)
        least_tokens.setdefault(len(left), tokens)
    for missing in (1, 2, 4, 7, 10):
        stub = start_stub(rules)
        document = await trial(panel_tokens=least_tokens[missing])
        shown_exhibits, dropped = full[: len(full) - missing], full[len(full) - missing :]
        for judge in ("judge-1", "judge-2", "judge-3"):
            [prompt] = prompts(stub, judge)
            assert exhibits_in(prompt) == shown_exhibits
            assert f"({missing} more are left out for the record's length" in prompt
            assert all(
                default_argument(side, 2, phase) in prompt for side in SIDES for phase in ("primary", "switched")
            )
        [warning] = [w for w in document["warnings"] if w["kind"] == "exhibits_left_out"]
        assert re.findall("ev-[0-9a-f]+", warning["detail"]) == [id_of(name) for name in dropped]
        assert str(least_tokens[missing]) in warning["detail"]
        # The result still contains the dropped exhibits.
        assert {p["id"] for p in document["evidence"]} >= {id_of(name) for name in dropped}
