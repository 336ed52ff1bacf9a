"""Replies that violate the OpenAI API. moot uses a reply with a clear meaning; otherwise an error says what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from moot.core.endpoint import Endpoint, Limits
from moot.core.errors import MootError
from moot.nodes._models.chat_models import ChatModel, open_chat_model
from moot.nodes._models.speaker import Speaker
from moot.nodes._records.entries import Call
from moot.retrievers._encoders import open_encoder

from tests.core.raw import REPLY, STREAM, Respond, answer, event, raw_server, respond_with

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
ANSWER = json.dumps({"rationale": "It is.", "citations": [], "answer": "SUPPORTS", "confidence": 0.9})
USAGE = {"prompt_tokens": 12, "completion_tokens": 2, "total_tokens": 14}
CHOICE = {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}


def reply_body(choice: Any = None, **more: Any) -> dict[str, Any]:
    return REPLY | {"choices": [CHOICE | (choice or {})], "usage": USAGE} | more


def reply_with_message(**more: Any) -> dict[str, Any]:
    return reply_body({"message": {"role": "assistant", "content": ANSWER} | more})


def reply_with_usage(**more: Any) -> dict[str, Any]:
    return reply_body(usage=USAGE | more)


USABLE: dict[str, tuple[dict[str, Any], tuple[int | None, int | None]]] = {
    "counts as texts": (reply_with_usage(prompt_tokens="12", completion_tokens="2", total_tokens="14"), (12, 2)),
    "counts with decimal points": (reply_with_usage(prompt_tokens=12.0, completion_tokens=2.0), (12, 2)),
    "no total": (reply_with_usage(total_tokens=None), (12, 2)),
    "odd details": (reply_with_usage(completion_tokens_details={"reasoning_tokens": "many"}), (12, 2)),
    "odd id and model": (reply_body(id={}, model=["m"]), (12, 2)),
    "fractional count": (reply_with_usage(prompt_tokens="12.5"), (None, None)),
    "word as count": (reply_with_usage(prompt_tokens="many"), (None, None)),
    "count null": (reply_with_usage(completion_tokens=None), (None, None)),
    "negative count": (reply_with_usage(prompt_tokens=-3), (None, None)),
    "huge count": (reply_with_usage(prompt_tokens=10**30), (None, None)),
    "no usage": (reply_body(usage=None), (None, None)),
    "no finish reason": (reply_body({"finish_reason": None}), (12, 2)),
    "error null": (reply_body(error=None), (12, 2)),
}
"""Replies that are used, and their token counts (None: unknown)."""

BAD_IF_STREAMED = ("no finish reason", "odd details", "fractional count", "word as count")
"""None of these is used if it is streamed: the first may have been cut off, langchain-core refuses the others."""

UNUSABLE: dict[str, tuple[bytes | dict[str, Any], str]] = {
    "choices null": ({"choices": None}, "bad_response"),
    "no choices": ({"choices": []}, "bad_response"),
    "odd choices": ({"choices": [None]}, "bad_response"),
    "message null": (reply_body({"message": None}), "bad_response"),
    "no content": (reply_with_message(content=None, tool_calls=None), "empty"),
    "number as content": (reply_with_message(content=5), "bad_response"),
    "odd tool calls": (reply_with_message(content=None, tool_calls=[None]), "bad_response"),
    "usage as list": (reply_body(usage=[1]), "bad_response"),
    "details as list": (reply_with_usage(prompt_tokens_details=[1]), "bad_response"),
    "array": (b"[1]", "bad_response"),
    "number": (b"5", "bad_response"),
    "invalid UTF-8": (b'{"choices": "\xff"}', "bad_response"),
    "html": (b"<html>Sign in</html>", "bad_response"),
    "error without a code": ({"error": {"message": "Busy."}}, "bad_response"),
    "error 503": ({"error": {"message": "Busy.", "code": 503}}, "server_error"),
    "error 429": ({"error": {"message": "Busy.", "code": 429}}, "rate_limited"),
}
"""Bodies of responses that cause an error, and the kind of the error.

