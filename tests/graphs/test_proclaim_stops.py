"""Trials of PROClaim: why a debate stops, when a side's search ends, and the novelty of exhibits."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from moot.graphs.proclaim import ProclaimSettings
from moot.nodes._models.budget import Budget
from moot.nodes._models.step_record import StepRecord
from moot.nodes._runtime.node import NodeContext
from moot.nodes._trial.discovery import _relevance
from moot.retrievers import open_encoder

from tests.conftest import StartStub
from tests.graphs.scripted_agents import Rule
from tests.graphs.scripted_trial import (
    ARGUING,
    LOW_NOVELTY,
    MORE_LOW_NOVELTY,
    NAME_OF,
    NAMES,
    NO,
    ONE_SEARCHES,
    SEARCHING,
    SIDES,
    TEXTS,
    YES,
    S,
    both_reflect,
    calls_by_round,
    closes,
    criticises,
    debate_entry,
    default_rules,
    exhibits_in,
    outcome,
    piece,
    prompts,
    received_chat_calls,
    searches,
    side_by_side,
    stop_of,
    trial,
    trial_of,
    turns,
    weighs,
)

# --- why a debate stops -----------------------------------------------------------------------------------------------

STOPS: dict[str, tuple[list[Rule], str, int]] = {
    "nothing stops the debate early": ([], "max_rounds", 5),
    "neither score changes": (both_reflect([0.5] * 5, [0.4] * 5), "reflection_plateau", 3),
    "only the sum stays the same": (both_reflect([0.2, 0.8, 0.2], [0.8, 0.2, 0.8]), "reflection_plateau", 3),
    "both scores rise by 0.03": (
        both_reflect([0.5, 0.53, 0.56, 0.59, 0.62], [0.3, 0.33, 0.36, 0.39, 0.42]),
        "max_rounds",
        5,
    ),
    "the sum rises by exactly 0.05": (both_reflect([0.5, 0.55, 0.6, 0.65, 0.7], [0.4] * 5), "max_rounds", 5),
    "the sum falls by exactly 0.05": (both_reflect([0.7, 0.65, 0.6, 0.55, 0.5], [0.4] * 5), "max_rounds", 5),
    "the sum rises by 0.049": (both_reflect([0.5, 0.549, 0.598], [0.4] * 3), "reflection_plateau", 3),
    "the sum falls by 0.049": (both_reflect([0.6, 0.551, 0.502], [0.4] * 3), "reflection_plateau", 3),
    "the sum jumps in round 3": (both_reflect([0.5, 0.5, 0.8, 0.8, 0.8], [0.4] * 5), "reflection_plateau", 5),
    "critic resolves round 1 only": (criticises(True, *NO[1:]), "max_rounds", 5),
    "critic resolves rounds 1 and 2": (criticises(True, True, *NO[2:]), "critic_resolved", 2),
    "critic resolves round 4": (criticises(*NO[:3], True, False), "critic_resolved", 4),
    "court closes round 1 only": (closes(True, *NO[1:]), "max_rounds", 5),
    "court closes rounds 1 and 2": (closes(True, True, *NO[2:]), "judicial_signal", 2),
    "court closes round 4": (closes(*NO[:3], True, False), "judicial_signal", 4),
    "low novelty for one side": (searches("plaintiff", *LOW_NOVELTY), "novelty_exhausted", 2),
    "low novelty for both sides": (
        [*searches("plaintiff", *LOW_NOVELTY), *searches("defense", *MORE_LOW_NOVELTY)],
        "novelty_exhausted",
        2,
    ),
    "novelty of exactly 0.10": (searches("plaintiff", "#A #B #C7", "#A #B #D7", "#A #B #E7"), "max_rounds", 5),
    "high novelty in round 2": (
        searches("plaintiff", LOW_NOVELTY[0], "#I #J", *LOW_NOVELTY[1:3]),
        "novelty_exhausted",
        4,
    ),
    "no results in round 2": (searches("plaintiff", LOW_NOVELTY[0], "#0", *LOW_NOVELTY[1:3]), "novelty_exhausted", 4),
    "high novelty for the other side": (
        [*searches("plaintiff", *LOW_NOVELTY), *searches("defense", "#I", "#J")],
        "novelty_exhausted",
        4,
    ),
}
"""For each case: the script, and the stop reason and number of rounds of a debate with ``max_rounds=5``.

