"""The chat model for OpenAI-compatible endpoints: like `ChatOpenAI`, but async calls do not use the openai SDK."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest
from langchain_core.callbacks import get_usage_metadata_callback
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.context import collect_runs
from langchain_core.tracers.schemas import Run
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph
from moot.core.endpoint import Endpoint, Limits
from moot.core.errors import MootError
from moot.nodes._models.chat_models import EXPECTED_PARAMETERS, ChatModel, chat_class, open_chat_model, parameters_of
from moot.nodes._models.speaker import Speaker
from moot.nodes._texts.replies import QueryReply
from moot.retrievers._encoders import open_encoder
from pydantic import BaseModel, SecretStr
from typing_extensions import TypedDict

from tests.conftest import StartStub
from tests.core.raw import REPLY, STREAM, answer, event, raw_server, respond_with, stream_chunk

MESSAGES = [SystemMessage("Be brief."), HumanMessage("Is it so?")]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


class EmptyState(TypedDict):
    """An empty graph state."""


class Answer(BaseModel):
    """A schema for structured output."""

    text: str


async def both_models(url: str, **options: Any) -> tuple[BaseChatModel, BaseChatModel]:
    """Our model and LangChain's model, with the same settings. ``OPENAI_BASE_URL`` must be ``url``."""
    ours = (await open_chat_model("openai:stub-a", **options)).chat
    settings: dict[str, Any] = {"base_url": url, "api_key": "sk-x", "temperature": 0, "max_retries": 0}
    return ours, ChatOpenAI(model="stub-a", use_responses_api=False, stream_usage=True, **settings | options)


