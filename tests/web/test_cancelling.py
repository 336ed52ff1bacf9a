"""A run can be cancelled even after the timeout of the development server."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import free_port
from tests.forked import start

CODE = """
import asyncio, importlib
from moot.web.cancelling import RUNTIME, patch_cancellation
from langgraph_api.asyncio import ValueEvent
from langgraph_runtime_inmem.inmem_stream import Message

class Queue:  # the server waits twice without getting a message, and gets one the third time
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
patch_cancellation()
print(asyncio.run(cancelled()))
"""
"""A program that needs its own process, because importing the server's modules changes logging and more."""


def run_forked(program: str, *words: str) -> tuple[int, str, str]:
    """Run a program in a new process that is forked as servers are; return its exit code, its output and its errors."""
    pipe = subprocess.PIPE
    with start([sys.executable, "-c", program, *words], server=True, stdout=pipe, stderr=pipe, text=True) as process:
        out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_a_cancellation_arrives_after_the_servers_own_timeout() -> None:
    _, out, err = run_forked(CODE)
    assert out.splitlines()[-1:] == ["UserInterrupt"], err


WITHOUT_FUNCTION = """
import sys
from moot.web import cancelling
patch_cancellation = cancelling.patch_cancellation

def without_it():  # as in a release of the server without the function
    del sys.modules[cancelling.RUNTIME].listen_for_cancellation
    patch_cancellation()

cancelling.patch_cancellation = without_it
from moot.cli.main import run
run()
"""


def test_if_langgraphs_server_lacks_the_patched_function_the_error_says_what_to_do() -> None:
    code, out, err = run_forked(WITHOUT_FUNCTION, "serve", "--port", str(free_port()))
    last = err.splitlines()[-1]
    assert last.startswith("moot: This release of langgraph-runtime-inmem has no "), err
    assert last.endswith("pip install 'moot[server]'.")
    assert (code, out) == (2, "")
