"""A chat model that answers from the record of `moot demo`."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from moot.retrievers._recorded import recorded_reply


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
        found = recorded_reply(sent, (kwargs.get("extra_body") or {}).get("response_format"))
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
