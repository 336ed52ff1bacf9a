"""Programs in docs/ run, and commands in docs/ and README.md use existing options and valid settings."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from moot.cli.main import app
from moot.cli.options import parse_settings
from moot.evals._stats.official import document_and_element, page_and_element
from moot.graphs import load_graph
from moot.retrievers._files import parse_passage

from tests.commands import output_of
from tests.conftest import StartStub
from tests.evals.test_conformal import SUPPORTS, reply_with_tokens

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
UNRUN = {"claims.md": 1, "mcp.md": 1}
"""By page, the number of programs that no test runs, because they need the reader's text or server."""


def programs(page: str) -> list[str]:
    """The Python programs on a page of docs/."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.S)


def commands() -> Iterator[tuple[str, str]]:
    """Each command of moot on the pages, as a pair: the name of the page, and the command in one line."""
    for page in PAGES:
        for block in re.findall(r"```(?:console|sh|bash)\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
            block = re.sub(
                r"'[\w.]+=\[[^'\n]*\n[^'\n]*'", lambda found: found[0].replace("\n", ""), block.replace("\\\n", " ")
            )
            for line in block.splitlines():
                for part in line.split(" && "):
                    if found := re.match(r"(?:\w+=\S+ )*(moot (?!-).*)", part.strip()):
                        yield page.name, found[1]


COMMANDS = [*commands()]
COMMANDS_WITH_SETTINGS = [
    command for _, command in COMMANDS if command.startswith("moot verify") and "--set" in command
]


def test_every_program_in_docs_is_listed_as_run_or_unrun() -> None:
    programs_by_page = {
        page.name: len(re.findall(r"```python\n", page.read_text(encoding="utf-8"))) for page in PAGES[1:]
    }
    run_by_tests = {
        "calibration.md": 1,
        "evaluation.md": 1,
        "measures.md": 4,
        "models.md": 1,
        "nodes.md": 8,  # that with a server: tests/web/test_api.py
        "parts.md": 2,
        "replies.md": 1,
        "sources.md": 1,
    }
    run_by_tests["speed.md"] = 1
    run_by_tests["tutorial.md"] = 1  # tests/installed/test_tutorial.py
    run_by_tests["running.md"] = 1  # tests/web/test_auth.py
    assert {
        name: number for name, number in programs_by_page.items() if number and name != "commands.md"
    } == UNRUN | run_by_tests


async def test_the_model_that_asks_for_log_probabilities_gets_them(
    tmp_path: Path, start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = programs("howto/calibration.md")
    (tmp_path / "mymodels.py").write_text(program)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    stub = start_stub([{"raw": reply_with_tokens(SUPPORTS)}])
    graph = load_graph("standard_prompting")
    settings = graph.settings.model_validate({"model": "langchain:mymodels:gpt"})
    document = await graph.graph.ainvoke({"claim": "Claim 9 holds."}, context=settings)
    assert document["error"] is None, document["error"]
    assert "answer_probability" in document["calls"][0]
    assert importlib.import_module("mymodels").gpt.logprobs
    assert len(stub.prompts()) == 1


def test_the_program_with_a_langchain_community_source_runs(tmp_path: Path) -> None:
    (source,) = programs("howto/sources.md")
    (tmp_path / "shop.py").write_text(source)
    (shown,) = (command for _, command in COMMANDS if "langchain:" in command)
    command = [sys.executable, "-c", "from moot.cli.main import run; run()", *shlex.split(shown, comments=True)[1:]]
    command += ["--model", "fake:1", "--json", "--set", "query_formulation=false", "--set", "k=1"]
    command += ["--set", "max_rounds=1", "--corpus", "demo-news"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = [e for e in json.loads(done.stdout)["evidence"] if e["source"] == "shop"]
    assert [(e["title"], e["text"]) for e in found] == [("Deliveries", "Parcels leave on Monday.")]
    assert done.stderr == ""  # no package warns


@pytest.mark.parametrize(
    ("page", "place"),
    [
        ("howto/nodes.md", 0),
        ("howto/nodes.md", 1),
        ("howto/nodes.md", 2),
        ("howto/nodes.md", 3),
        ("howto/nodes.md", 4),
        ("howto/nodes.md", 6),
        ("howto/nodes.md", 7),
        ("howto/parts.md", 0),
        ("howto/parts.md", 1),
        ("howto/evaluation.md", 0),
        ("howto/measures.md", 0),
    ],
)
def test_a_program_runs_and_prints_text(page: str, place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert output_of(programs(page)[place]).strip()


def test_the_program_with_many_debates_prints_their_answers() -> None:
    (program,) = programs("howto/speed.md")
    answers = output_of(program).splitlines()
    assert len(answers) == 3
    assert set(answers) <= {"SUPPORTS", "REFUTES", "NOT ENOUGH INFO"}


def test_the_program_for_a_corpus_of_sentences_prints_its_passages() -> None:
    page = {"id": "Soul_-LRB-film-RRB-", "lines": "0\tSoul is a film .\tfilm\tFilm\n1\t\n2\tIt is long ."}
    printed = output_of(programs("howto/measures.md")[1], json.dumps(page))
    made = [parse_passage(line, "") for line in printed.splitlines()]
    assert [(p.title, p.text, page_and_element(p.model_dump())) for p in made] == [
        ("Soul (film)", "Soul is a film .", ("Soul (film)", "sentence_0")),
        ("Soul (film)", "It is long .", ("Soul (film)", "sentence_2")),
    ]


def test_the_programs_for_corpora_of_abstracts_and_of_a_knowledge_store_print_their_passages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    abstracts = [{"doc_id": 4, "title": "Rust", "abstract": ["It is red.", " ", "It is old."]}]
    abstracts += [{"cord_id": "c2", "title": "Masks", "abstract": ["They helped."]}]
    printed = output_of(programs("howto/measures.md")[2], "\n".join(map(json.dumps, abstracts)))
    made = [parse_passage(line, "") for line in printed.splitlines()]
    assert [(p.title, p.text, document_and_element(p.model_dump())) for p in made] == [
        ("Rust", "It is red.", ("4", "sentence_0")),
        ("Rust", "It is old.", ("4", "sentence_2")),
        ("Masks", "They helped.", ("c2", "sentence_0")),
    ]
    pages = [
        {"url": "https://a.org/x", "url2text": ["One.", "Two.", "x" * 995]},
        {"url": "https://b.org", "url2text": []},
    ]
    for name in ("0.json", "1.json"):  # two claims whose searches found the same page
        (tmp_path / name).write_text("\n".join(map(json.dumps, pages)))
    monkeypatch.setattr(sys, "argv", ["store.py", *map(str, sorted(tmp_path.glob("*.json")))])
    made = [parse_passage(line, "") for line in output_of(programs("howto/measures.md")[3]).splitlines()]
    assert [(p.id, p.title, p.text) for p in made] == [
        ("https://a.org/x#0", "a.org", "One. Two."),
        ("https://a.org/x#1", "a.org", "x" * 995),
    ]


def test_the_program_that_replays_a_debate_prints_the_recorded_answer_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = programs("howto/replies.md")
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    answers, counted = output_of(program).splitlines()
    words = answers.split()  # an answer may have several words
    assert words[: len(words) // 2] == words[len(words) // 2 :] != []
    from_store, total = re.findall(r"\d+", counted)
    assert from_store == total != "0"


@pytest.mark.parametrize("command", COMMANDS_WITH_SETTINGS)
def test_settings_in_shown_commands_are_valid(command: str) -> None:
    words = shlex.split(command, comments=True)
    pairs = [value for flag, value in pairwise(words) if flag == "--set" and not value.startswith("judge_prompt")]
    graph = next((value for flag, value in pairwise(words) if flag == "--graph"), "tool_mad")
    parse_settings(load_graph(graph).settings, pairs, {})


def test_shown_commands_and_options_exist() -> None:
    assert len(COMMANDS) > 100
    all_commands: Any = typer.main.get_command(app)
    for page, line in COMMANDS:
        command = all_commands
        words = iter(shlex.split(line.replace("...", "x"), comments=True)[1:])
        rest: list[str] = []
        for word in words:
            if word not in getattr(command, "commands", {}):
                rest = [word, *words]
                break
            command = command.commands[word]
        assert not getattr(command, "commands", {}) or command.invoke_without_command, (page, line)
        known = {name for part in command.params for name in (*part.opts, *part.secondary_opts)}
        assert {word for word in rest if word.startswith("--")} <= known, (page, line)
