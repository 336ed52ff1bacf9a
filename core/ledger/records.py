"""What the ledger holds: debates, what their calls gave, and the keys by which that is found again."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from typing import Any, Literal, get_args

import orjson
from pydantic_core import PydanticSerializationError, to_json

Kind = Literal["chat", "embedding", "search", "person"]
Status = Literal["running", "interrupted", "waiting", "failed", "done"]
STATUSES: tuple[Status, ...] = get_args(Status)

KEY_VERSION = 1
"""Goes up when what a part holds changes its meaning, so that older entries no longer serve."""
PART = 24
"""Hexadecimal digits of the hash of one part."""
WHOLE = 32
"""Hexadecimal digits of the hash of a key."""
FAILED = "failed"
"""What says, of an entry, that its call gave nothing that could be used."""
NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Key:
    """What a call asks.

    Args:
        kind: what is called.
        hash: the first half of the SHA-256 of the kind and all parts, in hexadecimal digits.
        parts: by name, a shorter hash of each part.
    """

    kind: Kind
    hash: str
    parts: Mapping[str, str]


def key_of(kind: Kind, parts: Mapping[str, Any], hashed: Mapping[str, str] = NOTHING) -> Key:
    """The key of a call.

    Args:
        kind: what is called.
        parts: by name, all that the result depends on, as plain JSON values. Of a chat call: provider, endpoint
            (without user and password), model, messages, schema, parameters, sample.
        hashed: further parts, as `hashes_of` gives them.

    Raises:
        ValueError, TypeError: a part is no JSON value; NaN and infinity are none.
    """
    hashes = {**hashed, **hashes_of(parts)}
    return Key(kind, hash_of(kind, hashes), hashes)


def hashes_of(parts: Mapping[str, Any]) -> dict[str, str]:
    """By name, the hash of each part of a key.

    Raises:
        ValueError, TypeError: as `key_of`.
    """
    return {name: hashlib.sha256(canonical(part)).hexdigest()[:PART] for name, part in parts.items()}


def hash_of(kind: Kind, parts: Mapping[str, str]) -> str:
    """A key's hash, from the hashes of its parts."""
    return hashlib.sha256(canonical([KEY_VERSION, kind, parts])).hexdigest()[:WHOLE]


def fingerprint_of(graph: str, input: Any, settings: Any, by: str | None = None) -> str:
    """The hash of what a debate is about: graph, input, settings and moot's version, by default this one."""
    return hashlib.sha256(canonical([KEY_VERSION, by or moot_version(), graph, input, settings])).hexdigest()


def canonical(value: Any) -> bytes:
    """A JSON value as bytes: names in order, no white space. Tuples are lists; 1 and 1.0 differ.

    Raises:
        ValueError, TypeError: it is no JSON value.
    """
    try:
        written = orjson.dumps(value, option=CANONICAL)
    except orjson.JSONEncodeError:  # half a character, a long number, a name that is no text; or no JSON value
        return _encoder.encode(value).encode()
    return _encoder.encode(value).encode() if b"null" in written else written  # NaN would be null


CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def as_json(value: Any) -> str:
    """A JSON value as a text that SQLite takes; half a character (a lone surrogate) is escaped.

    Raises:
        ValueError, TypeError: it is no JSON value.
    """
    try:
        text = to_json(value, inf_nan_mode="constants").decode()
    except PydanticSerializationError:
        return json.dumps(value, allow_nan=False)
    return json.dumps(value, allow_nan=False) if "NaN" in text or "Infinity" in text else text


def new_id() -> str:
    """An id that nobody can guess: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def is_id(text: str) -> bool:
    """Whether a text is such an id."""
    return len(text) == 32 and not set(text) - set("0123456789abcdef")


@lru_cache(maxsize=1)
def moot_version() -> str:
    """The version of moot that runs."""
    return version("moot")


# --- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Debate:
    """A debate's row.

    Args:
        id: 32 hexadecimal digits.
        fingerprint: see `fingerprint_of`.
        version: the version of moot that began it.
        graph: the system's name.
        input: as the graph was given it.
        settings: without keys.
        status: of a debate whose process ended without a word, ``interrupted``.
        pid: the process that runs it, or ran it last; None for an imported one.
        started: when it was first begun, in seconds since 1970.
        updated: when its status last changed.
        document: the path of its result document.
        idempotency_key: what its caller named it.
        note: what else is to be said of it.
        entries: how many are kept.
        calls: how many of them are replies of models.
        size: bytes of their values.
        person: whose it is, of a server with users.
    """

    id: str
    fingerprint: str
    version: str
    graph: str
    input: Any
    settings: Any
    status: Status
    pid: int | None
    started: float
    updated: float
    document: str | None
    idempotency_key: str | None
    note: str | None
    entries: int
    calls: int
    size: int
    person: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """What one call gave. ``about`` says what the call was (role, model); ``value`` is as it is stored."""

    debate: str
    key: Key
    about: Mapping[str, Any]
    created: float
    size: int
    value: bytes

    def row(self) -> tuple[Any, ...]:
        """As the file holds it: debate, key, kind, parts, about, created, size, value."""
        key, parts, about = self.key, as_json(self.key.parts), as_json(self.about)
        return self.debate, bytes.fromhex(key.hash), key.kind, parts, about, self.created, self.size, self.value


@dataclass(frozen=True)
class Request:
    """A debate that is to begin; see `moot.core.ledger.CallLedger.begin`."""

    id: str | None
    fingerprint: str
    graph: str
    input: str
    settings: str
    adopt: bool
    idempotency_key: str | None
    person: str | None = None
    run: str | None = None


@dataclass(frozen=True)
class Begun:
    """A debate that has begun.

    Args:
        id: its id.
        resumed: whether it was begun before, and now goes on.
        owned: false if the request with this idempotency key was made before, and its debate runs, waits or is done:
            then nothing is to be run.
    """

    id: str
    resumed: bool
    owned: bool = True


@dataclass(frozen=True)
class Pruned:
    """What pruning removed: entries of how many debates, and bytes of the file."""

    debates: int
    size: int
