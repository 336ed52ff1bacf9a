"""Samples are logged as Inspect condenses them, with less work."""

from __future__ import annotations

from typing import Any

import pytest
from inspect_ai._util.json import json_changes
from inspect_ai.event import Event, InfoEvent, ModelEvent, SpanBeginEvent, SpanEndEvent, StoreEvent
from inspect_ai.log import EvalSample
from inspect_ai.log._condense import SampleSerializationError, condense_sample
from inspect_ai.model import ChatMessageUser, GenerateConfig, ModelOutput
from moot.evals._runs.condensing import condensed, samples_condensed_shortly

LONG = "A long text, which Inspect replaces by a reference. " * 20


def call(said: str = "") -> ModelEvent:
    """A debate's call, or with a text one that Inspect made."""
    return ModelEvent(
        model="fake/1",
        input=[ChatMessageUser(content=said)] if said else [],
        tools=[],
        tool_choice="none",
        config=GenerateConfig(),
        output=ModelOutput.from_content("fake/1", said) if said else ModelOutput(model="fake/1"),
        metadata={"node": "judge"},
    )


def sample_of(*events: Event, **more: Any) -> EvalSample:
    return EvalSample(id=1, epoch=1, input="Is it so?", target="REFUTES", events=list(events), **more)


def test_a_sample_is_condensed_as_inspect_does_it() -> None:
    stored = StoreEvent.model_validate({"changes": [{"op": "add", "path": "/moot:document", "value": LONG}]})
    events: list[Event] = [SpanBeginEvent(id="a", name="solve"), call(), stored, call(LONG)]
    events += [call(), InfoEvent(data={"text": LONG}), SpanEndEvent(id="a"), call()]
    sample = sample_of(*events, store={"moot:document": LONG}, attachments={"old": LONG})
    short = condensed(sample)
    assert short == condense_sample(sample)
    assert [event.uuid for event in short.events] == [event.uuid for event in events]
    assert LONG in short.attachments.values()
    assert LONG not in short.events[2].model_dump_json()


@pytest.mark.parametrize("place", ["store", "event"])
def test_a_sample_too_deep_for_a_log_is_still_refused(place: str) -> None:
    deep: Any = "end"
    for _ in range(300):
        deep = [deep]
    span = SpanBeginEvent(id="a", name="solve", metadata={"deep": deep} if place == "event" else None)
    sample = sample_of(call(), span, store={"deep": deep} if place == "store" else {})
    with pytest.raises(SampleSerializationError):
        condensed(sample)


def test_states_are_compared_as_inspect_does_it() -> None:
    before = {"same": LONG, "other": "a", "kind": "1", "number": 1.0, "nan": float("nan"), "gone": LONG}
    after = {"same": LONG, "other": "b", "kind": 1, "number": 1.0, "nan": float("nan"), "new": [LONG]}
    plain = json_changes(before, after)
    with samples_condensed_shortly():
        assert json_changes(before, after) == plain
    assert plain is not None
    assert {change.path for change in plain} == {"/other", "/kind", "/gone", "/new"}
