"""The reducers that merge the writes of parallel nodes."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
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
    written_values,
)

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
def test_merged_turns_are_unique_and_in_the_order_of_phases_and_rounds(old: list[Turn], new: list[Turn]) -> None:
    merged = merge_turns(old, new)
    first = list(dict.fromkeys(map(key, [*old, *new])))
    assert list(map(key, merged)) == sorted(first, key=lambda k: ([*PHASES, OWN_PHASE].index(k[1]), k[0]))


@given(TURNS, TURNS)
def test_a_later_write_to_a_turn_replaces_earlier_fields(old: list[Turn], new: list[Turn]) -> None:
    """Scores are an exception: a later write replaces only the scores that it names."""
    for turn in merge_turns(old, new):
        written = [t for t in [*old, *new] if key(t) == key(turn)]
        for name in {n for t in written for n in t} - {*KEYS, "scores"}:
            assert turn.get(name) == [t.get(name) for t in written if name in t][-1]
        scores: dict[str, Any] = {}
        for t in written:
            scores |= t.get("scores", {})
        assert turn.get("scores", {}) == scores


@given(TURNS)
def test_a_write_does_not_modify_the_turns_of_a_checkpoint(turns: list[Turn]) -> None:
    merged = merge_turns([], turns)
    before = deepcopy(merged)
    merge_turns(merged, turns)
    assert merged == before


@given(TURNS)
def test_a_repeated_write_changes_nothing(turns: list[Turn]) -> None:
    """There is one exception: a turn without the key ``scores`` may get empty ``scores``."""
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
def test_each_reading_of_a_source_is_kept_once(old: list[Reading], new: list[Reading]) -> None:
    merged = merge_readings(merge_readings([], old), new)
    assert all(r in merged for r in [*old, *new])
    assert all(merged.count(r) == 1 for r in merged)
    assert merge_readings(merged, new) == merge_readings(merged, []) == merged


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_the_depth_is_the_length_of_the_longest_chain_of_calls(a: int, b: int, c: int) -> None:
    assert deepest(a, b) == deepest(b, a)
    assert deepest(deepest(a, b), c) == deepest(a, deepest(b, c)) == max(a, b, c)


def test_the_first_error_is_kept_until_a_new_debate_starts() -> None:
    """A new debate writes None, or an error if it fails at its start."""
    first: ErrorRecord = {"kind": "timeout", "where": "here", "detail": "late", "retryable": True}
    second: ErrorRecord = {**first, "kind": "quota"}
    assert first_error(None, first) == first_error(first, second) == first
    at_start: ErrorRecord = {**second, "where": "open"}
    assert first_error(first, at_start) == at_start
    assert first_error(first, None) is None


@pytest.mark.parametrize("kind", [*REPEATED_KINDS, "unparsed"])
def test_warnings_of_some_kinds_are_kept_only_once(kind: str) -> None:
    """These kinds are `REPEATED_KINDS`. Repetitions in the same update and in later updates are dropped.

    Warnings of other kinds are all kept.
    """
    warned, other = ({"kind": kind, "where": "retrieve", "detail": detail} for detail in ("First.", "Second."))
    first = merge_warnings([], cast(list[Warned], [warned, other, warned]))
    then = merge_warnings(first, cast(list[Warned], [other, warned, warned]))
    if kind in REPEATED_KINDS:
        assert first == then == [warned, other]
    else:
        assert then == [warned, other, warned, other, warned, warned]


async def test_a_new_debate_on_a_thread_clears_the_state_of_the_previous_debate() -> None:
    """The previous debate may still wait for a person, or may have failed."""
    graph = load_graph("rag").graph.builder.compile(checkpointer=InMemorySaver())
    context = {"model": "fake:1", "sources": ["bm25:demo-news"], "ask_person": ["evidence"]}

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
    other_debate = await run("1", {"claim": "Python is a snake."})
    on_new_thread = await run("2", asked)
    waiting = await run("1", asked)  # replaces the other debate, which still waits
    for values in (on_new_thread, waiting):
        for piece in values["evidence"]:
            piece["retrievals"] = [retrieval | {"retrieved": ""} for retrieval in piece["retrievals"]]
    assert waiting == on_new_thread != other_debate
    assert len(waiting["turns"]) == 1
    resumed = await run("1", Command(resume=True))
    assert [record["round"] for record in resumed["round_log"]] == [1]
    assert [turn["step"] for turn in resumed["turns"]] == ["retrieve", "review_evidence", "respond"]
    assert len(resumed["calls"]) == 1
    assert (await run("1", {"claim": ""}))["error"]["where"] == "open"
    assert await run("1", asked) | {"evidence": []} == waiting | {"evidence": []}
