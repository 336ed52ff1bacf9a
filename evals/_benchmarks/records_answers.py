"""Reads records of questions whose answers are short texts, numbers or expressions.

Each reader makes an item from a record, or raises `InvalidRecord` or `SkippedRecord`
(`moot.evals._benchmarks.records`). The reader's docstring shows the fields of a published record, and the
fields on the Hub if they differ. Worked solutions are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from moot.evals._benchmarks.records import (
    UNLABELLED,
    InvalidRecord,
    Item,
    Record,
    SkippedRecord,
    drop_empty,
    gold_answer,
    group_name,
    optional_field,
    page_title,
    published_shape,
    text_field,
    to_text,
    unique_titles,
)
from moot.nodes._texts.answers import ABSTENTION

LONGBENCH = (
    *("narrativeqa", "qasper", "multifieldqa_en", "multifieldqa_zh"),
    *("hotpotqa", "2wikimqa", "musique", "dureader"),
)
"""LongBench's subsets of question answering: first with one document per question, then with several.

multifieldqa_zh and dureader are in Chinese.
"""
BOXED = re.compile(r"\\f?box(?:ed)?\s*(\{|[^\s{$]+)")


def accepted_answers(found: Any, name: str) -> tuple[str, ...]:
    """All accepted answers in a field, each once."""
    answers = [to_text(value, name) for value in (found if isinstance(found, list) else [found]) if value is not None]
    if not (answers := list(dict.fromkeys(filter(None, answers)))):
        raise SkippedRecord(UNLABELLED)
    return tuple(answers)


def triviaqa(record: Record) -> Item:
    """Read a record {QuestionId, Question, Answer: {Value, Aliases}}.

    On the Hub, a record is {question_id, question, answer: {value, aliases}}. In another copy, it is {id, question,
    golden_answers}. In some copies, questions still have the quotation marks of a CSV file, which are removed.
    """
    found = record.fields.get("golden_answers")
    if found is None:
        with published_shape("Answer"):
            answers = record.fields.get("Answer") or record.fields.get("answer") or {}
            value = answers.get("Value", answers.get("value"))
            found = [value, *(answers.get("Aliases") or answers.get("aliases") or [])]
    return Item(
        gold=accepted_answers(found, "with the answers"),
        claim=without_csv_quotes(text_field(record, "Question", "question")),
        id=optional_field(record, "QuestionId", "question_id", "id"),
    )


def without_csv_quotes(question: str) -> str:
    """Remove the quotation marks of a CSV file from a question: ``"Who sang ""Lola""?"`` becomes ``Who sang "Lola"?``.

    A question is changed only if it begins and ends with a quotation mark, there are further quotation marks inside,
    and all of these are doubled.
    """
    inside = question[1:-1]
    is_quoted = len(question) > 1 and question[0] == question[-1] == '"'
    return (
        inside.replace('""', '"') if is_quoted and '""' in inside and '"' not in inside.replace('""', "") else question
    )


def nq_open(record: Record) -> Item:
    """Read a record {question, answer: [text]}, which has no id."""
    return Item(gold=accepted_answers(record.fields.get("answer"), "answer"), claim=text_field(record, "question"))


def hotpotqa(record: Record) -> Item:
    """Read a record {_id, question, answer, type, supporting_facts, context}.

    supporting_facts is [[title, sentence number]], and context is [[title, [sentence]]]. On the Hub, supporting_facts
    is {title: [...], sent_id: [...]}, and context is {title: [...], sentences: [...]}. ReAct's copy has neither of the
    two fields, and no ids. The context is not given to the system, which has to search all of Wikipedia.
    """
    gold = accepted_answers(record.fields.get("answer"), "answer")
    with published_shape("supporting_facts"):
        pairs = [[title, n] for title, n in _title_pairs(record.fields.get("supporting_facts"), "sent_id")]
        pages = unique_titles(pairs)
    return Item(
        gold=gold,
        claim=text_field(record, "question"),
        id=optional_field(record, "_id", "id", "test_id"),
        stratum=optional_field(record, "type"),
        gold_evidence=drop_empty(sets=[pairs] if pairs else [], pages=pages),
    )


def with_paragraphs(record: Record) -> Item:
    """As `hotpotqa`, but the record's paragraphs (gold paragraphs and distractors) become the item's ``given``.

    If the record also has supporting facts, the gold evidence has the offsets of the sentences. A record without
    paragraphs is read as by `hotpotqa`.
    """
    item = hotpotqa(record)
    with published_shape("context"):
        paragraphs = [
            (title, [*_add_spaces(found)]) for title, found in _title_pairs(record.fields.get("context"), "sentences")
        ]
        given = tuple((title, "".join(sentences)) for title, sentences in paragraphs)
    gold = dict(item.gold_evidence or {})
    if given and "sets" in gold:
        gold["sentences"] = [list(accumulate(map(len, found[:-1]), initial=0)) for _, found in paragraphs]
    return replace(item, given=given, gold_evidence=gold or None)


def hotpotqa_distractor(record: Record) -> Item:
    """As `with_paragraphs`, but the record must have paragraphs."""
    item = with_paragraphs(record)
    if not item.given:
        raise InvalidRecord(
            "the field context has no paragraphs: this benchmark needs the paragraphs of the distractor setting"
        )
    return item


def _title_pairs(found: Any, value_column: str) -> Sequence[tuple[Any, Any]]:
    """Pairs of a title and a value, from a list of pairs, or from the Hub's columns ``title`` and the value column."""
    if isinstance(found, dict):
        return list(zip(found["title"], found[value_column], strict=True))
    return [(first, rest) for first, rest in found or []]


