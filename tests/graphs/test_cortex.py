"""CortexDebate: weights and debating graphs worked out by hand, stop reasons, prompts, and settings.

The worked example is the one of ``tests/nodes/test_trust.py``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest
from moot.nodes._records.entries import Turn
from moot.retrievers import open_encoder

from tests.conftest import StartStub, StubEndpoint
from tests.graphs.scripted_agents import (
    ANSWERS,
    claims,
    debate,
    final_votes,
    marks_by_prompt,
    outline,
    prompts,
    rule,
    script,
    warning_kinds,
)

CONFIDENCES = [(0.9, 0.7, 0.2), (0.5, 0.9, 0.7), (0.5, 0.5, 0.5)]
"""The confidences of the worked example's three agents, in rounds 0, 1 and 2."""
COSINES = [(0.9, 0.5, 0.1), (0.7, 0.3, 0.3)]
"""For rounds 0 and 1: the similarities of agents 1 and 2, of agents 1 and 3, and of agents 2 and 3."""
PAIRS = ("agent-1|agent-2", "agent-1|agent-3", "agent-2|agent-3")


def by_number(by_agent: dict[str, Any]) -> dict[str, Any]:
    """Replace agents' names by their numbers in the keys of a nested dictionary."""
    numbered = {k.removeprefix("agent-"): v for k, v in by_agent.items()}
    return {k: by_number(v) if isinstance(v, dict) else v for k, v in numbered.items()}


def approximate(expected: dict[str, Any]) -> Any:
    """Replace each float of a nested dictionary by a value that equals all floats within 5e-6 of it."""
    return {k: approximate(v) if isinstance(v, dict) else pytest.approx(v, abs=5e-6) for k, v in expected.items()}


def agents_heard(document: dict[str, Any], d: int) -> dict[str, str]:
    """For each agent, the numbers of the agents that it hears in round ``d``: ``{"1": "23"}``."""
    edges = document["graphs"][d - 1]["kept"]
    return {j.removeprefix("agent-"): "".join(i.removeprefix("agent-") for i in edges[j]) for j in edges}


def check_prompts(stub: StubEndpoint, document: dict[str, Any]) -> None:
    """Check that each agent's prompt shows exactly the last answers of the agents that it hears."""
    for d, _ in enumerate(document["graphs"], 1):
        for j, sources in agents_heard(document, d).items():
            expected = " ".join(sorted(f"a{i}r{d - 1}" for i in sources))
            assert marks_by_prompt(stub, f"agent-{j}")[d] == expected


@pytest.fixture
def given_cosines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the encoder's similarities by those of the worked example."""

    async def similarities(answers: Sequence[Turn], encoder: Any) -> dict[str, float]:
        return dict(zip(PAIRS, COSINES[answers[0]["round"]], strict=True))

    monkeypatch.setattr("moot.nodes._cortex.weigh.similarities", similarities)


# --- the worked example -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("given_cosines")
async def test_a_debate_reproduces_the_worked_example(start_stub: StartStub) -> None:
    stub = start_stub(script("SRN", "SNN", "SSN", sure=CONFIDENCES, first=0))
    document = await debate("cortex_debate", agents=3, max_rounds=2)
    assert outline(document) == ("done", "SUPPORTS", "max_rounds", 2, 9, 3)
    first, second = document["graphs"]
    assert (first["round"], second["round"]) == (1, 2)
    assert by_number(first["confidence"]) == {"1": 0.9, "2": 0.7, "3": 0.2}
    assert by_number(first["recalibrated"]) == {"1": 0.8, "2": 0.6, "3": 0.3}
    weights = {"1": {"2": 0.06, "3": 0.15}, "2": {"1": 0.08, "3": 0.27}, "3": {"1": 0.40, "2": 0.54}}
    assert by_number(first["weights"]) == approximate(weights)
    assert by_number(second["recalibrated"]) == {"1": 0.5, "2": 0.8, "3": 0.6}
    weights = {"1": {"2": 0.07, "3": 0.27}, "2": {"1": 0.04333, "3": 0.36}, "3": {"1": 0.13, "2": 0.28}}
    assert by_number(second["weights"]) == approximate(weights)
    assert agents_heard(document, 1) == agents_heard(document, 2) == {"1": "3", "2": "3", "3": "2"}
    check_prompts(stub, document)
    assert document["metrics"]["debates"] == {"agent-1": 0, "agent-2": 2, "agent-3": 4}
    # In round 1 (answers S R N), all three kept edges join different answers. In round 2 (S N N), one edge does.
    assert document["metrics"]["viewpoint_collisions"] == 4
    assert json.loads(json.dumps(document["graphs"])) == document["graphs"]
    assert warning_kinds(document, but=()) == ["unknown_model_size"]


