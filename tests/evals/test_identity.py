"""The identity of a run: contents of corpora, prompts, endpoints, and the behaviour of a system."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import EvalSample
from moot.core.endpoint import close_clients
from moot.evals._identity.behaviour import behaviours
from moot.evals._identity.parts import differences, parts_of
from moot.evals._runs.plan import make_plan, read_plan
from moot.evals._runs.reference import moot_metadata, read_log_headers
from moot.evals._runs.run import Limits, run_plan
from moot.graphs import DESCRIPTIONS
from moot.nodes._models.speaker import Speaker
from moot.retrievers import index_passages
from moot.retrievers._corpus import corpus_digest, read_manifest
from moot.retrievers._files import Passage
from moot.retrievers._stores import corpora_folder

from tests.conftest import StartStub
from tests.evals.behaviours import behaviour_of
from tests.evals.test_runs import run
from tests.evals.test_solver import claims

ENCODER = "openai:stub-embedding"


def index(name: str, *texts: str) -> None:
    passages = [Passage(id=str(i), title="Page", text=text) for i, text in enumerate(texts)]

    async def build() -> None:
        await index_passages(name, passages, encoder=ENCODER)
        await close_clients()

    asyncio.run(build())


def test_another_content_of_a_corpus_or_another_endpoint_makes_another_run(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_stub()
    index("farm", "Saffron grows in autumn.", "Wheat grows in summer.")
    data = claims(tmp_path / "fever.jsonl", "SUPPORTS", "REFUTES", "SUPPORTS")
    settings = {"sources": ["bm25"], "corpus": "farm", "embedder": ENCODER}
    given = {"graphs": ["rag"], "tasks": {"fever": data}, "settings": settings, "models": ["openai:stub"]}
    plan = make_plan(given)

    def run_again() -> tuple[int, list[str]]:
        run_samples: list[EvalSample] = []
        notes: list[str] = []
        run_plan(plan, tmp_path / "logs", Limits(4), lambda total, held: run_samples.append, notes.append)
        return len(run_samples), notes

    assert (run_again(), run_again()) == ((3, []), (0, []))
    index("farm", "Saffron grows in spring.", "Wheat grows in summer.")
    run_count, (note,) = run_again()
    assert run_count == 3
    assert note.startswith("rag on fever is not the same run as 20")  # a log's name begins with the year
    assert note.endswith(".eval: these differ: the content of the corpus farm.")
    index("farm", "Saffron grows in autumn.", "Wheat grows in summer.")
    assert run_again() == (0, [])
    parts = [moot_metadata(log)["parts"] for log in read_log_headers(str(tmp_path / "logs"))]
    assert {tuple(part["corpora"]) for part in parts} == {("farm",)}
    assert len({part["corpora"]["farm"] for part in parts}) == 2
    monkeypatch.setenv("OPENAI_BASE_URL", os.environ["OPENAI_BASE_URL"].replace("/v1", "/other/v1"))
    run_count, (note,) = run_again()
    assert run_count == 3
    assert note.endswith(".eval: these differ: the endpoint of openai."), "the note compares with the most similar run"


def test_a_corpus_digest_depends_on_the_content_only(start_stub: StartStub) -> None:
    start_stub()
    index("one", "A.", "B.")
    index("two", "A.")
    index("two", "A.", "B.")
    assert corpus_digest("one") == corpus_digest("two")
    manifest = corpora_folder() / "one" / "manifest.json"
    known = read_manifest("one")
    assert known is not None
    manifest.write_text(manifest.read_text().replace(known.digest, ""))  # as an older version of moot wrote it
    assert corpus_digest("one") == known.digest
    index("two", "A.", "C.")
    assert corpus_digest("one") != corpus_digest("two")


def test_the_differences_of_two_runs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:secret@127.0.0.1:1/v1")
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    chosen = {"model": "openai:one", "sources": ["web"]}
    before = parts_of("rag", chosen)
    assert before["endpoints"] == {"openai": "http://127.0.0.1:1/v1"}
    assert differences(before, before) == []
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:2/v1")
    monkeypatch.setenv("TAVILY_API_KEY", "key")
    monkeypatch.setitem(behaviours(), "rag", "another")
    monkeypatch.setattr(
        "moot.nodes._texts.calibrated.shipped", lambda name: "other" if name == "rag/answer" else "same"
    )
    monkeypatch.setattr("moot.prompts._files.shipped", lambda name: "same")
    now = parts_of("rag", chosen)
    named = {"the system's version", "the endpoint of openai", "the prompt rag/answer", "the kind of the source web"}
    assert named <= set(differences(before, now))


def test_a_plan_saved_with_its_logs_is_read_back_and_runs_no_sample_twice(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize("name", DESCRIPTIONS)
async def test_a_systems_version_is_the_digest_of_its_behaviour(name: str) -> None:
    """If this fails, a system's behaviour changed. If that was intended, run `python -m tests.evals.behaviours`."""
    assert await behaviour_of(name) == behaviours()[name]


async def test_a_systems_version_changes_with_a_word_of_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    filled = Speaker.filled

    def filled_with_another_word(speaker: Speaker, prompt: str, values: Any) -> tuple[str, str]:
        instructions, data = filled(speaker, prompt, values)
        return f"{instructions} Please.", data

    monkeypatch.setattr(Speaker, "filled", filled_with_another_word)
    assert await behaviour_of("standard_prompting") != behaviours()["standard_prompting"]
