"""Stores of corpora: folders on this machine, or a Chroma server if ``MOOT_CHROMA_URL`` is set.

Other modules use both stores in the same way. Our encoders compute all vectors, because Chroma's default encoder would
download a model.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from moot.core.endpoint import Endpoint, check_address, make_client
from moot.core.errors import MootError, UserError, WorldError
from moot.core.files import write_atomically
from moot.core.home import moot_home, private_files, private_folder
from moot.core.lazy import import_extra, imported
from moot.retrievers._lexical import NO_ENCODER, LexicalCollection
from pydantic import TypeAdapter

TIMEOUT = 60.0
"""Time limit of a request to a Chroma server, in seconds."""


@dataclass(frozen=True)
class Manifest:
    """How a corpus was built."""

    name: str
    encoder: str
    dimension: int  # of the vectors
    passages: int  # after the last complete build
    complete: bool  # false while a build is running, and if the last build was interrupted
    digest: str = ""  # of the passages (`moot.retrievers._corpus.digest_of`); empty if not complete


def corpora_folder() -> Path:
    """The folder of the corpora and their lock files: ``corpora`` in the home folder (`moot_home`)."""
    return moot_home() / "corpora"


def open_store() -> FolderStore | ServerStore:
    """The store: a server if ``MOOT_CHROMA_URL`` is set, otherwise folders; the first call for a server blocks."""
    url = os.environ.get("MOOT_CHROMA_URL", "").strip()
    if not url:
        return FolderStore(corpora_folder())
    check_address(url, "MOOT_CHROMA_URL")
    with _opening:
        return _server(url, os.environ.get("MOOT_CHROMA_TOKEN", "").strip())


def _parse_manifest(name: str, content: str | bytes) -> Manifest:
    """Parses a manifest; ValueError if the content is not the manifest of the corpus ``name``."""
    manifest = TypeAdapter(Manifest).validate_json(content)
    if manifest.name != name:
        raise ValueError(f"it is the manifest of {manifest.name!r}")
    if manifest.complete and not manifest.digest:
        raise ValueError("it has no digest of the passages")
    return manifest


# --- folders ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FolderStore:
    """Corpora in folders with a ``manifest.json`` and ``chroma/`` or, without vectors, ``passages.sqlite``."""

    folder: Path

    def names(self) -> list[str]:
        """The names of the corpora, complete or not."""
        return [p.parent.name for p in self.folder.glob("*/manifest.json")] if self.folder.is_dir() else []

    def read(self, name: str) -> Manifest | None:
        """A corpus's manifest; None if there is no manifest."""
        try:
            return _parse_manifest(name, self._manifest(name).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise self.damaged(name, "its manifest cannot be read") from error

    def write(self, manifest: Manifest) -> None:
        """Stores a manifest, for a complete corpus with the checksums of the index files."""
        path = self._manifest(manifest.name)
        private_folder(path.parent)
        sums = _checksums(path.parent / "chroma") if manifest.complete else None
        write_atomically(path, json.dumps(asdict(manifest) | {"files": sums}, indent=2), private=True)

    def state(self, name: str) -> str:
        """A text that changes when the corpus is indexed again."""
        path = self._manifest(name)
        try:
            return f"{path} {path.stat().st_mtime_ns}"
        except OSError:
            return str(path)

    def create(self, manifest: Manifest) -> Any:
        """Opens a corpus's collection for writing, which is created if it is missing, and stores the manifest."""
        _client.cache_clear()  # because the folder of a cached client may have been deleted
        collection = self._open(manifest.name, manifest.encoder)
        self.write(manifest)
        return collection

    def open(self, name: str) -> Any:
        """A corpus's collection, which is created if it is missing, in its current state."""
        manifest = self.read(name)
        return self._open(name, manifest.encoder if manifest else "")

    def _open(self, name: str, encoder: str) -> Any:
        if encoder == NO_ENCODER:
            try:
                return LexicalCollection(self.folder / name / "passages.sqlite")
            except (sqlite3.Error, OSError) as error:
                raise self.damaged(name, f"it cannot be opened ({error})") from error
        errors = import_chroma("chromadb").errors
        try:
            with _opening:  # two threads must not create Chroma clients at once
                client = _client(self, name, self.state(name))
                found = client.get_or_create_collection(
                    name, embedding_function=None, metadata={"hnsw:space": "cosine"}
                )
        # Chroma raises AttributeError if a collection is opened again after a failure.
        except (errors.ChromaError, OSError, ValueError, AttributeError) as error:
            raise self.damaged(name, f"it cannot be opened ({error})") from error
        if names_encoder(found.configuration_json):
            raise self.damaged(name, NAMES_ENCODER)
        return found

    def delete(self, name: str) -> None:
        """Deletes a corpus, its manifest first, so that a folder that is left over is no corpus."""
        _client.cache_clear()
        self._manifest(name).unlink(missing_ok=True)
        shutil.rmtree(self.folder / name, ignore_errors=False)

    def check(self, name: str) -> None:
        """Checks that index files are unchanged: with changed files, Chroma would give wrong results or crash."""
        while (recorded := self._recorded_checksums(name)) is not None:
            found = _checksums(self.folder / name / "chroma")
            changed = sorted(path for path, _ in recorded.items() ^ found.items())
            if not changed:
                return
            # If the manifest has changed, another process has just indexed the corpus, and the loop checks again.
            if self._recorded_checksums(name) == recorded:
                raise self.damaged(name, f"{changed[0]} was added, changed or deleted after the build")

    def damaged(self, name: str, problem: str) -> UserError:
        """The error for a corpus with missing or changed data."""
        return UserError(
            f"The corpus {name!r} is damaged: {problem}. Delete its folder in {self.folder} and index it again.",
            kind="damaged_corpus",
        )

    def _manifest(self, name: str) -> Path:
        return self.folder / name / "manifest.json"

    def _recorded_checksums(self, name: str) -> dict[str, str] | None:
        """The checksums in a corpus's manifest; None if there is no manifest, or if the corpus is unfinished."""
        try:
            sums: dict[str, str] | None = json.loads(self._manifest(name).read_bytes()).get("files")
            return sums
        except FileNotFoundError:
            return None


NAMES_ENCODER = "its description at Chroma names an encoder, which moot never stores and does not load"
"""Why a collection is refused if `names_encoder`."""


def names_encoder(described: Any) -> bool:
    """Whether a collection's configuration or schema names an encoder of Chroma's."""
    # Chroma's client would build that encoder as soon as passages are stored, and with it load any model and run any
    # code that the description names (CVE-2026-45829 and CVE-2026-45833 are the same fault in Chroma's Python server).
    if isinstance(described, dict):
        return described.get("type") == "known" or any(map(names_encoder, described.values()))
    return isinstance(described, list) and any(map(names_encoder, described))


def import_chroma(name: str) -> Any:
    """Imports and returns a module of Chroma; UserError if a package is not installed."""
    return import_extra(
        name,
        "chroma",
        "A corpus with vectors",
        "BM25 needs no vectors: index files with `moot index PATH --corpus NAME --embedder none` and use bm25:NAME "
        "as the source.",
    )


_opening = threading.Lock()


@lru_cache(maxsize=64)
def _client(store: FolderStore, name: str, state: str) -> Any:
    """The client for one state (in the cache's key) of a corpus; a new one sees the writes of other processes."""
    store.check(name)
    # Chroma caches one open database per path, which may be outdated. Clients that exist already keep their databases.
    imported("chromadb.api.shared_system_client").SharedSystemClient.clear_system_cache()
    settings = imported("chromadb.config").Settings(anonymized_telemetry=False)
    with private_files():
        return imported("chromadb").PersistentClient(str(store.folder / name / "chroma"), settings=settings)


def _checksums(folder: Path) -> dict[str, str]:
    """The checksums of Chroma's index files, by their paths in the folder."""
    sums = {}
    # Other indexes have fewer than 1,000 passages, and Chroma rebuilds them whenever it opens the corpus. SQLite's own
    # file is left out, because reading changes it.
    for ids in folder.glob("*/index_metadata.pickle"):
        for path in ids.parent.iterdir():
            with path.open("rb") as file:
                sums[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "blake2b").hexdigest()[:32]
    return sums


# --- a server ---------------------------------------------------------------------------------------------------------


class ServerStore:
    """Corpora on a Chroma server, each with its manifest in its collection's metadata, so that all machines see it."""

    def __init__(self, url: str, token: str) -> None:
        self._url = Endpoint(url, token).display_url
        if not (token.isascii() and token.isprintable()):
            raise UserError(
                "MOOT_CHROMA_TOKEN contains characters that are not allowed in a token.", kind="invalid_environment"
            )
        if token and self._url != url:
            raise UserError(
                "MOOT_CHROMA_URL contains a user name, and MOOT_CHROMA_TOKEN is set: only one of them can be sent.",
                kind="invalid_environment",
            )
        import_chroma("chromadb")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._api = server_api(url, headers, self._check_status)

    def names(self) -> list[str]:
        """The names of the corpora, complete or not; collections that moot did not create are left out."""
        with self.errors():
            return [model.name for model in self._api.list_collections() if "moot" in (model.metadata or {})]

    def read(self, name: str) -> Manifest | None:
        """A corpus's manifest; None if the server has no collection with this name."""
        model = self._find(name)
        if model is None:
            return None
        if "moot" not in (model.metadata or {}):
            raise UserError(
                f"The collection {name!r} at {self._url} was not created by moot. Use another name.",
                kind="invalid_corpus",
            )
        try:
            return _parse_manifest(name, model.metadata["moot"])
        except ValueError as error:
            raise self.damaged(name, "its manifest cannot be read") from error

    def write(self, manifest: Manifest) -> None:
        """Stores a manifest."""
        with self.errors(manifest.name):
            self._collection(self._api.get_collection(manifest.name)).modify(metadata=_as_metadata(manifest))

    def state(self, name: str) -> str:
        """A text that changes when any machine indexes the corpus again."""
        model = self._find(name)
        return f"{self._url} {(model.metadata or {}).get('moot_written') if model else None}"

    def create(self, manifest: Manifest) -> ServerCollection:
        """Opens a corpus's collection for writing, which is created if it is missing, and stores the manifest."""
        if manifest.encoder == NO_ENCODER:
            raise UserError(
                "A Chroma server cannot store a corpus without vectors. Name an encoder, or unset MOOT_CHROMA_URL to "
                "index into a folder of this machine.",
                kind="invalid_corpus",
            )
        space = {"hnsw": {"space": "cosine"}}
        with self.errors(manifest.name):
            self._api.create_collection(
                manifest.name, configuration=space, metadata=_as_metadata(manifest), get_or_create=True
            )
        self.write(manifest)
        return self.open(manifest.name)

    def delete(self, name: str) -> None:
        """Deletes a corpus; UserError if it is not on the server."""
        with self.errors(name):
            self._api.delete_collection(name)

    def open(self, name: str) -> ServerCollection:
        """A corpus's collection, which shows the writes of other processes at once."""
        with self.errors(name):
            return ServerCollection(self, self._collection(self._api.get_collection(name)))

    def damaged(self, name: str, problem: str) -> UserError:
        """The error for a corpus with missing or changed data."""
        return UserError(
            f"The corpus {name!r} at {self._url} is damaged: {problem}. Delete the collection on that server and index "
            "it again.",
            kind="damaged_corpus",
        )

    @contextmanager
    def errors(self, name: str = "") -> Iterator[None]:
        """Context manager that turns all exceptions into MootErrors; ``name`` is that of the corpus."""
        try:
            yield
        except MootError:
            raise
        except imported("httpx").TransportError as error:
            raise WorldError(
                f"The Chroma server at {self._url} cannot be reached ({type(error).__name__}: {error}). Check "
                "MOOT_CHROMA_URL and that `chroma run` is running there.",
                kind="unreachable",
                retryable=True,
            ) from error
        except imported("chromadb.errors").NotFoundError as error:
            raise UserError(
                f"The corpus {name!r} is no longer at {self._url}. Build it with: moot index PATH --corpus {name}",
                kind="unknown_corpus",
            ) from error
        except Exception as error:  # the client does not check answers, and raises Exception for an HTTP error
            raise WorldError(
                f"{self._url} sent an answer that cannot be read ({type(error).__name__}: {str(error)[:200]}). Check "
                "MOOT_CHROMA_URL and that `chroma run` is running there.",
                kind="bad_response",
            ) from error

    def _find(self, name: str) -> Any:
        """Chroma's description of a collection; None if the server has no collection with this name."""
        with self.errors(name):
            try:
                return self._api.get_collection(name)
            except imported("chromadb.errors").NotFoundError:
                return None

    def _collection(self, model: Any) -> Any:
        """Chroma's collection object for a description from the server; UserError if this names an encoder."""
        if names_encoder(model.configuration_json) or names_encoder(model.serialized_schema):
            raise self.damaged(model.name, NAMES_ENCODER)
        kind = imported("chromadb.api.models.Collection").Collection
        return kind(client=self._api, model=model, embedding_function=None)

    def _check_status(self, response: Any) -> None:
        """Raises a UserError if the server refuses access (HTTP 401 or 403)."""
        if response.status_code in (401, 403):
            raise UserError(
                f"The Chroma server at {self._url} refused access (HTTP {response.status_code}). "
                "Check MOOT_CHROMA_TOKEN.",
                kind="authentication",
            )


class ServerCollection:
    """A collection on a server, whose methods block, and raise only MootErrors (see `ServerStore.errors`)."""

    def __init__(self, store: ServerStore, collection: Any) -> None:
        self._store = store
        self._collection = collection

    @property
    def id(self) -> str:
        """The collection's id; a collection that is deleted and created again gets another id."""
        return str(self._collection.id)

    def count(self) -> int:
        """The number of passages."""
        with self._store.errors(self._collection.name):
            return int(self._collection.count())

    def upsert(self, **rows: Any) -> None:
        """Stores passages; a passage with the same id is replaced."""
        with self._store.errors(self._collection.name):
            self._collection.upsert(**rows)

    def delete(self, *, ids: list[str]) -> None:
        """Deletes the passages with these ids."""
        with self._store.errors(self._collection.name):
            self._collection.delete(ids=ids)

    def get(self, *, include: list[str], **options: Any) -> Any:
        """The passages that ``options`` select: by id, source or position."""
        with self._store.errors(self._collection.name):
            found = self._collection.get(include=include, **options)
            return _checked_columns(found, found["ids"], [found[column] for column in include])

    def query(self, *, include: list[str], **options: Any) -> Any:
        """The passages nearest to each vector in ``options``; only the first vector's are checked for missing data."""
        with self._store.errors(self._collection.name):
            found = self._collection.query(include=include, **options)
            return _checked_columns(found, found["ids"][0], [found[column][0] for column in include])


def _checked_columns(found: Any, ids: list[str], columns: list[Any]) -> Any:
    """The server's answer ``found``; ValueError if a column does not have one entry for each id."""
    if any(len(column) != len(ids) for column in columns):
        raise ValueError("it lists ids without their data")
    return found


def _as_metadata(manifest: Manifest) -> dict[str, str]:
    """A collection's metadata: the manifest, and a new random text, which changes `ServerStore.state`."""
    return {"moot": json.dumps(asdict(manifest)), "moot_written": uuid.uuid4().hex}


@lru_cache(maxsize=8)
def _server(url: str, token: str) -> ServerStore:
    return ServerStore(url, token)


def server_api(url: str, headers: dict[str, str], check: Any) -> Any:
    """Chroma's API for a server, with moot's HTTP client, which calls ``check`` with each response."""
    httpx = imported("httpx")
    limits = httpx.Limits(max_keepalive_connections=0)  # one connection per call, so that no open connection remains
    # `chromadb.HttpClient` has no timeout, and would call loopback addresses through the environment's proxies.
    session = make_client(httpx.Client, url, timeout=TIMEOUT, limits=limits, event_hooks={"response": [check]})
    config = imported("chromadb.config")
    settings = config.Settings(
        chroma_api_impl="chromadb.api.fastapi.FastAPI",
        chroma_server_host=url,
        chroma_server_http_port=8000,  # required, but ignored if the host is a complete address
        chroma_server_headers=headers,
        anonymized_telemetry=False,
    )
    api = config.System(settings).instance(imported("chromadb.api").ServerAPI)
    session.headers.update(api.get_request_headers())
    api._session.close()
    api._session = session
    return api
