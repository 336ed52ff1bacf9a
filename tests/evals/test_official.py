"""Official scores that need evidence equal the scores of the official scripts, and are computed from citations."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from moot.cli.listings import benchmark_rows
from moot.cli.main import app
from moot.core.errors import UserError
from moot.evals._benchmarks.catalogue import BENCHMARKS, read_benchmark
from moot.evals._benchmarks.records_items import best_possible_accuracy
from moot.evals._runs.logs import LoggedRun, read_runs
from moot.evals._runs.plan import make_plan
from moot.evals._runs.run import Limits, run_plan
from moot.evals._stats.metrics import fever_score, feverous_score
from moot.evals._stats.official import (
    OFFICIAL_MEASURES,
    GoldMatch,
    hover_score,
    joint_match,
    match_answer,
    match_facts,
    official_score,
    page_and_element,
)
from moot.retrievers import index_passages
from moot.retrievers._evidence import GIVEN, evidence_id
from moot.retrievers._files import Passage
from typer.testing import CliRunner

from tests.conftest import StartStub
from tests.evals.benchmark_samples import VISIBLE
from tests.evals.test_visible_records import needs_visible

S, R, N = "SUPPORTS", "REFUTES", "NOT ENOUGH INFO"
ENCODER = "openai:stub-embedding"

# --- the arithmetic ---------------------------------------------------------------------------------------------------


def test_fever_score_equals_the_package_fever_scorer() -> None:
    """fever-scorer 2.0.39 gives a score of 0.5 (accuracy: 0.75); it cannot be installed with today's setuptools."""
    gold, outcomes = [S, R, N, S], [S, R, N, R]
    sets = [[[("A", 1), ("B", 2)], [("C", 0)]], [[("A", 1), ("A", 2)]], [], [[("A", 1)]]]
    found = [[("X", 0), ("C", 0)], [("A", 1), ("X", 1)], [], [("A", 1)]]
    assert fever_score(gold, outcomes, sets, found).value == 0.5


CELLS = [("P", f"cell_0_{n}_0") for n in range(26)]


@pytest.mark.parametrize(
    ("gold", "outcome", "found", "value"),
    [
        (S, S, [("P", "sentence_3"), ("P", "cell_0_1_1")], 1.0),
        (S, S, [("P", "sentence_3")], 0.0),
        (S, R, [("P", "sentence_3"), ("P", "cell_0_1_1")], 0.0),
        (N, N, [], 0.0),  # FEVER's score would be 1
        (N, N, [("P", "sentence_3"), ("P", "cell_0_1_1")], 1.0),
        (
            S,
            S,
            [*(("Q", f"sentence_{n}") for n in range(4)), ("P", "sentence_3"), *CELLS[:24], ("P", "cell_0_1_1")],
            1.0,
        ),
        (S, S, [*(("Q", f"sentence_{n}") for n in range(5)), ("P", "sentence_3"), ("P", "cell_0_1_1")], 0.0),
        (S, S, [("P", "sentence_3"), *CELLS[:25], ("P", "cell_0_1_1")], 0.0),
    ],
)
def test_feverous_score_by_hand(gold: str, outcome: str, found: list[tuple[str, str]], value: float) -> None:
    sets = [[[("P", "sentence_3"), ("P", "cell_0_1_1")]]]
    assert feverous_score([gold], [outcome], sets, [found]).value == value


def test_feverous_score_leaves_out_items_whose_evidence_has_no_element_names() -> None:
    score = feverous_score([S, S, S], [S, None, S], [[[("P", "sentence_0")]]] * 3, [None, [], [("P", "sentence_0")]])
    assert (score.value, score.n, score.missing, score.left_out) == (1.0, 1, 1, 1)
    with pytest.raises(ValueError, match="sets of evidence"):
        feverous_score([N], [N], [[]], [[]])


HOPS = [("A (film)", 0), ("A (film)", 2), ("B", 1)]


