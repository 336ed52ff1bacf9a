"""Corpora: passages in a Chroma collection, with a manifest that records the encoder.

A corpus that is built without an encoder (`NO_ENCODER`) does not need Chroma, and only BM25 can search it.
"""

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
from moot.core.home import private_files
from moot.core.lazy import imported
from moot.retrievers._encoders import DEFAULT_ENCODER, open_encoder
from moot.retrievers._files import DocumentPassage, Passage, parse_passage
from moot.retrievers._filling import Fill, Progress, Target, chroma_errors, damaged, fill_in_process, metadata_of
from moot.retrievers._lexical import NO_ENCODER, NoEncoder
from moot.retrievers._stores import FolderStore, Manifest, ServerStore, corpora_folder, open_store

DEMO_CORPORA = {"demo-encyclopaedia": "encyclopaedia.jsonl", "demo-news": "news.jsonl"}
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{1,61}[a-z0-9]")
BATCH = 512
"""The number of passages in a batch. An interrupted build loses the work on at most three batches."""
RECENT = 1.0
"""Seconds for which the state of a corpus is cached, because each lookup of the state blocks and so needs a thread."""
_states: dict[tuple[str | None, ...], tuple[float, str]] = {}
"""The time of the last lookup and the state of each corpus, by `_state_key`."""
ABOUT_READING = {"fetched", "sha256", "note"}
"""Fields about how a passage was fetched and read. They are not part of its content."""
PAGE = 5000
"""The number of passages that are read at once. Chroma cannot return tens of thousands at once."""


def known_corpora() -> list[str]:
    """Names of the demo corpora and of all stored corpora, also unfinished corpora. Blocking.

    Raises:
        UserError: the Chroma server refused the token, the server's address or the token is invalid, or Chroma is not
            installed.
        WorldError: the Chroma server failed.
    """
    return sorted({*(name for name in open_store().names() if not name.startswith("demo-")), *DEMO_CORPORA})


def read_manifest(name: str) -> Manifest | None:
    """A corpus's manifest; None if the corpus does not exist yet; blocking."""
    check_name(name)
    return open_store().read(name)


def delete_corpus(name: str) -> None:
    """Deletes a corpus permanently, after waiting for other writers; blocking."""
    check_name(name)
    check_home("Corpora", "corpora")
    with imported("filelock").FileLock(corpora_folder() / f"{name}.lock", mode=0o600):
        store = open_store()
        if name not in store.names():
            raise UserError(f"There is no corpus {name!r} to delete.", kind="unknown_corpus")
        store.delete(name)


def check_name(name: str) -> None:
    """Raises an error for an invalid corpus name, which becomes the name of a folder."""
    if not NAME.fullmatch(name):
        raise UserError(
            f"{name!r} cannot name a corpus: use 3 to 63 lower-case letters, digits, - and _, with a letter or digit "
            "at both ends.",
            kind="invalid_corpus",
        )


def check_own_name(name: str) -> None:
    """Raises an error for a name that is invalid or reserved for the demo corpora."""
    if name.startswith("demo-"):
        raise UserError(
            f"{name!r}: names that begin with demo- are reserved for the demo corpora.", kind="invalid_corpus"
        )
    check_name(name)


def corpus_state(name: str) -> str:
    """A text that identifies a corpus's store, and changes when the corpus is indexed again; blocking."""
    check_name(name)
    states = _states  # if a corpus is indexed during the lookup, `_forget_states` drops this dict with the old state
    state = open_store().state(name)
    states[_state_key(name)] = (time.monotonic(), state)
    return state


def recent_state(name: str) -> str | None:
    """A corpus's state of the last `RECENT` seconds; None without one, or if this process indexed a corpus since."""
    at, state = _states.get(_state_key(name), (-RECENT, ""))
    return state if time.monotonic() - at < RECENT else None


def _forget_states() -> None:
    """Empties the cache of states, because a corpus was indexed."""
    global _states
    _states = {}


