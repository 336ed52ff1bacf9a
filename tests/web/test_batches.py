"""Batches on the server. Each claim has a row and a debate, and no claim is lost if the server stops.

After a stop, only calls that were in flight are repeated.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4
from zipfile import ZipFile

import pytest
from langgraph_sdk import get_client
from moot.core.batch_runner import Progress
from moot.web.batches import storage
from moot.web.batches.running import Batches, RunningBatch
from moot.web.batches.view import COLUMNS, remaining_time
from python_calamine import CalamineWorkbook

from tests.conftest import StubEndpoint, free_port, running_stub, says
from tests.serving import Server
from tests.web.documents import contents, set_content
from tests.web.test_table import SETTINGS, second_folder, serving, wait_for_result

ROUTE = "/moot/api/batches"
GRAPH = "standard_prompting"
RULES = [says("rag", "SUPPORTS"), says("search", "REFUTES"), says("judge", "SUPPORTS")]
QUICK = SETTINGS | {"max_rounds": 1}


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StubEndpoint]:
    with running_stub(tmp_path_factory.mktemp("models") / "stub", RULES, latency_ms=60) as stub:
        yield stub


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory, stub: StubEndpoint) -> Iterator[Server]:
    """One server for all tests that do not stop it. Its Wikipedia is a closed port."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WIKIPEDIA_BASE_URL", f"http://127.0.0.1:{free_port()}")
        with serving(tmp_path_factory.mktemp("one"), stub) as server:
            yield server


def batches(server: Server) -> dict[str, dict[str, Any]]:
    """The listed batches, by their ids."""
    return {batch["id"]: batch for batch in server.json(ROUTE)["batches"]}


def batch_of(claims: list[Any], **more: Any) -> dict[str, Any]:
    """The body of a request that starts a batch. Each claim is a text or a row."""
    rows = [one if isinstance(one, dict) else {"claim": one} for one in claims]
    asked = {"id": str(uuid4()), "name": "claims.csv", "graph": "tool_mad", "input": {}, "context": QUICK}
    return asked | {"claims": rows} | more


def start_batch(server: Server, asked: dict[str, Any]) -> str:
    """Start a batch; return its id."""
    return str(server.json(ROUTE, asked)["id"])


def batch_state(server: Server, id: str, **asked: str) -> dict[str, Any]:
    """The state of a batch, with the rows that the query ``asked`` selects."""
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    found: dict[str, Any] = server.json(f"{ROUTE}/{id}?{query}")
    return found


def wait_for_batch(server: Server, id: str) -> dict[str, Any]:
    """Wait until a batch has ended; return its state."""
    found: dict[str, Any] = wait_for_result(
        lambda: (one := batch_state(server, id))["ended"] and not one["going"] and one
    )
    return found


