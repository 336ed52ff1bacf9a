"""Models of Ollama, through its own API: contexts, prompts that it cuts, schemas, and errors that name the remedy."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.graphs import society_of_minds
from moot.nodes._models.contexts import forget_contexts
from moot.retrievers import open_encoder

from tests.ollama_server import running_ollama

CLAIM = "The Suez Canal has locks."
LONG = [{"title": f"Canal {n}", "text": f"Canal {n} has {n} gates. " + "It is long and wide. " * 60} for n in range(60)]
SETTINGS: dict[str, Any] = {"model": "ollama:qwen3:8b", "agents": 2, "max_rounds": 2, "reader_summary": True}


@pytest.fixture(autouse=True)
def _no_contexts() -> None:
    forget_contexts()


async def debate(monkeypatch: pytest.MonkeyPatch, url: str, given: Any = None, **settings: Any) -> dict[str, Any]:
    monkeypatch.setenv("OLLAMA_BASE_URL", url)
    document: dict[str, Any] = await society_of_minds.graph.ainvoke(
        {"claim": CLAIM, "given": given}, context=SETTINGS | settings
    )
    return document


@pytest.mark.parametrize("path", ["", "/v1", "/"])
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


async def test_errors_name_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_ollama(models=("llama3.2:latest",)) as server:
        document = await debate(monkeypatch, server.url)
        assert "ollama pull qwen3:8b" in document["error"]["detail"]
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
