"""MADKE on the scripted endpoint: calls, the prompts of each round, when a debate stops, and who decides its result."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from moot.evals._stats.debate_measures import consistent
from moot.graphs.madke import MadkeSettings, graph
from moot.prompts._files import LOOKALIKES

from tests.conftest import StartStub, StubEndpoint, free_port

CLAIM = "The kilogram is no longer defined by a metal cylinder kept in France."
NEWS, ENCYCLOPAEDIA = "bm25:demo-news", "bm25:demo-encyclopaedia"
ROLES = ("debater-1", "debater-2", "debater-3", "judge", "summariser")
QUESTION = {"claim": "What is the kilogram defined by?", "task": "short_answer"}
CONSTANT, PLANCK, CYLINDER = "Planck's constant", "the constant named after Max Planck", "a metal cylinder"


async def debate(question: dict[str, str] | None = None, **settings: Any) -> dict[str, Any]:
    """Run a debate about `CLAIM`, or about another question. Every role has its own model."""
    roles = [role for role in ROLES if role != "debater-3" or settings.get("debaters") == 3]
    given = {
        "models": {role: f"openai:stub-{role}" for role in [*roles, "equivalence"]},
        "sources": [NEWS],
        "fallback": [],
        **settings,
    }
    document: dict[str, Any] = await graph.ainvoke(
        question or {"claim": CLAIM}, context=MadkeSettings.model_validate(given)
    )
    return document


# --- rules ------------------------------------------------------------------------------------------------------------

Rule = dict[str, Any]


def answer_rules(number: int, *answers: str) -> list[Rule]:
    """Rules for a debater's answers, one per round. The reasons name the debater and the round."""
    fields = [{"answer": a, "rationale": reasons_text(number, r), "citations": []} for r, a in enumerate(answers, 1)]
    return [answer_rule(number, fields=one) for one in fields]


def answer_rule(number: int, times: int = 1, **reply: Any) -> Rule:
    """A rule for the calls that request a debater's answer."""
    return {"model": f"stub-debater-{number}$", "match": "with your `answer`", "times": times, **reply}


def reasons_text(number: int, round: int) -> str:
    return f"Reasons of debater {number} in round {round}."


def selection_rule(number: int, selected: Any, times: int | None = None) -> Rule:
    """A rule for the numbers of the items that a debater selects."""
    rule = {"model": f"stub-debater-{number}$", "match": "that are `selected`", "fields": {"selected": selected}}
    return rule | ({"times": times} if times else {})


def judge_rules(*agree: bool) -> list[Rule]:
    """Rules for the judge's replies, one per round: whether the debaters agree."""
    return [{"model": "stub-judge", "fields": {"agree": a, "reason": "as I read them"}, "times": 1} for a in agree]


def summary_rule(answer: str) -> Rule:
    """A rule for the summariser's answer."""
    return {"model": "stub-summariser", "fields": {"answer": answer, "rationale": "They said so."}}


BOTH_SUPPORT = [*answer_rules(1, "SUPPORTS"), *answer_rules(2, "SUPPORTS"), summary_rule("SUPPORTS")]


# --- the results ------------------------------------------------------------------------------------------------------


def turns(document: dict[str, Any], step: str = "respond") -> dict[tuple[str, int], dict[str, Any]]:
    """The turns of a step, by agent and round."""
    return {(t["agent"], t["round"]): t for t in document["turns"] if t["step"] == step}


def outcome(document: dict[str, Any]) -> tuple[Any, ...]:
    """The result of a debate: status, answer, stop reason, rounds."""
    return document["status"], document["answer"], document["stop_reason"], document["rounds"]


def kinds(document: dict[str, Any]) -> list[str]:
    return [warning["kind"] for warning in document["warnings"]]


def calls_by_role(document: dict[str, Any]) -> Counter[str]:
    return Counter(call["role"] for call in document["calls"])


