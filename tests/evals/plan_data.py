"""Four made-up items of each benchmark that the plans use, in the format in which the benchmark is published."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moot.core.lazy import imported

COUNT = 4
OPTIONS = dict(zip("ABCD", ("quay", "mole", "pier", "dock"), strict=True))
PASSAGE = "Quay 1 was opened in 1874 and is 90 metres long."


def write_plan_data(folder: Path) -> None:
    """Write the files of every benchmark to the paths that the plans name, below a folder."""
    for name, make_record in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        records = [make_record(n) for n in range(COUNT)]
        if file.suffix == ".csv":
            with file.open("w", newline="", encoding="utf-8") as lines:
                rows = [list(record.values()) for record in records]
                # The files of MMLU have no header.
                csv.writer(lines).writerows(rows if "mmlu" in name else [list(records[0]), *rows])
        elif file.suffix == ".jsonl" or "covid" in name:
            file.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
        elif file.suffix == ".parquet":
            arrow, parquet = imported("pyarrow"), imported("pyarrow.parquet")
            parquet.write_table(arrow.Table.from_pylist(records), file)
        else:
            file.write_text(json.dumps(WRAPPERS.get(file.name, list)(records)), encoding="utf-8")
    for n in range(COUNT):
        file = folder / "MATH" / "test" / "algebra" / f"{n}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            json.dumps({"problem": f"What is {n} + 1?", "solution": rf"\boxed{{{n + 1}}}", "type": "Algebra"})
        )


def claim_maker(*labels: str, **more: Any) -> Callable[[int], dict[str, Any]]:
    """A function that makes the n-th claim, with the given labels in turn; ``more`` are further fields."""

    def make(n: int) -> dict[str, Any]:
        return {"id": n, "claim": f"Quay {n} was opened in 1874.", "label": labels[n % len(labels)], **more}

    return make


def question_maker(**fields: Any) -> Callable[[int], dict[str, Any]]:
    """A function that makes the n-th question; it replaces {n} in texts by the item's number."""

    def make(n: int) -> dict[str, Any]:
        return {key: value.replace("{n}", str(n)) if isinstance(value, str) else value for key, value in fields.items()}

    return make


def squad(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The content of a SQuAD file with these questions."""
    return {"data": [{"title": "Quays", "paragraphs": [{"context": PASSAGE, "qas": records}]}]}


WRAPPERS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "ori_pqal.json": lambda records: {str(n): record for n, record in enumerate(records)},
    "dev-v1.1.json": squad,
    "unfiltered-web-dev.json": lambda records: {"Data": records},
}
"""Functions that turn records into the content of files that are not a plain list of records."""
HOPS: dict[str, Any] = {"_id": "q{n}", "question": "When was quay {n} opened?", "answer": "1874", "type": "bridge"}
HOPS |= {"supporting_facts": [["Quay", 0]], "context": [["Quay", [PASSAGE]]]}
FILES: dict[str, Callable[[int], dict[str, Any]]] = {
    "paper_dev.jsonl": claim_maker("SUPPORTS", "REFUTES", "NOT ENOUGH INFO", evidence=[[[0, 0, "Quay", 0]]]),
    "feverous_dev_challenges.jsonl": claim_maker("SUPPORTS", "REFUTES", evidence=[{"content": ["Quay_sentence_0"]}]),
    "faviq/test.jsonl": claim_maker(
        "SUPPORTS", "REFUTES", positive_evidence={"id": "1", "title": "Quay", "text": PASSAGE}
    ),
    "averitec/dev.json": claim_maker("Supported", "Refuted", claim_date="1-9-2020", speaker=None, questions=[]),
    "check_covid/covidCheck_test_data.json": claim_maker(
        "SUPPORT", "REFUTE", cord_id="c", evidence_set=[{"sent_index": 0}]
    ),
    "healthver_test.csv": claim_maker("Supports", "Refutes", evidence=PASSAGE, topic_ip="1", question="When?"),
    "ori_pqal.json": question_maker(
        QUESTION="Does quay {n} help?", CONTEXTS=[PASSAGE], final_decision="yes", LONG_ANSWER=""
    ),
    "phrases_no_exclude_test.jsonl": question_maker(
        question="What is number {n}?", options=OPTIONS, answer_idx="A", answer="quay", meta_info="step1"
    ),
    "mmlu/test/anatomy_test.csv": question_maker(question="What is number {n}?", **OPTIONS, answer="B"),
    "mmlu_pro/test-00000-of-00001.parquet": question_maker(
        question_id="{n}",
        question="What is {n}?",
        options=[*OPTIONS.values()],
        answer="C",
        answer_index=2,
        category="law",
    ),
    "gpqa_main.csv": question_maker(
        **{"Question": "What is number {n}?", "Correct Answer": "quay"},
        **{f"Incorrect Answer {n}": f"pier {n}" for n in (1, 2, 3)},
        **{"High-level domain": "Physics", "Record ID": "rec{n}"},
    ),
    "ARC-Challenge-Test.jsonl": lambda n: {
        "id": f"q{n}",
        "question": {"stem": f"What is {n}?", "choices": [{"text": text, "label": i} for i, text in OPTIONS.items()]},
        "answerKey": "D",
    },
    "longbench/data/qasper.jsonl": question_maker(
        _id="{n}", input="When was quay {n} opened?", context=PASSAGE, answers=["1874"], dataset="qasper"
    ),
    "dev-v1.1.json": question_maker(id="{n}", question="When was quay {n} opened?", answers=[{"text": "1874"}]),
    "GSM-IC_2step.json": question_maker(
        original_question="{n}?", new_question="Ada has {n} boats and buys 4. How many?", answer="7", n_steps=2
    ),
    "unfiltered-web-dev.json": question_maker(
        QuestionId="{n}", Question="When was quay {n} opened?", Answer={"Value": "1874", "Aliases": []}
    ),
    "NQ-open.dev.jsonl": question_maker(question="when was quay {n} opened", answer=["1874"]),
    "hotpot_dev_fullwiki_v1.json": question_maker(**HOPS),
    "2wikimultihopqa/dev.json": question_maker(**HOPS),
}
"""Functions that make the n-th record of a file, by the file's path. `write_plan_data` makes MATH's records itself."""
