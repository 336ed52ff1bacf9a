"""Records of benchmarks as items: every visible sample, written samples in the published shapes, and broken files."""

from __future__ import annotations

import csv
import json
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.evals.benchmarks import records_files, records_hub
from moot.evals.benchmarks.catalogue import BENCHMARKS, Item, Reading, read_benchmark
from moot.evals.benchmarks.records import Broken, Record, page_title
from moot.evals.benchmarks.records_answers import boxed, without_csv_quotes
from moot.nodes.texts.answers import read_answer
from moot.nodes.texts.task import TASKS, make_task

from tests.conftest import SHARED

VISIBLE = SHARED / "data" / "visible"
SAMPLES = Path(__file__).parent / "samples"
needs_visible = pytest.mark.skipif(
    not VISIBLE.exists(), reason="the benchmark samples are not part of the project (../shared/data)"
)

ASKED = {
    **dict.fromkeys(("fever", "fever_symmetric", "feverous", "averitec", "hover", "scifact"), "claim"),
    **dict.fromkeys(("check_covid", "check_covid_binary"), "claim"),
    "pubmedqa": "QUESTION",
    **dict.fromkeys(
        ("medqa_4opt", "medqa_5opt", "medmcqa", "mmlu", "mmlu_med", "mmlu_pro", "arc_challenge"), "question"
    ),
    **dict.fromkeys(("triviaqa", "nq_open", "hotpotqa", "hotpotqa_distractor", "2wikimultihopqa"), "question"),
    **dict.fromkeys(("squad", "gsm8k"), "question"),
}
"""Benchmarks with visible records, and the one field of a record that may be asked."""
COUNTS = {"check_covid_binary": 134, "hotpotqa_distractor": 132, "mmlu": 199, "mmlu_med": 199}
"""How many items there are, where it is not 200; of MMLU's, one question each is too long for moot."""
FILES = {"check_covid_binary": "check_covid", "squad": "squad_v1.1"}
WRITTEN = ["faviq", "healthver", "healthver_binary", "gpqa", "gsm_ic", "math", "longbench"]
"""Benchmarks without visible records."""


def test_every_benchmark_names_a_task_a_licence_and_a_source() -> None:
    assert sorted(BENCHMARKS) == sorted([*ASKED, *WRITTEN])
    for name, benchmark in BENCHMARKS.items():
        assert benchmark.name == name
        assert benchmark.task in TASKS
        assert benchmark.licence
        assert benchmark.source.startswith("https://")
        assert benchmark.files
        assert benchmark.metrics
    assert {b.task for b in BENCHMARKS.values()} == {
        n for n in TASKS if n not in ("labels", "choice", "short_answer")
    } - {
        "number",
        "expression",
    }


# --- the visible samples ----------------------------------------------------------------------------------------------


def raw_records(name: str) -> Iterator[dict[str, Any]]:
    """The visible records of a benchmark as plain objects, read in a few lines of their own."""
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
    """Items, each with the record that it comes from, joined by the list of ids."""
    ids = json.loads((VISIBLE / f"{FILES.get(name, name)}.ids.json").read_text(encoding="utf-8"))
    records = dict(zip(map(str, ids), raw_records(name), strict=True))
    return [(item, records[item.id]) for item in reading.items]


def reads_itself(name: str, item: Item) -> bool:
    task = make_task(BENCHMARKS[name].task, options=item.options or None, claim=item.claim)
    return bool(item.gold) and all(read_answer(task, gold) == gold for gold in item.gold)


@needs_visible
@pytest.mark.parametrize("name", ASKED)
def test_visible_records_are_read(name: str) -> None:
    reading = read_benchmark(name, VISIBLE)
    assert len(reading.items) == COUNTS.get(name, 200)
    ids = [str(i) for i in json.loads((VISIBLE / f"{FILES.get(name, name)}.ids.json").read_text(encoding="utf-8"))]
    kept = {item.id for item in reading.items}
    assert [item.id for item in reading.items] == [i for i in ids if i in kept]
    assert len(kept) == len(reading.items)
    assert bool(reading.notes) or len(kept) == len(ids)
    assert all(reads_itself(name, item) for item in reading.items)


