"""Pictures of a report, each drawn from the numbers of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from moot.evals._report.debates import VERDICT
from moot.evals._report.drawing import (
    COLOURS,
    INK,
    LONGEST_TITLE,
    TICKS,
    Picture,
    Rows,
    by_system,
    draw_dots,
    draw_panels,
    error_bars,
    line_style,
    make_picture,
    open_figure,
    set_scale,
    shorten,
    system_styles,
    write_row_names,
)
from moot.evals._report.tables import Table
from moot.evals._stats.significance import Interval


def draw_pictures(tables: Mapping[str, Table]) -> list[Picture]:
    """Draw the pictures of a study's tables."""
    return [picture for key, draw in DRAW_FUNCTIONS.items() if key in tables and (picture := draw(tables)) is not None]


# --- scores -----------------------------------------------------------------------------------------------------------


def draw_scores(tables: Mapping[str, Table]) -> Picture | None:
    """Draw every system's scores with their intervals; None if the table has no scores."""
    table = tables["systems"]
    shares = [c for c in table.columns if c.kind == "share"]
    if not shares:
        return None
    failed = zip(table.column("system"), table.column("errors"), strict=True)
    names = [shorten(name) + (f" (errors: {errors})" if errors else "") for name, errors in failed]
    with open_figure("scores", 1 + 0.28 * len(names)) as (figure, files):
        all_axes = figure.subplots(1, len(shares), sharey=True, squeeze=False)[0]
        for axes, column in zip(all_axes, shares, strict=True):
            draw_dots(axes, table.column(column.key), system_styles(table))
            axes.set_xlabel(column.title)
        write_row_names(all_axes[0], names)
    listed = "; ".join(f"{n} {v.value:.3f}" for n, v in _known_intervals(names, table.column(shares[0].key)))
    alt = f"Scores with 95% intervals, in a row for each system. {shares[0].title.capitalize()}: {listed}."
    return make_picture("scores", "Scores", alt, files, table)


def _known_intervals(names: Sequence[str], cells: Sequence[Any]) -> list[tuple[str, Interval]]:
    intervals = zip(names, cells, strict=True)
    return [(name, cell) for name, cell in intervals if isinstance(cell, Interval) and cell.value is not None]


def draw_differences(tables: Mapping[str, Table]) -> Picture | None:
    """Draw the difference between every system and its baseline; None if the table has no differences."""
    table = tables["differences"]
    shown = [column for column in table.columns if column.key.startswith("difference_")]
    if not shown:
        return None
    pairs = zip(table.column("system"), table.column("against"), strict=True)
    names = [f"{shorten(system)}\nminus {shorten(baseline)}" for system, baseline in pairs]
    with open_figure("differences", 1 + 0.45 * len(names)) as (figure, files):
        all_axes = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
        for axes, column in zip(all_axes, shown, strict=True):
            axes.axvline(0, color=INK, linewidth=1, linestyle="--")
            draw_dots(axes, table.column(column.key), [line_style(0)] * len(names))
            axes.set_xlabel(column.title)
        write_row_names(all_axes[0], names)
    listed = "; ".join(f"{n} {v.value:+.3f}" for n, v in _known_intervals(names, table.column(shown[0].key)))
    alt = f"Paired differences with 95% intervals. A line marks zero. {listed}."
    return make_picture("differences", "Paired differences", " ".join(alt.split()), files, table)


