"""A trial's verdict: the task's label for it, and how replies are parsed."""

from __future__ import annotations

import math
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.nodes._records.entries import Task
from moot.nodes._texts.task import FALSE, OPEN, TASKS, TRUE, make_task
from moot.nodes._trial.confidence import (
    QUALITIES,
    VERDICTS,
    Verdict,
)
from moot.nodes._trial.panel import answer_for, verdict_labels
from moot.nodes._trial.replies import (
    AdmissibilityReply,
    ConsistencyReply,
    CritiqueReply,
    JudgementReply,
    PremisesReply,
    ReflectionReply,
)
from pydantic import ValidationError

from tests.each import each
from tests.nodes.test_trial_panel import INC, NOT, SUP, scores_of

# --- labels ---------------------------------------------------------------------------------------------------------

FITTING: dict[str, tuple[str, str] | tuple[str, str, str]] = {
    "fever": ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO"),
    "feverous": ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO"),
    "faviq": ("SUPPORTS", "REFUTES"),
    "averitec": ("Supported", "Refuted", "Not Enough Evidence"),
    "hover": ("SUPPORTED", "NOT_SUPPORTED", "NOT_SUPPORTED"),  # NOT_SUPPORTED also covers undecided claims
    "scifact": ("SUPPORT", "CONTRADICT", "NOT ENOUGH INFO"),
    "check_covid": ("SUPPORT", "REFUTE", "NOTENOUGHINFO"),
    "check_covid_binary": ("SUPPORT", "REFUTE"),
    "healthver": ("Supports", "Refutes", "Neutral"),
    "healthver_binary": ("SUPPORT", "REFUTE"),
    "pubmedqa": ("yes", "no", "maybe"),
}


def labelled(*labels: str) -> dict[Verdict, str]:
    return dict(zip(VERDICTS, labels, strict=False))


def known_task(name: str) -> Task:
    """A task of this name, with options or labels if it needs them."""
    if TASKS[name].kind == "choice":
        return make_task(name, options=["yes", "no"])
    return make_task(name, labels=["cat", "dog"] if name == "labels" else None)


@each("name", TASKS)
def test_every_task_has_labels_for_verdicts_or_is_refused(name: str) -> None:
    if name in FITTING:
        assert verdict_labels(known_task(name)) == labelled(*FITTING[name])
        return
    with pytest.raises(UserError) as raised:
        verdict_labels(known_task(name))
    assert raised.value.kind == "unfit_task"
    assert repr(name) in raised.value.detail


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["true", "false"], ("true", "false")),
        (["False", "True", "Unknown"], ("True", "False", "Unknown")),
        (["Refuted", "not enough evidence", "supported"], ("supported", "Refuted", "not enough evidence")),
        (["NOT_SUPPORTED", "SUPPORTED"], ("SUPPORTED", "NOT_SUPPORTED")),
        (["Yes", "No", "Maybe"], ("Yes", "No", "Maybe")),
        (["supports", "contradicts", "unproven", "mixed"], ("supports", "contradicts", "unproven")),
        ({"ja": TRUE, "nein": FALSE, "offen": OPEN}, ("ja", "nein", "offen")),
    ],
)
def test_a_users_labels_are_recognised_by_spelling_or_meaning(labels: Any, expected: tuple[str, ...]) -> None:
    assert verdict_labels(make_task(labels=labels)) == labelled(*expected)


@pytest.mark.parametrize("labels", [["cat", "dog"], ["true", "supported", "false"], ["true", "unknown"]])
def test_labels_without_one_label_for_true_and_one_for_false_are_refused(labels: list[str]) -> None:
    with pytest.raises(UserError, match="verdict_labels"):
        verdict_labels(make_task(labels=labels))


def test_settings_choose_the_labels_of_verdicts() -> None:
    own = make_task(labels=["real", "fake", "who knows"])
    assert verdict_labels(own, labelled("real", "fake")) == labelled("real", "fake")
    assert verdict_labels(own, labelled("Fake", " REAL ", "who knows")) == labelled("fake", "real", "who knows")
    assert verdict_labels(make_task("averitec"), {INC: "Conflicting Evidence/Cherrypicking"}) == labelled(
        "Supported", "Refuted", "Conflicting Evidence/Cherrypicking"
    )
    assert verdict_labels(make_task("mmlu", options=["It does.", "It does not."]), labelled("A", "B")) == labelled(
        "A", "B"
    )


@pytest.mark.parametrize(
    "given_labels",
    [
        *[{SUP: "SUPPORTZ"}, {NOT: "no such"}, {INC: "unclear"}],
        *[{SUP: "REFUTES"}, labelled("REFUTES", "REFUTES")],
    ],
)
def test_a_label_from_settings_must_be_a_label_of_the_task_and_unique(given_labels: dict[Verdict, str]) -> None:
    with pytest.raises(UserError) as raised:
        verdict_labels(make_task("fever"), given_labels)
    assert raised.value.kind == "unfit_task"


