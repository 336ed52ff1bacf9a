"""PROClaim: what ends a debate and a side's search, ablations, panels of any size, and what a verdict comes to."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from moot.graphs.proclaim import ProclaimSettings, graph
from moot.nodes.trial.record import record_of
from moot.retrievers import open_encoder
from pydantic import ValidationError

from tests.conftest import StartStub, StubEndpoint
from tests.graphs.scripted_agents import Rule, rule, voted
from tests.graphs.scripted_trial import (
    LIBRARY,
    NAMES,
    SIDES,
    TEXTS,
    closes,
    course,
    criticises,
    id_of,
    judges,
    kinds,
    otherwise,
    outcome,
    prompts,
    reflects,
    said,
    searches,
    trial,
    turns,
    weighs,
)

SEARCHING, ONE_SEARCHES, ARGUING = 14, 11, 8
"""Calls of a round: 3 for each search, 2 arguments, 2 who want no expert, 2 reflections, critic and court."""
S, N, I = "SUPPORTED", "NOT SUPPORTED", "INCONCLUSIVE"  # noqa: E741
LOW = ("#A #B #C8", "#A #B #D8", "#A #B #E8", "#A #B #F8")
OTHERS = ("#A #B #G8", "#A #B #H8", "#A #B #A8", "#A #B #B8")
"""Searches of which two thirds are redundant: too few to end the search, with a mean novelty of 0.0667."""
YES, NO = [True] * 5, [False] * 5
NAME_OF = {id_of(name): name for name in TEXTS}


def side_by_side(scripts: Iterable[Sequence[Rule]]) -> list[Rule]:
    """Rules for several trials on one endpoint: the models of each end in its number."""
    return [
        {**r, "model": f"{r.get('model', '').removesuffix('$')}@{number}$"}
        for number, rules in enumerate(scripts)
        for r in rules
    ]


async def trial_of(number: int, **settings: Any) -> dict[str, Any]:
    """The trial of that number."""
    known = ProclaimSettings.model_validate({k: v for k, v in settings.items() if k == "judges"})
    return await trial(models={role: f"openai:stub-{role}@{number}" for role in known.roles()}, **settings)


def calls_by_round(document: Mapping[str, Any], phase: str = "primary") -> list[int]:
    """How many calls each round of a debate took."""
    count = Counter(call["round"] for call in document["calls"] if call["phase"] == phase)
    assert sorted(count) == list(range(1, len(count) + 1))
    return [count[number] for number in sorted(count)]


def roles(document: Mapping[str, Any]) -> set[str]:
    """Who was asked anything."""
    return {call["role"] for call in document["calls"]}


def stopped(document: Mapping[str, Any], phase: str = "primary") -> tuple[str, int]:
    """Why a debate stopped, and after how many rounds."""
    entry = course(document, phase)
    return entry["stop_reason"], entry["rounds"]


def was_asked(stub: StubEndpoint) -> int:
    """The calls that came to the endpoint."""
    return sum(call["kind"] == "chat" for call in stub.calls())


def piece(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An exhibit of a result."""
    return next(p for p in document["evidence"] if NAMES[p["text"]] == name)


def sharing(document: Mapping[str, Any]) -> set[str]:
    """Who is said to have a counsel's model."""
    details = [warning["detail"] for warning in document["warnings"] if warning["kind"] == "shared_model"]
    assert len(details) < 2
    return {name for detail in details for name in detail.partition(":")[0].split(", ")}


def shown(prompt: str) -> list[str]:
    """The exhibits whose texts a prompt holds, in its order."""
    return [NAME_OF[i] for i in re.findall(r'<evidence id="(ev-[0-9a-f]+)"', prompt)]


# --- why a debate stops -----------------------------------------------------------------------------------------------


def both(plaintiff: Sequence[float], defense: Sequence[float], phase: str = "primary") -> list[Rule]:
    """What both sides score themselves."""
    return [*reflects("plaintiff", *plaintiff, phase=phase), *reflects("defense", *defense, phase=phase)]


STOPS: dict[str, tuple[list[Rule], str, int]] = {
    "nothing": ([], "max_rounds", 5),
    "reflections stay": (both([0.5] * 5, [0.4] * 5), "reflection_plateau", 3),
    "their sum stays": (both([0.2, 0.8, 0.2], [0.8, 0.2, 0.8]), "reflection_plateau", 3),
    "each changes by 0.03": (both([0.5, 0.53, 0.56, 0.59, 0.62], [0.3, 0.33, 0.36, 0.39, 0.42]), "max_rounds", 5),
    "by 0.05 exactly": (both([0.5, 0.55, 0.6, 0.65, 0.7], [0.4] * 5), "max_rounds", 5),
    "by -0.05 exactly": (both([0.7, 0.65, 0.6, 0.55, 0.5], [0.4] * 5), "max_rounds", 5),
    "by 0.049": (both([0.5, 0.549, 0.598], [0.4] * 3), "reflection_plateau", 3),
    "by -0.049": (both([0.6, 0.551, 0.502], [0.4] * 3), "reflection_plateau", 3),
    "a jump between": (both([0.5, 0.5, 0.8, 0.8, 0.8], [0.4] * 5), "reflection_plateau", 5),
    "critic in round 1": (criticises(True, *NO[1:]), "max_rounds", 5),
    "critic in rounds 1 and 2": (criticises(True, True, *NO[2:]), "critic_resolved", 2),
    "critic in round 4": (criticises(*NO[:3], True, False), "critic_resolved", 4),
    "court in round 1": (closes(True, *NO[1:]), "max_rounds", 5),
    "court in rounds 1 and 2": (closes(True, True, *NO[2:]), "judicial_signal", 2),
    "court in round 4": (closes(*NO[:3], True, False), "judicial_signal", 4),
    "nothing new": (searches("plaintiff", *LOW), "novelty_exhausted", 2),
    "nothing new for both": ([*searches("plaintiff", *LOW), *searches("defense", *OTHERS)], "novelty_exhausted", 2),
    "novelty 0.10 exactly": (searches("plaintiff", "#A #B #C7", "#A #B #D7", "#A #B #E7"), "max_rounds", 5),
    "something new between": (searches("plaintiff", LOW[0], "#I #J", *LOW[1:3]), "novelty_exhausted", 4),
    "a round without finds": (searches("plaintiff", LOW[0], "#0", *LOW[1:3]), "novelty_exhausted", 4),
    "something new for the other": (
        [*searches("plaintiff", *LOW), *searches("defense", "#I", "#J")],
        "novelty_exhausted",
        4,
    ),
}
"""What is scripted, why the debate of five rounds stops for it, and when."""


