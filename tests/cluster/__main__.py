"""The experiments of ``make cluster``: faults, limits and costs of a queue, and faults of the service.

Run nothing else meanwhile, because times are measured. ``--only NAME`` runs only the named experiment. With several
``--only``, all named experiments run.
``--service`` runs only the experiments of the service. The exit code is 1 if an experiment fails.

The experiments of the queue need Postgres. Those of the service need Postgres, Redis and a Python with the extra
`service`, and are skipped if one of the three is missing. ``MOOT_SERVICE_PYTHON`` names this Python. Its default is
the Python in ``.venv-service`` if there is one, else the Python that runs the experiments.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from tests.cluster import service
from tests.cluster.experiment import ENDLESS, QueueExperiment, new_experiment, run_with_faults
from tests.cluster.postgres import Server, running_postgres
from tests.conftest import StubEndpoint, running_stub
from tests.service.running import missing_requirements

LEAST_SPEEDUP = 1.8
"""The minimum speed of two workers relative to one."""
MOST_ROW_COST = 3.0
"""Maximum processor time that a worker's own process may take for a row, in milliseconds. It stores the documents."""
DISK_SIZE = 48 * 2**20
"""Size of the disk that becomes full, in bytes."""
COUNT_WORKERS = "SELECT count(*) FROM moot.workers"
SERVICE_PYTHON = Path(__file__).parents[2] / ".venv-service/bin/python"
"""The Python that ``make service`` installs."""


def faults(folder: Path, server: Server, stub: StubEndpoint) -> list[str]:
    """Run 200 rows during ten kills of a worker, three restarts of Postgres, a freeze and a termination of a worker.

    One of the rows kills its process.
    """
    with new_experiment(folder, server, stub) as experiment:
        found = run_with_faults(
            experiment,
            200,
            [experiment.kill] * 10 + [experiment.restart_postgres] * 3 + [experiment.freeze, experiment.terminate],
            seed=int(time.time()),
        )
        print(f"  calls {len(stub.prompts())}, repeated {experiment.repeated_calls()}", file=sys.stderr)
        return found


