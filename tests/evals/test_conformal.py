"""Calibrations: prediction sets, decisions, the debates for which a calibration is valid, and ``moot calibrate``."""

from __future__ import annotations

import asyncio
import json
import os
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from moot.cli.main import app
from moot.core.callers import serving_callers
from moot.core.errors import UserError
from moot.evals._analyses.calibrating import fit_logs
from moot.evals._runs.identity import version_of
from moot.evals._stats.calibration import confidence_threshold, score_counts
from moot.graphs import load_graph
from moot.nodes._texts.calibrated import (
    bound_to,
    calibrated,
    differences,
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
from typer.testing import CliRunner

from tests.conftest import StartStub
from tests.evals.made_logs import debate, write_log

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


def test_fitting_without_cases_or_with_invalid_scores_is_refused() -> None:
    for wrong in ([], [1.2], [float("nan")]):
        with pytest.raises(ValueError, match="from 0 to 1"):
            score_counts(wrong)
    with pytest.raises(ValueError, match="at least one debate"):
        confidence_threshold([], [], 0.1)


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
    document: dict[str, Any] = {"task": make_task(), "answer": "SUPPORTS", "confidence": 0.5, "round_log": []}
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


def test_a_calibration_fitted_with_a_date_limit_is_valid_for_other_date_limits() -> None:
    """It is not valid for claims without a date limit."""
    kind = load_graph("rag").settings
    one, other, none = (
        bound_to("rag", make_task("fever"), kind.model_validate({"published_before": day}).recorded(), {}, {})
        for day in ("2020-01-01", "2021-03-04", None)
    )
    assert one == other
    assert list(differences(one, none)) == ["published_before (fitted with true, here false)"]


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


def test_fitting_on_a_sample_that_is_not_in_moots_format_is_refused(tmp_path: Path) -> None:
    settings = load_graph("rag").settings()
    parts = {"prompts": {}, "sources": {}, "corpora": {}, "behaviour": version_of("rag", settings)}
    log = write_log(
        tmp_path, "log", {"1": debate("SUPPORTS") | {"turns": None}}, {"1": "SUPPORTS"}, graph="rag", parts=parts
    )
    with pytest.raises(UserError, match="log.eval: it is not in moot's format"):
        fit_logs([log], 0.1)


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
    }
    assert (other["status"], other["error"]["kind"], other["calls"]) == ("failed", "invalid_setting", [])
    assert "It differs in: agents (fitted with 3, here 4). Fit a calibration" in other["error"]["detail"]
    assert round_sections(document)

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
