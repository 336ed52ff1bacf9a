"""The page, the API and MCP serve the debate of an installed package; the log reports a broken package."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import running_stub
from tests.installed.package import install_tutorial, write_package
from tests.web.conftest import Served, serve
from tests.web.test_browser import SUPPORTED, start, stored_document

if TYPE_CHECKING:
    from playwright.async_api import Page

TUTORIAL = (Path(__file__).parents[2] / "docs/howto/tutorial.md").read_text(encoding="utf-8")
ANSWERS: list[dict[str, Any]] = [{"fields": {"answer": "SUPPORTS", "rationale": "So.", "citations": []}}]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The server, with the tutorial's package and a package that cannot be imported."""
    folder = tmp_path_factory.mktemp("installed")
    target = install_tutorial(folder)
    write_package(target, "torn", "import no_such_module", graph="torn = torn:graph")
    with running_stub(folder / "stub", ANSWERS) as stub, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(target))
        yield from serve(folder, stub.url)


def response_of(served: Served, path: str, body: Any = None) -> Any:
    """The JSON of the server's response; if the server refuses, a pair of the status and the JSON."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", "accept": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(served.url + path, data, headers), timeout=240) as reply:
            return json.loads(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_the_request_of_the_tutorial_is_answered(served: Served) -> None:
    (body,) = re.findall(r"^  '(\{.*\})'$", TUTORIAL, re.M)
    document = response_of(served, "/runs/wait", json.loads(body))
    assert (document["graph"], document["status"], document["error"]) == ("chaired", "done", None)


def test_settings_of_the_installed_debate_are_checked(served: Served) -> None:
    run = {"assistant_id": "chaired", "input": {"claim": "Bees sing."}, "context": {"k": 3}}
    code, refused = response_of(served, "/runs/wait", run)
    assert (code, refused["kind"]) == (422, "invalid_setting")
    assert "moot settings chaired" in refused["detail"]


def test_the_installed_debate_is_an_mcp_tool(served: Served) -> None:
    """The debate of the broken package is not a tool. Malformed calls are errors."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    tools = {tool["name"]: tool for tool in response_of(served, "/mcp", message)["result"]["tools"]}
    assert tools["chaired"]["title"] == "Chaired debate"
    call = {"name": "chaired", "arguments": {"claim": "Bees sing.", "model": "fake:1", "max_rounds": 1}}
    answer = response_of(served, "/mcp", message | {"method": "tools/call", "params": call})["result"]
    assert answer["structuredContent"]["status"] == "done"
    assert "torn" not in tools
    for params in (call | {"arguments": 5}, call | {"name": {}}):
        assert (
            response_of(served, "/mcp", message | {"method": "tools/call", "params": params})["error"]["code"] == -32602
        )


def test_a_debate_that_cannot_be_imported_is_reported_and_not_served(served: Served) -> None:
    log = (served.home.parent / "log").read_text()
    message = 'not served: The package torn 1.0 declares the graph torn = "torn:graph", but it cannot be imported'
    assert message in log
    assert "No module named 'no_such_module'" in log
    code, _ = response_of(served, "/runs/wait", {"assistant_id": "torn", "input": {"claim": "Bees sing."}})
    assert code in (404, 422)


async def test_the_page_runs_the_installed_debate_from_the_form_to_the_report(page: Page, served: Served) -> None:
    choices = response_of(served, "/moot/api/choices")
    assert choices["methods"]["chaired"] == "Chaired debate"
    assert "minutes" in choices["sources"]
    await start(page, "Bees sing.", {"model": "openai:stub"}, graph="chaired")
    await page.get_by_role("heading", name="Supported, by what the model knows").wait_for()
    assert await page.get_by_text("Chaired debate").count()
    document = stored_document(served, page)
    assert (document["graph"], document["answer"], document["rounds"]) == ("chaired", "SUPPORTS", 1)
    assert await page.get_by_role("heading", name=SUPPORTED).count() == 0
