"""Official scores of chosen sentences and of questions and answers: their arithmetic, and those of debates."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.cli.main import app
from moot.evals._benchmarks.catalogue import read_benchmark
from moot.evals._runs.logs import read_runs
from moot.evals._stats.averitec import averitec_score, ev2r_recall, ev2r_score, hungarian_score
from moot.evals._stats.metrics import all_answers_match
from moot.evals._stats.observations import Observation
from moot.evals._stats.official import drop_uncomputable, official_score, question_answers
from moot.evals._stats.rationales import (
    Abstract,
    ChosenAbstract,
    Counts,
    pooled_f1,
    rationale_counts,
    scifact_counts,
)
from moot.retrievers import index_passages
from moot.retrievers._evidence import evidence_id
from moot.retrievers._files import Passage
from moot.retrievers._lexical import NO_ENCODER
from typer.testing import CliRunner

from tests.commands import COMMAND
from tests.conftest import StartStub
from tests.evals.test_official import citing_rule, run_graph, scores_by_id, write_lines

# --- the arithmetic ---------------------------------------------------------------------------------------------------


def test_scifact_counts_by_hand() -> None:
    """The claim has two gold abstracts; of the first, sentence 0 with 2, or 5 alone, is enough."""
    gold = {"a": Abstract("SUPPORT", [[0, 2], [5]]), "b": Abstract("SUPPORT", [[1]])}
    chosen = {
        "a": ChosenAbstract("SUPPORT", [7, 0, 8, 2]),  # a full set, but not among the first three sentences
        "b": ChosenAbstract("CONTRADICT", [1]),
        "c": ChosenAbstract("SUPPORT", [1]),
    }
    found = scifact_counts(gold, chosen)
    assert found["abstract_label_f1"] == Counts(1, 3, 2)
    assert found["abstract_f1"] == Counts(0, 3, 2)
    assert found["sentence_selection_f1"] == Counts(3, 6, 4)
    assert found["sentence_f1"] == Counts(2, 6, 4)
    assert scifact_counts({"a": Abstract("SUPPORT", [[0, 1, 2, 3]])}, {"a": ChosenAbstract("SUPPORT", [3, 2, 1, 0])})[
        "abstract_f1"
    ] == Counts(1, 1, 1)  # the only set has four sentences, so four count


def test_rationale_counts_and_the_f1_of_sums_by_hand() -> None:
    gold = [("d", 1), ("d", 4)]
    assert rationale_counts(gold, [("d", 4), ("d", 1), ("d", 0)]) == Counts(2, 3, 2)
    assert rationale_counts(gold, [("d", 4), ("e", 1)]) == Counts(0, 2, 2)
    assert rationale_counts([], [("d", 4)]) == Counts(0, 0, 0)
    assert pooled_f1([2, 3, 5]) == 0.5
    assert pooled_f1([[0, 0, 0], [0, 2, 0]]).tolist() == pytest.approx([float("nan"), 0.0], nan_ok=True)


TABLE = {("one", "first"): 0.6, ("one", "second"): 0.5, ("two", "first"): 0.2, ("two", "second"): 0.4}


def test_averitec_and_ev2r_by_hand() -> None:
    assert hungarian_score(["two", "one"], ["first", "second"], lambda a, b: TABLE[a, b]) == pytest.approx(0.5)
    assert hungarian_score(["one"], ["first", "second"], lambda a, b: TABLE[a, b]) == pytest.approx(0.3)
    assert hungarian_score([], ["first"]) == 0.0
    assert [averitec_score(right=True, evidence=share) for share in (0.25, 0.26)] == [0.0, 1.0]
    assert averitec_score(right=False, evidence=1.0) == 0.0
    assert ev2r_recall([True, False, True, True]) == 0.75
    assert [ev2r_score(right=True, recall=share) for share in (0.49, 0.5)] == [0.0, 1.0]
    assert ev2r_score(right=False, recall=1.0) == 0.0
    asked = [{"question": "Who?", "answers": ["Ann", "Bob"]}, {"question": "When?", "answers": []}]
    assert question_answers(asked) == ["Who? Ann", "Who? Bob", "When? No answer could be found."]


ROWS = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(st.floats(0, 1), min_size=width, max_size=width), min_size=1, max_size=4)
)


@given(ROWS)
def test_no_other_assignment_scores_more(rows: list[list[float]]) -> None:
    height, width = len(rows), len(rows[0])
    names = [str(place) for place in range(max(height, width))]
    best = hungarian_score(names[:height], names[:width], lambda a, b: rows[int(a)][int(b)])
    sums = [
        sum(rows[i][j] for i, j in enumerate(places) if i < height and j < width)
        for places in permutations(range(len(names)))
    ]
    assert best == pytest.approx(max(sums) / width)


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("1956; 1963", 1.0),
        ("It was 1963 for the player, the 1956 for the scientist.", 1.0),
        ("1963", 0.0),
        ("1963, 1956 and 1998", 0.0),
        ("19563", 0.0),
        ("", 0.0),
        (None, None),
    ],
)
def test_all_answers_and_no_wrong_one(answer: str | None, value: float | None) -> None:
    assert all_answers_match(answer, ["1963", "1956"], ["1998", "1956"]) == value  # a wrong answer is also right
    if answer is not None:
        evidence = {"wrong_answers": ["1998", "1956"]}
        assert official_score("all_answers", answer, ["1963", "1956"], {}, evidence) == (value, True)


def test_a_run_whose_verdicts_cite_nothing_has_no_ev2r_score() -> None:
    uncited = Observation("1", ("Supported",), outcome="Supported", scores={"ev2r_score": 0.0})
    uncited = replace(uncited, uncitable_measures=frozenset({"ev2r_score"}))
    cited = Observation("2", ("Supported",), outcome="Supported", scores={"ev2r_score": 1.0})
    ungraded = Observation("3", ("Supported",), outcome="Supported")
    kept, notes = drop_uncomputable([uncited, ungraded], ["ev2r_score"])
    assert [seen.scores.get("ev2r_score") for seen in kept] == [None, None]
    assert notes == ["ev2r_score: not computable, as no verdict cites any evidence"]
    assert drop_uncomputable([uncited, cited, ungraded], ["ev2r_score"]) == ([uncited, cited, ungraded], [])
    assert drop_uncomputable([ungraded], ["ev2r_score"]) == ([ungraded], [])


# --- debates ----------------------------------------------------------------------------------------------------------

SENTENCES = {("11", 0): "Aspirin thins the blood.", ("11", 1): "Aspirin was tested on mice.", ("12", 0): "Rest helps."}
SCIFACT = {
    "A": {"11": [{"sentences": [0], "label": "SUPPORT"}], "12": [{"sentences": [0], "label": "SUPPORT"}]},
    "B": {"11": [{"sentences": [0, 1], "label": "CONTRADICT"}]},
    "C": {},
}


async def test_scifacts_f1_is_over_all_items(start_stub: StartStub, tmp_path: Path) -> None:
    ids = {place: evidence_id("s2", text) for place, text in SENTENCES.items()}

    def quoting(*places: tuple[str, int]) -> list[tuple[str, str]]:
        return [(ids[place], SENTENCES[place]) for place in places]

    start_stub(
        [
            # one of two abstracts, and a sentence too many; the wrong label; nothing is chosen
            citing_rule("SUPPORT", "Claim A", *quoting(("11", 0), ("11", 1))),
            citing_rule("SUPPORT", "Claim B", *quoting(("11", 0), ("11", 1))),
            citing_rule("NOT ENOUGH INFO", "Claim C", *quoting(("12", 0))),
        ]
    )
    records = [{"id": id, "claim": f"Claim {id}: aspirin helps.", "evidence": found} for id, found in SCIFACT.items()]
    file = write_lines(tmp_path / "scifact.jsonl", records)
    passages = [
        Passage(id=f"{id}-{n}", title="Aspirin", text=text, source="s2", url=f"corpus:{id}#sentence_{n}")
        for (id, n), text in SENTENCES.items()
    ]
    await index_passages("scifact-sentences", passages, encoder=NO_ENCODER)
    settings = {"sources": ["bm25"], "corpus": "scifact-sentences", "max_origin_share": 1.0}
    run = await run_graph(tmp_path, "scifact", file, "rag", **settings)
    counts = {seen.id: seen.counts for seen in run.observations}
    assert [counts[id]["abstract_f1"] for id in "ABC"] == [Counts(1, 1, 2), Counts(0, 1, 1), Counts(0, 0, 0)]
    assert [counts[id]["sentence_f1"] for id in "ABC"] == [Counts(1, 2, 2), Counts(0, 2, 2), Counts(0, 0, 0)]
    assert not any("computable" in note for note in run.notes)
    compared = await asyncio.to_thread(CliRunner().invoke, app, ["eval", "compare", str(tmp_path / "logs-0"), "--json"])
    row = json.loads(compared.stdout)["studies"][0]["tables"]["systems"]["rows"][0]
    values = {name: row[name]["value"] for name in ("abstract_label_f1", "abstract_f1", "sentence_selection_f1")}
    assert values == pytest.approx({"abstract_label_f1": 2 / 5, "abstract_f1": 2 / 5, "sentence_selection_f1": 6 / 8})
    assert row["sentence_f1"]["value"] == pytest.approx(2 / 8)


async def test_check_covids_rationale_f1(start_stub: StartStub, tmp_path: Path) -> None:
    """Without a corpus of sentences, or if the sentences come with the claims, the run has no such score."""
    text = "Masks helped."
    start_stub([citing_rule("SUPPORT", "claim", (evidence_id("cord", text), text))])
    record = {
        "id": "1",
        "claim": "Masks help.",
        "cord_id": "a1",
        "label": "SUPPORT",
        "evidence_set": [{"sent_index": 0}],
    }
    unsure = {**record, "id": "2", "claim": "Masks hurt.", "label": "NOTENOUGHINFO"}
    file = write_lines(tmp_path / "check_covid.jsonl", [record, unsure])
    passage = Passage(id="1", title="On masks", text=text, source="cord", url="corpus:a1#sentence_0")
    await index_passages("cord-sentences", [passage], encoder=NO_ENCODER)
    settings = {"sources": ["bm25"], "corpus": "cord-sentences"}
    run = await run_graph(tmp_path, "check_covid", file, "rag", **settings)
    assert [seen.counts["rationale_f1"] for seen in run.observations] == [Counts(1, 1, 1), Counts(0, 0, 0)]
    without = await run_graph(tmp_path, "check_covid", file, "standard_prompting")
    assert "rationale_f1: not computable, as no evidence has an address" in " ".join(without.notes)
    assert not any("rationale_f1" in seen.counts for seen in without.observations)
    write_lines(tmp_path / "corpus.json", [{"cord_id": "a1", "title": "On masks", "abstract": [text]}])
    given_too = await run_graph(tmp_path, "check_covid", file, "rag", **settings)
    assert "of 2 items, the file does not say which evidence is right, or it comes with" in " ".join(given_too.notes)


async def test_ramdocs_needs_all_answers(start_stub: StartStub, tmp_path: Path) -> None:
    given = {"1": "1956 and 1963", "2": "1963", "3": "1963, 1956 and 1998"}
    start_stub([{"match": f"Question {id}", "fields": {"answer": answer}} for id, answer in given.items()])
    documents = [{"text": f"Jordan was born in {year}."} for year in (1963, 1956, 1998)]
    known = {"documents": documents, "gold_answers": ["1963", "1956"], "wrong_answers": ["1998"]}
    file = write_lines(tmp_path / "ramdocs.jsonl", [{"question": f"Question {id}?", **known} for id in given])
    run = await run_graph(tmp_path, "ramdocs", file, "standard_prompting")
    assert scores_by_id(run, "all_answers") == {"0": 1.0, "1": 0.0, "2": 0.0}
    assert not any("computable" in note for note in run.notes)


QUESTIONS = [{"question": "Who sold the car?", "answers": [{"answer": "Ann", "answer_type": "Extractive"}]}]
QUESTIONS += [
    {
        "question": "Was it red?",
        "answers": [{"answer": "No", "answer_type": "Boolean", "boolean_explanation": "It was blue."}],
    }
]


def make_nltk_data(folder: Path) -> Path:
    """A WordNet in which ``car`` and ``auto`` are synonyms, and a model of sentences without abbreviations."""
    kinds = ("noun", "verb", "adj", "adv")
    wordnet = dict.fromkeys([f"{part}.{kind}" for part in ("index", "data") for kind in kinds], "")
    wordnet |= dict.fromkeys(["cntlist.rev", "index.sense", *(f"{kind}.exc" for kind in kinds)], "")
    license = "  1 Made for tests.\n"
    wordnet["lexnames"] = "00\tnoun.all\t1\n"
    wordnet["data.noun"] = f"{license}{len(license):08} 00 n 02 car 0 auto 0 000 | a thing on wheels\n"
    wordnet["index.noun"] = "".join(f"{word} n 1 0 1 0 {len(license):08}\n" for word in ("auto", "car"))
    punkt = dict.fromkeys(("abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt"), "")
    for name, files in (("corpora/wordnet", wordnet), ("tokenizers/punkt_tab/english", punkt)):
        (folder / name).mkdir(parents=True)
        for file, text in files.items():
            (folder / name / file).write_text(text)
    return folder


async def test_averitecs_scores_with_and_without_wordnet(start_stub: StartStub, tmp_path: Path) -> None:
    """`moot eval run` says what is missing, and `inspect score` adds the scores later. The judge needs no data."""
    text = "The auto was sold by Ann."
    facts = [{"fact": f"Fact {n}.", "reason": "So.", "stated": n == 0} for n in range(2)]
    start_stub(
        [
            {"match": "reference evidence", "fields": {"facts": facts}},
            citing_rule("Supported", "Ann sold", (evidence_id("web", text), text)),
        ]
    )
    records = [{"claim": "Ann sold something.", "label": "Supported", "questions": QUESTIONS}]
    records += [{"claim": "Ann sold something there.", "label": "Supported", "questions": QUESTIONS[:1]}]
    file = write_lines(tmp_path / "averitec.jsonl", records)
    items = read_benchmark("averitec", file).items
    gold = question_answers((items[0].gold_evidence or {})["questions"])
    assert gold == ["Who sold the car? Ann", "Was it red? No. It was blue."]
    await index_passages("averitec-store", [Passage(id="1", text=text, source="web")], encoder=NO_ENCODER)
    logs, data = tmp_path / "logs", make_nltk_data(tmp_path / "nltk")
    environment = {**os.environ, "HOME": str(tmp_path), "NLTK_DATA": ""}

    async def run(*command: Any, **more: str) -> subprocess.CompletedProcess[str]:
        def wait() -> subprocess.CompletedProcess[str]:
            given: Any = {"env": environment | more, "capture_output": True, "text": True, "timeout": 250}
            return subprocess.run([*map(str, command)], check=False, **given)

        return await asyncio.to_thread(wait)

    options = ["--graph", "rag", "--task", f"averitec={file}", "--model", "openai:stub", "--judge", "openai:judge"]
    options += ["--corpus", "averitec-store", "--set", 'sources=["bm25"]', "--logs", str(logs), "--json"]
    done = await run(*COMMAND, "eval", "run", *options)
    assert done.returncode == 0, done.stderr
    assert "`python -m nltk.downloader wordnet punkt_tab`" in done.stderr
    scores = json.loads(done.stdout)["logs"][0]["scores"]
    assert {name: scores.get(name) for name in ("accuracy", "ev2r_recall", "ev2r_score", "averitec_score")} == {
        "accuracy": 1.0,
        "ev2r_recall": 0.5,
        "ev2r_score": 1.0,
        "averitec_score": None,
    }
    (log,) = logs.glob("*.eval")
    inspect = Path(sys.executable).with_name("inspect")
    added = ["--scorer", "moot/averitec_score", "--action", "append", "--overwrite", "--display", "none"]
    done = await run(inspect, "score", log, *added, NLTK_DATA=str(data))
    assert done.returncode == 0, done.stderr
    (again,) = (await asyncio.to_thread(read_runs, [logs], lambda calls: None))[0]
    # METEOR of query and quote against the first pair: 4 of 11 or 12 words are its words (a car is an auto), in 3 runs.
    # That is .486, of which the first record's two gold pairs leave .243, and .478; without synonyms it is .227.
    assert scores_by_id(again, "averitec_score") == {"0": 0.0, "1": 1.0}
