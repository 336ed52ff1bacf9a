"""Corpora: passages in a Chroma collection, with a manifest that says how they were encoded."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from itertools import chain
from typing import Any

from moot.core.errors import UserError
from moot.core.files import check_home
from moot.core.lazy import imported
from moot.retrievers.encoders import DEFAULT_ENCODER, open_encoder
from moot.retrievers.files import DocumentPassage, Passage, parse_passage
from moot.retrievers.filling import Fill, Progress, Target, chroma_errors, damaged, fill_here, metadata_of
from moot.retrievers.stores import FolderStore, Manifest, ServerStore, corpora_folder, open_store

DEMO_CORPORA = {"demo-encyclopaedia": "encyclopaedia.jsonl", "demo-news": "news.jsonl"}
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{1,61}[a-z0-9]")
BATCH = 512
"""Passages that are encoded and stored at a time; an interrupted build loses at most three batches."""
RECENT = 1.0
"""Seconds for which the state of a corpus may be taken as it was: to look it up takes a thread."""
_known: dict[tuple[str | None, ...], tuple[float, str]] = {}
"""By corpus and store: when its state was looked up last, and what it was."""
FETCHED = {"fetched", "sha256"}
"""What is known of how a passage was fetched; its text is the same, whenever that was."""
PAGE = 5000
"""Passages that are read at a time; Chroma cannot give tens of thousands at once."""


def known_corpora() -> list[str]:
    """Names of the demo corpora and of those that were built. Blocking."""
    return sorted({*(name for name in open_store().names() if not name.startswith("demo-")), *DEMO_CORPORA})


def read_manifest(name: str) -> Manifest | None:
    """A corpus's manifest; None where there is no such corpus yet. Blocking.

    Raises:
        UserError: the name cannot be a corpus's name, or the manifest is damaged.
        WorldError: the Chroma server failed.
    """
    check_name(name)
    return open_store().read(name)


def delete_corpus(name: str) -> None:
    """Deletes a corpus for good, once nobody writes it. Blocking.

    Raises:
        UserError: the name cannot be a corpus's.
        WorldError: the Chroma server failed.
    """
    check_name(name)
    check_home("Corpora", "corpora")
    with imported("filelock").FileLock(corpora_folder() / f"{name}.lock"):
        open_store().delete(name)


def check_name(name: str) -> None:
    """Refuses a name that cannot be a corpus's: it becomes a folder."""
    if not NAME.fullmatch(name):
        raise UserError(
            f"{name!r} cannot name a corpus: use 3 to 63 lower-case letters, digits, - and _.", kind="invalid_corpus"
        )


def check_own(name: str) -> None:
    """Refuses a name that cannot be that of a user's own corpus."""
    if name.startswith("demo-"):
        raise UserError(f"{name!r}: names that begin with demo- are kept for the demo corpora.", kind="invalid_corpus")
    check_name(name)


def corpus_state(name: str) -> str:
    """A text that changes when a corpus is indexed again, and differs between stores. Blocking."""
    check_name(name)
    known = _known  # another one from when something is indexed meanwhile
    state = open_store().state(name)
    known[_in_store(name)] = (time.monotonic(), state)
    return state


def recent_state(name: str) -> str | None:
    """The corpus's state, if it was looked up in this process a moment ago, and nothing has been indexed here since."""
    at, state = _known.get(_in_store(name), (-RECENT, ""))
    return state if time.monotonic() - at < RECENT else None


def _forget_states() -> None:
    global _known
    _known = {}


def _in_store(name: str) -> tuple[str | None, ...]:
    return (name, os.environ.get("MOOT_HOME"), os.environ.get("MOOT_CHROMA_URL"))


def check_encoder(manifest: Manifest, encoder: str) -> None:
    """Refuses to read or extend a corpus with another encoder than the one that it was built with."""
    if manifest.encoder != encoder:
        raise UserError(
            f"The corpus {manifest.name!r} was built with the encoder {manifest.encoder} ({manifest.dimension} "
            f"dimensions) and cannot be used with {encoder}. Set embedder={manifest.encoder}, or index it again "
            "under another name.",
            kind="corpus_mismatch",
        )


def check_dimension(manifest: Manifest, dimension: int) -> None:
    """Refuses vectors of another length than the corpus holds: a model changed behind the encoder's name."""
    if manifest.dimension != dimension:
        raise UserError(
            f"The corpus {manifest.name!r} was built when the encoder {manifest.encoder} gave {manifest.dimension} "
            f"dimensions; now it gives {dimension}. Use the model that built it, or index it again under another name.",
            kind="corpus_mismatch",
        )


# --- building and opening ---------------------------------------------------------------------------------------------