@needs_visible
@pytest.mark.parametrize("name", ASKED)
def test_of_a_record_only_the_question_is_asked(name: str) -> None:
    """Claims are one field word for word; options are those of the record; nothing else is shown."""
    for item, record in pairs(name, read_benchmark(name, VISIBLE)):
        asked = record["question"]["stem"] if name == "arc_challenge" else record[ASKED[name]]
        assert item.claim
        assert item.claim == (without_csv_quotes(asked) if name == "triviaqa" else asked).strip()
        assert BENCHMARKS[name].task in TASKS
        assert bool(item.options) == (TASKS[BENCHMARKS[name].task].kind == "choice")
        assert bool(item.given) == (name in ("fever_symmetric", "hotpotqa_distractor"))


@needs_visible
@pytest.mark.parametrize(
    "name", ["medqa_4opt", "medqa_5opt", "medmcqa", "mmlu", "mmlu_med", "mmlu_pro", "arc_challenge"]
)
def test_letters_name_the_right_option(name: str) -> None:
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
@pytest.mark.parametrize(
    ("name", "item_id", "gold", "stratum"),
    [
        ("fever", "110040", ("SUPPORTS",), ""),
        ("feverous", "28561", ("SUPPORTS",), "Other"),
        ("averitec", "430", ("Supported",), "Event/Property Claim"),
        ("hover", "8c86715e-2286-453f-b9dc-4d8603b71d69", ("SUPPORTED",), "2 hops"),
        ("scifact", "967", ("SUPPORT",), ""),
        ("scifact", "1279", ("NOT ENOUGH INFO",), ""),
        ("scifact", "180", ("CONTRADICT",), ""),
        ("check_covid", "5f6903d7e95347460249fbdd_0", ("REFUTE",), ""),
        ("check_covid_binary", "5f6903d7e95347460249fbdd_0", ("REFUTE",), ""),
        ("pubmedqa", "26708803", ("maybe",), ""),
        ("medqa_4opt", "90", ("D",), "step1"),
        ("medqa_5opt", "90", ("E",), "step1"),
        ("medmcqa", "57749b9a-2d16-403c-b69f-bcab6b998f88", ("B",), "Dental"),
        ("mmlu", "nutrition:203", ("A",), "nutrition"),
        ("mmlu_med", "clinical_knowledge:243", ("C",), "clinical_knowledge"),
        ("mmlu_pro", "3356", ("F",), "biology"),
        ("arc_challenge", "MCAS_2015_5_19", ("B",), ""),
        ("2wikimultihopqa", "500", ("Piccoli fuochi",), ""),
        ("gsm8k", "564", ("240",), "4 steps"),
    ],
)
def test_spot_values(name: str, item_id: str, gold: tuple[str, ...], stratum: str) -> None:
    item = next(item for item in read_benchmark(name, VISIBLE).items if item.id == item_id)
    assert (item.gold, item.stratum) == (gold, stratum)


@needs_visible
def test_gold_evidence_of_the_visible_samples() -> None:
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


@needs_visible
def test_quirks_of_the_visible_samples_are_tolerated_and_said() -> None:
    notes = {name: read_benchmark(name, VISIBLE).notes for name in ASKED}
    assert "66 of 200 records left out: labelled NOTENOUGHINFO" in notes["check_covid_binary"][0]
    assert notes["check_covid"] == ("62 questions come with different answers: no system can get both right",)
    assert "98 questions come with different answers: each for another text" in notes["fever_symmetric"][1]
    assert notes["mmlu"][0].startswith("1 of 200 records left out: a claim of more than 4,000 characters")
    assert "3 accepted answers left out" in notes["triviaqa"][0]  # signs
    assert "15 accepted answers left out" in notes["2wikimultihopqa"][0]  # flags
    quoted = [item.claim for item in read_benchmark("triviaqa", VISIBLE).items if '""' in item.claim]
    assert quoted == []
    assert "43500" in {item.gold[0] for item in read_benchmark("gsm8k", VISIBLE).items}


# --- written samples, in the published shapes -------------------------------------------------------------------------


def read_sample(name: str, folder: str = "", **options: Any) -> Reading:
    return read_benchmark(name, SAMPLES / (folder or name), **options)


@pytest.mark.parametrize("name", [*WRITTEN, "feverous"])
def test_written_samples_are_read(name: str) -> None:
    reading = read_sample(name, name.removesuffix("_binary"))
    assert reading.items
    assert len({item.id for item in reading.items}) == len(reading.items)
    assert all(reads_itself(name, item) for item in reading.items)


