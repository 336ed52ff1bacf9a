"""Classes of faults that existing tests and `tests.import_race` cover; ``make faults`` runs these tests and races."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.faults.debates import ROOT
from tests.faults.record import Fault, Result
from tests.import_race import races


def run_tests(*places: str, only: str = "") -> Callable[[Path, bool], Result]:
    """Make a function that runs tests. The tests cause the faults of a class.

    Args:
        places: the files with the tests.
        only: an expression for ``pytest -k``; without it all tests of the files run.
    """

    def cause(folder: Path, quick: bool) -> Result:
        chosen = ["-k", only] if only else []
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *places, *chosen]
        done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)
        passed = re.search(r"(\d+) passed", done.stdout)
        return Result(
            int(passed[1]) if passed else 0, wrong=done.stdout[-500:] if done.returncode or not passed else ""
        )

    return cause


def import_in_threads(folder: Path, quick: bool) -> Result:
    """Import chromadb in one thread while another thread serialises an object."""
    broken = [fault for fault in races(20 if quick else 200) if fault]
    return Result(20 if quick else 200, wrong=broken[0] if broken else "")


FAULTS = [
    Fault(
        "other websites",
        "requests with hosts, origins and sockets of other websites, on every route",
        "refused",
        run_tests("tests/web/test_guard.py"),
    ),
    Fault(
        "damaged or foreign threads",
        "the file of threads contains pickles and calls of functions",
        "nothing is unpickled or called",
        run_tests("tests/web/test_table.py", only="unpickled"),
    ),
    Fault(
        "threads that import",
        "one thread imports chromadb while another serialises",
        "no thread fails",
        import_in_threads,
    ),
]