def test_a_batch_has_rows_a_table_and_reports_until_it_is_deleted(shared_server: Server) -> None:
    rows = [
        {"claim": "One.", "id": "a", "label": "SUPPORTS", "speaker": "Ada", "date": "2020-10"},
        {"claim": "=Two.", "settings": {"max_rounds": 2}},
        {"claim": "Three.", "graph": "standard_prompting", "settings": {"models": {}}},
    ]
    asked = batch_of(rows, at_once=2)
    id = start_batch(shared_server, asked)
    assert start_batch(shared_server, asked) == id  # the second request starts no second batch
    found = wait_for_batch(shared_server, id)
    assert [row["status"] for row in found["rows"]] == ["done"] * 3
    assert [row["divided"] for row in found["rows"]] == [True, True, False]
    assert (found["counts"]["all"], found["counts"]["divided"]) == (3, 2)
    assert [row["number"] for row in batch_state(shared_server, id, show="divided", q="two")["rows"]] == [2]
    first, second, third = (shared_server.json(f"/moot/api/debates/{row['document']}") for row in found["rows"])
    assert (first["document"]["task"]["speaker"], first["document"]["task"]["claim_date"]) == ("Ada", "2020-10")
    assert (second["document"]["rounds"], third["document"]["graph"]) == (2, "standard_prompting")
    assert third["document"]["settings"]["model"] == "openai:stub"
    lines = list(csv.DictReader(io.StringIO(shared_server.send(f"{ROUTE}/{id}/csv").decode("utf-8-sig"))))
    assert tuple(lines[0]) == COLUMNS
    assert [line["claim"] for line in lines] == ["One.", "'=Two.", "Three."]
    assert [line["answer"] for line in lines[:2]] == [first["document"]["answer"], second["document"]["answer"]]
    assert (lines[0]["label"], lines[0]["disagreement"], lines[0]["status"]) == ("SUPPORTS", "yes", "done")
    assert all(line["votes"] for line in lines[:2])
    assert not any(line["confidence"] for line in lines)
    assert lines[0]["report"] == f"{shared_server.url}/moot/debates/{found['rows'][0]['document']}"
    with ZipFile(io.BytesIO(shared_server.send(f"{ROUTE}/{id}/zip"))) as archive:
        assert archive.namelist() == ["table.csv", "table.xlsx", "1.html", "2.html", "3.html"]
        assert "One." in archive.read("1.html").decode()
    home, damaged = shared_server.folder / "home", found["rows"][1]["document"]
    content = json.dumps(contents(home)[damaged]).encode()
    set_content(home, damaged, content[:-100])
    with ZipFile(io.BytesIO(shared_server.send(f"{ROUTE}/{id}/zip"))) as archive:
        assert archive.namelist() == ["table.csv", "table.xlsx", "1.html", "2.txt", "3.html"]
        assert archive.read("2.txt").startswith(b"No report: ")
    set_content(home, damaged, content)
    assert batches(shared_server)[id]["statuses"] == {"done": 3}
    shared_server.send(f"{ROUTE}/{id}", method="DELETE")
    assert id not in batches(shared_server)
    for row in found["rows"]:  # the debates are kept
        assert shared_server.json(f"/moot/api/debates/{row['document']}")["document"]["status"] == "done"


def test_a_list_with_its_own_columns_and_a_repeated_claim_comes_back(shared_server: Server) -> None:
    """The repeated claim has the first one's debate; one with another speaker has its own."""
    columns = [["Nr", "Nr"], ["Behauptung", "claim"], ["usd", "usd"]]
    rows = [
        {"claim": "Edited.", "speaker": "Ada", "written": ["7", "As it was.", "=1"]},
        {"claim": "Edited", "speaker": "Ada", "written": ["8", "Edited"]},
        {"claim": "Edited.", "speaker": "Bob"},
    ]
    asked = batch_of(rows, graph=GRAPH, context={"model": "openai:stub"}, columns=columns)
    id = start_batch(shared_server, asked)
    found = wait_for_batch(shared_server, id)
    assert [row["same_as"] for row in found["rows"]] == [None, 1, None]
    documents = [row["document"] for row in found["rows"]]
    assert documents[0] == documents[1] != documents[2]
    assert all(row["why"] for row in found["rows"])
    lines = list(csv.DictReader(io.StringIO(shared_server.send(f"{ROUTE}/{id}/csv").decode("utf-8-sig"))))
    assert [*lines[0]][:6] == ["Nr", "Behauptung", "usd", "row", "id", "speaker"]
    assert [[*line.values()][:3] for line in lines] == [
        ["7", "Edited.", "'=1"],
        ["8", "Edited", ""],
        ["", "Edited.", ""],
    ]
    assert [line["same_as_row"] for line in lines] == ["", "1", ""]
    assert "moot_usd" in lines[0]
    book = CalamineWorkbook.from_object(io.BytesIO(shared_server.send(f"{ROUTE}/{id}/xlsx")))
    assert [row[1] for row in book.get_sheet_by_index(0).to_python()] == ["Behauptung", "Edited.", "Edited", "Edited."]
    with ZipFile(io.BytesIO(shared_server.send(f"{ROUTE}/{id}/zip"))) as archive:
        assert archive.namelist() == ["table.csv", "table.xlsx", "1.html", "3.html"]