async def test_every_reason_stops_the_debate_when_it_holds(start_stub: StartStub) -> None:
    stub = start_stub(side_by_side([*rules, *otherwise()] for rules, _, _ in STOPS.values()))
    for number, (name, (_, reason, rounds)) in enumerate(STOPS.items()):
        before = was_asked(stub)
        document = await trial_of(number, max_rounds=5, role_switch=False)
        assert outcome(document)[3:] == stopped(document) == (reason, rounds), name
        assert calls_by_round(document) == [SEARCHING] * rounds, name  # no further round was begun
        assert was_asked(stub) - before == len(document["calls"])
        entry = course(document)
        assert {len(entry[key]) for key in ("reflection_total", "novelty")} == {rounds}
        assert {turn["round"] for turn in document["turns"] if turn["phase"] == "primary"} == set(range(1, rounds + 1))


@pytest.mark.parametrize(
    ("given", "reason", "rounds"),
    [
        ({"min_rounds": 1}, "critic_resolved", 1),
        ({"min_rounds": 1, "max_rounds": 1}, "critic_resolved", 1),
        ({"max_rounds": 1}, "max_rounds", 1),
        ({"max_rounds": 2}, "critic_resolved", 2),
        ({"min_rounds": 3}, "reflection_plateau", 3),
        ({"min_rounds": 3, "max_rounds": 2}, "max_rounds", 2),
    ],
)
async def test_no_reason_counts_before_the_least_round(
    start_stub: StartStub, given: dict[str, Any], reason: str, rounds: int
) -> None:
    rules = [*both([0.5] * 5, [0.5] * 5), *criticises(*YES), *closes(*YES), *searches("plaintiff", *LOW), *otherwise()]
    start_stub(rules)
    document = await trial(**{"max_rounds": 5, "role_switch": False, **given})
    assert outcome(document)[3:] == stopped(document) == (reason, rounds)
    assert calls_by_round(document) == [SEARCHING] * rounds


async def test_of_several_reasons_the_first_is_given(start_stub: StartStub) -> None:
    holding = {
        "reflection_plateau": both([0.5] * 3, [0.5] * 3),
        "critic_resolved": criticises(*YES),
        "novelty_exhausted": [*searches("plaintiff", *LOW), *searches("defense", *OTHERS)],
        "judicial_signal": closes(*YES),
        "max_rounds": [],
    }
    fewer = [list(holding.values())[first:] for first in range(len(holding))]
    start_stub(side_by_side([*itertools.chain(*hold), *otherwise()] for hold in fewer))
    for number, first in enumerate(holding):
        document = await trial_of(number, min_rounds=3, max_rounds=3, role_switch=False)
        assert stopped(document) == (first, 3)


PRIMARY_AND_SWITCHED: dict[str, tuple[list[Rule], tuple[str, int], tuple[str, int]]] = {
    "each by itself": (
        [*both([0.5] * 3, [0.5] * 3), *criticises(*YES, phase="switched")],
        ("reflection_plateau", 3),
        ("critic_resolved", 2),
    ),
    "the other way round": (
        [*closes(*YES), *both([0.5] * 3, [0.5] * 3, phase="switched")],
        ("judicial_signal", 2),
        ("reflection_plateau", 3),
    ),
    "the switched one alone": (
        searches("defense", *LOW, phase="switched"),
        ("max_rounds", 4),
        ("novelty_exhausted", 2),
    ),
    "the primary one alone": (criticises(*YES), ("critic_resolved", 2), ("max_rounds", 4)),
    "the switched one by the court": (closes(*YES, phase="switched"), ("max_rounds", 4), ("judicial_signal", 2)),
}


async def test_the_two_debates_stop_each_by_itself(start_stub: StartStub) -> None:
    start_stub(side_by_side([*rules, *otherwise()] for rules, _, _ in PRIMARY_AND_SWITCHED.values()))
    for number, (name, (_, primary, switched)) in enumerate(PRIMARY_AND_SWITCHED.items()):
        document = await trial_of(number, max_rounds=4, switched_rounds=4)
        assert [entry["phase"] for entry in document["debates"]] == ["primary", "switched"]
        assert (stopped(document), stopped(document, "switched")) == (primary, switched), name
        assert outcome(document)[3:] == primary  # the trial's own is the primary debate's
        assert calls_by_round(document) == [SEARCHING] * primary[1]
        assert calls_by_round(document, "switched") == [SEARCHING] * switched[1]


