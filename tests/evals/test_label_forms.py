"""A model that writes each label with its meaning gets the scores of one that writes the label alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from moot.evals._runs.logs import read_runs
from moot.graphs import load_graph
from moot.nodes._texts.task import TASKS

from tests.commands import moot
from tests.conftest import StartStub
from tests.evals.test_own_claims import DEMO
from tests.evals.test_solver import says
from tests.graphs.scripted_trial import ONE_ROUND, default_rules, judge_rules, trial

FORMS = ("{label} - {meaning}", "{label} ({meaning})", "{meaning}: {label}", "{label}, because {meaning}")
MEANINGS = {
    "SUPPORTS": "the claim is true",
    "REFUTES": "the claim is false",
    "NOT ENOUGH INFO": "nothing settles the claim",
}


@pytest.mark.parametrize("form", FORMS)
def test_labels_with_their_meanings_are_scored_as_labels(start_stub: StartStub, tmp_path: Path, form: str) -> None:
    rows = [json.loads(line) for line in DEMO.read_text().splitlines()]
    right = {row["claim"]: form.format(label=row["label"], meaning=MEANINGS[row["label"]]) for row in rows}
    start_stub([says(answer, f"<claim>\n{claim}\n") for claim, answer in right.items()])
    words = ["--graph", "standard_prompting", "--model", "openai:stub", "--logs", tmp_path / "logs"]
    ended = moot("eval", "run", "--task", f"claims={DEMO}", *words)
    assert ended.returncode == 0, ended.stderr
    ((run,), _) = read_runs([tmp_path / "logs"], lambda calls: None)
    assert {(seen.outcome, seen.scores["accuracy"]) for seen in run.observations} == {(x, 1.0) for x in MEANINGS}
    assert len(run.observations) == len(rows)


@pytest.mark.parametrize("form", FORMS)
async def test_every_label_of_every_task_is_read_with_its_meaning(start_stub: StartStub, form: str) -> None:
    labels = {name: {label: meaning for label, meaning, _ in known.labels} for name, known in TASKS.items()}
    pairs = [(name, label, meaning) for name, meanings in labels.items() for label, meaning in meanings.items()]
    answers = [form.format(label=label, meaning=meaning) for _, label, meaning in pairs]
    start_stub([says(answer, f"Claim number {number} of") for number, answer in enumerate(answers)])
    system = load_graph("standard_prompting")
    settings = system.settings.model_validate({"model": "openai:stub"})
    for number, (name, label, _) in enumerate(pairs):
        asked: dict[str, Any] = {"claim": f"Claim number {number} of many.", "task": name}
        document = await system.graph.ainvoke(asked, context=settings)
        assert document["answer"] == label, (name, answers[number])


@pytest.mark.parametrize(
    ("verdict", "answer"),
    [
        ("SUPPORTED - the claim is true", "SUPPORTS"),
        ("NOT SUPPORTED - the claim is false", "REFUTES"),
        ("INCONCLUSIVE - nothing settles the claim", "NOT ENOUGH INFO"),
        ("SUPPORTED - the claim is false", None),
    ],
)
async def test_judges_of_a_trial_may_explain_their_verdicts(
    start_stub: StartStub, verdict: str, answer: str | None
) -> None:
    start_stub([*judge_rules(verdict, verdict, verdict), *default_rules()])
    assert (await trial(**ONE_ROUND))["answer"] == answer
