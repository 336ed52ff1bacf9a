"""``moot replies`` lists, exports, imports and deletes replies, and refuses invalid files."""

from __future__ import annotations

import json
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from moot.core.fingerprints import key_of
from moot.core.store import Document, FileStore, Reply, open_store

from tests.commands import moot

CHAT = key_of("chat", {"model": "stub", "messages": ["x"]})
TEXT = key_of("embedding", {"text": "x"})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a store of two debates. Both have the same two calls."""
    folder = tmp_path / "home"
    monkeypatch.setenv("MOOT_HOME", str(folder))
    with closing(open_store()) as store:
        for number, status in ((1, "interrupted"), (2, "done")):
            claim = f"Claim {number} \x1b[31m"
            start = store.begin("tool_mad", {"claim": claim}, {"model": "m"}, id=f"{number}" * 32)
            about = {"role": "judge", "model": "m"}
            chat = Reply(start.id, CHAT, "chat", about, None, paid=(10, 0.5, 1), sent=(20, 0, 1))
            store.keep([(chat, {"content": "“yes”"}), (Reply(start.id, TEXT, "embedding", {}, None), [0.1, 2.0])])
            document = Document("20260101T000000", start.id, "done", "{}", b"") if number == 2 else None
            store.end(start.id, status, document)  # type: ignore[arg-type]
    return folder


def listed() -> dict[str, int]:
    """The number of replies of each debate that ``moot replies`` lists, by the first digit of its id."""
    return {run["id"][0]: run["replies"] for run in json.loads(moot("replies", "--json").stdout)}


def test_debates_are_listed(home: Path) -> None:
    done = moot("replies")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()[1:]
    assert first.startswith("22222222")
    for word in ("11111111", "tool_mad", "interrupted", " 2 ", "Claim 1"):
        assert word in second
    assert "\x1b" not in done.stdout
    assert [run["id"][0] for run in json.loads(moot("replies", "--status", "done", "--json").stdout)] == ["2"]


def test_commands_without_a_store_create_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "none"))
    assert json.loads(moot("replies", "--json").stdout) == []
    assert moot("replies").stdout == "No replies are stored.\n"
    assert moot("replies", "delete", "--older", "0").returncode == 0
    missing = moot("replies", "delete", "12")
    assert (missing.returncode, "No stored debate has the id '12'" in missing.stderr) == (2, True)
    assert not (tmp_path / "none").exists()


def test_export_and_import_keep_the_replies_of_a_debate(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "debate.jsonl"
    assert moot("replies", "export", "1", file).returncode == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "“yes”" in file.read_text()
    assert "stored already" in moot("replies", "import", file).stderr
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "other"))
    assert moot("replies", "import", file).returncode == 0
    with closing(open_store()) as store:
        start = store.begin("tool_mad", {"claim": "Claim 1 \x1b[31m"}, {"model": "m"})
        found = store.replies(start.id)
    assert (start.id, start.resumed) == ("1" * 32, True)
    assert (found[CHAT].value, found[CHAT].paid, found[CHAT].sent) == ({"content": "“yes”"}, (10, 0.5, 1), (20, 0, 1))
    assert found[TEXT].value == pytest.approx([0.1, 2.0])
    again = tmp_path / "again.jsonl"
    assert moot("replies", "export", "1", again).returncode == 0
    assert again.read_text().splitlines()[1:] == file.read_text().splitlines()[1:]


HEAD = {"moot_replies": 1, "version": "0.2.0", "id": "3" * 32, "graph": "g", "input": {"claim": "x"}, "settings": {}}
HEAD |= {"status": "done", "started": 1.0, "updated": 1.0, "replies": 0}
LINE = {"key": "0" * 32, "kind": "chat", "about": {}, "failed": False, "created": 1.0, "value": {"content": "x"}}
LINE |= {"paid": [1, 0, 1], "sent": [0, 0, 0]}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "cut off"),
        ([b"\x80\x04K\x01.\n"], "not JSON"),
        ([b"{\n"], "its first line is not JSON"),
        ([HEAD | {"moot_replies": 2}], "'moot_replies'"),
        ([HEAD | {"replies": 2}, LINE], "reply 1 is the last one, but the debate has 2 replies"),
        ([HEAD | {"id": "../../etc/passwd"}], "'id'"),
        ([HEAD | {"document": "/etc/passwd"}], "'document'"),
        ([HEAD | {"status": "owned"}], "'status'"),
        ([HEAD | {"started": -1.0}], "'started'"),
        ([HEAD, LINE | {"kind": "pickle"}], "reply 1"),
        ([HEAD, LINE, LINE | {"key": "x"}], "reply 2"),
        ([HEAD, LINE | {"paid": [1, 2]}], "'paid"),
        ([HEAD, LINE | {"sent": [1, 2, -1]}], "'sent"),
        ([HEAD, LINE | {"about": {"role": ["x"]}}], "'about"),
        ([HEAD, LINE | {"kind": "embedding", "value": ["x"]}], "not a vector"),
        ([HEAD, LINE | {"kind": "embedding", "value": [1e300]}], "not a vector"),
        ([HEAD, LINE | {"value": float("nan")}], "contains NaN"),
        ([HEAD, b'{"kind": ' + b"[" * 100_000 + b"\n"], "nested too deeply"),
        ([HEAD, b'{"kind": ' + b"9" * 5000 + b"}\n"], "reply 1"),
        ([HEAD, b'{"kind": "chat"'], "cut off"),
    ],
)
def test_nothing_of_an_invalid_file_is_imported(home: Path, tmp_path: Path, lines: list[Any], message: str) -> None:
    file = tmp_path / "hostile.jsonl"
    file.write_bytes(b"".join(x if isinstance(x, bytes) else json.dumps(x).encode() + b"\n" for x in lines))
    done = moot("replies", "import", file)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert message in done.stderr
    assert listed() == {"1": 2, "2": 2}


def test_a_file_that_exceeds_a_bound_is_refused(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The length of a line, the number of replies and the size of the file are bounded.

    Each line of the file is longer than 100 bytes and shorter than 1000 bytes.
    """
    file = tmp_path / "long.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in (HEAD, LINE, LINE, LINE)))
    for bound, value, message in (
        ("LONGEST_LINE", 1000, ""),
        ("LONGEST_LINE", 100, "has more than"),
        ("MOST_REPLIES", 2, "cannot be imported: it has more than 2 replies."),
        ("LARGEST_FILE", 100, "cannot be imported: it has more than 0 MiB."),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"moot.core.transfer.{bound}", value)
            done = moot("replies", "import", file)
            assert (done.returncode == 2) == bool(message)
            assert message in done.stderr
        if not message:
            moot("replies", "delete", "3")


