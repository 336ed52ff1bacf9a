"""Attacks on debate systems, and defences. Scripted readers behind a local HTTP endpoint take the place of models."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai.log import read_eval_log
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from moot.evals._attacks.attack import (
    inject_instruction,
    passages,
    poison_attack,
    poisoned_texts,
)
from moot.evals._runs.solver import document_in
from moot.nodes._models.reply_parsing import read_reply
from moot.nodes._texts.datamarking import EXPLANATION, MARK, datamarked, unmarked_message
from moot.nodes._texts.replies import SummaryReply
from moot.prompts import as_data
from moot.retrievers import Evidence
from moot.retrievers._evidence import make_evidence
from moot.retrievers._origins import origins

from tests.commands import moot
from tests.evals.readers import DEMO, KNOWN, answer, readers

RAG = 'sources=["bm25:demo-news","bm25:demo-encyclopaedia"]'
MAD = 'debaters=[{"name":"a","retriever":"bm25:demo-news"},{"name":"b","retriever":"bm25:demo-encyclopaedia"}]'


@given(st.text(alphabet="ab. !", min_size=1).filter(str.strip), st.sampled_from(["start", "middle", "end"]))
def test_an_injected_instruction_keeps_the_words_of_the_passage(text: str, position: str) -> None:
    made = inject_instruction(text, "OBEY", position)
    assert made.split("OBEY")[0].split() + made.split("OBEY")[1].split() == text.split()
    assert made.replace("OBEY", "").replace(" ", "") == text.replace(" ", "")


def test_near_duplicate_poisoned_passages_count_as_one_origin() -> None:
    """This holds whether the passages are from one host or from five hosts."""
    assert {one["kept_back"] for one in passages()} == {False, True}
    texts = poisoned_texts("1", "It rains.", "REFUTES", 5, kept_back=False)
    honest = make_evidence(text="It rained all day.", source="notes", retriever="web", query="rain")
    piece = f'<evidence id="ev-1">\n{texts[4]}\n</evidence>\n<claim>\n{next(iter(KNOWN))}\n</claim>'
    assert answer("careful", "", piece)[0] == "REFUTES"  # the scripted readers recognise the poisoned passage
    for one_host, hosts in ((True, 1), (False, 5)):
        found: list[Evidence] = poison_attack(texts, one_host=one_host).change([honest])
        assert found[-1] == honest
        assert len({piece.get("url", "").split("/")[2] for piece in found[:-1]}) == hosts
        assert len({name for id, name in origins(found).items() if id != honest["id"]}) == 1


def test_datamarking_joins_only_the_words_of_evidence() -> None:
    data = f"{as_data('claim', 'It rains.')}\n{as_data('evidence', 'It rained all day.', id='ev-1')}"
    instructions, prompt = datamarked([SystemMessage("Judge."), HumanMessage(data)])
    assert instructions.content == f"Judge.\n\n{EXPLANATION}"
    assert f"\nIt{MARK}rained{MARK}all{MARK}day.\n</evidence>" in str(prompt.content)
    assert "It rains." in str(prompt.content)


@pytest.mark.parametrize("ascii_only", [False, True])
def test_marks_in_a_reply_become_spaces(ascii_only: bool) -> None:
    """This includes marks that JSON writes as escapes; a text that consists of marks becomes empty."""

    def unmarked(summary: str) -> AIMessage:
        return unmarked_message(AIMessage(json.dumps({"summary": summary}, ensure_ascii=ascii_only)))

    assert json.loads(str(unmarked(f"It{MARK}rained.").content)) == {"summary": "It rained."}
    assert json.loads(str(unmarked(f"\\{MARK}\\u02c6").content)) == {"summary": "\\ \\u02c6"}
    assert read_reply(unmarked(MARK * 3), SummaryReply) == (None, "unparsed", "`summary` is empty")


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run the scripted readers in place of OpenAI's endpoint."""
    with readers() as address:
        monkeypatch.setenv("OPENAI_BASE_URL", address)
        monkeypatch.setenv("OPENAI_API_KEY", "x")
        yield


def run_attacks(folder: Path, *words: str, limit: int = 4) -> dict[str, Any]:
    """Run ``moot eval attack`` on demo claims, and return its output. Every debate must have an outcome."""
    claims = ["--task", f"claims={DEMO / 'claims.jsonl'}", "--limit", str(limit), "--logs", str(folder)]
    ended = moot("eval", "attack", *claims, "--json", *words)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    assert all(one["missing"] == 0 for one in found["attacks"])
    return found


