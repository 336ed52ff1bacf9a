"""Records of public benchmarks: their gold answers are parsed, and Tool-MAD debates some of the records.

The tests are skipped if the folder of samples does not exist.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from moot.nodes._texts.answers import read_answer, same_answer
from moot.nodes._texts.task import make_task

from tests.conftest import SHARED

VISIBLE = SHARED / "data" / "visible"

pytestmark = pytest.mark.skipif(
    not VISIBLE.exists(), reason="the benchmark samples are not part of the project (../shared/data)"
)


def read_lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (VISIBLE / f"{name}.jsonl").read_text().splitlines()]


def records(name: str) -> Iterator[tuple[dict[str, Any], str]]:
    """The input of a debate and the gold answer, for each record of a benchmark. The input has no gold evidence."""
    if name == "pubmedqa":
        for record in json.loads((VISIBLE / "pubmedqa.json").read_text()).values():
            yield {"claim": record["QUESTION"], "task": name}, record["final_decision"]
    elif name == "medqa":
        for record in read_lines("medqa_4opt"):
            options = list(record["options"].values())
            yield {"claim": record["question"], "task": name, "options": options}, record["answer_idx"]
    elif name in ("fever", "averitec"):
        for record in read_lines(name):
            yield {"claim": record["claim"], "task": name}, record["label"]
    else:
        for record in read_lines(name):
            gold = record["answer"][0] if name == "nq_open" else record["answer"]
            yield {"claim": record["question"], "task": name}, gold


BENCHMARKS = ["fever", "averitec", "pubmedqa", "medqa", "gsm8k", "nq_open"]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_gold_answer_is_parsed_without_a_change_of_meaning(name: str) -> None:
    given = list(records(name))
    assert len(given) >= 100
    for record, gold in given:
        task = make_task(name, options=record.get("options"), claim=record["claim"])
        read = read_answer(task, gold)
        assert read is not None, gold
        expected = gold.rpartition("#### ")[2] if name == "gsm8k" else gold
        assert read == expected or same_answer(task, read, read_answer(task, expected) or ""), (gold, read)
