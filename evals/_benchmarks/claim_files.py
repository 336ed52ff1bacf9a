"""Reads files of claims row by row: CSV, Excel workbooks or JSON Lines with a column ``claim``.

Iterating over ``ClaimsFile(Path("my.csv"))`` yields each row, valid or not. The caller decides whether an invalid row
stops the reading (an evaluation) or is only reported (a batch). The contents of a file are not trusted.
"""

from __future__ import annotations

import codecs
import difflib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from moot.core.errors import UserError
from moot.core.files import why_unread, without_escape
from moot.core.words import count_with_noun
from moot.evals._benchmarks.list_dates import (
    ORDERS,
    SERIAL,
    DateOrder,
    has_short_year,
    order_of,
    read_date,
    readings_of,
)
from moot.evals._benchmarks.records_files import invalid, parse_json
from moot.nodes._records.entries import ORIGIN
from moot.nodes._texts.task import check_claim, check_origin, make_task
from moot.retrievers._documents.charsets import START, codec_of, decode, encoding_of_start, is_readable, western
from moot.retrievers._documents.children import read_sheets
from moot.retrievers._documents.parse import LARGEST_DOCUMENT, WORKBOOKS
from moot.retrievers._documents.parsed import UnreadableDocument
from moot.retrievers._documents.tables import (
    Header,
    Row,
    Sheet,
    csv_delimiter,
    csv_rows,
    fit,
    header_of,
    place_of,
    sheet_rows,
)
from moot.transcript.claims import COLUMNS as CLAIMS_COLUMNS

