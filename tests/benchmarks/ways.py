"""Runs debates or single calls in one of several ways, with a fixed number of them at the same time.

scale.py and growth.py start a scripted endpoint, set OPENAI_BASE_URL to it, and run this program in a new process for
each measurement. The program prints the figures as one line of JSON.

    python -m tests.benchmarks.ways moot [--work 120] [--at-once 64] [--set NAME=JSON]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from tests.benchmarks import floor
from tests.benchmarks.latency import RULES, SETTINGS

RunOne = Callable[[int], Awaitable[int]]
"""A function that runs the debate, or makes the single call, with a given number. It returns the number of calls."""
Settings = dict[str, Any]
REPLY = "The claim names what the sources name. " * 45
ENDPOINT_RULES = [*RULES, *floor.RULES, {"model": "^plain$", "reply": REPLY}]
"""The scripted endpoint's replies for all ways."""
SYSTEM = "You are one of the agents who check a claim. " * 16
QUESTION = "Resolution {} says so. Is it true? Go step by step, and end with SUPPORTS, REFUTES or NOT ENOUGH INFO."


@asynccontextmanager
async def bare_aiohttp(_: Settings) -> AsyncIterator[RunOne]:
    """Tool-MAD's requests, sent with aiohttp alone."""
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield lambda i: floor.debate(session, os.environ["OPENAI_BASE_URL"], i)


async def moot_runner(graph: str, settings: Settings) -> RunOne:
    """Make a function that runs debates of a graph in moot."""
    from moot.graphs import load_graph

    system = load_graph(graph)
    context = system.settings.model_validate(settings)

    async def run_one(i: int) -> int:
        document = await system.graph.ainvoke({"claim": f"Resolution {i} says so."}, context=context)
        assert document["status"] == "done", document["error"]
        return len(document["calls"])

    return run_one


@asynccontextmanager
async def moot(settings: Settings) -> AsyncIterator[RunOne]:
    """Tool-MAD with three disputed rounds."""
    yield await moot_runner("tool_mad", {**SETTINGS, "embedder": "openai:stub-embedding", **settings})


@asynccontextmanager
async def moot_society(settings: Settings) -> AsyncIterator[RunOne]:
    """Du et al.'s debate in moot, with three agents and two rounds."""
    yield await moot_runner("society_of_minds", {"model": "openai:stub-agent", **settings})


@asynccontextmanager
async def plain_society(_: Settings) -> AsyncIterator[RunOne]:
    """Du et al.'s debate, written directly on AsyncOpenAI."""
    from openai import AsyncOpenAI

    async with AsyncOpenAI(api_key="none", timeout=120) as client:

        async def ask(messages: list[Any]) -> str:
            reply = await client.chat.completions.create(model="plain", messages=messages, temperature=0)
            return reply.choices[0].message.content or ""

        async def run_one(i: int) -> int:
            start = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION.format(i)}]
            answers = await asyncio.gather(*(ask(start) for _ in range(3)))
            revised = []
            for own in answers:
                others = "\n\n".join(f"Another agent: {answer}" for answer in answers if answer is not own)
                question = f"{others}\n\nRead what the others answered, and answer anew. {QUESTION.format(i)}"
                revised.append([*start, {"role": "assistant", "content": own}, {"role": "user", "content": question}])
            answers = [*answers, *await asyncio.gather(*(ask(messages) for messages in revised))]
            Counter(answer.rpartition(" ")[2] for answer in answers[-3:]).most_common(1)
            return len(answers)

        yield run_one


@asynccontextmanager
async def plain_openai(_: Settings) -> AsyncIterator[RunOne]:
    """Single calls of AsyncOpenAI."""
    from openai import AsyncOpenAI

    async with AsyncOpenAI(api_key="none", timeout=120) as client:

        async def run_one(i: int) -> int:
            messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"{i} {REPLY}"}]
            return len((await client.chat.completions.create(model="plain", messages=messages, temperature=0)).choices)

        yield run_one


@asynccontextmanager
async def plain_langchain(_: Settings) -> AsyncIterator[RunOne]:
    """Single calls of ChatOpenAI."""
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    chat = ChatOpenAI(model="plain", temperature=0, api_key=SecretStr("none"), timeout=120)

    async def run_one(i: int) -> int:
        await chat.ainvoke([("system", SYSTEM), ("user", f"{i} {REPLY}")])
        return 1

    yield run_one


KNOWN = (bare_aiohttp, moot, plain_society, moot_society, plain_openai, plain_langchain)
WAYS: dict[str, Callable[[Settings], AbstractAsyncContextManager[RunOne]]] = {way.__name__: way for way in KNOWN}


def endpoint_cpu() -> float:
    """Seconds of processor time that the endpoint has taken."""
    stats = os.environ["OPENAI_BASE_URL"].removesuffix("/v1") + "/stub/stats"
    with urllib.request.urlopen(stats) as reply:
        return float(json.load(reply)["cpu"])


async def time_work(options: argparse.Namespace) -> dict[str, float]:
    """Run one debate or call to load modules and fill caches, then time the work; return what `run` returns."""
    gate = asyncio.Semaphore(options.at_once)
    settings = {name: json.loads(value) for name, _, value in (pair.partition("=") for pair in options.set)}
    async with WAYS[options.way](settings) as run_one:

        async def run_gated(i: int) -> int:
            async with gate:
                return await run_one(i)

        await run_gated(-1)
        endpoint_before, wall, cpu = endpoint_cpu(), time.perf_counter(), time.process_time()
        calls = sum(await asyncio.gather(*(run_gated(i) for i in range(options.work))))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        share = (endpoint_cpu() - endpoint_before) / wall
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"wall": wall, "cpu": cpu, "calls": calls, "memory": memory, "endpoint_share": share}


def run(way: str, work: int, at_once: int, **settings: Any) -> dict[str, float]:
    """The figures of one way, measured in a new process.

    Args:
        way: one of `WAYS`.
        work: the number of debates or single calls.
        at_once: how many of them run at the same time.
        settings: the graph's settings.

    Returns:
        ``wall`` and ``cpu``: seconds of wall and processor time; ``calls``: the number of chat calls; ``memory``: the
        peak memory in MiB; ``endpoint_share``: the endpoint's processor time per second of wall time.
    """
    command = [sys.executable, "-m", "tests.benchmarks.ways", way, "--work", str(work), "--at-once", str(at_once)]
    command += [f"--set={name}={json.dumps(value)}" for name, value in settings.items()]
    found: dict[str, float] = json.loads(subprocess.check_output(command).splitlines()[-1])
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--work", type=int, default=120)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--set", action="append", default=[], help="a setting of the graph, as NAME=JSON")
    print(json.dumps(asyncio.run(time_work(parser.parse_args()))))
