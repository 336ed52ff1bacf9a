"""An agent that decides when to search (ReAct): a loop of two nodes, with sources as tools.

The node ``model`` asks the model of the role `agent-1`, the next node runs the searches that the model called for, and
so on. The tools are the sources of the settings, and their results become evidence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.graph import END, START
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send
from moot.core.errors import BudgetExhausted, MootError
from moot.nodes._models.reply_parsing import find_objects, read_reply, text_of
from moot.nodes._models.speaker import Speaker
from moot.nodes._react.tool_calls import (
    ACT,
    as_tool,
    call_id,
    has_tool_calls,
    parse_tool_calls,
    readable_message,
    sources_by_tool,
    with_search_number,
)
from moot.nodes._records.entries import StopReason, Turn
from moot.nodes._runtime.ceilings import is_spent
from moot.nodes._runtime.graph import DebateGraph
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.settings import SourcesSettings
from moot.nodes._runtime.state import DebateState, StepInput, StepUpdate, WithBudget
from moot.nodes._runtime.turns import new_turn
from moot.nodes._speakers.single import AGENT
from moot.nodes._speakers.turns import send_turn
from moot.nodes._steps.responding import quote_check, with_answer, without_unshown_evidence
from moot.nodes._steps.retrieving import retrieve_node
from moot.nodes._texts.plans import plan_of, show_plan
from moot.nodes._texts.replies import answer_reply, reply_schema
from moot.nodes._texts.show import show_claim, show_evidence, show_given, shown_ids
from moot.nodes._texts.task import wording
from moot.prompts import as_data

PROMPT = "react/agent"
NOTHING_LEFT_OUT: Any = {"ids": ()}
"""The default of ``left_out`` for calls whose prompts were not shortened."""


class ToolAgentUpdate(StepUpdate):
    """What the agent writes into the debate."""

    stop_reason: NotRequired[StopReason | None]


class ToolAgentState(StepInput, ToolAgentUpdate, WithBudget):
    """The state of the agent's subgraph. ``messages`` is its conversation, without the prompt; ``plan`` a turn."""

    plan: NotRequired[Turn | None]
    messages: Annotated[list[AnyMessage], add_messages]


def tool_agent(settings: type[SourcesSettings], prompt: str = PROMPT) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A subgraph with an agent whose tools are the sources of the settings. Route to it with `to_tool_agent`.

    Every tool call up to ``max_tool_calls``, including invalid calls, is a turn of the step ``act`` with ``thought``,
    ``tool`` and, if the call is valid, ``query``. These turns are numbered from 1. The model is not called after
    ``max_tool_calls`` tool calls, without sources, or if the budget is spent (stop reason ``budget_exhausted``).

    A reply without tool calls ends the loop with a turn of the step ``respond``. This turn has the reply's answer, or
    the reply's text as ``thought`` if there is no usable answer. An empty, refused or truncated reply and an error also
    end the loop, without such a turn. The evidence found before stays in the debate.

    Args:
        settings: the class of settings with ``max_tool_calls`` and ``sources``.
        prompt: the prompt's name.
    """
    agent = DebateGraph(settings, ToolAgentState, output_schema=ToolAgentUpdate)
    agent.add_node("model", model_node(prompt))
    agent.add_node("tools", search_node())
    agent.add_edge(START, "model")
    agent.add_conditional_edges("model", to_searches, ["tools", "model", END])
    agent.add_edge("tools", "model")
    return agent.compile(name="agent")


# --- edges ------------------------------------------------------------------------------------------------------------


def to_tool_agent(state: DebateState) -> Send:
    """Builds the `Send` that starts the agent with the claim, the task, the depth, the budget and the given texts.

    Args:
        state: the debate's state.
    """
    known = {"claim": state["claim"], "task": state["task"], "evidence": state["evidence"]}
    known |= {"depth": state["depth"], "budget": state.get("budget"), "plan": plan_of(state["turns"])}
    return Send("agent", known)


def to_searches(state: ToolAgentState, settings: Any) -> list[Send] | str:
    """Starts the searches of the model's last reply; if all its calls are invalid, the model is asked again."""
    last = state["messages"][-1]
    if isinstance(last, AIMessage) and not last.tool_calls:
        return END
    wanted = [t for t in state["turns"] if t["step"] == ACT and "outcome" not in t and "retrieval" not in t]
    known = {"claim": state["claim"], "task": state["task"], "depth": state["depth"]}
    tools, agent = sources_by_tool(settings.sources), {"name": AGENT, "fallback": settings.fallback}
    return [
        Send("tools", {**known, "turns": [turn], "debater": {**agent, "retriever": tools[turn["tool"]]}})
        for turn in wanted
    ] or "model"


def after_tool_agent(state: DebateState) -> Send | str:
    """Routes to ``conclude`` if the agent gave a usable answer, else to ``answer`` with the agent's steps so far.

    Args:
        state: the debate's state.
    """
    answers = [turn for turn in state["turns"] if turn["step"] == "respond"]
    if answers and answers[0].get("answer") is not None:
        return "conclude"
    turn = answers[0] if answers else new_turn(1, AGENT)
    steps = [t for t in state["turns"] if t["step"] == ACT]
    # If the agent's answer was unusable, this request is the second attempt. `tokens_left` 0 prevents a third.
    agent = {"name": AGENT} | ({"tokens_left": 0} if turn.get("reason") else {})
    return send_turn("answer", state, agent, turn, evidence=state["evidence"], steps=steps)


