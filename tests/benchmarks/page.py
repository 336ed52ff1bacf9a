"""Writes the tables and the picture of docs/howto/speed.md from the output of the benchmarks.

    python -m tests.benchmarks.page FOLDER

`make speed` writes this output (scale.json, latency.json, growth.json and corpora.json) to the folder, and then runs
this program.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moot.cli.evaluate import processor

from tests.benchmarks import growth, latency, scale
from tests.benchmarks.tables import markdown

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "speed.md"
COLUMNS = {
    "passages": "passages",
    "source": "source",
    "build_s": "build, s",
    "build_mib": "memory of building, MiB",
    "first_query_ms": "first query, ms",
    "later_query_ms": "later queries, ms",
    "queries_at_once_ms": "64 queries at once, ms",
    "open_mib": "memory of searching, MiB",
}
"""The columns of corpora.py that the page shows."""
Rows = Sequence[dict[str, Any]]


def corpora_table(rows: Rows) -> str:
    """Time and memory by the size of a corpus, in Markdown."""

    def format_cell(value: Any) -> str:
        if value is None:
            return ""
        return value if isinstance(value, str) else f"{value:,.1f}" if 0 < value < 100 else f"{value:,.0f}"

    return markdown([*COLUMNS.values()], [[format_cell(row.get(name)) for name in COLUMNS] for row in rows])


def draw(in_flight: Rows, corpora: Rows, path: Path) -> None:
    """Draw time and memory by the number of debates in flight, and the time of retrieval by the number of passages.

    Args:
        in_flight: rows of growth.py.
        corpora: rows of corpora.py.
        path: the SVG file that is written.
    """
    import matplotlib as mpl
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    mpl.use("svg")
    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "moot",
        "font.family": "sans-serif",
        "font.size": 9,
    }
    style |= {"axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.3}
    with plt.rc_context(style):
        figure, ((time, memory), (build, query)) = plt.subplots(2, 2, figsize=(9, 6.6), layout="constrained")
        draw_time(time, in_flight)
        moot = [row for row in in_flight if row["name"] == growth.MOOT]
        most = [max(run["memory"] for run in row["runs"]) for row in moot]
        memory.plot([row["at_once"] for row in moot], most, "o-", color="C0")
        memory.set(title="Largest memory of the process", xlabel="debates in flight", ylabel="MiB", ylim=(0, None))
        for color, source in zip(("C0", "C1", "C2"), ("chroma", "bm25", "hybrid"), strict=True):
            rows = [row for row in corpora if row["source"] == source]
            sizes = [row["passages"] for row in rows]
            if source == "chroma":  # bm25 has no separate build, and hybrid searches the corpus of chroma
                build.plot(sizes, [row["build_s"] for row in rows], "o-", color=color)
            for name, line, what in (("first_query_ms", "o--", "first"), ("later_query_ms", "o-", "later")):
                query.plot(sizes, [row[name] for row in rows], line, color=color, label=f"{source}, {what}")
        build.set(title="Building a corpus, without encoding", xlabel="passages", ylabel="s")
        query.set(title="A query, without encoding", xlabel="passages", ylabel="ms")
        query.legend(fontsize=7, frameon=False, handlelength=3.5, ncols=3, loc="upper center")
        for axes in (build, query):
            axes.set(xscale="log", yscale="log")
            axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
            axes.xaxis.minorticks_off()
        query.set_ylim(top=10 * query.get_ylim()[1])  # space for the legend
        for axes in (time, memory):
            axes.set_xscale("log", base=2)
            axes.set_xticks([*growth.DEBATES], [str(n) for n in growth.DEBATES])
        for axes in (time, build, query):
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:,g}")
            axes.yaxis.set_minor_formatter("")
        figure.savefig(path, metadata={"Date": None})


def draw_time(axes: Any, rows: Rows) -> None:
    """Draw the wall and processor time per call by the number of debates in flight, for moot and Du et al."""
    for color, name, short in (("C0", growth.MOOT, "moot"), ("C3", growth.PLAIN, "Du et al. on AsyncOpenAI")):
        of_name = [row for row in rows if row["name"] == name]
        at_once = [row["at_once"] for row in of_name]
        for time, line, what in (("wall", "o-", "wall"), ("cpu", "o--", "processor")):
            ms = [sum(growth.ms_per_call(row, time)) / len(row["runs"]) for row in of_name]
            axes.plot(at_once, ms, line, color=color, label=f"{short}, {what}")
    axes.set(title="Time a call", xlabel="debates in flight", ylabel="ms", yscale="log")
    axes.legend(fontsize=8, frameon=False, handlelength=3.5)


def machine_sentence() -> str:
    """A sentence that describes this machine: its cores, its processor and its Python."""
    return f"Measured on {os.cpu_count()} cores ({processor()}), Python {platform.python_version()}."


def with_parts(text: str, parts: dict[str, str]) -> str:
    """Replace measured parts of a page; return the new page.

    Args:
        text: the page in Markdown.
        parts: the new text of each part, by its name in the page's comments.

    Raises:
        ValueError: the page has no place for a part.
    """
    for name, part in parts.items():
        start, end = f"<!-- MEASURED: {name} -->", f"<!-- END: {name} -->"
        before, found, rest = text.partition(start)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"the page has no place for {name}")
        text = f"{before}{start}\n\n{part}\n\n{end}{after}"
    return text


def main(folder: Path) -> None:
    found = {
        name: json.loads((folder / f"{name}.json").read_text()) for name in ("scale", "latency", "growth", "corpora")
    }
    parts = {
        "machine": machine_sentence(),
        "scale": scale.table(found["scale"]),
        "latency": latency.table(found["latency"]),
        "picture": "![Time and memory by debates in flight; building and querying corpora by passages](speed.svg)",
        "growth": growth.table(found["growth"]),
        "corpora": corpora_table(found["corpora"]),
    }
    PAGE.write_text(with_parts(PAGE.read_text(encoding="utf-8"), parts), encoding="utf-8")
    draw(found["growth"], found["corpora"], PAGE.with_suffix(".svg"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