In round 1 neither the critic nor the court can stop a debate, because ``min_rounds`` is 2.
"""


async def test_a_debate_stops_as_soon_as_a_stop_reason_applies(start_stub: StartStub) -> None:
    stub = start_stub(side_by_side([*rules, *default_rules()] for rules, _, _ in STOPS.values()))
    for number, (name, (_, reason, rounds)) in enumerate(STOPS.items()):
        before = received_chat_calls(stub)
        document = await trial_of(number, max_rounds=5, role_switch=False)
        assert outcome(document)[3:] == stop_of(document) == (reason, rounds), name
        assert calls_by_round(document) == [SEARCHING] * rounds, name  # no further round started
        assert received_chat_calls(stub) - before == len(document["calls"])
        entry = debate_entry(document)
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
async def test_before_min_rounds_only_max_rounds_stops_a_debate(
    start_stub: StartStub, given: dict[str, Any], reason: str, rounds: int
) -> None:
    rules = [
        *both_reflect([0.5] * 5, [0.5] * 5),
        *criticises(*YES),
        *closes(*YES),
        *searches("plaintiff", *LOW_NOVELTY),
        *default_rules(),
    ]
    start_stub(rules)
    document = await trial(**{"max_rounds": 5, "role_switch": False, **given})
    assert outcome(document)[3:] == stop_of(document) == (reason, rounds)
    assert calls_by_round(document) == [SEARCHING] * rounds


async def test_of_several_stop_reasons_the_first_in_a_fixed_order_is_recorded(start_stub: StartStub) -> None:
    rules_by_reason = {  # in the fixed order
        "reflection_plateau": both_reflect([0.5] * 3, [0.5] * 3),
        "critic_resolved": criticises(*YES),
        "novelty_exhausted": [*searches("plaintiff", *LOW_NOVELTY), *searches("defense", *MORE_LOW_NOVELTY)],
        "judicial_signal": closes(*YES),
        "max_rounds": [],
    }
    rules_from = [list(rules_by_reason.values())[first:] for first in range(len(rules_by_reason))]
    start_stub(side_by_side([*itertools.chain(*rules), *default_rules()] for rules in rules_from))
    for number, first in enumerate(rules_by_reason):
        document = await trial_of(number, min_rounds=3, max_rounds=4, role_switch=False)
        assert stop_of(document) == (first, 4 if first == "max_rounds" else 3)


PRIMARY_AND_SWITCHED: dict[str, tuple[list[Rule], tuple[str, int], tuple[str, int]]] = {
    "reflections end the primary debate, the critic the switched one": (
        [*both_reflect([0.5] * 3, [0.5] * 3), *criticises(*YES, phase="switched")],
        ("reflection_plateau", 3),
        ("critic_resolved", 2),
    ),
    "the court ends the primary debate, reflections the switched one": (
        [*closes(*YES), *both_reflect([0.5] * 3, [0.5] * 3, phase="switched")],
        ("judicial_signal", 2),
        ("reflection_plateau", 3),
    ),
    "low novelty ends only the switched debate": (
        searches("defense", *LOW_NOVELTY, phase="switched"),
        ("max_rounds", 4),
        ("novelty_exhausted", 2),
    ),
    "the critic ends only the primary debate": (criticises(*YES), ("critic_resolved", 2), ("max_rounds", 4)),
    "the court ends only the switched debate": (
        closes(*YES, phase="switched"),
        ("max_rounds", 4),
        ("judicial_signal", 2),
    ),
}
"""For each case: the script, and the stop reason and number of rounds of the primary and of the switched debate."""


async def test_the_two_debates_stop_independently(start_stub: StartStub) -> None:
    start_stub(side_by_side([*rules, *default_rules()] for rules, _, _ in PRIMARY_AND_SWITCHED.values()))
    for number, (name, (_, primary, switched)) in enumerate(PRIMARY_AND_SWITCHED.items()):
        document = await trial_of(number, max_rounds=4, switched_rounds=4)
        assert [entry["phase"] for entry in document["debates"]] == ["primary", "switched"]
        assert (stop_of(document), stop_of(document, "switched")) == (primary, switched), name
        assert outcome(document)[3:] == primary  # the trial has the stop reason of the primary debate
        assert calls_by_round(document) == [SEARCHING] * primary[1]
        assert calls_by_round(document, "switched") == [SEARCHING] * switched[1]


async def test_by_default_the_two_debates_have_at_most_ten_and_two_rounds(start_stub: StartStub) -> None:
    start_stub(default_rules())
    document = await trial(max_rounds=ProclaimSettings().max_rounds)
    assert outcome(document) == ("done", "SUPPORTS", S, "max_rounds", 10)
    assert stop_of(document, "switched") == ("max_rounds", 2)
    assert calls_by_round(document) == [SEARCHING] * 10
    assert calls_by_round(document, "switched") == [SEARCHING] * 2
    assert debate_entry(document)["novelty"] == [None] * 10
    assert debate_entry(document)["retrieval_ended"] == dict.fromkeys(SIDES, "retrievals")  # `max_retrievals` is 10
    assert debate_entry(document, "switched")["retrieval_ended"] == {}


# --- when a side's search ends ----------------------------------------------------------------------------------------


def rounds_with_search(document: Mapping[str, Any], phase: str = "primary") -> dict[str, list[int]]:
    """The rounds of a phase in which each side searched."""
    keys = turns(document, "discover", phase)
    return {side: [round for who, round in keys if who == side] for side in SIDES}


async def test_redundancy_ends_a_sides_search(start_stub: StartStub) -> None:
    plaintiff_searches = searches("plaintiff", "#A #B9 #C", "#M")
    defense_searches = searches("defense", "#I #A #B", "#J", "#A9 #B #C", "#M")
    stub = start_stub([*plaintiff_searches, *defense_searches, *default_rules()])
    document = await trial(max_rounds=4)
    assert rounds_with_search(document) == {"plaintiff": [1], "defense": [1, 2, 3]}
    discovered = turns(document, "discover")
    assert [t.get("ended") for t in discovered.values()] == ["redundancy", None, None, "redundancy"]
    assert [t["scores"]["redundancy"] for t in discovered.values()] == [1, pytest.approx(2 / 3), 0, 1]
    entry = debate_entry(document)
    assert entry["retrieval_ended"] == {"plaintiff": "redundancy", "defense": "redundancy"}
    assert entry["novelty"] == [pytest.approx(1.1 / 6), 1, pytest.approx(0.1 / 3), None]
    assert calls_by_round(document) == [SEARCHING, ONE_SEARCHES, ONE_SEARCHES, ARGUING]
    assert stop_of(document) == ("max_rounds", 4)
    # The search state of one debate does not carry over to the other.
    assert rounds_with_search(document, "switched") == {"plaintiff": [1, 2], "defense": [1, 2]}
    assert calls_by_round(document, "switched") == [SEARCHING, SEARCHING]
    assert len(prompts(stub, "plaintiff", "gap", "plaintiff")) == 1
    assert len(prompts(stub, "defense", "gap", "defense")) == 3
    assert len(prompts(stub, "retrieval")) == len(prompts(stub, "court", "refine")) == 4 + 4


REDUNDANCY: list[tuple[str, dict[str, Any], str | None]] = [
    ("#A9 #B9 #C9", {}, "redundancy"),  # a cosine of 0.9
    ("#A9 #B9 #C8", {}, None),  # two of three results, which is not more than 0.70
    ("#A8 #B8 #C8", {}, None),
    ("#A8 #B8 #C8", {"redundant_similarity": 0.75}, "redundancy"),
    ("#A9 #B9 #C9", {"redundant_similarity": 0.9}, None),  # the similarity equals the threshold
    ("#A #I", {"redundant_share": 0.5}, None),  # the share equals the threshold
    ("#A #B #I", {"redundant_share": 0.5}, "redundancy"),
    ("#0", {}, None),
    ("#down", {}, None),
]
"""For each case: the plaintiff's first query, settings, and why this query ends the plaintiff's search.

