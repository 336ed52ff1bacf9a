"""Documents that moot 0.1.0 wrote can still be read from files, stored debates and logs, and shown in reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import EvalSample
from moot.core.errors import UserError
from moot.evals._runs.logs import REPORT_FIELDS, checked_document
from moot.evals._runs.solver import DOCUMENT, document_in
from moot.nodes._runtime.document import DEFAULTS_BEFORE, upgrade_document
from moot.nodes._runtime.state import SCHEMA_VERSION, VerdictOutput
from moot.transcript.report.report import report
from moot.web import debates

DOCUMENTS = sorted((Path(__file__).parent / "documents_0_1_0").glob("*.json"))
"""Documents that ``moot verify --model fake:1 --out`` wrote, with few short pieces of evidence."""


def test_old_documents_have_the_statuses_done_failed_and_interrupted() -> None:
    statuses = {json.loads(path.read_text())["status"] for path in DOCUMENTS}
    assert (len(DOCUMENTS), statuses) == (6, {"done", "failed", "interrupted"})


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_an_old_document_can_be_read_and_shown_in_a_report(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    old = json.loads(path.read_text())
    assert (old["schema_version"], old["moot_version"]) == ("1.0", "0.1.0")
    document = debates.parse_document(path.read_bytes())
    assert set(document) == set(VerdictOutput.__annotations__)
    assert {key: document[key] for key in old} == {**old, "schema_version": SCHEMA_VERSION}
    for kind in ("md", "html"):
        assert document["claim"] in report(document, kind)
    stored = debates.debates_folder() / f"{debates.save(document)}.json"
    stored.write_bytes(path.read_bytes())  # as 0.1.0 stored it
    assert debates.load(stored.stem) == document
    sample = EvalSample(id=1, epoch=1, input="", target="", store={DOCUMENT: path.read_text()})
    read = checked_document(document_in(sample), REPORT_FIELDS)
    assert read == {key: document[key] for key in read}


def test_an_upgrade_keeps_existing_fields_and_current_documents() -> None:
    """It adds missing fields to old documents, and returns every other value unchanged."""
    old: dict[str, Any] = json.loads(DOCUMENTS[0].read_text())
    first = {key: value for key, value in old.items() if key != "messages"}  # the earliest documents have no messages
    assert upgrade_document(first) == {**old, **DEFAULTS_BEFORE["1.0"], "schema_version": SCHEMA_VERSION}
    talk = {**old, "messages": [{"role": "user", "content": old["claim"]}]}
    assert upgrade_document(talk)["messages"] == talk["messages"]
    now = {**first, "schema_version": SCHEMA_VERSION}
    others: list[Any] = [now, {"schema_version": "9.0"}, {}, [], None, "1.0"]
    for found in others:
        assert upgrade_document(found) is found


def test_a_document_of_an_unknown_later_version_is_refused() -> None:
    later = json.loads(DOCUMENTS[0].read_text()) | {"schema_version": "9.0"}
    with pytest.raises(UserError, match=r"has schema_version 9\.0, but .* 1\.3, 1\.4\. Install"):
        debates.parse_document(json.dumps(later).encode())
