"""Inspect hooks that report every ended sample, and close connections at the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from inspect_ai.hooks import Hooks, RunEnd, SampleEnd, hooks
from inspect_ai.log import EvalSample
from moot.core.endpoint import close_clients

Watch = Callable[[EvalSample], None]
"""A function that is called with each sample that has ended."""

_watches: list[Watch] = []


@hooks(name="debates", description="Closes the connections that debates opened, when a run ends.")
class DebateHooks(Hooks):
    """Hooks for debates in Inspect.

    A connection belongs to an event loop, and each run of Inspect has a new loop. So connections are closed when a run
    ends: the next run could not use them.
    """

    async def on_sample_end(self, data: SampleEnd) -> None:
        """Call the callbacks of `watch_samples`."""
        for watch in _watches:
            watch(data.sample)

    async def on_run_end(self, data: RunEnd) -> None:
        """Close the run's connections."""
        await close_clients()


@contextmanager
def watch_samples(watch: Watch) -> Iterator[None]:
    """Within this context, ``watch`` is called for every sample that ends."""
    _watches.append(watch)
    try:
        yield
    finally:
        _watches.remove(watch)
