"""The server's table of debates: each has a row before its first call, and its document is written when it ends.

The rows are those of the ledger of calls (`moot.core.ledger`). Debates under way whose server was killed are found
there as interrupted, and go on: their calls are in the ledger.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from textwrap import shorten
from typing import Any
from uuid import UUID, uuid4, uuid5

from filelock import FileLock
from langchain_core.runnables import RunnableConfig
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIError, ConflictError, NotFoundError
from moot.core.errors import UserError
from moot.core.ledger import Debate, open_ledger
from moot.core.redaction import anonymised
from moot.graphs import DESCRIPTIONS
from moot.nodes.models.keeping import LedgerUse, current_use
from moot.nodes.models.session import Session
from moot.nodes.records.reducers import place_of, written_values
from moot.nodes.runtime.document import unfinished
from moot.web import debates
from moot.web.caller import EVERYBODY, asking, has_auth
from starlette.concurrency import run_in_threadpool

log = logging.getLogger(__name__)

CLAIMED = "moot_request"
"""The key of a run's metadata by which its debate finds what its request said of it."""
CLAIMED_DEBATE, CLAIMED_KEY = "moot_debate", "moot_key"
"""Keys by which it does in a service, whose debates run in other processes. The ledger checks whose debate it is."""
THREADS = UUID("2a1de1f3-5d3f-4a37-9d52-5f0e6bb0b6c1")
"""The name space of threads that debates go on on, if they had none."""
A_SEARCH = 1000
"""Threads that are asked for at a time."""
A_LINE = 120
"""Characters of a text's first line."""
OVER = ("interrupted", "failed")
"""The status of debates that can be taken up."""


@dataclass(frozen=True)
class Claim:
    """What a request says of the debate that it begins: which debate goes on, or under which idempotency key it is."""

    debate: str | None = None
    key: str | None = None


class Table:
    """Notes every debate that runs in this process; see `moot.nodes.models.session.Recorder`."""

    def __init__(self) -> None:
        self.is_shared = False
        """Whether other processes have the same table, and run debates that were asked for here; see `moot service`."""
        self.claims: dict[str, Claim] = {}
        self.latest: dict[str, str] = {}
        """By thread, the id of its last document; of debates that no ledger knows, this alone does."""
        self.locks: dict[str, FileLock] = {}
        """By idempotency key, what keeps other servers from beginning its debate until it has a row."""

    async def unlock(self, key: str | None) -> None:
        """The debate of an idempotency key has its row, or will not begin."""
        if lock := self.locks.pop(key or "", None):
            await asyncio.to_thread(lock.release)

    def claim(self, claim: Claim) -> dict[str, str]:
        """Metadata for a run whose debate shall find the claim. It serves once: threads hand metadata on."""
        if self.is_shared:
            said = {CLAIMED_DEBATE: claim.debate, CLAIMED_KEY: claim.key}
            return {name: value for name, value in said.items() if value}
        name = uuid4().hex
        self.claims[name] = claim
        return {CLAIMED: name}

    def claiming(self, claim: Claim) -> dict[str, Any]:
        """What `runs.create` is told, so that its debate finds a claim: Aegra hands on the config's metadata alone."""
        said = self.claim(claim)
        return {"config": {"metadata": said}} if self.is_shared else {"metadata": said}

    def use(self, run: RunnableConfig) -> LedgerUse:
        """How a run uses the ledger, for the debate that its request claimed: by ``MOOT_LEDGER``, else ``record``."""
        if self.is_shared:
            return shared_use(run)
        claim = self.claims.pop((run.get("metadata") or {}).get(CLAIMED) or "", Claim())
        return replace(current_use("record"), id=claim.debate, idempotency_key=claim.key)

    async def begun(self, session: Session) -> None:
        """A debate has its row: on which thread and as which run it goes on."""
        await self.unlock(session.use.idempotency_key)
        place = session.run.get("configurable") or {}
        if "thread_id" in place:
            await open_ledger().place(session.id, str(place["thread_id"]), str(place.get("run_id", "")))

    async def ended(self, session: Session, error: BaseException | None) -> tuple[str | None, str | None]:
        """Writes the document of a debate whose run is over: its path, and what else is to be said."""
        note = anonymised(f"{type(error).__name__}: {error}"[:500]) if isinstance(error, Exception) else None
        token = asking.set(session.use.person)
        try:
            path = await asyncio.to_thread(keep, session)
        except Exception as fault:  # the debate itself is not to fail for it; the log and the row say so
            log.exception("The document of the debate %s cannot be kept.", session.id)
            return None, f"Its document cannot be kept: {getattr(fault, 'detail', fault)}"
        finally:
            asking.reset(token)
        thread = (session.run.get("configurable") or {}).get("thread_id")
        if path and thread:
            self.latest[str(thread)] = Path(path).stem
        return path, note


