"""Standard MAD and the controls on the scripted endpoint: their calls, prompts, verdicts, costs and settings."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from moot.graphs import load_graph
from moot.nodes._models.step_record import StepRecord
from moot.nodes._runtime.node import NodeContext

from tests.conftest import StartStub, free_port

CLAIM = "The kilogram is no longer defined by a metal cylinder kept in France."
NEWS, ENCYCLOPAEDIA = "bm25:demo-news", "bm25:demo-encyclopaedia"
READERS = ("madke", "standard_mad", "rag")
GRAPHS = (*READERS, "standard_prompting", "chain_of_thought", "self_consistency")
Rule = dict[str, Any]


async def run(graph: str, given: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    system = load_graph(graph)
    defaults: dict[str, Any] = {"model": "openai:stub-agent"}
    sources = {"sources": [NEWS], "fallback": []} if graph in READERS else {}
    context = system.settings.model_validate(defaults | sources | settings)
    document: dict[str, Any] = await system.graph.ainvoke(given or {"claim": CLAIM}, context=context)
    return document


def says(answer: Any, times: int | None = None, **fields: Any) -> Rule:
    """A rule for this answer. It applies at most ``times`` times, by default always."""
    rule = {"fields": {"answer": answer, "citations": [], **fields}}
    return rule | ({"times": times} if times else {})


def outcome(document: dict[str, Any]) -> tuple[Any, ...]:
    return document["status"], document["answer"], document["stop_reason"], document["rounds"]


def kinds(document: dict[str, Any]) -> list[str]:
    return [warning["kind"] for warning in document["warnings"]]


def tokens(document: dict[str, Any]) -> list[int]:
    """The tokens of each call."""
    return [call["prompt_tokens"] + call["completion_tokens"] for call in document["calls"]]


# --- standard MAD -----------------------------------------------------------------------------------------------------

MAD_MODELS = {role: f"openai:stub-{role}" for role in ("debater-1", "debater-2", "judge")}


def reasons_text(number: int, round: int) -> str:
    return f"Reasons of debater {number} in round {round}."


def debater_rules(number: int, answer: str) -> list[Rule]:
    """Rules for a debater's answer in three rounds. The answer stays the same; the reasons name debater and round."""
    rules = [says(answer, 1, rationale=reasons_text(number, round)) for round in (1, 2, 3)]
    return [rule | {"model": f"stub-debater-{number}$"} for rule in rules]


def reasons_in(prompt: str) -> set[tuple[int, int]]:
    """The debater and the round of each of the reasons that a prompt contains."""
    return {(n, r) for n in (1, 2) for r in (1, 2, 3) if reasons_text(n, r) in prompt}


async def test_the_judge_of_standard_mad_decides_after_three_rounds(start_stub: StartStub) -> None:
    """The debaters speak in turn. Their agreement from the first round on does not end the debate."""
    stub = start_stub(
        [*debater_rules(1, "SUPPORTS"), *debater_rules(2, "SUPPORTS"), says("REFUTES") | {"model": "stub-judge"}]
    )
    document = await run("standard_mad", models=MAD_MODELS)
    assert outcome(document) == ("done", "REFUTES", "max_rounds", 3)
    assert (len(document["calls"]), document["depth"]) == (7, 7)
    assert [r["model"].removeprefix("stub-") for r in stub.requests()] == ["debater-1", "debater-2"] * 3 + ["judge"]
    first, second = stub.prompts("stub-debater-1"), stub.prompts("stub-debater-2")
    assert [reasons_in(prompt) for prompt in first] == [set(), {(1, 1), (2, 1)}, {(1, 2), (2, 2)}]
    assert [reasons_in(prompt) for prompt in second] == [{(1, 1)}, {(1, 2), (2, 1)}, {(1, 3), (2, 2)}]
    [judged] = stub.prompts("stub-judge")
    assert reasons_in(judged) == {(n, r) for n in (1, 2) for r in (1, 2, 3)}
    assert len(document["evidence"]) == 5
    for prompt in (*first, *second, judged):
        assert all(piece["text"] in prompt and piece["id"] in prompt for piece in document["evidence"])
    assert [t["query"] for t in document["turns"] if t["step"] == "retrieve"] == [CLAIM]  # one search for all prompts
    assert [len(piece["retrievals"]) for piece in document["evidence"]] == [1] * 5


