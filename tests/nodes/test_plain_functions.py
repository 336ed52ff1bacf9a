"""The steps of debates, used as plain functions with a LangChain model, and as nodes of a user's graph."""

from __future__ import annotations

import json
import operator
from typing import Annotated, Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import BaseMessage
from langgraph.graph import END, START, StateGraph
from moot.core.errors import ReplyError, UserError
from moot.graphs import standard_prompting
from moot.nodes import graph_node, open_chat_model
from moot.nodes._records.entries import Turn
from moot.nodes._records.reducers import merge_turns
from moot.nodes._runtime.settings import Settings
from moot.nodes._speakers.single import SingleAgentSettings
from moot.nodes._steps.faithfulness import faithfulness, faithfulness_node
from moot.nodes._steps.judging import judge
from moot.nodes._steps.query import formulate_query, query_node
from moot.nodes._steps.responding import respond
from moot.nodes._texts.replies import QueryReply, reply_schema
from moot.nodes._texts.task import make_task
from moot.nodes._trial.panel import compile_record_node
from moot.retrievers import Evidence, make_evidence
from pydantic import Field
from typing_extensions import TypedDict

CLAIM = "The kilogram is defined by a constant."
TASK = make_task()
TURN: Turn = {"round": 1, "phase": "primary", "agent": "search", "step": "respond"}
ANSWER: Turn = {**TURN, "answer": "SUPPORTS", "rationale": "So it is.", "citations": []}


def evidence() -> list[Evidence]:
    return [make_evidence(text="It is.", title="Units", source="a book", query="kg", score=1.0, retriever="bm25:x")]


async def test_an_object_that_is_not_a_chat_model_of_langchain_is_refused() -> None:
    for model in ("openai:gpt-4o-mini", await open_chat_model("fake:1")):
        with pytest.raises(UserError, match="pass a chat model of LangChain") as refused:
            await judge(CLAIM, TASK, [ANSWER], evidence(), model)  # type: ignore[arg-type]
        assert type(model).__name__ in refused.value.detail
    assert await judge(CLAIM, TASK, [ANSWER], evidence(), (await open_chat_model("fake:1")).chat)


async def test_an_answer_without_a_verified_quote_is_refused() -> None:
    """After a first such answer, the model is asked again. Without evidence, no quote is required."""
    template = '{"rationale": "So.", "citations": [{"evidence_id": "%s", "quote": "%s"}], "answer": "SUPPORTS"}'
    [piece] = evidence()
    replies = [template % (piece["id"], quote) for quote in ("It was", "it is", "It is")]
    with pytest.raises(ReplyError) as unquoted:
        await respond(CLAIM, TASK, [piece], FakeListChatModel(responses=replies), verified_quotes=True)
    assert unquoted.value.kind == "unquoted"
    with pytest.raises(ReplyError) as unquoted:
        await judge(CLAIM, TASK, [ANSWER], [piece], FakeListChatModel(responses=replies), verified_quotes=True)
    assert unquoted.value.kind == "unquoted"
    model = FakeListChatModel(responses=replies[1:])
    assert (await respond(CLAIM, TASK, [piece], model, verified_quotes=True)).citations[0].quote == "It is"
    assert await respond(CLAIM, TASK, [], FakeListChatModel(responses=replies), verified_quotes=True)


async def test_faithfulness_without_statements_is_unknown() -> None:
    model = FakeListChatModel(responses=['{"statements": []}', '{"verdicts": []}'])
    found = await faithfulness("Well.", evidence(), model)
    assert (found.score, found.statements, found.supported) == (None, [], [])


async def test_verdicts_are_matched_to_statements_by_index() -> None:
    verdicts = (
        '{"verdicts": [{"index": %d, "reason": "", "supported": %s}, {"index": %d, "reason": "", "supported": %s}]}'
    )
    model = FakeListChatModel(responses=['{"statements": ["One.", "Two."]}', verdicts % (1, "true", 0, "false")])
    found = await faithfulness("One. Two.", evidence(), model)
    assert (found.score, found.supported) == (0.5, [False, True])


async def test_replies_without_json_cause_an_error_that_names_the_role() -> None:
    model: BaseChatModel = FakeListChatModel(responses=["SUPPORTS, I would say."])
    with pytest.raises(ReplyError) as unusable:
        await respond(CLAIM, TASK, evidence(), model)
    assert unusable.value.kind == "unparsed"
    assert "as debater" in unusable.value.detail


