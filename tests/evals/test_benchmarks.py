"""Records of benchmarks are read as items: handwritten samples in files, and single records in several formats."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
from moot.evals._benchmarks.catalogue import BENCHMARKS, Item, Reading, read_benchmark
from moot.evals._benchmarks.records import InvalidRecord, Record, SkippedRecord, page_title
from moot.evals._benchmarks.records_answers import last_box, without_csv_quotes
from moot.evals._runs.solver import make_question
from moot.evals._runs.tasks import make_sample
from moot.nodes._texts.answers import ABSTENTION
from moot.nodes._texts.task import TASKS

from tests.evals.benchmark_samples import HANDWRITTEN, QUESTION_FIELDS, SAMPLES, parser_keeps_gold_answers


def test_every_published_benchmark_names_its_task_licence_source_and_files() -> None:
    assert sorted(BENCHMARKS) == sorted([*QUESTION_FIELDS, *HANDWRITTEN, "claims"])
    published = {name: benchmark for name, benchmark in BENCHMARKS.items() if not benchmark.is_own}
    for name, benchmark in published.items():
        assert benchmark.name == name
        assert benchmark.task in TASKS
        assert benchmark.licence
        assert benchmark.source.startswith("https://")
        assert benchmark.files
        assert benchmark.metrics
    assert {b.task for b in published.values()} == {
        n for n in TASKS if n not in ("labels", "choice", "short_answer")
    } - {
        "number",
        "expression",
    }


# --- handwritten samples in the published formats ---------------------------------------------------------------------


def read_sample(name: str, folder: str = "") -> Reading:
    """Read the handwritten sample of a benchmark. ``folder``: the sample's folder, by default ``name``."""
    return read_benchmark(name, SAMPLES / (folder or name))


@pytest.mark.parametrize("name", [*HANDWRITTEN, "feverous"])
def test_handwritten_samples_have_unique_ids_and_readable_gold_answers(name: str) -> None:
    reading = read_sample(name, name.removesuffix("_binary"))
    assert reading.items
    assert len({item.id for item in reading.items}) == len(reading.items)
    assert all(parser_keeps_gold_answers(name, item) for item in reading.items)


def test_faviq_claims_have_a_page_as_gold_evidence() -> None:
    """The third record names no page, so its item has no gold evidence."""
    items = read_sample("faviq").items
    assert [(item.id, item.gold) for item in items] == [
        ("s_1", ("SUPPORTS",)),
        ("s_2", ("REFUTES",)),
        ("s_3", ("REFUTES",)),
    ]
    assert [item.gold_evidence for item in items] == [{"documents": ["71"], "pages": ["Port Ennis"]}] * 2 + [None]


def test_feverous_items_have_sentences_and_cells_as_gold_evidence() -> None:
    reading = read_sample("feverous")
    assert [(i.id, i.gold, i.stratum) for i in reading.items] == [
        ("7", ("SUPPORTS",), "Combining Tables and Text"),
        ("8", ("NOT ENOUGH INFO",), "Other"),
    ]
    assert reading.items[0].gold_evidence == {
        "sets": [
            [["Marlow Quay", "sentence_0"], ["Marlow Quay", "cell_0_3_1"]],
            [["Ports of Arran", "item_2_0"], ["Marlow Quay", "header_cell_0_0_1"]],
        ],
        "pages": ["Marlow Quay", "Ports of Arran"],
    }
    # Like the published file, the sample starts with an empty record.
    assert reading.notes == (
        "1 of 3 records left out: no gold answer, as in test sets (feverous_dev_challenges.jsonl, line 1)",
    )


def test_healthver_claims_come_with_the_text_that_the_label_refers_to() -> None:
    """The binary variant leaves out claims with the label Neutral."""
    reading = read_sample("healthver")
    assert [(i.id, i.gold) for i in reading.items] == [
        ("31", ("Refutes",)),
        ("32", ("Supports",)),
        ("33", ("Neutral",)),
    ]
    assert reading.items[0].given == (("", 'In our trial of 40 sailors, "lime water" did not\nshorten the fever.'),)
    assert reading.items[1].source == "healthver_test.csv, line 4"  # the first record has two lines
    assert reading.notes == (
        "1 question with different answers: the right answer depends on the text, date or speaker",
    )
    binary = read_sample("healthver_binary", "healthver")
    assert [i.gold for i in binary.items] == [("REFUTE",), ("SUPPORT",)]
    assert binary.notes[0].startswith("1 of 3 records left out: the label Neutral")


