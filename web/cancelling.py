"""Cancelled debates stop, however long they have gone on.

The development server listens for four minutes whether a run is cancelled, and from then on hears nothing: the run is
called interrupted, and goes on. A debate of local models takes longer.
"""

from __future__ import annotations

import sys
from typing import Any

RUNTIME = "langgraph_runtime_inmem.ops"


def listen_on() -> None:
    """Makes the development server, where this process is one, listen until a run is over."""
    runtime: Any = sys.modules.get(RUNTIME)
    if runtime is None:
        return
    heard = runtime.listen_for_cancellation

    async def listen(queue: Any, run_id: Any, thread_id: Any, done: Any) -> None:
        while not done.is_set():
            await heard(queue, run_id, thread_id, done)

    runtime.listen_for_cancellation = listen