def draw_front(tables: Mapping[str, Table]) -> Picture | None:
    """Draw the score by the cost of an item or, if some system's cost is unknown, by the tokens of an item."""
    table = tables["costs"]
    priced = table.has("cost") and None not in table.column("cost")
    by, unit = ("cost", "USD per item") if priced else ("tokens", "tokens per item")
    if not table.has(f"front_{by}"):
        return None
    points = list(zip(map(shorten, table.column("system")), table.column(by), table.column("score"), strict=True))
    known = [x is not None and y is not None for _, x, y in points]
    best = sorted((x, y) for (_, x, y), on_front in zip(points, table.column(f"front_{by}"), strict=True) if on_front)
    with open_figure("front", max(3.2, 1 + 0.2 * len(points))) as (figure, files):
        axes = figure.subplots()
        axes.step(*zip(*best, strict=True), where="post", color=INK, linewidth=1, linestyle="--", label="front")
        drawn_at = Counter[tuple[float, float]]()
        for (name, x, y), style, drawn in zip(points, system_styles(table), known, strict=True):
            if drawn:
                # If points are in the same place, each further marker is larger, so that all are visible.
                axes.plot([x], [y], markersize=8 + 5 * drawn_at[x, y], label=name, **style)
                drawn_at[x, y] += 1
        set_scale(axes, [x for (_, x, _), drawn in zip(points, known, strict=True) if drawn])
        axes.set_xlabel(unit)
        axes.set_ylabel(column_title(table, "score"))
        figure.legend(loc="outside right upper")
    parts = [
        f"{n} {y:.3f} at {x:,.4g}" if is_known else f"{n} unknown"
        for (n, x, y), is_known in zip(points, known, strict=True)
    ]
    about_line = (
        "A dashed line joins the systems on the front: no other system is at least as good at a lower cost, or better "
        "at the same cost."
    )
    alt = f"Score by {unit}. {about_line} {'; '.join(parts)}."
    return make_picture("front", "Cost and score" if priced else "Tokens and score", alt, files, table)


def column_title(table: Table, key: str) -> str:
    """The heading of a column."""
    return next(column.title for column in table.columns if column.key == key)


# --- a panel per system -----------------------------------------------------------------------------------------------


def draw_reliability(tables: Mapping[str, Table]) -> Picture | None:
    """Draw the share of right answers by confidence; within a panel, a larger dot stands for more items."""
    table = tables["reliability"]

    def draw(axes: Any, rows: Rows) -> None:
        most = max(row["items"] for row in rows)
        sizes = [12 + 100 * row["items"] / most for row in rows]
        points = [row["confidence"] for row in rows], [row["accuracy"] for row in rows]
        axes.plot([0, 1], [0, 1], color=INK, linestyle="--", linewidth=1)
        axes.plot(*points, color=COLOURS[0], linewidth=1)
        axes.scatter(*points, s=sizes, color=COLOURS[0], marker="o", zorder=3)
        axes.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), xticks=TICKS, yticks=TICKS, aspect="equal")

    files = draw_panels("reliability", table, draw, "mean confidence of a bin", "share of right answers", 2.6)
    alt = (
        "The share of right answers by confidence, with a panel for each system. Below the diagonal, the system is too "
        "confident."
    )
    return make_picture("reliability", "Reliability", alt, files, table)


def draw_selective(tables: Mapping[str, Table]) -> Picture | None:
    """Draw the share of wrong answers by coverage, and as a dashed line the share if every item is answered."""
    table = tables["selective"]

    def draw(axes: Any, rows: Rows) -> None:
        axes.axhline(rows[-1]["risk"], color=INK, linestyle="--", linewidth=1)
        points = [row["coverage"] for row in rows], [row["risk"] for row in rows]
        axes.plot(*points, color=COLOURS[0], linewidth=1, marker="o", markersize=4)
        axes.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), xticks=TICKS, yticks=TICKS, aspect="equal")

    files = draw_panels("selective", table, draw, "share of items answered (coverage)", "share wrong (risk)", 2.6)
    ends = {
        name: " and ".join(f"{row['risk']:.3f} at {row['coverage']:.0%}" for row in (rows[0], rows[-1]))
        for name, rows in by_system(table).items()
    }
    listed = "; ".join(f"{name}: {shares}" for name, shares in ends.items())
    alt = (
        "The share of wrong answers by the share of items that a system answers, the most confident first. A dashed "
        f"line marks the share if it answers all. {listed}."
    )
    return make_picture("selective", "Selective accuracy", alt, files, table)


