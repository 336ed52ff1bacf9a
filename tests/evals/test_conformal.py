"""Calibrations: prediction sets, decisions, the debates for which a calibration is valid, and ``moot calibrate``."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from moot.cli.main import app
from moot.core.callers import serving_callers
from moot.core.errors import UserError
from moot.evals._analyses.calibrating import CalibrationCase, LabelledVerdict, fit_doubt, fit_weights, halves
from moot.evals._stats.calibration import confidence_threshold, score_counts
from moot.graphs import load_graph
from moot.nodes._texts.calibrated import (
    Feature,
    bound_to,
    calibrated,
    confidence_by,
    differences,
    features_of,
    guarantee,
    guarantee_limits,
    label_shares,
    p_value,
    prediction_set,
    prompt_digests,
    read_calibration,
)
from moot.nodes._texts.task import make_task
from moot.transcript import round_sections
from moot.transcript.trial import confidence_line
from typer.testing import CliRunner

from tests.conftest import StartStub

SCORES = [0.1, 0.1, 0.2, 0.2, 0.2, 0.4, 0.6, 0.6, 0.9]
COUNTED = score_counts(SCORES)
CREPES = [
    ([0.1, 0.2, 0.95], [1.0, 0.8, 0.1]),
    ([0.6, 0.9, 0.05], [0.4, 0.2, 1.0]),
    ([0.3, 0.4, 0.7], [0.5, 0.5, 0.2]),
]
"""Scores of three labels and their p-values, by ``ConformalClassifier.predict_p(smoothing=False)`` of crepes 0.9.1."""
SHARES = ((0.8, 0.15, 0.05), (0.45, 0.4, 0.15), (0.34, 0.33, 0.33))
MAPIE = {
    0.2: ([1, 0, 0], [1, 1, 0], [0, 0, 0]),
    0.3: ([1, 0, 0], [1, 1, 0], [0, 0, 0]),
    0.5: ([1, 0, 0], [0, 0, 0], [0, 0, 0]),
}
"""For each alpha, the prediction sets of `SHARES` by ``SplitConformalClassifier`` (lac, prefit) of MAPIE 1.6.0."""


def round_log(*answers: str) -> list[Any]:
    """The log of a single round in which these answers were given."""
    return [{"round": 1, "phase": "primary", "reason": "disputed", "votes": [{"answer": one} for one in answers]}]


# --- formulae ---------------------------------------------------------------------------------------------------------


def test_p_values_equal_those_of_crepes() -> None:
    for scores, wanted in CREPES:
        assert [p_value(COUNTED, score) for score in scores] == pytest.approx(wanted)
    # Of nine scores, one is above 0.6 and two are 0.6. The debate's own score is also 0.6. So p = (1 + 0.5 x 3) / 10.
    assert p_value(COUNTED, 0.6, tie=0.5) == pytest.approx(0.25)


@pytest.mark.parametrize("alpha", MAPIE)
def test_prediction_sets_equal_those_of_mapie(alpha: float) -> None:
    for shares, wanted in zip(SHARES, MAPIE[alpha], strict=True):
        found = prediction_set(dict(zip("abc", shares, strict=True)), COUNTED, alpha)
        assert found == [label for label, included in zip("abc", wanted, strict=True) if included]


def test_the_doubt_is_fitted_from_second_opinions() -> None:
    """Of 100 verdicts, 10 with a probability of 0.2 are wrong, and 5 of those with 0.6; alpha allows 9 wrong ones."""
    of = {0.2: (0, 10), 0.6: (25, 5), 0.9: (60, 0)}
    cases = [
        CalibrationCase(0.5, None, right, share)
        for share, (rights, wrongs) in of.items()
        for right in [True] * rights + [False] * wrongs
    ]
    assert fit_doubt(cases, 0.1) == 0.6  # (5 + 1) / 101 is at most 0.1, (15 + 1) / 101 is not
    assert fit_doubt(cases, 0.01) == 0.9
    assert fit_doubt(cases[1:], 0.1) is None  # 99 are too few
    assert fit_doubt([*cases[1:], CalibrationCase(0.5, None, True)], 0.1) is None


def test_the_share_of_the_verdict_is_its_confidence() -> None:
    """Votes decide the other labels' shares. Without a verdict or a confidence, all labels have the same share."""
    shares = label_shares(["S", "R", "N"], "S", 0.6, round_log("S", "S", "R", "R"))
    assert shares == pytest.approx({"S": 0.6, "R": 0.3, "N": 0.1})  # R and N share 0.4 as (votes + 1): 3 to 1
    for answer, sure in ((None, 0.9), ("S", None)):
        assert label_shares(["S", "R"], answer, sure, []) == {"S": 0.5, "R": 0.5}


