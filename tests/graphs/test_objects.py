"""LangChain chat models, retrievers and vector stores as settings: names, stored replies, retries, and resumption."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, TypedDict, cast

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, CallbackManagerForLLMRun
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from moot.core.callers import serving_callers
from moot.core.errors import UserError
from moot.graphs import gated, load_graph, rag, react, standard_mad
from moot.graphs.react import ReactSettings
from moot.graphs.standard_mad import StandardMadSettings
from moot.nodes import ModelChoice, Settings, StoreUse, graph_node, open_chat_model, store_use
from moot.nodes._models.fake import draw
from moot.transcript.document import ending, settings_of
from moot.transcript.report.report import report
from moot.web.kept import parse_document
from pydantic import Field, SecretStr

from tests.conftest import StartStub

CLAIM = "The Suez Canal has locks."


class Own(BaseChatModel):
    """A model that knows no schemas: it finds the schema in the prompt, and fills it."""

    seen: list[int] = Field(default=[])

    @property
    def _llm_type(self) -> str:
        return "own"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        assert not kwargs
        self.seen.append(1)
        schema = json.loads(str(messages[1].content).rpartition("Its schema:\n")[2])
        text = json.dumps(draw(schema, random.Random(str(messages)), schema.get("$defs", {})))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


class Shelf(BaseRetriever):
    """A retriever with one document."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document("The Suez Canal has no locks.", metadata={"title": "Suez", "source": "atlas"})]


RULES: Any = {"sources": (Shelf(),), "max_rounds": 1}


class Counting(AsyncCallbackHandler):
    """Counts the runs of models."""

    runs = 0

    async def on_chat_model_start(self, *given: Any, **more: Any) -> None:
        self.runs += 1