async def index_passages(
    name: str,
    passages: Iterable[Passage],
    *,
    encoder: str = DEFAULT_ENCODER,
    progress: Progress = lambda stored, encoded: None,
    fill: Fill = fill_here,
) -> Manifest:
    """Adds passages to a corpus, in batches; passages whose id and content are stored already are not encoded again.

    An interrupted build can be run again: it goes on where it was. Nothing is touched before the first batch was read.

    Args:
        name: the corpus.
        passages: what to add; a known id with new content replaces the old passage, and those of a document replace
            all that the corpus has of its earlier versions.
        encoder: the encoder's name; an existing corpus only takes its own.
        progress: called after each batch with the passages seen and the passages encoded so far.
        fill: encodes and stores; by default this process does.

    Raises:
        UserError: a bad name, another encoder than the corpus has, a broken line in the source, nothing to add, one id
            for two different passages.
        WorldError: the encoder's endpoint or the Chroma server failed.
    """
    check_own(name)
    async with await asyncio.to_thread(_lock, name):
        return await _build(name, passages, encoder, progress, fill)


async def _build(
    name: str, passages: Iterable[Passage], encoder: str, progress: Progress, fill: Fill = fill_here
) -> Manifest:
    store = await asyncio.to_thread(open_store)
    known = await asyncio.to_thread(store.read, name)
    if known is not None:
        check_encoder(known, encoder)
    tool = await open_encoder(encoder)
    dimension = len((await tool.embed(["dimension"]))[0])
    if known is not None:
        check_dimension(known, dimension)
    read: dict[tuple[str, str], set[str]] = {}
    batches = _batches(_noting(passages, read))
    batch = await asyncio.to_thread(next, batches, None)
    if batch is None:
        raise UserError(
            f"There is nothing to index into the corpus {name!r}: no passage was found.", kind="empty_corpus"
        )
    if known is not None and known.complete:
        await asyncio.to_thread(_open_whole, store, known)  # what was lost is not to go unseen under what is added
    begun = Manifest(name, tool.name, dimension, known.passages if known else 0, complete=False)
    collection = await asyncio.to_thread(store.create, begun)
    _forget_states()
    await fill(Target(name, collection, tool, dimension), chain([batch], batches), progress)
    if known is not None:
        await asyncio.to_thread(_drop_earlier, name, collection, read)
    digest = await asyncio.to_thread(lambda: digest_of(_stored(name, collection)))
    whole = replace(begun, passages=await asyncio.to_thread(collection.count), complete=True, digest=digest)
    await asyncio.to_thread(store.write, whole)
    _forget_states()
    return whole


def _noting(passages: Iterable[Passage], read: dict[tuple[str, str], set[str]]) -> Iterator[Passage]:
    """The passages; of each document, by its name and source, the ids are noted."""
    for passage in passages:
        if isinstance(passage, DocumentPassage):
            read.setdefault((passage.document, metadata_of(passage)["source"]), set()).add(passage.id)
        yield passage


def _drop_earlier(name: str, collection: Any, read: dict[tuple[str, str], set[str]]) -> None:
    """Deletes passages of earlier versions of the documents that were read."""
    for (document, source), ids in read.items():
        with chroma_errors(name, "it cannot be written"):
            stored = collection.get(where={"source": source}, include=[])["ids"]
            if gone := [id for id in stored if id.startswith(f"{document}#") and id not in ids]:
                collection.delete(ids=gone)


def _batches(passages: Iterable[Passage]) -> Iterator[list[Passage]]:
    batch: list[Passage] = []
    contents: dict[str, int] = {}
    for passage in passages:
        content = hash(passage.model_dump_json())
        if contents.setdefault(passage.id, content) != content:
            raise UserError(
                f"Two different passages have the id {passage.id!r}. Give each passage an id of its own.",
                kind="invalid_file",
            )
        batch.append(passage)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


@dataclass(frozen=True)
class Corpus:
    """An open corpus. ``collection`` is its Chroma collection; calls on it block."""

    manifest: Manifest
    collection: Any


async def open_corpus(name: str, encoder: str) -> Corpus:
    """Opens a corpus for dense search; a demo corpus is built when first opened.

    Args:
        name: the corpus.
        encoder: the encoder that queries will be made with.

    Raises:
        UserError: no such corpus, an unfinished one, one of another encoder, or a damaged one.
        WorldError: the Chroma server failed.
    """
    if name in DEMO_CORPORA:
        manifest = await _build_demo(name, encoder)
    else:
        manifest = await asyncio.to_thread(_find_corpus, name)
    check_encoder(manifest, encoder)
    store = await asyncio.to_thread(open_store)
    return Corpus(manifest, await asyncio.to_thread(_open_whole, store, manifest))


