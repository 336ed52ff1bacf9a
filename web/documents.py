"""Past debates in the service's Postgres. Other servers store them in a folder, see `moot.web.debates`.

Everything here blocks.

A user (`moot.web.caller.current_user`) finds only their own documents. Without users, everybody finds all documents.
"""

from __future__ import annotations

import json
import secrets
import zlib
from typing import Any

from moot.core.postgres.connection import Postgres
from moot.core.postgres.store import LOOKUP_PATIENCE
from moot.nodes._models.prices import calls_with_reserved_tokens, cost_of, read_prices
from moot.nodes._models.step_record import tokens_of
from moot.web.caller import current_user
from moot.web.kept import HEX, Document, document_text, entry_of, id_time, no_debate_error

USER_FILTER = "(%(person)s::text IS NULL OR person = %(person)s)"
DEBATE_FILTER = f"debate = %(debate)s AND id LIKE '%%' || debate AND {USER_FILTER}"
"""Selects a debate's documents whose ids end with the debate's id; see `ID`."""
PUT = (
    "INSERT INTO moot.documents (id, debate, person, run, status, entry, document) VALUES "
    "(%(id)s, %(debate)s, %(person)s, %(run)s, %(status)s, %(entry)s, %(document)s) "
    "ON CONFLICT (id) DO UPDATE SET status = excluded.status, entry = excluded.entry, document = excluded.document, "
    "written = now() WHERE %(person)s::text IS NULL OR documents.person = %(person)s"
)
SPEND = (
    "INSERT INTO moot.spent (id, person, tokens, usd) VALUES (%(id)s, %(person)s, %(tokens)s, %(usd)s) "
    "ON CONFLICT (id) DO UPDATE SET tokens = excluded.tokens, usd = excluded.usd, at = now()"
)
"""Records a cost. The record stays if the debate's document is deleted."""


class Documents:
    """The documents in a database.

    Args:
        postgres: the connection to the database.
    """

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres

    def close(self) -> None:
        """Closes the connection."""
        self._postgres.close()

    def _rows(self, query: str, **values: Any) -> list[Any]:
        bound = {"person": current_user.get(), **values}
        found: list[Any] = self._postgres.do(lambda cursor: cursor.execute(query, bound).fetchall(), LOOKUP_PATIENCE)
        return found

    def owners_of(self, ids: list[str]) -> dict[str, str]:
        """The person who owns each document, by the document's id; documents without an owner are left out."""
        query = "SELECT id, person FROM moot.documents WHERE id = ANY(%(ids)s) AND person IS NOT NULL"
        return dict(self._rows(query, ids=ids))

    def save(self, document: Document) -> str:
        """As `debates.save`."""
        content = document_text(document).encode()
        for (id,) in self._rows(
            "SELECT id FROM moot.documents WHERE starts_with(id, %(moment)s) AND document = %(packed)s "
            f"AND {USER_FILTER}",
            moment=id_time(document),
            packed=zlib.compress(content),
        ):
            return str(id)
        id = f"{id_time(document)}-{secrets.token_hex(16)}"
        self._postgres.do(lambda cursor: put(cursor, row_of(id, document, None)))
        return id

    def write(self, document: Document, run: str | None) -> str:
        """As `debates.write`; returns the document's id.

        If the run has already stored a finished document, an unfinished document is not stored, and the
        id of the finished one is returned.
        """
        moment, debate = id_time(document), document["id"]
        parameters = {"debate": debate, "person": current_user.get()}

        def transaction(cursor: Any) -> str:
            cursor.execute(f"SELECT id, status, run FROM moot.documents WHERE {DEBATE_FILTER} FOR UPDATE", parameters)
            before = cursor.fetchall()
            done = {id: by for id, status, by in before if status == "done"}
            if document["status"] != "done" and (own := [id for id, by in done.items() if by and by == run]):
                return str(own[0])  # a worker that took over this run has already stored the finished document
            by_other_runs = [id for id, by in done.items() if by is None or by != run]
            id = f"{moment}-{secrets.token_hex(16) if by_other_runs else debate}"
            put(cursor, row_of(id, document, run))
            record_spending(cursor, id, document["calls"])
            replaced = [one for one, *_ in before if one not in (id, *by_other_runs)]
            cursor.execute("DELETE FROM moot.documents WHERE id = ANY(%s)", (replaced,))
            return id

        return self._postgres.do(transaction)

    def replace(self, id: str, document: Document) -> None:
        """As `debates.replace`. Records the cost of the calls that the stored document does not have."""
        n_stored = len(json.loads(self.content_of(id))["calls"])

        def transaction(cursor: Any) -> None:
            put(cursor, row_of(id, document, None))
            record_spending(cursor, f"{id} {n_stored}", document["calls"][n_stored:])

        self._postgres.do(transaction)

    def record_spending(self, id: str, calls: list[Any]) -> None:
        """As `debates.record_spending`."""
        self._postgres.do(lambda cursor: record_spending(cursor, id, calls))

    def content_of(self, id: str) -> bytes:
        """As `debates.content_of`."""
        found = self._rows(f"SELECT document FROM moot.documents WHERE id = %(id)s AND {USER_FILTER}", id=id)
        if not found:
            raise no_debate_error()
        return zlib.decompress(found[0][0])

    def delete(self, id: str) -> None:
        """As `debates.delete`."""
        if not self._rows(f"DELETE FROM moot.documents WHERE id = %(id)s AND {USER_FILTER} RETURNING id", id=id):
            raise no_debate_error()

    def document_ids(self, debate: str) -> list[str]:
        """As `debates.document_ids`."""
        return [id for (id,) in self._rows(f"SELECT id FROM moot.documents WHERE {DEBATE_FILTER}", debate=debate)]

    def all_document_ids(self) -> list[str]:
        """As `debates.all_document_ids`."""
        return [id for (id,) in self._rows(f"SELECT id FROM moot.documents WHERE {USER_FILTER} ORDER BY id DESC")]

    def entry(self, id: str) -> dict[str, Any]:
        """As `debates.entry`."""
        found = self._rows(f"SELECT entry FROM moot.documents WHERE id = %(id)s AND {USER_FILTER}", id=id)
        if not found:
            raise no_debate_error()
        entry: dict[str, Any] = json.loads(found[0][0])
        return entry


def put(cursor: Any, row: dict[str, Any]) -> None:
    """Writes a document's row.

    Raises:
        UserError: another user has a document with this id.
    """
    cursor.execute(PUT, row)
    if not cursor.rowcount:
        raise no_debate_error()


def record_spending(cursor: Any, id: str, calls: list[Any]) -> None:
    """Records the cost of calls for the current user. A record with the same id is replaced.

    Does nothing if there is no current user.
    """
    if (person := current_user.get()) is not None:
        sent = calls_with_reserved_tokens(calls)
        costs = {"tokens": tokens_of(sent), "usd": cost_of(sent, read_prices())}
        cursor.execute(SPEND, {"id": id, "person": person, **costs})


def row_of(id: str, document: Document, run: str | None) -> dict[str, Any]:
    """The database row of a document of the current user."""
    content = document_text(document)
    return {
        "id": id,
        "debate": document["id"] if HEX.fullmatch(document["id"] or "") else id[-32:],
        "person": current_user.get(),
        "run": run,
        "status": document["status"],
        "entry": json.dumps(entry_of(id, document)),
        "document": zlib.compress(content.encode()),
    }
