"""Debates and evaluations under ceilings: they are killed and run again, or lose replies."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.evals.test_solver import claims
from tests.faults.debates import Ended, Sandbox, sandbox, words_of
from tests.faults.kills import LATENCY_MS, calls_of
from tests.faults.record import Fault, Result, first_failed

SIGNALS = (signal.SIGKILL, signal.SIGTERM)
MOST_SENT = {"max_calls": 1.0, "budget": 1.05, "max_cost": 1.05}
"""The largest allowed ratio of usage to the ceiling. Before a call, its tokens and USD are only estimated."""
CEILINGS = (*MOST_SENT,)
MILLION = 1_000_000
PRICE = {"input": 1, "output": 4}
"""USD per million tokens of the scripted model."""
RANGES = {"max_calls": (2, 20), "budget": (1500, 15_000), "max_cost": (4000 / MILLION, 25_000 / MILLION)}
"""For each ceiling of a debate, the range from which its value is drawn."""
EVALUATION_RANGES = {"max_calls": (2, 20), "budget": (1500, 7000), "max_cost": (3000 / MILLION, 14_000 / MILLION)}
"""For each ceiling of an evaluation, the range from which its value is drawn. No value is enough for all samples."""
NO_LIMIT = 500
"""A factor. No debate reaches its ceiling times this factor."""
LOST = "Calls whose replies were lost when the debate was stopped"
SAMPLES = 24
LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")
GATEWAY = '{"error": {"code": 502, "message": "Provider disconnected"}}'
BYTES_PER_TOKEN = 4
"""Bytes per token of the scripted endpoint."""


@dataclass(frozen=True)
class Kills:
    """A ceiling for a debate or an evaluation, and the kills during its runs.

    Args:
        ceiling: max_calls, budget or max_cost.
        most: the ceiling's value.
        after: for each kill, the number of requests between the command's start and the kill.
        signals: for each kill, its signal.
    """

    ceiling: str
    most: float
    after: Sequence[int]
    signals: Sequence[signal.Signals]


def draw_kills(draw: random.Random, ceiling: str, ranges: Mapping[str, tuple[float, float]] = RANGES) -> Kills:
    """Draw a ceiling's value, and one to three kills."""
    number = draw.randint(1, 3)
    after = [draw.randint(1, 6) for _ in range(number)]
    most = draw.uniform(*ranges[ceiling])
    return Kills(
        ceiling, round(most, 6) if ceiling == "max_cost" else int(most), after, draw.choices(SIGNALS, k=number)
    )


def end_after_kills(kills: Kills, words: Sequence[str], here: Sandbox) -> Ended:
    """Start and kill a command once for each kill, then run it to its end. Return earlier if it ends before a kill."""
    for after, by in zip(kills.after, kills.signals, strict=True):
        before, process = here.served(), here.start(*words)
        while process.poll() is None and here.served(before + after) < before + after:
            pass
        process.send_signal(by)
        if (ended := here.end(process)).code not in (-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM):
            return ended
    return here.run(*words)


@contextmanager
def priced_sandbox(folder: Path, rules: Sequence[dict[str, Any]] = ()) -> Iterator[Sandbox]:
    """A sandbox whose model has a price."""
    with sandbox(folder, rules, latency_ms=LATENCY_MS) as here:
        prices = here.folder / "prices.jsonl"
        prices.write_text(json.dumps({"model": "openai:stub", **PRICE}))
        here.environment["MOOT_PRICES"] = str(prices)
        yield here


