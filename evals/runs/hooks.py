"""What moot does while Inspect runs: tells of every sample that ends, and closes connections when a run does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from inspect_ai.hooks import Hooks, RunEnd, SampleEnd, hooks
from inspect_ai.log import EvalSample
from moot.core.endpoint import close_clients

Watch = Callable[[EvalSample], None]
"""Is told of a sample that has ended."""

_watches: list[Watch] = []


@hooks(name="debates", description="Closes the connections that debates opened, when a run ends.")
class Debates(Hooks):
    """Connections belong to an event loop, and a run of Inspect has one of its own."""

    async def on_sample_end(self, data: SampleEnd) -> None:
        """Passes it on."""
        for watch in _watches:
            watch(data.sample)

    async def on_run_end(self, data: RunEnd) -> None:
        """Closes them."""
        await close_clients()


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Has ``watch`` told of every sample meanwhile."""
    _watches.append(watch)
    try:
        yield
    finally:
        _watches.remove(watch)