def test_debates_of_a_list_are_one_entry_and_are_selected_by_state_and_site(shared_server: Server) -> None:
    route = "/moot/api/debates"
    page = {"appeared_at": "https://www.news.example/story"}
    claims = [{"claim": f"Listed number {number}.", **(page if number < 2 else {})} for number in range(7)]
    id = start_batch(shared_server, batch_of(claims, graph=GRAPH, context={"model": "openai:stub"}, name="mine.csv"))
    wait_for_batch(shared_server, id)
    [entry] = shared_server.json(f"{route}?q=Listed")["debates"]
    assert entry["list"] == {"id": id, "name": "mine.csv", "has_page": True}
    assert (entry["count"], len(entry["entries"])) == (7, 5)
    assert len(shared_server.json(f"{route}?list={id}")["debates"]) == 7
    [entry] = shared_server.json(f"{route}?q=Listed&site=news.example&state=done")["debates"]
    assert {one["claim"] for one in entry["entries"]} == {"Listed number 0.", "Listed number 1."}
    assert shared_server.json(f"{route}?list={id}&state=failed")["debates"] == []
    assert shared_server.refused(f"{route}?state=nosuch")[0] == 422


@pytest.mark.parametrize(
    ("ended", "running", "left", "seconds", "words"),
    [
        (1, 1, 1, 20, "under a minute left"),  # 1.5 rows were done in 20 s, and 1.5 are left
        (1, 2, 2, 100, "about 2 min left"),
        (1, 1, 99, 90, "about 1 h 40 min left"),
        (0, 1, 1, 100, ""),
        (2, 0, 0, 100, ""),
    ],
)
def test_the_time_for_the_remaining_rows_is_estimated(
    monkeypatch: pytest.MonkeyPatch, ended: int, running: int, left: int, seconds: float, words: str
) -> None:
    """There is no estimate if no row has ended, or if no row is left."""
    progress = Progress(10)
    for _ in range(ended):
        progress.note({"status": "done"})
    monkeypatch.setattr("time.monotonic", lambda: progress.started + seconds)
    batch: Any = SimpleNamespace(active=range(running), left=range(left), progress=progress)
    assert remaining_time(batch) == words


def test_a_batch_continues_after_a_restart(tmp_path: Path, stub: StubEndpoint) -> None:
    """The first server is killed during a batch, and a second server finishes the batch.

    The second server is stopped during another batch, and a third server finishes that batch.
    """
    claims = [f"Claim {number}." for number in range(6)]
    with serving(tmp_path, stub) as server:
        first = len(stub.calls())
        wait_for_batch(server, start_batch(server, batch_of([f"{claim} Undisturbed." for claim in claims])))
        calls_of_batch = len(stub.calls()) - first
        stopped = stop_in_batch(server, stub, claims, signal.SIGKILL)
    with serving(tmp_path, stub) as server:
        check_continued(server, stub, stopped, calls_of_batch)
        stopped = stop_in_batch(server, stub, [f"{claim} Again." for claim in claims], signal.SIGTERM)
    with serving(tmp_path, stub) as server:
        check_continued(server, stub, stopped, calls_of_batch)


def stop_in_batch(server: Server, stub: StubEndpoint, claims: list[str], by: signal.Signals) -> tuple[str, int]:
    """Start a batch, and stop the server with the signal ``by`` when at least two claims are done.

    Return the batch's id, and the number of calls before the batch.
    """
    before = len(stub.calls())
    id = start_batch(server, batch_of(claims, at_once=3))
    wait_for_result(lambda: batch_state(server, id)["statuses"].get("done", 0) >= 2)
    server.process.send_signal(by)
    server.process.wait(30)
    return id, before


def check_continued(server: Server, stub: StubEndpoint, stopped: tuple[str, int], calls_of_batch: int) -> None:
    """Check that a stopped batch ends with all claims done, and repeats at most the calls in flight."""
    id, before = stopped
    assert wait_for_batch(server, id)["statuses"] == {"done": 6}
    # At most six calls were in flight, because three claims ran with two debaters each.
    assert len(stub.calls()) - before <= calls_of_batch + 3 * 2