@contextmanager
def sdk_requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Context manager: gives a list, and adds each asynchronous request of the openai SDK to it."""
    made: list[Any] = []
    request = openai.AsyncOpenAI.request

    async def count_and_call(client: Any, *arguments: Any, **options: Any) -> Any:
        made.append(arguments)
        return await request(client, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(openai.AsyncOpenAI, "request", count_and_call)
        yield made


# --- LangChain's private methods ------------------------------------------------------------------------------------


def test_the_private_methods_of_langchain_that_we_use_are_unchanged() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chat_class.__wrapped__().__name__ == "OpenAICompatible"
    assert {name: parameters_of(getattr(ChatOpenAI, name)) for name in EXPECTED_PARAMETERS} == EXPECTED_PARAMETERS


@pytest.mark.parametrize("change", [None, lambda self, response: None])
async def test_chat_openai_is_used_if_a_private_method_has_changed(
    change: Any, start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_stub([{"reply": "Yes."}])
    chat_class.cache_clear()
    try:
        with monkeypatch.context() as patched:
            patched.setattr("langchain_openai.chat_models.base.BaseChatOpenAI._create_chat_result", change)
            with pytest.warns(RuntimeWarning, match="differs in _create_chat_result"):
                chat = (await open_chat_model("openai:stub-a")).chat
    finally:
        chat_class.cache_clear()
    assert type(chat) is ChatOpenAI
    with sdk_requests(monkeypatch) as made:
        assert (await chat.ainvoke(MESSAGES)).content == "Yes."
        assert len(made) == 1


async def test_our_async_calls_do_not_use_the_sdk(start_stub: StartStub, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = start_stub()
    chat = (await open_chat_model("openai:stub-a")).chat
    with sdk_requests(monkeypatch) as made:
        await chat.ainvoke(MESSAGES)
        assert [chunk async for chunk in chat.astream(MESSAGES)]
        await (await open_encoder("openai:stub-embedding")).embed(["a", "b"])
        assert (len(made), len(stub.calls())) == (0, 3)
        await ChatOpenAI(model="stub-a", base_url=stub.url, api_key=SecretStr("sk-x")).ainvoke(MESSAGES)
        assert len(made) == 1  # so sdk_requests does record a request of the SDK


# --- replies --------------------------------------------------------------------------------------------------------

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
DETAILS = {"prompt_tokens_details": {"cached_tokens": 1}, "completion_tokens_details": {"reasoning_tokens": 1}}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}
LOGPROBS = {"content": [{"token": "Yes", "logprob": -0.1, "bytes": None, "top_logprobs": []}]}


def reply(message: dict[str, Any] | None = None, choice: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """The body of a response, with these fields of its message, of its choice and of the whole reply."""
    whole_message = {"role": "assistant", "content": "Yes."} | (message or {})
    return (
        REPLY | {"choices": [{"index": 0, "message": whole_message, "finish_reason": "stop"} | (choice or {})]} | more
    )


REPLIES = {
    "bare": reply(),
    "usage": reply(usage=USAGE),
    "details": reply(usage=USAGE | DETAILS, system_fingerprint="fp", service_tier="flex"),
    "tool": reply({"content": None, "tool_calls": [CALL]}, {"finish_reason": "tool_calls"}),
    "bad tool": reply({"tool_calls": [CALL | {"function": {"name": "look", "arguments": "{"}}]}),
    "function": reply({"content": None, "function_call": CALL["function"]}),
    "refusal": reply({"content": None, "refusal": "No."}),
    "logprobs": reply(choice={"logprobs": LOGPROBS}),
    "two": reply() | {"choices": [*reply()["choices"], reply({"content": "No."})["choices"][0] | {"index": 1}]},
    "unknown": reply({"reasoning_content": "Hm."}, {"stop_reason": 3}, kv_transfer_params=None),
    "no model": {"choices": reply()["choices"]},
}


@pytest.mark.parametrize("name", REPLIES)
async def test_a_reply_becomes_the_same_message_as_with_chat_openai(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_server(respond_with(answer(REPLIES[name]))) as raw:
        monkeypatch.setenv("OPENAI_BASE_URL", raw.url)
        ours, theirs = [await chat.agenerate([MESSAGES], stop=["x"]) for chat in await both_models(raw.url)]
        assert raw.bodies[0] == raw.bodies[1]
    dumps = [made.model_dump(exclude={"run"}) for made in (ours, theirs)]
    for dump in dumps:
        for generation in dump["generations"][0]:
            generation["message"].pop("id")
    assert dumps[0] == dumps[1]


STREAMS = {
    "text": [
        stream_chunk("Y"),
        stream_chunk("es."),
        stream_chunk("", "stop"),
        event(id="1", model="m", choices=[], usage=USAGE | DETAILS),
    ],
    "tool": [
        event(choices=[{"index": 0, "delta": {"role": "assistant", "tool_calls": [{"index": 0, **CALL}]}}]),
        event(choices=[{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], model="m", system_fingerprint="fp"),
    ],
    "odd": [
        event(choices=[{"index": 0, "delta": {"content": "Y"}, "logprobs": LOGPROBS}]),
        event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}], service_tier="default"),
    ],
}


@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_becomes_the_same_chunks_as_with_chat_openai(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_server(respond_with(STREAM, *STREAMS[name], b"data: [DONE]\n\n", close=True)) as raw:
        monkeypatch.setenv("OPENAI_BASE_URL", raw.url)
        streamed = [[chunk async for chunk in chat.astream(MESSAGES)] for chat in await both_models(raw.url)]
        assert raw.bodies[0] == raw.bodies[1]
        assert raw.bodies[0]["stream_options"] == {"include_usage": True}
    ours, theirs = ([chunk.model_dump(exclude={"id"}) for chunk in chunks] for chunks in streamed)
    assert ours == theirs


async def test_messages_and_response_formats_in_requests_are_the_same_as_with_chat_openai(
    start_stub: StartStub,
) -> None:
    """The calls use tools or structured output."""
    stub = start_stub()
    for chat in await both_models(stub.url, max_tokens=50, seed=3):
        message = await chat.bind_tools([TOOL]).ainvoke(MESSAGES)
        assert [call["name"] for call in message.tool_calls] == ["look"]
        history = [*MESSAGES, message, ToolMessage("Found.", tool_call_id=message.tool_calls[0]["id"])]
        assert isinstance(await chat.bind_tools([TOOL]).ainvoke(history), AIMessage)
        for method in ("json_schema", "function_calling"):
            assert isinstance(await chat.with_structured_output(Answer, method=method).ainvoke(MESSAGES), Answer)
    requests = stub.requests()
    for ours, theirs in zip(requests[:4], requests[4:], strict=True):
        assert [ours[part] for part in ("messages", "response_format")] == [
            theirs[part] for part in ("messages", "response_format")
        ]


class Runs(BaseTracer):
    """A tracer that records the runs that LangSmith would receive."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[Run] = []

    def _persist_run(self, run: Run) -> None:
        self.runs.append(run)