async def test_a_trial_in_which_nothing_holds_has_ten_rounds_and_two(start_stub: StartStub) -> None:
    start_stub(otherwise())
    document = await trial(max_rounds=ProclaimSettings().max_rounds)
    assert outcome(document) == ("done", "SUPPORTS", S, "max_rounds", 10)
    assert stopped(document, "switched") == ("max_rounds", 2)
    assert calls_by_round(document) == [SEARCHING] * 10
    assert calls_by_round(document, "switched") == [SEARCHING] * 2
    assert course(document)["novelty"] == [None] * 10
    assert course(document)["retrieval_ended"] == dict.fromkeys(SIDES, "retrievals")  # the tenth is the last
    assert course(document, "switched")["retrieval_ended"] == {}


# --- when a side's search ends ----------------------------------------------------------------------------------------


def searched(document: Mapping[str, Any], phase: str = "primary") -> dict[str, list[int]]:
    """The rounds in which each side searched."""
    keys = turns(document, "discover", phase)
    return {side: [round for who, round in keys if who == side] for side in SIDES}


async def test_redundancy_ends_a_sides_search(start_stub: StartStub) -> None:
    mine = searches("plaintiff", "#A #B9 #C", "#M")
    theirs = searches("defense", "#I #A #B", "#J", "#A9 #B #C", "#M")
    stub = start_stub([*mine, *theirs, *otherwise()])
    document = await trial(max_rounds=4)
    assert searched(document) == {"plaintiff": [1], "defense": [1, 2, 3]}
    discovered = turns(document, "discover")
    assert [t.get("ended") for t in discovered.values()] == ["redundancy", None, None, "redundancy"]
    assert [t["scores"]["redundancy"] for t in discovered.values()] == [1, pytest.approx(2 / 3), 0, 1]
    entry = course(document)
    assert entry["retrieval_ended"] == {"plaintiff": "redundancy", "defense": "redundancy"}
    assert entry["novelty"] == [pytest.approx(1.1 / 6), 1, pytest.approx(0.1 / 3), None]
    assert calls_by_round(document) == [SEARCHING, ONE_SEARCHES, ONE_SEARCHES, ARGUING]
    assert stopped(document) == ("max_rounds", 4)
    # Nothing of it holds in the other debate.
    assert searched(document, "switched") == {"plaintiff": [1, 2], "defense": [1, 2]}
    assert calls_by_round(document, "switched") == [SEARCHING, SEARCHING]
    assert len(prompts(stub, "plaintiff", "gap", "plaintiff")) == 1
    assert len(prompts(stub, "defense", "gap", "defense")) == 3
    assert len(prompts(stub, "retrieval")) == len(prompts(stub, "court", "refine")) == 4 + 4


REDUNDANCY: list[tuple[str, dict[str, Any], str | None]] = [
    ("#A9 #B9 #C9", {}, "redundancy"),  # a likeness of 0.9
    ("#A9 #B9 #C8", {}, None),  # two of three are no more than 0.70
    ("#A8 #B8 #C8", {}, None),
    ("#A8 #B8 #C8", {"redundant_similarity": 0.75}, "redundancy"),
    ("#A9 #B9 #C9", {"redundant_similarity": 0.9}, None),  # exactly as like
    ("#A #I", {"redundant_share": 0.5}, None),  # exactly so many
    ("#A #B #I", {"redundant_share": 0.5}, "redundancy"),
    ("#0", {}, None),
    ("#down", {}, None),
]
"""What the plaintiff searches for first, settings, and whether its search ends by that."""


async def test_how_much_redundancy_ends_a_search(start_stub: StartStub) -> None:
    start_stub(side_by_side([*searches("plaintiff", query), *otherwise()] for query, _, _ in REDUNDANCY))
    for number, (query, given, ended) in enumerate(REDUNDANCY):
        document = await trial_of(number, role_switch=False, **given)
        assert course(document)["retrieval_ended"] == ({"plaintiff": ended} if ended else {}), query
        assert searched(document) == {"plaintiff": [1] if ended else [1, 2], "defense": [1, 2]}


async def test_so_many_retrievals_end_a_sides_search(start_stub: StartStub) -> None:
    mine = searches("plaintiff", "#I", "#0", "#J")
    start_stub([*mine, *searches("defense", "#K #A #B", "#L", "#M"), *otherwise()])
    document = await trial(max_rounds=4, switched_rounds=3, max_retrievals=2)
    for phase, rounds in {"primary": 4, "switched": 3}.items():
        assert searched(document, phase) == {"plaintiff": [1, 2], "defense": [1, 2]}
        assert course(document, phase)["retrieval_ended"] == dict.fromkeys(SIDES, "retrievals")
        assert stopped(document, phase) == ("max_rounds", rounds)
        assert calls_by_round(document, phase) == [SEARCHING] * 2 + [ARGUING] * (rounds - 2)
    assert course(document)["novelty"] == [pytest.approx(0.5), 1, None, None]


def asked_in_words(name: str, shared: int) -> str:
    """A query for an exhibit that holds so many of its words."""
    return " ".join([f"#{name}", *TEXTS[name].split()[:shared]])


async def test_too_little_gain_in_relevance_ends_a_sides_search_where_it_counts(start_stub: StartStub) -> None:
    queries = {
        "plaintiff": [asked_in_words("I", 0), asked_in_words("J", 6), asked_in_words("K", 2)],
        "defense": [asked_in_words("L", 6), asked_in_words("M", 2), asked_in_words("N", 2)],
    }
    rules = [*searches("plaintiff", *queries["plaintiff"]), *searches("defense", *queries["defense"]), *otherwise()]
    gains = (0.05, None)
    start_stub(side_by_side([rules] * len(gains)))
    encoder = await open_encoder("openai:stub-embedding")
    for number, gain in enumerate(gains):
        document = await trial_of(number, max_rounds=4, relevance_gain=gain, role_switch=False)
        ended = {} if gain is None else dict.fromkeys(SIDES, "relevance_gain")
        assert course(document)["retrieval_ended"] == ended
        if gain is None:
            assert searched(document) == {"plaintiff": [1, 2, 3, 4], "defense": [1, 2, 3, 4]}
            continue
        assert searched(document) == {"plaintiff": [1, 2, 3], "defense": [1, 2]}
        assert calls_by_round(document) == [SEARCHING, SEARCHING, ONE_SEARCHES, ARGUING]
        for (side, round), turn in turns(document, "discover").items():
            query = f"{queries[side][round - 1]} exactly"
            assert turn["query"] == query
            one, other = await encoder.embed([query, TEXTS[query[1]]])  # the query names it after its first sign
            cosine = sum(float(x) * float(y) for x, y in zip(one, other, strict=True))
            assert turn["scores"]["relevance"] == pytest.approx(cosine, abs=1e-5)


