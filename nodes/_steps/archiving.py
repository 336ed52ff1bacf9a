"""Copies of cited pages in the Wayback Machine."""

from __future__ import annotations

import asyncio
from typing import Any

from moot.core.errors import MootError, WorldError
from moot.core.fingerprints import key_of
from moot.nodes._models.parallel import all_at_once
from moot.nodes._models.stored_sources import stored
from moot.nodes._records.entries import Warned
from moot.nodes._runtime.ceilings import in_time
from moot.nodes._runtime.node import NodeContext, limits_of
from moot.retrievers import Evidence
from moot.retrievers._pages import is_found_page
from moot.retrievers._wayback import find_copy, save_copy, why_private


async def archived_pages(state: Any, run: NodeContext) -> tuple[list[Evidence], list[Warned]]:
    """The cited pieces of a debate whose pages have copies, with the addresses; and a warning about the others.

    Only pages that a search found are looked up: never given texts, nor private addresses or addresses with secrets.
    """
    if getattr(run.settings, "archive", "off") == "off" or state["error"]:
        return [], []
    cited = {c["evidence_id"] for turn in state["turns"] for c in turn.get("citations") or [] if c["verified"]}
    pieces: list[Evidence] = [piece for piece in state["evidence"] if piece["id"] in cited and is_found_page(piece)]
    copies = [*zip(pieces, await all_at_once(_copy_of(piece, run) for piece in pieces), strict=True)]
    missing = [
        f"{piece['url']} ({_why_not(copy)})" for piece, copy in copies if not copy or isinstance(copy, MootError)
    ]
    detail = f"No copy in the Wayback Machine: {'; '.join(missing)}."
    warned: list[Warned] = [{"kind": "not_archived", "where": "close", "detail": detail}] if missing else []
    return [{**piece, "archived": copy} for piece, copy in copies if copy and isinstance(copy, str)], warned


def _why_not(copy: str | MootError) -> str:
    return copy.detail.rstrip(".") if isinstance(copy, MootError) else "there is none"


async def _copy_of(piece: Evidence, run: NodeContext) -> str | MootError:
    """The address of a copy; empty without one; the error if the Wayback Machine failed or must not be asked."""
    how, url, replies = run.settings.archive, piece["url"], run.session.replies
    key = key_of("page", {"archive": how, "url": url})
    try:
        if replies and (known := await stored(replies, key, f"the copy of {url[:200]}")) is not None:
            return str(known)
        if why := await asyncio.to_thread(why_private, url):
            raise WorldError(why, kind="not_archived")
        limits = limits_of(run.settings)
        asking = save_copy(url, limits) if how == "save" else find_copy(url, piece["fetched"], limits)
        copy = await in_time(asking, "archive")
    except MootError as error:
        if replies and replies.mode != "replay":
            await replies.keep("page", {key: error.record("")}, {"url": url[:200]}, failed=True)
        return error
    if replies:
        await replies.keep("page", {key: copy}, {"url": url[:200]})
    return copy
