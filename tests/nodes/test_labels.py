"""Labels are read alike: a form of answer that is read for one label of a task is read for all of its labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st
from moot.nodes._records.entries import Task
from moot.nodes._texts.answers import read_answer
from moot.nodes._texts.labels import CONFLICTING, FALSE, MAYBE, NO, NOT_TRUE, OPEN, TRUE, WITHOUT_EVIDENCE, YES
from moot.nodes._texts.task import TASKS, make_task

from tests.each import each

IT_IS_TRUE = ("the claim is true", "true", "it is correct", "this statement is not false", "the evidence confirms it")
IT_IS_FALSE = ("the claim is false", "false", "it is incorrect", "this statement is not true", "no, the claim is false")
IT_IS_OPEN = (
    *("nothing settles the claim", "unclear", "it cannot be determined", "insufficient information to decide"),
    *("the evidence neither supports nor refutes the claim", "the claim is neither true nor false"),
)
IT_IS_MIXED = ("some evidence supports the claim, and some refutes it", "some evidence supports it but some refutes it")
SAYINGS: Mapping[str, Sequence[str]] = (
    dict.fromkeys((TRUE, YES), IT_IS_TRUE)
    | dict.fromkeys((FALSE, NO, NOT_TRUE), IT_IS_FALSE)
    | dict.fromkeys((OPEN, MAYBE), IT_IS_OPEN)
    | {CONFLICTING: IT_IS_MIXED}
)
"""For each meaning of a label, other words that say the same."""
OWN = [
    *(["true", "false", "unproven"], ["Yes", "No"], ["Real", "Fake"], ["correct", "incorrect", "unclear"]),
    ["mostly true", "mostly false"],
]
MEANT = {"T": TRUE, "bogus": FALSE, "Don't know": OPEN}
"""Labels of a user; `MEANT` maps labels to their meanings."""
NAMED = [
    *(make_task(name) for name, known in TASKS.items() if known.labels),
    *(make_task(labels=labels) for labels in OWN),
    make_task(labels=MEANT),
    *(make_task(options=options) for options in (["Yes", "No"], ["True", "False", "Not enough information"])),
]
AFTER = [
    *("{label} - {words}", "{label}: {words}", "{label} ({words})", "{label}, because {words}", "{label}. {words}."),
    *("**{label}** — {words}", "Answer: {label}\nReason: {words}", "{label} - {words}, as the record of 1648 says"),
]
BEFORE = [
    *("{words} - {label}", "{words}: {label}", "{words}. {label}", "{words}, so **{label}**.", "{words} ({label})"),
    *("{words}. Verdict: {label}", "{words}. \\boxed{{{label}}}", "{words}\n\n{label}"),
]


def sayings(task: Task, place: int) -> Sequence[str]:
    """Words that say what the label at this place says; labels without a meaning are in the order of `SAYINGS`."""
    meaning = task["meanings"].get(task["labels"][place], "")
    return (*SAYINGS.get(meaning, (IT_IS_TRUE, IT_IS_FALSE, IT_IS_OPEN)[min(place, 2)]), *([meaning] * bool(meaning)))


@given(st.data())
def test_a_label_is_read_beside_its_meaning(data: st.DataObject) -> None:
    """So is every other spelling of the label, in any case. With the meaning of another label, no label is read."""
    task = data.draw(st.sampled_from(NAMED))
    place, other = data.draw(st.permutations(range(len(task["labels"]))))[:2]
    label = task["labels"][place]
    names = [label, label.upper(), label.lower(), *(text for text, of in task["spellings"].items() if of == label)]
    name, form = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(AFTER + BEFORE))
    words = data.draw(st.sampled_from(sayings(task, place)))
    words = data.draw(st.sampled_from([words, words.capitalize(), WITHOUT_EVIDENCE.get(words, words)]))
    assert read_answer(task, form.format(label=name, words=words)) == label
    against = data.draw(st.sampled_from(sayings(task, other)))
    assert read_answer(task, form.format(label=name, words=against)) is None


FORMS = [
    *("{}", "{}.", "**{}**", '"{}"', "<answer>{}</answer>", "The answer is {}", "{}: {}", "{} - {}", "{} ({})", "[{}]"),
    *("{}, because the record says so", "{} - the treaty was signed in 1648", "{}\n\nThe treaty was signed in 1648."),
    *("{}: that is right", "{}: the date is right", "{}. The date is accurate", "{}; it is {}", "{}\nConfidence: 0.9"),
    *("{}. None of the passages disagrees.", "{}. There was no significant difference.", "{} - with no exception"),
    *("It was not signed in 1648. \\boxed{{{}}}", "It was signed in 1648, so \\boxed{{{}}}", "{}: there is no doubt"),
]
REFUSED = [
    *("It is not {}", "not: {}", "never {}", "{} is wrong", "{}: wrong", "{}, which is wrong", "{} - not at all"),
    *("{}? no", "{}: the date is wrong", "{}: hardly", "{}, I think not", "{} - in no way", "I reject {}", "{}?"),
    *("{}. Actually, I take that back.", "{}, said the other debater, but I disagree", "~~{}~~", "Is it {}?"),
    *('The other debater says "{}"', '"{}", says the other', "> {}\n\nI disagree", "Some say {}", "Nobody says: {}"),
    *("It is not \\boxed{{{}}}", "\\boxed{{{}}} is wrong", "{} - but only if the date is right", "Not so: {}"),
]
TWO = ["{} or {}", "{}/{}", "{}, {}", "{} and {}", "{}\n{}", "{} - {}", "{}: {}", "{} ({})", "{}. So {}"]
EVERY = [
    *(*NAMED, make_task(labels=["Wahr", "Falsch"]), make_task(labels=["1", "0"])),
    make_task(labels={"good": "well founded", "poor": "not well founded"}),
    make_task(options=["iron", "gold", "No metal"]),
]
"""`NAMED`, and tasks whose labels have meanings that moot does not know."""


@each("task", EVERY)
def test_other_words_are_read_alike_for_all_labels(task: Task) -> None:
    labels = task["labels"]
    assert {f: [read_answer(task, f.format(x, x)) for x in labels] for f in FORMS} == dict.fromkeys(FORMS, labels)
    assert {f: {read_answer(task, f.format(x)) for x in labels} for f in REFUSED} == {f: {None} for f in REFUSED}
    pairs = [(one, two) for one in labels for two in labels if one != two]
    assert {f: {read_answer(task, f.format(*pair)) for pair in pairs} for f in TWO} == {f: {None} for f in TWO}


OTHER_WORDS = ["the record", "says so", "in 1648", "because", ",", ". ", "- ", "\n"]


@given(st.sampled_from(EVERY), st.lists(st.sampled_from(OTHER_WORDS)))
def test_words_about_something_else_are_read_alike(task: Task, words: list[str]) -> None:
    for form in ("{} {}", "{} - {}", "{}: {}", "{}. {}"):
        read = {label: read_answer(task, form.format(label, " ".join(words))) for label in task["labels"]}
        assert read in ({label: label for label in task["labels"]}, dict.fromkeys(task["labels"]))


SAID = {
    "true": [
        *("True", "true.", "It is true", "The claim is true.", "The evidence supports the claim", "It is correct."),
        *(
            "The claim is clearly supported by the evidence.",
            "Based on these passages, the claim is true",
            "\\boxed{True}",
        ),
    ],
    "false": [
        *("False", "false.", "It is false", "The claim is false.", "The evidence refutes the claim", "It is wrong."),
        *(
            "The claim is clearly refuted by the evidence.",
            "Based on these passages, the claim is false",
            "\\boxed{False}",
        ),
    ],
    "open": [
        *("Unknown", "Unverifiable.", "Cannot be determined", "Insufficient evidence", "NEI", "NEE", "Uncertain"),
        *("The evidence neither supports nor refutes the claim.", "It is unclear whether the claim is true"),
        *("There is not enough evidence to decide", "There is not enough evidence to support or refute the claim."),
    ],
    "mixed": [
        *("Conflicting", "Conflicting evidence", "Mixed", "The evidence is conflicting.", "**Mixed evidence**"),
        *("The evidence both supports and refutes the claim", "Some evidence refutes it, but some supports it."),
    ],
}
"""Whole texts that say the sense of a label, without the label."""
UNSAID = [
    "Is it {}",
    "{}?",
    "not {}",
    "It may be {}",
    "It is mostly {}",
    "{} - not at all",
    "Nobody says it is {}",
    "~~{}~~",
]
SENSE_OF = {TRUE: "true", YES: "true", FALSE: "false", NO: "false", NOT_TRUE: "false", OPEN: "open", MAYBE: "open"}
SENSE_OF |= {CONFLICTING: "mixed"}


def by_sense(task: Task) -> dict[str, str]:
    """The task's labels by their senses; those without a known meaning are in the order true, false, open."""
    senses = [SENSE_OF.get(task["meanings"].get(label, "")) for label in task["labels"]]
    found = {sense or list(SAID)[n]: label for n, (sense, label) in enumerate(zip(senses, task["labels"], strict=True))}
    # NOT_TRUE also says that the claim may be open.
    return found | ({"open": found["false"]} if NOT_TRUE in task["meanings"].values() else {})


