"""Benchmarks from files and from the Hugging Face Hub: formats, errors, and records that are left out."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.evals._benchmarks import records_files
from moot.evals._benchmarks.catalogue import BENCHMARKS, read_benchmark

# --- files ------------------------------------------------------------------------------------------------------------


def fever_records(count: int = 100) -> list[dict[str, Any]]:
    """Records of FEVER with the ids from 0 to ``count`` - 1."""
    return [{"id": n, "label": "SUPPORTS", "claim": f"Quay {n} is open.", "evidence": []} for n in range(count)]


def write_lines(file: Path, records: list[Any], broken: dict[int, str] | None = None) -> Path:
    """Write one record per line. ``broken`` has texts that replace lines, by line number from 1."""
    lines = [json.dumps(record) for record in records]
    for number, line in (broken or {}).items():
        lines[number - 1] = line
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def error_of(name: str, path: Path | None, kind: str = "invalid_file") -> str:
    """The message of the error that `read_benchmark` raises. The error must be of this kind."""
    with pytest.raises(UserError) as error:
        read_benchmark(name, path)
    assert error.value.kind == kind
    return str(error.value)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": 57, "label": "SUPPORTS", "claim": "Quay', "not JSON (Unterminated string"),
        ('{"id": 57, "label": "SUPPORTS", "claim": 5, "claim": 6}', "the key 'claim' occurs twice"),
        ("[57]", "it must be an object with fields, not a list"),
        ("null", "it must be an object with fields, not null"),
        ('{"id": 57, "label": "PERHAPS", "claim": "Quay"}', "the label 'PERHAPS' is not one of"),
        ('{"id": 57, "label": "SUPPORTS"}', "the field claim is missing"),
        ('{"id": 57, "label": "SUPPORTS", "claim": "half \\ud83d"}', "lone surrogate"),
        ('{"id": 3, "label": "SUPPORTS", "claim": "Another one."}', "another record has the same id '3'"),
        ("[" * 100_000, "not readable JSON"),
        ("9" * 5000, "not readable JSON"),
    ],
)
@pytest.mark.parametrize("ending", ["jsonl", "json"])
def test_the_error_of_a_broken_line_names_its_number(tmp_path: Path, ending: str, line: str, problem: str) -> None:
    file = write_lines(tmp_path / f"fever.{ending}", fever_records(), {57: line})
    message = error_of("fever", file)
    assert message.startswith(f"fever.{ending}, line 57: ")
    assert problem in message


def test_errors_in_json_lists_and_csv_files_name_the_place(tmp_path: Path) -> None:
    listed = tmp_path / "dev.json"
    listed.write_text(json.dumps(fever_records(), indent=1).replace('"id": 57,', '"id": 57'))
    # The record with id 57 begins in line 344 = 2 + 57 x 6, and its id is in line 345. The error is in the next line.
    assert error_of("fever", listed).startswith("dev.json, line 346: not JSON")
    listed.write_text(json.dumps([*fever_records(56), {"label": "SUPPORTS"}]))
    assert error_of("fever", listed).startswith(
        "dev.json, record 57: the field claim is missing. It was read as a record of"
    )
    rows = [["Why?", "w", "x", "y", "z", "A"] for _ in range(100)]
    table = tmp_path / "mmlu.csv"
    for row, problem in (
        (["Why?", "w", "x", "y", "A"], "5 columns"),
        (["Why?", "w", "x", "y", "z", "F"], "not one of the first 4"),
    ):
        with table.open("w", newline="") as lines:
            csv.writer(lines).writerows([*rows[:56], row, *rows[57:]])
        message = error_of("mmlu", table)
        assert message.startswith("mmlu.csv, line 57: ")
        assert problem in message
    table.write_text('Why?,w,x,y,z,A\n"Why?,w,x,y,z,A\nWhy?,w,x,y,z,A\n')
    assert error_of("mmlu", table).startswith("mmlu.csv, line 2: not CSV")


def test_unreadable_empty_and_large_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "fever.jsonl"
    broken.write_bytes(b'{"id": 1}\n\x80\x04\x95pickle\n')
    assert "fever.jsonl, line 2: not UTF-8" in error_of("fever", broken)
    packed = tmp_path / "fever.zip"
    packed.write_bytes(b"PK")
    assert "Unpack archives first" in error_of("fever", packed)
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    assert "no usable record" in error_of("fever", empty)
    file = write_lines(tmp_path / "large.jsonl", fever_records())
    monkeypatch.setattr(records_files, "MOST_RECORDS", 50)
    assert "more than 50 lines" in error_of("fever", file)
    monkeypatch.setattr(records_files, "LARGEST_FILE", 1000)
    assert "MiB. Use a part of it" in error_of("fever", file)


@pytest.mark.parametrize("name", [name for name in BENCHMARKS if name != "claims"])
def test_the_error_of_a_missing_file_names_path_source_licence_and_expected_file(tmp_path: Path, name: str) -> None:
    for path in (tmp_path, tmp_path / "nothing.jsonl"):
        message = error_of(name, path, "missing_file")
        assert BENCHMARKS[name].source in message
        assert BENCHMARKS[name].licence in message
        assert BENCHMARKS[name].files[0] in message
        assert str(path) in message


def test_unknown_benchmarks_and_invalid_limits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="hotpotqa"):
        read_benchmark("hotpot", tmp_path)
    with pytest.raises(UserError, match="limit"):
        read_benchmark("fever", tmp_path, limit=0)


def selected_ids(folder: Path, **options: int) -> list[str]:
    """The ids of the items that the options select from 100 records."""
    file = write_lines(folder / "fever.jsonl", fever_records())
    return [item.id for item in read_benchmark("fever", file, **options).items]


def test_a_smaller_sample_is_the_beginning_of_a_larger_sample_with_the_same_seed(tmp_path: Path) -> None:
    small = selected_ids(tmp_path, limit=10, seed=1)
    assert selected_ids(tmp_path, limit=40, seed=1)[:10] == small
    assert selected_ids(tmp_path, limit=10, seed=2) != small
    assert sorted(selected_ids(tmp_path, seed=1)) == sorted(selected_ids(tmp_path))


def test_notes_count_the_records_that_are_left_out(tmp_path: Path) -> None:
    records = fever_records(6)
    del records[1]["label"]
    records[2]["label"] = None
    records[3] = records[0]
    records[4]["claim"] = "x" * 4001
    records[5] = records[0] | {"id": 99}
    reading = read_benchmark("fever", write_lines(tmp_path / "fever.jsonl", records))
    assert [item.id for item in reading.items] == ["0", "99"]
    assert reading.notes == (
        "2 of 6 records left out: no gold answer, as in test sets (fever.jsonl, line 2; fever.jsonl, line 3)",
        "1 of 6 records left out: a duplicate of another record (fever.jsonl, line 4)",
        "1 of 6 records left out: a claim of more than 4,000 characters, which is too long for moot "
        "(fever.jsonl, line 5)",
        "1 item with the same question and answer as another item, but a different id",
    )
    for record in records:
        record.pop("label", None)
    message = error_of("fever", write_lines(tmp_path / "fever.jsonl", records))
    assert "no usable record; 6 of 6 records left out: no gold answer" in message


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
            "no gold answer that is valid for the task nq_open",
        ),
        ("scifact", {"claim": "x"}, "no gold answer"),
        (
            "scifact",
            {"claim": "x", "evidence": {n: [{"sentences": [0], "label": n}] for n in ("SUPPORT", "CONTRADICT")}},
            "more than one label",
        ),
        ("mmlu_med", {"question": "?", "choices": ["x", "y"], "answer": 0, "subject": "law"}, "a subject other"),
        *(
            ("ramdocs", {"question": "?", "gold_answers": ["y"], "wrong_answers": [], "documents": documents}, reason)
            for documents, reason in (([], "no documents"), ([{"text": ""}], "an empty text among those that come"))
        ),
    ],
)
def test_unusable_records_are_left_out_with_a_reason(
    tmp_path: Path, name: str, record: dict[str, Any], reason: str
) -> None:
    message = error_of(name, write_lines(tmp_path / "one.jsonl", [record]))
    assert "1 of 1 records left out: " in message
    assert reason in message


@pytest.mark.parametrize(
    ("name", "record", "place"),
    [
        ("scifact", {"evidence": {"11": [{"sentences": [], "label": "SUPPORT"}]}}, "sets.0"),
        ("check_covid", {"label": "SUPPORT", "cord_id": "a", "evidence_set": [{"sent_index": []}]}, "sets.0.0.1"),
        ("fever", {"label": "SUPPORTS", "evidence": [[[1, 2, "Page", "3"]]]}, "sets.0.0.1"),
        ("hover", {"label": "SUPPORTED", "supporting_facts": [["Page", 0], [None, 1]]}, "pages.1"),
        ("averitec", {"label": "Refuted", "questions": [{"question": None, "answers": []}]}, "questions.0.question"),
    ],
)
def test_gold_evidence_that_no_score_could_read_is_refused_before_a_run(
    tmp_path: Path, name: str, record: dict[str, Any], place: str
) -> None:
    message = error_of(name, write_lines(tmp_path / "one.jsonl", [{"claim": "A claim.", **record}]))
    assert "one.jsonl, line 1: the gold evidence does not have the published shape" in message
    assert f"({place}" in message


def test_a_claim_with_different_right_answers_is_reported(tmp_path: Path) -> None:
    """A system can be right on both items only if it can distinguish them, for example by their dates."""
    records = [{"claim": "x", "label": label, "claim_date": "1-2-2020"} for label in ("Refuted", "Supported")]
    file = write_lines(tmp_path / "dev.json", records)
    same = read_benchmark("averitec", file)
    assert same.notes == (
        "2 of 2 items also occur in this benchmark with another right answer, with the same texts, date and speaker, "
        "and no system can tell these apart: 1 of 1 with the right answer Refuted (0); 1 of 1 with the right answer "
        "Supported (1)",
    )
    assert same.conflicting == {"Refuted": ("0",), "Supported": ("1",)}
    first = read_benchmark("averitec", file, limit=1)
    assert "1 of 1 item also occur" in first.notes[0]  # though the other one is not run
    records[1]["claim_date"] = "1-2-2021"
    other = read_benchmark("averitec", write_lines(file, records))
    assert not other.conflicting
    assert other.notes == ("1 question with different answers: the right answer depends on the text, date or speaker",)


def test_ids_are_read_from_the_ids_file_next_to_the_records(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "nq_open.jsonl", [{"question": f"who {n}", "answer": ["x"]} for n in range(3)])
    assert [item.id for item in read_benchmark("nq_open", tmp_path).items] == ["0", "1", "2"]
    beside = tmp_path / "nq_open.ids.json"
    beside.write_text('[7, "b", 9]')
    assert [item.id for item in read_benchmark("nq_open", file).items] == ["7", "b", "9"]
    for ids, problem in (
        ("[7]", "list of ids (nq_open.ids.json) has 1"),
        ("{}", "must be a list of ids"),
        ("[7", "not JSON"),
    ):
        beside.write_text(ids)
        assert problem in error_of("nq_open", file)


# --- the Hub ----------------------------------------------------------------------------------------------------------


class Rows(list[dict[str, Any]]):
    """Rows with features, like a data set of `datasets`."""

    features: dict[str, Any] = {}  # noqa: RUF012


class Label:
    """A replacement for ``ClassLabel`` of `datasets`: label n has the name ``names[n]``."""

    names = ("NOT_SUPPORTED", "SUPPORTED")


class Datasets:
    """A replacement for the library `datasets`. It records how it is called, and returns rows or raises an error."""

    def __init__(self, rows: Rows | Exception) -> None:
        self.rows = rows
        self.asked: list[Any] = []

    def load_dataset(self, *args: Any, **options: Any) -> Rows:
        self.asked.append((args, options))
        if isinstance(self.rows, Exception):
            raise self.rows
        return self.rows


def stub_datasets(monkeypatch: pytest.MonkeyPatch, rows: Rows | Exception) -> Datasets:
    """Replace the library `datasets` by `Datasets`, and return the replacement."""
    library = Datasets(rows)

    def import_stub(name: str) -> Datasets:
        assert name == "datasets"
        return library

    monkeypatch.setattr(records_files, "imported", import_stub)
    return library


def test_label_numbers_from_the_hub_become_label_names(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows(
        {"uid": f"u{n}", "claim": f"x{n}", "label": n, "num_hops": 3, "supporting_facts": []} for n in (0, 1, -1)
    )
    rows[0]["supporting_facts"] = [{"key": "A", "value": 2}]
    rows.features = {"label": Label(), "claim": object()}
    stub_datasets(monkeypatch, rows)
    reading = read_benchmark("hover")
    assert [(i.gold, i.stratum) for i in reading.items] == [(("NOT_SUPPORTED",), "3 hops"), (("SUPPORTED",), "3 hops")]
    assert reading.items[0].gold_evidence == {"sets": [[["A", 2]]], "pages": ["A"]}
    assert reading.notes[0].startswith("1 of 3 records left out: no gold answer")


def test_errors_about_the_hub_name_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of an unreachable Hub also names the source and the licence of the benchmark."""
    stub_datasets(monkeypatch, ConnectionError("no route to host\nand a long trace"))
    message = error_of("gpqa", None, "missing_file")
    assert "Idavidrein/gpqa (gpqa_diamond, train): the Hub could not be read (no route to host)." in message
    assert "https://github.com/idavidrein/gpqa (licence: CC BY 4.0" in message
    assert "FaVIQ: it is not read from the Hub" in error_of("faviq", None, "missing_file")

    def not_installed(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(records_files, "imported", not_installed)
    assert "pip install datasets" in error_of("gpqa", None, "missing_file")


@pytest.mark.parametrize("converted", [False, True])
def test_a_failure_of_the_real_datasets_library_raises_hub_unavailable(converted: bool) -> None:
    pytest.importorskip("datasets")
    with pytest.raises(records_files.HubUnavailable, match="the Hub could not be read"):
        records_files.read_hub(records_files.Hub("moot-tests/nothing", "default", "test", converted))
