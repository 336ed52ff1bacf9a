"""Reads files of claims row by row: CSV or JSON Lines with a column ``claim``.

Iterating over ``ClaimsFile(Path("my.csv"))`` yields each row, valid or not. The caller decides whether an invalid row
stops the reading (an evaluation) or is only reported (a batch). The contents of a file are not trusted.
"""

from __future__ import annotations

import csv
import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from moot.core.errors import UserError
from moot.core.files import why_unread, without_escape
from moot.core.words import count_with_noun
from moot.evals._benchmarks.records_files import invalid, parse_json
from moot.nodes._texts.task import check_claim, check_origin, make_task
from moot.transcript.claims import COLUMNS as CLAIMS_COLUMNS

COLUMNS = ("claim", "label", "labels", "date", "speaker", "given", "group", "id", "graph", "settings")
DELIMITERS = (",", ";", "\t")
LONGEST_LINE = 16 * 2**20
"""A line with this number of characters, or more, is refused."""
CSV_ERRORS = {
    "unexpected end of data": "a quotation mark is not closed before the end of the file",
    "field larger than field limit": "a cell has more than 131,072 characters, or a quotation mark is not closed; JSON "
    "Lines may have longer texts",
}
"""Beginnings of the csv module's errors, with plainer words for each."""
LONGEST_NAME = 200
"""Maximum number of characters of an id, label, date, speaker, group or graph."""


