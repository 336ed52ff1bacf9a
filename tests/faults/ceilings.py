"""Kills of debates and evaluations under ceilings, which the same command then finishes."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.evals.test_solver import claims
from tests.faults.debates import Ended, Place, place, words_of
from tests.faults.kills import LATENCY_MS, calls_of
from tests.faults.record import Fault, Result, first_wrong

SIGNALS = (signal.SIGKILL, signal.SIGTERM)
OVER = {"max_calls": 1.0, "budget": 1.05}
"""Times the ceiling that may be sent: tokens are estimated before a call, and counted after it."""
ROOM = {"max_calls": (2, 20), "budget": (1500, 15_000)}
"""Between which ceilings are drawn."""
AMPLE = 1_000_000
"""A ceiling that leaves nothing out."""
LOST = "Calls whose replies were lost when the debate was stopped"
SAMPLES = 24
LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")
BYTES_PER_TOKEN = 4
"""Of the scripted endpoint."""


@dataclass(frozen=True)
class Kills:
    """A debate or an evaluation under a ceiling, and when it is killed.

    Args:
        ceiling: max_calls or budget.
        most: its value.
        after: a kill for each: after so many further calls.
        signals: the signal of each.
    """

    ceiling: str
    most: int
    after: Sequence[int]
    signals: Sequence[signal.Signals]


def drawn(draw: random.Random, ceiling: str) -> Kills:
    """One to three kills."""
    number = draw.randint(1, 3)
    after = [draw.randint(1, 6) for _ in range(number)]
    return Kills(ceiling, draw.randint(*ROOM[ceiling]), after, draw.choices(SIGNALS, k=number))


def end_of(kills: Kills, words: Sequence[str], here: Place) -> Ended:
    """How a command ends that is killed and given again."""
    for after, by in zip(kills.after, kills.signals, strict=True):
        before, process = here.served(), here.start(*words)
        while process.poll() is None and here.served() < before + after:
            time.sleep(0.005)
        process.send_signal(by)
        if (ended := here.end(process)).code not in (-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM):
            return ended
    return here.run(*words)


def spent(here: Place) -> dict[str, int]:
    """What the endpoint was sent in all."""
    chats = [call for call in calls_of(here.stub) if call["kind"] == "chat"]
    sizes = [call[part] for call in chats for part in ("prompt_chars", "reply_chars")]
    return {"max_calls": len(chats), "budget": sum(size // BYTES_PER_TOKEN + 1 for size in sizes)}


def over(kills: Kills, here: Place) -> str:
    """Whether more was sent than the ceiling allows."""
    sent = spent(here)[kills.ceiling]
    return f"{sent} of {kills.ceiling} {kills.most}: {kills}" if sent > OVER[kills.ceiling] * kills.most else ""


def of_debate(system: str, kills: Kills, folder: Path) -> str:
    """What is wrong with a debate that is killed under a ceiling."""
    with place(folder, latency_ms=LATENCY_MS) as here:
        ended = end_of(kills, [*words_of(system, **{kills.ceiling: kills.most}), "--out", str(here.out)], here)
        if too_much := over(kills, here):
            return too_much
        if ended.code == 3 and LOST in ended.errors:  # the call that decides was sent, and its reply was lost
            ended = here.verify(system, **{kills.ceiling: AMPLE})
        answer = (ended.document or {}).get("answer")
        refused = ended.code == 2 and not here.served() and kills.ceiling in ended.errors
        return first_wrong(
            ("Traceback" not in ended.errors, ended.errors),
            (refused or ended.code == 0, f"exit code {ended.code}, {system}, {kills}: {ended.errors}"),
            (refused or answer in LABELS, f"{ended.verdict}, {system}, {kills}"),
        )


def of_evaluation(kills: Kills, folder: Path) -> str:
    """What is wrong with an evaluation that is killed under a ceiling."""
    with place(folder, latency_ms=LATENCY_MS) as here:
        data = claims(here.folder / "fever.jsonl", *["SUPPORTS"] * SAMPLES)
        words = ["eval", "run", "--graph", "standard_prompting", "--task", f"fever={data}", "--model", "openai:stub"]
        words += ["--logs", str(here.folder / "logs"), "--at-once", "4", "--max-calls", str(kills.most)]
        ended = end_of(kills, words, here)
        return over(kills, here) or first_wrong(
            ("Traceback" not in ended.errors, ended.errors),
            (ended.code == 3, f"exit code {ended.code}, though samples are missing, {kills}: {ended.errors}"),
        )


def killed(folder: Path, quick: bool) -> Result:
    """Debates under ceilings that are killed."""
    times, draw, wrong = 4 if quick else 24, random.Random(23), ""
    for number in range(times):
        system = ("tool_mad", "proclaim", "madke")[number % 3]
        kills = drawn(draw, (*OVER,)[number % 2])
        wrong = wrong or of_debate(system, kills, folder / str(number))
    return Result(times, "what the ceilings left out", wrong)


def evaluations(folder: Path, quick: bool) -> Result:
    """Evaluations under ceilings that are killed."""
    times, draw, wrong = 1 if quick else 4, random.Random(24), ""
    for number in range(times):
        wrong = wrong or of_evaluation(drawn(draw, "max_calls"), folder / str(number))
    return Result(times, "the samples that the ceilings left out", wrong)


FAULTS = [
    Fault(
        "kills under ceilings",
        "debates with `max_calls` or `budget` are killed up to three times, and the same command is given again",
        "all that is sent is within the ceiling (tokens: 5% more); each ends with a verdict, with a sentence before "
        "the first call, or, if the deciding call was lost, with the ceiling under which the same command decides",
        killed,
    ),
    Fault(
        "kills of moot eval run under ceilings",
        "evaluations with `--max-calls` are killed up to three times, and the same command is given again",
        "all that is sent is within the ceiling; the samples that are missing are said",
        evaluations,
    ),
]