The last value is None if the search continues.
"""


async def test_redundancy_above_the_thresholds_ends_a_search(start_stub: StartStub) -> None:
    start_stub(side_by_side([*searches("plaintiff", query), *default_rules()] for query, _, _ in REDUNDANCY))
    for number, (query, given, ended) in enumerate(REDUNDANCY):
        document = await trial_of(number, role_switch=False, **given)
        assert debate_entry(document)["retrieval_ended"] == ({"plaintiff": ended} if ended else {}), query
        assert rounds_with_search(document) == {"plaintiff": [1] if ended else [1, 2], "defense": [1, 2]}


async def test_max_retrievals_ends_a_sides_search(start_stub: StartStub) -> None:
    plaintiff_searches = searches("plaintiff", "#I", "#0", "#J")
    start_stub([*plaintiff_searches, *searches("defense", "#K #A #B", "#L", "#M"), *default_rules()])
    document = await trial(max_rounds=4, switched_rounds=3, max_retrievals=2)
    for phase, rounds in {"primary": 4, "switched": 3}.items():
        assert rounds_with_search(document, phase) == {"plaintiff": [1, 2], "defense": [1, 2]}
        assert debate_entry(document, phase)["retrieval_ended"] == dict.fromkeys(SIDES, "retrievals")
        assert stop_of(document, phase) == ("max_rounds", rounds)
        assert calls_by_round(document, phase) == [SEARCHING] * 2 + [ARGUING] * (rounds - 2)
    assert debate_entry(document)["novelty"] == [pytest.approx(0.5), 1, None, None]


def query_with_words(name: str, shared: int) -> str:
    """A query that names an exhibit and contains the first ``shared`` words of the exhibit."""
    return " ".join([f"#{name}", *TEXTS[name].split()[:shared]])


async def test_a_gain_in_relevance_below_the_minimum_ends_a_sides_search(start_stub: StartStub) -> None:
    """Without a minimum (None), the search continues. The relevance is the cosine of a query and its result."""
    queries = {
        "plaintiff": [query_with_words("I", 0), query_with_words("J", 6), query_with_words("K", 2)],
        "defense": [query_with_words("L", 6), query_with_words("M", 2), query_with_words("N", 2)],
    }
    rules = [*searches("plaintiff", *queries["plaintiff"]), *searches("defense", *queries["defense"]), *default_rules()]
    minimums = (0.05, None)
    start_stub(side_by_side([rules] * len(minimums)))
    encoder = await open_encoder("openai:stub-embedding")
    for number, minimum in enumerate(minimums):
        document = await trial_of(number, max_rounds=4, relevance_gain=minimum, role_switch=False)
        ended = {} if minimum is None else dict.fromkeys(SIDES, "relevance_gain")
        assert debate_entry(document)["retrieval_ended"] == ended
        if minimum is None:
            assert rounds_with_search(document) == {"plaintiff": [1, 2, 3, 4], "defense": [1, 2, 3, 4]}
            continue
        assert rounds_with_search(document) == {"plaintiff": [1, 2, 3], "defense": [1, 2]}
        assert calls_by_round(document) == [SEARCHING, SEARCHING, ONE_SEARCHES, ARGUING]
        for (side, round), turn in turns(document, "discover").items():
            query = f"{queries[side][round - 1]} exactly"
            assert turn["query"] == query
            query_vector, text_vector = await encoder.embed([query, TEXTS[query[1]]])  # `#J ...` names exhibit J
            cosine = sum(float(x) * float(y) for x, y in zip(query_vector, text_vector, strict=True))
            assert turn["scores"]["relevance"] == pytest.approx(cosine, abs=1e-5)


async def test_relevance_that_cannot_be_computed_in_time_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        async def embed(self, texts: Any) -> Any:
            await asyncio.Event().wait()

    monkeypatch.setattr("moot.nodes._runtime.ceilings.current_budget", lambda: Budget(seconds=1e-6))
    run: Any = NodeContext(ProclaimSettings(relevance_gain=0.1), StepRecord())
    turn: Any = {"query": "Who is it?"}
    async with asyncio.timeout(60):
        assert await _relevance(turn, [], run, Slow()) == {}  # type: ignore[arg-type]


async def test_a_debate_continues_after_both_sides_have_stopped_searching(start_stub: StartStub) -> None:
    """The novelty of the later rounds is None."""
    nothing_new = [r for side in SIDES for r in searches(side, "#A #B #C")]
    cases: tuple[list[Rule], ...] = ([], criticises(*NO[:3], True))
    start_stub(side_by_side([*nothing_new, *more, *default_rules()] for more in cases))
    for number, more in enumerate(cases):
        document = await trial_of(number, max_rounds=5, role_switch=False)
        assert stop_of(document) == (("critic_resolved", 4) if more else ("max_rounds", 5))
        rounds = document["rounds"]
        assert debate_entry(document)["novelty"] == [0] + [None] * (rounds - 1)
        assert debate_entry(document)["retrieval_ended"] == dict.fromkeys(SIDES, "redundancy")
        assert calls_by_round(document) == [SEARCHING] + [ARGUING] * (rounds - 1)
        assert len(turns(document, "argue")) == 2 * rounds


async def test_novelty_can_be_exhausted_after_one_side_has_stopped_searching(start_stub: StartStub) -> None:
    start_stub([*searches("plaintiff", *LOW_NOVELTY), *searches("defense", "#A #B #C"), *default_rules()])
    document = await trial(max_rounds=5, role_switch=False)
    assert stop_of(document) == ("novelty_exhausted", 2)
    assert debate_entry(document)["novelty"] == [pytest.approx(0.2 / 6), pytest.approx(0.2 / 3)]
    assert calls_by_round(document) == [SEARCHING, ONE_SEARCHES]


# --- novelty ----------------------------------------------------------------------------------------------------------


def novelties(document: Mapping[str, Any], side: str, round: int) -> dict[str, Any]:
    """The novelty of each exhibit that a side found in a round, by the exhibit's name."""
    found = turns(document, "discover")[side, round]["evidence_ids"]
    by_name = {NAMES[p["text"]]: p["retrievals"] for p in document["evidence"] if p["id"] in found}
    return {
        name: next(r["novelty"] for r in retrievals if (r["agent"], r["round"]) == (side, round))
        for name, retrievals in by_name.items()
    }


