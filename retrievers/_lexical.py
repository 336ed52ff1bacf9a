"""Stores the passages of a corpus without vectors in an SQLite file. Only BM25 can search such a corpus."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from moot.core.home import private_files, private_folder
from moot.retrievers._encoders import Vector

NO_ENCODER = "none"
"""The name that a manifest records as the encoder of a corpus without vectors."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS passages (
    id TEXT PRIMARY KEY, text TEXT NOT NULL, source TEXT NOT NULL, metadata TEXT NOT NULL
) STRICT
"""
UPSERT = (
    "INSERT INTO passages VALUES (?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET text = excluded.text, source = excluded.source, metadata = excluded.metadata"
)


class NoEncoder:
    """An encoder for corpora without vectors: it returns empty vectors."""

    name = NO_ENCODER

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One empty vector for each text."""
        return [[] for _ in texts]

    def remember(self, texts: Sequence[str], vectors: Sequence[Vector]) -> None:
        """Does nothing."""


class LexicalCollection:
    """A collection in an SQLite file, with the methods, all blocking, of a Chroma collection that need no vectors."""

    def __init__(self, path: Path) -> None:
        private_folder(path.parent)
        self._path = path
        with private_files(), self._transaction() as connection:
            connection.execute(SCHEMA)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            yield connection

    def count(self) -> int:
        """The number of passages."""
        with self._transaction() as connection:
            [[count]] = connection.execute("SELECT count(*) FROM passages")
        return int(count)

    def get(
        self,
        *,
        include: Sequence[str],  # ignored: texts and metadata are always returned
        ids: Sequence[str] | None = None,
        where: dict[str, str] | None = None,
        limit: int = -1,  # all
        offset: int = 0,
    ) -> dict[str, list[Any]]:
        """Passages by ``ids`` or else ``where`` (``{"source": name}``), or all, in the order of their first storing."""
        query, values = "SELECT id, text, metadata FROM passages", list[Any]()
        if ids is not None:
            query += " WHERE id IN (SELECT value FROM json_each(?))"
            values.append(json.dumps(list(ids)))
        elif where is not None:
            query += " WHERE source = ?"
            values.append(where["source"])
        with self._transaction() as connection:
            rows = connection.execute(f"{query} ORDER BY rowid LIMIT ? OFFSET ?", [*values, limit, offset]).fetchall()
        return {
            "ids": [id for id, _, _ in rows],
            "documents": [text for _, text, _ in rows],
            "metadatas": [json.loads(metadata) for _, _, metadata in rows],
        }

    def upsert(
        self, *, ids: list[str], documents: list[str], metadatas: list[dict[str, str]], embeddings: list[Vector]
    ) -> None:
        """Stores passages without their vectors, in place of old passages with the same ids."""
        rows = zip(ids, documents, (m["source"] for m in metadatas), map(json.dumps, metadatas), strict=True)
        with self._transaction() as connection:
            connection.executemany(UPSERT, rows)

    def delete(self, *, ids: list[str]) -> None:
        """Deletes the passages with these ids; unknown ids are ignored."""
        with self._transaction() as connection:
            connection.executemany("DELETE FROM passages WHERE id = ?", [(id,) for id in ids])
