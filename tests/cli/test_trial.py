"""Tests of PROClaim's trials: the lines that the screen prints, and the settings."""

from __future__ import annotations

import asyncio
import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import pytest
from moot.cli.screen import UNINDENTED
from moot.graphs import load_graph
from moot.graphs.proclaim import ProclaimSettings
from moot.nodes._runtime.running import DebateRun
from moot.transcript import ending, round_sections
from moot.transcript.line import Section
from moot.transcript.words import SEE_VERDICT

from tests.cli.scripted import (
    CLAIM,
    IDS,
    PRIMARY,
    SCRIPT,
    SWITCHED,
    judgement,
    part,
    printed_piece,
    rule,
    run,
    run_trial,
)
from tests.conftest import StartStub, running_stub

SHELF = "langchain:tests.cli.scripted:shelf"
DOWN = f"A source failed: {SHELF}: {SHELF} failed (ConnectionError: the shelf is locked). Test it on its own."
UNUSABLE = "no usable reply (unparsed)"

Speech = dict[str, list[tuple[str, str, str]]]
"""The lines (speaker, action, text) of each section, by heading."""


@dataclass
class Trial:
    """A finished trial: its document, and its output."""

    document: dict[str, Any]
    out: list[str]
    errors: list[str]


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """The scripted trial, run once for all tests of this module."""
    folder, out, errors = tmp_path_factory.mktemp("trial"), io.StringIO(), io.StringIO()
    with running_stub(folder / "stub", SCRIPT) as stub, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", stub.url)
        patch.setenv("MOOT_HOME", str(folder / "home"))  # no earlier check of the claim
        with redirect_stdout(out), redirect_stderr(errors):
            run_trial(out=folder / "trial.json", max_rounds=3, switched_rounds=1)
    document = json.loads((folder / "trial.json").read_text())
    return Trial(document, out.getvalue().splitlines(), errors.getvalue().splitlines())


@pytest.fixture(scope="module")
def speech(trial: Trial) -> Speech:
    """The lines of the trial's transcript."""
    return {s.heading: [(line.who, line.what, line.text) for line in s.lines] for s in transcript(trial.document)}


def transcript(document: dict[str, Any]) -> list[Section]:
    return [*round_sections(document), ending(document)]


def test_the_screen_shows_each_indented_line_of_the_transcript_once(trial: Trial, speech: Speech) -> None:
    written = [
        f"  {line.who:<10} {line.what:<10} {line.text}" if line.what else f"  {line.text}"
        for section in transcript(trial.document)
        for line in section.lines
        if line.tone not in UNINDENTED
    ]
    assert sorted(line for line in (*trial.out, *trial.errors) if line.startswith("  ")) == sorted(written)
    for side in ("plaintiff", "defense"):  # the order is fixed within each side, but not between the sides
        begins = f"  {side} "
        for heading in list(speech)[1:-1]:
            assert [line for line in part(trial.out, heading) if line.startswith(begins)] == [
                f"  {who:<10} {what:<10} {text}" for who, what, text in speech[heading] if who == side
            ]
    headings = [line for line in trial.out if line in speech]
    assert sorted(headings) == sorted(speech.keys() - {"Verdict"})
    assert (headings[2], headings[-1]) == (PRIMARY.format(1), "Panel")
    assert " calls, 2 + 1 rounds, " in trial.out[-1]
    assert trial.errors[0].startswith("moot: Expected: ")
    assert trial.errors[1] == "Warnings:"


def test_the_negotiation_is_shown(speech: Speech) -> None:
    assert speech["Negotiation of the evidence"] == [
        ("miner", "premise 1", "It was a cylinder. #Definition"),
        ("miner", "premise 2", "It is in France. #Custody #Amperes"),
        ("negotiator", "asks", "to support it: for it #Balance"),
        ("negotiator", "asks", "to challenge it: against it #Nothing"),
        ("defense", "finds", f"to challenge it: nothing in {SHELF}"),
        ("retrieval", "finds", "3 pieces for the claim: Definition; Custody; Football"),
        ("retrieval", "finds", "3 pieces for the premises, 1 of them new: Amperes"),
        ("plaintiff", "finds", "1 piece to support it: Balance"),
        ("defense", "challenges", f"{printed_piece('Balance')} - It is beside the point."),
        ("defense", "challenges", "ev-none (no such piece was shown) - It is old."),
        ("defense", "challenges", f"{IDS['Football']} (no such piece was shown) - Nobody showed it."),
        ("arbiter", "weighs", f"{printed_piece('Amperes')}: {UNUSABLE}"),
        (
            "arbiter",
            "admits",
            f"2 pieces (above 0.5): {printed_piece('Balance')} 0.90; {printed_piece('Definition')} 0.81",
        ),
        ("arbiter", "disputes", f"1 piece (above 0.1; for the panel alone): {printed_piece('Custody')} 0.30"),
        ("arbiter", "discards", f"1 piece: {printed_piece('Football')} 0.05"),
    ]


