"""Routes for runs and assistants refuse invalid inputs and settings with status 422 and a message."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from moot.graphs import DESCRIPTIONS, load_graph
from moot.prompts._files import shipped
from moot.web.checks import MODEL_SETTINGS, SOURCE_SETTINGS

from tests.conftest import CLAIM
from tests.serving import Server

RUN = {"assistant_id": "standard_prompting", "input": {"claim": CLAIM}}
FAKE: dict[str, Any] = {"model": "fake:1"}


@pytest.mark.parametrize("path", ["/runs", "/runs/wait", "/runs/stream", "/runs/crons"])
def test_invalid_settings_and_inputs_of_runs_are_refused(server: Server, path: str) -> None:
    crons = {"schedule": "0 0 * * *"} if path == "/runs/crons" else {}
    for context, message in (
        ({"rounds": 3}, "There is no setting 'rounds'; known are answer_prompt, attempts,"),
        ({"attempt": 3}, "There is no setting 'attempt'. Did you mean attempts? Known are answer_prompt, attempts,"),
        ({"attempts": 0}, "attempts: Input should be greater than or equal to 1 (given: 0)"),
        ({"model": "gpt-4o"}, "name a model as provider:name"),
        (
            {"answer_prompt": "{oracle}\n---\n" + shipped("standard_prompting/answer")},
            "the placeholder {oracle} is unknown",
        ),
    ):
        status, answer = server.refused(path, RUN | crons | {"context": context})
        assert (status, answer["kind"]) == (422, "invalid_setting")
        assert message in answer["detail"]
    assert server.refused(path, RUN | crons | {"config": {"configurable": {"attempts": 0}}})[0] == 422
    assert server.refused(path, RUN | crons | {"input": "claim"})[1]["kind"] == "invalid_claim"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"configurable": {"modle": "fake:1"}}, "There is no setting 'modle'. Did you mean model?"),
        ({"configurable": {"attempts": 0}}, "attempts: Input should be greater than or equal to 1"),
        ({"model": "fake:1"}, "`config` has no key 'model'. Settings belong into the context: context={'model': ...}"),
    ],
)
def test_the_config_of_an_assistant_is_checked_as_its_context_is(server: Server, config: Any, message: str) -> None:
    made = server.json("/assistants", {"graph_id": "rag", "config": {"configurable": FAKE, "tags": ["mine"]}})
    assert made["context"] == FAKE
    status, answer = server.refused("/assistants", {"graph_id": "rag", "config": config})
    assert (status, answer["kind"], message in answer["detail"]) == (422, "invalid_setting", True)


def test_batches_of_runs_and_runs_on_threads_are_checked(server: Server) -> None:
    assert server.refused("/runs/batch", [RUN | {"context": FAKE}, RUN | {"context": {"rounds": 3}}])[0] == 422
    thread = server.json("/threads", {})["thread_id"]
    assert server.refused(f"/threads/{thread}/runs/wait", RUN | {"context": {"rounds": 3}})[0] == 422
    command = {"id": 1, "method": "run.start", "params": RUN | {"input": 5}}
    assert server.refused(f"/threads/{thread}/commands", command)[0] == 422
    assert server.json(f"/threads/{thread}/history", {"limit": 10}) == []


def test_a_run_without_an_input_and_without_a_thread_is_refused(server: Server) -> None:
    status, answer = server.refused("/runs/wait", RUN | {"input": None})
    assert (status, answer["detail"]) == (422, 'The input is an object: {"claim": "The claim to check."}')


def test_an_empty_thread_accepts_neither_a_run_without_input_nor_a_reply(server: Server) -> None:
    """A run without input is also refused on a missing thread, and a reply is also refused without a thread."""
    thread = server.json("/threads", {})["thread_id"]
    new_run, resumed = {"assistant_id": "rag"}, {"assistant_id": "rag", "command": {"resume": True}}
    for path in (f"/threads/{thread}/runs/wait", f"/threads/{thread}/runs/stream", f"/threads/{thread}/runs"):
        for run, message in ((new_run, "The thread is empty"), (resumed, "No debate waits for a reply")):
            status, answer = server.refused(path, run)
            assert (status, answer["detail"].startswith(message)) == (422, True)
    unknown = f"/threads/{uuid4()}/runs/wait"
    assert server.refused("/runs/wait", resumed)[0] == 422
    assert server.refused(unknown, new_run | {"if_not_exists": "create"})[0] == 422
    assert server.refused(unknown, new_run)[0] == 404


def test_a_reply_must_name_its_question_if_several_questions_wait(server: Server) -> None:
    debaters = [{"name": name, "retriever": "bm25:demo-news"} for name in ("one", "two")]
    context = FAKE | {"debaters": debaters, "max_rounds": 1, "ask_person": ["queries"]}
    thread = server.json("/threads", {})["thread_id"]
    path = f"/threads/{thread}/runs/wait"
    asked = server.json(path, RUN | {"assistant_id": "tool_mad", "context": context})["__interrupt__"]
    first, second = (question["id"] for question in asked)
    copy = server.json(f"/threads/{thread}/copy", {})["thread_id"]
    for reply in (True, {"accept": True}, {}, {first: True, "third": True}):
        for route in (path, f"/threads/{copy}/runs/wait"):
            status, answer = server.refused(route, {"assistant_id": "tool_mad", "command": {"resume": reply}})
            assert (status, answer["kind"]) == (422, "invalid_reply")
            assert f'"{first}": REPLY' in answer["detail"]
    [left] = server.json(path, {"assistant_id": "tool_mad", "command": {"resume": {first: True}}})["__interrupt__"]
    assert left["id"] == second
    document = server.json(path, {"assistant_id": "tool_mad", "command": {"resume": {second: True}}})
    assert (document["status"], {turn["agent"] for turn in document["turns"]}) == (
        "done",
        {"one", "two", "person", "judge"},
    )


def test_settings_of_assistants_and_of_their_runs_are_checked(server: Server) -> None:
    agents = [{"name": "one"}, {"name": "two"}]
    made = {"graph_id": "society_of_minds", "context": FAKE | {"agents": agents, "max_rounds": 1}}
    assert server.refused("/assistants", made | {"context": {"max_rounds": 0}})[0] == 422
    assistant = server.json("/assistants", made)["assistant_id"]
    assert server.refused(f"/assistants/{assistant}", {"context": {"rounds": 3}}, method="PATCH")[0] == 422
    run = RUN | {"assistant_id": assistant}
    # Only this assistant has a role `one`.
    assert server.json("/runs/wait", run | {"context": {"models": {"one": "fake:2"}}})["status"] == "done"
    refused = server.refused("/runs/wait", run | {"context": {"models": {"agent-1": "fake:2"}}})
    assert "there is no role 'agent-1'" in refused[1]["detail"]


@pytest.mark.parametrize(
    "body", ["no object", [1], [[]], {"params": 5}, {"assistant_id": 5, "input": {}, "context": {"k": 1}}]
)
def test_malformed_requests_are_left_to_langgraphs_server(server: Server, body: Any) -> None:
    """Only the errors of our own checks have a `kind`."""
    status, answer = server.refused("/runs/wait", body)
    assert status == 422
    assert "kind" not in answer


def test_every_setting_that_may_name_a_folder_or_a_python_object_is_checked() -> None:
    """Such settings are found by " folder" or "langchain" in their descriptions; `fallback` is added by its name."""
    fields = {
        (graph, name): str(field.description)
        for graph in DESCRIPTIONS
        for name, field in load_graph(graph).settings.model_fields.items()
    }
    assert {name for (_, name), about in fields.items() if " folder" in about} == {*MODEL_SETTINGS, "calibration"}
    named = {name for (_, name), about in fields.items() if "langchain" in about or name == "fallback"}
    assert named <= {*SOURCE_SETTINGS, "debaters", "embedder"}