@dataclass(frozen=True)
class ClaimRow:
    """A claim from a file."""

    number: int
    """The number of the row, from 1; empty rows are not counted."""
    line: int
    """The number of the row's first line in the file, from 1."""
    id: str
    """The claim's id in the file; by default the number of the row."""
    claim: str
    """The claim to check."""
    label: str | None = None
    """The right answer, as the file writes it; None if the row has none."""
    labels: tuple[str, ...] = ()
    """The answers to choose from; empty if the row names none."""
    claim_date: str | None = None
    """The date of the claim: a year, a month or a day."""
    speaker: str | None = None
    """Who made the claim."""
    given: tuple[tuple[str, str], ...] = ()
    """The (title, text) of each text that comes with the claim."""
    group: str | None = None
    """A name shared by claims that are not independent of each other, such as claims about one page."""
    graph: str | None = None
    """The debate system for this row."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of this debate system, for this row."""


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be used; ``problem`` is the reason. Other fields are as in `ClaimRow`; a long id is cut."""

    number: int
    line: int
    id: str
    problem: str


class _Problem(Exception):  # noqa: N818 - says what is wrong with a row
    """The reason why a row cannot be used."""


class ClaimsFile:
    """The rows of a UTF-8 file of claims, .csv, .tsv or .jsonl. Each iteration reads the file again.

    The first line of a .csv or .tsv file names the columns, separated by commas, semicolons or tabs. In such a file,
    ``labels`` are separated by ``|`` or are a JSON list, ``given`` is a text or a JSON list, and ``settings`` is a JSON
    object. The file is refused if its first line cannot be read or is too long; or if it has no column ``claim``, a
    column twice, or a column whose name is probably a misspelling.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        kind = path.suffix.lower()
        if kind not in (".csv", ".tsv", ".jsonl"):
            raise invalid(path.name, "claims are read from files that end in .csv, .tsv or .jsonl.")
        self.is_csv = kind != ".jsonl"
        self.ignored: tuple[str, ...] = ()
        """Unknown columns, which are not read. For JSON Lines, they are complete only after an iteration.

        ``moot claims`` adds columns to CSV files for editing. If all of these are present, they are not listed.
        """
        self._header: list[str] = []
        self._delimiter = ","
        if self.is_csv:
            self._read_header()
        else:
            with self._open() as lines:
                next(self._read_lines(lines), "")

    def __iter__(self) -> Iterator[ClaimRow | BadRow]:
        """Yield each row that is not empty, in order."""
        ids: dict[str, int] = {}
        rows = self._csv_rows() if self.is_csv else self._json_rows()
        for number, (line, value) in enumerate(rows, 1):
            given_id = value.get("id") if isinstance(value, Mapping) else None
            id = str(given_id).strip() if isinstance(given_id, str | int) and str(given_id).strip() else str(number)
            try:
                if isinstance(value, _Problem):
                    raise value
                row = self._parse_row(number, line, id, value)
                if (earlier := ids.setdefault(id, number)) != number:
                    raise _Problem(f"row {earlier} has the same id {id!r}")
            except _Problem as problem:
                yield BadRow(number, line, id[:LONGEST_NAME], str(problem))
            else:
                yield row

    def _open(self) -> TextIO:
        try:
            return self.path.open(encoding="utf-8-sig", newline="")
        except OSError as error:
            raise UserError(why_unread(self.path, error), kind="invalid_file") from error

    def _encoding_error(self, error: UnicodeDecodeError) -> UserError:
        return invalid(self.path.name, f"it is not UTF-8 text ({error.reason}). Save it as UTF-8.")

    def _read_lines(self, lines: TextIO) -> Iterator[str]:
        """Yield the lines of the opened file."""
        number = 0
        try:
            while line := lines.readline(LONGEST_LINE):
                number += 1
                if len(line) == LONGEST_LINE:
                    raise invalid(
                        f"{self.path.name}, line {number}", f"the line has {LONGEST_LINE:,} or more characters."
                    )
                yield line
        except UnicodeDecodeError as error:
            raise self._encoding_error(error) from error

    # --- CSV

    def _read_header(self) -> None:
        """Read the delimiter and the names of the columns from the first line, and check the names."""
        with self._open() as lines:
            first = next(self._read_lines(lines), "")
        delimiters = [name for name in DELIMITERS if name in first] if first.strip() else []
        for delimiter in delimiters or [","]:
            try:
                header = [name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])]
            except csv.Error as error:
                raise invalid(self.path.name, f"its first line cannot be read ({error}).") from error
            known = [name.lower() if name.lower() in COLUMNS else name for name in header]
            if "claim" in known:
                self._header, self._delimiter = known, delimiter
                break
        else:
            beginning = repr(first.strip()[:100]) if first.strip() else "empty"
            raise invalid(
                self.path.name,
                f"no column `claim`: its first line is {beginning}. Known columns: {', '.join(COLUMNS)}.",
            )
        duplicates = sorted({name for name in self._header if name and self._header.count(name) > 1})
        if duplicates:
            raise invalid(self.path.name, f"the column {duplicates[0]!r} occurs twice.")
        unknown = [name for name in self._header if self._is_unknown(name)]
        helper_columns = {*CLAIMS_COLUMNS} - {*COLUMNS}
        self._is_from_moot_claims = helper_columns <= {*self._header}
        self.ignored = tuple(name for name in unknown if name not in helper_columns or not self._is_from_moot_claims)

    def _is_unknown(self, name: str) -> bool:
        """Whether a column has a name that is unknown; False for an empty name."""
        if name in COLUMNS or not name:
            return False
        similar = difflib.get_close_matches(name.lower(), [c for c in COLUMNS if c not in self._header], 1, 0.75)
        if similar:
            raise invalid(
                self.path.name, f"the column {name[:60]!r} is unknown. Did you mean `{similar[0]}`? Rename it."
            )
        return True

    def _csv_rows(self) -> Iterator[tuple[int, Any]]:
        """Yield for each row its first line's number, and its cells by column or the problem with it."""
        with self._open() as lines:
            rows = csv.reader(self._read_lines(lines), delimiter=self._delimiter, strict=True)
            line = 1
            while True:
                try:
                    cells = next(rows, None)
                except csv.Error as error:
                    reason = next((plain for begin, plain in CSV_ERRORS.items() if str(error).startswith(begin)), error)
                    yield line, _Problem(f"it is not CSV ({reason})")
                else:
                    if cells is None:
                        return
                    if line > 1 and any(cell.strip() for cell in cells):
                        yield line, self._parse_cells(cells)
                line = rows.line_num + 1

    def _parse_cells(self, cells: list[str]) -> Any:
        if len(cells) != len(self._header):
            return _Problem(
                f"it has {len(cells)} columns, and the first line has {len(self._header)}. "
                "Put quotation marks around a text that contains the separator of the columns or a line break"
            )
        texts = map(without_escape, cells) if self._is_from_moot_claims else cells
        return {name: text for name, text in zip(self._header, texts, strict=True) if text.strip()}

    # --- JSON Lines

    def _json_rows(self) -> Iterator[tuple[int, Any]]:
        """Yield for each row its line's number, and its fields or the problem with it."""
        with self._open() as lines:
            for number, line in enumerate(self._read_lines(lines), 1):
                if line.strip():
                    yield number, self._parse_line(line, number)

    def _parse_line(self, line: str, number: int) -> Any:
        try:
            value = parse_json(line, f"line {number}")
        except UserError as error:
            return _Problem(error.detail.removeprefix(f"line {number}: ").rstrip("."))
        if not isinstance(value, dict):
            return _Problem("it is not a JSON object with a field `claim`")
        try:
            unknown = [name for name in value if self._is_unknown(name)]
        except UserError as error:
            return _Problem(error.detail.rstrip("."))
        self.ignored = tuple(dict.fromkeys((*self.ignored, *unknown)))
        return {name: given for name, given in value.items() if given is not None}

    # --- a row

    def _parse_row(self, number: int, line: int, id: str, value: Mapping[str, Any]) -> ClaimRow:
        if "claim" not in value:
            raise _Problem("it has no claim")
        if isinstance(value.get("id"), bool) or not isinstance(value.get("id", ""), str | int):
            raise _Problem("`id` is neither a text nor a whole number")
        try:
            claim = check_claim(_read_text(value, "claim", None) or "")
            labels = self._parse_labels(value.get("labels"))
            if labels:
                make_task("labels", labels=labels)
            origin = check_origin(_read_text(value, "date"), _read_text(value, "speaker"))
        except UserError as error:
            raise _Problem(error.detail.rstrip(".")) from error
        label = _read_text(value, "label")
        if label and labels and label not in labels:
            raise _Problem(f"the label {label!r} is not one of the labels {', '.join(labels)}")
        return ClaimRow(
            number=number,
            line=line,
            id=_read_text({"id": id}, "id") or id,  # raises `_Problem` if the id is too long
            claim=claim,
            label=label,
            labels=labels,
            claim_date=origin.get("claim_date"),
            speaker=origin.get("speaker"),
            given=self._parse_given(value.get("given")),
            group=_read_text(value, "group"),
            graph=_read_text(value, "graph"),
            settings=self._parse_settings(value.get("settings")),
        )

    def _parse_labels(self, value: Any) -> tuple[str, ...]:
        if isinstance(value, str):
            value = value.split("|") if not value.lstrip().startswith("[") else _parse_json(value, "labels")
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(label, str) and label.strip() for label in value):
            raise _Problem("`labels` must be texts separated by | (in JSON: a list of texts)")
        return tuple(label.strip() for label in value)

    def _parse_given(self, value: Any) -> tuple[tuple[str, str], ...]:
        if isinstance(value, str) and self.is_csv and value.lstrip().startswith("["):
            value = _parse_json(value, "given")
        given = [value] if isinstance(value, str | dict) else value or []
        is_list = isinstance(given, list)
        pieces = [{"text": piece} if isinstance(piece, str) else piece for piece in given] if is_list else []
        texts = [piece.get("text") if isinstance(piece, dict) else None for piece in pieces]
        if not is_list or not all(isinstance(text, str) and text.strip() for text in texts):
            raise _Problem("`given` must be a text, or a JSON list of texts or of objects with `text` and `title`")
        return tuple((str(piece.get("title") or ""), piece["text"]) for piece in pieces)

    def _parse_settings(self, value: Any) -> dict[str, Any]:
        settings = _parse_json(value, "settings") if isinstance(value, str) else value or {}
        if not isinstance(settings, dict):
            raise _Problem('`settings` must be a JSON object, such as {"rounds": 2}')
        return settings


