"""The ledger of calls, on real files, from several threads and processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.core.errors import UserError
from moot.core.ledger import CallLedger, Key, key_of, ledger_path, open_ledger
from moot.core.ledger.file import SCHEMA_VERSION, LedgerFile

SETTINGS = {"model": "openai:stub", "api_key": "sk-nobody-may-see-this-1234"}


@pytest.fixture
async def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An open ledger in a new folder."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    opened = open_ledger()
    yield opened
    await asyncio.to_thread(opened.close)


def chat(n: int) -> Key:
    """The key of the n-th chat call."""
    return key_of("chat", {"model": "stub", "messages": [n]})


# --- keys -------------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
PARTS = st.dictionaries(st.sampled_from("abcdefgh"), JSON, min_size=1)


def with_reversed_keys(value: Any) -> Any:
    """A copy of a JSON value with the keys of its objects in reverse order."""
    if isinstance(value, dict):
        return {name: with_reversed_keys(value[name]) for name in reversed(value)}
    return [with_reversed_keys(item) for item in value] if isinstance(value, list) else value


@given(PARTS)
def test_equal_content_in_any_order_has_an_equal_key(parts: dict[str, Any]) -> None:
    assert key_of("chat", parts) == key_of("chat", with_reversed_keys(parts))


@given(PARTS, st.data())
def test_any_changed_part_gives_another_key(parts: dict[str, Any], data: st.DataObject) -> None:
    before = key_of("chat", parts)
    name = data.draw(st.sampled_from(sorted(parts)))
    for changed in ({**parts, name: [parts[name]]}, {**parts, "z": parts[name]}, {**parts, name: {"a": parts[name]}}):
        assert key_of("chat", changed).hash != before.hash
    assert key_of("search", parts).hash != before.hash
    differs = {n for n, h in key_of("chat", {**parts, name: [parts[name]]}).parts.items() if before.parts[n] != h}
    assert differs == {name}


def test_another_key_version_gives_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key_of("chat", {"model": "m"})
    monkeypatch.setattr("moot.core.ledger.records.KEY_VERSION", 0)
    assert key_of("chat", {"model": "m"}).hash != before.hash


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), b"bytes"])
def test_a_value_that_is_not_json_cannot_be_hashed(value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        key_of("chat", {"messages": [value]})


# --- entries ----------------------------------------------------------------------------------------------------------


async def test_stored_calls_are_found_when_the_debate_is_resumed(ledger: CallLedger) -> None:
    start = await ledger.begin("tool_mad", {"claim": "é \ud800"}, SETTINGS)
    assert not start.resumed
    reply = {"content": "“Yes.” " * 2000, "tool_calls": []}
    await asyncio.gather(
        *(ledger.store_call(start.id, chat(n), {**reply, "n": n}, {"role": "judge"}) for n in range(50))
    )
    embedding = key_of("embedding", {"text": "a"})
    await ledger.store_call(start.id, embedding, [[0.5, -1.25, 3.0], [1, 2, 3]])
    assert ledger.stored_result(start.id, chat(0)) is None  # a new debate looks up no entry
    await ledger.end(start.id, "failed")

    again = await ledger.begin("tool_mad", {"claim": "é \ud800"}, SETTINGS)
    assert (again.id, again.resumed) == (start.id, True)
    for n in range(50):
        stored = ledger.stored_result(again.id, chat(n))
        assert stored is not None
        assert stored.value == {**reply, "n": n}
        assert stored.about == {"role": "judge"}
    found = ledger.stored_result(again.id, embedding)
    assert found is not None
    assert found.value == [[0.5, -1.25, 3.0], [1, 2, 3]]
    assert ledger.stored_result(again.id, chat(50)) is None
    await ledger.end(again.id, "done")
    assert not (await ledger.begin("tool_mad", {"claim": "é \ud800"}, SETTINGS)).resumed


async def test_another_input_setting_or_graph_is_another_debate_and_a_running_debate_is_refused(
    ledger: CallLedger,
) -> None:
    start = await ledger.begin("a", {"claim": "x"}, {"rounds": 1})
    await ledger.end(start.id, "interrupted")
    for graph, claim, rounds in (("b", "x", 1), ("a", "y", 1), ("a", "x", 2)):
        other = await ledger.begin(graph, {"claim": claim}, {"rounds": rounds})
        assert other.id != start.id
    assert (await ledger.begin("a", {"claim": "x"}, {"rounds": 1}, adopt=False)).id != start.id
    assert (await ledger.begin("a", {"claim": "x"}, {"rounds": 1})).id == start.id
    with pytest.raises(UserError, match="is running in process"):
        await ledger.begin("a", {"claim": "x"}, {"rounds": 1}, id=start.id)


async def test_an_idempotency_key_makes_two_requests_one_debate(ledger: CallLedger) -> None:
    both = await asyncio.gather(*(ledger.begin("a", {"claim": "x"}, {}, idempotency_key="k") for _ in range(2)))
    assert both[0].id == both[1].id
    assert sorted(start.owned for start in both) == [False, True]
    await ledger.end(both[0].id, "failed")
    third = await ledger.begin("a", {"claim": "x"}, {}, idempotency_key="k")
    assert (third.id, third.resumed, third.owned) == (both[0].id, True, True)
    with pytest.raises(UserError, match="idempotency key"):
        await ledger.begin("a", {"claim": "y"}, {}, idempotency_key="k")


async def test_lookup_prefers_the_named_debate_and_a_miss_names_the_changed_fields(ledger: CallLedger) -> None:
    ids = [(await ledger.begin("a", {"claim": str(n)}, {})).id for n in range(2)]
    for id in ids:
        await ledger.store_call(id, chat(1), id, {"role": "judge"})
    found = [await ledger.find(chat(1), prefer) for prefer in (None, *ids)]
    assert [stored and stored.value for stored in found] == [ids[1], *ids]
    error = await ledger.replay_error(chat(2), "a call of the judge", ids[0])
    assert (error.kind, "differs in: messages." in error.detail) == ("replay_miss", True)
    assert "no search call" in (await ledger.replay_error(key_of("search", {"query": "q"}), "a search")).detail


async def test_a_newer_failed_call_does_not_hide_an_older_answer(ledger: CallLedger) -> None:
    ids = [(await ledger.begin("a", {"claim": str(n)}, {})).id for n in range(2)]
    await ledger.store_call(ids[0], chat(1), "good")
    await ledger.store_call(ids[1], chat(1), "bad", {"failed": 1})
    for prefer in (None, ids[1]):
        newest, usable = await ledger.find(chat(1), prefer), await ledger.find(chat(1), prefer, failed=False)
        assert (newest and newest.value, usable and usable.value) == ("bad", "good")


async def test_api_keys_are_not_stored(ledger: CallLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", 'quo"ted-secret-value')
    start = await ledger.begin("a", {"claim": "x"}, SETTINGS)
    await ledger.store_call(start.id, chat(1), {"content": 'The key is quo"ted-secret-value.'})
    entry = await ledger.find(chat(1))
    assert entry is not None
    assert entry.value == {"content": "The key is [SOME_API_KEY]."}
    await asyncio.to_thread(ledger.close)
    stored = b"".join(path.read_bytes() for path in ledger.path.parent.glob("ledger.sqlite*"))
    assert b"secret-value" not in stored
    assert b"nobody-may-see" not in stored


async def test_debates_are_listed_and_deleted(ledger: CallLedger) -> None:
    ids = [(await ledger.begin(graph, {"claim": claim}, {})).id for graph, claim in (("a", "Äpfel"), ("b", 'say "no"'))]
    await ledger.store_call(ids[0], chat(1), "x")
    await ledger.end(ids[0], "done", "/somewhere.json")
    assert [debate.id for debate in await ledger.debates()] == ids[::-1]
    assert [debate.id for debate in await ledger.debates(graph="a")] == ids[:1]
    assert [debate.id for debate in await ledger.debates(text='SAY "')] == ids[1:]
    assert [debate.id for debate in await ledger.debates(status="running")] == ids[1:]
    assert [(id, status) for id, status, _ in await ledger.outline()] == [(ids[1], "running"), (ids[0], "done")]
    await ledger.record_run(ids[0], "a thread", "a run")
    assert [await ledger.find_run(id) for id in ids] == [("a thread", "a run"), None]
    first = await ledger.debate(ids[0])
    assert first is not None
    assert (first.entries, first.document, first.status) == (1, "/somewhere.json", "done")
    await ledger.delete(ids[0])
    assert await ledger.debate(ids[0]) is None
    assert await ledger.find(chat(1)) is None


async def test_a_failing_job_does_not_fail_other_jobs(ledger: CallLedger) -> None:
    start = await ledger.begin("a", {"claim": "x"}, {})
    jobs = [ledger.store_call(id, chat(n), n) for n, id in enumerate([start.id, "of no debate", start.id])]
    results = await asyncio.gather(*jobs, return_exceptions=True)
    assert [result is None for result in results] == [True, False, True]
    assert [(await ledger.find(chat(n))) is not None for n in range(3)] == [True, False, True]


# --- the file ---------------------------------------------------------------------------------------------------------


async def test_only_its_user_can_read_the_ledger(ledger: CallLedger) -> None:
    before = os.umask(0o022)
    try:
        await ledger.begin("a", {"claim": "x"}, {})
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in ledger.path.parent.glob("ledger.sqlite*")}
    assert {"ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"} <= set(modes)
    assert set(modes.values()) == {0o600}


async def test_a_removed_file_is_created_again(ledger: CallLedger) -> None:
    await ledger.begin("a", {"claim": "x"}, {})
    for path in ledger.path.parent.glob("ledger.sqlite*"):
        path.unlink()
    start = await ledger.begin("a", {"claim": "x"}, {})
    await ledger.store_call(start.id, chat(1), 1)
    assert ledger.path.exists()


@pytest.mark.parametrize("harm", ["no database", "later", "foreign", "cut"])
async def test_damaged_foreign_and_later_files_are_refused(ledger: CallLedger, harm: str) -> None:
    if harm == "no database":
        ledger.path.write_text("claims\n" * 1000)
    elif harm == "cut":
        LedgerFile(ledger.path).close()
        ledger.path.write_bytes(ledger.path.read_bytes()[:10_000])
    else:
        if harm == "later":
            LedgerFile(ledger.path).close()
        with sqlite3.connect(ledger.path) as connection:
            connection.execute("CREATE TABLE things (id)")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        connection.close()
    with pytest.raises(UserError, match=r"later version|damaged") as raised:
        await ledger.begin("a", {"claim": "x"}, {})
    assert raised.value.kind == "damaged_ledger"
    assert "--ledger off" in raised.value.detail


async def test_a_damaged_compressed_result_is_an_error_of_the_ledger(ledger: CallLedger) -> None:
    start = await ledger.begin("a", {"claim": "x"}, {})
    await ledger.store_call(start.id, chat(1), "long " * 1000)
    await asyncio.to_thread(ledger.close)
    with sqlite3.connect(ledger.path) as connection:
        connection.execute("UPDATE entries SET value = CAST('z' || 'not compressed' AS BLOB)")
    connection.close()
    with pytest.raises(UserError, match="damaged"):
        await open_ledger().find(chat(1))


async def test_an_unwritable_folder_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    # A file takes the folder's place, because root may write to a read-only folder.
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "file" / "home"))
    ledger = open_ledger()
    with pytest.raises(UserError, match=r"MOOT_HOME.*--ledger off"):
        await ledger.begin("a", {"claim": "x"}, {})
    await asyncio.to_thread(ledger.close)


async def test_pruning_removes_old_debates_then_entries_of_ended_debates_and_shrinks_the_file(
    ledger: CallLedger,
) -> None:
    states = {"old": "done", "shown": "done", "late": "failed", "new": "done", "open": "interrupted", "aged": "waiting"}
    ids = {}
    for name, status in states.items():
        ids[name] = (await ledger.begin("a", {"claim": name}, {})).id
        for n in range(20):
            await ledger.store_call(ids[name], chat(n), os.urandom(20_000).hex())
        await ledger.end(ids[name], status, "/shown.json" if name == "shown" else None)  # type: ignore[arg-type]
    running = (await ledger.begin("a", {"claim": "running"}, {})).id
    await asyncio.to_thread(ledger.close)
    with sqlite3.connect(ledger.path) as connection:
        for name in ("old", "shown", "aged"):
            connection.execute("UPDATE debates SET updated = updated - 31 * 86400 WHERE id = ?", (ids[name],))
    connection.close()
    before = ledger.path.stat().st_size
    file = LedgerFile(ledger.path)
    try:
        assert file.needs_pruning()
        assert not file.needs_pruning(days=60)
        pruned = file.prune(most=before // 2 - 100_000)
        left = {debate.id: debate for debate in file.debates()}
        assert set(left) == {ids["shown"], ids["late"], ids["new"], ids["open"], running}
        assert [left[ids[name]].entries for name in ("shown", "new", "late", "open")] == [0, 0, 20, 20]
        assert pruned.debates == 4  # two debates are removed, and two lose their entries
        assert not file.needs_pruning(most=before)
        file.prune(most=0)
        assert [debate.entries for debate in file.debates() if debate.entries] == [
            20
        ]  # only the interrupted debate keeps them
    finally:
        file.close()
    assert ledger.path.stat().st_size < before // 3


# --- processes --------------------------------------------------------------------------------------------------------

KEEP_ENTRIES = """
import asyncio, sys
from moot.core.ledger import key_of, open_ledger

