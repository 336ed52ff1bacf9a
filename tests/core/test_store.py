"""The store of runs and replies, in a file and in a real Postgres; and the file, used by several processes."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from moot.core.errors import UserError
from moot.core.fingerprints import Kind, Status, key_of
from moot.core.store import VERSION, Document, FileStore, Reply, Store, open_store, store_path
from moot.core.tables import documents, spent
from moot.nodes._models.replies import DebateReplies
from moot.web import debates
from moot.web.table import shared_use

from tests.cluster.postgres import Server, binaries, running_postgres
from tests.conftest import free_port

SETTINGS = {"model": "openai:stub", "api_key": "sk-nobody-may-see-this-1234"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_postgres() as found:
        yield found


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store in a new folder. Its first operation creates the file."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    with closing(open_store()) as found:
        yield found


@pytest.fixture(params=["file", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """An empty store in a file, and one in Postgres."""
    if request.param == "file":
        yield request.getfixturevalue("file")
        return
    pytest.importorskip("procrastinate", reason="the extra `queue` is not installed")
    if binaries() is None:
        pytest.skip("no Postgres is installed (initdb is not found)")
    from moot.core.postgres.connection import Postgres
    from moot.core.postgres.store import PostgresStore
    from moot.service.heartbeat import Heartbeat

    url = request.getfixturevalue("server").url
    with closing(Postgres(url)) as postgres:
        postgres.do(lambda cursor: cursor.execute("DROP SCHEMA IF EXISTS moot CASCADE"))
        postgres.prepare()
    heartbeat = Heartbeat(url)
    heartbeat.begin()
    with closing(PostgresStore(Postgres(url), heartbeat.id)) as found:
        yield found
    heartbeat.end()


def key(n: int) -> str:
    """The key of the n-th chat call."""
    return key_of("chat", {"model": "stub", "messages": [n]})


def keep(store: Store, run: str, key: str, value: Any, kind: Kind = "chat", **more: Any) -> None:
    store.keep([(Reply(run, key, kind, more.pop("about", {}), None, **more), value)])


# --- keys -------------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
PARTS = st.dictionaries(st.sampled_from("abcdefgh"), JSON, min_size=1)


def with_reversed_names(value: Any) -> Any:
    """A copy of a JSON value with the names of its objects in reverse order."""
    if isinstance(value, dict):
        return {name: with_reversed_names(value[name]) for name in reversed(value)}
    return [with_reversed_names(item) for item in value] if isinstance(value, list) else value


@given(PARTS, st.data())
def test_a_changed_part_an_added_part_or_another_kind_changes_a_key_but_not_the_order_of_names(
    parts: dict[str, Any], data: st.DataObject
) -> None:
    before = key_of("chat", parts)
    name = data.draw(st.sampled_from(sorted(parts)))
    for changed in ({**parts, name: [parts[name]]}, {**parts, "z": parts[name]}, {**parts, name: {"a": parts[name]}}):
        assert key_of("chat", changed) != before
    assert key_of("search", parts) != before
    assert key_of("chat", with_reversed_names(parts)) == before


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), b"bytes"])
def test_a_key_cannot_be_made_of_a_value_that_is_not_json(value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        key_of("chat", {"messages": [value]})


# --- runs and replies -------------------------------------------------------------------------------------------------


def test_the_replies_of_a_failed_run_are_found_when_it_is_resumed(store: Store) -> None:
    """A later reply replaces an earlier one for its key. A run that is done is not resumed."""
    given = "tool_mad", {"claim": "é \ud800 \0"}, SETTINGS
    start = store.begin(*given)
    assert not start.resumed
    reply = {"content": "“Yes.” \0" * 2000, "tool_calls": [], "numbers": [1, 2]}
    store.keep([(Reply(start.id, key(n), "chat", {"role": "ju\0dge"}, None), {**reply, "n": n}) for n in range(50)])
    keep(store, start.id, key(1), "again", paid=(10, 0.5, 1), sent=(20, 0, 2))
    keep(store, start.id, key(2), None, failed=True)
    keep(store, start.id, "a" * 32, [0.5, -1.25, 3.0], "embedding")
    keep(store, start.id, "b" * 32, [], "search")
    store.end(start.id, "failed")

    again = store.begin(*given)
    assert (again.id, again.resumed) == (start.id, True)
    found = store.replies(start.id)
    assert len(found) == 52
    assert (found[key(0)].value, found[key(0)].about) == ({**reply, "n": 0}, {"role": "ju\0dge"})
    assert (found[key(1)].value, found[key(1)].paid, found[key(1)].sent) == ("again", (10, 0.5, 1), (20, 0, 2))
    assert (found[key(2)].value, found[key(2)].failed) == (None, True)
    assert (found["a" * 32].value, found["b" * 32].value) == ([0.5, -1.25, 3.0], [])
    assert store.spending_of([start.id, "c" * 32]) == {start.id: (30, 0.5, 3)}
    run = store.run(start.id)
    assert run is not None
    assert (run.replies, run.calls) == (52, 49)
    store.end(start.id, "done")
    assert not store.begin(*given).resumed


def test_a_run_with_another_graph_input_or_setting_is_not_resumed(store: Store) -> None:
    """If ``adopt`` is false, not even an equal run is resumed. Other ceilings do not matter."""
    start = store.begin("a", {"claim": "x"}, {"rounds": 1, "budget": 1})
    store.end(start.id, "interrupted")
    for graph, claim, rounds in (("b", "x", 1), ("a", "y", 1), ("a", "x", 2)):
        assert store.begin(graph, {"claim": claim}, {"rounds": rounds}).id != start.id
    assert store.begin("a", {"claim": "x"}, {"rounds": 1}, adopt=False).id != start.id
    assert store.begin("a", {"claim": "x"}, {"rounds": 1, "budget": 2}).id == start.id


def test_a_running_debate_cannot_be_begun_again_by_its_id(store: Store) -> None:
    """An equal request without the id begins a new one."""
    start = store.begin("a", {"claim": "x"}, {"rounds": 1})
    with pytest.raises(UserError, match="is running in process"):
        store.begin("a", {"claim": "x"}, {"rounds": 1}, id=start.id)
    assert store.begin("a", {"claim": "x"}, {"rounds": 1}).id != start.id


async def test_equal_requests_with_the_same_idempotency_key_share_a_run(store: Store) -> None:
    """If it failed, a later request resumes it. A request with this key and another input is refused."""
    both = await asyncio.gather(*(store.begun("a", {"claim": "x"}, {}, idempotency_key="k") for _ in range(2)))
    assert both[0].id == both[1].id
    assert sorted(start.owned for start in both) == [False, True]
    store.end(both[0].id, "failed")
    third = store.begin("a", {"claim": "x"}, {}, idempotency_key="k")
    assert (third.id, third.resumed, third.owned) == (both[0].id, True, True)
    with pytest.raises(UserError, match="idempotency key"):
        store.begin("a", {"claim": "y"}, {}, idempotency_key="k")
    assert [run.id for run in store.runs(idempotency_key="k")] == [third.id]


async def test_a_run_whose_beginning_is_cancelled_is_interrupted(store: Store) -> None:
    beginning = asyncio.create_task(store.begun("a", {"claim": "x"}, {}))
    await asyncio.sleep(0)  # until the task waits for the store
    beginning.cancel()
    await asyncio.gather(beginning, return_exceptions=True)
    await store.soon(store.runs)  # after all that the store still has to do
    assert {run.status for run in store.runs()} <= {"interrupted"}


def test_find_prefers_the_given_run_to_the_newest_and_skips_failures_if_told(store: Store) -> None:
    ids = [store.begin("a", {"claim": str(n)}, {}).id for n in range(3)]
    for at, (id, failed) in enumerate(zip(ids, (False, False, True), strict=True)):
        keep(store, id, key(1), id, failed=failed, created=at + 1)
    found = [store.find([key(1), key(2)], prefer)[key(1)].value for prefer in ("", *ids)]
    assert found == [ids[2], *ids]
    assert store.find([key(1)], ids[2], failed=False)[key(1)].value == ids[1]
    assert store.find([key(2)], "") == {}


def test_api_keys_are_not_stored(file: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", 'quo"ted-secret-value')
    start = file.begin("a", {"claim": 'It is quo"ted-secret-value.'}, SETTINGS)
    keep(file, start.id, key(1), {"content": 'The key is quo"ted-secret-value.'})
    assert file.replies(start.id)[key(1)].value == {"content": "The key is [SOME_API_KEY]."}
    file.close()
    stored = b"".join(path.read_bytes() for path in file.path.parent.glob("store.sqlite*"))
    assert b"secret-value" not in stored
    assert b"nobody-may-see" not in stored


def document_of(debate: str, status: str = "done", run: str | None = None) -> Document:
    """A debate's document with a content of its own."""
    return Document("20260101T000000", debate, status, "{}", f"{status} {run}".encode(), run=run)


