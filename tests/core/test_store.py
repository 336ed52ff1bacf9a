"""The ledger of calls with real files. Some tests use the ledger from several processes."""

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
from moot.core.store import CallLedger, Key, key_of, ledger_path, open_store
from moot.core.ledger.file import SCHEMA_VERSION, LedgerFile

SETTINGS = {"model": "openai:stub", "api_key": "sk-nobody-may-see-this-1234"}


@pytest.fixture
async def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A ledger in a new folder. Its first operation creates the file."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    ledger = open_store()
    yield ledger
    await asyncio.to_thread(ledger.close)


def chat_key(n: int) -> Key:
    """The key of the n-th chat call."""
    return key_of("chat", {"model": "stub", "messages": [n]})


# --- keys -------------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
PARTS = st.dictionaries(st.sampled_from("abcdefgh"), JSON, min_size=1)


def with_reversed_names(value: Any) -> Any:
    """A copy of a JSON value with the names of its objects in reverse order."""
    if isinstance(value, dict):
        return {name: with_reversed_names(value[name]) for name in reversed(value)}
    return [with_reversed_names(item) for item in value] if isinstance(value, list) else value


@given(PARTS)
def test_the_order_of_names_in_objects_does_not_change_a_key(parts: dict[str, Any]) -> None:
    assert key_of("chat", parts) == key_of("chat", with_reversed_names(parts))


@given(PARTS, st.data())
def test_a_changed_part_an_added_part_or_another_kind_changes_the_hash(
    parts: dict[str, Any], data: st.DataObject
) -> None:
    """If one part is changed, the hashes of the other parts stay the same."""
    before = key_of("chat", parts)
    name = data.draw(st.sampled_from(sorted(parts)))
    for changed in ({**parts, name: [parts[name]]}, {**parts, "z": parts[name]}, {**parts, name: {"a": parts[name]}}):
        assert key_of("chat", changed).hash != before.hash
    assert key_of("search", parts).hash != before.hash
    after = key_of("chat", {**parts, name: [parts[name]]})
    assert {part for part in parts if after.parts[part] != before.parts[part]} == {name}


