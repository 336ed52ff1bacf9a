"""Cancelled debates stop, however long they have gone on.

The development server listens for four minutes whether a run is cancelled, and from then on hears nothing: the run is
called interrupted, and goes on. A debate of local models takes longer.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from moot.core.errors import UserError

PACKAGE = "langgraph_runtime_inmem"
RUNTIME = f"{PACKAGE}.ops"


def listen_on() -> None:
    """Makes the development server, where this process is one, listen until a run is over.

    Raises:
        UserError: the server's release does not have the function of its own that this wraps.
    """
    if PACKAGE not in sys.modules:
        return
    try:
        runtime: Any = import_module(RUNTIME)
    except ImportError:
        runtime = None
    heard = getattr(runtime, "listen_for_cancellation", None)
    if heard is None:
        raise UserError(
            f"This release of langgraph-runtime-inmem has no {RUNTIME}.listen_for_cancellation, without which a "
            "debate that runs for more than four minutes cannot be stopped. Install the releases that moot was tried "
            "with: pip install 'moot[server]'.",
            kind="missing_package",
        )

    async def listen(queue: Any, run_id: Any, thread_id: Any, done: Any) -> None:
        while not done.is_set():
            await heard(queue, run_id, thread_id, done)

    runtime.listen_for_cancellation = listen
