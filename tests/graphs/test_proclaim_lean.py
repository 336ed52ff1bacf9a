"""The lean procedure of a trial: concessions, empty gaps, weighed discoveries, and calls that are not made."""

from __future__ import annotations

from typing import Any

import pytest
from moot.graphs.proclaim import ProclaimSettings
from moot.nodes._trial.critique import is_conceded, stop_reason
from moot.retrievers._evidence import evidence_id
from moot.transcript.report.report import report

from tests.conftest import StartStub
from tests.graphs.scripted_agents import rule
from tests.graphs.scripted_trial import (
    ONE_ROUND,
    TEXTS,
    I,
    N,
    S,
    counsel,
    debate_entry,
    default_rules,
    find_turns,
    judge_rules,
    kinds,
    names,
    outcome,
    piece,
    prompts,
    roles,
    searches,
    trial,
    turns,
    weighs,
)

LEAN: dict[str, Any] = {"preset": "practical", "role_switch": False, "reader_summary": False}
WEAKER = {"logic": 0.2, "evidence": 0.3, "rebuttal": 0.4, "reason": "Little is left."}
STRONGER = {"logic": 0.9, "evidence": 0.8, "rebuttal": 0.7, "reason": "It holds."}


def argument(side: str, *, concedes: bool) -> dict[str, Any]:
    return counsel(side, "argue", fields={"argument": f"The {side} speaks.", "citations": [], "concedes": concedes})


def critic(*, resolved: bool, **more: Any) -> dict[str, Any]:
    advice: dict[str, list[str]] = {"plaintiff": [], "defense": [], "queries": []}
    fields = {"plaintiff": STRONGER, "defense": WEAKER, "recommendations": advice, "unresolved_premises": []}
    fields |= {"debate_resolved": resolved, "weaker": "defense"}
    return rule("critic", fields=fields | more)


SETTLED = [argument("plaintiff", concedes=False), argument("defense", concedes=True), critic(resolved=True)]


def no_gap(side: str) -> dict[str, Any]:
    return counsel(side, "gap", fields={"gap": ""})


async def test_the_first_round_ends_a_debate_that_is_resolved_and_conceded(start_stub: StartStub) -> None:
    """Nobody searches, no expert is offered, the court is not asked, and who concedes does not reflect."""
    stub = start_stub([*SETTLED, no_gap("plaintiff"), no_gap("defense"), *default_rules()])
    document = await trial(max_rounds=10, **LEAN)
    assert outcome(document) == ("done", "SUPPORTS", S, "critic_resolved", 1)
    in_court = [call["role"] for call in document["calls"] if call["phase"] == "primary"]
    assert sorted(in_court) == ["critic", *["defense"] * 2, *["plaintiff"] * 3, "scorer"]
    assert debate_entry(document)["retrieval_ended"] == {}
    assert turns(document, "argue")["defense", 1]["concedes"] is True
    assert "defense: looked for nothing" in prompts(stub, "judge-1")[0]
    assert "`concedes`" in prompts(stub, "plaintiff", "argue")[0]
    assert TEXTS["A"] in prompts(stub, "plaintiff", "gap")[0]  # the texts of the best exhibits, not their titles
    assert TEXTS["A"] in prompts(stub, "critic")[0]


async def test_what_a_search_finds_is_weighed_before_it_joins_the_record(start_stub: StartStub) -> None:
    found = [no_gap("plaintiff"), *searches("defense", "Both? #J #K"), *weighs(0.4, 0.5, "J"), *weighs(0.2, 0.5, "K")]
    stub = start_stub([*SETTLED, *found, *default_rules()])
    document = await trial(max_rounds=10, **LEAN)
    assert [piece(document, name)["status"] for name in "JK"] == ["discovered", "discarded"]
    assert [piece(document, name)["weight"] for name in "JK"] == [0.2, 0.1]
    [search] = find_turns(document, step="discover", agent="defense")
    assert search["joined"] == [piece(document, "J")["id"]]
    assert names(document["evidence"]).count("K") == 1
    shown = prompts(stub, "plaintiff", "argue")[0]
    assert (TEXTS["J"] in shown, TEXTS["K"] in shown) == (True, False)
    judged = prompts(stub, "judge-1")[0]
    assert "Discovered ones were found during a debate; " in judged


