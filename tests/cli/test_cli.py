"""Tests of moot's commands: their exit codes and their output."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from moot.cli.main import result_schema
from moot.cli.options import parse_labels, parse_settings
from moot.core.errors import UserError
from moot.graphs.tool_mad import ToolMadSettings
from moot.nodes._texts.given_files import read_given
from pydantic import TypeAdapter

from tests.commands import COMMAND, moot, moot_process
from tests.conftest import MODELS, READERS, StartStub, says, supports
from tests.forked import start

CLAIM = "The kilogram is no longer defined by a metal cylinder kept in France."
SCRIPTED = [part for role in (*MODELS, "planner") for part in ("--set", f"models.{role}=openai:stub-{role}")]
SCRIPTED += ["--set", "embedder=openai:stub-embedding"]
READING = [*SCRIPTED, "--set", f"debaters={json.dumps(READERS)}"]


def test_verify_prints_the_steps_and_the_verdict_of_a_debate(start_stub: StartStub) -> None:
    start_stub([says("rag", "SUPPORTS"), says("search", "REFUTES"), *supports([True, False], CLAIM)])
    settings = ["--preset", "paper", "--set", "max_rounds=2", "--set", "claim_form=question"]
    done = moot("verify", CLAIM, *READING, *settings)
    assert done.returncode == 0, done.stderr
    for words in (
        "Round 1",
        "rag        asks",
        "search     finds",
        "they differ, so the debate goes on",
        "faithfulness 0.50 < 0.70; answer relevance 1.00 >= 0.80",
        "they differ, and the rounds are used up",
        "judge      decides",
        "Verdict: ",
        "Citations: ",
        "21 calls",
        "search read bm25:demo-news",
    ):
        assert words in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(("ceiling", "code"), [((), 0), (("--set", "max_cost=1"), 2)])
def test_a_broken_file_of_prices_is_an_error_only_where_prices_are_needed(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ceiling: tuple[str, ...], code: int
) -> None:
    """Without a ceiling, the debate goes on, and its report says why the cost is not known."""
    start_stub()
    (tmp_path / "prices.jsonl").write_text("no JSON")
    monkeypatch.setenv("MOOT_PRICES", str(tmp_path / "prices.jsonl"))
    out = tmp_path / "report.md"
    words = ("verify", "Otters sleep.", "--model", "openai:stub", "--graph", "chain_of_thought", "--out", out)
    done = moot(*words, *ceiling)
    assert done.returncode == code, done.stderr
    assert "prices.jsonl" in done.stderr
    if not code:
        assert "The expected cost is not known: prices.jsonl" in done.stderr
        assert "Not known: prices.jsonl" in out.read_text()


def test_json_output_is_exactly_the_document(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub([says("rag", "SUPPORTS"), says("search", "SUPPORTS"), *supports([True], CLAIM)])
    out = tmp_path / "verdict.json"
    done = moot_process("verify", CLAIM, *READING, "--json", "--out", str(out))
    document = json.loads(done.stdout)
    assert document == json.loads(out.read_text())
    assert (done.returncode, document["status"], document["answer"]) == (0, "done", "SUPPORTS")
    from moot.nodes._runtime.state import VerdictOutput

    TypeAdapter(VerdictOutput).validate_python(document, strict=True)
    assert set(result_schema()["properties"]) == {*document, "reader_summary", "replaces"}  # neither was asked for


def test_texts_of_given_files_become_evidence(tmp_path: Path) -> None:
    letter, lines, out = tmp_path / "letter.md", tmp_path / "lines.jsonl", tmp_path / "verdict.json"
    letter.write_text("# Heading\n\nOne paragraph.\n\nAnother.\n")
    lines.write_text('{"text": "First.", "id": "a"}\n\n{"text": "Second\u2028line."}\n')
    command = ["verify", CLAIM, "--graph", "standard_prompting", "--model", "fake:1", "--out", str(out)]
    done = moot(*command, "--given", str(letter), "--given", str(lines))
    assert "Given with it: 3 texts" in done.stdout, done.stderr
    assert [(p["title"], p["text"]) for p in json.loads(out.read_text())["evidence"]] == [
        ("letter", letter.read_text().strip()),
        ("(no title)", "First."),
        ("(no title)", "Second\u2028line."),
    ]


def test_the_error_for_an_invalid_given_file_names_the_line(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"text": "First."}\n{"text"')
    with pytest.raises(UserError, match="lines.jsonl, line 2: not valid JSON"):
        read_given(lines)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["verify", " "], 2, "claim is empty"),
        (["verify", "x" * 4001], 2, "4,001 characters"),
        (["verify", CLAIM, "--graph", "tool_mat"], 2, "Did you mean tool_mad?"),
        (["verify", CLAIM, "--set", "max_round=1"], 2, "no setting 'max_round'"),
        (["verify", CLAIM, "--set", "max_rounds=0"], 2, "greater than or equal to 1"),
        (["verify", CLAIM, "--set", "max_rounds"], 2, "KEY=VALUE"),
        (["verify", CLAIM, "--set", "k=many"], 2, "k: "),
        (["verify", CLAIM, "--set", 'debaters=[{"name":"judge"},{"name":"b"}]'], 2, "its own name"),
        (["verify", CLAIM, "--corpus", "nowhere", "--model", "fake:1"], 2, "no corpus 'nowhere'"),
        (["verify", CLAIM, "--model", "openai:gpt-4o-mini"], 2, "OPENAI_API_KEY is not set"),
        (["verify", CLAIM, "--model", "nobody:x"], 2, "provider 'nobody' is unknown"),
        (["verify", CLAIM, "--model", "vllm:x", "--set", "attempts=1"], 3, "could not be reached"),
        (["verify", CLAIM, "--out", "/nowhere/at/all.json"], 2, "no folder"),
        (["verify", CLAIM, "--out", "/"], 2, "cannot be written"),
        (["verify", CLAIM, "--corpus", ""], 2, "corpus: "),
        (["verify", CLAIM, "--set", "debaters.0.retriever=chroma:"], 2, "retriever 'chroma:' is unknown"),
        (["verify", CLAIM, "--set", "debaters.7.model=fake:1"], 2, "the list has 2 elements"),
        (["verify", CLAIM, "--set", "models.judge=foo"], 2, "models.judge: name a model as provider:name"),
        (["verify", CLAIM, "--model", "foo"], 2, "name a model as provider:name"),
        (["verify", CLAIM, "--task", "poetry"], 2, "task 'poetry' is unknown"),
        (["verify", CLAIM, "--labels", "true"], 2, "2 to 26"),
        (["verify", CLAIM, "--labels", ""], 2, "names no label"),
        (["verify", CLAIM, "--labels", "{}"], 2, "names no label"),
        (["verify", CLAIM, "--labels", "[1"], 2, "not valid JSON"),
        (["verify", CLAIM, "--labels", '"yes, in part,no'], 2, "not valid CSV"),
        (["verify", CLAIM, "--claim-date", "May 2020"], 2, "a year, a month or a day"),
        (["verify", CLAIM, "--speaker", "x" * 201], 2, "at most 200 characters"),
        (["verify", CLAIM, "--set", "agents.0.model=fake:1"], 2, "There is no setting 'agents'"),
        (["verify", CLAIM, "--given", "/nowhere.txt"], 2, "There is no file nowhere.txt"),
        (["verify", CLAIM, "--given", __file__], 2, "its kind is not supported"),
        (["verify", CLAIM, "--preset", "papr"], 2, "'paper'"),
        (["index", "/nowhere", "--corpus", "mine"], 2, "no file or folder"),
        (["index", "/nowhere", "--corpus", "My notes"], 2, "cannot name a corpus"),  # checked before the path
        (["settings", "nothing"], 2, "no graph 'nothing'"),
        (["eval", "retrieval", "--data", "/nowhere"], 2, "no folder /nowhere/qrels"),
    ],
)
def test_a_failed_command_prints_an_error_without_a_traceback(
    arguments: list[str], code: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("MOOT_MODEL", "fake:1")
    done = moot(*arguments)
    output = done.stdout + done.stderr
    assert done.returncode == code, output
    assert words in " ".join(output.split())
    assert "Traceback" not in output
    assert "Verdict" not in output


@pytest.mark.parametrize(
    ("rule", "code", "words"),
    [
        ({"status": 401}, 2, "Check OPENAI_API_KEY"),
        ({"status": 404}, 2, "does not know the model"),
        ({"status": 429, "retry_after": "0"}, 3, "too many requests"),
        ({"status": 429, "retry_after": "7200"}, 3, "7200 s"),
        ({"status": 500, "retry_after": "0"}, 3, "HTTP 500"),
        ({"delay_ms": 2000}, 3, "did not answer"),
        ({"reply": '{"answer": "SUP'}, 3, "no complete JSON object"),
        ({"reply": ""}, 3, "empty"),
        ({"finish": "content_filter"}, 3, "refused"),
        ({"finish": "length"}, 3, "cut off"),
    ],
)
def test_failed_and_unusable_replies_of_a_model_are_explained_on_stderr(
    start_stub: StartStub, rule: dict[str, Any], code: int, words: str
) -> None:
    start_stub([{"model": "stub-judge", **rule}])
    more = ["--set", "max_rounds=1", "--set", "scoring=all_rounds", "--set", "max_wait=0"]
    if "delay_ms" in rule:
        more += ["--set", "timeout=0.5", "--set", "attempts=1"]
    done = moot("verify", CLAIM, *READING, *more)
    assert done.returncode == code, done.stdout
    assert words in " ".join(done.stderr.split())
    assert "No verdict" in done.stderr
    assert "No verdict" not in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_the_document_of_an_interrupted_debate_has_its_turns(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub([{"model": "stub-judge", "delay_ms": 60000}])
    out = tmp_path / "verdict.json"
    command = [*COMMAND, "verify", CLAIM, *READING]
    command += ["--out", str(out), "--set", "max_rounds=1", "--set", "scoring=all_rounds"]
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if "the rounds are used up" in line or "they agree" in line:
            break
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted: no verdict." in stderr
    document = json.loads(out.read_text())
    assert (document["status"], document["answer"]) == ("interrupted", None)
    assert [turn["step"] for turn in document["turns"]] == ["plan", "respond", "respond"]


def test_index_builds_a_corpus_that_a_debate_reads(start_stub: StartStub, tmp_path: Path) -> None:
    """Unchanged passages are not encoded again. An encoder other than that of the corpus is refused."""
    start_stub([{"model": "stub-scorer", "fields": {"statements": []}}])
    file = tmp_path / "notes.jsonl"
    file.write_text('{"id": "a", "title": "Bridge", "text": "The bridge opened in 1932.", "source": "Notes"}\n')
    done = moot("index", str(file), "--corpus", "my-notes", "--embedder", "openai:stub-embedding")
    assert (done.returncode, "1 passage read, 1 encoded" in done.stderr) == (0, True), done.stderr
    again = moot("index", str(file), "--corpus", "my-notes", "--embedder", "openai:stub-embedding")
    assert "1 passage read, 0 encoded" in again.stderr
    refused = moot("index", str(file), "--corpus", "my-notes")
    assert (refused.returncode, "was built with the encoder" in refused.stderr) == (2, True)
    debate = moot("verify", "The bridge opened in 1932.", *SCRIPTED, "--corpus", "my-notes", "--json")
    document = json.loads(debate.stdout)
    assert {c["retriever"] for c in document["corpora"]} == {"chroma:my-notes", "bm25:my-notes"}
    assert [e["title"] for e in document["evidence"]] == ["Bridge"]


def test_eval_retrieval_prints_and_stores_scores(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub()
    files = {
        "corpus/metals.jsonl": {"id": "a", "title": "Tin", "text": "Tin is soft.", "source": "Notes"},
        "corpus/birds.jsonl": {"id": "b", "title": "Wren", "text": "Wrens sing.", "source": "Notes"},
        "qrels/visible/alloys.jsonl": {"qid": "1", "query": "tin", "gold": [{"id": "a", "rel": 1}]},
    }
    for name, record in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps(record))
    out = tmp_path / "scores.json"
    command = ["eval", "retrieval", "--data", str(tmp_path), "--source", "bm25", "--embedder", "openai:stub-embedding"]
    shown = moot(*command, "--against", "chroma", "--out", str(out))
    assert shown.returncode == 0, shown.stderr
    output = " ".join(shown.stdout.split())
    for words in (
        "alloys own 1 bm25 1.000 [1.00, 1.00]",
        "bm25 chroma union alloys +.000 [+.00, +.00]",
        "2,000 resamples",
    ):
        assert words in output
    document = json.loads(out.read_text())
    assert [(row["corpus"], row["passages"]) for row in document["rows"]] == [("own", 1), ("union", 2)]
    assert [s["source"] for s in document["rows"][0]["sources"]] == ["bm25", "chroma"]
    printed = json.loads(moot(*command, "--against", "chroma", "--json").stdout)
    assert printed | {"measured_at": ""} == document | {"measured_at": ""}


def test_graphs_and_settings_are_listed_and_the_schema_is_printed() -> None:
    assert "tool_mad" in moot("graphs").stdout
    listed = moot("settings", "tool_mad").stdout
    assert all(name in listed for name in ToolMadSettings.model_fields)
    assert json.loads(moot("schema").stdout)["title"] == "VerdictOutput"


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("true,false, unproven", ["true", "false", "unproven"]),
        ('"yes, in part", "no ""not at all""", ?', ["yes, in part", 'no "not at all"', "?"]),
        ('5" pipe,6" pipe', ['5" pipe', '6" pipe']),
        ('["a, b", "c"]', ["a, b", "c"]),
        (None, None),
    ],
)
def test_labels_can_be_csv_or_json(text: str | None, labels: list[str] | None) -> None:
    assert parse_labels(text) == labels


