"""The server's table of debates: a debate gets its row before its first call, and its document at the end of its run.

The rows are the runs in the store (`moot.core.store`). If the server is killed, its running debates count as
interrupted. They can be resumed, because the store has their replies.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from textwrap import shorten
from typing import Any
from uuid import UUID, uuid4, uuid5

from langchain_core.runnables import RunnableConfig
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIError, ConflictError, InternalServerError, NotFoundError
from moot.core.errors import UserError, WorldError
from moot.core.redaction import hide_secrets
from moot.core.store import Document, Run, open_store
from moot.graphs._registry import graph_names
from moot.nodes._models.budget import Budget
from moot.nodes._models.replies import StoreUse, current_use
from moot.nodes._models.session import Session
from moot.nodes._records.reducers import turn_key, written_values
from moot.nodes._runtime.document import unfinished
from moot.web import debates
from moot.web.caller import EVERYBODY, has_auth
from moot.web.kept import HEX, ID, current_user
from starlette.concurrency import run_in_threadpool

log = logging.getLogger(__name__)

REQUEST_KEY = "moot_request"
"""The key in a run's metadata under which the run's debate finds its `RunRequest`."""
DEBATE_KEY, IDEMPOTENCY_KEY = "moot_debate", "moot_key"
"""The keys in a run's metadata for the debate's id and the idempotency key of a request to `moot service`.

The service needs them, because another process may run the debate. The store checks that the caller owns the debate.
"""
THREADS = UUID("2a1de1f3-5d3f-4a37-9d52-5f0e6bb0b6c1")
"""The UUID namespace of threads whose ids are derived from a debate's id."""
SEARCH_SIZE = 1000
"""Maximum number of threads in the reply to one request to the server."""
LONGEST_LINE = 120
"""Maximum length of a text's first line, in characters."""
Reserve = Callable[[str, str | None, Mapping[str, Any]], AbstractAsyncContextManager[Budget | None]]
"""Reserves ceilings for a run, from the run's id, its user and its settings."""
GOING = ("pending", "running")
"""Statuses of a server's run that has not ended."""
RESUMABLE = ("interrupted", "failed")
"""Statuses of debates that stopped early. These debates and waiting debates can be resumed."""


@dataclass(frozen=True)
class RunRequest:
    """The data that a request passes to its debate.

    Args:
        debate: the id of the debate to start or resume; if None, the debate gets a new id.
        key: the idempotency key; None without a key.
    """

    debate: str | None = None
    key: str | None = None


