"""``moot assistants``: for each system, creates or updates an assistant with the preset practical on a running server.

The server itself has an assistant with the defaults of each system, which are those of the preset paper.
"""

from __future__ import annotations

import os
from typing import Any
from uuid import UUID, uuid5

import httpx
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient
from langgraph_sdk.errors import LangGraphError
from moot.core.errors import WorldError
from moot.graphs import DESCRIPTIONS
from moot.graphs._registry import graph_title
from moot.web.login import TOKEN

NAMESPACE = UUID("6f0c2b1e-2a63-4d0e-9d0b-7c1f5b7a4e19")
"""The UUID namespace of the assistants' ids. An assistant's id depends only on the name of its system."""


def create_assistants(url: str) -> dict[str, str]:
    """Creates or updates an assistant for each system; says of each, by its name: created, updated or unchanged."""
    try:
        token = os.environ.get(TOKEN, "").strip()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with httpx.Client(base_url=url) as probe, get_sync_client(url=url, api_key=None, headers=headers) as client:
            probe.get("/ok")  # fails at once if there is no server; `client` would retry for a long time
            return {title_of(system): create(client, system) for system in DESCRIPTIONS}
    except (httpx.HTTPError, httpx.InvalidURL, LangGraphError) as error:
        raise WorldError(
            f"The server at {url} did not answer, or it refused a request ({error}). Start one with: moot serve",
            kind="no_server",
        ) from error


def title_of(system: str) -> str:
    """The name of a system's assistant."""
    return f"{graph_title(system)}, practical"


def create(client: SyncLangGraphClient, system: str) -> str:
    """Creates or updates the assistant of a system; returns ``created``, ``updated`` or ``unchanged``."""
    assistant_id = str(uuid5(NAMESPACE, system))
    wanted: dict[str, Any] = {
        "context": {"preset": "practical"},
        "name": title_of(system),
        "description": DESCRIPTIONS[system],
    }
    existing = client.assistants.search(metadata={"practical": system})
    if not existing:
        client.assistants.create(system, assistant_id=assistant_id, metadata={"practical": system}, **wanted)
        return "created"
    if all(existing[0].get(key) == value for key, value in wanted.items()):
        return "unchanged"
    client.assistants.update(assistant_id, graph_id=system, **wanted)
    return "updated"
