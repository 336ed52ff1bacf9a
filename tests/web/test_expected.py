"""What debates are expected to take before they start: from earlier debates, or estimated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from moot.core.store import open_store
from moot.core.tables import documents
from moot.graphs import load_graph
from moot.graphs._registry import DESCRIPTIONS
from moot.nodes._models.equal_cost import FullCost
from moot.web import pages
from moot.web.expected import Expected, Span, estimated, estimated_calls, expected, of_earlier, size_of, together
from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.commands import moot
from tests.conftest import StartStub
from tests.frozen.record import read

PRICES: Any = {"openai:stub": {"input": 1.0, "output": 10.0}}
UNUSUAL = (
    *("mood/", "text_", "streamed_", "person_", "datamarking", "given_", "debate_", "task/"),
    *("quotes", "preset_thorough", "shelf_small", "agents_dead"),
)
"""Parts of the names of recorded runs whose replies are bad on purpose, or whose settings add calls."""


@pytest.fixture(autouse=True)
def _temporary_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("graph", DESCRIPTIONS)
def test_recorded_debates_take_as_many_calls_as_estimated(graph: str) -> None:
    counted = 0
    for name, run in read(graph).items():
        document = run["document"] or {}
        usual = document.get("status") == "done" and document["stop_reason"] != "budget_exhausted"
        if not usual or any(part in name for part in UNUSUAL):
            continue
        counted += 1
        found = estimated_calls(graph, document["settings"])
        assert found is not None
        assert found.least <= document["usage"]["calls"] <= found.most, name
    assert counted > 3


def test_the_range_is_that_of_earlier_debates() -> None:
    took = [FullCost(3000, 0.002, 10, 5.0), FullCost(9000, 0.006, 30, 9.0)]
    found = of_earlier(took)
    assert found.in_words() == (
        "Expected: 10 to 30 calls, 3,000 to 9,000 tokens and $0.0020 to $0.0060 (as the last 2 debates with these "
        "settings)."
    )
    assert found.times(100).usd == pytest.approx(Span(0.2, 0.6))
    assert found.times(100).within(None, 0.5, None).usd == pytest.approx(Span(0.2, 0.5))
    assert of_earlier([FullCost(None, None, 10, None)]).in_words() == (
        "Expected: 10 calls (as the last debate with these settings)."
    )
    both = together([found, Expected(Span(1, 1), None, None, 0, ("openai:m",))])
    assert (both.calls, both.tokens, both.earlier) == ((11, 31), None, 0)


def test_an_estimate_without_earlier_debates() -> None:
    settings = load_graph("standard_mad").settings(model="openai:stub", max_rounds=2)
    assert size_of(settings.model_dump()) == (2, 2)
    found = estimated("standard_mad", settings, PRICES)
    assert (found.calls, found.tokens) == ((5, 5), (1650, 11500))
    assert found.usd == pytest.approx(Span(5 * 600e-6, 5 * 5000e-6))
    assert estimated("standard_mad", settings, PRICES, given=30_000).tokens == (1650, 61_500)
    planned = load_graph("standard_mad").settings(model="openai:stub", max_rounds=2, plan=True)
    assert estimated("standard_mad", planned, PRICES).calls == (6, 6)
    thinker = load_graph("standard_mad").settings(model="openai:o4-mini", max_rounds=2)
    assert estimated("standard_mad", thinker, PRICES).tokens == (1650, 11_500 + 5 * 4096)
    assert estimated("a_package's", settings, PRICES).in_words() == ""
    unpriced = expected("standard_mad", settings, reads_store=False)
    assert unpriced.in_words().endswith("No price is known for openai:stub.")
    assert expected("standard_mad", load_graph("standard_mad").settings(model="fake:1")).in_words() == ""


def test_the_estimate_follows_the_settings() -> None:
    """Without scores, two debaters of Tool-MAD answer once at least; at most they search and answer in each round."""

    def calls(graph: str, **settings: Any) -> Span | None:
        return estimated_calls(graph, load_graph(graph).settings(model="openai:stub", **settings).model_dump())

    assert calls("tool_mad") == (8, 32)
    assert calls("tool_mad", scoring="consensus_only") == (2, 14)
    assert calls("tool_mad", scoring="all_rounds") == (7, 14)
    assert calls("tool_mad", preset="practical") == (2, 14 + 3)  # an assessment of each answer, and a summary
    assert calls("proclaim", procedure="lean") == (12, 72 + 6 * 10)


def test_verify_and_batch_say_the_expected_cost_before_the_first_call(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub()
    options = ("--model", "openai:stub", "--graph", "chain_of_thought")
    first, again = (moot("verify", f"The canal has {n} locks.", *options, "--json") for n in (1, 2))
    assert "moot: Expected: 1 to 2 calls and 330 to 4,600 tokens (estimated" in first.stderr
    assert first.stdout.startswith("{")
    assert "(as the last debate with these settings). No price is known for openai:stub." in again.stderr
    (tmp_path / "claims.csv").write_text("claim\n" + "\n".join(f"The tower has {n} steps." for n in range(3)))
    done = moot("batch", tmp_path / "claims.csv", "--out", tmp_path / "out", *options, "--max-calls", 2)
    assert "Expected for 3 debates: 2 calls" in done.stderr
    assert "(as the last 2 debates with these settings)." in done.stderr
    done = moot("batch", tmp_path / "claims.csv", "--out", tmp_path / "out", *options)
    assert "Expected:" in done.stderr
    assert "Expected" not in moot("batch", tmp_path / "claims.csv", "--out", tmp_path / "out", *options).stderr
    assert "Expected" not in moot("verify", "The canal has 1 locks.", *options, "--replies", "replay").stderr


def test_a_damaged_document_does_not_stop_a_new_debate(start_stub: StartStub) -> None:
    start_stub()
    options = ("--model", "openai:stub", "--graph", "chain_of_thought")
    moot("verify", "The canal has locks.", *options)
    open_store().do(lambda connection: connection.execute(sa.update(documents).values(content=b"damaged")))
    open_store().close()
    done = moot("verify", "The canal has gates.", *options)
    assert done.returncode == 0, done.stderr
    assert "(estimated" in done.stderr


def test_the_page_asks_the_server_for_the_expected_cost() -> None:
    with TestClient(Starlette(routes=pages.ROUTES)) as client:
        asked = {"graph": "standard_mad", "context": {"model": "openai:gpt-4o-mini", "max_cost": 0.0005}, "count": 20}
        words = client.post("/moot/api/expected", json=asked).json()["words"]
        assert words.startswith("Expected for 20 debates: 140 calls, 46,000 to 320,000 tokens and $0.0088 to $0.010")
        free = {**asked, "context": {"model": "fake:1"}}
        assert client.post("/moot/api/expected", json=free).json() == {"words": ""}
        unfit: list[Any] = [
            [],
            {"graph": 3},
            {**asked, "count": -1},
            {**asked, "context": [1]},
            {**asked, "graph": "none"},
        ]
        for wrong in unfit:
            assert client.post("/moot/api/expected", json=wrong).status_code in (400, 404, 422), wrong
