"""CortexDebate's formulas and debating graph: a worked example, each formula, and random debates."""

from __future__ import annotations

import json
import math
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.nodes._cortex.debating_graph import (
    PRUNING_RULES,
    THRESHOLDS,
    Evaluation,
    Graph,
    History,
    Opponents,
    Pruning,
    Weights,
    agents_heard,
    credibilities,
    credibility,
    first_history,
    loss,
    mean_similarity,
    next_round,
    pair,
    peer_means,
    recalibrate_confidence,
    reliability,
    self_orientation,
)

from tests.each import each

ONES = {"1": 1.0, "2": 1.0, "3": 1.0}
ROUND_1: dict[str, Any] = {
    "confidences": {"1": 0.9, "2": 0.7, "3": 0.2},
    "similarities": {"1|2": 0.9, "1|3": 0.5, "2|3": 0.1},
}
ROUND_2: dict[str, Any] = {
    "confidences": {"1": 0.5, "2": 0.9, "3": 0.7},
    "similarities": {"1|2": 0.7, "1|3": 0.3, "2|3": 0.3},
}


def near(expected: Any) -> Any:
    """The expected value. Its floats are compared to five decimal places."""
    if isinstance(expected, dict):
        return {key: near(value) for key, value in expected.items()}
    return pytest.approx(expected, abs=5e-6) if isinstance(expected, float) else expected


# --- worked example -------------------------------------------------------------------------------------------------


def test_the_first_round_matches_the_worked_example() -> None:
    weights, kept_edges, history = next_round(first_history(), 1, **ROUND_1, credibilities=ONES)
    assert weights == near({"1": {"2": 0.06, "3": 0.15}, "2": {"1": 0.08, "3": 0.27}, "3": {"1": 0.40, "2": 0.54}})
    assert kept_edges == {"1": ["3"], "2": ["3"], "3": ["2"]}
    assert history == near(
        {
            "recalibrated": {"1": 0.8, "2": 0.6, "3": 0.3},
            "reliability": {"1": 0.8, "2": 0.6, "3": 0.3},
            "similarity": {"1|2": 0.9, "1|3": 0.5, "2|3": 0.1},
            "participation": {"1": 0, "2": 1, "3": 2},
        }
    )


def test_the_second_round_matches_the_worked_example() -> None:
    history = next_round(first_history(), 1, **ROUND_1, credibilities=ONES).history
    assert [self_orientation(2, 3, history["participation"][a]) + 1 for a in "123"] == [3, 2, 1]
    history = json.loads(json.dumps(history))  # as a checkpointer stores it
    weights, kept_edges, history = next_round(history, 2, **ROUND_2, credibilities=ONES)
    assert weights == near(
        {"1": {"2": 0.07, "3": 0.27}, "2": {"1": 0.13 / 3, "3": 0.36}, "3": {"1": 0.13, "2": 0.28}},
    )
    assert [sum(edges.values()) / 2 for edges in weights.values()] == pytest.approx([0.17, 0.605 / 3, 0.205])
    assert kept_edges == {"1": ["3"], "2": ["3"], "3": ["2"]}
    assert history == near(
        {
            "recalibrated": {"1": 0.5, "2": 0.8, "3": 0.6},
            "reliability": {"1": 0.65, "2": 0.7, "3": 0.45},
            "similarity": {"1|2": 0.8, "1|3": 0.4, "2|3": 0.2},
            "participation": {"1": 0, "2": 2, "3": 4},
        }
    )


# --- formulae -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        (0, 0.3),
        (0.2999, 0.3),
        (0.3, 0.3),
        (0.45, 0.45),
        (0.5999, 0.5999),
        (0.6, 0.6),
        (0.7999, 0.6),
        (0.8, 0.8),
        (1, 0.8),
    ],
)
def test_confidences_are_recalibrated_by_three_thresholds(stated: float, expected: float) -> None:
    """Without thresholds, a confidence does not change."""
    assert recalibrate_confidence(stated) == expected
    assert recalibrate_confidence(stated, None) == stated