async def test_standard_mad_continues_if_one_debater_gives_no_valid_answer(start_stub: StartStub) -> None:
    mute = {"model": "stub-debater-1", "reply": "Well."}
    stub = start_stub([mute, *debater_rules(2, "SUPPORTS"), says("SUPPORTS") | {"model": "stub-judge"}])
    document = await run("standard_mad", models=MAD_MODELS)
    assert outcome(document) == ("done", "SUPPORTS", "max_rounds", 3)
    assert "(gave no valid answer)" in stub.prompts("stub-judge")[0]


async def test_standard_mad_fails_before_the_judge_if_no_debater_gives_a_valid_answer(start_stub: StartStub) -> None:
    stub = start_stub([{"reply": "Well."}])
    document = await run("standard_mad", models=MAD_MODELS, max_rounds=1)
    assert outcome(document) == ("failed", None, None, 1)
    assert not stub.prompts("stub-judge")


# --- one call ---------------------------------------------------------------------------------------------------------

SINGLE = ("standard_prompting", "chain_of_thought")


@pytest.mark.parametrize(
    ("graph", "order"),
    [
        ("standard_prompting", ["answer", "rationale", "citations"]),
        ("chain_of_thought", ["rationale", "citations", "answer"]),
    ],
)
async def test_only_chain_of_thought_reasons_before_it_answers(
    start_stub: StartStub, graph: str, order: list[str]
) -> None:
    """Both systems make one call, without evidence or examples."""
    stub = start_stub([says("REFUTES")])
    document = await run(graph)
    assert outcome(document) == ("done", "REFUTES", "single_pass", 1)
    assert (document["usage"]["calls"], document["depth"], document["evidence"]) == (1, 1, [])
    [request] = stub.requests()
    assert list(request["response_format"]["json_schema"]["schema"]["properties"]) == order
    assert "<example>" not in stub.prompts()[0]
    assert document["votes"] == [{"agent": "agent-1", "answer": "REFUTES", "group": 0}]


@pytest.mark.parametrize("graph", [*SINGLE, "self_consistency"])
async def test_demonstrations_precede_the_question(start_stub: StartStub, graph: str) -> None:
    stub = start_stub([{"match": "moons", "fields": {"answer": "2"}}, {"match": "lighter", "fields": {"answer": "A"}}])
    more = {"samples": 1} if graph == "self_consistency" else {}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"claim": CLAIM}, "Answer: SUPPORTS"),
        ({"claim": "Which metal is lighter?", "options": ["iron", "gold"]}, "Answer: B"),
        ({"claim": "How many moons has Mars?", "task": "number"}, "Answer: 43"),
    ]
    for given, example_answer in cases:
        document = await run(graph, given, demonstrations=1, **more)
        assert document["status"] == "done", document["error"]
        prompt = stub.prompts()[-1]
        before, _, after = prompt.partition("<example>")
        assert example_answer in after.partition("</example>")[0]
        assert after.count("<example>") == 0
        assert given["claim"] not in before
        assert given["claim"] in after


@pytest.mark.parametrize("graph", [*SINGLE, "self_consistency"])
@pytest.mark.parametrize(
    ("given", "count"),
    [({"claim": "How many?", "task": "number"}, 3), ({"claim": CLAIM, "labels": ["true", "false"]}, 1)],
)
async def test_more_demonstrations_than_exist_are_an_error_before_any_call(
    graph: str, given: dict[str, Any], count: int
) -> None:
    document = await run(graph, given, demonstrations=count, model="fake:1")
    assert outcome(document)[:3] == ("failed", None, None)
    assert (document["error"]["kind"], document["calls"]) == ("invalid_setting", [])
    assert "demonstrations" in document["error"]["detail"]


