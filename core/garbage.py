"""Less frequent garbage collection in processes that run many debates."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ALLOCATIONS = 200_000
"""Allocations between two collections. With Python's default of 700, garbage collection takes a quarter of the
computing time of many concurrent debates. The garbage that is collected later takes tens of megabytes, more if debates
have long texts.
"""


_lock = threading.Lock()
_thresholds: list[tuple[int, int, int]] = []
"""For each active context, the thresholds before the first context."""


@contextmanager
def collected_seldom() -> Iterator[None]:
    """Context manager that makes garbage collection rare in the whole process, and restores the thresholds at the end.

    It may be active several times at once: the last one to end restores the thresholds. It changes nothing if the
    first threshold is 0 (no collection) or at least `ALLOCATIONS`. moot's commands, evaluations and the server of its
    page use it. A graph does not: the program that runs the graph decides whether to use it.

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