def test_gpqa_options_are_shuffled_reproducibly() -> None:
    items = read_sample("gpqa").items
    assert len({item.gold for item in items}) > 1
    for n, item in enumerate(items, start=1):
        assert item.claim == f"Which of these invented constants of series {n} is measured in kelvin, at 20 °C?"
        assert item.options[string.ascii_uppercase.index(item.gold[0])] == f"right {n}"
        assert set(item.options) == {f"right {n}", *(f"wrong {n}{letter}" for letter in "abc")}
        assert (item.id, item.stratum) == (f"rec{n}", "Physics")
        assert "Because" not in item.claim
    assert items == read_sample("gpqa").items


def test_only_question_answering_tasks_of_longbench_are_read() -> None:
    reading = read_sample("longbench")
    assert [(i.id, i.gold, i.stratum) for i in reading.items] == [
        ("aa11", ("Old Bram", "Bram"), "narrativeqa"),
        ("bb22", ("the Marlow corpus",), "qasper"),
    ]
    assert reading.items[0].claim == "Who keeps the lamp?"
    assert reading.items[0].given == (("", "Chapter one. Old Bram keeps the lamp. Chapter two. He sleeps."),)
    assert "a subset without question answering (data/qasper.jsonl, line 2)" in reading.notes[0]


def test_gsm_ic_claims_contain_the_irrelevant_sentence() -> None:
    items = read_sample("gsm_ic").items
    assert [(i.id, i.stratum) for i in items] == [
        ("GSM-IC_2step:0", "2 steps"),
        ("GSM-IC_2step:1", "2 steps"),
        ("GSM-IC_mstep:0", "3 steps"),
        ("GSM-IC_mstep:1", "3 steps"),
    ]
    assert items[1].claim == "Ada has 3 boats and buys 4. Her aunt has 60 oars. How many boats has Ada?"
    assert {i.gold for i in items} == {("7",)}


def test_math_items_contain_only_the_last_box_of_the_solution() -> None:
    items = read_sample("math").items
    assert [(i.id, i.gold[0], i.stratum) for i in items] == [
        ("test/algebra/1", r"\frac{3}{2}", "Algebra"),
        ("test/algebra/2", "2", "Algebra"),
        ("test/geometry/1", r"$\left\{ 1 \right\}$", "Geometry"),
    ]
    assert not any("Halving" in i.claim or "guess" in i.claim for i in items)


def test_claims_with_images_are_left_out_and_integrity_becomes_a_label() -> None:
    reviewed = read_sample("claimreview2024plus")
    assert [(i.gold[0], i.published_before, i.speaker) for i in reviewed.items] == [
        ("refuted", "2024-03-05", "Ada"),
        ("misleading", None, None),
        ("not enough information", "2024-05-01", None),
    ]
    assert "1 of 4 records left out: a claim with an image or a video" in reviewed.notes[0]
    scored = read_sample("veritas")
    assert [(i.id, i.gold[0]) for i in scored.items] == [("11", "Intact"), ("12", "Compromised"), ("13", "Unknown")]
    assert scored.items[0].claim_date == "2025-02-03"
    assert [note.partition(":")[0] for note in scored.notes[:2]] == ["1 of 5 records left out"] * 2
    older = {"id": 1, "data": "<image:3> The quay is new.", "verdict": {"integrity": 0.5}}
    with pytest.raises(SkippedRecord, match="an image or a video"):
        read_one("veritas", older)
    assert read_one("veritas", older | {"data": "The quay is old."}).gold == ("Intact",)


def test_documents_come_with_the_claims_and_questions_that_are_about_them() -> None:
    """Neither the kinds of documents nor their answers nor the articles of fact-checkers reach a system."""
    first, second, third = read_sample("llm_aggrefact").items
    assert [i.gold[0] for i in (first, second, third)] == ["SUPPORTED", "NOT_SUPPORTED", "SUPPORTED"]
    assert (first.group == second.group != third.group, first.stratum) == (True, "Harbour-News")
    assert first.given == second.given == (("", "The quay of Marlow was closed in May. It was opened again in June."),)
    ambiguous, plain = read_sample("ramdocs").items
    assert (ambiguous.gold, ambiguous.gold_evidence) == (("1850", "1901"), {"wrong_answers": ["1999"]})
    assert [text for _, text in ambiguous.given][2:] == ["Marlow Quay was opened in 1999.", "Boats are made of wood."]
    assert (plain.gold, plain.gold_evidence, plain.stratum) == (("two",), None, "one right answer")
    (chosen,) = read_sample("faitheval_counterfactual").items
    assert (chosen.gold, chosen.options, len(chosen.given)) == (("B",), ("water", "oil", "air"), 1)
    assert not any(i.given or i.gold_evidence for i in read_sample("quantemp").items)
    assert [i.gold for i in read_sample("faitheval_unanswerable").items] == [(ABSTENTION,)] * 2


