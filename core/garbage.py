"""Less frequent garbage collection in processes that hold many debates."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

EVERY = 200_000
"""Allocations between two collections. With Python's default of 700, collection takes a quarter of the time beside the
model calls of many concurrent debates. The garbage of debates, collected later, fits in a few megabytes.
"""


_lock = threading.Lock()
_within: list[tuple[int, int, int]] = []
"""One entry for each active context: the thresholds before the first of them."""


@contextmanager
def collected_seldom() -> Iterator[None]:
    """Context manager that makes garbage collection rare in the whole process, and restores the thresholds at the end.

    It may be active several times at once: the last one to end restores the thresholds. It changes nothing if the
    thresholds are already this high or the collector is off. moot's commands and the server of its page use it. The
    library never does: use it yourself if your process should have it.

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
