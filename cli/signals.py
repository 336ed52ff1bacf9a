"""Handles SIGTERM and Ctrl-C, so that a stopped command does not lose its results."""

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
    """Context in which SIGTERM and Ctrl-C cancel the current or next work, so that its results can be written.

    The work is a coroutine in `run`, or a question in `ask`. A second Ctrl-C ends the process immediately. If this
    process ignores a signal, the signal stays ignored.
    """

    def __init__(self) -> None:
        self.signal = 0
        """The received signal; 0 for none."""
        self._action: Callable[[], None] = _do_nothing
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """The exit code of a stopped command: 143 after SIGTERM, else 130."""
        return 128 + self.signal if self.signal else STOPPED_BY_KEY

    def run(self, runner: asyncio.Runner, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine and returns its result.

        A signal cancels the coroutine, even if the signal came before this call.

        Raises:
            asyncio.CancelledError: a signal came, and the coroutine did not catch the cancellation.
        """

        async def cancellable() -> T:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None
            with wake_on_signals(loop), self._with_action(lambda: loop.call_soon_threadsafe(task.cancel)):
                return await coroutine

        # Without `context`, the runner would use the context in which its loop was created.
        return runner.run(cancellable(), context=copy_context())

    def ask(self, ask_person: Callable[[], T]) -> T:
        """Asks the person at the terminal and returns the reply.

        Raises:
            KeyboardInterrupt: a signal came, during the question or before.
        """
        with self._with_action(_raise_interrupt):
            return ask_person()

    @contextlib.contextmanager
    def _with_action(self, action: Callable[[], Any]) -> Iterator[None]:
        """Context in which a signal runs ``action``. If a signal came before, the action runs at once."""
        self._action = action
        try:
            if self.signal:
                self._run_action()
            yield
        finally:
            self._action = _do_nothing

    def _run_action(self) -> None:
        """Runs the current action, and removes it, so that it runs only once."""
        action, self._action = self._action, _do_nothing
        action()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # A second Ctrl-C ends the process at once. A second SIGTERM does not, because `timeout` always sends two.
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        if not self.signal:
            self.signal = number
            again = b" Press Ctrl-C again to end now." if number == signal.SIGINT else b""
            os.write(2, b"moot: stopping." + again + b"\n")  # not by `print`, because a stream may be in a write
            self._run_action()


class Threads(ThreadPoolExecutor):
    """The threads of a command's event loop, for searches that would otherwise block the loop.

    A search that exceeds its time limit cannot be stopped. The command ends without waiting for it (`end_now`).
    """

    def __init__(self, runner: asyncio.Runner) -> None:
        super().__init__(thread_name_prefix="asyncio")
        self._running: set[Future[Any]] = set()
        runner.get_loop().set_default_executor(self)

    def submit(self, work: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """The same as `ThreadPoolExecutor.submit`."""
        future = super().submit(work, *args, **kwargs)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    @property
    def busy(self) -> bool:
        """Whether some submitted work still runs or waits."""
        return bool(self._running)


@contextlib.contextmanager
def wake_on_signals(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Context in which each signal wakes the loop, even if it arrives just before a wait or in another thread.

    Raises:
        ValueError: this is not the main thread.
    """
    receiver, sender = socket.socketpair()
    with receiver, sender:
        receiver.setblocking(False)
        sender.setblocking(False)
        loop.add_reader(receiver, receiver.recv, 4096)
        before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(receiver)


def end_now(code: int) -> NoReturn:
    """Runs exit handlers and writes pending output, then ends the process without waiting for busy threads."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # the reader of the stream has gone
            stream.flush()
    os._exit(code)


@contextlib.contextmanager
def report_interrupts() -> Iterator[None]:
    """Context manager for a command. SIGTERM stops the command as Ctrl-C does, but with exit code 143 instead of 130.

    If a stopped command has printed no message itself, a message is printed.

    Raises:
        SystemExit: the command was stopped, or it exited by itself with any code.
    """
    received = []

    def on_sigterm(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        received.append(number)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in background commands of a shell script
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, on_sigterm)
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as end:
        if isinstance(end, SystemExit) and end.code != STOPPED_BY_KEY:
            raise
        if isinstance(end, KeyboardInterrupt) or _is_typer_interrupt(end):
            print("moot: interrupted.", file=sys.stderr)  # noqa: T201
        raise SystemExit(128 + received[0] if received else STOPPED_BY_KEY) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _is_typer_interrupt(end: SystemExit) -> bool:
    """Whether typer raised this exit because of Ctrl-C; then no message has been printed."""
    return end.__context__ is not None and isinstance(end.__context__.__cause__, KeyboardInterrupt)


def _do_nothing() -> None:
    pass


def _raise_interrupt() -> None:
    raise KeyboardInterrupt
