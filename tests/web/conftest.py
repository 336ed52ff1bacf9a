"""Fixtures: a real server (``moot serve``) with a scripted endpoint, and a real browser if one is installed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from moot.core.endpoint import close_clients

from tests.claims.test_find import rules as finding
from tests.conftest import free_port, running_stub, says, supports
from tests.forked import start as start_process
from tests.web.documents import CLAIM, PAYLOADS

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
RECORD_VIOLATION = "addEventListener('securitypolicyviolation', (event) => { top.refused = event.violatedDirective; })"
MARKUP = " ".join(PAYLOADS[::9])


@dataclass
class Served:
    """A running server, and its ``MOOT_HOME``."""

    url: str
    home: Path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose scripted debaters write markup."""
    folder = tmp_path_factory.mktemp("served")
    fields: Any = {"rationale": MARKUP, "query": MARKUP}
    rules: list[dict[str, Any]] = [*finding(), says("rag", "SUPPORTS", **fields), says("search", "SUPPORTS", **fields)]
    rules += [says("judge", "SUPPORTS")]
    slowly = [rule | {"model": "hesitant", "delay_ms": 1500} for rule in finding()]
    rules = [{"model": "unhurried", "delay_ms": 30_000}, *slowly, {"model": "gone", "status": 400}, *rules]
    rules += [{"model": "slow", "match": "your `answer`", "delay_ms": 1500}, *supports([True, True], CLAIM)]
    with running_stub(folder / "stub", rules) as stub:
        yield from serve(folder, stub.url)


def serve(folder: Path, endpoint: str) -> Iterator[Served]:
    """Start a server, yield it, and terminate it afterwards."""
    port, home = free_port(), folder / "home"
    command = [sys.executable, "-c", "from moot.cli.main import run; run()", "serve", "--port", str(port)]
    listed = {"MOOT_LANGCHAIN_SOURCES": "tests.transcript.shelf:down"}
    environment = os.environ | listed | {"MOOT_HOME": str(home), "OPENAI_BASE_URL": endpoint}
    with (
        (folder / "log").open("w") as log,
        start_process(command, server=True, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            wait_for(f"http://127.0.0.1:{port}/ok", process, folder / "log")
            yield Served(f"http://127.0.0.1:{port}", home)
        finally:
            process.terminate()


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server answers; fail if its process ends first, or after 90 seconds."""
    deadline = time.monotonic() + 90
    while True:
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(url):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)


class Wire:
    """A proxy between a browser and the server. A test can cut the connection and restore it."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.open: set[asyncio.StreamWriter] = set()
        self.port = free_port()

    async def mend(self) -> None:
        """Start to accept connections, at first or after a cut."""
        self.server = await asyncio.start_server(self.carry, "127.0.0.1", self.port)

    async def cut(self) -> None:
        """Close every connection, and accept no new one."""
        self.server.close()
        for writer in self.open:
            writer.close()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy bytes in both directions until both sides have ended."""
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        ends = {writer, far_writer}
        self.open |= ends
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
        self.open -= ends


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes in one direction."""
    with contextlib.suppress(OSError):
        while content := await reader.read(65536):
            writer.write(content)
            await writer.drain()
    writer.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that use the browser in the session's event loop, because the browser belongs to that loop."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            # Only the first marker counts, so append=False puts this marker before that of the mode "auto".
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One browser for all tests; each test has its own isolated pages."""
    playwright = pytest.importorskip("playwright.async_api", reason="needs the package playwright")
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def wire(served: Served) -> AsyncIterator[Wire]:
    """A running `Wire` to the server."""
    wire = Wire(int(served.url.rpartition(":")[2]))
    await wire.mend()
    yield wire
    await wire.cut()


EARLIER = "**/moot/api/earlier"


async def no_earlier_checks(route: Any) -> None:
    """Answers that none of the claims was checked before."""
    claims = route.request.post_data_json["claims"]
    nothing: Any = {"checks": [], "problem": "", "doubt": "", "same": None, "near": None}
    await route.fulfill(json={"found": [nothing for _ in claims]})


@pytest_asyncio.fixture(loop_scope="session")
async def page(served: Served, browser: Browser) -> AsyncIterator[Page]:
    """A page in the browser. The test fails if a payload ran or was blocked, a script failed, or a dialog opened."""
    faults: list[str] = []
    page = await browser.new_page(base_url=served.url, viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: faults.append(dialog.message))
    page.set_default_timeout(60_000)
    await page.add_init_script(RECORD_VIOLATION)
    # The server's tests check the same few claims; test_browser has a test of what is then shown.
    await page.route(EARLIER, no_earlier_checks)
    yield page
    executed = await page.evaluate("[window.ran, window.refused].map(String)")
    await page.context.close()
    await close_clients()
    assert (executed, faults) == (["undefined", "undefined"], [])
