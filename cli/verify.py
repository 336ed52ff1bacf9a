"""``moot verify``: a debate as it happens, its verdict, and its result document."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from langgraph.types import Command
from moot.cli.ask import Asked
from moot.cli.output import check_writable, give
from moot.cli.screen import Screen
from moot.cli.signals import Stop, end_now
from moot.core.errors import USER_KINDS
from moot.graphs import DebateSystem
from moot.nodes.runtime.document import blank_document, unfinished
from moot.nodes.runtime.running import Running, Update
from moot.nodes.runtime.settings import Settings
from moot.transcript import Live
from rich.console import Console


def debate(
    system: DebateSystem, given: Mapping[str, Any], settings: Settings, stop: Stop, *, as_json: bool, out: Path | None
) -> int:
    """Runs a debate; prints it as it happens, or its document alone; returns the exit code.

    A signal ends the process here, once the document is written: threads that are still busy would hold it up.

    Raises:
        UserError: the file cannot be written.
    """
    if out is not None:
        check_writable(out)
    console = Console(stderr=as_json, quiet=as_json, soft_wrap=not Console().is_terminal)
    live = Live(settings)
    screen = Screen(console, live.speakers, Console(stderr=True, soft_wrap=console.soft_wrap))
    runner = asyncio.Runner()
    document = held_debate(system, given, settings, lambda new: screen.show(live.feed(new)), runner, stop)
    give(document, as_json=as_json, out=out)
    if not as_json:
        screen.show(live.end(document))
    elif document["error"]:
        print(f"moot: {document['error']['detail']}", file=sys.stderr)  # noqa: T201
    if document["status"] == "interrupted":
        print(going_on(document, out), file=sys.stderr)  # noqa: T201
    if stop.signal:
        end_now(exit_code(document, stop))
    runner.close()
    return exit_code(document, stop)


def held_debate(
    system: DebateSystem,
    given: Mapping[str, Any],
    settings: Settings,
    update: Update,
    runner: asyncio.Runner,
    stop: Stop,
) -> dict[str, Any]:
    """The result document of a debate; if it waits for a person, whoever is at the terminal is asked."""
    running, person = Running(system.graph, settings, update), Asked()
    try:
        document = stop.run(runner, running.run(dict(given)))
        while running.waits:
            waits = sorted(running.waits.items(), key=lambda wait: str(wait[1]["about"]))
            replies = {id: stop.ask(partial(person.reply, value)) for id, value in waits}
            document = stop.run(runner, running.run(Command(resume=replies)))
    except (EOFError, KeyboardInterrupt):
        return document
    except asyncio.CancelledError:  # before its first step was over
        return unfinished(blank_document(system.name, settings) | {"claim": given["claim"], "messages": []})
    return document


def going_on(document: Mapping[str, Any], out: Path | None) -> str:
    """How to go on with a debate that was interrupted."""
    calls = document["usage"]["calls"]
    kept = f" What was said until then is in {out}." if out else ""
    return f"moot: interrupted after {calls} calls.{kept} The same command holds the debate again."


def exit_code(document: Mapping[str, Any], stop: Stop) -> int:
    """0 for a verdict, 2 for the user's mistakes, 3 for the world's; 130 if it was interrupted, 143 by SIGTERM."""
    if document["status"] == "done":
        return 0
    if document["status"] == "interrupted":
        return stop.exit_code
    return 2 if document["error"]["kind"] in USER_KINDS else 3
