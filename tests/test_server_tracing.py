"""The traces that a real LangGraph server sends to LangSmith. LangChain, not moot, creates the server's tracer."""

from __future__ import annotations

import json
import signal
from contextlib import contextmanager
from pathlib import Path

from moot.nodes._runtime.tracing import ENVIRONMENT

from tests.cli.test_traces import silent
from tests.collector import collecting
from tests.conftest import CLAIM, MODELS, READERS, running_stub, says
from tests.serving import ROOT, langgraph_dev

KEY = "canary/of+the-server-1234567890"


def test_traces_of_the_server_contain_no_api_key(tmp_path: Path) -> None:
    rules = [says("rag", "SUPPORTS", rationale=f"I know {KEY}."), says("search", "SUPPORTS")]
    with running_stub(tmp_path / "stub", rules) as stub, collecting() as collector:
        environment = collector.environment | {"OPENAI_API_KEY": KEY}
        with contextmanager(langgraph_dev)(tmp_path / "server", stub, **environment) as server:
            context = {"models": MODELS, "debaters": READERS, "embedder": "openai:stub-embedding"}
            context["scoring"] = "consensus_only"
            run = {"assistant_id": "tool_mad", "input": {"claim": f"{CLAIM} {KEY}"}, "context": context}
            config = {"tags": [KEY]}
            document = server.json("/runs/wait", run | {"metadata": {"who": KEY}, "config": config})
            assert (document["status"], document["turns"][0]["rationale"]) == ("done", "I know [OPENAI_API_KEY].")
            collector.wait_for(lambda: all(run.get("end_time") for run in collector.runs.values()))
            assert "BlockingError" not in server.log()
    assert collector.raw
    assert not any(KEY.encode() in sent for sent in collector.raw)
    [root] = (run for run in collector.runs.values() if run.get("parent_run_id") is None)
    assert (root["name"], set(root["tags"])) == ("Tool-MAD", {"tool_mad", "[OPENAI_API_KEY]"})
    assert root["extra"]["metadata"]["who"] == "[OPENAI_API_KEY]"
    calls = [run["name"] for run in collector.runs.values() if run["run_type"] == "llm"]
    assert sorted(calls) == sorted(
        f"{agent}: {node}, round 1" for agent in ("rag", "search") for node in ("formulate_query", "respond")
    )


def test_the_server_ends_even_if_langsmith_never_answers(tmp_path: Path) -> None:
    assert json.loads((ROOT / "langgraph.json").read_text())["env"] == ENVIRONMENT | {"FORWARDED_ALLOW_IPS": ""}
    with running_stub(tmp_path / "stub", []) as stub, silent() as address:
        environment = {"LANGSMITH_TRACING": "true", "LANGSMITH_API_KEY": KEY, "LANGSMITH_ENDPOINT": address}
        with contextmanager(langgraph_dev)(tmp_path / "server", stub, **environment) as server:
            run = {"assistant_id": "standard_prompting", "input": {"claim": CLAIM}, "context": {"model": "fake:1"}}
            assert server.json("/runs/wait", run)["status"] == "done"
            server.process.send_signal(signal.SIGINT)
            server.process.wait(30)