async def test_a_piece_that_two_debates_weigh_differently_keeps_the_weight_with_which_it_joined(
    start_stub: StartStub,
) -> None:
    """The arbiter admits J to the record of the primary debate, and then discards it in the switched one."""
    phases = ("primary", "switched")
    asks = [rule for phase in phases for rule in searches("defense", "Both? #J", phase=phase)]
    lacks = [counsel("plaintiff", "gap", phase, fields={"gap": ""}) for phase in phases]
    weights = [{**weighs(0.4, 0.5, "J")[0], "times": 1}, *weighs(0.1, 0.5, "J")]
    start_stub([critic(resolved=False), *asks, *lacks, *weights, *default_rules()])
    document = await trial(**LEAN | {"role_switch": True, "max_rounds": 1, "switched_rounds": 1})
    assert document["status"] == "done", document["error"]
    joined = [turn["joined"] for turn in find_turns(document, step="discover") if turn.get("joined") is not None]
    assert sorted(map(len, joined)) == [0, 1]
    assert (piece(document, "J")["status"], piece(document, "J")["weight"]) == ("discovered", 0.2)


async def test_a_search_whose_results_cannot_be_weighed_adds_nothing(start_stub: StartStub) -> None:
    found = [no_gap("plaintiff"), *searches("defense", "What? #J"), rule("arbiter", TEXTS["J"], status=400)]
    start_stub([*SETTLED, *found, *default_rules()])
    document = await trial(max_rounds=10, **LEAN)
    assert piece(document, "J")["status"] == "discarded"
    assert "not_weighed" in kinds(document)


async def test_a_concession_of_the_stronger_side_or_alone_ends_nothing(start_stub: StartStub) -> None:
    """Then experts are offered in the second round, as a premise is open, and the court is asked only before it."""
    unsettled = [argument("plaintiff", concedes=True), argument("defense", concedes=False)]
    open_premise = critic(resolved=False, unresolved_premises=["Is it so?"])
    start_stub([*unsettled, open_premise, no_gap("plaintiff"), no_gap("defense"), *default_rules()])
    document = await trial(max_rounds=3, **LEAN)
    assert outcome(document)[3:] == ("max_rounds", 3)
    assert {turn["round"] for turn in find_turns(document, step="request_expert")} == {2, 3}
    assert find_turns(document, step="close") == []  # a side concedes in each round


async def test_the_full_procedure_knows_no_concession(start_stub: StartStub) -> None:
    stub = start_stub([critic(resolved=True), *default_rules()])
    document = await trial(role_switch=False)
    assert outcome(document)[3:] == ("critic_resolved", 2)
    assert "concedes" not in turns(document, "argue")["defense", 1]
    assert "`concedes`" not in "".join(prompts(stub, "defense"))
    assert TEXTS["A"] not in prompts(stub, "critic")[0]


async def test_one_model_does_not_change_sides_with_itself(start_stub: StartStub) -> None:
    start_stub([critic(resolved=True), *judge_rules(S, N, S), *default_rules()])
    both = {"plaintiff": "openai:stub-both", "defense": "openai:stub-both"}
    document = await trial(models=both, **LEAN | ONE_ROUND | {"role_switch": True})
    assert document["status"] == "done", document["error"]
    assert {one["phase"] for one in document["debates"]} == {"primary"}
    assert "analyser" not in roles(document)
    assert (document["confidence_parts"]["consistency"], document["confidence_parts"]["role_switch"]) == (None, 0)
    [warned] = [one for one in document["warnings"] if one["kind"] == "no_role_switch"]
    assert "openai:stub-both" in warned["detail"]


async def test_quotes_stand_on_the_side_that_they_bear_out(start_stub: StartStub) -> None:
    """The winner's quotes and those of the side that concedes are assessed together; one speaks for the other side."""
    words = {name: " ".join(TEXTS[name].split()[:6]) for name in "AB"}
    ids = {name: evidence_id(f"shelf {name}", TEXTS[name]) for name in "AB"}
    cited = {name: {"evidence_id": ids[name], "quote": words[name]} for name in "AB"}
    argued = [
        counsel(side, "argue", fields={"argument": f"The {side} speaks.", "citations": cites, "concedes": concedes})
        for side, cites, concedes in (("plaintiff", [*cited.values()], False), ("defense", [cited["A"]], True))
    ]
    statement = {"text": "It is so.", "reason": "It says so.", "supported": True}
    bears = [{"index": 0, "bears": "entails"}, {"index": 1, "bears": "contradicts"}]
    assesses = rule("scorer", fields={"statements": [statement], "quotes": bears})
    rules = [*argued, critic(resolved=True), no_gap("plaintiff"), no_gap("defense"), assesses, *default_rules()]
    stub = start_stub(rules)
    document = await trial(max_rounds=10, **LEAN)
    assert document["status"] == "done", document["error"]
    warrants = [[one["warrant"] for one in turn["citations"]] for turn in turns(document, "argue").values()]
    assert warrants == [["entails", "contradicts"], ["entails"]]
    assert len(prompts(stub, "scorer")) == 1
    assert "The plaintiff speaks.\n\nThe defense speaks." in prompts(stub, "scorer")[0]
    assert kinds(document).count("unwarranted") == 0
    text = report(document, "md")
    against = text.index("Quoted against the claim")
    assert text.index("Quoted for the claim") < text.index(words["A"]) < against < text.index(words["B"])


