"""PROClaim on the scripted endpoint: a full trial, the paper's transcript, models, parallel calls, and novelty."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from moot.core.endpoint import close_clients
from moot.graphs.proclaim import ProclaimSettings
from moot.retrievers import open_retriever

from tests.conftest import StartStub, StubEndpoint
from tests.graphs.full_trial import check_trace, count_calls, find_turns, full_trial, ids, names_of, near, shared_trial
from tests.graphs.scripted_agents import final_votes
from tests.graphs.scripted_trial import (
    NAMES,
    SIDES,
    analysis_rule,
    closes,
    debate_entry,
    default_rules,
    id_of,
    judge_rules,
    kinds,
    outcome,
    reflects,
    searches,
    stop_of,
    trial,
    turns,
)
from tests.retrievers.conftest import Serve, serve  # noqa: F401

# --- a full trial -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The document of a full trial (`full_trial`)."""
    found = judge_rules("SUPPORTED", "SUPPORTED", "INCONCLUSIVE", scores=[(7, 6, 9), (8, 6, 8), (6, 6, 7)])
    with shared_trial(tmp_path_factory.mktemp("full"), [*found, analysis_rule(4), *full_trial()]) as (document, _):
        yield document


def test_a_full_trial_makes_the_turns_and_calls_of_the_procedure(full: dict[str, Any]) -> None:
    assert outcome(full) == ("done", "SUPPORTS", "SUPPORTED", "max_rounds", 2)
    assert full["error"] is None
    check_trace(full, ("primary", 1), ("primary", 2), ("switched", 1), ("switched", 2))

    # Per round: gap, query and refinement of each side, two arguments, two requests for experts, two rulings, two
    # testimonies, two reflections and the critic = 17. Negotiation: premises, queries, two challenges, twelve
    # weights = 16.
    assert count_calls(full, "phase", "round") == {
        ("negotiation", 0): 16,
        **{(phase, 1): 17 for phase in ("primary", "switched")},
        **{(phase, 2): 18 for phase in ("primary", "switched")},  # the court is asked whether to close the debate
        ("panel", 0): 4,
    }
    assert count_calls(full, "role") == {
        **dict.fromkeys(("miner", "negotiator", "analyser", "judge-1", "judge-2", "judge-3"), 1),
        "arbiter": 12,
        **dict.fromkeys(SIDES, 1 + 4 * 4),  # a challenge; a gap, an argument, a request, a reflection per round
        "retrieval": 2 * 4,
        "court": (2 + 2) * 4 + 2,
        "expert": 2 * 4,
        "critic": 4,
    }
    assert all(call["outcome"] == "ok" for call in full["calls"])
    assert full["depth"] == 3 + 2 * 9 + 2  # both debates run in parallel


def test_a_full_trials_searches_and_challenges_before_the_debates(full: dict[str, Any]) -> None:
    pools = {(t["agent"], t["step"], t.get("number")): t for t in full["turns"] if t["phase"] == "negotiation"}
    # The search for the claim finds A first, and the first premise's search finds A again.
    assert pools["retrieval", "retrieve_seed", None]["evidence_ids"] == ids("A B C D E")
    assert pools["retrieval", "retrieve_premise", 1]["evidence_ids"] == ids("A F G")  # at most three per premise
    assert pools["retrieval", "retrieve_premise", 2]["evidence_ids"] == ids("H")
    assert pools["plaintiff", "retrieve", None]["query"] == "for #I #A9"
    assert pools["defense", "retrieve", None]["evidence_ids"] == ids("J B6")
    # Each side's prompt shows the evidence that the other side's query found.
    assert pools["plaintiff", "challenge", None]["evidence_ids"] == ids("J B6")
    assert pools["defense", "challenge", None]["evidence_ids"] == ids("I A9")
    assert pools["plaintiff", "challenge", None]["challenges"] == [{"evidence_id": id_of("J"), "reason": "J is idle."}]
    assert pools["defense", "challenge", None]["challenges"] == [{"evidence_id": id_of("A9"), "reason": "A9 repeats."}]


