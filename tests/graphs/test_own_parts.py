"""Parts of other libraries in a debate, each by an object and by a name: see docs/howto/parts.md."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
from langchain_core.caches import RETURN_VAL_TYPE, BaseCache
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.rate_limiters import BaseRateLimiter
from langchain_core.retrievers import BaseRetriever
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from moot.graphs import tool_mad
from pydantic import SecretStr

from tests.conftest import StartStub

CLAIM: Any = {"claim": "The cylinder was retired."}
PARTS = "own_parts"


class Letters(Embeddings):
    """Vectors of the numbers of five letters."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.texts += texts
        return [[1.0 + text.count(letter) for letter in "aeiou"] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        raise AssertionError("moot compares texts with one another")


class Shelf(BaseRetriever):
    """A retriever with one document."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document("The cylinder was retired in 2019.", metadata={"title": "Units"})]


class Turnstile(BaseRateLimiter):
    """Lets all calls pass, and counts them."""

    passed = 0

    def acquire(self, *, blocking: bool = True) -> bool:
        raise AssertionError("moot calls models asynchronously")

    async def aacquire(self, *, blocking: bool = True) -> bool:
        self.passed += 1
        return True


class Diary(InMemorySaver):
    """A checkpointer that counts the states."""

    written = 0

    def put(self, *arguments: Any) -> Any:
        self.written += 1
        return super().put(*arguments)


class Notes(BaseCache):
    """Replies by their prompt and model."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], RETURN_VAL_TYPE] = {}

    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        return self.kept.get((prompt, llm_string))

    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        self.kept[prompt, llm_string] = return_val

    def clear(self, **more: Any) -> None:
        self.kept.clear()


def model(url: str, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(model="stub", base_url=url, api_key=SecretStr("none"), **options)


def module_of(monkeypatch: pytest.MonkeyPatch, **parts: Any) -> None:
    """Make a module whose attributes are the parts."""
    module = ModuleType(PARTS)
    vars(module).update(parts)
    monkeypatch.setitem(sys.modules, PARTS, module)


@pytest.mark.parametrize("is_named", [False, True])
async def test_model_retriever_embedder_and_limiter(
    start_stub: StartStub, monkeypatch: pytest.MonkeyPatch, is_named: bool
) -> None:
    stub = start_stub([{"fields": {"answer": "SUPPORTS", "citations": []}}])
    limiter, letters, shelf = Turnstile(), Letters(), Shelf()
    chat = model(stub.url, rate_limiter=limiter)
    module_of(monkeypatch, chat=chat, letters=letters, shelf=shelf)
    parts: list[Any] = [chat, letters, shelf]
    if is_named:
        parts = [f"langchain:{PARTS}:{name}" for name in ("chat", "letters", "shelf")]
    debaters = [{"name": "one", "retriever": parts[2]}, {"name": "two"}]
    given: Any = {"model": parts[0], "embedder": parts[1], "debaters": debaters, "max_rounds": 1}
    document = await tool_mad.graph.ainvoke(CLAIM, context=given)
    assert (document["status"], document["evidence"][0]["title"]) == ("done", "Units")
    assert document["settings"]["embedder"] == (parts[1] if is_named else "object:Letters")
    assert all(scores["answer_relevance"] for scores in document["scores"].values())
    assert len(letters.texts) > 2
    assert limiter.passed == len(stub.calls()) == document["usage"]["calls"] > 0


async def test_a_cache_of_langchain_holds_the_replies_and_an_own_checkpointer_the_states(start_stub: StartStub) -> None:
    stub = start_stub([{"model": "stub", "fields": {"answer": "SUPPORTS", "citations": []}}])
    debaters = [{"name": "one", "retriever": Shelf()}, {"name": "two"}]
    saver, letters = Diary(), Letters()
    graph = tool_mad.builder.compile(checkpointer=saver)
    chat, answers, paid = model(stub.url, cache=Notes()), list[Any](), list[int]()
    given: Any = {"model": chat, "embedder": letters, "debaters": debaters, "max_rounds": 1, "ask_person": ["verdict"]}
    for number in range(2):
        thread: Any = {"configurable": {"thread_id": str(number)}}
        assert (await graph.ainvoke(CLAIM, thread, context=given))["__interrupt__"]
        document = await graph.ainvoke(Command(resume=True), thread, context=given)
        answers.append([turn.get("answer") for turn in document["turns"]])
        paid.append(len(stub.calls()))
    assert paid[0] == paid[1] > 0
    assert answers[0] == answers[1]
    assert saver.written > 10
