"""A report as one HTML page that works offline: styles and pictures are embedded, and the page loads nothing.

The template engine escapes all texts that come from logs.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

from moot.evals._report.drawing import Picture, shorten, with_theme_colours
from moot.evals._report.scores import is_on_front
from moot.evals._report.sections import Report
from moot.evals._report.tables import Nested, Table, columns, format_cell, is_numeric, make_table
from moot.evals._stats.sample_size import ALPHA
from moot.evals._stats.significance import Interval
from moot.transcript.templates import templates

LEFT, RIGHT, TOP, HEIGHT = 44, 540, 24, 286
"""Left, right, upper and lower edge of the chart of costs, in the units of its SVG."""
LABEL_DISTANCE, LETTER_WIDTH = 15, 6.2
"""Vertical distance from a point to a label just above or below it, and an upper estimate of a letter's average width.

The units are those of the SVG.
"""
HIDDEN_COLUMNS = ("tokens", "seconds")
"""Columns of the overview that the page leaves out. Of the costs per item, the page shows only calls and USD."""
LONGEST_LABEL = 30
"""Maximum number of characters of a point's label."""


def html_page(report: Report) -> str:
    """Render a report as an HTML page."""
    intervals = [cell for row in report.overview.rows for cell in row] if report.overview else []
    differences = forest_rows(report)
    page: str = (
        templates("moot.evals", "_report")
        .get_template("evaluation.html")
        .render(
            report=report,
            subject=report_subject(report),
            main=None if report.overview is None else report.overview.without(HIDDEN_COLUMNS),
            best=best_scores(report.overview),
            scores=make_scale(intervals),
            chart=cost_chart(report.overview),
            forest=differences,
            difference_scale=make_scale([row["difference"] for _, rows in differences for row in rows], zero=True),
            extra=[table for table in (report.across, ratios_table(report), report.published) if table],
            alpha=ALPHA,
            shown=format_cell,
            is_numeric=is_numeric,
            is_nested=lambda cell: isinstance(cell, Nested),
            is_interval=lambda cell: isinstance(cell, Interval),
            data=data_url,
        )
    )
    return page


def data_url(picture: Picture) -> str:
    """A picture as a data URL."""
    return f"data:image/svg+xml;base64,{b64encode(with_theme_colours(picture.svg).encode()).decode()}"


def report_subject(report: Report) -> str:
    """The models, the number of benchmarks, the date, and moot's version, as one line of text."""
    models = list(dict.fromkeys(section.model or "several models" for section in report.sections))
    benchmarks = len({section.benchmark for section in report.sections})
    count = f"{benchmarks} benchmark{'s' * (benchmarks > 1)}"
    return " · ".join([", ".join(models), count, report.created[:10], f"moot {report.moot_version}"])


# --- intervals drawn as lines -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """The scale on which intervals are drawn. Its ends are multiples of 0.1; both are None if there is no interval."""

    low: float | None
    high: float | None

    def place(self, value: float) -> float:
        """A value's horizontal position in a drawing that is 120 units wide; the ends of the scale are at 4 and 116."""
        assert self.low is not None
        assert self.high is not None
        return round(4 + 112 * (value - self.low) / (self.high - self.low), 1)


def make_scale(cells: Iterable[Any], *, zero: bool = False) -> Scale:
    """Make a scale that includes the known ends of all intervals; without a known end, a scale whose ends are None."""
    ends = [end for cell in cells if isinstance(cell, Interval) for end in (cell.low, cell.high) if end is not None]
    if not ends:
        return Scale(None, None)
    ends += [0.0] if zero else []
    low, high = floor(min(ends) * 10 + 1e-9) / 10, ceil(max(ends) * 10 - 1e-9) / 10
    return Scale(low, high if high > low else low + 0.1)


def best_scores(table: Table | None) -> dict[str, float | None]:
    """The highest score in each column, by the column's key; None for a column without scores; {} without a table."""
    found: dict[str, float | None] = {}
    for column in table.columns if table else ():
        values = [cell.value for cell in (table.column(column.key) if table else ()) if isinstance(cell, Interval)]
        found[column.key] = max((value for value in values if value is not None), default=None)
    return found


