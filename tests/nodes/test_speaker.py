"""A speaker's calls to its model over real HTTP: their requests, replies, errors and records."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from moot.core.endpoint import Limits
from moot.core.errors import MootError, ReplyError, UserError, WorldError
from moot.nodes._models.chat_models import StructuredOutput, open_chat_model
from moot.nodes._models.speaker import Speaker
from moot.nodes._models.step_record import StepRecord
from moot.nodes._texts.replies import AnswerReply, Reply, answer_reply, reply_schema
from moot.nodes._texts.task import make_task

from tests.conftest import StartStub

PROMPTS = {"decide": "Decide.\n---\nThe data.", "write": "Write.\n---\n{what}"}
ANSWER = answer_reply(make_task())
GOOD = json.dumps({"rationale": "So it is.", "citations": [], "answer": "SUPPORTS"})
CANARY = "sk-canary-5f2c9d8a7b"


@dataclass
class AskResult:
    """The reply or the error of one `Speaker.ask`, and the record with its calls."""

    reply: Any
    error: MootError | None
    record: StepRecord

    @property
    def texts(self) -> str:
        """The calls, the warnings, and the record of the error, as one text."""
        return f"{self.error and self.error.record('')} {self.record.calls} {self.record.warnings}"


async def ask(
    model: str = "openai:stub-a",
    reply: type[Reply] = ANSWER,
    *,
    structured_output: StructuredOutput = "json_schema",
    attempts: int = 3,
    timeout: float = 30,
    max_wait: float = 600,
) -> AskResult:
    """Makes one `Speaker.ask` with a new speaker."""
    record = StepRecord(node="respond", round=2, agent="rag")
    chat = await open_chat_model(model, timeout=timeout)
    speaker = Speaker(
        "rag", chat, record, Limits(attempts, max_wait=max_wait), structured_output=structured_output, prompts=PROMPTS
    )
    try:
        return AskResult(await speaker.ask("decide", {}, reply), None, record)
    except MootError as error:
        return AskResult(None, error, record)


async def test_a_usable_reply_is_returned(start_stub: StartStub) -> None:
    """The record has one call. The request has the prompt's two messages and the schema of the reply."""
    stub = start_stub([{"reply": GOOD}])
    result = await ask()
    assert isinstance(result.reply, AnswerReply)
    assert result.reply.answer == "SUPPORTS"
    [call] = result.record.calls
    seconds = call.pop("seconds")  # type: ignore[misc]
    assert 0 < seconds < 30
    assert call == {
        "node": "respond",
        "role": "rag",
        "agent": "rag",
        "phase": "primary",
        "round": 2,
        "model": "openai:stub-a",
        "reported_model": "stub-a",
        "prompt_tokens": len("Decide.\nThe data.") // 4 + 1,
        "completion_tokens": len(GOOD) // 4 + 1,
        "attempts": 1,
        "outcome": "ok",
    }
    assert (result.record.warnings, result.record.depth) == ([], 1)
    [request] = stub.requests()
    assert [(m["role"], m["content"]) for m in request["messages"]] == [("system", "Decide."), ("user", "The data.")]
    assert request["response_format"]["json_schema"]["schema"] == reply_schema(ANSWER)


