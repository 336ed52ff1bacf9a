"""Commands with OpenTelemetry's variables: the data that a local collector receives, the log, and refused values."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.commands import COMMAND, moot
from tests.conftest import StartStub, free_port
from tests.telemetry.receiver import receiving

MARKED = "MARKED: the platypus lays eggs."
VERIFY = ("verify", MARKED, "--graph", "society_of_minds", "--model", "openai:gpt-4o-mini", "--json")
JSON_LINES = {"LOG_JSON": "true", "LOG_LEVEL": "INFO"}


def json_lines(text: str) -> list[dict[str, Any]]:
    """The lines of a log that are JSON."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words], env=os.environ | environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_command_sends_telemetry_and_writes_a_log_without_the_claim(start_stub: StartStub) -> None:
    start_stub([{"status": 429, "retry_after": "0", "times": 1}])
    with receiving() as receiver:
        done = run(*VERIFY, **receiver.environment, **JSON_LINES, OTEL_SERVICE_NAME="newsroom")
    document = json.loads(done.stdout)
    calls = document["usage"]["calls"]
    names = [name for name, _ in receiver.spans]
    assert names.count("chat gpt-4o-mini") == calls == receiver.total("gen_ai.client.operation.duration")
    assert names.count("invoke_workflow society_of_minds") == 1
    assert receiver.total("moot.endpoint.refusals") == 1
    assert receiver.total("moot.debate.duration", moot__status="done") == 1
    assert {resource["service.name"] for resource in receiver.resources} == {"newsroom"}
    assert b"MARKED" not in receiver.raw
    started, ended = [line for line in json_lines(done.stderr) if line["logger"] == "moot.debates"]
    assert (started["event"], ended["event"]) == ("debate begun", "debate ended")
    assert started["debate"] == ended["debate"] == document["id"]
    assert (ended["status"], ended["calls"], ended["level"]) == ("done", calls, "info")
    assert "MARKED" not in done.stderr


def test_a_failed_debate_is_logged_as_a_warning(start_stub: StartStub) -> None:
    start_stub([{"status": 401}])
    done = run(*VERIFY, LOG_JSON="true", LOG_LEVEL="WARNING")
    [ended] = [line for line in json_lines(done.stderr) if line["logger"] == "moot.debates"]
    assert (ended["event"], ended["level"], ended["status"]) == ("debate ended", "warning", "failed")


def test_the_processes_of_a_batch_send_their_telemetry(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub()
    (tmp_path / "claims.csv").write_text("claim\n" + "".join(f"Claim number {n} is true.\n" for n in range(6)))
    words = ("batch", str(tmp_path / "claims.csv"), "--out", str(tmp_path / "out"), "--workers", "2")
    with receiving() as receiver:
        done = run(*words, "--graph", "standard_prompting", "--model", "openai:gpt-4o-mini", **receiver.environment)
    assert done.returncode == 0, done.stderr
    assert receiver.total("moot.debate.duration", moot__status="done") == 6
    assert len([name for name, _ in receiver.spans if name.startswith("chat")]) == 6
    assert {resource["service.name"] for resource in receiver.resources} == {"moot"}
    assert len({resource["service.instance.id"] for resource in receiver.resources}) >= 2


@contextmanager
def closed_port() -> Iterator[str]:
    """The address of a closed port."""
    yield f"http://127.0.0.1:{free_port()}"


@contextmanager
def silent_server() -> Iterator[str]:
    """The address of a server that accepts connections but never responds."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("collector", [closed_port, silent_server])
def test_a_debate_ends_although_the_collector_does_not_respond(start_stub: StartStub, collector: Any) -> None:
    start_stub()
    with collector() as address:
        done = run(*VERIFY, OTEL_EXPORTER_OTLP_ENDPOINT=address)
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "done")
    assert "Failed to export" in done.stderr or "some telemetry could not be sent" in done.stderr


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"OTEL_TRACES_EXPORTER": "jaeger"},
            "OTEL_TRACES_EXPORTER needs the exporter 'jaeger', which is not installed. Known values",
        ),
        ({"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "http/protobuf or grpc"),
        (
            {"OTEL_METRICS_EXPORTER": "console", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "EVENT_ONLY"},
            "moot writes no events",
        ),
        ({"LOG_JSON": "true", "LOG_LEVEL": "loud"}, "LOG_LEVEL is 'LOUD'"),
    ],
)
def test_unsupported_values_of_variables_are_refused(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = moot("graphs")
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_disabled_sdk_sends_no_telemetry(start_stub: StartStub) -> None:
    start_stub()
    with receiving() as receiver:
        done = run(*VERIFY, **receiver.environment, OTEL_SDK_DISABLED="true")
    assert done.returncode == 0
    assert receiver.raw == b""


WITHOUT_CONFIGURATION = """
import asyncio, sys
from moot.graphs.standard_prompting import graph
from moot.graphs import load_graph
settings = load_graph("standard_prompting").settings(model="openai:gpt-4o-mini")
print(asyncio.run(graph.ainvoke({"claim": "It is."}, context=settings))["status"])
ours = ("opentelemetry.exporter", "prometheus_client", "moot.core.telemetry", "moot.nodes._telemetry")
print(*sorted(name for name in sys.modules if name.startswith(ours)))
"""


def test_exporters_and_instruments_are_not_imported_without_configuration(start_stub: StartStub) -> None:
    start_stub()
    status, loaded = subprocess.check_output([sys.executable, "-c", WITHOUT_CONFIGURATION], text=True).splitlines()
    assert status == "done"
    # The SDK is not checked, because langsmith imports it.
    light = ["moot.core.telemetry", "moot.core.telemetry.switch"]
    assert loaded.split() == [*light, *(f"moot.nodes._telemetry{name}" for name in ("", ".logs", ".start"))]


PROGRAM_WITH_SPAN = """
import asyncio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from moot.graphs import load_graph
from moot.graphs.standard_prompting import graph

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

async def main():
    with trace.get_tracer("mine").start_as_current_span("mine"):
        settings = load_graph("standard_prompting").settings(model="openai:gpt-4o-mini")
        await graph.ainvoke({"claim": "It is."}, context=settings)

asyncio.run(main())
spans = {span.context.span_id: span for span in exporter.get_finished_spans()}
[call] = [span for span in spans.values() if span.name.startswith("chat")]
names = []
while call is not None:
    names.append(call.name)
    call = spans[call.parent.span_id] if call.parent else None
print(names)
"""


def test_a_debate_joins_the_trace_of_the_calling_program(start_stub: StartStub) -> None:
    start_stub()
    output = subprocess.check_output([sys.executable, "-c", PROGRAM_WITH_SPAN], text=True)
    assert output.strip() == str(["chat gpt-4o-mini", "answer", "invoke_workflow standard_prompting", "mine"])