async def test_without_searches_rounds_go_on_and_have_no_novelty(start_stub: StartStub) -> None:
    nothing_new = [r for side in SIDES for r in searches(side, "#A #B #C")]
    cases: tuple[list[Rule], ...] = ([], criticises(*NO[:3], True))
    start_stub(side_by_side([*nothing_new, *more, *otherwise()] for more in cases))
    for number, more in enumerate(cases):
        document = await trial_of(number, max_rounds=5, role_switch=False)
        assert stopped(document) == (("critic_resolved", 4) if more else ("max_rounds", 5))
        rounds = document["rounds"]
        assert course(document)["novelty"] == [0] + [None] * (rounds - 1)
        assert course(document)["retrieval_ended"] == dict.fromkeys(SIDES, "redundancy")
        assert calls_by_round(document) == [SEARCHING] + [ARGUING] * (rounds - 1)
        assert len(turns(document, "argue")) == 2 * rounds


async def test_one_side_may_exhaust_novelty_when_the_other_has_ended(start_stub: StartStub) -> None:
    start_stub([*searches("plaintiff", *LOW), *searches("defense", "#A #B #C"), *otherwise()])
    document = await trial(max_rounds=5, role_switch=False)
    assert stopped(document) == ("novelty_exhausted", 2)
    assert course(document)["novelty"] == [pytest.approx(0.2 / 6), pytest.approx(0.2 / 3)]
    assert calls_by_round(document) == [SEARCHING, ONE_SEARCHES]


# --- novelty ----------------------------------------------------------------------------------------------------------


def novelty(document: Mapping[str, Any], side: str, round: int) -> dict[str, Any]:
    """How new each exhibit was when a side found it."""
    found = turns(document, "discover")[side, round]["evidence_ids"]
    by_name = {NAMES[p["text"]]: p["retrievals"] for p in document["evidence"] if p["id"] in found}
    return {
        name: next(r["novelty"] for r in retrievals if (r["agent"], r["round"]) == (side, round))
        for name, retrievals in by_name.items()
    }


async def test_novelty_is_the_distance_to_what_is_on_record_then(start_stub: StartStub) -> None:
    ruled = [*weighs(0.5, 0.5, "D"), *weighs(0.1, 0.1, "E")]
    mine = searches("plaintiff", "#I #A9 #I8", "#D #E #D9")
    theirs = searches("defense", "#I #J #I8", "#A9 #K #K9")
    stub = start_stub([*ruled, *mine, *theirs, *otherwise()])
    document = await trial(role_switch=False)
    near = pytest.approx
    # The plaintiff's join first: I is new to it, and not to the defense; I8 meets I.
    assert novelty(document, "plaintiff", 1) == {"I": 1, "A9": near(0.1), "I8": near(0.2)}
    assert novelty(document, "defense", 1) == {"I": 0, "J": 1, "I8": 0}
    # What was disputed or discarded is not on record, so that D9 is new beside it.
    assert novelty(document, "plaintiff", 2) == {"D": 1, "E": 1, "D9": 1}
    assert novelty(document, "defense", 2) == {"A9": near(0.1), "K": 1, "K9": near(0.1)}
    discovered = turns(document, "discover")
    means = {key: turn["scores"]["novelty"] for key, turn in discovered.items()}
    assert means == {
        ("plaintiff", 1): near(1.3 / 3),
        ("defense", 1): near(1 / 3),
        ("plaintiff", 2): near(1),
        ("defense", 2): near(0.4),
    }
    assert course(document)["novelty"] == [near(2.3 / 6), near(4.2 / 6)]
    joined = {key: [NAME_OF[i] for i in turn["joined"]] for key, turn in discovered.items()}
    assert joined == {
        ("plaintiff", 1): ["I", "I8"],
        ("defense", 1): ["J"],
        ("plaintiff", 2): ["D9"],
        ("defense", 2): ["K"],
    }
    status = {NAMES[p["text"]]: (p["status"], p["pool"], "weight" in p) for p in document["evidence"]}
    assert {name: status[name] for name in ("D", "E", "A9", "K9", "I", "I8", "J", "D9", "K")} == {
        "D": ("disputed", "seed", True),
        "E": ("discarded", "seed", True),
        **dict.fromkeys(("A9", "K9"), ("discarded", "discovery", False)),
        **dict.fromkeys(("I", "I8", "J", "D9", "K"), ("discovered", "discovery", False)),
    }
    assert all(status[name][0] == "admitted" for name in "ABCFGH")
    assert len([r for r in piece(document, "A9")["retrievals"] if "novelty" in r]) == 2
    first, second = (set(shown(p)) for p in prompts(stub, "plaintiff", "argue"))
    assert first == set("ABCFGH") | {"I", "I8", "J"}
    assert second == first | {"D9", "K"}
    assert set(shown(prompts(stub, "judge-1")[0])) == second | {"D"}


