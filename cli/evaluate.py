"""``moot eval retrieval``: measures sources on queries with relevance judgements."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from moot.cli.index import progress_bars
from moot.cli.output import write_document
from moot.cli.tables import show
from moot.core.endpoint import close_clients
from moot.core.files import check_writable
from moot.evals._benchmarks.qrels import Row, Scope, read_rows
from moot.evals._benchmarks.retrieval import SOURCES, Difference, RowScores, check_sources, compare, estimates, measure
from moot.evals._stats.measures import MEASURES, K
from moot.evals._stats.significance import CONFIDENCE, RESAMPLES, SEED
from moot.retrievers._encoders import DEFAULT_ENCODER
from rich.console import Console
from rich.progress import TaskID
from rich.table import Table
from rich.text import Text

TITLES = {"recall@3": "recall@3", "recall@10": "recall@10", "ndcg@10": "nDCG@10", "mrr@10": "MRR@10"}


@dataclass(frozen=True)
class Options:
    """The options of ``moot eval retrieval``.

    ``scopes`` says which corpora are searched (`moot.evals._benchmarks.qrels.SCOPES`). If ``qrels`` is empty, all qrels
    files of the split are used. If ``sources`` is empty, all sources are measured. If ``encoder`` is None, it is
    `DEFAULT_ENCODER`. If ``against`` is None, only hybrid is compared, with the best other source of each row.
    """

    data: Path
    split: str
    qrels: Sequence[str]
    sources: Sequence[str]
    scopes: Sequence[Scope]
    encoder: str | None
    against: str | None


def evaluate_retrieval(options: Options, *, as_json: bool, out: Path | None) -> None:
    """Measures sources, and prints the figures as tables or as one JSON document.

    If ``out`` is given, the JSON document is also written to this file.

    Raises:
        UserError: data or options are not valid, ranx is missing, or the corpus cannot be indexed or is damaged.
        UserError, WorldError: the encoder's endpoint or the store failed, or the file ``out`` cannot be written.
        SystemExit: Ctrl-C was pressed during the measurement (130).
    """
    if out is not None:
        check_writable(out)
    sources = list(dict.fromkeys([*(options.sources or SOURCES), *([options.against] if options.against else [])]))
    check_sources(sources)
    rows = read_rows(options.data, options.split, options.qrels, options.scopes)
    encoder = options.encoder or DEFAULT_ENCODER
    document = build_document(run_measurement(rows, sources, encoder), options, encoder)
    write_document(document, as_json=as_json, out=out)
    if not as_json:
        show(figures_table(document))
        if document["differences"]:
            show(differences_table(document))


def build_document(measured: Sequence[RowScores], options: Options, encoder: str) -> dict[str, Any]:
    """The JSON document: every figure, and how the figures were measured."""
    each, means = compare(measured, options.against)
    return {
        "moot_version": version("moot"),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": processor(),
        "encoder": encoder,
        "split": options.split,
        "k": K,
        "bootstrap": {"resamples": RESAMPLES, "confidence": CONFIDENCE, "seed": SEED},
        "rows": [row_record(row) for row in measured],
        "differences": [difference_record(one) for one in each],
        "mean_differences": [difference_record(one) for one in means],
    }


def run_measurement(rows: Sequence[Row], sources: Sequence[str], encoder: str) -> list[RowScores]:
    """Measures sources (see `measure`), with progress bars on standard error."""

    async def work() -> list[RowScores]:
        try:
            return await measure(rows, sources, encoder, advance)
        finally:
            await close_clients()

    bars: dict[str, TaskID] = {}
    with progress_bars(Console(stderr=True)) as progress:

        def advance(step: str, done: int, total: int) -> None:
            if step not in bars:
                bars[step] = progress.add_task(step, total=total)
            progress.update(bars[step], completed=done)

        return asyncio.run(work())


def processor() -> str:
    """The name of the processor, or its architecture if the name is not known."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def row_record(measured: RowScores) -> dict[str, Any]:
    """The entry in the JSON document for one qrels file and scope."""
    row = measured.row
    sources = [
        {
            "source": source,
            "nothing_found": measured.nothing_found[source],
            "measures": {name: estimate._asdict() for name, estimate in known.items()},
            "per_query": measured.values[source],
        }
        for source, known in estimates(measured).items()
    ]
    return {
        "qrels": row.qrels,
        "corpus": row.scope,
        "files": list(row.files),
        "passages": len(row.passages),
        "queries": [query.qid for query in row.queries],
        "sources": sources,
    }


def difference_record(one: Difference) -> dict[str, Any]:
    """The entry in the JSON document for a difference, or for a mean of differences."""
    return {
        "source": one.source,
        "against": one.against,
        "corpus": one.scope,
        "qrels": list(one.qrels),
        "ndcg@10": one.estimate._asdict(),
    }


def figures_table(document: dict[str, Any]) -> Table:
    """The table with a row for each qrels file, scope and source.

    For each file and scope, the best value of each measure is bold.
    """
    bootstrap = document["bootstrap"]
    caption = (
        f"Split {document['split']}, encoder {document['encoder']}, the first {document['k']} results. In brackets: "
        f"{bootstrap['confidence']:.0%} percentile bootstrap intervals, {bootstrap['resamples']:,} resamples of the "
        f"queries.\nA query without results counts as zero. {document['processor']}; "
        f"moot {document['moot_version']}."
    )
    table = Table(
        *("qrels", "corpus", "queries", "source", *TITLES.values(), "nothing found"),
        box=None,
        padding=(0, 2, 0, 0),
        caption=Text(caption),
        caption_justify="left",
    )
    for row in document["rows"]:
        best = {name: max(s["measures"][name]["value"] for s in row["sources"]) for name in MEASURES}
        labels = [row["qrels"], row["corpus"], str(len(row["queries"]))]
        for source in row["sources"]:
            cells = [
                Text(with_interval(m), "bold" if m["value"] == best[n] else "") for n, m in source["measures"].items()
            ]
            table.add_row(*map(Text, (*labels, source["source"])), *cells, str(source["nothing_found"]))
    return table


def differences_table(document: dict[str, Any]) -> Table:
    """The table of the paired differences, and of their means over the qrels files."""
    table = Table("nDCG@10 of", "minus that of", "corpus", "qrels", "difference", box=None, padding=(0, 2, 0, 0))
    for one in document["differences"]:
        table.add_row(*difference_cells(one, one["qrels"][0]))
    for one in document["mean_differences"]:
        table.add_row(*difference_cells(one, f"mean of {len(one['qrels'])}"), style="bold")
    return table


def difference_cells(one: dict[str, Any], qrels: str) -> list[Text]:
    """The cells of a row of `differences_table`.

    Args:
        one: an entry of `difference_record`.
        qrels: the content of the column ``qrels``.
    """
    return [
        Text(cell) for cell in (one["source"], one["against"], one["corpus"], qrels, with_interval(one["ndcg@10"], "+"))
    ]


def with_interval(estimate: dict[str, float], sign: str = "") -> str:
    """A figure with its interval: ``.472 [.41, .53]``; with ``sign`` "+", every number has a sign."""
    low, high = (without_leading_zero(estimate[end], 2, sign) for end in ("low", "high"))
    return f"{without_leading_zero(estimate['value'], 3, sign)} [{low}, {high}]"


def without_leading_zero(value: float, digits: int, sign: str = "") -> str:
    """A number from -1 to 1, rounded, without its leading zero."""
    return f"{round(value, digits) + 0.0:{sign}.{digits}f}".replace("0.", ".", 1)  # + 0.0: no -0
