"""The queue in Postgres: its rows, and its store."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from moot.cli.batch.child import packed
from moot.core.postgres.connection import Postgres
from moot.core.postgres.store import PostgresStore
from moot.core.store import Reply
from moot.service.queue.rows import MOST_LOSSES, QueuedBatch, QueuedRows

from tests.cluster.postgres import Server, binaries, running_postgres
from tests.commands import moot

pytest.importorskip("procrastinate", reason="the extra `queue` is not installed")
pytestmark = pytest.mark.skipif(binaries() is None, reason="no Postgres is installed (initdb is not found)")

BATCH = QueuedBatch("0123456789abcdef", "claims.csv", "record", math.inf)
LOST = {"status": "failed", "kind": "worker_killed", "error": "Lost."}
DONE = {"status": "done", "spent": {"tokens": 10, "usd": None, "calls": 2}}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_postgres() as found:
        yield found


@pytest.fixture
def postgres(server: Server) -> Iterator[Postgres]:
    found = Postgres(server.url)
    found.prepare()
    found.do(lambda cursor: cursor.execute("TRUNCATE moot.batches, moot.workers, moot.stored_runs CASCADE"))
    yield found
    found.close()


@pytest.fixture
def store(postgres: Postgres) -> Iterator[PostgresStore]:
    with closing(PostgresStore(Postgres(postgres.url), assigns=False)) as found:
        yield found


def jobs(count: int) -> list[dict[str, Any]]:
    """The jobs of rows with the keys key0, key1 and so on."""
    return [{"key": f"key{number}", "number": number, "name": str(number)} for number in range(count)]


def take_job_keys(postgres: Postgres) -> list[str]:
    """Remove all jobs from procrastinate's queue; return the sorted keys of their rows."""
    query = "DELETE FROM procrastinate_jobs RETURNING args ->> 'key'"
    return sorted(key for (key,) in postgres.do(lambda cursor: cursor.execute(query).fetchall()))


def make_workers_silent(postgres: Postgres) -> None:
    """Set the last heartbeat of all workers to a day ago, so that the workers count as dead."""
    postgres.do(lambda cursor: cursor.execute("UPDATE moot.workers SET seen = now() - interval '1 day'"))


def test_a_row_has_one_worker_and_one_outcome(postgres: Postgres) -> None:
    """If its batch requests the row again, the batch gets the same outcome again."""
    rows = QueuedRows(postgres)
    rows.open_batch(BATCH)
    rows.queue_rows(BATCH.id, jobs(3))
    rows.queue_rows(BATCH.id, jobs(3))
    assert take_job_keys(postgres) == ["key0", "key1", "key2"]
    worker, other = rows.join(), rows.join()
    assigned = rows.assign("key0", worker)
    assert assigned is not None
    assert (assigned.job["name"], assigned.batch, assigned.alone) == ("0", BATCH, False)
    assert rows.assign("key0", other) is None
    assert rows.end("key0", DONE, packed({"id": "key0", "text": "\0 \ud800"}))
    assert not rows.end("key0", LOST, None)
    assert rows.assign("key0", other) is None
    [ended] = rows.ended_rows(BATCH.id, 10)
    assert (ended.outcome, ended.document) == (DONE, {"id": "key0", "text": "\0 \ud800"})
    rows.mark_collected(["key0"])
    assert rows.ended_rows(BATCH.id, 10) == []
    rows.queue_rows(BATCH.id, jobs(1))  # the batch requests the row again
    assert [row.key for row in rows.ended_rows(BATCH.id, 10)] == ["key0"]
    assert rows.state(BATCH.id) == ({"done": 1, "waiting": 2}, "")


def test_a_row_fails_after_the_maximum_number_of_lost_workers(postgres: Postgres) -> None:
    """Before that, each loss queues the row again. A row with two or more losses runs alone."""
    rows = QueuedRows(postgres)
    rows.open_batch(BATCH)
    rows.queue_rows(BATCH.id, jobs(1))
    alone = []
    for _ in range(MOST_LOSSES):
        assert take_job_keys(postgres) == ["key0"]
        worker = rows.join()
        assigned = rows.assign("key0", worker)
        assert assigned is not None
        alone.append(assigned.alone)
        assert rows.requeue_lost(LOST) == 0  # this worker is alive
        make_workers_silent(postgres)
        rows.requeue_lost(LOST)
        assert not rows.heartbeat(worker, ["key0"])
    assert alone == [False, False, True, True]
    assert take_job_keys(postgres) == []
    assert [row.outcome for row in rows.ended_rows(BATCH.id, 10)] == [LOST]
    assert rows.retry(BATCH.id) == 1
    assert take_job_keys(postgres) == ["key0"]


