"""The benchmark ``claims`` reads the claims in a user's own file."""

from __future__ import annotations

from pathlib import Path

import pytest
from moot.core.errors import UserError
from moot.evals._benchmarks.catalogue import read_benchmark
from moot.evals._runs.logs import read_runs

from tests.commands import moot
from tests.evals.test_metrics import VISIBLE

DEMO = Path(__file__).parents[2] / "retrievers" / "demo" / "claims.jsonl"


def write_file(folder: Path, text: str) -> Path:
    path = folder / "my.csv"
    path.write_text(text)
    return path


def test_the_demo_claims_are_a_valid_file() -> None:
    reading = read_benchmark("claims", DEMO)
    assert (len(reading.items), reading.notes) == (42, ("these columns are not read: evidence, note",))
    assert {item.gold for item in reading.items} == {("SUPPORTS",), ("REFUTES",), ("NOT ENOUGH INFO",)}


def test_rows_without_a_label_are_left_out_and_counted(tmp_path: Path) -> None:
    """The label, group and date of other rows are read."""
    reading = read_benchmark("claims", write_file(tmp_path, "claim,label,group,date\nOne.,supports,g,2020\nTwo.,,,\n"))
    (item,) = reading.items
    assert (item.gold, item.group, item.claim_date, item.task) == (("SUPPORTS",), "g", "2020", "fever")
    assert "1 of 2 records left out" in reading.notes[0]


def test_a_note_names_the_unknown_columns_of_a_file(tmp_path: Path) -> None:
    reading = read_benchmark("claims", write_file(tmp_path, "claim,label,colour,weight\nOne.,SUPPORTS,red,3\n"))
    assert reading.notes == ("these columns are not read: colour, weight",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("claim,label\nOne.,true\n", "line 2: the label 'true' is not one of .* column `labels`"),
        ("claim,label,labels\nOne.,a,a|b\nTwo.,c,c|d\n", "the same labels in all rows"),
        ("claim,label,graph\nOne.,SUPPORTS,rag\n", "line 2: .*moot batch"),
        ("claim,label\nOne.,\n", "no usable record"),
    ],
)
def test_unusable_files_of_claims_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_benchmark("claims", write_file(tmp_path, text))


def test_claims_with_labels_of_the_user_are_run_and_compared(tmp_path: Path) -> None:
    rows = "".join(f"Claim {number}.,{label},yes|no,{number // 2}\n" for number, label in enumerate(["yes", "no"] * 3))
    path = write_file(tmp_path, "claim,label,labels,group\n" + rows)
    words = ["eval", "run", "--task", f"claims={path}", "--graph", "rag", "--model", "fake:1", "--logs", str(tmp_path)]
    ended = moot(*words, "--corpus", "demo-news")
    assert ended.returncode == 0, ended.stderr
    ((run,), _) = read_runs([tmp_path], lambda calls: None)
    assert len(run.observations) == 6
    assert {seen.outcome for seen in run.observations} <= {"yes", "no"}
    assert all(seen.scores["accuracy"] == float(seen.outcome == seen.gold[0]) for seen in run.observations)
    compared = moot("eval", "compare", tmp_path)
    assert compared.returncode == 0, compared.stderr
    assert "Your own claims" in compared.stdout


@pytest.mark.skipif(not VISIBLE.is_dir(), reason="the benchmark samples (../shared/data/visible) are not here")
@pytest.mark.parametrize(
    ("name", "file", "groups"), [("fever_symmetric", "fever_symmetric.jsonl", 98), ("squad", "squad_v1.1.json", 39)]
)
def test_items_with_the_same_claim_or_paragraph_form_a_group(name: str, file: str, groups: int) -> None:
    items = read_benchmark(name, VISIBLE / file).items
    assert len({item.group for item in items}) == groups < len(items)