@pytest.mark.parametrize(
    ("outcome", "found", "value"),
    [
        (S, [("A_-LRB-film-RRB-", 2), ("B", 1)], 1.0),  # one right sentence of each page is enough
        (R, [("A (film)", 2), ("B", 1)], 0.0),
        (S, [("A (film)", 0), ("A (film)", 2)], 0.0),
        (
            S,
            [("X", 0), ("A (film)", 2), ("B", 1)],
            1.0,
        ),  # the claim needs two pages, so the first three found pages count
        (S, [("X", 0), ("Y", 0), ("A (film)", 2), ("B", 1)], 0.0),
        (S, [("A (film)", 1), ("A (film)", 3), ("A (film)", 0), ("B", 1)], 0.0),  # only two sentences per page count
        (S, [("A (film)", 1), ("B", 1), ("A (film)", 0)], 1.0),
        (S, [], 0.0),
    ],
)
def test_hover_score_by_hand(outcome: str, found: list[tuple[str, int]], value: float) -> None:
    assert hover_score(S, outcome, HOPS, found) == value


def test_hotpotqas_scores_equal_its_script() -> None:
    """hotpot_evaluate_v1.py gives the same figures for the answer, the supporting facts, and both together."""
    answer = match_answer("the city of Paris", ["Paris"])
    assert [*answer] == pytest.approx([0.0, 1 / 3, 1.0])
    facts = match_facts([("A", 0), ("B", 1), ("B", 2)], [("A", 0), ("C", 0)])
    assert [*facts] == pytest.approx([0.0, 1 / 3, 0.5])
    found = [answer.f1, facts.f1, joint_match(answer, facts).f1]
    assert found == pytest.approx([0.5, 0.4, 2 * (1 / 9) * 0.5 / (11 / 18)])
    assert match_answer("no", ["yes"]).f1 == match_answer("yes it is", ["yes"]).f1 == 0.0
    assert joint_match(match_answer("Yes", ["yes"]), match_facts([("A", 0)], [("A", 0)])) == GoldMatch(1.0, 1.0, 1.0)
    assert match_facts([], [("A", 0)]) == GoldMatch(0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://en.wikipedia.org/wiki/Page#sentence_3", ("Page", "sentence_3")),
        ("wiki#cell_0_1_1", ("Page", "cell_0_1_1")),
        ("https://en.wikipedia.org/wiki/Page#History", None),
        ("https://[broken#sentence_3", None),
        (None, None),
    ],
)
def test_an_element_of_a_page_is_read_from_the_fragment_of_an_address(
    url: str | None, place: tuple[str, str] | None
) -> None:
    assert page_and_element({"title": "Page", "url": url}) == place


def test_the_hover_score_uses_the_verdicts_citations() -> None:
    """As for FEVER, the pieces that a verdict cites count. If they name no sentence, the score is not computable."""
    gold = {"sets": [[["A", 0], ["B", 1]]], "pages": ["A", "B"]}
    pieces = [{"id": f"e{n}", "title": page, "url": f"wiki#sentence_{n}"} for n, page in enumerate("AB")]
    cited = [{"evidence_id": piece["id"], "quote": "", "fabricated": False} for piece in pieces]
    turn = {"step": "argue", "side": "plaintiff", "citations": cited}
    document: dict[str, Any] = {
        "evidence": pieces,
        "turns": [turn],
        "raw_verdict": "SUPPORTED",
        "answer": S,
        "votes": [],
        "task": {},
    }
    assert official_score("hover_score", S, [S], document, gold) == (1.0, True)
    assert official_score("hover_score", R, [S], document, gold) == (0.0, True)
    bare = {**document, "evidence": [{**piece, "url": None} for piece in pieces]}
    assert official_score("hover_score", S, [S], bare, gold) == (0.0, False)
    assert official_score("hover_score", S, [S], document, None) == (None, True)


# --- of debates -------------------------------------------------------------------------------------------------------


def cites(answer: str, match: str, *quotes: tuple[str, str]) -> dict[str, Any]:
    """A rule: an answer that cites quotes of texts, each by its id."""
    cited = [{"evidence_id": id, "quote": quote} for id, quote in quotes]
    return {"match": match, "fields": {"answer": answer, "rationale": "Because.", "citations": cited}}


async def run_graph(tmp_path: Path, benchmark: str, file: Path, graph: str, **settings: Any) -> LoggedRun:
    """Run a graph on the items of a file; return the run as its log has it."""
    logs = tmp_path / f"logs-{len(list(tmp_path.glob('logs-*')))}"
    plan = {"graphs": [graph], "tasks": {benchmark: str(file)}, "models": ["openai:stub"], "settings": settings}

    def run_and_read() -> list[LoggedRun]:
        run_plan(make_plan(plan), logs, Limits(4), lambda total, held: lambda sample: None)
        return read_runs([logs], lambda calls: None)[0]

    (run,) = await asyncio.to_thread(run_and_read)  # Inspect reads logs in its own event loop
    return run


