"""Debates as solvers of Inspect's tasks: scores, and failed debates as missing data."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.scorer import match
from moot.core.errors import UserError
from moot.evals._runs import scorers
from moot.evals._runs.logs import read_runs
from moot.evals._runs.scorers import gold_and_found
from moot.evals._runs.solver import debate, document_in
from moot.evals._runs.tasks import benchmark_task
from moot.nodes._texts.answers import ABSTENTION
from moot.retrievers import index_passages
from moot.retrievers._files import Passage
from moot.retrievers._lexical import NO_ENCODER

from tests.conftest import StartStub

GRAPH = "standard_prompting"
MODEL: dict[str, Any] = {"model": "openai:stub"}


def evaluate(task: Task | str, tmp_path: Path, **options: Any) -> EvalLog:
    (log,) = eval(task, model="none", display="none", log_dir=str(tmp_path / "logs"), log_level="error", **options)
    return log


def samples_of(log: EvalLog) -> list[EvalSample]:
    assert log.samples is not None
    return log.samples


def document_of(sample: EvalSample) -> dict[str, Any]:
    document = document_in(sample)
    assert document is not None
    return document


def figure(log: EvalLog, scorer: str, metric: str = "mean") -> float:
    """The value of a scorer's metric."""
    assert log.results is not None
    score = next(score for score in log.results.scores if score.name == scorer)
    return float(score.metrics[metric].value)


def says(answer: str, match: str = "") -> dict[str, Any]:
    """A rule of the scripted endpoint: requests that match ``match`` (by default all) get this answer."""
    return {"match": match, "fields": {"answer": answer, "rationale": "Because.", "citations": []}}