class Table:
    """Records every debate that runs in this process; see `moot.nodes._models.session.Recorder`."""

    def __init__(self) -> None:
        self.is_shared = False
        """Whether other processes share the table and may run debates requested here; see `moot service`."""
        self.reserve: Reserve = lambda *_: nullcontext()
        """Reserves a part of a user's quotas for a run; see `moot service`."""
        self.requests: dict[str, RunRequest] = {}
        """Requests whose runs have not begun, by the value of `REQUEST_KEY` in the run's metadata."""
        self.budgets: dict[str, Budget] = {}
        """The ceilings that debates of a batch share, by the debate's id."""

    def metadata(self, request: RunRequest) -> dict[str, str]:
        """The metadata by which a run's debate finds its request.

        A request in `requests` is used only once, because a thread passes metadata on to later runs.
        """
        if self.is_shared:
            metadata = {DEBATE_KEY: request.debate, IDEMPOTENCY_KEY: request.key}
            return {name: value for name, value in metadata.items() if value}
        name = uuid4().hex
        self.requests[name] = request
        return {REQUEST_KEY: name}

    def run_arguments(self, request: RunRequest) -> dict[str, Any]:
        """The arguments of `runs.create` that pass a request on to its debate.

        In `moot service`, the metadata must be in the config, because Aegra passes on no other metadata.
        """
        metadata = self.metadata(request)
        return {"config": {"metadata": metadata}} if self.is_shared else {"metadata": metadata}

    def use(self, run: RunnableConfig) -> StoreUse:
        """How a run uses the store. The debate's id and idempotency key are those of the request.

        The mode is that of `current_use` with the default ``record``. Raises UserError as `current_use` and
        `shared_use`.
        """
        if self.is_shared:
            return shared_use(run)
        request = self.requests.pop((run.get("metadata") or {}).get(REQUEST_KEY) or "", RunRequest())
        key = request.key and user_key(request.key, None)
        return replace(current_use("record"), id=request.debate, idempotency_key=key)

    def reservation(self, use: StoreUse, settings: Mapping[str, Any]) -> AbstractAsyncContextManager[Budget | None]:
        """The ceilings of the debate's batch; else, in a service, a part of the user's quotas."""
        if shared := self.budgets.get(use.id or ""):
            return nullcontext(shared)
        return self.reserve(use.run or "", use.person, settings)

    async def begun(self, session: Session) -> None:
        """Stores the thread and the run of a debate that has just begun or been resumed.

        Nothing is stored if the run has no thread.
        """
        config = session.run.get("configurable") or {}
        if "thread_id" in config:
            store, run = open_store(), str(config.get("run_id", ""))
            await store.soon(store.record_thread, session.id, str(config["thread_id"]), run)

    async def ended(self, session: Session, error: BaseException | None) -> tuple[Document | None, str | None]:
        """The document of a debate whose run is over.

        Returns:
            Two values. The first is the document; None for a search for claims. The second says why there is none, or
            else why the run failed; None if neither is the case. A cancelled run did not fail.
        """
        note = hide_secrets(f"{type(error).__name__}: {error}"[:500]) if isinstance(error, Exception) else None
        token = current_user.set(session.use.person)
        try:
            return await asyncio.to_thread(document_of, session), note
        except Exception as fault:  # only the log and the row report this fault, so that the debate does not fail
            log.exception("The document of the debate %s cannot be stored.", session.id)
            return None, f"Its document cannot be stored: {getattr(fault, 'detail', fault)}"
        finally:
            current_user.reset(token)


def shared_use(run: RunnableConfig) -> StoreUse:
    """How a run of a service uses the store.

    If the metadata has no debate's id (`DEBATE_KEY`), the run's id becomes the debate's id. So a run that restarts
    because its worker was lost continues the same debate.

    Raises:
        UserError: the debate's id in the metadata is not valid, or ``MOOT_REPLIES`` is not a mode.
    """
    metadata, config = run.get("metadata") or {}, run.get("configurable") or {}
    debate, key, id = metadata.get(DEBATE_KEY), metadata.get(IDEMPOTENCY_KEY), str(config["run_id"])
    if debate is not None and not (isinstance(debate, str) and HEX.fullmatch(debate)):
        raise UserError(f"{DEBATE_KEY} must be a debate's id.", kind="bad_request")
    user = config["langgraph_auth_user"].identity
    person = None if user == EVERYBODY else user
    used = current_use("record")
    return replace(
        used, id=debate or UUID(id).hex, idempotency_key=key and user_key(str(key), person), person=person, run=id
    )


def user_key(key: str, person: str | None) -> str:
    """An idempotency key as the table stores it: with the user's name in front, as two users may send the same key."""
    return f"{person or ''} {key}"


def document_of(session: Session) -> Document | None:
    """The document of a debate for the store; a partial one if the debate is unfinished.

    A search for claims has no document. Its cost is recorded, and None is returned.

    Raises:
        UserError, WorldError: the prices cannot be read, or the cost cannot be recorded.
    """
    config = session.run.get("configurable") or {}
    document = session.document
    if document is None:
        if "started_at" not in session.state:  # a search for claims
            if session.id and session.state.get("calls"):
                debates.record_spending(session.id, session.state["calls"])
            return None
        updates = [written_values(update) for update in session.written]
        document = unfinished(session.state, [update for update in updates if has_new_items(update, session.state)])
    run, thread = (str(config[name]) if config.get(name) else None for name in ("run_id", "thread_id"))
    return debates.new_document(document, run, thread)


