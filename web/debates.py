"""The result documents of past debates, which are in the store (`moot.core.store`), next to the runs.

Everything here blocks, and raises UserError or WorldError if the store cannot be used. A user
(`moot.web.kept.current_user`) finds only their own documents and, to read, those that `readable` adds. Without users,
everybody finds all documents.
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
from moot.core.store import existing_store, in_parts, open_store
from moot.core.tables import batches, documents, reviews, rows, runs
from moot.nodes._models.prices import calls_with_reserved_tokens, cost_of, read_prices
from moot.nodes._models.step_record import tokens_of
from moot.web.kept import (
    HEX,
    Document,
    colleagues,
    current_user,
    document_text,
    entry_of,
    id_time,
    id_time_at,
    no_debate_error,
    parse_stored,
)

T = TypeVar("T")

DEBATED = ("claim", "task", "status", "started_at", "answer", "turns", "votes", "evidence")
"""The fields of a document that its debate wrote, and that a later summary does not change."""
PAGE_SIZE = 20
"""Number of debates on one page of the list."""


class Listed(NamedTuple):
    """A debate in lists: one with a document, or one that is not done and has none."""

    id: str  # the id of its document, or the id that its document would have
    debate: str
    has_document: bool
    person: str | None
    thread: str | None  # on a server
    list: str | None = None  # the id of its list of claims, of the page or of ``moot batch``


class ListOfClaims(NamedTuple):
    """A list of claims of which debates are listed."""

    name: str  # of its file or its article
    has_page: bool


def new_document(document: Document, run: str | None = None, thread: str | None = None) -> stored.Document:
    """A document of the current user, as the store takes it, with the server's run and thread, if a server ran it."""
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
        check=(document.get("replaces") or {}).get("check"),
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
        debate = new.debate if HEX.fullmatch(new.debate) else id[-32:]
        # A file cannot claim to be another user's check: it would get its history.
        named = (documents.c.debate == debate) | documents.c.of_check.in_((debate, new.check or debate))
        others = sa.select(documents.c.id).where(named, documents.c.person.is_distinct_from(new.person))
        is_own = connection.scalar(others.limit(1)) is None
        whose = {"debate": debate if is_own else id[-32:], "person": new.person}
        whose["of_check"] = new.check if is_own and new.check else whose["debate"]
        connection.execute(sa.insert(documents).values(**new.row(id), **whose))
        return id

    return open_store().do(add)


def replacing(document: Document, id: str | None) -> Document:
    """The document as a new version of one in the store, which it names; of a check of its own if that is not there."""
    if id is None or not has_document(id):
        return document
    old = load(id)
    return {**document, "replaces": {"check": check_of(id), "document": id, "answer": old["answer"]}}


def replace(id: str, document: Document) -> None:
    """Replaces a document with an extended version of it. The cost of its new calls is recorded."""
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
    """Stores a debate in this machine's history, if it is on and the document has an id; returns what failed."""
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
    """Whether this machine's history stores debates. It does, unless ``MOOT_HISTORY`` is ``off``."""
    value = os.environ.get("MOOT_HISTORY", "").strip().lower() or "on"
    if value not in ("on", "off"):
        raise UserError(f"MOOT_HISTORY must be on or off, not {value[:20]!r}.", kind="invalid_environment")
    return value == "on"


# --- what is stored ---------------------------------------------------------------------------------------------------


def mine() -> sa.ColumnElement[bool]:
    """Selects the current user's documents."""
    person = current_user.get()
    return sa.true() if person is None else documents.c.person == person


def readable() -> sa.ColumnElement[bool]:
    """Selects the documents that the current user may read: their own, and their colleagues' that were in review."""
    if not (others := colleagues.get()):
        return mine()
    was_in_review = (reviews.c.debate == documents.c.of_check) & (reviews.c.stage != "new")
    in_review = sa.select(reviews.c.debate).where(was_in_review).exists()
    return mine() | (documents.c.person.in_(others) & in_review)


def read(query: Callable[[sa.Connection], T]) -> T:
    """Runs a query, for whose answer somebody may wait."""
    return open_store().do(query, is_lookup=True)


def listed() -> list[Listed]:
    """All debates with a document, and those that are not done and have none, newest first."""
    person = current_user.get()
    has_none = ~sa.select(documents.c.id).where(documents.c.debate == runs.c.id).exists()
    own = sa.true() if person is None else runs.c.person == person
    kept = sa.select(*documents.c["id", "debate", "person", "thread"]).where(readable())
    open_runs = sa.select(*runs.c["id", "started", "person", "thread"]).where(
        runs.c.status != "done", has_none, own, open_store().listed
    )
    found, begun = read(lambda connection: (connection.execute(kept).all(), connection.execute(open_runs).all()))
    lists = lists_of([*(row.debate for row in found), *(row.id for row in begun)])
    entries = [Listed(row.id, row.debate, True, row.person, row.thread, lists.get(row.debate)) for row in found]
    entries += [
        Listed(f"{id_time_at(row.started)}-{row.id}", row.id, False, row.person, row.thread, lists.get(row.id))
        for row in begun
    ]
    return sorted(entries, key=lambda one: one[:3], reverse=True)