async def test_novelty_is_one_minus_the_largest_cosine_with_the_record(start_stub: StartStub) -> None:
    """Exhibits that were disputed or discarded before the debate have the novelty 0."""
    ruled = [*weighs(0.5, 0.5, "D"), *weighs(0.1, 0.1, "E")]
    plaintiff_searches = searches("plaintiff", "#I #A9 #I8", "#D #E #D9")
    defense_searches = searches("defense", "#I #J #I8", "#A9 #K #K9")
    stub = start_stub([*ruled, *plaintiff_searches, *defense_searches, *default_rules()])
    document = await trial(role_switch=False)
    near = pytest.approx
    # Both sides find exhibit I. The plaintiff's exhibits join the record first, so I is new only for the plaintiff. I8
    # shares eight words with I.
    assert novelties(document, "plaintiff", 1) == {"I": 1, "A9": near(0.1), "I8": near(0.2)}
    assert novelties(document, "defense", 1) == {"I": 0, "J": 1, "I8": 0}
    # Before the debate, D was disputed and E discarded. They are not on record, so D9, which resembles D, is new.
    assert novelties(document, "plaintiff", 2) == {"D": 0, "E": 0, "D9": 1}
    assert novelties(document, "defense", 2) == {"A9": near(0.1), "K": 1, "K9": near(0.1)}
    discovered = turns(document, "discover")
    means = {key: turn["scores"]["novelty"] for key, turn in discovered.items()}
    assert means == {
        ("plaintiff", 1): near(1.3 / 3),
        ("defense", 1): near(1 / 3),
        ("plaintiff", 2): near(1 / 3),
        ("defense", 2): near(0.4),
    }
    assert debate_entry(document)["novelty"] == [near(2.3 / 6), near(2.2 / 6)]
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
    first, second = (set(exhibits_in(p)) for p in prompts(stub, "plaintiff", "argue"))
    assert first == set("ABCFGH") | {"I", "I8", "J"}
    assert second == first | {"D9", "K"}
    assert set(exhibits_in(prompts(stub, "judge-1")[0])) == second | {"D"}