def test_the_confidence_threshold_by_hand() -> None:
    sure, right = [0.4, 0.6, 0.6, 0.8, 0.9, 1.0, 1.0, 1.0, None], [False, True, False, False, *[True] * 5]
    # With 0.6 or more, two verdicts are wrong: (2 + 1) / 10. With 0.8 or more, one is wrong: (1 + 1) / 10. With 0.9 or
    # more, none is wrong: (0 + 1) / 10.
    assert [confidence_threshold(sure, right, alpha) for alpha in (0.3, 0.29, 0.2, 0.1, 0.09)] == [
        0.6,
        0.8,
        0.8,
        0.9,
        None,
    ]


@pytest.mark.parametrize("alpha", [0.1, 0.2])
def test_coverage_and_wrong_decisions_keep_the_guarantee_in_simulations(alpha: float) -> None:
    """Five agents vote on three labels, so a confidence has one of four values. Figures are means over 200 splits."""
    draw = np.random.default_rng(7)
    task = make_task()
    runs = []
    for _ in range(400):
        truth, skill = draw.integers(3), draw.uniform(0.3, 0.95)
        given = np.where(draw.random(5) < skill, truth, draw.integers(3, size=5))
        counts = np.bincount(given, minlength=3)
        answer = task["labels"][int(counts.argmax())]
        sure = float(counts.max() / 5)
        shares = label_shares(task["labels"], answer, sure, round_log(*(task["labels"][i] for i in given)))
        runs.append((shares, task["labels"][truth], sure, answer))
    exact, covered, acted_wrongly = [], [], []
    for _ in range(200):
        order = draw.permutation(len(runs))
        fit, test = ([runs[i] for i in part] for part in (order[:200], order[200:]))
        counted = score_counts([1 - shares[truth] for shares, truth, _, _ in fit])
        p: dict[float, float] = {}
        ties = draw.random(len(test))
        exact.append(
            np.mean([p_value(counted, 1 - s[t], u) > alpha for (s, t, _, _), u in zip(test, ties, strict=True)])
        )
        for shares, truth, _, _ in test:
            key = round(shares[truth], 9)
            p[key] = p.get(key) or p_value(counted, 1 - shares[truth])
        covered.append(np.mean([p[round(shares[truth], 9)] > alpha for shares, truth, _, _ in test]))
        least = confidence_threshold([sure for _, _, sure, _ in fit], [a == t for _, t, _, a in fit], alpha)
        acted_wrongly.append(np.mean([least is not None and sure >= least and a != t for _, t, sure, a in test]))
    assert abs(np.mean(exact) - (1 - alpha)) <= 0.02
    assert np.mean(covered) >= 1 - alpha - 0.02
    assert np.mean(acted_wrongly) <= alpha + 0.02


def test_weights_of_features_keep_the_guarantee_and_let_more_verdicts_be_acted_on() -> None:
    """The share of votes says little of whether a verdict is right, and the share of quotes says much. Means over 40
    draws of 400 labelled and 200 new debates.
    """
    draw, alpha = np.random.default_rng(59), 0.1
    names: tuple[Feature, ...] = ("confidence", "warrants")
    wrongly: dict[str, list[float]] = {"confidence": [], "both": []}
    acted: dict[str, list[float]] = {"confidence": [], "both": []}

    def verdict() -> LabelledVerdict:
        is_right = draw.random() < 0.7
        features: dict[Feature, float | None] = {
            "confidence": float(draw.choice([2 / 3, 1.0])),
            "warrants": float(np.clip(draw.normal(0.8 if is_right else 0.3, 0.2), 0, 1)),
        }
        return LabelledVerdict(["S", "R"], "S", [], frozenset("S" if is_right else "R"), features, None)

    for _ in range(40):
        labelled = {str(number): verdict() for number in range(400)}
        new = [verdict() for _ in range(200)]
        first, second = halves(labelled)
        weights, notes = fit_weights([labelled[id] for id in first], names)
        assert (len(first), len(second), notes) == (200, 200, [])
        fitted = {"both": (weights.of_features, weights.intercept), "confidence": (None, None)}
        for name, own in fitted.items():
            used = [labelled[id] for id in (second if name == "both" else labelled)]
            least = confidence_threshold(
                [confidence_by(v.features, *own) for v in used], [v.is_right for v in used], alpha
            )
            sure = [confidence_by(v.features, *own) or 0.0 for v in new]
            acts = [least is not None and one >= least for one in sure]
            acted[name].append(sum(acts) / len(new))
            wrongly[name].append(sum(a and not v.is_right for a, v in zip(acts, new, strict=True)) / len(new))
    assert max(np.mean(wrongly["both"]), np.mean(wrongly["confidence"])) <= alpha + 0.01
    assert np.mean(acted["both"]) > np.mean(acted["confidence"]) + 0.3