class RecordingModel(FakeListChatModel):
    """A chat model that records the messages that it receives."""

    prompts: list[str] = Field(default_factory=list)

    def _call(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> str:
        self.prompts.append("\n".join(str(m.content) for m in messages))
        return super()._call(messages, *args, **kwargs)


async def test_a_model_without_structured_output_gets_the_schema_in_the_prompt() -> None:
    model = RecordingModel(responses=['Here: {"query": "kilogram constant"}'])
    assert await formulate_query(CLAIM, model) == "kilogram constant"
    [prompt] = model.prompts
    assert CLAIM in prompt
    assert prompt.endswith(json.dumps(reply_schema(QueryReply)))


class UserState(TypedDict, total=False):
    """The state of a user's graph: the keys that the tested nodes use, and the user's own key ``sentence``."""

    claim: str
    sentence: str
    task: Any
    turns: Annotated[list[Turn], merge_turns]
    rounds: int
    evidence: list[Evidence]
    calls: Annotated[list[Any], operator.add]
    warnings: Annotated[list[Any], operator.add]
    depth: int
    error: Any


def user_graph(node: Any) -> Any:
    """A user's graph with one node."""
    builder = StateGraph(UserState)
    builder.add_node("score", node)
    builder.add_edge(START, "score")
    builder.add_edge("score", END)
    return builder.compile()


async def test_a_node_in_a_failed_debate_does_nothing() -> None:
    graph = user_graph(faithfulness_node().with_settings(Settings(model="fake:1")))
    error = {"kind": "timeout", "where": "", "detail": "late", "retryable": True}
    state = await graph.ainvoke({"claim": CLAIM, "turns": [ANSWER], "evidence": evidence(), "error": error})
    assert not state.get("calls")
    assert "scores" not in state["turns"][0]


async def test_a_node_raises_errors_unless_keeps_errors_is_set() -> None:
    node, given = faithfulness_node(), {"claim": CLAIM, "turns": [ANSWER], "evidence": evidence()}
    # By default, errors are raised, because the state of a user's graph may have no field `error`.
    with pytest.raises(UserError, match="'nobody' is unknown"):
        await user_graph(node.with_settings(Settings(model="nobody:x"))).ainvoke(given)
    state = await user_graph(node.with_settings(Settings(model="nobody:x"), keeps_errors=True)).ainvoke(given)
    assert state["error"]["kind"] == "unknown_provider"


async def test_the_error_names_a_missing_state_key_or_setting() -> None:
    """It also names the node. A node without a name has the name of its function."""
    score = faithfulness_node().with_settings(Settings(model="fake:1"), "score")
    with pytest.raises(UserError, match="The node score reads the state's key 'evidence', which is missing"):
        await user_graph(score).ainvoke({"claim": CLAIM, "turns": [ANSWER]})
    nameless = faithfulness_node().with_settings(Settings(model="fake:1"))
    with pytest.raises(UserError, match="The node faithfulness_node reads the state's key 'evidence'"):
        await user_graph(nameless).ainvoke({"claim": CLAIM, "turns": [ANSWER]})
    record = compile_record_node().with_settings(Settings(model="fake:1"), "record")
    with pytest.raises(
        UserError, match="The node record reads the setting 'panel_tokens', which Settings does not have"
    ):
        await user_graph(record).ainvoke({"claim": CLAIM, "turns": [ANSWER]})


async def test_a_debate_can_be_a_node_of_a_graph_with_other_state_keys() -> None:
    """The node raises the errors of its debate."""

    def graph_with_debate(**settings: Any) -> Any:
        debate = graph_node(standard_prompting.graph).with_settings(
            SingleAgentSettings.model_validate(settings), "debate"
        )
        return user_graph(
            debate.with_keys(lambda state: {"claim": state["sentence"]}, lambda said: {"claim": said["answer"]})
        )

    assert (await graph_with_debate(model="fake:1").ainvoke({"sentence": CLAIM}))["claim"] in TASK["labels"]
    with pytest.raises(UserError, match="'nobody' is unknown"):
        await graph_with_debate(model="nobody:x").ainvoke({"sentence": CLAIM})
    with pytest.raises(ReplyError, match="No agent gave a usable answer"):
        await graph_with_debate(model="fake:1", structured_output="text").ainvoke({"sentence": CLAIM})


async def test_the_error_of_a_node_without_settings_names_a_settings_class() -> None:
    with pytest.raises(UserError, match=r"\.with_settings\(Settings"):
        await user_graph(query_node()).ainvoke({"claim": CLAIM, "turns": [TURN]})
