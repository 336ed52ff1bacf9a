"""Functions to draw a report's pictures: figures, styles of lines and markers, and panels.

Pictures are readable on paper and on a dark screen. In SVG and PNG files, the background is transparent, and axes and
letters are of a grey with a contrast of at least 4.5 : 1 to white and to black. In PDF files, they are black on white.
The colours are safe for the colour-blind. A marker, a line or a label always shows the same information as a colour.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import groupby
from typing import Any

from moot.evals._report.tables import Nested, Table, format_cell
from moot.evals._stats.measures import load_extra
from moot.evals._stats.significance import Interval

INK = "#767676"
"""The grey of axes and letters."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
"""Okabe and Ito's colours with a contrast of at least 3 : 1 to white and black."""
MARKERS = "os^DvPX*p<>hd"
LONGEST_NAME, LONGEST_TITLE = 44, 26
"""Maximum number of characters of a name beside an axis, and of a name above a panel."""
TICKS = (0, 0.25, 0.5, 0.75, 1)
WIDTH = 7.2
"""Width of a figure in inches."""
STYLE = {
    "font.size": 9,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # fonts as TrueType, because publishers refuse Type 3
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "grid.color"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
}


@dataclass(frozen=True)
class Picture:
    """A picture of a table's numbers, in three file formats."""

    key: str
    """The picture's name in file names."""
    table_key: str
    """The key of the table."""
    title: str
    """The picture's title."""
    alt: str
    """A description of the picture in words."""
    svg: str
    """The picture as SVG."""
    png: bytes
    """The picture as PNG."""
    pdf: bytes
    """The picture as PDF."""


# --- figures ----------------------------------------------------------------------------------------------------------


@contextmanager
def open_figure(key: str, height: float, width: float = WIDTH) -> Iterator[tuple[Any, list[bytes]]]:
    """Context manager: yield a figure to draw on, and an empty list for its files."""
    matplotlib = load_extra("matplotlib")
    figure_module = load_extra("matplotlib.figure")
    files: list[bytes] = []
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": key}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # the viewer's font may have the glyph
        figure = figure_module.Figure(figsize=(width, height), layout="constrained")
        yield figure, files
        for form, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
            out = BytesIO()
            figure.savefig(out, format=form, transparent=True, dpi=200, metadata=metadata)
            files.append(out.getvalue())
            figure.set_layout_engine(None)  # compute the layout only once, not for each file
        out = BytesIO()
        _make_black(figure)
        figure.savefig(out, format="pdf", metadata={"CreationDate": None})
        files.append(out.getvalue())


def _make_black(figure: Any) -> None:
    """Make the grey parts of a figure black; only dark screens need the grey."""
    same = load_extra("matplotlib.colors").same_color
    for artist in figure.findobj():
        for name in ("color", "edgecolor", "markeredgecolor", "markerfacecolor"):
            given = getattr(artist, f"get_{name}", lambda: None)()
            if isinstance(given, str | tuple) and same(given, INK):
                getattr(artist, f"set_{name}")("black")


def make_picture(key: str, title: str, alt: str, files: Sequence[bytes], table: Table) -> Picture:
    """Make a picture from the files of a figure: SVG, PNG and PDF, in this order."""
    svg, png, pdf = files
    return Picture(
        key, table.key, title, f"{alt} The table “{table.title}” contains the numbers.", svg.decode(), png, pdf
    )


def with_theme_colours(svg: str) -> str:
    """A copy of an SVG whose grey becomes dark in a light colour scheme, and light in a dark colour scheme."""
    style = (
        "<style>:root{color-scheme:light dark;color:#767676}@media(prefers-color-scheme:light){:root{color:#333}}"
        "@media(prefers-color-scheme:dark){:root{color:#ddd}}</style>"
    )
    return re.sub(r"(<svg\b[^>]*>)", lambda found: found[1] + style, svg.replace(INK, "currentColor"), count=1)