def show_steps(state: Mapping[str, Any], settings: Any) -> dict[str, str]:
    """The value of the placeholder ``steps``; empty if the agent took no step and left no text.

    The value has the agent's thoughts and queries, the ids of the evidence found, and the agent's last text. If the
    last text has an unusable answer, the reason follows.

    Args:
        state: the input of the node ``answer``, with ``steps``.
        settings: the debate's settings.
    """
    last = state["turns"][0].get("thought")
    blocks = [as_data("step", _step_text(turn), number=str(turn["number"])) for turn in state["steps"]]
    problem = state["turns"][0].get("reason")
    blocks += [as_data("reply" if problem else "thought", last)] if last else []
    blocks += [f"This last reply could not be used as an answer:\n{as_data('problem', problem)}"] if problem else []
    return {"steps": "\n".join(["What you thought and searched for:", *blocks]) if blocks else ""}


def _step_text(turn: Turn) -> str:
    nothing = "(the source could not be searched)" if turn.get("retrieval") == "failed" else "nothing"
    found = ", ".join(turn["evidence_ids"]) or nothing
    done = f"Searched for: {turn['query']}\nFound: {found}" if turn["query"] else "(the call could not be carried out)"
    return f"Thought: {turn['thought']}\n{done}" if turn["thought"] else done


# --- nodes ------------------------------------------------------------------------------------------------------------


def model_node(prompt: str) -> Node:
    """Requests one reply from the model, as messages and turns; a message without tool calls ends the loop."""

    async def step(state: Mapping[str, Any], run: NodeContext) -> dict[str, Any]:
        return {"messages": [AIMessage("")]} | await next_step(state, run, prompt)

    # Calls and errors are recorded as the agent's in round 1.
    return Node(
        step,
        prompts=(prompt,),
        reads=lambda state: {**state, "turns": [new_turn(1, AGENT, ACT)], "steps": state["turns"]},
    )


async def next_step(state: Mapping[str, Any], run: NodeContext, prompt: str) -> dict[str, Any]:
    """The update with the tool calls or the answer of the model's next reply, or why it is not asked."""
    made, most = sum(turn["step"] == ACT for turn in state["steps"]), run.settings.max_tool_calls
    tools = sources_by_tool(run.settings.sources)
    if made >= most or not tools:
        return {}
    if is_spent(state):
        return {"stop_reason": "budget_exhausted"}
    speaker = await run.speaker(AGENT)
    offered = [as_tool(name, source, run.settings.corpus) for name, source in tools.items()]
    instructions, data = speaker.filled(prompt, _placeholder_values(state, most))
    earlier = [with_search_number(message, most) for message in state["messages"]]

    async def send(chat: BaseChatModel, messages: Sequence[BaseMessage]) -> BaseMessage:
        try:
            return await chat.bind_tools(offered).ainvoke(list(messages))
        except Exception as error:
            if (message := readable_message(error)) is None:
                raise
            return message

    try:
        message = await speaker.converse(send, [SystemMessage(instructions), HumanMessage(data), *earlier], offered)
    except BudgetExhausted:
        return {"stop_reason": "budget_exhausted"}
    if message is not None and has_tool_calls(message):
        return parse_tool_calls(message, tools, made, most, run.record)
    if not made:
        run.record.warn("no_search", "The agent called none of its tools, so there was no search.")
    return {"turns": [_last_turn(message, state, speaker, run)]} if message else {}


def _placeholder_values(state: Mapping[str, Any], most: int) -> dict[str, str]:
    schema = json.dumps(reply_schema(answer_reply(state["task"])))
    shown = {"claim": show_claim(state["claim"], state["task"]), "given": show_given(state["evidence"])}
    shown |= {"plan": show_plan(state.get("plan"), state["task"]["subject"], queries=True)}
    return wording(state["task"]) | shown | {"schema": schema, "most": str(most)}


def _last_turn(message: AIMessage, state: Mapping[str, Any], speaker: Speaker, run: NodeContext) -> Turn:
    """The turn made of a message without tool calls: its answer or, if it is not usable, its text as ``thought``."""
    evidence = state["evidence"]
    never_shown = speaker.not_shown.intersection(
        *(call.get("left_out", NOTHING_LEFT_OUT)["ids"] for call in state["calls"])
    )
    turn = without_unshown_evidence(
        new_turn(1, AGENT) | {"evidence_ids": [piece["id"] for piece in evidence]}, never_shown
    )
    reply, outcome, problem = read_reply(message, answer_reply(state["task"], may_abstain=bool(evidence)))
    shown = shown_ids(evidence) - never_shown
    text = text_of(message, thoughts=True).strip()
    if reply and run.settings.verified_quotes and evidence and (fault := quote_check(evidence, shown, speaker)(reply)):
        reply, outcome, problem = None, "unquoted", fault
    if reply is not None:
        return with_answer(turn, reply, evidence, shown, run.record)
    if not find_objects(text_of(message)):
        return turn | {"thought": text}
    run.record.calls[-1] |= {"outcome": outcome, "detail": problem}
    run.record.warn(outcome, f"{AGENT}: {problem}")
    return turn | {"thought": text, "reason": problem}


def search_node() -> Node:
    """Runs one search; the model is shown its results, or that it failed, and they become evidence."""
    retrieve = retrieve_node()

    async def step(state: Any, run: NodeContext) -> dict[str, Any]:
        [turn] = state["turns"]
        try:
            update = await retrieve.step(state, run)
        except MootError as error:
            update = {"turns": [{**turn, "retrieval": "failed"}], "error": error.record(run.record.place())}
        failed = update["turns"][0]["retrieval"] == "failed"
        text = "The source could not be searched." if failed else show_evidence(update["evidence"])
        result = ToolMessage(text, name=turn["tool"], tool_call_id=call_id(turn["number"]))
        return {**update, "messages": [result]}

    return Node(step, prompts=retrieve.prompts)