def test_faviq() -> None:
    items = read_sample("faviq").items
    assert [(item.id, item.gold) for item in items] == [
        ("s_1", ("SUPPORTS",)),
        ("s_2", ("REFUTES",)),
        ("s_3", ("REFUTES",)),
    ]
    assert [item.gold_evidence for item in items] == [{"documents": ["71"], "pages": ["Port Ennis"]}] * 2 + [None]


def test_feverous_as_published() -> None:
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
    assert reading.notes == (  # the published file begins with an empty record
        "1 of 3 records left out: no gold answer, as in test sets (feverous_dev_challenges.jsonl, line 1)",
    )


def test_healthver_gives_the_sentence_that_a_label_is_of() -> None:
    reading = read_sample("healthver")
    assert [(i.id, i.gold) for i in reading.items] == [
        ("31", ("Refutes",)),
        ("32", ("Supports",)),
        ("33", ("Neutral",)),
    ]
    assert reading.items[0].given == (("", 'In our trial of 40 sailors, "lime water" did not\nshorten the fever.'),)
    assert reading.items[1].source == "healthver_test.csv, line 4"  # the first record has two lines
    assert reading.notes == ("1 questions come with different answers: each for another text that is given with it",)
    binary = read_sample("healthver_binary", "healthver")
    assert [i.gold for i in binary.items] == [("REFUTE",), ("SUPPORT",)]
    assert binary.notes[0].startswith("1 of 3 records left out: labelled Neutral")


def test_gpqa_hides_where_the_right_answer_stood() -> None:
    items = read_sample("gpqa").items
    assert len({item.gold for item in items}) > 1
    for n, item in enumerate(items, start=1):
        assert item.claim == f"Which of these invented constants of series {n} is measured in kelvin, at 20 °C?"
        assert item.options[string.ascii_uppercase.index(item.gold[0])] == f"right {n}"
        assert set(item.options) == {f"right {n}", *(f"wrong {n}{letter}" for letter in "abc")}
        assert (item.id, item.stratum) == (f"rec{n}", "Physics")
        assert "Because" not in item.claim
    assert items == read_sample("gpqa").items


def test_longbench_is_its_question_answering() -> None:
    reading = read_sample("longbench")
    assert [(i.id, i.gold, i.stratum) for i in reading.items] == [
        ("aa11", ("Old Bram", "Bram"), "narrativeqa"),
        ("bb22", ("the Marlow corpus",), "qasper"),
    ]
    assert reading.items[0].claim == "Who keeps the lamp?"
    assert reading.items[0].given == (("", "Chapter one. Old Bram keeps the lamp. Chapter two. He sleeps."),)
    assert "of a subset that is no question answering (data/qasper.jsonl, line 2)" in reading.notes[0]


def test_gsm_ic_asks_the_question_with_what_is_beside_the_point() -> None:
    items = read_sample("gsm_ic").items
    assert [(i.id, i.stratum) for i in items] == [
        ("GSM-IC_2step:0", "2 steps"),
        ("GSM-IC_2step:1", "2 steps"),
        ("GSM-IC_mstep:0", "3 steps"),
        ("GSM-IC_mstep:1", "3 steps"),
    ]
    assert items[1].claim == "Ada has 3 boats and buys 4. Her aunt has 60 oars. How many boats has Ada?"
    assert {i.gold for i in items} == {("7",)}


def test_math_takes_the_last_box_and_leaves_the_solution() -> None:
    items = read_sample("math").items
    assert [(i.id, i.gold[0], i.stratum) for i in items] == [
        ("test/algebra/1", r"\frac{3}{2}", "Algebra"),
        ("test/algebra/2", "2", "Algebra"),
        ("test/geometry/1", r"$\left\{ 1 \right\}$", "Geometry"),
    ]
    assert not any("Halving" in i.claim or "guess" in i.claim for i in items)


@pytest.mark.parametrize(
    ("solution", "answer"),
    [
        (r"so \boxed{5}", "5"),
        (r"$\boxed{\text{(A) } \frac{a}{b}}$ and no more", r"\text{(A) } \frac{a}{b}"),
        (r"\boxed 7$.", "7"),
        (r"\boxed{1} is wrong; \fbox{2}", "2"),
    ],
)
def test_boxes(solution: str, answer: str) -> None:
    assert boxed(solution) == answer


