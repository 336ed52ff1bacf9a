"""``moot verify``: a debate as it happens, its verdict, and its result document."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from moot.cli.ask import Asked
from moot.cli.output import check_writable, give
from moot.cli.scores import ScoredTranscript
from moot.cli.show import Transcript
from moot.cli.trial import TrialTranscript
from moot.core.endpoint import close_clients
from moot.core.errors import USER_KINDS
from moot.graphs import DebateSystem
from moot.nodes.runtime.opening import closing
from moot.nodes.runtime.settings import Settings
from moot.nodes.runtime.state import folded, place_of, written_values
from moot.nodes.speakers.debaters import DebaterSettings
from moot.nodes.trial.courtroom import TrialSettings
from rich.console import Console

INTERRUPT = "__interrupt__"
TRANSCRIPTS: Mapping[type[Settings], type[Transcript]] = {
    DebaterSettings: ScoredTranscript,
    TrialSettings: TrialTranscript,
}
"""What prints debates with settings of these kinds; others are printed by `Transcript` itself."""


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
    printer = next((of for kind, of in TRANSCRIPTS.items() if isinstance(settings, kind)), Transcript)
    transcript = printer(console, settings)
    transcript.errors = Console(stderr=True, soft_wrap=console.soft_wrap)
    document = held_debate(system, given, settings, transcript.update)
    give(document, as_json=as_json, out=out)
    if not as_json:
        transcript.close(document)
    elif document["error"]:
        print(f"moot: {document['error']['detail']}", file=sys.stderr)  # noqa: T201
    return exit_code(document)


def held_debate(system: DebateSystem, given: Mapping[str, Any], settings: Settings, update: Update) -> dict[str, Any]:
    """The result document of a debate; where it waits for a person, whoever is at the terminal is asked."""
    running, person = Running(system, settings, update), Asked()
    document = asyncio.run(running.run(dict(given)))
    while running.waits:
        waits = sorted(running.waits.items(), key=lambda wait: str(wait[1]["about"]))
        try:
            replies = {id: person.reply(value) for id, value in waits}
        except (EOFError, KeyboardInterrupt):
            return document
        document = asyncio.run(running.run(Command(resume=replies)))
    return document


async def run_debate(
    system: DebateSystem, given: Mapping[str, Any], settings: Settings, update: Update
) -> dict[str, Any]:
    """The result document of a debate on the ``given`` input; ``update`` is told what each node wrote."""
    return await Running(system, settings, update).run(dict(given))


Update = Callable[[dict[str, Any]], None]


class Running:
    """A debate that runs, and stops where it waits for a person.

    Args:
        system: its graph.
        settings: its settings.
        update: is told what each node wrote.
    """

    def __init__(self, system: DebateSystem, settings: Settings, update: Update) -> None:
        saver = InMemorySaver() if getattr(settings, "ask_person", ()) else None
        self.graph = system.graph.builder.compile(checkpointer=saver, name=system.graph.name) if saver else system.graph
        self.settings = settings
        self.update = update
        self.waits: dict[str, Any] = {}
        self.state: dict[str, Any] = {}
        self.inner: list[tuple[tuple[str, ...], dict[str, Any]]] = []

    async def run(self, given: Any) -> dict[str, Any]:
        """The document, once the debate is over or waits.

        An interrupted debate yields it too, with what there was, also within a step of it that is a graph.
        """
        self.waits = {}
        try:
            await self._stream(given)
        except asyncio.CancelledError:
            if "started_at" not in self.state:
                raise
            self.waits = {}
            return self._unfinished()
        finally:
            await close_clients()
        return self._unfinished() if self.waits else self._document(self.state)

    async def _stream(self, given: Any) -> None:
        config = {"configurable": {"thread_id": "moot"}}
        modes = ["updates", "values"]
        stream = self.graph.astream(given, config, context=self.settings, stream_mode=modes, subgraphs=True)
        async for place, mode, chunk in stream:
            if mode == "values" and not place:
                self._known(chunk)
            elif mode == "updates" and INTERRUPT not in chunk:
                for node, update in chunk.items():
                    written = written_values(update or {})
                    self.inner = [*without_steps(self.inner, (*place, node), written), (place, written)]
                    self.update(written)
            elif mode == "updates" and not place:
                self.waits |= {wait.id: wait.value for wait in chunk[INTERRUPT]}

    def _known(self, values: dict[str, Any]) -> None:
        """A step of the debate is over, or waits; what was handed on is in its state now."""
        if INTERRUPT not in values and values != self.state:
            self.state = values
            self.inner = [(place, written) for place, written in self.inner if place and self.waits]

    def _unfinished(self) -> dict[str, Any]:
        state = self.state
        for _, written in self.inner:
            state = folded(state, written)
        return self._document({**state, **closing(state), "status": "interrupted"})  # type: ignore[arg-type]

    def _document(self, state: Mapping[str, Any]) -> dict[str, Any]:
        return {key: state[key] for key in self.graph.output_schema.__annotations__}


Written = tuple[tuple[str, ...], dict[str, Any]]
"""Something that was written, after its place: graphs within graphs, as ``name:run``."""


def without_steps(written: list[Written], graph: tuple[str, ...], handed: Mapping[str, Any]) -> list[Written]:
    """What was written, without what the steps of a graph wrote that has ended: it hands all that on.

    Of several runs of the graph at the same time those go on that wrote something which was not handed on.

    Args:
        written: by steps of the debate.
        graph: the place of a node that may be a graph; its last part is its name alone.
        handed: what the node wrote when it ended.
    """
    depth = len(graph)
    turns = {place_of(turn) for turn in handed.get("turns") or ()}
    calls = handed.get("calls") or ()

    def run_of(place: tuple[str, ...]) -> tuple[str, ...] | None:
        within = len(place) >= depth and (*place[: depth - 1], place[depth - 1].partition(":")[0]) == graph
        return place[:depth] if within else None

    under_way = {
        run_of(place)
        for place, of in written
        if any(place_of(turn) not in turns for turn in of.get("turns") or ())
        or any(call not in calls for call in of.get("calls") or ())
    }
    return [(place, of) for place, of in written if run_of(place) is None or run_of(place) in under_way]


def exit_code(document: dict[str, Any]) -> int:
    """0 for a verdict, 2 for the user's mistakes, 3 for the world's, 130 for an interrupted debate."""
    if document["status"] == "done":
        return 0
    if document["status"] == "interrupted":
        return 130
    return 2 if document["error"]["kind"] in USER_KINDS else 3
