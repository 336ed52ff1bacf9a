"""Runs of plans: benchmarks with visible samples, controls, failed samples, and killed runs."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import EvalLog, EvalSample, read_eval_log, recoverable_eval_logs
from moot.cli.main import app
from moot.core.errors import UserError
from moot.core.files import exclusive_folder
from moot.evals._benchmarks.catalogue import BENCHMARKS
from moot.evals._report.comparison import studies_of
from moot.evals._report.scores import costs_table
from moot.evals._runs.experiment import experiment_of
from moot.evals._runs.logs import read_runs
from moot.evals._runs.plan import make_plan
from moot.evals._runs.reference import References, moot_metadata, read_log_headers
from moot.evals._runs.run_plan import LOCK, Limits, run_plan
from moot.evals._runs.solver import document_in
from moot.evals._stats.rationales import POOLED_MEASURES
from moot.nodes._models.equal_cost import full_cost
from moot.nodes._models.prices import cost_of, read_prices
from moot.retrievers import index_passages
from moot.retrievers._files import Passage
from typer.testing import CliRunner

from tests.commands import moot_process
from tests.conftest import READERS, StartStub, StubEndpoint
from tests.evals.benchmark_samples import QUESTION_FIELDS, VISIBLE
from tests.evals.made_study import records
from tests.evals.test_solver import claims, says
from tests.evals.test_visible_records import FILES, needs_visible
from tests.forked import start

AT_ONCE = 4
ENCODER = "openai:stub-embedding"


def run(tmp_path: Path, ended: list[EvalSample] | None = None, **fields: Any) -> dict[str, EvalLog]:
    """Run a plan; return its logs by system. ``ended`` collects the samples that were run."""
    plan = make_plan({"models": ["openai:stub"], **fields})
    record = (ended if ended is not None else []).append
    logs = run_plan(plan, tmp_path / "logs", Limits(AT_ONCE), lambda total, held: record)
    return {moot_metadata(log)["system"]: read_eval_log(str(log.location)) for log in logs}


def mean(log: EvalLog, scorer: str = "accuracy") -> float:
    """The mean of a scorer's values."""
    assert log.results is not None
    return float(next(s for s in log.results.scores if s.name == scorer).metrics["mean"].value)


def documents(log: EvalLog) -> dict[str, dict[str, Any]]:
    """The result documents of a log, by the sample's id."""
    return {str(s.id): document for s in log.samples or [] if (document := document_in(s)) is not None}


