"""The options of ``moot batch``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from moot.cli.models import with_model
from moot.cli.parameters import DebatesAtOnce, MaxSeconds, Queue, Workers

ACTIONS = ("status", "cancel", "retry")
"""Actions on the batches of a queue. The command line names one of them in place of a file."""


def batch(
    file: Annotated[
        Path,
        typer.Argument(
            help="CSV, .xlsx or JSON Lines with a column `claim`. Optional columns: task, label, labels, options, "
            "date, speaker, appeared_at (or url, link), given, group, id, graph, settings. With --queue, in place of a "
            "file: status, cancel or retry."
        ),
    ],
    id: Annotated[
        str, typer.Argument(metavar="[BATCH]", help="After status, cancel or retry: the beginning of the batch's id.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="The folder for the table, and each row's document and report.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=COLUMN",
            help="The list's own name of a column, such as claim=Behauptung or date=Datum. Repeatable.",
        ),
    ] = None,
    dates: Annotated[
        str | None,
        typer.Option(metavar="dmy|mdy|ymd", help="The order of dates as 3/4/2025.", show_default="as the dates show"),
    ] = None,
    sheet: Annotated[
        str | None, typer.Option(help="The sheet of an .xlsx file.", show_default="the first visible one")
    ] = None,
    charset: Annotated[
        str | None,
        typer.Option(help="The encoding of the file, such as windows-1252.", show_default="as the file shows"),
    ] = None,
    as_is: Annotated[
        bool, typer.Option("--as-is", help="Check rows that are probably no claims, such as `ok` or an address.")
    ] = False,
    leave_out: Annotated[
        str | None,
        typer.Option(
            metavar="ROWS",
            help="Rows that are not checked, such as 3,7-9: for example those that are nearly the same as others.",
        ),
    ] = None,
    queue: Queue = None,
    graphs: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Several debate systems, separated by commas, to compare.")
    ] = None,
    workers: Workers = 1,
    at_once: DebatesAtOnce = 4,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Maximum tokens for all rows together. To limit each row: --set budget=N.",
        ),
    ] = None,
    max_cost: Annotated[float | None, typer.Option(min=0, help="Maximum USD for all rows together.")] = None,
    max_calls: Annotated[int | None, typer.Option(min=1, help="Maximum model calls for all rows together.")] = None,
    max_seconds: MaxSeconds = None,
    run_on_queue: Callable[..., Any] | None = None,  # no option: what runs the rows if there is a queue
    **options: Any,
) -> None:
    """Debate every claim of a file. After an interruption, run the same command again to continue.

    The options of `moot verify` apply to every row; a row's own columns override them.

    With --workers or --queue, --budget, --max-cost and --max-calls are split among the debates in equal shares.

    The exit code is 0 if all rows are done, 3 if a row failed, is bad or was not started, 2 or 3 if the batch could not
    run, and 130 after Ctrl-C.
    """
    from moot.cli.signals import Stop

    if str(file) in ACTIONS and not file.exists():
        raise typer.BadParameter(
            f"`moot batch {file}` needs a queue: name it with --queue postgresql://... or MOOT_QUEUE."
        )
    if id:
        raise typer.BadParameter("only status, cancel and retry take the id of a batch; they need --queue.")
    if out is None:
        raise typer.BadParameter("name the folder for the table, and each row's document and report: --out FOLDER")
    with Stop() as stop:  # before the slow imports, so that `stop` also handles Ctrl-C during them
        from moot.cli.asking import input_from_options, named_settings
        from moot.cli.batch.asking import Chosen, ask_about, keep_choices, row_numbers
        from moot.cli.batch.batch import LOCK, Batch, Limits, run_batch, store_of_rows
        from moot.cli.batch.jobs import BatchOptions, check_first_row
        from moot.cli.batch.table import FILE
        from moot.cli.lists import list_options, open_list
        from moot.cli.resuming import parse_mode
        from moot.core.config import usual_settings, value_of
        from moot.core.errors import UserError
        from moot.core.files import exclusive_folder
        from moot.graphs._registry import DEFAULT_GRAPH
        from moot.web.debates import history_is_on

        if graphs and options["graph"]:
            raise UserError("--graphs and --graph both name systems: leave out one of them.", kind="invalid_setting")
        if queue and workers > 1:
            raise UserError("A queue has its own workers: leave out --workers.", kind="invalid_setting")
        history_is_on()  # raises an error if the value of MOOT_HISTORY is not valid
        chosen = graphs or options["graph"] or value_of("graph") or DEFAULT_GRAPH
        systems = [name.strip() for name in chosen.split(",")] if graphs else [chosen]
        debate_input = input_from_options(options)
        named = named_settings(options)
        row_options = BatchOptions(
            [*dict.fromkeys(systems)],
            debate_input,
            options["settings"] or [],
            named,
            usual_settings(),
            options["evidence"],
            options["language"],
        )
        mode = parse_mode(options["replies"] or value_of("replies") or "record")
        limits = Limits(at_once, workers, budget, max_cost, max_calls, max_seconds, queue)
        # raises errors of the file before the folder is created
        claims = open_list(file, list_options(column or [], dates, sheet, charset), stop.ask)
        if queue:  # its workers may be on other machines, so no model of this one is offered
            check_first_row(claims, row_options, here=False)
        else:
            with_model(lambda: check_first_row(claims, row_options), named, stop.ask)
        rows = Chosen(as_is, None if leave_out is None else row_numbers(leave_out))
        if not (out / FILE).exists():
            rows, mode = ask_about(claims, row_options, mode, stop.ask, rows)
        with exclusive_folder(out, "batch", LOCK, FILE), store_of_rows(queue, mode, out) as store:
            batch = Batch(claims, out, row_options, mode, store, keep_choices(out, rows))
            raise SystemExit(run_batch(batch, limits, stop, run_on_queue))
