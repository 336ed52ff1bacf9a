"""Tests of a real ``langgraph dev``, as users of Studio and the API run it.

It has no key and no network, and runs without ``--allow-blocking``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from moot.graphs import load_graph
from moot.graphs._registry import DESCRIPTIONS, OTHER_GRAPHS
from moot.graphs.tool_mad import graph
from moot.nodes._runtime.settings import Settings
from moot.prompts._files import shipped
from moot.web.serve import server_config

from tests.conftest import CLAIM, MODELS, READERS, reading_demo
from tests.serving import Server

ROOT = Path(__file__).parents[1]
MARK = "EDITED. "


def test_the_server_describes_draws_and_runs_tool_mad(server: Server) -> None:
    assistants = {a["graph_id"]: a for a in server.json("/assistants/search", {"limit": 100})}
    assert {name: a["description"] for name, a in assistants.items()} == DESCRIPTIONS | OTHER_GRAPHS
    assistant = assistants["tool_mad"]
    assert assistant["description"] == DESCRIPTIONS["tool_mad"]

    schemas = server.json(f"/assistants/{assistant['assistant_id']}/schemas")
    assert schemas["input_schema"]["properties"]["claim"]["maxLength"] == 4000
    assert {"claim_date", "speaker"} <= set(schemas["input_schema"]["properties"])
    assert schemas["input_schema"]["$defs"]["GivenText"]["required"] == ["text"]
    settings = schemas["context_schema"]["properties"]
    assert all(field.get("description") and "default" in field for field in settings.values() if "$ref" not in field)
    assert (settings["max_rounds"]["minimum"], settings["max_rounds"]["default"]) == (1, 3)
    assert set(schemas["output_schema"]["properties"]) == set(graph.output_schema.__annotations__)

    drawing = server.json(f"/assistants/{assistant['assistant_id']}/graph?xray=true")
    names = {node["id"] for node in drawing["nodes"]}
    assert {"debater:formulate_query", "debater:retrieve", "debater:respond", "faithfulness", "judge"} <= names

    run = {"assistant_id": "tool_mad", "input": {"claim": CLAIM}, "context": {"models": MODELS, "debaters": READERS}}
    document = server.json("/runs/wait", run | {"input": {"claim": CLAIM, "claim_date": "2020", "speaker": "Ada"}})
    assert (document["task"]["speaker"], document["task"]["claim_date"]) == ("Ada", "2020")
    assert (document["status"], document["answer"], document["stop_reason"]) == ("done", "SUPPORTS", "stable_consensus")
    assert document["evidence"]

    stream = server.send("/runs/stream", run | {"stream_mode": ["updates"], "stream_subgraphs": True}).decode()
    for name in ("formulate_query", "retrieve", "respond", "faithfulness", "answer_relevance", "agree", "close"):
        assert f'"{name}":' in stream

    thread = server.json("/threads", {})["thread_id"]
    for claim, answer in ((CLAIM, "SUPPORTS"), (" ", None), (CLAIM, "SUPPORTS")):
        document = server.json(f"/threads/{thread}/runs/wait", run | {"input": {"claim": claim}})
        assert (document["answer"], len(document["turns"])) == (answer, 2 if answer else 0)

    refused = server.json("/runs/wait", run | {"input": {"claim": " "}})
    assert (refused["status"], refused["error"]["kind"]) == ("failed", "invalid_claim")
    raising = run | {"input": {"claim": " "}, "context": {"models": MODELS, "on_failure": "raise"}}
    thread = server.json("/threads", {})["thread_id"]
    error = server.json(f"/threads/{thread}/runs/wait", raising)["__error__"]
    assert (error["error"], error["message"]) == ("UserError", refused["error"]["detail"])
    assert server.json(f"/threads/{thread}")["status"] == "error"
    assert "BlockingError" not in server.log()


@pytest.mark.parametrize("name", ["standard_prompting", "tool_mad"])
def test_only_a_named_model_answers_on_the_server(server: Server, name: str) -> None:
    """Without a model, the debate ends with an error that lists the ways to name one."""
    run = {"assistant_id": name, "input": {"claim": CLAIM}}
    for given in ({}, {"context": {"temperature": 0.5}}, {"config": {"configurable": {"user": "u"}}}):
        document = server.json("/runs/wait", run | given)
        assert (document["status"], document["error"]["kind"]) == ("failed", "missing_model"), document["error"]
        assert all(way in document["error"]["detail"] for way in ("MOOT_MODEL", "context", "--model", "Studio"))
    debaters = {"debaters": [{"name": "a"}, {"name": "b"}], "max_rounds": 1} if name == "tool_mad" else {}
    named: dict[str, Any] = {"model": "openai:stub-named", "embedder": "openai:stub-embedding", **debaters}
    for place in ({"context": named}, {"config": {"configurable": named}}):
        document = server.json("/runs/wait", run | place)
        assert (document["error"], document["settings"]["model"]) == (None, "openai:stub-named")
        assert {call["model"] for call in document["calls"]} == {"openai:stub-named"}


def edited_prompts(kind: type[Settings]) -> dict[str, str]:
    """All prompts of a system, each with `MARK` at its start."""
    return {field: MARK + shipped(prompt) for field, prompt in kind.prompts.items()}


@pytest.mark.parametrize("name", ["cortex_debate", "gated", "proclaim", "react", "tool_mad"])
def test_graphs_with_subgraphs_run_on_the_server_with_edited_prompts(server: Server, name: str) -> None:
    kind = load_graph(name).settings
    prompts, reads = edited_prompts(kind), reading_demo(kind)
    if "debate_settings" in reads:
        reads["debate_settings"] |= edited_prompts(load_graph(kind.model_fields["debate"].default).settings)
    # Except for the model, its attempts, the sources and the prompts, all settings have their defaults.
    context = {"model": "openai:stub-edited", "attempts": 1, **reads, **prompts}
    earlier = len(server.stub.prompts("stub-edited"))
    document = server.json("/runs/wait", {"assistant_id": name, "input": {"claim": CLAIM}, "context": context})
    assert (document["graph"], document["status"], document["error"]) == (name, "done", None)
    assert document["calls"]
    assert document["answer"] or name == "cortex_debate"  # cortex_debate abstains in a tie
    sent = server.stub.prompts("stub-edited")[earlier:]
    assert sent
    assert not [text[:300] for text in sent if not text.startswith(MARK)]
    assert prompts.items() <= document["settings"].items()
    assert "BlockingError" not in server.log()


def test_langgraph_json_agrees_with_moot_serve_in_graphs_http_and_webhooks() -> None:
    written = json.loads((ROOT / "langgraph.json").read_text())
    served = server_config()
    shared = ("graphs", "http", "webhooks")
    assert {key: written[key] for key in shared} == {key: served[key] for key in shared}
    assert {name: entry["description"] for name, entry in written["graphs"].items()} == DESCRIPTIONS | OTHER_GRAPHS


def test_plain_langgraph_dev_unpickles_files_of_its_folder(server: Server) -> None:
    # SECURITY.md warns of this. tests/web/test_serve.py checks that `moot serve` unpickles no file.
    assert (server.folder / "unpickled").exists()


def test_the_graph_find_claims_runs_over_the_api(server: Server) -> None:
    text = "Norwick opened its tram line in May 2024. It cost 412 million pounds."
    run = {"assistant_id": "find_claims", "input": {"text": text}, "context": {"model": "fake:1"}}
    found = server.json("/runs/wait", run)
    assert (found["status"], found["claims"]) == ("done", [])
    assert found["dropped"]  # the fake model's claims are not in the text
    refused = server.json("/runs/wait", run | {"input": {"text": " "}})
    assert refused["status"] == "failed"
    assert "text" in refused["error"]["detail"]
