"""Official scores that need evidence: their arithmetic, and the citations from which they are computed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from moot.cli.main import app
from moot.core.errors import UserError
from moot.evals._benchmarks.catalogue import read_benchmark
from moot.evals._benchmarks.records_items import best_possible_accuracy
from moot.evals._runs.logs import LoggedRun, read_runs
from moot.evals._runs.plan import make_plan
from moot.evals._runs.run_plan import Limits, run_plan
from moot.evals._stats.metrics import fever_score, feverous_score
from moot.evals._stats.official import (
    GoldMatch,
    hover_score,
    joint_match,
    match_answer,
    match_facts,
)
from moot.retrievers import index_passages
from moot.retrievers._evidence import GIVEN, evidence_id
from moot.retrievers._files import Passage
from typer.testing import CliRunner

from tests.conftest import StartStub

S, R, N = "SUPPORTS", "REFUTES", "NOT ENOUGH INFO"
ENCODER = "openai:stub-embedding"

# --- the arithmetic ---------------------------------------------------------------------------------------------------


def test_fever_score_equals_the_score_of_fever_scorer() -> None:
    """The package fever-scorer 2.0.39 gives the score 0.5 and the accuracy 0.75 for these items.

    The package is not called here, because current versions of setuptools cannot install it.
    """
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
        # only the first five sentences count
        (S, S, [*(("Q", f"sentence_{n}") for n in range(5)), ("P", "sentence_3"), ("P", "cell_0_1_1")], 0.0),
        (S, S, [("P", "sentence_3"), *CELLS[:25], ("P", "cell_0_1_1")], 0.0),  # only the first 25 cells count
    ],
)
def test_feverous_score_by_hand(gold: str, outcome: str, found: list[tuple[str, str]], value: float) -> None:
    sets = [[[("P", "sentence_3"), ("P", "cell_0_1_1")]]]
    assert feverous_score([gold], [outcome], sets, [found]).value == value


HOPS = [("A (film)", 0), ("A (film)", 2), ("B", 1)]


@pytest.mark.parametrize(
    ("outcome", "found", "value"),
    [
        (S, [("A_-LRB-film-RRB-", 2), ("B", 1)], 1.0),  # one right sentence of each page is enough
        (R, [("A (film)", 2), ("B", 1)], 0.0),
        (S, [("A (film)", 0), ("A (film)", 2)], 0.0),
        # the claim needs two pages, so only the first three pages found count
        (S, [("X", 0), ("A (film)", 2), ("B", 1)], 1.0),
        (S, [("X", 0), ("Y", 0), ("A (film)", 2), ("B", 1)], 0.0),
        # only the first two sentences found on each page count
        (S, [("A (film)", 1), ("A (film)", 3), ("A (film)", 0), ("B", 1)], 0.0),
        (S, [("A (film)", 1), ("B", 1), ("A (film)", 0)], 1.0),
        (S, [], 0.0),
    ],
)
def test_hover_score_by_hand(outcome: str, found: list[tuple[str, int]], value: float) -> None:
    assert hover_score(S, outcome, HOPS, found) == value


def test_hotpotqa_scores_equal_the_scores_of_its_script() -> None:
    """hotpot_evaluate_v1.py gives the same scores for the answer, the supporting facts, and both together."""
    answer = match_answer("the city of Paris", ["Paris"])
    assert [*answer] == pytest.approx([0.0, 1 / 3, 1.0])
    facts = match_facts([("A", 0), ("B", 1), ("B", 2)], [("A", 0), ("C", 0)])
    assert [*facts] == pytest.approx([0.0, 1 / 3, 0.5])
    found = [answer.f1, facts.f1, joint_match(answer, facts).f1]
    assert found == pytest.approx([0.5, 0.4, 2 * (1 / 9) * 0.5 / (11 / 18)])
    assert match_answer("no", ["yes"]).f1 == match_answer("yes it is", ["yes"]).f1 == 0.0
    assert joint_match(match_answer("Yes", ["yes"]), match_facts([("A", 0)], [("A", 0)])) == GoldMatch(1.0, 1.0, 1.0)
    assert match_facts([], [("A", 0)]) == GoldMatch(0.0, 0.0, 0.0)


# --- scores of debates ------------------------------------------------------------------------------------------------


def citing_rule(answer: str, match: str, *quotes: tuple[str, str]) -> dict[str, Any]:
    """A rule: requests that match get this answer, with these citations.

    Each of ``quotes`` is the id of a piece of evidence and a quote from it.
    """
    cited = [{"evidence_id": id, "quote": quote} for id, quote in quotes]
    return {"match": match, "fields": {"answer": answer, "rationale": "Because.", "citations": cited}}


async def run_graph(tmp_path: Path, benchmark: str, file: Path, graph: str, **settings: Any) -> LoggedRun:
    """Run a graph on the items of a file; return the run, as read from its log."""
    logs = tmp_path / f"logs-{len(list(tmp_path.glob('logs-*')))}"
    plan = {"graphs": [graph], "tasks": {benchmark: str(file)}, "models": ["openai:stub"], "settings": settings}

    def run_and_read() -> list[LoggedRun]:
        run_plan(make_plan(plan), logs, Limits(4), lambda total, held: lambda sample: None)
        return read_runs([logs], lambda calls: None)[0]

    (run,) = await asyncio.to_thread(run_and_read)  # in a thread, because Inspect reads logs in its own event loop
    return run


def scores_by_id(run: LoggedRun, measure: str) -> dict[str, float | None]:
    return {seen.id: seen.scores.get(measure) for seen in run.observations}


def write_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, records)))
    return path


async def test_fever_score_uses_the_verdicts_citations(start_stub: StartStub, tmp_path: Path) -> None:
    """If no address of the evidence ends with a name such as ``#sentence_3``, the score is not computable."""
    texts = ["Gold is a metal of group 11.", "Gold melts at 1064 degrees."]
    ids = [evidence_id("wiki", text) for text in texts]
    both = [(ids[n], text) for n, text in enumerate(texts)]
    rules = [
        citing_rule(S, "Claim A", *both),
        citing_rule(S, "Claim B", both[0]),
        citing_rule(N, "Claim C"),
        citing_rule(R, "Claim D", *both),
    ]
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
    # A verdict must cite two sentences of one page, so an origin's share is not limited.
    settings = {"sources": ["bm25"], "embedder": ENCODER, "max_origin_share": 1.0}

    run = await run_graph(tmp_path, "fever", file, "rag", corpus="official-sentences", **settings)
    assert scores_by_id(run, "fever_score") == {"A": 1.0, "B": 0.0, "C": 1.0, "D": 0.0}
    assert not [note for note in run.notes if "computable" in note]
    without_elements = await run_graph(tmp_path, "fever", file, "rag", corpus="official-pages", **settings)
    assert set(scores_by_id(without_elements, "fever_score").values()) == {None}
    reason = "no evidence has an address that ends with an element"
    assert f"fever_score: not computable, as {reason}" in without_elements.notes[-1]