def _add_spaces(sentences: Sequence[str]) -> Iterator[str]:
    """Put a space before each sentence after the first, unless it begins with white space."""
    for i, sentence in enumerate(sentences):
        yield sentence if i == 0 or sentence[:1].isspace() else f" {sentence}"


def squad_questions(fields: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the questions of an article {title, paragraphs: [{context, qas: [{id, question, answers}]}]}.

    An object without the field ``paragraphs`` is itself a question.
    """
    if "paragraphs" not in fields:
        yield fields
        return
    with published_shape("paragraphs"):
        for paragraph in fields["paragraphs"]:
            for question in paragraph["qas"]:
                yield {**question, "title": fields.get("title", ""), "context": paragraph["context"]}


def squad(record: Record) -> Item:
    """Read a record {id, question, answers: [{text}], title, context}.

    On the Hub, answers is {text: [...]}. The context is a paragraph. It is gold evidence, and is not shown to the
    system.
    """
    with published_shape("answers"):
        found = record.fields["answers"]
        answers = list(found["text"]) if isinstance(found, dict) else [part["text"] for part in found]
    if not answers:
        raise SkippedRecord("no answer in the paragraph (SQuAD 2.0)")
    title, context = optional_field(record, "title"), optional_field(record, "context")
    return Item(
        gold=accepted_answers(answers, "with the answers"),
        claim=text_field(record, "question"),
        id=optional_field(record, "id"),
        group=group_name(context),
        gold_evidence=drop_empty(pages=[page_title(title)] if title else [], texts=[context] if context else []),
    )


def longbench(record: Record) -> Item:
    """Read a record {_id, input, context, answers: [text], dataset}.

    The context becomes the item's ``given``, because the questions cannot be answered without it.
    """
    subset = text_field(record, "dataset").removesuffix("_e")
    if subset not in LONGBENCH:
        raise SkippedRecord("a subset without question answering")
    context = text_field(record, "context")
    return Item(
        gold=accepted_answers(record.fields.get("answers"), "answers"),
        claim=text_field(record, "input"),
        id=optional_field(record, "_id"),
        stratum=subset,
        group=group_name(context),
        given=(("", context),),
    )


def ramdocs(record: Record) -> Item:
    """Read a record {question, documents: [{text, type, answer}], gold_answers: [text], wrong_answers: [text]}.

    The texts of the documents become the item's ``given``; their types and answers are not shown. An ambiguous question
    has several right answers, one for each entity of that name.
    """
    gold = accepted_answers(record.fields.get("gold_answers"), "gold_answers")
    with published_shape("documents"):
        texts = [to_text(found["text"], "documents") for found in record.fields["documents"]]
    if not texts:
        raise SkippedRecord("no documents")
    with published_shape("wrong_answers"):
        if not isinstance(found := record.fields["wrong_answers"], list):
            raise ValueError("not a list")
        wrong = [to_text(value, "wrong_answers") for value in found]
    return Item(
        gold=gold,
        claim=text_field(record, "question"),
        stratum="several right answers" if len(gold) > 1 else "one right answer",
        given=tuple(("", text) for text in texts),
        gold_evidence=drop_empty(wrong_answers=list(filter(None, wrong))),
    )


def faitheval_unanswerable(record: Record) -> Item:
    """Read a record {qid, question, context}, whose context does not answer the question.

    The right answer is that the evidence does not tell.
    """
    return Item(
        gold=(ABSTENTION,),
        claim=text_field(record, "question"),
        id=optional_field(record, "qid", "id"),
        given=(("", text_field(record, "context")),),
    )


# --- numbers and expressions ------------------------------------------------------------------------------------------


def gsm8k(record: Record) -> Item:
    """Read a record {question, answer}, which has no id.

    The answer is a solution, then #### and a number. The stratum is the number of calculations in the solution, each of
    which begins with <<.
    """
    solution = gold_answer(record, "answer")
    before, mark, number = solution.rpartition("####")
    if not mark:
        raise InvalidRecord("the field answer has no number after ####")
    return Item(gold=(number.strip(),), claim=text_field(record, "question"), stratum=f"{before.count('<<')} steps")


def gsm_ic(record: Record) -> Item:
    """Read a record {original_question, new_question, answer, n_steps}, which has no id."""
    steps = optional_field(record, "n_steps")
    return Item(
        gold=(gold_answer(record, "answer"),),
        claim=text_field(record, "new_question"),
        group=group_name(optional_field(record, "original_question")),
        stratum=f"{steps} steps" if steps else "",
    )


def math(record: Record) -> Item:
    """Read a record {problem, solution, type or subject, level}, whose solution has the answer in a box.

    Records of MATH-500 also have the fields answer and unique_id, and need no solution.
    """
    gold = optional_field(record, "answer")
    return Item(
        gold=(gold or last_box(gold_answer(record, "solution")),),
        claim=text_field(record, "problem"),
        id=optional_field(record, "unique_id"),
        stratum=optional_field(record, "type", "subject"),
    )


def last_box(solution: str) -> str:
    """The contents of the last box in a solution, such as ``\boxed{\frac{1}{2}}`` or ``\boxed 2``."""
    boxes = list(BOXED.finditer(solution))
    if not boxes:
        raise InvalidRecord("the field solution has no box with its answer")
    if boxes[-1][1] != "{":
        return boxes[-1][1].rstrip(".,")
    depth, begin = 1, boxes[-1].end()
    for place in range(begin, len(solution)):
        depth += {"{": 1, "}": -1}.get(solution[place], 0)
        if depth == 0:
            return solution[begin:place].strip()
    raise InvalidRecord("the box in the field solution is not closed")