def prompts_by_round(stub: StubEndpoint, number: int) -> list[tuple[str, str]]:
    """A debater's two prompts of each round: the first requests a selection, the second an answer."""
    sent = stub.prompts(f"stub-debater-{number}")
    assert ["that are `selected`" in prompt for prompt in sent] == [True, False] * (len(sent) // 2)
    return list(zip(sent[::2], sent[1::2], strict=True))


def answers_in(prompt: str) -> set[tuple[int, int]]:
    """The answers that a prompt contains, by debater and round."""
    return {(n, r) for n in (1, 2, 3) for r in (1, 2, 3) if reasons_text(n, r) in prompt}


def items_in(prompt: str, document: dict[str, Any]) -> list[int]:
    """The numbers of the pool's items whose texts a prompt contains."""
    return [number for number, piece in enumerate(document["evidence"], 1) if piece["text"] in prompt]


# --- when a debate stops ----------------------------------------------------------------------------------------------


async def test_an_agreement_in_the_first_round_ends_the_debate(start_stub: StartStub) -> None:
    """Also checks the calls, turns, evidence and prompts of such a debate."""
    stub = start_stub([selection_rule(1, [2, 1]), selection_rule(2, [3]), *BOTH_SUPPORT])
    document = await debate()
    assert outcome(document) == ("done", "SUPPORTS", "consensus", 1)
    assert calls_by_role(document) == {"debater-1": 2, "debater-2": 2, "summariser": 1}
    assert document["depth"] == 3  # select, answer, sum up
    assert [record["reason"] for record in document["round_log"]] == ["agreed"]
    assert consistent(document)
    assert [(t["agent"], t["step"]) for t in document["turns"]] == [
        ("pool", "retrieve"),
        ("debater-1", "respond"),
        ("debater-2", "respond"),
        ("summariser", "summarise"),
    ]
    ids = [piece["id"] for piece in document["evidence"]]
    assert len(ids) == 5
    assert {(r["agent"], r["round"], r["query"]) for e in document["evidence"] for r in e["retrievals"]} == {
        ("pool", 1, CLAIM)
    }
    for number, selected in ((1, [2, 1]), (2, [3])):
        [(to_select, to_answer)] = prompts_by_round(stub, number)
        turn = turns(document)[f"debater-{number}", 1]
        assert (turn["selected"], turn["evidence_ids"]) == (selected, [ids[i - 1] for i in selected])
        assert items_in(to_select, document) == [1, 2, 3, 4, 5]
        assert items_in(to_answer, document) == sorted(selected)
        assert answers_in(to_select) == answers_in(to_answer) == set()
        for place, piece in enumerate(document["evidence"], 1):
            item = to_select.partition(f'<item number="{place}" ')[2]
            assert piece["text"] in item.partition("</item>")[0]
    [prompt] = stub.prompts("stub-summariser")
    assert answers_in(prompt) == {(1, 1), (2, 1)}
    assert items_in(prompt, document) == []
    assert document["warnings"] == []


@pytest.mark.parametrize(
    ("agreed", "stop", "rounds"),
    [([False, True], "consensus", 2), ([False, False, True], "consensus", 3), ([False] * 3, "max_rounds", 3)],
)
async def test_in_every_round_the_judge_compares_differently_worded_answers(
    start_stub: StartStub, agreed: list[bool], stop: str, rounds: int
) -> None:
    first, second = [CYLINDER, PLANCK, CYLINDER], [CONSTANT, CONSTANT, CONSTANT]
    answer, answers = first[rounds - 1], [*answer_rules(1, *first), *answer_rules(2, *second)]
    stub = start_stub([*answers, *judge_rules(*agreed), summary_rule(answer)])
    document = await debate(QUESTION)
    assert outcome(document) == ("done", answer, stop, rounds)
    assert calls_by_role(document) == {
        "debater-1": 2 * rounds,
        "debater-2": 2 * rounds,
        "judge": rounds,
        "summariser": 1,
    }
    assert document["depth"] == 3 * rounds + 1
    assert [(t["agree"], t["agreed"]) for t in document["turns"] if t["step"] == "agree"] == [(a, a) for a in agreed]
    reasons = ["agreed" if a else "no_agreement" for a in agreed]
    assert [record["reason"] for record in document["round_log"]] == reasons
    assert consistent(document) == agreed[-1]
    in_order = [answer for pair in zip(first, second, strict=True) for answer in pair]
    assert [t["answer"] for t in turns(document).values()] == in_order[: 2 * rounds]
    assert [vote["answer"] for vote in document["votes"]] == [first[rounds - 1], second[rounds - 1]]
    for number in (1, 2):
        for round, (to_select, to_answer) in enumerate(prompts_by_round(stub, number), 1):
            last = {(number, round - 1)} if round > 1 else set()
            assert answers_in(to_select) == last  # the debater's own previous answer, not the other debater's
            assert answers_in(to_answer) == ({(1, round - 1), (2, round - 1)} if round > 1 else set())
    for round, prompt in enumerate(stub.prompts("stub-judge"), 1):
        assert answers_in(prompt) == {(1, round), (2, round)}
    assert [answers_in(prompt) for prompt in stub.prompts("stub-summariser")] == [{(1, rounds), (2, rounds)}]
    assert len(turns(document, "retrieve")) == 1  # the pool is filled once


@pytest.mark.parametrize(
    ("question", "first", "second", "reason"),
    [
        ({"claim": CLAIM}, "SUPPORTS", "REFUTES", "disputed"),
        ({"claim": "How many are left?", "task": "number"}, "7", "7.0", "agreed"),
        ({"claim": "How many are left?", "task": "number"}, "7", "7.5", "disputed"),
        (QUESTION, CYLINDER, "A metal cylinder.", "agreed"),
    ],
)
async def test_the_judge_is_not_asked_about_labels_or_numbers_or_equal_texts(
    start_stub: StartStub, question: dict[str, str], first: str, second: str, reason: str
) -> None:
    stub = start_stub([*answer_rules(1, first), *answer_rules(2, second), summary_rule(first)])
    document = await debate(question, max_rounds=1)
    assert outcome(document) == ("done", first, "consensus" if reason == "agreed" else "max_rounds", 1)
    assert [record["reason"] for record in document["round_log"]] == [reason]
    assert consistent(document) == (reason == "agreed")
    assert (stub.prompts("stub-judge"), turns(document, "agree")) == ([], {})


async def test_a_debate_whose_last_answers_agree_is_consistent(start_stub: StartStub) -> None:
    """In the previous round, the judge found that the answers do not agree."""
    start_stub(
        [
            *answer_rules(1, CYLINDER, CONSTANT),
            *answer_rules(2, CONSTANT, CONSTANT),
            *judge_rules(False),
            summary_rule(CONSTANT),
        ]
    )
    document = await debate(QUESTION)
    assert outcome(document) == ("done", CONSTANT, "consensus", 2)
    assert consistent(document)


async def test_the_summarisers_answer_is_the_verdict(start_stub: StartStub) -> None:
    start_stub([*answer_rules(1, "SUPPORTS"), *answer_rules(2, "REFUTES"), summary_rule("REFUTES")])
    document = await debate(max_rounds=1)
    assert outcome(document) == ("done", "REFUTES", "max_rounds", 1)
    assert turns(document, "summarise")["summariser", 1]["rationale"] == "They said so."


@pytest.mark.parametrize(
    ("question", "first", "second", "new"),
    [
        ({"claim": CLAIM}, "SUPPORTS", "REFUTES", "NOT ENOUGH INFO"),
        ({"claim": "How many are left?", "task": "number"}, "7", "8", "7.5"),
        (QUESTION, CYLINDER, CONSTANT, "the speed of light"),
    ],
)
async def test_a_summarisers_answer_that_no_debater_gave_is_not_used(
    start_stub: StartStub, question: dict[str, str], first: str, second: str, new: str
) -> None:
    """The summariser is asked again. If no debater gave the second answer either, the debate fails."""
    both = [*answer_rules(1, first), *answer_rules(2, second), *judge_rules(False)]
    stub = start_stub([*both, summary_rule(new) | {"times": 1}, summary_rule(second)])
    document = await debate(question, max_rounds=1)
    assert outcome(document) == ("done", second, "max_rounds", 1)
    assert kinds(document) == ["unparsed"]
    again = stub.prompts("stub-summariser")[1]
    assert "nobody answered" in again
    assert f"[{first!r}, {second!r}]".translate(LOOKALIKES) in again

    start_stub([*both, summary_rule(new)])
    document = await debate(question, max_rounds=1)
    assert (document["status"], document["answer"], document["error"]["kind"]) == ("failed", None, "unparsed")
    assert "nobody answered" in document["error"]["detail"]


# --- selection --------------------------------------------------------------------------------------------------------


async def test_a_selected_number_outside_the_pool_is_dropped_and_recorded(start_stub: StartStub) -> None:
    """The selection is also cut to three items."""
    stub = start_stub([selection_rule(1, [9]), selection_rule(2, [5, 9, 5, 1, 2, 3]), *BOTH_SUPPORT])
    document = await debate()
    assert outcome(document) == ("done", "SUPPORTS", "consensus", 1)
    given = turns(document)
    assert (given["debater-1", 1]["selected"], given["debater-1", 1]["dropped"]) == ([], [9])
    assert (given["debater-2", 1]["selected"], given["debater-2", 1]["dropped"]) == ([5, 1, 2], [9])
    assert [items_in(prompts_by_round(stub, n)[0][1], document) for n in (1, 2)] == [[], [1, 2, 5]]
    assert sorted(kinds(document)) == ["selection_cut", "unknown_selection", "unknown_selection"]
    unknown = [w for w in document["warnings"] if w["kind"] == "unknown_selection"]
    assert all("not shown: 9." in w["detail"] and w["where"].startswith("debater-") for w in unknown)


async def test_selecting_no_item_is_valid(start_stub: StartStub) -> None:
    stub = start_stub([selection_rule(1, []), selection_rule(2, "[No Found]"), *BOTH_SUPPORT])
    document = await debate()
    assert outcome(document) == ("done", "SUPPORTS", "consensus", 1)
    for turn in turns(document).values():
        assert (turn["selected"], turn["dropped"], turn["evidence_ids"]) == ([], [], [])
    assert [items_in(prompts_by_round(stub, n)[0][1], document) for n in (1, 2)] == [[], []]
    assert [w["kind"] for w in document["warnings"]] == ["no_evidence"]
    assert calls_by_role(document)["debater-2"] == 2  # the selection is not requested again


async def test_debaters_select_in_free_text_without_structured_output(start_stub: StartStub) -> None:
    final = '{"answer": "SUPPORTS", "rationale": "So.", "citations": [], "agree": true, "reason": ""}'
    stub = start_stub(
        [
            {"model": "debater-1", "match": "that are `selected`", "reply": "Items [2] and [4] help."},
            {"model": "debater-2", "match": "that are `selected`", "reply": "[No Found]"},
            {"reply": final},
        ]
    )
    document = await debate(structured_output="text")
    assert outcome(document) == ("done", "SUPPORTS", "consensus", 1)
    assert [t["selected"] for t in turns(document).values()] == [[2, 4], []]
    assert [items_in(prompts_by_round(stub, n)[0][1], document) for n in (1, 2)] == [[2, 4], []]
    assert document["warnings"] == []


async def test_after_unusable_selections_a_debater_answers_without_evidence(start_stub: StartStub) -> None:
    unusable = {"model": "debater-1", "match": "that are `selected`", "reply": "Let me think about it."}
    stub = start_stub([unusable, selection_rule(2, [1]), *BOTH_SUPPORT])
    document = await debate()
    assert outcome(document) == ("done", "SUPPORTS", "consensus", 1)
    turn = turns(document)["debater-1", 1]
    assert (turn["selected"], turn["evidence_ids"], turn["answer"]) == (None, [], "SUPPORTS")
    assert items_in(stub.prompts("stub-debater-1")[-1], document) == []
    assert calls_by_role(document)["debater-1"] == 3  # the selection is requested twice
    assert kinds(document).count("nothing_selected") == 1
    assert document["depth"] == 4  # two requests for a selection, an answer, the summary


async def test_a_debater_may_select_different_items_in_each_round(start_stub: StartStub) -> None:
    selections = [selection_rule(n, chosen, 1) for n, chosen in ((1, [1]), (1, [4]), (2, [2]), (2, []))]
    answers = [*answer_rules(1, "SUPPORTS", "REFUTES"), *answer_rules(2, "REFUTES", "REFUTES")]
    stub = start_stub([*selections, *answers, summary_rule("REFUTES")])
    document = await debate()
    assert [t["selected"] for t in turns(document).values()] == [[1], [2], [4], []]
    assert [items_in(answer, document) for _, answer in prompts_by_round(stub, 1)] == [[1], [4]]
    assert [items_in(answer, document) for _, answer in prompts_by_round(stub, 2)] == [[2], []]
    # Selecting an item does not count as another retrieval.
    assert [len(e["retrievals"]) for e in document["evidence"]] == [1] * 5


# --- settings ---------------------------------------------------------------------------------------------------------


async def test_sequential_debaters_are_shown_earlier_answers_of_the_same_round(start_stub: StartStub) -> None:
    three = [rule for n, a in enumerate((CYLINDER, CONSTANT, PLANCK), 1) for rule in answer_rules(n, a, a)]
    stub = start_stub([*three, *judge_rules(False, True), summary_rule(PLANCK)])
    document = await debate(QUESTION, sequential_talk=True, debaters=3)
    assert outcome(document) == ("done", PLANCK, "consensus", 2)
    (_, first), (_, second), (_, third) = (prompts_by_round(stub, n)[0] for n in (1, 2, 3))
    assert answers_in(first) == answers_in(second) == answers_in(third) == set()  # the first round is parallel
    (_, first), (_, second), (_, third) = (prompts_by_round(stub, n)[1] for n in (1, 2, 3))
    assert answers_in(first) == {(1, 1), (2, 1), (3, 1)}
    assert answers_in(second) >= {(1, 2), (2, 1), (3, 1)}
    assert answers_in(third) >= {(1, 2), (2, 2), (3, 1)}
    # Round 1: select, answer, judge. Round 2: three debaters select and answer in turn; judge. Then: the summary.
    assert document["depth"] == (2 + 1) + (3 * 2 + 1) + 1
    assert answers_in(stub.prompts("stub-judge")[1]) == {(1, 2), (2, 2), (3, 2)}
    assert len(stub.prompts("stub-judge")) == 2  # once a round, not once a speaker


async def test_parallel_debaters_are_shown_only_answers_of_earlier_rounds(start_stub: StartStub) -> None:
    three = [rule for n in (1, 2, 3) for rule in answer_rules(n, "REFUTES" if n == 1 else "SUPPORTS", "SUPPORTS")]
    slow = [selection_rule(n, [1], 1) | {"delay_ms": 400} for n in (1, 2, 3)]
    stub = start_stub([*slow, *three, summary_rule("SUPPORTS")])
    document = await debate(debaters=3)
    assert outcome(document) == ("done", "SUPPORTS", "consensus", 2)
    for number in (1, 2, 3):
        assert answers_in(prompts_by_round(stub, number)[1][1]) == {(1, 1), (2, 1), (3, 1)}
        assert answers_in(prompts_by_round(stub, number)[1][0]) == {(number, 1)}
    assert document["depth"] == 5  # select and answer twice, then sum up
    assert max(call["in_flight"] for call in stub.calls()) == 3
    assert calls_by_role(document) == {"debater-1": 4, "debater-2": 4, "debater-3": 4, "summariser": 1}


async def test_without_selection_every_debater_is_shown_the_whole_pool(start_stub: StartStub) -> None:
    stub = start_stub(BOTH_SUPPORT)
    document = await debate(selection=False, sources=[NEWS, ENCYCLOPAEDIA])
    assert outcome(document) == ("done", "SUPPORTS", "consensus", 1)
    assert calls_by_role(document) == {"debater-1": 1, "debater-2": 1, "summariser": 1}
    everything = list(range(1, len(document["evidence"]) + 1))
    assert len(everything) == 10
    for number in (1, 2):
        [prompt] = stub.prompts(f"stub-debater-{number}")
        assert items_in(prompt, document) == everything
    assert turns(document)["debater-1", 1]["evidence_ids"] == [e["id"] for e in document["evidence"]]
    assert document["depth"] == 2


async def test_a_debate_without_sources_has_no_pool_and_no_selection(start_stub: StartStub) -> None:
    start_stub(BOTH_SUPPORT)
    document = await debate(sources=[])
    assert outcome(document) == ("done", "SUPPORTS", "consensus", 1)
    assert (document["evidence"], document["corpora"], turns(document, "retrieve")) == ([], [], {})
    assert calls_by_role(document) == {"debater-1": 1, "debater-2": 1, "summariser": 1}
    assert document["warnings"] == []


@pytest.mark.parametrize("titles", [{"web_titles": False}, {}])
async def test_web_titles_false_hides_the_titles_of_web_results(start_stub: StartStub, titles: dict[str, Any]) -> None:
    both = [rule for n in (1, 2) for rule in (*answer_rules(n, "SUPPORTS"), selection_rule(n, [1, 2]))]
    stub = start_stub([*both, summary_rule("SUPPORTS")])
    # Without a search key, `web` falls back to bm25 over the corpus.
    document = await debate(sources=["web", ENCYCLOPAEDIA], corpus="demo-news", **titles)
    web, other = document["evidence"][:2]
    assert [p["retrievals"][0]["retriever"] for p in (web, other)] == [NEWS, ENCYCLOPAEDIA]
    for prompt in prompts_by_round(stub, 1)[0]:
        assert f"{other['title']} ({other['source']}" in prompt
        assert (f"{web['title']} ({web['source']}" in prompt) == (not titles)
        assert web["text"] in prompt
    assert all(piece["title"] for piece in document["evidence"])  # the document has all titles in both cases


async def test_a_failed_source_is_replaced_by_the_first_fallback(
    start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIKIPEDIA_BASE_URL", f"http://127.0.0.1:{free_port()}")
    start_stub(BOTH_SUPPORT)
    document = await debate(
        sources=["wikipedia", NEWS],
        fallback=["chroma:demo-encyclopaedia", "bm25"],
        embedder="openai:stub-embedding",
        attempts=1,
    )
    assert outcome(document) == ("done", "SUPPORTS", "consensus", 1)
    assert [(c["agent"], c["requested"], c["retriever"]) for c in document["corpora"]] == [
        ("pool", "wikipedia", "wikipedia"),
        ("pool", NEWS, NEWS),
        ("pool", "chroma:demo-encyclopaedia", "chroma:demo-encyclopaedia"),
    ]
    assert kinds(document) == ["retrieval_failed", "stand_in"]
    assert "wikipedia" in document["warnings"][0]["detail"]
    found = Counter(e["retrievals"][0]["retriever"] for e in document["evidence"])
    assert found == {"chroma:demo-encyclopaedia": 5, NEWS: 5}


# --- failures ---------------------------------------------------------------------------------------------------------


async def test_debaters_do_not_agree_if_one_of_them_has_no_answer(start_stub: StartStub) -> None:
    mute = answer_rule(2, times=2, reply="I would rather not say.")  # both requests of the first round
    stub = start_stub([mute, *answer_rules(1, "SUPPORTS", "SUPPORTS"), *answer_rules(2, "SUPPORTS")])
    document = await debate()
    assert (document["stop_reason"], document["rounds"]) == ("consensus", 2)
    assert [(t["answer"], t["outcome"]) for t in turns(document).values()] == [
        ("SUPPORTS", "ok"),
        (None, "unparsed"),
        ("SUPPORTS", "ok"),
        ("SUPPORTS", "ok"),
    ]
    assert "I would rather not say." not in "".join(prompts_by_round(stub, 1)[1])
    assert "(gave no valid answer)" in prompts_by_round(stub, 1)[1][1]


async def test_the_answer_of_a_single_debater_is_enough_for_the_summary(start_stub: StartStub) -> None:
    mute = answer_rule(2, times=9, reply='{"answer": "SUPPORTS')
    stub = start_stub([mute, *answer_rules(1, "SUPPORTS"), summary_rule("SUPPORTS")])
    document = await debate(max_rounds=1)
    assert outcome(document) == ("done", "SUPPORTS", "max_rounds", 1)
    assert not stub.prompts("stub-judge")
    assert [vote["group"] for vote in document["votes"]] == [0, None]
    assert "(gave no valid answer)" in stub.prompts("stub-summariser")[0]


async def test_an_unusable_reply_of_the_judge_counts_as_no_agreement(start_stub: StartStub) -> None:
    both = [*answer_rules(1, PLANCK, PLANCK), *answer_rules(2, CONSTANT, CONSTANT)]
    unusable = {"model": "stub-judge", "reply": "Perhaps.", "times": 2}
    start_stub([*both, unusable, *judge_rules(True), summary_rule(PLANCK)])
    document = await debate(QUESTION)
    assert outcome(document) == ("done", PLANCK, "consensus", 2)
    assert [(t["agree"], t["agreed"], t["outcome"]) for t in document["turns"] if t["step"] == "agree"] == [
        (None, False, "unparsed"),
        (True, True, "ok"),
    ]


@pytest.mark.parametrize(
    ("role", "rule", "kind"),
    [
        ("judge", {"status": 500, "retry_after": "0"}, "server_error"),
        ("summariser", {"status": 500, "retry_after": "0"}, "server_error"),
        ("summariser", {"reply": "It was a good debate."}, "unparsed"),
        ("summariser", {"fields": {"answer": CYLINDER}}, "unparsed"),
        ("summariser", {"finish": "content_filter"}, "refused"),
    ],
)
async def test_a_debate_fails_if_the_judges_call_or_the_summary_fails(
    start_stub: StartStub, role: str, rule: Rule, kind: str
) -> None:
    both = [*answer_rules(1, CONSTANT), *answer_rules(2, PLANCK)]
    start_stub([*both, {"model": f"stub-{role}", **rule}, *judge_rules(True)])
    document = await debate(QUESTION, max_rounds=1, attempts=2)
    assert outcome(document) == ("failed", None, None, 1)
    assert document["error"]["kind"] == kind
    assert [t["answer"] for t in turns(document).values()] == [CONSTANT, PLANCK]  # the debaters' turns are kept


async def test_a_debate_without_any_answer_fails_before_the_summary(start_stub: StartStub) -> None:
    stub = start_stub([answer_rule(n, times=9, finish="content_filter") for n in (1, 2)])
    document = await debate(max_rounds=1)
    assert outcome(document) == ("failed", None, None, 1)
    assert [t["outcome"] for t in turns(document).values()] == ["refused", "refused"]
    assert not stub.prompts("stub-judge") + stub.prompts("stub-summariser")
    assert "nothing to sum up" in document["error"]["detail"]
