"""A role with its model: asks for structured replies, and leads conversations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from moot.core.errors import MootError, UserError
from moot.nodes._models.call.asking import asking, conversing
from moot.nodes._models.call.request import Asker, Request, SendMessages
from moot.nodes._models.call.stack import way_of
from moot.nodes._models.chat_models import StructuredOutput, model_of_object
from moot.nodes._models.objects import object_name
from moot.nodes._models.reply_parsing import answer_probability, fault_of, read_reply
from moot.nodes._models.structured import reply_request, schema_in_words
from moot.nodes._texts.replies import Reply
from moot.prompts import fill, load

R = TypeVar("R", bound=Reply)


@dataclass
class Speaker(Asker):
    """A role with its model."""

    structured_output: StructuredOutput = "json_schema"
    remarks: str = ""  # a person's, at the start of each prompt's data
    prompts: Mapping[str, str] = field(default_factory=dict)  # texts that replace shipped prompts, by name

    def filled(self, prompt: str, values: Mapping[str, str]) -> tuple[str, str]:
        """The instructions and the data of a prompt, from the text in ``prompts`` or, by default, the shipped text."""
        return fill(self.prompts.get(prompt) or load(prompt), values)

    async def ask(
        self,
        prompt: str,
        values: Mapping[str, str],
        reply: type[R],
        evidence_ids: Sequence[str] = (),  # that the reply may cite
        check: Callable[[R], str] | None = None,  # the fault of a reply's quotes, or an empty text
    ) -> R:
        """Requests a structured reply, once again with the reason if it is unusable; ReplyError if both are."""
        model, how = self.model, self.structured_output
        instructions, data = self.filled(prompt, values)
        data = "\n\n".join(filter(None, (self.remarks, data))) + schema_in_words(model, how, reply)
        schema = reply_request(model, how, reply, evidence_ids)

        last: tuple[AIMessage, tuple[R | None, str, str]] | None = None

        def read(message: AIMessage) -> tuple[R | None, str, str]:
            nonlocal last
            if last is None or last[0] is not message:  # several layers ask about the same message
                found, outcome, problem = read_reply(message, reply, plain=how == "text")
                if found is not None and check is not None and (fault := check(found)):
                    found, outcome, problem = None, "unquoted", fault
                last = message, (found, outcome, problem)
            return last[1]

        def send(chat: BaseChatModel, messages: Sequence[BaseMessage]) -> Awaitable[BaseMessage]:
            if model.tight and self.not_shown:
                shown = [id for id in evidence_ids if id not in self.not_shown]
                return chat.ainvoke(list(messages), **reply_request(model, how, reply, shown))
            return chat.ainvoke(list(messages), **schema)

        request = Request(
            [SystemMessage(instructions), HumanMessage(data)],
            send,
            lambda message: read(message)[1:],
            prompt,
            {"schema": schema, "structured_output": how},
            {id: rank for value in values.values() for id, rank in getattr(value, "ranks", {}).items()},
            record=self.record,
            visible_tokens=reply.most_tokens,
        )
        message = await way_of(self, asking)(request)
        found = read(message)[0]
        if found is None:
            raise UserError(
                f"A stored reply of {self.role} is no longer usable. Use `--replies record`.",
                kind="damaged_store",
            )
        if request.calls and (probability := answer_probability(message)) is not None:
            request.calls[-1]["answer_probability"] = probability
        return found

    async def converse(
        self, send: SendMessages, messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]] = ()
    ) -> AIMessage | None:
        """Requests the next reply, which may call tools, of a conversation; None, with a warning, if it has a fault."""
        request = Request(messages, send, conversation_fault, parts={"tools": list(tools)}, record=self.record)
        message = await way_of(self, conversing)(request)
        return None if conversation_fault(message)[1] else message


def conversation_fault(message: AIMessage) -> tuple[str, str]:
    """The outcome of a message and its fault in words; a message with tool calls may be without text."""
    outcome, problem = fault_of(message)
    calls = message.tool_calls or message.invalid_tool_calls
    return (outcome, problem) if problem and not (outcome == "empty" and calls) else ("ok", "")


def as_speaker(model: Speaker | BaseChatModel, role: str) -> Speaker:
    """A speaker for a role, from any LangChain chat model; a speaker is returned unchanged, with its own role."""
    if isinstance(model, Speaker):
        return model
    if not isinstance(model, BaseChatModel):
        raise UserError(
            f"The model for {role} is of the type {type(model).__name__}; pass a chat model of LangChain, such as "
            'ChatOpenAI(...) or (await open_chat_model("openai:gpt-4o-mini")).chat.',
            kind="unknown_model",
        )
    return Speaker(role, model_of_object(object_name(model), model))


def affects_only_call(error: MootError) -> bool:
    """Whether an error affects only one call; a user's mistake, such as a wrong key, usually affects all calls."""
    return not isinstance(error, UserError) or error.kind in ("bad_request", "too_long")