@each("task", [task for task in NAMED if task["labels"] != ["mostly true", "mostly false"]])
def test_a_label_is_read_from_a_text_that_says_what_it_means(task: Task) -> None:
    """Without a label of that meaning, nothing is read. A text that asks, denies or doubts says nothing."""
    labels = by_sense(task)
    for sense, texts in SAID.items():
        assert {t: read_answer(task, t) for t in texts} == dict.fromkeys(texts, labels.get(sense)), sense
    assert {f: {read_answer(task, f.format(word)) for word in ("true", "false")} for f in UNSAID} == {
        f: {None} for f in UNSAID
    }


DENIALS = {
    "true": [
        *("The evidence does not support the claim", "nothing supports it", "it supports nothing"),
        *("No source confirms it", "The evidence fails to support it", "It is not supported by any evidence"),
    ],
    "false": [
        *("The evidence does not refute the claim", "nothing contradicts it", "it refutes nothing"),
        *("No source contradicts it", "The evidence fails to refute it", "It is not refuted by any evidence"),
    ],
}


@each("task", NAMED)
def test_a_denial_of_another_meaning_agrees_and_of_the_own_does_not(task: Task) -> None:
    labels = by_sense(task)
    for sense, texts in DENIALS.items():
        for form in ("{}. {}.", "{} - {}", "{}: {}", "{}, because {}", "{}\nReason: {}"):
            for words in texts:
                read = {label: read_answer(task, form.format(label, words)) for label in task["labels"]}
                own = labels[sense]
                assert read == {label: None if label == own else label for label in read}, (form, words)


