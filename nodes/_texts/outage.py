"""Debates whose searches all failed. Such a debate has no verdict, because an outage is no answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moot.core.errors import BUDGET_EXHAUSTED, SOURCE_OUTAGE, WorldError
from moot.nodes._records.entries import Reading, Warned
from moot.retrievers._search import NO_WEB_SEARCH, SET_UP_WEB_SEARCH, STAND_IN, resolve


def every_search_failed(corpora: Iterable[Reading], evidence: Iterable[Any]) -> bool:
    """Whether a debate has searched, no search succeeded (finding nothing is a success), and there is no evidence."""
    found, failed = [*evidence], [bool(reading.get("failed")) for reading in corpora]
    return bool(failed) and all(failed) and not found


def outage_of(document: Mapping[str, Any]) -> bool | None:
    """Whether an outage of its sources ended a debate; False if a search succeeded, None if neither is the case."""
    if (document["error"] or {}).get("kind") == SOURCE_OUTAGE:
        return True
    return None if all(reading.get("failed") for reading in document["corpora"]) else False


def found_nothing(document: Mapping[str, Any]) -> bool:
    """Whether a debate has searched, no search failed, and there is no evidence at all."""
    corpora = document["corpora"]
    return bool(corpora) and not document["evidence"] and not any(reading.get("failed") for reading in corpora)


def outage_error(
    corpora: Iterable[Reading], warnings: Iterable[Warned], corpus: str | None, *, ceiling_reached: bool
) -> WorldError:
    """The error of a debate whose searches all failed, with the words of each source."""
    if ceiling_reached:
        return WorldError("A ceiling was reached before a source answered. Raise it.", kind=BUDGET_EXHAUSTED)
    readings = [*corpora]
    names = dict.fromkeys(f"`{reading['retriever']}`" for reading in readings)
    said: dict[str, Warned] = {}
    for one in warnings:
        if one["kind"] == "retrieval_failed":
            said.setdefault(one["detail"].partition(": ")[0], one)
    lacking = reasons_to_replace([reading["requested"] for reading in readings], corpus)
    words = " ".join([*(one["detail"] for one in said.values()), *filter(None, [lacking])])
    naming = "a corpus (`--corpus NAME`, in Python and the API `corpus`), " if lacking else ""
    error = WorldError(
        f"No evidence: {' and '.join(names)} could not be searched. {words} Run the debate again when a source "
        f"answers, or name {naming}another source (in `sources` or for each debater) or a replacement in `fallback`.",
        kind=SOURCE_OUTAGE,
        retryable=True,
    )
    error.where = next((one["where"] for one in said.values()), "")
    return error


def reasons_to_replace(names: Iterable[str], corpus: str | None) -> str:
    """Why sources cannot be searched under their names, in sentences; empty if all can."""
    kinds = {name: resolve(name, corpus)[0] for name in names}
    lacking = [f"`{name}`" for name, kind in kinds.items() if kind == STAND_IN and name not in (STAND_IN, "web")]
    reasons = [f"No corpus is set for {' and '.join(lacking)}."] if lacking else []
    if kinds.get("web") in (STAND_IN, "bm25"):
        reasons.append(f"For `web`, {NO_WEB_SEARCH}. {SET_UP_WEB_SEARCH}")
    return " ".join(reasons)