def test_delete_removes_a_debates_replies_unless_it_is_running(home: Path) -> None:
    assert f"{'1' * 32}: 2." in moot("replies", "delete", "11").stdout
    assert listed() == {"2": 2}
    missing = moot("replies", "delete", "11")
    assert (missing.returncode, "No stored debate" in missing.stderr) == (2, True)
    with closing(FileStore(home / "store.sqlite")) as store:
        start = store.begin("g", {}, {})
        running = moot("replies", "delete", start.id)
    assert (running.returncode, "is running" in running.stderr) == (2, True)
    assert moot("replies", "delete").returncode == 2  # neither an id nor an age


def test_delete_older_removes_all_replies_and_the_debates_without_a_document(home: Path) -> None:
    assert "debates: 0." in moot("replies", "delete", "--older", "1").stdout
    assert "debates: 2." in moot("replies", "delete", "--older", "0").stdout
    assert listed() == {"2": 0}


def test_a_failed_export_leaves_no_partial_file(home: Path, tmp_path: Path) -> None:
    (tmp_path / "folder" / "out.jsonl").mkdir(parents=True)
    done = moot("replies", "export", "11", str(tmp_path / "folder" / "out.jsonl"))
    assert done.returncode == 2
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["out.jsonl"]


def test_a_damaged_store_ends_commands_with_a_message(home: Path) -> None:
    file = home / "store.sqlite"
    content = file.read_bytes()
    file.write_bytes(content[:8192] + b"A" * (len(content) - 8192))
    for command in (("replies",), ("replies", "export", "11", "out"), ("list",)):
        done = moot(*command)
        assert done.returncode == 2
        assert "is damaged" in done.stderr
