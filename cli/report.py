"""``moot report``: writes reports from result documents."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moot.cli.history import document_id
from moot.core.errors import MootError, UserError
from moot.core.files import check_writable, write_atomically, write_error
from moot.transcript.language import check_language
from moot.transcript.report.claim_review import check_publisher, claim_review
from moot.transcript.report.report import report
from moot.transcript.report.reviewed import Review
from moot.transcript.report.summary import with_summary
from moot.web import debates
from moot.web.kept import LARGEST, parse_document
from moot.web.reviews import review_of, review_of_file

SUFFIXES = {"html": ".html", "md": ".md", "claimreview": ".claimreview.json"}
"""File suffix by kind of report."""
ENDS = {"html": (".html", ".htm"), "md": (".md",), "claimreview": (".json", ".jsonld")}
"""Suffixes that the file in ``--out`` may have, by kind of report."""


@dataclass(frozen=True)
class Publisher:
    """The publisher of claim reviews, and the address of the page with a review.

    ``name`` is the publisher's name. In the address ``url``, ``{id}`` stands for the name of the document's file
    without its suffix. Both are empty if the command line does not name them. ``unreviewed``: checks that nobody
    approved have a review, too.
    """

    name: str
    url: str
    unreviewed: bool = False


def write_reports(
    documents: Sequence[Path],
    kinds: Sequence[str],
    out: Path | None,
    publisher: Publisher,
    model: str | None = None,
    language: str | None = None,
) -> int:
    """Writes reports, prints their paths, and returns the exit code: 2 if some report was not written, else 0.

    Args:
        documents: result documents, folders of them, and ids of `moot list`.
        kinds: keys of `SUFFIXES`.
        out: the folder for the reports. If there is only one report and ``out`` has a suffix, ``out`` is the
            report's file, unless ``out`` is an existing folder. If None, each report is written to the folder of its
            document; that of a stored document, to the current folder.
        publisher: the publisher named in claim reviews.
        model: the model that summarises each document that has no summary; None for no new summaries. The summary is
            written into the document's file, or stored.
        language: the language of the reports; None for that of each claim.

    Raises:
        UserError: there are no texts in the language. Or a document is not found, or none is named. Or ``out`` has the
            wrong suffix, or a claim review has no publisher, no valid address, or no address of its own. Or there are
            several reports, and ``out`` names a file. Errors in a single document are only printed.
        WorldError: the store, in which ids are looked up, cannot be read.
    """
    if language is not None:
        check_language(language)
    found = list(_sources(documents))
    if not found:
        raise UserError(
            "No document is named. Give result documents (.json), folders of them, or ids of `moot list`.",
            kind="missing_file",
        )
    if "claimreview" in kinds:
        check_publisher(publisher.name, publisher.url)
        if len(found) > 1 and "{id}" not in publisher.url:
            raise UserError(
                "Each review needs its own address: put {id} into --url. Each document's file name replaces {id}.",
                kind="bad_request",
            )
    file = out if out is not None and out.suffix != "" and not out.is_dir() else None
    single = file is not None and len(found) * len(kinds) == 1
    if file and not single and any(file.suffix.lower() in ENDS[kind] for kind in kinds):
        raise UserError(
            f"There are several reports, so --out takes a folder, not the file {file.name}.", kind="invalid_file"
        )
    if file and single and file.suffix.lower() not in ENDS[kinds[0]]:
        ends = " or ".join(ENDS[kinds[0]])
        raise UserError(
            f"For this kind of report, --out takes a name that ends in {ends}, not {file.name}.", kind="invalid_file"
        )
    faults = 0
    for source in found:
        path = source.path
        try:
            document = parse_document(debates.content_of(source.id)) if source.id else read_document(path)
            review = review_of(source.id) if source.id else review_of_file(document)
            if model is not None and "reader_summary" not in document:
                if review.has_begun:
                    raise UserError(
                        "An editor has reviewed it. A summary would change the numbers of the sources that the editor "
                        "cites, so none is added: leave out --model.",
                        kind="bad_request",
                    )
                document = asyncio.run(with_summary(document, {"model": model}))
                if source.id:
                    debates.replace(source.id, document)
                else:
                    _write(path, json.dumps(document, ensure_ascii=False, indent=2) + "\n")
            for kind in kinds:
                target = _target_file(path, kind, out, single=single)
                _write(target, render(document, kind, publisher, path.stem, review, language))
                print(target)  # noqa: T201
        except MootError as error:
            faults += 1
            print(f"moot: {path}: {error.detail}", file=sys.stderr)  # noqa: T201
    return 2 if faults else 0


def read_document(path: Path) -> dict[str, Any]:
    """A result document from a file.

    Raises:
        UserError: the file cannot be read, or `parse_document` refuses its content.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise UserError(f"It cannot be read ({error.strerror}).", kind="missing_file") from error
    return parse_document(content)


