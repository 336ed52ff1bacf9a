"""Less frequent garbage collection in processes that run many debates."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ALLOCATIONS = 200_000
"""Allocations of objects after which Python collects garbage. At 700, the default of Python 3.11, garbage collection
takes a quarter of the computing time of many concurrent debates. Rarer collections need tens of megabytes more memory,
or more than that if debates have long texts.
"""


_lock = threading.Lock()
_thresholds: list[tuple[int, int, int]] = []
"""One element for each active context: Python's thresholds before the first of the contexts began."""


@contextmanager
def collected_seldom() -> Iterator[None]:
    """Context manager that makes garbage collection rare in the whole process, and restores the thresholds at the end.

    Several of these contexts may be active at once; the last of them to end restores the thresholds. Nothing changes
    if the first threshold is 0 (no collection) or at least `ALLOCATIONS`. moot's commands, evaluations and the server
    of its page use this context. A graph does not: the program that runs the graph decides.

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
