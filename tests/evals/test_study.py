"""The archive of a study: another person replays it without a key; a forged one is refused."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.evals._report.write import as_document, compare
from moot.evals._runs.study import LIST, replay_study, unpack_study

from tests.commands import moot_process
from tests.conftest import StartStub
from tests.evals.test_solver import claims, says

Entries = dict[str, bytes]


@pytest.fixture
def study(start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The archive of a small study, on a machine without its key and its store; its endpoint gets no further call."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MOOT_REPLIES", "record")
    (tmp_path / "prices.jsonl").write_text('{"model": "openai:stub", "input": 4, "output": 1}')
    monkeypatch.setenv("MOOT_PRICES", str(tmp_path / "prices.jsonl"))
    stub = start_stub([says("REFUTES", "Claim B"), says("SUPPORTS")])
    data = claims(tmp_path / "fever.jsonl", "SUPPORTS", "REFUTES", "REFUTES")
    options = ["--graph", "society_of_minds", "--task", f"fever={data}", "--model", "openai:stub", "--seed", 1]
    ran = moot_process("eval", "run", *options, "--controls", "--equal", "usd", "--logs", tmp_path / "logs")
    assert ran.returncode == 0, ran.stderr
    assert {run["status"] for run in json.loads(moot_process("replies", "--json").stdout)} == {"done"}
    made = moot_process("eval", "archive", tmp_path / "logs", "--out", tmp_path / "study.zip")
    assert "4 logs, and the replies of 12 of 12 debates" in made.stdout, made.stderr
    asked = len(stub.prompts())
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "MOOT_REPLIES", "MOOT_PRICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "other"))
    yield tmp_path / "study.zip"
    assert len(stub.prompts()) == asked > 0


def entries(archive: Path) -> Entries:
    with zipfile.ZipFile(archive) as file:
        return {name: file.read(name) for name in file.namelist()}


def write(archive: Path, content: Entries) -> Path:
    with zipfile.ZipFile(archive, "w") as file:
        for name, data in content.items():
            file.writestr(name, data)
    return archive


def test_a_study_is_replayed_to_the_same_tables_unless_a_reply_was_changed(study: Path, tmp_path: Path) -> None:
    done = moot_process("eval", "replay", study, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "12 of 12 debates with stored replies gave the same result again." in done.stderr
    ours, theirs = (
        as_document(compare([folder / "logs"], prices=folder / "prices.jsonl"))
        for folder in (tmp_path, tmp_path / "out")
    )
    assert ours["studies"] == theirs["studies"]
    assert None not in [row["cost"] for row in ours["studies"][0]["tables"]["costs"]["rows"]]
    assert (tmp_path / "out" / "report" / "report.html").is_file()
    assert not (tmp_path / "other").exists()

    about = unpack_study(study, tmp_path / "changed")
    for file in sorted((tmp_path / "changed" / "replies").glob("*.moot")):
        file.write_text(file.read_text().replace("SUPPORTS", "REFUTES"))
    found = replay_study(tmp_path / "changed", about)
    assert (found.same, len(found.different)) == (4, 8)  # one claim was refuted by all
    assert "answer" in found.different[0]


def drop(name: str) -> Callable[[Entries], Entries]:
    return lambda content: {key: data for key, data in content.items() if key != name}


def listed(content: Entries, name: str, **change: Any) -> Entries:
    """The entries with a file of 5 bytes under a name, which the list states as given."""
    about = json.loads(content[LIST])
    sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"  # of "hello"
    about["files"][name] = {"bytes": 5, "sha256": sha256} | change
    return {**content, name: b"hello", LIST: json.dumps(about).encode()}


FORGED: dict[str, tuple[Callable[[Entries], Entries], str]] = {
    "no list": (drop(LIST), f"no {LIST}"),
    "not listed": (lambda content: {**content, "logs/more.eval": b""}, "not those that its"),
    "outside": (lambda content: listed(content, "logs/../../evil.eval"), "may not have"),
    "absolute": (lambda content: listed(content, "/tmp/evil.eval"), "may not have"),
    "hidden": (lambda content: listed(content, "logs/.evil.eval"), "may not have"),
    "a program": (lambda content: listed(content, "logs/evil.py"), "may not have"),
    "longer": (lambda content: listed(content, "logs/a.eval", bytes=4), "is longer than"),
    "shorter": (lambda content: listed(content, "logs/a.eval", bytes=6), "differs"),
    "another": (lambda content: listed(content, "logs/a.eval", sha256="0" * 64), "differs"),
    "too large": (lambda content: listed(content, "logs/a.eval", bytes=2**38), "more than 200 GiB"),
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_archive_is_refused_and_leaves_nothing(kind: str, tmp_path: Path) -> None:
    change, reason = FORGED[kind]
    about = {"moot_study": 1, "version": "1", "corpora": {}, "endpoints": {}, "prices": [], "files": {}}
    forged = write(tmp_path / "forged.zip", change({LIST: json.dumps(about).encode()}))
    with pytest.raises(UserError, match=reason):
        unpack_study(forged, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["forged.zip"]


def test_a_link_in_an_archive_is_refused(tmp_path: Path) -> None:
    about = {"moot_study": 1, "version": "1", "corpora": {}, "endpoints": {}, "prices": [], "files": {}}
    content = listed({LIST: json.dumps(about).encode()}, "logs/a.eval")
    link = zipfile.ZipInfo("logs/a.eval")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "linked.zip", "w") as file:
        file.writestr(LIST, content[LIST])
        file.writestr(link, b"hello")
    with pytest.raises(UserError, match="is a link"):
        unpack_study(tmp_path / "linked.zip", tmp_path / "out")


def test_what_is_no_archive_and_a_folder_that_exists_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("no zip")
    with pytest.raises(UserError, match="is not an archive of a study"):
        unpack_study(tmp_path / "text.zip", tmp_path / "out")
    with pytest.raises(UserError, match="exists already"):
        unpack_study(tmp_path / "text.zip", tmp_path)
    with pytest.raises(UserError, match="missing"):
        unpack_study(tmp_path / "missing.zip", tmp_path / "out")