def test_speaker_and_date_of_a_claim_are_printed_and_stored(tmp_path: Path) -> None:
    out = tmp_path / "verdict.json"
    command = ["verify", CLAIM, "--graph", "standard_prompting", "--model", "fake:1", "--out", str(out)]
    done = moot(*command, "--claim-date", "2020-10-25", "--speaker", "Ada Byron")
    assert "Said by: Ada Byron, 2020-10-25" in done.stdout, done.stderr
    task = json.loads(out.read_text())["task"]
    assert (task["speaker"], task["claim_date"]) == ("Ada Byron", "2020-10-25")


def test_dotted_keys_set_nested_settings() -> None:
    pairs = ["models.judge.model=openai:a", "models.judge.temperature=0.5", "models.rag=openai:b", "k=5"]
    settings: Any = parse_settings(ToolMadSettings, pairs, {})
    assert (settings.models["judge"].temperature, settings.models["rag"], settings.k) == (0.5, "openai:b", 5)


def test_eval_power_tells_whether_a_test_can_separate_two_accuracies() -> None:
    done = moot("eval", "power", "0.73", "0.72", "--json")
    found = json.loads(done.stdout)
    assert (found["n"], found["separable"]) == (200, False)
    table = moot("eval", "power", "0.81", "0.73", "--discordant", "0.2").stdout
    assert "paired, as given" in table
    assert "so these items may tell the two systems apart" in " ".join(table.split())
    equal = moot("eval", "power", "0.8", "0.8").stdout
    assert "None in a cell: that power cannot be reached." in " ".join(equal.split())
    refused = moot("eval", "power", "1.5", "0.7")
    assert (refused.returncode, refused.stderr) == (2, "moot: Accuracies must be between 0 and 1.\n")