def lists_of(of_debates: Sequence[str]) -> dict[str, str]:
    """The id of the list of claims of each debate that has one."""
    query = sa.select(rows.c.key, rows.c.batch)

    def find(connection: sa.Connection) -> dict[str, str]:
        parts = (connection.execute(query.where(rows.c.key.in_(some))) for some in in_parts(of_debates))
        return {row.key: row.batch for found in parts for row in found}

    return read(find)


def list_of_claims(id: str) -> ListOfClaims | None:
    """A list of claims by its id; None if it was deleted."""
    query = sa.select(batches.c.file, batches.c.page.is_not(None)).where(batches.c.id == id)
    found = read(lambda connection: connection.execute(query).first())
    return ListOfClaims(*found) if found else None


def document_ids(debate: str) -> list[str]:
    """The ids of a debate's documents, except imports and further branches; see `moot.web.kept.ID`."""
    query = sa.select(documents.c.id).where(documents.c.debate == debate, documents.c.id.endswith(debate), readable())
    return [*read(lambda connection: connection.scalars(query).all())]


def last_documents(of_debates: Sequence[str]) -> dict[str, tuple[str, float]]:
    """The id of the last document of each debate that has one, and when it was written."""
    kept = sa.select(*documents.c["debate", "id", "written"]).where(mine()).order_by(documents.c.written)

    def find(connection: sa.Connection) -> dict[str, tuple[str, float]]:
        parts = (connection.execute(kept.where(documents.c.debate.in_(some))) for some in in_parts(of_debates))
        return {row.debate: (row.id, row.written) for rows in parts for row in rows}

    return read(find)


def versions(check: str) -> list[str]:
    """The ids of a check's documents, oldest first."""
    begun = sa.func.substr(documents.c.id, 1, 15)
    query = (
        sa.select(documents.c.id).where(documents.c.of_check == check, readable()).order_by(begun, documents.c.written)
    )
    return [*read(lambda connection: connection.scalars(query).all())]


def last_of_thread(thread: str) -> str | None:
    """The id of the last document of a server's thread."""
    query = sa.select(documents.c.id).where(documents.c.thread == thread, mine()).order_by(documents.c.written.desc())
    return read(lambda connection: connection.scalar(query))


def _column(id: str, column: sa.Column[Any]) -> Any:
    """A column of a document; UserError if there is no such document."""
    found = read(lambda connection: connection.scalar(sa.select(column).where(documents.c.id == id, readable())))
    if found is None:
        raise no_debate_error()
    return found


def content_of(id: str) -> bytes:
    """The JSON of a document; UserError if there is no such document, or if it is damaged."""
    return text_of(id, _column(id, documents.c.content))


def text_of(id: str, content: bytes) -> bytes:
    """The JSON in the content of a document's row; UserError if it is damaged."""
    try:
        return zlib.decompress(content)
    except zlib.error as error:
        raise UserError(f"The document {id} is damaged ({error}). Delete the debate.", kind="damaged_store") from error


def has_document(id: str) -> bool:
    """Whether there is a document with this id."""
    query = sa.select(documents.c.id).where(documents.c.id == id, readable())
    return read(lambda connection: connection.scalar(query)) is not None


def is_mine(id: str) -> bool:
    """Whether the current user owns the document with this id. Others may only read it, and decide about it."""
    query = sa.select(documents.c.id).where(documents.c.id == id, mine())
    return read(lambda connection: connection.scalar(query)) is not None


def check_of(id: str) -> str:
    """The id of the check that a document is of, under which editors' decisions are kept; see `checks_of`."""
    return str(_column(id, documents.c.of_check))


def checks_of(ids: Sequence[str]) -> dict[str, str]:
    """The id of the check of each of these documents: that of its first debate, also for a new version."""
    query = sa.select(documents.c.id, documents.c.of_check).where(readable())

    def find(connection: sa.Connection) -> dict[str, str]:
        parts = (connection.execute(query.where(documents.c.id.in_(some))) for some in in_parts(ids))
        return {row.id: row.of_check for rows in parts for row in rows}

    return read(find)


def stored_as(document: Document) -> str | None:
    """The id under which a document from a file is stored; a summary for readers may have been added to either."""
    if not document["id"] or existing_store() is None:
        return None
    query = sa.select(documents.c.id).where(documents.c.debate == document["id"], mine())
    for id in read(lambda connection: connection.scalars(query).all()):
        stored_one = load(id)
        if all(stored_one[name] == document[name] for name in DEBATED):
            return str(id)
    return None


def load(id: str) -> Document:
    """A document."""
    return parse_stored(content_of(id))


def entry(id: str) -> dict[str, Any]:
    """A document's entry in the list: its id, and the fields of `moot.web.kept.entry_of`."""
    return {"id": id, **json.loads(_column(id, documents.c.entry))}


def delete(id: str) -> None:
    """Deletes a document for good and, with the last document of a check, what editors decided about it."""

    def remove(connection: sa.Connection) -> None:
        check = connection.scalar(sa.select(documents.c.of_check).where(documents.c.id == id, mine()))
        if check is None:
            raise no_debate_error()
        connection.execute(sa.delete(documents).where(documents.c.id == id))
        others = sa.exists().where(documents.c.of_check == check)
        connection.execute(sa.delete(reviews).where(reviews.c.debate == check, ~others))

    open_store().do(remove)