def test_a_full_trials_evidence_and_its_weights(full: dict[str, Any]) -> None:
    standing = {
        NAMES[e["text"]]: tuple(e.get(key) for key in ("relevance", "credibility", "weight", "status", "pool"))
        for e in full["evidence"]
    }
    usual = (0.9, 0.8, 0.72, "admitted")
    assert standing == {
        "A": (1, 0.9, 0.9, "admitted", "seed"),
        "B": (0.5, 1, 0.5, "disputed", "seed"),
        "C": (0.1, 1, 0.1, "discarded", "seed"),
        "D": (0.8, 0.7, 0.56, "admitted", "seed"),
        "E": (*usual, "seed"),
        "F": (*usual, "premises"),
        "G": (*usual, "premises"),
        "H": (*usual, "premises"),
        "I": (*usual, "plaintiff"),
        "A9": (0.95, 0.9, 0.855, "admitted", "plaintiff"),
        "J": (0.2, 0.9, 0.18, "disputed", "defense"),
        "B6": (0.4, 0.2, 0.08, "discarded", "defense"),
        **dict.fromkeys(("K", "A8", "L", "M", "N", "A7", "O"), (None, None, None, "discovered", "discovery")),
        **dict.fromkeys(("K9", "L9"), (None, None, None, "discarded", "discovery")),
        **dict.fromkeys(("P", "M8", "Q"), (None, None, None, "discovered", "discovery")),
    }


def test_a_full_trials_searches_and_their_novelty(full: dict[str, Any]) -> None:
    # Novelty is measured against the record, first for the plaintiff's exhibits. A8 shares 8 of 10 words with A, so the
    # novelty of A8 is 0.2, which equals the threshold. The novelty of B and J is 0, because they were disputed in the
    # negotiation. K9 shares 9 words with K, which has just joined the record. An exhibit is redundant if its novelty is
    # below 0.15.
    searched = {
        (*at, phase): t for phase in ("primary", "switched") for at, t in turns(full, "discover", phase).items()
    }
    assert {
        at: (names_of(full, t["joined"]), t["scores"]["novelty"], t["scores"]["redundancy"], t["ended"])
        for at, t in searched.items()
    } == {
        ("plaintiff", 1, "primary"): ("K A8", near((1 + 0.2 + 0) / 3), near(1 / 3), None),
        ("defense", 1, "primary"): ("L", near((0.1 + 0 + 1) / 3), near(2 / 3), None),
        ("plaintiff", 2, "primary"): ("M N", near((1 + 1 + 0) / 3), near(1 / 3), None),
        ("defense", 2, "primary"): ("A7 O", near((0.1 + 0.3 + 1) / 3), near(1 / 3), None),
        ("plaintiff", 1, "switched"): ("K P", 1, 0, None),
        ("defense", 1, "switched"): ("", None, None, None),
        ("plaintiff", 2, "switched"): ("M8 Q", 1, 0, None),
        ("defense", 2, "switched"): ("", None, None, None),
    }
    first = searched["plaintiff", 1, "primary"]
    assert [first[key] for key in ("gap", "formulated", "query", "evidence_ids")] == [
        "Gap: first #K #A8 #B.",
        "first #K #A8 #B",
        "first #K #A8 #B exactly",
        ids("K A8 B"),
    ]
    [k] = [e for e in full["evidence"] if NAMES[e["text"]] == "K"]
    assert [(r["agent"], r.get("phase"), r["round"], r["query"], r["novelty"]) for r in k["retrievals"]] == [
        ("plaintiff", None, 1, "first #K #A8 #B exactly", 1),
        ("plaintiff", None, 2, "second #M #N #K exactly", 0),
        # K was new in the switched debate. There the defense's counsel speaks for the plaintiff.
        ("defense", "switched", 1, "switched #K #P exactly", 1),
    ]


