"""Runs ``moot worker``, and ``moot batch status``, ``cancel`` and ``retry`` for the batches of a queue."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from moot.cli.parameters import DebatesAtOnce, Queue, Workers
from moot.core.words import count_with_noun


def worker(
    queue: Queue = None,
    workers: Workers = 1,
    at_once: DebatesAtOnce = 8,
    row_seconds: Annotated[
        float, typer.Option(min=1, help="Seconds after which a row counts as hanging, and its process is ended.")
    ] = 3600,
    drain: Annotated[
        bool, typer.Option("--drain", help="End when no row waits and the worker's rows have ended.")
    ] = False,
) -> None:
    """Run rows that `moot batch --queue` or `moot index --queue` has queued. Any number of machines can run workers.

    Addresses and keys of models come from this machine's environment. After Ctrl-C or SIGTERM, other workers get this
    worker's rows. With --drain, Ctrl-C or SIGTERM lets this worker finish its running rows.
    """
    from moot.cli.signals import Stop

    with Stop() as stop:  # before the slow imports, so that `stop` also handles Ctrl-C during them
        import asyncio

        from moot.cli.signals import end_now
        from moot.core.errors import UserError
        from moot.service.queue.worker import QueueWorker

        if not queue:
            raise UserError("Name the queue: --queue postgresql://... or MOOT_QUEUE.", kind="missing_settings")
        machine = QueueWorker(queue, workers, at_once, row_seconds)
        runner = asyncio.Runner()
        try:
            stop.run(runner, machine.work(drain=drain))
        except (asyncio.CancelledError, KeyboardInterrupt):
            if not stop.signal:
                raise
        print(f"This worker has finished {count_with_noun(machine.done, 'row')}.")  # noqa: T201
        if stop.signal:
            end_now(stop.exit_code)
        runner.close()


def manage_batches(action: str, id: str, url: str) -> None:
    """Shows the status of batches, cancels a batch, or retries a batch.

    A retry queues the failed rows again, and continues a batch that was stopped.
    """
    from contextlib import closing

    from moot.core.errors import UserError
    from moot.core.postgres.connection import Postgres
    from moot.service.queue.rows import QueuedRows

    with closing(Postgres(url)) as postgres:
        rows = QueuedRows(postgres, patience=0)
        postgres.prepare()
        if action == "status":
            _show_batches(rows, rows.find(id) if id else "")
            return
        if not id:
            text = f"Name the batch: `moot batch {action} ID`; `moot batch status` lists them."
            raise UserError(text, kind="bad_request")
        batch = rows.find(id)
        if action == "cancel":
            rows.stop(batch, "the batch was cancelled; its `moot batch` command, or `moot batch retry`, continues it")
            counts, _ = rows.state(batch)
            running = f"{count_with_noun(counts.get('running', 0), 'running row')} will finish"
            print(f"No further row of {batch} is started; {running}.")  # noqa: T201
            return
        waiting = rows.retry(batch)
        if not waiting:
            print(f"The batch {batch} has no failed row and no waiting row.")  # noqa: T201
            return
        rows_wait = "1 row waits" if waiting == 1 else f"{waiting:,} rows wait"
        to_collect = f"To collect the results of {batch}, run its `moot batch` command again."
        print(f"{rows_wait} for a worker. {to_collect}")  # noqa: T201


def _show_batches(rows: Any, id: str) -> None:
    """Prints a table of one batch, or of all batches if ``id`` is empty; then the workers of the queue."""
    from datetime import datetime

    from moot.cli.tables import show
    from rich.table import Table
    from rich.text import Text

    table = Table(
        "batch", "started", "file", "done", "failed", "running", "waiting", "spent", box=None, padding=(0, 2, 0, 0)
    )
    found = [batch for batch in rows.batches() if not id or batch["id"] == id]
    for batch in found:
        moment = datetime.fromtimestamp(batch["made"]).isoformat(" ", "seconds")
        counts = [f"{batch['rows'].get(status, 0):,}" for status in ("done", "failed", "running", "waiting")]
        tokens, usd, calls = batch["spent"]
        spent = f"{count_with_noun(round(calls), 'call')}, {count_with_noun(round(tokens), 'token')}"
        if usd or not batch["unpriced"]:
            spent += f", ${usd:,.2f}"
        if batch["unpriced"]:
            spent += f", no price known for {count_with_noun(batch['unpriced'], 'row')}"
        table.add_row(batch["id"], moment, Text(batch["file"]), *counts, spent)
    if found:
        show(table)
        for batch in found:
            if batch["stopped"] and batch["rows"].keys() & {"waiting", "failed"}:
                print(f"{batch['id']}: no further row is started, because {batch['stopped']}.")  # noqa: T201
    else:
        print("The queue has no batches.")  # noqa: T201
    workers = rows.workers()
    listed = ", ".join(f"{host} (process {pid}): {count_with_noun(running, 'row')}" for host, pid, running in workers)
    print(f"Workers: {listed or 'none; start one with `moot worker --queue ...`'}.")  # noqa: T201
