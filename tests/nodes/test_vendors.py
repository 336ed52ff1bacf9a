"""Models of vendors with their own clients: calls to Anthropic's API, clients' options, and errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from moot.core.endpoint import PROVIDERS, Endpoint, Limits, close_clients
from moot.core.errors import MootError, UserError
from moot.core.refusals import explain
from moot.graphs import load_graph
from moot.nodes._models.chat_models import open_chat_model
from moot.nodes._models.prices import cost_of, read_prices
from moot.nodes._models.seeds import with_seed
from moot.nodes._models.speaker import Speaker
from moot.nodes._models.step_record import StepRecord
from moot.nodes._models.structured import reply_options
from moot.nodes._texts.replies import answer_reply
from moot.nodes._texts.task import make_task
from moot.nodes._vendors import catalogue
from moot.nodes._vendors.catalogue import VENDORS, check_provider, providers_here
from moot.nodes._vendors.clients import options_of
from pydantic import BaseModel, Field

from tests.nodes.messages_api import MessagesEndpoint, messages_api

PROMPTS = {"decide": "Decide.\n---\nThe data."}
ANSWER = answer_reply(make_task())
GOOD = json.dumps({"rationale": "So it is.", "citations": [], "answer": "SUPPORTS"})
MODEL = "anthropic:claude-haiku-4-5"
KEY = "sk-ant-canary-5f2c9d8a7b"


@pytest.fixture(autouse=True)
async def anthropic_key(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Sets a key for Anthropic, and closes the clients after the test."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    yield
    await close_clients()


async def ask(api: MessagesEndpoint, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[Any, StepRecord]:
    """The reply or the error of one `Speaker.ask`, and the record with its calls."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
    record = StepRecord(node="respond", round=2, agent="rag")
    mode = options.pop("structured_output", "json_schema")
    chat = await open_chat_model(MODEL, timeout=30, **options)
    speaker = Speaker("rag", chat, record, Limits(3, max_wait=5), structured_output=mode, prompts=PROMPTS)
    try:
        return await speaker.ask("decide", {}, ANSWER), record
    except MootError as error:
        return error, record


async def test_a_request_has_the_prompt_the_schema_and_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record has the call with its token counts."""
    async with messages_api(GOOD) as api:
        reply, record = await ask(api, monkeypatch, max_tokens=300)
    assert reply.answer == "SUPPORTS"
    (sent,) = api.requests
    assert (sent["model"], sent["max_tokens"], sent["temperature"]) == ("claude-haiku-4-5", 300, 0.0)
    assert sent["system"] == "Decide."
    assert sent["output_config"]["format"]["type"] == "json_schema"
    assert set(sent["output_config"]["format"]["schema"]["properties"]) == {"rationale", "citations", "answer"}
    assert KEY in (api.headers[0].get("x-api-key") or api.headers[0]["authorization"])
    (call,) = record.calls
    assert (call["prompt_tokens"], call["completion_tokens"], call["attempts"]) == (25, 7, 1)
    assert (call["model"], call["reported_model"]) == (MODEL, "claude-haiku-4-5")


async def test_only_moot_retries_requests_with_transient_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = {
        "status": 429,
        "error": {"type": "rate_limit_error", "message": "Slow down."},
        "headers": {"retry-after": "0"},
    }
    async with messages_api(busy, {"status": 529}, {"status": 500}, GOOD) as api:
        reply, record = await ask(api, monkeypatch)
    assert reply.answer == "SUPPORTS"
    # Each attempt sends one request, because the client itself does not retry.
    assert (record.calls[0]["attempts"], len(api.requests)) == (4, 4)


@pytest.mark.parametrize(
    ("status", "error", "headers", "kind", "words"),
    [
        (401, ("authentication_error", f"invalid x-api-key {KEY}"), {}, "authentication", "Check ANTHROPIC_API_KEY"),
        (404, ("not_found_error", "model: claude-x"), {}, "unknown_model", "does not know the model"),
        (429, ("rate_limit_error", "Too many."), {"retry-after": "90"}, "rate_limited", "retry after 90 s"),
        (400, ("invalid_request_error", "Your credit balance is too low"), {}, "quota", "billing"),
        (400, ("invalid_request_error", "temperature: no"), {}, "bad_request", "did not accept"),
        (500, ("api_error", "Internal."), {}, "server_error", "failed while answering"),
    ],
)
async def test_http_errors_become_errors_of_the_matching_kind(
    status: int, error: Any, headers: Any, kind: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The errors quote the message of the API, but not the key in this message."""
    api_error = {"type": error[0], "message": error[1]}
    async with messages_api({"status": status, "error": api_error, "headers": headers}) as api:
        failed, record = await ask(api, monkeypatch)
        assert (failed.kind, words in failed.detail, KEY in failed.detail) == (kind, True, False)
        assert api.url in failed.detail
        assert error[1].replace(KEY, "[ANTHROPIC_API_KEY]") in failed.detail
        assert record.calls[-1]["outcome"] == "failed"
        assert len(api.requests) == (3 if kind == "server_error" else 1)


