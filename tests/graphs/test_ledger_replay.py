"""Debates that the ledger has kept: replayed, taken up, and shared."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from moot.core.ledger import CallLedger, open_ledger
from moot.graphs import load_graph
from moot.nodes.models.keeping import LedgerUse, ledger_use

from tests.conftest import StartStub, StubEndpoint, reading_demo

CLAIM = {"claim": "The platypus is a mammal that lays eggs."}
SYSTEMS = ("tool_mad", "proclaim", "cortex_debate")


@pytest.fixture
async def ledger(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[CallLedger]:
    """A ledger of its own beside the corpora that all tests share."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (home / "corpora").mkdir(exist_ok=True)
    (tmp_path / "home" / "corpora").symlink_to(home / "corpora")
    opened = open_ledger()
    yield opened
    await asyncio.to_thread(opened.close)


@pytest.fixture
def stub(start_stub: StartStub) -> StubEndpoint:
    """An endpoint whose replies take from nothing to 20 ms."""
    return start_stub(latency_ms=10, jitter=1)


async def debate(name: str, use: LedgerUse, seed: int = 0, **more: Any) -> dict[str, Any]:
    system = load_graph(name)
    given = {"model": "openai:stub", "embedder": "openai:stub-embedding", "seed": seed} | reading_demo(system.settings)
    with ledger_use(use):
        settings = system.settings.model_validate(given | more)
        document: dict[str, Any] = await system.graph.ainvoke(CLAIM, context=settings)
    return document


def alike(document: dict[str, Any]) -> dict[str, Any]:
    """A document without ids, times and what says that it comes from the ledger."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            hidden = {"id", "seconds", "started_at", "retrieved", "retrieved_at", "from_ledger"}
            return {
                name: without(of)
                for name, of in value.items()
                if name not in hidden or (name == "id" and "text" in value)
            }
        return [without(item) for item in value] if isinstance(value, list) else value

    plain: dict[str, Any] = without(json.loads(json.dumps(document, default=str)))
    return plain


async def test_debates_replay_without_a_miss(stub: StubEndpoint, ledger: CallLedger) -> None:
    wanted = [(SYSTEMS[n % 3], n) for n in range(20)]
    recorded = await asyncio.gather(*(debate(name, LedgerUse("record"), seed) for name, seed in wanted))
    assert {document["status"] for document in recorded} == {"done"}, [d["error"] for d in recorded]
    paid = len(stub.calls())
    for (name, seed), first in zip(wanted, recorded, strict=True):
        again = await debate(name, LedgerUse("replay", id=first["id"]), seed)
        assert again["error"] is None, name
        assert alike(again) == alike(first)
        assert all(call["from_ledger"] for call in again["calls"])
        assert again["usage"]["from_ledger"]["calls"] == again["usage"]["calls"] == len(first["calls"])
    assert len(stub.calls()) == paid
