"""The result documents of past debates, which are in the store (`moot.core.store`), next to the runs.

Everything here blocks, and raises UserError or WorldError if the store cannot be used. A user
(`moot.web.kept.current_user`) finds only their own documents. Without users, everybody finds all documents.
"""

from __future__ import annotations

import json
import os
import secrets
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa
from moot.core import store as stored
from moot.core.errors import MootError, UserError
from moot.core.store import in_parts, open_store
from moot.core.tables import documents, runs
from moot.nodes._models.prices import calls_with_reserved_tokens, cost_of, read_prices
from moot.nodes._models.step_record import tokens_of
from moot.web.kept import (
    HEX,
    Document,
    current_user,
    document_text,
    entry_of,
    id_time,
    id_time_at,
    no_debate_error,
    parse_stored,
)

T = TypeVar("T")

PAGE_SIZE = 20
"""Number of debates on one page of the list."""


class Listed(NamedTuple):
    """A debate in lists: one with a document, or one that is not done and has none."""

    id: str  # the id of its document, or the id that its document would have
    debate: str
    has_document: bool
    person: str | None
    thread: str | None  # on a server


def new_document(document: Document, run: str | None = None, thread: str | None = None) -> stored.Document:
    """A document of the current user, as the store takes it.

    Args:
        document: the document of a debate that ran here.
        run: the id of the server's run that wrote it; None if no server ran it.
        thread: the id of the server's thread.
    """
    person = current_user.get()
    return stored.Document(
        moment=id_time(document),
        debate=document["id"],
        status=document["status"],
        entry=json.dumps(entry_of(document)),
        content=zlib.compress(document_text(document).encode()),
        person=person,
        run=run,
        thread=thread,
        cost=None if person is None else cost_of_calls(document["calls"]),
    )


def cost_of_calls(calls: list[Any]) -> tuple[float, float | None]:
    """The tokens and USD of calls; the USD are None if a price or a number of tokens is not known."""
    sent = calls_with_reserved_tokens(calls)
    return tokens_of(sent), cost_of(sent, read_prices())


def save(document: Document) -> str:
    """Stores a document from outside and returns its id. If an equal one is stored already, returns that one's id."""
    new = new_document({**document, "id": document["id"] or ""})
    id = f"{new.moment}-{secrets.token_hex(16)}"

    def add(connection: sa.Connection) -> str:
        equal = sa.select(documents.c.id).where(
            documents.c.id.startswith(new.moment), documents.c.content == new.content, mine()
        )
        if known := connection.scalar(equal):
            return str(known)
        whose = {"debate": new.debate if HEX.fullmatch(new.debate) else id[-32:], "person": new.person}
        connection.execute(sa.insert(documents).values(**new.row(id), **whose))
        return id

    return open_store().do(add)


def replace(id: str, document: Document) -> None:
    """Replaces a document with an extended version of it. The cost of its new calls is recorded.

    Raises:
        UserError: there is no such document.
    """
    n_stored = len(json.loads(content_of(id))["calls"])
    cost = cost_of_calls(document["calls"][n_stored:])
    changed = sa.update(documents).where(documents.c.id == id, mine())

    def change(connection: sa.Connection) -> None:
        if not connection.execute(changed.values(**new_document(document).row(id))).rowcount:
            raise no_debate_error()
        open_store().spend(connection, f"{id} {n_stored}", current_user.get(), cost)

    open_store().do(change)


def record_spending(id: str, calls: list[Any]) -> None:
    """Records the cost of calls that are in no document, such as those of a search for claims, for the current user."""
    store, cost = open_store(), cost_of_calls(calls)
    store.do(lambda connection: store.spend(connection, id, current_user.get(), cost))


def store_locally(document: Document) -> str:
    """Stores a debate in this machine's history, unless ``MOOT_HISTORY`` is ``off`` or the document has no id.

    Returns:
        The text of the error if the debate cannot be stored; otherwise an empty text.

    Raises:
        UserError: ``MOOT_HISTORY`` is neither ``on`` nor ``off``.
    """
    try:
        if found := for_history(document):
            open_store().put(found)
    except MootError as error:
        return error.detail
    return ""


def for_history(document: Document) -> stored.Document | None:
    """A document for this machine's history; None if ``MOOT_HISTORY`` is ``off``, or the document has no id."""
    return new_document(document) if history_is_on() and document["id"] else None