FINAL = [
    "Answer: {}",
    "ANSWER: {}",
    "**Final answer:** {}",
    "The answer is {}.",
    "So the answer is **{}**",
    "Label: {}",
]


@each("task", EVERY)
def test_the_only_line_that_is_marked_as_the_answer_decides(task: Task) -> None:
    labels = task["labels"]
    others = dict(zip(labels, labels[1:] + labels[:1], strict=True))
    for form in FINAL:
        for before in ("Let me think.\n{other} is wrong, because...\n", "{label}: first\n{other}: second\n", "So.\n\n"):
            texts = [before.format(label=x, other=others[x]) + form.format(x) for x in labels]
            assert [read_answer(task, text) for text in texts] == labels, (form, before)
        for before in ("{other}\n", "Answer: {other}\n", "The other debater says:\n", "So.\nLabel: {other}\n"):
            texts = [before.format(other=others[x]) + form.format(x) for x in labels]
            assert {read_answer(task, text) for text in texts} == {None}, (form, before)
        assert {read_answer(task, f"So.\n{form.format(wrong)}") for wrong in ("none of them", "?", "not")} == {None}


NUMBERS = ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
CHOICES = [
    make_task(options=NUMBERS),
    make_task(options=["Yes", "No"]),
    make_task(options=["iron", "gold", "No metal"]),
]
STATED = [
    *("It is {}.", "It's {}", "I'd go with {}", "I’d choose {}.", "I think it is {}", "I believe the answer is {}"),
    *(
        "Option {} is correct",
        "{} is correct.",
        "{} is the best answer",
        "A good answer would be {}",
        "I'm going with {}",
    ),
    *(
        "{} is the correct answer because {other} is not possible",
        "{}, because {other} is wrong",
    ),
    *("{}\n\nExplanation: it fits, unlike option {other}", "{}. {other} isn't possible", "The best option is {}"),
]
NOT_STATED = [
    *(
        "It is not {}",
        "I don't think it is {}",
        "Is it {}?",
        "It is {} or {other}",
        "{} is correct and {other} is correct",
    ),
    *(
        "It could be {}",
        "{} is the correct answer? No",
        "{} is not correct",
        "Some say it is {}",
        "{}. {other} is right",
    ),
    *(
        "{}, because {} is wrong",
        "{} and {other} are wrong",
        "{} is the best answer but {other} is good",
        "{} (not {other})",
    ),
    *("The answer is {}\nThe answer is {other}", "It is {}?", "{}. {} isn't possible", "I used to think it is {}"),
]


@each("task", CHOICES)
def test_a_letter_is_read_from_a_sentence_that_states_it(task: Task) -> None:
    """Even "A" and "I", which are also words."""
    pairs = [(x, other) for x in task["labels"] for other in task["labels"] if x != other]
    for form in STATED:
        assert [(x, o) for x, o in pairs if read_answer(task, form.format(x, other=o)) != x] == [], form
    for form in NOT_STATED:
        assert [(x, o) for x, o in pairs if read_answer(task, form.format(x, x, other=o))] == [], form
    for words in ("A drug is it", "It is a drug", "I think so", "I choose a drug", "I am sure", "A or I"):
        assert read_answer(task, words) is None


def test_a_denial_of_the_own_meaning_is_refused() -> None:
    task = make_task("fever")
    for one, two in permutations(task["labels"], 2):
        assert {read_answer(task, f"{one}{link} {two}") for link in (", not", " - not", ". No,", ": no")} == {None}
    for label, words in {"SUPPORTS": "does not support it", "REFUTES": "does not refute it"}.items():
        assert read_answer(task, f"{label}. The evidence {words}.") is None
    for label, words in {"SUPPORTS": "is true", "REFUTES": "is false"}.items():
        assert read_answer(task, f"{label}. The evidence does not show that the claim {words}.") is None
        assert read_answer(task, f"NOT ENOUGH INFO. The evidence does not show that the claim {words}.")
