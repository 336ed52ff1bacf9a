"""A run can be cancelled at any time. Without the patch, the server waits for a cancellation for four minutes only."""

from __future__ import annotations

import subprocess
import sys

from moot.core.lazy import install_step

from tests.conftest import free_port
from tests.forked import start

CODE = """
import asyncio, importlib
from moot.web.cancelling import RUNTIME, patch_cancellation
from langgraph_api.asyncio import ValueEvent
from langgraph_runtime_inmem.inmem_stream import Message

class Queue:  # two waits for a message time out; the third wait gets a message
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
"""A program for a separate process, because importing the server's modules changes the logging, for example."""


def run_forked(program: str, *words: str) -> tuple[int, str, str]:
    """Start a program as tests start a server; return its exit code, its output and its errors."""
    pipe = subprocess.PIPE
    with start([sys.executable, "-c", program, *words], server=True, stdout=pipe, stderr=pipe, text=True) as process:
        out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_a_run_is_cancelled_although_two_waits_for_a_cancellation_timed_out() -> None:
    _, out, err = run_forked(CODE)
    assert out.splitlines()[-1:] == ["UserInterrupt"], err


WITHOUT_FUNCTION = """
import sys
from moot.web import cancelling
patch_cancellation = cancelling.patch_cancellation

def patch_other_release():  # imitates a release of the server without the function
    del sys.modules[cancelling.RUNTIME].listen_for_cancellation
    patch_cancellation()

cancelling.patch_cancellation = patch_other_release
from moot.cli.main import run
run()
"""


def test_a_server_release_without_the_patched_function_is_an_error() -> None:
    """The error says how to install the right release."""
    code, out, err = run_forked(WITHOUT_FUNCTION, "serve", "--port", str(free_port()))
    last = err.splitlines()[-1]
    assert last.startswith("moot: This release of langgraph-runtime-inmem has no "), err
    assert last.endswith(f"{install_step('server')}.")
    assert (code, out) == (2, "")