async def main():
    ledger = open_ledger()
    begun = await ledger.begin("a", {"claim": "x"}, {})
    print(begun.id, begun.resumed, flush=True)
    async def keep(lane):
        for n in range(100_000):
            await ledger.store_call(begun.id, key_of("chat", {"messages": [lane, n]}), {"content": "x" * 300})
            print(lane, n, flush=True)
    if sys.argv[1] == "keep":
        await asyncio.gather(*map(keep, range(8)))
    sys.stdin.read()

asyncio.run(main())
"""


def start_program(what: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", KEEP_ENTRIES, what]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def test_every_awaited_entry_survives_a_kill(ledger: CallLedger) -> None:
    child = start_program("keep")
    assert child.stdout is not None
    id = child.stdout.readline().split()[0]
    first_lines = [child.stdout.readline() for _ in range(300)]
    assert [d.status for d in await ledger.debates()] == ["running"]
    child.send_signal(signal.SIGKILL)
    rest = await asyncio.to_thread(child.stdout.read)  # `communicate` would lose buffered output
    await asyncio.to_thread(child.communicate)
    lines = "".join([*first_lines, rest]).split("\n")[:-1]  # the kill may cut the last line
    assert [d.status for d in await ledger.debates(status="interrupted")] == ["interrupted"]
    start = await ledger.begin("a", {"claim": "x"}, {})
    assert (start.id, start.resumed) == (id, True)
    for lane, n in (map(int, line.split()) for line in lines):
        assert ledger.stored_result(id, key_of("chat", {"messages": [lane, n]})) is not None, (lane, n)


async def test_only_one_of_several_processes_takes_over_a_debate(ledger: CallLedger) -> None:
    start = await ledger.begin("a", {"claim": "x"}, {})
    await ledger.end(start.id, "interrupted")
    children = [start_program("begin") for _ in range(3)]
    answers = [child.stdout.readline().split() for child in children if child.stdout]
    assert [id for id, resumed in answers if resumed == "True"] == [start.id]
    assert len({id for id, _ in answers}) == 3
    assert {debate.status for debate in await ledger.debates()} == {"running"}
    for child in children:
        await asyncio.to_thread(child.communicate, "")
    assert {debate.status for debate in await ledger.debates()} == {"interrupted"}


def test_the_ledgers_path_follows_moot_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    assert ledger_path() == tmp_path / "ledger.sqlite"