HOTPOT_RECORD = {
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
TEXTS_BY_TITLE = {"Nabucco": "Nabucco is an opera. It is by Verdi. It has four acts."}
TEXTS_BY_TITLE["Verdi"] = "Giuseppe Verdi was a composer. He was born in 1813."


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
    cited = [(evidence_id(GIVEN, TEXTS_BY_TITLE[title]), quote) for title, quote in quotes]
    start_stub([citing_rule(answer, "Nabucco", *cited)])
    file = write_lines(tmp_path / "hotpotqa_distractor.jsonl", [HOTPOT_RECORD])
    run = await run_graph(tmp_path, "hotpotqa_distractor", file, "standard_prompting")
    measures = ("support_em", "support_f1", "joint_em", "joint_f1")
    found = tuple(scores_by_id(run, name)["one"] for name in measures)
    assert found == (pytest.approx(expected) if expected else (None,) * 4)
    assert any("no verdict cites any evidence" in note for note in run.notes) == (expected is None)


# --- Check-COVID ------------------------------------------------------------------------------------------------------

COVID_RECORDS = [
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


async def test_check_covid_has_a_best_possible_accuracy_unless_its_corpus_is_found(
    start_stub: StartStub, tmp_path: Path
) -> None:
    """Two items have the same claim, but different right labels. Only the texts in corpus.json tell them apart."""
    start_stub([{"match": "claim", "fields": {"answer": "SUPPORT"}}])
    folder = tmp_path / "Check-COVID" / "test"
    folder.mkdir(parents=True)
    file = write_lines(folder / "check_covid.jsonl", COVID_RECORDS)
    reading = read_benchmark("check_covid", file)
    assert best_possible_accuracy(reading.items, "check_covid") == pytest.approx(2 / 3)
    assert any("there is no corpus.json beside the records" in note for note in reading.notes)
    assert {item.group for item in reading.items} == {"a1"}
    run = await run_graph(tmp_path, "check_covid", file, "standard_prompting")
    assert run.ceiling == pytest.approx(2 / 3)
    again = ["eval", "run", "--task", f"check_covid={file}", "--graph", "standard_prompting", "--model", "openai:stub"]
    ended = await asyncio.to_thread(CliRunner().invoke, app, [*again, "--logs", str(tmp_path / "logs-0"), "--json"])
    assert json.loads(ended.stdout)["logs"][0]["best_possible"] == pytest.approx(2 / 3)
    compare = ["eval", "compare", str(tmp_path / "logs-0"), "--json"]
    compared = await asyncio.to_thread(CliRunner().invoke, app, compare)
    systems = json.loads(compared.stdout)["studies"][0]["tables"]["systems"]["rows"]
    assert [row["ceiling"] for row in systems] == [pytest.approx(2 / 3)] * 2  # the system, and the label prior

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
    with pytest.raises(UserError, match="line 2: the record's sentences are not in corpus.json"):
        read_benchmark("check_covid", file)
