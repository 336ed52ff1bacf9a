"""Tests of the sources of the configuration, and of help, suggestions, completion and terminal output."""

from __future__ import annotations

import io
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from moot.cli.screen import Screen
from moot.cli.waiting import waiting
from moot.core.config import KEYS, value_of
from moot.core.errors import UserError
from moot.nodes._vendors.catalogue import OWN_PROVIDERS, VENDORS
from moot.transcript.line import Line
from moot.transcript.line import line as make_line
from rich.console import Console

from tests.commands import moot
from tests.conftest import StartStub

CLAIM = "Bees make honey."
CONTROL = ("verify", CLAIM, "--graph", "standard_prompting")


@pytest.fixture(autouse=True)
def temporary_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    for key in KEYS.values():
        monkeypatch.delenv(key.variable, raising=False)
    return tmp_path


def model_used(*words: str) -> str:
    """Run a debate with these options; return the model in its settings."""
    done = moot(*CONTROL, *words, "--json")
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["settings"]["model"])


def test_options_override_the_environment_which_overrides_the_configuration_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = moot("config", "set", "model", "fake:1")
    assert (done.returncode, "model = fake:1 in " in done.stdout) == (0, True)
    assert model_used() == "fake:1"
    monkeypatch.setenv("MOOT_MODEL", "fake:2")
    assert model_used() == "fake:2"
    shown = {line.split()[0]: line.split()[1:3] for line in moot("config").stdout.splitlines() if line.split()}
    assert shown["model"] == ["fake:2", "MOOT_MODEL"]
    assert shown["corpus"] == ["-", "default"]
    assert model_used("--model", "fake:3") == "fake:3"
    assert model_used("--set", "model=fake:4") == "fake:4"
    monkeypatch.delenv("MOOT_MODEL")
    moot("config", "unset", "model")
    assert value_of("model") is None


@pytest.mark.parametrize(
    "words",
    [
        ("verify", CLAIM),
        ("verify", CLAIM, "--json", "--graph", "gated"),
        ("verify", CLAIM, "--preset", "paper"),
        ("verify", CLAIM, "--corpus", "demo-news", "--beside", "self_consistency"),
        ("batch", "claims.csv", "--out", "verdicts", "--graph", "standard_prompting"),
        ("claims", "text.txt"),
        ("batch", "claims.csv", "--out", "out"),
        ("eval", "run", "--graph", "standard_prompting", "--task", "claims=claims.csv", "--logs", "logs"),
    ],
    ids=" ".join,
)
def test_without_a_named_model_a_command_ends_with_an_error_that_lists_the_ways(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "claims.csv").write_text("claim,label\nBees make honey.,SUPPORTS\nAnts make honey.,REFUTES\n")
    (tmp_path / "text.txt").write_text("Bees make honey in their hives. Ants do not make any honey.")
    done = moot(*words)
    output = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode != 0, "Verdict" in output, "built-in model" in output) == (True, False, False), output
    assert not (tmp_path / "out").exists()
    assert [way for way in ("--model", "MOOT_MODEL", "moot config set model") if way not in output] == [], output


@pytest.mark.parametrize(
    "words", [("verify", CLAIM), ("batch", "claims.jsonl", "--out", "out")], ids=["verify", "batch"]
)
def test_roles_without_a_model_are_named_before_anything_runs(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "claims.jsonl").write_text(json.dumps({"claim": CLAIM}) + "\n")
    done = moot(*words, "--graph", "tool_mad", "--set", "models.judge=fake:1")
    output = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode, "for the roles rag, search" in output) == (2, True), output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("system", ["standard_prompting", "tool_mad"])