@pytest.mark.parametrize("solution", ["no box", r"\boxed{1"])
def test_solutions_without_a_box(solution: str) -> None:
    with pytest.raises(Broken, match="box"):
        boxed(solution)


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
def test_quotes_of_csv_files(question: str, plain: str) -> None:
    assert without_csv_quotes(question) == plain


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("Ram-Leela_-LRB-film-RRB-", "Ram-Leela (film)"),
        ("2001-COLON-_A_Space_Odyssey", "2001: A Space Odyssey"),
        ("Jacksonville,_Florida", "Jacksonville, Florida"),
    ],
)
def test_titles_of_pages(name: str, title: str) -> None:
    assert page_title(name) == title


# --- other shapes of the same benchmarks ------------------------------------------------------------------------------


def read_one(name: str, *fields: dict[str, Any]) -> Item:
    """The item of a record."""
    benchmark = BENCHMARKS[name]
    return benchmark.read(Record(fields[0], "here"))


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
def test_hotpotqa_in_both_shapes(record: dict[str, Any]) -> None:
    item = read_one("hotpotqa_distractor", record)
    assert item.given == (("Ennis", "Ennis is a port. It is old."), ("Marlow", "Marlow is a port. It is new."))
    assert item.gold_evidence == {"sets": [[["Ennis", 0], ["Marlow", 2]]], "pages": ["Ennis", "Marlow"]}
    assert (item.gold, item.stratum, item.id) == (("Ennis",), "comparison", "5a")
    assert read_one("hotpotqa", record).given == ()
    assert read_one("2wikimultihopqa", record).given == item.given
    with pytest.raises(Broken, match="distractor setting"):
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
def test_choices_in_other_shapes(name: str, record: dict[str, Any], gold: str, options: tuple[str, ...]) -> None:
    item = read_one(name, record)
    assert (item.gold, item.options) == ((gold,), options)


@pytest.mark.parametrize(
    ("name", "record", "problem"),
    [
        ("medqa_4opt", {"question": "?", "answer_idx": "E", "options": dict.fromkeys("ABCD", "x")}, "none of the 4"),
        ("medqa_4opt", {"question": "?", "answer_idx": "A", "options": dict.fromkeys("ABCDE", "x")}, "5 options"),
        ("medqa_5opt", {"question": "?", "answer_idx": "A", "options": dict.fromkeys("ABCD", "x")}, "4 options"),
        (
            "medqa_4opt",
            {"question": "?", "answer_idx": "A", "answer": "B", "options": dict(zip("ABCD", "ABCD", strict=True))},
            "different options",
        ),
        ("medmcqa", {"question": "?", "cop": 0, "opa": "w", "opb": "x", "opc": "y", "opd": "z"}, "none of the 4"),
        ("medmcqa", {"question": "?", "cop": True, "opa": "w", "opb": "x", "opc": "y", "opd": "z"}, "another kind"),
        ("mmlu", {"question": "?", "choices": ["x", "y"], "answer": "AB"}, "none of the 2"),
        ("mmlu", {"question": "?", "choices": 4, "answer": "A"}, "choices has another shape"),
        ("mmlu_pro", {"question": "?", "options": ["x", "y"], "answer": "A", "answer_index": 1}, "different options"),
        ("arc_challenge", {"question": {"stem": "?"}, "answerKey": "A"}, "question has another shape"),
        ("fever", {"claim": "x", "label": "MAYBE"}, "the label 'MAYBE' is none of SUPPORTS, REFUTES, NOT ENOUGH INFO"),
        ("faviq", {"claim": "x", "label": "NOT ENOUGH INFO"}, "none of SUPPORTS, REFUTES$"),
        ("fever", {"label": "SUPPORTS"}, "the field claim is missing"),
        ("fever", {"label": "SUPPORTS", "claim": " "}, "the field claim holds no text"),
        ("fever", {"label": ["SUPPORTS"], "claim": "x"}, "the field label holds another kind"),
        ("fever", {"label": "SUPPORTS", "claim": "x", "evidence": [["a"]]}, "evidence has another shape"),
        (
            "feverous",
            {"label": "SUPPORTS", "claim": "x", "evidence": [{"content": ["?"]}]},
            "evidence has another shape",
        ),
        ("averitec", {"label": "Refuted", "claim": "x", "claim_date": "31-2-2020"}, "claim_date holds no day"),
        ("averitec", {"label": "Refuted", "claim": "x", "questions": ["?"]}, "questions has another shape"),
        ("scifact", {"claim": "x", "evidence": []}, "evidence has another shape"),
        ("gsm8k", {"question": "x", "answer": "12"}, "####"),
        ("squad", {"question": "x"}, "answers has another shape"),
        ("longbench", {"input": "x", "answers": ["y"], "dataset": "qasper"}, "the field context is missing"),
    ],
)
def test_broken_records_say_which_field(name: str, record: dict[str, Any], problem: str) -> None:
    with pytest.raises(Broken, match=problem):
        read_one(name, record)


