"""``moot index``: adds files to a corpus."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path

from moot.core.config import value_of
from moot.core.endpoint import close_clients
from moot.core.errors import UserError
from moot.core.words import count_with_noun
from moot.retrievers import index_passages, read_passages
from moot.retrievers._archives import is_url
from moot.retrievers._corpus import check_own_name
from moot.retrievers._encoders import DEFAULT_ENCODER
from moot.retrievers._files import read_page
from moot.retrievers._filling import Fill, fill_in_process
from moot.retrievers._lexical import NO_ENCODER
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def index_path(path: str, corpus: str, embedder: str | None, fill: Fill | None = None) -> None:
    """Adds a file, a folder or a page to a corpus, with a progress bar on standard error.

    Args:
        path: a file, a folder or an address.
        corpus: the corpus's name.
        embedder: the encoder's name; None for the default.
        fill: encodes and stores the passages, such as with the workers of a queue; None for this process.

    Raises:
        UserError: there is nothing to read, a name is not valid, or the corpus is damaged or has another encoder. If
            some files are unreadable, the others are indexed, a message about each unreadable file is printed, and then
            the error is raised. The same applies to passages that are too long for the encoder's endpoint.
        UserError, WorldError: the page cannot be fetched or read, or the encoder, the store or the queue failed.
        SystemExit: Ctrl-C was pressed while passages were indexed (130).
    """
    check_own_name(corpus)
    too_long: list[UserError] = []
    fill = fill or partial(fill_in_process, leave_out=too_long.append)
    console = Console(stderr=True)
    refused: list[UserError] = []
    notes: list[str] = []
    read = (
        iter(read_page(path, notes.append)) if is_url(path) else read_passages(Path(path), refused.append, notes.append)
    )
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
            manifest = await index_passages(
                corpus, passages, encoder=embedder or DEFAULT_ENCODER, progress=advance, fill=fill
            )
        finally:
            await close_clients()
        return manifest.passages

    try:
        if first:
            with progress_bars(console) as progress:
                bar = progress.add_task(f"indexing into {corpus}", total=None)
                stored = asyncio.run(build(lambda seen: progress.update(bar, completed=seen)))
    finally:
        for note in (*notes, *map(str, refused), *map(str, too_long)):
            console.print(note, highlight=False, markup=False, soft_wrap=True)
    if not first:
        raise UserError(f"Nothing could be read in {path}.", kind="invalid_file")
    console.print(
        f"{count_with_noun(total, 'passage')} read, {encoded:,} encoded; the corpus {corpus} now has {stored:,}. "
        f"Use it with: moot verify CLAIM {options_for(corpus, embedder or DEFAULT_ENCODER)}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    if too_long:
        subject = "1 passage was" if len(too_long) == 1 else f"{len(too_long)} passages were"
        raise UserError(f"{subject} left out (named above); the others are indexed.", kind="too_long")
    if refused:
        subject = "1 file was" if len(refused) == 1 else f"{len(refused)} files were"
        raise UserError(f"{subject} not read (named above); the others are indexed.", kind="invalid_file")


def options_for(corpus: str, encoder: str) -> str:
    """The options with which `moot verify` searches a corpus that was built with this encoder."""
    if encoder == NO_ENCODER:
        return f"--corpus {corpus} --set debaters.0.retriever=bm25"
    is_usual = encoder == (value_of("embedder") or DEFAULT_ENCODER)
    return f"--corpus {corpus}" + ("" if is_usual else f" --set {shlex.quote(f'embedder={encoder}')}")


def queue_of(queue: str | None, *, named: bool) -> str | None:
    """The address of the queue whose workers fill a corpus; None if this machine fills it.

    Workers can fill a corpus only on a Chroma server, that is if ``MOOT_CHROMA_URL`` is set. Without this variable, an
    address from ``MOOT_QUEUE`` is ignored.

    Args:
        queue: the address of a queue; None or empty for none.
        named: whether the address is from the option ``--queue``, and not from ``MOOT_QUEUE``.

    Raises:
        UserError: the address is from the option, but ``MOOT_CHROMA_URL`` is not set.
    """
    if not queue or os.environ.get("MOOT_CHROMA_URL", "").strip():
        return queue or None
    if named:
        raise UserError(
            "The workers of a queue store passages on a Chroma server: set MOOT_CHROMA_URL for this command and for "
            "the workers. Without --queue, this machine indexes into its own folder.",
            kind="invalid_environment",
        )
    return None


@contextmanager
def progress_bars(console: Console) -> Iterator[Progress]:
    """Context with progress bars, which are shown if the console is a terminal.

    Raises:
        SystemExit: Ctrl-C was pressed (130).
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
            yield progress
    except KeyboardInterrupt:
        console.print("Interrupted. Run the same command again; passages that are indexed already are kept.")
        raise SystemExit(130) from None
