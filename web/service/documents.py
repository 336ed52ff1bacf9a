"""Past debates in the Postgres of the service: what `moot.web.debates` is in a folder. Everything here blocks.

Who asks (`moot.web.caller.asking`) finds their own documents alone; if there are no users, all are found.
"""

from __future__ import annotations

import json
import secrets
import zlib
from dataclasses import asdict
from typing import Any

from moot.core.errors import UserError
from moot.core.postgres.connection import Postgres
from moot.nodes.models.ledger import tokens_of
from moot.nodes.models.prices import cost_of, read_prices
from moot.transcript.report.head import chip_of
from moot.web import debates
from moot.web.caller import asking

THEIRS = "(%(person)s::text IS NULL OR person = %(person)s)"
PUT = (
    "INSERT INTO moot.documents (id, debate, person, run, status, entry, tokens, usd, document) VALUES "
    "(%(id)s, %(debate)s, %(person)s, %(run)s, %(status)s, %(entry)s, %(tokens)s, %(usd)s, %(document)s) "
    "ON CONFLICT (id) DO UPDATE SET status = excluded.status, entry = excluded.entry, tokens = excluded.tokens, "
    "usd = excluded.usd, document = excluded.document, written = now()"
)


class Documents:
    """The documents.

    Args:
        postgres: the connection.
    """

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres

    def close(self) -> None:
        """Closes the connection."""
        self._postgres.close()

    def _rows(self, query: str, **values: Any) -> list[Any]:
        asked = {"person": asking.get(), **values}
        found: list[Any] = self._postgres.do(lambda cursor: cursor.execute(query, asked).fetchall())
        return found

    def save(self, document: debates.Document) -> str:
        """As `debates.save`."""
        content = debates.written_out(document).encode()
        for (id,) in self._rows(
            f"SELECT id FROM moot.documents WHERE starts_with(id, %(moment)s) AND document = %(packed)s AND {THEIRS}",
            moment=debates.moment_of(document),
            packed=zlib.compress(content),
        ):
            return str(id)
        id = f"{debates.moment_of(document)}-{secrets.token_hex(16)}"
        self._postgres.do(lambda cursor: cursor.execute(PUT, row_of(id, document, None)))
        return id

    def write(self, document: debates.Document, run: str | None) -> str:
        """As `debates.write`; its id."""
        moment, debate = debates.moment_of(document), document["id"]

        def job(cursor: Any) -> str:
            cursor.execute("SELECT id, status, run FROM moot.documents WHERE debate = %s FOR UPDATE", (debate,))
            before = cursor.fetchall()
            over = [id for id, status, by in before if status == "done" and (by is None or by != run)]
            id = f"{moment}-{secrets.token_hex(16) if over else debate}"
            cursor.execute(PUT, row_of(id, document, run))
            gone = [one for one, *_ in before if one not in (id, *over)]
            cursor.execute("DELETE FROM moot.documents WHERE id = ANY(%s)", (gone,))
            return id

        return self._postgres.do(job)

    def replace(self, id: str, document: debates.Document) -> None:
        """As `debates.replace`."""
        self.content_of(id)
        self._postgres.do(lambda cursor: cursor.execute(PUT, row_of(id, document, None)))

    def content_of(self, id: str) -> bytes:
        """As `debates.content_of`."""
        found = self._rows(f"SELECT document FROM moot.documents WHERE id = %(id)s AND {THEIRS}", id=id)
        if not found:
            raise debates.no_such()
        return zlib.decompress(found[0][0])

    def delete(self, id: str) -> None:
        """As `debates.delete`."""
        if not self._rows(f"DELETE FROM moot.documents WHERE id = %(id)s AND {THEIRS} RETURNING id", id=id):
            raise debates.no_such()

    def of_debate(self, debate: str) -> list[str]:
        """As `debates.of_debate`."""
        query = f"SELECT id FROM moot.documents WHERE debate = %(debate)s AND id LIKE '%%' || debate AND {THEIRS}"
        return [id for (id,) in self._rows(query, debate=debate)]

    def stems(self) -> list[str]:
        """As `debates.stems`."""
        return [id for (id,) in self._rows(f"SELECT id FROM moot.documents WHERE {THEIRS} ORDER BY id DESC")]

    def entry(self, id: str) -> dict[str, Any]:
        """As `debates.entry`."""
        found = self._rows(f"SELECT entry FROM moot.documents WHERE id = %(id)s AND {THEIRS}", id=id)
        if not found:
            raise debates.no_such()
        entry: dict[str, Any] = json.loads(found[0][0])
        return entry


def row_of(id: str, document: debates.Document, run: str | None) -> dict[str, Any]:
    """A document as its row.

    Raises:
        UserError: it holds what Postgres does not store.
    """
    content = debates.written_out(document)
    calls = [call for call in document["calls"] if not call.get("shared")]
    entry = {
        "id": id,
        **{key: document[key] for key in debates.LISTED},
        "chip": asdict(chip_of(document, document["answer"])),
    }
    if "\\u0000" in (said := json.dumps(entry)):
        raise UserError("The document holds a NUL character, which cannot be kept.", kind="bad_request")
    return {
        "id": id,
        "debate": document["id"] or id[-32:],
        "person": asking.get(),
        "run": run,
        "status": document["status"],
        "entry": said,
        "tokens": tokens_of(calls),
        "usd": cost_of(calls, read_prices()),
        "document": zlib.compress(content.encode()),
    }
