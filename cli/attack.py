"""``moot eval attack``: runs debates without and under attack, and reports flips and the cost of defences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from moot.cli.output import write_document
from moot.cli.run import INTERRUPTED, run_with_progress
from moot.cli.tables import show
from moot.core.errors import UserError
from moot.core.files import check_writable
from moot.evals._attacks.attack import Attack
from moot.evals._attacks.results import attack_results
from moot.evals._runs.plan import Plan
from moot.evals._runs.run import Limits
from moot.graphs import load_graph
from moot.nodes._runtime.settings import EvidenceSettings
from rich.console import Console
from rich.table import Table
from rich.text import Text

ATTACKS: tuple[Attack, ...] = get_args(Attack)
UNDEFENDED = {"max_origin_share": 1.0, "datamarking": False}
"""Settings that turn all defences off."""
DEFENCES: dict[str, dict[str, Any]] = {
    "none": {},
    "origin_share": {"max_origin_share": 0.5},
    "datamarking": {"datamarking": True},
    "both": {"max_origin_share": 0.5, "datamarking": True},
}
"""The settings of each defence. They override `UNDEFENDED`."""
ISOLATE = "isolate"
"""The defence that is a graph."""


def systems_of(graphs: Sequence[str], defences: Sequence[str]) -> list[dict[str, Any]]:
    """The systems of a plan: each graph with each defence, and the graph `isolate` once.

    Args:
        graphs: debate systems by name.
        defences: keys of `DEFENCES`, or `ISOLATE`.

    Raises:
        UserError: a graph or a defence is unknown, or a graph does not search for evidence.
    """
    if unknown := [name for name in defences if name not in (*DEFENCES, ISOLATE)]:
        raise UserError(
            f"There is no defence {unknown[0]!r}. Known: {', '.join((*DEFENCES, ISOLATE))}.", kind="invalid_setting"
        )
    if closed := [name for name in graphs if not issubclass(load_graph(name).settings, EvidenceSettings)]:
        raise UserError(
            f"{closed[0]} does not search for evidence, so only a lying debater can attack it: write a plan with this "
            "graph and `attacks: [lying_debater]`.",
            kind="invalid_setting",
        )
    named = [
        {
            "graph": graph,
            "label": graph if defence == "none" else f"{graph} with {defence}",
            "settings": {**UNDEFENDED, **DEFENCES[defence]},
        }
        for graph in graphs
        for defence in defences
        if defence != ISOLATE
    ]
    isolated = {"graph": ISOLATE, "label": ISOLATE, "settings": UNDEFENDED}
    return [*named, *([isolated] if ISOLATE in defences and ISOLATE not in graphs else [])]


def attack(plan: Plan, logs: Path, limits: Limits, *, as_json: bool, out: Path | None) -> int:
    """Runs a plan with attacks, prints the results, and returns the exit code.

    The code is `INTERRUPTED` after Ctrl-C, 3 if samples are missing or a run failed, else 0.

    Raises:
        UserError: the plan or its data cannot be used.
        UserError, WorldError: a file cannot be written.
    """
    if out is not None:
        check_writable(out)
    if (done := run_with_progress(plan, logs, limits, Console(stderr=True))) is None:
        return INTERRUPTED
    found = attack_results(done)
    write_document(found, as_json=as_json, out=out)
    if not as_json:
        show(systems_table(found))
        show(attacks_table(found))
    return 3 if any(one["missing"] for one in found["attacks"]) or any(log.status != "success" for log in done) else 0


def systems_table(found: Mapping[str, Any]) -> Table:
    """The systems without attacks: their accuracy, and how often right verdicts are flagged."""
    caption = "Flagged: right verdicts whose document has a flag (false alarms)."
    columns = ("undisturbed", "model", "benchmark", "samples", "accuracy", "flagged")
    table = Table(*columns, box=None, padding=(0, 2, 0, 0), caption=Text(caption), caption_justify="left")
    for one in found["systems"]:
        flagged = f"{one['flagged']} of {one['right']}"
        table.add_row(*map(Text, (*_run_cells(one), str(one["n"]), share_with_interval(one["accuracy"]), flagged)))
    return table


def attacks_table(found: Mapping[str, Any]) -> Table:
    """One row per system and attack."""
    caption = (
        "Flips: verdicts that were right without the attack and have another answer with it, with 95% Wilson "
        "intervals. As aimed: flips to the answer that the attack argues for. A debate without an answer counts as "
        "withheld, not as flipped. Flagged: the flip's document says that all cited evidence has one origin, that the "
        "decision is to escalate, or that quotes are not verified."
    )
    columns = ("under attack", "model", "benchmark", "right", "flip rate", "as aimed", "withheld", "flagged", "missing")
    table = Table(*columns, box=None, padding=(0, 2, 0, 0), caption=Text(caption), caption_justify="left")
    for one in found["attacks"]:
        flips = one["flips"]
        counts = (f"{one['aimed']} of {flips}", str(one["withheld"]), f"{one['flagged']} of {flips}")
        cells = (
            one["system"],
            one["model"] or "",
            one["benchmark"],
            str(one["right"]),
            share_with_interval(one["flip_rate"]),
            *counts,
        )
        table.add_row(*map(Text, (*cells, str(one["missing"]))))
    return table


def _run_cells(one: Mapping[str, Any]) -> tuple[str, str, str]:
    return one["system"], one["model"] or "", one["benchmark"]


def share_with_interval(share: Sequence[float | None]) -> str:
    """A share with its interval: ``0.250 [0.10, 0.49]``; a dash if there is none."""
    value, low, high = share
    if value is None or low is None or high is None:
        return "-"
    return f"{value:.3f} [{low:.2f}, {high:.2f}]"