def test_loss_and_credibility_follow_from_the_size_of_a_model() -> None:
    assert loss(70e9, 1.4e12) == pytest.approx(1.93665, abs=5e-6)
    assert credibility(70e9, 1.4e12) == pytest.approx(0.51636, abs=5e-6)
    assert loss(1, 1) == pytest.approx(406.4 + 410.7 + 1.69)


def test_one_unknown_size_makes_all_agents_equally_credible() -> None:
    assert credibilities({"a": (70e9, 1.4e12), "b": (1, 1)}) == (near({"a": 0.51636, "b": 1 / 818.79}), [])
    sizes = {"a": (70e9, 1.4e12), "b": None, "c": (7e9, None), "d": (None, 1e12)}
    assert credibilities(sizes) == (dict.fromkeys("abcd", 1.0), ["b", "c", "d"])
    assert credibilities({}) == ({}, [])


def test_reliability_and_similarity_are_running_means() -> None:
    assert reliability(99, 1, 0.8) == 0.8  # in the first round, the previous value does not count
    assert reliability(0.8, 2, 0.5) == pytest.approx(0.65)
    assert reliability(0.65, 3, 0.2) == pytest.approx(0.5)
    assert mean_similarity(0.9, 2, 0.7) == pytest.approx(0.8)
    with pytest.raises(ValueError, match="from 1"):
        reliability(0, 0, 0.5)


def test_self_orientation_counts_how_often_an_agent_was_not_kept() -> None:
    assert [self_orientation(1, 5, 0), self_orientation(3, 5, 8), self_orientation(3, 5, 1)] == [0, 0, 7]
    for invalid in (9, -1):
        with pytest.raises(ValueError, match="kept 0 to 8 times"):
            self_orientation(3, 5, invalid)


# --- pruning --------------------------------------------------------------------------------------------------------

FIVE_EDGES = {"j": {"a": 0.1, "b": 0.9, "c": 0.2, "d": 0.9, "e": 0.15}}
"""Weights with the mean 0.45 and the median 0.2."""


@pytest.mark.parametrize(
    ("pruning", "opponents"),
    [
        ("average", ["b", "d"]),
        ("median", ["b", "c", "d"]),
        ("top-3", ["b", "c", "d"]),
        ("bottom-3-removed", ["b", "d"]),
    ],
)
def test_each_pruning_rule_keeps_the_heavy_edges(pruning: Pruning, opponents: list[str]) -> None:
    assert agents_heard(FIVE_EDGES, pruning=pruning) == {"j": opponents}


@each("value", [0.0, 0.1, 1 / 3, 1e-300, 7.0])
@each(
    ("pruning", "opponents"),
    [("average", "abcd"), ("median", "abcd"), ("top-3", "abc"), ("bottom-3-removed", "a")],
)
def test_rules_with_a_count_keep_the_first_of_equal_edges(value: float, pruning: Pruning, opponents: str) -> None:
    """The rules ``average`` and ``median`` keep all equal edges."""
    assert agents_heard({"j": dict.fromkeys("abcd", value)}, pruning=pruning) == {"j": list(opponents)}


def test_weights_that_differ_only_by_rounding_count_as_equal() -> None:
    weights = {"j": {"a": 0.1 + 0.2, "b": 0.3, "c": 0.3}}
    assert weights["j"]["a"] != weights["j"]["b"]
    assert agents_heard(weights, pruning="average") == agents_heard(weights, pruning="median") == {"j": ["a", "b", "c"]}
    assert agents_heard({"j": {"a": 1.0, "b": 1 - 1e-7}}) == {"j": ["a"]}


# --- strategies -----------------------------------------------------------------------------------------------------


def run_first_round(evaluation: Evaluation, graph: Graph = "sparse", **more: Any) -> tuple[Weights, Opponents]:
    """The weights and the kept edges of round 1."""
    given = {**ROUND_1, "credibilities": {"1": 0.5, "2": 0.4, "3": 1.0}, **more}
    return next_round(first_history(), 1, **given, graph=graph, evaluation=evaluation)[:2]


