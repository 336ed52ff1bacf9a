"""Errors go to standard error, and nothing but what was asked for to standard output, in every command."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from moot.cli.main import app, run
from typer.main import get_command

from tests.conftest import StartStub

Said = tuple[int, str, str]

MISTAKES: dict[str, tuple[list[str], str]] = {
    "verify": (["A claim.", "--graph", "nope"], "moot: There is no graph 'nope'"),
    "graphs": (["--nonsense"], "No such option"),
    "tasks": (["--nonsense"], "No such option"),
    "presets": (["--nonsense"], "No such option"),
    "schema": (["--nonsense"], "No such option"),
    "settings": (["nope"], "moot: There is no graph 'nope'"),
    "index": (["nowhere", "--corpus", "mine"], "moot: There is no file or folder nowhere"),
    "serve": (["--port", "{taken}"], "moot: The server cannot listen"),
    "assistants": (["--url", "http://127.0.0.1:{closed}"], "moot: "),
    "eval tasks": (["--nonsense"], "No such option"),
    "eval run": (["nowhere.yaml"], "moot: "),
    "eval compare": (["nowhere"], "moot: There is no file or folder nowhere"),
    "eval experiment": (["nowhere"], "moot: "),
    "eval power": (["1.5", "0.5"], "moot: "),
    "eval ragas": (["nowhere", "--model", "openai:any"], "moot: There is no file or folder nowhere"),
    "eval retrieval": (["--data", "nowhere"], "moot: "),
}
"""For each command what is wrong, and what is said of it."""


@pytest.fixture
def moot(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """The command line: what a command ends with, prints, and says beside it."""

    def command(*words: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["moot", *words])
        with pytest.raises(SystemExit) as ended:
            run()
        return int(ended.value.code or 0), *capfd.readouterr()

    return command


def test_every_command_is_tried() -> None:
    commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    inner = {f"eval {name}" for name in commands.pop("eval").commands}
    assert set(MISTAKES) == inner | set(commands)


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake(command: str, moot: Callable[..., Said], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words, wanted = MISTAKES[command]
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        ports = {"taken": str(taken.getsockname()[1]), "closed": str(closed.getsockname()[1])}
        code, printed, said = moot(*command.split(), *(word.format(**ports) for word in words))
    assert printed == ""
    assert wanted in said
    assert code in (2, 3)
    assert "Traceback" not in said


def test_a_debate_that_fails(moot: Callable[..., Said], start_stub: StartStub) -> None:
    start_stub([{"status": 401}])
    words = ["verify", "A claim.", "--graph", "standard_prompting", "--model", "openai:stub"]
    code, printed, said = moot(*words)
    assert (code, "refused the key" in said, "refused the key" in printed) == (2, True, False)
    code, printed, said = moot(*words, "--json")
    assert (code, "refused the key" in said) == (2, True)
    assert json.loads(printed)["status"] == "failed"


def test_a_verdict_with_a_warning(moot: Callable[..., Said], start_stub: StartStub) -> None:
    start_stub([{"reply": "No JSON.", "times": 1}])
    code, printed, said = moot("verify", "A claim.", "--graph", "standard_prompting", "--model", "openai:stub")
    assert code == 0
    assert "Verdict: " in printed
    assert "no complete JSON object" in said
    assert "no complete JSON object" not in printed
    assert "Verdict: " not in said
