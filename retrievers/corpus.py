"""Corpora on disk: passages in a Chroma collection, with a manifest that says how they were encoded.

A corpus is a folder ``NAME`` under `corpora_folder`: ``chroma/`` and ``manifest.json``. Vectors are made by our
encoders, never by Chroma's default, which would download a model.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from moot.retrievers.encoders import DEFAULT_ENCODER, Encoder, open_encoder
from moot.retrievers.errors import UserError, WorldError
from moot.retrievers.evidence import clean
from moot.retrievers.files import Passage, parse_passage
from moot.retrievers.lazy import imported
from pydantic import TypeAdapter

DEMO_CORPORA = {"demo-encyclopaedia": "encyclopaedia.jsonl", "demo-news": "news.jsonl"}
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{2,62}")
BATCH = 512
"""Passages that are encoded and stored at a time; an interrupted build loses at most two batches."""


@dataclass(frozen=True)
class Manifest:
    """How a corpus was built. ``complete`` is false while a build runs or after it was interrupted."""

    name: str
    encoder: str
    dimension: int
    passages: int
    complete: bool


def corpora_folder() -> Path:
    """Where corpora live: ``$MOOT_HOME/corpora``, else the user's data folder."""
    home = os.environ.get("MOOT_HOME")
    if home:
        return Path(home) / "corpora"
    from platformdirs import user_data_path

    return user_data_path("moot") / "corpora"


def known_corpora() -> list[str]:
    """Names of the demo corpora and of those that were built. Blocking."""
    folder = corpora_folder()
    built = [p.parent.name for p in folder.glob("*/manifest.json")] if folder.is_dir() else []
    return sorted({*(name for name in built if not name.startswith("demo-")), *DEMO_CORPORA})


def read_manifest(name: str) -> Manifest | None:
    """A corpus's manifest; None where there is no such corpus yet. Blocking.

    Raises:
        UserError: the name cannot be a corpus's name, or the manifest is damaged.
    """
    check_name(name)
    path = corpora_folder() / name / "manifest.json"
    try:
        manifest = TypeAdapter(Manifest).validate_json(path.read_bytes())
        if manifest.name != name:
            raise ValueError(f"is the manifest of {manifest.name!r}")
        return manifest
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UserError(
            f"The manifest of the corpus {name!r} ({path}) is damaged. Delete the folder and index the corpus again.",
            kind="damaged_corpus",
        ) from error


def check_name(name: str) -> None:
    """Refuses a name that cannot be a corpus's: it becomes a folder."""
    if not NAME.fullmatch(name):
        raise UserError(
            f"{name!r} cannot name a corpus: use 3 to 63 lower-case letters, digits, - and _.", kind="invalid_corpus"
        )


def corpus_state(name: str) -> int:
    """A number that changes when a corpus is indexed again; 0 where it has no folder yet. Blocking."""
    check_name(name)
    try:
        return (corpora_folder() / name / "manifest.json").stat().st_mtime_ns
    except OSError:
        return 0


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
    progress: Callable[[int, int], None] = lambda stored, encoded: None,
) -> Manifest:
    """Adds passages to a corpus, in batches; passages whose id and content are stored already are not encoded again.

    An interrupted build can be run again: it goes on where it was. Nothing is touched before the first batch was read.

    Args:
        name: the corpus.
        passages: what to add; a known id with new content replaces the old passage.
        encoder: the encoder's name; an existing corpus only takes its own.
        progress: called after each batch with the passages seen and the passages encoded so far.

    Raises:
        UserError: a bad name, another encoder than the corpus has, a broken line in the source, nothing to add, one id
            for two different passages.
    """
    if name.startswith("demo-"):
        raise UserError(f"{name!r}: names that begin with demo- are kept for the demo corpora.", kind="invalid_corpus")
    async with await asyncio.to_thread(_lock, name):
        return await _build(name, passages, encoder, progress)


async def _build(
    name: str, passages: Iterable[Passage], encoder: str, progress: Callable[[int, int], None]
) -> Manifest:
    known = await asyncio.to_thread(read_manifest, name)
    if known is not None:
        check_encoder(known, encoder)
    tool = await open_encoder(encoder)
    dimension = len((await tool.embed(["dimension"]))[0])
    if known is not None:
        check_dimension(known, dimension)
    batches = _batches(passages)
    batch = await asyncio.to_thread(next, batches, None)
    if batch is None:
        raise UserError(
            f"There is nothing to index into the corpus {name!r}: no passage was found.", kind="empty_corpus"
        )
    collection = await asyncio.to_thread(_open_collection, name, writing=True)
    await asyncio.to_thread(_write_manifest, name, tool.name, dimension, collection, False)
    seen = encoded = 0
    storing: asyncio.Future[None] | None = None
    try:
        while batch:
            fresh, vectors = await _encode(name, collection, tool, dimension, batch)
            if storing:
                await storing
                progress(seen, encoded)
            storing = asyncio.ensure_future(asyncio.to_thread(_store, name, collection, fresh, vectors))
            seen, encoded = seen + len(batch), encoded + len(fresh)
            batch = await asyncio.to_thread(next, batches, None)
    finally:
        if storing:  # while it is written the next one is encoded; what is encoded is kept in any case
            await storing
    progress(seen, encoded)
    return await asyncio.to_thread(_write_manifest, name, tool.name, dimension, collection, True)


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


