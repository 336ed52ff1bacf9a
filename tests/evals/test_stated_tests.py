"""Tests that a user states: in a plan, in its logs, and in a file for `moot eval compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.evals._report.comparison import studies_of
from moot.evals._report.pairs import stated_pairs
from moot.evals._report.write import compare
from moot.evals._runs.logs import read_runs
from moot.evals._runs.plan import make_cells, make_plan
from moot.evals._runs.run_plan import plan_metadata
from moot.evals._runs.stated import StatedTest, read_tests

from tests.commands import moot
from tests.evals.made_comparison import LARGE, SMALL, write_study

STATED = [{"first": "debate", "second": "large", "benchmark": "fever"}]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs whose plans state one test."""
    return write_study(tmp_path_factory.mktemp("logs"), tests=STATED)


def pairs(folder: Path, **test: Any) -> list[list[tuple[str, str | None, str, str | None]]]:
    """For each test that is meant, its systems and models on each benchmark."""
    runs, _ = read_runs([folder], lambda calls: None)
    wanted = stated_pairs(studies_of(runs), StatedTest.model_validate(test))
    return [[(p.first.label, p.study.model, p.second.label, p.second_study.model) for p in one.pairs] for one in wanted]


def test_a_stated_test_means_systems_with_the_same_model_if_there_are_any(logs: Path) -> None:
    assert pairs(logs, first="debate", second="single") == [[("debate", SMALL, "single", SMALL)]] * 2
    assert pairs(logs, first="debate", second="answers_alone") == [[("debate", SMALL, "debate alone", SMALL)]] * 2
    assert pairs(logs, first="debate", second="large") == [[("debate", SMALL, "large", LARGE)]] * 2
    both = [("debate", SMALL, "large", LARGE)] * 2
    assert pairs(logs, first="debate", second="large", benchmark="pooled") == [both]
    label = "label prior"
    found = pairs(logs, first=label, second=label)  # each pair of models once, whichever is first
    assert [(one[0][1], one[0][3]) for one in found] == [(SMALL, LARGE)] * 2
    assert pairs(logs, first="debate", second=label, second_model=LARGE, benchmark="fever")[0][0][3] == LARGE


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ({"first": "debat", "second": "large"}, "Did you mean debate"),
        ({"first": "debate", "second": "large", "second_model": SMALL}, "The models are openai:small, openai:large"),
        ({"first": "debate", "second": "large", "benchmark": "hover"}, "the benchmarks are fever, feverous"),
    ],
)
def test_a_stated_test_without_systems_is_an_error(logs: Path, test: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        pairs(logs, **test)


def test_the_tests_of_the_logs_plans_are_the_only_ones_unless_others_are_stated(logs: Path, tmp_path: Path) -> None:
    report = compare([logs])
    assert report.across is not None
    assert [row[:5] for row in report.across.rows] == [("debate", SMALL, "large", LARGE, "FEVER")]
    assert not [table for section in report.sections for table in section.tables if table.key == "differences"]
    assert "Holm's correction is for 1 tests: all tests that were stated" in report.across.caption
    against = compare([logs], against="single")
    assert against.across is None
    file = tmp_path / "tests.yaml"
    file.write_text("tests:\n  - {first: debate, second: single, claim: not_worse, margin: 0.1}\n")
    done = moot("eval", "compare", logs, "--tests", file)
    assert done.returncode == 0, done.stderr
    assert "debate was not worse than single by 10.0 items in 100" in done.stdout
    assert "one-sided" in done.stdout
    refused = moot("eval", "compare", logs, "--tests", file, "--against", "single")
    assert (refused.returncode, "--against and --tests" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graphs: [rag]", "states no tests"),
        ("tests: [{first: a}]", r"tests.0.second: this is missing[^;]*$"),
        ("tests: [{first: a, second: b, claim: equivalent}]", "which need it"),
        ("tests: [{first: a, second: b, margin: 0.1}]", "which need it"),
        ("tests: [{first: a, second: b, claim: equivalent, margin: 5}]", "less than 1"),
        ("tests: [", "not a YAML file"),
    ],
)
def test_a_bad_file_of_tests_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "tests.yaml").write_text(text)
    with pytest.raises(UserError, match=message):
        read_tests(tmp_path / "tests.yaml")


def test_a_plan_states_tests_of_systems_that_it_runs() -> None:
    fields = {"graphs": ["tool_mad", "rag"], "tasks": ["fever"], "models": [SMALL], "controls": ["single_call"]}
    for second in ("rag", "single_call", "tool_mad single call", "label prior", "tool_mad first-round majority"):
        plan = make_plan(fields | {"tests": [{"first": "tool_mad", "second": second}]})
        assert make_cells(plan)
        assert plan_metadata(plan) == {"family": "report", "tests": [{"first": "tool_mad", "second": second}]}
    for test, message in (
        ({"first": "tool_mad", "second": "rga"}, "does not run .rga."),
        ({"first": "tool_mad", "second": "rag", "second_model": LARGE}, "does not run 'openai:large'"),
        ({"first": "tool_mad", "second": "rag", "benchmark": "hover"}, "does not run 'hover'"),
    ):
        with pytest.raises(UserError, match=message):
            make_cells(make_plan(fields | {"tests": [test]}))