def forest_rows(report: Report) -> list[tuple[str, list[dict[str, Any]]]]:
    """The rows of the forest plot: for each study, its title and its paired differences by the first measure."""
    studies = []
    for section in report.sections:
        table = next((candidate for candidate in section.tables if candidate.key == "differences"), None)
        signed = next((column.key for column in table.columns if column.kind == "signed"), None) if table else None
        if table is None or signed is None:
            continue
        adjusted = table.column("p_holm") if table.has("p_holm") else [None] * len(table.rows)
        raw = table.column("p") if table.has("p") else adjusted
        cells = zip(table.column("system"), table.column("against"), table.column(signed), raw, adjusted, strict=True)
        rows = [
            {
                "first": a,
                "second": b,
                "difference": difference,
                "p": p,
                "p_holm": q,
                "significant": q is not None and q <= ALPHA,
            }
            for a, b, difference, p, q in cells
        ]
        studies.append((section.title if len(report.sections) > 1 else "", rows))
    return studies


# --- cost and score ---------------------------------------------------------------------------------------------------


def cost_chart(table: Table | None) -> dict[str, Any] | None:
    """The data of a chart of scores against costs in USD or, if the cost of some system is unknown, against tokens.
    Returns the texts, positions and lines that the page's template draws; None if there is no table or no score, if
    neither the costs of all systems nor the tokens of all systems are known, or if fewer than two systems have a score
    and, in the chart's unit, a positive cost.
    """
    if table is None:
        return None
    scores = [column for column in table.columns if column.key.startswith("score_")]
    by = next((key for key in ("cost", "tokens") if table.has(key) and _all_known(table, key)), None)
    score = "average" if len(scores) > 1 else scores[0].key if scores else ""
    if by is None or not table.has(score):
        return None
    cells = zip(table.column("system"), table.column(by), table.column(score), strict=True)
    known = [
        (shorten(format_cell(name, "text"), LONGEST_LABEL), float(x), float(cell.value))
        for name, x, cell in cells
        if isinstance(x, int | float) and x > 0 and isinstance(cell, Interval) and cell.value is not None
    ]
    if len(known) < 2:
        return None
    xs, ys = [x for _, x, _ in known], [y for _, _, y in known]
    x_position, ticks = _horizontal_scale(min(xs), max(xs), "$" if by == "cost" else "")
    y_position, lines = _vertical_scale(min(ys), max(ys))
    on_front = is_on_front([(x, y) for _, x, y in known])
    points: list[dict[str, Any]] = [
        {"name": name, "x": x_position(x), "y": y_position(y), "on": best}
        for (name, x, y), best in zip(known, on_front, strict=True)
    ]
    measure = "Cost" if by == "cost" else "Tokens"
    listed = "; ".join(f"{name} {y:.3f} at {x:,.4g}" for name, x, y in known)
    mean = f"Mean over {len(scores)} benchmarks, for systems that were measured on all." if len(scores) > 1 else ""
    unit = "Costs in USD are computed with the table of prices." if by == "cost" else "Some costs in USD are unknown."
    return {
        "about": f"{mean} {unit}".strip(),
        "alt": f"Score by {measure.lower()} per item. On the line or below it: {listed}.",
        "height": HEIGHT,
        "unit": f"{measure} per item, on a log scale",
        "ticks": ticks,
        "lines": lines,
        "points": place_labels(points),
        "front": _front_line(sorted((p["x"], p["y"]) for p in points if p["on"])),
    }


def _all_known(table: Table, key: str) -> bool:
    return None not in table.column(key) and any(isinstance(cell, int | float) for cell in table.column(key))