def rule_with_message(**message: Any) -> dict[str, Any]:
    """A rule of the stub: the response has a message with these fields."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {
        "raw": json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})
    }


# For each case: the stub's rule, the number of requests, and the error's class, its kind and some of its words.
# Two attempts are allowed. Requests refused with HTTP 429 are not repeated, because the longest wait is 0 s.
FAILURES: dict[str, tuple[dict[str, Any], int, type[MootError], str, str]] = {
    "server-error": ({"status": 500, "retry_after": "0"}, 2, WorldError, "server_error", "Try again later"),
    "rate-limit": ({"status": 429, "retry_after": "0"}, 1, WorldError, "rate_limited", "max_concurrency"),
    "rate-limit-hour": ({"status": 429, "retry_after": "3600"}, 1, WorldError, "rate_limited", "retry after 3600 s"),
    "unauthorised": ({"status": 401}, 1, UserError, "authentication", "Check OPENAI_API_KEY"),
    "forbidden": ({"status": 403}, 1, UserError, "authentication", "Check OPENAI_API_KEY"),
    "unknown-model": ({"status": 404}, 1, UserError, "unknown_model", "Check its name"),
    "bad-request": ({"status": 400}, 1, UserError, "bad_request", "structured_output"),
    "quota": (
        {"status": 429, "raw": '{"error": {"message": "pay", "code": "insufficient_quota"}}'},
        1,
        UserError,
        "quota",
        "billing",
    ),
    "dropped": ({"drop": True}, 2, WorldError, "unreachable", "Check the address"),
    "html": ({"raw": "<html>busy</html>"}, 2, WorldError, "bad_response", "ends in /v1"),
    "cut": ({"raw": '{"id": "1", "choices": [{"index": 0, "mess'}, 2, WorldError, "bad_response", "ends in /v1"),
    "empty": ({"raw": ""}, 2, WorldError, "bad_response", "ends in /v1"),
    "empty-object": ({"raw": "{}"}, 2, WorldError, "bad_response", "ends in /v1"),
    "no-choices": ({"raw": '{"choices": []}'}, 2, WorldError, "bad_response", "ends in /v1"),
    "array": ({"raw": "[1]"}, 2, WorldError, "bad_response", "ends in /v1"),
    "null": ({"raw": "null"}, 2, WorldError, "bad_response", "ends in /v1"),
}


async def test_the_kind_of_the_error_matches_the_failure_of_a_call(
    start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the endpoint, but not the API key. The record has one failed call."""
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    stub = start_stub([{"model": f"^stub-{name}$", **rule} for name, (rule, *_) in FAILURES.items()])
    results = await asyncio.gather(*(ask(f"openai:stub-{name}", attempts=2, max_wait=0) for name in FAILURES))
    sent = [request["model"] for request in stub.requests()]
    for (name, (_, request_count, error_class, kind, words)), result in zip(FAILURES.items(), results, strict=True):
        assert result.error is not None, name
        assert (name, result.error.kind, sent.count(f"stub-{name}")) == (name, kind, request_count)
        assert isinstance(result.error, error_class), name
        assert not isinstance(result.error, ReplyError), name
        assert words in result.error.detail, name
        assert stub.url in result.error.detail, name
        assert result.error.where == "rag: respond, round 2"
        [call] = result.record.calls
        assert (call["attempts"], call["outcome"], call["prompt_tokens"]) == (request_count, "failed", None), name
        assert call["detail"] == result.error.detail
        assert CANARY not in result.texts, name


LONG_KEY = CANARY + "0123456789" * 20
"""An error quotes at most 200 characters of a response. This key is longer."""


