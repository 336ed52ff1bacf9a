"""What calls gave, as the ledger's file holds it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np

COMPRESSED = 2048
"""Bytes from which on a value is compressed."""


def packed(text: str) -> bytes:
    """A JSON text as it is stored: with a letter before it, and compressed if it is long."""
    plain = text.encode()
    return b"t" + plain if len(plain) < COMPRESSED else b"z" + zlib.compress(plain, 1)


def packed_floats(numbers: Iterable[float]) -> bytes:
    """Numbers as they are stored: 32-bit floats."""
    return b"f" + np.asarray(numbers, dtype="<f4").tobytes()


def unpacked(value: bytes) -> Any:
    """The JSON value, or the list of floats, that is stored so.

    Raises:
        ValueError: it is none.
    """
    tag, rest = value[:1], value[1:]
    if tag == b"f":
        return np.frombuffer(rest, dtype="<f4").tolist()
    return json.loads(zlib.decompress(rest) if tag == b"z" else rest)