async def test_exhibits_below_the_minimum_novelty_do_not_join_the_record(start_stub: StartStub) -> None:
    start_stub([*searches("plaintiff", "#A9 #B8 #C7") * 4, *default_rules()])
    joined = {}
    for least in (0.1, 0.2, 0.3, 0.31):
        document = await trial(role_switch=False, max_rounds=1, novelty_threshold=least)
        joined[least] = " ".join(NAME_OF[i] for i in turns(document, "discover")["plaintiff", 1]["joined"])
    assert joined == {0.1: "A9 B8 C7", 0.2: "B8 C7", 0.3: "C7", 0.31: ""}


async def test_exhibits_irrelevant_to_the_request_do_not_join_the_record(start_stub: StartStub) -> None:
    """The plaintiff's gap, which is its request, contains six words of exhibit I and no word of exhibit J."""
    start_stub([*searches("plaintiff", f"#J {query_with_words('I', 6)}") * 2, *default_rules()])
    for minimum, joined in ((0.2, "I"), (-1, "J I")):
        document = await trial(role_switch=False, max_rounds=1, min_request_similarity=minimum)
        turn = turns(document, "discover")["plaintiff", 1]
        assert " ".join(NAME_OF[i] for i in turn["joined"]) == joined
        similarities = {name: piece(document, name)["retrievals"][0]["request_similarity"] for name in "IJ"}
        assert similarities["J"] < 0.2 < 0.5 < similarities["I"]
        assert turn["scores"]["request_similarity"] == pytest.approx(sum(similarities.values()) / 2)
        assert novelties(document, "plaintiff", 1) == {"I": 1, "J": 1}
        assert piece(document, "J")["status"] == ("discovered" if "J" in joined else "discarded")
