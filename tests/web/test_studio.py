"""The data that Studio reads from the server: schemas for its form, drawings, and the prompts of nodes."""

from __future__ import annotations

from typing import Any

import pytest
from moot.graphs import DESCRIPTIONS
from moot.nodes._texts.task import TASKS
from moot.prompts._files import shipped

from tests.conftest import CLAIM
from tests.serving import Server


@pytest.fixture(scope="module")
def assistants(server: Server) -> dict[str, str]:
    """The id of each graph's default assistant, by the graph's name."""
    found = server.json("/assistants/search", {"limit": 100, "metadata": {"created_by": "system"}})
    return {assistant["graph_id"]: assistant["assistant_id"] for assistant in found}


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_every_field_of_a_graphs_schemas_is_described(server: Server, assistants: dict[str, str], name: str) -> None:
    """Each setting also has a default, and limits if it needs them."""
    schemas = server.json(f"/assistants/{assistants[name]}/schemas")
    for kind in ("input_schema", "output_schema", "context_schema"):
        assert schemas[kind]["title"]
        assert schemas[kind]["description"]
        for field, schema in schemas[kind]["properties"].items():
            assert schema.get("description"), (kind, field)
            assert schema.get("title") or "$ref" in schema, (kind, field)
    asked, settings = schemas["input_schema"]["properties"], schemas["context_schema"]["properties"]
    assert next(iter(asked)) == "claim"
    assert asked["task"]["examples"] == list(TASKS)
    assert asked["messages"]["langgraph_type"] == "messages"
    assert "openai:gpt-4o-mini" in settings["model"]["examples"]
    for schema in (settings["sources"]["items"], settings["fallback"]["items"]) if "sources" in settings else ():
        assert {"chroma", "bm25", "hybrid", "web", "wikipedia"} <= set(schema["examples"])
    for field, schema in settings.items():
        assert "default" in schema, field
        assert is_bounded(schema, schemas["context_schema"].get("$defs", {})), field


def is_bounded(field: dict[str, Any], definitions: dict[str, Any]) -> bool:
    """Whether each type of a field has a limit, such as a maximum; null, booleans and objects need none."""
    options = [definitions[o["$ref"].rsplit("/", 1)[-1]] if "$ref" in o else o for o in field.get("anyOf", [field])]
    limits = {"maxLength", "maximum", "maxItems", "enum", "const", "exclusiveMaximum", "format"}
    return all(limits & set(o) or o.get("type") in ("null", "boolean", "object") for o in options)


@pytest.mark.parametrize("name", ["tool_mad", "proclaim", "react"])
def test_each_prompt_setting_names_a_node_of_the_drawing(server: Server, assistants: dict[str, str], name: str) -> None:
    path = f"/assistants/{assistants[name]}"
    settings = server.json(f"{path}/schemas")["context_schema"]["properties"]
    drawn = {node["id"] for node in server.json(f"{path}/graph?xray=true")["nodes"]}
    prompts = {field: schema for field, schema in settings.items() if schema.get("langgraph_type") == "prompt"}
    assert len(prompts) > 4
    for field, schema in prompts.items():
        assert drawn & set(schema["langgraph_nodes"]), field
        assert "\n---\n" in schema["default"]


def test_an_edited_prompt_of_an_assistant_reaches_the_endpoint(server: Server) -> None:
    """As in Studio, the prompt is saved in an assistant, and a run uses that assistant."""
    text = shipped("tit_for_tat/moderate").replace("\n---\n", "\nDecide as a referee would.\r\n---\r\n")
    context = {"model": "openai:stub-saved", "attempts": 1, "max_rounds": 1, "moderate_prompt": text}
    made = server.json("/assistants", {"graph_id": "tit_for_tat", "context": context})
    document = server.json("/runs/wait", {"assistant_id": made["assistant_id"], "input": {"claim": CLAIM}})
    assert document["status"] == "done"
    edited = [prompt for prompt in server.stub.prompts("stub-saved") if "as a referee would" in prompt]
    assert len(edited) == sum(call["role"] == "moderator" for call in document["calls"]) > 0
    edited_fields = {field for field in document["settings"] if field.endswith("_prompt")}
    assert edited_fields == {"moderate_prompt"}