@pytest.mark.parametrize("key", [CANARY, LONG_KEY], ids=["short", "long"])
async def test_a_key_in_the_response_of_an_endpoint_is_redacted(
    start_stub: StartStub, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    message = f"Incorrect API key provided: {key}."
    assert WorldError(message, kind="unreachable").detail == "Incorrect API key provided: [OPENAI_API_KEY]."
    rules: dict[str, dict[str, Any]] = {
        "authentication": {"status": 401, "raw": json.dumps({"error": {"message": message}})},
        "server_error": {"status": 500, "raw": message},
        "refused": rule_with_message(content=None, refusal=message),
        "unparsed": {"reply": GOOD.replace("SUPPORTS", message)},
    }
    start_stub([{"model": f"^stub-{kind}$", **rule} for kind, rule in rules.items()])
    for kind in rules:
        result = await ask(f"openai:stub-{kind}", attempts=1)
        assert result.error is not None
        assert result.error.kind == kind
        assert "Incorrect API key provided: [OPENAI_API_KEY]." in result.error.detail
        assert "sk-canary" not in result.texts, kind


async def test_models_that_cannot_be_called_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is missing, the provider is unknown, or the model has no name."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    for name, kind in {"openai:gpt": "missing_key", "nobody:x": "unknown_provider", "openai:": "unknown_model"}.items():
        with pytest.raises(UserError) as refused:
            await open_chat_model(name)
        assert refused.value.kind == kind


# For each case: the stub's rule, the outcome of the call, and a pattern for the problem that the second request names.
UNUSABLE: dict[str, tuple[dict[str, Any], str, str]] = {
    "cut": ({"reply": GOOD[:-9], "finish": "length"}, "cut", "cut off at the limit"),
    "cut-late": ({"reply": GOOD, "finish": "length"}, "cut", "cut off at the limit"),
    "filtered": ({"finish": "content_filter"}, "refused", "it was refused"),
    "refused": (rule_with_message(content=None, refusal="I cannot."), "refused", r"it was refused \(I cannot\.\)"),
    "empty": ({"reply": ""}, "empty", "it was empty"),
    "blank": ({"reply": " \n "}, "empty", "it was empty"),
    "null": (rule_with_message(content=None), "empty", "it was empty"),
    "prose": ({"reply": "I would say SUPPORTS."}, "unparsed", "no complete JSON object"),
    "half": ({"reply": GOOD[:-1]}, "unparsed", "no complete JSON object"),
    "label": ({"reply": GOOD.replace("SUPPORTS", "LIKELY")}, "unparsed", r"`answer` is 'LIKELY', not one of \['SUPP"),
    "fields": ({"reply": '{"answer": "SUPPORTS"}'}, "unparsed", "`rationale` Field required; `citations` Field req"),
    "long": ({"reply": "I would say. " * 9999}, "unparsed", "no complete JSON object"),
    "surrogate": ({"reply": "Half a \ud800 character."}, "unparsed", "no complete JSON object"),
}


@pytest.mark.parametrize("always_unusable", [False, True])
async def test_an_unusable_reply_is_followed_by_a_second_request(start_stub: StartStub, always_unusable: bool) -> None:
    """The second request states the problem. If its reply is also unusable, `ask` raises a ReplyError."""
    rules: list[dict[str, Any]] = []
    for name, (rule, _, _) in UNUSABLE.items():
        rules.append({"model": f"^stub-{name}$", **rule} | ({} if always_unusable else {"times": 1}))
    stub = start_stub([*rules, {"reply": GOOD}])
    results = await asyncio.gather(*(ask(f"openai:stub-{name}") for name in UNUSABLE))
    requests = stub.requests()
    for (name, (_, outcome, words)), result in zip(UNUSABLE.items(), results, strict=True):
        sent = [r["messages"] for r in requests if r["model"] == f"stub-{name}"]
        outcomes = [c["outcome"] for c in result.record.calls]
        assert (name, len(sent), outcomes) == (name, 2, [outcome, outcome if always_unusable else "ok"])
        assert [c["attempts"] for c in result.record.calls] == [1, 1]
        assert re.search(words, result.record.calls[0]["detail"]), name
        assert [w["kind"] for w in result.record.warnings] == [outcome] * (2 if always_unusable else 1), name
        assert result.record.warnings[0]["where"] == "rag: respond, round 2"
        assert result.record.depth == 2
        assert sent[1][:2] == sent[0]
        assert [m["role"] for m in sent[1]] == ["system", "user", "assistant", "user"]
        assert re.search(words, sent[1][3]["content"]), name
        assert len(sent[1][2]["content"]) <= 2000, name
        if always_unusable:
            assert isinstance(result.error, ReplyError), name
            assert (result.error.kind, result.reply) == (outcome, None)
            assert re.search(words, result.error.detail), name
        else:
            assert result.error is None
            assert result.reply.answer == "SUPPORTS"


async def test_both_requests_are_recorded_if_the_second_one_fails(start_stub: StartStub) -> None:
    start_stub([{"reply": "Hm.", "times": 1}, {"status": 401}])
    result = await ask()
    assert result.error is not None
    assert (result.error.kind, result.error.where) == ("authentication", "rag: respond, round 2")
    assert [c["outcome"] for c in result.record.calls] == ["unparsed", "failed"]
    assert [w["kind"] for w in result.record.warnings] == ["unparsed"]


# A program that calls a model in three event loops, and closes no client.
UNCLOSED_CLIENTS = """
import asyncio
from moot.core.endpoint import Limits
from moot.nodes._models.chat_models import StructuredOutput, open_chat_model
from moot.nodes._texts.replies import QueryReply
from moot.nodes._models.speaker import Speaker

async def ask_in_parallel():
    chat, prompts = await open_chat_model("openai:stub-a"), {"write": "Write.\\n---\\n{what}"}
    speaker = Speaker("rag", chat, limits=Limits(attempts=1), prompts=prompts)
    replies = await asyncio.gather(*(speaker.ask("write", {"what": str(i)}, QueryReply) for i in range(4)))
    return [r.query for r in replies]

print(asyncio.run(ask_in_parallel()) == asyncio.run(ask_in_parallel()) == asyncio.run(ask_in_parallel()))
"""


def test_event_loops_with_unclosed_clients_end_without_warnings(start_stub: StartStub) -> None:
    start_stub([{"reply": '{"query": "kilogram"}'}])
    done = subprocess.run(
        [sys.executable, "-c", UNCLOSED_CLIENTS], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "True", "")