async def test_similarities_weights_and_kept_edges_match_their_formulas(start_stub: StartStub) -> None:
    stub = start_stub(script("SRN", "SRR", "RRS", "SRN", sure=[*CONFIDENCES, (0.1, 0.2, 0.95)], first=0))
    document = await debate("cortex_debate", agents=3, max_rounds=3)
    assert outline(document)[1:4] == (None, "max_rounds", 3)
    check_prompts(stub, document)
    encoder = await open_encoder("openai:stub-embedding")
    sums = dict.fromkeys(PAIRS, 0.0)
    debates = dict.fromkeys(("agent-1", "agent-2", "agent-3"), 0)
    for d, graph in enumerate(document["graphs"], 1):
        turns = [t for t in document["turns"] if t["round"] == d - 1]
        vectors = await encoder.embed([f"{t['answer']}\n{t['rationale']}" for t in turns])
        for key, (one, other) in zip(PAIRS, combinations(vectors, 2), strict=True):
            sums[key] += sum(float(x) * float(y) for x, y in zip(one, other, strict=True))
        assert graph["similarity"] == {key: pytest.approx(value / d, abs=1e-5) for key, value in sums.items()}
        for j, edges in graph["weights"].items():
            for i, w in edges.items():
                confidences = [g["recalibrated"][i] for g in document["graphs"][:d]]
                intimacy = 1 - graph["similarity"]["|".join(sorted((i, j)))]
                assert w == pytest.approx(sum(confidences) / d * intimacy / ((d - 1) * 2 - debates[i] + 1))
            mean = sum(edges.values()) / len(edges)
            assert graph["kept"][j] == [i for i, w in edges.items() if w >= mean * (1 - 1e-9)] != []
        for sources in graph["kept"].values():
            for i in sources:
                debates[i] += 1
    assert document["metrics"]["debates"] == debates


# --- when it stops, and who wins --------------------------------------------------------------------------------------


async def test_agreement_of_the_first_answers_does_not_end_the_debate(start_stub: StartStub) -> None:
    stub = start_stub(script("SSS", "SSS", first=0))
    document = await debate("cortex_debate", agents=3)
    assert outline(document) == ("done", "SUPPORTS", "consensus", 1, 6, 2)
    check_prompts(stub, document)


async def test_the_first_answers_do_not_count_as_a_round(start_stub: StartStub) -> None:
    start_stub(script("SSS", "SRS", "RRS", "SRR", "RSR", "SSR", first=0))
    document = await debate("cortex_debate", agents=3)
    assert outline(document) == ("done", "SUPPORTS", "max_rounds", 5, 18, 6)
    assert [graph["round"] for graph in document["graphs"]] == [1, 2, 3, 4, 5]


WINNERS = {"SRN": None, "SSRR": None, "SSRRN": None, "SRRSR": "R", "SRR": "R", "SR-": None, "S--": "S", "R-R": "R"}
"""The agents' answers in the last round, mapped to the winning answer, or to None after a tie."""


async def test_the_most_frequent_answer_of_the_last_round_wins_except_in_a_tie(start_stub: StartStub) -> None:
    cases = claims(WINNERS)
    start_stub([r for claim, last in cases.items() for r in script("S" * len(last), last, first=0, claim=claim)])
    for claim, last in cases.items():
        document = await debate("cortex_debate", {"claim": claim}, agents=len(last), max_rounds=1)
        answer = WINNERS[last] and ANSWERS[str(WINNERS[last])]
        assert outline(document)[:4] == ("done", answer, "max_rounds", 1), last
        assert list(final_votes(document).values()) == [ANSWERS.get(letter) for letter in last]
        assert document["raw_verdict"] == answer


async def test_two_agents_hear_each_other_in_every_round(start_stub: StartStub) -> None:
    stub = start_stub(script("SR", "RS", "SR", first=0))
    document = await debate("cortex_debate", agents=2, max_rounds=2)
    assert outline(document)[1:4] == (None, "max_rounds", 2)
    assert agents_heard(document, 1) == agents_heard(document, 2) == {"1": "2", "2": "1"}
    check_prompts(stub, document)


