"""Measures of PROClaim's debates and panels equal figures worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from moot.evals._stats.panel_measures import (
    cohen_kappa,
    cohen_kappas,
    concession_rates,
    concessions,
    disagreement,
    fleiss_kappa,
    instability,
    mean_cohen_kappa,
    mean_reflection_change,
    novelty_by_round,
    panel_fleiss_kappa,
    panel_verdicts,
    reflection_trajectory,
    role_play_consistency,
)

S, N, I = "SUPPORTED", "NOT SUPPORTED", "INCONCLUSIVE"  # noqa: E741


def document(*turns: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A result document with these turns and other fields."""
    return {"status": "done", "turns": list(turns), "debates": [], "metrics": {}, **more}


FAILED = document(status="failed")


def panel(*verdicts: str | None) -> dict[str, Any]:
    """A result document with these verdicts by the judges of a panel."""
    judges = enumerate(verdicts, 1)
    return document(
        *({"round": 1, "phase": "panel", "agent": f"judge-{n}", "step": "judge", "verdict": v} for n, v in judges)
    )


def analysis_document(**scores: Any) -> dict[str, Any]:
    """A result document whose only turn analyses the role switch and has these fields."""
    return document({"round": 1, "phase": "switched", "agent": "analyser", "step": "analyse", **scores})


def argument_turn(round: int, phase: str, counsel: str, argument: str | None) -> dict[str, Any]:
    """A turn with an argument. In the switched phase, each counsel speaks for the other side."""
    sides = ("plaintiff", "defense") if phase == "primary" else ("defense", "plaintiff")
    side = sides[counsel == "defense"]
    turn = {"round": round, "phase": phase, "agent": counsel, "side": side, "step": "argue"}
    return {**turn, "argument": argument}


def debate_document(
    totals: list[float | None] | None = None, novelty: list[float | None] | None = None, phase: str = "primary"
) -> dict[str, Any]:
    """A result document with one debate. A list, if given, has a value for each round."""
    return document(debates=[{"phase": phase, "reflection_total": totals or [], "novelty": novelty or []}])


# --- the panel ------------------------------------------------------------------------------------------------------

TEN_CASES = [(S, S)] * 4 + [(N, N)] * 2 + [(I, I)] + [(S, N)] * 2 + [(N, I)]
"""The verdicts of two judges on ten cases.

The agreement is 7/10. The agreement by chance is (6 x 4 + 3 x 4 + 1 x 2) / 100 = 0.38, so kappa is 0.32 / 0.62.
"""
PANELS = [panel(S, S, S), panel(S, S, N), panel(N, N, N), panel(S, N, I)]
"""The verdicts of three judges on four cases.

The agreement of the pairs of judges is 3/4, 1/2 and 1/2, and the agreement by chance is 1/2, 5/16 and 3/8.

In the four cases, the shares of pairs of judges that agree are 1, 1/3, 1 and 0. The 12 verdicts are 6 S, 5 N and 1 I,
so the agreement by chance is 62/144.
"""


def test_cohen_kappa_by_hand() -> None:
    first, second = [a for a, _ in TEN_CASES], [b for _, b in TEN_CASES]
    assert cohen_kappa(first, second) == pytest.approx(0.32 / 0.62)
    assert cohen_kappa(first, first) == 1.0
    assert cohen_kappa([S, N], [N, S]) == -1.0
    assert cohen_kappa([S, S], [N, N]) == 0.0  # the judges never agree, and chance agreement is 0


@pytest.mark.parametrize(
    ("first", "second"), [([], []), ([S, S], [S, S]), ([S, N], [None, N]), ([S, None], [None, S]), ([None], [None])]
)
def test_cohen_kappa_is_undefined_without_different_verdicts(first: list[str | None], second: list[str | None]) -> None:
    assert cohen_kappa(first, second) is None


def test_cohen_kappas_of_pairs_of_judges_by_hand() -> None:
    kappas = cohen_kappas([*PANELS, FAILED])
    assert kappas == {
        ("judge-1", "judge-2"): pytest.approx(1 / 2),
        ("judge-1", "judge-3"): pytest.approx(3 / 11),
        ("judge-2", "judge-3"): pytest.approx(1 / 5),
    }
    assert mean_cohen_kappa([*PANELS, FAILED]) == pytest.approx(107 / 330)


