"""Corpora without vectors: built without an encoder or Chroma, and searched by BM25 only."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from moot.retrievers import UserError, index_passages, open_retriever, read_passages
from moot.retrievers._corpus import read_manifest
from moot.retrievers._files import Passage
from moot.retrievers._stores import Manifest, ServerStore, corpora_folder


async def index(passages: list[Passage], encoder: str = "none") -> int:
    """Index passages into the corpus ``words``; return the number of new and changed passages."""
    new_counts = [0]
    await index_passages("words", passages, encoder=encoder, progress=lambda seen, new: new_counts.append(new))
    return new_counts[-1]


async def texts_found(query: str) -> list[str]:
    source = await open_retriever("bm25:words")
    return [piece["text"] for piece in await source.search(query, 5)]


async def test_a_changed_file_replaces_its_old_version(empty_home: Path, tmp_path: Path) -> None:
    file = tmp_path / "metals.md"
    file.write_text("# Copper\n\nCopper conducts well.\n\n# Tin\n\nTin is soft.\n")
    assert await index(list(read_passages(file))) == 2
    assert await texts_found("Which metal conducts?") == ["Copper conducts well."]
    assert await index(list(read_passages(file))) == 0
    file.write_text("# Copper\n\nCopper conducts heat.\n")
    assert await index(list(read_passages(file))) == 1
    assert await texts_found("Is tin soft, or does copper conduct heat?") == ["Copper conducts heat."]
    manifest = read_manifest("words")
    assert manifest is not None
    assert (manifest.passages, manifest.complete, manifest.encoder) == (1, True, "none")
    assert not (corpora_folder() / "words" / "chroma").exists()


async def test_a_corpus_without_vectors_refuses_dense_searches_and_encoders(empty_home: Path) -> None:
    await index([Passage(id="a", text="Copper conducts well.")])
    for opening in (open_retriever("hybrid:words"), open_retriever("chroma:words"), index([], "all-MiniLM-L6-v2")):
        with pytest.raises(UserError, match="built without vectors, so only BM25 can search it: --set .*bm25:words"):
            await opening


async def test_a_damaged_corpus_is_refused(empty_home: Path) -> None:
    await index([Passage(id=str(i), text=f"Passage {i} of copper.") for i in range(3)])
    path = corpora_folder() / "words" / "passages.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM passages WHERE id = '1'")
    connection.close()
    with pytest.raises(UserError, match="it should have 3 passages and has 2"):
        await open_retriever("bm25:words")
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(UserError, match="'words' is damaged: it cannot be opened .file is not a database"):
        await open_retriever("bm25:words")


async def test_corpora_without_vectors_are_not_stored_on_a_chroma_server(
    empty_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="cannot store a corpus without vectors"):
        ServerStore("http://127.0.0.1:9", "").create(Manifest("words", "none", 0, 0, complete=False))