def kept(store: Store) -> list[tuple[str, bytes]]:
    """The ids and contents of the stored documents."""
    query = sa.select(*documents.c["id", "content"]).order_by(documents.c.written)
    return [(row.id, row.content) for row in store.do(lambda connection: connection.execute(query).all())]


@pytest.mark.parametrize("status", ["done", "failed", "interrupted"])
def test_only_who_began_a_run_last_ends_it_and_stores_its_document(store: Store, status: Status) -> None:
    first = store.begin("a", {"claim": "x"}, {}, server_run="run")
    second = store.begin("a", {"claim": "x"}, {}, id=first.id, server_run="run")  # the server starts the run again
    assert not store.end(first.id, status, document_of(first.id, status), claim=first.claim)
    assert ([run.status for run in store.runs()], kept(store)) == (["running"], [])
    assert store.end(first.id, "done", document_of(first.id), claim=second.claim)
    assert store.end(first.id, status, document_of(first.id, status), claim=second.claim) == (status == "done")
    assert [run.status for run in store.runs()] == ["done"]
    assert kept(store) == [(f"20260101T000000-{first.id}", b"done None")]


def test_a_document_and_the_status_of_its_run_are_stored_together_or_not_at_all(store: Store) -> None:
    start = store.begin("a", {"claim": "x"}, {})
    missing: Any = None
    broken = dataclasses.replace(document_of(start.id), entry=missing)
    with pytest.raises(Exception, match="entry"):
        store.end(start.id, "done", broken)
    assert ([run.status for run in store.runs()], kept(store)) == (["running"], [])