async def test_a_run_fails_after_two_unusable_replies(start_stub: StartStub) -> None:
    rules: dict[str, Rule] = {
        "unparsed": {"reply": "It depends."},
        "unknown": {"fields": {"answer": "PERHAPS"}},
        "refused": {"finish": "content_filter"},
        "cut": {"finish": "length"},
        "empty": {"reply": ""},
    }
    start_stub([{"match": f"It is {kind}", **rule} for kind, rule in rules.items()])
    for kind in rules:
        document = await run("chain_of_thought", {"claim": f"It is {kind}."})
        assert outcome(document)[:3] == ("failed", None, None)
        wrong = "unparsed" if kind == "unknown" else kind
        assert [t["outcome"] for t in document["turns"]] == [wrong]
        assert [c["outcome"] for c in document["calls"]] == [wrong] * 2  # the reply is requested a second time
        assert document["error"]["detail"]


async def test_if_every_call_gets_a_server_error_there_is_no_answer(start_stub: StartStub) -> None:
    start_stub([{"status": 500, "retry_after": "0"}])
    for graph in GRAPHS:
        document = await run(graph, attempts=1)
        assert outcome(document)[:3] == ("failed", None, None), graph
        assert document["error"]["kind"] == "server_error"


@pytest.mark.parametrize("graph", SINGLE)
async def test_a_citation_without_evidence_is_marked_as_fabricated(start_stub: StartStub, graph: str) -> None:
    start_stub([says("SUPPORTS", citations=[{"evidence_id": "ev-0000000000", "quote": "as everybody knows"}])])
    document = await run(graph)
    assert outcome(document) == ("done", "SUPPORTS", "single_pass", 1)
    [citation] = document["turns"][0]["citations"]
    assert (citation["fabricated"], citation["verified"]) == (True, False)
    assert kinds(document) == ["fabricated_citation", "fabricated_citations"]


# --- self-consistency -------------------------------------------------------------------------------------------------


def sample_answers(document: dict[str, Any]) -> list[str | None]:
    """The samples' answers in the order of their numbers."""
    turns = sorted((t for t in document["turns"] if t["step"] == "respond"), key=lambda t: t["number"])
    assert [t["number"] for t in turns] == list(range(1, len(turns) + 1))
    return [t["answer"] for t in turns]


async def test_the_majority_of_five_concurrent_samples_wins(start_stub: StartStub) -> None:
    stub = start_stub([says("SUPPORTS", 2), says("REFUTES", 3)], latency_ms=400)
    document = await run("self_consistency")
    assert outcome(document) == ("done", "REFUTES", "single_pass", 1)
    assert Counter(sample_answers(document)) == {"SUPPORTS": 2, "REFUTES": 3}
    assert (document["usage"]["calls"], document["depth"]) == (5, 1)
    assert max(call["in_flight"] for call in stub.calls()) == 5
    assert len(set(stub.prompts())) == 1
    schema = stub.requests()[0]["response_format"]["json_schema"]["schema"]
    assert list(schema["properties"])[-1] == "answer"  # the reasoning precedes the answer
    assert Counter(vote["answer"] for vote in document["votes"]) == {"SUPPORTS": 2, "REFUTES": 3}


async def test_a_tie_goes_to_the_answer_of_the_first_tied_sample(start_stub: StartStub) -> None:
    start_stub([says("NOT ENOUGH INFO", 1), says("REFUTES", 1), says("SUPPORTS", 2), says("REFUTES", 1)])
    document = await run("self_consistency")
    given = sample_answers(document)
    assert Counter(given) == {"NOT ENOUGH INFO": 1, "REFUTES": 2, "SUPPORTS": 2}
    assert document["answer"] == next(answer for answer in given if answer != "NOT ENOUGH INFO")