def test_a_full_trials_citations(full: dict[str, Any]) -> None:
    # The first quote is in the cited exhibit, the second is not. The third citation names a disputed exhibit, which was
    # not shown to counsel.
    opening = turns(full, "argue")["plaintiff", 1]
    assert [(c["verified"], c["fabricated"]) for c in opening["citations"]] == [
        (True, False),
        (False, False),
        (False, True),
    ]
    assert opening["evidence_ids"] == ids("A A9 E F G H I D K A8 L")  # by weight, then in the order of discovery
    assert turns(full, "argue", "switched")["plaintiff", 1]["evidence_ids"] == ids("A A9 E F G H I D K P")
    assert kinds(full) == ["unverified_quote", "fabricated_citation", "single_origin"]
    assert full["metrics"]["citations"] == {"total": 3, "verified": 1, "unverified": 1, "fabricated": 1}


def test_the_scores_and_stop_reasons_of_a_full_trials_debates(full: dict[str, Any]) -> None:
    # The scores follow from `REFLECTIONS`. A round's novelty is the mean over the exhibits that its searches found: six
    # in the primary debate, two in the switched debate.
    assert debate_entry(full) == {
        "phase": "primary",
        "stop_reason": "max_rounds",
        "rounds": 2,
        "reflection": {"plaintiff": [0.65, 0.69], "defense": [0.5, 0.49]},
        "reflection_total": [1.15, 1.18],
        "novelty": [near(2.3 / 6), near(3.4 / 6)],
        "retrieval_ended": {},
    }
    assert debate_entry(full, "switched") == {
        "phase": "switched",
        "stop_reason": "max_rounds",
        "rounds": 2,
        "reflection": {"plaintiff": [0.2, 1], "defense": [0.55, 0.6]},
        "reflection_total": [0.75, 1.6],
        "novelty": [1, 1],
        "retrieval_ended": {},
    }
    assert [entry["phase"] for entry in full["debates"]] == ["primary", "switched"]
    [critique] = find_turns(full, step="critique", phase="primary", round=1)
    assert critique["recommendations"]["queries"] == ["suggested #Z"]  # recorded, but never searched for
    assert not any("#Z" in (turn["query"] or "") for turn in full["turns"])


def test_a_full_trials_panel_and_confidence(full: dict[str, Any]) -> None:
    # Two of three judges agree. The means 7, 6 and 8 give the quality 21/30. The base is 0.8 x 2/3 + 0.3 x 0.7. The
    # consistency 4 is below 5, so 0.05 is subtracted. The plaintiff's last reflection score in the primary debate is
    # 0.69. It adds (0.69 - 0.5) x 0.6 = 0.114.
    assert full["confidence_parts"] == {
        "consensus_strength": near(2 / 3),
        "quality": 0.7,
        "base": near(0.743333),
        "consistency": 4,
        "role_switch": -0.05,
        "winning_reflection": 0.69,
        "reflection": 0.114,
    }
    assert full["confidence"] == near(0.743333 - 0.05 + 0.114)
    assert full["votes"] == [
        {"agent": "judge-1", "answer": "SUPPORTS", "group": 0},
        {"agent": "judge-2", "answer": "SUPPORTS", "group": 0},
        {"agent": "judge-3", "answer": "NOT ENOUGH INFO", "group": 2},
    ]
    assert full["metrics"]["panel"] == {
        "verdicts": {"SUPPORTED": 2, "NOT SUPPORTED": 0, "INCONCLUSIVE": 1},
        "judges": 3,
        "without_verdict": [],
        "unanimous": False,
        "tied": False,
        "agreement": near(1 / 3),  # one of three pairs of judges
        "means": {"evidence_strength": 7, "argument_validity": 6, "scientific_reliability": 8},
        "spread": {"evidence_strength": 2, "argument_validity": 0, "scientific_reliability": 2},
        "dissent": [{"agent": "judge-3", "verdict": "INCONCLUSIVE", "reason": "Reason of judge 3."}],
    }


# --- the paper's transcript -------------------------------------------------------------------------------------------