def test_another_key_version_gives_another_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key_of("chat", {"model": "m"})
    monkeypatch.setattr("moot.core.fingerprints.KEY_VERSION", 0)
    assert key_of("chat", {"model": "m"}).hash != before.hash


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), b"bytes"])
def test_a_key_cannot_be_made_of_a_value_that_is_not_json(value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        key_of("chat", {"messages": [value]})


# --- entries ----------------------------------------------------------------------------------------------------------


async def test_stored_results_are_found_after_their_debate_is_resumed(ledger: CallLedger) -> None:
    """The results are not found while the debate runs for the first time. A debate that is done is not resumed."""
    start = await ledger.begin("tool_mad", {"claim": "é \ud800"}, SETTINGS)
    assert not start.resumed
    reply = {"content": "“Yes.” " * 2000, "tool_calls": []}
    await asyncio.gather(
        *(ledger.store_call(start.id, chat_key(n), {**reply, "n": n}, {"role": "judge"}) for n in range(50))
    )
    embedding = key_of("embedding", {"text": "a"})
    await ledger.store_call(start.id, embedding, [[0.5, -1.25, 3.0], [1, 2, 3]])
    assert ledger.stored_result(start.id, chat_key(0)) is None
    await ledger.end(start.id, "failed")

    again = await ledger.begin("tool_mad", {"claim": "é \ud800"}, SETTINGS)
    assert (again.id, again.resumed) == (start.id, True)
    for n in range(50):
        stored = ledger.stored_result(again.id, chat_key(n))
        assert stored is not None
        assert stored.value == {**reply, "n": n}
        assert stored.about == {"role": "judge"}
    found = ledger.stored_result(again.id, embedding)
    assert found is not None
    assert found.value == [[0.5, -1.25, 3.0], [1, 2, 3]]
    assert ledger.stored_result(again.id, chat_key(50)) is None
    await ledger.end(again.id, "done")
    assert not (await ledger.begin("tool_mad", {"claim": "é \ud800"}, SETTINGS)).resumed


async def test_a_debate_with_another_graph_input_or_setting_is_not_resumed(ledger: CallLedger) -> None:
    """If ``adopt`` is false, not even an equal debate is resumed."""
    start = await ledger.begin("a", {"claim": "x"}, {"rounds": 1})
    await ledger.end(start.id, "interrupted")
    for graph, claim, rounds in (("b", "x", 1), ("a", "y", 1), ("a", "x", 2)):
        other = await ledger.begin(graph, {"claim": claim}, {"rounds": rounds})
        assert other.id != start.id
    assert (await ledger.begin("a", {"claim": "x"}, {"rounds": 1}, adopt=False)).id != start.id
    assert (await ledger.begin("a", {"claim": "x"}, {"rounds": 1})).id == start.id


async def test_a_running_debate_cannot_be_begun_again_by_its_id(ledger: CallLedger) -> None:
    """An equal request without the id begins a new debate."""
    start = await ledger.begin("a", {"claim": "x"}, {"rounds": 1})
    with pytest.raises(UserError, match="is running in process"):
        await ledger.begin("a", {"claim": "x"}, {"rounds": 1}, id=start.id)
    assert (await ledger.begin("a", {"claim": "x"}, {"rounds": 1})).id != start.id


async def test_equal_requests_with_the_same_idempotency_key_share_a_debate(ledger: CallLedger) -> None:
    """If the debate failed, a later request resumes it. A request with this key and another input is refused."""
    both = await asyncio.gather(*(ledger.begin("a", {"claim": "x"}, {}, idempotency_key="k") for _ in range(2)))
    assert both[0].id == both[1].id
    assert sorted(start.owned for start in both) == [False, True]
    await ledger.end(both[0].id, "failed")
    third = await ledger.begin("a", {"claim": "x"}, {}, idempotency_key="k")
    assert (third.id, third.resumed, third.owned) == (both[0].id, True, True)
    with pytest.raises(UserError, match="idempotency key"):
        await ledger.begin("a", {"claim": "y"}, {}, idempotency_key="k")


async def test_find_prefers_the_given_debate_to_the_newest(ledger: CallLedger) -> None:
    ids = [(await ledger.begin("a", {"claim": str(n)}, {})).id for n in range(2)]
    for id in ids:
        await ledger.store_call(id, chat_key(1), id)
    found = [await ledger.find(chat_key(1), prefer) for prefer in (None, *ids)]
    assert [stored and stored.value for stored in found] == [ids[1], *ids]


async def test_a_replay_error_names_the_parts_in_which_the_nearest_entry_differs(ledger: CallLedger) -> None:
    """If the ledger has no entry of the key's kind, the error says so."""
    start = await ledger.begin("a", {"claim": "x"}, {})
    await ledger.store_call(start.id, chat_key(1), "x", {"role": "judge"})
    error = await ledger.replay_error(chat_key(2), "a call of the judge", start.id)
    assert (error.kind, "differs in: messages." in error.detail) == ("replay_miss", True)
    assert "no search call" in (await ledger.replay_error(key_of("search", {"query": "q"}), "a search")).detail


async def test_find_skips_a_newer_failed_call_only_if_failed_is_false(ledger: CallLedger) -> None:
    ids = [(await ledger.begin("a", {"claim": str(n)}, {})).id for n in range(2)]
    await ledger.store_call(ids[0], chat_key(1), "good")
    await ledger.store_call(ids[1], chat_key(1), "bad", {"failed": 1})
    for prefer in (None, ids[1]):
        newest, usable = await ledger.find(chat_key(1), prefer), await ledger.find(chat_key(1), prefer, failed=False)
        assert (newest and newest.value, usable and usable.value) == ("bad", "good")


async def test_api_keys_are_not_stored(ledger: CallLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", 'quo"ted-secret-value')
    start = await ledger.begin("a", {"claim": "x"}, SETTINGS)
    await ledger.store_call(start.id, chat_key(1), {"content": 'The key is quo"ted-secret-value.'})
    entry = await ledger.find(chat_key(1))
    assert entry is not None
    assert entry.value == {"content": "The key is [SOME_API_KEY]."}
    await asyncio.to_thread(ledger.close)
    stored = b"".join(path.read_bytes() for path in ledger.path.parent.glob("ledger.sqlite*"))
    assert b"secret-value" not in stored
    assert b"nobody-may-see" not in stored


async def test_debates_are_listed_by_graph_text_or_status_and_can_be_deleted(ledger: CallLedger) -> None:
    """The entries of a deleted debate are deleted with it."""
    ids = [(await ledger.begin(graph, {"claim": claim}, {})).id for graph, claim in (("a", "Äpfel"), ("b", 'say "no"'))]
    await ledger.store_call(ids[0], chat_key(1), "x")
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
    assert await ledger.find(chat_key(1)) is None


async def test_a_failing_job_does_not_fail_other_jobs(ledger: CallLedger) -> None:
    start = await ledger.begin("a", {"claim": "x"}, {})
    jobs = [ledger.store_call(id, chat_key(n), n) for n, id in enumerate([start.id, "unknown id", start.id])]
    results = await asyncio.gather(*jobs, return_exceptions=True)
    assert [result is None for result in results] == [True, False, True]
    assert [(await ledger.find(chat_key(n))) is not None for n in range(3)] == [True, False, True]


# --- the file ---------------------------------------------------------------------------------------------------------


async def test_only_their_owner_can_read_the_ledgers_files(ledger: CallLedger) -> None:
    before = os.umask(0o022)
    try:
        await ledger.begin("a", {"claim": "x"}, {})
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in ledger.path.parent.glob("ledger.sqlite*")}
    assert {"ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"} <= set(modes)
    assert set(modes.values()) == {0o600}


async def test_a_file_that_was_removed_is_created_again(ledger: CallLedger) -> None:
    await ledger.begin("a", {"claim": "x"}, {})
    for path in ledger.path.parent.glob("ledger.sqlite*"):
        path.unlink()
    start = await ledger.begin("a", {"claim": "x"}, {})
    await ledger.store_call(start.id, chat_key(1), 1)
    assert ledger.path.exists()


@pytest.mark.parametrize("problem", ["no database", "later version", "other program", "cut off"])
async def test_damaged_files_and_files_of_other_programs_or_later_versions_are_refused(
    ledger: CallLedger, problem: str
) -> None:
    if problem == "no database":
        ledger.path.write_text("claims\n" * 1000)
    elif problem == "cut off":
        LedgerFile(ledger.path).close()
        ledger.path.write_bytes(ledger.path.read_bytes()[:10_000])
    else:
        if problem == "later version":
            LedgerFile(ledger.path).close()
        with sqlite3.connect(ledger.path) as connection:
            connection.execute("CREATE TABLE things (id)")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        connection.close()
    with pytest.raises(UserError, match=r"later version|damaged") as raised:
        await ledger.begin("a", {"claim": "x"}, {})
    assert raised.value.kind == "damaged_store"
    assert "--replies off" in raised.value.detail


async def test_a_result_that_cannot_be_decompressed_is_reported_as_damage(ledger: CallLedger) -> None:
    start = await ledger.begin("a", {"claim": "x"}, {})
    await ledger.store_call(start.id, chat_key(1), "long " * 1000)
    await asyncio.to_thread(ledger.close)
    with sqlite3.connect(ledger.path) as connection:
        connection.execute("UPDATE entries SET value = CAST('z' || 'not compressed' AS BLOB)")
    connection.close()
    with pytest.raises(UserError, match="damaged"):
        await open_store().find(chat_key(1))


async def test_the_error_for_an_unwritable_folder_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file takes the place of the parent folder, because root may write even to a read-only folder.
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "file" / "home"))
    ledger = open_store()
    with pytest.raises(UserError, match=r"MOOT_HOME.*--replies off"):
        await ledger.begin("a", {"claim": "x"}, {})
    await asyncio.to_thread(ledger.close)


