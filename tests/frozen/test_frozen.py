"""Every system sends the recorded requests, and returns the recorded documents."""

from __future__ import annotations

import json

import pytest

from tests.frozen import record
from tests.frozen.running import frozen_runs
from tests.frozen.runs import SYSTEMS


@pytest.mark.parametrize("system", SYSTEMS)
async def test_a_systems_traffic_and_documents_are_those_recorded(system: str) -> None:
    now = json.loads(json.dumps(await frozen_runs(system)))
    if differences := record.describe(record.read(system), now):
        pytest.fail(
            f"{system}: {differences}\n\nIf the change is intended, record it with its reason: "
            f'python -m tests.frozen --record "REASON" {system}',
            pytrace=False,
        )


def test_every_change_of_a_recording_has_its_reason() -> None:
    recorded = {system: record.digest(record.read(system)) for system in SYSTEMS}
    assert recorded == record.expected_digests(), (
        "Record with `python -m tests.frozen --record`, which asks for a reason."
    )
    assert all(line["reason"].strip() for line in record.allowed_differences())
