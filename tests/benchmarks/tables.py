"""Options, Markdown tables and output that several benchmarks share."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def parser_of(about: str | None, runs: int) -> argparse.ArgumentParser:
    """A parser with the options of scale.py, growth.py and latency.py; ``runs`` is the default of ``--runs``."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency-ms", type=float, default=50, help="the duration of a chat call")
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--check", action="store_true", help="end with an error if a limit is exceeded")
    return parser


def spread(values: Sequence[float], digits: int) -> str:
    """The median as text; if there are several values, also the minimum and the maximum."""
    low, middle, high = (f"{value:,.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low} to {high})" if len(values) > 1 else middle


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(f"| {' | '.join(map(str.ljust, line, widths))} |" for line in lines)


def finish(options: argparse.Namespace, figures: Any, exceeded: Sequence[str]) -> None:
    """Write the figures to the file of ``--json``, if that option is given, and print the exceeded limits.

    Raises:
        SystemExit: a limit is exceeded, and ``--check`` is given.
    """
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    message = "\n".join(["", *(f"over its limit: {line}" for line in exceeded)])
    if exceeded and options.check:
        raise SystemExit(message)
    print(message)