async def test_a_prompt_beyond_the_context_is_an_error_of_the_kind_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    long = {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}
    async with messages_api({"status": 400, "error": long}) as api:
        failed, _ = await ask(api, monkeypatch)
    assert failed.kind == "too_long"


@pytest.mark.parametrize(("stop", "outcome"), [("max_tokens", "cut"), ("refusal", "refused")])
async def test_cut_and_refused_replies_are_errors(stop: str, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with messages_api({"text": GOOD, "stop": stop}) as api:
        failed, record = await ask(api, monkeypatch)
    assert [call["outcome"] for call in record.calls] == [outcome, outcome]
    assert failed.kind == outcome


async def test_calls_to_an_unreachable_endpoint_are_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    async with messages_api(GOOD) as api:
        pass
    failed, record = await ask(api, monkeypatch)
    assert (failed.kind, record.calls[0]["attempts"]) == ("unreachable", 3)


async def test_streams_report_token_counts_and_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    overloaded = {"type": "overloaded_error", "message": "Overloaded"}
    async with messages_api(GOOD, {"text": GOOD, "breaks": overloaded}) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        model = await open_chat_model(MODEL)
        message: Any = None
        async for chunk in model.chat.astream("Is it so?"):
            message = chunk if message is None else message + chunk
        assert message is not None
        assert (message.text, message.usage_metadata["input_tokens"]) == (GOOD, 25)
        assert (message.usage_metadata["output_tokens"], api.requests[0]["stream"]) == (7, True)
        with pytest.raises(Exception, match="verload") as caught:
            async for _ in model.chat.astream("Is it so?"):
                pass
        explained = explain(caught.value, model.endpoint, MODEL)
        assert explained.retryable
        assert "Overloaded" in explained.detail


def test_calls_succeed_in_two_event_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call() -> Any:
        async with messages_api(GOOD) as api:
            try:
                return await ask(api, monkeypatch)
            finally:
                await close_clients()

    for _ in range(2):
        reply, _ = asyncio.run(call())
        assert reply.answer == "SUPPORTS"


async def test_a_debate_with_a_cost_ceiling_runs_on_a_vendors_model(monkeypatch: pytest.MonkeyPatch) -> None:
    async with messages_api(GOOD) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        settings = {"model": MODEL, "max_cost": 0.05, "seed": 3}
        document: Any = await load_graph("standard_prompting").graph.ainvoke({"claim": "It is so."}, context=settings)
    assert (document["status"], document["answer"]) == ("done", "SUPPORTS")
    assert (api.requests[0]["max_tokens"], "seed" in api.requests[0]) == (512, False)
    price = read_prices()[MODEL]
    usd = (20 * price["input"] + 5 * price["cached"] + 7 * price["output"]) / 1e6
    assert cost_of(document["calls"], read_prices()) == pytest.approx(usd)


async def test_a_client_without_a_seed_option_gets_no_seed() -> None:
    model = await open_chat_model(MODEL)
    assert with_seed(model.chat, 3) is model.chat


async def test_json_mode_is_refused_for_anthropic(monkeypatch: pytest.MonkeyPatch) -> None:
    async with messages_api(GOOD) as api:
        failed, _ = await ask(api, monkeypatch, structured_output="json_object")
    assert (failed.kind, api.requests) == ("invalid_setting", [])


# --- providers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "meant"), [("opnai:x", "openai"), ("antropic:c", "anthropic"), ("google:g", "google_genai")]
)
def test_the_error_for_an_unknown_provider_suggests_a_known_name(name: str, meant: str) -> None:
    with pytest.raises(UserError, match=f"Did you mean {meant}\\?") as caught:
        check_provider(name)
    assert caught.value.kind == "unknown_provider"