def openai(url: str, name: str | None = None, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(model="stub", base_url=url, api_key=SecretStr("k"), name=name, **options)


async def test_object_is_called_once_per_attempt_with_its_options(start_stub: StartStub) -> None:
    stub, counting = start_stub(), Counting()
    chat = openai(stub.url, temperature=0.3, max_retries=5, callbacks=[counting])
    settings = StandardMadSettings(model=chat, models={"judge": ModelChoice(model=chat, max_tokens=77)}, **RULES)
    document = await standard_mad.graph.ainvoke({"claim": CLAIM}, context=settings)
    assert document["status"] == "done", document["error"]
    assert document["settings"]["model"] == "object:ChatOpenAI(stub)" == document["calls"][0]["model"]
    assert all(call["prompt_tokens"] for call in document["calls"])
    sent = stub.requests()
    assert counting.runs == len(sent) == len(document["calls"])
    assert {one["temperature"] for one in sent} == {0.3}
    assert sent[-1]["max_tokens"] == 77
    assert all(one["response_format"]["type"] == "json_schema" for one in sent)
    assert "own_retries" not in {warned["kind"] for warned in document["warnings"]}

    stub = start_stub([{"status": 500}])
    chat = openai(stub.url, max_retries=5)
    document = await standard_mad.graph.ainvoke(
        {"claim": CLAIM}, context=cast(Any, {"model": chat, "attempts": 2, **RULES})
    )
    assert document["status"] == "failed"
    assert len(stub.calls()) == sum(call["attempts"] for call in document["calls"])
    assert {call["attempts"] for call in document["calls"]} == {2}


async def test_streamed_tokens_are_counted(start_stub: StartStub) -> None:
    chat = openai(start_stub().url)
    parts, document = 0, dict[str, Any]()
    context, modes = cast(Any, {"model": chat} | RULES), cast(Any, ["messages", "values"])
    mode: str
    part: Any
    async for mode, part in standard_mad.graph.astream({"claim": CLAIM}, context=context, stream_mode=modes):
        parts += mode == "messages"
        document = part if mode == "values" else document
    assert parts > len(document["calls"])
    assert all(call["prompt_tokens"] and call["completion_tokens"] for call in document["calls"])


async def test_own_model_and_own_sources(start_stub: StartStub) -> None:
    store = InMemoryVectorStore.from_texts(["A canal in Egypt."], DeterministicFakeEmbedding(size=8))
    context = StandardMadSettings(model=Own(), sources=(Shelf(), store, store.as_retriever()), max_rounds=1)
    document = await standard_mad.graph.ainvoke({"claim": CLAIM}, context=context)
    assert document["status"] == "done", document["error"]
    names = ["object:Shelf", "object:InMemoryVectorStore", "object:VectorStoreRetriever(InMemoryVectorStore)"]
    assert document["settings"]["sources"] == names == [reading["retriever"] for reading in document["corpora"]]
    assert {piece["source"] for piece in document["evidence"]} >= {"atlas", names[1]}
    json.dumps(document)

    tools = ReactSettings(model=openai(start_stub().url), sources=(Shelf(),))
    document = await react.graph.ainvoke({"claim": CLAIM}, context=tools)
    assert document["status"] == "done", document["error"]
    assert document["evidence"][0]["source"] == "atlas"


async def test_a_debate_with_objects_has_a_report_and_can_be_shown() -> None:
    """Also if they are in the settings of the debate behind a gate, whose document has their names, too."""
    store = InMemoryVectorStore.from_texts(["A canal in Egypt."], DeterministicFakeEmbedding(size=8))
    inner = {"debaters": [{"name": name, "retriever": store} for name in ("rag", "search")], "max_rounds": 1}
    readers = [{"name": f"reader-{number}", "retriever": RULES["sources"][0]} for number in (1, 2)]
    chosen: Any = {"model": Own(), "agents": readers, "trigger": "always", "debate_settings": inner}
    for graph, context in ((gated.graph, chosen), (standard_mad.graph, {"model": Own(), **RULES})):
        document = await graph.ainvoke({"claim": CLAIM}, context=cast(Any, context))
        assert document["status"] == "done", document["error"]
        assert "settings_changed" not in {one["kind"] for one in document["warnings"]}
        assert [*ending(document).lines]
        assert "It does not include the program's own objects (object:Own, object:Shelf" in report(document, "md")
        assert parse_document(json.dumps(document).encode())["id"] == document["id"]
        with pytest.raises(UserError, match="Pass the object again"):
            settings_of(document)
        if graph is gated.graph:
            found = document["settings"]["debate_settings"]["debaters"]
            assert [one["retriever"] for one in found] == ["object:InMemoryVectorStore"] * 2


def test_two_objects_do_not_share_a_name(start_stub: StartStub) -> None:
    url = start_stub().url
    Settings(model=openai(url), models={"reporter": openai(url)})  # these are equal
    for first, second in ((openai(url), openai(url, temperature=0.7)), (Own(), Own())):
        with pytest.raises(UserError, match='name="NAME"'):
            Settings(model=first, models={"reporter": second})
    assert Settings(model=Own(name="one"), models={"reporter": Own(name="two")}).model == "object:one"
    with pytest.raises(UserError, match="a chat model of LangChain"):
        Settings(model=Own().with_retry())


async def test_stored_replies_of_objects_are_not_mixed(start_stub: StartStub, home: Path) -> None:
    url, one, other = start_stub().url, Own(seen=[]), Own(seen=[])
    for chat in (one, one, other):
        with store_use(StoreUse("reuse")):
            document = await standard_mad.graph.ainvoke({"claim": CLAIM}, context=cast(Any, {"model": chat, **RULES}))
        assert document["status"] == "done", document["error"]
    assert len(one.seen) == len(other.seen) == len(document["calls"])
    for fresh in (True, False):
        with store_use(StoreUse("reuse")):
            document = await standard_mad.graph.ainvoke(
                {"claim": CLAIM}, context=cast(Any, {"model": openai(url), **RULES})
            )
        assert [call.get("from_store", False) for call in document["calls"]] == [not fresh] * len(document["calls"])


async def test_name_alone_is_refused_and_resuming_takes_the_object_again() -> None:
    with pytest.raises(UserError, match="langchain:MODULE:ATTRIBUTE"):
        Settings(model="object:Own")
    with pytest.raises(UserError, match="langchain:MODULE:ATTRIBUTE"):
        await open_chat_model("object:Own")
    graph = standard_mad.graph.builder.compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    context: Any = {"model": Own(), "ask_person": ["verdict"]} | RULES
    waiting = await graph.ainvoke({"claim": CLAIM}, thread, context=context)
    assert waiting["__interrupt__"]
    with pytest.raises(UserError, match="langchain:MODULE:ATTRIBUTE"):
        await graph.ainvoke(Command(resume=True), thread)
    document = await graph.ainvoke(Command(resume=True), thread, context=context)
    assert document["status"] == "done", document["error"]


class Outer(TypedDict, total=False):
    """The state of a graph around a debate."""

    claim: str
    label: Any
    model: Any


async def test_object_in_a_nested_debate() -> None:
    builder = StateGraph(Outer)
    own = Own(seen=[])
    builder.add_node("debate", graph_node(standard_mad.graph).with_settings(StandardMadSettings(model=own, **RULES)))
    builder.add_edge(START, "debate")
    builder.add_edge("debate", END)
    await builder.compile(checkpointer=InMemorySaver()).ainvoke({"claim": CLAIM}, {"configurable": {"thread_id": "1"}})
    assert own.seen


async def test_model_by_module_and_attribute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_models.py").write_text("from tests.graphs.test_objects import Own\nchat, other = Own(), 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    name = "langchain:own_models:chat"
    document = await standard_mad.graph.ainvoke({"claim": CLAIM}, context=cast(Any, {"model": name, **RULES}))
    assert document["status"] == "done", document["error"]
    assert {call["model"] for call in document["calls"]} == {name}
    with pytest.raises(UserError, match="of the type int, not a LangChain chat model"):
        await open_chat_model("langchain:own_models:other")
    with pytest.raises(UserError, match="takes no `max_tokens`"):
        await open_chat_model(name, max_tokens=5)
    with serving_callers({}):
        with pytest.raises(UserError, match="not listed by this server"):
            await open_chat_model(name)
        monkeypatch.setenv("MOOT_LANGCHAIN_SOURCES", "own_models:chat")
        assert (await open_chat_model(name)).name == name


def test_program_in_docs(start_stub: StartStub, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs/howto/models.md").read_text()
    program = page.partition("```python\n")[2].partition("```")[0]
    stub = start_stub()
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nprint(document['status'])"], capture_output=True, text=True
    )
    assert done.stdout == "done\n", done.stderr
    assert {call["model"] for call in stub.requests()} == {"gpt-4o-mini", "gpt-4o"}


async def test_a_ceiling_of_a_debate_with_an_object(start_stub: StartStub) -> None:
    """Clients of real models cannot be copied, so the debate's state holds only their names."""
    stub = start_stub([])
    chat = ChatOpenAI(model="stub", base_url=stub.url, api_key=SecretStr("none"))
    document = await rag.graph.ainvoke(
        {"claim": "Copper conducts."}, context={"model": chat, "sources": ["bm25:demo-news"], "max_calls": 3}
    )
    assert (document["status"], document["usage"]["ceilings"]["max_calls"]["spent"]) == ("done", 1)


class Broken(Own):
    """A model whose call fails in this process."""

    fault: str

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise ValueError(self.fault)


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("no GPU", "bad_response", "object:Broken failed (ValueError: no GPU). Test it on its own."),
        ("Requested tokens (9) exceed context window of 8", "too_long", "accepts 8 tokens"),
    ],
)
async def test_the_words_of_a_model_that_fails_in_this_process_reach_the_user(
    fault: str, kind: str, words: str
) -> None:
    context: Any = {"model": Broken(fault=fault), "attempts": 1}
    document = await load_graph("standard_prompting").graph.ainvoke({"claim": CLAIM}, context=context)
    assert document["error"]["kind"] == kind
    assert words in document["error"]["detail"]


def test_a_function_is_no_source() -> None:
    with pytest.raises(UserError, match="must be a LangChain retriever.* not a function"):
        ReactSettings(model="fake:1", sources=[lambda query: []])  # type: ignore[arg-type]
