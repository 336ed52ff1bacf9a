"""Every command prints errors to standard error, and only the requested output to standard output."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from moot.cli.main import app
from typer.main import get_command

from tests.commands import moot
from tests.conftest import StartStub

MISTAKES: dict[str, tuple[list[str], str]] = {
    "verify": (["A claim.", "--graph", "nope"], "moot: There is no graph 'nope'"),
    "graphs": (["--nonsense"], "No such option"),
    "demo": (["--nonsense"], "No such option"),
    "models": (["--nonsense"], "No such option"),
    "tasks": (["--nonsense"], "No such option"),
    "schema": (["--nonsense"], "No such option"),
    "settings": (["nope"], "moot: There is no graph 'nope'"),
    "config": (["set", "modle", "x"], "moot: There is no setting 'modle'. Did you mean model?"),
    "index": (["nowhere", "--corpus", "mine"], "moot: There is no file or folder nowhere"),
    "service": ([], "moot: The service needs the package aegra_api"),
    "serve": (["--port", "{taken}"], "moot: The server cannot listen"),
    "replies": (["delete", "nowhere"], "moot: "),
    "batch": (["nowhere.csv", "--out", "there"], "moot: There is no file nowhere.csv. Check its path."),
    "worker": (["--queue", "sqlite://here"], "takes the address of a Postgres, such as postgresql://"),
    "claims": (["nowhere.txt", "--sentences"], "moot: There is no file nowhere.txt. Check its path."),
    "report": (["nowhere"], "moot: There is no file nowhere"),
    "list": (["--nonsense"], "No such option"),
    "show": (["nowhere"], "moot: There is no debate 'nowhere'"),
    "recheck": (["nowhere", "--yes"], "moot: There is no debate 'nowhere'"),
    "export": (["nowhere"], "moot: There is no debate 'nowhere'"),
    "import": (["nowhere.zip"], "moot: There is no file nowhere.zip"),
    "review": (["nowhere"], "moot: There is no debate 'nowhere'"),
    "delete": (["nowhere"], "moot: There is no debate 'nowhere'"),
    "corpora": (["show", "nowhere"], "moot: There is no corpus 'nowhere'"),
    "calibrate": (["nowhere"], "moot: There is no file or folder nowhere"),
    "eval audit": (["nowhere"], "moot: There is no file or folder nowhere"),
    "eval agreement": (["nowhere"], "moot: There is no file or folder nowhere"),
    "assistants": (["--url", "http://127.0.0.1:{closed}"], "moot: "),
    "eval tasks": (["--nonsense"], "No such option"),
    "eval run": (["nowhere.yaml"], "moot: "),
    "eval attack": (["--defence", "prayer"], "moot: There is no defence 'prayer'"),
    "eval compare": (["nowhere"], "moot: There is no file or folder nowhere"),
    "eval experiment": (["nowhere"], "moot: "),
    "eval power": (["1.5", "0.5"], "moot: "),
    "eval ragas": (["nowhere", "--model", "openai:any"], "moot: There is no file or folder nowhere"),
    "eval archive": (["nowhere"], "moot: There is no folder nowhere"),
    "eval replay": (["nowhere.zip"], "moot: "),
    "eval warrants": (["nowhere", "--model", "openai:any"], "moot: There is no file nowhere"),
    "eval retrieval": (["--data", "nowhere"], "moot: "),
}
"""For each command: arguments with which it fails, and a part of the error."""


def test_every_command_has_a_case_with_failing_arguments() -> None:
    commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    inner = {f"eval {name}" for name in commands.pop("eval").commands}
    assert set(MISTAKES) == inner | set(commands)


@pytest.mark.parametrize("command", MISTAKES)
def test_errors_of_every_command_go_to_stderr(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words, wanted = MISTAKES[command]
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        ports = {"taken": str(taken.getsockname()[1]), "closed": str(closed.getsockname()[1])}
        done = moot(*command.split(), *(word.format(**ports) for word in words))
    assert done.stdout == ""
    assert wanted in done.stderr
    assert done.returncode in (2, 3)
    assert "Traceback" not in done.stderr


def test_errors_of_a_failed_debate_go_to_stderr(start_stub: StartStub) -> None:
    start_stub([{"status": 401}])
    words = ["verify", "A claim.", "--graph", "standard_prompting", "--model", "openai:stub"]
    done = moot(*words)
    assert done.returncode == 2
    assert "refused the key" in done.stderr
    assert "refused the key" not in done.stdout
    done = moot(*words, "--json")
    assert done.returncode == 2
    assert "refused the key" in done.stderr
    assert json.loads(done.stdout)["status"] == "failed"


def test_warnings_go_to_stderr(start_stub: StartStub) -> None:
    start_stub([{"reply": "No JSON.", "times": 1}])
    done = moot("verify", "A claim.", "--graph", "standard_prompting", "--model", "openai:stub")
    assert done.returncode == 0
    assert "Verdict: " in done.stdout
    assert "no complete JSON object" in done.stderr
    assert "no complete JSON object" not in done.stdout
    assert "Verdict: " not in done.stderr