def test_the_confidence_of_a_trial_from_features_is_not_shown_as_a_sum_of_its_parts() -> None:
    panel = {"verdicts": {"SUPPORTED": 2, "NOT SUPPORTED": 1}, "tied": False, "without_verdict": []}
    parts = {"base": 0.6, "role_switch": 0.1, "reflection": 0.0, "quality": 0.7, "consistency": 0.5}
    found: dict[str, Any] = {"n": 40, "features": ["confidence"], "confidence": 0.7}
    document = {
        "metrics": {"panel": panel},
        "raw_verdict": "SUPPORTED",
        "answer": "SUPPORTS",
        "status": "done",
        "confidence": 0.7,
        "confidence_parts": parts | {"winning_reflection": None},
        "votes": [],
        "calibration": found,
        "turns": [],
        "settings": {},
    }
    assert "base 0.60 (2 of 3 votes" in confidence_line(document).text
    document["calibration"] = found | {"features": ["votes", "warrants"], "confidence": 0.8137}
    assert confidence_line(document).text == "Votes: panel 2 to 1. Confidence 81%, calibrated on 40 cases."


def test_halves_do_not_depend_on_the_order_and_share_no_debate() -> None:
    ids = [f"item {number}" for number in range(7)]
    first, second = halves(ids)
    assert (sorted([*first, *second]), len(first)) == (sorted(ids), 4)
    assert halves(reversed(ids)) == (first, second)


def test_weights_need_right_and_wrong_verdicts_with_all_features() -> None:
    def verdicts(*known: tuple[bool, float | None]) -> list[LabelledVerdict]:
        return [LabelledVerdict(["S"], "S", [], frozenset("S" if r else "R"), {"votes": v}, None) for r, v in known]

    with pytest.raises(UserError, match=r"1 verdicts with all features are right and 0 wrong \(1 lack votes\)"):
        fit_weights(verdicts((True, 1.0), (False, None)), ("votes",))
    weights, notes = fit_weights(verdicts((True, 1.0), (False, 0.5)), ("votes",))
    assert (weights.n, weights.of_features[0] > 0) == (2, True)
    assert notes[0].startswith("The weights are from 1 right and 1 wrong verdicts")


def test_features_are_read_from_a_document() -> None:
    """Without a verdict, or with one that was withheld, no feature is known, and nothing stands in for it."""
    turn = {"agent": "a", "phase": "primary", "round": 1, "step": "respond", "answer": "SUPPORTS"}
    quotes = [
        {"evidence_id": "e", "quote": quote, "verified": True, "fabricated": False, "warrant": warrant}
        for quote, warrant in (("one", "entails"), ("two", "neither"))
    ]
    document: dict[str, Any] = {
        "task": make_task(),
        "answer": "SUPPORTS",
        "raw_verdict": "SUPPORTS",
        "confidence": 0.5,
        "rounds": 1,
        "metrics": {},
        "turns": [turn | {"citations": quotes, "scores": {"faithfulness": 1.0}}, turn | {"agent": "b"}],
        "votes": [{"agent": agent, "answer": "SUPPORTS", "group": 0} for agent in "ab"]
        + [{"agent": "c", "answer": "REFUTES", "group": 1}],
        "calls": [
            turn | {"answer_probability": 0.8},
            turn | {"agent": "b", "answer_probability": 0.6},
            turn | {"agent": "c", "answer_probability": 0.1},  # it did not decide
            turn,
        ],
    }
    names: tuple[Feature, ...] = ("confidence", "votes", "warrants", "token_probability")
    assert features_of(document, names) == pytest.approx(
        {"confidence": 0.5, "votes": 2 / 3, "warrants": 0.5, "token_probability": 0.7}
    )
    for lacking in ({"answer": None}, {"metrics": {"withheld": True}}):
        assert set(features_of(document | lacking, names).values()) == {None}
    unknown = document | {"turns": [turn], "calls": [turn], "votes": document["votes"][:1]}
    assert features_of(unknown, names) == {"confidence": 0.5, **dict.fromkeys(names[1:])}
    assert confidence_by(features_of(unknown, names), [1.0] * 4, 0.0) is None
    unjudged = [{**quotes[0], "warrant": None}, quotes[1]]
    failed = turn | {"citations": unjudged, "scores": {"faithfulness": None}}
    assert features_of(document | {"turns": [failed]}, ("warrants",)) == {"warrants": None}