def test_moot_model_is_not_read_if_a_model_is_named_and_its_errors_name_it(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOT_MODEL", "gpt-4o")
    words = ("verify", CLAIM, "--graph", system, "--corpus", "demo-news")
    done = moot(*words, "--model", "fake:1", "--json")
    assert (done.returncode, json.loads(done.stdout)["settings"]["model"]) == (0, "fake:1"), done.stderr
    (tmp_path / "claims.csv").write_text("claim,label\nBees make honey.,SUPPORTS\n")
    evaluation = ("eval", "run", "--graph", system, "--task", f"claims={tmp_path}/claims.csv", "--logs", tmp_path / "l")
    batch = ("batch", tmp_path / "claims.csv", "--graph", system, "--out", tmp_path / "out")
    for others in (words, evaluation, batch):
        done = moot(*others)
        output = " ".join((done.stdout + done.stderr).split())
        assert (done.returncode, "MOOT_MODEL cannot be used" in output, "Traceback" in output) == (2, True, False), (
            output
        )


def test_moot_model_names_the_model_of_an_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs have its name, so that a run under another model is another run."""
    (tmp_path / "claims.csv").write_text("claim,label\nBees make honey.,SUPPORTS\n")
    words = ("--graph", "standard_prompting", "--task", f"claims={tmp_path}/claims.csv", "--logs", tmp_path / "logs")
    for model in ("fake:1", "fake:2"):
        monkeypatch.setenv("MOOT_MODEL", model)
        done = moot("eval", "run", *words, "--json")
        assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "logs").glob("*.eval"))) == 2


def test_the_provider_of_the_environments_model_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_MODEL", "nobody:x")
    monkeypatch.setenv("MOOT_GRAPH", "standard_prompting")
    done = moot("verify", CLAIM)
    assert (done.returncode, "The provider 'nobody' is unknown" in done.stderr) == (2, True)


def test_debates_use_the_configuration_file_and_only_the_user_can_read_it(temporary_home: Path) -> None:
    assert moot("config", "set", "budget", "9000").returncode == 0
    assert moot("config", "set", "max_seconds", "90.5").returncode == 0
    assert moot("config", "set", "graph", "standard_prompting").returncode == 0
    done = moot("verify", CLAIM, "--model", "fake:1", "--json")
    document = json.loads(done.stdout)
    assert (document["graph"], document["settings"]["budget"]) == ("standard_prompting", 9000)
    assert document["settings"]["max_seconds"] == 90.5
    file = temporary_home / "config.toml"
    assert moot("config", "path").stdout.strip() == str(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["set", "OPENAI_API_KEY", "abc"], "OPENAI_API_KEY looks like a secret"),
        (["set", "corpus", "sk-proj-abcdefghijklmnopqrstuv"], "The value of corpus looks like a secret"),
        (["set", "model", "opnai:gpt"], "Did you mean openai?"),
        (["set", "model", "gpt-4o"], "named provider:name"),
        (["set", "budget", "many"], "budget must be a whole number"),
        (["set", "budget", "1.5"], "budget must be a whole number"),
        (["set", "max_cost", "inf"], "max_cost must be a number"),
        (["set", "graph", "tool_mat"], "Did you mean tool_mad?"),
        (["set", "model", ""], "model is empty"),
        (["unset", "model"], "sets no model"),
        (["unset", "modle"], "Did you mean model?"),
    ],
)
def test_invalid_changes_of_the_configuration_write_no_file(
    words: list[str], message: str, temporary_home: Path
) -> None:
    done = moot("config", *words)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert not (temporary_home / "config.toml").exists()


def test_a_configuration_file_that_cannot_be_read_is_an_error(temporary_home: Path) -> None:
    (temporary_home / "config.toml").mkdir()
    done = moot("config", "set", "model", "fake:1")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "config.toml cannot be read" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = ", "not valid TOML"),
        ("modle = 'x'", "Did you mean model?"),
        ("budget = true", "a whole number"),
        ("MY_TOKEN = 'x'", "looks like a secret"),
    ],
)
def test_the_error_for_an_invalid_configuration_file_shows_its_path(
    text: str, message: str, temporary_home: Path
) -> None:
    (temporary_home / "config.toml").write_text(text)
    done = moot(*CONTROL, "--model", "fake:1")
    assert (done.returncode, message in done.stderr, str(temporary_home / "config.toml") in done.stderr) == (
        2,
        True,
        True,
    ), done.stderr


def test_only_a_named_env_file_is_loaded(
    temporary_home: Path, start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables of the environment override the file. A missing file is an error."""
    stub = start_stub([{"status": 401}])
    key = "MOOT_TEST_ONLY"
    file = temporary_home / ".env"
    file.write_text(f"{key}=one\nOPENAI_BASE_URL={stub.url}\n")
    monkeypatch.setenv(key, "")
    monkeypatch.delenv(key)
    moot(*CONTROL, "--model", "fake:1")
    assert key not in os.environ
    moot("--env-file", str(file), *CONTROL, "--model", "fake:1")
    assert os.environ.pop(key) == "one"
    moot("config", "set", "env_file", str(file))
    moot("config")
    assert os.environ[key] == "one"
    monkeypatch.setenv(key, "mine")
    moot("config")
    assert os.environ[key] == "mine"
    done = moot("--env-file", str(temporary_home / "none"), "config")
    assert (done.returncode, "There is no file" in done.stderr) == (2, True)


def test_an_invalid_environment_variable_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_BUDGET", "much")
    with pytest.raises(UserError, match="MOOT_BUDGET: budget must be a whole number"):
        value_of("model")


# --- help, suggestions, the terminal ---------------------------------------------------------------------------------


def test_version_and_help_are_printed() -> None:
    done = moot("--version")
    assert (done.returncode, done.stdout.startswith("moot ")) == (0, True)
    for words in (["-h"], ["verify", "-h"], ["config", "set", "-h"]):
        assert "Usage:" in moot(*words).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "opnai:x"), "Did you mean openai?"),
        (("--set", "model=antropic:claude"), "Did you mean anthropic?"),
        (("--graph", "tool_mad", "--set", "debaters.0.model=olama:x"), "Did you mean ollama?"),
        (("--set", "max_token=5"), "Did you mean max_tokens?"),
        (("--task", "fevr"), "Did you mean fever?"),
        (("--graph", "rag", "--set", 'sources=["wikipeda"]'), "Did you mean wikipedia?"),
    ],
)
def test_misspelt_values_and_settings_get_a_suggestion(words: tuple[str, ...], message: str) -> None:
    done = moot(*CONTROL, "--model", "fake:1", *words)
    assert (done.returncode, message in " ".join((done.stdout + done.stderr).split())) == (2, True), done.stderr


