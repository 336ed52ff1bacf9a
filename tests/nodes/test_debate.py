"""The builder of debates: its additions to every system, the routers that it accepts, the graphs that it refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send
from moot.nodes import (
    Debate,
    DebateGraph,
    DebateState,
    Needs,
    RoundsSettings,
    Settings,
    agent_node,
    agents_needs,
    all_others,
    ask_person,
    compare_texts_node,
    no_round_left,
    to_agents,
    vote_node,
)

from tests.conftest import CLAIM


def another_round(state: DebateState, settings: RoundsSettings) -> list[Send] | str:
    """A router to the next round, or to the vote if no round is left."""
    return "vote" if no_round_left(state, settings) else to_agents("answer", state, settings, all_others)


def small_debate(to: Sequence[str] = ("answer", "vote"), router: Callable[..., Any] = another_round) -> Debate:
    """A small debate in rounds. After the comparison of the answers, ``router`` leads to one of the nodes ``to``."""
    builder = Debate("ring", RoundsSettings, agents_needs)
    builder.add_node("answer", agent_node())
    builder.add_node("compare_answers", compare_texts_node())
    builder.add_node("vote", vote_node(lambda state, settings: "max_rounds"))
    builder.add_round(another_round, ["answer"])
    builder.add_edge("answer", "compare_answers")
    builder.add_conditional_edges("compare_answers", router, to)
    builder.add_verdict("vote")
    return builder


SETTINGS = RoundsSettings.model_validate({"model": "fake:1", "agents": 2, "max_rounds": 2})


@pytest.mark.parametrize("form", [list, tuple, lambda to: to[0], lambda to: "answer_again"])
async def test_a_person_is_asked_before_every_round_but_the_first(form: Callable[[Any], Any]) -> None:
    """The router may return a `Send`, a list or a tuple of `Send`s, or the name of a node."""

    def in_another_form(state: DebateState, settings: RoundsSettings) -> Any:
        to = another_round(state, settings)
        return to if isinstance(to, str) else form(to)

    builder = Debate("ring", RoundsSettings, agents_needs)
    builder.add_node("answer", agent_node())
    builder.add_node("answer_again", lambda state: {})
    builder.add_node("compare_answers", compare_texts_node())
    builder.add_node("vote", vote_node(lambda state, settings: "max_rounds"))
    builder.add_edge("answer", "compare_answers")
    builder.add_conditional_edges("compare_answers", in_another_form, ["answer", "answer_again", "vote"])
    builder.add_verdict("vote")
    builder.add_round(another_round, ["answer", "answer_again"])  # the order of the edges does not matter
    graph = builder.compile(name="ring", checkpointer=InMemorySaver())
    settings = SETTINGS.model_copy(update={"ask_person": ("remark",), "max_rounds": 3})
    config: Any = {"configurable": {"thread_id": "1"}}
    document = await graph.ainvoke({"claim": CLAIM}, config, context=settings)
    asked = []
    while waits := document.get("__interrupt__"):
        asked.append(waits[0].value["about"])
        assert len(asked) < 5
        document = await graph.ainvoke(Command(resume={"remark": "Think of the beak."}), config, context=settings)
    assert [about.partition("(")[2] for about in asked] == ["round 1)", "round 2)"]
    remarks = [turn["remark"] for turn in document["turns"] if turn["step"] == "review_remark"]
    assert remarks == ["Think of the beak."] * 2
    assert document["status"] == "done"


async def test_after_an_error_no_router_is_called_and_the_debate_ends() -> None:
    asked = []

    def record_and_route(state: DebateState, settings: RoundsSettings) -> list[Send] | str:
        asked.append(state["error"])
        return another_round(state, settings)

    builder = Debate("ring", RoundsSettings, agents_needs)
    builder.add_node("answer", agent_node())
    builder.add_node("compare_answers", compare_texts_node())
    builder.add_node("vote", vote_node(lambda state, settings: "max_rounds"))
    builder.add_round(record_and_route, ["answer"])
    builder.add_edge("answer", "compare_answers")
    builder.add_conditional_edges("compare_answers", record_and_route, ["answer", "vote"])
    builder.add_verdict("vote")
    document = await builder.compile(name="ring").ainvoke({"claim": " "}, context=SETTINGS)
    assert (document["status"], document["error"]["kind"], asked) == ("failed", "invalid_claim", [])


async def test_routers_may_take_settings_or_a_runtime_besides_the_state() -> None:
    def of_state(state: DebateState) -> str:
        return "second"

    def of_settings(state: DebateState, settings: Settings) -> str:
        seen.append(settings.seed)
        return "third"

    def of_runtime(state: DebateState, runtime: Any) -> str:
        seen.append(runtime.context.seed)
        return "close"

    seen: list[Any] = []
    graph = DebateGraph(Settings, DebateState)
    for node in ("first", "second", "third", "close"):
        graph.add_node(node, lambda state: {})
    graph.add_edge("__start__", "first")
    graph.add_conditional_edges("first", of_state, ["second", "close"])
    graph.add_conditional_edges("second", of_settings, ["third", "close"])
    graph.add_conditional_edges("third", of_runtime, ["close"])
    await graph.compile().ainvoke({"claim": CLAIM}, context=Settings(seed=7))
    assert seen == [7, 7]


async def test_routers_of_a_graph_may_be_async_functions_or_callable_objects() -> None:
    """A router may also take a config, or parameters that have defaults."""
    seen: list[Any] = []

    async def async_router(state: DebateState) -> str:
        return "second"

    def of_config(state: DebateState, config: RunnableConfig) -> str:
        seen.append(config["configurable"]["thread_id"])
        return "third"

    class Router:
        def __call__(self, state: DebateState, settings: Settings) -> str:
            seen.append(settings.seed)
            return "close"

    graph = DebateGraph(Settings, DebateState)
    for node in ("first", "second", "third", "fourth", "close"):
        graph.add_node(node, lambda state: {})
    graph.add_edge("__start__", "first")
    graph.add_conditional_edges("first", async_router, ["second"])
    graph.add_conditional_edges("second", of_config, ["third"])
    graph.add_conditional_edges("third", lambda state, to="fourth", **more: to, ["fourth"])
    graph.add_conditional_edges("fourth", Router(), ["close"])
    await graph.compile().ainvoke({"claim": CLAIM}, {"configurable": {"thread_id": "7"}}, context=Settings(seed=7))
    assert seen == ["7", 7]


async def test_a_routers_runtime_has_the_store_and_the_settings() -> None:
    def of_store(state: DebateState, runtime: Any) -> str:
        seen.append((runtime.store, runtime.context.seed))
        return "close"

    seen: list[Any] = []
    store = InMemoryStore()
    graph = DebateGraph(Settings, DebateState)
    graph.add_node("close", lambda state: {})
    graph.add_conditional_edges("__start__", of_store, ["close"])
    await graph.compile(store=store).ainvoke({"claim": CLAIM}, context=Settings(seed=7))
    assert seen == [(store, 7)]


async def test_an_error_is_raised_if_a_router_returns_a_node_outside_the_path_map() -> None:
    graph = small_debate(router=lambda state: "close_the_debate").compile(name="ring")
    with pytest.raises(ValueError, match="to close_the_debate, which is not in the edge's path_map"):
        await graph.ainvoke({"claim": CLAIM}, context=SETTINGS)


def test_a_debate_refuses_async_routers() -> None:
    async def async_router(state: DebateState) -> str:
        return "vote"

    with pytest.raises(ValueError, match="a router must be a plain function of the state"):
        small_debate(router=async_router)


@pytest.mark.parametrize("plain", [True, False])
async def test_an_edge_from_start_leads_to_the_first_node_of_a_checked_claim(plain: bool) -> None:
    builder = Debate("vote", Settings)
    builder.add_node("note", lambda state: {"metrics": {"claim": state["claim"]}})
    builder.add_verdict("note")
    if plain:
        builder.add_edge(START, "note")
    else:
        builder.add_conditional_edges(START, lambda state: "note", ["note"])
    graph = builder.compile(name="vote")
    document = await graph.ainvoke({"claim": f" {CLAIM} "}, context=Settings(model="fake:1"))
    assert (document["metrics"]["claim"], document["status"]) == (CLAIM, "done")
    failed = await graph.ainvoke({"claim": " "}, context=Settings(model="fake:1"))
    assert ("claim" in failed["metrics"], failed["status"]) == (False, "failed")


def test_only_a_verdict_ends_a_debate() -> None:
    """An edge to `END` would skip the result document."""
    builder = small_debate()
    with pytest.raises(ValueError, match=r"add_verdict\('vote'\) ends the debate, not an edge to END"):
        builder.add_edge("vote", END)
    with pytest.raises(ValueError, match="the router after 'vote' must return 'close' to end the debate, not END"):
        builder.add_conditional_edges("vote", lambda state: END, [END])


@pytest.mark.parametrize("to", [(), {"answer": "answer", "vote": "vote"}])
def test_a_conditional_edge_must_list_its_target_nodes(to: Any) -> None:
    with pytest.raises(ValueError, match="the router after 'compare_answers' may lead to, in a list"):
        small_debate(to=to)


class AskingSettings(Settings):
    """Settings that offer to ask a person for a remark and about the verdict."""

    ask_person: tuple[Literal["remark", "verdict"], ...] = ask_person()


def test_each_moment_that_the_settings_offer_needs_a_node_that_asks_a_person() -> None:
    """This graph asks about the verdict, but not for a remark."""
    builder = Debate("talk", AskingSettings, lambda settings: Needs())
    builder.add_node("vote", vote_node(lambda state, settings: "max_rounds"))
    builder.add_edge(START, "vote")
    builder.add_verdict("vote", on_question="vote")
    with pytest.raises(
        ValueError, match=r"AskingSettings offers ask_person=\['remark'\], but no node waits for a person"
    ):
        builder.compile(name="talk")
