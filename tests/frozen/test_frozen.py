"""Every system sends the recorded requests, and returns the recorded documents, whose turns fit their schema."""

from __future__ import annotations

import json
from typing import Any

import pytest
from moot.nodes._runtime.state import VerdictOutput
from pydantic import TypeAdapter
from typing_extensions import get_type_hints

from tests.frozen import record
from tests.frozen.running import frozen_runs
from tests.frozen.runs import SYSTEMS, runs_in_tests_of

TURNS: TypeAdapter[Any] = TypeAdapter(get_type_hints(VerdictOutput, include_extras=True)["turns"])


@pytest.mark.parametrize("system", SYSTEMS)
async def test_a_systems_traffic_and_documents_are_those_recorded(system: str) -> None:
    now = json.loads(json.dumps(await frozen_runs(runs_in_tests_of(system))))
    recorded = record.read(system)
    assert record.digest(recorded) == record.expected_digests()[system], (
        "Record with `python -m tests.frozen --record`, which asks for a reason."
    )
    if differences := record.describe({name: run for name, run in recorded.items() if name in now}, now):
        pytest.fail(
            f"{system}: {differences}\n\nIf the change is intended, record it with its reason: "
            f'python -m tests.frozen --record "REASON" {system}',
            pytrace=False,
        )
    for run in now.values():
        turns = run["document"].get("turns", [])
        assert TURNS.validate_python(turns, strict=True) == turns


def test_every_change_of_a_recording_has_its_reason() -> None:
    assert record.expected_digests().keys() == set(SYSTEMS)
    assert all(line["reason"].strip() for line in record.allowed_differences())