def test_the_mean_kappa_leaves_out_pairs_whose_kappa_is_undefined() -> None:
    documents = [panel(S, S, None), panel(N, N, S), panel(S, N, None)]
    assert cohen_kappas(documents) == {
        ("judge-1", "judge-2"): pytest.approx(2 / 5),  # agreement 2/3, by chance 4/9
        ("judge-1", "judge-3"): 0.0,
        ("judge-2", "judge-3"): 0.0,
    }
    one_kappa_undefined = [panel(S, S, S), panel(S, S, N)]
    assert cohen_kappas(one_kappa_undefined)["judge-1", "judge-2"] is None
    assert mean_cohen_kappa(one_kappa_undefined) == 0.0  # the mean of the two known kappas


def test_verdicts_of_panels_are_grouped_by_the_judges_names() -> None:
    """The judges are in the order of their numbers. A document without a panel has a row without verdicts."""
    documents = [panel(None, S), FAILED, panel(*[N] * 10)]
    judges, rows = panel_verdicts(documents)
    assert judges == [f"judge-{n}" for n in range(1, 11)]
    assert rows == [[None, S, *[None] * 8], [None] * 10, [N] * 10]
    assert panel_verdicts([]) == ([], [])


def test_fleiss_kappa_by_hand() -> None:
    assert panel_fleiss_kappa(PANELS) == pytest.approx(11 / 41)  # (7/12 - 31/72) / (1 - 31/72)
    assert fleiss_kappa([[S, N], [N, S]]) == pytest.approx(-1.0)
    assert fleiss_kappa([[S, S, S], [N, N, N]]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "verdicts", [[], [[]], [[S], [N]], [[S, S], [S, S]], [[S, S], [N, None]], [[None, None]], [[S, None], [None, N]]]
)
def test_fleiss_kappa_is_undefined_without_two_judges_or_different_verdicts(verdicts: list[list[str | None]]) -> None:
    assert fleiss_kappa(verdicts) is None


def test_disagreement_by_hand() -> None:
    assert disagreement(PANELS) == (0.5, 0.5, 4)
    assert disagreement([panel(S, S), panel(N, N), panel(S, N), panel(I, I)]) == (0.75, 0.25, 4)
    assert disagreement([panel(S, S, S), panel(S, S, None), panel(S, N, None), FAILED]) == (1.0, 0.0, 1)


# --- the counsel ----------------------------------------------------------------------------------------------------


def test_role_play_consistency_by_hand() -> None:
    documents = [
        analysis_document(plaintiff_counsel=8, defense_counsel=6, overall=7, contradictions=[]),
        analysis_document(plaintiff_counsel=7, defense_counsel=None, overall=4.5),
        analysis_document(outcome="unparsed"),
        document({"round": 1, "phase": "primary", "agent": "critic", "step": "criticise", "overall": 0}),
        FAILED,
    ]
    assert role_play_consistency(documents) == {"plaintiff_counsel": 7.5, "defense_counsel": 6.0, "overall": 5.75}
    unknown = {"plaintiff_counsel": None, "defense_counsel": None, "overall": None}
    assert role_play_consistency([FAILED]) == role_play_consistency([]) == unknown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I concede that the trial was small.", ["I concede"]),
        ("On this we must readily concede the point.", ["we must readily concede"]),
        ("While not conclusive, I admit, it is odd.", ["I admit"]),
        ("You make a good point; I partially agree.", ["You make a good point", "I partially agree"]),
        ("Opposing counsel raises some very valid points", ["Opposing counsel raises some very valid points"]),
        ("We agree with the other side on dosage.", ["We agree with the other side"]),
        ("That’s a fair point. You’re right.", ["That's a fair point", "You're right"]),
        ("I was wrong: I withdraw my objection.", ["I was wrong", "I withdraw my objection"]),
        ("I do not insist but I\tconcede  nothing more than this", []),
        ("I do not insist but I\tconcede  the rest", ["I concede"]),
        ("FAIR ENOUGH - POINT TAKEN", ["FAIR ENOUGH", "POINT TAKEN"]),
    ],
)
def test_concessions_are_found(text: str, expected: list[str]) -> None:
    assert concessions(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "I do not concede.",
        "We cannot concede this.",
        "I don’t concede; I won't admit it, nor do I concede it.",
        "I concede nothing. We concede no ground.",
        "I refuse to say that I concede.",
        "I do not think that you make a good point.",
        "I never partially agree.",
        "Even if you are right, the dose was lower.",
        "Unless I concede, it stands.",
        "We agree with the study.",
        "It is a strong point of this study, fair enough to build on.",
        "The defense concedes that the sample is small.",  # a concession of the other side
        "Granted, it is small. Admittedly so.",
        "Wii concede, I concededly",  # only whole words count
        "You are righteous, and the boiling point is taken as read.",
        "",
    ],
)
def test_phrases_that_only_resemble_concessions_are_not_found(text: str) -> None:
    assert concessions(text) == []


