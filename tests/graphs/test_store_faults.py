"""A debate fails before its first call if it cannot write the store. It goes on if the store fails later."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from moot.core.errors import WorldError
from moot.core.store import FileStore, Store, store_path
from moot.graphs import load_graph
from moot.nodes._models.replies import StoreUse, store_use

from tests.conftest import StartStub
from tests.graphs.test_replay import debate, store

__all__ = ["store"]


async def test_an_unwritable_home_is_an_error_before_the_first_call(
    start_stub: StartStub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stub = start_stub()
    (tmp_path / "file").touch()
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "file" / "home"))
    system = load_graph("standard_prompting")
    with store_use(StoreUse("record")):
        document = await system.graph.ainvoke({"claim": "Otters swim."}, context=system.settings(model="openai:stub"))
    assert (document["status"], document["error"]["kind"]) == ("failed", "invalid_environment")
    assert "Set MOOT_HOME" in document["error"]["detail"]
    assert len(document["id"]) == 32
    assert stub.calls() == []


def remove_store(monkeypatch: pytest.MonkeyPatch) -> None:
    for file in store_path().parent.glob("store.sqlite*"):
        file.unlink()


def delete_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(store_path(), isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("DELETE FROM stored_runs")


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any, **named: Any) -> None:
        raise WorldError("The disk is full.", kind="store")

    monkeypatch.setattr(FileStore, "keep", fail)
    monkeypatch.setattr(FileStore, "end", fail)


@pytest.mark.parametrize("harm", [remove_store, delete_runs, fill_disk])
async def test_a_debate_finishes_and_warns_if_its_store_fails(
    harm: Callable[[pytest.MonkeyPatch], None],
    start_stub: StartStub,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    stub = start_stub(latency_ms=20)
    running = asyncio.create_task(debate("cortex_debate", 0, StoreUse("record")))
    while not any(row.replies for row in store.runs()):
        await asyncio.sleep(0)
    harm(monkeypatch)
    document = await running
    assert document["status"] == "done", document["error"]
    assert len([warned for warned in document["warnings"] if warned["kind"] == "not_kept"]) == 1
    assert len(stub.calls()) > 5
    if harm is fill_disk:
        assert "The disk is full." in caplog.text