@needs_visible
def test_every_benchmark_with_visible_samples_runs(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub([{"match": "`answer` is one number", "fields": {"answer": "7"}}])
    paths = [next(VISIBLE.glob(f"{FILES.get(name, name)}.[cj]s*")) for name in QUESTION_FIELDS]
    plan = make_plan(
        {
            "graphs": ["rag"],
            "tasks": {name: str(path) for name, path in zip(QUESTION_FIELDS, paths, strict=True)},
            "models": ["openai:stub"],
            "settings": {"sources": ["bm25:demo-news"]},
            "limit": 1,
        }
    )
    logs = run_plan(plan, tmp_path / "logs", Limits(64), lambda total, held: lambda sample: None)
    assert len(logs) == len(QUESTION_FIELDS)
    for log in logs:
        assert log.status == "success", [str(s.error) for s in read_eval_log(str(log.location)).samples or []]
        assert log.results is not None
        measures = {score.name: score.scored_samples for score in log.results.scores}
        ours = [name for name in BENCHMARKS[moot_metadata(log)["benchmark"]].metrics if name in measures]
        assert ours
        # The visible samples of FEVEROUS name no gold sentences, so they have no FEVEROUS score. An item without gold
        # sentences for which none is cited adds nothing to an F1 over all items.
        assert all(measures[name] == 1 for name in ours if name not in ("feverous_score", *POOLED_MEASURES))


async def test_a_system_that_reads_gold_evidence_is_right(start_stub: StartStub, tmp_path: Path) -> None:
    """A system without sources does not get the gold evidence, and is wrong."""
    start_stub([says("SUPPORTS", "grows in the east"), says("REFUTES")])
    fact = "Fact {0}: number {0} grows in the east."
    passages = [Passage(id=str(i), title=f"Page {i}", text=fact.format(i)) for i in range(3)]
    await index_passages("gold", passages, encoder=ENCODER)
    lines = [
        {"id": i, "claim": f"Number {i} is a plant.", "label": "SUPPORTS", "evidence": [[[0, 0, f"Page_{i}", 0]]]}
        for i in range(3)
    ]
    (tmp_path / "fever.jsonl").write_text("\n".join(map(json.dumps, lines)))
    settings = {"sources": ["bm25"], "corpus": "gold", "embedder": ENCODER}
    tasks = {"fever": str(tmp_path / "fever.jsonl")}

    found = await asyncio.to_thread(run, tmp_path, graphs=["rag", "standard_prompting"], tasks=tasks, settings=settings)
    assert (mean(found["rag"]), mean(found["rag"], "gold_recall")) == (1.0, 1.0)
    assert mean(found["standard_prompting"]) == 0.0


def test_a_control_has_the_budget_rounds_or_evidence_of_its_debate(start_stub: StartStub, tmp_path: Path) -> None:
    """If the debate failed on an item, the controls that need its budget, rounds or evidence fail on this item."""
    start_stub([{"model": "lost", "match": "Claim B", "status": 400}])
    data = claims(tmp_path / "fever.jsonl", "SUPPORTS", "REFUTES")
    settings = {"embedder": ENCODER, "scoring": "consensus_only", "max_rounds": 2, "models": {"rag": "openai:lost"}}
    settings["debaters"] = READERS
    found = run(tmp_path, graphs=["tool_mad"], tasks={"fever": data}, settings=settings, controls=True)
    debates = documents(found["tool_mad"])
    failed = {system: [s.id for s in log.samples or [] if s.error] for system, log in found.items()}
    (lost,) = failed["tool_mad"]
    (finished,) = set(debates) - {lost}
    debate = debates[finished]
    spent = debate["usage"]["prompt_tokens"] + debate["usage"]["completion_tokens"]
    repeated = [f"{name}{how}" for name in ("self consistency", "self correction") for how in ("", " with evidence")]
    for name in ("single call", *repeated):
        log = found[f"tool_mad {name}"]
        assert failed[f"tool_mad {name}"] == [lost]
        assert "unknown_budget" in str(next(s.error for s in log.samples or [] if s.id == lost))
    evidence = [piece["text"] for piece in debate["evidence"]]
    assert evidence
    for name in repeated:
        control = documents(found[f"tool_mad {name}"])[finished]
        assert [piece["text"] for piece in control["evidence"]] == (evidence if "with" in name else [])
        if "consistency" in name:
            assert (control["settings"]["budget"], control["stop_reason"]) == (spent, "budget_exhausted")
        else:
            assert (control["rounds"], len({turn["agent"] for turn in control["turns"]})) == (debate["rounds"], 1)
    single = documents(found["tool_mad single call"])[finished]
    assert [piece["text"] for piece in single["evidence"]] == evidence
    assert (single["usage"]["calls"], single["corpora"]) == (1, [])
    assert not documents(found["tool_mad retrieval none"])[finished]["evidence"]


@pytest.mark.parametrize("equal", ["tokens", "usd", "calls"])
def test_a_control_spends_nearly_as_much_as_its_debate(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, equal: str
) -> None:
    """A control spends at most as much as its debate.

    The gap is under three times the cost of the control's most expensive call.
    """
    start_stub(latency_ms=5)
    (tmp_path / "prices.jsonl").write_text('{"model": "openai:stub", "input": 1, "output": 8}')
    monkeypatch.setenv("MOOT_PRICES", str(tmp_path / "prices.jsonl"))
    data = claims(tmp_path / "fever.jsonl", "SUPPORTS", "REFUTES")
    settings = {"embedder": ENCODER, "max_rounds": 2, "debaters": READERS}
    fields: dict[str, Any] = {"graphs": ["tool_mad"], "tasks": {"fever": data}, "settings": settings}
    found = run(tmp_path, **fields, controls=["self_consistency"], equal=equal)
    (name,) = set(found) - {"tool_mad"}
    debates, controls, prices = documents(found["tool_mad"]), documents(found[name]), read_prices()
    assert set(controls) == set(debates)
    for id, control in controls.items():
        control_cost, debate_cost = (full_cost(one["calls"], one["seconds"], prices) for one in (control, debates[id]))
        spent, most = getattr(control_cost, equal), getattr(debate_cost, equal)
        most_expensive = max(getattr(full_cost([call], 0, prices), equal) for call in control["calls"])
        assert most - 3 * most_expensive < spent <= most
        assert control["depth"] < control_cost.calls or control_cost.calls < 4
    runs, _ = read_runs([tmp_path / "logs"], lambda calls: cost_of(calls, prices))
    (study,) = studies_of(runs)
    row = records(costs_table(study))[name]
    ratio = {"tokens": "relative", "usd": "relative_cost"}.get(equal)
    assert all(row[name] for name in ("relative", "relative_cost", "relative_seconds"))
    assert ratio is None or 0.6 < row[ratio] <= 1


def test_a_second_run_repeats_only_failed_samples(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub([{"match": "Claim B", "status": 400, "times": 1}])
    data = claims(tmp_path / "fever.jsonl", *["SUPPORTS"] * 5)
    fields = {"graphs": ["standard_prompting"], "tasks": {"fever": data}}
    runs: list[list[EvalSample]] = [[], [], []]
    first = run(tmp_path, runs[0], **fields)["standard_prompting"]
    second = run(tmp_path, runs[1], **fields)["standard_prompting"]
    third = run(tmp_path, runs[2], **fields)["standard_prompting"]
    assert [len(ran) for ran in runs] == [5, 1, 0]
    assert (first.status, second.status, third.status) == ("error", "success", "success")
    assert first.results is not None
    assert second.results is not None
    assert [r.scores[0].scored_samples for r in (first.results, second.results)] == [4, 5]


def test_another_setting_model_seed_or_data_starts_a_new_run(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub()
    data = claims(tmp_path / "fever.jsonl", "SUPPORTS", "REFUTES")
    fields: dict[str, Any] = {"graphs": ["standard_prompting"], "tasks": {"fever": data}}
    for change in ({}, {"settings": {"max_tokens": 99}}, {"models": ["openai:other"]}, {"seeds": [1]}):
        run_samples: list[EvalSample] = []
        run(tmp_path, run_samples, **(fields | change))
        assert len(run_samples) == 2, change
    claims(tmp_path / "fever.jsonl", "SUPPORTS", "SUPPORTS")
    run_samples = []
    run(tmp_path, run_samples, **fields)
    assert len(run_samples) == 2
    assert len({moot_metadata(log)["key"] for log in read_log_headers(str(tmp_path / "logs"))}) == 5
    assert {moot_metadata(log)["family"] for log in read_log_headers(str(tmp_path / "logs"))} == {"report"}


KILL_BEFORE_CLEANUP = """
import os, signal
from inspect_ai.log._recorders.buffer.database import SampleBufferDatabase
SampleBufferDatabase.remove_samples = lambda self, samples: os.kill(os.getpid(), signal.SIGKILL)
"""
"""Python code that kills a run when it is about to remove logged samples from the recovery buffer."""


def command(tmp_path: Path, data: str) -> list[str]:
    """The command line of ``moot eval run`` in a new Python process."""
    flags = ["eval", "run", "--graph", "standard_prompting", "--task", f"fever={data}", "--model", "openai:stub"]
    flags += ["--logs", str(tmp_path / "logs"), "--at-once", str(AT_ONCE)]
    return [sys.executable, "-c", "from moot.cli.main import run; run()", *flags]


def run_and_stop(stub: StubEndpoint, line: list[str], calls: int, by: signal.Signals) -> int:
    """Start a command, send it a signal after a number of answered calls, and return its exit code."""
    with start(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and stub.stats(logged=calls)["logged"] < calls:
            pass
        process.send_signal(by)
        return process.wait()


@pytest.mark.parametrize(
    ("by", "code", "patch"),
    [
        (signal.SIGINT, 130, ""),
        (signal.SIGKILL, -signal.SIGKILL, KILL_BEFORE_CLEANUP),
    ],
    ids=["interrupted", "killed before cleanup"],
)
def test_a_stopped_run_resumes(
    start_stub: StartStub, tmp_path: Path, by: signal.Signals, code: int, patch: str
) -> None:
    """The second run repeats at most the samples that were running, and completes the log."""
    stub = start_stub(latency_ms=50)
    count = 24
    data = claims(tmp_path / "fever.jsonl", *["SUPPORTS"] * count)
    moment = count if patch else random.Random(os.urandom(4)).randrange(2, count - AT_ONCE)
    line = command(tmp_path, data)
    assert run_and_stop(stub, [*line[:2], patch + line[2], *line[3:]], moment, by) == code
    before = len(stub.prompts())
    done = moot_process(*line[3:], "--json")
    assert done.returncode == 0, done.stderr
    resumed = re.search(rf"(\d+) of {count} samples are in the logs", done.stderr)
    assert len(stub.prompts()) - before + (int(resumed[1]) if resumed else 0) == count
    (record,) = json.loads(done.stdout)["logs"]
    assert (record["status"], record["samples"], record["missing"]) == ("success", count, 0)
    asked = Counter(stub.prompts())
    assert len(asked) == count
    assert sum(asked.values()) - count <= AT_ONCE, f"stopped after {moment} calls"
    assert Path(record["log"]).is_file()
    resumed_log = read_eval_log(record["log"])
    assert len({sample.id for sample in resumed_log.samples or []}) == len(resumed_log.samples or []) == count
    assert len(documents(resumed_log)) == count  # even recovered samples have documents
    (compared,), _ = read_runs([Path(record["log"])], lambda calls: 0.0)
    assert [seen.error for seen in compared.observations] == [None] * count
    references = References(str(tmp_path / "logs"), compared.key or "")
    assert all(asyncio.run(references.for_sample(sample.id)) for sample in resumed_log.samples or [])
    assert all(row["actual_outputs"]["answer"] for row in experiment_of(Path(record["log"]))["results"])
    assert not [log for log in recoverable_eval_logs(str(tmp_path / "logs")) if log.log.name == record["log"]]


def test_a_broken_line_is_an_error_before_any_sample_runs(start_stub: StartStub, tmp_path: Path) -> None:
    stub = start_stub()
    data = Path(claims(tmp_path / "fever.jsonl", *["SUPPORTS"] * 20))
    lines = data.read_text().splitlines()
    data.write_text("\n".join([*lines, *["{"], *lines]))
    result = CliRunner().invoke(app, command(tmp_path, str(data))[3:])
    assert result.exit_code != 0
    assert "fever.jsonl, line 21" in str(result.exception)
    assert not stub.calls()


def test_a_missing_corpus_is_an_error_before_any_sample_runs(start_stub: StartStub, tmp_path: Path) -> None:
    stub = start_stub()
    data = claims(tmp_path / "fever.jsonl", "SUPPORTS")
    with pytest.raises(UserError, match="tool_mad on fever: There is no corpus"):
        run(tmp_path, graphs=["tool_mad"], tasks={"fever": data}, settings={"corpus": "nowhere", "embedder": ENCODER})
    assert not stub.calls()


def test_the_command_reports_failed_samples_and_left_out_records(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub([{"match": "Claim B", "status": 400}])
    data = Path(claims(tmp_path / "fever.jsonl", "SUPPORTS", "SUPPORTS"))
    data.write_text(data.read_text() + "\n" + json.dumps({"id": 9, "claim": "Claim Z."}))
    result = CliRunner().invoke(app, command(tmp_path, str(data))[3:])
    assert result.exit_code == 3
    assert "1 sample failed: http" in result.stderr
    told = " ".join(result.stderr.split())
    assert told.count("FEVER: 1 of 3 records left out: no gold answer") == 1
    assert told.index("left out") < told.index("2/2 samples")  # before the run
    assert "standard_prompting" in result.stdout


def test_a_sample_over_the_time_limit_is_missing_and_not_run_again(start_stub: StartStub, tmp_path: Path) -> None:
    stub = start_stub([{"match": "Claim B", "delay_ms": 60_000}])
    line = command(tmp_path, claims(tmp_path / "fever.jsonl", "SUPPORTS", "SUPPORTS"))[3:]
    for _ in range(2):
        result = CliRunner().invoke(app, [*line, "--time-limit", "2", "--json"])
        (record,) = json.loads(result.stdout)["logs"]
        assert (result.exit_code, record["status"], record["samples"], record["missing"]) == (3, "success", 2, 1)
    assert len(stub.calls()) <= 2
    result = CliRunner().invoke(app, [*line, "--time-limit", "3", "--json"])
    assert "these differ: the time limit of a sample" in " ".join(result.stderr.split())
    assert len(json.loads(result.stdout)["logs"]) == 1


def test_a_run_is_refused_while_another_run_writes_to_its_folder(start_stub: StartStub, tmp_path: Path) -> None:
    stub = start_stub()
    data = claims(tmp_path / "fever.jsonl", "SUPPORTS")
    with (
        exclusive_folder(tmp_path / "logs", "run", LOCK),
        pytest.raises(UserError, match="Another run writes to"),
    ):
        run(tmp_path, graphs=["standard_prompting"], tasks={"fever": data})
    assert not stub.calls()


def test_a_system_with_a_new_label_and_position_is_not_run_again(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub()
    data = claims(tmp_path / "fever.jsonl", "SUPPORTS")
    fields: dict[str, Any] = {"tasks": {"fever": data}, "settings": {"max_rounds": 1}}
    run(tmp_path, graphs=["society_of_minds"], **fields)
    run_samples: list[EvalSample] = []
    again = {"graph": "society_of_minds", "label": "all to all"}
    found = run(tmp_path, run_samples, graphs=["standard_prompting", again], **fields)
    assert (len(run_samples), {name: moot_metadata(log)["position"] for name, log in found.items()}) == (
        1,
        {"standard_prompting": 0, "all to all": 1},
    )
    assert len(found["all to all"].samples or []) == 1


def free_text_plan(tmp_path: Path) -> dict[str, Any]:
    """A plan of one system with one question, whose answer is a free text."""
    (tmp_path / "nq.jsonl").write_text(json.dumps({"question": "Who?", "answer": ["Somebody else"]}))
    return {"graphs": ["standard_prompting"], "tasks": {"nq_open": str(tmp_path / "nq.jsonl")}}


def test_a_sample_keeps_its_debate_if_the_grader_fails(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub([{"model": "judge", "status": 400}])
    log = run(tmp_path, judge="openai:judge", **free_text_plan(tmp_path))["standard_prompting"]
    (sample,) = log.samples or []
    assert (log.status, sample.error, mean(log, "exact_match")) == ("success", None, 0.0)
    assert sample.scores is not None
    assert sample.scores["judged"].reason == "grader_failed"
