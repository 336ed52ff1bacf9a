"""Batches on the server: each claim is a debate of its table, none is paid for twice, and none is lost."""

from __future__ import annotations

import csv
import io
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4
from zipfile import ZipFile

import pytest
from moot.web.batches.view import COLUMNS, remaining_time

from tests.conftest import StubEndpoint, running_stub, says
from tests.serving import Server
from tests.web.test_table import SETTINGS, elsewhere, eventually, serving

ROUTE = "/moot/api/batches"
RULES = [says("rag", "SUPPORTS"), says("search", "REFUTES"), says("judge", "SUPPORTS")]
QUICK = SETTINGS | {"max_rounds": 1}


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StubEndpoint]:
    with running_stub(tmp_path_factory.mktemp("models") / "stub", RULES, latency_ms=60) as stub:
        yield stub


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory, stub: StubEndpoint) -> Iterator[Server]:
    """One server for all tests that stop none; each looks at its own batches only."""
    with serving(tmp_path_factory.mktemp("one"), stub) as server:
        yield server


def batches(server: Server) -> dict[str, dict[str, Any]]:
    """The batches that are listed, by their ids."""
    return {batch["id"]: batch for batch in server.json(ROUTE)["batches"]}


def batch_of(claims: list[Any], **more: Any) -> dict[str, Any]:
    rows = [one if isinstance(one, dict) else {"claim": one} for one in claims]
    asked = {"id": str(uuid4()), "name": "claims.csv", "graph": "tool_mad", "input": {}, "context": QUICK}
    return asked | {"claims": rows} | more


def begun(server: Server, asked: dict[str, Any]) -> str:
    return str(server.json(ROUTE, asked)["id"])


def shown(server: Server, id: str, **asked: str) -> dict[str, Any]:
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    found: dict[str, Any] = server.json(f"{ROUTE}/{id}?{query}")
    return found


def ended(server: Server, id: str) -> dict[str, Any]:
    found: dict[str, Any] = eventually(lambda: (one := shown(server, id))["ended"] and not one["going"] and one)
    return found


def test_a_batch_from_its_start_to_its_table(one: Server) -> None:
    rows = [
        {"claim": "One.", "id": "a", "label": "SUPPORTS", "speaker": "Ada", "date": "2020-10"},
        {"claim": "=Two.", "settings": {"max_rounds": 2}},
        {"claim": "Three.", "graph": "standard_prompting", "settings": {"models": {}}},
    ]
    asked = batch_of(rows, at_once=2)
    id = begun(one, asked)
    assert begun(one, asked) == id  # a double click
    found = ended(one, id)
    assert [row["status"] for row in found["rows"]] == ["done"] * 3
    assert [row["divided"] for row in found["rows"]] == [True, True, False]
    assert (found["counts"]["all"], found["counts"]["divided"]) == (3, 2)
    assert [row["number"] for row in shown(one, id, show="divided", q="two")["rows"]] == [2]
    first, second, third = (one.json(f"/moot/api/debates/{row['document']}") for row in found["rows"])
    assert (first["document"]["task"]["speaker"], first["document"]["task"]["claim_date"]) == ("Ada", "2020-10")
    assert (second["document"]["rounds"], third["document"]["graph"]) == (2, "standard_prompting")
    assert third["document"]["settings"]["model"] == "openai:stub"
    lines = list(csv.DictReader(io.StringIO(one.send(f"{ROUTE}/{id}/csv").decode("utf-8-sig"))))
    assert tuple(lines[0]) == COLUMNS
    assert [line["claim"] for line in lines] == ["One.", "'=Two.", "Three."]
    assert [line["answer"] for line in lines[:2]] == [first["document"]["answer"], second["document"]["answer"]]
    assert (lines[0]["label"], lines[0]["disagreement"], lines[0]["status"]) == ("SUPPORTS", "yes", "done")
    backed = [line["confidence_rests_on"].endswith("; not calibrated") for line in lines]
    assert backed == [bool(line["confidence"]) for line in lines]
    assert lines[0]["confidence"]
    assert lines[0]["report"] == f"{one.url}/moot/debates/{found['rows'][0]['document']}"
    with ZipFile(io.BytesIO(one.send(f"{ROUTE}/{id}/zip"))) as archive:
        assert archive.namelist() == ["table.csv", "1.html", "2.html", "3.html"]
        assert "One." in archive.read("1.html").decode()
    assert batches(one)[id]["statuses"] == {"done": 3}
    one.send(f"{ROUTE}/{id}", method="DELETE")
    assert id not in batches(one)
    for row in found["rows"]:  # the debates are kept
        assert one.json(f"/moot/api/debates/{row['document']}")["document"]["status"] == "done"


