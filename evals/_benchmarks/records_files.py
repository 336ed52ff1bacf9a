"""Reads records from files (JSON Lines, JSON, CSV, and Parquet if pyarrow is installed) and from the Hugging Face Hub.

The contents of a file are not trusted: sizes are limited, and unreadable data raises an error that names its place. The
Hub is read with the library `datasets`, which runs no code of a dataset.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moot.core.errors import UserError
from moot.core.files import why_unread
from moot.core.lazy import imported
from moot.evals._benchmarks.records import InvalidRecord, Record

LARGEST_FILE = 512 * 2**20
"""Maximum size of a file in bytes. For a Parquet file, this is also the maximum size of the unpacked data."""
MOST_RECORDS = 1_000_000
"""Maximum number of lines of JSON Lines, rows of Parquet or of the Hub, and records of a folder."""

Expand = Callable[[Mapping[str, Any]], Iterable[Mapping[str, Any]]]
"""Splits an object of a file into the fields of records, for example a SQuAD article into its questions."""
PlacedValue = tuple[Any, str]
"""A value in a file and its place, such as ``line 3``; the place is empty if the value is the whole file."""


def invalid(where: str, problem: str) -> UserError:
    """Make an error about a file's contents."""
    return UserError(f"{where}: {problem}", kind="invalid_file")


def read_file(file: Path, name: str, *, columns: Sequence[str] = (), expand: Expand | None = None) -> list[Record]:
    """Read the records of one file, in order.

    If there is a file ``<stem>.ids.json`` in the same folder, it lists the records' ids.
    """
    reader = READERS.get(file.suffix.lower())
    if reader is None:
        raise invalid(name, f"only files that end in {', '.join(READERS)} are read. Unpack archives first.")
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise invalid(name, f"more than {LARGEST_FILE // 2**20} MiB. Use a part of it.")
        ids = _read_ids(file, name)
        records = [
            Record(fields, where, file=name.removesuffix(file.suffix))
            for value, place in reader(file, name, columns)
            for fields, where in _split_object(value, f"{name}, {place}" if place else name, expand)
        ]
    except OSError as error:
        raise UserError(why_unread(name, error), kind="invalid_file") from error
    if ids is not None and len(ids) != len(records):
        raise invalid(
            name,
            f"{len(records)} records, but its list of ids ({file.stem}.ids.json) has {len(ids)}. Make the list match "
            "the records, or remove the list.",
        )
    return [
        Record(r.fields, r.where, index, r.file, "" if ids is None else ids[index]) for index, r in enumerate(records)
    ]


def _split_object(value: Any, where: str, expand: Expand | None) -> Iterator[tuple[Mapping[str, Any], str]]:
    if not isinstance(value, dict):
        raise invalid(where, f"it must be an object with fields, not {TYPE_NAMES.get(type(value), 'a value')}.")
    if expand is None:
        yield value, where
        return
    try:
        yield from ((fields, where) for fields in expand(value))
    except InvalidRecord as error:
        raise invalid(where, f"{error}.") from error


