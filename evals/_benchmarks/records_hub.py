"""Reads records from the Hugging Face Hub with the library `datasets`, which runs no code of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from moot.core.lazy import imported
from moot.evals._benchmarks.records import Record
from moot.evals._benchmarks.records_files import MOST_RECORDS, with_label_names


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
