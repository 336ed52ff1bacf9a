"""Converts the results of calls to the bytes that the ledger stores, and back."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

COMPRESSED = 8192
"""JSON texts of at least this many bytes are compressed."""


def pack(text: str) -> bytes:
    """The stored form of a JSON text: a letter, which tells whether the text is compressed, then the text."""
    plain = text.encode()
    return b"t" + plain if len(plain) < COMPRESSED else b"z" + zlib.compress(plain, 1)


def pack_vectors(vectors: Sequence[Sequence[float]]) -> bytes:
    """The stored form of vectors: a letter, the number of vectors, then 32-bit floats."""
    if len({*map(len, vectors)}) > 1:
        raise ValueError("has vectors of different lengths")
    floats = (struct.pack(f"<{len(vector)}f", *vector) for vector in vectors)
    return b"f" + len(vectors).to_bytes(4, "little") + b"".join(floats)


def unpack(value: bytes) -> Any:
    tag, rest = value[:1], value[1:]
    if tag == b"f":
        vectors: list[list[float]] = (
            np.frombuffer(rest, "<f4", offset=4).reshape(int.from_bytes(rest[:4], "little"), -1).tolist()
        )
        return vectors
    try:
        return json.loads(zlib.decompress(rest) if tag == b"z" else rest)
    except zlib.error as error:
        raise ValueError(str(error)) from error