async def test_an_agent_with_an_unparsable_reply_keeps_its_last_confidence(start_stub: StartStub) -> None:
    """The agents that hear this agent are told that it gave no valid answer."""
    stub = start_stub(script("SR-", "-RS", "SRS", sure=[(0.9, 0.7, 0), (0, 0.5, 0.95), CONFIDENCES[2]], first=0))
    document = await debate("cortex_debate", agents=3, max_rounds=2)
    first, second = document["graphs"]
    assert by_number(first["confidence"]) == {"1": 0.9, "2": 0.7, "3": None}
    assert by_number(first["recalibrated"]) == {"1": 0.8, "2": 0.6, "3": 0.3}  # agent 3 has no earlier confidence
    assert by_number(second["confidence"]) == {"1": None, "2": 0.5, "3": 0.95}
    assert by_number(second["recalibrated"]) == {"1": 0.8, "2": 0.5, "3": 0.8}
    assert outline(document)[:4] == ("done", "SUPPORTS", "max_rounds", 2)
    sent = [prompts(stub, f"agent-{i}")[d] for i in (1, 2, 3) for d in (1, 2)]
    assert [("(gave no valid answer)" in prompt) for prompt in sent] == [
        f"agent-{silent}" in document["graphs"][d - 1]["kept"][f"agent-{i}"]
        for i in (1, 2, 3)
        for d, silent in ((1, 3), (2, 1))
    ]


# --- ablations --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("given_cosines")
async def test_the_settings_evaluation_and_debating_graph_decide_which_answers_are_shown(start_stub: StartStub) -> None:
    # The recalibrated confidences are 0.8, 0.6 and 0.3 (mean 0.567). Without intimacy and self-orientation, the mean
    # weight of the edges into agent 1 is 0.45, into agent 2 0.55, into agent 3 0.7. Full graphs show all answers; with
    # MDM, the answer with the largest weight comes first.
    cases: dict[tuple[str, str], dict[str, str]] = {
        ("self", "sparse"): {"1": "2", "2": "1", "3": "12"},
        ("mdm_without_i_and_s", "sparse"): {"1": "2", "2": "1", "3": "1"},
        ("mdm", "full"): {"1": "32", "2": "31", "3": "21"},
        ("none", "full"): {"1": "23", "2": "13", "3": "12"},
    }
    by_claim = claims(cases)
    stub = start_stub([r for claim in by_claim for r in script("SRN", "SRN", sure=CONFIDENCES, first=0, claim=claim)])
    for claim, (evaluation, graph) in by_claim.items():
        document = await debate(
            "cortex_debate", {"claim": claim}, agents=3, max_rounds=1, evaluation=evaluation, debating_graph=graph
        )
        assert agents_heard(document, 1) == cases[evaluation, graph], (evaluation, graph)
        for j, sources in agents_heard(document, 1).items():
            [shown] = [p for p in prompts(stub, f"agent-{j}") if claim in p and "Answer anew" in p]
            places = [shown.index(f"a{i}r0.") for i in sources]
            assert places == sorted(places)  # the prompt keeps the order of the graph
            assert [f"a{i}r0." in shown for i in "123"] == [i in sources for i in "123"]


async def test_peer_evaluation_keeps_only_agents_with_scores_above_the_mean(start_stub: StartStub) -> None:
    scores = {(1, 2): 0.2, (1, 3): 0.9, (2, 1): 0.4, (2, 3): 0.7, (3, 1): 0.2, (3, 2): 0.2}
    scored = [
        rule(f"agent-{i}", rf"a{j}r0\..*the `score`", fields={"score": score}) for (i, j), score in scores.items()
    ]
    stub = start_stub([*script("SRN", "SSN", first=0), *scored])
    document = await debate("cortex_debate", agents=3, max_rounds=1, evaluation="peer")
    # The agents' mean scores are 0.3, 0.2 and 0.8. Their mean is 0.433, and only agent 3's score exceeds it.
    assert outline(document) == ("done", "SUPPORTS", "max_rounds", 1, 12, 3)
    assert agents_heard(document, 1) == {"1": "3", "2": "3", "3": ""}
    check_prompts(stub, document)
    # Each request for a score shows the answer of one other agent.
    assert sorted(marks_by_prompt(stub, "agent-1", "the `score`")) == ["a2r0", "a3r0"]
    assert "What the others answered last" not in prompts(stub, "agent-3")[1]


async def test_peer_scores_of_an_earlier_round_do_not_count(start_stub: StartStub) -> None:
    high, low = rule(r"agent-\d", r"a2r0\..*the `score`", fields={"score": 0.9}), rule(r"agent-\d", "the `score`")
    start_stub([*script("SRN", "S-N", "SRN", first=0), high, low | {"fields": {"score": 0.2}}])
    document = await debate("cortex_debate", agents=3, max_rounds=2, evaluation="peer")
    assert agents_heard(document, 1) == {"1": "2", "2": "", "3": "2"}
    # In round 1, agent 2 gave no answer and got no score. The other scores are equal, so none is above their mean.
    assert agents_heard(document, 2) == {"1": "", "2": "", "3": ""}
    assert by_number(document["graphs"][1]["weights"]) == {"1": {"3": 0.2}, "2": {"1": 0.2, "3": 0.2}, "3": {"1": 0.2}}