def _state_key(name: str) -> tuple[str | None, ...]:
    """A corpus's name, and the variables that determine its store."""
    return (name, os.environ.get("MOOT_HOME"), os.environ.get("MOOT_CHROMA_URL"))


def check_encoder(manifest: Manifest, encoder: str) -> None:
    """Raises an error if ``encoder`` is not the encoder that built the corpus."""
    if manifest.encoder == NO_ENCODER != encoder:
        raise _no_vectors_error(manifest.name)
    if manifest.encoder != encoder:
        raise UserError(
            f"The corpus {manifest.name!r} was built with the encoder {manifest.encoder} ({manifest.dimension} "
            f"dimensions) and cannot be used with {encoder}. Use its encoder (--set embedder={manifest.encoder}; "
            f"`moot index` takes --embedder {manifest.encoder}), or index the passages again under another name.",
            kind="corpus_mismatch",
        )


def has_vectors(name: str) -> bool:
    """Whether a corpus can be searched by meaning; true if it does not exist; blocking."""
    manifest = None if name in DEMO_CORPORA else read_manifest(name)
    return manifest is None or manifest.encoder != NO_ENCODER


def check_vectors(name: str) -> None:
    """Raises an error for a corpus without vectors, before an encoder is opened for it; blocking."""
    if not has_vectors(name):
        raise _no_vectors_error(name)


def _no_vectors_error(name: str) -> UserError:
    """The error if a corpus needs vectors, but was built without them."""
    return UserError(
        f"The corpus {name!r} was built without vectors, so only BM25 can search it: "
        f"--set debaters.0.retriever=bm25:{name} (graphs without debaters: --set 'sources=[\"bm25:{name}\"]'). To add "
        "passages to it: --embedder none. To get vectors, index the passages again under another name.",
        kind="corpus_mismatch",
    )


def check_dimension(manifest: Manifest, dimension: int) -> None:
    """Raises an error if the encoder's name has come to refer to a model whose vectors have another length."""
    if manifest.dimension != dimension:
        raise UserError(
            f"The corpus {manifest.name!r} was built when the encoder {manifest.encoder} had {manifest.dimension} "
            f"dimensions; now the encoder has {dimension}. Use the earlier model, or index the passages again under "
            "another name.",
            kind="corpus_mismatch",
        )


# --- building and opening ---------------------------------------------------------------------------------------------


async def index_passages(
    name: str,
    passages: Iterable[Passage],
    *,
    encoder: str = DEFAULT_ENCODER,
    progress: Progress = lambda seen, encoded: None,
    fill: Fill = fill_in_process,
) -> Manifest:
    """Adds passages to a corpus, in batches. A passage that is already stored unchanged is not encoded again.

    If a build is interrupted, the next run continues it. The corpus does not change until the first batch was read.

    Args:
        name: the corpus.
        passages: the passages to add. A new passage replaces the stored passage with the same id. The passages of a
            document also replace all passages of its earlier versions.
        encoder: the encoder's name, or ``none`` for a corpus that only BM25 searches. An existing corpus accepts only
            the encoder that built it.
        progress: called after each batch with the numbers of passages seen and encoded so far.
        fill: encodes and stores the passages; by default in this process.

    Returns:
        The manifest of the complete corpus.

    Raises:
        UserError: the name is invalid or reserved, the corpus is damaged or has another encoder, the encoder or the
            store cannot be opened, a file cannot be read, the home folder cannot be written, there are no passages, or
            two different passages have the same id.
        WorldError: the encoder's endpoint or the Chroma server failed, or the disk is full.
        OSError: the manifest cannot be written.
    """
    check_own_name(name)
    async with await asyncio.to_thread(_lock, name):
        return await _build(name, passages, encoder, progress, fill)


async def _build(
    name: str, passages: Iterable[Passage], encoder: str, progress: Progress, fill: Fill = fill_in_process
) -> Manifest:
    """Does the work of `index_passages`, after the caller has checked the name and locked the corpus."""
    with private_files():  # Chroma creates files while it stores passages
        return await _store(name, passages, encoder, progress, fill)


