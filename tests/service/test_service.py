"""One web process and two workers, started as in ``deploy/compose.yaml``, with real Postgres, Redis and Chroma."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import free_port
from tests.service.running import (
    CONTEXT,
    TOKENS,
    Service,
    begin,
    missing_requirements,
    python,
    status,
    unfinished_debates,
)

pytestmark = [
    pytest.mark.skipif(bool(missing_requirements()), reason=missing_requirements() or "none"),
    pytest.mark.timeout(900),
]


PROGRAM = """
import atexit, sys
from moot.cli.main import run

class Module:
    def __del__(self):
        print("taken apart")

module = Module()
atexit.register(print, "sent", flush=True)
run()
"""


def test_a_terminated_process_runs_its_exit_hooks_and_skips_finalisation(service: Service) -> None:
    service.ports["third"] = free_port()
    words = ["service", "--port", str(service.ports["third"]), "--at-once", "2"]
    with service.client_of("bob", "third") as bob, (service.folder / "third.log").open("wb") as log:
        command, environment = [python() or "", "-c", PROGRAM, *words], os.environ | service.environment("worker-1")
        process = service.processes["third"] = subprocess.Popen(
            command, env=environment, cwd=service.folder, stdout=log, stderr=log
        )
        service.wait_for(lambda: service.is_ready("third"), "the third process is not ready")
        bob.get("/moot/api/debates").raise_for_status()  # this client's connection stays open
        process.terminate()
        assert process.wait(60) == 0, service.log("third")
    del service.processes["third"]
    assert "sent" in service.log("third")
    assert "taken apart" not in service.log("third"), "the process finalised its interpreter, which takes seconds"


def test_a_debate_is_visible_only_to_its_user(service: Service) -> None:
    """Other users can neither read nor delete it, even if their request names its id in the metadata."""
    with service.client_of("ann") as ann, service.client_of("bob") as bob:
        asked = {"assistant_id": "standard_prompting", "input": {"claim": "Bees dance."}, "context": CONTEXT}
        document = bob.post("/runs/wait", json=asked).raise_for_status().json()
        assert document["status"] == "done"
        [listed] = bob.get("/moot/api/debates", params={"q": "Bees dance"}).json()["debates"]
        assert (listed["claim"], listed["debate"], listed["status"]) == ("Bees dance.", document["id"], "done")
        page = bob.get(f"/moot/debates/{listed['id']}")
        assert page.status_code == 200
        assert "Bees dance." in page.text
        assert bob.get(f"/moot/api/debates/{listed['id']}/json").json() == document
        assert ann.get("/moot/api/debates", params={"q": "Bees"}).json()["total"] == 0
        for path in (f"/moot/api/debates/{listed['id']}", f"/moot/api/debates/{document['id']}/html"):
            assert ann.get(path).status_code == 404
        assert ann.get(f"/moot/debates/{listed['id']}").status_code == 404
        assert ann.request("DELETE", f"/moot/api/debates/{listed['id']}").status_code == 404
        forged = {"config": {"metadata": {"moot_debate": document["id"]}}}
        answer = ann.post("/runs/wait", json={**asked, **forged})
        assert document["id"] not in answer.text
        assert bob.get(f"/moot/api/debates/{listed['id']}/json").json() == document


def test_debates_of_killed_workers_repeat_only_unfinished_calls(service: Service) -> None:
    before = len(service.stub.calls())
    with service.client_of("bob") as bob:
        places = [begin(bob, f"Saffron is sold in {number} shades.") for number in range(12)]
        for number, worker in enumerate(("worker-1", "worker-2")):
            most = before + 30 * (number + 1)
            service.wait_for(lambda most=most: len(service.stub.calls()) >= most, "the debates make too few calls")  # type: ignore[misc]
            service.kill(worker)
            service.start(worker)
        service.wait_for(lambda: all(status(bob, one) == "success" for one in places), "not all debates ended")
        entries = bob.get("/moot/api/debates", params={"q": "Saffron"}).json()
        assert entries["total"] == 12
        assert {one["status"] for one in entries["debates"]} == {"done"}, unfinished_debates(service)
        documents = [bob.get(f"/moot/api/debates/{one['id']}/json").json() for one in entries["debates"]]
    needed = sum(len(document["calls"]) for document in documents)
    assert len(service.stub.calls()) - before <= needed + 2 * 10 * 3  # two kills, each of ten debates with three agents


def test_requests_with_the_same_idempotency_key_start_one_debate_per_user(service: Service) -> None:
    asked = {"assistant_id": "standard_prompting", "input": {"claim": "Salt is sweet."}, "context": CONTEXT}

    def ask(user: str, process: str) -> Any:
        with service.client_of(user, process) as client:
            answer = client.post("/runs/wait", json=asked, headers={"Idempotency-Key": "salt"})
            return answer.raise_for_status().json().get("id")

    with ThreadPoolExecutor(6) as pool:
        ids = {*pool.map(ask, ["bob"] * 6, ["page", "worker-1", "worker-2"] * 2)}
    assert len(ids) == 1
    assert ask("bob", "worker-2") in ids
    assert ask("ann", "page") not in ids
    assert len([one for one in service.stub.prompts() if "Salt is sweet." in one]) == 2  # Bob's and Ann's


def test_a_user_cannot_read_a_chroma_corpus_without_permission(service: Service, tmp_path: Path) -> None:
    (tmp_path / "press.txt").write_text("The bridge was opened in 1932, and is painted grey.\n" * 3)
    environment = os.environ | service.environment("worker-1") | {"MOOT_HOME": str(tmp_path / "home")}
    for corpus in ("press", "law"):
        command = [str(Path(python() or "").with_name("moot")), "index", str(tmp_path / "press.txt")]
        words = ["--corpus", corpus, "--embedder", "openai:emb"]
        done = subprocess.run([*command, *words], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    with service.client_of("ann") as ann, service.client_of("bob") as bob:
        assert ann.get("/moot/api/choices").json()["corpora"] == ["press"]
        assert {"law", "press"} <= {*bob.get("/moot/api/choices").json()["corpora"]}
        asked = {"assistant_id": "rag", "input": {"claim": "The bridge is red."}}
        context = {**CONTEXT, "embedder": "openai:emb", "sources": ["chroma:press"]}
        found = ann.post("/runs/wait", json={**asked, "context": context}).raise_for_status().json()
        assert [piece["source"] for piece in found["evidence"]] == ["press.txt"]
        for other in ({"sources": ["chroma:law"]}, {"corpus": "law"}):
            refused = ann.post("/runs/wait", json={**asked, "context": {**context, **other}})
            assert (refused.status_code, refused.json()["kind"]) == (422, "unknown_corpus")


def test_requests_without_a_valid_token_are_refused(service: Service) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{service.ports['page']}") as nobody:
        for path in ("/moot", "/threads/search", "/openapi.json", "/moot/api/debates", "/health", "/store/items"):
            assert nobody.get(path, headers={"moot-asks": "ann"}).status_code == 401, path
        assert nobody.get("/ready").status_code == nobody.get("/ok").status_code == 200
        wrong = nobody.post("/moot/login", data={"token": "no-such-token-at-all"})
        assert wrong.status_code == 401


def test_a_worker_accepts_a_session_of_the_page_but_no_forged_session(service: Service) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{service.ports['page']}") as browser:
        assert browser.post("/moot/login", data={"token": TOKENS["ann"]}).status_code == 303
        assert "You are ann. In the last 24 hours: " in browser.get("/moot/login").text
        cookie = browser.cookies["moot_session"]
    worker = f"http://127.0.0.1:{service.ports['worker-1']}"
    assert httpx.get(f"{worker}/moot", cookies={"moot_session": cookie}).status_code == 200
    forged = cookie.replace("ann.", "bob.")
    assert httpx.get(f"{worker}/moot", cookies={"moot_session": forged}).status_code == 401


def test_an_mcp_client_can_list_tools_and_run_a_debate(service: Service) -> None:
    def send(method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return ann.post("/mcp", json=message).raise_for_status().json()

    with service.client_of("ann") as ann:
        assert send("initialize", protocolVersion="2025-06-18")["result"]["serverInfo"]["name"] == "moot"
        assert ann.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}).status_code == 202
        assert "rag" in {tool["name"] for tool in send("tools/list")["result"]["tools"]}
        arguments = {"claim": "Bees sing.", "model": "openai:stub"}
        called = send("tools/call", name="standard_prompting", arguments=arguments)["result"]
        assert called["structuredContent"]["status"] == "done", called


def test_routes_that_the_service_does_not_offer_are_refused(service: Service) -> None:
    with service.client_of("ann") as ann:
        for path in ("/runs/batch", "/moot/api/batches", "/runs/crons", "/threads/any/runs/crons"):
            refused = ann.post(path, json=[])
            assert (refused.status_code, refused.json()["kind"]) == (501, "not_here")


def test_a_graph_of_an_installed_package_runs_with_checked_settings(service: Service) -> None:
    with service.client_of("cid") as cid:
        asked = {"assistant_id": "chaired", "input": {"claim": "Bees sing."}, "context": CONTEXT | {"max_rounds": 1}}
        document = cid.post("/runs/wait", json=asked).raise_for_status().json()
        assert (document["graph"], document["status"], document["error"]) == ("chaired", "done", None)
        wrong = cid.post("/runs/wait", json=asked | {"context": CONTEXT | {"k": 3}})
        assert (wrong.status_code, wrong.json()["kind"]) == (422, "invalid_setting")


def test_a_user_cannot_exceed_the_quota_of_debates(service: Service) -> None:
    with service.client_of("ann") as ann:
        refused = None
        started: Counter[int] = Counter()
        for number in range(31):
            asked = {"assistant_id": "standard_prompting", "input": {"claim": f"No {number}."}, "context": CONTEXT}
            refused = ann.post("/runs", json=asked)
            started[refused.status_code] += 1
        assert refused is not None
        assert (refused.status_code, refused.json()["kind"]) == (429, "quota")
        assert started[200] < 30  # earlier tests have started some of the 30 debates
    with service.client_of("bob") as bob:
        assert status(bob, begin(bob, "Bob goes on.", "standard_prompting")) in ("pending", "running", "success")
