"""Tasks: their labels, their wording in prompts, the parsing of labels, and the checks of claims."""

from __future__ import annotations

from typing import Any

import pytest
from moot.core.errors import UserError
from moot.nodes._texts.label_reading import read_label
from moot.nodes._texts.task import (
    LONGEST_CLAIM,
    check_claim,
    is_question,
    make_task,
    mixed_label,
    unsettled_label,
)

from tests.each import each

FEVER = ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"]


@pytest.mark.parametrize(
    ("given", "name", "labels"),
    [
        ({}, "fever", FEVER),
        ({"name": "fever"}, "fever", FEVER),
        ({"name": "fever", "labels": None, "options": None}, "fever", FEVER),
        ({"labels": ["yes", "no", "maybe"]}, "labels", ["yes", "no", "maybe"]),
        ({"name": "labels", "labels": ("yes", "no")}, "labels", ["yes", "no"]),
        ({"options": ["Paris", "Rome", "Oslo"]}, "choice", ["A", "B", "C"]),
        ({"name": "choice", "options": ["x"] + [f"y{i}" for i in range(25)]}, "choice", [*map(chr, range(65, 91))]),
        ({"options": ["AA", "Aa", "aa"]}, "choice", ["A", "B", "C"]),  # these genotypes differ only in case
        ({"options": ["[0, 1]", "(0, 1)"]}, "choice", ["A", "B"]),  # these intervals differ only in brackets
        ({"labels": ["a" * 500, "b"]}, "labels", ["a" * 500, "b"]),
        ({"options": ["same", "same", "o" * 2000]}, "choice", ["A", "B", "C"]),  # some benchmarks repeat an option
    ],
)
def test_the_arguments_determine_the_name_and_labels_of_a_task(
    given: dict[str, Any], name: str, labels: list[str]
) -> None:
    task = make_task(**given)
    assert (task["name"], task["kind"], task["labels"]) == (name, "labels", labels)


@each(
    ("labels", "unsettled", "mixed"),
    [
        (["true", "false", "unproven"], "unproven", None),
        (["Unclear", "right", "Mixture"], "Unclear", "Mixture"),
        (["unverified", "true", "Not enough info"], "Not enough info", None),  # the name of a task's own label is first
        ({"ja": "yes", "offen": "the evidence settles the claim neither way"}, "offen", None),
        (["likely", "unlikely"], None, None),
    ],
)
def test_own_labels_for_open_and_mixed_evidence_are_known_by_name_or_meaning(
    labels: Any, unsettled: str | None, mixed: str | None
) -> None:
    task = make_task(labels=labels)
    assert (unsettled_label(task), mixed_label(task)) == (unsettled, mixed)


@each(
    "given",
    [
        {"name": "poetry"},
        {"name": "fever", "labels": ["yes", "no"]},
        {"name": "labels"},
        {"name": "choice"},
        {"name": "choice", "labels": ["yes", "no"]},
        {"labels": ["yes", "no"], "options": ["a", "b"]},
        {"labels": ["yes"]},
        {"options": ["one"]},
        {"labels": ["yes", "Yes."]},
        {"labels": ["NOT_TRUE", "not true"]},
        {"labels": ["yes", " "]},
        {"labels": ["yes", "*"]},  # without punctuation this label is empty, so every empty text would match
        {"labels": ["yes", 5]},
        {"options": ["yes", None]},
        {"labels": ["yes", "n" * 501]},
        {"options": [str(i) for i in range(27)]},
        {"labels": "yes"},  # a string is not taken as a list of characters
        {"options": "abc"},
        {"labels": 5},
        {"name": "labels", "labels": []},
        {"name": "choice", "options": []},
    ],
)
def test_invalid_tasks_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UserError) as refused:
        make_task(**given)
    assert refused.value.kind == "invalid_task"


