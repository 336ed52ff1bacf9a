"""Debates in a conversation: the claim in a message, the answer, and the messages that a thread keeps."""

from __future__ import annotations

import json
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from moot.core.errors import UserError
from moot.graphs.standard_prompting import builder
from moot.nodes._texts.chat import as_plain_values, merge_messages, read_messages, unanswered_question

USAGE: Any = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
HISTORY = [
    HumanMessage("Hello."),
    AIMessage("", tool_calls=[{"name": "search", "args": {"query": "moon"}, "id": "call-1"}], usage_metadata=USAGE),
    ToolMessage("nothing", tool_call_id="call-1"),
    HumanMessage([{"type": "text", "text": "The moon is "}, {"type": "text", "text": "cheese."}]),
]


def test_messages_are_unchanged_by_conversion_to_plain_values_and_back() -> None:
    """The text of the last message is the unanswered question."""
    read = read_messages(HISTORY)
    stored = json.loads(json.dumps(as_plain_values(read)))
    assert read_messages(stored) == read
    assert [message["type"] for message in stored] == ["human", "ai", "tool", "human"]
    assert unanswered_question(read) == "The moon is cheese."


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    )
)
def test_any_value_is_read_as_messages_or_refused_with_a_clear_error(value: Any) -> None:
    try:
        read_messages(merge_messages([], value))
    except UserError as error:
        detail = error.detail
    else:
        detail = ""
    assert not detail or detail.startswith("`messages` cannot be read")


def test_a_message_replaces_an_earlier_message_with_the_same_id() -> None:
    """The reducer adds nothing for None."""
    first, again = {"role": "user", "content": "A", "id": "1"}, {"role": "user", "content": "B", "id": "1"}
    assert [m.text for m in read_messages([first, ("ai", "said"), again])] == ["B", "said"]
    assert merge_messages([first], None) == [first]


async def test_a_thread_keeps_its_messages_and_debates_each_new_claim() -> None:
    """If an input has a claim and a message, the claim is debated. Unreadable messages become an empty list."""
    graph = builder.compile(checkpointer=InMemorySaver())

    async def ask(**asked: Any) -> dict[str, Any]:
        config: Any = {"configurable": {"thread_id": "1"}}
        document: dict[str, Any] = await graph.ainvoke(cast(Any, asked), config, context={"model": "fake:1"})
        return document

    def user(text: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": text}]

    assert (await ask(claim="A"))["messages"] == []
    second = await ask(messages=user("B"))
    assert (second["claim"], [m["type"] for m in second["messages"]]) == ("B", ["human", "ai"])
    paragraphs = second["messages"][1]["content"].split("\n\n")
    assert paragraphs[0].startswith(f"{second['answer']} (single_pass)")
    assert paragraphs[-2].startswith("agent-1: ")
    third = await ask(messages=user("C"))
    assert (third["claim"], third["messages"][:2], len(third["messages"])) == ("C", second["messages"], 4)
    assert (await ask(claim="D"))["messages"] == third["messages"]
    both = await ask(claim="E", messages=user("F"))
    assert (both["claim"], len(both["messages"])) == ("E", 6)
    empty = await ask(messages=user(" "))
    assert (empty["status"], empty["error"]["kind"]) == ("failed", "invalid_claim")
    assert empty["messages"][-1]["content"].startswith("No verdict. The claim is empty.")
    unread = await ask(messages=[{"role": "stranger", "content": "G"}])
    assert (unread["error"]["kind"], unread["messages"]) == ("invalid_claim", [])
    json.dumps(unread)


async def test_an_input_with_neither_a_claim_nor_a_message_fails() -> None:
    document = await builder.compile().ainvoke({"messages": []}, context={"model": "fake:1"})
    assert (document["status"], document["error"]["kind"]) == ("failed", "invalid_claim")
