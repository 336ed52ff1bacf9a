"""SIGTERM and Ctrl-C: stop a command without losing its results."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from types import FrameType, TracebackType
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
STOPPED_BY_KEY = 128 + signal.SIGINT
"""The exit code after Ctrl-C."""


class Stop:
    """Context in which SIGTERM and Ctrl-C stop the current or next debate, so that its document is written.

    A second Ctrl-C ends the process at once. A signal that this process ignores stays ignored.
    """

    def __init__(self) -> None:
        self.signal = 0
        """The received signal; 0 for none."""
        self._act: Callable[[], None] = _nothing
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._heard)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """The exit code of a stopped command: 143 after SIGTERM, else 130."""
        return 128 + self.signal if self.signal else STOPPED_BY_KEY

    def run(self, runner: asyncio.Runner, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine and returns its result; a signal, even an earlier one, cancels it."""

        async def cancellable() -> T:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None
            with woken_by_signals(loop), self._acting(lambda: loop.call_soon_threadsafe(task.cancel)):
                return await coroutine

        return runner.run(cancellable(), context=copy_context())  # without it, the context of the runner's first run

    def ask(self, person: Callable[[], T]) -> T:
        """Asks the person at the terminal and returns the reply.

        Raises:
            KeyboardInterrupt: a signal came.
        """
        with self._acting(_raise):
            return person()

    @contextlib.contextmanager
    def _acting(self, act: Callable[[], Any]) -> Iterator[None]:
        self._act = act
        try:
            if self.signal:
                self._act_once()
            yield
        finally:
            self._act = _nothing

    def _act_once(self) -> None:
        act, self._act = self._act, _nothing
        act()

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:  # not after SIGTERM: `timeout` always sends two
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        if not self.signal:
            self.signal = number
            os.write(2, b"moot: stopping. Ctrl-C once more ends at once.\n")  # a stream may be in the middle of a write
            self._act_once()


class Threads(ThreadPoolExecutor):
    """The threads of a command's event loop, in which searches run that would block it.

    A search that nobody waits for any longer, because its time is up, cannot be stopped. The command then ends without
    waiting for it (`end_now`).
    """

    def __init__(self, runner: asyncio.Runner) -> None:
        super().__init__(thread_name_prefix="asyncio")
        self._running: set[Future[Any]] = set()
        runner.get_loop().set_default_executor(self)

    def submit(self, work: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """As `ThreadPoolExecutor.submit`."""
        made = super().submit(work, *args, **kwargs)
        self._running.add(made)
        made.add_done_callback(self._running.discard)
        return made

    @property
    def busy(self) -> bool:
        """Whether any of them works."""
        return bool(self._running)


@contextlib.contextmanager
def woken_by_signals(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Context in which signals wake the loop, even one that arrives just before it waits or in another thread."""
    inward, outward = socket.socketpair()
    with inward, outward:
        inward.setblocking(False)
        outward.setblocking(False)
        loop.add_reader(inward, inward.recv, 4096)
        before = signal.set_wakeup_fd(outward.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(inward)


def end_now(code: int) -> NoReturn:
    """Runs exit handlers, then ends the process without waiting for busy threads."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # its reader has gone
            stream.flush()
    os._exit(code)


@contextlib.contextmanager
def report_interrupts() -> Iterator[None]:
    """Context in which SIGTERM acts as Ctrl-C, with exit code 143, and each stopped command prints a message."""
    came = []

    def heard(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        came.append(number)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell script
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, heard)
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as end:
        if isinstance(end, SystemExit) and end.code != STOPPED_BY_KEY:
            raise
        if isinstance(end, KeyboardInterrupt) or _stopped_typer(end):
            print("moot: interrupted.", file=sys.stderr)  # noqa: T201
        raise SystemExit(128 + came[0] if came else STOPPED_BY_KEY) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _stopped_typer(end: SystemExit) -> bool:
    """Whether typer ended the command after Ctrl-C, without a message."""
    return end.__context__ is not None and isinstance(end.__context__.__cause__, KeyboardInterrupt)


def _nothing() -> None:
    pass


def _raise() -> None:
    raise KeyboardInterrupt
