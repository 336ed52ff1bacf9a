"""An agent that decides when to search: LangChain's agent, with sources as tools (ReAct).

The loop comes from `langchain.agents.create_agent`: one node calls the model, the next runs the tools that the model
called, and so on. moot's middleware wraps both nodes. It calls the model of the role `agent-1`, with moot's retries and
limits, and records the calls. The tools are the sources of the settings, and their results become evidence.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, NotRequired, cast

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    ToolCallRequest,
)
from langchain.agents.middleware.types import OmitFromOutput
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Send
from moot.core.errors import BudgetExhausted
from moot.nodes._models.fake import FakeChatModel
from moot.nodes._models.reply_parsing import find_objects, read_reply, text_of
from moot.nodes._models.speaker import Speaker
from moot.nodes._react.tool_calls import (
    ACT,
    as_tool,
    has_tool_calls,
    malformed_call_message,
    number_of,
    parse_tool_calls,
    sources_by_tool,
    with_search_number,
)
from moot.nodes._records.entries import StopReason, Task, Turn
from moot.nodes._runtime.budget import is_spent
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.settings import SourcesSettings
from moot.nodes._runtime.state import DebateState, StepUpdate
from moot.nodes._speakers.single import AGENT
from moot.nodes._speakers.turns import new_turn, send_turn
from moot.nodes._steps.responding import quote_check, with_answer, without_unshown_evidence
from moot.nodes._steps.retrieving import retrieve_node
from moot.nodes._texts.replies import answer_reply, reply_schema
from moot.nodes._texts.show import show_claim, show_evidence, show_given, shown_ids
from moot.nodes._texts.task import wording
from moot.prompts import as_data
from pydantic import ValidationError

PROMPT = "react/agent"
NOTHING_LEFT_OUT: Any = {"ids": ()}
"""The default of ``left_out`` for calls whose prompts were not shortened."""


class ToolAgentState(AgentState[Any], StepUpdate):
    """The state of the agent's subgraph. The keys marked with `OmitFromOutput` do not reach the debate."""

    messages: Annotated[list[AnyMessage], OmitFromOutput, add_messages]
    claim: Annotated[str, OmitFromOutput]
    task: Annotated[Task, OmitFromOutput]
    budget: Annotated[dict[str, Any] | None, OmitFromOutput]
    stop_reason: NotRequired[StopReason]


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
    agent = create_agent(
        FakeChatModel(),  # required, but never called, because the middleware calls the role's model
        middleware=[ToolAgentMiddleware(prompt)],
        state_schema=ToolAgentState,
        context_schema=settings,
        name="agent",
    )
    agent.prompts = {prompt: ["model"], **{one: ["tools"] for one in retrieve_node().prompts}}  # type: ignore[attr-defined]
    return agent


def to_tool_agent(state: DebateState) -> Send:
    """Builds the `Send` that starts the agent with the claim, the task, the depth, the budget and the given texts.

    Args:
        state: the debate's state.
    """
    known = {"claim": state["claim"], "task": state["task"], "evidence": state["evidence"]}
    return Send("agent", {**known, "depth": state["depth"], "budget": state.get("budget")})


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


