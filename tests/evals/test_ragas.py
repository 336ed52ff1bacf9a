"""``moot eval ragas`` uses RAGAS to score the verdicts in logs, and says why a score is missing."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from moot.evals._runs.ragas import read_answers
from moot.retrievers import make_evidence

from tests.commands import moot
from tests.conftest import StartStub
from tests.evals.made_logs import debate, write_log

pytestmark = pytest.mark.skipif(not find_spec("ragas"), reason="RAGAS is not installed: pip install 'moot[ragas]'")

ENCODER = "openai:stub-embedding"
GRAPHS = ("rag", "standard_prompting")
CLAIM = "Claim {}: the kilogram rests on the Planck constant."
JUDGE, ASK = "StatementFaithfulnessAnswer", "answer relevance question"


def verdict_rules(*supported: bool) -> list[dict[str, Any]]:
    """Rules: RAGAS's model finds one statement per argument; the argument says whether the statement is supported."""
    verdicts = [{"statement": f"S{n}.", "reason": "read", "verdict": int(one)} for n, one in enumerate(supported)]
    found = {"model": "ragas", "fields": {"statements": [one["statement"] for one in verdicts]}}
    return [{"model": "ragas", "match": JUDGE, "fields": {"statements": verdicts}}, found]


def question_rule(question: str) -> dict[str, Any]:
    """A rule: the question that RAGAS's model writes for every answer."""
    return {"model": "ragas", "match": ASK, "fields": {"question": question, "noncommittal": 0}}


def measure(log: Path, out: Path, *words: object) -> tuple[int, str, str]:
    """Run ``moot eval ragas`` on a log; return its exit code, output and errors."""
    flags = ("--model", "openai:stub-ragas", "--embedder", ENCODER, "--out", out)
    done = moot("eval", "ragas", log, *flags, *words)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(autouse=True)
def private_ragas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep RAGAS from sending usage data and from writing to the user's folder."""
    monkeypatch.setenv("RAGAS_DO_NOT_TRACK", "true")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


@pytest.fixture
def logs(start_stub: StartStub, tmp_path: Path) -> Path:
    """Write logs of two systems with `moot eval run`; return the folder.

    The system rag reads a corpus, and fails on the third item. The system standard_prompting reads no source.
    """
    start_stub([{"match": "(?s)Claim 2.*evidence", "status": 400}])
    data = tmp_path / "fever.jsonl"
    items = [{"id": n, "claim": CLAIM.format(n), "label": "SUPPORTS", "evidence": []} for n in range(3)]
    data.write_text("\n".join(map(json.dumps, items)))
    words = ["--task", f"fever={data}", "--model", "openai:stub", "--set", 'sources=["bm25:demo-news"]']
    words += [word for graph in GRAPHS for word in ("--graph", graph)]
    done = moot("eval", "run", *words, "--set", f"embedder={ENCODER}", "--logs", tmp_path / "logs")
    assert done.returncode == 3, done.stderr
    return tmp_path / "logs"


def rows(document: dict[str, Any], system: str) -> list[tuple[Any, ...]]:
    """For each sample of a system: two scores, each followed by the reason why the score is missing, or by ''."""
    names = ("faithfulness", "faithfulness_missing", "answer_relevancy", "answer_relevancy_missing")
    return [tuple(row[name] for name in names) for row in document["samples"] if row["system"] == system]


def test_ragas_scores_the_verdicts_in_logs(logs: Path, start_stub: StartStub, tmp_path: Path) -> None:
    stub = start_stub([question_rule(CLAIM.format(0)), *verdict_rules(True, False, True, True)])
    out = tmp_path / "figures.json"
    code, printed, stderr = measure(logs, out)
    assert code == 0, stderr
    document = json.loads(out.read_text())
    rag, plain = sorted(document["systems"], key=lambda row: str(row["system"]))
    first, second, third = rows(document, "rag")
    assert first == (0.75, "", pytest.approx(1), "")
    assert second[:2] == (0.75, "")
    assert 0 < second[2] < 0.999
    assert third[::2] == (None, None)
    assert "HTTP 400" in third[1]
    assert third[1] == third[3]
    assert (rag["faithfulness"], rag["faithfulness_n"], rag["faithfulness_missing"], rag["samples"]) == (0.75, 2, 1, 3)
    assert rag["answer_relevancy"] == pytest.approx((first[2] + second[2]) / 2)
    assert [row[:2] for row in rows(document, "standard_prompting")] == [(None, "no evidence")] * 3
    assert (plain["faithfulness"], plain["faithfulness_n"], plain["faithfulness_missing"]) == (None, 0, 3)
    assert plain["answer_relevancy_n"] == 3
    cells = next(line.split() for line in printed.splitlines() if line.startswith("rag"))
    assert cells[-6:] == ["0.750", "2", "1", f"{rag['answer_relevancy']:.3f}", "2", "1"]
    assert "No faithfulness for 3 samples (standard_prompting 0, standard_prompting 1" in stderr
    assert "no evidence" not in printed
    samples, _ = read_answers(logs)
    judging = "\n".join(p for p in stub.prompts("ragas") if JUDGE in p)
    asked = [p for p in stub.prompts("ragas") if ASK in p]
    sample = next(sample for sample in samples if sample.system == "rag")
    assert sample.contexts
    assert all(json.dumps(text)[1:-1] in judging for text in sample.contexts)
    assert any(json.dumps(sample.response)[1:-1] in prompt for prompt in asked)
    assert sample.response.startswith(("SUPPORTS\n", "REFUTES\n", "NOT ENOUGH INFO\n"))


