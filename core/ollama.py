"""Clients of Ollama's own API, which moot uses because the OpenAI-compatible one neither sets nor tells a context."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from moot.core.endpoint import Endpoint, check_proxy, create_once_in_thread, tls
from moot.core.lazy import imported


def root_of(endpoint: Endpoint) -> str:
    """The address of the own API: ``OLLAMA_BASE_URL``, without the /v1 of the compatible API and without /api."""
    return endpoint.display_url.rstrip("/").removesuffix("/v1").removesuffix("/api")


async def client_options(endpoint: Endpoint) -> dict[str, Any]:
    """The options of Ollama's HTTP clients for the running event loop, which share connections; no redirects."""
    parts = urlsplit(endpoint.base_url)
    login = ":".join(unquote(part or "") for part in (parts.username, parts.password))
    headers = {"Authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key != "not-needed" else {}
    if login != ":":
        headers = {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}

    def make() -> Any:
        return imported("httpx").AsyncHTTPTransport(verify=tls(), proxy=check_proxy(endpoint.base_url))

    transport = await create_once_in_thread(("http", "ollama", endpoint.base_url), make)
    return {"headers": headers, "transport": transport, "follow_redirects": False, "timeout": None}


async def ollama_client(endpoint: Endpoint, own: Mapping[str, Any] | None = None) -> Any:
    """A client of Ollama's own package for the running event loop, perhaps with options of its own."""
    options = own or await client_options(endpoint)
    return await asyncio.to_thread(lambda: imported("ollama").AsyncClient(host=root_of(endpoint), **options))
