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
from typing import Any, NamedTuple
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
from moot.retrievers._archives import website_of
from moot.web import debates
from moot.web.caller import EVERYBODY, has_auth
from moot.web.kept import HEX, ID, current_user
from moot.web.reviews import in_lists
from starlette.concurrency import run_in_threadpool

log = logging.getLogger(__name__)

REQUEST_KEY = "moot_request"
"""The key in a run's metadata under which the run's debate finds its `RunRequest`."""
DEBATE_KEY, IDEMPOTENCY_KEY, REPLACES_KEY = "moot_debate", "moot_key", "moot_replaces"
"""The keys in a run's metadata for the parts of a `RunRequest` to `moot service`.

The service needs them, because another process may run the debate. The store checks that the caller owns the debate.
"""
THREADS = UUID("2a1de1f3-5d3f-4a37-9d52-5f0e6bb0b6c1")
"""The UUID namespace of threads whose ids are derived from a debate's id."""
SEARCH_SIZE = 1000
"""Maximum number of threads in the reply to one request to the server."""
MOST_OF_LIST = 5
"""Maximum number of debates of a list of claims in its entry."""
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
        replaces: the id of the document whose check is debated anew; None for another debate.
    """

    debate: str | None = None
    key: str | None = None
    replaces: str | None = None


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
            metadata = {DEBATE_KEY: request.debate, IDEMPOTENCY_KEY: request.key, REPLACES_KEY: request.replaces}
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
        return replace(current_use("record"), id=request.debate, idempotency_key=key, replaces=request.replaces)

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
        """The document of a debate whose run is over, if it has one, and why there is none, or why the run failed."""
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
    """
    metadata, config = run.get("metadata") or {}, run.get("configurable") or {}
    debate, key, id = metadata.get(DEBATE_KEY), metadata.get(IDEMPOTENCY_KEY), str(config["run_id"])
    if debate is not None and not (isinstance(debate, str) and HEX.fullmatch(debate)):
        raise UserError(f"{DEBATE_KEY} must be a debate's id.", kind="bad_request")
    user = config["langgraph_auth_user"].identity
    person = None if user == EVERYBODY else user
    keys: Any = {"id": debate or UUID(id).hex, "idempotency_key": key and user_key(str(key), person)}
    keys |= {"thread": config.get("thread_id"), "replaces": metadata.get(REPLACES_KEY)}
    texts: Any = {name: None if value is None else str(value) for name, value in keys.items()}
    return replace(current_use("record"), **texts, person=person, run=id)


def user_key(key: str, person: str | None) -> str:
    """An idempotency key as the table stores it: with the user's name in front, as two users may send the same key."""
    return f"{person or ''} {key}"


def document_of(session: Session) -> Document | None:
    """The document of a debate for the store; a partial one if the debate is unfinished.

    A search for claims has no document. Its cost is recorded, and None is returned.
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
    return debates.new_document(debates.replacing(document, session.use.replaces), run, thread)


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


STATES = ("open", "done", "failed")
"""States by which debates are selected: those that run, wait or were interrupted; those that are done; failed ones."""


OF_REVIEW = ("stage", "person", "rating")
"""The fields of a debate's review (`in_lists`) by which debates are selected."""


class Wanted(NamedTuple):
    """Which debates are listed; see `moot.web.pages.list_debates`. An empty text selects all."""

    words: str = ""
    state: str = ""
    site: str = ""
    list: str = ""
    stage: str = ""
    person: str = ""
    rating: str = ""


async def list_page(page: int, client: LangGraphClient, wanted: Wanted) -> tuple[list[dict[str, Any]], int]:
    """One page of the list of debates, newest first, and the number of all its entries.

    A debate is listed if it has a document or is not done. If the server has an `Auth` object, only debates on the
    caller's threads are listed. The entry of a debate has the fields of `debates.entry`, or of `undocumented_entry` if
    the debate has no document. If the debate is in the table, the entry also has the fields of `status_and_action`. A
    debate with a document has its ``review`` (`in_lists`), and a colleague's the name of its ``owner``.

    Two or more debates of a list of claims are one entry, at the place of the newest one: it has the ``list`` with its
    id, its name and whether it has a page, the ``count`` of its listed debates, and their newest ``entries``.
    """
    found = await _visible(client)
    known: dict[str, dict[str, Any]] = {}
    if wanted.list:
        found = [one for one in found if one.list == wanted.list]
    if asked := {name: getattr(wanted, name) for name in OF_REVIEW if getattr(wanted, name)}:
        reviewed = await run_in_threadpool(_reviewed, found)
        found = [one for one in found if asked.items() <= reviewed.get(one.id, {}).items()]
    if wanted.words.strip() or wanted.state or wanted.site.strip():
        entries = {one.id: await entry_of(one, client) for one in found}
        known = {id: entry for id, entry in entries.items() if entry and is_wanted(entry, wanted)}
        found = [one for one in found if one.id in known]
    groups: dict[str, list[debates.Listed]] = {}
    for one in found:
        groups.setdefault(one.id if wanted.list or one.list is None else f"list {one.list}", []).append(one)
    first = (page - 1) * debates.PAGE_SIZE
    listed = []
    shown = [*groups.values()][first : first + debates.PAGE_SIZE]
    reviewed = await run_in_threadpool(_reviewed, [one for group in shown for one in group[:MOST_OF_LIST]])
    for group in shown:
        some = [(one.id, known.get(one.id) or await entry_of(one, client)) for one in group[:MOST_OF_LIST]]
        entries_of_group = [entry | ({"review": reviewed[id]} if id in reviewed else {}) for id, entry in some if entry]
        id = group[0].list if len(group) > 1 else None
        about = await run_in_threadpool(debates.list_of_claims, id) if id else None
        if about:
            named = {"id": id, "name": about.name, "has_page": about.has_page}
            listed.append({"list": named, "count": len(group), "entries": entries_of_group})
        else:
            listed += entries_of_group
    return listed, len(groups)


