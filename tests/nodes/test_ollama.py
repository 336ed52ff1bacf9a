"""Models of Ollama, through its own API: contexts, prompts that it cuts, schemas, and errors that name the remedy."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import httpx
import pytest
from langchain_ollama import ChatOllama
from moot.core.endpoint import ollama_address
from moot.core.errors import UserError
from moot.graphs import society_of_minds
from moot.retrievers import open_encoder

from tests.ollama_server import running_ollama

CLAIM = "The Suez Canal has locks."
LONG = [{"title": f"Canal {n}", "text": f"Canal {n} has {n} gates. " + "It is long and wide. " * 60} for n in range(60)]
SETTINGS: dict[str, Any] = {"model": "ollama:qwen3:8b", "agents": 2, "max_rounds": 2, "reader_summary": True}


def own_object(**settings: Any) -> ChatOllama:
    """A model object of a user; it keeps no connection, which nobody would close when the test's event loop ends."""
    return ChatOllama(**settings, async_client_kwargs={"limits": httpx.Limits(max_keepalive_connections=0)})


async def debate(monkeypatch: pytest.MonkeyPatch, url: str, given: Any = None, **settings: Any) -> dict[str, Any]:
    monkeypatch.setenv("OLLAMA_BASE_URL", url)
    document: dict[str, Any] = await society_of_minds.graph.ainvoke(
        {"claim": CLAIM, "given": given}, context=cast(Any, SETTINGS | settings)
    )
    return document


@pytest.mark.parametrize("path", ["", "/v1", "/", "/api"])
async def test_debate_gets_schemas_and_counts(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    async with running_ollama() as server:
        document = await debate(monkeypatch, server.url + path, max_tokens=300, seed=3, temperature=0.5)
    assert document["status"] == "done", document["error"]
    assert all(chat["format"]["type"] == "object" for chat in server.chats())
    options = server.chats()[0]["options"]
    assert (options["num_predict"], options["temperature"]) == (300, 0.5)
    assert isinstance(options["seed"], int)
    assert "num_ctx" not in options
    assert all(call["prompt_tokens"] and call["completion_tokens"] for call in document["calls"])


async def test_a_model_that_thinks_gets_room_under_a_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_ollama(models=("mine:latest",), thinks=True) as server:
        for model in ("ollama:mine", own_object(model="mine", base_url=server.url)):
            document = await debate(monkeypatch, server.url, model=model, budget=100_000, context_tokens=40_000)
            assert document["status"] == "done", document["error"]
    assert {chat["options"]["num_predict"] for chat in server.chats()} == {4608}


@pytest.mark.parametrize("tells_context", [True, False])
async def test_prompt_is_shortened_to_the_loaded_context(monkeypatch: pytest.MonkeyPatch, tells_context: bool) -> None:
    async with running_ollama(tells_context=tells_context) as server:
        document = await debate(monkeypatch, server.url, LONG)
    assert document["status"] == "done", document["error"]
    assert server.cuts == 0
    assert document["calls"][0]["left_out"]["context"] == 4096
    assert server.chats()[0]["options"].get("num_ctx") == (None if tells_context else 4096)


async def test_setting_of_the_context_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_ollama() as server:
        document = await debate(monkeypatch, server.url, LONG, context_tokens=100_000)
    assert document["status"] == "done", document["error"]
    assert {chat["options"]["num_ctx"] for chat in server.chats()} == {100_000}
    assert server.cuts == 0
    assert "left_out" not in document["calls"][0]  # 40,960 tokens, the most that the model has, suffice


@pytest.mark.parametrize("half", [True, False])
async def test_cut_prompt_is_noticed_and_shortened(monkeypatch: pytest.MonkeyPatch, half: bool) -> None:
    async with running_ollama(cuts_to_half=half) as server:
        monkeypatch.setattr("tests.ollama_server.BYTES_PER_TOKEN", 2)  # more tokens than any estimate
        document = await debate(monkeypatch, server.url, LONG)
    assert document["status"] == "done", document["error"]
    assert server.cuts
    (failed, *_) = [call for call in document["calls"] if call["outcome"] == "failed"]
    assert "has cut the prompt" in failed["detail"]
    assert "OLLAMA_CONTEXT_LENGTH" in failed["detail"]
    last = document["calls"][-1]
    assert last["outcome"] == "ok"


async def test_an_object_is_asked_for_its_context_and_cut_prompts_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_ollama() as server:
        chat = own_object(model="qwen3:8b", base_url=server.url)
        document = await debate(monkeypatch, server.url, LONG, model=chat)
        assert document["status"] == "done", document["error"]
        assert (server.cuts, document["calls"][0]["left_out"]["context"]) == (0, 4096)
        own = own_object(model="qwen3:8b", base_url=server.url, num_ctx=6000)
        await debate(monkeypatch, server.url, model=own)
        await debate(monkeypatch, server.url, model=own, context_tokens=7000)
        assert [chat["options"].get("num_ctx") for chat in server.chats()] == [None] * 4 + [6000] * 4 + [7000] * 4
        monkeypatch.setattr("tests.ollama_server.BYTES_PER_TOKEN", 2)
        document = await debate(monkeypatch, server.url, LONG, model=chat)
        assert server.cuts
        assert "has cut the prompt" in next(c["detail"] for c in document["calls"] if c["outcome"] == "failed")
        missing = own_object(model="other", base_url=server.url)
        document = await debate(monkeypatch, server.url, model=missing)
        assert "ollama pull other" in document["error"]["detail"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [("OLLAMA_BASE_URL", "127.0.0.1:{port}"), ("OLLAMA_HOST", "0.0.0.0:{port}"), ("OLLAMA_HOST", ":{port}/")],
)
async def test_addresses_without_a_scheme(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    async with running_ollama() as server:
        monkeypatch.setenv(variable, value.format(port=server.url.rpartition(":")[2]))
        context: Any = SETTINGS
        document = await society_of_minds.graph.ainvoke({"claim": CLAIM}, context=context)
    assert document["status"] == "done", document["error"]


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:11434"),
        ("http://box", "http://box:80"),
        ("https://box/ollama", "https://box:443/ollama"),
        ("[::]:5", "http://[::1]:5"),
        ("a:b:c", "a:b:c"),
    ],
)
def test_a_host_of_ollama_becomes_an_address(host: str, address: str) -> None:
    assert ollama_address(host) == address


