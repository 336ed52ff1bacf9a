"""Measure sources on queries with relevance judgements, for ``moot eval retrieval``.

A row is one qrels file with the passages to search. The passages are indexed as a corpus whose name contains their
digest: changed passages become a new corpus, and a corpus that is already stored is not indexed again.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

from moot.evals._benchmarks.qrels import Query, Row, Scope
from moot.evals._stats.measures import MEASURES, K, differences, load_extra, score_rankings
from moot.evals._stats.significance import stratified_bootstrap
from moot.graphs._registry import suggest
from moot.retrievers import Evidence, Passage, Retriever, UserError, index_passages, open_retriever
from moot.retrievers._evidence import clean, evidence_id
from moot.retrievers._filling import damaged
from moot.retrievers._search import ABOUT, ONLINE

SOURCES = sorted(kind for kind in ABOUT if kind not in (*ONLINE, "langchain"))
"""Kinds of sources that search a corpus."""
AT_ONCE = 16
"""Maximum number of searches that run at the same time."""
MAIN_MEASURE = "ndcg@10"
"""The measure that sources are compared by."""

Progress = Callable[[str, int, int], None]
"""Called with the name of the current step, the number of its finished parts, and the number of all its parts."""


class Estimate(NamedTuple):
    """A mean and the ends of its 95% interval."""

    value: float
    low: float
    high: float


@dataclass
class RowScores:
    """A row's values: for each source and each of `MEASURES`, one value per query, in order."""

    row: Row
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    nothing_found: dict[str, int] = field(default_factory=dict)
    """The number of queries for which each source found nothing; their values are 0."""


@dataclass(frozen=True)
class Difference:
    """The nDCG@10 of ``source`` minus that of ``against``, over the queries of one row or as a mean over rows."""

    source: str
    against: str
    scope: Scope
    qrels: tuple[str, ...]
    estimate: Estimate


def check_sources(kinds: Iterable[str]) -> None:
    """Refuse sources that search no corpus, before anything is indexed.

    Raises:
        UserError: a name is not in `SOURCES`.
    """
    for kind in kinds:
        if kind not in SOURCES:
            raise UserError(
                f"There is no source {kind!r} that searches a corpus. {suggest(kind, SOURCES)}",
                kind="unknown_retriever",
            )


async def measure(rows: Sequence[Row], sources: Sequence[str], encoder: str, progress: Progress) -> list[RowScores]:
    """Index the passages of each row, and run the row's queries on each source.

    Args:
        rows: the rows.
        sources: kinds of sources, from `SOURCES`.
        encoder: the encoder of the corpora and of the queries.
        progress: called after each part of a step.

    Raises:
        UserError: a source is unknown, ranx is not installed, the passages cannot be indexed, or a corpus is damaged.
        WorldError: the encoder's endpoint failed.
    """
    check_sources(sources)
    load_extra("ranx")
    names = {row.files: corpus_name(row, encoder) for row in rows}
    corpora = {names[row.files]: row.passages for row in rows}
    for name, passages in corpora.items():
        await _index_passages(name, passages, encoder, progress)
    return [await _measure_row(row, names[row.files], sources, encoder, progress) for row in rows]


async def _index_passages(name: str, passages: Mapping[str, Passage], encoder: str, progress: Progress) -> None:
    def advance(done: int, _: int) -> None:
        progress(f"indexing {name}", done, len(passages))

    await index_passages(name, passages.values(), encoder=encoder, progress=advance)


def corpus_name(row: Row, encoder: str) -> str:
    """The corpus name of a row's passages: their files (or ``union``), and a digest of the passages and the encoder."""
    content = hashlib.blake2b(encoder.encode(), digest_size=6)
    for passage in row.passages.values():
        content.update(passage.model_dump_json().encode())
    files = row.scope if row.scope == "union" else "-".join(row.files)
    return f"eval-{re.sub('[^a-z0-9_-]+', '-', files.lower())[:40]}-{content.hexdigest()}"