def scores_by_id(run: LoggedRun, measure: str) -> dict[str, float | None]:
    return {seen.id: seen.scores.get(measure) for seen in run.observations}


def write_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, records)))
    return path


async def test_fever_score_uses_the_verdicts_citations(start_stub: StartStub, tmp_path: Path) -> None:
    texts = ["Gold is a metal of group 11.", "Gold melts at 1064 degrees."]
    ids = [evidence_id("wiki", text) for text in texts]
    both = [(ids[n], text) for n, text in enumerate(texts)]
    rules = [cites(S, "Claim A", *both), cites(S, "Claim B", both[0]), cites(N, "Claim C"), cites(R, "Claim D", *both)]
    start_stub(rules)
    evidence = [[[0, 0, "Gold_-LRB-metal-RRB-", 0], [0, 0, "Gold_-LRB-metal-RRB-", 1]]]
    claims = {"A": S, "B": S, "C": N, "D": S}
    nothing = [[[0, None, None, None]]]
    file = write_lines(
        tmp_path / "fever.jsonl",
        [
            {"id": id, "claim": f"Claim {id} on gold.", "label": label, "evidence": nothing if label == N else evidence}
            for id, label in claims.items()
        ],
    )
    numbered = [
        Passage(id=str(n), title="Gold (metal)", text=text, source="wiki", url=f"https://wiki.org/Gold#sentence_{n}")
        for n, text in enumerate(texts)
    ]
    await index_passages("official-sentences", numbered, encoder=ENCODER)
    await index_passages("official-pages", [p.model_copy(update={"url": None}) for p in numbered], encoder=ENCODER)
    # An origin's share is not limited: both sentences are from one page, and a verdict must cite both.
    reads = {"sources": ["bm25"], "embedder": ENCODER, "max_origin_share": 1.0}

    run = await run_graph(tmp_path, "fever", file, "rag", corpus="official-sentences", **reads)
    assert scores_by_id(run, "fever_score") == {"A": 1.0, "B": 0.0, "C": 1.0, "D": 0.0}
    assert not [note for note in run.notes if "computable" in note]
    other = await run_graph(tmp_path, "fever", file, "rag", corpus="official-pages", **reads)
    assert set(scores_by_id(other, "fever_score").values()) == {None}
    assert "fever_score: not computable, as no evidence has an address that ends with an element" in other.notes[-1]


HOTPOT = {
    "_id": "one",
    "question": "Who wrote the opera Nabucco?",
    "answer": "Giuseppe Verdi",
    "type": "bridge",
    "supporting_facts": [["Nabucco", 1], ["Verdi", 0]],
    "context": [
        ["Nabucco", ["Nabucco is an opera.", " It is by Verdi.", " It has four acts."]],
        ["Verdi", ["Giuseppe Verdi was a composer.", "He was born in 1813."]],
    ],
}
TEXTS = {"Nabucco": "Nabucco is an opera. It is by Verdi. It has four acts."}
TEXTS["Verdi"] = "Giuseppe Verdi was a composer. He was born in 1813."


@pytest.mark.parametrize(
    ("answer", "quotes", "expected"),
    [
        ("Giuseppe Verdi", [("Nabucco", "It is by Verdi."), ("Verdi", "Giuseppe Verdi was")], (1.0, 1.0, 1.0, 1.0)),
        ("Verdi", [("Nabucco", "by Verdi. It has four"), ("Verdi", "was a composer")], (0.0, 0.8, 0.0, 4 / 7)),
        ("Giuseppe Verdi", [("Nabucco", "It is by Puccini.")], (0.0, 0.0, 0.0, 0.0)),  # the quote is not in the text
        ("Giuseppe Verdi", [], None),
    ],
)
async def test_supporting_facts_are_the_quoted_sentences(
    start_stub: StartStub,
    tmp_path: Path,
    answer: str,
    quotes: list[tuple[str, str]],
    expected: tuple[float, ...] | None,
) -> None:
    start_stub([cites(answer, "Nabucco", *((evidence_id(GIVEN, TEXTS[title]), quote) for title, quote in quotes))])
    file = write_lines(tmp_path / "hotpotqa_distractor.jsonl", [HOTPOT])
    run = await run_graph(tmp_path, "hotpotqa_distractor", file, "standard_prompting")
    measures = ("support_em", "support_f1", "joint_em", "joint_f1")
    found = tuple(scores_by_id(run, name)["one"] for name in measures)
    assert found == (pytest.approx(expected) if expected else (None,) * 4)
    assert any("no verdict cites any evidence" in note for note in run.notes) == (expected is None)