def test_claims_of_averitec() -> None:
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
    assert read_one("averitec", record | {"claim_date": None}).published_before is None


def test_triviaqa_as_published() -> None:
    answer = {"Value": "Bram", "Aliases": ["Bram", "Old Bram"], "NormalizedAliases": ["bram"]}
    for record in (
        {"Question": "Who?", "QuestionId": "tc_1", "Answer": answer},
        {"question": "Who?", "question_id": "tc_1", "answer": {"value": "Bram", "aliases": ["Bram", "Old Bram"]}},
    ):
        item = read_one("triviaqa", record)
        assert (item.id, item.claim, item.gold) == ("tc_1", "Who?", ("Bram", "Old Bram"))


def test_subjects_of_mmlu_come_from_the_names_of_its_files(tmp_path: Path) -> None:
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


# --- files ------------------------------------------------------------------------------------------------------------


def claims(count: int = 100) -> list[dict[str, Any]]:
    return [{"id": n, "label": "SUPPORTS", "claim": f"Quay {n} is open.", "evidence": []} for n in range(count)]


def write_lines(file: Path, records: list[Any], broken: dict[int, str] | None = None) -> Path:
    """Records one a line; ``broken`` has other lines, by number."""
    lines = [json.dumps(record) for record in records]
    for number, line in (broken or {}).items():
        lines[number - 1] = line
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def fails(name: str, path: Path | None, kind: str = "invalid_file") -> str:
    with pytest.raises(UserError) as error:
        read_benchmark(name, path)
    assert error.value.kind == kind
    return str(error.value)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": 57, "label": "SUPPORTS", "claim": "Quay', "no JSON (Unterminated string"),
        ('{"id": 57, "label": "SUPPORTS", "claim": 5, "claim": 6}', "the key 'claim' comes twice"),
        ("[57]", "no object with fields, but a list"),
        ("null", "no object with fields, but null"),
        ('{"id": 57, "label": "PERHAPS", "claim": "Quay"}', "the label 'PERHAPS' is none of"),
        ('{"id": 57, "label": "SUPPORTS"}', "the field claim is missing"),
        ('{"id": 57, "label": "SUPPORTS", "claim": "half \\ud83d"}', "lone surrogate"),
        ('{"id": 3, "label": "SUPPORTS", "claim": "Another one."}', "the id '3' is that of another record too"),
        ("[" * 100_000, "no JSON that can be read"),
        ("9" * 5000, "no JSON that can be read"),
    ],
)
@pytest.mark.parametrize("ending", ["jsonl", "json"])
def test_a_broken_line_is_named(tmp_path: Path, ending: str, line: str, problem: str) -> None:
    file = write_lines(tmp_path / f"fever.{ending}", claims(), {57: line})
    message = fails("fever", file)
    assert message.startswith(f"fever.{ending}, line 57: ")
    assert problem in message


def test_a_broken_line_is_named_in_other_formats(tmp_path: Path) -> None:
    listed = tmp_path / "dev.json"
    listed.write_text(json.dumps(claims(), indent=1).replace('"id": 57,', '"id": 57'))
    assert fails("fever", listed).startswith("dev.json, line 346: no JSON")
    listed.write_text(json.dumps([*claims(56), {"label": "SUPPORTS"}]))
    assert fails("fever", listed).startswith(
        "dev.json, record 57: the field claim is missing. It is read as a record of"
    )
    rows = [["Why?", "w", "x", "y", "z", "A"] for _ in range(100)]
    table = tmp_path / "mmlu.csv"
    for row, problem in (
        (["Why?", "w", "x", "y", "A"], "5 columns"),
        (["Why?", "w", "x", "y", "z", "F"], "none of the 4"),
    ):
        with table.open("w", newline="") as lines:
            csv.writer(lines).writerows([*rows[:56], row, *rows[57:]])
        message = fails("mmlu", table)
        assert message.startswith("mmlu.csv, line 57: ")
        assert problem in message
    table.write_text('Why?,w,x,y,z,A\n"Why?,w,x,y,z,A\nWhy?,w,x,y,z,A\n')
    assert fails("mmlu", table).startswith("mmlu.csv, line 2: no CSV")


