"""The reducers that join the writes of parallel nodes."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command
from moot.core.errors import ErrorRecord
from moot.graphs import load_graph
from moot.nodes._records.entries import PHASES, Reading, Turn, Warned
from moot.nodes._records.reducers import (
    REPEATED_KINDS,
    deepest,
    first_error,
    merge_readings,
    merge_turns,
    merge_warnings,
    overwrite,
    written_values,
)
from moot.nodes._runtime.state import StepUpdate

KEYS = ("round", "phase", "agent", "step")
OWN_PHASE = "rehearsal"
"""A phase of a user's own graph."""


def _turns() -> st.SearchStrategy[list[Turn]]:
    score = st.none() | st.floats(0, 1)
    names = st.sampled_from(["faithfulness", "answer_relevance"])
    one = st.fixed_dictionaries(
        {
            "round": st.integers(1, 3),
            "phase": st.sampled_from([OWN_PHASE, "primary", "switched"]),
            "agent": st.sampled_from(["a", "b"]),
            "step": st.sampled_from(["respond", "judge"]),
        },
        optional={
            "query": st.text(max_size=3),
            "answer": st.none() | st.sampled_from(["YES", "NO"]),
            "scores": st.dictionaries(names, score, max_size=2),
        },
    )
    return cast("st.SearchStrategy[list[Turn]]", st.lists(one, max_size=8))


TURNS = _turns()


def key(turn: Turn) -> tuple[Any, ...]:
    return (turn["round"], turn["phase"], turn["agent"], turn["step"])


@given(TURNS, TURNS)
def test_each_turn_is_kept_once_ordered_by_phase_and_round(old: list[Turn], new: list[Turn]) -> None:
    merged = merge_turns(old, new)
    first = list(dict.fromkeys(map(key, [*old, *new])))
    assert list(map(key, merged)) == sorted(first, key=lambda k: ([*PHASES, OWN_PHASE].index(k[1]), k[0]))


@given(TURNS, TURNS)
def test_the_last_value_of_a_field_holds_and_scores_are_joined(old: list[Turn], new: list[Turn]) -> None:
    for turn in merge_turns(old, new):
        written = [t for t in [*old, *new] if key(t) == key(turn)]
        for name in {n for t in written for n in t} - {*KEYS, "scores"}:
            assert turn.get(name) == [t.get(name) for t in written if name in t][-1]
        joined: dict[str, Any] = {}
        for t in written:
            joined |= t.get("scores", {})
        assert turn.get("scores", {}) == joined


@given(TURNS, TURNS, TURNS)
def test_merging_turns_is_associative(a: list[Turn], b: list[Turn], c: list[Turn]) -> None:
    assert merge_turns(merge_turns(a, b), c) == merge_turns(a, merge_turns(b, c))


@given(TURNS)
def test_an_empty_write_changes_nothing_and_no_write_modifies_old_values(turns: list[Turn]) -> None:
    merged = merge_turns([], turns)
    before = [dict(t) for t in merged]
    assert merge_turns(merged, []) == merged
    merge_turns(merged, turns)
    assert [dict(t) for t in merged] == before  # a checkpoint's values are not modified


ONE: Turn = {"round": 1, "phase": "primary", "agent": "a", "step": "respond"}
WRITES: list[Turn] = [
    {**ONE, "query": "q", "evidence_ids": ["ev-1"]},
    {**ONE, "answer": "YES", "rationale": "So."},
    {**ONE, "scores": {"faithfulness": 0.5, "statements": ["So."]}},
    {**ONE, "scores": {"answer_relevance": None}},
]


@given(st.permutations(WRITES), st.integers(0, 4))
def test_writes_of_different_nodes_are_joined_in_any_order(writes: list[Turn], cut: int) -> None:
    [turn] = merge_turns(writes[:cut], writes[cut:])
    assert turn == {
        **WRITES[0],
        **WRITES[1],
        "scores": {"faithfulness": 0.5, "statements": ["So."], "answer_relevance": None},
    }


@given(TURNS)
def test_a_repeated_write_counts_once(turns: list[Turn]) -> None:
    once = merge_turns([], turns)
    assert [{"scores": {}, **t} for t in merge_turns(once, turns)] == [{"scores": {}, **t} for t in once]


READINGS = cast(
    "st.SearchStrategy[list[Reading]]",
    st.lists(
        st.fixed_dictionaries(
            {
                "agent": st.sampled_from("ab"),
                "requested": st.just("web"),
                "retriever": st.sampled_from(["bm25:demo-news", "tavily"]),
                "passages": st.none() | st.integers(0, 1),
                "encoder": st.none(),
            }
        ),
        max_size=6,
    ),
)


