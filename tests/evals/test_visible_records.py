"""The records in the visible samples of benchmarks become items."""

from __future__ import annotations

import csv
import json
import string
from collections.abc import Iterator
from typing import Any

import pytest
from moot.evals._benchmarks.catalogue import BENCHMARKS, Item, Reading, read_benchmark
from moot.evals._benchmarks.records_answers import without_csv_quotes
from moot.nodes._texts.task import TASKS
from moot.retrievers._evidence import clean

from tests.evals.benchmark_samples import QUESTION_FIELDS, VISIBLE, parser_keeps_gold_answers

needs_visible = pytest.mark.skipif(
    not VISIBLE.exists(), reason="the benchmark samples are not part of the project (../shared/data)"
)
COUNTS = {"check_covid_binary": 134, "hotpotqa_distractor": 132, "mmlu": 199, "mmlu_med": 199}
"""The number of items of a benchmark, if it is not 200. In both MMLU samples, one question is too long for moot."""
FILES = {"check_covid_binary": "check_covid", "squad": "squad_v1.1"}
"""The name of a benchmark's file without its ending, if it is not the benchmark's name."""


# --- the visible samples ----------------------------------------------------------------------------------------------


def raw_records(name: str) -> Iterator[dict[str, Any]]:
    """The visible records of a benchmark as plain objects, read independently of moot."""
    file = FILES.get(name, name)
    if name in ("mmlu", "mmlu_med"):
        with (VISIBLE / f"{file}.csv").open(newline="", encoding="utf-8") as lines:
            for row in csv.reader(lines):
                yield dict(zip(("question", "A", "B", "C", "D", "answer"), row, strict=True))
    elif name == "pubmedqa":
        yield from json.loads((VISIBLE / "pubmedqa.json").read_text(encoding="utf-8")).values()
    elif name == "squad":
        for article in json.loads((VISIBLE / "squad_v1.1.json").read_text(encoding="utf-8"))["data"]:
            for paragraph in article["paragraphs"]:
                yield from (question | {"context": paragraph["context"]} for question in paragraph["qas"])
    else:
        for line in (VISIBLE / f"{file}.jsonl").read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def pairs(name: str, reading: Reading) -> list[tuple[Item, dict[str, Any]]]:
    """Each item with the record that has the item's id. The list of ids is in the order of the records."""
    ids = json.loads((VISIBLE / f"{FILES.get(name, name)}.ids.json").read_text(encoding="utf-8"))
    records = dict(zip(map(str, ids), raw_records(name), strict=True))
    return [(item, records[item.id]) for item in reading.items]


@needs_visible
@pytest.mark.parametrize("name", QUESTION_FIELDS)
def test_visible_records_become_items_in_the_same_order(name: str) -> None:
    reading = read_benchmark(name, VISIBLE)
    assert len(reading.items) == COUNTS.get(name, 200)
    ids = [str(i) for i in json.loads((VISIBLE / f"{FILES.get(name, name)}.ids.json").read_text(encoding="utf-8"))]
    read_ids = {item.id for item in reading.items}
    assert [item.id for item in reading.items] == [i for i in ids if i in read_ids]
    assert len(read_ids) == len(reading.items)
    assert bool(reading.notes) or len(read_ids) == len(ids)
    assert all(parser_keeps_gold_answers(name, item) for item in reading.items)


@needs_visible
@pytest.mark.parametrize("name", QUESTION_FIELDS)
def test_the_claim_is_the_question_of_its_record(name: str) -> None:
    """Only multiple-choice items have options. Only items of two benchmarks have given texts."""
    for item, record in pairs(name, read_benchmark(name, VISIBLE)):
        asked = record["question"]["stem"] if name == "arc_challenge" else record[QUESTION_FIELDS[name]]
        assert item.claim
        assert item.claim == clean(without_csv_quotes(asked) if name == "triviaqa" else asked)
        assert BENCHMARKS[name].task in TASKS
        assert bool(item.options) == (TASKS[BENCHMARKS[name].task].kind == "choice")
        assert bool(item.given) == (name in ("fever_symmetric", "hotpotqa_distractor"))


@needs_visible
@pytest.mark.parametrize(
    "name", ["medqa_4opt", "medqa_5opt", "medmcqa", "mmlu", "mmlu_med", "mmlu_pro", "arc_challenge"]
)
def test_the_gold_letter_names_the_right_option(name: str) -> None:
    for item, record in pairs(name, read_benchmark(name, VISIBLE)):
        if name.startswith("medqa"):
            options, right = list(record["options"].values()), record["answer"]
        elif name == "medmcqa":
            options = [record[f"op{letter}"] for letter in "abcd"]
            right = options[record["cop"] - 1]
        elif name == "mmlu_pro":
            options, right = record["options"], record["options"][record["answer_index"]]
        elif name == "arc_challenge":
            options = [option["text"] for option in record["question"]["choices"]]
            right = next(o["text"] for o in record["question"]["choices"] if o["label"] == record["answerKey"])
        else:
            options, right = [record[letter] for letter in "ABCD"], record[record["answer"]]
        assert item.options == tuple(option.strip() for option in options)
        assert item.options[string.ascii_uppercase.index(item.gold[0])] == right.strip()


@needs_visible
def test_gold_evidence_and_dates_of_the_visible_samples() -> None:
    items = {name: read_benchmark(name, VISIBLE).items for name in ("fever", "scifact", "averitec", "check_covid")}
    assert items["fever"][0].gold_evidence == {
        "sets": [[["Danny Brown", 0], ["Michigan", 0]]],
        "pages": ["Danny Brown", "Michigan"],
    }
    assert not any("_" in page for item in items["fever"] for page in (item.gold_evidence or {}).get("pages", ()))
    for name, open_label in (
        ("fever", "NOT ENOUGH INFO"),
        ("scifact", "NOT ENOUGH INFO"),
        ("check_covid", "NOTENOUGHINFO"),
    ):
        for item in items[name]:
            assert ("sets" in (item.gold_evidence or {})) == (item.gold != (open_label,))
    assert all(item.published_before and item.published_before.startswith("20") for item in items["averitec"])
    assert items["averitec"][0].published_before == "2020-09-01"