async def test_unparsable_samples_do_not_vote(start_stub: StartStub) -> None:
    again = {"match": "could not be used", "reply": "As I said."}
    start_stub([again, {"reply": "It depends.", "times": 2}, says("SUPPORTS", 1), says("REFUTES", 2)])
    document = await run("self_consistency")
    assert outcome(document) == ("done", "REFUTES", "single_pass", 1)
    assert Counter(sample_answers(document)) == {None: 2, "SUPPORTS": 1, "REFUTES": 2}
    assert len([vote for vote in document["votes"] if vote["group"] is None]) == 2
    assert len(document["calls"]) == 7  # two of the five samples are requested again


async def test_if_all_samples_are_unparsable_there_is_no_answer(start_stub: StartStub) -> None:
    start_stub([{"reply": "It depends."}])
    document = await run("self_consistency", samples=3)
    assert outcome(document)[:3] == ("failed", None, None)
    assert sample_answers(document) == [None] * 3


async def test_a_budget_sets_the_number_of_samples(start_stub: StartStub) -> None:
    stub = start_stub([says("SUPPORTS", rationale="It is so.")], latency_ms=50)
    [each] = tokens(await run("self_consistency", samples=1))
    for budget in (2_000, 5_000, 20_000):
        document = await run("self_consistency", budget=budget)
        assert outcome(document) == ("done", "SUPPORTS", "budget_exhausted", 1)
        spent = tokens(document)
        # A further sample did not fit: 512 tokens are reserved for its reply, and less than 3 * each for its prompt.
        assert sum(spent) <= budget < sum(spent) + 3 * each + 512
        assert len(spent) == len(sample_answers(document)) == len(document["votes"])
        assert document["usage"]["ceilings"] == {"budget": {"ceiling": budget, "spent": sum(spent)}}
    assert max(call["in_flight"] for call in stub.calls()) > 5


async def test_a_budget_too_small_for_one_sample_is_refused_before_any_call(start_stub: StartStub) -> None:
    stub = start_stub([says("SUPPORTS")])
    document = await run("self_consistency", budget=500)
    assert (document["status"], document["error"]["kind"], document["calls"]) == ("failed", "invalid_setting", [])
    assert "`budget` allows 500 tokens, but the smallest decision (agent-1" in document["error"]["detail"]
    assert stub.requests() == []


async def test_a_budget_includes_repeated_requests(start_stub: StartStub) -> None:
    start_stub([{"reply": "It depends. " * 20}])
    for budget in (1_600, 5_000):
        document = await run("self_consistency", budget=budget)
        assert outcome(document)[:3] == ("failed", None, None)  # no sample gave an answer
        assert sum(tokens(document)) <= budget
    assert len(document["calls"]) > len(sample_answers(document))  # with the larger budget, replies are requested again


@pytest.mark.parametrize("budget", [5_000, None])
async def test_a_budget_needs_token_counts_and_a_run_without_ceilings_does_not(
    start_stub: StartStub, budget: int | None
) -> None:
    text = json.dumps({"rationale": "So.", "citations": [], "answer": "SUPPORTS"})
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice]}
    start_stub([{"raw": json.dumps(body)}])
    document = await run("self_consistency", budget=budget)
    if budget is None:
        assert outcome(document) == ("done", "SUPPORTS", "single_pass", 1)
        assert document["usage"]["uncounted"] == 5
    else:
        assert outcome(document)[:3] == ("failed", None, None)
        assert (document["error"]["kind"], len(document["calls"])) == ("invalid_setting", 1)
        assert "tokens" in document["error"]["detail"]
        assert "budget" in document["error"]["detail"]


# --- RAG --------------------------------------------------------------------------------------------------------------