def test_overdue_rows_get_new_jobs_unless_their_batch_is_stopped(postgres: Postgres) -> None:
    def make_rows_overdue() -> None:
        postgres.do(lambda cursor: cursor.execute("UPDATE moot.rows SET touched = now() - interval '1 day'"))

    rows = QueuedRows(postgres)
    rows.open_batch(BATCH)
    rows.queue_rows(BATCH.id, jobs(2))
    take_job_keys(postgres)
    rows.requeue_lost(LOST)
    assert take_job_keys(postgres) == []  # no new jobs yet: a worker may be about to take the rows
    make_rows_overdue()
    rows.requeue_lost(LOST)
    assert take_job_keys(postgres) == ["key0", "key1"]
    make_rows_overdue()
    rows.stop(BATCH.id, "why")
    rows.requeue_lost(LOST)
    assert take_job_keys(postgres) == []
    rows.retry(BATCH.id)
    assert take_job_keys(postgres) == ["key0", "key1"]


def test_a_cancelled_batch_continues_after_a_retry(server: Server, postgres: Postgres) -> None:
    rows = QueuedRows(postgres)
    rows.open_batch(BATCH)
    rows.queue_rows(BATCH.id, jobs(2))
    worker = rows.join()
    rows.assign("key0", worker)
    done = moot("batch", "cancel", "0123", "--queue", server.url)
    assert "1 running row will finish" in done.stdout
    assert rows.assign("key1", worker) is None
    shown = moot("batch", "status", "--queue", server.url).stdout
    assert "claims.csv" in shown
    assert "the batch was cancelled" in shown
    output = moot("batch", "retry", "0123", "--queue", server.url).stdout
    assert "1 row waits for a worker. To collect the results of 0123456789abcdef" in output
    assert rows.assign("key1", worker) is not None


def test_batch_actions_refuse_missing_batches_and_databases(server: Server, postgres: Postgres) -> None:
    QueuedRows(postgres).open_batch(BATCH)
    for words in (["cancel", "9"], ["retry"]):  # an id that no batch has; no id
        done = moot("batch", *words, "--queue", server.url)
        assert (done.returncode, done.stdout) == (2, "")
    done = moot("batch", "status", "--queue", server.url.replace("/postgres", "/nowhere"))
    assert (done.returncode, "Check the address" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "address",
    [
        "mysql://moot:secret@127.0.0.1/moot",
        "postgresql://moot:secret@127.0.0.1/moot?nonsense=1",
        "postgresql://moot:secret%ZZ@127.0.0.1/moot",
        "postgresql://moot:secret@pass@127.0.0.1/moot",
        "postgresql://[::1/moot",
        "postgresql://moot:secret@127.0.0.1:number/moot",
    ],
)
def test_an_invalid_address_is_refused_without_showing_its_password(address: str) -> None:
    done = moot("batch", "status", "--queue", address)
    assert (done.returncode, done.stdout) == (2, "")
    assert "postgresql://user:password@host:5432/database" in done.stderr or "Check the address" in done.stderr
    assert "secret" not in done.stderr


def test_batch_actions_need_a_queue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MOOT_QUEUE", raising=False)
    monkeypatch.chdir(tmp_path)
    for action in ("status", "cancel", "retry"):
        done = moot("batch", action)
        assert done.returncode == 2
        assert "needs a queue" in done.stderr


def test_the_spending_of_a_debate_includes_calls_whose_replies_were_lost(
    postgres: Postgres, store: PostgresStore
) -> None:
    QueuedRows(postgres).open_batch(BATCH)
    for key in ("key0", "key1", "key2"):
        store.begin("rag", {}, {}, id=key)
    paid = Reply("key0", "a" * 32, "chat", {}, None, paid=(10, 0.5, 1))
    lost = Reply("key0", "b" * 32, "chat", {}, None, failed=True, sent=(30.5, 0, 1))
    other = Reply("key1", "c" * 32, "chat", {}, None, failed=True, sent=(1, 0, 1))
    store.keep([(paid, 1), (lost, None), (other, None)])
    assert store.spending_of(["key0", "key2"])["key0"] == (40.5, 0.5, 2)


def test_a_queue_decides_who_runs_a_debate(postgres: Postgres, store: PostgresStore) -> None:
    """A worker takes over a debate that seems to run. It counts as running while its row runs."""
    rows = QueuedRows(postgres)
    rows.open_batch(BATCH)
    rows.queue_rows(BATCH.id, jobs(1))
    rows.assign("key0", rows.join())
    starts = [store.begin("rag", {"claim": "x"}, {}, id="key0") for _ in range(2)]
    assert [start.resumed for start in starts] == [False, True]
    assert [run.status for run in store.runs()] == ["running"]
    make_workers_silent(postgres)
    rows.requeue_lost(LOST)
    assert [run.status for run in store.runs()] == ["interrupted"]
    store.end("key0", "done")
    assert not store.begin("rag", {"claim": "x"}, {}, id="key0").resumed
