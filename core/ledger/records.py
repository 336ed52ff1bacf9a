"""The records of the ledger: debates, results of calls, and the keys that identify them."""

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
"""Part of the hashes of keys and debates. It increases if the meaning of a key's part changes, so that older entries do
not match.
"""
PART = 24
"""Hexadecimal digits of the hash of one part."""
WHOLE = 32
"""Hexadecimal digits of the hash of a key."""
FAILED = "failed"
"""The field of an entry's ``about`` that marks a call without a usable result."""
SENT = "sent"
"""The field of an entry's ``about`` with the spending of its calls that gave no result (in flight, lost or failed):
tokens, USD, calls. This spending counts for the ceilings.
"""
PAID = "paid"
"""The field of an entry's ``about`` with the spending of the calls that gave its result: tokens, USD, calls. USD are 0
if they are not bounded.
"""
CEILINGS = frozenset({"budget", "max_calls", "max_cost", "max_seconds"})
"""Settings that bound a debate. They are not in its fingerprint: a debate can continue under other ceilings."""
NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Key:
    """The identity of a call.

    Args:
        kind: the kind of the call.
        hash: the first half of the SHA-256 of `KEY_VERSION`, the kind and ``parts``, in hexadecimal digits.
        parts: the first `PART` hexadecimal digits of the SHA-256 of each part, by the part's name.
    """

    kind: Kind
    hash: str
    parts: Mapping[str, str]


def key_of(kind: Kind, parts: Mapping[str, Any], hashed: Mapping[str, str] = NOTHING) -> Key:
    """The key of a call.

    Args:
        kind: the kind of the call.
        parts: everything that the result depends on, by name, as plain JSON values. For a chat call: provider,
            endpoint (without user and password), model, messages, schema, parameters, sample.
        hashed: further parts, as `hashes_of` returns them.

    Raises:
        ValueError, TypeError: a part is not a JSON value (NaN and infinity are not).
    """
    hashes = {**hashed, **hashes_of(parts)}
    return Key(kind, hash_of(kind, hashes), hashes)


def hashes_of(parts: Mapping[str, Any]) -> dict[str, str]:
    """The hash of each part of a key, by name.

    Raises:
        ValueError, TypeError: as `key_of`.
    """
    return {name: hashlib.sha256(canonical(part)).hexdigest()[:PART] for name, part in parts.items()}


def hash_of(kind: Kind, parts: Mapping[str, str]) -> str:
    """A key's hash, from the hashes of its parts."""
    return hashlib.sha256(canonical([KEY_VERSION, kind, parts])).hexdigest()[:WHOLE]


def fingerprint_of(graph: str, input: Any, settings: Any, version: str | None = None) -> str:
    """The hash of a debate's graph, input, settings without `CEILINGS`, and moot version (None: the installed one)."""
    settings = without_ceilings(settings)
    return hashlib.sha256(canonical([KEY_VERSION, version or moot_version(), graph, input, settings])).hexdigest()


def without_ceilings(settings: Any) -> Any:
    """Settings, as a JSON value, without `CEILINGS`."""
    if not isinstance(settings, Mapping):
        return settings
    return {name: value for name, value in settings.items() if name not in CEILINGS}


def canonical(value: Any) -> bytes:
    """A JSON value as bytes, with sorted names and without white space. Tuples become lists; 1 and 1.0 differ.

    Raises:
        ValueError, TypeError: the value is not a JSON value.
    """
    try:
        written = orjson.dumps(value, option=CANONICAL)
    except orjson.JSONEncodeError:  # a lone surrogate, a long number, a name that is not a string; or not a JSON value
        return _encoder.encode(value).encode()
    return _encoder.encode(value).encode() if b"null" in written else written  # NaN would become null


CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def as_json(value: Any) -> str:
    """A JSON value as a text that SQLite accepts; lone surrogates are escaped.

    Raises:
        ValueError, TypeError: the value is not a JSON value.
    """
    try:
        text = to_json(value, inf_nan_mode="constants").decode()
    except PydanticSerializationError:
        return json.dumps(value, allow_nan=False)
    return json.dumps(value, allow_nan=False) if "NaN" in text or "Infinity" in text else text


def new_id() -> str:
    """A random id that cannot be guessed: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def is_id(text: str) -> bool:
    """Whether a text has the form of an id that `new_id` returns."""
    return len(text) == 32 and not set(text) - set("0123456789abcdef")


@lru_cache(maxsize=1)
def moot_version() -> str:
    """The installed version of moot."""
    return version("moot")


# --- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Debate:
    """A debate's row in the ledger.

    Args:
        id: 32 hexadecimal digits.
        fingerprint: see `fingerprint_of`.
        version: the version of moot that began it.
        graph: the system's name.
        input: the graph's input.
        settings: the settings, without secrets.
        status: its status; ``interrupted`` if its process ended without recording a status.
        pid: the process that runs it, or ran it last; None for an imported debate.
        started: when it first began, in seconds since 1970.
        updated: when its status was last written, in seconds since 1970.
        document: the path of its result document; None if it has none.
        idempotency_key: the name that the caller gave its request; None for no name.
        note: a remark on it, such as the file that it was imported from.
        entries: the number of its entries.
        calls: the number of entries that are usable replies of models.
        size: bytes of the entries' values.
        person: the user who owns it, on a server with users.
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
    """The result of one call.

    ``about`` describes the call (role, model). ``created`` is in seconds since 1970. ``value`` is packed (see
    `moot.core.ledger.values`), and ``size`` is its length in bytes.
    """

    debate: str
    key: Key
    about: Mapping[str, Any]
    created: float
    size: int
    value: bytes

    def row(self) -> tuple[Any, ...]:
        """The row in the database: debate, key, kind, parts, about, created, size, value."""
        key, parts, about = self.key, as_json(self.key.parts), as_json(self.about)
        return self.debate, bytes.fromhex(key.hash), key.kind, parts, about, self.created, self.size, self.value


@dataclass(frozen=True)
class Request:
    """A request to begin a debate; see `moot.core.ledger.CallLedger.begin`."""

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
class DebateStart:
    """A debate that has begun.

    Args:
        id: its id.
        resumed: whether it began earlier and is now resumed.
        owned: false if an earlier request with this idempotency key began the debate, and the debate runs, waits or is
            done. Then this request must not run it.
    """

    id: str
    resumed: bool
    owned: bool = True


@dataclass(frozen=True)
class PruningResult:
    """The number of debates from which pruning removed data, and the bytes by which the file shrank."""

    debates: int
    size: int
