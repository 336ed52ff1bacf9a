"""Past debates: result documents under ``$MOOT_HOME/debates``, one file each, which need no server to be read again."""

from __future__ import annotations

import json
import re
import secrets
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from moot.core.errors import UserError
from moot.core.files import not_kept, write_whole
from moot.nodes.runtime.document import upgraded
from moot.nodes.runtime.state import VerdictOutput
from moot.nodes.texts.quotes import find_quote
from moot.retrievers.stores import corpora_folder
from moot.transcript.document import settings_of
from pydantic import TypeAdapter, ValidationError

Document = dict[str, Any]
ID = re.compile(r"[0-9]{8}T[0-9]{6}-[0-9a-f]{32}")
"""A debate's id: when it began (UTC), and what nobody can guess."""
LARGEST = 32 * 2**20
"""Bytes of a document that is taken."""
A_PAGE = 20
"""Debates that are listed at a time."""
LISTED = ("claim", "graph", "status", "answer", "started_at")


def debates_folder() -> Path:
    """Where debates are kept: beside the corpora."""
    return corpora_folder().parent / "debates"


def imported(content: bytes) -> Document:
    """A result document from outside, such as ``moot verify --out`` writes.

    Raises:
        UserError: it is too large, no JSON, or no result document; its graph or settings are none of this version's;
            or a quote that it calls verified does not stand in its evidence.
    """
    document = parsed(content)
    settings_of(document)
    _check_quotes(document)
    return document


def parsed(content: bytes) -> Document:
    """JSON that holds a result document.

    Raises:
        UserError: it does not, or is too large.
    """
    if len(content) > LARGEST:
        raise unfit(f"it has more than {LARGEST // 2**20} MiB")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:  # also what is no UTF-8
        raise unfit(f"it is no valid JSON ({str(error)[:200]})") from error
    return checked_document(value)


def checked_document(value: Any) -> Document:
    """A value that is found to be a result document, of this version's form; what none has is left out.

    Raises:
        UserError: it is none.
    """
    try:
        document: Document = _shape().validate_python(upgraded(value), strict=True)
        began(document)
        json.dumps(document, allow_nan=False, ensure_ascii=False).encode()
    except ValidationError as error:
        first = error.errors()[0]
        raise unfit(f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:300]) from error
    except (ValueError, RecursionError) as error:
        raise unfit(str(error)[:300]) from error
    return document


@lru_cache(maxsize=1)
def _shape() -> TypeAdapter[Any]:
    return TypeAdapter(VerdictOutput)


def _check_quotes(document: Document) -> None:
    texts = {piece["id"]: piece["text"] for piece in document["evidence"]}
    for turn in document["turns"]:
        for citation in turn.get("citations") or []:
            place = (citation["start"], citation["end"])
            if citation["verified"] and find_quote(citation["quote"], texts.get(citation["evidence_id"], "")) != place:
                raise unfit(f"it calls a quote verified that does not stand in {citation['evidence_id'][:40]!r}")


def unfit(why: str) -> UserError:
    """What is said of what is no result document."""
    return UserError(f"This is no result document as `moot verify --out FILE` writes it: {why}.", kind="invalid_file")


def began(document: Document) -> datetime:
    """When a debate began, in UTC.

    Raises:
        ValueError: the document does not say it as a moment in ISO form.
    """
    return datetime.fromisoformat(document["started_at"]).astimezone(UTC)


# --- the folder, blocking ---------------------------------------------------------------------------------------------


def save(document: Document) -> str:
    """Keeps a document and returns its id; that of its first copy where it is kept already.

    Raises:
        UserError: the folder cannot be written.
        WorldError: its disk is full.
    """
    text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    moment = f"{began(document):%Y%m%dT%H%M%S}-"
    folder = debates_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for known in folder.glob(f"{moment}*.json"):
            if known.read_text(encoding="utf-8") == text:
                return known.stem
        id = moment + secrets.token_hex(16)
        write_whole(folder / f"{id}.json", text, private=True)
    except OSError as error:
        raise not_kept("Debates", folder, error) from error
    return id


def path_of(id: str) -> Path:
    """The file of a debate.

    Raises:
        UserError: there is none.
    """
    path = debates_folder() / f"{id}.json"
    if not ID.fullmatch(id) or not path.is_file():
        raise UserError("There is no such debate: it was deleted, or the link is wrong.", kind="missing_file")
    return path


def load(id: str) -> Document:
    """A debate's document.

    Raises:
        UserError: there is none, or its file is damaged.
    """
    return parsed(path_of(id).read_bytes())


def delete(id: str) -> None:
    """Deletes a debate for good.

    Raises:
        UserError: there is none.
    """
    path_of(id).unlink()


def listed(page: int = 1) -> tuple[list[dict[str, Any]], int]:
    """One page of the debates, newest first, and how many there are in all; of a damaged one ``fault`` says so."""
    ids = sorted((path.stem for path in debates_folder().glob("*.json") if ID.fullmatch(path.stem)), reverse=True)
    return [_entry(id) for id in ids[(page - 1) * A_PAGE : page * A_PAGE]], len(ids)


def _entry(id: str) -> dict[str, Any]:
    try:
        document = json.loads(path_of(id).read_bytes())
        return {"id": id, **{key: document[key] for key in LISTED}}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {"id": id, "fault": "Its file is damaged."}
