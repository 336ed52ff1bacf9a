"""Idempotency keys in the store, which is a file or a Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest
from moot.core.postgres.connection import Postgres
from moot.core.postgres.store import PostgresStore
from moot.core.store import FileStore, Store, use_store
from moot.core.tables import keys
from moot.web.idempotency import RunRecorder, take
from sqlalchemy import update
from starlette.types import Message

from tests.cluster.postgres import binaries, running_postgres


@pytest.fixture(params=["file", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    in_postgres = request.param == "postgres"
    if in_postgres and binaries() is None:
        pytest.skip("no Postgres is installed (initdb is not found)")
    with running_postgres() if in_postgres else nullcontext() as server:
        if server:
            pytest.importorskip("procrastinate", reason="the extra `queue` is not installed")
            with closing(Postgres(server.url)) as postgres:
                postgres.prepare()
        opened = PostgresStore(Postgres(server.url), "a process") if server else FileStore(tmp_path / "store.sqlite")
        with closing(use_store(opened)) as found:
            yield found


async def answer(key: str, thread: str, run: str | None) -> None:
    """Answer the request that has a key: with its run, or with a refusal."""

    async def send(message: Message) -> None:
        pass

    recorder = RunRecorder(key, thread, send)
    place: Any = [(b"content-location", f"/threads/{thread}/runs/{run}".encode())] if run else []
    await recorder({"type": "http.response.start", "status": 200 if run else 422, "headers": place})
    await recorder.end()


def test_a_key_belongs_to_one_request_until_it_is_free(store: Store) -> None:
    """A key whose request was refused is free for any request.

    It is free for equal requests if its run is over without a result, or if no run was started within a minute.
    """
    assert take("key", "print", "one", None).is_ours
    waits = take("key", "print", "two", None)
    assert (waits.is_ours, waits.thread, waits.run) == (False, "one", None)
    asyncio.run(answer("key", "two", None))  # has no effect, because the request of thread one has the key
    assert not take("key", "print", "two", None).is_ours
    asyncio.run(answer("key", "one", "run"))
    assert take("key", "print", "two", None).run == "run"
    assert not take("key", "print", "two", "an earlier run").is_ours
    assert not take("key", "other", "two", "run").is_ours  # the fingerprint differs
    assert take("key", "print", "two", "run").is_ours  # the run is over, and this request resumes its debate
    asyncio.run(answer("key", "two", None))
    assert take("key", "other", "three", None).is_ours
    assert not take("key", "other", "four", None).is_ours
    store.do(lambda connection: connection.execute(update(keys).values(taken=keys.c.taken - 61)))
    assert not take("key", "print", "four", None).is_ours
    assert take("key", "other", "four", None).is_ours


def test_a_key_can_be_used_again_once_its_debate_is_deleted_or_pruned(store: Store) -> None:
    for key in ("deleted", "pruned"):
        started = store.begin("rag", {"claim": f"It is {key}."}, {}, idempotency_key=key)
        assert take(key, "print", "one", None).is_ours
        store.end(started.id, "interrupted")
        if key == "deleted":
            store.delete(started.id)
        else:
            store.prune(-1)
        assert take(key, "other", "two", None).is_ours