def usage_at(here: Sandbox) -> dict[str, float]:
    """The number, tokens and USD of the chat calls that the endpoint received, by ceiling."""
    chats = [call for call in calls_of(here.stub) if call["kind"] == "chat"]
    prompts, replies = (
        sum(call[part] // BYTES_PER_TOKEN + 1 for call in chats) for part in ("prompt_chars", "reply_chars")
    )
    usd = (prompts * PRICE["input"] + replies * PRICE["output"]) / MILLION
    return {"max_calls": len(chats), "budget": prompts + replies, "max_cost": usd}


def excess_error(kills: Kills, here: Sandbox) -> str:
    """The error if the endpoint received more than `MOST_SENT` allows; otherwise an empty string."""
    sent = usage_at(here)[kills.ceiling]
    return f"{sent} of {kills.ceiling} {kills.most}: {kills}" if sent > MOST_SENT[kills.ceiling] * kills.most else ""


def debate_error(system: str, kills: Kills, folder: Path) -> str:
    """Kill a debate under a ceiling and run it again; return the first failed check, or an empty string.

    If the reply of the deciding call was lost, the debate is then run under a higher ceiling.
    """
    with priced_sandbox(folder) as here:
        ended = end_after_kills(kills, [*words_of(system, **{kills.ceiling: kills.most}), "--out", str(here.out)], here)
        if too_much := excess_error(kills, here):
            return too_much
        if ended.code == 3 and LOST in ended.errors:  # the deciding reply was lost
            ended = here.verify(system, **{kills.ceiling: NO_LIMIT * kills.most})
        answer = (ended.document or {}).get("answer")
        refused = ended.code == 2 and not here.served() and kills.ceiling in ended.errors
        return first_failed(
            ("Traceback" not in ended.errors, ended.errors),
            (refused or ended.code == 0, f"exit code {ended.code}, {system}, {kills}: {ended.errors}"),
            (refused or answer in LABELS, f"{ended.verdict}, {system}, {kills}"),
        )


def evaluation_error(kills: Kills, folder: Path) -> str:
    """Kill an evaluation under a ceiling and run it again; return the first failed check, or an empty string."""
    with priced_sandbox(folder) as here:
        data = claims(here.folder / "fever.jsonl", *["SUPPORTS"] * SAMPLES)
        words = ["eval", "run", "--graph", "standard_prompting", "--task", f"fever={data}", "--model", "openai:stub"]
        words += ["--logs", str(here.folder / "logs"), "--at-once", "4"]
        words += [f"--{kills.ceiling.replace('_', '-')}", str(kills.most)]
        ended = end_after_kills(kills, words, here)
        return excess_error(kills, here) or first_failed(
            ("Traceback" not in ended.errors, ended.errors),
            (ended.code == 3, f"exit code {ended.code}, though samples are missing, {kills}: {ended.errors}"),
        )


def kill_debates(folder: Path, quick: bool) -> Result:
    """Kill debates under ceilings, run them again, and check that the ceilings held."""
    times, draw, wrong = (4 if quick else 27), random.Random(23), ""
    for number in range(times):
        system = ("tool_mad", "proclaim", "madke")[number % 3]
        kills = draw_kills(draw, CEILINGS[(number + number // 3) % 3])
        wrong = wrong or debate_error(system, kills, folder / str(number))
    return Result(times, "the calls that the ceilings did not allow", wrong)


def kill_evaluations(folder: Path, quick: bool) -> Result:
    """Kill evaluations under ceilings, run them again, and check that the ceilings held."""
    times, draw, wrong = (3 if quick else 12), random.Random(24), ""
    for number in range(times):
        kills = draw_kills(draw, CEILINGS[number % 3], EVALUATION_RANGES)
        wrong = wrong or evaluation_error(kills, folder / str(number))
    return Result(times, "the samples that the ceilings did not allow", wrong)


def lost_replies_error(system: str, ceiling: str, most: float, rule: dict[str, Any], folder: Path) -> str:
    """Run a debate under a ceiling while replies are lost; return the first failed check, or an empty string."""
    with priced_sandbox(folder, [rule]) as here:
        ended = here.verify(system, timeout=1, attempts=9, **{ceiling: most})
        case = f"{system}, {ceiling} {most}, {rule}"
        refused = ended.code == 2 and not here.served() and ceiling in ended.errors
        undecided = ended.code == 3 and ended.error_kind == "budget_exhausted"
        return excess_error(Kills(ceiling, most, (), ()), here) or first_failed(
            ("Traceback" not in ended.errors, ended.errors),
            (refused or undecided or ended.code == 0, f"exit code {ended.code}, {case}: {ended.errors}"),
            (ended.code != 0 or (ended.document or {}).get("answer") in LABELS, f"{ended.verdict}, {case}"),
        )


def lose_replies(folder: Path, quick: bool) -> Result:
    """Run debates under ceilings with endpoints that lose one to six replies."""
    times, draw, wrong = 3 if quick else 18, random.Random(25), ""
    for number in range(times):
        system, ceiling = ("tool_mad", "proclaim", "madke")[number % 3], ("budget", "max_cost")[number % 2]
        most = draw.uniform(*RANGES[ceiling])
        fault: dict[str, Any] = draw.choice([{"drop": True}, {"delay_ms": 20_000}, {"raw": "{"}, {"raw": GATEWAY}])
        rule = {**fault, "times": draw.randint(1, 6)}
        most = round(most, 6) if ceiling == "max_cost" else int(most)
        wrong = wrong or lost_replies_error(system, ceiling, most, rule, folder / str(number))
    return Result(times, "the calls that the ceilings did not allow", wrong)


FAULTS = [
    Fault(
        "lost replies under ceilings",
        "the endpoint closes the connection, answers too late, or sends a cut body or a gateway's error with status "
        "200, one to six times, to debates with `budget` or `max_cost`",
        "all received requests, even if their replies were lost, stay within the ceiling (at most 5% more); "
        "each debate ends with a verdict, with an error before the first call, or with an error that says that the "
        "ceiling does not allow another call",
        lose_replies,
    ),
    Fault(
        "kills under ceilings",
        "debates with `max_calls`, `budget` or `max_cost` are killed up to three times, and the same command is run "
        "again",
        "the calls stay within the ceiling (tokens and USD: at most 5% more); each debate ends with a verdict, or with "
        "an error before the first call; if the deciding call was lost, the same command decides under a higher "
        "ceiling",
        kill_debates,
    ),
    Fault(
        "kills of moot eval run under ceilings",
        "evaluations with `--max-calls`, `--budget` or `--max-cost` are killed up to three times, and the same command "
        "is run again",
        "the calls stay within the ceiling (tokens and USD: at most 5% more); the exit code says that samples are "
        "missing",
        kill_evaluations,
    ),
]