def test_empty_lists_as_a_cleared_form_sends_them_are_as_none() -> None:
    assert make_task(labels=[], options=[]) == make_task(labels={}) == make_task()
    assert make_task(labels=["yes", "no"], options=[]) == make_task(labels=["yes", "no"])
    assert make_task(labels=[], options=["a", "b"]) == make_task(options=["a", "b"])


@each(
    ("text", "label"),
    [
        ("SUPPORTS", "SUPPORTS"),
        ("Supports", "SUPPORTS"),
        ("supports.", "SUPPORTS"),
        (" \n'refutes' ", "REFUTES"),
        ("**REFUTES**", "REFUTES"),
        ("[REFUTES]", "REFUTES"),
        ("NOT_ENOUGH_INFO", "NOT ENOUGH INFO"),
        ("not-enough  info", "NOT ENOUGH INFO"),
        ("Not Enough\nInfo", "NOT ENOUGH INFO"),
        ("not supported", None),
        ("SUPPORTS and REFUTES", None),
        ("does not SUPPORTS", None),
        ("NOT ENOUGH", None),
        ("", None),
        ("...", None),
        ("null", None),
    ],
)
def test_only_a_clear_label_is_parsed(text: str, label: str | None) -> None:
    assert read_label(make_task(), text) == label


def test_a_claim_has_at_most_4000_characters() -> None:
    assert LONGEST_CLAIM == 4000
    assert check_claim("é" * 4000) == "é" * 4000
    with pytest.raises(UserError, match=r"4,001 characters; at most 4,000"):
        check_claim("é" * 4001)


@pytest.mark.parametrize("claim", ["", " \n\t", None, 5, ["a claim"], b"a claim", "half a \ud83d character"])
def test_invalid_claims_are_refused(claim: object) -> None:
    with pytest.raises(UserError) as refused:
        check_claim(claim)
    assert refused.value.kind == "invalid_claim"


@each(
    ("text", "expected"),
    [
        ("Is it so?", True),
        ("“Is it so?” ", True),
        ("(Is it *so?*)", True),
        ("Really?!", True),
        ("これは本当ですか？", True),
        ("「本当ですか？」", True),
        ("هل هذا صحيح؟", True),
        ("ይህ እውነት ነው፧", True),
        ("Είναι αλήθεια;", True),
        ("Είναι αλήθεια\u037e", True),
        ("Ո՞վ է նա։", True),
        ("Ո՞վ է նա։ Նա իմ եղբայրն է։", False),
        ("It is so;", False),
        ('"Who Moved My Cheese?"', True),
        ("„Ist es so?“", True),
        ("«Est-ce vrai\u202f?\u00a0»", True),
        ("**[Is it “so”?]**", True),
        ('Who wrote "Who Moved My Cheese"?', True),
        ('The book is called "Who Moved My Cheese?"', False),
        ("Der Film heißt „Was nun?“", False),
        ("He said (why?)", False),
        ("本の題は「なぜ？」", False),
        ("Is it? It is.", False),
        ("¿Es verdad", False),
        ("", False),
    ],
)
def test_questions_are_recognised_in_several_scripts(text: str, expected: bool) -> None:
    assert is_question(text) is expected
    assert (make_task(claim=text)["subject"] == "question") is expected


def test_invisible_characters_are_removed_from_claims_labels_and_options() -> None:
    assert check_claim("\ufeffIt is\u200b \u202eso\x00.\r\n") == "It is so."
    assert check_claim("\u200b" * 4000 + "It is so.") == "It is so."
    assert make_task(labels=["tr\u200bue", " false\x07"])["labels"] == ["true", "false"]
    assert make_task(labels={"tr\u200bue": "it\u202e is", "false": ""})["meanings"] == {"true": "it is"}
    assert make_task(options=["go\u200bld", "iron"])["meanings"] == {"A": "gold", "B": "iron"}
    for repeated in (["true", "tr\u200bue"], {"true": "", "tr\u200bue": ""}):
        with pytest.raises(UserError, match="are the same"):
            make_task(labels=repeated)