For ``empty``, the call itself has no error: its outcome is ``empty``. So it is for "choices null" and "no choices" if
they are streamed; then "no content" has an error of the kind ``bad_response``.
"""


def stream_response(body: dict[str, Any]) -> Respond:
    """The response that streams this reply as server-sent events. Removes ``usage`` from ``body``."""
    usage = {name: body.pop(name) for name in ("usage",) if name in body}
    choices = [{**choice, "delta": choice["message"]} for choice in body["choices"]]
    end = [event(**body | {"choices": []}, **usage)] if usage else []
    return respond_with(STREAM, event(**body | {"choices": choices}), *end, b"data: [DONE]\n\n", close=True)


async def outcome_of_call(
    respond: Respond, monkeypatch: pytest.MonkeyPatch, as_stream: bool = False
) -> Call | MootError:
    """Make a call without retries; return its record, or its error."""
    async with raw_server(respond) as raw:
        monkeypatch.setenv("OPENAI_BASE_URL", raw.url)
        chat = (await open_chat_model("openai:m", timeout=20)).chat
        model = ChatModel("openai:m", chat, Endpoint(raw.url, "sk-x"))
        speaker = Speaker("rag", model, limits=Limits(attempts=1, max_wait=0))

        async def send(chat: Any, asked: Any) -> BaseMessage:
            if not as_stream:
                return await chat.ainvoke(asked)  # type: ignore[no-any-return]
            parts = [part async for part in chat.astream(asked)]
            return sum(parts[1:], parts[0])  # type: ignore[no-any-return]

        try:
            await speaker.converse(send, [HumanMessage("Is it so?")])
        except MootError as error:
            return error
        [call] = speaker.record.calls
        return call


@pytest.mark.parametrize("as_stream", [False, True])
@pytest.mark.parametrize("name", USABLE)
async def test_a_reply_with_a_clear_meaning_is_used(
    name: str, as_stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Token counts without a clear meaning are recorded as unknown."""
    body, tokens = USABLE[name]
    call = await outcome_of_call(
        stream_response({**body}) if as_stream else respond_with(answer(body)), monkeypatch, as_stream
    )
    if as_stream and name in BAD_IF_STREAMED:
        assert isinstance(call, MootError)
        assert (call.kind, call.retryable) == ("bad_response", True)
        return
    assert not isinstance(call, MootError), call
    assert (call["outcome"], call["prompt_tokens"], call["completion_tokens"]) == ("ok", *tokens)
    assert call["reported_model"] in ("m", None)
    counts = (call["prompt_tokens"], call["completion_tokens"])
    assert all(type(count) is int for count in counts if count is not None)


@pytest.mark.parametrize("as_stream", [False, True])
@pytest.mark.parametrize("name", UNUSABLE)
async def test_an_unusable_reply_causes_an_error_that_says_what_to_do(
    name: str, as_stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reply without content, or a stream without choices, causes no error. The outcome of the call is ``empty``."""
    body, kind = UNUSABLE[name]
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    respond = (
        respond_with(STREAM, b"data: ", content, b"\n\n", close=True) if as_stream else respond_with(answer(content))
    )
    outcome = await outcome_of_call(respond, monkeypatch, as_stream)
    if name in ("choices null", "no choices") if as_stream else kind == "empty":
        assert not isinstance(outcome, MootError)
        assert outcome["outcome"] == "empty"
        return
    assert isinstance(outcome, MootError)
    assert outcome.kind == ("bad_response" if kind == "empty" else kind)
    assert any(words in outcome.detail for words in ("Check ", "Try again", "lower"))


@pytest.mark.parametrize("as_stream", [False, True])
async def test_a_rate_limited_call_is_retried(as_stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rejected requests do not count towards the limit of one attempt. The call's record counts all three requests."""
    good_stream = respond_with(STREAM, event(choices=[CHOICE | {"delta": CHOICE["message"]}]), close=True)
    good = good_stream if as_stream else respond_with(answer(reply_body()))
    busy = respond_with(answer(b"", "429 Busy", Retry_After="0"))
    responses = iter([busy, busy, good])

    async def respond(writer: Any, raw: Any) -> None:
        await next(responses)(writer, raw)

    async with raw_server(respond) as raw:
        monkeypatch.setenv("OPENAI_BASE_URL", raw.url)
        chat = (await open_chat_model("openai:m", timeout=20)).chat
        speaker = Speaker("rag", ChatModel("openai:m", chat, Endpoint(raw.url, "sk-x")), limits=Limits(attempts=1))

        async def send(chat: Any, asked: Any) -> BaseMessage:
            parts = [part async for part in chat.astream(asked)] if as_stream else [await chat.ainvoke(asked)]
            return parts[0]  # type: ignore[no-any-return]

        assert await speaker.converse(send, [HumanMessage("Is it so?")]) is not None
        assert [call["attempts"] for call in speaker.record.calls] == [3]


@pytest.mark.parametrize(
    "body",
    [
        *({"data": data} for data in (None, [], {"0": 1}, [None], "x", [{"embedding": {"a": 1}}], [{"embedding": 5}])),
        {"error": {"message": "Busy."}},
        b"[1]",
        b"5",
        b"<html>",
        b'{"data": "\xff"}',
    ],
    ids=str,
)
async def test_invalid_embeddings_cause_an_error_that_says_what_to_do(
    body: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with raw_server(respond_with(answer(body))) as raw:
        monkeypatch.setenv("OPENAI_BASE_URL", raw.url)
        with pytest.raises(MootError) as caught:
            await (await open_encoder("openai:m", Limits(attempts=1))).embed(["a"])
    assert caught.value.kind == "bad_response"
    assert any(words in caught.value.detail for words in ("Check ", "Try again"))


async def test_embeddings_with_an_invalid_token_count_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"data": [{"index": 0, "embedding": [3.0, 4.0]}], "usage": {"prompt_tokens": "many"}}
    async with raw_server(respond_with(answer(body))) as raw:
        monkeypatch.setenv("OPENAI_BASE_URL", raw.url)
        assert await (await open_encoder("openai:m")).embed(["a"]) == [pytest.approx([0.6, 0.8])]