def history_is_on() -> bool:
    """Whether this machine's history stores debates. It does, unless ``MOOT_HISTORY`` is ``off``.

    Raises:
        UserError: ``MOOT_HISTORY`` is neither ``on`` nor ``off``.
    """
    value = os.environ.get("MOOT_HISTORY", "").strip().lower() or "on"
    if value not in ("on", "off"):
        raise UserError(f"MOOT_HISTORY must be on or off, not {value[:20]!r}.", kind="invalid_environment")
    return value == "on"


# --- what is stored ---------------------------------------------------------------------------------------------------


def mine() -> sa.ColumnElement[bool]:
    """Selects the current user's documents."""
    person = current_user.get()
    return sa.true() if person is None else documents.c.person == person


def read(query: Callable[[sa.Connection], T]) -> T:
    """Runs a query, for whose answer somebody may wait."""
    return open_store().do(query, is_lookup=True)


def listed() -> list[Listed]:
    """All debates with a document, and those that are not done and have none, newest first."""
    person = current_user.get()
    has_none = ~sa.select(documents.c.id).where(documents.c.debate == runs.c.id).exists()
    own = sa.true() if person is None else runs.c.person == person
    kept = sa.select(*documents.c["id", "debate", "person", "thread"]).where(mine())
    open_runs = sa.select(*runs.c["id", "started", "person", "thread"]).where(
        runs.c.status != "done", has_none, own, open_store().listed
    )
    found, begun = read(lambda connection: (connection.execute(kept).all(), connection.execute(open_runs).all()))
    entries = [Listed(row.id, row.debate, True, row.person, row.thread) for row in found]
    entries += [Listed(f"{id_time_at(row.started)}-{row.id}", row.id, False, row.person, row.thread) for row in begun]
    return sorted(entries, reverse=True)


def document_ids(debate: str) -> list[str]:
    """The ids of a debate's documents, except imports and further branches; see `moot.web.kept.ID`."""
    query = sa.select(documents.c.id).where(documents.c.debate == debate, documents.c.id.endswith(debate), mine())
    return [*read(lambda connection: connection.scalars(query).all())]


def last_documents(of_debates: Sequence[str]) -> dict[str, tuple[str, float]]:
    """The id of the last document of each debate that has one, and when it was written."""
    kept = sa.select(*documents.c["debate", "id", "written"]).where(mine()).order_by(documents.c.written)

    def find(connection: sa.Connection) -> dict[str, tuple[str, float]]:
        parts = (connection.execute(kept.where(documents.c.debate.in_(some))) for some in in_parts(of_debates))
        return {row.debate: (row.id, row.written) for rows in parts for row in rows}

    return read(find)


def last_of_thread(thread: str) -> str | None:
    """The id of the last document of a server's thread."""
    query = sa.select(documents.c.id).where(documents.c.thread == thread, mine()).order_by(documents.c.written.desc())
    return read(lambda connection: connection.scalar(query))


def _column(id: str, column: sa.Column[Any]) -> Any:
    """A column of a document; UserError if there is no such document."""
    found = read(lambda connection: connection.scalar(sa.select(column).where(documents.c.id == id, mine())))
    if found is None:
        raise no_debate_error()
    return found


def content_of(id: str) -> bytes:
    """The JSON of a document; UserError if there is no such document, or if it is damaged."""
    try:
        return zlib.decompress(_column(id, documents.c.content))
    except zlib.error as error:
        raise UserError(f"The document {id} is damaged ({error}). Delete the debate.", kind="damaged_store") from error


def has_document(id: str) -> bool:
    """Whether there is a document with this id."""
    query = sa.select(documents.c.id).where(documents.c.id == id, mine())
    return read(lambda connection: connection.scalar(query)) is not None


def load(id: str) -> Document:
    """A document.

    Raises:
        UserError: there is no such document, it is damaged or too large, or its schema is not the present one.
    """
    return parse_stored(content_of(id))


def entry(id: str) -> dict[str, Any]:
    """A document's entry in the list: its id, and the fields of `moot.web.kept.entry_of`.

    Raises:
        UserError: there is no such document.
    """
    return {"id": id, **json.loads(_column(id, documents.c.entry))}


def delete(id: str) -> None:
    """Deletes a document for good.

    Raises:
        UserError: there is no such document.
    """
    gone = sa.delete(documents).where(documents.c.id == id, mine())
    if not open_store().do(lambda connection: connection.execute(gone).rowcount):
        raise no_debate_error()
