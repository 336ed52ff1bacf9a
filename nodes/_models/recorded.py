"""The model ``recorded:demo``, which answers exact requests from the record of `moot demo`.

`tests/demo.py` makes the record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from moot.core.errors import UserError

NAME = "demo"
"""The only record."""
MISSING = (
    "recorded:demo has no reply to this request. It answers only the requests of `moot demo`, word for word. For a "
    "claim of your own, name a model, e.g. openai:gpt-4o-mini. If a prompt, a setting or a passage of the demo has "
    "changed, its record must be made anew: `python -m tests.demo`, see CONTRIBUTING.md."
)


def request_key(messages: Sequence[Mapping[str, Any]], response_format: Any) -> str:
    """The key of a request: its messages in OpenAI's form, and the format of its reply (None for any)."""
    shown = [[message["role"], message["content"]] for message in messages]
    return json.dumps([shown, response_format], sort_keys=True)


@lru_cache(maxsize=1)
def recorded_replies() -> dict[str, dict[str, Any]]:
    """The recorded replies, each with ``reply`` (its text), ``usage`` and ``role``, by the keys of their requests."""
    file = resources.files("moot.retrievers") / "demo" / "record.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {request_key(line["messages"], line["response_format"]): line for line in lines}


def check_record(name: str) -> None:
    """Refuses the name of a record that does not exist."""
    if name != NAME:
        raise UserError(f"The only recorded model is recorded:{NAME}, not recorded:{name}.", kind="unknown_model")


class RecordedChatModel(BaseChatModel):
    """A chat model with recorded replies; a request that is not in the record is an error."""

    @property
    def _llm_type(self) -> str:
        return "recorded"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        sent = convert_to_openai_messages(messages)
        key = request_key(sent, (kwargs.get("extra_body") or {}).get("response_format"))
        if (found := recorded_replies().get(key)) is None:
            raise UserError(MISSING, kind="replay_miss")
        prompt, completion = found["usage"]["prompt_tokens"], found["usage"]["completion_tokens"]
        message = AIMessage(
            found["reply"],
            usage_metadata={
                "input_tokens": prompt,
                "output_tokens": completion,
                "total_tokens": prompt + completion,
            },
            response_metadata={"finish_reason": "stop", "model_name": "recorded:demo"},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])
