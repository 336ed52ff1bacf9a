"""The parts that identify a run: its corpora, prompts and endpoints, and the version of its system."""

from __future__ import annotations

import asyncio
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import EvalSample
from moot.core.endpoint import close_clients
from moot.evals._runs.identity import code_digest, code_version, differences, parts_of, version_of
from moot.evals._runs.plan import make_plan, read_plan
from moot.evals._runs.reference import moot_metadata, read_log_headers
from moot.evals._runs.run_plan import Limits, run_plan
from moot.graphs import load_graph
from moot.retrievers import index_passages
from moot.retrievers._corpus import corpus_digest
from moot.retrievers._files import Passage

from tests.conftest import StartStub
from tests.evals.test_runs import run
from tests.evals.test_solver import claims

ENCODER = "openai:stub-embedding"


def index_texts(name: str, *texts: str) -> None:
    """Index these texts as the passages of a corpus."""
    passages = [Passage(id=str(i), title="Page", text=text) for i, text in enumerate(texts)]

    async def build() -> None:
        await index_passages(name, passages, encoder=ENCODER)
        await close_clients()

    asyncio.run(build())


def test_a_plan_runs_again_if_a_corpus_or_an_endpoint_changed(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_stub()
    index_texts("farm", "Saffron grows in autumn.", "Wheat grows in summer.")
    data = claims(tmp_path / "fever.jsonl", "SUPPORTS", "REFUTES", "SUPPORTS")
    settings = {"sources": ["bm25"], "corpus": "farm", "embedder": ENCODER}
    given = {"graphs": ["rag"], "tasks": {"fever": data}, "settings": settings, "models": ["openai:stub"]}
    plan = make_plan(given)

    def run_samples_and_notes() -> tuple[int, list[str]]:
        """Run the plan; return the number of samples that ran, and the notes."""
        run_samples: list[EvalSample] = []
        notes: list[str] = []
        run_plan(plan, tmp_path / "logs", Limits(4), lambda total, held: run_samples.append, notes.append)
        return len(run_samples), notes

    assert (run_samples_and_notes(), run_samples_and_notes()) == ((3, []), (0, []))
    index_texts("farm", "Saffron grows in spring.", "Wheat grows in summer.")
    sample_count, (note,) = run_samples_and_notes()
    assert sample_count == 3
    # the name of a log begins with the year
    assert note.startswith("rag on fever is run again, because it is not the same run as 20")
    assert note.endswith(".eval: these differ: the content of the corpus farm.")
    index_texts("farm", "Saffron grows in autumn.", "Wheat grows in summer.")
    assert run_samples_and_notes() == (0, [])
    parts = [moot_metadata(log)["parts"] for log in read_log_headers(str(tmp_path / "logs"))]
    assert {tuple(part["corpora"]) for part in parts} == {("farm",)}
    assert len({part["corpora"]["farm"] for part in parts}) == 2
    monkeypatch.setenv("OPENAI_BASE_URL", os.environ["OPENAI_BASE_URL"].replace("/v1", "/other/v1"))
    sample_count, (note,) = run_samples_and_notes()
    assert sample_count == 3
    assert note.endswith(".eval: these differ: the endpoint of openai."), "the note compares with the most similar run"


def test_the_digest_of_a_corpus_depends_only_on_its_passages(start_stub: StartStub) -> None:
    start_stub()
    index_texts("one", "A.", "B.")
    index_texts("two", "A.")
    index_texts("two", "A.", "B.")
    assert corpus_digest("one") == corpus_digest("two")
    index_texts("two", "A.", "C.")
    assert corpus_digest("one") != corpus_digest("two")


def test_the_parts_that_differ_between_two_runs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:secret@127.0.0.1:1/v1")
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    chosen = {"model": "openai:one", "sources": ["web"]}
    before = parts_of("rag", chosen)
    assert before["endpoints"] == {"openai": "http://127.0.0.1:1/v1"}
    assert differences(before, before) == []
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:2/v1")
    monkeypatch.setenv("TAVILY_API_KEY", "key")
    monkeypatch.setattr("moot.evals._runs.identity.code_version", lambda: "another")
    monkeypatch.setattr(
        "moot.nodes._texts.calibrated.shipped", lambda name: "other" if name == "rag/answer" else "same"
    )
    monkeypatch.setattr("moot.prompts._files.shipped", lambda name: "same")
    now = parts_of("rag", chosen)
    named = {"the system's version", "the endpoint of openai", "the prompt rag/answer", "the kind of the source web"}
    assert named <= set(differences(before, now))


def test_a_plan_saved_with_its_logs_runs_no_sample_twice(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The saved plan has absolute paths, so it can be read from another current folder."""
    start_stub()
    data = claims(tmp_path / "fever.jsonl", "SUPPORTS", "REFUTES")
    fields: dict[str, Any] = {"graphs": [{"graph": "standard_prompting", "label": "alone"}], "tasks": {"fever": data}}
    log = run(tmp_path, **fields, seeds=[3])["alone"]
    (saved,) = (tmp_path / "logs").glob("plan-*.yaml")
    assert saved.stem == f"plan-{moot_metadata(log)['plan']}"
    monkeypatch.chdir("/")
    plan = read_plan(saved, {})
    assert plan == make_plan({"models": ["openai:stub"], **fields, "seeds": [3]})
    run_samples: list[EvalSample] = []
    run_plan(plan, tmp_path / "logs", Limits(2), lambda total, held: run_samples.append)
    assert not run_samples


def test_a_systems_version_changes_with_moots_code(tmp_path: Path) -> None:
    (tmp_path / "graph.py").write_text("rounds = 1")
    before = code_digest([str(tmp_path)])
    assert version_of("rag", load_graph("rag").settings()) == f"rag {code_version()}"
    (tmp_path / "graph.py").write_text("rounds = 2")
    assert code_digest([str(tmp_path)]) != before
    assert code_version().startswith(f"{version('moot')} ")
