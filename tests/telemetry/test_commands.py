"""Commands with OpenTelemetry's variables: the data that a local collector receives, the log, and refused values."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.collector import collecting
from tests.commands import COMMAND, moot, moot_process
from tests.conftest import StartStub
from tests.telemetry.receiver import receiving

MARKED = "MARKED: the platypus lays eggs."
VERIFY = ("verify", MARKED, "--graph", "society_of_minds", "--model", "openai:gpt-4o-mini", "--json")
JSON_LINES = {"LOG_JSON": "true", "LOG_LEVEL": "INFO"}
HIDING = dict.fromkeys(("LANGSMITH_HIDE_INPUTS", "LANGSMITH_HIDE_OUTPUTS"), "true")
SPANS = {"LANGSMITH_TRACING": "true", "LANGCHAIN_TRACING_V2": "true", "LANGSMITH_TRACING_MODE": "otel"}
"""The variables with which LangSmith's client sends spans to OpenTelemetry alone."""
KEY = "sk-canary-2f7f7c1d9a44e0b8"


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


def test_a_command_sends_counts_and_writes_a_log_without_the_claim(start_stub: StartStub) -> None:
    start_stub([{"status": 429, "retry_after": "0", "times": 1}])
    with receiving() as receiver:
        done = run(*VERIFY, **receiver.environment, **JSON_LINES, OTEL_SERVICE_NAME="newsroom")
    document = json.loads(done.stdout)
    used, model = document["usage"], {"gen_ai__request__model": "openai:gpt-4o-mini"}
    assert receiver.total("moot.tokens", gen_ai__token__type="input", **model) == used["prompt_tokens"]
    assert receiver.total("moot.tokens", gen_ai__token__type="output", **model) == used["completion_tokens"]
    usd = (used["prompt_tokens"] * 0.15 + used["completion_tokens"] * 0.6) / 1e6
    assert receiver.total("moot.cost.usd", **model) == pytest.approx(usd)
    assert receiver.total("moot.refusals", error__type="rate_limited") == 1
    assert receiver.total("moot.debates", moot__system="society_of_minds", moot__status="done") == 1
    assert {resource["service.name"] for resource in receiver.resources} == {"newsroom"}
    assert b"MARKED" not in receiver.raw
    started, ended = [line for line in json_lines(done.stderr) if line["logger"] == "moot.debates"]
    assert (started["event"], ended["event"]) == ("debate begun", "debate ended")
    assert started["debate"] == ended["debate"] == document["id"]
    assert (ended["status"], ended["calls"], ended["level"]) == ("done", used["calls"], "info")
    assert "MARKED" not in done.stderr


def test_langsmith_sends_spans_without_keys_to_a_collector(start_stub: StartStub) -> None:
    start_stub([{"fields": {"rationale": f"MARKED-REPLY {KEY}"}}])
    with receiving() as receiver, collecting() as langsmith:
        variables = {**langsmith.environment, **SPANS, "EXAMPLE_API_KEY": KEY}
        variables |= receiver.environment
        command = ("verify", f"MARKED-CLAIM {KEY} is a mammal.", "--graph", "self_consistency", *VERIFY[4:])
        done = run(*command, **variables)
    document = json.loads(done.stdout)
    assert document["confidence"] is not None  # LangSmith would get this score as feedback
    expected, *more = done.stderr.splitlines()
    assert expected.startswith("moot: Expected: ")
    assert (more, langsmith.raw, langsmith.feedback) == ([], [], [])
    calls = [(name, facts) for name, facts in receiver.spans if facts["langsmith.span.kind"] == "llm"]
    assert len(calls) == document["usage"]["calls"]
    tokens = sum(facts.get("gen_ai.usage.input_tokens", 0) for _, facts in calls)
    assert tokens == document["usage"]["prompt_tokens"]
    names = [name for name, _ in receiver.spans]
    assert "agent-1: answer 2, round 1" in names
    assert names.count("Self-consistency") == 1
    assert KEY.encode() not in receiver.raw
    assert b"MARKED-CLAIM" in receiver.raw
    assert b"MARKED-REPLY" in receiver.raw


