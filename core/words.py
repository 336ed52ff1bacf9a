"""Numbers in sentences."""

from __future__ import annotations


def count_with_noun(count: int, noun: str) -> str:
    """A number with its noun: ``1 call``, ``1,200 calls``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