@pytest.mark.parametrize(
    ("solution", "answer"),
    [
        (r"so \boxed{5}", "5"),
        (r"$\boxed{\text{(A) } \frac{a}{b}}$ and no more", r"\text{(A) } \frac{a}{b}"),
        (r"\boxed 7$.", "7"),
        (r"\boxed{1} is wrong; \fbox{2}", "2"),
    ],
)
def test_the_last_box_of_a_solution_is_the_answer(solution: str, answer: str) -> None:
    assert last_box(solution) == answer


@pytest.mark.parametrize("solution", ["no box", r"\boxed{1"])
def test_solutions_without_a_complete_box_are_refused(solution: str) -> None:
    with pytest.raises(InvalidRecord, match="box"):
        last_box(solution)


@pytest.mark.parametrize(
    ("question", "plain"),
    [
        ('"Who sang ""Lola""?"', 'Who sang "Lola"?'),
        ('"""Fly"", said who?"', '"Fly", said who?'),
        ('"Lola" is sung by whom?', '"Lola" is sung by whom?'),
        ('"To be" is from "Hamlet"', '"To be" is from "Hamlet"'),
        ('Who is ""?', 'Who is ""?'),
        ('"', '"'),
    ],
)
def test_only_csv_quotation_marks_are_removed_from_a_question(question: str, plain: str) -> None:
    assert without_csv_quotes(question) == plain


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("Ram-Leela_-LRB-film-RRB-", "Ram-Leela (film)"),
        ("2001-COLON-_A_Space_Odyssey", "2001: A Space Odyssey"),
        ("Jacksonville,_Florida", "Jacksonville, Florida"),
    ],
)
def test_escaped_page_titles_are_decoded(name: str, title: str) -> None:
    assert page_title(name) == title


# --- single records ---------------------------------------------------------------------------------------------------


def read_one(name: str, fields: dict[str, Any]) -> Item:
    """Read one record of a benchmark as an item."""
    benchmark = BENCHMARKS[name]
    return benchmark.read(Record(fields, "here"))


HOTPOT = {
    "_id": "5a",
    "question": "Which port is older, Ennis or Marlow?",
    "answer": "Ennis",
    "type": "comparison",
    "level": "hard",
    "supporting_facts": [["Ennis", 0], ["Marlow", 2]],
    "context": [["Ennis", ["Ennis is a port.", " It is old."]], ["Marlow", ["Marlow is a port.", "It is new."]]],
}
HOTPOT_ON_HUB = HOTPOT | {
    "supporting_facts": {"title": ["Ennis", "Marlow"], "sent_id": [0, 2]},
    "context": {"title": ["Ennis", "Marlow"], "sentences": [c[1] for c in HOTPOT["context"]]},
}


@pytest.mark.parametrize("record", [HOTPOT, HOTPOT_ON_HUB])
def test_hotpotqa_is_read_from_published_records_and_from_hub_records(record: dict[str, Any]) -> None:
    item = read_one("hotpotqa_distractor", record)
    assert item.given == (("Ennis", "Ennis is a port. It is old."), ("Marlow", "Marlow is a port. It is new."))
    gold = {"sets": [[["Ennis", 0], ["Marlow", 2]]], "pages": ["Ennis", "Marlow"]}
    assert item.gold_evidence == gold | {"sentences": [[0, 16], [0, 17]]}
    assert (item.gold, item.stratum, item.id) == (("Ennis",), "comparison", "5a")
    assert read_one("hotpotqa", record).given == ()
    assert read_one("2wikimultihopqa", record).given == item.given
    with pytest.raises(InvalidRecord, match="distractor setting"):
        read_one("hotpotqa_distractor", {**record, "context": []})


