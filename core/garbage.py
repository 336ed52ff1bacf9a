"""How often Python looks for cyclic garbage, in a process that holds many debates."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

EVERY = 50_000
"""Allocations between two looks. With Python's own 700, they take a quarter of the time beside the model calls of many
debates at once; what debates leave behind is found later, and fits a few megabytes."""


@contextmanager
def collected_seldom() -> Iterator[None]:
    """Within it, Python looks for cyclic garbage seldom, in the whole process; then as often as before.

    moot's commands and its page's server do so. A process of your own decides for itself: nothing else in moot changes
    the collector's settings. Where they are such already, or the collector is switched off, nothing changes.

        with collected_seldom():
            asyncio.run(check(claims))
    """
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(EVERY, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