async def test_the_least_novelty_is_a_setting(start_stub: StartStub) -> None:
    start_stub([*searches("plaintiff", "#A9 #B8 #C7") * 4, *otherwise()])
    joined = {}
    for least in (0.1, 0.2, 0.3, 0.31):
        document = await trial(role_switch=False, max_rounds=1, novelty_threshold=least)
        joined[least] = " ".join(NAME_OF[i] for i in turns(document, "discover")["plaintiff", 1]["joined"])
    assert joined == {0.1: "A9 B8 C7", 0.2: "B8 C7", 0.3: "C7", 0.31: ""}


# --- ablations --------------------------------------------------------------------------------------------------------


async def test_without_a_role_switch_there_is_one_debate(start_stub: StartStub) -> None:
    stub = start_stub(otherwise())
    document = await trial(role_switch=False)
    assert outcome(document) == ("done", "SUPPORTS", S, "max_rounds", 2)
    assert [entry["phase"] for entry in document["debates"]] == ["primary"]
    assert {call["phase"] for call in document["calls"]} == {"negotiation", "primary", "panel"}
    assert roles(document) == ProclaimSettings().roles() - {"analyser", "expert", "equivalence", "source_summariser"}
    parts = document["confidence_parts"]
    assert (parts["consistency"], parts["role_switch"]) == (None, 0)
    assert document["confidence"] == pytest.approx(parts["base"] + parts["reflection"])
    [judged] = prompts(stub, "judge-1")
    assert said("plaintiff", 2) in judged
    assert said("plaintiff", 2, "switched") not in judged


async def test_without_progressive_retrieval_both_debates_have_three_rounds(start_stub: StartStub) -> None:
    steady = [r for phase in ("primary", "switched") for r in both([0.5] * 3, [0.5] * 3, phase=phase)]
    resolved = [r for phase in ("primary", "switched") for r in criticises(*YES, phase=phase)]
    stub = start_stub([*steady, *resolved, *closes(*YES), *otherwise()])
    document = await trial(progressive_retrieval=False, min_rounds=1, max_rounds=1, switched_rounds=1)
    assert outcome(document) == ("done", "SUPPORTS", S, "max_rounds", 3)
    for phase in ("primary", "switched"):
        assert stopped(document, phase) == ("max_rounds", 3)
        assert calls_by_round(document, phase) == [7] * 3  # arguments, no expert, reflections and critic
        entry = course(document, phase)
        assert (entry["novelty"], entry["reflection_total"]) == ([None] * 3, [1.0] * 3)
    assert not {"retrieval", "court"} & roles(document)
    assert not [p for side in SIDES for p in prompts(stub, side, "gap")]
    assert not {turn["step"] for turn in document["turns"]} & {"discover", "close"}
    assert document["confidence_parts"]["reflection"] == 0  # 0.5, as they still reflect
    assert document["confidence_parts"]["winning_reflection"] == 0.5


@pytest.mark.parametrize("given", [[], [{"title": "A page", "text": "It grows in the east."}]])
async def test_without_sources_nothing_is_looked_for_and_what_is_given_is_weighed(
    start_stub: StartStub, given: list[dict[str, str]]
) -> None:
    start_stub(otherwise())
    document = await trial(given={"given": given}, sources=[])
    assert (document["status"], document["rounds"], document["corpora"]) == ("done", 3, [])
    assert [piece["text"] for piece in document["evidence"]] == [text["text"] for text in given]
    steps = Counter(turn["step"] for turn in document["turns"])
    assert steps["weigh"] == len(given)
    assert not {"premises", "stance_queries", "retrieve_seed", "challenge", "discover", "close"} & steps.keys()


WITHOUT_REFLECTION: dict[str, tuple[list[Rule], str, int]] = {
    "nothing": (both([0.5] * 4, [0.5] * 4), "max_rounds", 4),
    "critic": (criticises(*YES), "critic_resolved", 2),
    "novelty": (searches("plaintiff", *LOW), "novelty_exhausted", 2),
    "court": (closes(*YES), "judicial_signal", 2),
}


async def test_without_reflection_the_other_reasons_stay(start_stub: StartStub) -> None:
    start_stub(side_by_side([*rules, *otherwise()] for rules, _, _ in WITHOUT_REFLECTION.values()))
    for number, (_, reason, rounds) in enumerate(WITHOUT_REFLECTION.values()):
        document = await trial_of(number, self_reflection=False, max_rounds=4)
        assert stopped(document) == (reason, rounds)
        assert calls_by_round(document) == [SEARCHING - 2] * rounds
        entry = course(document)
        assert entry["reflection"] == {side: [None] * rounds for side in SIDES}
        assert entry["reflection_total"] == [None] * rounds
        assert "reflect" not in {turn["step"] for turn in document["turns"]}
        parts = document["confidence_parts"]
        assert (parts["winning_reflection"], parts["reflection"], parts["consistency"]) == (None, 0, 6)
        assert document["confidence"] == pytest.approx(parts["base"])


@pytest.mark.parametrize("reflecting", [True, False])
async def test_what_reflection_misses_is_requested_in_the_next_round(start_stub: StartStub, reflecting: bool) -> None:
    wants = [r for side in SIDES for r in reflects(side, 0.2, 0.8, discovery_need=f"Need of the {side}.")]
    lacks = [*searches("plaintiff", "#I", "#J"), *searches("defense", "#K", "#L")]
    stub = start_stub([*wants, *lacks, *otherwise()])
    document = await trial(self_reflection=reflecting, role_switch=False)
    assert document["status"] == "done"
    asked = [re.findall(r"Gap: #(\w)|Need of the (\w+)\.", prompt) for prompt in prompts(stub, "retrieval")]
    later = {"J": ["plaintiff"], "L": ["defense"]} if reflecting else {"J": [], "L": []}
    assert {gap: [need for _, need in needs] for (gap, _), *needs in asked} == {"I": [], "K": [], **later}


