"""Graders of free-text answers: which models are refused, and how the agreement of graders is measured."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from moot.cli.agreement import measure_agreement
from moot.core.errors import UserError
from moot.evals._analyses.agreement import agreement
from moot.evals._analyses.graders import GRADER_FIELDS, HUMAN, add_human_grades, check_grader, read_gradable_answers
from moot.evals._runs.logs import checked_document, read_runs
from moot.evals._stats.measures import load_extra
from moot.evals._stats.outcomes import outcome_of
from moot.nodes._runtime.turns import new_turn

from tests.conftest import StartStub
from tests.evals.made_logs import debate, failed_document, write_log

GOLD = {"1": ["Paris"], "2": ["Paris"], "3": ["Paris"], "4": ["Paris"]}
ANSWERS = {"1": "Paris", "2": "the French capital", "3": "Rome", "4": "Lutetia"}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Write a log of four answers into a folder; return the folder.

    The judge openai:a graded the first two answers as right and the third as wrong. The fourth answer has no grade.
    """
    documents = {id: debate(answer, task="hotpotqa") for id, answer in ANSWERS.items()}
    scores = {id: {"judged": value} for id, value in {"1": 1.0, "2": 1.0, "3": 0.0}.items()}
    write_log(tmp_path, "a", documents, GOLD, system="s", benchmark="hotpotqa", judge="openai:a", scores=scores)
    return tmp_path


def test_kappa_and_its_interval_equal_reference_values() -> None:
    """The references are figures worked out by hand, scikit-learn's kappa, and statsmodels' interval."""
    first = [True] * 20 + [True] * 5 + [False] * 10 + [False] * 15
    second = [True] * 20 + [False] * 5 + [True] * 10 + [False] * 15
    found = agreement([*first, True, None], [*second, None, None])
    assert (found.share, found.kappa.n, found.kappa.missing) == (0.7, 50, 2)
    assert found[2:] == (20, 5, 10, 15)
    assert found.kappa.value == pytest.approx(0.4)  # (0.7 - 0.5) / (1 - 0.5)
    theirs = load_extra("statsmodels.stats.inter_rater").cohens_kappa([[20, 5], [10, 15]])
    assert (found.kappa.low, found.kappa.high) == pytest.approx((theirs.kappa_low, theirs.kappa_upp))
    draw = random.Random(1)
    one, other = ([draw.random() < share for _ in range(90)] for share in (0.3, 0.6))
    assert agreement(one, other).kappa.value == pytest.approx(
        load_extra("sklearn.metrics").cohen_kappa_score(one, other)
    )


def test_answers_with_equal_ids_share_a_group_only_within_a_benchmark(logs: Path) -> None:
    answers = {"1": debate("Paris", task="hotpotqa")}
    write_log(logs, "b", answers, {"1": ["Paris"]}, system="s", benchmark="2wikimultihopqa")
    write_log(logs, "c", answers, {"1": ["Paris"]}, system="t", benchmark="hotpotqa")
    groups = Counter(answer.group for answer in read_gradable_answers([logs])[0] if answer.id == "1")
    assert groups == {("hotpotqa", "", "1"): 2, ("2wikimultihopqa", "", "1"): 1}


def test_a_debate_with_unusable_replies_is_an_abstention_unless_a_turn_failed() -> None:
    document = failed_document("unparsed", "No reply could be used.") | {"task": debate(None, task="hotpotqa")["task"]}
    assert outcome_of(checked_document(document, GRADER_FIELDS)) == ""  # an abstention, which is graded as wrong
    document["turns"] = [new_turn(1, "rag") | {"outcome": "failed"}]
    assert outcome_of(checked_document(document, GRADER_FIELDS)) is None


def test_a_grader_that_also_speaks_in_the_debates_is_refused() -> None:
    """A model that only compares answers (role `equivalence`) does not speak."""
    mixed = {"model": "openai:a", "agents": [{"name": "x", "model": "openai:b"}, {"name": "y"}]}
    for judge in ("openai:a", "openai:b"):
        with pytest.raises(UserError, match=f"{judge} grades the answers of s, .* --judge-may-debate"):
            check_grader(judge, [("s", "society_of_minds", mixed)])
    check_grader("openai:c", [("s", "society_of_minds", mixed)])
    check_grader("openai:d", [("s", "tool_mad", {"model": "openai:a", "models": {"equivalence": "openai:d"}})])
    check_grader(None, [("s", "society_of_minds", mixed)])


