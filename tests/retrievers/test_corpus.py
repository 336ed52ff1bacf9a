"""Corpora in a local folder: reading files, builds, interrupted builds, and use by several threads and processes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moot.retrievers import (
    Passage,
    UserError,
    index_passages,
    known_corpora,
    open_encoder,
    open_retriever,
    read_passages,
)
from moot.retrievers import _corpus as corpus
from moot.retrievers import _filling as filling
from moot.retrievers._corpus import (
    BATCH,
    all_passages,
    demo_passages,
    read_manifest,
)
from moot.retrievers._files import LONGEST_PARAGRAPH
from moot.retrievers._stores import corpora_folder

from tests.forked import start

from .conftest import passage, refusal_of
from .quick import CHILD, is_found, numbered_passages, output_of_child

MANY = BATCH + 44


async def index_and_count(name: str, passages: Iterator[Passage] | list[Passage]) -> tuple[int, int]:
    """Index passages; return how many were read, and how many of them were encoded."""
    done = [(0, 0)]
    await index_passages(name, passages, progress=lambda seen, encoded: done.append((seen, encoded)))
    return done[-1]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with files that can be indexed, a picture, and a folder whose name ends in .txt."""
    folder = tmp_path / "files"
    (folder / "sub").mkdir(parents=True)
    lines = [{"id": 7, "text": "Copper conducts well.", "source": "notes"}, {"id": "8", "text": "Tin is soft."}]
    (folder / "a.jsonl").write_text("\ufeff" + "\n\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    (folder / "sub" / "b.md").write_text(
        "\ufeff# Lead\n\nLead is heavy.\n\n## Zinc\nZinc coats steel.", encoding="utf-8"
    )
    (folder / "c.TXT").write_text("Iron rusts.\n\n\u200b\n\nGold does not.\n", encoding="utf-8")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / "folder.txt").mkdir()
    return folder


async def test_jsonl_markdown_and_plain_text_files_are_indexed(files: Path, empty_home: Path) -> None:
    read = {p.id: (p.title, p.text) for p in read_passages(files)}
    assert read == {
        "7": ("", "Copper conducts well."),
        "8": ("", "Tin is soft."),
        "sub/b.md#2": ("Lead", "Lead is heavy."),
        "sub/b.md#3": ("Zinc", "Zinc coats steel."),
        "c.TXT#1": ("c", "Iron rusts."),
        "c.TXT#3": ("c", "Gold does not."),
    }
    manifest = await index_passages("metals", read_passages(files))
    assert manifest == read_manifest("metals")
    assert (manifest.encoder, manifest.dimension, manifest.passages) == ("all-MiniLM-L6-v2", 384, 6)
    assert manifest.complete
    assert "metals" in known_corpora()
    dense, lexical = [await (await open_retriever(k, corpus="metals")).search("tin", 1) for k in ("chroma", "bm25")]
    assert dense[0]["id"] == lexical[0]["id"]
    assert (dense[0]["title"], dense[0]["source"]) == ("(no title)", "(no source)")


def test_long_paragraphs_are_split_without_loss_of_text(tmp_path: Path) -> None:
    sentence = "The pass was closed in winter and the goods had to wait for spring. "
    (tmp_path / "long.txt").write_text(f"Short.\n\n{sentence * 60}\n\n{'x' * 3000}")
    found = list(read_passages(tmp_path))
    assert max(len(p.text) for p in found) <= LONGEST_PARAGRAPH
    assert "".join(p.text for p in found).replace(" ", "") == f"Short.{sentence * 60}{'x' * 3000}".replace(" ", "")
    assert [p.id for p in found[:3]] == ["long.txt#1", "long.txt#2.1", "long.txt#2.2"]
    assert len({p.id for p in found}) == len(found)


async def test_indexing_again_encodes_only_changed_passages(empty_home: Path) -> None:
    first = [passage(1, url="http://a.test"), passage(2, "e\u200d\u0301 and \x00 more"), passage(3)]
    assert await index_and_count("ledger", first) == (3, 3)
    assert await index_and_count("ledger", first) == (3, 0)
    before = await open_retriever("chroma:ledger")
    assert await index_and_count("ledger", [passage(1, "Rewritten."), passage(2, "e\u200d\u0301 and \x00 more")]) == (
        2,
        1,
    )
    assert {p.id: p.text for p in all_passages("ledger")}["1"] == "Rewritten."
    after = await open_retriever("chroma:ledger")
    assert after is not before
    assert [p["text"] for p in await after.search("Entry 1. Rewritten.", 1)] == ["Rewritten."]


async def test_all_passages_are_read_if_they_fill_several_pages(
    empty_home: Path, quick_encoder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "PAGE", 7)
    for size in (20, 21, 22):
        await index_passages(f"pages-{size}", [passage(i) for i in range(size)])
        assert [p.id for p in all_passages(f"pages-{size}")] == sorted(str(i) for i in range(size))