def has_new_items(update: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Whether a node's update has turns, calls or evidence that the state does not have yet."""
    turns = {turn_key(turn) for turn in state["turns"]}
    pieces = {piece["id"] for piece in state["evidence"]}
    return (
        any(turn_key(turn) not in turns for turn in update.get("turns") or ())
        or any(call not in state["calls"] for call in update.get("calls") or ())
        or any(piece["id"] not in pieces for piece in update.get("evidence") or ())
    )


TABLE = Table()


# --- requests of the page --------------------------------------------------------------------------------------------


async def list_page(page: int, client: LangGraphClient, words: str = "") -> tuple[list[dict[str, Any]], int]:
    """One page of the list of debates, newest first, and the number of all listed debates.

    A debate is listed if it has a document or is not done. If the server has an `Auth` object, only debates on the
    caller's threads are listed. The entry of a debate has the fields of `debates.entry`, or of `undocumented_entry` if
    the debate has no document. If the debate is in the table, the entry also has the fields of `status_and_action`.

    Args:
        page: the page's number, from 1.
        client: sends requests as the caller.
        words: only debates whose claim contains all these words are listed; blank for all debates.
    """
    found = await run_in_threadpool(debates.listed)
    if has_auth():
        threads = await visible_threads(client)
        found = [one for one in found if one.thread in threads]
    first = (page - 1) * debates.PAGE_SIZE
    if words.strip():
        entries = [entry for one in found if (entry := await entry_of(one, client)) and has_all_words(entry, words)]
        return entries[first : first + debates.PAGE_SIZE], len(entries)
    listed = [await entry_of(one, client) for one in found[first : first + debates.PAGE_SIZE]]
    return [entry for entry in listed if entry], len(found)


def has_all_words(entry: Mapping[str, Any], words: str) -> bool:
    """Whether the claim of an entry contains each of the words, also as a part of a longer word. Case is ignored."""
    claim = str(entry.get("claim") or "").casefold()
    return all(word in claim for word in words.casefold().split())


async def visible_threads(client: LangGraphClient) -> set[str]:
    """The ids of all threads that the caller may see."""
    found: set[str] = set()
    while True:
        more = await client.threads.search(limit=SEARCH_SIZE, offset=len(found), select=["thread_id"])
        found |= {thread["thread_id"] for thread in more}
        if len(more) < SEARCH_SIZE:
            return found


async def entry_of(listed: debates.Listed, client: LangGraphClient) -> dict[str, Any] | None:
    """A debate's entry in the list; None if the debate was deleted after the list was read.

    Args:
        listed: the debate.
        client: sends requests as the caller.
    """
    store = open_store()
    row = await store.soon(store.run, listed.debate)
    if listed.has_document:
        try:
            entry = await run_in_threadpool(debates.entry, listed.id)
        except UserError as error:
            if error.kind != "missing_file":
                raise
            return None  # the document was deleted after the list was read
    elif row is not None:
        entry = undocumented_entry(row)
    else:
        return None
    return entry | (await status_and_action(row, client) if row else {})


def undocumented_entry(row: Run) -> dict[str, Any]:
    """The list entry of a debate without a document."""
    return {
        "id": row.id,
        "claim": claim_in(row.input),
        "graph": row.graph,
        "answer": None,
        "started_at": datetime.fromtimestamp(row.started, UTC).isoformat(timespec="milliseconds"),
    }


async def status_and_action(row: Run, client: LangGraphClient) -> dict[str, Any]:
    """The status of a debate in the table, and what its user may do next.

    Returns:
        ``status``; ``debate``: the id; ``calls``: the number of stored calls of models; ``note``: a remark, such as why
        the debate failed, or None. If the user may act, ``can`` is ``watch``, ``answer`` or ``resume``; otherwise,
        ``can`` is missing. For ``watch`` and ``answer``, ``thread`` is the debate's thread.

    Raises:
        WorldError: the server could not look up the debate's thread or run.
    """
    last_run = row.served
    going = await run_status(*last_run, client) if last_run and row.status in ("running", "interrupted") else None
    if row.status == "interrupted" and TABLE.is_shared and going in GOING:  # a worker was lost, another one restarts it
        row = replace(row, status="running")
    more: dict[str, Any] = {"status": row.status, "debate": row.id, "calls": row.calls, "note": row.note}
    if row.status == "running" and last_run and going:
        return more | {"thread": last_run[0], "can": "watch"}
    if row.status == "waiting" and last_run and await thread_exists(last_run[0], client):
        return more | {"thread": last_run[0], "can": "answer"}
    return more | (
        {"can": "resume"} if row.status in (*RESUMABLE, "waiting") and row.graph in graph_names(others=True) else {}
    )


def claim_in(input: Any) -> str:
    """The claim in a debate's input, shortened to 500 characters.

    An input with a text in place of a claim has the text's title as its claim, or else the source, or else the first
    line. If the claim is not a string, the content of the input's last message is used. The result is empty if no
    claim is found.
    """
    if "claim" not in input and isinstance(input.get("text"), str):
        return str(input.get("title") or input.get("source") or first_line(input["text"]))[:500]
    claim = input.get("claim")
    if not isinstance(claim, str):
        messages = input.get("messages") or [{}]
        claim = messages[-1].get("content") if isinstance(messages[-1], dict) else None
    return claim[:500] if isinstance(claim, str) else ""


def first_line(text: str) -> str:
    """The first non-blank line of a text, shortened; empty if all lines are blank."""
    return shorten(next((line for line in text.splitlines() if line.strip()), ""), LONGEST_LINE, placeholder=" ...")


async def thread_exists(thread: str, client: LangGraphClient) -> bool:
    """Whether this server has a thread, and the caller may see it. Raises WorldError as `_found`."""
    return await _found(client.threads.get(thread)) is not None


async def run_status(thread: str, run: str, client: LangGraphClient) -> str | None:
    """The status of a run on this server; None if there is none that the caller may see. Raises WorldError as `_found`.

    A run may be on another server with the same ``MOOT_HOME``. If the run is empty, because the debate begins just now,
    the status is that of the thread's running run.
    """
    if run:
        found = [await _found(client.runs.get(thread, run))]
    else:
        found = await _found(client.runs.list(thread, limit=1, status="running")) or []
    return next((one["status"] for one in found if one), None)


async def _found(lookup: Awaitable[Any]) -> Any:
    """What the server answers; None if it refuses the request, for example because nothing is found.

    Raises:
        WorldError: the server could not answer the request (status 500 or higher).
    """
    try:
        return await lookup
    except InternalServerError as error:
        raise WorldError(
            "The server cannot look this up now: its database may be unreachable.", kind="unreachable", retryable=True
        ) from error
    except APIError:
        return None


async def find_debate(id: str, client: LangGraphClient) -> tuple[str | None, Run | None]:
    """Finds a debate by its id, by the id of its document, or by the id of its thread.

    For a thread, the last debate on the thread is found. If the server has an `Auth` object, debates on threads that
    the caller cannot read are not found. With ``MOOT_USERS``, users find only rows of their own debates.

    Returns:
        The id of the debate's last document, and the debate's row. Each is None if it does not exist. If a document's
        id is given, the same id is returned, even if no such document is stored.

    Raises:
        UserError: there is no such debate, or the caller may not see it.
        WorldError: the server could not look up the debate's thread.
    """
    store = open_store()
    if len(id) == 36:
        last = await store.soon(store.runs, thread=id, limit=1)
        found = None if last else await run_in_threadpool(debates.last_of_thread, id)
        id = last[0].id if last else found or id
    row = await store.soon(store.run, id[-32:]) if ID.fullmatch(id) or HEX.fullmatch(id) else None
    if ID.fullmatch(id):
        stem: str | None = id
    else:
        stem = await run_in_threadpool(last_document, row) if row else None
    if row is not None and current_user.get() not in (None, row.person):
        stem = row = None
    last_run = row.served if row and has_auth() else None
    if (stem is None and row is None) or (last_run and not await thread_exists(last_run[0], client)):
        raise UserError("There is no such debate: it was deleted, or the link is wrong.", kind="missing_file")
    return stem, row


def last_document(row: Run) -> str | None:
    """The id of a debate's last document; None if no document of the debate is stored here."""
    last = [row.document] if row.document else []  # may be the document of a further branch
    return next((stem for stem in (*last, *debates.document_ids(row.id)) if debates.has_document(stem)), None)


async def resume(id: str, client: LangGraphClient) -> dict[str, str]:
    """Resumes an interrupted, failed or waiting debate with the same input, settings and stored replies.

    Returns:
        ``thread_id`` and ``run_id`` of the new run.

    Raises:
        UserError: there is no such debate, or it cannot be resumed.
        WorldError: the server could not look up the debate's thread or run.
    """
    _, row = await find_debate(id, client)
    if row is not None and (await status_and_action(row, client))["status"] == "running":
        raise UserError("This debate is still running.", kind="bad_request")
    if row is None or row.graph not in graph_names(others=True):
        raise UserError(
            "This debate cannot be resumed: this server does not know its graph, or its input and settings.",
            kind="bad_request",
        )
    if row.status not in (*RESUMABLE, "waiting"):
        state = {"running": "is still running", "done": "is over"}[row.status]
        raise UserError(
            f"This debate {state}; only interrupted, failed and waiting debates can be resumed.",
            kind="bad_request",
        )
    thread = row.thread or str(uuid5(THREADS, row.id))
    try:
        await client.threads.create(thread_id=thread, if_exists="do_nothing", graph_id=row.graph)
        run = await client.runs.create(
            thread,
            row.graph,
            input=row.input,
            context=row.settings,
            **TABLE.run_arguments(RunRequest(debate=row.id)),
            stream_mode=["updates", "custom"],
            stream_subgraphs=True,
            stream_resumable=True,
            multitask_strategy="reject",
        )
    except ConflictError as error:
        raise UserError("This debate is still running.", kind="bad_request") from error
    except APIError as error:
        raise UserError(f"The debate cannot be resumed ({error.message[:300]}).", kind="bad_request") from error
    return {"thread_id": thread, "run_id": run["run_id"]}


async def delete(id: str, client: LangGraphClient) -> None:
    """Deletes a debate for good: its documents, row, stored replies and thread.

    Documents of further branches (see `ID`) may be kept.

    Raises:
        UserError: there is no such debate, or it is still running.
        WorldError: the server could not look up the debate's thread.
        APIError: the server could not delete the thread.
    """
    stem, row = await find_debate(id, client)
    if row is not None:
        if row.status == "running":
            raise UserError("This debate is still running: stop it first.", kind="bad_request")
        if row.thread:
            with suppress(NotFoundError):  # the thread was lost with its server, or is on another server
                await client.threads.delete(row.thread)
            if os.environ.get("LANGGRAPH_CHECKPOINTER"):
                from moot.web.threads import delete as delete_thread

                await delete_thread(row.thread)
        store = open_store()
        await store.soon(store.delete, row.id)
        for document in await run_in_threadpool(debates.document_ids, row.id):
            await run_in_threadpool(debates.delete, document)
    if stem is not None and (row is None or not stem.endswith(row.id)):
        await run_in_threadpool(debates.delete, stem)
