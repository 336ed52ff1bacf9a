"""A model that writes each label with its meaning gets the scores of one that writes the label alone."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from moot.evals._runs.logs import read_runs
from moot.nodes._texts.answers import read_answer
from moot.nodes._texts.task import TASKS, make_task

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


def test_labels_with_their_meanings_are_scored_as_labels(start_stub: StartStub, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in DEMO.read_text().splitlines()]
    forms = itertools.cycle(FORMS)
    right = {row["claim"]: next(forms).format(label=row["label"], meaning=MEANINGS[row["label"]]) for row in rows}
    start_stub([says(answer, f"<claim>\n{claim}\n") for claim, answer in right.items()])
    words = ["--graph", "standard_prompting", "--model", "openai:stub", "--logs", tmp_path / "logs"]
    ended = moot("eval", "run", "--task", f"claims={DEMO}", *words)
    assert ended.returncode == 0, ended.stderr
    ((run,), _) = read_runs([tmp_path / "logs"], lambda calls: None)
    assert {(seen.outcome, seen.scores["accuracy"]) for seen in run.observations} == {(x, 1.0) for x in MEANINGS}
    assert len(run.observations) == len(rows)


def test_every_label_of_every_task_is_read_with_its_meaning() -> None:
    for name, known in TASKS.items():
        for label, meaning, _ in known.labels:
            for form in FORMS:
                answer = form.format(label=label, meaning=meaning)
                assert read_answer(make_task(name), answer) == label, (name, answer)


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
