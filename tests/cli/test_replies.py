"""``moot ledger`` lists, shows, exports, imports and deletes debates, and refuses invalid files."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from moot.core.store import key_of, open_store
from moot.core.ledger.file import LedgerFile
from moot.core.fingerprints import Request

from tests.commands import moot

CHAT = key_of("chat", {"model": "stub", "messages": ["x"]})
TEXT = key_of("embedding", {"text": "x"})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a ledger of two debates. Both have the same two calls."""
    folder = tmp_path / "home"
    monkeypatch.setenv("MOOT_HOME", str(folder))

    async def fill() -> None:
        ledger = open_store()
        for number, status in ((1, "interrupted"), (2, "done")):
            claim = f"Claim {number} \x1b[31m"
            start = await ledger.begin("tool_mad", {"claim": claim}, {"model": "m"}, id=f"{number}" * 32)
            await ledger.store_call(start.id, CHAT, {"content": "“yes”"}, {"role": "judge", "model": "m"})
            await ledger.store_call(start.id, TEXT, [[0.1, 2.0]])
            await ledger.end(start.id, status, "/doc.json" if number == 2 else None)  # type: ignore[arg-type]
        await asyncio.to_thread(ledger.close)

    asyncio.run(fill())
    return folder


def test_debates_are_listed_and_shown(home: Path) -> None:
    listed = moot("replies")
    assert listed.returncode == 0, listed.stderr
    first, second = listed.stdout.splitlines()[1:]
    assert first.startswith("22222222")
    for word in ("11111111", "tool_mad", "interrupted", " 2 ", "Claim 1"):
        assert word in second
    assert "\x1b" not in listed.stdout
    assert [d["id"][0] for d in json.loads(moot("replies", "--status", "done", "--json").stdout)] == ["2"]
    shown = moot("replies", "show", "11").stdout
    for word in ("1" * 32, "chat", "role judge, model m", "embedding", CHAT.hash[:8]):
        assert word in shown
    document = json.loads(moot("replies", "show", "1", "--json").stdout)
    assert [entry["about"] for entry in document["entries"]] == [{"role": "judge", "model": "m"}, {}]


def test_ledger_commands_without_a_ledger_create_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "none"))
    assert json.loads(moot("replies", "--json").stdout) == []
    assert moot("replies").stdout == "The ledger is empty.\n"
    assert moot("replies", "prune").returncode == 0
    missing = moot("replies", "show", "12")
    assert (missing.returncode, "no debate '12'" in missing.stderr) == (2, True)
    assert not (tmp_path / "none").exists()


def test_an_unknown_status_is_refused(home: Path) -> None:
    assert moot("replies", "--status", "over").returncode == 2


def test_export_and_import_keep_the_entries_of_a_debate(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "debate.jsonl"
    assert moot("replies", "export", "1", file).returncode == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "“yes”" in file.read_text()
    assert "already" in moot("replies", "import", file).stderr
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "other"))
    assert moot("replies", "import", file).returncode == 0

    async def read_debate() -> list[Any]:
        """Resume the imported debate; return its id and the stored results of its two calls."""
        ledger = open_store()
        start = await ledger.begin("tool_mad", {"claim": "Claim 1 \x1b[31m"}, {"model": "m"})
        found = [
            start.id,
            *(stored and stored.value for stored in (ledger.stored_result(start.id, key) for key in (CHAT, TEXT))),
        ]
        await asyncio.to_thread(ledger.close)
        return found

    id, reply, floats = asyncio.run(read_debate())
    assert (id, reply) == ("1" * 32, {"content": "“yes”"})
    assert floats == [pytest.approx([0.1, 2.0])]
    again = tmp_path / "again.jsonl"
    assert moot("replies", "export", "1", again).returncode == 0
    assert again.read_text().splitlines()[1:] == file.read_text().splitlines()[1:]