async def test_the_papers_transcript_gives_the_papers_confidence(start_stub: StartStub) -> None:
    found = judge_rules("NOT SUPPORTED", "SUPPORTED", "NOT SUPPORTED", scores=[(7, 8, 8), (7, 6, 8), (8, 7, 9)])
    reflections = [
        *reflects("defense", 0.9, (0.6, 0.5, 0.6)),  # 0.24 + 0.15 + 0.18 = 0.57 in the last round
        *reflects("plaintiff", 0.9, phase="switched"),
        *reflects("defense", 0.1, 0.1, phase="switched"),
    ]
    start_stub([*found, analysis_rule(8.5), *reflections, *default_rules()])
    document = await trial("Vitamin C cures the common cold.")
    assert outcome(document)[:3] == ("done", "REFUTES", "NOT SUPPORTED")
    assert final_votes(document) == {"judge-1": "REFUTES", "judge-2": "SUPPORTS", "judge-3": "REFUTES"}
    # The quality is (22/3 + 7 + 25/3) / 30 = 0.755556, and the base is 0.8 x 2/3 + 0.3 x 0.755556 = 0.76. The
    # consistency 8.5 adds 0.1. The reflection adds (0.57 - 0.5) x 0.6 = 0.042.
    assert document["confidence"] == pytest.approx(0.902)
    assert document["confidence_parts"] == {
        "consensus_strength": near(2 / 3),
        "quality": near(0.755556),
        "base": 0.76,
        "consistency": 8.5,
        "role_switch": 0.1,
        "winning_reflection": 0.57,
        "reflection": 0.042,
    }
    panel = document["metrics"]["panel"]
    assert panel["dissent"] == [{"agent": "judge-2", "verdict": "SUPPORTED", "reason": "Reason of judge 2."}]
    assert (panel["verdicts"]["NOT SUPPORTED"], panel["unanimous"], panel["tied"]) == (2, False, False)
    assert panel["agreement"] == near(1 / 3)
    assert panel["spread"] == {"evidence_strength": 1, "argument_validity": 2, "scientific_reliability": 1}


# --- models and temperatures ------------------------------------------------------------------------------------------

TEMPERATURES = {
    **dict.fromkeys(("plaintiff", "defense", "expert"), 0.5),
    **dict.fromkeys(("court", "arbiter"), 0.2),
    **dict.fromkeys(("critic", "miner", "analyser", "negotiator", "retrieval", "judge-1", "judge-2", "judge-3"), 0.3),
}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, TEMPERATURES),
        (
            {
                "temperatures": {"critic": 0.9, "plaintiff": 0, "judges": 0.7, "court": None},
                "models": {
                    "expert": {"model": "openai:stub-professor", "temperature": 1.5},
                    "judge-2": {"model": "openai:stub-judge-2", "temperature": None},
                    "arbiter": "openai:stub-clerk",
                },
            },
            {role: t for role, t in TEMPERATURES.items() if role not in ("expert", "arbiter")}
            | {"critic": 0.9, "plaintiff": 0, "judge-1": 0.7, "judge-2": None, "judge-3": 0.7, "court": None}
            | {"professor": 1.5, "clerk": 0.2},
        ),
        (
            {
                "judges": [
                    "openai:stub-one",
                    {"model": {"model": "openai:stub-two", "temperature": 1}},
                    "openai:stub-three",
                ],
            },
            {role: t for role, t in TEMPERATURES.items() if "judge" not in role} | {"one": 0.3, "two": 1, "three": 0.3},
        ),
    ],
)
async def test_every_role_is_called_with_its_model_and_temperature(
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    expected: dict[str, float | None],
) -> None:
    reply = reply_function(needed=True, granted=True, citations=[])
    server = await serve(lambda number, body: web.json_response(reply(number, body)))
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    document = await trial(**settings)
    assert document["status"] == "done"
    asked = [body for body in server.bodies if "messages" in body]
    assert {(b["model"].removeprefix("stub-"), b.get("temperature")) for b in asked} == set(expected.items())


def reply_function(**fields: Any) -> Any:
    """A function that gives the replies of the scripted endpoint. The endpoint itself records no temperatures."""
    module = importlib.import_module("tests.stub_llm")
    stub = module.Stub(module.parse(["--labels", "A", "--reply-chars", "40", "--no-trace"]))

    def answer(number: int, body: dict[str, Any]) -> Any:
        made = stub.embedding_answer if "input" in body else stub.chat_answer
        return made(None, body, number, module.Rule(fields=fields))[0]

    return answer