def test_mdm_without_i_and_s_weighs_by_credibility_and_reliability() -> None:
    weights, kept_edges = run_first_round("mdm_without_i_and_s")
    assert weights == near({"1": {"2": 0.24, "3": 0.3}, "2": {"1": 0.4, "3": 0.3}, "3": {"1": 0.4, "2": 0.24}})
    assert kept_edges == {"1": ["3"], "2": ["1"], "3": ["1"]}
    history = next_round(first_history(), 1, **ROUND_1, credibilities=ONES).history
    later = next_round(history, 2, **ROUND_2, credibilities=ONES, evaluation="mdm_without_i_and_s").weights
    assert later["1"] == near({"2": 0.7, "3": 0.45})


def test_with_self_evaluation_agents_above_the_mean_confidence_are_heard() -> None:
    # The mean of 0.8, 0.6 and 0.3 is 0.5667.
    assert run_first_round("self")[1] == {"1": ["2"], "2": ["1"], "3": ["1", "2"]}
    assert run_first_round("self", "full")[1] == {"1": ["2", "3"], "2": ["1", "3"], "3": ["1", "2"]}
    assert run_first_round("self", thresholds=None, confidences={"1": 0.9, "2": 0.5, "3": 0.1})[1] == {
        "1": [],
        "2": ["1"],
        "3": ["1"],
    }


def test_with_peer_evaluation_agents_above_the_mean_peer_score_are_heard() -> None:
    given: dict[str, dict[str, float | None]] = {
        "1": {"2": 0.4, "3": 0.2, "1": 1.0},
        "2": {"1": 0.5, "3": None},
        "3": {"1": 0.7, "2": 0.6},
    }
    scores = peer_means(given)
    assert scores == near({"1": 0.6, "2": 0.5, "3": 0.2})
    # The mean of the scores is 0.4333.
    assert run_first_round("peer", peer_scores=scores)[1] == {"1": ["2"], "2": ["1"], "3": ["1", "2"]}
    assert run_first_round("peer", "full", peer_scores=scores)[1]["2"] == ["1", "3"]


def test_an_unknown_peer_score_does_not_count() -> None:
    assert peer_means({"1": {"2": None}, "2": {}, "3": {}}) == {"1": None, "2": None, "3": None}
    weights, kept_edges = run_first_round("peer", peer_scores={"1": None, "2": 0.5, "3": 0.2})
    assert weights["1"] == {"2": 0.5, "3": 0.2}
    assert weights["2"] == {"3": 0.2}
    assert kept_edges == {"1": ["2"], "2": [], "3": ["2"]}  # the mean is 0.35
    assert run_first_round("peer", "full", peer_scores={"1": None, "2": 0.5, "3": 0.2})[1]["2"] == ["3", "1"]


def test_a_sparse_graph_without_evaluation_draws_half_of_the_opponents() -> None:
    weights = {j: {i: 1.0 for i in "abcde" if i != j} for j in "abcde"}
    drawn = [agents_heard(weights, evaluation="none", d=d, seed=s) for d in range(1, 6) for s in range(5)]
    assert all(len(sources) == 2 for kept_edges in drawn for sources in kept_edges.values())
    assert all(
        j not in kept_edges[j] and kept_edges[j] == sorted(kept_edges[j]) for kept_edges in drawn for j in kept_edges
    )
    assert agents_heard(weights, evaluation="none", d=1, seed=0) == drawn[0]
    assert len({json.dumps(kept_edges) for kept_edges in drawn}) > 20
    assert {i for kept_edges in drawn for i in kept_edges["a"]} == set("bcde")
    assert [len(s) for s in run_first_round("none")[1].values()] == [1, 1, 1]
    # With 3 opponents, half is rounded up to 2.
    assert [len(agents_heard({j: {} for j in "abcd"}, evaluation="none")[j]) for j in "abcd"] == [2] * 4


# --- history --------------------------------------------------------------------------------------------------------