def test_a_stopped_batch_makes_no_calls_until_it_is_resumed(shared_server: Server, stub: StubEndpoint) -> None:
    """A batch cannot be deleted while it runs."""
    id = start_batch(shared_server, batch_of([f"Claim {number}." for number in range(8)], at_once=2))
    wait_for_result(lambda: batch_state(shared_server, id)["statuses"].get("done"))
    assert shared_server.refused(f"{ROUTE}/{id}", method="DELETE")[0] == 422
    shared_server.json(f"{ROUTE}/{id}/stop", {})
    found = batch_state(shared_server, id)
    assert (found["going"], found["stopped"]) == (False, "It was stopped.")
    assert {"done", "none"} <= set(found["statuses"]) <= {"done", "none", "interrupted"}
    paid = len(stub.calls())
    assert found == batch_state(shared_server, id)
    assert len(stub.calls()) == paid
    shared_server.json(f"{ROUTE}/{id}/go-on", {})
    assert wait_for_batch(shared_server, id)["statuses"] == {"done": 8}


def test_an_error_that_affects_all_claims_stops_the_batch(shared_server: Server) -> None:
    context = {"model": "nobody:some-model"}
    claims = [f"Claim {number}." for number in range(5)]
    id = start_batch(shared_server, batch_of(claims, graph="standard_prompting", context=context, at_once=1))
    found = wait_for_result(lambda: (now := batch_state(shared_server, id))["stopped"] and not now["going"] and now)
    assert "The provider 'nobody'" in found["stopped"]
    assert found["statuses"] == {"failed": 1, "none": 4}
    assert "The provider 'nobody'" in found["rows"][0]["error"]
    shared_server.json(f"{ROUTE}/{id}/go-on", {"rows": [1]})
    wait_for_result(lambda: (now := batch_state(shared_server, id))["stopped"] and not now["going"])


def test_three_source_outages_in_succession_stop_the_batch(shared_server: Server) -> None:
    claims: list[Any] = [f"Claim {number}." for number in range(6)]
    context = {"model": "openai:stub", "sources": ["wikipedia"], "attempts": 1}
    id = start_batch(shared_server, batch_of(claims, graph="rag", context=context, at_once=1))
    found = wait_for_result(lambda: (now := batch_state(shared_server, id))["stopped"] and not now["going"] and now)
    assert found["stopped"].startswith("The sources of 3 claims in succession could not be searched. No evidence: ")
    assert "Wikipedia could not be reached" in found["stopped"]
    assert found["statuses"] == {"failed": 3, "none": 3}
    assert [(row["chip"], bool(row["error"])) for row in found["rows"]] == [(None, True)] * 3 + [(None, False)] * 3
    working = {"sources": ["bm25:demo-news"]}
    closed_book = {"graph": "chain_of_thought", "settings": {"model": "openai:stub"}}
    rows = [{"claim": claim, **extra} for claim in claims for extra in ({}, closed_book)]
    id = start_batch(shared_server, batch_of(rows, graph="rag", context=context, at_once=1))
    found = wait_for_result(lambda: (now := batch_state(shared_server, id))["stopped"] and not now["going"] and now)
    assert found["statuses"] == {"failed": 3, "done": 2, "none": 7}
    rows = [{"claim": "Zwxq vrklth qqpf."}, {"claim": "The Moon.", "settings": working}]
    id = start_batch(shared_server, batch_of(rows, graph="rag", context={**context, **working}))
    words = [row["chip"][1] for row in wait_for_batch(shared_server, id)["rows"]]
    assert [word.endswith("(nothing found)") for word in words] == [True, False]


def test_a_batch_with_max_cost_refuses_models_without_a_price(shared_server: Server, stub: StubEndpoint) -> None:
    before = len(stub.calls())
    found = wait_for_batch(shared_server, start_batch(shared_server, batch_of(["One unpriced."], max_cost=5)))
    assert ([row["status"] for row in found["rows"]], len(stub.calls())) == (["failed"], before)
    assert "No price is known for openai:stub" in found["rows"][0]["error"]