async def _store(name: str, passages: Iterable[Passage], encoder: str, progress: Progress, fill: Fill) -> Manifest:
    store = await asyncio.to_thread(open_store)
    known = await asyncio.to_thread(store.read, name)
    if known is not None:
        check_encoder(known, encoder)
    text_encoder = NoEncoder() if encoder == NO_ENCODER else await open_encoder(encoder)
    dimension = len((await text_encoder.embed(["dimension"]))[0])
    if known is not None:
        check_dimension(known, dimension)
    ids: dict[tuple[str, str], set[str]] = {}
    batches = _batches(_record_ids(passages, ids))
    batch = await asyncio.to_thread(next, batches, None)
    if batch is None:
        raise UserError(
            f"There is nothing to index into the corpus {name!r}: no passage was found.", kind="empty_corpus"
        )
    if known is not None and known.complete:
        # Checks that no stored passage is missing. Later, new passages would hide a gap in the number of passages.
        await asyncio.to_thread(_open_complete, store, known)
    begun = Manifest(name, text_encoder.name, dimension, known.passages if known else 0, complete=False)
    collection = await asyncio.to_thread(store.create, begun)
    _forget_states()
    await fill(Target(name, collection, text_encoder, dimension), chain([batch], batches), progress)
    if known is not None:
        await asyncio.to_thread(_delete_earlier, name, collection, ids)
    digest = await asyncio.to_thread(lambda: digest_of(_read_passages(name, collection)))
    complete = replace(begun, passages=await asyncio.to_thread(collection.count), complete=True, digest=digest)
    await asyncio.to_thread(store.write, complete)
    _forget_states()
    return complete


def _record_ids(passages: Iterable[Passage], ids: dict[tuple[str, str], set[str]]) -> Iterator[Passage]:
    """Yields the passages, and records the ids of each document's passages in ``ids``, by document and source."""
    for passage in passages:
        if isinstance(passage, DocumentPassage):
            ids.setdefault((passage.document, metadata_of(passage)["source"]), set()).add(passage.id)
        yield passage


def _delete_earlier(name: str, collection: Any, ids: dict[tuple[str, str], set[str]]) -> None:
    """Deletes passages of earlier versions of the documents in ``ids``, which `_record_ids` has filled."""
    for (document, source), current in ids.items():
        with chroma_errors(name, "it cannot be written"):
            stored = collection.get(where={"source": source}, include=[])["ids"]
            if earlier := [id for id in stored if id.startswith(f"{document}#") and id not in current]:
                collection.delete(ids=earlier)


def _batches(passages: Iterable[Passage]) -> Iterator[list[Passage]]:
    """The passages in batches; an error if two different passages have the same id."""
    batch: list[Passage] = []
    contents: dict[str, int] = {}
    for passage in passages:
        content = hash(passage.model_dump_json())
        if contents.setdefault(passage.id, content) != content:
            raise UserError(
                f"Two different passages have the id {passage.id!r}. Give each passage its own id.",
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
    """An open corpus, with its Chroma ``collection``, whose methods block."""

    manifest: Manifest
    collection: Any


async def open_corpus(name: str, encoder: str) -> Corpus:
    """Opens a corpus for dense search with an encoder's queries; a demo corpus is built on first use."""
    if name in DEMO_CORPORA:
        manifest = await _build_demo(name, encoder)
    else:
        manifest = await asyncio.to_thread(_find_corpus, name)
    check_encoder(manifest, encoder)
    store = await asyncio.to_thread(open_store)
    return Corpus(manifest, await asyncio.to_thread(_open_complete, store, manifest))


def _open_complete(store: FolderStore | ServerStore, manifest: Manifest) -> Any:
    """Opens a corpus's collection, and checks that passages and vectors are as the manifest says; blocking."""
    collection = store.open(manifest.name)
    with chroma_errors(manifest.name, "it cannot be read"):
        stored = collection.count()
    if stored < manifest.passages:
        raise store.damaged(manifest.name, f"it should have {manifest.passages} passages and has {stored}")
    # Without this check, Chroma would search only the vectors that are left.
    with chroma_errors(manifest.name, "vectors are missing"):
        for offset in (0, stored - 1):
            collection.get(limit=1, offset=offset, include=["embeddings"])
    return collection


def _find_corpus(name: str) -> Manifest:
    """The manifest of a complete corpus; an error if the corpus is missing or unfinished."""
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
            f"The corpus {name!r} is unfinished: its indexing was interrupted after {stored} passages, or is still "
            "running. Wait for it, or run the same `moot index` again to continue it.",
            kind="unfinished_corpus",
        )
    return manifest


