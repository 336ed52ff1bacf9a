"""Reads records of multiple choice: MedQA, MedMCQA, MMLU and MMLU-Pro, GPQA, ARC, FaithEval.

Each reader makes an item from a record, or raises `InvalidRecord` or `SkippedRecord`
(`moot.evals._benchmarks.records`). The docstring of a reader shows the fields of a published record, and the fields on
the Hub if they differ. The options of an item have the letters A, B, C and so on, whatever labels the record uses.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from moot.evals._benchmarks.records import (
    InvalidRecord,
    Item,
    Record,
    SkippedRecord,
    gold_answer,
    optional_field,
    published_shape,
    text_field,
    to_text,
)

MEDICAL = (
    *("anatomy", "clinical_knowledge", "college_biology", "college_medicine"),
    *("medical_genetics", "professional_medicine"),
)
"""The subjects of MMLU that form MMLU-Med (MIRAGE)."""
MMLU_COLUMNS = ("question", "A", "B", "C", "D", "answer")


def make_choice_item(question: str, options: Sequence[Any], right: int, **more: Any) -> Item:
    """Make an item of multiple choice."""
    if len(options) < 2:
        raise SkippedRecord("fewer than two options")
    if not 0 <= right < min(len(options), len(string.ascii_uppercase)):
        raise InvalidRecord(f"the answer is not one of the first {min(len(options), 26)} options")
    texts = tuple("" if option is None else to_text(option, "options") for option in options)
    if not all(texts):
        raise SkippedRecord("an empty option")
    return Item(claim=question, options=texts, gold=(string.ascii_uppercase[right],), **more)


def _index_of(labels: Sequence[str], label: str) -> int:
    """The index of a label; -1 if it is absent. If ``labels`` is a text, each of its characters is a label."""
    return list(labels).index(label) if label in list(labels) else -1


def medqa(count: int) -> Callable[[Record], Item]:
    """Make a reader of records {question, options: {letter: text}, answer_idx, answer, meta_info}.

    On the Hub, options may be [{key, value}].
    """

    def read(record: Record) -> Item:
        letter = gold_answer(record, "answer_idx")
        with published_shape("options"):
            found = record.fields["options"]
            options = dict(found) if isinstance(found, dict) else {part["key"]: part["value"] for part in found}
            letters = sorted(options)
        if len(options) != count:
            raise InvalidRecord(f"{len(options)} options instead of {count}")
        texts = [options[key] for key in letters]
        item = make_choice_item(
            text_field(record, "question"),
            texts,
            _index_of(letters, letter),
            id=optional_field(record, "id"),
            stratum=optional_field(record, "meta_info"),
        )
        if optional_field(record, "answer") not in ("", item.options[_index_of(letters, letter)]):
            raise InvalidRecord("the fields answer and answer_idx name different options")
        return item

    return read


def medmcqa(record: Record) -> Item:
    """Read a record {id, question, opa, opb, opc, opd, cop, subject_name}.

    cop is the number of the right option, from 1 to 4. On the Hub, it is a letter from a to d.
    """
    right = gold_answer(record, "cop")
    return make_choice_item(
        text_field(record, "question"),
        [record.fields.get(f"op{letter}") for letter in "abcd"],
        _index_of("abcd" if right.isalpha() else "1234", right),
        id=optional_field(record, "id"),
        stratum=optional_field(record, "subject_name"),
    )


def mmlu(record: Record) -> Item:
    """Read a row with the fields in `MMLU_COLUMNS`: the question, four options, and the letter of the answer.

    On the Hub, a record is {question, subject, choices, answer}. There, the answer may also be a number from 0 to 3.

    The stratum is the subject. It comes from the field ``subject``, otherwise from the record's id (``anatomy:40``),
    otherwise from the file's name (``anatomy_test.csv``). If none of these has a subject, the stratum is empty.
    """
    right = gold_answer(record, "answer")
    with published_shape("choices"):
        options = list(record.fields["choices"] if "choices" in record.fields else map(record.fields.get, "ABCD"))
    subject = optional_field(record, "subject") or record.id.rpartition(":")[0]
    file = record.file.rpartition("/")[2]
    in_name = next((file.removesuffix(end) for end in ("_test", "_val", "_dev") if file.endswith(end)), "")
    return make_choice_item(
        text_field(record, "question"),
        options,
        _index_of("ABCD" if right.isalpha() else "0123", right),
        id=f"{in_name}:{record.index}" if in_name and not subject else "",
        stratum=subject or in_name,
    )


def mmlu_med(record: Record) -> Item:
    """As `mmlu`, but records of subjects that are not in `MEDICAL` are skipped. Records without a subject are kept."""
    item = mmlu(record)
    if item.stratum and item.stratum not in MEDICAL:
        raise SkippedRecord("a subject other than the six of MMLU-Med")
    return item


def mmlu_pro(record: Record) -> Item:
    """Read a record {question_id, question, options, answer, answer_index, category, cot_content}.

    options are 1 to 10 texts, and answer is a letter.
    """
    letter = gold_answer(record, "answer")
    with published_shape("options"):
        options = list(record.fields["options"])
    right = _index_of(string.ascii_uppercase, letter)
    if record.fields.get("answer_index") not in (None, right):
        raise InvalidRecord("the fields answer and answer_index name different options")
    return make_choice_item(
        text_field(record, "question"),
        options,
        right,
        id=optional_field(record, "question_id"),
        stratum=optional_field(record, "category"),
    )


GPQA_OPTIONS = ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def gpqa(record: Record) -> Item:
    """Read a record {Question, Correct Answer, Incorrect Answer 1 to 3, Record ID, High-level domain}.

    The right answer comes first in every record, so the options are shuffled. Their order depends only on the question.
    """
    gold_answer(record, GPQA_OPTIONS[0])
    question = text_field(record, "Question")
    order = list(range(len(GPQA_OPTIONS)))
    random.Random(f"gpqa {question}").shuffle(order)
    return make_choice_item(
        question,
        [text_field(record, GPQA_OPTIONS[i]) for i in order],
        order.index(0),
        id=optional_field(record, "Record ID"),
        stratum=optional_field(record, "High-level domain"),
    )


def arc(record: Record) -> Item:
    """Read a record {id, question: {stem, choices: [{text, label}]}, answerKey}.

    On the Hub, a record is {id, question, choices: {text: [...], label: [...]}, answerKey}. Labels are A to D, or 1 to
    4. A few questions have three or five options.
    """
    key = gold_answer(record, "answerKey")
    with published_shape("question"):
        content = record.fields["question"]
        question, found = (
            (content["stem"], content["choices"]) if isinstance(content, dict) else (content, record.fields["choices"])
        )
        options, labels = (
            (list(found["text"]), list(found["label"]))
            if isinstance(found, dict)
            else ([part["text"] for part in found], [part["label"] for part in found])
        )
    return make_choice_item(
        to_text(question, "question"), options, _index_of(labels, key), id=optional_field(record, "id")
    )


def faitheval_counterfactual(record: Record) -> Item:
    """Read a record {id, question, context, choices: {text: [...], label: [...]}, answerKey}, as `arc` does.

    The context says what the right option says, against common knowledge; it becomes the item's ``given``.
    """
    return replace(arc(record), given=(("", text_field(record, "context")),))
