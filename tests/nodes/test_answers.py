"""Parsing and comparing answers: hard cases of labels, options, numbers, short answers, expressions, abstentions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.nodes._records.entries import Task
from moot.nodes._texts.answers import (
    ABSTENTION,
    UNITS,
    normal_expression,
    normal_text,
    read_answer,
    read_number,
    same_answer,
    show_number,
    surely_differ,
)
from moot.nodes._texts.task import TASKS, make_task

from tests.each import each

OPTIONS = ["Aspirin", "A loop diuretic", "Vitamin B", "Not enough information", "B"]


def task_of(name: str) -> Task:
    """A predefined task. Tasks of choice get `OPTIONS`, and the task ``labels`` gets three labels."""
    if TASKS[name].kind == "choice":
        return make_task(name, options=OPTIONS)
    return make_task(name, labels=["true", "false", "mostly true"] if name == "labels" else None)


HARD = [
    # a label in a known spelling, in any case, with or without punctuation, Markdown and words around it
    ("fever", "SUPPORTS", "SUPPORTS"),
    ("fever", " supports.\n", "SUPPORTS"),
    ("fever", "**Supported**", "SUPPORTS"),
    ("fever", "`REFUTES`", "REFUTES"),
    ("fever", "# REFUTED", "REFUTES"),
    ("fever", '"NOT ENOUGH INFO"', "NOT ENOUGH INFO"),
    ("fever", "not_enough_information", "NOT ENOUGH INFO"),
    ("fever", "NEI", "NOT ENOUGH INFO"),
    ("fever", "ＳＵＰＰＯＲＴＳ", "SUPPORTS"),
    ("fever", "Answer: SUPPORTS", "SUPPORTS"),
    ("fever", "**Answer:** REFUTES", "REFUTES"),
    ("fever", "The final verdict is: **refutes**.", "REFUTES"),
    ("fever", "The claim is supported.", "SUPPORTS"),
    ("fever", "<answer>SUPPORTS</answer>", "SUPPORTS"),
    ("fever", "\\boxed{SUPPORTS}", "SUPPORTS"),
    ("fever", "contradicts", "REFUTES"),
    # a label before an explanation
    ("fever", "SUPPORTS, because the record says so", "SUPPORTS"),
    ("fever", "SUPPORTS - the record says so", "SUPPORTS"),
    ("fever", "REFUTES\n\nThe treaty was signed in 1648.", "REFUTES"),
    ("fever", "Not enough info. None of the passages names the year.", "NOT ENOUGH INFO"),
    # a label that is denied or doubted
    ("fever", "not supported", None),
    ("fever", "NOT SUPPORTS", None),
    ("fever", "The claim is not supported.", None),
    ("fever", "unsupported", None),
    ("fever", "does not support", None),
    ("fever", "doesn't refute", None),
    ("fever", "SUPPORTS? No.", None),
    ("fever", "SUPPORTS: not at all", None),
    ("fever", "SUPPORTS is wrong", None),
    ("fever", "It is not \\boxed{SUPPORTS}", None),
    ("fever", "\\boxed{SUPPORTS} is wrong", None),
    ("fever", "<del>SUPPORTS</del>", None),
    ("fever", "<think>SUPPORTS</think>", None),
    ("fever", "SUPPORTS, said the other debater, but I disagree", None),
    ("fever", "> SUPPORTS\n\nI disagree with this quote.", None),
    ("fever", "Supports: hardly", None),
    ("fever", "SUPPORTS. Actually, I take that back.", None),
    ("fever", "SUPPORTS, I do not think so", None),
    ("fever", "SUPPORTS - but only if the date is wrong", None),
    ("fever", "Supported by no evidence", None),
    ("fever", "never refuted", None),
    ("fever", "enough info", None),
    ("fever", "~~SUPPORTS~~", None),
    # two labels in one text
    ("fever", "SUPPORTS or REFUTES", None),
    ("fever", "SUPPORTS/REFUTES", None),
    ("fever", "SUPPORTS, REFUTES", None),
    ("fever", "SUPPORTS. The evidence in some way refutes it.", None),
    ("fever", "~~SUPPORTS~~ REFUTES", None),
    ("fever", "SUPPORTS\nREFUTES", None),
    ("fever", "Either SUPPORTS or NOT ENOUGH INFO", None),
    # a label inside a quote or as part of a sentence or word, or no label at all
    ("fever", 'The other debater says "SUPPORTS"', None),
    ("fever", '"SUPPORTS", says the other debater', None),
    ("fever", "The museum supports young artists", None),
    ("fever", "Supportive", None),
    ("fever", "mostly true", None),
    ("fever", "", None),
    ("fever", "**", None),
    # labels of other benchmarks
    ("feverous", "supports", "SUPPORTS"),
    ("feverous", "NOT ENOUGH INFO", "NOT ENOUGH INFO"),
    ("faviq", "refutes", "REFUTES"),
    ("faviq", "NOT ENOUGH INFO", None),
    ("averitec", "supported", "Supported"),
    ("averitec", "REFUTED", "Refuted"),
    ("averitec", "Not Enough Evidence", "Not Enough Evidence"),
    ("averitec", "not enough information", "Not Enough Evidence"),
    ("averitec", "Conflicting Evidence/Cherrypicking", "Conflicting Evidence/Cherrypicking"),
    ("averitec", "conflicting evidence", "Conflicting Evidence/Cherrypicking"),
    ("averitec", "Conflicting Evidence / Cherry-picking", "Conflicting Evidence/Cherrypicking"),
    ("averitec", "Cherrypicking: the speech leaves out the second half.", "Conflicting Evidence/Cherrypicking"),
    ("averitec", "Not Enough Evidence/Conflicting Evidence", None),
    ("pubmedqa", "Yes.", "yes"),
    ("pubmedqa", "no", "no"),
    ("pubmedqa", "**Maybe**", "maybe"),
    ("pubmedqa", "yes and no", None),
    ("pubmedqa", "Yes, no", None),
    ("pubmedqa", "not yes", None),
    ("pubmedqa", "Yes, the trial shows an effect.", "yes"),
    ("pubmedqa", "No: the groups did not differ.", "no"),
    ("pubmedqa", "None", None),
    ("pubmedqa", "yesterday", None),
    ("check_covid", "SUPPORT", "SUPPORT"),
    ("check_covid", "refutes", "REFUTE"),
    ("check_covid", "NOTENOUGHINFO", "NOTENOUGHINFO"),
    ("check_covid", "not enough info", "NOTENOUGHINFO"),
    ("check_covid_binary", "NOTENOUGHINFO", None),
    ("healthver", "Neutral", "Neutral"),
    ("healthver", "supports", "Supports"),
    ("healthver", "not neutral", None),
    ("scifact", "CONTRADICT", "CONTRADICT"),
    ("scifact", "contradicts", "CONTRADICT"),
    ("scifact", "REFUTES", "CONTRADICT"),
    ("scifact", "not contradicted", None),
    ("hover", "SUPPORTED", "SUPPORTED"),
    ("hover", "NOT_SUPPORTED", "NOT_SUPPORTED"),
    ("hover", "not supported", "NOT_SUPPORTED"),
    ("hover", "Not supported: two of the facts are missing.", "NOT_SUPPORTED"),
    ("hover", "The claim is not supported.", "NOT_SUPPORTED"),
    ("hover", "SUPPORTED, not supported", None),
    # labels that a user has set
    ("labels", "TRUE", "true"),
    ("labels", "mostly true", "mostly true"),
    ("labels", "Mostly true: one figure is off.", "mostly true"),
    ("labels", "half true", None),
    ("labels", "true false", None),
    # options, by letter or by text
    ("choice", "B", "B"),
    ("choice", "b", "B"),
    ("choice", "(C)", "C"),
    ("choice", "C)", "C"),
    ("choice", "C. Vitamin B", "C"),
    ("choice", "Option B", "B"),
    ("choice", "The answer is (A)", "A"),
    ("choice", "The answer is option D.", "D"),
    ("choice", "aspirin", "A"),
    ("choice", "A loop diuretic", "B"),
    ("choice", "$\\boxed{D}$", "D"),
    ("choice", "A: Vitamin B", None),
    ("choice", "A or B", None),
    ("choice", "A, B", None),
    ("choice", "A and B", None),
    ("choice", "A drug", None),
    ("choice", "F", None),
    ("choice", "Not A", None),
    ("choice", "A, not B", None),
    ("choice", "B. It acts on the loop; I would not give another drug.", "B"),
    ("choice", "B, since (C) is a vitamin", None),
    ("choice", "Vitamin C", None),
]


@each(("name", "text", "label"), HARD)
def test_labels_and_options_are_parsed_only_if_they_are_clear(name: str, text: str, label: str | None) -> None:
    assert read_answer(task_of(name), text) == label


def test_every_spelling_of_a_tasks_label_parses_as_the_label() -> None:
    for name, known in TASKS.items():
        for label, _, other_spellings in known.labels:
            for text in (label, label.lower(), label.upper(), f"**{label}**.", *other_spellings):
                assert read_answer(task_of(name), text) == label, (name, text)


@each(
    ("options", "text", "letter"),
    [
        (["-0.5", "0.5", "5", "50"], "-0.5", "A"),
        (["-0.5", "0.5", "5", "50"], "0.5", "B"),
        (["-0.5", "0.5", "5", "50"], "-5", None),
        (["-0.5", "0.5", "5", "50"], "-50", None),
        (["1", "2", "3", "4"], "-1", None),
        (["-5", "5", "10", "7"], "A: 5", None),
        (["-5", "5", "10", "7"], "B: 5", "B"),
        (["(0, 1)", "[0, 1]"], "[0, 1]", "B"),
        (["(0, 1)", "[0, 1]"], "B. (0, 1)", None),
        (["C", "C++", "C#"], "C++", "B"),
        (["No treatment is needed", "Surgery"], "A. No treatment is needed because he is well", "A"),
        (["same", "same", "other"], "same", None),
        (["same", "same", "other"], "B", "B"),
    ],
)
def test_similar_options_are_distinguished(options: list[str], text: str, letter: str | None) -> None:
    assert read_answer(make_task(options=options), text) == letter


@each(
    ("text", "value"),
    [
        ("1,860", 1860),
        ("1860", 1860),
        ("$1860", 1860),
        ("-$5", -5),
        ("$-5", -5),
        ("−5", -5),
        ("0.5", Fraction(1, 2)),
        ("1/2", Fraction(1, 2)),
        ("½", Fraction(1, 2)),
        ("1½", Fraction(3, 2)),
        ("1 1/2", Fraction(3, 2)),
        ("\\frac{1}{2}", Fraction(1, 2)),
        ("$\\dfrac12$", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("1.50", Fraction(3, 2)),
        ("1e3", 1000),
        ("2.5 million", 2500000),
        ("18 dollars", 18),
        ("18cm", 18),
        ("50%", 50),
        ("**18**", 18),
        ("#### 18", 18),
        ("9 + 9 = 18", 18),
        ("x = 18", 18),
        ("She earns 9 * 2 dollars.\n#### 18", 18),
        ("The answer is 18.", 18),
        ("So the answer to the question is 18.", 18),
        ("Answer: $1,860.00 per month", 1860),
        ("\\boxed{1,860}", 1860),
        ("٣", 3),
        ("1,86", None),
        ("1.860,00", None),
        ("12,3456", None),
        ("3-5", None),
        ("3 to 5", None),
        ("between 3 and 5", None),
        ("about 18", None),
        ("not 18", None),
        ("18 or 19", None),
        ("18 of 20", None),
        ("2024-05-01", None),
        ("3:30", None),
        ("1/0", None),
        ("1/2/3", None),
        ("5^2", None),
        ("eighteen", None),
        ("18?", None),
        ("2\\frac{1}{2}", Fraction(5, 2)),
        ("not \\boxed{5}", None),
        ("I first got \\boxed{5}, but it is 6", None),
        ("x != 5", None),
        ("x >= 5", None),
        ("x=5, y=6", None),
        ("\\sqrt{16}", None),
        ("√16", None),
        ("5!", None),
        ("2π", None),
        ("16x", None),
        ("x^2", None),
        ("5 is wrong", None),
        ("probably 5", None),
        ("3.14...", None),
        ("negative 5", None),
        ("x=3 or x=4", None),
        ("3 dozen", None),
        ("over 18", None),
        ("at least 18", None),
        ("18+", None),
        ("5k", None),
        ("minus 3", None),
        ("", None),
        ("NaN", None),
        ("inf", None),
        ("1e999999999", None),
        ("9" * 41, None),
        ("--5", None),
    ],
)
def test_numbers_are_parsed_only_if_they_are_clear(text: str, value: Fraction | None) -> None:
    assert read_number(text) == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Fraction(1860), "1860"),
        (Fraction(1, 2), "0.5"),
        (Fraction(-1, 8), "-0.125"),
        (Fraction(1, 3), "1/3"),
        (Fraction(-22, 7), "-22/7"),
        (Fraction(3, 20), "0.15"),
        (Fraction(1001, 1000), "1.001"),
        (Fraction(0), "0"),
        (Fraction(10**30), "1" + "0" * 30),
    ],
)
def test_the_canonical_spelling_of_a_number_parses_as_the_number(value: Fraction, shown: str) -> None:
    assert show_number(value) == shown
    assert read_number(shown) == value


@each(
    ("one", "other", "same"),
    [
        ("Paris", "paris.", True),
        ("The Beatles", "Beatles", True),
        ("Zürich", "Zurich", True),
        ("O'Neill", "ONeill", True),
        ("St. Louis", "St Louis", True),
        ("The The", "the the", True),
        ("Paris", "Paris, Texas", False),
        ("1912", "1921", False),
        ("東京", "京都", False),
        ("C", "C++", False),
        ("C++", "C#", False),
        ("-5", "5", False),
        ("1.5", "1 5", False),
        ("$5", "5%", False),
        ("Hepatitis A", "Hepatitis", False),
        ("が", "か", False),
        ("New-York", "New York", False),
        ("?", "!", False),
    ],
)
def test_equal_short_answers_are_recognised(one: str, other: str, same: bool) -> None:
    assert same_answer(make_task("short_answer"), one, other) is same
    assert (normal_text(one) == normal_text(other)) is same


@each(
    ("text", "answer"),
    [
        ("Paris", "Paris"),
        ("**Paris**", "Paris"),
        ("Answer: Paris", "Paris"),
        ("The answer is Paris.", "Paris."),
        ("The answer to this question is: Paris", "Paris"),
        ("The Result of Love", "The Result of Love"),
        ("Choice: A Memoir", "Choice: A Memoir"),
        ("???", None),
        (" ", None),
        ("I don’t know.", None),
        ("N/A", None),
        ("\\boxed{Paris}", "Paris"),
        ('{"answer": "Paris"}', None),
        ("x" * 501, None),
    ],
)
def test_short_answers_are_parsed_or_refused(text: str, answer: str | None) -> None:
    assert read_answer(make_task("short_answer"), text) == answer


@each(
    ("one", "other", "same"),
    [
        ("\\frac{1}{2}", "\\dfrac12", True),
        ("\\frac{1}{2}", "0.5", True),
        ("1/2", "$\\frac{1}{2}$", True),
        ("\\boxed{x^2 + 1}", "x^2+1", True),
        ("\\left( 3, \\frac{\\pi}{2} \\right)", "(3,\\frac{\\pi}{2})", True),
        ("90^\\circ", "90", True),
        ("x = 5", "5", True),
        ("\\sqrt3", "\\sqrt{3}", True),
        ("12\\text{ cm}", "12cm", True),
        ("1,000", "1000", True),
        ("\\$10", "10", True),
        ("x+1", "x-1", False),
        ("\\frac{1}{2}", "\\frac{2}{1}", False),
        ("(1,2)", "(2,1)", False),
        ("(1,234)", "1234", False),
        ("x", "X", False),
        ("1\\ 2", "12", False),
    ],
)
def test_equal_expressions_are_recognised(one: str, other: str, same: bool) -> None:
    assert same_answer(make_task("math"), one, other) is same
    assert (normal_expression(one) == normal_expression(other)) is same


@each(
    ("one", "other", "same"),
    [
        ("212 km", "212 miles", False),
        ("212 km", "212 kilometres", True),
        ("212 km", "212.0 Kilometers.", True),
        ("212 km", "213 km", False),
        ("212 km", "212", True),
        ("1,000", "1000", True),
        ("$5", "5 dollars", True),
        ("5 euros", "€5", True),
        ("5 euros", "5 dollars", False),
        ("18 dollars per day", "$18", True),
        ("18 dollars per day", "18 dollars a week", False),
        ("60 mph", "60 km/h", False),
        ("60 mph", "60 miles per hour", True),
        ("5 pounds per inch", "5 pounds per foot", False),
        ("30 °C", "30 °F", False),
        ("18 eggs", "18 ducks", True),
        ("50%", "50", True),
    ],
)
def test_numbers_are_equal_unless_their_values_or_known_units_differ(one: str, other: str, same: bool) -> None:
    task = make_task("number")
    first, second = (read_answer(task, text) for text in (one, other))
    assert first
    assert second
    assert same_answer(task, first, second) is same
    assert same_answer(task, second, first) is same


values = st.fractions(min_value=-(10**6), max_value=10**6, max_denominator=40)
units = st.sampled_from(["", *sorted(UNITS)])


@given(values, units, values, units)
def test_numbers_are_compared_by_value_and_unit(
    value: Fraction, unit: str, other_value: Fraction, other_unit: str
) -> None:
    """A number without a unit matches every unit. The canonical spelling of a number parses as itself."""
    task = make_task("number")
    one, two = (read_answer(task, f"{show_number(v)} {u}") for v, u in ((value, unit), (other_value, other_unit)))
    assert one
    assert two
    assert read_number(one) == value
    assert read_answer(task, one) == one
    assert same_answer(task, one, one)
    assert same_answer(task, one, two) is same_answer(task, two, one)
    units_match = not unit or not other_unit or UNITS[unit] == UNITS[other_unit]
    assert same_answer(task, one, two) is (value == other_value and units_match)
    if value == other_value and not units_match:
        assert surely_differ(one, two)


@each(
    ("text", "if_offered", "otherwise"),
    [
        ("(the evidence does not tell)", ABSTENTION, ABSTENTION),
        ("**The evidence does not tell.**", ABSTENTION, ABSTENTION),
        ("Answer: (the evidence does not tell)", ABSTENTION, ABSTENTION),
        ("I don’t know.", ABSTENTION, None),
        ("Not enough information", ABSTENTION, "Not enough information"),
        ("The passages do not say", ABSTENTION, "The passages do not say"),
        ("Not stated.", ABSTENTION, "Not stated."),
        ("not stated in the evidence", ABSTENTION, "not stated in the evidence"),
        ("It is not specified", ABSTENTION, "It is not specified"),
        ("not given by the texts", ABSTENTION, "not given by the texts"),
        ("Not mentioned", ABSTENTION, "Not mentioned"),
        ("cannot be determined from the evidence", ABSTENTION, "cannot be determined from the evidence"),
        ("Cannot be determined", ABSTENTION, None),
        ("Not enough information in the evidence", ABSTENTION, "Not enough information in the evidence"),
        ("Not given a name in the evidence", "Not given a name in the evidence", "Not given a name in the evidence"),
        ("null", None, None),
        ("The evidence does not tell lies", "The evidence does not tell lies", "The evidence does not tell lies"),
        ("", None, None),
    ],
)
def test_an_offered_abstention_may_have_other_wordings(
    text: str, if_offered: str | None, otherwise: str | None
) -> None:
    """``if_offered`` is the answer if the prompt offered an abstention. ``otherwise`` is the answer if it did not."""
    task = make_task("short_answer")
    assert read_answer(task, text, may_abstain=True) == if_offered
    assert read_answer(task, text) == otherwise
    assert read_answer(make_task("number"), text) is None
    assert (read_answer(make_task("number"), text, may_abstain=True) == ABSTENTION) == (if_offered == ABSTENTION)
    hover = make_task("hover")  # "cannot be determined" may also mean its label NOT_SUPPORTED
    assert (read_answer(hover, text, may_abstain=True) == ABSTENTION) == (if_offered == ABSTENTION)
