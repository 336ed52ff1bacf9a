"""The operator of a server sets its limits: the size of bodies, maxima of settings, and trusted proxies."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import moot
from tests.conftest import free_port, running_stub
from tests.forked import start
from tests.serving import Server, running

SERVE = ["-c", "from moot.cli.main import run; run()", "serve", "--port"]
BEARER = {"authorization": "Bearer a-token-of-the-operator"}
LIMITS = {"MOOT_MAX_BODY_MIB": "0.01", "MOOT_MAXIMA": "samples=7, max_calls=50", "FORWARDED_ALLOW_IPS": "127.0.0.1"}


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder, port = tmp_path_factory.mktemp("limited"), free_port()
    with running_stub(folder / "stub") as stub:
        token = BEARER["authorization"].removeprefix("Bearer ")
        yield from running([*SERVE, str(port)], folder, port, stub, MOOT_TOKEN=token, **LIMITS)


def run(graph: str, **settings: Any) -> dict[str, Any]:
    """The body of a run."""
    return {"assistant_id": graph, "input": {"claim": "Bees make honey."}, "context": {"model": "fake:1", **settings}}


def test_the_limit_of_bodies_applies_to_every_route(limited: Server) -> None:
    long = {"metadata": "x" * 11_000}
    for path in ("/threads", "/runs/wait", "/moot/api/texts?name=a.txt", "/moot/api/batches"):
        status, refused = limited.refused(path, long, BEARER)
        assert (status, refused["kind"], "at most 10,485 bytes" in refused["detail"]) == (413, "too_large", True)


def test_the_maxima_of_the_operator_replace_and_add_to_those_of_moot(limited: Server) -> None:
    for settings, most in (({"samples": 8}, "7, not 8"), ({"max_calls": 51}, "50, not 51"), ({"timeout": 601}, "600")):
        status, refused = limited.refused("/runs/wait", run("self_consistency", **settings), BEARER)
        assert (status, f"at most {most}" in refused["detail"]) == (422, True), refused
    assert limited.send("/runs/wait", run("self_consistency", samples=7), BEARER)


def test_a_named_proxy_is_trusted_to_name_the_address_of_a_client(limited: Server) -> None:
    """Wrong tokens count for the address that the proxy adds, not for one that the client has made up."""
    for number in range(22):
        wrong = {"authorization": f"Bearer wrong-{number}", "x-forwarded-for": f"9.9.9.{number}, 192.0.2.7"}
        status, _ = limited.refused("/threads/search", {}, wrong)
    assert status == 429
    assert limited.refused("/threads/search", {}, wrong | {"x-forwarded-for": "192.0.2.8"})[0] == 401
    assert limited.send("/threads/search", {}, BEARER | {"x-forwarded-for": "192.0.2.7"}) == b"[]"


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("MOOT_MAX_BODY_MIB", "-1", "must be a number of MiB"),
        ("MOOT_MAX_BODY_MIB", "much", "must be a number of MiB"),
        ("MOOT_MAXIMA", "samples", "is not a setting with its maximum"),
        ("MOOT_MAXIMA", "samples=nan", "is not a setting with its maximum"),
        ("MOOT_MAXIMA", "sample=5", "there is no setting 'sample'. Did you mean samples?"),
        ("MOUNT_PREFIX", "/x", "moot is not served below a path"),
    ],
)
def test_a_server_with_a_wrong_variable_does_not_start(tmp_path: Path, variable: str, value: str, message: str) -> None:
    command = [sys.executable, *SERVE, str(free_port())]
    variables = os.environ | {"MOOT_HOME": str(tmp_path / "home"), variable: value}
    pipe = subprocess.PIPE
    with start(command, server=True, env=variables, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
        printed, _ = process.communicate(timeout=120)
    assert process.returncode
    assert message in " ".join(printed.split())


def test_all_files_of_the_home_folder_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that the user names follows the umask. An existing folder of corpora is made private."""
    home, out, texts = tmp_path / "new" / "home", tmp_path / "out.json", tmp_path / "texts.jsonl"
    monkeypatch.setenv("MOOT_HOME", str(home))
    texts.write_text('{"id": "1", "text": "Bees make honey.", "title": "Bees"}\n')
    before = os.umask(0)
    try:
        for corpus, encoder in (("bees", "all-MiniLM-L6-v2"), ("words", "none")):
            assert moot("index", texts, "--corpus", corpus, "--embedder", encoder).returncode == 0
            (home / "corpora").chmod(0o755)
        options = ("--graph", "rag", "--model", "fake:1", "--set", 'sources=["bm25:words"]', "--out", out)
        assert moot("verify", "Bees make honey.", *options).returncode == 0
    finally:
        os.umask(before)
    (home / "corpora").chmod(0o700)
    found = [home.parent, home, *home.rglob("*")]
    assert len(found) > 12
    assert [path for path in found if path.stat().st_mode & 0o077] == []
    assert out.stat().st_mode & 0o777 == 0o666