def reply_with_tokens(tokens: list[tuple[str, Any]]) -> str:
    """The body of a reply of a chat endpoint, with the log-probability of each token."""
    message = {"role": "assistant", "content": "".join(token for token, _ in tokens)}
    given = {"content": [{"token": token, "logprob": value, "bytes": None} for token, value in tokens]}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": given}
    reply = {"id": "x", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice]}
    return json.dumps(reply)


SUPPORTS: list[tuple[str, Any]] = [
    *(('{"answer": "', 0.0), ("SUPP", -0.1), ("ORTS", -0.2)),
    ('", "rationale": "why", "citations": []}', -9.0),
]


async def test_the_probability_of_an_answer_is_recorded_if_an_endpoint_gives_it(start_stub: StartStub) -> None:
    graph = load_graph("standard_prompting")
    settings = graph.settings.model_validate({"model": "openai:stub"})

    async def ask(tokens: list[tuple[str, Any]]) -> Any:
        start_stub([{"raw": reply_with_tokens(tokens)}])
        return await graph.graph.ainvoke({"claim": "Claim 9 holds."}, context=settings)

    (call,) = (await ask(SUPPORTS))["calls"]
    assert call["answer_probability"] == pytest.approx(np.exp(-0.3))
    for unusable in ("high", 0.5, None):
        document = await ask([(token, unusable) for token, _ in SUPPORTS])
        assert (document["answer"], "answer_probability" in document["calls"][0]) == ("SUPPORTS", False)


def test_a_guarantee_from_few_cases_states_its_limits() -> None:
    assert guarantee_limits(200, 0.1) == ""
    assert guarantee_limits(98, 0.1) == (
        "With fewer than 200 cases, the share of prediction sets that contain the right answer may be off by 6% "
        "either way."
    )
    assert guarantee_limits(8, 0.1).endswith("With so few, every prediction set contains all labels.")
    assert prediction_set({"S": 0.9, "R": 0.1}, score_counts([0.0] * 8), 0.1) == ["S", "R"]
    assert guarantee(1_200, 0.1) == (
        "On average over claims like the 1,200 calibration cases, at least 90% of the prediction sets contain the "
        "right answer. On at most 10% of all claims, a wrong verdict is acted on."
    )


def test_only_a_verdict_with_enough_confidence_is_acted_on() -> None:
    fitted = {"alpha": 0.2, "n": 9, "scores": COUNTED, "least_confidence": 0.5}
    fitted |= {"features": ["confidence"], "weights": None, "intercept": None}
    document: dict[str, Any] = {"task": make_task(), "answer": "SUPPORTS", "confidence": 0.5, "round_log": []}
    document["metrics"] = {}
    assert calibrated(fitted, document)["decision"] == "act"
    for more in ({"answer": None}, {"confidence": None}, {"confidence": 0.49}):
        assert calibrated(fitted, document | more)["decision"] == "escalate"
    assert calibrated({**fitted, "least_confidence": None}, document)["decision"] == "escalate"
    assert calibrated(None, document) == {}


# --- the settings that a calibration was fitted with ------------------------------------------------------------------


def test_each_difference_from_the_fitted_configuration_is_named() -> None:
    kind = load_graph("multi_agent_voting").settings

    def bind(graph: str = "multi_agent_voting", task: str = "fever", web: str = "tavily", **settings: Any) -> Any:
        chosen = kind.model_validate(settings)
        return bound_to(graph, make_task(task), chosen.recorded(), prompt_digests(chosen), {"web": web})

    fitted = bind(model="openai:a")
    assert list(differences(fitted, bind(model="openai:a", seed=4, timeout=3, calibration="x.json"))) == []
    assert list(differences(fitted, bind(model="openai:b"))) == ['model (fitted with "openai:a", here "openai:b")']
    assert list(differences(fitted, bind(task="averitec", model="openai:a"))) == [
        "the task (fitted on fever, here averitec)"
    ]
    edited = kind().answer_prompt.replace("step by step", "in steps")
    assert list(differences(fitted, bind(model="openai:a", answer_prompt=edited))) == ["the prompt agents/answer"]
    assert list(differences(fitted, bind(model="openai:a", web="wikipedia"))) == [
        "the source web (fitted on tavily, here wikipedia)"
    ]
    assert fitted.digest() != bind().digest()