def test_the_agreement_of_each_pair_of_graders_is_measured(
    logs: Path, tmp_path: Path, start_stub: StartStub, capsys: pytest.CaptureFixture[str]
) -> None:
    """The graders are the judge in the log, the comparison of texts, people, and a model."""
    stub = start_stub(
        [
            {"match": "French", "fields": {"same": False, "reason": "No."}},
            {"match": "Rome", "fields": {"same": False, "reason": "No."}},
            {"match": "Lutetia", "fields": {"same": True, "reason": "Its old name."}},
        ]
    )
    people, out = tmp_path / "people.csv", tmp_path / "grades.csv"
    people.write_text("id,right\n1,yes\n2,yes\n3,no\n4,yes\n")
    measure_agreement([logs], ["openai:b"], people, 4, as_json=True, out=out)
    assert len(stub.prompts()) == 3  # none for the first answer, because it equals the right answer
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    rows = {(r["first"], r["second"], r["of"]): r for r in document["pairs"]["rows"]}
    assert len(rows) == 6 * 2  # for each pair of graders: all answers, and texts that differ
    people_and_model = rows["people", "openai:b", "all answers"]
    fields = ("n", "share", "both", "only_first", "neither")
    assert [people_and_model[name] for name in fields] == [4, 0.75, 2, 1, 1]
    assert rows["people", "openai:b", "texts that differ"]["n"] == 3
    judge_and_people = rows["openai:a (in the log)", "people", "all answers"]
    assert (judge_and_people["n"], judge_and_people["missing"], judge_and_people["share"]) == (3, 1, 1.0)
    assert rows["same text", "people", "all answers"]["share"] == 0.5
    # the grades of answer 2 by the comparison of texts, the judge in the log, people, and openai:b
    assert out.read_text().splitlines()[2].endswith("wrong,right,right,wrong")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("people.csv", "id,right,answer\n1,no,Paris\u2028France\n"),
        ("people.jsonl", '{"id": "1", "right": "no", "answer": "Paris\u2028France"}\n'),
    ],
)
def test_a_line_separator_in_an_answer_does_not_end_a_row_of_judgements(
    name: str, text: str, logs: Path, tmp_path: Path
) -> None:
    answers = read_gradable_answers([logs])[0]
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert add_human_grades(answers, tmp_path / name) == 1
    assert [answer.grades[HUMAN] for answer in answers if answer.id == "1"] == [False]


def test_an_unusable_file_of_peoples_judgements_is_refused(logs: Path, tmp_path: Path) -> None:
    people = tmp_path / "people.jsonl"
    for answers, error in (
        ('{"id": "9", "right": true}', "names no answer of these logs"),
        ('{"id": "1", "right": "perhaps"}', "row 1: it needs an `id`, and yes or no in `right`"),
        ("{", "cannot be read"),
    ):
        people.write_text(answers)
        with pytest.raises(UserError, match=error):
            measure_agreement([logs], [], people, 4, as_json=True, out=None)


def test_the_comparison_of_texts_is_refused_as_the_only_grader(tmp_path: Path) -> None:
    answers = {"1": debate("Rome", task="hotpotqa")}
    write_log(tmp_path, "b", answers, {"1": ["Paris"]}, system="s", benchmark="hotpotqa")
    with pytest.raises(UserError, match="only grader"):
        measure_agreement([tmp_path], [], None, 4, as_json=True, out=None)


def test_a_judge_that_also_debated_is_named_in_a_note(tmp_path: Path) -> None:
    document = {"1": debate("Paris", task="hotpotqa")}  # its calls name the model openai:gpt-4o-mini
    for name, judge in (("own", "openai:gpt-4o-mini"), ("other", "openai:a")):
        write_log(tmp_path, name, document, GOLD, system=name, benchmark="hotpotqa", judge=judge)
    runs, _ = read_runs([tmp_path], lambda calls: None)
    notes = {run.system: run.notes for run in runs}
    assert notes["other"] == ()
    assert "openai:gpt-4o-mini judged answers of debates in which it also spoke" in notes["own"]
