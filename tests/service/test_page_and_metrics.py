"""The service's page in a real browser while processes are killed; the service's metrics and spans."""

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
from tests.telemetry.test_server import sample
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
CALLS = 3 * 4  # agents, rounds
AT_ONCE = 3
DONE = "moot_debate_duration_seconds_count"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """A local collector of OpenTelemetry data."""
    with receiving() as found:
        yield found


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Service]:
    """A service that sends its spans and metrics to the receiver, and offers its metrics to Prometheus."""
    folder = tmp_path_factory.mktemp("watched")
    variables = {**receiver.environment, "MOOT_METRICS_TOKEN": METRICS_TOKEN}
    with running_stub(folder / "stub", latency_ms=1500) as stub, running_service(folder, stub, variables) as found:
        yield found


@pytest.fixture
async def page(watched: Service) -> AsyncIterator[Page]:
    """The page of a browser logged in as Bob; fails at the end if a script of the page had an error."""
    playwright = pytest.importorskip("playwright.async_api", reason="needs the package playwright")
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    faults: list[str] = []
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM)
        page = await browser.new_page(base_url=f"http://127.0.0.1:{watched.ports['page']}")
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.set_default_timeout(120_000)
        await page.goto("/moot")
        await page.get_by_label("Token for this server").fill(TOKENS["bob"])
        await page.get_by_role("button", name="Log in").click()
        yield page
        await browser.close()
    assert faults == []


def worker_of(service: Service) -> str:
    """The name of the worker that has the only running run."""
    with closing(Postgres(service.postgres.url)) as postgres:
        query = "SELECT claimed_by FROM runs WHERE status = 'running'"
        [[claimed]] = postgres.do(lambda cursor: cursor.execute(query).fetchall())
    [name] = [name for name, process in service.processes.items() if f"-{process.pid}-" in claimed]
    return name


async def wait_for_verdict(page: Page, service: Service, claim: str, tmp_path: Path) -> None:
    """Wait for the verdict on the page, and check that the list of past checks shows the debate as done."""
    await page.locator(".verdict h2").wait_for()
    await page.screenshot(path=tmp_path / "verdict.png", full_page=True)
    with service.client_of("bob") as bob:
        [listed] = bob.get("/moot/api/debates", params={"q": claim}).json()["debates"]
        assert listed["status"] == "done"
        document = bob.get(f"/moot/api/debates/{listed['id']}/json").json()
    assert len(document["calls"]) == CALLS


async def test_the_page_continues_if_the_worker_of_its_debate_is_killed(
    page: Page, watched: Service, tmp_path: Path
) -> None:
    before = len(watched.stub.prompts())
    await start(page, "Herons are grey.", SETTINGS, graph="society_of_minds")
    await page.locator(".turn").first.wait_for()
    killed = worker_of(watched)
    watched.kill(killed)
    await page.screenshot(path=tmp_path / "killed.png", full_page=True)
    await wait_for_verdict(page, watched, "Herons", tmp_path)  # the other worker finishes the debate
    assert len(watched.stub.prompts()) - before <= CALLS + AT_ONCE
    watched.start(killed)
    await asyncio.to_thread(watched.wait_for, lambda: watched.is_ready(killed), f"{killed} is not ready")


async def test_the_page_continues_if_its_web_process_is_killed(page: Page, watched: Service, tmp_path: Path) -> None:
    before = len(watched.stub.prompts())
    await start(page, "Storks are white.", SETTINGS, graph="society_of_minds")
    await page.locator(".turn").first.wait_for()
    watched.kill("page")
    await page.get_by_text("Trying again").first.wait_for()
    watched.start("page")
    await wait_for_verdict(page, watched, "Storks", tmp_path)
    assert len(watched.stub.prompts()) - before == CALLS


def test_metrics_need_their_token_and_workers_send_spans_without_content(watched: Service, receiver: Receiver) -> None:
    with watched.client_of("bob") as bob:
        asked = {"assistant_id": "standard_prompting", "input": {"claim": "MARKED: terns dive."}}
        bob.post("/runs/wait", json={**asked, "context": {"model": SETTINGS["model"]}}).raise_for_status()
    shown = []
    for name in ("page", "worker-1", "worker-2"):
        url, named = f"http://127.0.0.1:{watched.ports[name]}/metrics", {"Host": f"{name}:8000"}
        shown.append(httpx.get(url, headers={**named, **bearer(METRICS_TOKEN)}).raise_for_status().text)
        for headers in ({}, bearer("not-the-token-of-metrics"), bearer(TOKENS["bob"])):  # metrics include all users
            assert httpx.get(url, headers={**named, **headers}).status_code == 401
    assert DONE not in shown[0]  # the page runs no debates
    done = [sample(text, DONE, 'moot_status="done"') for text in shown[1:] if DONE in text]
    assert sum(done) >= 1
    receiver.wait_for(lambda: "invoke_workflow standard_prompting" in {name for name, _ in receiver.spans})
    assert "chat gpt-4o-mini" in {name for name, _ in receiver.spans}
    assert b"MARKED" not in receiver.raw
    assert "MARKED" not in "".join(shown)


def test_a_batch_worker_has_metrics_of_the_queue(watched: Service) -> None:
    watched.start("batch-worker")
    url = f"http://127.0.0.1:{watched.ports['batch-worker']}/metrics"

    def is_shown() -> bool:
        assert watched.processes["batch-worker"].poll() is None, watched.log("batch-worker")
        try:
            return 'moot_queue_length{moot_queue="postgres"' in httpx.get(url).text
        except httpx.TransportError:
            return False

    watched.wait_for(is_shown, "the worker shows no queue")


def bearer(token: str) -> dict[str, str]:
    """The header with a token."""
    return {"Authorization": f"Bearer {token}"}
