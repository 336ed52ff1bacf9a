"""``moot assistants``: for each preset without a task, creates or updates an assistant on a running server."""

from __future__ import annotations

import os
from typing import Any
from uuid import UUID, uuid5

import httpx
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient
from langgraph_sdk.errors import LangGraphError
from moot.core.errors import WorldError
from moot.graphs.presets import PRESETS, Preset
from moot.web.login import TOKEN

NAMESPACE = UUID("6f0c2b1e-2a63-4d0e-9d0b-7c1f5b7a4e19")
"""The UUID namespace of the assistants' ids. An assistant's id depends only on its preset's name."""


def create_assistants(url: str) -> dict[str, str]:
    """Creates or updates an assistant for each preset without a task; says of each: created, updated or unchanged."""
    wanted = {name: preset for name, preset in PRESETS.items() if preset.task is None}
    try:
        token = os.environ.get(TOKEN, "").strip()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with httpx.Client(base_url=url) as probe, get_sync_client(url=url, api_key=None, headers=headers) as client:
            probe.get("/ok")  # fails at once if there is no server; `client` would retry for a long time
            return {name: create(client, name, preset) for name, preset in wanted.items()}
    except (httpx.HTTPError, httpx.InvalidURL, LangGraphError) as error:
        raise WorldError(
            f"The server at {url} did not answer, or it refused a request ({error}). Start one with: moot serve",
            kind="no_server",
        ) from error


def create(client: SyncLangGraphClient, name: str, preset: Preset) -> str:
    """Creates or updates the assistant of a preset; returns ``created``, ``updated`` or ``unchanged``."""
    assistant_id = str(uuid5(NAMESPACE, name))
    wanted: dict[str, Any] = {"context": preset.settings, "name": name, "description": preset.about}
    existing = client.assistants.search(metadata={"preset": name})
    if not existing:
        client.assistants.create(preset.graph, assistant_id=assistant_id, metadata={"preset": name}, **wanted)
        return "created"
    if all(existing[0].get(key) == value for key, value in wanted.items()):
        return "unchanged"
    client.assistants.update(assistant_id, graph_id=preset.graph, **wanted)
    return "updated"
