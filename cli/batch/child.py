"""A process that runs rows for `moot.cli.batch.process.Workers`. It ends when its input ends.

``python -m moot.cli.batch.child`` reads and writes lines of JSON. The first line says where things are stored: in the
``folder`` of a batch, or in the Postgres at the address ``queue``. Each further line is a row: a ``job``, which is a
debate or a piece of a corpus, with the batch's ``mode`` and its end ``until``. The answer to a row has its ``outcome``
and, for a queue, its ``document`` in Base64, compressed.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import signal
import sys
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TextIO

from langsmith.utils import tracing_is_enabled
from moot.cli.batch.jobs import Job
from moot.cli.batch.process import CLOSE_SECONDS
from moot.cli.batch.work import RECORDED, Folder, run_debate, share_of
from moot.core.callers import serving_callers
from moot.core.config import usual_settings
from moot.core.errors import MootError, UserError
from moot.core.store import use_store
from moot.core.telemetry import begin_telemetry, finish_telemetry, is_on
from moot.nodes._models.prices import read_prices
from moot.nodes._runtime.tracing import client_of_process, finish_at_exit
from moot.retrievers._files import Passage
from moot.retrievers._filling import fill_part
from moot.transcript.outcome import Outcome, failed_outcome

log = logging.getLogger(__name__)
HEARTBEAT_SECONDS = 5.0
"""Seconds between two heartbeats."""


def main() -> None:
    """Runs rows until the standard input ends; then the process ends."""
    config, out = open_streams()
    begin_telemetry(port=False)
    prices, folder = read_prices(), config.get("folder")

    async def run_row(row: dict[str, Any]) -> dict[str, Any]:
        if "passages" in row["job"]:
            return {"outcome": await store_piece(row["job"])}
        job, mode = Job(**row["job"]), row["mode"]
        own = Folder(Path(folder), has_runs=mode in RECORDED) if folder else None
        with share_of(job, row["until"]):
            outcome, document = await run_debate(job, mode, prices, own)
        if own or document is None:
            return {"outcome": outcome}
        return {"outcome": outcome, "document": base64.b64encode(packed(document)).decode()}

    with using_queue(config["queue"]) if "queue" in config else nullcontext():
        asyncio.run(process_rows(run_row, out))


async def store_piece(piece: Mapping[str, Any]) -> Outcome:
    """Stores a piece of a corpus on the Chroma server and returns the row's outcome. Errors become failed outcomes."""
    try:
        if not os.environ.get("MOOT_CHROMA_URL", "").strip():
            raise UserError("Set MOOT_CHROMA_URL in the environment of each worker.", kind="invalid_environment")
        passages = [Passage(**one) for one in piece["passages"]]
        encoded = await fill_part(piece["corpus"], piece["encoder"], piece["dimension"], passages)
    except MootError as error:
        return failed_outcome(error.detail, error.kind)
    except Exception as error:
        log.exception("A piece of the corpus %s was not stored", piece["corpus"])
        return failed_outcome(f"{type(error).__name__}: {error}"[:1000].rstrip(".") + ".", "fault_of_ours")
    return {"status": "done", "encoded": encoded}


def packed(document: dict[str, Any]) -> bytes:
    """A document as a queue stores it."""
    return zlib.compress(json.dumps(document).encode(), 1)


def using_queue(url: str) -> AbstractContextManager[None]:
    """A context in which this process serves those who queue rows, and stores its runs in the queue's Postgres."""
    from moot.core.postgres.connection import Postgres
    from moot.core.postgres.store import PostgresStore

    use_store(PostgresStore(Postgres(url), assigns=False))
    return serving_callers(usual_settings(), any_model=True)


def open_streams() -> tuple[dict[str, Any], TextIO]:
    """The first line of the input, parsed, and a stream for answers; other prints go to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the parent handles it
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # so that prints of libraries do not mix with answers
    return json.loads(sys.stdin.readline()), out


async def process_rows(run_row: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]], out: TextIO) -> None:
    """Processes rows as they arrive, and ends the process when the standard input ends."""
    loop, running = asyncio.get_running_loop(), set()

    async def answer(row: dict[str, Any]) -> None:
        write_value(out, {"key": row["key"], **await run_row(row)})

    def start_row(line: str) -> None:
        task = loop.create_task(answer(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)

    def read_rows() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(start_row, line)
        if is_on() or tracing_is_enabled():
            loop.call_soon_threadsafe(finish_and_exit)  # blocks the loop, so that debates start no call meanwhile
            time.sleep(CLOSE_SECONDS)
        # the parent has ended or no longer needs this process; rows that still run are resumed from the store
        os._exit(0)

    threading.Thread(target=read_rows, daemon=True).start()
    write_value(out, {"ready": True})
    while True:
        await asyncio.sleep(HEARTBEAT_SECONDS)
        write_value(out, {"alive": True})


def finish_and_exit() -> None:
    """Sends the rest of the traces and of the metrics, and ends the process."""
    if tracing_is_enabled():
        finish_at_exit(client_of_process())
    finish_telemetry()
    os._exit(0)


def write_value(out: TextIO, value: dict[str, Any]) -> None:
    """Writes a value as a line of JSON for the parent process."""
    out.write(json.dumps(value) + "\n")


if __name__ == "__main__":
    main()