@pytest.mark.parametrize(
    ("policy", "three", "two"),
    [
        (None, "NOT ENOUGH INFO", "SUPPORTS"),
        ("abstain", "NOT ENOUGH INFO", None),
        ("burden_of_refutation", "SUPPORTS", "SUPPORTS"),
    ],
)
def test_the_policy_decides_the_answer_for_an_inconclusive_verdict(
    policy: str | None, three: str, two: str | None
) -> None:
    for name, inconclusive in (("fever", three), ("faviq", two)):
        labels = verdict_labels(make_task(name))
        assert [answer_for(v, labels, policy) for v in VERDICTS] == ["SUPPORTS", "REFUTES", inconclusive]


# --- replies --------------------------------------------------------------------------------------------------------

JUDGED: dict[str, Any] = {"reason": "It is so.", **scores_of(7, 8, 9), "verdict": SUP}


@pytest.mark.parametrize(
    ("written", "verdict"),
    [
        *[(verdict, verdict) for verdict in VERDICTS],
        ("Not Supported", NOT),
        ("not_supported", NOT),
        ("NOT-SUPPORTED", NOT),
        ("not  supported.", NOT),
        ("**Supported**", SUP),
        ('"inconclusive"', INC),
        (" Inconclusive\n", INC),
    ],
)
def test_verdicts_are_parsed_in_other_spellings(written: str, verdict: Verdict) -> None:
    assert JudgementReply.model_validate(JUDGED | {"verdict": written}).verdict == verdict


@each(
    "written",
    [
        *[
            "",
            "   ",
            "unsupported",
            "un-supported",
            "isn't supported",
            "SUPPORTS",
            "REFUTED",
            "NOT",
            None,
            1,
            True,
            [SUP],
        ],
        *["SUPPORTED or NOT SUPPORTED", "SUPPORTED, not INCONCLUSIVE", "mostly supported", "not inconclusive"],
        *["0% SUPPORTED", "не SUPPORTED"],
    ],
)
def test_invalid_verdicts_are_refused(written: Any) -> None:
    with pytest.raises(ValidationError):
        JudgementReply.model_validate(JUDGED | {"verdict": written})


@each("score", [10.5, -1, "good", math.nan, math.inf, None])
@each("quality", QUALITIES)
def test_invalid_scores_are_refused(quality: str, score: Any) -> None:
    with pytest.raises(ValidationError):
        JudgementReply.model_validate(JUDGED | {quality: score})


def test_a_judgement_without_a_reason_is_refused() -> None:
    with pytest.raises(ValidationError):
        JudgementReply.model_validate(JUDGED | {"reason": " "})


def test_scores_at_their_limits_are_valid() -> None:
    for value in (0, 10):
        assert JudgementReply.model_validate(JUDGED | scores_of(value, value, value)).argument_validity == value
        ten = dict.fromkeys(("plaintiff_counsel", "defense_counsel", "overall"), value)
        assert ConsistencyReply.model_validate({"contradictions": [], **ten}).overall == value
    for value in (0, 1):
        weighed = {"reason": "", "relevance": value, "credibility": value}
        assert AdmissibilityReply.model_validate(weighed).credibility == value


REFLECTED: dict[str, Any] = dict.fromkeys(("logic", "novelty", "rebuttal"), 0.5)
REFLECTED |= {"flaws": [], "discovery_need": "", "refined_stance": ""}


@pytest.mark.parametrize("share", [-0.01, 1.01, 7, 85, math.nan, math.inf, None, "high"])
def test_values_other_than_numbers_from_0_to_1_are_refused(share: Any) -> None:
    for name in ("logic", "novelty", "rebuttal"):
        with pytest.raises(ValidationError):
            ReflectionReply.model_validate(REFLECTED | {name: share})
    for name in ("relevance", "credibility"):
        with pytest.raises(ValidationError):
            AdmissibilityReply.model_validate({"reason": "", "relevance": 1, "credibility": 1, name: share})


def test_empty_and_repeated_entries_are_left_out() -> None:
    assert PremisesReply.model_validate({"premises": [" Ice floats.", "", "It melts.", "Ice floats. "]}).premises == [
        "Ice floats.",
        "It melts.",
    ]
    assert ReflectionReply.model_validate(REFLECTED | {"flaws": [" ", "None cited.", ""]}).flaws == ["None cited."]
    side = {"reason": "", "logic": 0.5, "evidence": 0.5, "rebuttal": 0.5}
    advice = {"plaintiff": ["", "Cite."], "defense": [], "queries": ["ice", "ice "]}
    critique = {"plaintiff": side, "defense": side, "recommendations": advice, "debate_resolved": False}
    read = CritiqueReply.model_validate(critique | {"unresolved_premises": ["\n"]})
    assert read.unresolved_premises == []
    assert read.recommendations.model_dump() == {"plaintiff": ["Cite."], "defense": [], "queries": ["ice"]}


@pytest.mark.parametrize("premises", [[], [""], [" ", "\n"], None, "Ice floats."])
def test_premises_that_are_empty_or_no_list_are_refused(premises: Any) -> None:
    with pytest.raises(ValidationError):
        PremisesReply.model_validate({"premises": premises})