def is_nearly_all(found: int, stored: int) -> bool:
    """Whether a search found at least 99% of the stored passages. An approximate index may miss a few."""
    return 0.99 * stored <= found <= stored


@pytest.mark.parametrize("iterations", range(0, 40, 4))
async def test_a_cancelled_build_waits_until_its_current_write_ends(
    empty_home: Path, quick_encoder: None, monkeypatch: pytest.MonkeyPatch, iterations: int
) -> None:
    """Each case cancels the build after another number of iterations of the event loop, so at another step."""
    writing, go_on, real = threading.Event(), threading.Event(), filling.store_passages
    log: list[str] = []

    def store(*given: Any) -> None:
        writing.set()
        go_on.wait(60)
        real(*given)
        log.append("written")

    monkeypatch.setattr(filling, "store_passages", store)
    task = asyncio.ensure_future(index_passages("slow", [passage(i) for i in range(3)]))
    await asyncio.to_thread(writing.wait, 60)
    for _ in range(iterations):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    task.add_done_callback(lambda _: log.append("build ended"))
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["written", "build ended"]


async def test_open_retrievers_are_reused_until_an_interrupted_build_is_completed(
    empty_home: Path, quick_encoder: None
) -> None:
    await index_passages("growing", [passage(1)])
    kinds = ("chroma", "bm25", "hybrid")
    opened = [await open_retriever(f"{kind}:growing") for kind in kinds]

    async def index_until_error() -> None:
        def passages_then_error() -> Iterator[Passage]:
            yield from map(passage, range(2, BATCH + 2))
            raise OSError("the disk went away")

        with pytest.raises(OSError, match="went away"):
            await index_passages("growing", passages_then_error())

    await index_until_error()
    assert [await open_retriever(f"{kind}:growing") for kind in kinds] == opened
    await index_passages("growing", [passage(2)])
    after = [await open_retriever(f"{kind}:growing") for kind in kinds]
    assert not set(map(id, after)) & set(map(id, opened))


TOTAL = 2000
KILLED_AFTER = 2 * BATCH  # because Chroma writes no index files for fewer than 1,000 passages