# --- Check-COVID ------------------------------------------------------------------------------------------------------

COVID = [
    {"id": "1_0", "claim": "Masks help.", "cord_id": "a1", "label": "SUPPORT", "evidence_set": [{"sent_index": 0}]},
    {
        "id": "1_1",
        "claim": "Masks help.",
        "cord_id": "a1",
        "label": "NOTENOUGHINFO",
        "evidence_set": [{"sent_index": 1}],
    },
    {"id": "1_2", "claim": "Masks harm.", "cord_id": "a1", "label": "REFUTE", "evidence_set": [{"sent_index": 0}]},
]
ABSTRACT = {"cord_id": "a1", "title": "On masks", "abstract": ["Masks helped.", "We asked 40 people."]}


async def test_check_covid_has_a_ceiling_unless_its_sentences_are_found(start_stub: StartStub, tmp_path: Path) -> None:
    start_stub([{"match": "claim", "fields": {"answer": "SUPPORT"}}])
    folder = tmp_path / "Check-COVID" / "test"
    folder.mkdir(parents=True)
    file = write_lines(folder / "check_covid.jsonl", COVID)
    reading = read_benchmark("check_covid", file)
    assert best_possible_accuracy(reading.items, "check_covid") == pytest.approx(2 / 3)
    assert any("there is no corpus.json near the records" in note for note in reading.notes)
    assert {item.group for item in reading.items} == {"a1"}
    run = await run_graph(tmp_path, "check_covid", file, "standard_prompting")
    assert run.ceiling == pytest.approx(2 / 3)
    again = ["eval", "run", "--task", f"check_covid={file}", "--graph", "standard_prompting", "--model", "openai:stub"]
    ended = await asyncio.to_thread(CliRunner().invoke, app, [*again, "--logs", str(tmp_path / "logs-0"), "--json"])
    assert json.loads(ended.stdout)["logs"][0]["best_possible"] == pytest.approx(2 / 3)
    shown = await asyncio.to_thread(CliRunner().invoke, app, ["eval", "compare", str(tmp_path / "logs-0"), "--json"])
    systems = json.loads(shown.stdout)["studies"][0]["tables"]["systems"]["rows"]
    assert [row["ceiling"] for row in systems] == [pytest.approx(2 / 3)] * 2  # of the system and the label prior

    write_lines(folder.parent / "corpus.json", [ABSTRACT])
    reading = read_benchmark("check_covid", file)
    assert [item.given for item in reading.items] == [
        (("On masks", "Masks helped."),),
        (("On masks", "We asked 40 people."),),
        (("On masks", "Masks helped."),),
    ]
    assert best_possible_accuracy(reading.items, "check_covid") is None
    assert "each claim comes with the sentences that its label is about" in reading.notes
    assert not any(item.given for item in read_benchmark("check_covid_binary", file).items)
    write_lines(folder.parent / "corpus.json", [{**ABSTRACT, "abstract": ["Masks helped."]}])
    with pytest.raises(UserError, match="line 2: its sentences are not in corpus.json"):
        read_benchmark("check_covid", file)


@needs_visible
def test_check_covid_has_a_ceiling_but_not_fever_symmetric_and_gsm8k() -> None:
    items = read_benchmark("check_covid", VISIBLE).items
    assert best_possible_accuracy(items, "check_covid") == 0.69
    assert (
        best_possible_accuracy(read_benchmark("fever_symmetric", VISIBLE).items, "fever") is None
    )  # each claim comes with its own sentence
    assert best_possible_accuracy(read_benchmark("gsm8k", VISIBLE).items, "gsm8k") is None


def test_official_scores_that_cannot_be_computed_are_listed_with_reasons() -> None:
    named = {name for benchmark in BENCHMARKS.values() for name in benchmark.metrics if name in OFFICIAL_MEASURES}
    assert named == set(OFFICIAL_MEASURES)
    listed = {name: measures for name, measures, *_ in benchmark_rows(BENCHMARKS.values())}
    assert listed["averitec"].splitlines()[1].startswith("not computable: AVeriTeC score: ")
    assert listed["fever"] == "accuracy, macro_f1, fever_score"