def draw_rounds(tables: Mapping[str, Table]) -> Picture | None:
    """Draw the score of each round's majority answer, and of the verdict."""
    table = tables["rounds"]

    def draw(axes: Any, rows: Rows) -> None:
        *rounds, end = [row["score"] for row in rows]
        places = [int(row["round"]) for row in rows if row["round"] != VERDICT]
        last = places[-1] + 1
        axes.errorbar(
            places, [s.value for s in rounds], yerr=error_bars(rounds), color=COLOURS[0], marker="o", capsize=2.5
        )
        axes.errorbar([last], [end.value], yerr=error_bars([end]), capsize=2.5, **line_style(1) | {"marker": "D"})
        axes.set_xticks([*places, last], [*map(str, places), f"\n{VERDICT}"])
        axes.set_xlim(places[0] - 0.5, last + 0.5)

    title = column_title(table, "score")
    files = draw_panels("rounds", table, draw, "stopped after round", title)
    paths = {
        name: ", ".join(f"{row['round']} {row['score'].value:.3f}" for row in rows)
        for name, rows in by_system(table).items()
    }
    listed = "; ".join(f"{name}: {path}" for name, path in paths.items())
    return make_picture(
        "rounds", "By round", f"{title.capitalize()}, for each round and for the verdict. {listed}.", files, table
    )


def draw_trials(tables: Mapping[str, Table]) -> Picture | None:
    """Draw novelty and reflection by round; None if the table has neither."""
    table = tables["trial_rounds"]
    groups = by_system(table)
    shown = [name for name in ("novelty", "reflection") if table.has(name)]
    if not shown:
        return None
    with open_figure("trial_rounds", 0.6 + 1.9 * len(shown), max(4.2, 2.8 * len(groups))) as (figure, files):
        grid = figure.subplots(len(shown), len(groups), sharex=True, sharey="row", squeeze=False)
        for column, (system, rows) in zip(grid.T, groups.items(), strict=True):
            for axes, name in zip(column, shown, strict=True):
                _draw_both_debates(axes, rows, name)
                axes.set_ylim(0, {"novelty": 1, "reflection": 2}[name])
            column[0].set_title(shorten(system, LONGEST_TITLE), fontsize=9)
            column[-1].set_xlabel("round")
        for axes, name in zip(grid[:, 0], shown, strict=True):
            axes.set_ylabel(name)
        figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    alt = (
        "Novelty of the found evidence, and reflection (the sum of the scores that both sides give their own cases), "
        "by round in both debates."
    )
    return make_picture("trial_rounds", "Novelty and reflection by round", alt, files, table)


def _draw_both_debates(axes: Any, rows: Rows, name: str) -> None:
    for n, (phase, line) in enumerate((("primary", "-"), ("switched", "--"))):
        points = [(r["round"], r[name]) for r in rows if r["debate"] == phase and r[name] is not None]
        style = line_style(n, hollow=n > 0) | {"linestyle": line}
        axes.plot([x for x, _ in points], [y for _, y in points], label=phase, **style)
    axes.xaxis.get_major_locator().set_params(integer=True)


# --- what debate did --------------------------------------------------------------------------------------------------


def draw_effects(tables: Mapping[str, Table]) -> Picture | None:
    """Draw drift, the share of right minorities that gave in, and the oracle gap; None if the table has none."""
    table = tables["effects"]
    shown = [key for key in ("drift", "gave_in", "oracle_gap") if table.has(key)]
    if not shown:
        return None
    names = [shorten(name) for name in table.column("system")]
    with open_figure("effects", 1 + 0.28 * len(names)) as (figure, files):
        all_axes = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
        for axes, key in zip(all_axes, shown, strict=True):
            axes.axvline(0, color=INK, linewidth=1, linestyle="--")
            draw_dots(axes, table.column(key), system_styles(table))
            axes.set_xlabel(column_title(table, key))
        write_row_names(all_axes[0], names)
    listed = "; ".join(f"{n} {v.value:+.3f}" for n, v in _known_intervals(names, table.column(shown[0])))
    alt = f"What debate did, with 95% intervals; a line marks zero. {column_title(table, shown[0])}: {listed}."
    return make_picture("effects", "What debate did", alt, files, table)