@pytest.mark.parametrize(
    ("task", "verdicts", "settings", "towards"),
    [
        ("fever", (S, S, N), {}, True),
        ("fever", (S, S, N), {"require_warrant": True}, None),  # the verdict is withheld
        ("hover", (I, I, S), {"inconclusive": "burden_of_refutation"}, True),  # not refuted, so supported
        ("fever", (I, I, S), {}, False),
    ],
)
async def test_changes_towards_what_a_trial_found(
    start_stub: StartStub, task: str, verdicts: tuple[str, ...], settings: dict[str, Any], towards: bool | None
) -> None:
    """The critic finds the defense ahead, then the plaintiff."""
    speak = [argument(side, concedes=False) for side in ("plaintiff", "defense")]
    found = [critic(resolved=False, weaker="plaintiff") | {"times": 1}, critic(resolved=True)]
    rules = [*speak, *found, no_gap("plaintiff"), no_gap("defense"), *judge_rules(*verdicts), *default_rules()]
    start_stub(rules)
    document = await trial(given={"task": task}, max_rounds=10, **LEAN, **settings)
    assert document["status"] == "done", document["error"]
    [change] = document["dissent"]["changes"]
    assert (change["agent"], change["answer"], change["towards_verdict"]) == ("critic", S, towards)


async def test_a_trial_keeps_its_verdict_if_it_cannot_be_assessed(start_stub: StartStub) -> None:
    quoted = [{"evidence_id": evidence_id("shelf A", TEXTS["A"]), "quote": " ".join(TEXTS["A"].split()[:6])}]
    argued = counsel("plaintiff", "argue", fields={"argument": "It is so.", "citations": quoted, "concedes": False})
    broken = rule("scorer", status=400)
    start_stub([argued, *SETTLED[1:], no_gap("plaintiff"), no_gap("defense"), broken, *default_rules()])
    document = await trial(max_rounds=10, **LEAN)
    assert outcome(document) == ("done", "SUPPORTS", S, "critic_resolved", 1)
    assert {"score_missing", "not_assessed"} <= {*kinds(document)}
    assert "Quoted for the claim" in report(document, "md")


@pytest.mark.parametrize(
    ("settings", "switches"),
    [
        ({"model": "fake:1"}, True),
        ({"model": "fake:1", "preset": "practical"}, False),
        ({"model": "fake:1", "models": {"defense": "fake:2"}, "preset": "practical"}, True),
        ({"model": "fake:1", "models": {"defense": {"model": "fake:1"}}, "preset": "practical"}, False),
        ({"model": "fake:1", "preset": "practical", "switch_same_model": True}, True),
        ({"model": "fake:1", "models": {"defense": "fake:2"}, "role_switch": False}, False),
    ],
)
def test_when_sides_are_switched(settings: dict[str, Any], switches: bool) -> None:
    assert ProclaimSettings.model_validate(settings).switches_sides is switches


@pytest.mark.parametrize(
    ("weaker", "sides", "conceded"),
    [
        ("defense", ["defense"], True),
        ("defense", ["plaintiff"], False),
        ("defense", [], False),
        ("neither", ["plaintiff"], True),
        ("neither", [], False),
        (None, ["defense"], False),
    ],
)
def test_a_concession_counts_if_it_is_the_weaker_sides(weaker: str | None, sides: list[str], conceded: bool) -> None:
    assert is_conceded({"weaker": weaker}, sides) is conceded
    assert is_conceded(None, sides) is False


@pytest.mark.parametrize(
    ("rounds", "resolved", "conceded", "reason"),
    [
        (1, True, True, "critic_resolved"),
        (1, True, False, None),
        (1, False, True, None),
        (2, True, False, "critic_resolved"),
    ],
)
def test_a_conceded_debate_ends_before_the_minimum(
    rounds: int, resolved: bool, conceded: bool, reason: str | None
) -> None:
    found = stop_reason(
        rounds=rounds, totals=[], novelties=[], resolved=resolved, closed=False, conceded=conceded, min_rounds=2
    )
    assert found == reason