async def test_rag_searches_each_source_once_before_its_only_call(start_stub: StartStub) -> None:
    stub = start_stub([says("SUPPORTS")])
    document = await run("rag", sources=[NEWS, ENCYCLOPAEDIA], k=4)
    assert outcome(document) == ("done", "SUPPORTS", "single_pass", 1)
    assert (document["usage"]["calls"], document["depth"]) == (1, 1)
    found = [piece["retrievals"] for piece in document["evidence"]]
    assert Counter(r["retriever"] for [r] in found) == {NEWS: 4, ENCYCLOPAEDIA: 4}
    assert {(r["query"], r["round"], r["agent"]) for [r] in found} == {(CLAIM, 1, "agent-1")}
    [prompt] = stub.prompts()
    assert all(piece["id"] in prompt and piece["text"] in prompt for piece in document["evidence"])
    answer = next(t for t in document["turns"] if t["step"] == "respond")
    assert answer["evidence_ids"] == [piece["id"] for piece in document["evidence"]]


async def test_a_quote_from_the_evidence_of_rag_is_verified(start_stub: StartStub) -> None:
    start_stub([says("SUPPORTS")])
    [piece] = (await run("rag", k=1))["evidence"]
    quote = " ".join(piece["text"].split()[:6])
    start_stub([says("SUPPORTS", citations=[{"evidence_id": piece["id"], "quote": quote}])])
    document = await run("rag", k=1, verified_quotes=True)
    assert document["metrics"]["citations"]["verified"] == 1
    assert kinds(document) == ["single_origin"]


