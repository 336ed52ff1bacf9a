"""The first debate of a process opens no file and starts no subprocess in the event loop, except in late imports."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.conftest import StartStub

SCRIPT = """
import asyncio, sys, threading
from moot.core.endpoint import close_clients
from moot.graphs import load_graph

systems = {name: load_graph(name) for name in ("cortex_debate", "chain_of_thought")}
opened, loop = [], threading.get_ident()

def record(event, given):
    if event in ("open", "subprocess.Popen") and threading.get_ident() == loop:
        frame = sys._getframe()
        while frame := frame.f_back:
            if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
                return  # a late import may open files
        opened.append(given[0])

async def hold_debates():
    sys.addaudithook(record)
    for name, more in {"cortex_debate": {"embedder": "openai:stub"}, "chain_of_thought": {"demonstrations": 1}}.items():
        settings = systems[name].settings.model_validate({"model": "openai:stub", **more})
        document = await systems[name].graph.ainvoke({"claim": "Tin is soft.", "task": "fever"}, context=settings)
        assert document["status"] == "done", document["error"]
    await close_clients()
    print(opened)

asyncio.run(hold_debates())
"""


def test_a_first_debate_opens_no_file_and_starts_no_process_in_the_event_loop(start_stub: StartStub) -> None:
    start_stub()
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=os.environ)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
