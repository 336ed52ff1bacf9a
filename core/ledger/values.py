"""What calls gave, as the ledger's file holds it."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

COMPRESSED = 4096
"""Bytes from which on a value is compressed."""


def packed(text: str) -> bytes:
    """A JSON text as it is stored: with a letter before it, and compressed if it is long."""
    plain = text.encode()
    return b"t" + plain if len(plain) < COMPRESSED else b"z" + zlib.compress(plain, 1)


def packed_vectors(vectors: Sequence[Sequence[float]]) -> bytes:
    """Vectors as they are stored: how many, then 32-bit floats.

    Raises:
        ValueError: they differ in length.
    """
    if len({*map(len, vectors)}) > 1:
        raise ValueError("they are vectors of different lengths")
    floats = (struct.pack(f"<{len(vector)}f", *vector) for vector in vectors)
    return b"f" + len(vectors).to_bytes(4, "little") + b"".join(floats)


def unpacked(value: bytes) -> Any:
    """The JSON value, or the list of vectors, that is stored so.

    Raises:
        ValueError: it is none.
    """
    tag, rest = value[:1], value[1:]
    if tag == b"f":
        vectors: list[list[float]] = (
            np.frombuffer(rest, "<f4", offset=4).reshape(int.from_bytes(rest[:4], "little"), -1).tolist()
        )
        return vectors
    return json.loads(zlib.decompress(rest) if tag == b"z" else rest)