@pytest.mark.parametrize(
    ("name", "record", "gold", "options"),
    [
        (
            "arc_challenge",
            {
                "id": "q",
                "question": {"stem": "Why?", "choices": [{"text": t, "label": str(n)} for n, t in enumerate("xyz", 1)]},
                "answerKey": "3",
            },
            "C",
            ("x", "y", "z"),
        ),
        (
            "arc_challenge",
            {"question": "Why?", "choices": {"text": ["x", "y"], "label": ["A", "B"]}, "answerKey": "B"},
            "B",
            ("x", "y"),
        ),
        (
            "mmlu",
            {"question": "Why?", "subject": "law", "choices": ["w", "x", "y", "z"], "answer": 3},
            "D",
            tuple("wxyz"),
        ),
        (
            "mmlu",
            {"question": "Why?", "subject": "law", "choices": ["w", "x", "y", "z"], "answer": "A"},
            "A",
            tuple("wxyz"),
        ),
        (
            "medqa_4opt",
            {"question": "Why?", "answer_idx": "B", "options": [{"key": k, "value": k * 2} for k in "BADC"]},
            "B",
            ("AA", "BB", "CC", "DD"),
        ),
        (
            "medmcqa",
            {"question": "Why?", "cop": "a", "opa": "w", "opb": "x", "opc": "y", "opd": "z"},
            "A",
            tuple("wxyz"),
        ),
        ("medmcqa", {"question": "Why?", "cop": 4, "opa": "w", "opb": "x", "opc": "y", "opd": "z"}, "D", tuple("wxyz")),
        ("mmlu_pro", {"question": "Why?", "options": [1, 2.5], "answer": "B", "answer_index": 1}, "B", ("1", "2.5")),
    ],
)
def test_options_and_right_answers_are_read_from_several_formats(
    name: str, record: dict[str, Any], gold: str, options: tuple[str, ...]
) -> None:
    item = read_one(name, record)
    assert (item.gold, item.options) == ((gold,), options)


@pytest.mark.parametrize(
    ("name", "record", "problem"),
    [
        (
            "medqa_4opt",
            {"question": "?", "answer_idx": "E", "options": dict.fromkeys("ABCD", "x")},
            "not one of the first 4",
        ),
        ("medqa_4opt", {"question": "?", "answer_idx": "A", "options": dict.fromkeys("ABCDE", "x")}, "5 options"),
        ("medqa_5opt", {"question": "?", "answer_idx": "A", "options": dict.fromkeys("ABCD", "x")}, "4 options"),
        (
            "medqa_4opt",
            {"question": "?", "answer_idx": "A", "answer": "B", "options": dict(zip("ABCD", "ABCD", strict=True))},
            "different options",
        ),
        (
            "medmcqa",
            {"question": "?", "cop": 0, "opa": "w", "opb": "x", "opc": "y", "opd": "z"},
            "not one of the first 4",
        ),
        (
            "medmcqa",
            {"question": "?", "cop": True, "opa": "w", "opb": "x", "opc": "y", "opd": "z"},
            "neither a text nor",
        ),
        ("mmlu", {"question": "?", "choices": ["x", "y"], "answer": "AB"}, "not one of the first 2"),
        ("mmlu", {"question": "?", "choices": 4, "answer": "A"}, "choices does not have the published shape"),
        ("mmlu_pro", {"question": "?", "options": ["x", "y"], "answer": "A", "answer_index": 1}, "different options"),
        ("arc_challenge", {"question": {"stem": "?"}, "answerKey": "A"}, "question does not have the published shape"),
        (
            "fever",
            {"claim": "x", "label": "MAYBE"},
            "the label 'MAYBE' is not one of SUPPORTS, REFUTES, NOT ENOUGH INFO",
        ),
        ("faviq", {"claim": "x", "label": "NOT ENOUGH INFO"}, "not one of SUPPORTS, REFUTES$"),
        ("fever", {"label": "SUPPORTS"}, "the field claim is missing"),
        ("fever", {"label": "SUPPORTS", "claim": " "}, "the field claim is empty"),
        ("fever", {"label": ["SUPPORTS"], "claim": "x"}, "the field label is neither a text nor a number"),
        (
            "fever",
            {"label": "SUPPORTS", "claim": "x", "evidence": [["a"]]},
            "evidence does not have the published shape",
        ),
        (
            "feverous",
            {"label": "SUPPORTS", "claim": "x", "evidence": [{"content": ["?"]}]},
            "evidence does not have the published shape",
        ),
        ("averitec", {"label": "Refuted", "claim": "x", "claim_date": "31-2-2020"}, "claim_date is not a date"),
        (
            "averitec",
            {"label": "Refuted", "claim": "x", "questions": ["?"]},
            "questions does not have the published shape",
        ),
        ("scifact", {"claim": "x", "evidence": []}, "evidence does not have the published shape"),
        ("gsm8k", {"question": "x", "answer": "12"}, "####"),
        ("llm_aggrefact", {"claim": "x", "doc": "y", "label": 2}, "neither 1 nor 0"),
        ("veritas", {"text": "x", "integrity": {"score": "high"}}, "integrity does not have the published shape"),
        ("veritas", {"text": "x", "integrity": {"score": 7}}, "not between -1 and 1"),
        ("ramdocs", {"question": "x", "gold_answers": ["y"], "documents": ["z"]}, "documents does not have the"),
        *(
            ("ramdocs", {"question": "x", "gold_answers": ["y"], "documents": [{"text": "z"}], **more}, problem)
            for more, problem in (
                ({"documents": [{"text": None}]}, "the field documents is neither a text nor a number"),
                ({"wrong_answers": "NaN"}, "wrong_answers does not have the published shape"),
                ({}, "wrong_answers does not have the published shape"),  # or no answer would be wrong
            )
        ),
        ("squad", {"question": "x"}, "answers does not have the published shape"),
        ("longbench", {"input": "x", "answers": ["y"], "dataset": "qasper"}, "the field context is missing"),
    ],
)
def test_the_error_of_a_broken_record_names_the_problem(name: str, record: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidRecord, match=problem):
        read_one(name, record)


