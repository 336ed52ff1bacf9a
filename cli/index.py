"""``moot index``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from moot.core.endpoint import close_clients
from moot.core.errors import UserError
from moot.retrievers import DEFAULT_ENCODER, index_passages, read_passages
from moot.retrievers.corpus import check_own
from moot.retrievers.documents.fetch import is_url
from moot.retrievers.files import read_page
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def index_path(path: str, corpus: str, embedder: str | None) -> None:
    """Adds files to a corpus, with a progress bar on standard error.

    Raises:
        UserError: nothing to read, a bad name, another encoder than the corpus has. What could be read is indexed; if
            some files could not, that is the error, after each was named.
    """
    check_own(corpus)
    console = Console(stderr=True)
    refused: list[UserError] = []
    notes: list[str] = []
    read = iter(read_page(path)) if is_url(path) else read_passages(Path(path), refused.append, notes.append)
    with console.status(f"reading {path}"):
        first = next(read, None)
    total = encoded = stored = 0

    async def build(bar: Callable[[int], None]) -> int:
        def advance(seen: int, fresh: int) -> None:
            nonlocal total, encoded
            total, encoded = seen, fresh
            bar(seen)

        passages = chain([first] if first else [], read)
        try:
            manifest = await index_passages(corpus, passages, encoder=embedder or DEFAULT_ENCODER, progress=advance)
        finally:
            await close_clients()
        return manifest.passages

    try:
        if first:
            with progress_bars(console) as progress:
                bar = progress.add_task(f"indexing into {corpus}", total=None)
                stored = asyncio.run(build(lambda seen: progress.update(bar, completed=seen)))
    finally:
        for said in (*notes, *map(str, refused)):
            console.print(said, highlight=False, markup=False, soft_wrap=True)
    if not first:
        raise UserError(f"Nothing could be read in {path}.", kind="invalid_file")
    console.print(
        f"{total} passages read, {encoded} encoded; the corpus {corpus} now holds {stored}. "
        f"Use it with: moot verify CLAIM --corpus {corpus}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    if refused:
        several = "1 file was" if len(refused) == 1 else f"{len(refused)} files were"
        raise UserError(f"{several} not read (named above); the others are indexed.", kind="invalid_file")


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