def test_empty_lines_and_a_mark_at_the_beginning_do_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "fever.jsonl"
    lines = [json.dumps(record) for record in claims(3)]
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n".join(lines).encode())
    assert [(i.id, i.source) for i in read_benchmark("fever", file).items] == [
        ("0", "fever.jsonl, line 1"),
        ("1", "fever.jsonl, line 3"),
        ("2", "fever.jsonl, line 5"),
    ]


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "fever.jsonl"
    broken.write_bytes(b'{"id": 1}\n\x80\x04\x95pickle\n')
    assert "fever.jsonl, line 2: not UTF-8" in fails("fever", broken)
    packed = tmp_path / "fever.zip"
    packed.write_bytes(b"PK")
    assert "Unpack archives first" in fails("fever", packed)
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    assert "no record that can be measured" in fails("fever", empty)
    file = write_lines(tmp_path / "large.jsonl", claims())
    monkeypatch.setattr(records_files, "MOST_RECORDS", 50)
    assert "more than 50 lines" in fails("fever", file)
    monkeypatch.setattr(records_files, "LARGEST_FILE", 1000)
    assert "MiB. Give a part of it" in fails("fever", file)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_what_is_missing_is_said_with_its_source_and_licence(tmp_path: Path, name: str) -> None:
    for path in (tmp_path, tmp_path / "nothing.jsonl"):
        message = fails(name, path, "missing_file")
        assert BENCHMARKS[name].source in message
        assert BENCHMARKS[name].licence in message
        assert BENCHMARKS[name].files[0] in message
        assert str(path) in message


def test_unknown_names_and_limits(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="hotpotqa"):
        read_benchmark("hotpot", tmp_path)
    with pytest.raises(UserError, match="limit"):
        read_benchmark("fever", tmp_path, limit=0)


def test_larger_samples_hold_smaller_ones(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "fever.jsonl", claims())

    def ids(**options: int) -> list[str]:
        return [item.id for item in read_benchmark("fever", file, **options).items]

    assert ids(limit=3) == ["0", "1", "2"]
    assert ids(limit=40, seed=1)[:10] == ids(limit=10, seed=1)
    assert ids(limit=10, seed=1) != ids(limit=10, seed=2)
    assert sorted(ids(seed=1)) == sorted(ids())


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    records = claims(6)
    del records[1]["label"]
    records[2]["label"] = None
    records[3] = records[0]
    records[4]["claim"] = "x" * 4001
    records[5] = records[0] | {"id": 99}
    reading = read_benchmark("fever", write_lines(tmp_path / "fever.jsonl", records))
    assert [item.id for item in reading.items] == ["0", "99"]
    assert reading.notes == (
        "2 of 6 records left out: no gold answer, as in test sets (fever.jsonl, line 2; fever.jsonl, line 3)",
        "1 of 6 records left out: the same record again (fever.jsonl, line 4)",
        "1 of 6 records left out: a claim of more than 4,000 characters, which moot does not take "
        "(fever.jsonl, line 5)",
        "1 items repeat another one's question and answer under another id",
    )
    for record in records:
        record.pop("label", None)
    message = fails("fever", write_lines(tmp_path / "fever.jsonl", records))
    assert "no record that can be measured; 6 of 6 records left out: no gold answer" in message


