"""Inspect's condensing of samples, without the parts of a debate's sample that it cannot condense.

Before a sample is logged, Inspect replaces long texts in it by references, copies all of it, and walks the copy for too
deep values and for references. Most of a debate's sample are events of its calls and the borders of steps, which have
neither messages nor long texts: they are left out of this. Nothing of the log differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

# Inspect has no options for any of this
from inspect_ai._eval.task import run as task_run
from inspect_ai._util import json as inspect_json
from inspect_ai.event import Event, ModelEvent, SpanBeginEvent, SpanEndEvent
from inspect_ai.log import EvalSample
from inspect_ai.log._condense import condense_sample

_compare = inspect_json._diff_values


def has_nothing_to_condense(event: Event) -> bool:
    """Whether an event is one of a debate's calls, or the begin or end of a step."""
    if isinstance(event, ModelEvent):
        return not event.input and not event.output.choices and event.call is None
    return isinstance(event, SpanBeginEvent | SpanEndEvent) and not event.metadata


def condensed(sample: EvalSample, log_images: bool = True) -> EvalSample:
    """The sample as Inspect's `condense_sample` returns it."""
    rest = iter([event for event in sample.events if not has_nothing_to_condense(event)])
    short = condense_sample(sample.model_copy(update={"events": [*rest]}), log_images)
    rest = iter(short.events)
    events = [event if has_nothing_to_condense(event) else next(rest) for event in sample.events]
    return short.model_copy(update={"events": events})


def compared(path: str, before: Any, after: Any, changes: list[Any]) -> None:
    """Inspect's comparison of two states of a sample, but equal texts are not written as JSON to be compared: a
    debate's document is one long text in the store, and every step and scorer compares it."""
    if not (type(before) is type(after) is str and before == after):
        _compare(path, before, after, changes)


@contextmanager
def samples_condensed_shortly() -> Iterator[None]:
    """Within this context, Inspect uses `condensed` and `compared`."""
    with patch.object(task_run, "condense_sample", condensed), patch.object(inspect_json, "_diff_values", compared):
        yield
