"""A run is heard to be cancelled after the development server's own patience is over, too."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import asyncio, importlib
from moot.web.cancelling import RUNTIME, listen_on
from langgraph_api.asyncio import ValueEvent
from langgraph_runtime_inmem.inmem_stream import Message

class Queue:  # no message for as long as the server waits, twice; then one
    messages = [None, None, Message(topic=b"run", data=b"interrupt")]

    async def get(self):
        if (message := self.messages.pop(0)) is None:
            raise TimeoutError
        return message

async def cancelled():
    done, ids = ValueEvent(), ["01a200c3-1f9c-7796-acfd-edbddb149c86"] * 2
    await asyncio.wait_for(importlib.import_module(RUNTIME).listen_for_cancellation(Queue(), *ids, done), 10)
    return type(done._value).__name__

importlib.import_module(RUNTIME)
listen_on()
print(asyncio.run(cancelled()))
"""
"""In a process of its own: the server's modules change logging and more for whoever imports them."""


def test_a_run_is_cancelled_after_a_long_time() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines()[-1:] == ["UserInterrupt"], done.stderr
