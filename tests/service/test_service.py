"""A page and two workers by the commands of ``deploy/compose.yaml``: real Postgres, Redis and Chroma."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from moot.core.postgres.connection import Postgres

from tests.conftest import running_stub
from tests.service.running import TOKENS, Service, lacking, python, running_service

pytestmark = [pytest.mark.skipif(bool(lacking()), reason=lacking() or "none"), pytest.mark.timeout(900)]

CONTEXT = {"model": "openai:stub"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    with running_stub(folder / "stub", latency_ms=300) as stub, running_service(folder, stub) as found:
        yield found


def begin(client: httpx.Client, claim: str, graph: str = "society_of_minds", **context: Any) -> tuple[str, str]:
    """Begins a debate; its thread and its run."""
    thread = client.post("/threads", json={}).raise_for_status().json()["thread_id"]
    asked = {"assistant_id": graph, "input": {"claim": claim}, "context": {**CONTEXT, **context}}
    run = client.post(f"/threads/{thread}/runs", json=asked).raise_for_status().json()
    return thread, run["run_id"]


def rows(service: Service) -> Any:
    """The rows of debates that are not done, with who runs them and when that was seen last."""
    query = (
        "SELECT d.id, d.status, d.owner, d.run, d.note, to_timestamp(d.updated), s.seen, now() FROM moot.debates AS d "
        "LEFT JOIN moot.servers AS s ON s.id = d.owner WHERE d.status <> 'done'"
    )
    with closing(Postgres(service.postgres.url)) as postgres:
        return postgres.do(lambda cursor: cursor.execute(query).fetchall())


def status(client: httpx.Client, place: tuple[str, str]) -> str:
    """How a run stands."""
    found: str = client.get(f"/threads/{place[0]}/runs/{place[1]}").json()["status"]
    return found


def test_a_debate_is_held_by_a_worker_and_shown_by_the_page_to_its_user_alone(service: Service) -> None:
    with service.of("ann") as ann, service.of("bob") as bob:
        asked = {"assistant_id": "standard_prompting", "input": {"claim": "Bees dance."}, "context": CONTEXT}
        document = bob.post("/runs/wait", json=asked).raise_for_status().json()
        assert document["status"] == "done"
        [listed] = bob.get("/moot/api/debates").json()["debates"]
        assert (listed["claim"], listed["debate"], listed["status"]) == ("Bees dance.", document["id"], "done")
        page = bob.get(f"/moot/debates/{listed['id']}")
        assert page.status_code == 200
        assert "Bees dance." in page.text
        assert bob.get(f"/moot/api/debates/{listed['id']}/json").json() == document
        assert ann.get("/moot/api/debates").json()["total"] == 0
        for path in (f"/moot/api/debates/{listed['id']}", f"/moot/api/debates/{document['id']}/html"):
            assert ann.get(path).status_code == 404
        assert ann.get(f"/moot/debates/{listed['id']}").status_code == 404
        assert ann.request("DELETE", f"/moot/api/debates/{listed['id']}").status_code == 404
        forged = {"config": {"metadata": {"moot_debate": document["id"]}}}
        refused = ann.post("/runs/wait", json={**asked, **forged})
        assert document["id"] not in refused.text
        assert bob.get(f"/moot/api/debates/{listed['id']}/json").json() == document


def test_debates_go_on_at_a_call_when_workers_are_killed(service: Service) -> None:
    before = len(service.stub.calls())
    with service.of("bob") as bob:
        places = [begin(bob, f"Saffron is sold in {number} shades.") for number in range(12)]
        for number, worker in enumerate(("worker-1", "worker-2")):
            most = before + 30 * (number + 1)
            service.wait_for(lambda most=most: len(service.stub.calls()) >= most, "no calls")  # type: ignore[misc]
            service.kill(worker)
            service.start(worker)
        service.wait_for(lambda: all(status(bob, one) == "success" for one in places), "not all debates ended")
        entries = bob.get("/moot/api/debates", params={"q": "Saffron"}).json()
        assert entries["total"] == 12
        assert {one["status"] for one in entries["debates"]} == {"done"}, rows(service)
        kept = [bob.get(f"/moot/api/debates/{one['id']}/json").json() for one in entries["debates"]]
    needed = sum(len(document["calls"]) for document in kept)
    assert len(service.stub.calls()) - before <= needed + 2 * 10 * 3  # at most those in flight were made again


def test_a_request_that_is_sent_twice_is_one_debate(service: Service) -> None:
    asked = {"assistant_id": "standard_prompting", "input": {"claim": "Salt is sweet."}, "context": CONTEXT}
    with service.of("bob") as bob, service.of("ann") as ann:
        ids = [
            client.post("/runs/wait", json=asked, headers={"Idempotency-Key": "salt"}).raise_for_status().json()["id"]
            for client in (bob, bob, ann)
        ]
    assert ids[0] == ids[1] != ids[2]


def test_a_corpus_of_the_chroma_server_is_read_by_those_who_may(service: Service, tmp_path: Path) -> None:
    (tmp_path / "press.txt").write_text("The bridge was opened in 1932, and is painted grey.\n" * 3)
    environment = os.environ | service.environment("worker-1") | {"MOOT_HOME": str(tmp_path / "home")}
    for corpus in ("press", "law"):
        command = [str(Path(python() or "").with_name("moot")), "index", str(tmp_path / "press.txt")]
        words = ["--corpus", corpus, "--embedder", "openai:emb"]
        done = subprocess.run([*command, *words], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    with service.of("ann") as ann, service.of("bob") as bob:
        assert ann.get("/moot/api/choices").json()["corpora"] == ["press"]
        assert {"law", "press"} <= {*bob.get("/moot/api/choices").json()["corpora"]}
        asked = {"assistant_id": "rag", "input": {"claim": "The bridge is red."}}
        context = {**CONTEXT, "embedder": "openai:emb", "sources": ["chroma:press"]}
        found = ann.post("/runs/wait", json={**asked, "context": context}).raise_for_status().json()
        assert [piece["source"] for piece in found["evidence"]] == ["press.txt"]
        for other in ({"sources": ["chroma:law"]}, {"corpus": "law"}):
            refused = ann.post("/runs/wait", json={**asked, "context": {**context, **other}})
            assert (refused.status_code, refused.json()["kind"]) == (422, "unknown_corpus")


def test_who_has_no_token_is_refused_and_a_browser_logs_in_at_any_process(service: Service) -> None:
    url = f"http://127.0.0.1:{service.ports['page']}"
    with httpx.Client(base_url=url) as nobody:
        for path in ("/moot", "/threads/search", "/openapi.json", "/moot/api/debates", "/health", "/store/items"):
            assert nobody.get(path, headers={"moot-asks": "ann"}).status_code == 401, path
        assert nobody.get("/ready").status_code == nobody.get("/ok").status_code == 200
        wrong = nobody.post("/moot/login", data={"token": "no-such-token-at-all"})
        assert wrong.status_code == 401
        assert nobody.post("/moot/login", data={"token": TOKENS["ann"]}).status_code == 303
        assert "You are ann. In the last 24 hours: " in nobody.get("/moot/login").text
        cookie = nobody.cookies["moot_session"]
    worker = f"http://127.0.0.1:{service.ports['worker-1']}"
    assert httpx.get(f"{worker}/moot", cookies={"moot_session": cookie}).status_code == 200
    forged = cookie.replace("ann.", "bob.")
    assert httpx.get(f"{worker}/moot", cookies={"moot_session": forged}).status_code == 401


def test_mcp_is_answered_without_langgraphs_own_endpoint(service: Service) -> None:
    def asked(method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return ann.post("/mcp", json=message).raise_for_status().json()

    with service.of("ann") as ann:
        assert asked("initialize", protocolVersion="2025-06-18")["result"]["serverInfo"]["name"] == "moot"
        assert ann.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}).status_code == 202
        assert "standard_prompting" in {tool["name"] for tool in asked("tools/list")["result"]["tools"]}
        arguments = {"claim": "Bees sing.", "model": "openai:stub"}
        called = asked("tools/call", name="standard_prompting", arguments=arguments)["result"]
        assert called["structuredContent"]["status"] == "done", called
        for path in ("/runs/batch", "/moot/api/batches"):
            refused = ann.post(path, json=[])
            assert (refused.status_code, refused.json()["kind"]) == (501, "not_here")


def test_a_user_gets_no_more_debates_than_the_quota(service: Service) -> None:
    with service.of("ann") as ann:
        refused = None
        begun: Counter[int] = Counter()
        for number in range(31):
            asked = {"assistant_id": "standard_prompting", "input": {"claim": f"No {number}."}, "context": CONTEXT}
            refused = ann.post("/runs", json=asked)
            begun[refused.status_code] += 1
        assert refused is not None
        assert (refused.status_code, refused.json()["kind"]) == (429, "quota")
        assert begun[200] < 30
    with service.of("bob") as bob:
        assert status(bob, begin(bob, "Bob goes on.", "standard_prompting")) in ("pending", "running", "success")
