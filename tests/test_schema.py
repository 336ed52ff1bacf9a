"""Result documents whose schema is not the present one are refused, in files, logs and the list of stored debates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from moot.evals._runs.identity import version_of
from moot.graphs import load_graph
from moot.web import debates

from tests.commands import moot
from tests.evals.made_logs import debate, write_log
from tests.web.documents import a_debate, set_content

FAULT = "but this version of moot reads only '1.4'; run the debate again"


@pytest.mark.parametrize("version", ["1.0", "1.3", "2.0", 1.4])
async def test_a_document_of_another_schema_is_refused(
    version: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    document = await a_debate()
    path = tmp_path / "debate.json"
    path.write_text(json.dumps(document | {"schema_version": version}))
    id = debates.save(document)
    assert moot("show", id).returncode == 0
    set_content(tmp_path, id, path.read_bytes())
    ragas = ("eval", "ragas", path, "--model", "fake:1")
    for words in (("report", path), ("show", id), ("report", id), ragas):
        done = moot(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"it has `schema_version` {version!r}, {FAULT}" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    "command",
    [
        ("eval", "compare"),
        ("eval", "agreement"),
        ("eval", "audit"),
        ("eval", "experiment"),
        ("eval", "ragas"),
        ("calibrate",),
    ],
)
def test_a_log_with_a_document_of_another_schema_is_refused(command: tuple[str, ...], tmp_path: Path) -> None:
    parts = {"prompts": {}, "sources": {}, "corpora": {}, "behaviour": version_of("rag", load_graph("rag").settings())}
    other = debate("SUPPORTS") | {"schema_version": "1.0"}
    log = write_log(tmp_path, "log", {"1": other}, {"1": "SUPPORTS"}, graph="rag", parts=parts)
    options = {"ragas": ("--model", "fake:1"), "agreement": ("--grader", "fake:1")}.get(command[-1], ())
    done = moot(*command, log, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"it has `schema_version` '1.0', {FAULT}" in " ".join(done.stderr.split())
