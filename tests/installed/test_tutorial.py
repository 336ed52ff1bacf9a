"""The tutorial's programs and commands run after pip has installed its package; ``moot serve`` is left out."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.collector import collecting
from tests.installed.package import EXAMPLE, install_tutorial

PAGE = (Path(__file__).parents[2] / "docs/howto/tutorial.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.S)
    for line in block.replace("\\\n", " ").splitlines()
    if re.match(r"(\w+=\S+ )*moot (?!serve)", line)
]
"""The page's commands of moot except ``moot serve``, in their order."""
Shell = Callable[..., str]


def block(kind: str) -> str:
    """The content of the page's only code block in this language."""
    (found,) = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.S)
    return str(found)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A function that runs a shell command, with the package installed, and returns its output.

    A command that fails makes the test fail. ``more`` has further environment variables.
    """
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "claims.csv").write_text(block("csv"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "PYTHONPATH": str(install_tutorial(folder)), "MOOT_HOME": str(folder / "home")}

    def run(line: str, **more: str) -> str:
        command = [shutil.which("bash") or "sh", "-c", line]
        here = os.environ | environment | more
        done = subprocess.run(command, cwd=folder, env=here, capture_output=True, text=True, timeout=250, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_page_shows_the_packages_metadata_and_its_debate() -> None:
    shown = [EXAMPLE.parents[1] / name for name in re.findall(r"<!-- FILE: (\S+) -->", PAGE)]
    assert shown == [EXAMPLE / "pyproject.toml", EXAMPLE / "chaired_debate/debate.py"]


def test_the_debate_has_at_most_30_lines() -> None:
    """Imports, blank lines, and lines with the quotes of a docstring are not counted."""
    debate = (EXAMPLE / "chaired_debate/debate.py").read_text(encoding="utf-8").partition(")\n\n\n")[2]
    assert len([line for line in debate.splitlines() if line.strip() and '"""' not in line]) <= 30


def test_the_debate_is_listed_and_verifies_a_claim(shell: Shell) -> None:
    """The second command lists the debate's settings."""
    listing, settings, verify = COMMANDS[:3]
    assert "chaired               A chaired debate: the first agent hears all others" in shell(listing)
    assert "max_rounds" in shell(settings)
    assert re.search(r"Graph chaired;.*^Verdict: ", shell(verify), re.S | re.M)


def test_the_program_prints_who_hears_whom(shell: Shell) -> None:
    chair, *others = json.loads(shell(f"python - <<'END'\n{block('python')}\nEND").replace("'", '"')).values()
    assert (chair, others) == (["agent-2", "agent-3"], [["agent-1"], ["agent-1"]])


def test_the_debate_is_compared_with_two_other_graphs(shell: Shell) -> None:
    run, compare = COMMANDS[3:5]
    rows = [line.split() for line in shell(run).splitlines()]
    measured = {row[0]: row[3:5] for row in rows if row[1:3] == ["claims", "fake:1"]}
    assert measured == {name: ["4", "0"] for name in ("chaired", "society_of_minds", "self_consistency")}
    shell(compare)
    report = shell("cat report/report.md").replace("\\_", "_")
    assert all(name in report for name in measured)


def test_the_debate_is_traced_in_langsmith(shell: Shell) -> None:
    [langsmith] = COMMANDS[5:]
    with collecting() as collector:
        shell(langsmith, **collector.environment)
    names = {run["name"] for run in collector.runs.values()}
    assert {"Chaired debate", "answer", "compare_answers", "vote"} <= names
    assert any("chaired" in run["tags"] for run in collector.runs.values() if run["name"] == "Chaired debate")


def test_a_debate_searches_the_packages_source(shell: Shell) -> None:
    document = json.loads(
        shell("""moot verify "The council opened the tram line." --graph rag --set 'sources=["minutes"]' \
            --model fake:1 --json""")
    )
    assert document["evidence"][0]["title"] == "May 2024"
    assert document["evidence"][0]["retrievals"][0]["retriever"] == "minutes"


def test_the_packages_benchmark_is_listed_and_runs_on_a_file(shell: Shell) -> None:
    listed = {row["name"] for row in json.loads(shell("moot eval tasks --json"))}
    assert {"motions", "fever"} <= listed
    shell("""echo '{"motion": "The council opens a tram line.", "carried": true}' > motions.jsonl""")
    run = "moot eval run --graph chaired --task motions=motions.jsonl --model fake:1 --logs motions"
    assert re.search(r"chaired +motions +fake:1 +1 +0 +accuracy", shell(run))


def test_the_debate_verifies_all_claims_of_a_batch(shell: Shell) -> None:
    shell("moot batch claims.csv --graph chaired --model fake:1 --out verdicts")
    assert {f"{number}.json" for number in (1, 2, 3, 4)} <= set(shell("ls verdicts").split())
    assert json.loads(shell("cat verdicts/1.json"))["graph"] == "chaired"