def test_a_finished_document_is_replaced_by_its_own_run_only(store: Store) -> None:
    """Another run's document is that of a further branch. Unfinished documents are replaced, and replace no other."""
    ids = [store.put(document_of("d" * 32, status, "one")) for status in ("interrupted", "done", "failed", "done")]
    assert {*ids} == {f"20260101T000000-{'d' * 32}"}
    assert kept(store) == [(ids[0], b"done one")]
    branch = store.put(document_of("d" * 32, "done", "two"))
    assert [id for id, _ in kept(store)] == [ids[0], branch]


def test_runs_are_listed_by_graph_text_or_status_and_can_be_deleted(store: Store) -> None:
    ids = [store.begin(graph, {"claim": claim}, {}).id for graph, claim in (("a", "Äpfel_"), ("b", 'say "no" 100%'))]
    keep(store, ids[0], key(1), "x")
    store.end(ids[0], "done", document_of(ids[0]), "a note")
    assert [run.id for run in store.runs()] == ids[::-1]
    assert [run.id for run in store.runs(limit=1)] == ids[1:]
    for found, wanted in (({"graph": "a"}, ids[:1]), ({"text": 'SAY "'}, ids[1:]), ({"text": "l%_"}, [])):
        assert [run.id for run in store.runs(**found)] == wanted  # type: ignore[arg-type]
    assert [run.id for run in store.runs(status="running", limit=1)] == ids[1:]
    store.record_thread(ids[0], "a thread", "a run")
    assert [run.id for run in store.runs(thread="a thread")] == ids[:1]
    first = store.run(ids[0])
    assert first is not None
    assert (first.document, first.note, first.status) == (f"20260101T000000-{ids[0]}", "a note", "done")
    assert first.served == ("a thread", "a run")
    assert store.statuses(ids) == {ids[0]: "done", ids[1]: "running"}
    store.delete(ids[0], only_replies=True)
    assert [(run.id, run.replies) for run in store.runs(id=ids[0][:9])] == [(ids[0], 0)]
    store.delete(ids[0])
    assert store.run(ids[0]) is None


async def test_replies_of_a_removed_run_are_refused_and_others_are_kept(store: Store) -> None:
    start = store.begin("a", {"claim": "x"}, {})
    replies = [Reply(id, key(n), "chat", {}, None) for n, id in enumerate([start.id, "unknown", start.id])]
    kept = await asyncio.gather(*(store.soon(store.keep, [(one, 1)]) for one in replies), return_exceptions=True)
    assert [one is None for one in kept] == [True, False, True]
    assert "no longer has a row for this debate" in str(kept[1])
    assert set(store.replies(start.id)) == {key(0), key(2)}


async def test_a_reply_that_waits_for_the_store_is_kept_if_its_debate_is_cancelled(store: Store) -> None:
    start, free = store.begin("a", {"claim": "x"}, {}), threading.Event()
    before = asyncio.create_task(store.soon(free.wait))
    keeping = asyncio.create_task(DebateReplies("record", store, start.id).keep("chat", {key(1): "paid"}, {}))
    await asyncio.sleep(0)  # until both tasks wait for the store
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    free.set()
    await before
    found = await store.soon(store.replies, start.id)
    assert found[key(1)].value == "paid"