def printed_line(line: Line, **console: Any) -> str:
    out = io.StringIO()
    Screen(Console(file=out, width=200, **console)).show([line])
    return out.getvalue()


def test_only_terminals_with_colours_show_links_instead_of_addresses() -> None:
    found = make_line("rag", "finds", "Saffron", link="https://example.org/a")
    assert printed_line(found).rstrip().endswith("Saffron https://example.org/a")
    terminal = printed_line(found, force_terminal=True, color_system="truecolor")
    assert "]8;" in terminal
    assert terminal.count("https://example.org/a") == 1
    assert "https://example.org/a" in printed_line(found, force_terminal=True, color_system=None)


def test_an_unsafe_or_empty_link_of_evidence_is_dropped() -> None:
    for link in ("javascript:alert(1)", "https://a\x1b]8;;b", "", None):
        assert make_line("rag", "finds", "x", link=link).link == ""


def test_a_spinner_is_shown_only_at_terminals() -> None:
    for terminal in (True, False):
        out = io.StringIO()
        with waiting(Console(file=out, force_terminal=terminal, width=80, _environ={"TERM": "xterm"})):
            pass
        assert ("0:00:00" in out.getvalue()) is terminal
        # The cursor is visible again at the end.
        assert "\x1b[?25l" not in out.getvalue().rpartition("\x1b[?25h")[2]


def test_completion_offers_graphs_settings_tasks_and_models() -> None:
    from moot.cli.completing import completion_for

    assert "standard_prompting" in completion_for("graphs")("standard_p")
    assert completion_for("settings")("max_rou") == ["max_rounds="]
    assert "fever" in completion_for("tasks")("fe")
    providers = {name.partition(":")[0] for name in completion_for("models")("")}
    assert set() < providers <= {*OWN_PROVIDERS, *VENDORS}
