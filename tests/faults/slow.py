"""An endpoint that sends one byte at a time and never ends its response."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.conftest import StubEndpoint
from tests.faults.debates import Sandbox
from tests.faults.endpoint import ONE_ATTEMPT, SYSTEM, UNFINISHED, wrong_failure
from tests.faults.record import Fault, Result

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"


@contextmanager
def dripping_endpoint() -> Iterator[str]:
    """Run an endpoint that sends a byte every 0.1 s until the context ends; yield its address."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                connection.recv(65536)
                connection.sendall(HEAD)
                while not stop.wait(0.1):
                    connection.sendall(b" ")

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=drip, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        finally:
            stop.set()
            server.shutdown(socket.SHUT_RDWR)


def run_with_drip(folder: Path, quick: bool) -> Result:
    """Run a debate with the dripping endpoint and a `timeout` of two seconds."""
    folder.mkdir(parents=True)
    with dripping_endpoint() as url:
        ended = Sandbox(StubEndpoint(url, folder), folder).verify(SYSTEM, timeout=2, **ONE_ATTEMPT)
    return Result(1, UNFINISHED, wrong_failure(ended, {"timeout"}))


FAULTS = [
    Fault(
        "slow drip",
        "the endpoint sends one byte every 0.1 s, without end",
        "a typed error after the seconds of the setting `timeout`",
        run_with_drip,
    ),
]
