"""``make faults``: cause faults, print a table of the results, and write it into docs/howto/faults.md."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from tests.faults import ceilings, endpoint, evaluations, machine, servers, slow, tested
from tests.faults.debates import ROOT
from tests.faults.record import Fault, Result

PAGE = ROOT / "docs/howto/faults.md"
BEGIN, END = "<!-- make faults: begin -->", "<!-- make faults: end -->"
HEAD = "| class | fault | times | expected result | lost | as expected |"
PARTS = (endpoint, slow, machine, ceilings, servers, evaluations, tested)
FAULTS = tuple(fault for part in PARTS for fault in part.FAULTS)


def run_fault(fault: Fault, folder: Path, *, quick: bool) -> Result:
    """Cause a fault; return its result. If causing it raises an exception, the result contains the exception."""
    started = time.monotonic()
    try:
        result = fault.cause(folder, quick)
    except Exception as error:  # noqa: BLE001
        result = Result(0, "?", f"{type(error).__name__}: {error}")
    print(f"{fault.name}: {result.wrong or 'as expected'} ({time.monotonic() - started:.0f} s)", file=sys.stderr)
    return result


def row(fault: Fault, result: Result) -> str:
    """A line of the page's table, in Markdown."""
    verdict = "**no**" if result.wrong else "yes"
    return f"| {fault.name} | {fault.description} | {result.times} | {fault.expected} | {result.lost} | {verdict} |"


def table(results: dict[Fault, Result], old_table: str = "") -> str:
    """The table of the page, in Markdown. Classes without a result keep their lines of the old table."""
    by_name = {line.split(" | ")[0].removeprefix("| "): line for line in old_table.splitlines()}
    by_name |= {fault.name: row(fault, result) for fault, result in results.items()}
    lines = [by_name[fault.name] for fault in FAULTS if fault.name in by_name]
    return "\n".join([HEAD, "|---|---|---|---|---|---|", *lines])


def main(
    only: Annotated[
        list[str] | None, typer.Option(help="A class of faults, or the start of its name. Repeatable.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Repeat faults less often, and do not change docs/howto/faults.md.")
    ] = False,
) -> None:
    """Cause faults. The exit code is 1 if a result is not as expected, or if no class matches."""
    chosen = [fault for fault in FAULTS if not only or fault.name.startswith(tuple(only))]
    with tempfile.TemporaryDirectory(prefix="moot-faults-") as folder:
        # Killed processes leave their files in this folder, which is deleted at the end.
        os.environ |= dict.fromkeys(("TMPDIR", "XDG_DATA_HOME"), folder)
        results = {
            fault: run_fault(fault, Path(folder) / str(number), quick=quick) for number, fault in enumerate(chosen)
        }
    print(table(results))
    if not quick:
        before, rest = PAGE.read_text().split(BEGIN)
        old, after = rest.split(END)
        PAGE.write_text(f"{before}{BEGIN}\n\n{table(results, old)}\n\n{END}{after}")
    raise SystemExit(not chosen or any(result.wrong for result in results.values()))


if __name__ == "__main__":
    typer.run(main)