async def test_rag_continues_with_a_fallback_source(start_stub: StartStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIKIPEDIA_BASE_URL", f"http://127.0.0.1:{free_port()}")
    start_stub([says("SUPPORTS")])
    document = await run("rag", sources=["wikipedia"], fallback=[ENCYCLOPAEDIA], attempts=1)
    assert outcome(document) == ("done", "SUPPORTS", "single_pass", 1)
    assert (len(document["evidence"]), kinds(document)) == (3, ["retrieval_failed", "stand_in"])
    assert [t["retrieval"] for t in document["turns"] if t["step"] == "retrieve"] == ["ok"]
    assert [reading.get("failed", False) for reading in document["corpora"]] == [True, False]


@pytest.mark.parametrize("graph", ["rag", "standard_mad"])
async def test_if_the_only_search_fails_there_is_no_verdict(
    start_stub: StartStub, monkeypatch: pytest.MonkeyPatch, graph: str
) -> None:
    monkeypatch.setenv("WIKIPEDIA_BASE_URL", f"http://127.0.0.1:{free_port()}")
    start_stub([says("SUPPORTS")])
    document = await run(graph, sources=["wikipedia"], fallback=[], attempts=1)
    assert (document["status"], document["answer"], document["calls"]) == ("failed", None, [])
    assert (document["error"]["kind"], kinds(document)) == ("retrieval_failed", ["retrieval_failed"])


@pytest.mark.parametrize("graph", READERS)
async def test_if_no_evidence_is_found_the_question_is_still_answered(start_stub: StartStub, graph: str) -> None:
    stub = start_stub([says("NOT ENOUGH INFO", agree=True)])
    document = await run(graph, {"claim": "Zwxq vrklth qqpf."})
    assert (document["status"], document["answer"], document["evidence"]) == ("done", "NOT ENOUGH INFO", [])
    assert kinds(document) == ["empty_retrieval", "no_evidence"]
    assert any("(no evidence was found)" in prompt for prompt in stub.prompts())


# --- every task -------------------------------------------------------------------------------------------------------

TASKS: list[tuple[dict[str, Any], Any, str]] = [
    ({"claim": "The lake is deep."}, "refuted", "REFUTES"),
    ({"claim": "Which metal melts first?", "options": ["iron", "gold", "tin", "lead"]}, "tin", "C"),
    ({"claim": "How many legs have six cows?", "task": "number"}, 24, "24"),
    ({"claim": "Where is the Prado?", "task": "short_answer"}, "Madrid", "Madrid"),
    ({"claim": "What is half of $x$?", "task": "math"}, "\\frac{x}{2}", "\\frac{x}{2}"),
    ({"claim": "Does it heal", "task": "pubmedqa"}, "Maybe.", "maybe"),
    ({"claim": "The minister resigned.", "labels": {"true": "it is so", "mostly false": "hardly"}}, "true", "true"),
]


@pytest.mark.parametrize("graph", GRAPHS)
async def test_each_system_answers_every_kind_of_task(start_stub: StartStub, graph: str) -> None:
    rules = [says(answer, agree=True, selected=[]) | {"match": given["claim"]} for given, answer, _ in TASKS]
    stub = start_stub([rule | {"match": rule["match"].replace("$", ".").replace("?", ".")} for rule in rules])
    asked = 0
    for given, _, answer in TASKS:
        document = await run(graph, given)
        assert (document["status"], document["answer"], document["graph"]) == ("done", answer, graph), given
        prompts, asked = stub.prompts()[asked:], len(stub.prompts())
        subject = document["task"]["subject"]
        assert subject == ("claim" if given["claim"].endswith(".") else "question")
        assert all(f"<{subject}>\n{given['claim']}\n</{subject}>" in prompt for prompt in prompts)
        assert not any(call["role"] == "equivalence" for call in document["calls"])  # equal texts need no comparison
        if "options" in given:
            assert all("C - tin" in prompt for prompt in prompts if "your `answer`" in prompt)


async def test_a_model_compares_samples_with_different_wording(start_stub: StartStub) -> None:
    elsewhere = {"model": "stub-equivalence", "match": "Lisbon", "fields": {"same": False, "reason": "elsewhere"}}
    same = {"model": "stub-equivalence", "fields": {"same": True, "reason": "its name"}}
    start_stub([elsewhere, same, says("NYC", 1), says("New York City", 1), says("Lisbon", 1)])
    models = {"equivalence": "openai:stub-equivalence"}
    document = await run("self_consistency", {"claim": "Where?", "task": "nq_open"}, samples=3, models=models)
    groups = {vote["answer"]: vote["group"] for vote in document["votes"]}
    assert groups["NYC"] == groups["New York City"] != groups["Lisbon"]
    assert document["answer"] == next(answer for answer in sample_answers(document) if answer != "Lisbon")


# --- defaults and settings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (
            "madke",
            {"k": 5, "max_rounds": 3, "temperature": 0.5, "sources": ("wikipedia", "web"), "sequential_talk": False},
        ),
        ("standard_mad", {"k": 5, "max_rounds": 3}),
        ("standard_prompting", {"demonstrations": 0}),
        ("chain_of_thought", {"demonstrations": 0}),
        ("self_consistency", {"samples": 5, "temperature": 0.7, "budget": None}),
        ("rag", {"sources": ("chroma", "web")}),
    ],
)
def test_each_system_has_its_own_default_settings_and_roles(graph: str, expected: dict[str, Any]) -> None:
    settings = load_graph(graph).settings()
    assert {name: getattr(settings, name) for name in expected} == expected
    if graph in ("madke", "standard_mad"):
        assert [d.name for d in settings.debaters] == ["debater-1", "debater-2"]
    assert ("agent-1" in settings.roles()) == (graph not in ("madke", "standard_mad"))


@pytest.mark.parametrize(
    ("graph", "choice", "temperature"),
    [
        ("self_consistency", "openai:stub", 0.7),
        ("self_consistency", {"model": "openai:stub"}, 0.7),
        ("self_consistency", {"model": "openai:stub", "temperature": 0.2}, 0.2),
        ("chain_of_thought", {"model": "openai:stub"}, 0.0),
    ],
)
async def test_the_temperature_of_a_model_overrides_the_default_of_the_system(
    monkeypatch: pytest.MonkeyPatch, graph: str, choice: Any, temperature: float
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    settings = load_graph(graph).settings.model_validate({"models": {"agent-1": choice}})
    speaker = await NodeContext(settings, StepRecord()).speaker_of({"name": "agent-1"})
    chat: Any = speaker.model.chat
    assert chat.temperature == temperature