async def test_runs_are_traced_as_with_chat_openai(start_stub: StartStub) -> None:
    stub = start_stub([{"reply": "Yes."}])

    async def traced(chat: BaseChatModel) -> list[Any]:
        tracer = Runs()
        await chat.ainvoke(MESSAGES, {"callbacks": [tracer], "metadata": {"role": "rag"}}, extra_body={"x": 1})
        async for _ in chat.astream(MESSAGES, {"callbacks": [tracer]}):
            pass
        return [
            [run.run_type, run.inputs, run.extra, {**run.outputs["generations"][0][0]["generation_info"]}, run.tags]  # type: ignore[index]
            for run in tracer.runs
        ]

    ours, theirs = [await traced(chat) for chat in await both_models(stub.url)]
    for runs in (ours, theirs):
        for run in runs:
            run[2].pop("options", None)
    assert ours == theirs
    assert ours[0][2]["metadata"]["ls_model_name"] == "stub-a"


async def test_callback_handlers_receive_calls_inside_a_graph(start_stub: StartStub) -> None:
    """LangChain adds handlers from context variables to each run, even in a graph that runs without handlers."""
    ours, _ = await both_models(start_stub().url)
    seen: dict[str, Any] = {}

    async def node(state: EmptyState) -> None:
        plain = await ours.ainvoke(MESSAGES)
        with get_usage_metadata_callback() as usage, collect_runs() as runs:
            observed = await ours.ainvoke(MESSAGES)
        seen.update(usage=usage.usage_metadata, runs=runs.traced_runs, messages=(plain, observed))

    builder = StateGraph(EmptyState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    await builder.compile().ainvoke({})
    (run,) = seen["runs"]
    plain, observed = (message.model_dump() for message in seen["messages"])
    assert (run.run_type, run.name) == ("llm", "OpenAICompatible")
    assert [*seen["usage"].values()] == [observed["usage_metadata"]]
    assert all(message.pop("id").startswith("lc_run--") for message in (plain, observed))
    assert {**plain, "response_metadata": 0} == {**observed, "response_metadata": 0}
    assert plain["response_metadata"].keys() == observed["response_metadata"].keys()


async def test_sync_calls_are_answered(start_stub: StartStub) -> None:
    start_stub([{"reply": "Yes."}])
    chat = (await open_chat_model("openai:stub-a")).chat
    assert (await asyncio.to_thread(chat.invoke, MESSAGES)).content == "Yes."


# --- faults ---------------------------------------------------------------------------------------------------------


def error_response(status: str, body: bytes | dict[str, Any] = b"", **headers: str) -> bytes:
    return answer(body, status, **headers)


BUSY = {"error": {"message": "Busy.", "code": "busy"}}
FAULTS: dict[str, bytes] = {
    **{
        str(status): error_response(f"{status} X", BUSY)
        for status in (400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 503)
    },
    "text": error_response("500 X", b"<html>Busy</html>"),
    "empty": error_response("502 X"),
    "list": error_response("500 X", b"[1]"),
    "bare": error_response("400 X", {"message": "maximum length", "code": "c"}),
    "quota": error_response("429 X", {"error": {"message": "Pay.", "code": "insufficient_quota"}}, Retry_After="7"),
    "patience": error_response("429 X", BUSY, Retry_After="7"),
    "filter": error_response("400 X", {"error": {"message": "no", "code": "content_filter"}}),
    "half": answer(b'{"choices": ['),
    "html": answer(b"<html>", kind="text/html"),
    "nothing": answer(b""),
    "hollow": answer({}),
    "array": answer(b"[1]"),
    "null": answer(b"null"),
    "word": answer(b'"word"'),
    "no choices": answer({"choices": []}),
    "null choices": answer({"choices": None}),
    "no message": answer({"choices": [{"index": 0}]}),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_errors_are_the_same_as_with_chat_openai(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_server(respond_with(FAULTS[name])) as raw:
        monkeypatch.setenv("OPENAI_BASE_URL", raw.url)
        errors = [await error_of(chat, raw.url) for chat in await both_models(raw.url)]
    ours, theirs = ((type(e), e.kind, e.retryable, e.retry_after, e.detail) for e in errors)
    assert ours == theirs


async def error_of(chat: BaseChatModel, url: str) -> MootError:
    """The error of a speaker that asks this model one question, without retries."""
    chosen = ChatModel("openai:stub-a", chat, Endpoint(url, "sk-x", "OPENAI_API_KEY"))
    speaker = Speaker("rag", chosen, limits=Limits(attempts=1, max_wait=0), prompts={"write": "Write.\n---\n{what}"})
    with pytest.raises(MootError) as caught:
        await speaker.ask("write", {"what": "x"}, QueryReply)
    return caught.value
