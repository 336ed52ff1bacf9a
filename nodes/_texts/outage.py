"""Debates whose searches all failed. Such a debate has no verdict, because an outage is no answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moot.core.errors import BUDGET_EXHAUSTED, SOURCE_OUTAGE, WorldError
from moot.nodes._records.entries import Reading, Warned


def every_search_failed(corpora: Iterable[Reading], evidence: Iterable[Any]) -> bool:
    """Whether a debate has searched, no search succeeded, and there is no other evidence, such as given texts.

    A search that found nothing succeeded. So did the search of a fallback.

    Args:
        corpora: the readings of sources.
        evidence: the debate's evidence.
    """
    found, failed = [*evidence], [bool(reading.get("failed")) for reading in corpora]
    return bool(failed) and all(failed) and not found


def found_nothing(document: Mapping[str, Any]) -> bool:
    """Whether a debate has searched, no search failed, and there is no evidence at all.

    Args:
        document: a result document.
    """
    corpora = document["corpora"]
    return bool(corpora) and not document["evidence"] and not any(reading.get("failed") for reading in corpora)


def outage_error(corpora: Iterable[Reading], warnings: Iterable[Warned], *, ceiling_reached: bool) -> WorldError:
    """The error of a debate whose searches all failed, with the words of each source.

    Args:
        corpora: the readings of sources.
        warnings: the debate's warnings.
        ceiling_reached: whether a ceiling ended a search.
    """
    if ceiling_reached:
        return WorldError("A ceiling was reached before a source answered. Raise it.", kind=BUDGET_EXHAUSTED)
    names = dict.fromkeys(f"`{reading['retriever']}`" for reading in corpora)
    said: dict[str, Warned] = {}
    for one in warnings:
        if one["kind"] == "retrieval_failed":
            said.setdefault(one["detail"].partition(": ")[0], one)
    words = " ".join(one["detail"] for one in said.values())
    error = WorldError(
        f"No evidence: {' and '.join(names)} could not be searched. {words} Run the debate again when a source "
        "answers, or name another source (in `sources` or for each debater) or a replacement in `fallback`.",
        kind=SOURCE_OUTAGE,
        retryable=True,
    )
    error.where = next((one["where"] for one in said.values()), "")
    return error