HEAD = {"moot_ledger": 1, "moot": "0.2.0", "id": "3" * 32, "graph": "g", "input": {"claim": "x"}, "settings": {}}
HEAD |= {"status": "done", "started": 1.0, "updated": 1.0}
LINE = {"kind": "chat", "parts": {"model": "0" * 24}, "about": {}, "created": 1.0, "value": {"content": "x"}}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "cut off"),
        ([b"\x80\x04K\x01.\n"], "not JSON"),
        ([b"{\n"], "its first line is not JSON"),
        ([HEAD | {"moot_ledger": 2}], "'moot_ledger'"),
        ([HEAD | {"entries": 2}, LINE], "entry 1 is the last one, but the debate has 2 entries"),
        ([HEAD | {"id": "../../etc/passwd"}], "'id'"),
        ([HEAD | {"document": "/etc/passwd"}], "'document'"),
        ([HEAD | {"status": "owned"}], "'status'"),
        ([HEAD | {"started": -1.0}], "'started'"),
        ([HEAD, LINE | {"kind": "pickle"}], "entry 1"),
        ([HEAD, LINE, LINE | {"parts": {"model": "x"}}], "entry 2"),
        ([HEAD, LINE | {"parts": {}}], "'parts'"),
        ([HEAD, LINE | {"about": {"role": ["x"]}}], "'about"),
        ([HEAD, LINE | {"kind": "embedding", "value": [["x"]]}], "not a list of vectors"),
        ([HEAD, LINE | {"kind": "embedding", "value": [[1e300]]}], "not a list of vectors"),
        ([HEAD, LINE | {"kind": "embedding", "value": [[1.0], [1.0, 2.0]]}], "different lengths"),
        ([HEAD, LINE | {"value": float("nan")}], "contains NaN"),
        ([HEAD, b'{"kind": ' + b"[" * 100_000 + b"\n"], "nested too deeply"),
        ([HEAD, b'{"kind": ' + b"9" * 5000 + b"}\n"], "entry 1"),
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
    assert len(json.loads(moot("replies", "--json").stdout)) == 2


def test_a_file_that_exceeds_a_bound_is_refused(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The length of a line, the number of entries and the size of the file are bounded.

    Each line of the file is longer than 100 bytes and shorter than 1000 bytes.
    """
    file = tmp_path / "long.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in (HEAD, LINE, LINE, LINE)))
    for bound, value, message in (
        ("LONGEST_LINE", 1000, ""),
        ("MOST_ENTRIES", 2, "cannot be imported: it has more than 2 entries."),
        ("LARGEST_FILE", 100, "cannot be imported: it has more than 0 MiB."),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"moot.core.ledger.transfer.{bound}", value)
            done = moot("replies", "import", file)
            assert (done.returncode == 2) == bool(message)
            assert message in done.stderr
        moot("replies", "prune", "--older", "1")  # removes the debate if it was imported
    with monkeypatch.context() as patch:
        patch.setattr("moot.core.ledger.transfer.LONGEST_LINE", 100)
        assert "has more than" in moot("replies", "import", file).stderr


def test_delete_removes_a_debate_unless_it_is_running(home: Path) -> None:
    assert "entries: 2." in moot("replies", "delete", "11").stdout
    assert [debate["id"][0] for debate in json.loads(moot("replies", "--json").stdout)] == ["2"]
    missing = moot("replies", "delete", "11")
    assert (missing.returncode, "no debate '11'" in missing.stderr) == (2, True)
    file = LedgerFile(home / "ledger.sqlite")
    # Debate 1 has no entry any more, so the entry of debate 2 is found.
    assert file.find(CHAT.hash, "1" * 32) == file.find(CHAT.hash, "2" * 32) is not None
    start = file.begin(Request(None, "f", "g", "{}", "{}", adopt=False, idempotency_key=None))
    running = moot("replies", "delete", start.id)
    file.close()
    assert (running.returncode, "is running" in running.stderr) == (2, True)


def test_prune_all_removes_all_calls_and_the_debates_without_a_document(home: Path) -> None:
    assert "of 0 debates" in moot("replies", "prune", "--older", "1").stdout
    assert "of 2 debates" in moot("replies", "prune", "--all").stdout
    left = json.loads(moot("replies", "--json").stdout)
    # Debate 2 is kept, because it has a document.
    assert [(debate["id"][0], debate["entries"]) for debate in left] == [("2", 0)]
    file = LedgerFile(home / "ledger.sqlite")
    assert file.find(CHAT.hash, None) is None
    file.close()


def test_a_failed_export_leaves_no_partial_file(home: Path, tmp_path: Path) -> None:
    (tmp_path / "folder" / "out.jsonl").mkdir(parents=True)
    done = moot("replies", "export", "11", str(tmp_path / "folder" / "out.jsonl"))
    assert done.returncode == 2
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["out.jsonl"]


def test_a_damaged_store_ends_commands_with_a_message(home: Path) -> None:
    file = home / "ledger.sqlite"
    content = file.read_bytes()
    file.write_bytes(content[:8192] + b"A" * (len(content) - 8192))
    for command in (("ledger",), ("ledger", "show", "11"), ("list",)):
        done = moot(*command)
        assert done.returncode == 2
        assert "is damaged" in done.stderr
