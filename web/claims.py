"""Routes of the page that read files, web pages and tables of claims, and that write tables of claims.

These routes do not find claims. For that, the page calls the graph `find_claims` through the LangGraph API.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from moot.core.errors import UserError
from moot.evals._benchmarks.claim_files import BadRow, ClaimRow, ClaimsFile, ListOptions, ListQuestion
from moot.evals._benchmarks.list_dates import ORDERS
from moot.nodes._claims.places import sentences_in
from moot.nodes._claims.reading import read_article, read_article_file
from moot.nodes._claims.steps import check_text
from moot.retrievers._archives import is_url
from moot.transcript.claims import claims_csv
from moot.transcript.report.sentences import translated
from moot.web.caller import READING, body_of, parse_json, read_upload
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

LARGEST_FILE = 64 * 2**20
"""Maximum size of a document, in bytes."""
LARGEST_TABLE = 8 * 2**20
"""Maximum size of a table of claims, in bytes."""
MOST_ROWS = 5000
"""Maximum number of rows of a table of claims."""


async def read_text(request: Request) -> Any:
    """Reads a web page or a file as the input of the graph `find_claims`.

    The query has the page's ``url`` or the file's ``name``. With a ``name``, the body is the file.
    """
    url = request.query_params.get("url", "").strip()
    if url and not is_url(url):
        raise UserError(f"{url[:200]} is not an address that begins with http:// or https://.", kind="bad_request")
    if not url:
        return await read_upload(request, LARGEST_FILE, read_article_file)
    async with READING:
        return await run_in_threadpool(read_article, url)


async def list_sentences(request: Request) -> Any:
    """Lists every sentence of a text as a claim, without a call of a model.

    The body is an input of the graph `find_claims`.
    """
    body = parse_json(await body_of(request, LARGEST_FILE))
    if not isinstance(body, dict):
        raise UserError('The body must be {"text": "..."}.', kind="bad_request")
    text = await run_in_threadpool(check_text, body)
    places = await run_in_threadpool(sentences_in, text["text"], text.get("sections") or [])
    return {
        "claims": [{"id": f"c{n}", "claim": " ".join(one["quote"].split()), **one} for n, one in enumerate(places, 1)]
    }


async def claims_as_csv(request: Request) -> Response:
    """Converts edited claims to CSV for ``moot batch``.

    The body has the ``claims``, and may have a ``url`` and a ``source``. The group of all claims is the ``url``. If
    there is none, the group is the ``source``; if there is neither, it is the word "text".
    """
    body = parse_json(await body_of(request, LARGEST_TABLE))
    claims = body.get("claims") if isinstance(body, dict) else None
    if not isinstance(claims, list) or not all(isinstance(one, dict) and _has_words(one) for one in claims):
        raise UserError('The body must be {"claims": [{"claim": "..."}, ...], "source": "..."}.', kind="bad_request")
    try:
        table = claims_csv(claims, str(body.get("url") or body.get("source") or "text"), str(body.get("url") or ""))
    except (KeyError, TypeError) as error:
        raise UserError(
            "A claim lacks a field of the graph's output, or a field has the wrong type.", kind="bad_request"
        ) from error
    head = {"Content-Disposition": 'attachment; filename="claims.csv"'}
    return Response(table, media_type="text/csv", headers=head)


def _has_words(claim: Any) -> bool:
    return isinstance(claim.get("claim"), str) and bool(claim["claim"].strip())


async def read_rows(request: Request) -> Any:
    """The ``rows`` of a file of claims, as ``moot batch`` reads them, its ``columns``, and ``notes`` on how it is read.

    A row that cannot be used has a ``problem`` and its ``cells``. If the file does not show how it is to be read, there
    is a ``question`` instead: the ``text`` of it, what it is ``about``, and the ``choices``.

    The body is the file. The query has the file's ``name``, and the answers to earlier questions: ``column.claim`` (or
    another of moot's columns) with the file's name of that column, ``dates``, ``sheet`` and ``charset``.
    """
    query = request.query_params
    given = {name.partition(".")[2]: own for name, own in query.items() if name.startswith("column.") and own}
    dates = next((order for order in ORDERS if order == query.get("dates")), None)
    options = ListOptions(given, dates, query.get("sheet"), query.get("charset"))
    return await read_upload(request, LARGEST_TABLE, partial(_read_rows, options=options), usual=".csv")


def _read_rows(path: Path, name: str, options: ListOptions) -> dict[str, Any]:
    try:
        file = ClaimsFile(path, options)
    except ListQuestion as question:
        return {"question": {"text": question.text, "about": question.about, "choices": question.choices}}
    except UserError as error:  # a person knows the name of the file, not that of its copy
        raise UserError(error.detail.replace(path.name, name or path.name, 1), kind=error.kind) from error
    rows = [_row_record(row) for _, row in zip(range(MOST_ROWS + 1), file, strict=False)]
    if len(rows) > MOST_ROWS:
        raise UserError(f"{name} has more than {MOST_ROWS:,} rows. Use: moot batch {name}", kind="invalid_file")
    notes = [f"{note[:1].upper()}{note[1:]}." for note in file.notes]
    return {"rows": rows, "notes": [translated(note) or note for note in notes], "columns": file.columns}


def _row_record(row: ClaimRow | BadRow) -> dict[str, Any]:
    if isinstance(row, BadRow):
        return asdict(row)
    return {**asdict(row), "given": [{"title": title, "text": text} for title, text in row.given]}
