"""``moot demo``: debates three claims with recorded replies, and writes the report of each."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from moot.cli.screen import PipedConsole, Screen
from moot.core.errors import error_from_record
from moot.core.files import write_atomically, write_error
from moot.core.lazy import install_step
from moot.graphs import DebateSystem, load_graph
from moot.nodes import StoreUse, store_use
from moot.nodes._runtime.running import DebateRun
from moot.transcript import Live
from moot.transcript.report.report import report
from rich.console import Console

CLAIMS = {
    "tallest-building": (
        "The Burj Khalifa took over the title of the world's tallest building from the Petronas Towers.",
        "The debaters agree in the first round.",
    ),
    "space-station": (
        "The International Space Station has been inhabited ever since its first module reached orbit.",
        "A debater changes its mind over two passages: one that the other debater quoted, and one that its second "
        "search finds.",
    ),
    "notre-dame": (
        "The roof timbers of Notre-Dame that burned in 2019 had been cut in the thirteenth century.",
        "The claim stays open: both debaters find passages about it and search on, but nothing settles it.",
    ),
}
"""The claims by the names of their reports, each with the course of its debate."""
SETTINGS: dict[str, Any] = {
    "preset": "practical",
    "debaters": [
        {"name": "encyclopaedia", "retriever": "bm25:demo-encyclopaedia"},
        {"name": "news", "retriever": "bm25:demo-news"},
    ],
    "k": 1,
    "keep_evidence": True,
}
"""The settings of the debates, without their models. With one passage a search, a debater does not find all at once."""
RECORDED = {"model": "recorded:demo"}

FIRST = (
    "Three claims, each debated by two debaters: one searches a small encyclopaedia, the other one searches news. The "
    "model's replies come from a record. Searches and checks of quotes are made now. No model and no website is asked."
)
LAST = "The model's replies came from a record: your own model may answer worse or better."
SETUP = "\nThen, once, all of moot (several gigabytes):\n  {step}"
NEXT = """
A claim of your own, with Ollama (first: ollama pull qwen3:8b):
  {moot} verify "The Suez Canal has locks." --model ollama:qwen3:8b
Or with a key (first: export OPENAI_API_KEY=sk-...):
  {moot} verify "The Suez Canal has locks." --model openai:gpt-4o-mini
"""


def demo(out: Path) -> None:
    """Debates the claims, prints the debates, and writes their reports to the folder ``out``.

    Raises:
        UserError, WorldError: a debate failed, or a report cannot be written.
    """
    console = PipedConsole(soft_wrap=not sys.stdout.isatty(), highlight=False)
    system = load_graph("tool_mad")
    console.print(FIRST)
    files = []
    for number, (name, (claim, course)) in enumerate(CLAIMS.items(), start=1):
        console.print(f"\n{number} of {len(CLAIMS)}: {course}", style="bold")
        document = debate(system, claim, console)
        files.append(out / f"{name}.html")
        try:
            out.mkdir(parents=True, exist_ok=True)
            write_atomically(files[-1], report(document, "html"))
        except OSError as error:
            raise write_error(files[-1], error) from error
    paths = "".join(f"\n  {file}" for file in files)
    console.print(f"\nThe reports, with all passages and quotes:{paths}", markup=False)
    if sys.stdout.isatty() and has_desktop():
        webbrowser.open(files[1].resolve().as_uri())
    is_small = not (find_spec("sentence_transformers") and find_spec("langgraph_api"))
    if is_small:
        console.print(SETUP.format(step=install_step("encoders,server")), markup=False)
    console.print(NEXT.format(moot="moot" if is_small or shutil.which("moot") else sys.argv[0]), markup=False)
    console.print(LAST)


def debate(system: DebateSystem, claim: str, console: Console) -> dict[str, Any]:
    """Debates a claim with recorded replies, prints the debate while it runs, and returns its document.

    Raises:
        UserError, WorldError: the debate failed.
    """
    settings = system.settings(**SETTINGS, **RECORDED)
    live = Live(settings)
    screen = Screen(console, live.speakers)
    with store_use(StoreUse("off")):
        run = DebateRun(system.graph, settings, lambda new: screen.show(live.feed(new)))
        document = asyncio.run(run.run({"claim": claim}))
    if error := document["error"]:
        error["detail"] = f"{error['where']}: {error['detail']}"
        raise error_from_record(error)
    screen.show(live.end(document))
    return document


def has_desktop() -> bool:
    """Whether a browser would open a window. Without a desktop, Linux would start a browser in the terminal."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
