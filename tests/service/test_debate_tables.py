"""The service's tables in Postgres. They store debates, documents, and idempotency keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.core.postgres.connection import VERSION, Postgres
from moot.core.postgres.store import PostgresStore
from moot.core.store import RunStart, use_store
from moot.service.heartbeat import Heartbeat
from moot.web import debates
from moot.web.kept import current_user

from tests.cluster.postgres import Server, binaries, running_postgres
from tests.web.documents import a_debate

pytest.importorskip("procrastinate", reason="the extra `queue` is not installed")
pytestmark = pytest.mark.skipif(binaries() is None, reason="no Postgres is installed (initdb is not found)")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_postgres() as found:
        yield found


@pytest.fixture
def postgres(server: Server) -> Iterator[Postgres]:
    with closing(Postgres(server.url)) as found:
        found.do(lambda cursor: cursor.execute("DROP SCHEMA IF EXISTS moot CASCADE"))
        found.prepare()
        yield found


def begin(
    store: PostgresStore, server_run: str, person: str | None = "ann", key: str | None = None, id: str = "a" * 32
) -> RunStart:
    """Begin or resume a debate in a run of the server."""
    given: Any = ("rag", {"claim": "It rains."}, {})
    return store.begin(*given, id=id, idempotency_key=key, person=person, server_run=server_run)


@pytest.fixture
def stores(postgres: Postgres, server: Server) -> Iterator[tuple[PostgresStore, PostgresStore]]:
    """The same store, opened by two processes."""
    heartbeats = [Heartbeat(server.url), Heartbeat(server.url)]
    for heartbeat in heartbeats:
        heartbeat.begin()
    one, other = (PostgresStore(Postgres(server.url), heartbeat.id) for heartbeat in heartbeats)
    with closing(one), closing(other):
        yield one, other
    for heartbeat in heartbeats:
        heartbeat.end()


@pytest.fixture
def lost(server: Server) -> Iterator[PostgresStore]:
    with closing(PostgresStore(Postgres(server.url), "a process that is silent")) as found:
        yield found


@pytest.mark.parametrize(("version", "words"), [(VERSION - 1, "an earlier version"), (VERSION + 1, "a later version")])
def test_tables_of_other_versions_are_refused(postgres: Postgres, version: int, words: str) -> None:
    postgres.do(lambda cursor: cursor.execute("UPDATE moot.about SET version = %s", (version,)))
    for use in (postgres.prepare, postgres.check):
        with pytest.raises(UserError, match=f"{words} of moot .* another database") as raised:
            use()
        assert raised.value.kind == "invalid_environment"
    assert postgres.do(lambda cursor: cursor.execute("SELECT version FROM moot.about").fetchone()[0]) == version


def test_a_debate_has_one_worker_until_this_worker_is_lost(
    stores: tuple[PostgresStore, PostgresStore], lost: PostgresStore
) -> None:
    """Another worker resumes the debate of a lost worker. The status ``done`` is final."""
    one, other = stores
    assert not begin(one, "run").resumed
    with pytest.raises(UserError, match="is running"):
        begin(other, "another")
    assert [run.status for run in record_and_list(one)] == ["running"]
    one.delete("a" * 32)
    begin(lost, "run")
    assert [run.status for run in record_and_list(one)] == ["interrupted"]
    assert begin(other, "run").resumed  # the worker is lost, and the server starts the run again
    lost.end("a" * 32, "interrupted")  # the lost worker was slow, not dead
    assert other.runs()[0].status == "running"
    assert not lost.end("a" * 32, "done")
    assert other.end("a" * 32, "done")
    assert not other.end("a" * 32, "interrupted")
    assert begin(other, "run").resumed
    assert other.runs()[0].status == "done"
    before = begin(one, "second", id="c" * 32)
    again = begin(one, "second", id="c" * 32)  # the worker lost its lease, and leases the run again
    assert not one.end("c" * 32, "interrupted", claim=before.claim)
    assert one.end("c" * 32, "done", claim=again.claim)
    assert one.runs(id="c")[0].status == "done"


def record_and_list(store: PostgresStore, person: str | None = None) -> list[Any]:
    """Record the run of the debate ``aaa...``. Return the person's debates; if ``person`` is None, all debates."""
    store.record_thread("a" * 32, "thread", "run")
    use_store(store)
    token = current_user.set(person)
    found = debates.listed()
    current_user.reset(token)
    return [store.run(one.debate) for one in found]


def test_a_user_cannot_resume_or_list_another_users_debate(stores: tuple[PostgresStore, PostgresStore]) -> None:
    one, _ = stores
    begin(one, "run")
    one.end("a" * 32, "interrupted")
    for person in ("bob", None):
        with pytest.raises(UserError, match="no such debate"):
            begin(one, "another", person)
    assert record_and_list(one, "bob") == []
    assert len(record_and_list(one, "ann")) == len(record_and_list(one)) == len(one.runs()) == 1
    assert [run.served for run in one.runs(thread="thread")] == [("thread", "run")]


def test_two_requests_with_one_idempotency_key_are_one_debate(stores: tuple[PostgresStore, PostgresStore]) -> None:
    one, other = stores
    assert begin(one, "run", key="ann key").owned
    again = begin(other, "another", key="ann key", id="b" * 32)
    assert (again.id, again.owned) == ("a" * 32, False)
    [found] = one.runs(idempotency_key="ann key")
    assert (found.id, found.person, found.status) == ("a" * 32, "ann", "running")


async def test_a_user_finds_only_their_own_documents(stores: tuple[PostgresStore, PostgresStore]) -> None:
    """If there is no current user, all documents are found."""
    document = await a_debate()
    store = use_store(stores[0])
    token = current_user.set("ann")
    id = store.put(debates.new_document(document, "run"))
    saved = debates.save({**document, "claim": "Another."})
    assert debates.save({**document, "claim": "Another."}) == saved
    assert debates.document_ids(document["id"]) == [id]
    assert debates.load(id) == document
    assert debates.entry(id)["claim"] == document["claim"]
    current_user.set("bob")
    assert not debates.listed()
    assert not debates.document_ids(document["id"])
    for access in (debates.load, debates.delete, debates.entry, debates.content_of):
        with pytest.raises(UserError, match="no such debate"):
            access(id)
    with pytest.raises(UserError, match="no such debate"):  # Bob put the id of Ann's debate into his own state
        store.put(debates.new_document({**document, "claim": "His."}, "another"))
    current_user.reset(token)
    assert len(debates.listed()) == 2
    debates.delete(id)
    assert [one.id for one in debates.listed()] == [saved]
