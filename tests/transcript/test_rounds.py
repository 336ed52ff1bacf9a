"""The document and the live output give the same reason for each round. Reports name the stop reason."""

from __future__ import annotations

from typing import Any

import pytest
from moot.graphs import load_graph
from moot.nodes._records.reducers import merge_rounds, recorded_round
from moot.nodes._runtime.running import DebateRun
from moot.nodes._texts.show import score_and_threshold
from moot.transcript import Line, Live, round_sections
from moot.transcript.report.codes import words_for
from moot.transcript.report.report import report
from moot.web.kept import checked_document

from tests.conftest import CLAIM, MODELS, StartStub, says, supports

LEXICAL = [{"name": "rag", "retriever": "bm25:demo-news"}, {"name": "search", "retriever": "bm25:demo-news"}]
Output = tuple[dict[str, Any], list[Line]]


async def run_debate(name: str, task: str | None = None, **given: Any) -> Output:
    """Run a debate; return its document and the live output."""
    system = load_graph(name)
    settings = system.settings.model_validate({"embedder": "openai:stub-embedding", **given})
    live, printed = Live(settings), list[Line]()
    document = await DebateRun(system.graph, settings, lambda written: printed.extend(live.feed(written))).run(
        {"claim": CLAIM} | ({"task": task} if task else {})
    )
    assert document["status"] == "done", document["error"]
    return document, [*printed, *live.end(document)]


def check_reasons(output: Output, reasons: list[str], *words: str) -> None:
    """Check the reasons in the document, and that reports name the stop reason.

    The lines ``words`` must be in the live output and in the lines of `round_sections`, in this order.
    """
    document, printed = output
    assert checked_document(document) == document
    assert [(record["round"], record["reason"]) for record in document["round_log"]] == [*enumerate(reasons, 1)]
    again = [line for section in round_sections(document) for line in section.lines]
    for texts in ([line.text for line in printed], [line.text for line in again]):
        assert [text for text in texts if text in words] == list(words)
    for kind in ("md", "html"):  # reports have their own wording
        assert words_for("stop", document["stop_reason"]) in report(document, kind)


async def three_rounds_of_tool_mad(start_stub: StartStub, **given: Any) -> Output:
    """Run a debate that is disputed in round 1, agreed but not stable in round 2, and stable in round 3."""
    scored = {"model": "stub-scorer", "match": "`statements`", "fields": {"statements": ["One.", "Two."]}}
    fails = {"index": 0, "reason": "not stated", "supported": False}
    low = {"fields": {"verdicts": [fails, {**fails, "index": 1}]}, "model": "stub-scorer", "match": "`verdicts`"}
    start_stub([
        says("rag", "SUPPORTS", 1), says("search", "REFUTES", 1), says("rag", "SUPPORTS"), says("search", "SUPPORTS"),
        {**low, "times": 4}, scored, *supports([True, True], CLAIM),
    ])  # fmt: skip
    return await run_debate("tool_mad", models=MODELS, debaters=LEXICAL, max_rounds=4, **given)


async def test_reasons_of_a_disputed_an_unstable_and_a_stable_round(start_stub: StartStub) -> None:
    output = await three_rounds_of_tool_mad(start_stub)
    check_reasons(
        output,
        ["disputed", "unstable", "stable"],
        "Round 1: rag SUPPORTS, search REFUTES: they differ, so the debate goes on.",
        "Round 2: rag SUPPORTS, search SUPPORTS: they agree; the scores decide whether that is stable.",
        "The consensus is not stable (rag's faithfulness, search's faithfulness below the threshold): another round.",
        "Round 3: rag SUPPORTS, search SUPPORTS: they agree; the scores decide whether that is stable.",
        "The debate stops: stable_consensus.",
    )
    first, second, third = output[0]["round_log"]
    assert "scores" not in first  # without an agreement, no scores are needed
    assert [record["scores"]["rag"]["faithfulness"] for record in (second, third)] == [0.0, 1.0]
    assert [[vote["answer"] for vote in record["votes"]] for record in (first, third)] == [
        ["SUPPORTS", "REFUTES"],
        ["SUPPORTS", "SUPPORTS"],
    ]


async def test_a_repeated_reason_is_given_for_each_round(start_stub: StartStub) -> None:
    start_stub([says("rag", "SUPPORTS"), says("search", "SUPPORTS"), *supports([False], CLAIM)])
    output = await run_debate("tool_mad", models=MODELS, debaters=LEXICAL, max_rounds=3)
    low = "The consensus is not stable (rag's faithfulness, search's faithfulness below the threshold): "
    words = [f"{low}another round.", f"{low}another round.", f"{low}the judge decides."]
    assert [line.text for line in output[1] if line.text in words] == words
    check_reasons(output, ["unstable"] * 3, *words)


async def test_reasons_of_tool_mad_if_every_round_is_run(start_stub: StartStub) -> None:
    start_stub([says("rag", "SUPPORTS"), says("search", "SUPPORTS")])
    check_reasons(
        await run_debate("tool_mad", models=MODELS, debaters=LEXICAL, max_rounds=2, scoring="all_rounds"),
        ["every_round"] * 2,
        "Round 1: rag SUPPORTS, search SUPPORTS: they agree, but every round is run.",
        "Round 2: rag SUPPORTS, search SUPPORTS: they agree; the rounds are used up, so the judge decides.",
    )


