"""``moot index``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moot.core.endpoint import close_clients
from moot.core.errors import UserError
from moot.core.own_folder import own_folder
from moot.retrievers import DEFAULT_ENCODER, index_passages, read_passages
from moot.retrievers.documents.fetch import is_url
from moot.retrievers.files import Passage, read_page
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def index_path(path: str, corpus: str, embedder: str | None) -> None:
    """Adds files to a corpus, with a progress bar on standard error.

    Raises:
        UserError: nothing to read, a bad name, another encoder than the corpus has. What could be read is indexed; if
            some files could not, that is the error, after each was named.
    """
    console = Console(stderr=True)
    with own_folder("moot-index-") as folder:
        _index(path, corpus, embedder, folder / "passages.jsonl", console)


def _index(path: str, corpus: str, embedder: str | None, kept: Path, console: Console) -> None:
    refused: list[UserError] = []
    notes: list[str] = []
    total = 0
    with console.status(f"reading {path}"), kept.open("w", encoding="utf-8") as lines:
        for passage in read_page(path) if is_url(path) else read_passages(Path(path), refused.append, notes.append):
            total += 1
            lines.write(passage.model_dump_json() + "\n")
    for said in (*notes, *map(str, refused)):
        console.print(said, highlight=False, markup=False)
    if not total:
        raise UserError(f"Nothing could be read in {path}.", kind="invalid_file")
    encoded = 0

    async def build(progress: Progress) -> int:
        bar = progress.add_task(f"indexing into {corpus}", total=total)

        def advance(seen: int, fresh: int) -> None:
            nonlocal encoded
            encoded = fresh
            progress.update(bar, completed=seen)

        try:
            with kept.open(encoding="utf-8") as lines:
                passages = map(Passage.model_validate_json, lines)
                manifest = await index_passages(corpus, passages, encoder=embedder or DEFAULT_ENCODER, progress=advance)
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