COLUMNS = (
    *("claim", "task", "label", "labels", "options", "date", "speaker", "appeared_at"),
    *("given", "group", "id", "graph", "settings"),
)
ADDRESSES = ("url", "link")
"""Names under which a list may have the addresses of the pages on which its claims appeared (`appeared_at`)."""
SUFFIXES = (".csv", ".tsv", *WORKBOOKS, ".jsonl")
LONGEST_LINE = 16 * 2**20
"""A line with this number of characters, or more, is refused."""
CHARSETS = (
    *("windows-1252", "windows-1250", "windows-1251", "windows-1253", "windows-1254", "windows-1255", "windows-1256"),
    *("windows-1257", "windows-874", "macintosh", "cp850", "gb18030", "big5", "shift_jis", "euc-kr"),
)
"""Encodings to choose from, if the encoding of a list is not known."""
LONGEST_EXAMPLE = 80
"""Maximum number of characters of a line that shows an encoding."""
WAYS = {2: "two", 3: "three"}
LIKE_NAMES = 0.8
"""How similar (`difflib`) an unknown column's name is to one of moot's,
if it is probably a slip: not as "tags" to "task"."""
BLOCK = 2**16
"""Number of bytes that are read at once to find the encoding."""
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
    task: str | None = None
    """The name of the row's task; None if the row names none."""
    options: tuple[str, ...] = ()
    """The options of a multiple-choice question; empty if the row names none."""
    claim_date: str | None = None
    """The date of the claim: a year, a month or a day."""
    speaker: str | None = None
    """Who made the claim."""
    appeared_at: str | None = None
    """The address of the page on which the claim appeared."""
    given: tuple[tuple[str, str], ...] = ()
    """The (title, text) of each text that comes with the claim."""
    group: str | None = None
    """A name shared by claims that are not independent of each other, such as claims about one page."""
    graph: str | None = None
    """The debate system for this row."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of this debate system, for this row."""
    written: tuple[str, ...] = field(default=(), compare=False)
    """The texts of the row's cells in the file, in the order of `ClaimsFile.columns`; the last ones may be missing."""

    def input_of(self, shared: Mapping[str, Any]) -> dict[str, Any]:
        """The input of the row's debate: what all rows share, overridden by what the row says; their texts are added.

        A row with a task, labels or options has its own task: it takes none of these from ``shared``.
        """
        task = {"task": self.task, "labels": list(self.labels), "options": list(self.options)}
        own = {"claim": self.claim, **task, **{key: getattr(self, key) for key in ORIGIN}}
        given = [*(shared.get("given") or []), *({"title": title, "text": text} for title, text in self.given)]
        others = {key: value for key, value in shared.items() if key not in task or not any(task.values())}
        return {**others, **{key: value for key, value in own.items() if value}, "given": given}


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be used; ``problem`` is the reason. Other fields are as in `ClaimRow`; a long id is cut.

    ``cells`` has the texts of the row by column, so that a person can correct them. If its columns cannot be told
    apart, ``claim`` is the text of the whole row.
    """

    number: int
    line: int
    id: str
    problem: str
    cells: Mapping[str, str] = field(default_factory=dict)
    written: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class ListOptions:
    """What a person says about a list, because the list itself does not show it."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """The list's own name of a column, by moot's name, for example ``{"claim": "Behauptung"}``."""
    dates: DateOrder | None = None
    """The order of dates with slashes or hyphens."""
    sheet: str | None = None
    """The sheet of a workbook; by default the first one that is not hidden, or the only one with a column of claims."""
    charset: str | None = None
    """The encoding of the file, by its name on the web."""


class ListQuestion(UserError):  # noqa: N818 - a question
    """An error that ends if a person answers a question about a list."""

    # ``remedy``: how to answer without a dialogue. ``about``: the field of `ListOptions` for the answer. ``choices``:
    # the answers, each with its meaning.
    def __init__(self, where: str, text: str, remedy: str, about: str, choices: Mapping[str, str]) -> None:
        super().__init__(f"{where}: {text} {remedy}", kind="invalid_file")
        self.text = text
        self.about = about
        self.choices = choices

    def answer(self, choice: str, options: ListOptions) -> ListOptions:
        """The options together with the answer to this question."""
        given: Any = {**options.columns, "claim": choice} if self.about == "columns" else choice
        return replace(options, **{self.about: given})


class _Problem(Exception):  # noqa: N818 - says what is wrong with a row
    """The reason why a row cannot be used."""


class ClaimsFile:
    """The rows of a file of claims, .csv, .tsv, .xlsx, .xlsm or .jsonl. Each iteration reads the file again.

    A table has a header with the names of its columns; rows above it are not read. In a table, ``labels`` and
    ``options`` are separated by ``|`` or are JSON lists, ``given`` is a text or a JSON list, and ``settings`` is a JSON
    object.
    """

    def __init__(self, path: Path, options: ListOptions | None = None) -> None:
        self.path = path
        self.options = options or ListOptions()
        kind = path.suffix.lower()
        if kind not in SUFFIXES:
            raise invalid(path.name, f"claims are read from files that end in {', '.join(SUFFIXES)}.")
        self.is_table = kind != ".jsonl"
        self._ignored: tuple[str, ...] = ()
        self._notes: list[str] = []
        self._text: str | None = None
        self._encoding = "utf-8-sig"
        self._sheet: Sheet | None = None
        self._order: DateOrder | None = None
        self._delimiter = ","
        self._columns: list[str] = []
        self._fields: dict[str, None] = {}
        if kind in WORKBOOKS:
            self._sheet = self._read_sheet()
        else:
            self._find_encoding()
        if self.is_table:
            self._read_header()
            self._find_date_order()
        else:
            with self._open() as lines:
                next(self._read_lines(lines), "")

    @property
    def notes(self) -> list[str]:
        """How the file is read, as clauses. For JSON Lines, they are complete only after an iteration.

        Unknown columns are named, because they are not read. ``moot claims`` adds columns to CSV files for editing; if
        all of these are present, they are not named.
        """
        unread = [f"these columns are not read: {', '.join(self._ignored)}"] if self._ignored else []
        return [*self._notes, *unread]

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The names of the columns, each in the file and in moot. For JSON Lines: of the fields that were read so far.

        A column that moot does not read has the same name twice.
        """
        if self.is_table:
            return [*zip(self._header.names, self._columns, strict=True)]
        return [(name, name) for name in self._fields]

    def __iter__(self) -> Iterator[ClaimRow | BadRow]:
        """Yield each row that is not empty, in order."""
        ids: dict[str, int] = {}
        rows = self._table_rows() if self.is_table else self._json_rows()
        for number, (line, value, text, written) in enumerate(rows, 1):
            given_id = value.get("id") if isinstance(value, Mapping) else None
            id = str(given_id).strip() if isinstance(given_id, str | int) and str(given_id).strip() else str(number)
            try:
                if isinstance(value, _Problem):
                    raise value
                row = self._parse_row(number, line, id, value)
                if (earlier := ids.setdefault(id, number)) != number:
                    raise _Problem(f"row {earlier} has the same id {id!r}")
            except _Problem as problem:
                cells = value if isinstance(value, Mapping) else {"claim": text}
                texts = {key: one if isinstance(one, str) else json.dumps(one) for key, one in cells.items()}
                yield BadRow(number, line, id[:LONGEST_NAME], str(problem), texts, written)
            else:
                yield replace(row, written=written)

    def _find_encoding(self) -> None:
        """Finds the file's encoding. A file in UTF-8, or with a byte order mark, is later read line by line."""
        try:
            with self.path.open("rb") as file:
                if not self.options.charset:
                    if mark := encoding_of_start(file.read(START)):
                        self._encoding = mark
                        return
                    file.seek(0)
                    if _is_utf8(file):
                        return
                file.seek(0)
                content = file.read(LARGEST_DOCUMENT + 1)
        except OSError as error:
            raise UserError(why_unread(self.path, error), kind="invalid_file") from error
        if len(content) > LARGEST_DOCUMENT:
            problem = f"it is not UTF-8, and has more than {LARGEST_DOCUMENT // 2**20} MiB. Save it as UTF-8."
            raise invalid(self.path.name, problem)
        if charset := self.options.charset:
            codec = codec_of(charset)
            if codec is None:
                raise invalid(self.path.name, f"there is no encoding {charset!r}. Known are {', '.join(CHARSETS)}, ...")
            try:
                self._text = content.decode(codec).removeprefix("\ufeff")
            except (UnicodeError, LookupError) as error:
                raise invalid(self.path.name, f"it is not text in {charset} ({error}).") from error
            return
        try:
            self._text = decode(content).text
        except UnreadableDocument as why:
            self._text = western(content)
            if self._text is None:
                raise self._charset_question(content) from why
            self._notes.append(
                "its encoding is not declared, and it is read as windows-1252 (Western European). If letters are "
                "wrong, name the encoding: --charset NAME"
            )

    def _charset_question(self, content: bytes) -> UserError:
        """The question which encoding shows the text right, with a line that is not ASCII in each of them."""
        if b"\0" in content:
            line = content[: content.index(b"\0")].count(b"\n") + 1
            return invalid(f"{self.path.name}, line {line}", "it contains a null character. Save the file as UTF-8.")
        choices: dict[str, str] = {}
        for charset in CHARSETS:
            with suppress(UnicodeDecodeError):
                lines = (
                    codecs.getincrementaldecoder(codec_of(charset) or charset)().decode(content[:BLOCK]).splitlines()
                )
                text = next((line for line in lines if not line.isascii()), "".join(lines[:1]))
                if text and text.replace("\t", " ").isprintable() and text not in choices.values():
                    choices[charset] = text[:LONGEST_EXAMPLE]
        choices = {charset: text for charset, text in choices.items() if is_readable(text)} or choices
        if not choices:
            return invalid(self.path.name, "it is not text in a known encoding. Save it as UTF-8.")
        return ListQuestion(
            self.path.name,
            "the encoding of its text is not known.",
            f"Save it as UTF-8, or name the encoding in which it is right: moot batch --charset {next(iter(choices))}",
            "charset",
            choices,
        )

    def _open(self) -> TextIO:
        if self._text is not None:
            return io.StringIO(self._text, newline="")
        try:
            return self.path.open(encoding=self._encoding, newline="")
        except OSError as error:
            raise UserError(why_unread(self.path, error), kind="invalid_file") from error

    def _encoding_error(self, error: UnicodeError) -> UserError:
        return invalid(self.path.name, f"it is not text in {self._encoding} ({error}). Save it as UTF-8.")

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
        except UnicodeError as error:
            raise self._encoding_error(error) from error

    # --- tables

    def _read_sheet(self) -> Sheet:
        """Reads the named sheet, or the first one that is not hidden."""
        try:
            sheets, note = read_sheets(self.path, self.path.name)
        except OSError as error:
            raise UserError(why_unread(self.path, error), kind="invalid_file") from error
        names = [sheet["name"] for sheet in sheets]
        wanted = self.options.sheet
        found = next((one for one in sheets if (one["name"] == wanted if wanted else not one["hidden"])), None)
        if found and not wanted and not self._has_claims(found):
            having = [one for one in sheets if not one["hidden"] and self._has_claims(one)]
            if len(having) > 1:
                raise ListQuestion(
                    self.path.name,
                    f"the first sheet has no column `{self._name_of('claim')}`, and several others have.",
                    "Name the sheet: moot batch --sheet NAME",
                    "sheet",
                    {one["name"]: "" for one in having},
                )
            found = next(iter(having), found)
        if found is None:
            what = f"no sheet {wanted!r} with text" if wanted else "no visible sheet with text"
            raise invalid(self.path.name, f"{what}. Its sheets with text: {', '.join(names) or 'none'}.")
        self._notes += [note] if note else []
        if others := [name for name in names if name != found["name"]]:
            self._notes.append(f"the sheet {found['name']} is read, and not: {', '.join(others)}")
        return found

    def _has_claims(self, sheet: Sheet) -> bool:
        """Whether a sheet has the column with the claims."""
        name = self._name_of("claim")
        header = header_of(sheet_rows(sheet), name)
        return header is not None and place_of(name, header.names) is not None

    def _name_of(self, column: str) -> str:
        return self.options.columns.get(column, column)

    @contextmanager
    def _rows(self) -> Iterator[Iterator[Row]]:
        """Context manager: the rows of the table, which are not yet compared with the header."""
        if self._sheet:
            yield sheet_rows(self._sheet)
            return
        with self._open() as lines:
            yield csv_rows(self._read_lines(lines), self._delimiter)

    def _read_header(self) -> None:
        """Reads the delimiter and the names of the columns, and checks the names."""
        wanted = self._name_of("claim")
        if not self._sheet:
            with self._open() as lines:
                self._delimiter = csv_delimiter(self._read_lines(lines), wanted)
        with self._rows() as rows:
            self._header = header_of(rows, wanted) or Header([], 0, [])
        names = self._header.names
        for column in self.options.columns:
            if column not in COLUMNS:
                raise invalid(self.path.name, f"there is no column {column!r} in moot: {', '.join(COLUMNS)}.")
        if place_of(wanted, names) is None:
            raise self._column_question(wanted, [name for name in names if name])
        self._columns = [self._column_of(name) for name in names]
        for column, name in self.options.columns.items():
            if place_of(name, names) is None:
                raise invalid(self.path.name, f"no column {name!r} for `{column}`. Its columns: {', '.join(names)}.")
        duplicates = sorted({name for name in self._columns if name and self._columns.count(name) > 1})
        if duplicates:
            raise invalid(self.path.name, f"the column {duplicates[0]!r} occurs twice.")
        unknown = [name for name in self._columns if self._is_unknown(name)]
        helper_columns = {*CLAIMS_COLUMNS} - {*COLUMNS}
        self._is_from_moot_claims = helper_columns <= {*self._columns}
        self._ignored = tuple(name for name in unknown if name not in helper_columns or not self._is_from_moot_claims)
        if above := self._header.above:
            text = repr(above[0][:60])
            self._notes.append(f"the header is line {self._header.line}, and the text above it is not read: {text}")

    def _column_of(self, name: str) -> str:
        """A column's name in moot; the name in the file if moot has none for it."""
        for column, own in self.options.columns.items():
            if place_of(own, [name]) is not None:
                return column
        plain = name.lower()
        if plain in ADDRESSES and name == self._address_column():
            plain = "appeared_at"
        # A column of the file is not moot's, if another one was named for it.
        return plain if plain in COLUMNS and plain not in self.options.columns else name

    def _address_column(self) -> str | None:
        """The only column of `ADDRESSES`; None if there are several, or a column ``appeared_at``."""
        found = [name for name in self._header.names if name.lower() in (*ADDRESSES, "appeared_at")]
        return found[0] if len(found) == 1 else None

    def _column_question(self, wanted: str, names: list[str]) -> UserError:
        if not names:
            return invalid(self.path.name, "it is empty.")
        shown = ", ".join(name[:60] for name in names)
        return ListQuestion(
            self.path.name,
            f"no column `{wanted}`. Its columns: {shown}.",
            "Rename the column with the claims to `claim`, or name it: moot batch --column claim=NAME",
            "columns",
            dict.fromkeys(names, ""),
        )

    def _find_date_order(self) -> None:
        """Finds the order of the dates from all rows, if there is a column of dates."""
        self._order = self.options.dates
        if "date" not in self._columns:
            return
        place = self._columns.index("date")
        serial = ""
        with self._rows() as rows:
            fitting = (row for row in (fit(row, self._header) for row in rows) if not row.problem)
            texts = [row.cells[place].strip() for row in fitting if row.line > self._header.line]
        order, ambiguous = order_of(texts)
        serial = next((text for text in texts if SERIAL.fullmatch(text)), "")
        own = self._header.names[place]
        if ambiguous and not self._order:
            read = readings_of(ambiguous)
            dates: dict[str, str] = {key: f"{iso} ({ORDERS[key]})" for key, iso in read.items()}
            raise ListQuestion(
                self.path.name,
                f"the dates in the column {own!r} can be read in {WAYS[len(dates)]} ways: {ambiguous} is "
                f"{' or '.join(dates.values())}.",
                f"Say which: moot batch --dates {', or --dates '.join(dates)}",
                "dates",
                dates,
            )
        self._order = self._order or order
        if self._order and any(read_date(text, None) != read_date(text, self._order) for text in texts):
            self._notes.append(f"dates in the column {own!r} are read as {ORDERS[self._order]}")
        if short := next(filter(has_short_year, texts), ""):
            day = read_date(short, self._order)
            self._notes.append(f"years of two digits in the column {own!r} are from 1950 to 2029: {short} is {day}")
        if serial:
            day = read_date(serial, None)
            self._notes.append(f"numbers in the column {own!r} are read as a spreadsheet's days: {serial} is {day}")

    def _is_unknown(self, name: str) -> bool:
        """Whether a column has a name that is unknown; False for an empty name."""
        if name in COLUMNS or not name:
            return False
        similar = difflib.get_close_matches(name.lower(), [c for c in COLUMNS if c not in self._columns], 1, LIKE_NAMES)
        if similar:
            raise invalid(
                self.path.name, f"the column {name[:60]!r} is unknown. Did you mean `{similar[0]}`? Rename it."
            )
        return True

    def _table_rows(self) -> Iterator[tuple[int, Any, str, tuple[str, ...]]]:
        """Yield for each row its line's number, its cells by column or the problem with it, its text and its cells."""
        with self._rows() as rows:
            for row in rows:
                if row.line <= self._header.line and not row.problem:
                    continue
                found = fit(row, self._header)
                value = _Problem(found.problem) if found.problem else self._parse_cells(found.cells)
                yield row.line, value, row.text, tuple(row.cells)

    def _parse_cells(self, cells: list[str]) -> dict[str, str]:
        texts = map(without_escape, cells) if self._is_from_moot_claims else cells
        found = {name: text for name, text in zip(self._columns, texts, strict=True) if text.strip()}
        if "date" in found:
            found["date"] = read_date(found["date"], self._order)
        return found

    # --- JSON Lines

    def _json_rows(self) -> Iterator[tuple[int, Any, str, tuple[str, ...]]]:
        """Yield for each row its line's number, its fields or the problem with it, its text and its cells."""
        with self._open() as lines:
            for number, line in enumerate(self._read_lines(lines), 1):
                if line.strip():
                    value = self._parse_line(line, number)
                    yield number, value, line.strip(), self._texts_of(value)

    def _texts_of(self, value: Any) -> tuple[str, ...]:
        """The fields of a row as the cells of a table; a name that is new becomes a further column."""
        if isinstance(value, _Problem):
            return ()
        self._fields |= dict.fromkeys(value)
        given = (value.get(name, "") for name in self._fields)
        return tuple(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in given)

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
        self._ignored = tuple(dict.fromkeys((*self._ignored, *unknown)))
        return {name: given for name, given in value.items() if given is not None}

    # --- a row

    def _parse_row(self, number: int, line: int, id: str, value: Mapping[str, Any]) -> ClaimRow:
        if "claim" not in value:
            raise _Problem("it has no claim")
        if isinstance(value.get("id"), bool) or not isinstance(value.get("id", ""), str | int):
            raise _Problem("`id` is neither a text nor a whole number")
        try:
            claim = check_claim(_read_text(value, "claim", None) or "")
            labels, options = (self._parse_answers(value, name) for name in ("labels", "options"))
            if task := _read_text(value, "task") or ("labels" if labels else None):
                make_task(task, labels=labels or None, options=options or None, claim=claim)
            origin = check_origin(
                _read_text(value, "date"), _read_text(value, "speaker"), _read_text(value, "appeared_at", None)
            )
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
            task=_read_text(value, "task"),
            options=options,
            claim_date=origin.get("claim_date"),
            speaker=origin.get("speaker"),
            appeared_at=origin.get("appeared_at"),
            given=self._parse_given(value.get("given")),
            group=_read_text(value, "group"),
            graph=_read_text(value, "graph"),
            settings=self._parse_settings(value.get("settings")),
        )

    def _parse_answers(self, row: Mapping[str, Any], name: str) -> tuple[str, ...]:
        """The labels or the options of a row."""
        value = row.get(name)
        if isinstance(value, str):
            value = value.split("|") if not value.lstrip().startswith("[") else _parse_json(value, name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(one, str) and one.strip() for one in value):
            raise _Problem(f"`{name}` must be texts separated by | (in JSON: a list of texts)")
        return tuple(one.strip() for one in value)

    def _parse_given(self, value: Any) -> tuple[tuple[str, str], ...]:
        if isinstance(value, str) and self.is_table and value.lstrip().startswith("["):
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


def _is_utf8(file: BinaryIO) -> bool:
    """Whether the rest of a file is UTF-8 text without null characters."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while block := file.read(BLOCK):
            decoder.decode(block)
            if b"\0" in block:  # as in UTF-16
                return False
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


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