def test_averitec_claims_have_a_date_and_a_speaker() -> None:
    record = {
        "claim": "The quay is blue.",
        "label": "Conflicting Evidence/Cherrypicking",
        "claim_date": "5-11-2020",
        "claim_types": ["Quote Verification", "Causal Claim"],
        "speaker": None,
        "justification": "It was green.",
        "questions": [
            {
                "question": "Is it blue?",
                "answers": [
                    {"answer": "No", "answer_type": "Boolean", "boolean_explanation": "It is green", "source_url": "u"},
                    {"answer": "Yes", "answer_type": "Boolean", "source_url": None},
                ],
            }
        ],
    }
    item = read_one("averitec", record)
    assert (item.published_before, item.stratum) == ("2020-11-05", "Causal Claim, Quote Verification")
    assert item.gold_evidence == {
        "questions": [{"question": "Is it blue?", "answers": ["No. It is green", "Yes"]}],
        "urls": ["u"],
    }
    assert (item.claim_date, item.speaker) == ("2020-11-05", None)
    assert read_one("averitec", record | {"claim_date": None}).published_before is None
    of_2025 = {
        "claim_id": 17,
        "claim_date": "2023-09-11",
        "questions": [{"question": "?", "answers": {"answer": "No"}}],
    }
    newer = read_one("averitec", record | of_2025)
    assert (newer.id, newer.published_before) == ("17", "2023-09-11")
    assert newer.gold_evidence == {"questions": [{"question": "?", "answers": ["No"]}]}
    sample = make_sample(read_one("averitec", record | {"speaker": " Ada "}), BENCHMARKS["averitec"])
    asked = make_question(str(sample.input), sample.choices, sample.metadata)
    assert asked == {"claim": record["claim"], "task": "averitec", "claim_date": "2020-11-05", "speaker": "Ada"}


def test_triviaqa_is_read_from_published_records_and_from_hub_records() -> None:
    answer = {"Value": "Bram", "Aliases": ["Bram", "Old Bram"], "NormalizedAliases": ["bram"]}
    for record in (
        {"Question": "Who?", "QuestionId": "tc_1", "Answer": answer},
        {"question": "Who?", "question_id": "tc_1", "answer": {"value": "Bram", "aliases": ["Bram", "Old Bram"]}},
    ):
        item = read_one("triviaqa", record)
        assert (item.id, item.claim, item.gold) == ("tc_1", "Who?", ("Bram", "Old Bram"))


def test_mmlu_subjects_are_read_from_file_names(tmp_path: Path) -> None:
    """Of the three subjects here, MMLU's medical subset contains only anatomy."""
    (tmp_path / "test").mkdir()
    for subject in ("anatomy", "law", "virology"):
        (tmp_path / "test" / f"{subject}_test.csv").write_text(f'"Why,\n{subject}?",w,x,y,z,C\nWhere?,w,x,y,z,D\n')
    items = read_benchmark("mmlu", tmp_path).items
    assert [(i.id, i.stratum, i.gold) for i in items[:3]] == [
        ("anatomy:0", "anatomy", ("C",)),
        ("anatomy:1", "anatomy", ("D",)),
        ("law:0", "law", ("C",)),
    ]
    assert len(items) == 6
    assert {i.stratum for i in read_benchmark("mmlu_med", tmp_path).items} == {"anatomy"}