@given(READINGS, READINGS)
def test_each_reading_is_kept_once(old: list[Reading], new: list[Reading]) -> None:
    merged = merge_readings(merge_readings([], old), new)
    assert all(r in merged for r in [*old, *new])
    assert all(merged.count(r) == 1 for r in merged)
    assert merge_readings(merged, new) == merge_readings(merged, []) == merged


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_the_longest_chain_of_calls_counts(a: int, b: int, c: int) -> None:
    assert deepest(a, b) == deepest(b, a)
    assert deepest(deepest(a, b), c) == deepest(a, deepest(b, c)) == max(a, b, c)


def test_the_first_error_holds_until_a_new_debate_fails_at_its_start() -> None:
    one: ErrorRecord = {"kind": "timeout", "where": "here", "detail": "late", "retryable": True}
    two: ErrorRecord = {**one, "kind": "quota"}
    assert first_error(None, one) == first_error(one, two) == one
    opening: ErrorRecord = {**two, "where": "open"}
    assert first_error(one, opening) == opening  # an error at the start belongs to a new debate


@pytest.mark.parametrize("kind", [*REPEATED_KINDS, "unparsed"])
def test_some_kinds_of_warnings_are_kept_once(kind: str) -> None:
    """Such a warning may be repeated in one update or in several. Warnings of other kinds are all kept."""
    warned, other = ({"kind": kind, "where": "retrieve", "detail": detail} for detail in ("First.", "Second."))
    first = merge_warnings([], cast(list[Warned], [warned, other, warned]))
    then = merge_warnings(first, cast(list[Warned], [other, warned, warned]))
    if kind in REPEATED_KINDS:
        assert first == then == [warned, other]
    else:
        assert then == [warned, other, warned, other, warned, warned]


async def test_overwrite_replaces_the_value_of_a_key_with_a_reducer() -> None:
    error: ErrorRecord = {"kind": "timeout", "where": "here", "detail": "late", "retryable": True}
    old_values: dict[str, Any] = {
        "turns": [ONE],
        "corpora": [{"agent": "a"}],
        "warnings": [{"kind": "late"}],
        "depth": 5,
    }
    new = {key: overwrite(type(value)()) for key, value in old_values.items()}
    graph = StateGraph(StepUpdate)
    graph.add_node("reset", lambda state: {**new, "error": None})
    graph.add_edge(START, "reset")
    written = await graph.compile().ainvoke({**old_values, "error": error})  # type: ignore[call-overload]
    assert {key: written[key] for key in old_values} == {"turns": [], "corpora": [], "warnings": [], "depth": 0}
    assert written["error"] is None
    assert written_values({**new, "error": None, "claim": "C"}) == {
        **{k: written[k] for k in old_values},
        "error": None,
    } | {"claim": "C"}
    assert json.loads(json.dumps(new)) == new


async def test_a_new_debate_on_a_thread_clears_the_state_of_the_debate_before_it() -> None:
    graph = load_graph("rag").graph.builder.compile(checkpointer=InMemorySaver())
    context = {"model": "fake:1", "sources": ["bm25"], "ask_person": ["evidence"]}

    async def run(thread: str, asked: Any) -> dict[str, Any]:
        config: Any = {"configurable": {"thread_id": thread}}
        async for update in graph.astream(asked, config, context=context, stream_mode="updates"):
            if opened := update.get("open"):
                assert json.loads(json.dumps(opened)) == opened
                assert written_values(opened)["turns"] == []
        values = (await graph.aget_state(config)).values
        accumulated = ("turns", "evidence", "corpora", "warnings", "calls", "depth", "error", "round_log", "debates")
        return {key: values[key] for key in accumulated}

    asked = {"claim": "Mandarins were grown in China.", "given": [{"text": "Mandarins are fruit."}]}
    alone = [await run("1", {"claim": "Python is a snake."}), await run("2", asked)]
    waiting = await run("1", asked)  # replaces a debate that still waits
    for read in (alone[1], waiting):
        for piece in read["evidence"]:
            piece["retrievals"] = [retrieval | {"retrieved": ""} for retrieval in piece["retrievals"]]
    assert waiting == alone[1] != alone[0]
    assert len(waiting["turns"]) == 1
    resumed = await run("1", Command(resume=True))
    assert [record["round"] for record in resumed["round_log"]] == [1]
    assert [turn["step"] for turn in resumed["turns"]] == ["retrieve", "review_evidence", "respond"]
    assert len(resumed["calls"]) == 1
    assert (await run("1", {"claim": ""}))["error"]["where"] == "open"
    assert await run("1", asked) | {"evidence": []} == waiting | {"evidence": []}