@pytest.mark.parametrize("switched", [True, False])
@pytest.mark.parametrize("retrieving", [True, False])
@pytest.mark.parametrize("reflecting", [True, False])
async def test_ablations_with_one_model_for_all(
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
    assert was_asked(stub) == len(document["calls"])
    asked = roles(document)
    names = ["judge-1"] if switched else [f"judge-{n}" for n in range(1, 6)]
    assert {role for role in asked if role.startswith("judge")} == set(names)
    assert ("analyser" in asked, "retrieval" in asked) == (switched, retrieving)
    steps = {turn["step"] for turn in document["turns"]}
    assert ("reflect" in steps, "discover" in steps) == (reflecting, retrieving)
    if not retrieving:
        assert {(entry["stop_reason"], entry["rounds"]) for entry in document["debates"]} == {("max_rounds", 3)}
    assert sharing(document) == {"critic", *names}
    assert json.loads(json.dumps(document)) == document


# --- the panel --------------------------------------------------------------------------------------------------------

PANELS: list[tuple[list[str | None], str, int, int]] = [
    ([S], S, 1, 1),
    ([N], N, 1, 1),
    ([I], I, 1, 1),
    ([S, S, S], S, 3, 3),
    ([S, N, N], N, 2, 3),
    ([N, I, I], I, 2, 3),
    ([S, N, I], S, 1, 3),  # all differ: the chief judge's
    ([I, N, S], I, 1, 3),
    ([None, N, N], N, 2, 2),
    ([None, N, S], N, 1, 2),  # one against one: that of the first judge who has one
    ([S, None, N], S, 1, 2),
    ([None, None, N], N, 1, 1),
    ([N, N, S, S, S], S, 3, 5),
    ([S, N, N, S, I], S, 2, 5),
    ([S, N, I, N, None], N, 2, 4),
    ([N, S, None, None, None], N, 1, 2),
    ([N, S, S, S, N, S, N], S, 4, 7),
    ([S, N, N, I, I, N, S], N, 3, 7),  # most of the votes need not be more than half
    ([N, S, I, N, S, I, N], N, 3, 7),
    ([I, I, I, I, I, I, I], I, 7, 7),
]
"""Verdicts in the judges' order, the panel's, the votes for it, and all votes."""


def panel(verdicts: Sequence[str | None]) -> list[Rule]:
    """What judges find; one without a verdict says something else, also when it is asked again."""
    silent = [
        rule(f"judge-{n}", reply="I would rather not say.") for n, verdict in enumerate(verdicts, 1) if verdict is None
    ]
    scores = [(n, n + 1, n + 2) for n, _ in enumerate(verdicts, 1)]
    return [*silent, *judges(*(verdict or S for verdict in verdicts), scores=scores)]


LEAST: dict[str, Any] = {"max_rounds": 1, "role_switch": False}


async def test_panels_of_any_odd_number(start_stub: StartStub) -> None:
    start_stub(side_by_side([*panel(verdicts), *otherwise()] for verdicts, *_ in PANELS))
    for number, (verdicts, verdict, winning, votes) in enumerate(PANELS):
        document = await trial_of(number, judges=len(verdicts), **LEAST)
        label = {S: "SUPPORTS", N: "REFUTES", I: "NOT ENOUGH INFO"}
        assert outcome(document) == ("done", label[verdict], verdict, "max_rounds", 1), verdicts
        assert voted(document) == {f"judge-{n}": v and label[v] for n, v in enumerate(verdicts, 1)}
        parts = document["confidence_parts"]
        assert parts["consensus_strength"] == pytest.approx(winning / votes, abs=1e-6)
        scored = [n for n, v in enumerate(verdicts, 1) if v]  # whose three scores add up to 3 n + 3
        assert parts["quality"] == pytest.approx(sum(3 * n + 3 for n in scored) / len(scored) / 30, abs=1e-6)
        assert parts["base"] == pytest.approx(0.8 * parts["consensus_strength"] + 0.3 * parts["quality"], abs=1e-5)
        report = document["metrics"]["panel"]
        assert report["without_verdict"] == [f"judge-{n}" for n, v in enumerate(verdicts, 1) if v is None]
        assert {v: count for v, count in report["verdicts"].items() if count} == Counter(v for v in verdicts if v)
        assert [d["agent"] for d in report["dissent"]] == [
            f"judge-{n}" for n, v in enumerate(verdicts, 1) if v and v != verdict
        ]
        assert len(turns(document, "judge", "panel")) == len(verdicts)


async def test_a_judge_that_cannot_be_reached_abstains(start_stub: StartStub) -> None:
    start_stub([rule("judge-1", status=500), *judges(S, N, N), *otherwise()])
    document = await trial(**LEAST)
    assert outcome(document)[:3] == ("done", "REFUTES", N)
    assert voted(document) == {"judge-1": None, "judge-2": "REFUTES", "judge-3": "REFUTES"}
    assert document["confidence_parts"]["consensus_strength"] == 1
    [warning] = [w for w in document["warnings"] if w["kind"] != "empty_retrieval"]
    assert "judge-1" in warning["where"]


async def test_without_any_verdict_there_is_no_answer(start_stub: StartStub) -> None:
    start_stub([*panel([None, None, None]), *otherwise()])
    document = await trial(**LEAST)
    assert (document["answer"], document["raw_verdict"], document["confidence"]) == (None, None, None)
    assert document["error"]["kind"] == "unparsed"
    assert "judge" in document["error"]["detail"]
    assert [t["outcome"] for t in turns(document, "judge", "panel").values()] == ["unparsed"] * 3
    assert {entry["phase"] for entry in document["debates"]} == {"primary"}


async def test_judges_with_models_and_names_of_their_own(start_stub: StartStub) -> None:
    stub = start_stub([rule("daniel", fields={"verdict": I}), *otherwise()])
    daniel = {"name": "daniel", "model": "openai:stub-daniel", "persona": "A retired metrologist."}
    bench: list[Any] = ["openai:stub-judge-2", daniel, {}]
    models = {role: f"openai:stub-{role}" for role in ("plaintiff", "defense", "critic", "judge-3")}
    chosen = {"model": "openai:stub-court", "models": models, "judges": bench, "sources": [LIBRARY], **LEAST}
    settings = ProclaimSettings.model_validate({**chosen, "embedder": "openai:stub-embedding"})
    assert {"judge-1", "daniel", "judge-3"} <= settings.roles()
    document = await graph.ainvoke({"claim": "It holds."}, context=settings)
    asked = {call["agent"]: call["model"] for call in document["calls"] if call["phase"] == "panel"}
    assert asked == {
        "judge-1": "openai:stub-judge-2",
        "daniel": "openai:stub-daniel",
        "judge-3": "openai:stub-judge-3",  # `models` names it
    }
    assert voted(document) == {"judge-1": "REFUTES", "daniel": "NOT ENOUGH INFO", "judge-3": "SUPPORTS"}
    assert outcome(document)[:3] == ("done", "REFUTES", N)
    told = {name: "A retired metrologist." in prompts(stub, name)[0] for name in ("daniel", "judge-2", "judge-3")}
    assert told == {"daniel": True, "judge-2": False, "judge-3": False}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"judges": 2}, "odd number of judges, not 2"),
        ({"judges": 4}, "odd number of judges, not 4"),
        ({"judges": ["openai:a", "openai:b"]}, "odd number of judges, not 2"),
        ({"judges": 0}, "judges\n.*at least 1"),
        ({"judges": []}, "judges\n.*at least 1"),
        ({"judges": 17}, "judges\n.*at most 15"),
        ({"judges": "openai:a"}, "a list is wanted"),
        ({"judges": [{"name": "solomon"}, {"name": "solomon"}, {}]}, "a name of its own"),
        ({"judges": [{"name": "critic"}]}, "a name of its own, and not .*critic"),
        ({"judges": [{"name": "plaintiff"}, {}, {}]}, "a name of its own"),
        ({"judges": [{"nmae": "solomon"}]}, "nmae"),
        ({"temperatures": {"stenographer": 0.1}}, "no role 'stenographer'; known are .*judges"),
        ({"temperatures": {"court": 2.1}}, "temperatures.court\n.*less than or equal to 2"),
        ({"temperatures": 0.3}, "temperatures\n.*dictionary"),
        ({"models": {"judge-4": "openai:a"}}, "no role 'judge-4'; known are .*judge-3"),
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
def test_settings_that_make_no_sense_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=f"(?s){said}"):
        ProclaimSettings.model_validate(given)


