"""Faults of ``moot eval run``: it is stopped by SIGKILL, SIGTERM or SIGINT."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

from tests.evals.test_solver import claims
from tests.faults.debates import sandbox
from tests.faults.kills import LATENCY_MS
from tests.faults.record import Fault, Result, first_failed

AT_ONCE = 4
SAMPLES = 24


def kill_evaluations(folder: Path, quick: bool) -> Result:
    """Stop an evaluation with SIGKILL, SIGTERM or SIGINT, then run the same command again."""
    times, draw, repaid, wrong = 3 if quick else 9, random.Random(21), 0, ""
    for number in range(times):
        by = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[number % 3]
        with sandbox(folder / str(number), latency_ms=LATENCY_MS) as here:
            data = claims(here.folder / "fever.jsonl", *["SUPPORTS"] * SAMPLES)
            words = ["eval", "run", "--graph", "standard_prompting", "--task", f"fever={data}", "--json"]
            words += ["--model", "openai:stub", "--logs", str(here.folder / "logs"), "--at-once", str(AT_ONCE)]
            process, moment = here.start(*words), draw.randrange(1, SAMPLES)
            while process.poll() is None and here.served(moment) < moment:
                pass
            process.send_signal(by)
            stopped, ended = here.end(process), here.run(*words)
            [log] = json.loads(ended.stdout)["logs"] if ended.code == 0 else [{}]
            more = here.served() - SAMPLES
            repaid += more
            wrong = wrong or first_failed(
                (stopped.code in (0, -signal.SIGKILL if by == signal.SIGKILL else 128 + by), f"{by}: {stopped.code}"),
                ("Traceback" not in stopped.errors, stopped.errors[-500:]),
                (ended.code == 0, ended.errors[-500:]),
                (log.get("status") == "success" and log["samples"] == SAMPLES, f"{log}"),
                (more <= AT_ONCE, f"{more} samples were run again after {by.name} at {moment}"),
            )
    return Result(times, f"{repaid} of {times * SAMPLES} samples run again", wrong)


FAULTS = [
    Fault(
        "kill -9, SIGTERM and Ctrl-C of moot eval run",
        "an evaluation of 24 samples, 4 at once, is stopped at a random moment, and the same command is run again",
        "the second run ends with all samples; only the samples that were running are run again",
        kill_evaluations,
    ),
]