@pytest.mark.timeout(60)
def test_closing_does_not_wait_long_for_an_unreachable_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg", reason="the extra `queue` is not installed")
    from moot.core.postgres import store as module
    from moot.core.postgres.connection import Postgres

    monkeypatch.setattr(module, "CLOSING", 0.1)
    store = module.PostgresStore(Postgres(f"postgresql://nobody@127.0.0.1:{free_port()}/none"))

    async def end_many() -> None:
        ending = [asyncio.create_task(store.soon(store.end, "a", "done")) for _ in range(20)]
        await asyncio.sleep(0)  # until the tasks wait for the store
        await asyncio.to_thread(store.close)
        assert all(isinstance(one, BaseException) for one in await asyncio.gather(*ending, return_exceptions=True))

    asyncio.run(end_many())


def test_old_runs_are_pruned_unless_they_run_and_those_with_a_document_only_lose_their_replies(store: Store) -> None:
    ids = {name: store.begin("a", {"claim": name}, {}).id for name in ("document", "none", "runs")}
    for id in ids.values():
        keep(store, id, key(1), "x")
    store.end(ids["document"], "done", document_of(ids["document"]))
    store.end(ids["none"], "waiting")
    assert store.prune(1) == 0
    time.sleep(0.001)
    assert store.prune(0) == 2
    assert {run.id: run.replies for run in store.runs()} == {ids["document"]: 0, ids["runs"]: 1}
    assert store.prune(0) == 0


# --- the file ---------------------------------------------------------------------------------------------------------


def test_a_run_that_begins_prunes_what_is_older_than_a_month(file: FileStore) -> None:
    old, young = (file.begin("a", {"claim": str(n)}, {}).id for n in range(2))
    for id in (old, young):
        file.end(id, "done")
    with closing(sqlite3.connect(file.path, isolation_level=None)) as connection:
        connection.execute("UPDATE stored_runs SET updated = updated - 31 * 86400 WHERE id = ?", (old,))
    new = file.begin("a", {"claim": "new"}, {}).id
    assert [run.id for run in file.runs()] == [new, young]


def test_only_their_owner_can_read_the_stores_files(file: FileStore) -> None:
    before = os.umask(0o022)
    try:
        file.begin("a", {"claim": "x"}, {})
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.path.parent.glob("store.sqlite*")}
    assert {"store.sqlite", "store.sqlite-wal", "store.sqlite-shm"} <= set(modes)
    assert set(modes.values()) == {0o600}


def test_a_file_that_was_removed_is_created_again(file: FileStore) -> None:
    file.begin("a", {"claim": "x"}, {})
    for path in file.path.parent.glob("store.sqlite*"):
        path.unlink()
    keep(file, file.begin("a", {"claim": "x"}, {}).id, key(1), 1)
    assert file.path == store_path()
    assert file.path.exists()


@pytest.mark.parametrize("problem", ["no database", "later version", "other program", "cut off"])
def test_damaged_files_and_files_of_other_programs_or_later_versions_are_refused(file: FileStore, problem: str) -> None:
    if problem == "no database":
        file.path.write_text("claims\n" * 1000)
    else:
        if problem != "other program":
            file.runs()
            file.close()
        if problem == "cut off":
            file.path.write_bytes(file.path.read_bytes()[:10_000])
        else:
            with closing(sqlite3.connect(file.path)) as connection:
                connection.execute("CREATE TABLE things (id)")
                connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(UserError, match=r"later version|damaged") as raised:
        open_store().begin("a", {"claim": "x"}, {})
    assert raised.value.kind == "damaged_store"
    assert "--replies off" in raised.value.detail


def test_a_reply_that_cannot_be_decompressed_is_reported_as_damage(file: FileStore) -> None:
    start = file.begin("a", {"claim": "x"}, {})
    keep(file, start.id, key(1), "long " * 1000)
    with closing(sqlite3.connect(file.path, isolation_level=None)) as connection:
        connection.execute("UPDATE stored_replies SET value = CAST('z' || 'not compressed' AS BLOB)")
    with pytest.raises(UserError, match="damaged"):
        _ = file.replies(start.id)[key(1)].value


def test_the_error_for_an_unwritable_folder_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A file takes the place of the parent folder, because root may write even to a read-only folder.
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "file" / "home"))
    with closing(open_store()) as store, pytest.raises(UserError, match=r"MOOT_HOME.*--replies off"):
        store.begin("a", {"claim": "x"}, {})