def _horizontal_scale(low: float, high: float, unit: str) -> tuple[Callable[[float], float], list[tuple[float, str]]]:
    """A function from a value to its horizontal position, and at most six ticks, each with its position and label."""
    start, end = log10(low) - 0.12, log10(high) + 0.12

    def x_position(x: float) -> float:
        return round(LEFT + 16 + (RIGHT - LEFT - 32) * (log10(x) - start) / (end - start), 1)

    steps = [m * 10.0**e for e in range(floor(start), ceil(end) + 1) for m in (1, 2, 5)]
    ticks = [step for step in steps if start <= log10(step) <= end]
    ticks = ticks or list(dict.fromkeys(float(f"{value:.2g}") for value in (low, high)))
    interval = -(-len(ticks) // 6)
    return x_position, [(x_position(step), f"{unit}{step:,.10g}") for step in ticks[::interval]]


def _vertical_scale(low: float, high: float) -> tuple[Callable[[float], float], list[tuple[float, str]]]:
    """A function from a score to its vertical position, and the lines of the grid, each with its position and label."""
    room = max((high - low) * 0.12, 0.01)
    start, end = low - room, high + room

    def y_position(y: float) -> float:
        return round(HEIGHT - (HEIGHT - TOP) * (y - start) / (end - start), 1)

    step = next(s for s in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if (end - start) / s <= 8)
    numbers = range(ceil(start / step), floor(end / step) + 1)
    return y_position, [(y_position(n * step), f"{n * step:.{3 if step < 0.01 else 2}f}") for n in numbers]


def place_labels(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Copies of the points, from top to bottom, with the place of each point's label.

    The place is ``label_x``, ``label_y`` and the text's ``anchor`` in SVG. ``far`` is whether the label is more than
    `LABEL_DISTANCE` above or below its point.

    If possible, a label overlaps no point and no other label. From a point on the front, the line of the front goes to
    the right and then up. So the first choices for the label of such a point are above on the left, and below.
    """
    placed: list[dict[str, Any]] = []
    taken = [(p["x"] - 7, p["x"] + 7, p["y"] - 7, p["y"] + 7) for p in points]
    for point in sorted(points, key=lambda item: item["y"]):
        x, y, width = point["x"], point["y"], LETTER_WIDTH * len(point["name"])
        left_above, left, right = (x - 4, y - LABEL_DISTANCE, "end"), (x - 11, y, "end"), (x + 11, y, "start")
        above, below = (x + 4, y - LABEL_DISTANCE, "start"), (x + 4, y + LABEL_DISTANCE, "start")
        near = [left_above, below, above] if point["on"] else [right, left_above, below, left]
        steps = [
            (step * LABEL_DISTANCE, side, anchor)
            for step in (2, -2, 3, -3)
            for side, anchor in ((4, "start"), (-4, "end"))
        ]
        spots = [*near, *((x + side, y + down, anchor) for down, side, anchor in steps)]
        boxes = [
            (
                label_x - width if anchor == "end" else label_x,
                label_x if anchor == "end" else label_x + width,
                label_y - 7,
                label_y + 7,
            )
            for label_x, label_y, anchor in spots
        ]
        best = next((n for n, box in enumerate(boxes) if _is_free(box, taken)), 0)
        taken.append(boxes[best])
        label_x, label_y, anchor = spots[best]
        far = abs(label_y - y) > LABEL_DISTANCE
        placed.append({**point, "label_x": label_x, "label_y": label_y, "anchor": anchor, "far": far})
    return placed


def _is_free(box: Sequence[float], taken: Sequence[Sequence[float]]) -> bool:
    """Whether a box (left, right, top, bottom) is within the chart and overlaps none of the taken boxes."""
    left, right, top, bottom = box
    is_clear = all(right <= a or b <= left or bottom <= c or d <= top for a, b, c, d in taken)
    return is_clear and left >= LEFT and right <= RIGHT + 16 and top >= 0 and bottom <= HEIGHT + 4


def _front_line(best: Sequence[tuple[float, float]]) -> str:
    """The front as an SVG path."""
    (x, y), *more = best
    return f"M{x} {y}" + "".join(f"H{x}V{y}" for x, y in more) + f"H{RIGHT}"


# --- cost ratios ------------------------------------------------------------------------------------------------------


def ratios_table(report: Report) -> Table | None:
    """The cost of controls divided by the cost of their systems; None if no system has a control."""
    rows = []
    heads = [*columns("text", system="control", benchmark="")]
    keys = {"relative": "tokens", "relative_cost": "USD", "relative_seconds": "seconds"}
    for section in report.sections:
        table = next((candidate for candidate in section.tables if candidate.key == "costs"), None)
        if table is None:
            continue
        found = {key: table.column(key) if table.has(key) else [""] * len(table.rows) for key in keys}
        for name, *ratios in zip(table.column("system"), *found.values(), strict=True):
            if isinstance(name, Nested):
                rows.append([name.text, section.title, *ratios])
    return make_table(
        "ratios",
        "Cost of controls relative to their systems",
        "The ratios are over items for which the control and its system have an outcome and a known cost. At 1, the "
        "costs are equal. A control that costs much less than its system is at a disadvantage. A dash means an "
        "unknown ratio.",
        [*heads, *columns("ratio", **keys)],
        rows,
    )