def test_a_failed_debate_is_logged_as_a_warning(start_stub: StartStub, monkeypatch: pytest.MonkeyPatch) -> None:
    start_stub([{"status": 401}])
    monkeypatch.setenv("LOG_JSON", "true")
    monkeypatch.setenv("LOG_LEVEL", "WARNING")
    done = moot_process(*VERIFY)
    [ended] = [line for line in json_lines(done.stderr) if line["logger"] == "moot.debates"]
    assert (ended["event"], ended["level"], ended["status"]) == ("debate ended", "warning", "failed")


def test_the_processes_of_a_batch_send_their_telemetry(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub()
    (tmp_path / "claims.csv").write_text("claim\n" + "".join(f"Claim number {n} is true.\n" for n in range(6)))
    words = ("batch", str(tmp_path / "claims.csv"), "--out", str(tmp_path / "out"), "--workers", "2")
    with receiving() as receiver:
        done = run(
            *words, "--graph", "standard_prompting", "--model", "openai:gpt-4o-mini", **SPANS, **receiver.environment
        )
    assert done.returncode == 0, done.stderr
    assert receiver.total("moot.debates", moot__status="done") == 6
    assert len([name for name, _ in receiver.spans if name == "Standard prompting"]) == 6
    assert {resource["service.name"] for resource in receiver.resources} == {"moot"}
    assert len({resource.get("service.instance.id") for resource in receiver.resources} - {None}) == 2


def test_a_debate_ends_although_the_collector_does_not_respond(start_stub: StartStub) -> None:
    """The collector accepts connections."""
    start_stub()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        done = run(*VERIFY, **SPANS, OTEL_EXPORTER_OTLP_ENDPOINT=address)
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "done")
    for data in ("metrics", "spans"):
        assert f"Failed to export {data} batch" in done.stderr


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"OTEL_METRICS_EXPORTER": "jaeger"}, "the exporter 'jaeger', which is not installed"),
        ({"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "http/protobuf or grpc"),
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
ours = ("opentelemetry.exporter", "opentelemetry.sdk.metrics", "prometheus_client")
print(*sorted(name for name in sys.modules if name.startswith(ours)))
"""


def test_exporters_are_not_imported_without_configuration(start_stub: StartStub) -> None:
    start_stub()
    output = subprocess.check_output([sys.executable, "-c", WITHOUT_CONFIGURATION], text=True)
    assert output == "done\n\n"


PROGRAM_WITH_PROVIDERS = """
import asyncio
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from moot.graphs import load_graph
from moot.graphs.standard_prompting import graph
from moot.nodes._runtime.tracing import client_of_process

exporter, provider, reader = InMemorySpanExporter(), TracerProvider(), InMemoryMetricReader()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
metrics.set_meter_provider(MeterProvider([reader]))

async def main():
    with trace.get_tracer("mine").start_as_current_span("mine"):
        settings = load_graph("standard_prompting").settings(model="openai:nobody-knows")
        await graph.ainvoke({"claim": "It is."}, context=settings)

asyncio.run(main())
client_of_process().flush()
spans = {span.context.span_id: span for span in exporter.get_finished_spans()}
[call] = [span for span in spans.values() if span.name.startswith("agent-1")]
names = []
while call is not None:
    names.append(call.name)
    call = spans[call.parent.span_id] if call.parent else None
print(names)
data = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
print(sorted(metric.name for metric in data))
"""


def test_a_program_with_its_own_providers_gets_the_counts_and_the_spans(start_stub: StartStub) -> None:
    """A call with an unknown price is counted as unpriced."""
    start_stub()
    command = [sys.executable, "-c", PROGRAM_WITH_PROVIDERS]
    spans, counts = subprocess.check_output(command, env=os.environ | SPANS, text=True).splitlines()
    assert spans == str(["agent-1: answer, round 1", "answer", "Standard prompting", "mine"])
    assert counts == str(["moot.calls.unpriced", "moot.debates", "moot.tokens"])