def test_the_cost_of_a_debate_that_another_worker_began_again_counts_once(store: Store) -> None:
    """Its documents have different times of their beginnings."""
    for moment, status, tokens in (("20260101T000000", "failed", 30), ("20260101T000005", "done", 50)):
        cost: Any = {"person": "ann", "cost": (float(tokens), None), "run": "one"}
        store.put(Document(moment, "a" * 32, status, "{}", b"", **cost))
    found = store.do(lambda connection: connection.execute(sa.select(spent.c.person, spent.c.tokens)).all())
    assert [tuple(row) for row in found] == [("ann", 50)]


def test_a_service_lists_a_debate_whose_worker_is_killed_after_its_first_write(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {"run_id": "0" * 32, "thread_id": "a thread", "langgraph_auth_user": SimpleNamespace(identity="ann")}
    run: Any = {"metadata": {}, "configurable": about}
    use = shared_use(run)
    start = store.begin("a", {"claim": "x"}, {}, id=use.id, person=use.person, server_run=use.run, thread=use.thread)
    monkeypatch.setattr(debates, "open_store", lambda: store)
    assert [(one.debate, one.thread) for one in debates.listed()] == [(start.id, "a thread")]


@pytest.mark.parametrize("refused", ["store.sqlite", "."])
def test_a_store_that_cannot_be_written_can_be_read(
    file: FileStore, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = file.begin("a", {"claim": "x"}, {})
    file.close()
    of = (file.path.parent / refused).resolve()
    # Replaced, because root may write to everything.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).resolve() != of)
    with closing(FileStore(file.path)) as again:
        assert [run.id for run in again.runs()] == [start.id]
        with pytest.raises(UserError, match=r"MOOT_HOME.*--replies off"):
            again.begin("a", {"claim": "y"}, {})


# --- processes --------------------------------------------------------------------------------------------------------

BEGIN_RUN = """
import asyncio, sys
from moot.core.fingerprints import key_of
from moot.core.store import Reply, open_store

async def main():
    store = open_store()
    begun = await store.begun("a", {"claim": "x"}, {})
    print(begun.id, begun.resumed, flush=True)
    async def keep_replies(lane):
        for n in range(100_000):
            reply = Reply(begun.id, key_of("chat", {"messages": [lane, n]}), "chat", {}, None)
            await store.soon(store.keep, [(reply, {"content": "x" * 300})])
            print(lane, n, flush=True)
    if sys.argv[1] == "keep":
        await asyncio.gather(*map(keep_replies, range(8)))
    sys.stdin.read()

asyncio.run(main())
"""
"""A program that begins a run, prints its id and whether it was resumed, and waits for the end of the input.

With the argument "keep", it stores many replies before it waits. It prints the two numbers of each stored reply.
"""


def start_program(argument: str) -> subprocess.Popen[str]:
    """Start `BEGIN_RUN` with this argument in a new process."""
    command = [sys.executable, "-c", BEGIN_RUN, argument]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_every_stored_reply_survives_if_its_process_is_killed(file: FileStore) -> None:
    child = start_program("keep")
    assert child.stdout is not None
    id = child.stdout.readline().split()[0]
    first_lines = [child.stdout.readline() for _ in range(300)]
    assert [run.status for run in file.runs()] == ["running"]
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read()  # `communicate` would lose buffered output
    child.communicate()
    lines = "".join([*first_lines, rest]).split("\n")[:-1]  # the last line may be incomplete
    assert [run.status for run in file.runs(status="interrupted")] == ["interrupted"]
    start = file.begin("a", {"claim": "x"}, {})
    assert (start.id, start.resumed) == (id, True)
    stored = file.replies(id)
    for lane, n in (map(int, line.split()) for line in lines):
        assert key_of("chat", {"messages": [lane, n]}) in stored, (lane, n)


def test_only_one_of_several_processes_resumes_an_interrupted_run(file: FileStore) -> None:
    """The other processes begin new runs, also if none of them finds a file. When a process ends, its run becomes
    interrupted.
    """
    children = [start_program("begin") for _ in range(3)]
    printed = [child.stdout.readline().split() for child in children if child.stdout]
    assert [resumed for _, resumed in printed] == ["False"] * 3
    for child in children:
        child.communicate("")
    assert [run.status for run in file.runs()] == ["interrupted"] * 3
    children = [start_program("begin") for _ in range(4)]
    again = [child.stdout.readline().split() for child in children if child.stdout]
    assert {id for id, resumed in again if resumed == "True"} == {id for id, _ in printed}
    assert len({id for id, _ in again}) == 4
    assert {run.status for run in file.runs()} == {"running"}
    for child in children:
        child.communicate("")
