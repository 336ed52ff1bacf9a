"""The service's page in a real browser while processes are killed, and the service's metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from moot.core.postgres.connection import Postgres

from tests.conftest import running_stub
from tests.service.running import TOKENS, Service, missing_requirements, running_service
from tests.telemetry.receiver import Receiver, receiving
from tests.telemetry.test_server import sum_of_samples
from tests.web.conftest import CHROMIUM
from tests.web.test_browser import start

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [
    pytest.mark.skipif(bool(missing_requirements()), reason=missing_requirements() or "none"),
    pytest.mark.timeout(900),
]

METRICS_TOKEN = "prometheus-battery-staple"
SETTINGS = {"model": "openai:gpt-4o-mini", "max_rounds": 4}
AGENTS = 3
CALLS = AGENTS * 4  # one call for each agent and round
DEBATE_COUNT = "moot_debates_total"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """A local collector of OpenTelemetry data."""
    with receiving() as found:
        yield found


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Service]:
    """A service that sends its metrics to the receiver, and shows them at ``/metrics``."""
    folder = tmp_path_factory.mktemp("watched")
    variables = {**receiver.environment, "MOOT_METRICS_TOKEN": METRICS_TOKEN}
    with running_stub(folder / "stub", latency_ms=1500) as stub, running_service(folder, stub, variables) as found:
        yield found


@pytest.fixture
async def page(watched: Service) -> AsyncIterator[Page]:
    """A page in a browser, logged in as Bob. After the test, fail if a script of the page raised an error."""
    playwright = pytest.importorskip("playwright.async_api", reason="needs the package playwright")
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    script_errors: list[str] = []
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM)
        page = await browser.new_page(base_url=f"http://127.0.0.1:{watched.ports['page']}")
        page.on("pageerror", lambda error: script_errors.append(str(error)))
        page.set_default_timeout(120_000)
        await page.goto("/moot")
        await page.get_by_label("Token for this server").fill(TOKENS["bob"])
        await page.get_by_role("button", name="Log in").click()
        yield page
        await browser.close()
    assert script_errors == []


def running_worker(service: Service) -> str:
    """The name of the worker that executes the only active run."""
    with closing(Postgres(service.postgres.url)) as postgres:
        query = "SELECT claimed_by FROM runs WHERE status = 'running'"
        [[claimed]] = postgres.do(lambda cursor: cursor.execute(query).fetchall())
    [name] = [name for name, process in service.processes.items() if f"-{process.pid}-" in claimed]
    return name


async def wait_for_verdict(page: Page, service: Service, claim: str, tmp_path: Path) -> None:
    """Wait for the verdict on the page; check that the debate is listed as done, and that no call is missing."""
    await page.locator(".verdict h2").wait_for()
    await page.screenshot(path=tmp_path / "verdict.png", full_page=True)
    with service.client_of("bob") as bob:
        [listed] = bob.get("/moot/api/debates", params={"q": claim}).json()["debates"]
        assert listed["status"] == "done"
        document = bob.get(f"/moot/api/debates/{listed['id']}/json").json()
    assert len(document["calls"]) == CALLS


async def test_the_page_shows_a_verdict_although_the_worker_was_killed(
    page: Page, watched: Service, tmp_path: Path
) -> None:
    before = len(watched.stub.prompts())
    await start(page, "Herons are grey.", SETTINGS, graph="society_of_minds")
    await page.locator(".turn").first.wait_for()
    killed = running_worker(watched)
    watched.kill(killed)
    await page.screenshot(path=tmp_path / "killed.png", full_page=True)
    await wait_for_verdict(page, watched, "Herons", tmp_path)  # the other worker finishes the debate
    assert len(watched.stub.prompts()) - before <= CALLS + AGENTS  # the calls of one round may be repeated
    watched.start(killed)
    await asyncio.to_thread(watched.wait_for, lambda: watched.is_ready(killed), f"{killed} is not ready")


async def test_the_page_shows_a_verdict_after_a_restart_of_the_web_process(
    page: Page, watched: Service, tmp_path: Path
) -> None:
    before = len(watched.stub.prompts())
    await start(page, "Storks are white.", SETTINGS, graph="society_of_minds")
    await page.locator(".turn").first.wait_for()
    watched.kill("page")
    await page.get_by_text("Trying again").first.wait_for()
    watched.start("page")
    await wait_for_verdict(page, watched, "Storks", tmp_path)
    assert len(watched.stub.prompts()) - before == CALLS  # no call is repeated


def test_metrics_are_shown_only_with_their_token(watched: Service) -> None:
    for name in ("page", "worker-1", "worker-2"):
        assert get_metrics(watched, name, bearer(METRICS_TOKEN)).status_code == 200
        # Bob's token is refused, because the metrics cover all users.
        for headers in ({}, bearer("not-the-token-of-metrics"), bearer(TOKENS["bob"])):
            assert get_metrics(watched, name, headers).status_code == 401


def test_metrics_of_workers_contain_no_claims(watched: Service, receiver: Receiver) -> None:
    with watched.client_of("bob") as bob:
        asked = {"assistant_id": "standard_prompting", "input": {"claim": "MARKED: terns dive."}}
        bob.post("/runs/wait", json={**asked, "context": {"model": SETTINGS["model"]}}).raise_for_status()
    of_page, *of_workers = [
        get_metrics(watched, name, bearer(METRICS_TOKEN)).raise_for_status().text
        for name in ("page", "worker-1", "worker-2")
    ]
    assert DEBATE_COUNT not in of_page  # the web process runs no debates
    done = [sum_of_samples(text, DEBATE_COUNT, 'moot_status="done"') for text in of_workers if DEBATE_COUNT in text]
    assert sum(done) >= 1
    assert b"MARKED" not in receiver.raw
    assert "MARKED" not in "".join([of_page, *of_workers])


def test_a_batch_worker_shows_the_length_of_the_queue(watched: Service) -> None:
    watched.start("batch-worker")
    url = f"http://127.0.0.1:{watched.ports['batch-worker']}/metrics"

    def has_queue_length() -> bool:
        assert watched.processes["batch-worker"].poll() is None, watched.log("batch-worker")
        try:
            return 'moot_queue_length{moot_queue="postgres"' in httpx.get(url).text
        except httpx.TransportError:
            return False

    watched.wait_for(has_queue_length, "the metrics contain no queue length")


def get_metrics(service: Service, name: str, headers: dict[str, str]) -> httpx.Response:
    """Request the metrics of a process under its host name in ``deploy/compose.yaml``."""
    url = f"http://127.0.0.1:{service.ports[name]}/metrics"
    return httpx.get(url, headers={"Host": f"{name}:8000", **headers})


def bearer(token: str) -> dict[str, str]:
    """The ``Authorization`` header with a token."""
    return {"Authorization": f"Bearer {token}"}
