"""``moot batch`` writes a table, documents and reports, keeps ceilings for all rows, and continues after a kill."""

from __future__ import annotations

import csv
import gc
import json
import os
import shutil
import signal
import subprocess
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from moot.cli.batch.jobs import file_name
from moot.cli.batch.table import Summary, TableRow
from moot.cli.batch.work import run_debate
from moot.core.files import escape_formula
from moot.core.home import moot_home
from moot.retrievers._evidence import make_evidence
from moot.transcript.outcome import Outcome

from tests.commands import COMMAND, moot
from tests.conftest import StartStub, StubEndpoint
from tests.forked import start

MODEL = ("--model", "openai:stub", "--graph", "chain_of_thought")
ANIMALS = ("An otter", "A badger", "A heron", "A newt", "A shrew", "A stoat", "A vole", "A toad", "A hare", "A wren")
CLAIMS = [f"{animal} sleeps {how}." for animal in ANIMALS for how in ("by day", "by night", "upright", "in water")]


@pytest.fixture(autouse=True)
def _temporary_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))


def write_claims(tmp_path: Path, claims: Sequence[str]) -> Path:
    path = tmp_path / "claims.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["claim"], *([claim] for claim in claims)])
    return path


def read_table(folder: Path) -> list[dict[str, str]]:
    """The rows of the table in a batch's folder."""
    with (folder / "table.csv").open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def chat_calls(stub: StubEndpoint) -> list[Any]:
    return [call for call in stub.calls() if call["kind"] == "chat"]


def calls_per_claim(stub: StubEndpoint) -> Counter[str]:
    """The number of prompts that contain each claim. Claims without a prompt are left out."""
    return Counter(claim for prompt in stub.prompts() for claim in CLAIMS if claim in prompt)