def write_answered_log(tmp_path: Path, number: int) -> Path:
    """Write a log with this number of answered items; return its path.

    Each document has two pieces of evidence. The judge was shown only the first.
    """
    saffron = "Saffron is a spice."
    piece = make_evidence(text=saffron, title="Saffron", source="test", query="q", score=None, retriever="test")
    unseen = piece | {"id": "ev-unseen", "text": "Nobody who decided was shown this."}
    document = debate("SUPPORTS", ["SUPPORTS"]) | {"evidence": [piece, unseen]}
    document["turns"][0] |= {"step": "judge", "evidence_ids": [piece["id"]]}
    ids = [str(n) for n in range(number)]
    return write_log(tmp_path, "log", dict.fromkeys(ids, document), dict.fromkeys(ids, "SUPPORTS"), system="some")


@pytest.mark.parametrize(
    ("rule", "reason", "calls", "code"),
    # RAGAS requests three questions per sample, and stops after a failure. `calls` counts these requests per sample.
    # A request is sent twice if its reply cannot be read, three times for HTTP 500, and once for other errors.
    [
        ({"reply": "no JSON"}, "the reply is not in the form that RAGAS asks for", 2, 3),
        ({"finish": "length"}, "the reply was cut off", 1, 3),
        ({"status": 400}, "did not accept the request for openai:stub-ragas (HTTP 400", 1, 3),
        ({"status": 500}, "failed while answering for openai:stub-ragas (HTTP 500", 3, 3),
        ({"fields": {"question": "", "noncommittal": 0}}, "RAGAS found nothing to judge", 3, 0),
    ],
)
def test_a_failed_or_undefined_score_of_a_sample_is_missing(
    start_stub: StartStub, tmp_path: Path, rule: dict[str, Any], reason: str, calls: int, code: int
) -> None:
    stub = start_stub([{"model": "ragas", "match": ASK, **rule}, *verdict_rules(True, False)])
    ended, _, stderr = measure(write_answered_log(tmp_path, 2), tmp_path / "figures.json")
    document = json.loads((tmp_path / "figures.json").read_text())
    for faithful, _, relevant, missing in rows(document, "some"):
        assert (faithful, relevant) == (0.5, None)
        assert reason in missing
    assert ended == code
    assert reason in stderr
    prompts = stub.prompts("ragas")
    assert sum(ASK in prompt for prompt in prompts) == 2 * calls
    assert not any("Nobody who decided" in prompt for prompt in prompts)


def test_a_refused_key_ends_the_run_and_keeps_finished_scores(start_stub: StartStub, tmp_path: Path) -> None:
    """The endpoint answers for the first two samples, then refuses the key."""
    start_stub(
        [
            question_rule("Why?") | {"times": 6},
            *[one | {"times": 2} for one in verdict_rules(True, False)],
            {"status": 401},
        ]
    )
    code, printed, stderr = measure(write_answered_log(tmp_path, 30), tmp_path / "figures.json", "--at-once", 1)
    document = json.loads((tmp_path / "figures.json").read_text())
    assert [row[0] for row in rows(document, "some")[:2]] == [0.5, 0.5]
    assert {row[1] for row in rows(document, "some")[2:]} == {"not measured: the command ended first"}
    assert (code, document["systems"][0]["faithfulness_n"]) == (2, 2)
    assert "refused the key" in stderr.splitlines()[-1]
    assert stderr.splitlines()[-1].startswith("moot: ")
    assert "moot:" not in printed


@pytest.mark.parametrize(
    ("log", "model", "message"),
    [
        ("nowhere", "openai:stub", "There is no file or folder"),
        (".", "openai:stub", "contains no sample of a debate system"),
        ("some", "gpt-4o", "A model is named provider:name"),
        ("some", "mistral:small", "The provider 'mistral' is unknown"),
        ("some", "fake:1", "RAGAS needs a real model"),
    ],
)
def test_unusable_logs_and_models_are_user_errors(tmp_path: Path, log: str, model: str, message: str) -> None:
    path = write_answered_log(tmp_path, 1) if log == "some" else tmp_path / log
    done = moot("eval", "ragas", path, "--model", model)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
