"""`moot list`, `show`, `delete` and `replies` use a service's database if the address of the database is given."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from moot.core.errors import UserError
from moot.core.fingerprints import key_of
from moot.core.postgres.connection import VERSION, Postgres
from moot.core.postgres.store import PostgresStore
from moot.core.store import Reply
from moot.service.heartbeat import Heartbeat
from moot.web import debates
from moot.web.kept import current_user

from tests.cluster.postgres import Server, binaries, running_postgres
from tests.commands import moot
from tests.web.documents import a_debate

pytest.importorskip("procrastinate", reason="the extra `queue` is not installed")
pytestmark = pytest.mark.skipif(binaries() is None, reason="no Postgres is installed (initdb is not found)")

DONE, RUNNING, LOST, QUEUED = "a" * 32, "b" * 32, "c" * 32, "d" * 32
CHAT = key_of("chat", {"model": "m", "messages": "It rains."})


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_postgres() as found:
        yield found


@pytest.fixture
async def url(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a database with four debates.

    Ann's debate is done, and Bob's debate runs. The other debates have no user: one lost its process, one is queued.
    """
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MOOT_DATABASE", raising=False)
    with ExitStack() as stack, closing(Postgres(server.url)) as postgres:
        postgres.do(lambda cursor: cursor.execute("DROP SCHEMA IF EXISTS moot CASCADE"))
        postgres.prepare()
        presence = Heartbeat(server.url)
        presence.begin()
        own = stack.enter_context(closing(PostgresStore(Postgres(server.url), presence.id)))
        lost = stack.enter_context(closing(PostgresStore(Postgres(server.url), "a process that is silent")))
        for store, id, person in (
            (own, DONE, "ann"),
            (own, RUNNING, "bob"),
            (lost, LOST, None),
            (lost, QUEUED, None),
        ):
            store.begin("rag", {"claim": "It rains."}, {}, id=id, person=person, server_run=f"run {id}")
            if id != QUEUED:
                store.record_thread(id, f"thread {id}", f"run {id}")
        own.keep([(Reply(DONE, CHAT, "chat", {"role": "judge"}, None), "SUPPORTS")])
        current_user.set("ann")
        own.end(DONE, "done", debates.new_document({**await a_debate("chain_of_thought"), "id": DONE}))
        current_user.set(None)
        yield server.url
        presence.end()


def test_commands_can_use_the_debates_of_all_users(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queued debate is not listed, and a running debate is not deleted."""
    local = moot("list")
    assert (local.stdout, local.stderr) == ("No debates are stored yet.\n", "")
    monkeypatch.setenv("MOOT_DATABASE", url)
    done = moot("list", "--json")
    assert "From the database postgres at 127.0.0.1" in done.stderr
    assert "moot@" not in done.stderr
    found = {entry["id"][-32:]: (entry["status"], entry.get("user")) for entry in json.loads(done.stdout)}
    assert found == {DONE: ("done", "ann"), RUNNING: ("running", "bob"), LOST: ("interrupted", None)}
    table = moot("list").stdout
    assert "user" in table
    assert "ann" in table
    assert json.loads(moot("show", DONE[:6], "--json").stdout)["id"] == DONE
    assert "Verdict" in moot("show", DONE[:6]).stdout
    assert "still running" in moot("delete", RUNNING, "--yes").stderr
    deleted = moot("delete", DONE, LOST, "--yes")
    assert deleted.stdout == f"Deleted: {DONE}\nDeleted: {LOST}\n"
    assert "table of threads is not changed" in deleted.stderr
    assert [entry["id"][-32:] for entry in json.loads(moot("list", "--json").stdout)] == [RUNNING]
    assert DONE not in moot("replies", "--json").stdout


def test_moot_replies_uses_the_named_database(url: str, tmp_path: Path) -> None:
    """The replies of an exported debate can be imported into the local store. A deleted debate takes no more."""
    assert json.loads(moot("replies", "--json").stdout) == []
    listed = json.loads(moot("replies", "--json", "--database", url).stdout)
    found = {row["id"]: (row["status"], row["replies"], row["calls"]) for row in listed}
    assert found == {
        DONE: ("done", 1, 1),
        RUNNING: ("running", 0, 0),
        LOST: ("interrupted", 0, 0),
        QUEUED: ("interrupted", 0, 0),
    }
    assert moot("replies", "export", DONE, tmp_path / "one.moot", "--database", url).returncode == 0
    assert moot("replies", "delete", QUEUED, "--database", url).returncode == 0
    assert "No stored debate" in moot("replies", "delete", QUEUED, "--database", url).stderr
    with closing(PostgresStore(Postgres(url))) as store, pytest.raises(UserError, match="no longer has a row"):
        store.keep([(Reply(QUEUED, CHAT, "chat", {}, None), {})])
    assert moot("replies", "import", tmp_path / "one.moot").returncode == 0  # into the local store
    assert [row["id"] for row in json.loads(moot("replies", "--json").stdout)] == [DONE]


def test_commands_refuse_a_database_that_cannot_be_used(url: str) -> None:
    """The tables have another version or are missing, or the server is unreachable."""

    def change(query: str) -> None:
        with closing(Postgres(url)) as postgres:
            postgres.do(lambda cursor: cursor.execute(query))

    for version, words in ((VERSION - 1, "an earlier version"), (VERSION + 1, "a later version")):
        change(f"UPDATE moot.about SET version = {version}")
        done = moot("list", "--database", url)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
    change("DROP SCHEMA moot CASCADE")
    done = moot("list", "--database", url)
    assert (done.returncode, "has no tables of moot" in done.stderr) == (2, True)
    # The command does not wait until the server can be reached.
    unreachable = moot("show", "a", "--database", "postgresql://moot@127.0.0.1:9/moot")
    assert (unreachable.returncode, "Check that it is running" in unreachable.stderr) == (3, True)
