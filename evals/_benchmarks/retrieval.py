"""Measure sources on queries with relevance judgements, for ``moot eval retrieval``.

A row is one qrels file with the passages to search. The passages are indexed as a corpus. The name of the corpus
contains a digest of the passages and of the encoder's name, so a new corpus is built if either changes. Otherwise, the
old corpus is used again, and its passages are not encoded again.
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

SOURCES = sorted(kind for kind in ABOUT if kind not in (*ONLINE, "langchain", "mcp", "object"))
"""Kinds of sources that search a corpus."""
AT_ONCE = 16
"""Maximum number of searches that run at the same time."""
MAIN_MEASURE = "ndcg@10"
"""The measure that sources are compared by."""

Progress = Callable[[str, int, int], None]
"""Called with the name of the current step, the number of its finished parts, and the number of all its parts.

A part is a passage or a query.
"""


class Estimate(NamedTuple):
    """A mean and the ends of its 95% interval."""

    value: float
    low: float
    high: float


@dataclass
class RowScores:
    """The values of a row's queries."""

    row: Row
    """The row."""
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """For each source and each of `MEASURES`, one value per query, in the order of the queries."""
    nothing_found: dict[str, int] = field(default_factory=dict)
    """For each source, the number of queries for which it found nothing. The values of these queries are 0."""


@dataclass(frozen=True)
class Difference:
    """The nDCG@10 of one source minus that of another, as a mean over the queries of one row, or over several rows."""

    source: str
    """The first source."""
    against: str
    """The other source; "the better single source" if `compare` chose it separately for each of several rows."""
    scope: Scope
    """The scope of the rows."""
    qrels: tuple[str, ...]
    """The name of each row's qrels file."""
    estimate: Estimate
    """The mean difference."""


def check_sources(kinds: Iterable[str]) -> None:
    """Refuse sources that search no corpus."""
    for kind in kinds:
        if kind not in SOURCES:
            raise UserError(
                f"There is no source {kind!r} that searches a corpus. {suggest(kind, SOURCES)}",
                kind="unknown_retriever",
            )


async def measure(rows: Sequence[Row], sources: Sequence[str], encoder: str, progress: Progress) -> list[RowScores]:
    """Index the passages of each row, and run the row's queries on each source."""
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
    """The name of the corpus with a row's passages."""
    content = hashlib.blake2b(encoder.encode(), digest_size=6)
    for passage in row.passages.values():
        content.update(passage.model_dump_json().encode())
    files = row.scope if row.scope == "union" else "-".join(row.files)
    return f"eval-{re.sub('[^a-z0-9_-]+', '-', files.lower())[:40]}-{content.hexdigest()}"


async def _measure_row(row: Row, corpus: str, sources: Sequence[str], encoder: str, progress: Progress) -> RowScores:
    evidence_ids = {i: evidence_id(clean(p.source) or "(no source)", clean(p.text)) for i, p in row.passages.items()}
    gold = [gold_grades(query, evidence_ids) for query in row.queries]
    measured = RowScores(row)
    for kind in sources:
        source = await open_retriever(f"{kind}:{corpus}", encoder=encoder)
        pieces_by_query = await _search_queries(source, row, progress)
        found = [[piece["id"] for piece in pieces] for pieces in pieces_by_query]
        if not {id for ids in found for id in ids} <= set(evidence_ids.values()):
            raise damaged(corpus, "it contains passages that are not in the data")
        measured.values[kind] = score_rankings(gold, found)
        measured.nothing_found[kind] = found.count([])
    return measured


def gold_grades(query: Query, evidence_ids: Mapping[str, str]) -> dict[str, int]:
    """The grades of a query's gold passages, by evidence id."""
    grades: dict[str, int] = {}
    for gold in query.gold:
        key = evidence_ids[gold.id]
        grades[key] = max(gold.rel, grades.get(key, 0))
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
    """The mean of the samples' means with its 95% interval; each sample is resampled separately."""
    found = stratified_bootstrap(samples)
    if found.value is None or found.low is None or found.high is None:
        raise ValueError("each sample needs at least one value")
    return Estimate(found.value, found.low, found.high)


def estimates(measured: RowScores) -> dict[str, dict[str, Estimate]]:
    """For each source and each of `MEASURES`: the mean over a row's queries, with the interval of the mean."""
    return {
        source: {measure: mean_interval(values[measure]) for measure in MEASURES}
        for source, values in measured.values.items()
    }


def compare(rows: Sequence[RowScores], against: str | None = None) -> tuple[list[Difference], list[Difference]]:
    """Paired differences of nDCG@10 in each row, and their means over the rows with the same scope."""
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
    in_rows = [Difference(s, r, m.row.scope, (m.row.qrels,), mean_interval(values)) for m, s, r, values in paired]
    means = []
    for scope, source in dict.fromkeys((m.row.scope, s) for m, s, _, _ in paired):
        group = [(m.row.qrels, values) for m, s, _, values in paired if (m.row.scope, s) == (scope, source)]
        names = tuple(name for name, _ in group)
        rival = against or "the better single source"
        if len(group) > 1:
            means.append(Difference(source, rival, scope, names, mean_interval(*(values for _, values in group))))
    return in_rows, means


def rival_pairs(measured: RowScores, against: str | None) -> list[tuple[str, str]]:
    """The pairs of sources to compare in a row: each other source with ``against`` or, without it, ``hybrid`` with the
    best other source; [] if there is no pair.
    """
    if against is not None:
        return [(source, against) for source in measured.values if source != against]
    means = {source: fmean(values[MAIN_MEASURE]) for source, values in measured.values.items()}
    if means.pop("hybrid", None) is None or not means:
        return []
    return [("hybrid", max(means, key=lambda source: means[source]))]