async def test_without_evaluation_the_seed_determines_the_sparse_graph(start_stub: StartStub) -> None:
    stub = start_stub(script("SRNSR", "SRNSR", first=0) * 4)
    drawn = []
    for seed in (1, 1, 2, 3):
        document = await debate("cortex_debate", agents=5, max_rounds=1, evaluation="none", seed=seed)
        drawn.append(agents_heard(document, 1))
        assert all(0 < len(sources) < 4 and j not in sources for j, sources in drawn[-1].items())
    assert drawn[0] == drawn[1]
    assert len({json.dumps(graph) for graph in drawn}) == 3
    for i in range(1, 6):
        assert [p for n, p in enumerate(marks_by_prompt(stub, f"agent-{i}")) if n % 2] == [
            " ".join(sorted(f"a{j}r0" for j in graph[str(i)])) for graph in drawn
        ]
    assert {call["kind"] for call in stub.calls()} == {"chat"}  # the encoder is not used


PRUNED = {
    "average": ["23", "1", "12", "12", "1"],
    "median": ["23", "13", "12", "12", "12"],
    "top-3": ["234", "134", "124", "123", "123"],
    "bottom-3-removed": ["2", "1", "1", "1", "1"],
}
"""For each value of the setting ``pruning``: the agents that each of five agents hears.

The lists were worked out by hand from credibility times reliability, with the confidences 0.9, 0.5, 0.4, 0.3 and 0.1.
"""


async def test_the_pruning_setting_decides_which_answers_are_shown(start_stub: StartStub) -> None:
    """Without recalibration, the confidences stay as the agents stated them."""
    sure = [(0.9, 0.5, 0.4, 0.3, 0.1)] * 2
    stub = start_stub(script("SRNSR", "SRNSR", sure=sure, first=0) * len(PRUNED))
    settings: dict[str, Any] = {
        "agents": 5,
        "max_rounds": 1,
        "evaluation": "mdm_without_i_and_s",
        "recalibration": None,
    }
    for pruning, edges in PRUNED.items():
        document = await debate("cortex_debate", **settings, pruning=pruning)
        assert list(agents_heard(document, 1).values()) == edges
        [graph] = document["graphs"]
        assert graph["confidence"] == graph["recalibrated"]
    for i in range(1, 6):
        shown = [prompt for n, prompt in enumerate(marks_by_prompt(stub, f"agent-{i}")) if n % 2]
        assert shown == [" ".join(sorted(f"a{j}r0" for j in edges[i - 1])) for edges in PRUNED.values()]


async def test_the_recalibration_setting_replaces_the_default_thresholds(start_stub: StartStub) -> None:
    start_stub(script("SRN", "SRN", sure=CONFIDENCES, first=0))
    document = await debate("cortex_debate", agents=3, max_rounds=1, recalibration=[0.1, 0.5, 0.9])
    assert by_number(document["graphs"][0]["recalibrated"]) == {"1": 0.9, "2": 0.5, "3": 0.2}


# --- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("given_cosines")
async def test_model_sizes_scale_the_weights_only_if_all_sizes_are_known(start_stub: StartStub) -> None:
    known = {"parameters": 70e9, "tokens": 1.4e12}  # its credibility is 0.51636
    # The expected loss of `small` is 406.4 / 10^3.06 + 410.7 / 10^3.08 + 1.69 = 2.38556. Its credibility is 1 / loss.
    small = {"parameters": 1e9, "tokens": 1e11}
    cases: list[tuple[list[dict[str, Any]], tuple[float, float, float]]] = [
        ([known, known, known], (0.51636, 0.51636, 0.51636)),
        ([known, small, known], (0.51636, 0.41919, 0.51636)),
        ([known, {"parameters": 70e9}, known], (1, 1, 1)),
    ]
    start_stub(script("SRN", "SRN", sure=CONFIDENCES, first=0) * len(cases))
    for agents, (c1, c2, c3) in cases:
        document = await debate("cortex_debate", agents=agents, max_rounds=1)
        expected = {"1": {"2": 0.06 * c2, "3": 0.15 * c3}, "2": {"1": 0.08 * c1, "3": 0.27 * c3}}
        expected |= {"3": {"1": 0.4 * c1, "2": 0.54 * c2}}
        assert by_number(document["graphs"][0]["weights"]) == approximate(expected)
        assert warning_kinds(document, but=()) == (["unknown_model_size"] if c1 == 1 else [])


async def test_two_wordings_of_one_answer_are_not_a_viewpoint_collision(start_stub: StartStub) -> None:
    same = rule("equivalence", fields={"same": True, "reason": "short for it"})
    start_stub([same, *script(["NYC", "New York City"], ["NYC", "New York City"], first=0)])
    document = await debate("cortex_debate", {"claim": "Where is it?", "task": "short_answer"}, agents=2)
    assert document["metrics"]["viewpoint_collisions"] == 0
