"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _known_status(status: str | None) -> str | None:
    from moot.core.fingerprints import STATUSES

    if status is not None and status.lower() not in STATUSES:
        raise typer.BadParameter(f"there is no status {status[:40]!r}. Known: {', '.join(STATUSES)}.")
    return status and status.lower()


AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON document and nothing else.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
OfGraph = Annotated[str | None, typer.Option(help="Only debates of this system.")]
OfStatus = Annotated[
    str | None,
    typer.Option(callback=_known_status, help="Only debates that are done, failed, interrupted, running or waiting."),
]
MostDebates = Annotated[int, typer.Option(min=1, help="Maximum number of debates.")]

# Options of commands that run debates in several processes
Workers = Annotated[int, typer.Option(min=1, max=256, help="Number of processes.")]
DebatesAtOnce = Annotated[int, typer.Option(min=1, max=1000, help="Debates in flight in each process.")]
Queue = Annotated[
    str | None,
    typer.Option(
        envvar="MOOT_QUEUE",
        metavar="postgresql://...",
        help="The address of a Postgres that stores the rows, the documents and the replies. `moot worker` runs the "
        "rows, on any machine.",
        show_envvar=False,
    ),
]
MaxSeconds = Annotated[float | None, typer.Option(min=0, help="Maximum duration of this run, in seconds.")]

# Options of commands that run evaluations
SettingsOfAll = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of every system that has it. Repeatable."),
]
CorpusOfAll = Annotated[str | None, typer.Option(help="The corpus that every system reads; see `moot index`.")]
MostItems = Annotated[int | None, typer.Option(min=1, help="Maximum number of items from each benchmark.")]
SampleSeed = Annotated[
    int | None, typer.Option(help="Seed to draw the items at random.", show_default="the first items")
]
Logs = Annotated[Path, typer.Option(help="The folder of Inspect's logs.")]
SamplesAtOnce = Annotated[int, typer.Option(min=1, max=1000, help="Samples in flight.")]
CallsAtOnce = Annotated[int, typer.Option(min=1, max=1000, help="Model calls in flight.")]
