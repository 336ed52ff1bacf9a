"""The presets: each setting that depends on them has two defaults and can be set alone, in every system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from moot.core.errors import UserError
from moot.graphs import DESCRIPTIONS, load_graph
from moot.graphs.tool_mad import builder

from tests.conftest import MODELS, READERS, StartStub, StubEndpoint, reading_demo, says
from tests.graphs.scripted_agents import CLAIM, script

OWN, OTHERS = "What you answered last:", "What the others answered last:"
WHY = "Why there is another round:"


async def debate(name: str, asked: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    system = load_graph(name)
    models = MODELS if name.startswith("tool_mad") else {}
    given = {"model": "openai:stub", "models": models, **reading_demo(system.settings), **settings}
    given |= {"embedder": "openai:stub-embedding"}
    document: dict[str, Any] = await system.graph.ainvoke(
        {"claim": CLAIM, **(asked or {})}, context=system.settings.model_validate(given)
    )
    assert (document["status"], document["error"]) == ("done", None)
    return document


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_a_setting_has_the_default_of_the_preset_unless_it_is_named(name: str) -> None:
    kind = load_graph(name).settings
    paper, practical = kind.defaults("paper"), kind.defaults("practical")
    assert paper.keys() == practical.keys()
    for preset, defaults, others in (("paper", paper, practical), ("practical", practical, paper)):
        settings = kind(preset=preset)
        assert {field: getattr(settings, field) for field in defaults} == defaults
        assert kind.model_validate({"preset": preset, **dict.fromkeys(defaults)}) == settings  # null: the default
        assert kind.model_validate(settings.recorded()) == settings
        for field in defaults.keys() - kind.without:
            named = kind.model_validate({"preset": preset, field: others[field]})
            assert (getattr(named, field), named.preset) == (others[field], preset)
    assert kind() == kind(preset="paper")


def test_each_setting_that_depends_on_the_preset_is_among_the_departures() -> None:
    text = (Path(__file__).parents[2] / "docs" / "systems.md").read_text(encoding="utf-8")
    listed = text.partition("## What differs from the papers")[2].partition("\n## ")[0]
    for name in DESCRIPTIONS:
        kind = load_graph(name).settings
        ours = kind.defaults("practical")
        for field, papers in kind.defaults("paper").items():
            values = ", ".join(
                f"{value:g}" if isinstance(value, float) else str(value).lower() for value in (papers, ours[field])
            )
            assert f"`{field}`: {values}" in listed, (name, field)


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_each_role_that_speaks_may_have_a_model_of_its_own(name: str) -> None:
    system = load_graph(name)
    asks = {"second_opinion": True} if "second_opinion" in system.settings.model_fields else {}
    settings = system.settings(preset="practical", **asks)
    roles = system.graph.builder.needs(settings).roles
    assert settings.roles() is None or roles.keys() <= settings.roles()


def test_a_wrong_preset_is_refused_by_its_name() -> None:
    with pytest.raises(UserError, match="^preset: Input should be 'paper'"):
        load_graph("rag").settings(preset="papers")


def test_the_gate_hands_its_preset_and_what_is_named_to_the_debate() -> None:
    kind = load_graph("gated").settings
    assert kind(preset="practical").inner_settings() == load_graph("tool_mad").settings(
        preset="practical", retrieval="later"
    )
    inner = kind(preset="practical", read_pages=False, debate_settings={"own_answer": False}).inner_settings()
    assert (inner.preset, inner.read_pages, inner.own_answer) == ("practical", False, False)
    assert kind(debate_settings={"preset": "practical"}).inner_settings().own_answer
    assert not kind(preset="practical", debate_settings={"preset": "paper"}).inner_settings().read_pages


async def test_a_debate_that_is_resumed_without_settings_keeps_its_preset(start_stub: StartStub) -> None:
    start_stub([says("agent-1", "SUPPORTS")])
    system = load_graph("tool_mad")
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    start_stub([says("rag", "SUPPORTS"), says("search", "REFUTES"), says("judge", "REFUTES")])
    begun = {"preset": "practical", "read_pages": False, "model": "openai:stub", "models": MODELS}
    begun |= {"debaters": READERS, "max_rounds": 2}
    settings = system.settings.model_validate(begun | {"embedder": "openai:stub-embedding"})
    config: Any = {"configurable": {"thread_id": "1"}}
    await graph.ainvoke({"claim": CLAIM}, config, context=settings, interrupt_before=["compare_answers"])
    document = await graph.ainvoke(None, config)
    assert (document["status"], document["error"]) == ("done", None)
    assert document["settings"] == settings.recorded()
    assert not any(warned["kind"] == "settings_changed" for warned in document["warnings"])


# --- departures from the papers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("own_answer", [False, True])
@pytest.mark.parametrize("query_reason", [False, True])
async def test_debaters_of_tool_mad_read_their_own_answer_and_the_reason_of_a_round_if_set(
    start_stub: StartStub, own_answer: bool, query_reason: bool
) -> None:
    stub = start_stub([says("rag", "SUPPORTS"), says("search", "REFUTES"), says("judge", "REFUTES")])
    departures: dict[str, Any] = {"own_answer": own_answer, "query_reason": query_reason, "open_continues": True}
    await debate("tool_mad", max_rounds=2, scoring="consensus_only", **departures)
    answered = [prompt for prompt in stub.prompts("stub-rag") if "your `answer`" in prompt]
    asked = [prompt for prompt in stub.prompts("stub-rag") if "your `answer`" not in prompt]
    assert [(OTHERS in prompt, OWN in prompt) for prompt in answered] == [(False, False), (True, own_answer)]
    assert [WHY in prompt for prompt in asked] == [False, query_reason]
    # What is said about others' answers is said only if there are any.
    assert ["Answer the others" in prompt for prompt in answered] == [False, True]
    assert ("Keep your last answer" in answered[1]) == own_answer


@pytest.mark.parametrize("name", ["society_of_minds", "neighbor_debate", "cortex_debate", "reconcile"])
@pytest.mark.parametrize("conformity", ["neutral", "independent"])
async def test_agents_are_told_to_stand_alone_only_if_set(start_stub: StartStub, name: str, conformity: str) -> None:
    models = {f"agent-{i}": f"openai:stub-agent-{i}" for i in (1, 2)}
    stub = start_stub(script("SR", "SR", first=0))
    await debate(name, agents=2, models=models, conformity=conformity, max_rounds=1 if name == "cortex_debate" else 2)
    second = [prompt for prompt in stub.prompts("stub-agent") if "a1r0." in prompt or "a2r0." in prompt]
    assert len(second) == 2
    assert {"as additional information" in prompt for prompt in second} == {conformity == "neutral"}
    assert {"do not give way to a majority" in prompt for prompt in second} == {conformity == "independent"}
    assert ("and your own once more" in second[0]) == (conformity == "independent" and name != "cortex_debate")


def prompts_for(stub: StubEndpoint, words: str) -> list[str]:
    return [prompt for prompt in stub.prompts() if words in prompt]


@pytest.mark.parametrize(
    ("agreement", "right", "rounds", "asked"),
    [("correct_and_consistent", False, 2, 1), ("correct_and_consistent", True, 1, 1), ("consistent", False, 1, 0)],
)
async def test_the_judge_of_madke_may_find_a_shared_answer_wrong(
    start_stub: StartStub, agreement: str, right: bool, rounds: int, asked: int
) -> None:
    """It is not asked after the last round. A summariser who could give only one answer is not asked at all."""
    fields = {"answer": "SUPPORTS", "citations": [], "selected": [], "agree": right, "reason": "As I see it."}
    stub = start_stub([{"fields": fields}])
    document = await debate("madke", agreement=agreement, max_rounds=2, fallback=[])
    assert (document["answer"], document["stop_reason"], document["rounds"]) == ("SUPPORTS", "consensus", rounds)
    judged = prompts_for(stub, "do all of them `agree`?")
    assert len(judged) == asked
    assert all("and this answer is correct" in prompt for prompt in judged)
    assert not prompts_for(stub, "the debate's `answer`")
    assert not any(warned["kind"] == "judge_contradicts_votes" for warned in document["warnings"])


RULES = ("covers only part of the claim", "report what somebody said", "common knowledge may join", "or the whole text")


@pytest.mark.parametrize(
    ("asked", "told"),
    [({}, True), ({"task": "averitec"}, True), ({"claim": "Is it so?"}, False), ({"options": ["Tin", "Zinc"]}, False)],
)
async def test_rules_for_labels_are_told_of_claims_alone(
    start_stub: StartStub, asked: dict[str, Any], told: bool
) -> None:
    stub = start_stub([{"fields": {"answer": "A" if "options" in asked else "REFUTES", "citations": []}}])
    given = asked or {"task": "labels", "labels": ["REFUTES", "SUPPORTS"]}
    if given.get("task") == "averitec":
        stub = start_stub([{"fields": {"answer": "Refuted", "citations": []}}])
    await debate("rag", given, label_rules=True)
    [prompt] = prompts_for(stub, "your `answer`")
    assert [rule in prompt for rule in RULES] == [told] * len(RULES)
    assert ("misleads by leaving out context" in prompt) == (given.get("task") == "averitec")
    await debate("rag", given, label_rules=False)
    assert not any(rule in prompts_for(stub, "your `answer`")[1] for rule in RULES)


async def test_the_questions_of_answer_relevance_know_the_speaker(start_stub: StartStub) -> None:
    scores = {"questions": ["Is it so?"] * 3, "noncommittal": False, "statements": []}
    rules = [says("rag", "SUPPORTS"), says("search", "SUPPORTS"), {"model": "stub-scorer", "fields": scores}]
    for origin in ({}, {"speaker": "Ada Okafor", "claim_date": "2020-10"}):
        stub = start_stub([*rules, says("judge", "SUPPORTS")])
        await debate("tool_mad", origin, max_rounds=1)
        asked = prompts_for(stub, "Give `questions`")
        assert [("Said by: Ada Okafor" in prompt, "Put back the words" in prompt) for prompt in asked] == [
            (bool(origin), bool(origin))
        ] * 2