async def test_reasons_of_madke_until_the_judge_finds_agreement(start_stub: StartStub) -> None:
    roles = {name: f"openai:stub-{name}" for name in ("debater-1", "debater-2", "judge", "summariser", "equivalence")}
    silent = {"model": "stub-debater-1", "match": "your `answer`", "times": 1, "reply": "I would rather not say."}
    agree = {"model": "stub-judge", "match": "agree"}
    pool: dict[str, Any] = {"sources": ["bm25:demo-news"], "selection": False, "max_rounds": 4}
    start_stub([
        silent, {**silent}, says("debater-1", "An egg-layer"), says("debater-2", "A layer of eggs"),
        {**agree, "times": 1, "fields": {"agree": False, "reason": "Not in their reasons."}},
        {**agree, "fields": {"agree": True, "reason": "They do."}},
    ])  # fmt: skip
    output = await run_debate("madke", "short_answer", models=roles, **pool)
    reasons = ["disputed", "no_agreement", "agreed"]
    check_reasons(
        output,
        reasons,
        # An answer is missing, so the judge is not asked.
        "Round 1: no answer from debater-1; A layer of eggs from debater-2.",
        "Round 2: An egg-layer from debater-1; A layer of eggs from debater-2.",
        "Round 3: An egg-layer from debater-1; A layer of eggs from debater-2.",
        "The debate stops: consensus.",
    )
    check_reasons(output, reasons, "no agreement - Not in their reasons.", "agreement - They do.")


async def test_reasons_of_tit_for_tat_until_the_moderator_prefers_an_answer(start_stub: StartStub) -> None:
    roles = {name: f"openai:stub-{name}" for name in ("affirmative", "negative", "moderator", "judge")}
    prefers = {"model": "stub-moderator"}
    start_stub([
        says("affirmative", "SUPPORTS"), says("negative", "REFUTES"),
        {**prefers, "times": 1, "fields": {"preferred": None, "reason": "Both err."}},
        {**prefers, "fields": {"preferred": "REFUTES", "reason": "It holds."}},
    ])  # fmt: skip
    output = await run_debate("tit_for_tat", models=roles)
    check_reasons(
        output,
        ["no_preference", "preferred"],
        "Round 1: SUPPORTS from affirmative; REFUTES from negative.",
        "Round 2: SUPPORTS from affirmative; REFUTES from negative.",
        "The debate stops: the moderator prefers an answer.",
    )
    check_reasons(output, ["no_preference", "preferred"], "no answer yet - Both err.")
    assert [line.who for line in output[1] if line.text == "It holds."] == ["moderator"]


@pytest.mark.parametrize("progressive", [True, False])
async def test_reasons_of_the_rounds_in_both_phases_of_a_trial(start_stub: StartStub, progressive: bool) -> None:
    goes_on = {"needed": False, "close": False, "debate_resolved": False}
    start_stub([{"fields": goes_on}])
    document, _ = await run_debate(
        "proclaim", model="openai:stub", sources=["bm25:demo-news"], plateau=0, exhaustion=0, max_rounds=3,
        switched_rounds=1, progressive_retrieval=progressive,
    )  # fmt: skip
    found = [(record["phase"], record["round"], record["reason"]) for record in document["round_log"]]
    primary = ["min_rounds", "unresolved", "max_rounds"] if progressive else [*["every_round"] * 2, "max_rounds"]
    switched = ["max_rounds"] if progressive else primary
    assert found == [
        *(("primary", number, reason) for number, reason in enumerate(primary, 1)),
        *(("switched", number, reason) for number, reason in enumerate(switched, 1)),
    ]


async def test_equal_first_answers_do_not_end_a_debate(start_stub: StartStub) -> None:
    start_stub([{"fields": {"answer": "SUPPORTS", "confidence": 0.5}}])
    document, printed = await run_debate("cortex_debate", model="openai:stub", agents=2, evaluation="peer")
    assert [(record["round"], record["reason"]) for record in document["round_log"]] == [
        (0, "first_answers"),
        (1, "agreed"),
    ]
    assert "Round 0: SUPPORTS from agent-1, agent-2." in [line.text for line in printed]


def test_records_of_a_round_are_merged_and_all_rounds_are_sorted() -> None:
    [second] = recorded_round(2, reason="disputed", votes=[])["round_log"]
    [first] = recorded_round(1, "switched", reason="unresolved")["round_log"]
    [scored] = recorded_round(2, reason="unstable", scores={})["round_log"]
    assert merge_rounds([second], [first, scored]) == [{**second, **scored}, first]


async def test_the_live_output_of_rounds_leaves_out_a_failed_agent(start_stub: StartStub) -> None:
    answer = {"answer": "SUPPORTS", "rationale": "So.", "citations": []}
    start_stub([{"model": "stub-3", "status": 500}, {"match": "your `answer`", "fields": answer}])
    agents = [{"model": f"openai:stub-{number}"} for number in (1, 2, 3)]
    _, printed = await run_debate("society_of_minds", agents=agents, max_rounds=2, attempts=1)
    rounds = [line.text for line in printed if line.text.startswith("Round ") and ":" in line.text]
    assert rounds == [f"Round {number}: SUPPORTS from agent-1, agent-2." for number in (1, 2)]


@pytest.mark.parametrize(
    ("value", "threshold", "text"),
    [
        (0.8049, 0.805, "0.8049 < 0.8050"),
        (None, 0.805, "unknown (needs 0.805)"),
        (0.794, 0.8, "0.79 < 0.80"),
        (0.7996, 0.8, "0.7996 < 0.8000"),
        (0.7999999999999999, 0.8, "0.7999999999999999 < 0.8000000000000000"),
        (0.8, 0.8, "0.80 >= 0.80"),
        (0.753, 0.755, "0.753 < 0.755"),
        (0.0, 1e-05, "0.00000 < 0.00001"),
    ],
)
def test_a_score_and_its_threshold_are_rounded_so_that_their_comparison_holds(
    value: float | None, threshold: float, text: str
) -> None:
    assert score_and_threshold(value, threshold) == text
