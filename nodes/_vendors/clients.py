"""Creates LangChain's clients without their own retries, so that moot's retries, limits and ceilings apply."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel
from moot.core.endpoint import Endpoint, create_once_in_thread, make_client
from moot.core.errors import UserError
from moot.core.lazy import imported
from moot.nodes._vendors.catalogue import VENDORS, Vendor

OPTION_NAMES = {
    "temperature": ("temperature",),
    "max_tokens": ("max_tokens", "max_output_tokens", "num_predict"),
    "seed": ("seed",),
    "timeout": ("timeout", "request_timeout", "default_request_timeout"),
    "max_retries": ("max_retries",),
    "api_key": ("api_key",),
    "base_url": ("base_url",),
}
"""The names that clients use for each option that moot sets."""


async def vendor_chat(provider: str, model: str, endpoint: Endpoint, timeout: float, **wanted: Any) -> BaseChatModel:
    """A provider's client for the running event loop, with the ``wanted`` options that are not None."""
    vendor = VENDORS[provider]
    given: dict[str, Any] = {**wanted, "timeout": timeout, "max_retries": 0}
    if vendor.keys:
        given["api_key"] = endpoint.api_key or "not-needed"
    if provider == "anthropic":
        # Other clients find the address themselves.
        given["base_url"] = endpoint.base_url
    http = await _http_client(provider, endpoint, timeout)
    return await asyncio.to_thread(_make_chat, provider, model, vendor, given, http)


def _make_chat(provider: str, model: str, vendor: Vendor, given: Mapping[str, Any], http: Any) -> BaseChatModel:
    """Creates a provider's client with the given options; blocking."""
    module, _, name = vendor.chat.partition(":")
    try:
        kind = getattr(imported(module), name)
        options = options_of(kind, given)
        if given.get("max_tokens") and not {"max_tokens", "max_output_tokens"} & options.keys():
            raise UserError(
                f"The client for {vendor.title} cannot limit the length of replies: leave out `max_tokens` and "
                "ceilings, or choose another model.",
                kind="invalid_setting",
            )
        if provider == "azure_openai":
            options["http_async_client"] = http
        chat: BaseChatModel = imported("langchain.chat_models").init_chat_model(
            model, model_provider=provider, **options
        )
    except (ImportError, ValueError, TypeError, AttributeError) as error:
        raise UserError(
            f"The client for {vendor.title} cannot be created ({type(error).__name__}: "
            f"{' '.join(str(error).split())[:200]}). Check which environment variables {vendor.package} requires, "
            "and which version of it is installed.",
            kind="invalid_environment",
        ) from error
    if provider == "anthropic" and hasattr(type(chat), "_async_client"):
        # All event loops share the client that langchain-anthropic creates, and that client fails in a second loop.
        vars(chat)["_async_client"] = imported("anthropic").AsyncAnthropic(
            api_key=given["api_key"],
            base_url=given["base_url"],
            timeout=given["timeout"],
            max_retries=0,
            http_client=http,
        )
    return chat


async def _http_client(provider: str, endpoint: Endpoint, timeout: float) -> Any:
    """The running event loop's HTTP client for SDKs that accept one; None for other SDKs."""
    sdk = {"anthropic": "anthropic", "azure_openai": "openai"}.get(provider)
    if sdk is None:
        return None

    def make() -> Any:
        return make_client(imported(sdk).DefaultAsyncHttpxClient, endpoint.base_url, timeout=timeout)

    return await create_once_in_thread(("http", sdk, timeout, endpoint.base_url), make)


def options_of(kind: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options that are not None and that a client accepts, under the names that the client uses."""
    fields = kind.model_fields
    known = {*fields, *(field.alias for field in fields.values() if field.alias)}
    found = {option: next((name for name in OPTION_NAMES[option] if name in known), None) for option in given}
    return {name: given[option] for option, name in found.items() if name and given[option] is not None}
