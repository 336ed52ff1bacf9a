"""The labels that stand for the verdicts of a trial, and the parsing of the replies in a trial."""

from __future__ import annotations

import math
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.nodes._records.entries import Task
from moot.nodes._texts.labels import FALSE, OPEN, TRUE
from moot.nodes._texts.task import TASKS, make_task
from moot.nodes._trial.confidence import QUALITIES, VERDICTS, Verdict
from moot.nodes._trial.critique import CritiqueReply, ReflectionReply
from moot.nodes._trial.negotiation import AdmissibilityReply, PremisesReply
from moot.nodes._trial.panel import JudgementReply, answer_for, verdict_labels
from pydantic import ValidationError

from tests.each import each
from tests.nodes.test_trial_panel import INC, NOT, SUP, judge_scores

# --- labels ---------------------------------------------------------------------------------------------------------

# For each task whose labels fit the verdicts: the labels for SUPPORTED, NOT SUPPORTED and, if any, INCONCLUSIVE.
LABELS_BY_TASK: dict[str, tuple[str, str] | tuple[str, str, str]] = {
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
    "llm_aggrefact": ("SUPPORTED", "NOT_SUPPORTED", "NOT_SUPPORTED"),
    "quantemp": ("True", "False"),
    "claimreview2024plus": ("supported", "refuted", "not enough information"),
    "veritas": ("Intact", "Compromised", "Unknown"),
}


def by_verdict(*labels: str) -> dict[Verdict, str]:
    """The labels by verdict. The arguments are in the order of `VERDICTS`."""
    return dict(zip(VERDICTS, labels, strict=False))


def known_task(name: str) -> Task:
    """A task with this name, and with options or labels if every task of this name needs them."""
    if TASKS[name].kind == "choice":
        return make_task(name, options=["yes", "no"])
    return make_task(name, labels=["cat", "dog"] if name == "labels" else None)


@each("name", TASKS)
def test_a_task_without_labels_for_verdicts_is_refused(name: str) -> None:
    """Every other task has the expected labels."""
    if name in LABELS_BY_TASK:
        assert verdict_labels(known_task(name)) == by_verdict(*LABELS_BY_TASK[name])
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
        (["true", "false", "unclear"], ("true", "false", "unclear")),
        ({"ja": TRUE, "nein": FALSE, "offen": OPEN}, ("ja", "nein", "offen")),
    ],
)
def test_custom_labels_are_recognised_by_spelling_or_meaning(labels: Any, expected: tuple[str, ...]) -> None:
    assert verdict_labels(make_task(labels=labels)) == by_verdict(*expected)


@pytest.mark.parametrize("labels", [["cat", "dog"], ["true", "supported", "false"], ["true", "unknown"]])
def test_exactly_one_custom_label_must_stand_for_true_and_one_for_false(labels: list[str]) -> None:
    with pytest.raises(UserError, match="verdict_labels"):
        verdict_labels(make_task(labels=labels))


@pytest.mark.parametrize(
    "given_labels",
    [
        {SUP: "SUPPORTZ"},
        {NOT: "no such"},
        {INC: "unclear"},
        {SUP: "REFUTES"},
        by_verdict("REFUTES", "REFUTES"),
    ],
)
def test_unknown_or_repeated_labels_in_settings_are_refused(given_labels: dict[Verdict, str]) -> None:
    with pytest.raises(UserError) as raised:
        verdict_labels(make_task("fever"), given_labels)
    assert raised.value.kind == "unfit_task"


@pytest.mark.parametrize(
    ("policy", "fever_answer", "faviq_answer"),
    [
        (None, "NOT ENOUGH INFO", "SUPPORTS"),
        ("abstain", "NOT ENOUGH INFO", None),
        ("burden_of_refutation", "SUPPORTS", "SUPPORTS"),
    ],
)
def test_the_policy_decides_the_answer_for_an_inconclusive_verdict(
    policy: str | None, fever_answer: str, faviq_answer: str | None
) -> None:
    for name, inconclusive in (("fever", fever_answer), ("faviq", faviq_answer)):
        labels = verdict_labels(make_task(name))
        assert [answer_for(v, labels, policy) for v in VERDICTS] == ["SUPPORTS", "REFUTES", inconclusive]


# --- replies --------------------------------------------------------------------------------------------------------

JUDGEMENT: dict[str, Any] = {"reason": "It is so.", **judge_scores(7, 8, 9), "verdict": SUP}


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
def test_verdicts_in_other_spellings_are_parsed(written: str, verdict: Verdict) -> None:
    assert JudgementReply.model_validate(JUDGEMENT | {"verdict": written}).verdict == verdict


@each(
    "written",
    [
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
        "SUPPORTED or NOT SUPPORTED",
        "SUPPORTED, not INCONCLUSIVE",
        "mostly supported",
        "not inconclusive",
        "0% SUPPORTED",
        "не SUPPORTED",
    ],
)
def test_invalid_verdicts_are_refused(written: Any) -> None:
    with pytest.raises(ValidationError):
        JudgementReply.model_validate(JUDGEMENT | {"verdict": written})


@each("score", [10.5, -1, "good", math.nan, math.inf, None])
@each("quality", QUALITIES)
def test_invalid_scores_are_refused(quality: str, score: Any) -> None:
    with pytest.raises(ValidationError):
        JudgementReply.model_validate(JUDGEMENT | {quality: score})


REFLECTION: dict[str, Any] = dict.fromkeys(("logic", "novelty", "rebuttal"), 0.5)
REFLECTION |= {"flaws": [], "discovery_need": "", "refined_stance": ""}


@pytest.mark.parametrize("share", [-0.01, 1.01, 7, 85, math.nan, math.inf, None, "high"])
def test_values_other_than_numbers_from_0_to_1_are_refused(share: Any) -> None:
    for name in ("logic", "novelty", "rebuttal"):
        with pytest.raises(ValidationError):
            ReflectionReply.model_validate(REFLECTION | {name: share})
    for name in ("relevance", "credibility"):
        with pytest.raises(ValidationError):
            AdmissibilityReply.model_validate({"reason": "", "relevance": 1, "credibility": 1, name: share})


def test_blank_and_repeated_texts_are_left_out_of_lists() -> None:
    assert PremisesReply.model_validate({"premises": [" Ice floats.", "", "It melts.", "Ice floats. "]}).premises == [
        "Ice floats.",
        "It melts.",
    ]
    assert ReflectionReply.model_validate(REFLECTION | {"flaws": [" ", "None cited.", ""]}).flaws == ["None cited."]
    side = {"reason": "", "logic": 0.5, "evidence": 0.5, "rebuttal": 0.5}
    advice = {"plaintiff": ["", "Cite."], "defense": [], "queries": ["ice", "ice "]}
    critique = {"plaintiff": side, "defense": side, "recommendations": advice, "debate_resolved": False}
    read = CritiqueReply.model_validate(critique | {"unresolved_premises": ["\n"]})
    assert read.unresolved_premises == []
    assert read.recommendations.model_dump() == {"plaintiff": ["Cite."], "defense": [], "queries": ["ice"]}