async def _measure_row(row: Row, corpus: str, sources: Sequence[str], encoder: str, progress: Progress) -> RowScores:
    texts = {i: evidence_id(clean(p.source) or "(no source)", clean(p.text)) for i, p in row.passages.items()}
    gold = [gold_grades(query, texts) for query in row.queries]
    measured = RowScores(row)
    for kind in sources:
        source = await open_retriever(f"{kind}:{corpus}", encoder=encoder)
        pieces = await _search_queries(source, row, progress)
        found = [[piece["id"] for piece in found_pieces] for found_pieces in pieces]
        if not {id for ids in found for id in ids} <= set(texts.values()):
            raise damaged(corpus, "it contains passages that were not indexed")
        measured.values[kind] = score_rankings(gold, found)
        measured.nothing_found[kind] = found.count([])
    return measured


def gold_grades(query: Query, texts: Mapping[str, str]) -> dict[str, int]:
    """The grades of a query's gold passages, by the id of the passage as evidence.

    Passages with the same source and text are the same evidence, and have the best of their grades.

    Args:
        query: the query.
        texts: the id as evidence of each passage, by the passage's id.
    """
    grades: dict[str, int] = {}
    for gold in query.gold:
        text = texts[gold.id]
        grades[text] = max(gold.rel, grades.get(text, 0))
    return grades


async def _search_queries(source: Retriever, row: Row, progress: Progress) -> list[list[Evidence]]:
    semaphore = asyncio.Semaphore(AT_ONCE)
    done = 0

    async def search(query: Query) -> list[Evidence]:
        nonlocal done
        async with semaphore:
            found = await source.search(query.query, K)
        done += 1
        progress(f"{row.qrels} ({row.scope}): {source.name.partition(':')[0]}", done, len(row.queries))
        return found

    return await asyncio.gather(*map(search, row.queries))


def mean_interval(*samples: Sequence[float]) -> Estimate:
    """The mean of the samples' means with its 95% interval; each sample is resampled separately.

    Raises:
        ValueError: there is no sample, or a sample is empty.
    """
    found = stratified_bootstrap(samples)
    if found.value is None or found.low is None or found.high is None:
        raise ValueError("each sample needs at least one value")
    return Estimate(found.value, found.low, found.high)


def estimates(measured: RowScores) -> dict[str, dict[str, Estimate]]:
    """The mean of each of `MEASURES` over the queries, with its interval, by source."""
    return {
        source: {measure: mean_interval(values[measure]) for measure in MEASURES}
        for source, values in measured.values.items()
    }


def compare(rows: Sequence[RowScores], against: str | None = None) -> tuple[list[Difference], list[Difference]]:
    """Paired differences of nDCG@10: row by row, and their means if several rows have the same scope.

    Args:
        rows: the measured rows.
        against: the source that all other sources are compared with. None: ``hybrid`` is compared with the best other
            source of each row.

    Returns:
        The differences of each row, and the mean differences.
    """
    paired: list[tuple[RowScores, str, str, list[float]]] = []
    for measured in rows:
        for source, rival in rival_pairs(measured, against):
            paired.append(
                (
                    measured,
                    source,
                    rival,
                    differences(measured.values[source][MAIN_MEASURE], measured.values[rival][MAIN_MEASURE]),
                )
            )
    each = [Difference(s, r, m.row.scope, (m.row.qrels,), mean_interval(values)) for m, s, r, values in paired]
    means = []
    for scope, source in dict.fromkeys((m.row.scope, s) for m, s, _, _ in paired):
        group = [(m.row.qrels, values) for m, s, _, values in paired if (m.row.scope, s) == (scope, source)]
        names = tuple(name for name, _ in group)
        rival = against or "the better single source"
        if len(group) > 1:
            means.append(Difference(source, rival, scope, names, mean_interval(*(values for _, values in group))))
    return each, means


def rival_pairs(measured: RowScores, against: str | None) -> list[tuple[str, str]]:
    """The sources to compare in a row, each with the source that it is compared with."""
    if against is not None:
        return [(source, against) for source in measured.values if source != against]
    means = {source: fmean(values[MAIN_MEASURE]) for source, values in measured.values.items()}
    if means.pop("hybrid", None) is None or not means:
        return []
    return [("hybrid", max(means, key=lambda source: means[source]))]