async def _encode(
    name: str, collection: Any, encoder: Encoder, dimension: int, batch: list[Passage]
) -> tuple[list[Passage], list[list[float]]]:
    """The passages of a batch that are not stored as they are, and their vectors."""
    batch = list({p.id: p for p in batch}.values())  # one passage may be given twice
    fresh = await asyncio.to_thread(_not_stored, name, collection, batch)
    if not fresh:
        return [], []
    vectors = await encoder.embed([clean(f"{p.title}. {p.text}" if p.title else p.text) for p in fresh])
    if len(vectors[0]) != dimension:
        raise WorldError(
            f"The encoder {encoder.name} gave vectors of {dimension} and then of {len(vectors[0])} dimensions. "
            "Run the same `moot index` again, or use another encoder.",
            kind="bad_response",
        )
    return fresh, vectors


def _not_stored(name: str, collection: Any, batch: list[Passage]) -> list[Passage]:
    with chroma_errors(name, "it cannot be read"):
        stored = collection.get(ids=[p.id for p in batch], include=["documents", "metadatas"])
    known = {i: (d, m) for i, d, m in zip(stored["ids"], stored["documents"], stored["metadatas"], strict=True)}
    return [p for p in batch if known.get(p.id) != (clean(p.text), _metadata(p))]


def _store(name: str, collection: Any, passages: list[Passage], vectors: list[list[float]]) -> None:
    if not passages:
        return
    with chroma_errors(name, "it cannot be written"):
        collection.upsert(
            ids=[p.id for p in passages],
            documents=[clean(p.text) for p in passages],
            metadatas=[_metadata(p) for p in passages],
            embeddings=vectors,
        )


def _metadata(passage: Passage) -> dict[str, str]:
    """Title, source, url and date of a passage; Chroma takes no empty metadata, so the source is always there."""
    fields = {"title": clean(passage.title), "url": passage.url, "published": passage.published}
    return {"source": clean(passage.source) or "(no source)"} | {k: v for k, v in fields.items() if v}


_opening = threading.Lock()


def _open_collection(name: str, *, writing: bool = False) -> Any:
    chromadb = imported("chromadb")

    try:
        with _opening:  # Chroma's clients cannot be made by two threads at once
            if writing:
                _client.cache_clear()  # the folder may have been deleted since
            client = _client(str(corpora_folder() / name / "chroma"), corpus_state(name))
            return client.get_or_create_collection(name, embedding_function=None, metadata={"hnsw:space": "cosine"})
    except (chromadb.errors.ChromaError, ValueError, AttributeError) as error:  # the latter: opened again after failing
        raise damaged(name, f"it cannot be opened ({error})") from error


def damaged(name: str, problem: str) -> UserError:
    """The error for a corpus whose files do not hold what they should."""
    return UserError(
        f"The corpus {name!r} is damaged: {problem}. Delete its folder in {corpora_folder()} and index it again.",
        kind="damaged_corpus",
    )


@contextmanager
def chroma_errors(name: str, problem: str) -> Iterator[None]:
    """Turns Chroma's errors into `damaged`."""
    try:
        yield
    except imported("chromadb.errors").ChromaError as error:
        raise damaged(name, f"{problem} ({error})") from error


@lru_cache(maxsize=64)
def _client(path: str, state: int) -> Any:
    """A client for a state of a corpus: an older one would not see what another process has stored since."""
    chromadb = imported("chromadb")

    # Chroma hands out one database a path; those who hold an older one keep it.
    imported("chromadb.api.shared_system_client").SharedSystemClient.clear_system_cache()
    return chromadb.PersistentClient(path, settings=imported("chromadb.config").Settings(anonymized_telemetry=False))


def _write_manifest(name: str, encoder: str, dimension: int, collection: Any, complete: bool) -> Manifest:
    manifest = Manifest(name, encoder, dimension, collection.count(), complete)
    path = corpora_folder() / name / "manifest.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".tmp")
    fresh.write_text(json.dumps(asdict(manifest), indent=2), encoding="utf-8")
    fresh.replace(path)
    return manifest


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
    """
    if name in DEMO_CORPORA:
        manifest = await _build_demo(name, encoder)
    else:
        manifest = await asyncio.to_thread(_find_corpus, name)
    check_encoder(manifest, encoder)
    return Corpus(manifest, await asyncio.to_thread(_open_whole, manifest))


def _open_whole(manifest: Manifest) -> Any:
    """A corpus's collection, which holds as many passages as the manifest says. Blocking."""
    collection = _open_collection(manifest.name)
    with chroma_errors(manifest.name, "it cannot be read"):
        stored = collection.count()
    if stored < manifest.passages:
        raise damaged(manifest.name, f"it should hold {manifest.passages} passages and holds {stored}")
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
            stored = _open_collection(name).count()
        raise UserError(
            f"The corpus {name!r} is unfinished: its indexing was interrupted after {stored} passages. "
            "Run the same `moot index` again; it goes on where it was.",
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
    folder = corpora_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"Corpora cannot be kept in {folder} ({error.strerror}). Set MOOT_HOME to a folder that can be written.",
            kind="invalid_setting",
        ) from error
    return imported("filelock").AsyncFileLock(folder / f"{name}.lock")


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
    collection = _open_whole(_find_corpus(name))
    with chroma_errors(name, "it cannot be read"):
        rows = collection.get(include=["documents", "metadatas"])
    columns = zip(rows["ids"], rows["documents"], rows["metadatas"], strict=True)
    return sorted((Passage(id=i, text=d, **m) for i, d, m in columns), key=lambda p: p.id)
