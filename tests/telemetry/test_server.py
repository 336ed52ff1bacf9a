"""Telemetry of a real server: the contents of ``/metrics``, who may read them, the server's spans, and its log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moot.web.serve import server_config

from tests.commands import COMMAND
from tests.conftest import free_port, running_stub
from tests.serving import DEV, QUIET, Server, running
from tests.telemetry.receiver import Receiver, receiving
from tests.telemetry.test_commands import HIDING, SPANS
from tests.web.test_auth import ADA, HOOK

TOKEN, METRICS_TOKEN = "correct-horse-battery-staple", "prometheus-battery-staple"
BEARER, SCRAPER = {"authorization": f"Bearer {TOKEN}"}, {"authorization": f"Bearer {METRICS_TOKEN}"}
MARKED = "MARKED: the platypus lays eggs."
RUN: dict[str, Any] = {
    "assistant_id": "standard_prompting",
    "input": {"claim": MARKED},
    "context": {"model": "openai:gpt-4o-mini"},
}


def serving(folder: Path, **environment: str) -> Iterator[Server]:
    """Run ``moot serve`` with an endpoint that refuses the first request."""
    port = free_port()
    with running_stub(folder / "stub", [{"status": 429, "retry_after": "0", "times": 1}]) as stub:
        yield from running([*COMMAND[1:], "serve", "--port", str(port)], folder, port, stub, **environment)


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Server]:
    """A server with one token for users and another for metrics. It sends spans without texts, and logs JSON lines."""
    folder = tmp_path_factory.mktemp("locked")
    sent = {"LOG_JSON": "true", "LOG_LEVEL": "INFO", "OTEL_BSP_SCHEDULE_DELAY": "100"} | receiver.environment
    yield from serving(folder, MOOT_TOKEN=TOKEN, MOOT_METRICS_TOKEN=METRICS_TOKEN, **sent, **SPANS, **HIDING)


def sum_of_samples(text: str, name: str, *labels: str) -> float:
    """The sum of a metric's samples with all these labels; fails if there are none."""
    lines = [re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line) for line in text.splitlines() if not line.startswith("#")]
    found = [line for line in lines if line and line[1] == name and all(label in (line[2] or "") for label in labels)]
    assert found, f"{name} is not shown with {labels}"
    return sum(float(line[3]) for line in found)


def test_metrics_count_debates_calls_and_refusals(locked: Server) -> None:
    document = json.loads(locked.send("/runs/wait", RUN, BEARER))
    assert document["status"] == "done"
    text = locked.send("/metrics", headers=SCRAPER).decode()
    model = 'gen_ai_request_model="openai:gpt-4o-mini"'
    tokens = sum_of_samples(text, "moot_tokens_total", model, 'gen_ai_token_type="input"')
    assert tokens == document["usage"]["prompt_tokens"]
    assert sum_of_samples(text, "moot_cost_usd_total", model) > 0
    assert sum_of_samples(text, "moot_refusals_total", 'error_type="rate_limited"') == 1
    assert sum_of_samples(text, "moot_debates_total", 'moot_status="done"') == 1
    assert sum_of_samples(text, "moot_queue_length", 'moot_queue="page"') == 0
    assert sum_of_samples(text, "lg_api_workers_max") == 10  # one of LangGraph's metrics
    assert "MARKED" not in text
    assert text.count("# TYPE target_info") == 1


def test_the_log_contains_the_id_of_a_debate_but_not_its_claim(locked: Server) -> None:
    document = json.loads(locked.send("/runs/wait", RUN, BEARER))
    locked.send("/moot/api/debates?q=MARKED", headers=BEARER)
    lines = [json.loads(line) for line in locked.log().splitlines() if line.startswith("{")]
    ours = [line for line in lines if line.get("debate") == document["id"]]
    assert [line["event"] for line in ours] == ["debate begun", "debate ended"]
    assert ours[1]["thread_id"] == ours[0]["thread_id"]
    assert (ours[1]["status"], ours[1]["calls"]) == ("done", 1)
    assert "MARKED" not in locked.log()


def test_metrics_need_a_token(locked: Server) -> None:
    for headers in ({}, {"authorization": "Bearer another-token-altogether"}):
        assert locked.refused("/metrics", headers=headers)[0] == 401
        assert locked.refused("/metrics?format=json", headers=headers)[0] == 401
    assert locked.send("/metrics", headers=BEARER)
    assert "queue" in json.loads(locked.send("/metrics?format=json", headers=SCRAPER))


def test_the_metrics_token_opens_no_other_route(locked: Server) -> None:
    for path in ("/threads/search", "/runs/wait", "/mcp"):
        assert locked.refused(path, {}, SCRAPER)[0] == 401, path
    for path in ("/moot", "/moot/api/debates", "/metrics/", "/docs"):
        assert locked.refused(path, headers=SCRAPER)[0] == 401, path


def test_metrics_are_not_shown_to_other_websites(locked: Server) -> None:
    for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert locked.refused("/metrics", headers=SCRAPER | headers)[0] == 403


def test_users_of_a_server_with_an_auth_hook_cannot_read_metrics(tmp_path: Path) -> None:
    """Only ``MOOT_METRICS_TOKEN`` gives access. As this variable is empty, the refusal names it."""
    (tmp_path / "hook.py").write_text(HOOK)
    config = server_config() | {"dependencies": ["."], "auth": {"path": "./hook.py:auth", "disable_studio_auth": True}}
    config["http"] |= {"enable_custom_route_auth": True}
    (tmp_path / "langgraph.json").write_text(json.dumps(config))
    port = free_port()
    with running_stub(tmp_path / "stub", []) as stub:
        for server in running([*DEV, "--port", str(port)], tmp_path, port, stub, **QUIET, MOOT_METRICS_TOKEN=""):
            for headers in ({}, ADA):
                status, body = server.refused("/metrics", headers=headers)
                assert (status, "MOOT_METRICS_TOKEN" in body["detail"]) == (403, True), body


def test_a_server_sends_spans_without_the_claim_and_shows_metrics(locked: Server, receiver: Receiver) -> None:
    locked.send("/moot/api/debates?q=MARKED", headers=BEARER)
    locked.send("/runs/wait", RUN, BEARER)
    receiver.wait_for(lambda: any(name == "agent-1: answer, round 1" for name, _ in receiver.spans))
    assert b"moot_debates_total" in locked.send("/metrics", headers=SCRAPER)
    assert b"platypus" not in receiver.raw
    assert b"MARKED" not in receiver.raw


def test_the_metrics_of_moot_can_be_switched_off(tmp_path: Path) -> None:
    """LangGraph's metrics remain."""
    for server in serving(tmp_path, OTEL_METRICS_EXPORTER="none"):
        server.send("/runs/wait", RUN)
        text = server.send("/metrics").decode()
        assert "lg_api_workers_max" in text
        assert "gen_ai" not in text
        assert "moot_" not in text