def kill_while_indexing() -> None:
    """Index passages in another process, and send it SIGKILL when it has stored `KILLED_AFTER` passages."""
    command = [*CHILD, "index", "killed", "0", str(TOTAL)]
    with start(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        while (line := child.stdout.readline()) != f"{KILLED_AFTER}\n":
            assert line, "the build ended before the kill"
        child.kill()
    assert child.returncode == -9


async def test_a_build_can_be_completed_after_its_process_was_killed(
    empty_home: Path, quick_encoder: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unfinished corpus cannot be opened, but retrievers that are already open can be used.

    A copy of the complete corpus without its index files is refused as damaged.
    """
    passages = numbered_passages(0, TOTAL)
    await index_passages("killed", passages[:3])
    before = await open_retriever("chroma:killed")
    assert len(await before.search("entry", TOTAL)) == 3  # Chroma keeps this state, which is soon outdated
    await asyncio.to_thread(kill_while_indexing)
    assert await open_retriever("chroma:killed") is before
    with pytest.raises(UserError, match="or is still running") as caught:
        await open_retriever("bm25:killed")
    assert caught.value.kind == "unfinished_corpus"
    seen, encoded = await index_and_count("killed", passages)
    assert (seen, encoded <= TOTAL - KILLED_AFTER) == (TOTAL, True)
    assert [p.id for p in all_passages("killed")] == sorted(str(i) for i in range(TOTAL))
    found = await (await open_retriever("chroma:killed")).search("entry", TOTAL)
    assert len(found) >= TOTAL - 20  # a search among so many passages is approximate
    assert len(await before.search("entry", 3)) == 3

    def index_files(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if Path(folder).name == "chroma" and Path(folder, name).is_dir()}

    lost = tmp_path / "lost"
    await asyncio.to_thread(shutil.copytree, empty_home, lost, ignore=index_files)
    (lost / "corpora" / "killed" / "manifest.json").touch()
    monkeypatch.setenv("MOOT_HOME", str(lost))
    error = await refusal_of("killed")
    assert (error.kind, "data_level0.bin was added, changed or deleted" in error.detail) == ("damaged_corpus", True)


def test_nearly_all_passages_added_by_another_process_are_found(empty_home: Path, quick_encoder: None) -> None:
    async def count_found() -> int:
        return len(await (await open_retriever("chroma:killed")).search("entry", TOTAL))

    async def grow() -> tuple[int, int]:
        await index_passages("killed", numbered_passages(0, 1))
        first = await count_found()
        await asyncio.to_thread(output_of_child, "index", "killed", "0", str(KILLED_AFTER))
        return first, await count_found()

    first, then = asyncio.run(grow())
    assert first == 1
    assert is_nearly_all(then, KILLED_AFTER)


async def test_two_simultaneous_builds_of_one_corpus_take_turns(empty_home: Path) -> None:
    passages = [passage(i) for i in range(MANY)]
    builds = await asyncio.gather(index_and_count("both", passages), index_and_count("both", passages))
    assert sorted(builds) == [(MANY, 0), (MANY, MANY)]


async def test_a_corpus_can_be_built_again_after_its_folder_was_deleted(empty_home: Path) -> None:
    for _ in range(2):
        await index_passages("again", [passage(1)])
        assert (corpora_folder() / "again" / "chroma" / "chroma.sqlite3").exists()
        await asyncio.to_thread(shutil.rmtree, corpora_folder() / "again")


@pytest.mark.parametrize("name", [b"caf\xe9.txt", b"/".join([b"x" * 120] * 5) + b"/a.md"], ids=["not UTF-8", "long"])
def test_a_file_whose_path_cannot_be_a_passage_id_is_refused(name: bytes, tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("Ice floats.")
    with pytest.raises(UserError, match="Rename or move the file") as caught:
        list(read_passages(tmp_path))
    assert caught.value.kind == "invalid_file"


PROGRAM = """
import asyncio, contextlib
from moot.retrievers import MootError, Passage, index_passages, open_encoder, open_retriever
from moot.core.endpoint import Limits, close_clients
try:
    from blockbuster import blockbuster_ctx as strict
except ImportError:  # the module comes with the LangGraph server
    strict = contextlib.nullcontext
async def fails(opening, use):
    try:
        await use(await opening)
    except MootError as error:
        assert error.kind == "unreachable", error
    else:
        raise AssertionError("there was no error")
async def main():
    print(len(await (await open_retriever("chroma:demo-news")).search("Moon", 1000)))
    await index_passages("small", [Passage(id=str(i), text="Ice floats.") for i in range(9)])
    print(*[len(await (await open_retriever(kind, corpus="small")).search("ice", 99)) for kind in ("chroma", "bm25")])
    await fails(open_encoder("openai:m", Limits(attempts=2)), lambda encoder: encoder.embed(["a"]))
    await fails(open_retriever("tavily", limits=Limits(attempts=2)), lambda retriever: retriever.search("a", 2))
    await close_clients()
with strict():
    asyncio.run(main())
"""


async def test_two_processes_build_one_demo_corpus_at_once(empty_home: Path) -> None:
    """The child process imports Chroma and other libraries while its event loop runs.

    If blockbuster is installed, a blocking call in this event loop is an error, as in LangGraph's server.
    """
    closed_ports = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "TAVILY_BASE_URL": "http://127.0.0.1:9"}
    variables = os.environ | closed_ports | {"TAVILY_API_KEY": "tvly-0123456789"}
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, env=variables, stdout=-1, stderr=-1)
    await (await open_encoder()).embed(["Moon"])
    while child.returncode is None and not (corpora_folder() / "demo-news").exists():
        await asyncio.sleep(0.01)
    begun = read_manifest("demo-news")
    found = len(await (await open_retriever("chroma:demo-news")).search("Moon", 1000))
    output, errors = await child.communicate()
    assert (child.returncode, begun is None or not begun.complete) == (0, True), errors
    assert [found, *map(int, output.split())] == [len(demo_passages("demo-news"))] * 2 + [9, 9]


async def test_twelve_corpora_are_built_at_once(empty_home: Path) -> None:
    """The threads of the builds must not create clients of Chroma at the same time, because Chroma would fail."""
    names = [f"corpus-{i}" for i in range(12)]
    await asyncio.gather(*(index_passages(name, [passage(name)]) for name in names))
    assert {name: all_passages(name)[0].id for name in names} == {name: name for name in names}


# --- simultaneous searches -------------------------------------------------------------------------------------------


async def test_a_corpus_opened_again_has_passages_that_another_process_added(
    empty_home: Path, quick_encoder: None
) -> None:
    """A dense retriever that was opened earlier does not find these passages, because Chroma keeps its state."""
    await index_passages("growing", numbered_passages(0, 1100))
    before = await open_retriever("chroma:growing")
    child = asyncio.create_task(asyncio.to_thread(output_of_child, "index", "growing", "1100", "2200"))
    searches = 0
    while not child.done():
        [best] = await before.search("Entry 7 of the ledger.", 1)
        assert best["text"] == "Entry 7 of the ledger."
        searches += 1
    assert ((await child).split()[-1], searches > 1) == ("1100", True)
    [old] = await before.search("Entry 2150 of the ledger.", 1)
    assert old["text"] != "Entry 2150 of the ledger."
    assert [await is_found("growing", 2150, kind) for kind in ("chroma", "bm25", "hybrid")] == [True] * 3