def claims(path: Path, *labels: str) -> str:
    """Write a file in FEVER's format, with claims that can be told apart; return its path."""
    lines = [
        {"id": i, "claim": f"Claim {chr(65 + i)}.", "label": label, "evidence": []} for i, label in enumerate(labels)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return str(path)


def test_an_inspect_task_can_use_a_debate_as_its_solver(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub([says("REFUTES")])
    task = Task(
        dataset=[Sample(input="Saffron is made from the roots of a flower.", target="REFUTES")],
        solver=debate("society_of_minds", **MODEL),
        scorer=match(),
    )
    (sample,) = samples_of(evaluate(task, tmp_path))
    document = document_of(sample)
    assert sample.output.completion == document["answer"] == "REFUTES"
    assert sample.scores is not None
    assert sample.scores["match"].value == "C"
    assert (document["rounds"], document["depth"], document["usage"]["calls"]) == (2, 2, 6)  # three agents


def test_prompts_contain_the_inputs_of_a_sample_but_not_its_target(start_stub: StartStub, tmp_path: Path) -> None:
    stub = start_stub()
    secret = "what nobody may know"
    dataset = [
        Sample(input="Which?", choices=["Oxygen", "Neon"], target="B", metadata={"gold_evidence": {"texts": [secret]}}),
        Sample(input="Is it?", target=secret, metadata={"moot": {"labels": ["so", "not so"]}, "labels": "neither"}),
        Sample(
            input="How many?",
            target="7",
            metadata={"moot": {"task": "number", "given": [{"text": "There are seven."}], "speaker": "Ada"}},
        ),
    ]
    evaluate(Task(dataset=dataset, solver=debate(GRAPH, **MODEL), scorer=scorers.citation_precision()), tmp_path)
    prompts = stub.prompts()
    assert [
        any(text in prompt for prompt in prompts)
        for text in ("Neon", "not so", "There are seven.", "Said by: Ada", secret)
    ] == [True] * 4 + [False]


def test_that_the_evidence_does_not_tell_can_be_the_right_answer(start_stub: StartStub, tmp_path: Path) -> None:
    """A reply that cannot be used is not such an answer."""
    data, names = tmp_path / "faitheval.jsonl", ("Ark", "Bay", "Cay")
    rows = [{"qid": name, "question": f"Who built {name}?", "context": "It is of oak."} for name in names]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    start_stub([{"match": "Cay", "reply": "{"}, says("Old Bram", "Ark"), says(ABSTENTION)])
    log = evaluate(benchmark_task("faitheval_unanswerable", str(data)), tmp_path, solver=debate(GRAPH, **MODEL))
    scores = {sample.id: sample.scores["exact_match"].value for sample in samples_of(log) if sample.scores}
    assert scores == {"Ark": 0, "Bay": 1, "Cay": 0}
    (run,) = read_runs([tmp_path / "logs"], lambda calls: 0.0)[0]
    assert [one.scores["exact_match"] for one in run.observations] == [0, 1, 0]


def test_a_failed_sample_is_missing_from_the_scores(start_stub: StartStub, tmp_path: Path) -> None:
    rules = [{"match": "Claim B", "status": 400}, says("SUPPORTS", "Claim A"), says("REFUTES")]
    start_stub(rules)
    data = claims(tmp_path / "fever.jsonl", "SUPPORTS", "SUPPORTS", "SUPPORTS", "NOT ENOUGH INFO")
    log = evaluate(
        benchmark_task("fever", data), tmp_path, solver=debate(GRAPH, **MODEL), fail_on_error=False, score_display=False
    )
    failed = {sample.id: sample.error for sample in samples_of(log) if sample.error}
    assert list(failed) == ["1"]
    assert "bad_request" in str(failed["1"])
    assert document_of(next(s for s in samples_of(log) if s.id == "1"))["status"] == "failed"
    assert figure(log, "accuracy") == pytest.approx(1 / 3)
    assert figure(log, "accuracy", "balanced_accuracy") == pytest.approx((1 / 2 + 0) / 2)
    assert figure(log, "accuracy", "macro_f1") == pytest.approx((2 / 3 + 0) / 2)
    assert log.results is not None
    assert (log.results.total_samples, log.results.scores[0].scored_samples) == (4, 3)


def test_an_unusable_reply_is_scored_as_wrong(start_stub: StartStub, tmp_path: Path) -> None:
    stub = start_stub([{"match": "Claim A", "reply": "I would rather not."}, says("SUPPORTS")])
    data = claims(tmp_path / "fever.jsonl", "SUPPORTS", "SUPPORTS")
    log = evaluate(benchmark_task("fever", data), tmp_path, solver=debate(GRAPH, **MODEL), score_display=False)
    lost, _ = samples_of(log)
    assert (log.status, lost.error, lost.output.completion) == ("success", None, "")
    assert document_of(lost)["error"]["kind"] == "unparsed"
    assert len(stub.calls()) == 3  # two samples, and a repeated request after the unusable reply
    assert (figure(log, "accuracy"), figure(log, "accuracy", "abstained")) == (0.5, 0.5)
    assert lost.scores is not None
    assert "gave a usable answer" in str(lost.scores["accuracy"].explanation)


def test_an_undecided_debate_is_an_abstention(start_stub: StartStub, tmp_path: Path) -> None:
    data = claims(tmp_path / "fever.jsonl", "SUPPORTS")
    settings: dict[str, Any] = {
        "agents": ["openai:stub-agent-1", "openai:stub-agent-2"],
        "max_rounds": 1,
        "evaluation": "none",
    }
    rules = [{"model": "stub-agent-1", **says("REFUTES")}, {"model": "stub-agent-2", **says("SUPPORTS")}]
    start_stub(rules)
    log = evaluate(benchmark_task("fever", data), tmp_path, solver=debate("cortex_debate", **settings))
    (sample,) = samples_of(log)
    assert sample.scores is not None
    assert (sample.scores["accuracy"].value, sample.scores["accuracy"].answer) == (0.0, "(abstained)")
    assert figure(log, "accuracy", "abstained") == 1.0


def test_a_grader_scores_free_text_answers(start_stub: StartStub, tmp_path: Path) -> None:
    """An answer has no score if the grader's reply is unusable."""
    answers = ["Paris", "the French capital", "Rome", "a town"]
    gold = [{"question": f"What is question {chr(65 + i)}?", "answer": ["Paris"]} for i in range(4)]
    (tmp_path / "nq.jsonl").write_text("\n".join(map(json.dumps, gold)))
    judged = [
        {"model": "judge", "match": "French", "fields": {"same": True, "reason": "It is."}},
        {"model": "judge", "match": "Rome", "fields": {"same": False, "reason": "It is not."}},
        {"model": "judge", "reply": "I would rather not say."},
    ]
    start_stub(judged + [says(answer, f"question {chr(65 + i)}") for i, answer in enumerate(answers)])
    task = benchmark_task("nq_open", str(tmp_path / "nq.jsonl"), judge="openai:judge")
    values = [
        s.scores["judged"].value
        for s in samples_of(evaluate(task, tmp_path, solver=debate(GRAPH, **MODEL)))
        if s.scores
    ]
    assert values[:3] == [1.0, 1.0, 0.0]
    assert math.isnan(values[3])  # type: ignore[arg-type]


def test_a_cutoff_date_in_the_settings_overrides_the_date_of_a_sample(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub()
    dataset = [Sample(input="A claim.", target="SUPPORTS", metadata={"moot": {"published_before": "2020-10-25"}})]
    for day, expected in ((None, "2020-10-25"), ("2019-01-01", "2019-01-01")):
        solver = debate("rag", sources=["bm25:demo-news"], **MODEL, **({"published_before": day} if day else {}))
        log = evaluate(Task(dataset=dataset, solver=solver, scorer=scorers.accuracy()), tmp_path)
        assert document_of(samples_of(log)[0])["settings"]["published_before"] == expected


def test_gold_evidence_is_matched_by_page_document_address_or_text() -> None:
    piece: Any = {
        "title": "Ram-Leela (film)",
        "text": "It was  shot in Gujarat.",
        "url": "https://www.x.org/abs/77/?q=1",
    }
    for gold in (
        {"pages": ["Ram-Leela_-LRB-film-RRB-", "Elsewhere"]},
        {"documents": [77, 78]},
        {"urls": ["http://x.org/abs/77", "http://x.org/abs/78"]},
        {"texts": ["it was shot in Gujarat", "Other."]},
    ):
        found = gold_and_found(gold, [piece])
        assert found is not None
        assert (len(found[0]), len(found[0] & found[1])) == (2, 1), gold
        nothing = gold_and_found(gold, [])
        assert nothing is not None
        assert not nothing[0] & nothing[1]
    assert gold_and_found({"questions": []}, [piece]) is None
    assert gold_and_found(None, [piece]) is None


@pytest.mark.parametrize(
    ("gold", "recall"),
    [
        ({"documents": ["12345"]}, None),  # the passages of the demonstration have no address to tell ids by
        ({"pages": ["No such page"]}, 0.0),
        ({"documents": ["Shuttle Discovery lifts Hubble telescope into space"]}, 1.0),
    ],
)
def test_gold_recall_is_unknown_if_no_evidence_can_be_told_by_its_name(
    start_stub: StartStub, tmp_path: Path, gold: dict[str, Any], recall: float | None
) -> None:
    start_stub()
    data = tmp_path / "claims.jsonl"
    data.write_text(json.dumps({"id": "1", "claim": "Shuttle Discovery lifted Hubble.", "label": "SUPPORTS"}))
    task = benchmark_task("fever", str(data))
    for sample in task.dataset:
        sample.metadata = {**(sample.metadata or {}), "gold_evidence": gold}
    log = evaluate(task, tmp_path, solver=debate("rag", sources=["bm25:demo-news"], **MODEL))
    assert figure(log, "gold_recall") == pytest.approx(math.nan if recall is None else recall, nan_ok=True)
    (run,) = read_runs([tmp_path / "logs"], lambda calls: 0.0)[0]
    assert [one.scores["gold_recall"] for one in run.observations] == [recall]
    assert ["gold_recall: not computable" in str(run.notes)] == [recall is None]


@pytest.mark.parametrize(("gold", "recall"), [("12345", None), ("9", 0.5)])
async def test_gold_recall_is_unknown_if_only_the_other_evidence_has_an_address(
    start_stub: StartStub, tmp_path: Path, gold: str, recall: float | None
) -> None:
    """The corpus has the passages of two benchmarks; the first piece could be the gold one, the second one is known."""
    start_stub()
    texts = {"Discovery lifted Hubble.": None, "Whales sing at night.": "https://x.org/9"}
    passages = [Passage(id=text[:5], text=text, source="s", url=url) for text, url in texts.items()]
    await index_passages("mixed", passages, encoder=NO_ENCODER)
    data = tmp_path / "claims.jsonl"
    data.write_text("".join(json.dumps({"id": text, "claim": text, "label": "SUPPORTS"}) + "\n" for text in texts))
    task = benchmark_task("fever", str(data))
    for sample in task.dataset:
        sample.metadata = {**(sample.metadata or {}), "gold_evidence": {"documents": [gold]}}
    solver = debate("rag", sources=["bm25:mixed"], k=1, **MODEL)
    log = await asyncio.to_thread(evaluate, task, tmp_path, solver=solver)
    assert figure(log, "gold_recall") == pytest.approx(math.nan if recall is None else recall, nan_ok=True)
    (run,) = (await asyncio.to_thread(read_runs, [tmp_path / "logs"], lambda calls: 0.0))[0]
    assert [one.scores["gold_recall"] for one in run.observations] == ([None] * 2 if recall is None else [0.0, 1.0])


def test_a_solver_with_an_unknown_setting_or_graph_is_refused() -> None:
    with pytest.raises(UserError, match="There is no setting 'rounds'"):
        debate(GRAPH, rounds=3)
    with pytest.raises(UserError, match="no graph"):
        debate("tool_made")
