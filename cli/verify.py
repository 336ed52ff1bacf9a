"""``moot verify``: a debate as it happens, its verdict, and its result document."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from langgraph.types import Command
from moot.cli.ask import Asked
from moot.cli.output import give
from moot.cli.screen import Screen
from moot.core.errors import USER_KINDS
from moot.core.files import check_writable
from moot.graphs import DebateSystem
from moot.nodes.runtime.running import Running, Update
from moot.nodes.runtime.settings import Settings
from moot.transcript import Live
from rich.console import Console


def debate(
    system: DebateSystem, given: Mapping[str, Any], settings: Settings, *, as_json: bool, out: Path | None
) -> int:
    """Runs a debate; prints it as it happens, or its document alone; returns the exit code.

    Raises:
        UserError: the file cannot be written.
    """
    if out is not None:
        check_writable(out)
    console = Console(stderr=as_json, quiet=as_json, soft_wrap=not Console().is_terminal)
    live = Live(settings)
    screen = Screen(console, live.speakers, Console(stderr=True, soft_wrap=console.soft_wrap))
    document = held_debate(system, given, settings, lambda written: screen.show(live.feed(written)))
    give(document, as_json=as_json, out=out)
    if not as_json:
        screen.show(live.end(document))
    elif document["error"]:
        print(f"moot: {document['error']['detail']}", file=sys.stderr)  # noqa: T201
    return exit_code(document)


def held_debate(system: DebateSystem, given: Mapping[str, Any], settings: Settings, update: Update) -> dict[str, Any]:
    """The result document of a debate; where it waits for a person, whoever is at the terminal is asked."""
    running, person = Running(system.graph, settings, update), Asked()
    document = asyncio.run(running.run(dict(given)))
    while running.waits:
        waits = sorted(running.waits.items(), key=lambda wait: str(wait[1]["about"]))
        try:
            replies = {id: person.reply(value) for id, value in waits}
        except (EOFError, KeyboardInterrupt):
            return document
        document = asyncio.run(running.run(Command(resume=replies)))
    return document


def exit_code(document: dict[str, Any]) -> int:
    """0 for a verdict, 2 for the user's mistakes, 3 for the world's, 130 for an interrupted debate."""
    if document["status"] == "done":
        return 0
    if document["status"] == "interrupted":
        return 130
    return 2 if document["error"]["kind"] in USER_KINDS else 3