TYPE_NAMES = {
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def _read_ids(file: Path, name: str) -> list[str] | None:
    ids_file = file.with_name(f"{file.stem}.ids.json")
    if not ids_file.is_file():
        return None
    if ids_file.stat().st_size > LARGEST_FILE:
        raise invalid(ids_file.name, "too large for a list of ids.")
    ids = parse_json(_decode(ids_file.read_bytes(), ids_file.name), ids_file.name)
    if not isinstance(ids, list) or not all(isinstance(i, str | int) for i in ids):
        raise invalid(ids_file.name, f"it must be a list of ids, one for each record of {name}.")
    return [str(i) for i in ids]


# --- JSON -------------------------------------------------------------------------------------------------------------


def _read_jsonl(file: Path, name: str, _: Sequence[str]) -> Iterator[PlacedValue]:
    with file.open("rb") as lines:
        yield from _parse_lines(lines, name)


def _parse_lines(lines: Iterable[bytes], name: str) -> Iterator[PlacedValue]:
    for number, line in enumerate(lines, start=1):
        if number > MOST_RECORDS:
            raise invalid(name, f"more than {MOST_RECORDS:,} lines.")
        where = f"{name}, line {number}"
        if content := _decode(line, where).strip():
            yield parse_json(content, where), f"line {number}"


def _read_json(file: Path, name: str, _: Sequence[str]) -> Iterator[PlacedValue]:
    """Read the records of a JSON file.

    The file contains a list, an object with the list in ``data`` or ``Data``, an object with a record for each id, or
    JSON Lines. Any other value is one record, with an empty place.
    """
    content = _decode(file.read_bytes(), name)
    try:
        value = _load_json(content)
    except UnicodeEncodeError as error:
        raise invalid(name, LONE_SURROGATE) from error
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise invalid(f"{name}, line {error.lineno}", f"not JSON ({error.msg}, column {error.colno}).") from error
        yield from _parse_lines(content.encode().splitlines(), name)  # some published .json files contain JSON Lines
        return
    except (ValueError, RecursionError) as error:
        raise invalid(name, f"not readable JSON ({error}).") from error
    if isinstance(value, dict):
        value = next((value[key] for key in ("data", "Data") if isinstance(value.get(key), list)), value)
    if isinstance(value, list):
        yield from ((record, f"record {number}") for number, record in enumerate(value, start=1))
    elif isinstance(value, dict) and value and all(isinstance(record, dict) for record in value.values()):
        yield from (({"id": key} | record, f"record {key!r}") for key, record in value.items())
    else:
        yield value, ""


def _decode(content: bytes, where: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise invalid(where, f"not UTF-8 text ({error.reason} at byte {error.start}). Save it as UTF-8.") from error


def parse_json(content: str, where: str) -> Any:
    """Parse a JSON text."""
    try:
        return _load_json(content)
    except UnicodeEncodeError as error:
        raise invalid(where, LONE_SURROGATE) from error
    except json.JSONDecodeError as error:
        raise invalid(where, f"not JSON ({error.msg}, column {error.colno}).") from error
    except (ValueError, RecursionError) as error:
        raise invalid(where, f"not readable JSON ({error}).") from error


LONE_SURROGATE = "it contains half a character (a lone surrogate), which cannot be sent."


def _load_json(content: str) -> Any:
    """Parse a JSON text."""
    value = json.loads(content, object_pairs_hook=_unique_keys)
    if "\\ud" in content.lower():  # an escaped surrogate, which is valid in a pair; encoding fails if it is alone
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for i, (key, _) in enumerate(pairs) if key in dict(pairs[:i]))
        raise ValueError(f"the key {twice!r} occurs twice in one object")
    return found


# --- CSV --------------------------------------------------------------------------------------------------------------


def _read_csv(file: Path, name: str, columns: Sequence[str]) -> Iterator[PlacedValue]:
    content = file.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")  # the encoding of a copy of GPQA's file
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    header, begin = list(columns), 1
    try:
        for row in rows:
            where, begin = f"line {begin}", rows.line_num + 1
            if not any(cell.strip() for cell in row):
                continue
            if not header:
                header = [cell.strip() for cell in row]
            elif len(row) != len(header):
                raise invalid(f"{name}, {where}", f"{len(row)} columns instead of {len(header)}.")
            else:
                yield dict(zip(header, row, strict=True)), where
    except csv.Error as error:
        raise invalid(f"{name}, line {begin}", f"not CSV ({error}).") from error


# --- Parquet ----------------------------------------------------------------------------------------------------------


def _read_parquet(file: Path, name: str, _: Sequence[str]) -> Iterator[PlacedValue]:
    try:
        parquet, arrow = imported("pyarrow.parquet"), imported("pyarrow")
    except ModuleNotFoundError as error:
        raise UserError(f"{name}: Parquet files need pyarrow: pip install pyarrow", kind="missing_package") from error
    try:
        with parquet.ParquetFile(file) as opened:
            groups = [opened.metadata.row_group(i) for i in range(opened.metadata.num_row_groups)]
            size = sum(group.total_byte_size for group in groups)
            if size > LARGEST_FILE or opened.metadata.num_rows > MOST_RECORDS:
                raise invalid(name, f"more than {MOST_RECORDS:,} records, or too large once unpacked.")
            names = label_names(json.loads((opened.schema_arrow.metadata or {}).get(b"huggingface", b"{}")))
            rows = opened.read().to_pylist()
    except (arrow.ArrowException, ValueError) as error:
        raise invalid(name, f"not a readable Parquet file ({error}).") from error
    yield from ((with_label_names(row, names), f"row {number}") for number, row in enumerate(rows, start=1))


def label_names(metadata: Any) -> dict[str, list[str]]:
    """The names of the labels in each column that stores labels as numbers. Returns the names by column; empty for
    other metadata.
    """
    info = metadata.get("info") if isinstance(metadata, dict) else None
    features = info.get("features") if isinstance(info, dict) else None
    columns = features.items() if isinstance(features, dict) else ()
    return {key: value["names"] for key, value in columns if isinstance(value, dict) and "names" in value}


def with_label_names(row: Mapping[str, Any], names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Replace the numbers of labels in a row by the labels' names.

    A number without a name becomes None. The Hub uses the number -1 for records without a label.
    """
    return {
        key: (names[key][value] if 0 <= value < len(names[key]) else None)
        if key in names and isinstance(value, int)
        else value
        for key, value in row.items()
    }


READERS: dict[str, Callable[[Path, str, Sequence[str]], Iterator[PlacedValue]]] = {
    ".jsonl": _read_jsonl,
    ".json": _read_json,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}


# --- the Hub ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hub:
    """A dataset on the Hub.

    ``converted``: whether to read the Hub's own conversion to Parquet. This is needed for datasets that are scripts,
    because `datasets` no longer runs scripts. ``gather``: makes records from rows, if a record spans several rows.
    """

    dataset: str
    config: str
    split: str
    converted: bool = False
    gather: Callable[[Iterable[Mapping[str, Any]]], list[dict[str, Any]]] | None = None

    def __str__(self) -> str:
        return f"{self.dataset} ({self.config}, {self.split})"


class HubUnavailable(Exception):  # noqa: N818 - says why there are no records
    """The records could not be read from the Hub; the text says why."""


def read_hub(hub: Hub) -> list[Record]:
    """Read the records of a dataset, in order; label numbers are replaced by label names."""
    try:
        load = imported("datasets").load_dataset
    except ModuleNotFoundError as error:
        raise HubUnavailable("the library datasets is not installed (pip install datasets)") from error
    try:
        if hub.converted:
            files = f"hf://datasets/{hub.dataset}@refs%2Fconvert%2Fparquet/{hub.config}/{hub.split}/*.parquet"
            rows = load("parquet", data_files=files, split="train")
        else:
            rows = load(hub.dataset, hub.config, split=hub.split)
        if len(rows) > MOST_RECORDS:
            raise HubUnavailable(f"it has more than {MOST_RECORDS:,} rows")
        names = {key: feature.names for key, feature in rows.features.items() if hasattr(feature, "names")}
        found = [with_label_names(row, names) for row in rows]
        gathered = list(hub.gather(found) if hub.gather else found)
    except HubUnavailable:
        raise
    except Exception as error:  # datasets raises many kinds of exceptions; the user can always give a file instead
        reason = str(error).splitlines() or [type(error).__name__]
        raise HubUnavailable(f"the Hub could not be read ({reason[0][:200]})") from error
    return [Record(fields, f"{hub}, record {index + 1}", index) for index, fields in enumerate(gathered)]
