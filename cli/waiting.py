"""A spinner with the elapsed time, shown while a debate runs at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def waiting(console: Console) -> Iterator[Callable[[str], None]]:
    """Context manager: shows a spinner with the elapsed time below the output.

    In pipes, dumb terminals and quiet consoles, nothing is shown. The context manager yields a function that shows a
    text next to the time. The cursor stays visible, because a second Ctrl-C would end the process without showing the
    cursor again.
    """
    if not console.is_terminal or console.is_dumb_terminal or console.quiet:
        yield lambda text: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False)
    with Progress(*columns, console=console, transient=True, refresh_per_second=4) as progress:
        console.show_cursor(True)
        task = progress.add_task("")
        yield lambda text: progress.update(task, description=text)