REFLECTIONS = [
    ("plaintiff", "reflects", "0.62 (logic 0.80, novelty 0.60, rebuttal 0.40) - One source alone. No date."),
    ("defense", "reflects", "0.57 (logic 0.57, novelty 0.57, rebuttal 0.57)"),
]
SCORES = [
    ("critic", "scores", "plaintiff: logic 0.90, evidence 0.80, rebuttal 0.70 - It is clear."),
    ("critic", "scores", "defense: logic 0.40, evidence 0.30, rebuttal 0.20 - It is not."),
]
FINDS_NOTHING_NEW = [
    ("defense", "asks", "anything #Definition"),
    ("defense", "finds", "1 piece; none joins the record (mean novelty 0.00)"),
    ("defense", "searches", "no more: 100% of the new evidence is redundant (above 70%)"),
]


def test_the_first_round_of_the_primary_debate_is_shown(speech: Speech) -> None:
    found = "2 pieces; 1 joins the record (mean novelty 0.50; 1 not admitted before)"
    not_found = f"{printed_piece('Definition')} (the quote is not found there)"
    assert speech[PRIMARY.format(1)] == [
        ("plaintiff", "lacks", "Who decided it."),
        ("plaintiff", "asks", "who decided it #Bureau #Football (as the court refined it)"),
        ("plaintiff", "finds", f"{found}: {printed_piece('Bureau')}"),
        ("defense", "lacks", UNUSABLE),
        *FINDS_NOTHING_NEW,
        ("plaintiff", "argues", "A constant defines it."),
        ("", "cites", printed_piece("Definition")),
        ("defense", "argues", "It is in the vault."),
        ("", "cites", f"ev-none (no such piece was shown); {not_found}"),
        ("plaintiff", "wants", "an expert on metrology - To be clear."),
        ("court", "hears", "the plaintiff's expert - It helps."),
        ("expert", "testifies", "(called by the plaintiff, on metrology) The vault holds a secondary standard."),
        ("defense", "wants", "an expert on law - To be sure."),
        ("court", "refuses", "the defense's expert - It does not."),
        *SCORES,
        ("critic", "finds", "still open: It is in France."),
        *REFLECTIONS,
    ]


def test_the_last_round_of_the_primary_debate_is_shown(speech: Speech) -> None:
    assert speech[PRIMARY.format(2)] == [
        ("plaintiff", "lacks", "Nothing more."),
        ("plaintiff", "asks", "no more #Down"),
        ("plaintiff", "finds", "nothing, because a source could not be searched"),
        ("plaintiff", "argues", "The defense granted it."),
        ("defense", "argues", UNUSABLE),
        ("court", "decides", "to close the debate - All is said."),
        *SCORES,
        ("critic", "finds", "the debate resolved"),
        *REFLECTIONS,
        ("", "", "The primary debate stops after 2 rounds: the critic finds it resolved."),
    ]


def test_the_switched_debate_is_shown(speech: Speech) -> None:
    searched = [("defense", "lacks", "Anything."), *FINDS_NOTHING_NEW]
    assert speech[SWITCHED.format(1)] == [
        *(("plaintiff", what, text) for _, what, text in searched),
        *searched,
        ("plaintiff", "argues", "(by the defense's counsel) No object defines it."),
        ("defense", "argues", "(by the plaintiff's counsel) The object is there."),
        ("critic", "scores", UNUSABLE),
        ("plaintiff", "reflects", UNUSABLE),
        ("defense", "reflects", UNUSABLE),
        ("", "", "The switched debate stops after 1 round: its rounds are used up."),
    ]


def test_the_panel_and_its_verdict_are_shown(speech: Speech) -> None:
    found = {
        1: "NOT SUPPORTED (evidence 7, arguments 8, reliability 8 of 10)",
        2: "SUPPORTED (evidence 7, arguments 6, reliability 8 of 10)",
        3: "NOT SUPPORTED (evidence 8, arguments 7, reliability 9 of 10)",
    }
    assert speech["Panel"] == [
        ("analyser", "finds", "consistency 8.5 of 10 (the plaintiff's counsel 8.0, the defense's counsel 9.0)"),
        ("analyser", "finds", "a contradiction: Once it was, once not."),
        *((f"judge-{number}", "decides", f"{what} - {SEE_VERDICT}") for number, what in found.items()),
    ]
    assert speech["Verdict"][:9] == [
        ("", "", "Verdict: REFUTES (NOT SUPPORTED by 2 of 3 judges; critic_resolved) - a source failed"),
        ("", "", DOWN),
        ("", "", "Votes: panel 2 to 1. Mean quality of these verdicts: 0.76."),
        ("judge-1", "because", "Reason 1."),
        ("judge-3", "because", "Reason 3."),
        ("defense", "cites", '[ev-none]: "made up" (fabricated: no such piece was shown)'),
        ("defense", "cites", f'[{IDS["Definition"]}] Definition (Shelf): "made up" (not found in the text)'),
        ("", "", "Citations: 0 verified, 1 unverified, 1 fabricated."),
        ("judge-2", "dissents", "SUPPORTED - Reason 2."),
    ]