class ToolAgentMiddleware(AgentMiddleware[ToolAgentState, Any, Any]):
    """Calls the model of the role `agent-1`, runs the searches that the model requests, and records all calls."""

    state_schema = ToolAgentState  # with LangChain's schema, the agent's messages would enter the debate's state

    def __init__(self, prompt: str) -> None:
        super().__init__()
        self.prompt = prompt

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ExtendedModelResponse[Any]:
        """Requests one reply from the model, as messages and turns; without a usable tool call, the loop ends."""
        state = cast(ToolAgentState, request.state)

        async def step(_: Any, run: NodeContext) -> dict[str, Any]:
            made, max_calls = sum(t["step"] == ACT for t in state["turns"]), run.settings.max_tool_calls
            tools = sources_by_tool(run.settings.sources)
            if made >= max_calls or not tools:
                return {}
            if is_spent(state):
                return {"stop_reason": "budget_exhausted"}
            speaker = await run.speaker(AGENT)
            described = [as_tool(*named, run.settings.corpus) for named in tools.items()]
            prompt = speaker.filled(self.prompt, _placeholder_values(state, max_calls))
            filled = _model_request(request, prompt, described, max_calls)
            sent = [cast(BaseMessage, filled.system_message), *filled.messages]
            offers = [convert_to_openai_tool(tool) for tool in described]

            def send(chat: BaseChatModel, fitting: Sequence[BaseMessage]) -> Awaitable[BaseMessage]:
                instructions, *others = cast(list[Any], fitting)
                return _send_request(chat, filled.override(system_message=instructions, messages=others), handler)

            try:
                message = await speaker.converse(send, sent, offers)
            except BudgetExhausted:
                return {"stop_reason": "budget_exhausted"}
            if message is not None and has_tool_calls(message):
                return parse_tool_calls(message, tools, made, max_calls, run.ledger)
            if not made:
                run.ledger.warn("no_search", "The agent called none of its tools, so there was no search.")
            if message is None:
                return {}
            return {"turns": [_last_turn(message, state, speaker, run)]}

        node = Node(step, "model", keeps_errors=True)
        update = await node({**state, "turns": [new_turn(1, AGENT, ACT)]}, request.runtime)
        messages = update.pop("messages", None) or [AIMessage("")]  # a message without a tool call ends the loop
        return ExtendedModelResponse(ModelResponse(messages), Command(update=update))

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Any) -> Command[Any]:
        """Runs one search; the model is shown its results, or that it failed, and they become evidence."""
        state, call = cast(ToolAgentState, request.state), request.tool_call
        turn = next(t for t in state["turns"] if t["step"] == ACT and t["number"] == number_of(call["id"]))

        async def step(reader: Any, run: NodeContext) -> dict[str, Any]:
            source = sources_by_tool(run.settings.sources)[call["name"]]
            debater = {"name": AGENT, "retriever": source, "fallback": run.settings.fallback}
            return await retrieve_node().step({**reader, "debater": debater}, run)

        runtime = Runtime(context=request.runtime.context, stream_writer=request.runtime.stream_writer)
        node = Node(step, "tools", keeps_errors=True)
        update = await node({**state, "turns": [turn]}, runtime)
        update.setdefault("turns", [{**turn, "retrieval": "failed"}])
        result = ToolMessage(_result_text(update), name=call["name"], tool_call_id=call["id"])
        return Command(update={**update, "messages": [result]})


def _placeholder_values(state: ToolAgentState, max_calls: int) -> dict[str, str]:
    schema = json.dumps(reply_schema(answer_reply(state["task"])))
    shown = {"claim": show_claim(state["claim"], state["task"]), "given": show_given(state["evidence"])}
    return wording(state["task"]) | shown | {"schema": schema, "most": str(max_calls)}


def _model_request(
    request: ModelRequest[Any], prompt: tuple[str, str], tools: list[Any], max_calls: int
) -> ModelRequest[Any]:
    """The request with the prompt, the tools and the conversation so far, in which each result has a number."""
    instructions, data = prompt
    return request.override(
        system_message=SystemMessage(instructions),
        messages=[HumanMessage(data), *(with_search_number(message, max_calls) for message in request.messages)],
        tools=tools,
    )


async def _send_request(
    chat: BaseChatModel,
    request: ModelRequest[Any],
    handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
) -> BaseMessage:
    try:
        return (await handler(request.override(model=chat))).result[0]
    except ValidationError as error:
        if (message := malformed_call_message(error)) is None:
            raise
        return message


def _last_turn(message: AIMessage, state: ToolAgentState, speaker: Speaker, run: NodeContext) -> Turn:
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
        return with_answer(turn, reply, evidence, shown, run.ledger)
    if not find_objects(text_of(message)):
        return turn | {"thought": text}
    run.ledger.calls[-1] |= {"outcome": outcome, "detail": problem}
    run.ledger.warn(outcome, f"{AGENT}: {problem}")
    return turn | {"thought": text, "reason": problem}


def _result_text(update: Mapping[str, Any]) -> str:
    """The text that tells the model a search's results, or that the search failed."""
    if update["turns"][0]["retrieval"] == "failed":
        return "The source could not be searched."
    return show_evidence(update["evidence"])
