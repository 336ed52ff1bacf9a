"""Runs a new Postgres server for a test, on a free local port."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from tests.conftest import free_port

OPTIONS = "-c listen_addresses=127.0.0.1 -c max_wal_size=8MB -c min_wal_size=2MB -c fsync=off"


@cache
def binaries() -> Path | None:
    """The folder of Postgres's programs; None if Postgres is not found."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


class Server:
    """A Postgres server. It does not run until `start` is called.

    Args:
        folder: an empty folder for its data. If root runs the tests, the user ``postgres`` becomes the folder's owner.

    Raises:
        RuntimeError: a program of Postgres failed. `start` and `stop` raise this error too.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"postgresql://moot@127.0.0.1:{self.port}/postgres"
        if os.getuid() == 0:  # Postgres refuses to run as root
            shutil.chown(folder, "postgres", "postgres")
        self._run("initdb", "-A", "trust", "-U", "moot", "-N", "--wal-segsize=1", "-D", folder / "data")

    def _run(self, program: str, *words: object) -> None:
        """Run a program of Postgres, as the user ``postgres`` if root runs the tests."""
        bin = binaries()
        assert bin is not None
        as_user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
        done = subprocess.run(
            [str(bin / program), *map(str, words)],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=60,
            **as_user,  # type: ignore[call-overload]
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stdout}")

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        options = f"{OPTIONS} -p {self.port} -k {self.folder}"
        self._run("pg_ctl", "-w", "-D", self.folder / "data", "-l", self.folder / "log", "-o", options, "start")

    def is_running(self) -> bool:
        """Whether the server runs."""
        try:
            self._run("pg_ctl", "-D", self.folder / "data", "status")
        except RuntimeError:
            return False
        return True

    def stop(self) -> None:
        """Stop the server, and close all connections."""
        self._run("pg_ctl", "-w", "-m", "fast", "-D", self.folder / "data", "stop")


@contextmanager
def running_postgres(folder: Path | None = None) -> Iterator[Server]:
    """Context manager: runs a Postgres server.

    Args:
        folder: an empty folder for its data; by default a temporary folder.
    """
    own = folder is None
    folder = folder or Path(tempfile.mkdtemp(prefix="moot-postgres-"))
    try:
        server = Server(folder)
        server.start()
        try:
            yield server
        finally:
            with suppress(RuntimeError):  # if the test has stopped the server already
                server.stop()
    finally:
        if own:
            shutil.rmtree(folder)