def test_a_trial_with_five_judges_and_disabled_stages_is_shown(
    start_stub: StartStub, capsys: pytest.CaptureFixture[str]
) -> None:
    added_judges = [rule("judge-4"), judgement(5, "NOT SUPPORTED", 5, 5, 5)]
    start_stub([*added_judges, *SCRIPT])
    off: dict[str, Any] = {"role_switch": False, "progressive_retrieval": False, "self_reflection": False}
    lines = run(capsys, judges=5, **off)
    assert [line for line in lines if line.endswith(tuple("123")) and "debate" in line] == [
        PRIMARY.format(number) for number in (1, 2, 3)
    ]
    assert part(lines, "Verdict: REFUTES (NOT SUPPORTED by 3 of 4 judges; judge-4 gave no verdict; max_rounds)")[0] == (
        "  Votes: panel 3 to 1. Mean quality of these verdicts: 0.69."
    )
    note = "(which does not end it: without progressive retrieval all rounds take place)"
    assert sum(line == f"  critic     finds      the debate resolved {note}" for line in lines) == 2
    assert f"  judge-4    decides    {UNUSABLE}" in part(lines, "Panel")
    for words in ("lacks", "reflects", "analyser", "consistency", "searches"):
        assert not any(words in line for line in lines if line.startswith("  ")), words


def test_an_inconclusive_verdict_is_explained(start_stub: StartStub, capsys: pytest.CaptureFixture[str]) -> None:
    open_verdicts = [judgement(number, "INCONCLUSIVE", 3, 3, 3) for number in (1, 2)]
    start_stub([*open_verdicts, *SCRIPT])
    given = {"labels": ["true", "false"]}
    lines = run(capsys, given, inconclusive="abstain", max_rounds=2, switched_rounds=1)
    none = "Verdict: none, as the panel finds the claim INCONCLUSIVE, which is not one of the answers "
    assert part(lines, f"{none}(INCONCLUSIVE by 2 of 3 judges; critic_resolved) - a source failed")[2:] == [
        "  judge-1    because    Reason 1.",
        "  judge-2    because    Reason 2.",
        "  judge-3    dissents   NOT SUPPORTED - Reason 3.",
        "  The debate changed 0 of 1 later position of counsel and critic.",
    ]
    start_stub([*open_verdicts, *SCRIPT])
    lines = run(capsys, given, inconclusive="burden_of_refutation", max_rounds=2, switched_rounds=1)
    assert (
        "Verdict: true (INCONCLUSIVE by 2 of 3 judges, and so not refuted; critic_resolved) - a source failed" in lines
    )


def test_a_failed_trial_shows_its_turns(start_stub: StartStub, capsys: pytest.CaptureFixture[str]) -> None:
    down = {"model": "stub-plaintiff$", "match": "counsel for the plaintiff.*`argument`", "status": 500}
    start_stub([down, *SCRIPT])
    lines = run(capsys, max_rounds=2)
    end = next(i for i, line in enumerate(lines) if line.startswith("No verdict (server_error at plaintiff: argue"))
    assert "  plaintiff  argues     (by the defense's counsel) No object defines it." in part(lines, SWITCHED.format(1))
    assert SWITCHED.format(1) in lines[:end]
    assert not any("argues" in line for line in part(lines, PRIMARY.format(1)))


# --- settings -------------------------------------------------------------------------------------------------------


async def test_an_interrupted_trial_keeps_its_turns(start_stub: StartStub) -> None:
    stub = start_stub([*SCRIPT, {"fields": {"needed": False, "close": False, "debate_resolved": False}}])
    settings = ProclaimSettings.model_validate(
        {
            "model": "openai:stub",
            "embedder": "openai:stub-embedding",
            "sources": ["bm25:demo-news"],
            "exhaustion": 0,
            "plateau": 0,
        }
    )

    def stop_in_second_round(update: dict[str, Any]) -> None:
        if any(
            (turn["step"], turn["phase"], turn["round"]) == ("argue", "primary", 2)
            for turn in update.get("turns") or []
        ):
            running.cancel()

    running = asyncio.ensure_future(
        DebateRun(load_graph("proclaim").graph, settings, stop_in_second_round).run({"claim": CLAIM})
    )
    document = await running
    assert (document["status"], document["answer"], document["rounds"]) == ("interrupted", None, 1)
    steps = [(turn["phase"], turn["step"]) for turn in document["turns"] if turn["round"] == 1]
    assert steps.count(("primary", "argue")) == steps.count(("switched", "argue")) == 2
    assert steps.count(("primary", "critique")) == 1
    assert document["usage"]["calls"] == len(document["calls"])
    made = [call for call in stub.calls() if call["kind"] == "chat"]
    # In both phases, each side can have one call in flight and one reply that was not read yet.
    assert 0 <= len(made) - len(document["calls"]) <= 8