def shared_use(run: RunnableConfig) -> LedgerUse:
    """How a run of a service uses the ledger.

    Its debate has the run's id, unless it goes on with another. So a run that is begun again, as its worker was lost,
    goes on with its debate.
    """
    said, place = run.get("metadata") or {}, run.get("configurable") or {}
    debate, key, id = said.get(CLAIMED_DEBATE), said.get(CLAIMED_KEY), str(place["run_id"])
    if debate is not None and not (isinstance(debate, str) and debates.HEX.fullmatch(debate)):
        raise UserError(f"{CLAIMED_DEBATE} is a debate's id.", kind="bad_request")
    user = place["langgraph_auth_user"].identity
    person = None if user == EVERYBODY else user
    used = current_use("record")
    return replace(
        used, id=debate or UUID(id).hex, idempotency_key=key and own_key(str(key), person), person=person, run=id
    )


def own_key(key: str, person: str | None) -> str:
    """An idempotency key as the table has it: two users may have the same."""
    return f"{person or ''} {key}"


def keep(session: Session) -> str | None:
    """Writes a debate's document, of one that is not over what there is; its path. None before anything is known."""
    run = str((session.run.get("configurable") or {}).get("run_id", "")) or None
    document = session.document
    if document is None:
        if "started_at" not in session.state:
            return None
        within = [written_values(update) for update in session.written]
        document = unfinished(session.state, [update for update in within if is_news(update, session.state)])
    return debates.write(document, run)


