"""``moot index``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moot.core.endpoint import close_clients
from moot.retrievers import DEFAULT_ENCODER, index_passages, read_passages
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def index_path(path: Path, corpus: str, embedder: str | None) -> None:
    """Adds files to a corpus, with a progress bar on standard error.

    Raises:
        UserError: nothing to read, a broken line, a bad name, another encoder than the corpus has.
    """
    console = Console(stderr=True)
    total = sum(1 for _ in read_passages(path))  # a broken line is found before anything is stored
    encoded = 0

    async def build(progress: Progress) -> int:
        bar = progress.add_task(f"indexing into {corpus}", total=total)

        def advance(seen: int, fresh: int) -> None:
            nonlocal encoded
            encoded = fresh
            progress.update(bar, completed=seen)

        try:
            manifest = await index_passages(
                corpus, read_passages(path), encoder=embedder or DEFAULT_ENCODER, progress=advance
            )
        finally:
            await close_clients()
        return manifest.passages

    with progress_bars(console) as progress:
        stored = asyncio.run(build(progress))
    console.print(
        f"{total} passages read, {encoded} encoded; the corpus {corpus} now holds {stored}. "
        f"Use it with: moot verify CLAIM --corpus {corpus}",
        highlight=False,
        markup=False,
    )


@contextmanager
def progress_bars(console: Console) -> Iterator[Progress]:
    """Bars for work that indexes, drawn where the console is a terminal; an interruption ends the program."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
            yield progress
    except KeyboardInterrupt:
        console.print("Interrupted. Run the same command again: it goes on where it was.")
        raise SystemExit(130) from None