def shorten(name: object, most: int = LONGEST_NAME) -> str:
    """Shorten a name to at most ``most`` characters; by default, so that it fits beside an axis."""
    text = name.text if isinstance(name, Nested) else str(name)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def line_style(i: int, *, hollow: bool = False, marker: int | None = None) -> dict[str, Any]:
    """The style with the i-th colour and marker; after the last colour or marker, the first follows again."""
    colour = COLOURS[i % len(COLOURS)]
    fill, sign = "none" if hollow else colour, MARKERS[(i if marker is None else marker) % len(MARKERS)]
    return {"marker": sign, "color": colour, "markerfacecolor": fill, "linestyle": "none"}


def write_row_names(axes: Any, names: Sequence[str]) -> None:
    """Write names beside the rows of a figure, the first on top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


def draw_dots(axes: Any, values: Sequence[Interval | float | None], styles: Sequence[Mapping[str, Any]]) -> None:
    """Draw a dot with an error bar in each row. A row without an interval says so; one without a value has no dot."""
    for y, (cell, style) in enumerate(zip(values, styles, strict=True)):
        interval = cell if isinstance(cell, Interval) else Interval(cell, cell, cell, 0)
        if interval.value is not None:
            axes.errorbar(
                [interval.value], [y], xerr=error_bars([interval]), capsize=2.5, elinewidth=1.2, markersize=6, **style
            )
            if interval.reason and interval.low is None:
                note = f"no interval: {interval.reason}"
                axes.annotate(note, (interval.value, y), (0, 6), textcoords="offset points", fontsize=6, ha="center")


def error_bars(intervals: Sequence[Interval]) -> list[list[float]]:
    """The lengths of error bars below and above the values of intervals, as matplotlib reads them."""
    known = [(i.value or 0.0, i.low, i.high) for i in intervals]
    below = [0.0 if low is None else max(0.0, value - low) for value, low, _ in known]
    return [below, [0.0 if high is None else max(0.0, high - value) for value, _, high in known]]


def system_styles(table: Table) -> list[dict[str, Any]]:
    """The style of each row of a table: a control has its system's colour, and a hollow marker for its kind."""
    kinds_by_row: list[tuple[int, str | None]] = []  # for each row the index of its system, and the kind of control
    system, number = "", -1
    for name in table.column("system"):
        if isinstance(name, Nested) and number >= 0:
            kinds_by_row.append((number, name.text.removeprefix(system)))
        else:
            system, number = format_cell(name, "text"), number + 1
            kinds_by_row.append((number, None))
    kinds = list(dict.fromkeys(kind for _, kind in kinds_by_row if kind is not None))
    return [
        line_style(i)
        if kind is None
        else line_style(i, hollow=True, marker=kinds.index(kind) + i // len(COLOURS) * len(kinds))
        for i, kind in kinds_by_row
    ]


def set_scale(axes: Any, values: Sequence[float]) -> None:
    """Set the scale of the x axis; ``values`` must not be empty."""
    axes.xaxis.set_major_formatter("{x:,g}")
    if min(values) > 0 and max(values) > 20 * min(values):
        ticker = load_extra("matplotlib.ticker")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 3.0)))
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())


# --- a panel per system -----------------------------------------------------------------------------------------------

Rows = Sequence[Mapping[str, Any]]


def by_system(table: Table) -> dict[str, list[dict[str, Any]]]:
    """A table's rows as dictionaries, by system; in the table, the rows of a system must follow each other."""
    keys = [column.key for column in table.columns]
    rows = [dict(zip(keys, row, strict=True)) for row in table.rows]
    return {name: list(group) for name, group in groupby(rows, lambda row: str(row["system"]))}


def draw_panels(
    key: str, table: Table, draw: Callable[[Any, Rows], None], x: str, y: str, height: float = 2.4
) -> list[bytes]:
    """Draw a panel for each system, at most three side by side, and return the files of the figure."""
    groups = by_system(table)
    n_columns = min(3, len(groups))
    n_rows = -(-len(groups) // 3)
    with open_figure(key, 0.5 + height * n_rows, max(3.6, 2.4 * n_columns)) as (figure, files):
        grid = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False)
        for axes, (name, rows) in zip(grid.flat, groups.items(), strict=False):
            draw(axes, rows)
            axes.set_title(shorten(name, LONGEST_TITLE), fontsize=9)
        for axes in list(grid.flat)[len(groups) :]:
            axes.set_visible(False)
        figure.supxlabel(x, fontsize=9)
        figure.supylabel(y, fontsize=9)
    return files
