"""Copies of pages in the Wayback Machine: finds the nearest one, or asks for a new one.

The APIs are https://archive.org/help/wayback_api.php and Save Page Now 2 (https://archive.org/account/s3.php).

``WAYBACK_BASE_URL`` sets another address of both APIs. `save_copy` needs ``WAYBACK_KEY``: the access key and the secret
of an account, with a colon between them.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from moot.core.endpoint import Limits, replaying
from moot.core.errors import MootError, UserError
from moot.core.redaction import SECRET_NAME
from moot.retrievers._archives import is_copy
from moot.retrievers._documents.fetch import check_address, private_address_of
from moot.retrievers._web import Source, ask
from pydantic import BaseModel

FIND = Source("the Wayback Machine", "https://archive.org", "WAYBACK_BASE_URL")
SAVE = replace(FIND, base_url="https://web.archive.org", key_variable="WAYBACK_KEY")
COPIES = "https://web.archive.org/web/"
POLLING = 3.0
"""Seconds between two questions whether a page is saved."""
MOST_POLLS = 40
"""Maximum number of these questions. Saving a page takes at most two minutes."""


class Copy(BaseModel):
    """The nearest copy of a page."""

    available: bool
    url: str


class Copies(BaseModel):
    """The copies of a page; empty without any."""

    closest: Copy | None = None


class Available(BaseModel):
    """An answer of the availability API."""

    archived_snapshots: Copies


class Job(BaseModel):
    """An answer to a request to save a page, or about its state."""

    job_id: str = ""
    status: str = "pending"
    timestamp: str = ""
    original_url: str = ""
    message: str = ""


def check_key() -> None:
    """Raises a UserError if pages are to be saved, but the key is not set."""
    if not SAVE.key() and not replaying.get():
        raise UserError(
            "archive=save needs a key of archive.org. Make one at https://archive.org/account/s3.php, and set it: "
            "export WAYBACK_KEY=ACCESS:SECRET. Or set archive to find, which needs none.",
            kind="missing_key",
        )


def why_private(url: str) -> str:
    """Why an address must not be named to the Wayback Machine; empty if it may; blocking."""
    try:
        query = check_address(url).query_string
    except MootError as error:
        return error.detail.rstrip(".")
    if any(SECRET_NAME.search(name) for name, _ in parse_qsl(query)):
        return "the address contains a secret"
    if (urlsplit(url).hostname or "").endswith((".local", ".internal", ".lan")) or private_address_of(url):
        return "the address is in a private network"
    return ""


async def find_copy(url: str, read_at: str, limits: Limits) -> str:
    """The address of the copy nearest to the time ``read_at`` (ISO form) of a page; empty without a copy."""
    moment = datetime.fromisoformat(read_at).strftime("%Y%m%d%H%M%S")
    parse = Available.model_validate_json
    found = await ask(FIND, limits, parse, "/wayback/available", params={"url": url, "timestamp": moment})
    copy = found.archived_snapshots.closest
    return copy.url if copy and copy.available and is_copy(copy.url) else ""


async def save_copy(url: str, limits: Limits) -> str:
    """Asks for a new copy of a page, waits for it, and returns its address; a MootError if it was not saved."""
    headers = {"Accept": "application/json", "Authorization": f"LOW {SAVE.key()}"}
    read: Any = Job.model_validate_json
    job = await ask(SAVE, limits, read, "/save", form={"url": url}, headers=headers)
    if not re.fullmatch(r"[\w-]{1,200}", job.job_id):
        raise SAVE.failure("search_refused", job.message or "it names no job")
    for _ in range(MOST_POLLS):
        found = await ask(SAVE, limits, read, f"/save/status/{job.job_id}", headers=headers)
        if found.status == "success" and re.fullmatch(r"\d{14}", found.timestamp):
            return f"{COPIES}{found.timestamp}/{found.original_url or url}"
        if found.status != "pending":
            raise SAVE.failure("search_refused", found.message or found.status)
        await asyncio.sleep(POLLING)
    raise SAVE.failure("timeout")