def is_news(update: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Whether a node wrote what the state does not hold yet."""
    turns = {place_of(turn) for turn in state["turns"]}
    pieces = {piece["id"] for piece in state["evidence"]}
    return (
        any(place_of(turn) not in turns for turn in update.get("turns") or ())
        or any(call not in state["calls"] for call in update.get("calls") or ())
        or any(piece["id"] not in pieces for piece in update.get("evidence") or ())
    )


TABLE = Table()


# --- what the page asks ----------------------------------------------------------------------------------------------


async def listed(page: int, client: LangGraphClient, words: str = "") -> tuple[list[dict[str, Any]], int]:
    """One page of all debates, newest first, and how many there are: those under way, and those that have a document.

    With ``words`` only those whose claim holds all of them.

    Each has ``id``, ``status`` and what its document says (`debates.LISTED`); those of the table also ``calls``, how
    many of its calls are kept, ``thread``, and what can be done: ``resume``, ``watch``, ``answer``.
    """
    ledger = open_ledger()
    rows = await ledger.outline(asking.get())
    known = {stem[-32:]: stem for stem in reversed(await run_in_threadpool(debates.stems))}
    begun = {id: started for id, status, started in rows if id not in known and status != "done"}
    moments = {id: f"{debates.moment_at(started)}-{id}" for id, started in begun.items()}
    ids = sorted((moments | known).items(), key=lambda one: one[1], reverse=True)
    if has_auth():
        own, places = await threads_of(client), await ledger.places()
        ids = [(id, stem) for id, stem in ids if id in places and places[id][0] in own]
    first = (page - 1) * debates.A_PAGE
    if words.strip():
        entries = [entry for one in ids if (entry := await entry_of(*one, known, client)) and has_all(entry, words)]
        return entries[first : first + debates.A_PAGE], len(entries)
    listed = [await entry_of(*one, known, client) for one in ids[first : first + debates.A_PAGE]]
    return [entry for entry in listed if entry], len(ids)


def has_all(entry: Mapping[str, Any], words: str) -> bool:
    """Whether a debate's claim holds all of some words, in whatever case."""
    claim = str(entry.get("claim") or "").casefold()
    return all(word in claim for word in words.casefold().split())


async def threads_of(client: LangGraphClient) -> set[str]:
    """The threads that whoever asks may see."""
    found: set[str] = set()
    while True:
        more = await client.threads.search(limit=A_SEARCH, offset=len(found), select=["thread_id"])
        found |= {thread["thread_id"] for thread in more}
        if len(more) < A_SEARCH:
            return found


async def entry_of(id: str, stem: str, known: Collection[str], client: LangGraphClient) -> dict[str, Any] | None:
    """What the list says of a debate; None if it was deleted just now."""
    row = await open_ledger().debate(id)
    if id in known:
        entry = await run_in_threadpool(debates.entry, stem)
    elif row is not None:
        entry = described(row)
    else:
        return None
    return entry | (await standing(row, client) if row else {})


def described(row: Debate) -> dict[str, Any]:
    """What the list says of a debate that has no document yet."""
    return {
        "id": row.id,
        "claim": claim_in(row.input),
        "graph": row.graph,
        "answer": None,
        "started_at": datetime.fromtimestamp(row.started, UTC).isoformat(timespec="milliseconds"),
    }


async def standing(row: Debate, client: LangGraphClient) -> dict[str, Any]:
    """How a debate of the table stands, and what can be done: it can be watched, answered, or go on."""
    place = await open_ledger().place_of(row.id)
    if row.status == "interrupted" and place and await is_begun_again(*place, client):
        row = replace(row, status="running")
    more: dict[str, Any] = {"status": row.status, "debate": row.id, "calls": row.calls, "note": row.note}
    if row.status == "running" and place and await runs_here(*place, client):
        return more | {"thread": place[0], "can": "watch"}
    if row.status == "waiting" and place and await lives(place[0], client):
        return more | {"thread": place[0], "can": "answer"}
    return more | ({"can": "resume"} if row.status in (*OVER, "waiting") and row.graph in DESCRIPTIONS else {})


def claim_in(input: Any) -> str:
    """The claim of a debate's input, in a conversation the last message; of a text, its title, or how it begins."""
    if "claim" not in input and isinstance(input.get("text"), str):
        return str(input.get("title") or input.get("source") or first_line(input["text"]))[:500]
    claim = input.get("claim")
    if not isinstance(claim, str):
        messages = input.get("messages") or [{}]
        claim = messages[-1].get("content") if isinstance(messages[-1], dict) else None
    return claim[:500] if isinstance(claim, str) else ""


def first_line(text: str) -> str:
    """The first line of a text that holds something, shortened."""
    return shorten(next((line for line in text.splitlines() if line.strip()), ""), A_LINE, placeholder=" ...")


async def lives(thread: str, client: LangGraphClient) -> bool:
    """Whether the server holds a thread, for whoever asks."""
    try:
        await client.threads.get(thread)
    except APIError:
        return False
    return True


async def runs_here(thread: str, run: str, client: LangGraphClient) -> bool:
    """Whether it is this server that has a run: another one on its home may run the debate."""
    try:
        await client.runs.get(thread, run)
    except APIError:
        return False
    return True


async def is_begun_again(thread: str, run: str, client: LangGraphClient) -> bool:
    """Whether the server itself goes on with a run whose worker was lost."""
    try:
        return TABLE.is_shared and (await client.runs.get(thread, run))["status"] in ("pending", "running")
    except APIError:
        return False


async def found(id: str, client: LangGraphClient) -> tuple[str | None, Debate | None]:
    """The document's id and the row of a debate, by either's id or by its thread's; of a thread, of its last debate.

    Of a server with users each finds the debates of their own threads, and those of no thread.

    Raises:
        UserError: there is none.
    """
    ledger = open_ledger()
    if len(id) == 36:
        id = next(iter(await ledger.places(id)), TABLE.latest.get(id, id))
    row = await ledger.debate(id[-32:]) if debates.ID.fullmatch(id) or debates.HEX.fullmatch(id) else None
    if debates.ID.fullmatch(id):
        stem: str | None = id
    else:  # of several branches the last
        stem = await run_in_threadpool(newest, row) if row else None
    if row is not None and asking.get() not in (None, row.person):
        stem = row = None
    place = await ledger.place_of(row.id) if row and has_auth() else None
    if (stem is None and row is None) or (place and not await lives(place[0], client)):
        raise UserError("There is no such debate: it was deleted, or the link is wrong.", kind="missing_file")
    return stem, row


def newest(row: Debate) -> str | None:
    """The id of a debate's last document, if it has one here."""
    written = [Path(row.document).stem] if row.document else []
    return next((stem for stem in (*written, *debates.of_debate(row.id)) if debates.is_kept(stem)), None)


async def go_on(id: str, client: LangGraphClient) -> dict[str, str]:
    """Takes up a debate that was interrupted or failed: with the same input and settings, and with its kept calls.

    Returns:
        ``thread_id`` and ``run_id`` of the new run.

    Raises:
        UserError: there is none, or it is not to be taken up.
    """
    _, row = await found(id, client)
    if row is not None and (await standing(row, client))["status"] == "running":
        raise UserError("This debate is still going on.", kind="bad_request")
    if row is None or row.graph not in DESCRIPTIONS:
        raise UserError("This debate is in no table: its input and settings are not known here.", kind="bad_request")
    if row.status not in (*OVER, "waiting"):
        said = {"running": "is still going on", "done": "is over"}[row.status]
        raise UserError(f"This debate {said}; one that was interrupted or failed can go on.", kind="bad_request")
    place = await open_ledger().place_of(row.id)
    thread = place[0] if place else str(uuid5(THREADS, row.id))
    try:
        await client.threads.create(thread_id=thread, if_exists="do_nothing", graph_id=row.graph)
        run = await client.runs.create(
            thread,
            row.graph,
            input=row.input,
            context=row.settings,
            **TABLE.claiming(Claim(debate=row.id)),
            stream_mode=["updates", "custom"],
            stream_subgraphs=True,
            stream_resumable=True,
            multitask_strategy="reject",
        )
    except ConflictError as error:
        raise UserError("This debate is still going on.", kind="bad_request") from error
    except APIError as error:
        raise UserError(f"The debate cannot go on ({error.message[:300]}).", kind="bad_request") from error
    return {"thread_id": thread, "run_id": run["run_id"]}


async def delete(id: str, client: LangGraphClient) -> None:
    """Deletes a debate for good: its document, row, kept calls, and thread.

    Raises:
        UserError: there is none, or it is still going on.
    """
    stem, row = await found(id, client)
    if row is not None:
        if row.status == "running":
            raise UserError("This debate is still going on: stop it first.", kind="bad_request")
        place = await open_ledger().place_of(row.id)
        if place:
            with suppress(NotFoundError):  # it lasted as long as its server, or is another's
                await client.threads.delete(place[0])
            if os.environ.get("LANGGRAPH_CHECKPOINTER"):
                from moot.web.threads import delete as delete_thread

                await delete_thread(place[0])
        await open_ledger().delete(row.id)
        for one in await run_in_threadpool(debates.of_debate, row.id):
            await run_in_threadpool(debates.delete, one)
    if stem is not None and (row is None or not stem.endswith(row.id)):
        await run_in_threadpool(debates.delete, stem)