CONCESSION = "I concede that the second trial was small, but its effect held up."
"""13 words with one concession; together with `GOOD_POINT`, 20 words with two concessions."""
GOOD_POINT = "You make a good point about dosage."


def concession_rate(texts: list[str]) -> float | None:
    """The concession rate of one counsel with these arguments."""
    return concession_rates([document(*(argument_turn(1, "primary", "plaintiff", text) for text in texts))])[
        "plaintiff"
    ]


def test_concession_rate_by_hand() -> None:
    assert concession_rate([CONCESSION, GOOD_POINT]) == 100.0
    assert concession_rate([CONCESSION]) == pytest.approx(1000 / 13)
    assert concession_rate(["A well-made, long-term trial doesn't - and can’t - end at 1,000 days!"]) == 0.0
    assert concession_rate(["I concede well-made points - don’t you?"]) == pytest.approx(1000 / 6)
    assert concession_rate([]) is None
    assert concession_rate(["", " -- "]) is None


def test_concession_rates_of_each_counsel_by_hand() -> None:
    debate = document(
        argument_turn(1, "primary", "plaintiff", CONCESSION),
        argument_turn(1, "primary", "defense", "It does not hold."),
        argument_turn(2, "primary", "defense", None),
        argument_turn(1, "switched", "plaintiff", GOOD_POINT),  # spoken for the defense
        {
            **argument_turn(1, "primary", "plaintiff", None),
            "agent": "expert",
            "step": "testify",
            "testimony": "I concede.",
        },
    )
    silent = document(argument_turn(1, "primary", "plaintiff", None), status="failed")
    assert concession_rates([debate, silent, FAILED]) == {"plaintiff": 100.0, "defense": 0.0}
    assert concession_rates([silent]) == {"plaintiff": None, "defense": None}
    assert concession_rates([]) == {"plaintiff": None, "defense": None}


# --- rounds ---------------------------------------------------------------------------------------------------------


def test_reflection_trajectory_by_hand() -> None:
    trial = debate_document([1.0, None, 1.5])
    trial["debates"] += debate_document([0.5], phase="switched")["debates"]
    assert reflection_trajectory(trial) == [1.0, None, 1.5]
    assert reflection_trajectory(trial, "switched") == [0.5]
    assert reflection_trajectory(FAILED) == []


def test_mean_reflection_change_by_hand() -> None:
    long, short = debate_document([1.0, 1.5, 1.25, 1.25]), debate_document([0.5, 0.75])
    # the absolute changes are 0.5, 0.25 and 0 in one debate, and 0.25 in the other
    assert mean_reflection_change([long, short, FAILED]) == 0.25
    assert mean_reflection_change([long]) == 0.25
    assert mean_reflection_change([debate_document([1.0, None, 1.5, 1.75])]) == 0.25  # only the last change is known
    assert mean_reflection_change([debate_document([0.5, 1.0], phase="switched"), long], "switched") == 0.5


def test_instability_by_hand() -> None:
    assert instability([1.0, 1.5, 1.0, 1.5, 1.0]) == 0.5  # changes 0.5, -0.5, 0.5, -0.5
    assert instability([1.0, 1.5, 1.25]) == 0.375  # changes 0.5, -0.25: each is 0.375 from their mean
    assert instability([1.0, 1.25, 1.5, 1.75]) == 0.0
    assert instability([1.0, 1.0, 1.0]) == 0.0
    assert instability([None, 1.0, 1.5, 1.0]) == 0.5
    assert instability([1.0, 1.5, 1.0, None, 0.0]) == 0.5


def test_novelty_by_round_by_hand() -> None:
    documents = [
        debate_document(novelty=[0.5, 0.25, None]),
        debate_document(novelty=[0.75, None, None, 0.125]),
        debate_document(novelty=[0.25], phase="switched"),
        FAILED,
    ]
    assert novelty_by_round(documents) == {1: 0.625, 2: 0.25, 3: None, 4: 0.125}
    assert novelty_by_round(documents, "switched") == {1: 0.25}
    assert novelty_by_round([FAILED]) == novelty_by_round([]) == {}