async def review_choices(client: LangGraphClient) -> dict[str, Any]:
    """The ``persons`` who decided about the caller's debates, and their ``ratings``, by which `list_page` selects.

    Ratings are mapped to their words in the current language.
    """
    reviewed = (await run_in_threadpool(_reviewed, await _visible(client))).values()
    ratings = {one["rating"]: one["chip"]["word"] for one in reviewed if "rating" in one}
    return {"persons": sorted({one["person"] for one in reviewed if "person" in one}), "ratings": ratings}


async def _visible(client: LangGraphClient) -> list[debates.Listed]:
    found, threads = await run_in_threadpool(debates.listed), await visible_threads(client)
    return found if threads is None else [one for one in found if one.thread in threads]


def _reviewed(listed: list[debates.Listed]) -> dict[str, dict[str, Any]]:
    return in_lists([one.id for one in listed if one.has_document])


def is_wanted(entry: Mapping[str, Any], wanted: Wanted) -> bool:
    """Whether an entry is selected."""
    status = entry.get("status")
    state = status if status in ("done", "failed") else "open"
    site = website_of(wanted.site.strip() if "://" in wanted.site else f"https://{wanted.site.strip()}")
    return (
        has_all_words(entry, wanted.words)
        and wanted.state in ("", state)
        and (not wanted.site.strip() or site in (entry.get("sites") or ()))
    )


def has_all_words(entry: Mapping[str, Any], words: str) -> bool:
    """Whether the claim of an entry contains each of the words, also as a part of a longer word. Case is ignored."""
    claim = str(entry.get("claim") or "").casefold()
    return all(word in claim for word in words.casefold().split())


async def visible_threads(client: LangGraphClient) -> set[str] | None:
    """The ids of all threads that the caller may see; None without an `Auth` object, whose rules would select them."""
    if not has_auth():
        return None
    found: set[str] = set()
    while True:
        more = await client.threads.search(limit=SEARCH_SIZE, offset=len(found), select=["thread_id"])
        found |= {thread["thread_id"] for thread in more}
        if len(more) < SEARCH_SIZE:
            return found


async def entry_of(listed: debates.Listed, client: LangGraphClient) -> dict[str, Any] | None:
    """A debate's entry in the list; None if the debate was deleted after the list was read."""
    store = open_store()
    is_others = current_user.get() not in (None, listed.person)  # the user may only read it and decide about it
    row = None if is_others else await store.soon(store.run, listed.debate)
    if listed.has_document:
        try:
            entry = await run_in_threadpool(debates.entry, listed.id) | ({"owner": listed.person} if is_others else {})
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
    """The status of a debate in the table, and what its user ``can`` do next: ``watch``, ``answer`` or ``resume``."""
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

    If it could not answer (status 500 or higher), that is a WorldError.
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
    """The last document's id and the row (each may be None) of a debate by its id, or that of its document or thread.

    For a thread, the last debate on the thread is found. If the server has an `Auth` object, debates on threads that
    the caller cannot read are not found. With ``MOOT_USERS``, users find only rows of their own debates, and documents
    that they may read.
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
        row = None
        if stem is not None and not await run_in_threadpool(debates.has_document, stem):
            stem = None
    last_run = row.served if row and has_auth() else None
    if (stem is None and row is None) or (last_run and not await thread_exists(last_run[0], client)):
        raise UserError("There is no such debate: it was deleted, or the link is wrong.", kind="missing_file")
    return stem, row


def last_document(row: Run) -> str | None:
    """The id of a debate's last document; None if no document of the debate is stored here."""
    last = [row.document] if row.document else []  # may be the document of a further branch
    return next((stem for stem in (*last, *debates.document_ids(row.id)) if debates.has_document(stem)), None)


async def resume(id: str, client: LangGraphClient) -> dict[str, str]:
    """Resumes an interrupted, failed or waiting debate with its stored replies; returns its new thread and run."""
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
    thread, request = row.thread or str(uuid5(THREADS, row.id)), RunRequest(debate=row.id, replaces=row.replaces)
    return await start(thread, row.graph, row.input, row.settings, request, client)


async def start(
    thread: str, graph: str, input: Any, settings: Any, request: RunRequest, client: LangGraphClient
) -> dict[str, str]:
    """Starts or resumes a debate on a thread of its own; returns the thread and the run."""
    try:
        await client.threads.create(thread_id=thread, if_exists="do_nothing", graph_id=graph)
        run = await client.runs.create(
            thread,
            graph,
            input=input,
            context=settings,
            **TABLE.run_arguments(request),
            stream_mode=["updates", "custom"],
            stream_subgraphs=True,
            stream_resumable=True,
            multitask_strategy="reject",
        )
    except ConflictError as error:
        raise UserError("This debate is still running.", kind="bad_request") from error
    except APIError as error:
        raise UserError(f"The debate cannot be started ({error.message[:300]}).", kind="bad_request") from error
    return {"thread_id": thread, "run_id": run["run_id"]}


async def delete(id: str, client: LangGraphClient) -> None:
    """Deletes a debate for good: its documents, row, stored replies and thread.

    Documents of further branches (see `ID`) may be kept.
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