def render(
    document: Mapping[str, Any],
    kind: str,
    publisher: Publisher,
    name: str,
    review: Review,
    language: str | None = None,
) -> str:
    """The text of a debate's report.

    Args:
        document: the debate's result document.
        kind: a key of `SUFFIXES`.
        publisher: the publisher of a claim review; ignored for other kinds.
        name: the document's file name without suffix, which replaces ``{id}`` in the publisher's address.
        review: what editors decided about the check.
        language: see `report`; ignored for a claim review.

    Raises:
        UserError: the same as for `report` and `claim_review`.
    """
    if kind == "claimreview":
        address, history = publisher.url.replace("{id}", name), review.of_version
        return claim_review(document, publisher.name, address, history, unreviewed=publisher.unreviewed)
    return report(document, kind, language, review)


@dataclass(frozen=True)
class Source:
    """A document: a file, or one in the store, beside whose path (in the current folder) its reports are written."""

    path: Path
    id: str = ""  # of a document in the store


def _sources(paths: Sequence[Path]) -> Iterator[Source]:
    """The documents that the command line names. A folder stands for the .json files in it that are not claim reviews.

    Raises:
        UserError: a folder has no such file, or a name is neither a path nor the id of one debate with a document.
    """
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.glob("*.json") if not file.name.endswith(SUFFIXES["claimreview"]))
            if not inside:
                raise UserError(f"There is no .json document in {path}.", kind="missing_file")
            yield from map(Source, inside)
        elif path.is_file():
            yield Source(path)
        else:
            try:
                id = document_id(str(path))
            except UserError as error:
                raise UserError(f"There is no file {path}. {error.detail}", kind="missing_file") from error
            yield Source(Path(f"{id}.json"), id)


def _target_file(path: Path, kind: str, out: Path | None, *, single: bool) -> Path:
    """The file for a document's report; ``single`` says whether ``out`` is this file."""
    if single and out is not None:
        return out
    return (path.parent if out is None else out) / f"{path.stem}{SUFFIXES[kind]}"


def _write(target: Path, text: str) -> None:
    """Writes a file, and creates its folder if it is missing."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, text)
    except OSError as error:
        raise write_error(target, error) from error


# --- moot verify --out ------------------------------------------------------------------------------------------------


FORMS = {"": None, ".json": None, ".html": "html", ".htm": "html", ".md": "md"}
"""Kind of report by file suffix; None for the document itself."""


def renderer_of(out: Path, language: str | None = None) -> Callable[[dict[str, Any]], str] | None:
    """The function that renders the report for ``--out``, chosen by file suffix; None for the document as JSON.

    Raises:
        UserError: the suffix is unknown.
        UserError, WorldError: the file cannot be written.
    """
    if (end := out.suffix.lower()) not in FORMS:
        raise UserError(f"--out takes a name that ends in .json, .html or .md, not {out.name}.", kind="invalid_file")
    check_writable(out)
    kind = FORMS[end]
    return (lambda document: report(document, kind, language)) if kind else None