async def _build_demo(name: str, encoder: str) -> Manifest:
    """The manifest of a demo corpus for an encoder; a missing or unfinished corpus is built first."""
    suffix = "" if encoder == DEFAULT_ENCODER else "-" + hashlib.blake2b(encoder.encode(), digest_size=4).hexdigest()
    corpus = name + suffix
    manifest = await asyncio.to_thread(read_manifest, corpus)
    if manifest is not None and manifest.complete:
        return manifest
    async with await asyncio.to_thread(_lock, corpus):
        manifest = await asyncio.to_thread(read_manifest, corpus)
        if manifest is not None and manifest.complete:
            return manifest
        return await _build(corpus, await asyncio.to_thread(demo_passages, name), encoder, lambda stored, encoded: None)


def _lock(name: str) -> Any:
    """Makes the lock for writers of a corpus, and the folder of corpora; does not acquire the lock; blocking."""
    check_name(name)
    check_home("Corpora", "corpora")
    return imported("filelock").AsyncFileLock(corpora_folder() / f"{name}.lock", mode=0o600)


def demo_passages(name: str) -> list[Passage]:
    """The passages of a demo corpus, from the file in the package."""
    text = (resources.files("moot.retrievers") / "demo" / DEMO_CORPORA[name]).read_text(encoding="utf-8")
    return [parse_passage(line, f"{name}, line {n}") for n, line in enumerate(text.splitlines(), start=1)]


def all_passages(name: str) -> list[Passage]:
    """All passages of a corpus, in the order of their ids; blocking."""
    if name in DEMO_CORPORA:
        return sorted(demo_passages(name), key=lambda p: p.id)
    manifest = _find_corpus(name)
    collection = _open_complete(open_store(), manifest)
    found = {passage.id: passage for passage in _read_passages(name, collection)}
    if len(found) < manifest.passages:
        raise damaged(name, f"it should have {manifest.passages} passages, and only {len(found)} can be read")
    return [found[i] for i in sorted(found)]


def _read_passages(name: str, collection: Any) -> Iterator[Passage]:
    """The passages in a collection; blocking."""
    with chroma_errors(name, "it cannot be read"):
        for start in range(0, collection.count(), PAGE):
            page = collection.get(limit=PAGE, offset=start, include=["documents", "metadatas"])
            for id, text, more in zip(page["ids"], page["documents"], page["metadatas"], strict=True):
                yield Passage(id=id, text=text, **more)


def digest_of(passages: Iterable[Passage]) -> str:
    """The sum of passages' digests modulo 2^128 (AdHash: Bellare and Micciancio, 1997); their order does not matter."""
    total = 0
    for passage in passages:
        own = hashlib.blake2b(passage.model_dump_json(exclude=ABOUT_READING).encode(), digest_size=16)
        total = (total + int.from_bytes(own.digest())) % 2**128
    return f"{total:032x}"


def corpus_digest(name: str) -> str:
    """The digest of a corpus's passages; blocking."""
    known = None if name in DEMO_CORPORA else _find_corpus(name)
    return known.digest if known else _cached_digest(name, corpus_state(name))


@lru_cache(maxsize=64)
def _cached_digest(name: str, state: str) -> str:
    """The digest of a corpus in one state, which is only a key of the cache."""
    return digest_of(all_passages(name))