def test_a_new_version_of_moot_or_a_changed_corpus_only_causes_a_warning(
    tmp_path: Path, start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_stub()
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    text, rows = tmp_path / "texts.jsonl", tmp_path / "claims.jsonl"
    text.write_text(json.dumps({"id": "1", "text": "The platypus lays eggs."}))
    rows.write_text("".join(json.dumps({"claim": f"Claim {i} holds.", "label": "SUPPORTS"}) + "\n" for i in range(3)))
    moot("index", str(text), "--corpus", "mine", "--embedder", "openai:stub-embedding")
    settings = {"model": "fake:1", "sources": ["bm25:mine"]}
    calibration, used = tmp_path / "c.json", {**settings, "calibration": str(tmp_path / "c.json")}
    chosen = ("--model", "fake:1", "--set", 'sources=["bm25:mine"]', "--logs", str(tmp_path / "logs"))
    moot("eval", "run", "--task", f"claims={rows}", "--graph", "rag", *chosen)
    output = moot("calibrate", str(tmp_path / "logs"), "--alpha", "0.4", "--out", str(calibration))
    assert "No verdict of rag has a confidence" in output
    rag = load_graph("rag")

    def calibration_warnings() -> list[str]:
        asked = {"claim": "Claim 9 holds.", "task": "fever"}
        document = asyncio.run(rag.graph.ainvoke(asked, context=rag.settings.model_validate(used)))
        assert document["decision"] == "escalate", document["error"]
        return [warning["detail"] for warning in document["warnings"] if warning["kind"] == "calibration_aged"]

    assert calibration_warnings() == []
    text.write_text(json.dumps({"id": "2", "text": "Owls are birds."}))
    moot("index", str(text), "--corpus", "mine", "--embedder", "openai:stub-embedding")
    calibration.write_text(calibration.read_text().replace(f'"moot": "{version("moot")}"', '"moot": "0.1.9"'))
    assert [detail.split(" ")[:3] for detail in calibration_warnings()] == [
        ["The", "corpus", "mine"],
        ["The", "calibration", "was"],
    ]


# --- the command ------------------------------------------------------------------------------------------------------


def moot(*words: str) -> str:
    """Run a command of moot, which must succeed; return its output."""
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    return found.output


def test_claims_of_another_file_are_no_further_runs_of_an_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows have no ids, so the items of both files have the same numbers."""
    monkeypatch.chdir(tmp_path)
    run = ("eval", "run", "--graph", "multi_agent_voting", "--model", "fake:1")
    for name in ("one", "two"):
        rows = [{"claim": f"Claim {name} {i} holds.", "label": "SUPPORTS"} for i in range(2)]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        moot(*run, "--task", f"claims={name}.jsonl", "--logs", name)
    output = moot("calibrate", "one", "two")
    assert "Fitted on 4 cases of multi_agent_voting, fever, fake:1." in output
    moot(*run, "--task", "claims=two.jsonl", "--set", "seed=7", "--logs", "two-again")
    assert "Fitted on 4 cases" in (output := moot("calibrate", "one", "two", "two-again"))
    assert "left out: 2 further runs of an item" in output


def check_calibration_of_a_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a server reads ``calibration.json`` by its id, only from the operator's folder."""
    monkeypatch.setenv("MOOT_HOME", str(folder))
    with serving_callers({}):
        for path in ("calibration.json", "calibration"):
            with pytest.raises(UserError, match="this server has no calibration"):
                read_calibration(path)
        (folder / "calibrations").mkdir()
        (folder / "calibrations" / "mine.json").write_bytes((folder / "calibration.json").read_bytes())
        assert read_calibration("mine") == read_calibration("mine.json")
        with pytest.raises(UserError, match="reads no path"):
            read_calibration(str(folder / "calibration.json"))


def test_a_calibration_is_a_regular_file_of_bounded_size(tmp_path: Path) -> None:
    """A pipe is refused without a wait for a writer, and a device without reading it to its end."""
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**34)
    for path in ("/dev/zero", tmp_path / "pipe", tmp_path, tmp_path / "missing", tmp_path / "large", "a\0b"):
        with pytest.raises(UserError, match="calibration: .*(cannot be read|is not a file of|There is no file)"):
            read_calibration(str(path))


