"""MADKE on the scripted endpoint: calls, the prompts of each round, when a debate stops, and who decides its result."""

from __future__ import annotations

from typing import Any, cast

import pytest
from moot.graphs.madke import MadkeSettings, graph
from moot.prompts._files import LOOKALIKES

from tests.conftest import StartStub, StubEndpoint

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
        cast(Any, question or {"claim": CLAIM}), context=MadkeSettings.model_validate(given)
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


def prompts_by_round(stub: StubEndpoint, number: int) -> list[tuple[str, str]]:
    """A debater's two prompts of each round: the first requests a selection, the second an answer."""
    sent = stub.prompts(f"stub-debater-{number}")
    assert ["that are `selected`" in prompt for prompt in sent] == [True, False] * (len(sent) // 2)
    return list(zip(sent[::2], sent[1::2], strict=True))


def items_in(prompt: str, document: dict[str, Any]) -> list[int]:
    """The numbers of the pool's items whose texts a prompt contains."""
    return [number for number, piece in enumerate(document["evidence"], 1) if piece["text"] in prompt]


# --- when a debate stops ----------------------------------------------------------------------------------------------


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
    stub = start_stub(
        [selection_rule(1, [9]), selection_rule(2, [5, 9, 5, 1, 2, 3]), *BOTH_SUPPORT, *judge_rules(True)]
    )
    document = await debate()
    assert outcome(document) == ("done", "SUPPORTS", "consensus", 1)
    given = turns(document)
    assert (given["debater-1", 1]["selected"], given["debater-1", 1]["dropped"]) == ([], [9])
    assert (given["debater-2", 1]["selected"], given["debater-2", 1]["dropped"]) == ([5, 1, 2], [9])
    assert [items_in(prompts_by_round(stub, n)[0][1], document) for n in (1, 2)] == [[], [1, 2, 5]]
    assert sorted(kinds(document)) == ["selection_cut", "unknown_selection", "unknown_selection"]
    unknown = [w for w in document["warnings"] if w["kind"] == "unknown_selection"]
    assert all("not shown: 9." in w["detail"] and w["where"].startswith("debater-") for w in unknown)


# --- settings ---------------------------------------------------------------------------------------------------------


# --- failures ---------------------------------------------------------------------------------------------------------


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