async def test_errors_name_the_missing_key_or_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(UserError, match="ANTHROPIC_API_KEY is not set, so models of Anthropic"):
        await open_chat_model(MODEL)
    monkeypatch.setattr(catalogue, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="need the package langchain-anthropic: .*(make setup|pip install)") as caught:
        await open_chat_model(MODEL)
    assert caught.value.kind == "missing_package"


def test_the_list_of_providers_names_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "find_spec", lambda name: None)
    here = {one["provider"]: one for one in providers_here()}
    assert {"embedded", *PROVIDERS, *VENDORS} == set(here)
    assert "langchain-mistralai" in here["mistralai"]["why_not"]
    assert here["ollama"]["why_not"] == ""


async def test_a_model_of_azure_is_opened_with_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the environment names no endpoint, the model is refused."""
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k" * 20)
    with pytest.raises(UserError, match="AZURE_OPENAI_ENDPOINT and OPENAI_API_VERSION are not set"):
        await open_chat_model("azure_openai:mine")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    model: Any = await open_chat_model("azure_openai:mine", seed=4, max_tokens=9)
    assert (model.chat.max_retries, model.chat.seed, model.chat.max_tokens) == (0, 4, 9)


class Client(BaseModel):
    """A client whose names for some options differ from moot's names."""

    max_output_tokens: int | None = Field(default=None, alias="max_tokens")
    request_timeout: float | None = None


def test_options_have_the_names_that_a_client_uses() -> None:
    """Options that the client does not know are left out, and so are options without a value."""
    given = {"max_tokens": 5, "timeout": 2.0, "max_retries": 0, "temperature": None}
    assert options_of(Client, given) == {"max_tokens": 5, "request_timeout": 2.0}


def test_the_option_for_the_schema_depends_on_the_client() -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "A", "schema": {"type": "object"}}}
    assert reply_options("words", wanted) == {}
    assert reply_options("google", wanted)["response_json_schema"] == {"type": "object"}
    assert reply_options("response_format", wanted) == {"response_format": wanted}


class ThrottledError(Exception):
    """An error with the same field ``response`` as an error of botocore."""

    def __init__(self) -> None:
        self.response = {
            "Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"},
            "ResponseMetadata": {"HTTPStatusCode": 429, "HTTPHeaders": {"retry-after": "2"}},
        }


def test_errors_of_clients_are_mapped_by_status_or_class() -> None:
    error = explain(ThrottledError(), Endpoint("Amazon Bedrock", ""), "bedrock_converse:x")
    assert (error.kind, error.retry_after) == ("rate_limited", 2.0)
    assert explain(TimeoutError(), Endpoint("x", ""), "x:y").kind == "timeout"
    assert explain(ConnectionError("no"), Endpoint("x", ""), "x:y").kind == "unreachable"
    assert explain(KeyError("no"), Endpoint("x", "", api="X's"), "x:y").kind == "bad_response"
