"""Every debate system, end to end on the scripted endpoint, with every kind of task."""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from typing import Any, get_args

import pytest
from moot.cli.main import result_schema
from moot.graphs import DESCRIPTIONS, load_graph
from moot.nodes._records.entries import StopReason
from moot.nodes._texts.answers import read_answer

from tests.conftest import StartStub, reading_demo
from tests.schemas import Validator

INPUTS: list[dict[str, Any]] = [
    {"claim": "The kilogram is defined by a metal cylinder."},
    {"claim": "The minister resigned in May.", "task": "averitec"},
    {"claim": "The tower is tall.", "labels": {"true": "it is so", "unproven": "it may be so"}},
    {"claim": "Does it help?", "task": "pubmedqa"},
    {"claim": "Which one?", "options": [f"option {i}" for i in range(10)], "task": "mmlu_pro"},
    {"claim": "How many are left?", "task": "gsm8k"},
    {"claim": "What is half of it?", "task": "math"},
    {"claim": "Who was it?", "task": "hotpotqa"},
]
RULES = [
    {"match": "one number in digits", "fields": {"answer": "43", "preferred": "43", "citations": []}},
    {"match": "mathematical expression", "fields": {"answer": "\\frac{1}{2}", "preferred": None, "citations": []}},
    {"fields": {"citations": []}},
]


TRIAL_TASKS = {"fever", "averitec", "pubmedqa"}
"""The tasks of `INPUTS` that a trial can decide: claims that are true or false, and yes/no questions."""
SINGLE_ANSWER = {"standard_prompting", "chain_of_thought", "rag", "react"}
"""Systems whose debates have a single answer, and so no confidence."""
SCHEMA = Validator(result_schema())
ABOUT_ANSWERS = ("Give `statements`", "Give `questions`", "Give `verdicts`")
"""Texts that identify the scorer's prompts. These prompts need not show the options."""


def test_every_described_graph_has_a_module_with_a_long_docstring() -> None:
    for name in DESCRIPTIONS:
        module = import_module(f"moot.graphs.{name}")
        assert load_graph(name).graph is module.graph
        assert (module.__doc__ or "").strip().count("\n") >= 2  # long enough to describe the procedure


@pytest.mark.parametrize("name", DESCRIPTIONS)
async def test_every_graph_completes_every_task_that_it_accepts(start_stub: StartStub, name: str) -> None:
    """Only ``proclaim`` refuses tasks: those that a trial cannot decide."""
    stub = start_stub(RULES)
    system = load_graph(name)
    settings = system.settings.model_validate(
        {"model": "openai:stub", "embedder": "openai:stub-embedding", "attempts": 1, **reading_demo(system.settings)}
    )
    documents = await asyncio.gather(*(system.graph.ainvoke(asked, context=settings) for asked in INPUTS))
    for document in documents:
        SCHEMA.validate(document)
        assert json.loads(json.dumps(document)) == document
    if name == "proclaim":
        refused = [document for document in documents if document["task"]["name"] not in TRIAL_TASKS]
        assert {(d["status"], d["error"]["kind"], len(d["calls"])) for d in refused} == {("failed", "unfit_task", 0)}
        documents = [document for document in documents if document["task"]["name"] in TRIAL_TASKS]
    for document in documents:
        assert (document["graph"], document["status"], document["error"]) == (name, "done", None)
        assert document["stop_reason"] in get_args(StopReason)
        # A debate without an answer must be an abstention, or a tie in `cortex_debate`.
        abstains = document["metrics"].get("abstained")
        if document["answer"] is not None or not (abstains or name == "cortex_debate"):
            assert read_answer(document["task"], document["answer"]) == document["answer"]
        assert document["rounds"] >= 1
        sure = document["confidence"]
        assert (sure is None) == (document["confidence_parts"] is None)
        assert sure is None or 0 <= sure <= 1
        assert document["confidence_from"]
        if document["answer"] is not None and document["task"]["kind"] == "labels":
            assert (sure is None) == (name in SINGLE_ANSWER), (sure, document["confidence_from"])
        assert 1 <= document["depth"] <= document["usage"]["calls"] == len(document["calls"])
        unusable = {call["role"] for call in document["calls"] if call["outcome"] != "ok"}
        assert unusable <= {"scorer"}  # the scripted scorer numbers its verdicts at random
    for prompt in stub.prompts():
        if "Which one?" in prompt and "do the two answers mean the `same`" not in prompt:
            assert "option 9" in prompt or any(part in prompt for part in ABOUT_ANSWERS), prompt
    for instructions in {request["messages"][0]["content"] for request in stub.requests()}:
        assert not ("No evidence is given" in instructions and "the evidence" in instructions), instructions
    assert sum(document["usage"]["calls"] for document in documents) == sum(c["kind"] == "chat" for c in stub.calls())
