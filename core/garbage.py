"""Less frequent garbage collection in processes that run many debates."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ALLOCATIONS = 200_000
"""The excess of allocations over deallocations of objects at which Python collects garbage.

At 700, the default of Python 3.11, garbage collection takes a quarter of the computing time of many concurrent debates.
With this larger number, a process needs tens of megabytes more memory; with long texts, it needs even more.
"""


_lock = threading.Lock()
_thresholds: list[tuple[int, int, int]] = []
"""One element for each active `collected_seldom`: Python's thresholds before the first of these contexts began."""


@contextmanager
def collected_seldom() -> Iterator[None]:
    """Context manager that makes garbage collection rare in the whole process.

    It raises Python's first threshold to `ALLOCATIONS`. Nothing changes if this threshold is 0 (no collection) or
    larger than `ALLOCATIONS`. Several of these contexts may be active at once; the last one to end restores the
    thresholds. moot's commands, workers, evaluations and web server use this context. Graphs do not use it, so that
    the program that runs a graph decides:

        with collected_seldom():
            asyncio.run(check(claims))
    """
    with _lock:
        before = _thresholds[0] if _thresholds else gc.get_threshold()
        _thresholds.append(before)
        if before[0]:
            gc.set_threshold(max(ALLOCATIONS, before[0]), *before[1:])
    try:
        yield
    finally:
        with _lock:
            _thresholds.pop()
            if not _thresholds:
                gc.set_threshold(*before)
