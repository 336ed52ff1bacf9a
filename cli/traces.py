"""Traces at the end of a command: they are sent, or given up in time."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 1.0
"""How long a command waits for what is still to be sent."""
IN_TIME = {"LANGSMITH_USE_DAEMON": "true", "LANGSMITH_DISABLE_RUN_COMPRESSION": "true"}
"""Without these LangSmith's client sends from threads that the end of the process waits for, however long it takes."""


@contextmanager
def sent_in_time() -> Iterator[None]:
    """What is traced within is sent at the end; a LangSmith that does not answer delays it by `SECONDS` at most."""
    os.environ |= IN_TIME
    logging.getLogger("langsmith").setLevel(logging.ERROR)  # what it says of each failure is said once, below
    try:
        yield
    finally:
        tracing = sys.modules.get("moot.nodes.tracing")  # imported by whatever can be traced
        if tracing is not None and not tracing.finish(SECONDS):
            print("moot: not all of the trace has reached LangSmith.", file=sys.stderr)  # noqa: T201
