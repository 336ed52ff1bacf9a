"""Documents of past debates are stored, listed, loaded, deleted and checked."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from langgraph_sdk import get_client
from moot.core.errors import UserError
from moot.core.store import open_store, store_path
from moot.core.tables import documents
from moot.web import debates, table
from moot.web.kept import LARGEST, parse_document

from tests.web.documents import Document, a_debate, with_evidence


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a new, empty ``MOOT_HOME``."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    return tmp_path


def with_start(document: Document, second: int) -> Document:
    """The document with a start in the first minute of 2026, in the time zone UTC+1."""
    return {**document, "started_at": f"2026-01-01T00:00:{second:02}+01:00"}


async def test_an_equal_document_is_stored_only_once() -> None:
    """Documents are listed newest first. A deleted document is neither loaded nor listed."""
    document = await a_debate()
    ids = [debates.save(with_start(document, second)) for second in (1, 3, 2)]
    assert debates.save(with_start(document, 3)) == ids[1]  # no second copy is stored
    assert debates.save({**with_start(document, 3), "claim": "Another."}) != ids[1]
    assert ids[0].startswith("20251231T230001-")
    entries = [debates.entry(one.id) for one in debates.listed()]
    assert [entry["started_at"][17:19] for entry in entries] == ["03", "03", "02", "01"]
    assert debates.load(ids[2]) == with_start(document, 2)
    known = {one.id for one in debates.listed()}
    debates.delete(ids[2])
    with pytest.raises(UserError, match="no such debate"):
        debates.load(ids[2])
    client: Any = None  # `entry_of` uses it only for debates in the store
    assert [one.id for one in debates.listed()] == sorted(known - {ids[2]}, reverse=True)
    gone = debates.Listed(ids[2], document["id"], True, None, None)
    assert await table.entry_of(gone, client) is None
    assert await table.entry_of(gone._replace(id=ids[0]), client) == debates.entry(ids[0])


async def test_debates_are_listed_in_pages_even_if_a_document_is_damaged() -> None:
    document = await a_debate()
    for second in range(debates.PAGE_SIZE + 1):
        last = debates.save(with_start(document, second))
    damage = sa.update(documents).where(documents.c.id == last)
    open_store().do(lambda connection: connection.execute(damage.values(content=b'{"claim": 1')))
    client = get_client(url="http://none.test")
    (first, total), *more = [await table.list_page(page, client, table.Wanted()) for page in (1, 2, 3)]
    assert (len(first), total, [len(entries) for entries, _ in more]) == (debates.PAGE_SIZE, 21, [1, 0])
    assert first[0]["id"] == last
    with pytest.raises(UserError, match="is damaged"):
        debates.load(last)


MOMENT = "20260101T000000-"


@pytest.mark.parametrize(
    "id",
    [
        *("../secret", "..", "", "*", "/etc/passwd", "\0", MOMENT + "0" * 31, MOMENT + "A" * 32),
        *(MOMENT + "0" * 32 + end for end in ("\n", "/../../secret", "0")),
    ],
)
def test_an_invalid_id_finds_nothing(own_home: Path, id: str) -> None:
    for reach in (debates.load, debates.delete, debates.entry):
        with pytest.raises(UserError, match="no such debate"):
            reach(id)
    assert not debates.has_document(id)


def with_change(change: Callable[[Document], Any]) -> Callable[[Document], bytes]:
    """A function that changes a document, and encodes it as JSON."""

    def content(document: Document) -> bytes:
        change(document)
        return json.dumps(document).encode()

    return content


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d: b"[1", "not valid JSON"),
        (lambda d: b"\xff", "not valid JSON"),
        (lambda d: b"[" * 100_000, "not valid JSON"),
        (lambda d: b"{}", "it has no `schema_version`"),
        (with_change(lambda d: d.update(schema_version="1.0")), "`schema_version` '1.0', but .*; run the debate again"),
        (lambda d: b" " * (LARGEST + 1), "more than 32 MiB"),
        (with_change(lambda d: d.update(turns=1)), "turns: Input should be a valid list"),
        (with_change(lambda d: d.update(seconds=float("nan"))), "not JSON compliant"),
        (with_change(lambda d: d["metrics"].update(x="\ud800")), "surrogates not allowed"),
        (with_change(lambda d: d.update(started_at="yesterday")), "Invalid isoformat"),
        (with_change(lambda d: d.update(started_at="0001-01-01T00:00:00+14:00")), "is not in the years 1 to 9999"),
        (with_change(lambda d: d.update(graph="../tool_mad")), "There is no graph"),
        (with_change(lambda d: d["settings"].update(color=1)), "There is no setting 'color'"),
        (with_change(lambda d: d["turns"][0]["citations"][0].update(start=1)), "a quote marked as verified is not in"),
        (
            with_change(lambda d: d["turns"][0]["citations"][0].update(quote="fly")),
            "a quote marked as verified is not in",
        ),
    ],
)
async def test_invalid_documents_are_refused(make: Callable[[Document], bytes], message: str) -> None:
    document = with_evidence(await a_debate(), 1)
    assert parse_document(json.dumps(document).encode()) == document
    with pytest.raises(UserError, match=message) as caught:
        parse_document(make(copy.deepcopy(document)))
    assert caught.value.kind in ("invalid_file", "invalid_setting", "unknown_graph")


async def test_a_folder_in_place_of_the_store_is_an_error(own_home: Path) -> None:
    store_path().mkdir()
    with pytest.raises(UserError, match="Set MOOT_HOME"):
        debates.save(await a_debate())