def _parse_json(value: str, name: str) -> Any:
    try:
        return parse_json(value, f"`{name}`")
    except UserError as error:
        raise _Problem(error.detail.rstrip(".")) from error


def _read_text(value: Mapping[str, Any], name: str, longest: int | None = LONGEST_NAME) -> str | None:
    """A column's text without white space around it; None if the column is missing or empty."""
    given = value.get(name)
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise _Problem(f"`{name}` is neither a text nor a number")
    text = str(given).strip()
    if longest is not None and len(text) > longest:
        raise _Problem(f"`{name}` has more than {longest} characters")
    return text or None


def read_all_rows(file: ClaimsFile, check: Callable[[ClaimRow], str] = lambda row: "") -> list[ClaimRow]:
    """Read all rows of a file; every row must be valid."""
    rows, bad = [], []
    for row in file:
        if isinstance(row, BadRow):
            bad.append((row.line, row.problem))
        elif problem := check(row):
            bad.append((row.line, problem))
        else:
            rows.append(row)
    if bad:
        line, problem = bad[0]
        more = (
            f" There {'is' if len(bad) == 2 else 'are'} {count_with_noun(len(bad) - 1, 'other bad row')}."
            if len(bad) > 1
            else ""
        )
        raise invalid(f"{file.path.name}, line {line}", f"{problem}.{more}")
    if not rows:
        raise invalid(file.path.name, "it has no claims.")
    return rows