def draw_changes(tables: Mapping[str, Table]) -> Picture | None:
    """Draw, for each step, the shares of speakers' answers that became right, and that became wrong."""
    table = tables["changes"]
    keys = [column.key for column in table.columns]
    speakers = tuple(row for row in table.rows if row[keys.index("of")] == "speakers")
    if not speakers:
        return None
    table = replace(table, rows=speakers)

    def draw(axes: Any, rows: Rows) -> None:
        places = range(len(rows))
        gained, lost = ([row[key] / row["answers"] for row in rows] for key in ("wrong_right", "right_wrong"))
        axes.bar(places, gained, color=COLOURS[2], width=0.6)
        axes.bar(places, [-value for value in lost], color=COLOURS[1], width=0.6, hatch="//")
        axes.axhline(0, color=INK, linewidth=1)
        axes.set_xticks(list(places), [str(row["step"]) for row in rows])

    files = draw_panels("changes", table, draw, "from round to round", "share of answers")
    alt = (
        "For each step from one round to the next, the share of speakers' answers that became right (up) and that "
        "became wrong (down, hatched)."
    )
    return make_picture("changes", "Answers that debate changed", alt, files, table)


# --- rows -------------------------------------------------------------------------------------------------------------


def draw_stops(tables: Mapping[str, Table]) -> Picture | None:
    """Draw the score by stop reason."""
    table = tables["stops"]
    rows = zip(table.column("system"), table.column("stop_reason"), table.column("items"), strict=True)
    names = [f"{shorten(system)}: {str(reason).replace('_', ' ')} ({items})" for system, reason, items in rows]
    alt = "Scores with 95% intervals by stop reason."
    return _row_picture("stops", "By stop reason", table, names, "score", alt, 0)


def draw_judges(tables: Mapping[str, Table]) -> Picture | None:
    """Draw Cohen's kappa of every pair of judges; None if no kappa is known."""
    table = tables["judges"]
    if not table.has("kappa"):
        return None
    names = [f"{shorten(system)}: {first}, {second}" for system, first, second, *_ in table.rows]
    alt = "Cohen's kappa of each pair of judges: 1 is full agreement, 0 is agreement by chance."
    return _row_picture("judges", "Agreement between judges", table, names, "kappa", alt, -1)


def _row_picture(
    key: str, title: str, table: Table, names: Sequence[str], column: str, alt: str, least: float
) -> Picture:
    """Draw a dot in each row, in one style for each system, on a scale from ``least`` to 1."""
    systems = list(dict.fromkeys(map(str, table.column("system"))))
    styles = [line_style(systems.index(str(name))) for name in table.column("system")]
    with open_figure(key, 1 + 0.28 * len(names)) as (figure, files):
        axes = figure.subplots()
        draw_dots(axes, table.column(column), styles)
        axes.set_xlabel(column_title(table, column))
        axes.set_xlim(least - 0.03, 1.03)
        write_row_names(axes, names)
    return make_picture(key, title, alt, files, table)


DRAW_FUNCTIONS: dict[str, Callable[[Mapping[str, Table]], Picture | None]] = {
    "systems": draw_scores,
    "differences": draw_differences,
    "costs": draw_front,
    "effects": draw_effects,
    "changes": draw_changes,
    "reliability": draw_reliability,
    "selective": draw_selective,
    "rounds": draw_rounds,
    "stops": draw_stops,
    "trial_rounds": draw_trials,
    "judges": draw_judges,
}
"""The function that draws each picture, by the key of its table."""
