"""Makes cancellation work on LangGraph's development server for debates of any length.

Without this module, the server checks for the cancellation of a run only for four minutes. After that, a cancelled run
is marked as interrupted, but continues. Debates with local models often take longer.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from moot.core.errors import UserError
from moot.core.lazy import install_step

PACKAGE = "langgraph_runtime_inmem"
"""The package that only LangGraph's development server imports."""
RUNTIME = f"{PACKAGE}.ops"


def patch_cancellation() -> None:
    """Makes the development server check for cancellation until a run is over; does nothing in other processes."""
    if PACKAGE not in sys.modules:
        return
    try:
        runtime: Any = import_module(RUNTIME)
    except ImportError:
        runtime = None
    original = getattr(runtime, "listen_for_cancellation", None)
    if original is None:
        raise UserError(
            f"This release of langgraph-runtime-inmem has no {RUNTIME}.listen_for_cancellation, without which a "
            "debate that runs for more than four minutes cannot be stopped. Install the releases that moot was tested "
            f"with: {install_step('server')}.",
            kind="missing_package",
        )

    async def listen_until_done(queue: Any, run_id: Any, thread_id: Any, done: Any) -> None:
        while not done.is_set():
            await original(queue, run_id, thread_id, done)

    runtime.listen_for_cancellation = listen_until_done