@pytest.mark.parametrize(
    ("name", "record", "reason"),
    [
        ("mmlu_pro", {"question": "?", "options": ["x"], "answer": "A"}, "fewer than two options"),
        ("mmlu_pro", {"question": "?", "options": ["x", ""], "answer": "A"}, "an empty option"),
        ("mmlu_pro", {"question": "?", "options": ["x", "y" * 2001], "answer": "A"}, "an option of more than 2,000"),
        ("squad", {"question": "?", "answers": []}, "SQuAD 2.0"),
        ("nq_open", {"question": "?", "answer": []}, "no gold answer"),
        (
            "nq_open",
            {"question": "?", "answer": ["\U0001f1e6"]},
            "no gold answer that is read as one of the task nq_open",
        ),
        ("scifact", {"claim": "x"}, "no gold answer"),
        (
            "scifact",
            {"claim": "x", "evidence": {n: [{"sentences": [0], "label": n}] for n in ("SUPPORT", "CONTRADICT")}},
            "more than one label",
        ),
        ("mmlu_med", {"question": "?", "choices": ["x", "y"], "answer": 0, "subject": "law"}, "another subject"),
    ],
)
def test_records_that_cannot_be_measured(tmp_path: Path, name: str, record: dict[str, Any], reason: str) -> None:
    message = fails(name, write_lines(tmp_path / "one.jsonl", [record]))
    assert "1 of 1 records left out: " in message
    assert reason in message


def test_days_that_are_missing_are_said(tmp_path: Path) -> None:
    records = [{"claim": f"x{n}", "label": "Refuted", "claim_date": "1-2-2020" if n else None} for n in range(3)]
    reading = read_benchmark("averitec", write_lines(tmp_path / "dev.json", records))
    assert reading.notes == ("1 of 3 items have no day: nothing keeps later evidence from them",)


def test_a_list_of_ids_beside_a_file(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "nq_open.jsonl", [{"question": f"who {n}", "answer": ["x"]} for n in range(3)])
    assert [item.id for item in read_benchmark("nq_open", tmp_path).items] == ["0", "1", "2"]
    beside = tmp_path / "nq_open.ids.json"
    beside.write_text('[7, "b", 9]')
    assert [item.id for item in read_benchmark("nq_open", file).items] == ["7", "b", "9"]
    for ids, problem in (("[7]", "3 records, but 1 ids"), ("{}", "no list of ids"), ("[7", "no JSON")):
        beside.write_text(ids)
        assert problem in fails("nq_open", file)


def test_a_pattern_does_not_take_lists_of_ids_for_data(tmp_path: Path) -> None:
    folder = tmp_path / "test" / "algebra"
    folder.mkdir(parents=True)
    (folder / "1.json").write_text((SAMPLES / "math" / "test" / "algebra" / "1.json").read_text())
    (folder / "1.ids.json").write_text('["first"]')
    assert [item.id for item in read_benchmark("math", tmp_path).items] == ["first"]


