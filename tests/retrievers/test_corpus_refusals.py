"""Errors for damaged corpora, invalid files, invalid names, and encoders that did not build the corpus."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from moot.retrievers import (
    UserError,
    WorldError,
    index_passages,
    open_retriever,
    read_passages,
)
from moot.retrievers._corpus import (
    DEMO_CORPORA,
    all_passages,
    delete_corpus,
    read_manifest,
)
from moot.retrievers._stores import corpora_folder

from .conftest import Serve, passage, refusal_of
from .quick import output_of_child

# --- damaged files ----------------------------------------------------------------------------------------------------


DAMAGE: dict[str, Callable[[Path], object]] = {
    "deleted": lambda path: path.unlink(),
    "half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: os.truncate(path, 0),
    "garbage": lambda path: path.write_bytes(bytes(i * i % 251 for i in range(path.stat().st_size))),
}
INDEX_FILES = ["data_level0.bin", "header.bin", "length.bin", "link_lists.bin", "index_metadata.pickle"]
CASES = [(name, damage) for name in ["chroma.sqlite3", *INDEX_FILES] for damage in DAMAGE]


@pytest.fixture(scope="module")
def uses_of_damaged(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], list[str]]:
    """The results of indexing into a damaged corpus and of two searches in it, by damaged file and kind of damage.

    The key of the undamaged corpus is ("", ""). Another process uses the corpora, because Chroma may crash when it
    reads damaged files.
    """
    folder = tmp_path_factory.mktemp("damaged")
    undamaged = folder / "whole"
    output_of_child("index", "big", "0", "1300", env=os.environ | {"MOOT_HOME": str(undamaged)})
    for name, damage in CASES:
        copied = shutil.copytree(undamaged, folder / f"{name} {damage}")
        [path] = copied.rglob(name)
        DAMAGE[damage](path)
    folders = [*(str(folder / f"{name} {damage}") for name, damage in CASES), str(undamaged)]
    results = [json.loads(line) for line in output_of_child("damaged", *folders).splitlines()]
    assert len(results) == len(CASES) + 1, results[-1:]
    return dict(zip([*CASES, ("", "")], results, strict=True))


@pytest.mark.parametrize(("name", "damage"), CASES)
def test_a_corpus_with_a_damaged_file_is_refused(
    name: str, damage: str, uses_of_damaged: dict[tuple[str, str], list[str]]
) -> None:
    for result in uses_of_damaged[name, damage]:
        assert result.startswith("damaged_corpus: The corpus 'big' is damaged: ")
        assert "Delete its folder in" in result
        assert name in result or name == "chroma.sqlite3"


def test_an_undamaged_corpus_is_indexed_and_searched(uses_of_damaged: dict[tuple[str, str], list[str]]) -> None:
    manifest, *searched = uses_of_damaged["", ""]
    assert "passages=1300" in manifest
    assert searched == ["True", "True"]


# --- invalid files, names and encoders --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"id": "1", "text": "fine"}\n' * 56 + b'{"id": "57", "text": ', "a.jsonl, line 57: Invalid JSON"),
        (b'{"id": "1"}', "a.jsonl, line 1: text: Field required"),
        (b'\n{"id": "1", "text": "\\u200b "}', "a.jsonl, line 2: text: Value error, contains no text"),
        (b'["id", "text"]', "a.jsonl, line 1: Input should be an object"),
        (b'{"id": "1", "text": "fine"}\n{"id": "2", "text": "caf\xe9"}', "a.jsonl, after line"),
        (b'{"id": "1", "text": "one"}\n{"id": "1", "text": "two"}', "Two different passages have the id '1'"),
    ],
)
async def test_no_corpus_is_built_from_a_file_with_an_invalid_line(
    content: bytes, message: str, tmp_path: Path, empty_home: Path
) -> None:
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        await index_passages("lines", read_passages(tmp_path / "a.jsonl"))
    assert caught.value.kind == "invalid_file"
    assert read_manifest("lines") is None


@pytest.mark.parametrize("name", ["a.jsonl", "a.md", "a.txt"])
async def test_files_that_are_missing_empty_or_not_utf_8_are_refused(
    name: str, tmp_path: Path, empty_home: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for path in (source / "nowhere", source):
        with pytest.raises(UserError, match=r"There is no file|has no files to index") as caught:
            await index_passages("nothing", read_passages(path))
        assert caught.value.kind == "missing_file"
    (source / name).write_text("\n \n")
    with pytest.raises(UserError, match="no passage was found|it is empty") as caught:
        await index_passages("nothing", read_passages(source))
    assert caught.value.kind in ("empty_corpus", "invalid_file")
    assert (await refusal_of("nothing")).kind == "unknown_corpus"
    (source / name).write_bytes(b"caf\xe9")
    with pytest.raises(UserError, match=f"{name}.*(encoding is not declared|not UTF-8)") as caught:
        list(read_passages(source))
    assert caught.value.kind == "invalid_file"


async def test_indexing_a_missing_file_leaves_a_corpus_unchanged(empty_home: Path, tmp_path: Path) -> None:
    await index_passages("whole", [passage(1)])
    with pytest.raises(UserError, match="There is no file"):
        await index_passages("whole", read_passages(tmp_path / "typo"))
    assert len(all_passages("whole")) == 1


@pytest.mark.parametrize("name", ["", "ab", "../up", "Upper", "a\0b", "x" * 64, "demo-mine"])
async def test_an_invalid_corpus_name_is_refused(name: str, empty_home: Path) -> None:
    with pytest.raises(UserError, match=r"cannot name a corpus|reserved for the demo") as caught:
        await index_passages(name, [passage(1)])
    assert caught.value.kind == "invalid_corpus"
    if name and not name.startswith("demo-"):
        assert (await refusal_of(name)).kind == "invalid_corpus"


async def test_the_error_for_an_unknown_corpus_lists_the_known_corpora(empty_home: Path) -> None:
    error = await refusal_of("nowhere")
    assert error.kind == "unknown_corpus"
    assert all(name in error.detail for name in DEMO_CORPORA)
    assert "moot index PATH --corpus nowhere" in error.detail


async def test_an_unknown_corpus_cannot_be_deleted(empty_home: Path) -> None:
    with pytest.raises(UserError, match="There is no corpus 'nowhere' to delete"):
        await asyncio.to_thread(delete_corpus, "nowhere")


async def test_a_home_folder_that_is_a_file_is_refused(empty_home: Path) -> None:
    await asyncio.to_thread(empty_home.write_text, "a file")
    with pytest.raises(UserError, match="Set MOOT_HOME"):
        await open_retriever("chroma:demo-news")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: text.replace('"passages": 1', '"passages": "many"'),
        lambda text: text.replace('"passages": 1', '"passages": 9'),
        lambda text: text.replace('"name": "hurt"', '"name": "other"'),
    ],
    ids=["cut", "a list", "words for numbers", "too many passages", "renamed"],
)
async def test_a_damaged_manifest_is_refused(change: Any, empty_home: Path) -> None:
    await index_passages("hurt", [passage(1)])
    path = corpora_folder() / "hurt" / "manifest.json"
    path.write_text(change(path.read_text()))
    error = await refusal_of("hurt")
    assert error.kind == "damaged_corpus"
    assert "Delete" in error.detail


async def test_a_corpus_whose_database_is_not_an_sqlite_file_is_refused(empty_home: Path) -> None:
    folder = corpora_folder() / "hurt" / "chroma"
    folder.mkdir(parents=True)
    (folder / "chroma.sqlite3").write_bytes(b"not a database, " * 1000)
    manifest = {"name": "hurt", "encoder": "all-MiniLM-L6-v2", "dimension": 384, "passages": 1, "complete": True}
    (folder.parent / "manifest.json").write_text(json.dumps(manifest))
    assert (await refusal_of("hurt")).kind == "damaged_corpus"


async def test_a_corpus_refuses_encoders_that_did_not_build_it(
    serve: Serve, empty_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An encoder with the same name is also refused if the length of its vectors has changed."""
    dimension = 3

    def answer(n: int, body: dict[str, Any]) -> web.Response:
        vectors = [[1.0] * dimension for _ in body["input"]]
        return web.json_response({"data": [{"index": i, "embedding": v} for i, v in enumerate(vectors)], "model": "m"})

    server = await serve(answer)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/v1")
    await index_passages("small", [passage(1)], encoder="openai:m")
    retriever = await open_retriever("chroma:small", encoder="openai:m")
    assert len(await retriever.search("entry", 1)) == 1
    for attempt in (open_retriever("chroma:small"), index_passages("small", [passage(2)])):
        with pytest.raises(UserError, match="--set embedder=openai:m") as caught:
            await attempt
        assert caught.value.kind == "corpus_mismatch"
    dimension = 4
    again = index_passages("small", [passage(2)], encoder="openai:m")
    with pytest.raises(UserError, match="had 3 dimensions; now the encoder has 4") as caught:
        await retriever.search("another", 1)
    assert caught.value.kind == "corpus_mismatch"
    with pytest.raises(WorldError, match="vectors of 3 and then of 4 dimensions"):  # the first vector is cached
        await again


async def test_a_build_fails_if_the_length_of_vectors_changes(
    serve: Serve, empty_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(n: int, body: dict[str, Any]) -> web.Response:
        data = [{"index": i, "embedding": [1.0] * (2 + n)} for i in range(len(body["input"]))]
        return web.json_response({"data": data, "model": "m"})

    monkeypatch.setenv("OPENAI_BASE_URL", (await serve(answer)).url + "/v1")
    with pytest.raises(WorldError, match="vectors of 3 and then of 4 dimensions") as caught:
        await index_passages("shifty", [passage(1)], encoder="openai:m")
    assert caught.value.kind == "bad_response"
