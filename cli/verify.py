"""``moot verify``: a debate as it happens, its verdict, and its result document."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from moot.cli.output import check_writable, give
from moot.cli.scores import ScoredTranscript
from moot.cli.show import Transcript
from moot.graphs import DebateSystem
from moot.nodes.debate import closing
from moot.nodes.debaters import DebaterSettings
from moot.nodes.settings import Settings
from moot.retrievers.endpoint import close_clients
from moot.retrievers.errors import USER_KINDS
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
    transcript = (ScoredTranscript if isinstance(settings, DebaterSettings) else Transcript)(console, settings)
    document = asyncio.run(run_debate(system, given, settings, transcript.update))
    give(document, as_json=as_json, out=out)
    if not as_json:
        transcript.close(document)
    return exit_code(document)


async def run_debate(
    system: DebateSystem,
    given: Mapping[str, Any],
    settings: Settings,
    update: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """The result document of a debate on the ``given`` input; ``update`` is told what each node wrote.

    An interrupted debate yields the document too, with what there was.
    """
    state: dict[str, Any] = {}
    stream = system.graph.astream(dict(given), context=settings, stream_mode=["updates", "values"], subgraphs=True)
    try:
        async for place, mode, chunk in stream:
            if mode == "values" and not place:
                state = chunk
            elif mode == "updates":
                for written in chunk.values():
                    update(written or {})
    except asyncio.CancelledError:
        if "started_at" not in state:
            raise
        state = {**state, **closing(state), "status": "interrupted"}  # type: ignore[arg-type]
    finally:
        await close_clients()
    keys = system.graph.output_schema.__annotations__
    return {key: state[key] for key in keys}


def exit_code(document: dict[str, Any]) -> int:
    """0 for a verdict, 2 for the user's mistakes, 3 for the world's, 130 for an interrupted debate."""
    if document["status"] == "done":
        return 0
    if document["status"] == "interrupted":
        return 130
    return 2 if document["error"]["kind"] in USER_KINDS else 3
