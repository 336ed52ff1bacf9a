"""If Postgres or Redis is down, the service still responds, and no debate is lost."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.service.running import OURS, Service, begin, missing_requirements, rows, status

pytestmark = [
    pytest.mark.skipif(bool(missing_requirements()), reason=missing_requirements() or "none"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module", autouse=True)
def start_stopped_services(service: Service) -> Iterator[None]:
    """Start the services that a failed test left stopped."""
    yield
    if service.processes["redis"].poll() is not None:
        service.start("redis")
    if not service.postgres.is_running():
        service.postgres.start()
    for name in OURS:
        service.wait_for(lambda name=name: service.is_ready(name), f"{name} is not ready")  # type: ignore[misc]


def responses_of(service: Service, path: str) -> list[int]:
    """The status codes of the web process and of a worker on a public route."""
    return [httpx.get(f"http://127.0.0.1:{service.ports[name]}{path}", timeout=60).status_code for name in OURS[:2]]


def test_debates_start_and_end_without_redis(service: Service) -> None:
    with service.client_of("bob") as bob:
        under_way = begin(bob, "Anise is a star.", ask_person=["remark"])
        service.wait_for(lambda: status(bob, under_way) == "interrupted", "no question was asked")
        service.kill("redis")
        assert responses_of(service, "/ok") == responses_of(service, "/ready") == [200, 200]
        places = [begin(bob, f"Anise has {number} tips.", "standard_prompting") for number in range(3)]
        service.wait_for(lambda: all(status(bob, one) == "success" for one in places), f"lost: {rows(service)}")
        service.start("redis")
        places.append(begin(bob, "Anise is back.", "standard_prompting"))
        service.wait_for(lambda: status(bob, places[-1]) == "success", f"lost: {rows(service)}")
        listed = bob.get("/moot/api/debates", params={"q": "Anise"}).json()["debates"]
        assert sorted(one["status"] for one in listed) == ["done"] * 4 + ["waiting"]


def test_without_postgres_no_process_is_ready_and_all_recover(service: Service) -> None:
    with service.client_of("bob") as bob:
        before = len(service.stub.calls())
        place = begin(bob, "Rosemary is a shrub.")
        service.wait_for(lambda: len(service.stub.calls()) > before, "no calls")
    service.postgres.stop()
    assert responses_of(service, "/ok") == [200, 200]
    assert responses_of(service, "/ready") == [503, 503]
    for method, path in (("GET", "/moot/api/debates"), ("POST", "/threads"), ("GET", f"/moot/debates/{place[1]}")):
        with service.client_of("bob") as bob:  # a new client, because a failure closes the connection
            answer = bob.request(method, path, json={} if method == "POST" else None, timeout=60)
        assert answer.status_code >= 500, (path, answer.text)
        assert "127.0.0.1" not in answer.text, "the response shows an address"
    service.postgres.start()
    service.wait_for(lambda: responses_of(service, "/ready") == [200, 200], "not ready again")
    with service.client_of("bob") as bob:
        ended = ("success", "error", "interrupted")
        service.wait_for(lambda: status(bob, place) in ended, f"the run has not ended: {rows(service)}")
        [listed] = bob.get("/moot/api/debates", params={"q": "Rosemary"}).json()["debates"]
        if listed["status"] != "done":
            assert listed["can"] == "resume"
            on = bob.post(f"/moot/api/debates/{listed['id']}/resume").raise_for_status().json()
            service.wait_for(
                lambda: status(bob, (on["thread_id"], on["run_id"])) == "success", "the resumed run has not ended"
            )
            [listed] = bob.get("/moot/api/debates", params={"q": "Rosemary"}).json()["debates"]
        assert listed["status"] == "done", rows(service)
