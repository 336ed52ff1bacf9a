"""Each debate is finished and listed once, even if a worker, a run's lease or a database update is lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from moot.core.lazy import imported

from tests.service.running import CONTEXT, Service, begin, missing_requirements, status, unfinished_debates

pytestmark = [
    pytest.mark.skipif(bool(missing_requirements()), reason=missing_requirements() or "none"),
    pytest.mark.timeout(600),
]

Place = tuple[str, str]


@pytest.fixture(scope="module", autouse=True)
def one_worker(service: Service) -> Iterator[None]:
    """Kill the second worker, so that a test knows the worker of each debate. Restart ended workers after the tests."""
    service.kill("worker-2")
    yield
    for name in ("worker-1", "worker-2"):
        if service.processes[name].poll() is not None:
            service.restart(name)


@contextmanager
def storing_blocked(service: Service) -> Iterator[Any]:
    """Block the storing of documents until the ``with`` block ends.

    Yield a function that tells whether a process waits to store a document.
    """
    psycopg = imported("psycopg")
    with psycopg.connect(service.postgres.url) as holder:
        holder.execute("LOCK TABLE moot.documents IN SHARE MODE")
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'moot.documents'::regclass"
        yield lambda: bool(holder.execute(waits).fetchall())


def check_stored(service: Service, client: httpx.Client, claim: str, places: list[Place], end: str = "success") -> None:
    """Wait until each run has the status ``end``; check that each debate is listed once, as done, with its document."""
    service.wait_for(
        lambda: all(status(client, place) == end for place in places), f"not all ended: {unfinished_debates(service)}"
    )
    listed = client.get("/moot/api/debates", params={"q": claim}).json()["debates"]
    assert [one["status"] for one in listed] == ["done"] * len(places), unfinished_debates(service)
    for one in listed:
        assert client.get(f"/moot/api/debates/{one['id']}/json").json()["id"] == one["debate"]


def test_runs_queued_before_a_worker_starts_are_completed(service: Service) -> None:
    service.kill("worker-1")
    with service.client_of("bob") as bob:
        places = [begin(bob, f"Cloves are {number} years old.", "standard_prompting") for number in range(4)]
        service.start("worker-1")
        check_stored(service, bob, "Cloves", places)


def test_all_runs_of_a_stopped_worker_are_completed_after_its_restart(service: Service) -> None:
    before = len(service.stub.calls())
    with service.client_of("bob") as bob:
        places = [begin(bob, f"Nutmeg is ground {number} times.") for number in range(4)]
        places += [begin(bob, f"Nutmeg is stored {number} years.", "standard_prompting") for number in range(2)]
        service.wait_for(lambda: len(service.stub.calls()) > before + 4, "no calls")
        service.processes["worker-1"].send_signal(signal.SIGTERM)
        service.processes["worker-1"].wait(60)
        service.start("worker-1")
        check_stored(service, bob, "Nutmeg", places)


def test_a_document_of_a_killed_worker_is_stored_without_new_calls(service: Service) -> None:
    with service.client_of("bob") as bob:
        with storing_blocked(service) as is_waiting:
            place = begin(bob, "Mace is a spice.")
            service.wait_for(is_waiting, "no document")
            service.kill("worker-1")
        calls = len(service.stub.calls())
        service.start("worker-1")
        check_stored(service, bob, "Mace", [place])
        assert len(service.stub.calls()) == calls


def test_a_document_after_a_persons_reply_is_stored_without_new_calls(service: Service) -> None:
    """The worker is killed after the reply, before it stores the document."""
    with service.client_of("bob") as bob:
        thread, run = begin(bob, "Sumac is sour.", ask_person=["remark"])
        service.wait_for(lambda: status(bob, (thread, run)) == "interrupted", "no question was asked")
        asked = {"assistant_id": "society_of_minds", "command": {"resume": {"remark": "It is."}}, "context": CONTEXT}
        with storing_blocked(service) as is_waiting:
            reply = bob.post(f"/threads/{thread}/runs", json=asked).raise_for_status().json()["run_id"]
            service.wait_for(is_waiting, "no document")
            service.kill("worker-1")
        calls = len(service.stub.calls())
        service.start("worker-1")
        check_stored(service, bob, "Sumac", [(thread, reply)])
        assert len(service.stub.calls()) == calls


def test_the_end_of_a_run_is_stored_although_the_database_first_refused_to_store_it(service: Service) -> None:
    psycopg = imported("psycopg")
    with psycopg.connect(service.postgres.url, autocommit=True) as owner, service.client_of("bob") as bob:
        owner.execute(
            "CREATE SEQUENCE refused; CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM nextval('refused'); RAISE 'no end is noted'; END $$; CREATE TRIGGER refuse BEFORE UPDATE "
            "ON runs FOR EACH ROW WHEN (NEW.status IN ('success', 'error')) EXECUTE FUNCTION refuse()"
        )
        place = begin(bob, "Paprika is red.", "standard_prompting")
        refusals = "SELECT last_value FROM refused"
        service.wait_for(lambda: owner.execute(refusals).fetchone()[0] >= 2, "the run's end was not refused twice")
        owner.execute("DROP FUNCTION refuse CASCADE")
        check_stored(service, bob, "Paprika", [place])


def test_a_run_starts_again_if_postgres_disconnects_at_the_end_of_the_run(service: Service) -> None:
    """The model is not called again."""
    psycopg = imported("psycopg")
    with psycopg.connect(service.postgres.url, autocommit=True) as owner, service.client_of("bob") as bob:
        owner.execute(
            "CREATE SEQUENCE ended; CREATE FUNCTION cut_off() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "IF nextval('ended') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NEW; END $$; "
            "CREATE TRIGGER cut_off BEFORE UPDATE ON runs FOR EACH ROW WHEN (NEW.status IN ('success', 'error')) "
            "EXECUTE FUNCTION cut_off()"
        )
        place = begin(bob, "Turmeric is yellow.", "standard_prompting")
        check_stored(service, bob, "Turmeric", [place])
        assert owner.execute("SELECT last_value FROM ended").fetchone() > (1,)
        assert len([one for one in service.stub.prompts() if "Turmeric is yellow." in one]) == 1
        owner.execute("DROP FUNCTION cut_off CASCADE; DROP SEQUENCE ended")


def test_a_run_whose_lease_is_lost_before_its_start_is_leased_again(service: Service) -> None:
    psycopg = imported("psycopg")
    with psycopg.connect(service.postgres.url, autocommit=True) as owner, service.client_of("bob") as bob:
        owner.execute(
            "CREATE SEQUENCE claims; CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "IF nextval('claims') = 1 THEN NEW.status = 'pending'; NEW.claimed_by = NULL; NEW.lease_expires_at = NULL; "
            "END IF; RETURN NEW; END $$; CREATE TRIGGER lose BEFORE UPDATE ON runs FOR EACH ROW WHEN "
            "(OLD.status = 'pending' AND NEW.claimed_by IS NOT NULL) EXECUTE FUNCTION lose()"
        )
        place = begin(bob, "Fennel is tall.", "standard_prompting")
        check_stored(service, bob, "Fennel", [place])
        assert owner.execute("SELECT last_value FROM claims").fetchone() == (2,)
        owner.execute("DROP FUNCTION lose CASCADE; DROP SEQUENCE claims")


def test_leases_of_one_worker_have_different_names(service: Service) -> None:
    claims = "SELECT claimed_by FROM runs WHERE status = 'running' AND claimed_by IS NOT NULL"
    with service.client_of("bob") as bob:
        places = [begin(bob, f"Ginger grows {number} years.") for number in range(3)]
        service.wait_for(lambda: len(service.query(claims)) > 1, "no two debates run")
        names = service.query(claims)
        assert len({*names}) == len(names)
        check_stored(service, bob, "Ginger", places)
