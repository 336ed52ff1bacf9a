"""A spinner with the time that has passed, while a debate runs at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def waiting(console: Console) -> Iterator[Callable[[str], None]]:
    """Shows below what is printed that something runs, and for how long; nothing in pipes and plain terminals.

    The function that it gives shows a text beside the time.
    The cursor stays visible: a second Ctrl-C ends the process before it could be shown again.
    """
    if not console.is_terminal or console.is_dumb_terminal or console.quiet:
        yield lambda said: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False)
    with Progress(*columns, console=console, transient=True, refresh_per_second=4) as progress:
        console.show_cursor(True)
        task = progress.add_task("")
        yield lambda said: progress.update(task, description=said)