def test_defaults_are_the_papers() -> None:
    settings = ProclaimSettings()
    warmth = {0.5: "plaintiff defense expert", 0.2: "court arbiter", 0.3: "critic miner analyser negotiator retrieval"}
    for temperature, who in warmth.items():
        assert {settings.temperature_of(role) for role in who.split()} == {temperature}
    assert {settings.temperature_of(judge.name) for judge in settings.judges} == {0.3}
    assert [judge.name for judge in settings.judges] == ["judge-1", "judge-2", "judge-3"]
    assert (settings.seed_k, settings.k, settings.max_rounds, settings.min_rounds) == (5, 3, 10, 2)
    assert (settings.switched_rounds, settings.max_retrievals, settings.relevance_gain) == (2, 10, None)
    assert (settings.admitted_above, settings.disputed_above) == (0.5, 0.1)
    assert (settings.novelty_threshold, settings.redundant_similarity, settings.redundant_share) == (0.20, 0.85, 0.70)
    assert (settings.plateau, settings.exhaustion, settings.inconclusive) == (0.05, 0.10, None)
    assert settings.role_switch is settings.progressive_retrieval is settings.self_reflection is True


def test_temperatures_are_set_by_role() -> None:
    settings = ProclaimSettings.model_validate(
        {"temperatures": {"court": 0, "judges": 0.9, "expert": None}, "judges": 5}
    )
    found = {role: settings.temperature_of(role) for role in ("court", "judge-5", "expert", "critic", "plaintiff")}
    assert found == {"court": 0, "judge-5": 0.9, "expert": None, "critic": 0.3, "plaintiff": 0.5}


async def test_judges_and_a_critic_with_anothers_model_are_warned_of(start_stub: StartStub) -> None:
    start_stub(otherwise())
    base = {role: f"openai:stub-{role}" for role in ("plaintiff", "defense", "critic", "court", "expert", "miner")}
    panel = [f"openai:stub-judge-{number}" for number in (1, 2, 3)]
    plaintiff, defense = base["plaintiff"], base["defense"]
    cases: list[tuple[dict[str, Any], list[Any], set[str]]] = [
        ({}, panel, set()),
        ({}, [panel[0], plaintiff, panel[2]], {"judge-2"}),
        ({"judge-2": plaintiff}, panel, {"judge-2"}),
        ({"judge-2": "openai:stub-else"}, [panel[0], plaintiff, panel[2]], set()),
        ({"critic": defense}, [*panel[:2], {"name": "daniel", "model": plaintiff}], {"critic", "daniel"}),
        ({"critic": {"model": defense, "temperature": 1.0}}, panel, {"critic"}),  # no other model for that
        ({"court": plaintiff, "expert": defense, "critic": panel[0]}, panel[:1] * 3, {"judge-1", "judge-2", "judge-3"}),
        ({"plaintiff": defense}, panel, set()),
        ({}, [defense], {"judge-1"}),
        ({"defense": "openai:stub-other"}, [defense], set()),
    ]
    for models, judges_too, expected in cases:
        settings: dict[str, Any] = {"models": {**base, **models}, "judges": judges_too, "sources": [LIBRARY], **LEAST}
        settings |= {"model": "openai:stub-rest", "embedder": "openai:stub-embedding"}
        document = await graph.ainvoke({"claim": "It holds."}, context=ProclaimSettings.model_validate(settings))
        assert document["status"] == "done"
        assert sharing(document) == expected, models


