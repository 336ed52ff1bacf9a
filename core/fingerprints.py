"""What identifies debates and calls: fingerprints of debates, keys of calls, and the words of their records."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import version
from typing import Any, Literal, get_args

import orjson
from pydantic_core import PydanticSerializationError, to_json

Kind = Literal["chat", "embedding", "search", "page", "person"]
Status = Literal["running", "interrupted", "waiting", "failed", "done"]
STATUSES: tuple[Status, ...] = get_args(Status)

KEY_VERSION = 2
"""A number in each key and fingerprint. It must be increased if the meaning of a part of a key changes."""
CEILINGS = frozenset({"budget", "max_calls", "max_cost", "max_seconds"})
"""Settings that bound a debate. They are not in its fingerprint, so that the debate can be resumed with other ceilings.
"""


def key_of(kind: Kind, parts: Mapping[str, Any]) -> str:
    """The key of a call, 32 hexadecimal digits, from all that its result depends on (JSON values)."""
    return hashlib.sha256(canonical([KEY_VERSION, kind, parts])).hexdigest()[:32]


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
    """A value as a JSON text that databases accept; dates and sets are converted, and NaN is refused."""
    try:
        text = to_json(value, inf_nan_mode="constants").decode()
    except PydanticSerializationError:
        return json.dumps(value, allow_nan=False)
    return json.dumps(value, allow_nan=False) if "NaN" in text or "Infinity" in text else text


def new_id() -> str:
    """A random id that cannot be guessed: 32 hexadecimal digits."""
    return uuid.uuid4().hex


@lru_cache(maxsize=1)
def moot_version() -> str:
    return version("moot")