@pytest.mark.parametrize(
    ("statuses", "seconds", "said"),
    [
        (["done", "running", "next"], 20, "under a minute left"),
        (["done", "running", "running", "next", "next"], 100, "about 2 min left"),
        (["done", "running", *["next"] * 99], 120, "about 1 h 40 min left"),
        (["running", "next"], 100, ""),
        (["done", "failed"], 100, ""),
    ],
)
def test_the_estimated_time_of_the_remaining_rows(statuses: list[str], seconds: float, said: str) -> None:
    entries = [{"status": one, "seconds": seconds if one == "done" else None} for one in statuses]
    batch: Any = SimpleNamespace(at_once=2)
    assert remaining_time(batch, entries) == said


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_batch_continues_after_a_restart(tmp_path: Path, stub: StubEndpoint, how: signal.Signals) -> None:
    claims = [f"Claim {number}, {how.name}." for number in range(6)]
    with serving(tmp_path, stub) as server:
        first = len(stub.calls())
        undisturbed = begun(server, batch_of([f"{claim} Undisturbed." for claim in claims]))
        ended(server, undisturbed)
        a_batch = len(stub.calls()) - first
        before = len(stub.calls())
        id = begun(server, batch_of(claims, at_once=3))
        eventually(lambda: shown(server, id)["statuses"].get("done", 0) >= 2)
        server.process.send_signal(how)
        server.process.wait(30)
    with serving(tmp_path, stub) as server:
        found = ended(server, id)
        assert found["statuses"] == {"done": 6}
        assert len(stub.calls()) - before <= a_batch + 3 * 2  # the calls in flight are paid for again, and no others


def test_a_batch_is_stopped_resumed_and_retried(one: Server, stub: StubEndpoint) -> None:
    id = begun(one, batch_of([f"Claim {number}." for number in range(8)], at_once=2))
    eventually(lambda: shown(one, id)["statuses"].get("done"))
    assert one.refused(f"{ROUTE}/{id}", method="DELETE")[0] == 422
    one.json(f"{ROUTE}/{id}/stop", {})
    found = shown(one, id)
    assert (found["going"], found["stopped"]) == (False, "It was stopped.")
    assert {"done", "none"} <= set(found["statuses"]) <= {"done", "none", "interrupted"}
    paid = len(stub.calls())
    assert found == shown(one, id)
    assert len(stub.calls()) == paid
    one.json(f"{ROUTE}/{id}/go-on", {})
    assert ended(one, id)["statuses"] == {"done": 8}


def test_an_error_that_all_rows_would_have_stops_the_batch(one: Server) -> None:
    context = {"model": "nobody:some-model"}
    claims = [f"Claim {number}." for number in range(5)]
    id = begun(one, batch_of(claims, graph="standard_prompting", context=context, at_once=1))
    found = eventually(lambda: (now := shown(one, id))["stopped"] and not now["going"] and now)
    assert "The provider 'nobody'" in found["stopped"]
    assert found["statuses"] == {"failed": 1, "none": 4}
    assert "The provider 'nobody'" in found["rows"][0]["error"]
    one.json(f"{ROUTE}/{id}/go-on", {"rows": [1]})
    eventually(lambda: (now := shown(one, id))["stopped"] and not now["going"])


def test_a_batch_runs_on_one_of_two_servers_with_the_same_home(one: Server, stub: StubEndpoint) -> None:
    with serving(elsewhere(one.folder), stub) as other:
        before = len(stub.calls())
        id = begun(one, batch_of([f"Shared {number}." for number in range(4)], at_once=2))
        status, said = other.refused(f"{ROUTE}/{id}/go-on", {})
        assert (status, said["kind"]) == (422, "debate_running")
        assert shown(other, id)["going"] is False
        assert ended(one, id)["statuses"] == {"done": 4}
        assert shown(other, id)["statuses"] == {"done": 4}
        other.json(f"{ROUTE}/{id}/go-on", {})
        paid = len(stub.calls())
        assert ended(other, id)["statuses"] == {"done": 4}
        assert len(stub.calls()) == paid > before


def test_invalid_batches_are_refused(one: Server) -> None:
    before = batches(one)
    refused: list[tuple[Any, str]] = [
        ({}, "The body is"),
        (batch_of([]), "1 to 5,000 claims"),
        (batch_of(["One.", {"claim": " "}]), "Claim 2"),
        (batch_of(["One.", {"claim": "Two.", "settings": {"colour": 1}}]), "colour"),
        (batch_of(["One."], context={"max_rounds": 0}), "max_rounds"),
        (batch_of(["One."], id="../../x"), "`id` is a UUID"),
        (batch_of(["One."], at_once=0), "at_once"),
        (batch_of(["One."], max_cost=-1), "max_cost"),
    ]
    for body, said in refused:
        status, answer = one.refused(ROUTE, body)
        assert (status, said in answer["detail"]) == (422, True), answer
    assert batches(one) == before
    assert one.refused(f"{ROUTE}/{uuid4()}")[0] == 404
