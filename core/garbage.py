"""How often Python looks for cyclic garbage, in a process that holds many debates."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

EVERY = 200_000
"""Allocations between two looks. With Python's own 700, they take a quarter of the time beside the model calls of many
debates at once; what debates leave behind is found later, and fits a few megabytes."""


_lock = threading.Lock()
_within: list[tuple[int, int, int]] = []
"""For each who is within: what the thresholds were when the first came."""


@contextmanager
def collected_seldom() -> Iterator[None]:
    """Within it, Python looks for cyclic garbage seldom, in the whole process; then as often as before.

    It may be entered several times at once: the thresholds are as before when the last has left it. If they are such
    already, or the collector is switched off, nothing changes. moot's commands and the server of its page enter it. In
    your process nothing of moot does, so it is for you to decide.

        with collected_seldom():
            asyncio.run(check(claims))
    """
    with _lock:
        before = _within[0] if _within else gc.get_threshold()
        _within.append(before)
        if before[0]:
            gc.set_threshold(max(EVERY, before[0]), *before[1:])
    try:
        yield
    finally:
        with _lock:
            _within.pop()
            if not _within:
                gc.set_threshold(*before)
