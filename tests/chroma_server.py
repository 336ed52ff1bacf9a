"""A new Chroma server for a test."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from tests.conftest import free_port

CHROMA = Path(sys.executable).with_name("chroma")


@contextmanager
def running_chroma(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a Chroma server on a free port; yield its address and process.

    Raises:
        AssertionError: the server ended before it answered.
        RetryError: the server did not answer.
    """
    url = f"http://127.0.0.1:{free_port()}"
    command = [str(CHROMA), "run", "--path", str(folder), "--host", "127.0.0.1", "--port", url.rpartition(":")[2]]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            for attempt in Retrying(
                retry=retry_if_exception_type(OSError), stop=stop_after_attempt(600), wait=wait_fixed(0.05)
            ):
                with attempt:
                    assert server.poll() is None, (folder / "log").read_text()
                    urllib.request.urlopen(f"{url}/api/v2/heartbeat").close()
            yield url, server
        finally:
            server.kill()