def check_weighed_features(debate_with: Callable[..., Any]) -> None:
    """A calibration on features weighs them; one of another version, and an unknown feature, are refused."""
    output = moot("calibrate", "logs", "--alpha", "0.4", "--feature", "votes", "--out", "votes.json")
    assert "The confidence is computed from votes. Their weights (votes" in output
    weighed = read_calibration("votes.json")
    assert (weighed.features, weighed.n, weighed.weighted_on) == (["votes"], 6, 6)
    document = debate_with(calibration="votes.json")
    shares = features_of(document, ["votes"])
    assert document["calibration"]["confidence"] == pytest.approx(
        confidence_by(shares, weighed.weights, weighed.intercept), abs=1e-6
    )
    Path("old.json").write_text(re.sub(r'"features": \[.*?\],', "", Path("votes.json").read_text(), flags=re.DOTALL))
    with pytest.raises(UserError, match="or of another version"):
        read_calibration("old.json")
    unknown = CliRunner().invoke(app, ["calibrate", "logs", "--feature", "mood"])
    assert (unknown.exit_code, "there is no feature 'mood'" in unknown.output) == (2, True)


def test_a_fitted_calibration_is_valid_only_with_the_same_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs with different settings, a changed calibration file and a file of another kind are refused."""
    monkeypatch.chdir(tmp_path)
    rows = [{"claim": f"Claim {i} holds.", "label": ("SUPPORTS", "REFUTES")[i % 2]} for i in range(12)]
    Path("claims.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    system = ("--graph", "multi_agent_voting", "--model", "fake:1", "--logs", "logs")
    moot("eval", "run", "--task", "claims=claims.jsonl", *system)
    Path("logs/damaged.eval").write_text("no log")
    output = moot("calibrate", "logs", "--alpha", "0.4")
    assert "damaged.eval: it cannot be read as a log" in output
    assert "Fitted on 12 cases of multi_agent_voting" in output
    assert "With fewer than 200 cases, the share of prediction sets" in output
    found = read_calibration("calibration.json")
    assert (found.n, found.alpha, sum(count for _, count in found.scores)) == (12, 0.4, 12)

    graph = load_graph("multi_agent_voting")
    asked = {"claim": "Claim 99 holds.", "task": found.bound.task["name"]}
    if asked["task"] == "labels":
        asked["labels"] = found.bound.task["labels"]
    chosen = {"model": "fake:1", "calibration": "calibration.json"}

    async def documents_with(*settings: Any) -> list[Any]:
        return [await graph.graph.ainvoke(asked, context=graph.settings.model_validate(one)) for one in settings]

    document, other = asyncio.run(documents_with(chosen, {**chosen, "agents": 4}))
    assert document["error"] is None
    assert document["decision"] in ("act", "escalate")
    assert set(document["prediction_set"]) <= set(document["task"]["labels"])
    assert document["calibration"] == {
        "n": 12,
        "alpha": 0.4,
        "least_confidence": found.least_confidence,
        "guarantee": guarantee(12, 0.4),
        "features": ["confidence"],
        "confidence": document["confidence"],
    }
    assert (other["status"], other["error"]["kind"], other["calls"]) == ("failed", "invalid_setting", [])
    assert "It differs in: agents (fitted with 3, here 4). Fit a calibration" in other["error"]["detail"]
    assert round_sections(document)

    check_weighed_features(lambda **more: asyncio.run(documents_with({**chosen, **more}))[0])

    refused = CliRunner().invoke(app, ["eval", "run", "--task", "claims=claims.jsonl", *system])
    assert "damaged.eval cannot be read as a log" in str(refused.exception)
    Path("logs/damaged.eval").unlink()
    moot("eval", "run", "--task", "claims=claims.jsonl", *system, "--set", "agents=4")
    mixed = CliRunner().invoke(app, ["calibrate", "logs"])
    # The order of logs that were written in the same second is not fixed.
    assert re.search(r"differs in agents \(fitted with (3, here 4|4, here 3)\)\. Give only logs", str(mixed.exception))
    check_calibration_of_a_server(tmp_path, monkeypatch)
    Path("calibration.json").write_text(Path("calibration.json").read_text().replace("fake:1", "fake:2"))
    with pytest.raises(UserError, match="was changed after it was written"):
        read_calibration("calibration.json")
    Path("other.json").write_text("{}")
    with pytest.raises(UserError, match="is not a file of `moot calibrate`"):
        read_calibration("other.json")
