"""moot's own sentences in documents are in each language; the others quote an error, a model or a program."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
from moot.nodes._texts.calibrated import guarantee
from moot.nodes._texts.robustness_checks import result_sentences
from moot.retrievers._evidence import Standing
from moot.transcript.language import LANGUAGES, speaking
from moot.transcript.report.report import report
from moot.transcript.report.sentences import BETWEEN, all_sentences, translated

from tests.frozen import record
from tests.web.documents import a_debate

ROOT = Path(__file__).parents[2]
ENGLISH = """
agent_left budget_exhausted calibration_aged call_failed check_failed cross_encoder_missing cut document_noted
empty evidence_not_compared failed not_joined nothing_selected opinion_missing own_retries prompt_shortened
query_not_formulated query_not_refined record_too_long refused retractions_unknown retrieval_failed score_missing
search_not_planned not_weighed side_not_heard similarity_missing source_not_summarised stand_in unknown_model_size
unknown_speaker unparsed unquoted unusable_tool_call"""
"""Kinds of warnings that quote errors or name settings, or that reports put into words of their own."""

COMPOSED = {
    "empty_retrieval": "`wikipedia` found nothing published before 2024-02-03 for 'otters'.",
    "fabricated_citations": "All 2 citations of the verdict are fabricated: they name evidence that was not shown.",
    "judge_contradicts_votes": "The judge found an agreement, but the answers differ or are missing.",
    "no_evidence": "The verdict is based on no evidence: the searches found nothing published before 2024-02-03.",
    "pages_not_read": "Not read, so only the abstract is shown: https://a.example/1 (HTTP 404).",
    "rests_on_claim_page": "The verdict quotes only the page or the site on which the claim appeared: it shows what "
    "was said, not whether that is true.",
    "rests_on_retracted": "The verdict also quotes works that were retracted: ev-1.",
    "budget_exhausted": "The budget did not allow for every call. Not called: judge. Sent, but not answered before a "
    "ceiling was reached: agent-1 (2).",
    "verdict_withheld": "No evidence was read for the verdict 'R', so nothing bears it out. A warrant is required "
    "(require_warrant). So it is withheld: the verdict is N, and `raw_verdict` has what was answered.",
    "unwarranted": "Nothing that those who decided quote bears out the verdict 'R': of its checked quotes, 1 against "
    "it and 2 beside it.",
}
"""An example of each kind of warning that the code puts together."""


@cache
def strings() -> list[str]:
    """The texts in the code, with a mark for each value in them."""
    found = set[str]()
    folders = ("nodes/**", "transcript/**", "evals/_benchmarks", "web/batches")
    for path in (path for folder in folders for path in ROOT.glob(f"{folder}/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr | ast.Constant):
                found.add(text_of(node))
    return [part for text in found for part in BETWEEN.split(text)]


def text_of(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "\0"


def test_each_sentence_is_one_that_the_code_writes() -> None:
    """Of the pairs of neighbouring words in a sentence, which the code may put together, most are in one text."""
    written = "\n".join(strings())
    for sentence in all_sentences():
        parts = [part.split() for part in re.split(r"\{\w+\}", sentence)]
        pairs = [f"{one} {other}" for words in parts for one, other in pairwise(words)]
        assert sum(pair in written for pair in pairs) >= len(pairs) // 2, sentence


def warned() -> Iterator[tuple[str, str]]:
    """The kind and the text of each warning that the code writes in its place."""
    for path in ROOT.glob("nodes/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name == "warn" and len(node.args) > 1:
                kind, detail, *_ = map(text_of, node.args)
                if len(detail.replace("\0", "")) > 5:
                    yield kind, detail.replace("\0", "7")


def test_each_warning_is_in_the_readers_language_or_quotes_an_error() -> None:
    with speaking("de"):
        own = {(kind, text) for kind, text in warned() if translated(text) is None}
    assert {kind for kind, _ in own} <= {*ENGLISH.split(), *COMPOSED}


def test_warnings_that_the_code_puts_together_are_in_each_language() -> None:
    for language in {*LANGUAGES} - {"en"}:
        with speaking(language):
            assert [kind for kind, text in COMPOSED.items() if translated(text) is None] == []


@pytest.mark.parametrize("system", ["tool_mad", "madam_rag", "proclaim"])
def test_the_warnings_of_debates_are_in_the_readers_language(system: str) -> None:
    found = {(one["kind"], one["detail"]) for run in record.read(system).values() for one in warnings_in(run)}
    with speaking("fr"):
        strange = {kind for kind, detail in found if translated(detail) is None}
    assert strange <= {*ENGLISH.split()}


def warnings_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield from value.get("warnings") or () if "round_log" in value else ()
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from warnings_in(part)


def test_what_a_sentence_names_is_put_into_the_language_where_it_can_be() -> None:
    with speaking("de"):
        found = translated("`bm25:news` and `wikipedia` found nothing for 'otters' and \"otters' dens\".")
        assert (
            found
            == "Die Sammlung „news“ (nach Stichwörtern) und Wikipedia: nichts gefunden zu „otters“ und „otters' dens“."
        )
        assert translated("The moderator prefers 'REFUTES', an answer that no debater gave.", ["REFUTES"]) == (
            "Die Moderation zieht REFUTES vor, eine Antwort, die niemand gegeben hat."
        )
        assert translated("The primary debate stops after 1 round: the court closes it.") == (
            "Die erste Debatte endet nach 1 Runde: das Gericht schließt sie."
        )
        assert translated(
            "of its quotes, 1 bears it out, 2 do not bear on it; 3 of 4 statements follow from the evidence"
        ) == (
            "von den Zitaten: 1 stützt die Antwort und 2 sagen nichts über die Antwort; aus den Belegen folgen 3 von 4 "
            "Aussagen"
        )
        alike = "Of the 3 pieces of evidence, 3 are near-duplicates of one another, from example.org. This is more than"
        assert str(translated(f"{alike} a share of 0.5 (max_origin_share).")).endswith(
            "Das ist mehr als ein Anteil von 0.5."
        )
        searched = (
            "3 pieces; none joins the record (mean novelty 0.00; 3 not admitted before; 6 not similar to the request)"
        )
        assert "zuvor nicht zugelassen; 6 der Anfrage nicht ähnlich" in str(translated(searched))
        assert "1.000,50\u00a0$" in str(translated("The limit of $1,000.50 for all claims is reached."))
        assert translated(guarantee(30, 0.1)) is not None
        assert translated("nothing, because a source could not be searched") is not None
        found = "mean novelty 0.10; 3 not admitted before; 1 of too little weight; 2 not similar to the request"
        assert translated(f"6 pieces; none joins the record ({found})") == (
            "6 Textstellen; keine kommt ins Protokoll (mittlere Neuheit 0.10; 3 zuvor nicht zugelassen; 1 mit zu wenig "
            "Gewicht; 2 der Anfrage nicht ähnlich)"
        )
        assert translated("A call was not made.") is None
    with speaking("ar"):  # in which a number stands after its words
        assert "0.00؛ لم يُقبل من قبل: 3؛ لا يشبه الطلب: 6" in str(translated(searched))
    assert translated("The rounds are used up.") is None


async def test_the_steps_of_a_trial_are_in_the_readers_language() -> None:
    page = report(await a_debate("proclaim"), "md", "de")
    english = ("piece", "(above", "nothing", "resolved", "still open", "logic ", "expert", "called by", "counsel")
    standings = [f" · {one}" for one in get_args(Standing)]
    assert [words for words in (*english, *standings) if words in page] == []


def test_the_results_of_robustness_are_in_the_readers_language() -> None:
    checks = [
        {"kind": kind, "without": [], "answer": "R", "same": same}
        for kind, same in (("all", True), ("reversed", False), ("no_evidence", True))
    ]
    found: Any = {"checks": checks, "falls_without": [], "holds": True, "not_asked": 2}
    with speaking("es"):
        assert translated(" ".join(result_sentences(found))) is not None