def test_all_debates_of_a_batch_share_its_ceiling(
    tmp_path: Path, stub: StubEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call is reserved before it is made, so debates at once do not exceed the ceiling either."""
    prices = tmp_path / "prices.jsonl"
    prices.write_text(json.dumps({"model": "openai:stub", "input": 1000, "output": 1000}))
    monkeypatch.setenv("MOOT_PRICES", str(prices))
    context = {"model": "openai:stub", "max_tokens": 100}
    with serving(tmp_path, stub) as server:
        one = wait_for_batch(server, start_batch(server, batch_of(["A first claim."], graph=GRAPH, context=context)))
        most = round(3.5 * one["usd"], 2)
        asked = batch_of([f"Claim {number}." for number in range(9)], graph=GRAPH, context=context, max_cost=most)
        id = start_batch(server, asked | {"at_once": 9})
        found = wait_for_result(lambda: (now := batch_state(server, id))["stopped"] and not now["going"] and now)
        assert found["stopped"].startswith(f"The limit of ${most:,.2f} for all claims is reached. To check the rest, ")
        assert 0 < found["usd"] <= most
        server.json(f"{ROUTE}/{id}/go-on", {})
        again = wait_for_result(lambda: (now := batch_state(server, id)) and not now["going"] and now)
        assert again["usd"] <= most


def test_a_batch_runs_on_only_one_of_two_servers_with_the_same_home(shared_server: Server, stub: StubEndpoint) -> None:
    with serving(second_folder(shared_server.folder), stub) as other:
        before = len(stub.calls())
        id = start_batch(shared_server, batch_of([f"Shared {number}." for number in range(4)], at_once=2))
        status, message = other.refused(f"{ROUTE}/{id}/go-on", {})
        assert (status, message["kind"]) == (422, "debate_running")
        assert batch_state(other, id)["going"] is False
        assert wait_for_batch(shared_server, id)["statuses"] == {"done": 4}
        assert batch_state(other, id)["statuses"] == {"done": 4}
        other.json(f"{ROUTE}/{id}/go-on", {})
        paid = len(stub.calls())
        assert wait_for_batch(other, id)["statuses"] == {"done": 4}
        assert len(stub.calls()) == paid > before


async def test_two_requests_that_resume_a_batch_at_the_same_time_start_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(running: RunningBatch) -> None:
        begun.append(running)
        await asyncio.Event().wait()

    begun: list[RunningBatch] = []
    monkeypatch.setattr(RunningBatch, "work", work)
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    batch, running, client = storage.parse_batch(batch_of([])), Batches(), get_client(url="http://127.0.0.1:9")
    storage.store_new_batch(batch, [{"claim": "One."}])
    await asyncio.gather(running.start(batch, client), running.start(batch, client))
    await running.close()
    assert len(begun) == 1


def test_invalid_batches_and_unknown_ids_are_refused(shared_server: Server) -> None:
    before = batches(shared_server)
    refused: list[tuple[Any, str]] = [
        ({}, "The body must have this form"),
        (batch_of([]), "1 to 5,000 claims"),
        (batch_of(["One.", {"claim": " "}]), "Claim 2"),
        (batch_of(["One.", {"claim": "Two.", "settings": {"colour": 1}}]), "colour"),
        (batch_of(["One."], context={"max_rounds": 0}), "max_rounds"),
        (batch_of(["One."], id="../../x"), "`id` is a UUID"),
        (batch_of(["One."], at_once=0), "at_once"),
        (batch_of(["One."], max_cost=-1), "max_cost"),
        (batch_of(["One."], max_cost=0), "max_cost"),
    ]
    for body, message in refused:
        status, answer = shared_server.refused(ROUTE, body)
        assert (status, message in answer["detail"]) == (422, True), answer
    assert batches(shared_server) == before
    assert shared_server.refused(f"{ROUTE}/{uuid4()}")[0] == 404
