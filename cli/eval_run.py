"""``moot eval run``: runs a plan with a progress bar, and prints the scores of each run."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

from inspect_ai.log import EvalLog, EvalSample, read_eval_log_sample_summaries
from moot.cli.options import parse_pairs
from moot.cli.output import write_document
from moot.cli.tables import show
from moot.core.errors import UserError
from moot.core.words import count_with_noun
from moot.evals._report.ceilings import Shown, what_logs_show
from moot.evals._runs.plan import Plan, make_plan, read_plan
from moot.evals._runs.reference import moot_metadata
from moot.evals._runs.run_plan import Limits, run_plan
from moot.evals._runs.shards import Shard
from moot.evals._runs.solver import document_in
from moot.evals._stats.outcomes import is_model_fault
from moot.evals._stats.sample_size import POWER
from moot.graphs import load_graph
from moot.nodes._models.prices import paid_calls
from moot.nodes._models.step_record import tokens_of
from moot.transcript.line import format_duration
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

INTERRUPTED = 130
"""The exit code after Ctrl-C."""
MOST_FAULTS = 5
"""Maximum number of kinds of failures that are printed. The most frequent kind is printed in full."""
LONGEST_FAULT = 300
"""Maximum number of printed characters of a failure of any other kind."""
AMOUNT = re.compile(r"\d[\d,.]*(?= (?:tokens|USD|calls|seconds)\b)")
"""An amount that may differ between failures of one kind."""
STEPS = 10
"""Approximate number of progress lines that are printed if there is no terminal for a bar."""


def plan_of(
    file: Path | None,
    graphs: Sequence[str | dict[str, Any]],
    tasks: Sequence[str],
    settings: dict[str, Any],
    **others: Any,
) -> Plan:
    """The plan that the command line gives: a file, options, or a file and options that override its fields.

    Args:
        file: a plan in YAML.
        graphs: debate systems: names, or fields of `System`.
        tasks: benchmarks, each as ``NAME=PATH``, or ``NAME`` for the Hub.
        settings: settings for every system that has them.
        others: further fields of `Plan`. None, False and empty values count as not given.

    Raises:
        UserError: there is no plan, its file cannot be read, or the plan is not valid.
    """
    named = [task.partition("=") for task in tasks]
    if without_path := next((name for name, equals, data in named if equals and not data), None):
        raise UserError(f"--task {without_path}= names no file or folder.", kind="invalid_setting")
    given: dict[str, Any] = {
        "graphs": list(graphs),
        "tasks": [{"name": name, "data": data or None} for name, _, data in named],
        "settings": settings,
        **{key: list(value) if isinstance(value, tuple) else value for key, value in others.items()},
    }
    given = {key: value for key, value in given.items() if value or type(value) is int}  # a seed may be 0
    if file is not None:
        return read_plan(file, given)
    if not given.get("graphs") or not given.get("tasks"):
        raise UserError(
            "Name a plan in YAML, or at least one --graph and one --task NAME=PATH. Benchmarks: moot eval tasks.",
            kind="invalid_setting",
        )
    return make_plan(given)


def settings_of(pairs: Sequence[str], corpus: str | None, graphs: Sequence[str]) -> dict[str, Any]:
    """The settings for every system: a corpus, overridden by ``KEY=VALUE`` pairs.

    Args:
        pairs: the pairs. ``KEY.N`` changes element N of KEY's default, which the graphs must share.
        corpus: the corpus that every system searches; None if none is named.
        graphs: the graphs that the command line names.

    Raises:
        UserError: the same as for `parse_pairs`. Or the graphs have different defaults for the KEY of a ``KEY.N``, or
            a graph cannot be loaded.
    """
    lists: dict[str, Any] = {}
    paths = [pair.partition("=")[0].strip().split(".") for pair in pairs]
    indexed = {path[0] for path in paths if len(path) > 1 and path[1].isdecimal()}
    for graph in graphs if indexed else ():
        for key, value in load_graph(graph).settings().model_dump(mode="json").items():
            if key in indexed and lists.setdefault(key, value) != value:
                raise UserError(
                    f"--set {key}.N changes an element of a setting whose default differs between these graphs: run "
                    "each graph by itself, or write a plan in YAML, in which each system has its own settings.",
                    kind="invalid_setting",
                )
    return parse_pairs(pairs, lists if corpus is None else {**lists, "corpus": corpus})


def evaluate(plan: Plan, logs: Path, limits: Limits, shard: Shard | None = None, *, as_json: bool) -> int:
    """Runs a plan, prints its results, and returns the exit code.

    The code is `INTERRUPTED` after Ctrl-C, 3 if samples are missing or a run failed, else 0.

    Raises:
        UserError, WorldError: the same as for `run_plan`.
    """
    console = Console(stderr=True)
    if (done := run_with_progress(plan, logs, limits, console, shard)) is None:
        return INTERRUPTED
    records = [record_of(log) for log in done]
    write_document({"logs": records}, as_json=as_json, out=None)
    if not as_json:
        show(outcomes_table(records, logs))
        is_cut = limits.has_ceiling and any(record["missing"] for record in records)
        if is_cut and (pairs := list(what_logs_show(logs / shard.folder if shard else logs))):
            show(shown_table(pairs))
    return 3 if any(record["missing"] or record["status"] != "success" for record in records) else 0


def shown_table(found: Sequence[Shown]) -> Table:
    """The table of what the items that a ceiling left can show, and what they cannot."""
    caption = (
        f"What the finished items can find: the smallest difference that the paired test finds with a power of "
        f"{POWER:.0%}, corrected for all pairs (Holm). Smaller differences cannot be found, nor can any if it is none. "
        "The same command with a higher ceiling continues; --limit gives all systems the same items."
    )
    table = Table(box=None, padding=(0, 2, 0, 0), caption=Text(caption), caption_justify="left")
    for name in ("benchmark", "system", "against", "items", "of", "detectable"):
        table.add_column(name, justify="right" if name in ("items", "of", "detectable") else "left")
    for one in found:
        detectable = "none" if one.detectable is None else f"{one.detectable:.3f}"
        table.add_row(*map(Text, (one.study, one.system, one.against, f"{one.items:,}", f"{one.of:,}", detectable)))
    return table


def run_with_progress(
    plan: Plan, logs: Path, limits: Limits, console: Console, shard: Shard | None = None
) -> list[EvalLog] | None:
    """Runs a plan with a progress bar, and returns its logs; None after Ctrl-C.

    Raises:
        UserError, WorldError: the same as for `run_plan`.
    """
    try:
        with ProgressBar(console) as progress:
            return run_plan(plan, logs, limits, progress.begin, progress.print_note, shard)
    except KeyboardInterrupt:
        console.print("Interrupted. The same command continues where it stopped.")
        return None


class ProgressBar:
    """A progress bar of samples with an estimate of the remaining time and tokens.

    Without a terminal, it prints some lines instead. At the end, it prints the failures.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        self.bars = Progress(*columns, console=console, disable=not console.is_terminal)
        self.ended = self.tokens = self.total = self.unusable = 0
        self.faults: Counter[str] = Counter()
        self.full_texts: dict[str, str] = {}
        self.started = time.monotonic()

    def __enter__(self) -> ProgressBar:
        self.bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.bars.stop()
        if kind is KeyboardInterrupt:
            return  # because samples that were interrupted look like failed samples
        for index, (fault, times) in enumerate(self.faults.most_common(MOST_FAULTS)):
            text = first_words(self.full_texts[fault]) if index else self.full_texts[fault]
            self.console.print(f"{count_with_noun(times, 'sample')} failed: {text}", markup=False, highlight=False)
        if self.unusable:
            unusable = count_with_noun(self.unusable, "sample")
            self.console.print(f"{unusable} ended with replies that cannot be used (scored as wrong).", highlight=False)

    def print_note(self, note: str) -> None:
        """Prints a message of `run_plan`."""
        self.console.print(note, markup=False, highlight=False)

    def begin(self, total: int, done: int) -> Any:
        """Starts the bar and returns `count_sample`.

        Args:
            total: the number of all samples.
            done: the number of samples that are already in logs.
        """
        self.total = total - done
        if done:
            self.console.print(
                f"{done} of {total} samples are in the logs{': continuing with the others' * (done < total)}.",
                highlight=False,
            )
        self.bar = self.bars.add_task("", total=self.total)
        return self.count_sample

    def count_sample(self, sample: EvalSample) -> None:
        """Counts a sample that has ended, and updates the bar."""
        if sample.error:
            text = failure_of(sample)
            self.faults[kind := failure_key(text)] += 1
            self.full_texts.setdefault(kind, text)
        document = document_in(sample) or {}
        self.unusable += not sample.error and is_model_fault(document)
        self.tokens += tokens_of(paid_calls(document.get("calls") or []))
        self.ended += 1
        self.bars.update(self.bar, completed=self.ended, description=self.estimate())
        each = max(1, self.total // STEPS)
        if self.bars.disable and self.ended % each == 0:
            self.console.print(f"{self.ended}/{self.total} samples; {self.estimate()}", highlight=False)

    def estimate(self) -> str:
        """An estimate of the remaining time and tokens, and the number of failures; needs at least one ended sample."""
        left = max(self.total - self.ended, 0)
        seconds = (time.monotonic() - self.started) / self.ended * left
        failed = f"; {self.faults.total()} failed" if self.faults else ""
        tokens = self.tokens / self.ended * left
        return (f"about {format_duration(seconds)} and {tokens:,.0f} tokens to go" if left else "none to go") + failed


def failure_of(sample: EvalSample) -> str:
    """Why a sample failed, on one line: its document's error, else Inspect's error; empty if there is none."""
    error = (document_in(sample) or {}).get("error") or {}
    message = error.get("detail") or (sample.error.message if sample.error else "")
    return " ".join(str(message).split())


def failure_key(fault: str) -> str:
    """A key for failures of one kind: their first words, with amounts replaced."""
    return first_words(AMOUNT.sub("N", fault))


def first_words(fault: str) -> str:
    """A failure's text, cut after a word if it is longer than `LONGEST_FAULT` characters."""
    return shorten(fault, LONGEST_FAULT, placeholder=" ...")


def record_of(log: EvalLog) -> dict[str, Any]:
    """The results of one run of the plan as plain data.

    ``samples`` counts all samples. ``missing`` counts the samples that failed, exceeded a limit or did not run.
    ``scores`` maps the name of each score to Inspect's mean; a mean that is NaN becomes None.
    """
    facts, results = moot_metadata(log), log.results
    total = results.total_samples if results else log.eval.dataset.samples or 0
    summaries = read_eval_log_sample_summaries(log.location)
    figures = {score.name: score.metrics["mean"].value for score in (results.scores if results else [])}
    return {
        **{key: facts[key] for key in ("system", "benchmark", "model", "seed", "notes")},
        "status": log.status,
        "samples": total,
        "missing": total - sum(not (sample.error or sample.limit) for sample in summaries),
        "scores": {name: None if value != value else value for name, value in figures.items()},
        **({"best_possible": facts["ceiling"]} if "ceiling" in facts else {}),
        "log": log.location.removeprefix("file://"),
    }


def outcomes_table(records: Sequence[dict[str, Any]], logs: Path) -> Table:
    """A table with one row per run of the plan.

    Args:
        records: the runs, as `record_of` returns them.
        logs: the folder of the logs, for the caption.
    """
    caption = (
        "Missing samples failed, exceeded --time-limit or did not run; they count in no score. The same command tries "
        "them again, except for samples over --time-limit. For intervals, tests, costs and pictures: moot eval "
        f"compare {logs} --out report"
    )
    columns = ("system", "benchmark", "model", "seed", "samples", "missing", "scores")
    table = Table(*columns, box=None, padding=(0, 2, 0, 0), caption=Text(caption), caption_justify="left")
    for record in records:
        scores = ", ".join(
            f"{name.replace('_', ' ')} {value:.3f}" for name, value in record["scores"].items() if value is not None
        )
        scores += f" (best possible accuracy {best:.3f})" if (best := record.get("best_possible")) else ""
        seed = "" if record["seed"] is None else str(record["seed"])
        run = (record["system"], record["benchmark"], record["model"] or "", seed)
        table.add_row(*map(Text, (*run, str(record["samples"]), str(record["missing"]), scores or record["status"])))
    return table