def full_disk(folder: Path, server: Server, stub: StubEndpoint) -> list[str]:
    """Check that no row is lost if the disk of Postgres is full for some seconds.

    If a small disk cannot be mounted, nothing is checked.
    """
    with ExitStack() as stack:
        disk = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="moot-disk-")))
        size = ["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "tmpfs", str(disk)]
        if subprocess.run(size, check=False, capture_output=True).returncode:
            print("  left out: a small disk cannot be mounted here", file=sys.stderr)
            return []
        stack.callback(subprocess.run, ["umount", str(disk)], check=True)
        small = stack.enter_context(running_postgres(disk))
        experiment = stack.enter_context(new_experiment(folder, small, stub))
        experiment.start_worker()
        batch = experiment.submit(60)
        experiment.wait(lambda: experiment.count_ended_rows() >= 10)
        filler = disk / "filler"
        with filler.open("wb") as file:
            while True:
                try:
                    os.write(file.fileno(), b"\0" * 65536)
                except OSError:
                    break
        before = len(stub.prompts())
        experiment.wait(lambda: len(stub.prompts()) > before or not small.is_running())
        time.sleep(5)
        filler.unlink()
        if not small.is_running():
            small.start()
        experiment.wait(lambda: batch.poll() is not None)
        table = experiment.table()
        return [f"{row['claim']}: {row['error']}" for row in table if row["status"] != "done"]


def rate(folder: Path, server: Server, stub: StubEndpoint) -> list[str]:
    """Check that two workers run at least `LEAST_SPEEDUP` times as many rows per second as one worker.

    Each worker runs 8 debates at once. A call takes 200 ms.
    """
    folder.mkdir()
    seconds: dict[int, float] = {}
    for count in (1, 2):
        with new_experiment(folder / str(count), server, stub) as experiment:
            for _ in range(count):
                experiment.start_worker()
            experiment.wait(lambda count=count, it=experiment: it.ask(COUNT_WORKERS)[0][0] >= count)  # type: ignore[misc]
            batch = experiment.submit(240, words=("--set", "max_concurrency=64"))
            experiment.wait(lambda experiment=experiment: _seconds_between_ends(experiment) is not None)  # type: ignore[misc]
            experiment.wait(lambda batch=batch: batch.poll() is not None)  # type: ignore[misc]
            seconds[count] = _seconds_between_ends(experiment) or 0.0
            experiment.ask("DELETE FROM moot.batches")
            experiment.ask("DELETE FROM moot.workers")
    ratio = seconds[1] / seconds[2]
    print(f"  {240 / seconds[1]:.1f} and {240 / seconds[2]:.1f} rows a second: x {ratio:.2f}", file=sys.stderr)
    return [] if ratio >= LEAST_SPEEDUP else [f"two workers are {ratio:.2f} times as fast as one"]


def _seconds_between_ends(experiment: QueueExperiment) -> float | None:
    """Seconds from the end of the first done row to the end of the last done row; None if no row is done."""
    query = "SELECT extract(epoch FROM max(touched) - min(touched))::float8 FROM moot.rows WHERE status = 'done'"
    found: float | None = experiment.ask(query)[0][0]
    return found


def cost(folder: Path, server: Server, stub: StubEndpoint) -> list[str]:
    """Check the processor time that a worker's own process takes for a row. Its child processes run the rows."""
    rows = 400
    with new_experiment(folder, server, stub, at_once=16) as experiment:
        worker = experiment.start_worker()
        experiment.wait(lambda: bool(experiment.ask(COUNT_WORKERS)[0][0]))
        before = _processor_seconds(worker.pid)
        batch = experiment.submit(rows, words=("--graph", "standard_prompting"))
        experiment.wait(lambda: batch.poll() is not None)
        each = (_processor_seconds(worker.pid) - before) / rows * 1000
    print(f"  {each:.2f} ms a row in the worker's own process", file=sys.stderr)
    return [] if each <= MOST_ROW_COST else [f"a row costs {each:.2f} ms"]


def _processor_seconds(pid: int) -> float:
    """Seconds of processor time of a process, without its children."""
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def ceiling(folder: Path, server: Server, stub: StubEndpoint) -> list[str]:
    """Check that two workers together keep to a ceiling of 100 calls, and make at least 60 of them."""
    with new_experiment(folder, server, stub) as experiment:
        experiment.start_worker()
        experiment.start_worker()
        batch = experiment.submit(100, words=("--max-calls", "100"))
        experiment.wait(lambda: batch.poll() is not None)
        calls = len(stub.prompts())
        print(f"  {calls} calls of 100", file=sys.stderr)
        return [] if 60 <= calls <= 100 else [f"{calls} calls"]


def endless(folder: Path, server: Server, stub: StubEndpoint) -> list[str]:
    """Check that a row that never ends fails with an error on the time limit, and that all other rows are done."""
    with new_experiment(folder, server, stub) as experiment:
        experiment.start_worker("--row-seconds", 10)
        batch = experiment.submit(20, poison=ENDLESS)
        experiment.wait(lambda: batch.poll() is not None)
        wrong = [row for row in experiment.table() if (row["status"] == "done") == (row["claim"] == ENDLESS)]
        [error] = [row["error"] for row in experiment.table() if row["claim"] == ENDLESS]
        return [str(row) for row in wrong] + ([] if "more than 10 s" in error else [error])


def limits(folder: Path, server: Server, stub: StubEndpoint) -> list[str]:
    """Check that two workers with one process each and 16 debates in flight make at most 2 x 5 calls at once.

    ``max_concurrency`` is 5, and applies to each process. The endpoint refuses one call with a Retry-After.
    """
    rules = [{"match": "Claim 00030", "times": 1, "status": 429, "retry_after": "2"}]
    with running_stub(folder.with_name("refusing"), rules, latency_ms=200) as refusing:
        with new_experiment(folder, server, refusing) as experiment:
            experiment.start_worker("--workers", 1)
            experiment.start_worker("--workers", 1)
            experiment.wait(lambda: experiment.ask(COUNT_WORKERS)[0][0] >= 2)
            batch = experiment.submit(60, words=("--set", "max_concurrency=5"))
            experiment.wait(lambda: batch.poll() is not None)
            lost = [row for row in experiment.table() if row["error"]]
        calls = [call for call in refusing.calls() if call["kind"] == "chat" and call["status"] == 200]
    most = max(sum(a["start"] <= b["start"] < a["end"] for a in calls) for b in calls)
    print(f"  {most} at once", file=sys.stderr)
    return [f"{most} calls at once"] * (most > 10) + [f"{len(lost)} rows are lost"] * bool(lost)


EXPERIMENTS: tuple[Callable[[Path, Server, StubEndpoint], list[str]], ...] = (
    cost,
    rate,
    ceiling,
    limits,
    endless,
    full_disk,
    faults,
)
"""The experiments of the queue. Each returns a description of each deviation from the expected result."""


def run_queue_experiments(only: list[str]) -> bool:
    """Run all experiments of the queue, or those named in ``only``; return whether an experiment failed."""
    wrong = False
    for run_experiment in EXPERIMENTS:
        if only and run_experiment.__name__ not in only:
            continue
        with tempfile.TemporaryDirectory(prefix="moot-cluster-") as folder, running_postgres() as server:
            started = time.monotonic()
            with running_stub(Path(folder) / "stub", latency_ms=200) as stub:
                found = run_experiment(Path(folder) / "experiment", server, stub)
            wrong = wrong or bool(found)
            result = "; ".join(found) or "as expected"
            print(
                f"{run_experiment.__name__}: {result} ({time.monotonic() - started:.0f} s)", file=sys.stderr, flush=True
            )
    return wrong


def run_service_experiments(only: list[str], *, page: bool) -> bool:
    """Run all experiments of the service, or those named in ``only``; return whether an experiment failed.

    A table of the results is printed and, if ``page`` is true, written into the docs. If a requirement such as the
    extra `service` is missing, no experiment is run.
    """
    faults = [fault for fault in service.FAULTS if not only or fault.name in only]
    if not faults:
        return False
    if SERVICE_PYTHON.exists():
        os.environ.setdefault("MOOT_SERVICE_PYTHON", str(SERVICE_PYTHON))
    if reason := missing_requirements():
        print(
            f"service: SKIPPED, none of its {len(faults)} experiments was run: {reason}. "
            "`make service` installs the extra `service`.",
            file=sys.stderr,
            flush=True,
        )
        return False
    with tempfile.TemporaryDirectory(prefix="moot-cluster-") as folder:
        results = service.run_faults(Path(folder), faults, int(time.time()))
    print(service.table(results))
    if page:
        service.write_table(results)
    return any(result is None or result.deviations(fault) for fault, result in results.items())


def main(
    only: Annotated[list[str] | None, typer.Option(help="Run this experiment only. Repeatable.")] = None,
    service_only: Annotated[bool, typer.Option("--service", help="Run the service's experiments only.")] = False,
    page: Annotated[
        bool, typer.Option("--page", help="Write the service's results into docs/howto/service.md.")
    ] = False,
) -> None:
    """Run experiments. The exit code is 1 if an experiment fails."""
    known = {*(run_experiment.__name__ for run_experiment in EXPERIMENTS), *(fault.name for fault in service.FAULTS)}
    if unknown := sorted({*(only or ())} - known):
        raise typer.BadParameter(f"{unknown[0]} is not one of {', '.join(sorted(known))}.")
    wrong = [] if service_only else [run_queue_experiments(only or [])]
    wrong.append(run_service_experiments(only or [], page=page))
    raise typer.Exit(int(any(wrong)))


if __name__ == "__main__":
    typer.run(main)