@pytest.mark.usefixtures("endpoint")
def test_the_effects_of_attacks_and_defences_are_measured(tmp_path: Path) -> None:
    options = ["--graph", "rag", "--set", RAG, "--model", "openai:obedient", "--attack", "injection", "--attack"]
    options += ["adaptive", "--defence", "none", "--defence", "both"]
    found = run_attacks(tmp_path, *options)
    clean = {one["system"]: (one["accuracy"][0], one["right"], one["flagged"]) for one in found["systems"]}
    # Three right verdicts are flagged. These flags are false alarms.
    assert clean == {"rag": (1.0, 4, 3), "rag with both": (1.0, 4, 3)}
    flags = {"single origin": 2, "escalated": 0, "quotes not verified": 1}
    assert [+Counter(one["flags"]) for one in found["systems"]] == [+Counter(flags)] * 2
    results = {one["system"]: one for one in found["attacks"]}
    obeyed = results["rag under injection"]
    assert (obeyed["right"], obeyed["flips"], obeyed["aimed"], obeyed["flagged"]) == (4, 4, 4, 4)
    assert sum(flips for flips, _ in obeyed["by"]["position"].values()) == 4
    assert results["rag with both under injection"]["flips"] == 0
    adaptive = results["rag under adaptive"]
    # The poisoned verdicts rest on verified quotes from several origins, so no verdict is flagged.
    assert (adaptive["flips"], adaptive["flagged"]) == (4, 0)
    again = run_attacks(tmp_path, *options)
    assert again == found
    assert len(list(tmp_path.glob("*.eval"))) == 6  # 2 systems x (no attack + 2 attacks); the second run adds no log


@pytest.mark.usefixtures("endpoint")
def test_only_the_lying_debater_gives_the_answer_that_the_attack_aims_at(tmp_path: Path) -> None:
    options = ["--graph", "tool_mad", "--set", MAD, "--set", "embedder=openai:e", "--model", "openai:careful"]
    found = run_attacks(tmp_path, *options, "--attack", "lying_debater", "--defence", "none", limit=2)
    (result,) = found["attacks"]
    assert (result["graph"], result["right"], result["attack"]) == ("tool_mad", 2, "lying_debater")
    logs = [log for log in map(read_eval_log, map(str, tmp_path.glob("*.eval"))) if "under" in log.metadata["system"]]
    assert len(logs[0].samples or []) == 2
    for sample in logs[0].samples or []:
        document, applied = document_in(sample), sample.metadata["attack"]
        assert document is not None
        answers = {turn["agent"]: turn["answer"] for turn in document["turns"] if turn["step"] == "respond"}
        assert [agent for agent, answer in answers.items() if answer == applied["label"]] == [applied["liar"]]


@pytest.mark.usefixtures("endpoint")
def test_an_attack_that_does_not_apply_is_named(tmp_path: Path) -> None:
    options = ["--graph", "rag", "--set", RAG, "--model", "openai:careful", "--attack", "lying_debater", "--json"]
    claims = ["--task", f"claims={DEMO / 'claims.jsonl'}", "--limit", "1", "--logs", str(tmp_path)]
    ended = moot("eval", "attack", *claims, *options, "--defence", "none")
    assert json.loads(ended.stdout)["attacks"] == []
    assert "were not run: lying_debater on rag." in " ".join(ended.stderr.split())


@pytest.mark.usefixtures("endpoint")
def test_presets_are_attacked_side_by_side_and_warrants_are_flags(tmp_path: Path) -> None:
    """A reader obeys an order, and quotes the passage with the order; another assesses its quotes."""
    options = [
        "--graph",
        "rag",
        "--set",
        RAG,
        "--model",
        "openai:gullible",
        "--attack",
        "injection",
        "--defence",
        "none",
    ]
    options += ["--preset", "paper", "--preset", "practical", "--set", 'models={"scorer":"openai:careful"}']
    found = run_attacks(tmp_path, *options, limit=2)
    assert [one["system"] for one in found["systems"]] == ["rag", "rag (practical)"]
    paper, practical = found["attacks"]
    assert (paper["right"], paper["flips"], paper["flags"]["unwarranted"]) == (2, 2, 0)
    assert (practical["right"], practical["flips"], practical["flags"]["unwarranted"]) == (2, 2, 2)


@pytest.mark.usefixtures("endpoint")
def test_a_passage_from_the_attacked_source_travels_under_practical_only(tmp_path: Path) -> None:
    options = ["--graph", "tool_mad", "--set", MAD, "--model", "openai:careful", "--attack", "poison_one_host"]
    options += ["--defence", "none", "--preset", "paper", "--preset", "practical", "--source", "bm25:demo-news"]
    run_attacks(tmp_path, *options, "--set", "embedder=openai:e", limit=2)
    readers_of: dict[str, set[str]] = {}
    for log in map(read_eval_log, map(str, tmp_path.glob("*.eval"))):
        for document in filter(None, map(document_in, log.samples or [])):
            planted = {one["id"] for one in document["evidence"] if ".example/" in one.get("url", "")}
            agents = {
                t["agent"] for t in document["turns"] if t["step"] == "respond" and planted & {*t["evidence_ids"]}
            }
            readers_of.setdefault((log.metadata or {})["system"], set()).update(agents)
    assert readers_of.pop("tool_mad under poison one host") == {"a"}
    assert readers_of.pop("tool_mad (practical) under poison one host") == {"a", "b"}
    assert not any(readers_of.values())
    options[options.index("bm25:demo-news")] = "web"
    ended = moot(
        "eval", "attack", "--task", f"claims={DEMO / 'claims.jsonl'}", "--limit", "2", "--logs", tmp_path, *options
    )
    assert ended.returncode == 3
    assert "the debate searches no source named web" in " ".join(ended.stderr.split())
