"""A fake chat model, which fills the JSON schema of a call with random values.

Settings name the fake model like any other model (``fake:SEED``). So a test uses the same code as a real run.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool

REPLY_AFTER_TOOL = "Nothing more has to be searched for."
"""The text of the reply after a tool was called."""


class FakeChatModel(BaseChatModel):
    """A fake chat model, whose replies contain random values that fit the call's schema.

    The model's seed, the call's seed, the prompt and the schema determine the values. Without a schema, the reply is an
    empty object. If the request has tools, the reply calls the first tool with random arguments. If the messages
    contain a tool's result, the reply is `REPLY_AFTER_TOOL`.
    """

    seed: str = "0"
    call_seed: int | None = None
    """The sampling seed of a call; another seed draws other values. None for no seed."""

    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """The model with tools that it may call."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        prompt = "\n".join(str(m.content) for m in messages)
        schema = (kwargs.get("extra_body") or {}).get("response_format", {}).get("json_schema", {}).get("schema", {})
        rng = self.random_for(prompt)
        had_tool = any(isinstance(m, ToolMessage) for m in messages)
        calls = [] if had_tool else [_draw_tool_call(tool["function"], rng) for tool in kwargs.get("tools", [])[:1]]
        text = "" if calls else REPLY_AFTER_TOOL if had_tool else self.reply(schema, rng)
        usage = {"input_tokens": len(prompt) // 4 + 1, "output_tokens": len(text) // 4 + 1, "total_tokens": 0}
        usage["total_tokens"] = usage["input_tokens"] + usage["output_tokens"]
        message = AIMessage(
            text,
            tool_calls=calls,
            usage_metadata=usage,
            response_metadata={"finish_reason": "tool_calls" if calls else "stop", "model_name": f"fake:{self.seed}"},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def random_for(self, prompt: str) -> random.Random:
        """The generator of the values in the reply to a prompt."""
        return random.Random(f"{self.seed}{'' if self.call_seed is None else f'.{self.call_seed}'}\x1f{prompt}")

    def reply(self, schema: dict[str, Any], rng: random.Random) -> str:
        """The text of a reply that fits a schema."""
        return json.dumps(draw(schema, rng, schema.get("$defs", {})))


def _draw_tool_call(tool: dict[str, Any], rng: random.Random) -> ToolCall:
    """A call of a tool with random arguments."""
    return ToolCall(name=tool["name"], args=draw(tool["parameters"], rng, {}), id="call", type="tool_call")


def draw(schema: dict[str, Any], rng: random.Random, parts: dict[str, Any], index: int = 0) -> Any:
    """Draws a random value that a schema allows; an integer is the schema's minimum plus ``index`` if possible."""
    if "$ref" in schema:
        return draw(parts[schema["$ref"].rsplit("/", 1)[-1]], rng, parts, index)
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "anyOf" in schema:
        return draw(rng.choice(schema["anyOf"]), rng, parts, index)
    kind = schema.get("type")
    if kind == "array":
        count = rng.randint(schema.get("minItems", 1), schema.get("maxItems", 2))
        return [draw(schema["items"], rng, parts, i) for i in range(count)]
    if kind == "integer":
        return min(schema.get("minimum", 0) + index, schema.get("maximum", sys.maxsize))
    if kind == "boolean":
        return rng.random() < 0.8
    if kind == "number":
        return round(rng.uniform(schema.get("minimum", 0), schema.get("maximum", 1)), 2)
    if kind == "null":
        return None
    if "pattern" in schema:
        return str(rng.randint(1, 999))
    if kind == "string":
        return f"A drawn text, number {rng.randint(1, 999)}."
    return {k: draw(v, rng, parts, index) for k, v in schema.get("properties", {}).items()}