async def test_pruning_removes_old_debates_and_then_entries_of_other_debates(ledger: CallLedger) -> None:
    """An old debate with a document loses only its entries.

    Running debates and young interrupted debates keep everything. Entries of done debates are removed before entries of
    failed debates. The file becomes smaller.
    """
    states: dict[str, Any] = {"old": "done", "old, document": "done", "old, waiting": "waiting"}
    states |= {"done": "done", "failed": "failed", "interrupted": "interrupted"}
    ids = {}
    for name, status in states.items():
        ids[name] = (await ledger.begin("a", {"claim": name}, {})).id
        for n in range(20):
            await ledger.store_call(ids[name], chat_key(n), os.urandom(20_000).hex())
        await ledger.end(ids[name], status, "/shown.json" if name == "old, document" else None)
    running = (await ledger.begin("a", {"claim": "running"}, {})).id
    await asyncio.to_thread(ledger.close)
    with sqlite3.connect(ledger.path) as connection:
        for name in ("old", "old, document", "old, waiting"):
            connection.execute("UPDATE debates SET updated = updated - 31 * 86400 WHERE id = ?", (ids[name],))
    connection.close()
    before = ledger.path.stat().st_size
    file = LedgerFile(ledger.path)
    try:
        assert file.needs_pruning()
        assert not file.needs_pruning(days=60)
        pruned = file.prune(most=before // 2 - 100_000)
        left = {debate.id: debate for debate in file.debates()}
        kept = [ids[name] for name in ("old, document", "done", "failed", "interrupted")]
        assert set(left) == {*kept, running}
        assert [left[id].entries for id in kept] == [0, 0, 20, 20]
        assert pruned.debates == 4  # two debates are removed, and two lose their entries
        assert not file.needs_pruning(most=before)
        file.prune(most=0)
        assert {debate.id: debate.entries for debate in file.debates() if debate.entries} == {ids["interrupted"]: 20}
    finally:
        file.close()
    assert ledger.path.stat().st_size < before // 3


# --- processes --------------------------------------------------------------------------------------------------------

BEGIN_DEBATE = """
import asyncio, sys
from moot.core.store import key_of, open_store

async def main():
    ledger = open_store()
    begun = await ledger.begin("a", {"claim": "x"}, {})
    print(begun.id, begun.resumed, flush=True)
    async def store_entries(lane):
        for n in range(100_000):
            await ledger.store_call(begun.id, key_of("chat", {"messages": [lane, n]}), {"content": "x" * 300})
            print(lane, n, flush=True)
    if sys.argv[1] == "store":
        await asyncio.gather(*map(store_entries, range(8)))
    sys.stdin.read()

asyncio.run(main())
"""
"""A program that begins a debate, prints its id and whether it was resumed, and waits for the end of the input.

With the argument "store", it stores many entries before it waits. It prints the two numbers of each stored entry.
"""


def start_program(argument: str) -> subprocess.Popen[str]:
    """Start `BEGIN_DEBATE` with this argument in a new process."""
    command = [sys.executable, "-c", BEGIN_DEBATE, argument]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def test_every_stored_entry_survives_if_its_process_is_killed(ledger: CallLedger) -> None:
    child = start_program("store")
    assert child.stdout is not None
    id = child.stdout.readline().split()[0]
    first_lines = [child.stdout.readline() for _ in range(300)]
    assert [d.status for d in await ledger.debates()] == ["running"]
    child.send_signal(signal.SIGKILL)
    rest = await asyncio.to_thread(child.stdout.read)  # `communicate` would lose buffered output
    await asyncio.to_thread(child.communicate)
    lines = "".join([*first_lines, rest]).split("\n")[:-1]  # the last line may be incomplete
    assert [d.status for d in await ledger.debates(status="interrupted")] == ["interrupted"]
    start = await ledger.begin("a", {"claim": "x"}, {})
    assert (start.id, start.resumed) == (id, True)
    for lane, n in (map(int, line.split()) for line in lines):
        assert ledger.stored_result(id, key_of("chat", {"messages": [lane, n]})) is not None, (lane, n)


async def test_only_one_of_several_processes_resumes_an_interrupted_debate(ledger: CallLedger) -> None:
    """The other processes begin new debates. When a process ends, its debate becomes interrupted."""
    start = await ledger.begin("a", {"claim": "x"}, {})
    await ledger.end(start.id, "interrupted")
    children = [start_program("begin") for _ in range(3)]
    printed = [child.stdout.readline().split() for child in children if child.stdout]
    assert [id for id, resumed in printed if resumed == "True"] == [start.id]
    assert len({id for id, _ in printed}) == 3
    assert {debate.status for debate in await ledger.debates()} == {"running"}
    for child in children:
        await asyncio.to_thread(child.communicate, "")
    assert {debate.status for debate in await ledger.debates()} == {"interrupted"}


def test_the_ledgers_file_is_in_the_folder_moot_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    assert ledger_path() == tmp_path / "ledger.sqlite"
