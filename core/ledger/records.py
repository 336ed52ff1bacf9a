"""The records of the ledger: debates, results of calls, and the keys that identify calls."""

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
"""A number in the hash of each key and in each debate's fingerprint. It must be increased if the meaning of a part of a
key changes. Then older entries match no new key.
"""
PART_DIGITS = 24
"""Number of hexadecimal digits in the hash of one part of a key."""
KEY_DIGITS = 32
"""Number of hexadecimal digits in the hash of a key."""
FAILED = "failed"
"""The field of an entry's ``about`` that marks a call without a usable result."""
SENT = "sent"
"""The field of an entry's ``about`` for the cost of requests without a result: requests in flight, lost or failed.

Its value is a list: tokens, USD, number of calls. A resumed debate counts this spending against its ceilings.
"""
PAID = "paid"
"""The field of an entry's ``about`` for the spending that led to the entry's result.

Its value is a list: tokens, USD, number of calls. USD are 0 if the cost is unknown, or if no ceiling limits it.
"""
CEILINGS = frozenset({"budget", "max_calls", "max_cost", "max_seconds"})
"""Settings that bound a debate. They are not in its fingerprint, so that the debate can be resumed with other ceilings.
"""
NO_PARTS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Key:
    """The identity of a call."""

    kind: Kind
    hash: str  # `KEY_DIGITS` hexadecimal digits of the SHA-256 of `KEY_VERSION`, the kind and ``parts``
    parts: Mapping[str, str]  # `PART_DIGITS` hexadecimal digits of the SHA-256 of each part, by name


def key_of(kind: Kind, parts: Mapping[str, Any], hashed: Mapping[str, str] = NO_PARTS) -> Key:
    """The key of a call, from the parts that its result depends on; ``hashed`` are those that `hashes_of` returned."""
    hashes = {**hashed, **hashes_of(parts)}
    return Key(kind, hash_of(kind, hashes), hashes)


def hashes_of(parts: Mapping[str, Any]) -> dict[str, str]:
    return {name: hashlib.sha256(canonical(part)).hexdigest()[:PART_DIGITS] for name, part in parts.items()}


def hash_of(kind: Kind, parts: Mapping[str, str]) -> str:
    """The hash of a key, computed from the kind and the hashes of the key's parts."""
    return hashlib.sha256(canonical([KEY_VERSION, kind, parts])).hexdigest()[:KEY_DIGITS]


def fingerprint_of(graph: str, input: Any, settings: Any, version: str | None = None) -> str:
    """The hash of debates with the same graph, input, settings (without `CEILINGS`) and version of moot."""
    settings = without_ceilings(settings)
    return hashlib.sha256(canonical([KEY_VERSION, version or moot_version(), graph, input, settings])).hexdigest()


def without_ceilings(settings: Any) -> Any:
    """Settings without `CEILINGS`; a value that is not a mapping is returned unchanged."""
    if not isinstance(settings, Mapping):
        return settings
    return {name: value for name, value in settings.items() if name not in CEILINGS}


def canonical(value: Any) -> bytes:
    """A JSON value as bytes, with sorted names and without white space; 1 and 1.0 differ, and NaN is refused."""
    try:
        written = orjson.dumps(value, option=CANONICAL)
    except orjson.JSONEncodeError:  # unlike json, orjson refuses lone surrogates, long integers and non-string keys
        return _encoder.encode(value).encode()
    return _encoder.encode(value).encode() if b"null" in written else written  # orjson writes NaN as null


CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def as_json(value: Any) -> str:
    """A value as a JSON text that SQLite accepts; dates and sets are converted, and NaN is refused."""
    try:
        text = to_json(value, inf_nan_mode="constants").decode()
    except PydanticSerializationError:
        return json.dumps(value, allow_nan=False)
    return json.dumps(value, allow_nan=False) if "NaN" in text or "Infinity" in text else text


def new_id() -> str:
    """A random id that cannot be guessed: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def is_id(text: str) -> bool:
    """Whether a text has the form of an id of `new_id`."""
    return len(text) == 32 and not set(text) - set("0123456789abcdef")


@lru_cache(maxsize=1)
def moot_version() -> str:
    return version("moot")


# --- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Debate:
    """A debate's row in the ledger."""

    id: str  # 32 hexadecimal digits
    fingerprint: str  # see `fingerprint_of`
    version: str  # of moot, when the debate began
    graph: str
    input: Any
    settings: Any  # without secrets
    status: Status  # ``interrupted`` if the debate's process ended without recording a status
    pid: int | None  # the process that runs the debate, or ran it last; None if it is unknown
    started: float  # when the debate first began, in seconds since 1970
    updated: float  # when the status was last written, in seconds since 1970
    document: str | None  # the path of the result document
    idempotency_key: str | None
    note: str | None  # a remark, such as the file that the debate was imported from
    entries: int  # their number
    calls: int  # the number of entries of chat calls that are not marked as `FAILED`
    size: int  # bytes of the entries' values
    person: str | None = None  # the user who owns the debate, on a server with users


@dataclass(frozen=True, slots=True)
class Entry:
    """The result or the failure of one call."""

    debate: str
    key: Key
    about: Mapping[str, Any]  # the call's role, its model, and fields such as `FAILED` and `SENT`
    created: float  # seconds since 1970
    size: int  # the length of ``value`` in bytes
    value: bytes  # packed (see `moot.core.ledger.values`)

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
    input: str  # a JSON text without secrets
    settings: str  # a JSON text without secrets
    adopt: bool
    idempotency_key: str | None
    person: str | None = None
    run: str | None = None


@dataclass(frozen=True)
class DebateStart:
    """The answer to a request to begin a debate."""

    id: str
    resumed: bool  # whether the debate began earlier, and this request continues it with the stored results
    owned: bool = True
    """Whether this request must run the debate: not if an earlier one with its idempotency key began it, and it is
    running, waiting or done.
    """


@dataclass(frozen=True)
class PruningResult:
    """What pruning removed: the number of debates that lost data, and the number of bytes by which the file shrank."""

    debates: int
    size: int