def kill_after_debates(command: Sequence[object], ended: int) -> None:
    """Start a batch, and kill it when it reports this number of ended debates. Its workers then end by themselves."""
    words = [*COMMAND, *map(str, command)]
    process = start(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(f"{ended}/"):
            break
    process.kill()
    process.communicate()


def run_with_killed_processes(command: Sequence[object], hangs: Callable[[], bool], ended: str) -> int:
    """Run a batch, whose processes are killed once it reports debates as ended, and the others hang."""
    words = [*COMMAND, *map(str, command)]
    # `start` would fork the command. Workers of a forked command are children of another process, the fork server.
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any(line.startswith(ended) for line in process.stderr)
        while not hangs():
            assert process.poll() is None
            time.sleep(0.05)
        for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
        process.communicate()
    return process.returncode


def test_the_third_run_finishes_a_batch_that_was_killed_twice(start_stub: StartStub, tmp_path: Path) -> None:
    workers, count = 2, 10
    stub, claims, out = start_stub(latency_ms=300), CLAIMS[:count], tmp_path / "out"
    words = ["batch", write_claims(tmp_path, claims), "--out", out, *MODEL, "--at-once", 2, "--workers", workers]
    kill_after_debates(words, 4)
    mtimes = {path: path.stat().st_mtime_ns for path in out.glob("*.json")}
    kill_after_debates(words, 3)
    done = moot(*words)
    assert done.returncode == 0, done.stderr
    assert "continuing with the others" in done.stderr
    assert f"{count} of {count} rows are done" in done.stdout
    rows = read_table(out)
    assert [row["claim"] for row in rows] == claims
    assert {row["status"] for row in rows} == {"done"}
    assert all((out / row["document"]).exists() and (out / row["report"]).exists() for row in rows)
    assert len(mtimes) >= 4
    # Finished rows are not run again.
    assert all(path.stat().st_mtime_ns == written for path, written in mtimes.items())
    assert set(calls_per_claim(stub)) == set(claims)
    assert len(chat_calls(stub)) <= count + 2 * 2 * workers  # two kills, each with two calls per worker in flight
    calls = len(chat_calls(stub))
    assert moot(*words).returncode == 0
    assert len(chat_calls(stub)) == calls


def test_options_and_errors_of_a_row_concern_only_that_row(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub([{"match": "badger", "status": 400}])
    claims: list[dict[str, Any]] = [
        {"id": "a", "claim": CLAIMS[0], "label": "SUPPORTS", "speaker": "Ann", "date": "2020-10-25"},
        {"id": "../../a", "claim": CLAIMS[1], "labels": ["yes", "no"], "given": "Otters sleep at night."},
        {"id": "A", "claim": '=HYPERLINK("x") is a formula.', "settings": {"temperature": 0.5}},
        {"id": "b", "claim": CLAIMS[2], "graph": "standard_prompting"},
        {"id": "a", "claim": CLAIMS[3]},
        {"claim": CLAIMS[3], "graph": "nosuch"},
        {"claim": CLAIMS[3], "settings": {"rounds": 2}},
        {"claim": CLAIMS[3], "settings": {"ask_person": ["remark"]}, "graph": "peer_review"},
        {"claim": CLAIMS[4]},
        {"id": 12, "claim": ""},
    ]
    path, out = tmp_path / "claims.jsonl", tmp_path / "results" / "out"
    path.write_text("\n".join(json.dumps(claim) for claim in claims) + "\nno JSON")
    done = moot("batch", path, "--out", out, *MODEL, "--set", "attempts=1")
    rows = read_table(out)
    assert done.returncode == 3, done.stderr
    assert [row["status"] for row in rows] == ["done"] * 4 + ["bad"] * 4 + ["failed"] + ["bad"] * 2
    assert "row 1 has the same id 'a'" in rows[4]["error"]
    assert "nosuch" in rows[5]["error"]
    assert "`ask_person`" in rows[7]["error"]
    assert rows[1]["answer"] in ("yes", "no")
    assert (rows[2]["claim"], rows[3]["system"]) == ("'" + claims[2]["claim"], "standard_prompting")
    first, second, third = (json.loads((out / row["document"]).read_text()) for row in rows[:3])
    assert (first["task"]["speaker"], first["task"]["claim_date"]) == ("Ann", "2020-10-25")
    assert "Otters sleep at night." in json.dumps(second["evidence"])
    assert (first["settings"]["temperature"], third["settings"]["temperature"]) == (0, 0.5)
    documents = [row["document"].lower() for row in rows if row["document"]]
    assert len(set(documents)) == len(documents) == 5
    # The id "../../a" leads to no file outside `out`.
    assert {path.name for path in tmp_path.iterdir()} == {"claims.jsonl", "home", "results", "stub0"}
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    assert "4 of 11 rows are done; 1 debate failed, 6 bad rows" in done.stdout


def test_a_batch_with_two_graphs_has_columns_for_each_graph(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub([{"fields": {"answer": "SUPPORTS"}}])
    path, out = write_claims(tmp_path, CLAIMS[:2]), tmp_path / "out"
    model = ("--model", "openai:stub", "--set", "samples=3", "--set", "temperature=0.7")
    done = moot("batch", path, "--out", out, "--graphs", "self_consistency, standard_prompting", *model)
    assert (done.returncode, "the reports (ID.SYSTEM.html)" in done.stdout) == (0, True), done.stderr
    rows = read_table(out)
    assert [row["agree"] for row in rows] == ["yes", "yes"]
    assert {row["self_consistency: calls"] for row in rows} == {"3"}
    assert {row["self_consistency: votes"] for row in rows} == {"3 of 3 answers"}
    assert {row["standard_prompting: votes"] for row in rows} == {"one answer"}
    assert {row["self_consistency: confidence"] for row in rows} == {""}
    graphs = ("self_consistency", "standard_prompting")
    assert all((out / f"{row['id']}.{graph}.html").exists() for row in rows for graph in graphs)


def test_the_evidence_of_a_batch_is_that_of_each_row(start_stub: StartStub, tmp_path: Path) -> None:
    """A row may name another corpus. A system that does not search ignores the evidence beside one that does."""
    start_stub([{"fields": {"answer": "SUPPORTS"}}])
    path, out = tmp_path / "claims.jsonl", tmp_path / "out"
    rows = [{"claim": CLAIMS[0]}, {"claim": CLAIMS[1], "settings": {"corpus": "demo-encyclopaedia"}}]
    path.write_text("\n".join(map(json.dumps, rows)))
    options = ["--model", "openai:stub", "--corpus", "demo-news", "--set", "embedder=openai:stub-embedding"]
    options += ["--evidence", "documents,bm25:demo-news"]
    done = moot("batch", path, "--out", out, "--graphs", "rag,standard_prompting", *options)
    assert done.returncode == 0, done.stderr
    sources = [json.loads(file.read_text())["settings"]["sources"] for file in sorted(out.glob("*.rag.json"))]
    assert sources == [["hybrid:demo-news", "bm25:demo-news"], ["hybrid:demo-encyclopaedia", "bm25:demo-news"]]
    done = moot("batch", path, "--out", tmp_path / "other", "--graph", "standard_prompting", *options)
    assert (done.returncode, "standard_prompting does not search" in done.stderr) == (2, True)


def test_a_setting_that_no_graph_of_a_batch_has_is_refused(tmp_path: Path) -> None:
    path = write_claims(tmp_path, CLAIMS[:2])
    done = moot("batch", path, "--out", tmp_path / "out", "--graphs", "rag,react", "--set", "samples=3")
    assert (done.returncode, "None of the systems has a setting 'samples'" in done.stderr) == (2, True)


def test_each_debate_of_a_batch_gets_a_reader_summary(start_stub: StartStub, tmp_path: Path) -> None:
    text = "Otters sleep by day, and hunt at night."
    (tmp_path / "letter.txt").write_text(text)
    id = make_evidence(text=text, title="letter", source="letter.txt", query="", score=None, retriever="given")["id"]
    cited = {"answer": "SUPPORTS", "citations": [{"evidence_id": id, "quote": "Otters sleep by day"}]}
    summary = {"sentences": [{"text": "They do.", "quotes": [1]}], "stances": [{"quote": 1, "stance": "for"}]}
    stub = start_stub([{"fields": {**cited, **summary}}])
    path, out = write_claims(tmp_path, CLAIMS[:2]), tmp_path / "out"
    words = ["batch", path, "--out", out, *MODEL, "--given", tmp_path / "letter.txt", "--set", "reader_summary=true"]
    done = moot(*words)
    assert done.returncode == 0, done.stderr
    assert len(chat_calls(stub)) == 4  # for each row, a call of the debate and a call of the summary
    for row in read_table(out):
        document = json.loads((out / row["document"]).read_text())
        assert "reporter" in document["models"]
        assert [sentence["text"] for sentence in document["reader_summary"]["sentences"]] == ["They do."]
        assert row["calls"] == "2"
        assert "What speaks for it" in (out / f"{row['id']}.html").read_text()


def test_a_ceiling_for_all_rows_counts_the_calls_of_all_runs(start_stub: StartStub, tmp_path: Path) -> None:
    stub, out = start_stub(latency_ms=20), tmp_path / "out"
    words = ["batch", write_claims(tmp_path, CLAIMS[:12]), "--out", out, *MODEL, "--max-calls"]
    done = moot(*words, 7)
    assert done.returncode == 3, done.stderr
    assert len(chat_calls(stub)) == 7
    rows = read_table(out)
    assert sum(row["status"] == "done" for row in rows) == 7
    assert "not begun" in {row["status"] for row in rows}
    assert "a ceiling for all rows is reached" in done.stdout
    assert moot(*words, 7).returncode == 3
    assert len(chat_calls(stub)) == 7  # the first run has used up the ceiling of 7 calls
    assert moot(*words, 12).returncode == 0
    assert len(chat_calls(stub)) == 12


def test_a_ceiling_for_all_rows_still_holds_after_a_kill(start_stub: StartStub, tmp_path: Path) -> None:
    stub, out, at_once, ceiling = start_stub(latency_ms=50), tmp_path / "out", 2, 12
    words = ["batch", write_claims(tmp_path, CLAIMS[:20]), "--out", out, "--model", "openai:stub", "--at-once", at_once]
    words += ["--graph", "standard_prompting", "--max-calls", ceiling]
    kill_after_debates(words, 4)
    assert moot(*words).returncode == 3
    # The ceiling also counts calls that the kill prevented: at most one for each debate that was running.
    assert ceiling - at_once <= len(stub.prompts()) <= ceiling


def test_several_processes_split_a_ceiling_among_the_rows_that_are_not_done(
    start_stub: StartStub, tmp_path: Path
) -> None:
    stub, out, rows, share = start_stub(), tmp_path / "out", 4, 2_500
    words = ["batch", write_claims(tmp_path, CLAIMS[:rows]), "--out", out, "--model", "openai:stub", "--workers", 2]
    words += ["--graph", "society_of_minds", "--set", "max_rounds=9"]
    done = moot(*words, "--budget", rows * share)
    assert done.returncode == 0, done.stderr
    for row in read_table(out):
        assert row["stop_reason"] == "budget_exhausted"
        assert share / 2 < int(row["tokens"]) <= share
    write_claims(tmp_path, CLAIMS[: rows + 2])
    spent, calls = sum(int(row["calls"]) for row in read_table(out)), len(stub.calls())
    refused = moot(*words, "--max-calls", spent + 1)
    assert "--max-calls leaves 1 call for 2 debates." in " ".join(refused.stderr.split())
    assert (refused.returncode, len(stub.calls())) == (2, calls)
    assert moot(*words, "--max-calls", spent + 7).returncode == 0
    assert [int(row["calls"]) for row in read_table(out)[rows:]] == [3, 3]  # each of the last two rows may make 3.5


def test_a_row_stays_within_its_share_if_its_process_is_killed(start_stub: StartStub, tmp_path: Path) -> None:
    # In the debate of the first row, the calls of the second round hang until its process is killed.
    hangs = {"match": rf"(?s){CLAIMS[0]}.*\(ref ", "delay_ms": 3_600_000, "times": 3}
    stub, out, share = start_stub([hangs]), tmp_path / "out", 8
    words = ["batch", write_claims(tmp_path, CLAIMS[:2]), "--out", out, "--model", "openai:stub", "--at-once", 1]
    words += ["--graph", "society_of_minds", "--set", "max_rounds=9", "--workers", 2, "--max-calls", 2 * share]
    assert run_with_killed_processes(words, lambda: calls_per_claim(stub)[CLAIMS[0]] == 6, "1/2 ") == 0, read_table(out)
    assert calls_per_claim(stub) == dict.fromkeys(CLAIMS[:2], share)


def test_a_batch_asks_for_a_higher_ceiling_or_a_real_model(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub()
    claims, options = write_claims(tmp_path, CLAIMS[:2]), ("--graph", "chain_of_thought", "--out")
    small = moot("batch", claims, *MODEL, "--out", tmp_path / "small", "--budget", 50)
    assert "Not all rows are done: a ceiling for all rows is reached; raise it" in " ".join(small.stdout.split())
    assert "Run the same command again" not in small.stdout
    assert "do not trust" not in small.stderr
    fake = moot("batch", claims, *options, tmp_path / "fake", "--model", "fake:1")
    assert "do not trust its verdicts. Name another model with --model." in " ".join(fake.stderr.split())


def test_one_bad_row_makes_the_exit_code_3(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub()
    path = tmp_path / "claims.jsonl"
    path.write_text("\n".join(json.dumps({"claim": claim}) for claim in (CLAIMS[0], "")))
    done = moot("batch", path, "--out", tmp_path / "out", *MODEL)
    assert (done.returncode, [row["status"] for row in read_table(tmp_path / "out")]) == (3, ["done", "bad"])


def test_the_output_counts_debates_that_a_ceiling_ended_early(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub()
    words = ["batch", write_claims(tmp_path, CLAIMS[:2]), "--out", tmp_path / "out", "--model", "openai:stub"]
    done = moot(*words, "--graph", "society_of_minds", "--set", "max_calls=4")
    assert [(row["status"], row["stop_reason"]) for row in read_table(tmp_path / "out")] == [
        ("done", "budget_exhausted")
    ] * 2
    assert "2 verdicts are from debates that a ceiling ended early" in " ".join(done.stdout.split())


def test_two_debates_of_one_row_that_both_ended_early_count_as_two() -> None:
    cut = {"status": "done", "answer": "SUPPORTS", "stop_reason": "budget_exhausted"}
    summary = Summary(("x", "y"), several=True)
    summary.note(TableRow(1, "a", "A claim.", None, None, {"x": cut, "y": cut}))
    assert (summary.complete, summary.cut_short, summary.unanswered) == (1, 2, 0)


def test_a_row_that_kills_two_worker_processes_fails(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub()
    out, claims = tmp_path / "out", [*CLAIMS[:6], "Deadly is this claim.", *CLAIMS[6:12]]
    source = "langchain:tests.cli.deadly:shelf"
    words = ["batch", write_claims(tmp_path, claims), "--out", out, "--graph", "rag", "--model", "openai:stub"]
    done = moot(*words, "--set", f'sources=["{source}"]', "--workers", 2, "--at-once", 3)
    assert done.returncode == 3, done.stderr
    rows = read_table(out)
    assert [row["status"] for row in rows] == ["done"] * 6 + ["failed"] + ["done"] * 6
    assert "The process that ran only this row ended (signal 9)." in rows[6]["error"]
    assert "signal 9" in rows[6]["error"]


def test_a_missing_api_key_ends_the_batch_after_the_first_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    out = tmp_path / "out"
    done = moot("batch", write_claims(tmp_path, CLAIMS), "--out", out, *MODEL, "--at-once", 1)
    assert (done.returncode, "all rows would fail like this one" in done.stdout) == (3, True)
    assert Counter(row["status"] for row in read_table(out)) == {"failed": 1, "not begun": 39}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_wrong_name_of_a_model_ends_the_batch_after_the_first_row(
    start_stub: StartStub, tmp_path: Path, workers: int
) -> None:
    start_stub([{"status": 404, "times": 1}])
    out = tmp_path / "out"
    claims = write_claims(tmp_path, CLAIMS[:14])
    command = ("batch", claims, "--out", out, *MODEL, "--at-once", 1, "--workers", workers)
    done = moot(*command)
    assert (done.returncode, "all rows would fail like this one" in done.stdout) == (3, True)
    assert "Check its name." in done.stdout.replace("\n", " ")
    assert Counter(row["status"] for row in read_table(out))["not begun"] >= 4
    done = moot(*command)
    assert (done.returncode, Counter(row["status"] for row in read_table(out))) == (0, {"done": 14})


def test_a_server_that_is_not_running_ends_the_batch_after_three_rows(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub, out = start_stub(), tmp_path / "out"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    claims = write_claims(tmp_path, CLAIMS[:8])
    command = ("batch", claims, "--out", out, *MODEL, "--at-once", 1, "--set", "attempts=1")
    done = moot(*command)
    said = done.stdout.replace("\n", " ")
    assert "No further row was started: 3 rows in succession could not reach an endpoint. http://127.0.0.1:9" in said
    assert "Start the server there." in said
    assert Counter(row["status"] for row in read_table(out)) == {"failed": 3, "not begun": 5}
    monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
    assert moot(*command).returncode == 0


@pytest.mark.parametrize(("sent", "workers"), [(signal.SIGINT, 1), (signal.SIGTERM, 2)])
def test_a_batch_stopped_by_a_signal_continues_with_the_same_command(
    sent: signal.Signals, workers: int, start_stub: StartStub, tmp_path: Path
) -> None:
    stub, out = start_stub(latency_ms=100), tmp_path / "out"
    words = ["batch", write_claims(tmp_path, CLAIMS[:12]), "--out", out, *MODEL, "--at-once", 2, "--workers", workers]
    process = start([*COMMAND, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while not process.stderr.readline().startswith("3/"):
        pass
    process.send_signal(sent)
    printed, stderr = process.communicate()
    assert process.returncode == 128 + sent, stderr
    assert "The same command continues where it stopped" in stderr
    assert "of 12 rows are done" in printed
    assert Counter(row["status"] for row in read_table(out))["not begun"]
    assert moot(*words).returncode == 0
    assert len(chat_calls(stub)) <= 12 + 2 * workers  # only calls in flight are repeated


def test_a_folder_that_another_batch_uses_is_refused(tmp_path: Path) -> None:
    from moot.cli.batch.batch import LOCK
    from moot.core.files import exclusive_folder

    with exclusive_folder(tmp_path / "out", "batch", LOCK):
        done = moot("batch", write_claims(tmp_path, CLAIMS[:1]), "--out", tmp_path / "out", *MODEL)
    assert (done.returncode, "Another batch writes" in done.stderr) == (2, True)


def test_a_batch_keeps_no_texts_of_finished_rows_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, used = tmp_path / "long.jsonl", []
    rows = ({"claim": f"Otter {number} sleeps.", "given": f"{number} is a number. " * 600} for number in range(120))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    async def run_and_measure(*args: Any) -> tuple[Outcome, None]:
        outcome, _ = await run_debate(*args)
        used.append(0)
        if len(used) in (30, 110):
            gc.collect()
            used[-1] = tracemalloc.get_traced_memory()[0]
        return outcome, None

    monkeypatch.setattr("moot.cli.batch.batch.run_debate", run_and_measure)
    monkeypatch.setenv("MOOT_HISTORY", "off")
    tracemalloc.start()
    try:
        words = ["--out", tmp_path / "out", "--graph", "standard_prompting", "--model", "fake:1", "--replies", "off"]
        done = moot("batch", path, *words)
    finally:
        tracemalloc.stop()
    assert "120 of 120 rows" in done.stdout, done.stderr
    assert used[109] - used[29] < 400_000  # bytes; the texts of these 80 rows alone take 770,000


def test_file_names_of_row_ids_are_safe_and_distinct() -> None:
    ids = [
        "a",
        "../a",
        "..",
        "/etc/passwd",
        "con",
        "CON",
        "a/b",
        "a\\b",
        "a b",
        "é",
        "",
        "x" * 300,
        "a\0",
        ".hidden",
        "-a",
    ]
    names = [file_name(id) for id in ids]
    assert len({name.lower() for name in names}) == len(names)
    assert file_name(names[1]) != names[1]  # an id may equal the file name of another id
    assert all(name.isascii() and len(name) < 80 and "/" not in name and name[0] not in ".-" for name in names)


def test_cells_that_begin_like_formulas_are_escaped() -> None:
    formulas = (
        "=1",
        "+1",
        "-1+1",
        "@x",
        " =1",
        "\t=1",
        "\u3000=1",
        "\uff1d1",
        "\uff0b1",
        "\uff0da",
        "\uff20x",
        "\ufe62a",
    )
    assert [escape_formula(text) for text in formulas] == [f"'{text}" for text in formulas]
    others = ("a=1", "", "-1", "-1.5", "-1,000.25", "5 - 3", "é")
    assert [escape_formula(text) for text in others] == [*others]


def test_a_batch_whose_store_is_lost_reads_finished_rows_from_documents(start_stub: StartStub, tmp_path: Path) -> None:
    stub, out = start_stub(), tmp_path / "out"
    words = ["batch", write_claims(tmp_path, CLAIMS[:5]), "--out", out, *MODEL, "--replies", "off"]
    assert moot(*words).returncode == 0
    table = read_table(out)
    for file in moot_home().glob("store.sqlite*"):
        file.unlink()
    done = moot(*words)
    assert (done.returncode, len(chat_calls(stub))) == (0, 5), done.stderr  # no new calls
    assert "5 debates are" in done.stderr
    assert read_table(out) == table
    (out / "3.json").unlink()
    assert moot(*words).returncode == 0
    assert len(chat_calls(stub)) == 6  # only row 3, which lost its document, is run again


def test_an_unusable_file_of_claims_leaves_no_output_folder(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("text\nAn otter sleeps.\n")
    for name in ("none.csv", "other.csv"):
        done = moot("batch", tmp_path / name, "--out", tmp_path / "out", *MODEL)
        assert (done.returncode, (tmp_path / "out").exists()) == (2, False), done.stderr


def test_a_copy_of_a_folder_is_a_batch_of_its_own(start_stub: StartStub, tmp_path: Path) -> None:
    """It has the finished debates of the other folder. What one of the two does later does not concern the other."""
    stub, claims = start_stub(), write_claims(tmp_path, CLAIMS[:2])

    def calls_of(out: str, *words: object) -> int:
        before = len(chat_calls(stub))
        assert moot("batch", claims, "--out", tmp_path / out, *MODEL, *words).returncode == 0
        return len(chat_calls(stub)) - before

    warm = ("--set", "temperature=0.5")
    assert calls_of("one") == 2
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert calls_of("two") == 0
    assert calls_of("two", *warm) == 2
    assert calls_of("one") == 0
    assert calls_of("two") == 2  # the documents in this folder are those of the other temperature
    (tmp_path / "two").rename(tmp_path / "three")
    assert calls_of("three") == 0


def test_a_batch_that_stores_nothing_needs_no_store(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub, claims = start_stub(), write_claims(tmp_path, CLAIMS[:2])
    monkeypatch.setenv("MOOT_HOME", str(claims / "home"))  # below a file
    monkeypatch.setenv("MOOT_HISTORY", "off")
    words = ("batch", claims, "--out", tmp_path / "out", *MODEL)
    assert "MOOT_HOME" in moot(*words).stderr
    for _ in range(2):  # the second run has nothing to do
        done = moot(*words, "--replies", "off")
        assert (done.returncode, len(chat_calls(stub))) == (0, 2), done.stderr


def test_a_killed_run_without_a_ceiling_in_usd_counts_in_a_later_ceiling(start_stub: StartStub, tmp_path: Path) -> None:
    # The calls of the second round hang until the command is killed.
    stub = start_stub([{"match": r"\(ref ", "delay_ms": 3_600_000, "times": 3}])
    words = ["batch", write_claims(tmp_path, CLAIMS[:1]), "--out", tmp_path / "out", "--model", "openai:gpt-4o-mini"]
    words += ["--graph", "society_of_minds"]
    with start([*COMMAND, *map(str, words)], stdout=subprocess.PIPE) as process:
        while len(stub.prompts()) < 6:  # those that hang, too
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
    done = moot(*words, "--workers", 2, "--max-cost", 0.000001)
    assert (done.returncode, "--max-cost leaves $0.000000 for 1 debate" in " ".join(done.stderr.split())) == (2, True)


@pytest.mark.parametrize("text", ["no id", "[]", '{"ids": []}', '{"ids": [7]}'])
def test_a_damaged_id_of_a_batch_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / ".batch.id").write_text(text)
    done = moot("batch", write_claims(tmp_path, CLAIMS[:1]), "--out", tmp_path, *MODEL)
    assert (done.returncode, "has no id of a batch" in done.stderr) == (2, True)


def test_only_calls_in_flight_are_repeated_after_a_worker_is_killed(start_stub: StartStub, tmp_path: Path) -> None:
    # In the debate of the first row, the three calls of the second round hang.
    hangs = {"match": rf"(?s){CLAIMS[0]}.*\(ref ", "delay_ms": 3_600_000, "times": 3}
    stub, out, rows, each = start_stub([hangs]), tmp_path / "out", 3, 6
    words = ["batch", write_claims(tmp_path, CLAIMS[:rows]), "--out", out, "--model", "openai:stub", "--at-once", 1]
    words += ["--graph", "society_of_minds", "--workers", 2, "--max-calls", rows * (each + 3)]
    code = run_with_killed_processes(words, lambda: calls_per_claim(stub)[CLAIMS[0]] == each, f"{rows - 1}/{rows} ")
    assert code == 0, read_table(out)
    assert len(stub.prompts()) == rows * each + 3  # only the three calls that hung were made again


def test_calls_in_flight_at_a_kill_count_in_every_later_run(start_stub: StartStub, tmp_path: Path) -> None:
    stub, rows = start_stub([{"match": CLAIMS[0], "delay_ms": 3_600_000, "times": 1}]), 3
    words = ["batch", write_claims(tmp_path, CLAIMS[:rows]), "--out", tmp_path / "out", *MODEL, "--max-calls", rows + 1]
    kill_after_debates(words, rows - 1)
    assert moot(*words).returncode == 0
    assert len(stub.prompts()) == rows + 1
    write_claims(tmp_path, CLAIMS[: rows + 1])
    done = moot(*words)
    assert (done.returncode, len(stub.prompts())) == (3, rows + 1), done.stderr


def test_a_changed_batch_reports_earlier_results_that_it_does_not_use(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub()
    out = tmp_path / "out"
    words = ["--out", out, *MODEL]
    assert moot("batch", write_claims(tmp_path, CLAIMS[:3]), *words).returncode == 0
    again = moot("batch", write_claims(tmp_path, CLAIMS[:2]), *words)
    assert "2 debates are already in" in again.stderr
    assert f"1 row of earlier runs in {out} is not in claims.csv." in again.stderr
    assert "other settings" not in again.stderr
    changed = moot("batch", write_claims(tmp_path, CLAIMS[:2]), *words, "--set", "temperature=0.5")
    assert f"2 results in {out} had another system, other settings or other texts than this run." in changed.stderr
    assert "2 of 2 rows are done" in changed.stdout


def test_a_document_is_not_taken_for_that_of_another_system(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub()
    out, claims = tmp_path / "out", write_claims(tmp_path, CLAIMS[:1])
    words = ["batch", claims, "--out", out, "--model", "openai:stub", "--graph"]
    for system in ("chain_of_thought", "standard_prompting", "chain_of_thought"):
        done = moot(*words, system)
        assert "already in" not in done.stderr
        [row] = read_table(out)
        assert json.loads((out / row["document"]).read_text())["graph"] == row["system"] == system
    assert "1 result in" in done.stderr
    assert "already in" in moot(*words, "chain_of_thought").stderr