async def test_a_warning_names_the_critic_and_judges_that_share_a_model_with_counsel(start_stub: StartStub) -> None:
    start_stub(default_rules())
    document = await trial(models={"judge-2": "openai:stub-defense", "critic": "openai:stub-plaintiff"})
    [warning] = [w for w in document["warnings"] if w["kind"] == "shared_model"]
    assert {name for name in ("critic", "judge-1", "judge-2", "judge-3") if name in warning["detail"]} == {
        "critic",
        "judge-2",
    }


# --- parallel calls ---------------------------------------------------------------------------------------------------


async def test_independent_calls_run_in_parallel(start_stub: StartStub) -> None:
    stub = start_stub([*closes(True), *closes(True, phase="switched"), *default_rules()], latency_ms=250)
    document = await trial(min_rounds=1)
    assert stop_of(document) == stop_of(document, "switched") == ("judicial_signal", 1)
    assert document["depth"] == 3 + 7 + 2  # 3 for the negotiation, 7 for a round without experts, 2 for the panel
    times = {call["id"]: (call["recv"], call["end"]) for call in stub.calls() if call["kind"] == "chat"}
    asked = [(r["model"], r["messages"][-1]["content"], *times[r["id"]]) for r in stub.requests()]
    together = [
        ("miner|negotiator", "", 2),
        ("plaintiff|defense", "`challenges`", 2),
        ("arbiter", "", 8),
        ("plaintiff|defense", "`gap`", 4),
        ("plaintiff|defense|critic|court", "`flaws`|`close`|of this round", 8),
        ("judge", "", 3),
    ]
    for role, match, count in together:
        spans = [span for model, prompt, *span in asked if re.search(role, model) and re.search(match, prompt)]
        assert len(spans) == count
        assert max(started for started, _ in spans) < min(done for _, done in spans)


# --- real corpora -----------------------------------------------------------------------------------------------------


async def test_novelty_is_measured_with_the_vectors_of_the_corpus(start_stub: StartStub) -> None:
    news = [*searches("plaintiff", "kilogram Planck constant"), *searches("defense", "lake Baikal depth")]
    stub = start_stub([*news, *default_rules()])
    await open_retriever("chroma:demo-encyclopaedia", encoder="openai:stub-embedding")  # build the corpus
    await close_clients()  # drop the cached vectors
    before = count_encoded_texts(stub)
    document = await trial(sources=["chroma:demo-encyclopaedia"], max_rounds=1)
    assert document["status"] == "done"
    searches_made = [turn for turn in document["turns"] if "retrieval" in turn]
    requests = [turn for turn in searches_made if turn["step"] == "discover"]
    # Only the queries and the sides' requests for evidence are encoded, not the passages.
    assert count_encoded_texts(stub) - before <= len(searches_made) + len(requests)
    assert {c["retriever"] for c in document["corpora"]} == {"chroma:demo-encyclopaedia"}
    embed = importlib.import_module("tests.stub_llm").embed
    vectors = {e["id"]: embed(f"{e['title']}. {e['text']}") for e in document["evidence"]}
    pool = [e["id"] for e in document["evidence"] if e["status"] == "admitted"]
    for side in SIDES:
        turn = turns(document, "discover")[side, 1]
        new, joined = [], []
        for found in turn["evidence_ids"]:
            new.append(1 - max(sum(a * b for a, b in zip(vectors[found], vectors[p], strict=True)) for p in pool))
            joined += [found] if new[-1] >= 0.2 else []
            pool += joined[-1:]
        assert turn["scores"]["novelty"] == pytest.approx(sum(new) / len(new), abs=1e-5)
        assert turn["joined"] == joined


def count_encoded_texts(stub: StubEndpoint) -> int:
    """The number of texts encoded so far."""
    return sum(call["inputs"] for call in stub.calls() if call["kind"] == "embedding")


def test_the_setting_temperature_applies_to_all_roles() -> None:
    settings = ProclaimSettings.model_validate({"temperature": 0})
    assert {settings.temperature_of(role) for role in settings.roles()} == {0}