def test_parquet_files_give_labels_their_names(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{"id": str(n), "question": f"Why {n}?", "cop": n, **{f"op{c}": c * 2 for c in "abcd"}} for n in (0, 3, -1)]
    features = {"cop": {"names": ["a", "b", "c", "d"], "_type": "ClassLabel"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    file = tmp_path / "dev.parquet"
    parquet.write_table(arrow.Table.from_pylist(rows).replace_schema_metadata(metadata), file)
    reading = read_benchmark("medmcqa", file)
    assert [item.gold for item in reading.items] == [("A",), ("D",)]
    assert reading.notes[0].startswith("1 of 3 records left out: no gold answer")
    parquet.write_table(arrow.Table.from_pylist(rows), file)
    assert fails("medmcqa", file).startswith("dev.parquet, row 1: the answer is none of the 4 options")  # from 0, not 1
    file.write_bytes(b"PAR1 but no more")
    assert "no Parquet file" in fails("medmcqa", file)


# --- the Hub ----------------------------------------------------------------------------------------------------------


class Rows(list[dict[str, Any]]):
    """Rows with features, as `datasets` has them."""

    features: dict[str, Any] = {}  # noqa: RUF012


class Label:
    """A feature whose numbers have names."""

    names = ("NOT_SUPPORTED", "SUPPORTED")


class Datasets:
    """In place of `datasets`: gives these rows, and remembers what it was asked for."""

    def __init__(self, rows: Rows | Exception) -> None:
        self.rows = rows
        self.asked: list[Any] = []

    def load_dataset(self, *args: Any, **options: Any) -> Rows:
        self.asked.append((args, options))
        if isinstance(self.rows, Exception):
            raise self.rows
        return self.rows


def hub(monkeypatch: pytest.MonkeyPatch, rows: Rows | Exception) -> Datasets:
    library = Datasets(rows)

    def imported(name: str) -> Datasets:
        assert name == "datasets"
        return library

    monkeypatch.setattr(records_hub, "imported", imported)
    return library


def test_fever_from_the_hub_is_gathered_from_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def row(claim: int, group: int, page: str, line: int, label: str = "REFUTES") -> dict[str, Any]:
        parts = {"evidence_annotation_id": 1, "evidence_id": group, "evidence_wiki_url": page}
        return {"id": claim, "label": label, "claim": f"x{claim}", "evidence_sentence_id": line, **parts}

    rows = Rows([row(1, 8, "A_B", 0), row(1, 8, "C", 4), row(1, 9, "D", 2), row(2, -1, "", -1, "NOT ENOUGH INFO")])
    library = hub(monkeypatch, rows)
    items = read_benchmark("fever").items
    assert [(i.id, i.gold) for i in items] == [("1", ("REFUTES",)), ("2", ("NOT ENOUGH INFO",))]
    assert items[0].gold_evidence == {"sets": [[["A B", 0], ["C", 4]], [["D", 2]]], "pages": ["A B", "C", "D"]}
    assert items[1].gold_evidence is None
    files = "hf://datasets/fever/fever@refs%2Fconvert%2Fparquet/v1.0/labelled_dev/*.parquet"
    assert library.asked == [(("parquet",), {"data_files": files, "split": "train"})]


def test_scifact_from_the_hub_is_gathered_from_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def row(claim: int, document: str, label: str, sentences: list[int]) -> dict[str, Any]:
        parts = {"evidence_doc_id": document, "evidence_label": label, "evidence_sentences": sentences}
        return {"id": claim, "claim": f"x{claim}", "cited_doc_ids": [4], **parts}

    hub(monkeypatch, Rows([row(1, "4", "SUPPORT", [0, 1]), row(1, "5", "SUPPORT", [3]), row(2, "", "", [])]))
    items = read_benchmark("scifact").items
    assert [(i.id, i.gold) for i in items] == [("1", ("SUPPORT",)), ("2", ("NOT ENOUGH INFO",))]
    assert items[0].gold_evidence == {"sets": [[["4", 0], ["4", 1]], [["5", 3]]], "documents": ["4", "5"]}


def test_labels_from_the_hub_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows(
        {"uid": f"u{n}", "claim": f"x{n}", "label": n, "num_hops": 3, "supporting_facts": []} for n in (0, 1, -1)
    )
    rows[0]["supporting_facts"] = [{"key": "A", "value": 2}]
    rows.features = {"label": Label(), "claim": object()}
    hub(monkeypatch, rows)
    reading = read_benchmark("hover")
    assert [(i.gold, i.stratum) for i in reading.items] == [(("NOT_SUPPORTED",), "3 hops"), (("SUPPORTED",), "3 hops")]
    assert reading.items[0].gold_evidence == {"sets": [[["A", 2]]], "pages": ["A"]}
    assert reading.notes[0].startswith("1 of 3 records left out: no gold answer")


def test_pubmedqa_from_the_hub_shows_no_conclusion(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {
        "pubid": 5,
        "question": "Does it?",
        "context": {"contexts": ["a"]},
        "long_answer": "It does.",
        "final_decision": "yes",
    }
    library = hub(monkeypatch, Rows([row]))
    item = read_benchmark("pubmedqa").items[0]
    assert (item.id, item.claim, item.gold, item.given) == ("5", "Does it?", ("yes",), ())
    assert item.source == "qiaojin/PubMedQA (pqa_labeled, train), record 1"
    assert library.asked == [(("qiaojin/PubMedQA", "pqa_labeled"), {"split": "train"})]


def test_a_hub_that_cannot_be_reached_is_said_with_where_else_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    hub(monkeypatch, ConnectionError("no route to host\nand a long trace"))
    message = fails("gpqa", None, "missing_file")
    assert "Idavidrein/gpqa (gpqa_diamond, train): the Hub could not be read (no route to host)." in message
    assert "https://github.com/idavidrein/gpqa (licence: CC BY 4.0" in message
    assert "FaVIQ: it is not read from the Hub" in fails("faviq", None, "missing_file")

    def nothing(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(records_hub, "imported", nothing)
    assert "pip install datasets" in fails("gpqa", None, "missing_file")


@pytest.mark.parametrize("converted", [False, True])
def test_the_library_itself_without_a_network(converted: bool) -> None:
    pytest.importorskip("datasets")
    with pytest.raises(records_hub.NotThere, match="the Hub could not be read"):
        records_hub.read_hub(records_hub.Hub("moot-tests/nothing", "default", "test", converted))
