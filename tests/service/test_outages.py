"""The service while Redis or Postgres is down: its processes respond, and no debate is lost."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.service.running import OURS, Service, begin, missing_requirements, status, unfinished_debates

pytestmark = [
    pytest.mark.skipif(bool(missing_requirements()), reason=missing_requirements() or "none"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module", autouse=True)
def restore_service(service: Service) -> Iterator[None]:
    """After the tests, start Redis and Postgres if they are stopped, and wait until all processes are ready."""
    yield
    if service.processes["redis"].poll() is not None:
        service.start("redis")
    if not service.postgres.is_running():
        service.postgres.start()
    for name in OURS:
        service.wait_for(lambda name=name: service.is_ready(name), f"{name} is not ready")  # type: ignore[misc]


def status_codes(service: Service, path: str) -> list[int]:
    """The status codes that the web process and a worker return for a public route."""
    return [httpx.get(f"http://127.0.0.1:{service.ports[name]}{path}", timeout=60).status_code for name in OURS[:2]]


def test_debates_start_and_end_while_redis_is_down(service: Service) -> None:
    with service.client_of("bob") as bob:
        waiting = begin(bob, "Anise is a star.", ask_person=["remark"])
        service.wait_for(lambda: status(bob, waiting) == "interrupted", "no question was asked")
        service.kill("redis")
        assert status_codes(service, "/ok") == status_codes(service, "/ready") == [200, 200]
        places = [begin(bob, f"Anise has {number} tips.", "standard_prompting") for number in range(3)]
        service.wait_for(
            lambda: all(status(bob, one) == "success" for one in places), f"lost: {unfinished_debates(service)}"
        )
        service.start("redis")
        places.append(begin(bob, "Anise is back.", "standard_prompting"))
        service.wait_for(lambda: status(bob, places[-1]) == "success", f"lost: {unfinished_debates(service)}")
        listed = bob.get("/moot/api/debates", params={"q": "Anise"}).json()["debates"]
        assert sorted(one["status"] for one in listed) == ["done"] * 4 + ["waiting"]


def test_processes_are_not_ready_while_postgres_is_down(service: Service) -> None:
    """Meanwhile requests get error responses. After the outage, the debate from before the outage can be finished."""
    with service.client_of("bob") as bob:
        before = len(service.stub.calls())
        place = begin(bob, "Rosemary is a shrub.")
        service.wait_for(lambda: len(service.stub.calls()) > before, "the debate makes no calls")
    service.postgres.stop()
    assert status_codes(service, "/ok") == [200, 200]
    assert status_codes(service, "/ready") == [503, 503]
    for method, path in (("GET", "/moot/api/debates"), ("POST", "/threads"), ("GET", f"/moot/debates/{place[1]}")):
        with service.client_of("bob") as bob:  # a new client, because an error closes the connection
            answer = bob.request(method, path, json={} if method == "POST" else None, timeout=60)
        assert answer.status_code >= 500, (path, answer.text)
        assert "127.0.0.1" not in answer.text, "the response shows an address"
    service.postgres.start()
    service.wait_for(lambda: status_codes(service, "/ready") == [200, 200], "not ready again")
    with service.client_of("bob") as bob:
        ended = ("success", "error", "interrupted")
        service.wait_for(lambda: status(bob, place) in ended, f"the run has not ended: {unfinished_debates(service)}")
        [listed] = bob.get("/moot/api/debates", params={"q": "Rosemary"}).json()["debates"]
        if listed["status"] != "done":
            assert listed["can"] == "resume"
            resumed = bob.post(f"/moot/api/debates/{listed['id']}/resume").raise_for_status().json()
            service.wait_for(
                lambda: status(bob, (resumed["thread_id"], resumed["run_id"])) == "success",
                "the resumed run has not ended",
            )
            [listed] = bob.get("/moot/api/debates", params={"q": "Rosemary"}).json()["debates"]
        assert listed["status"] == "done", unfinished_debates(service)
