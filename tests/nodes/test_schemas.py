"""Schemas of replies stay inside the subset of JSON Schema that OpenAI documents for strict structured output."""

from __future__ import annotations

import re
from typing import Any

import pytest
from moot.graphs.tool_mad import ToolMadSettings, graph
from moot.nodes._steps.compare import SameReply
from moot.nodes._steps.faithfulness import StatementsReply, verdicts_reply
from moot.nodes._steps.relevance import questions_reply
from moot.nodes._steps.retrieving import KeywordsReply
from moot.nodes._texts.replies import QueryReply, Reply, SummaryReply, answer_reply, reply_schema
from moot.nodes._texts.task import make_task

from tests.conftest import MODELS, READERS, StartStub, says

KEYWORDS = {
    *("$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "exclusiveMaximum"),
    *("exclusiveMinimum", "format", "items", "maxItems", "maximum", "minItems", "minimum", "multipleOf", "pattern"),
    *("properties", "required", "type"),
}
DEEPEST = 10
MOST_PROPERTIES = 5_000

TASKS = [
    make_task(),
    make_task(labels=["yes", "no", "maybe"]),
    make_task(labels=["Supported", "Refuted", "Not Enough Evidence", "Conflicting Evidence/Cherrypicking"]),
    make_task(labels=["title", "default", "description"]),  # these labels are also keywords of schemas
    make_task(labels=['"quoted"', "back\\slash", "{brace}", "ünï"]),
    make_task(options=["AA", "Aa"]),
    make_task(options=[f"option {i}" for i in range(26)]),
]
REPLIES: list[type[Reply]] = [
    QueryReply,
    StatementsReply,
    SameReply,
    KeywordsReply,
    SummaryReply,
    *map(answer_reply, TASKS),
    *(answer_reply(make_task(name)) for name in ("short_answer", "number", "expression")),
    *map(verdicts_reply, range(1, 9)),
    *map(questions_reply, range(1, 6)),
]


def faults(schema: dict[str, Any]) -> list[str]:
    """Describes each part of a schema that is outside of the subset, with its place."""
    found: list[str] = []
    properties_seen = 0
    parts: dict[str, Any] = schema.get("$defs", {})

    def walk(node: Any, at: str, depth: int) -> None:
        nonlocal properties_seen
        if not isinstance(node, dict):
            found.append(f"{at}: {node!r} is no schema")
            return
        if depth > DEEPEST:
            found.append(f"{at}: nested more than {DEEPEST} deep")
            return
        found.extend(f"{at}: {keyword}" for keyword in sorted(set(node) - KEYWORDS))
        if "$ref" in node:
            name = node["$ref"].removeprefix("#/$defs/")
            if name not in parts:
                found.append(f"{at}: {node['$ref']} leads nowhere")
            else:
                walk(parts[name], f"{at}>{name}", depth)
        elif not {"type", "anyOf", "enum", "const"} & set(node):
            found.append(f"{at}: no type")
        if node.get("type") == "object" or "properties" in node:
            properties = node.get("properties", {})
            properties_seen += len(properties)
            if node.get("type") != "object" or node.get("additionalProperties") is not False:
                found.append(f"{at}: an open object")
            if sorted(node.get("required", [])) != sorted(properties):
                found.append(f"{at}: not all properties are required")
            for name, value in properties.items():
                walk(value, f"{at}.{name}", depth + 1)
        if node.get("type") == "array":
            walk(node.get("items"), f"{at}[]", depth + 1)
        for option in node.get("anyOf", []):
            walk(option, f"{at}|", depth)
        if "enum" in node and len(set(node["enum"])) < len(node["enum"]):
            found.append(f"{at}: a value twice")

    if schema.get("type") != "object" or "anyOf" in schema:
        found.append("the root is no object")
    walk(schema, "$", 1)
    if properties_seen > MOST_PROPERTIES:
        found.append(f"more than {MOST_PROPERTIES} properties")
    return found


@pytest.mark.parametrize("reply", REPLIES, ids=lambda r: r.__name__)
def test_reply_schemas_use_only_the_strict_subset(reply: type[Reply]) -> None:
    """A schema has all fields of the reply class in their order. Each call of `reply_schema` returns a new schema."""
    schema = reply_schema(reply)
    assert faults(schema) == []
    assert list(schema["properties"]) == list(reply.model_fields)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", reply.__name__)
    schema["properties"].clear()
    assert reply_schema(reply)["properties"]


@pytest.mark.parametrize("task", TASKS, ids=lambda t: t["name"])
def test_the_schema_of_an_answer_allows_exactly_the_labels_of_the_task(task: Any) -> None:
    assert reply_schema(answer_reply(task))["properties"]["answer"]["enum"] == task["labels"]


async def test_every_schema_sent_by_a_debate_stays_inside_the_subset(start_stub: StartStub) -> None:
    stub = start_stub([says("rag", "SUPPORTS"), says("search", "REFUTES")])
    given = {"models": MODELS, "embedder": "openai:stub-embedding", "max_rounds": 2, "debaters": READERS}
    settings = ToolMadSettings.model_validate(given)
    document = await graph.ainvoke({"claim": "The kilogram is defined by a constant."}, context=settings)
    assert document["status"] == "done"
    formats = [request["response_format"] for request in stub.requests()]
    assert {f["type"] for f in formats} == {"json_schema"}
    names = {f["json_schema"]["name"] for f in formats}
    assert names == {"QueryReply", "AnswerReply", "StatementsReply", "VerdictsReply", "QuestionsReply"}
    for wanted in formats:
        assert set(wanted["json_schema"]) == {"name", "strict", "schema"}
        assert wanted["json_schema"]["strict"] is True
        assert faults(wanted["json_schema"]["schema"]) == []