async def test_errors_name_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_ollama(models=("llama3.2:latest",)) as server:
        document = await debate(monkeypatch, server.url)
        assert "(HTTP 404: model 'qwen3:8b' not found). Fetch it: ollama pull qwen3:8b" in document["error"]["detail"]
        document = await debate(monkeypatch, server.url, model="ollama:llama3.2")
        assert document["status"] == "done", document["error"]
    document = await debate(monkeypatch, server.url, model="ollama:llama3.2:1b")
    assert document["error"]["detail"].endswith("Start Ollama: ollama serve")


@pytest.mark.parametrize(
    ("options", "outcome", "words"),
    [
        ({"fault": "llama runner process has terminated"}, "failed", "llama runner process has terminated"),
        ({"fault": "cut"}, "failed", "it ended early"),
        ({"stop": "length"}, "cut", "cut off"),
    ],
)
async def test_faults_of_a_reply(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], outcome: str, words: str
) -> None:
    async with running_ollama(**options) as server:
        document = await debate(monkeypatch, server.url, attempts=1)
    assert document["status"] == "failed"
    assert outcome in {call["outcome"] for call in document["calls"]}
    assert words in " ".join(call.get("detail", "") for call in document["calls"])


async def test_slow_load_is_no_failed_call(monkeypatch: pytest.MonkeyPatch) -> None:
    load = asyncio.Event()
    async with running_ollama(load=load) as server:
        task = asyncio.create_task(debate(monkeypatch, server.url, timeout=5))
        async with asyncio.timeout(60):
            while not server.requests:
                await asyncio.sleep(0)
        load.set()
        document = await task
        assert document["status"] == "done", document["error"]
        assert {call["attempts"] for call in document["calls"]} == {1}
        server.load, server.loaded = asyncio.Event(), {}
        monkeypatch.setattr("moot.nodes._vendors.ollama.LOAD_SECONDS", 0.01)
        document = await debate(monkeypatch, server.url, context_tokens=8192)
        assert "ollama run qwen3:8b" in document["error"]["detail"]


async def test_embedder_does_not_cut_passages(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_ollama(models=("nomic-embed-text:latest",), default_context=100) as server:
        monkeypatch.setenv("OLLAMA_BASE_URL", server.url)
        encoder = await open_encoder("ollama:nomic-embed-text")
        vectors = await encoder.embed(["One.", "Two."])
        assert len(vectors) == 2
        assert vectors[0] != vectors[1]
        with pytest.raises(UserError, match="the input length exceeds the context length"):
            await encoder.embed(["Three. " * 100])