def test_an_agent_without_an_answer_keeps_its_last_values() -> None:
    """In round 1 there are no last values, so default values are used."""
    silent: dict[str, Any] = {"confidences": {"1": 0.9, "2": 0.7, "3": None}, "similarities": {"1|2": 0.9}}
    weights, _, history = next_round(first_history(), 1, **silent, credibilities=ONES)
    assert history["recalibrated"]["3"] == 0.3
    assert history["similarity"] == {"1|2": 0.9, "1|3": 1.0, "2|3": 1.0}
    assert weights["1"] == near({"2": 0.06, "3": 0.0})
    assert weights["3"] == {"1": 0.0, "2": 0.0}
    history = next_round(first_history(), 1, **ROUND_1, credibilities=ONES).history
    later = next_round(history, 2, **silent, credibilities=ONES).history
    assert later["recalibrated"]["3"] == 0.3
    assert later["similarity"] == near({"1|2": 0.9, "1|3": 0.5, "2|3": 0.1})


# --- properties -----------------------------------------------------------------------------------------------------

SHARE = st.floats(0, 1)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=12), st.sampled_from(get_args(Pruning)))
def test_pruning_removes_no_edge_heavier_than_a_kept_edge(values: list[float], pruning: Pruning) -> None:
    weights = {f"agent-{k}": w for k, w in enumerate(values)}
    opponents = PRUNING_RULES[pruning](weights)
    assert opponents == [i for i in weights if i in opponents]  # in order, each once
    assert any(weights[i] == max(values) for i in opponents)
    for i in opponents:  # no pruned edge weighs more than a kept edge, apart from rounding
        assert all(weights[o] <= weights[i] * (1 + 1e-8) for o in weights if o not in opponents)


@st.composite
def debates(draw: st.DrawFn) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Random credibilities, and random rounds of a debate."""
    agents = [f"agent-{k}" for k in range(1, draw(st.integers(2, 6)) + 1)]
    keys = [pair(a, b) for k, a in enumerate(agents) for b in agents[k + 1 :]]
    rounds = [
        {
            "confidences": {a: draw(st.none() | SHARE) for a in agents},
            "similarities": draw(st.fixed_dictionaries({}, optional={k: st.floats(-1.001, 1.001) for k in keys})),
        }
        for _ in range(draw(st.integers(1, 4)))
    ]
    return {a: draw(st.floats(1e-3, 1)) for a in agents}, rounds


@given(
    debates(),
    st.sampled_from(get_args(Graph)),
    st.sampled_from(get_args(Evaluation)),
    st.sampled_from(get_args(Pruning)),
    st.sampled_from([THRESHOLDS, None]),
)
def test_the_graph_of_any_debate_keeps_its_invariants(
    debate: tuple[dict[str, float], list[dict[str, Any]]],
    graph: Graph,
    evaluation: Evaluation,
    pruning: Pruning,
    thresholds: Any,
) -> None:
    given_credibilities, rounds = debate
    agents = list(given_credibilities)
    history: History = first_history()
    times_kept = dict.fromkeys(agents, 0)
    for d, values in enumerate(rounds, 1):
        more: dict[str, Any] = {"graph": graph, "evaluation": evaluation, "pruning": pruning, "thresholds": thresholds}
        more["peer_scores"] = values["confidences"]
        weights, kept_edges, history = next_round(history, d, **values, credibilities=given_credibilities, **more)
        assert list(weights) == list(kept_edges) == agents
        for j in agents:
            assert j not in weights[j]
            assert j not in kept_edges[j]
            assert len(set(kept_edges[j])) == len(kept_edges[j]) <= len(agents) - 1
            assert all(math.isfinite(w) and w >= 0 for w in weights[j].values())
            if evaluation in ("none", "mdm", "mdm_without_i_and_s"):
                assert kept_edges[j]
                assert set(weights[j]) == set(agents) - {j}
            for i in kept_edges[j]:
                times_kept[i] += 1
        assert history["participation"] == times_kept
        assert all(self_orientation(d + 1, len(agents), p) >= 0 for p in times_kept.values())
        history = json.loads(json.dumps(history))