def _open_whole(store: FolderStore | ServerStore, manifest: Manifest) -> Any:
    """A corpus's collection, which holds as many passages as the manifest says. Blocking."""
    collection = store.open(manifest.name)
    with chroma_errors(manifest.name, "it cannot be read"):
        stored = collection.count()
    if stored < manifest.passages:
        raise store.damaged(manifest.name, f"it should hold {manifest.passages} passages and holds {stored}")
    with chroma_errors(manifest.name, "vectors are missing"):  # where files were lost, searches find only the rest
        for offset in (0, stored - 1):
            collection.get(limit=1, offset=offset, include=["embeddings"])
    return collection


def _find_corpus(name: str) -> Manifest:
    manifest = read_manifest(name)
    if manifest is None:
        raise UserError(
            f"There is no corpus {name!r}. Known: {', '.join(known_corpora())}. "
            f"Build one with: moot index PATH --corpus {name}",
            kind="unknown_corpus",
        )
    if not manifest.complete:
        with chroma_errors(name, "it cannot be read"):
            stored = open_store().open(name).count()
        raise UserError(
            f"The corpus {name!r} is unfinished: its indexing was interrupted after {stored} passages, or still "
            "goes on. Wait for it, or run the same `moot index` again; it goes on where it was.",
            kind="unfinished_corpus",
        )
    return manifest


async def _build_demo(name: str, encoder: str) -> Manifest:
    """The demo corpus for an encoder; of several processes that want it at once, one builds and the others wait."""
    suffix = "" if encoder == DEFAULT_ENCODER else "-" + hashlib.blake2b(encoder.encode(), digest_size=4).hexdigest()
    store = name + suffix
    manifest = await asyncio.to_thread(read_manifest, store)
    if manifest is not None and manifest.complete:
        return manifest
    async with await asyncio.to_thread(_lock, store):
        manifest = await asyncio.to_thread(read_manifest, store)
        if manifest is not None and manifest.complete:
            return manifest
        return await _build(store, await asyncio.to_thread(demo_passages, name), encoder, lambda stored, encoded: None)


def _lock(name: str) -> Any:
    """The lock that whoever writes a corpus holds, in whatever process. Blocking."""
    check_name(name)
    check_home("Corpora", "corpora")
    return imported("filelock").AsyncFileLock(corpora_folder() / f"{name}.lock")


def demo_passages(name: str) -> list[Passage]:
    """The passages of a demo corpus, from the package."""
    text = (resources.files("moot.retrievers") / "demo" / DEMO_CORPORA[name]).read_text(encoding="utf-8")
    return [parse_passage(line, f"{name}, line {n}") for n, line in enumerate(text.splitlines(), start=1)]


def all_passages(name: str) -> list[Passage]:
    """Every passage of a corpus, in the order of their ids. Blocking.

    Raises:
        UserError: no such corpus, an unfinished or a damaged one.
    """
    if name in DEMO_CORPORA:
        return sorted(demo_passages(name), key=lambda p: p.id)
    manifest = _find_corpus(name)
    collection = _open_whole(open_store(), manifest)
    found = {passage.id: passage for passage in _stored(name, collection)}
    if len(found) < manifest.passages:
        raise damaged(name, f"it should hold {manifest.passages} passages and gives {len(found)}")
    return [found[i] for i in sorted(found)]


def _stored(name: str, collection: Any) -> Iterator[Passage]:
    """The passages that a collection holds. Blocking."""
    with chroma_errors(name, "it cannot be read"):
        for start in range(0, collection.count(), PAGE):
            page = collection.get(limit=PAGE, offset=start, include=["documents", "metadatas"])
            for id, text, more in zip(page["ids"], page["documents"], page["metadatas"], strict=True):
                yield Passage(id=id, text=text, **more)


def digest_of(passages: Iterable[Passage]) -> str:
    """What tells one set of passages from another, in whatever order they come; not when their page was read.

    The sum of the passages' own digests, so that none has to be kept (AdHash: Bellare and Micciancio, 1997).
    """
    total = 0
    for passage in passages:
        own = hashlib.blake2b(passage.model_dump_json(exclude=FETCHED).encode(), digest_size=16)
        total = (total + int.from_bytes(own.digest())) % 2**128
    return f"{total:032x}"


def corpus_digest(name: str) -> str:
    """What changes when a corpus's passages do. Blocking.

    Raises:
        UserError: no such corpus, an unfinished or a damaged one.
    """
    known = None if name in DEMO_CORPORA else _find_corpus(name)
    return known.digest if known and known.digest else _digest_in(name, corpus_state(name))


@lru_cache(maxsize=64)
def _digest_in(name: str, state: str) -> str:
    return digest_of(all_passages(name))