# --- what a verdict comes to ------------------------------------------------------------------------------------------

NEI = "NOT ENOUGH INFO"
OWN = {"task": "labels", "labels": ["Fine", "Wrong", "Hm"]}
ANSWERS: list[tuple[dict[str, Any], dict[str, Any], tuple[str, str, str | None], bool]] = [
    # what is asked, settings, the answers for the three verdicts, and whether the last one rests on the burden
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
    # HoVer's second label also means that nothing is settled.
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


async def test_verdicts_become_answers_of_the_task(start_stub: StartStub) -> None:
    start_stub([*judges(I, N, S), *otherwise()])
    for given, settings, (supported, refuted, inconclusive), burden in ANSWERS:
        document = await trial("It holds.", given, **settings, **LEAST)
        assert outcome(document)[:3] == ("done", inconclusive, I), given  # the chief judge's
        assert voted(document) == {"judge-1": inconclusive or I, "judge-2": refuted, "judge-3": supported}
        assert kinds(document) == (["burden_of_refutation"] if burden else [])
        assert document["confidence_parts"]["reflection"] == 0
        assert document["confidence_parts"]["winning_reflection"] is None


async def test_the_burden_of_refutation_is_not_warned_of_where_it_decides_nothing(start_stub: StartStub) -> None:
    start_stub([*judges(I, S, S), *otherwise()])
    document = await trial("It holds.", {"task": "faviq"}, **LEAST)
    assert outcome(document)[:3] == ("done", "SUPPORTS", S)
    assert kinds(document) == []


UNFIT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"task": "short_answer"}, {}),
    ({"task": "number"}, {}),
    ({"task": "math"}, {}),
    ({"options": ["one", "two", "three"]}, {}),
    ({"labels": ["red", "green"]}, {}),
    ({"labels": ["Supported", "green"]}, {}),
    ({"labels": ["Supported", "True", "False"]}, {}),  # two for one verdict
    (OWN, {"verdict_labels": {S: "Fine"}}),
    (OWN, {"verdict_labels": {S: "Fine", N: "Untrue"}}),
    (OWN, {"verdict_labels": {S: "Fine", N: "Fine"}}),
    (OWN, {"verdict_labels": {S: "Fine", N: "Wrong", I: "Unsure"}}),
    ({"task": "fever"}, {"verdict_labels": {I: "UNSURE"}}),
]


async def test_a_task_that_no_trial_decides_is_refused_before_any_call(start_stub: StartStub) -> None:
    stub = start_stub(otherwise())
    for given, settings in UNFIT:
        document = await trial("It holds.", given, **settings)
        assert (document["status"], document["error"]["kind"]) == ("failed", "unfit_task"), given
        assert "verdict_labels" in document["error"]["detail"]
        assert (document["answer"], document["calls"], document["debates"]) == (None, [], [])
    assert stub.calls() == []


# --- the length of the record -----------------------------------------------------------------------------------------


async def test_a_record_that_is_too_long_loses_its_lightest_exhibits(start_stub: StartStub) -> None:
    ruled = [*weighs(1, 0.9, "C"), *weighs(1, 0.6, "A"), *weighs(0.5, 0.5, "D"), *weighs(0.4, 0.4, "E")]
    ruled += weighs(0.1, 0.1, "B")
    finds = [*searches("plaintiff", "#I", "#0"), *searches("defense", "#0", "#J")]
    finds += searches("defense", "#K", phase="switched")
    rules = [*ruled, *finds, *otherwise()]
    stub = start_stub(rules)
    document = await trial()
    assert "exhibits_left_out" not in kinds(document)
    full = shown(prompts(stub, "judge-1")[0])
    assert full[:5] == ["C", *"FGH", "A"]  # by weight: 0.9, three of 0.72, 0.6
    assert sorted(full[5:8]) == ["I", "J", "K"]  # what was discovered has no weight
    assert full[8:] == ["D", "E"]  # disputed, 0.25 and 0.16; B was discarded
    budgets: dict[int, int] = {}
    for tokens in range(500, 6000, 10):
        _, left = record_of(document["claim"], document["task"], document["turns"], document["evidence"], tokens)
        budgets.setdefault(len(left), tokens)
    for missing in (1, 2, 4, 7, 10):
        stub = start_stub(rules)
        document = await trial(panel_tokens=budgets[missing])
        kept, gone = full[: len(full) - missing], full[len(full) - missing :]
        for judge in ("judge-1", "judge-2", "judge-3"):
            [prompt] = prompts(stub, judge)
            assert shown(prompt) == kept
            assert f"({missing} more are left out for the record's length" in prompt
            assert all(said(side, 2, phase) in prompt for side in SIDES for phase in ("primary", "switched"))
        [warning] = [w for w in document["warnings"] if w["kind"] == "exhibits_left_out"]
        assert re.findall("ev-[0-9a-f]+", warning["detail"]) == [id_of(name) for name in gone]
        assert str(budgets[missing]) in warning["detail"]
        assert {p["id"] for p in document["evidence"]} >= {id_of(name) for name in gone}  # the result has them
