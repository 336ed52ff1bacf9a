"""``moot eval attack``: runs debates with and without attacks, and reports flipped verdicts and false alarms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from moot.cli.eval_run import INTERRUPTED, run_with_progress
from moot.cli.output import write_document
from moot.cli.tables import show
from moot.core.errors import UserError
from moot.core.files import check_writable
from moot.evals._attacks.attack import Attack
from moot.evals._attacks.results import attack_results
from moot.evals._runs.plan import Plan
from moot.evals._runs.run_plan import Limits
from moot.graphs import load_graph
from moot.nodes._runtime.settings import EvidenceSettings, Preset
from rich.console import Console
from rich.table import Table
from rich.text import Text

ATTACKS: tuple[Attack, ...] = get_args(Attack)
UNDEFENDED = {"max_origin_share": 1.0, "datamarking": False}
"""The settings of a system without a defence."""
DEFENCES: dict[str, dict[str, Any]] = {
    "none": {},
    "origin_share": {"max_origin_share": 0.5},
    "datamarking": {"datamarking": True},
    "both": {"max_origin_share": 0.5, "datamarking": True},
}
"""The settings of each defence by its name. They override `UNDEFENDED`."""
NEEDS = "A lying debater needs a debate in rounds, each other attack a search."
ISOLATE = "isolate"
"""The name of the defence that is a debate system of its own."""


def systems_of(graphs: Sequence[str], defences: Sequence[str], presets: Sequence[str]) -> list[dict[str, Any]]:
    """The systems of a plan: each graph with each defence, under each preset.

    The defence `ISOLATE` is not combined with graphs: it adds one system, if the plan does not have that system yet.

    Args:
        graphs: debate systems by name.
        defences: keys of `DEFENCES`, or `ISOLATE`.
        presets: values of the setting ``preset``. Labels name all but ``paper``.

    Raises:
        UserError: a graph, a defence or a preset is unknown, or a graph does not search for evidence.
    """
    if unknown := [name for name in defences if name not in (*DEFENCES, ISOLATE)]:
        raise UserError(
            f"There is no defence {unknown[0]!r}. Known: {', '.join((*DEFENCES, ISOLATE))}.", kind="invalid_setting"
        )
    if unknown := [name for name in presets if name not in get_args(Preset)]:
        raise UserError(
            f"There is no preset {unknown[0]!r}. Known: {', '.join(get_args(Preset))}.", kind="invalid_setting"
        )
    if without_search := [name for name in graphs if not issubclass(load_graph(name).settings, EvidenceSettings)]:
        raise UserError(
            f"{without_search[0]} does not search for evidence, so only a lying debater can attack it: write a plan "
            "with this graph and `attacks: [lying_debater]`.",
            kind="invalid_setting",
        )
    named = [
        {
            "graph": graph,
            "label": _label(graph, preset) + ("" if defence == "none" else f" with {defence}"),
            "settings": {"preset": preset, **UNDEFENDED, **DEFENCES[defence]},
        }
        for preset in presets
        for graph in graphs
        for defence in defences
        if defence != ISOLATE
    ]
    known = [system["label"] for system in named]
    isolated = [
        {"graph": ISOLATE, "label": _label(ISOLATE, preset), "settings": {"preset": preset, **UNDEFENDED}}
        for preset in presets
        if ISOLATE in defences and _label(ISOLATE, preset) not in known
    ]
    return [*named, *isolated]


def _label(graph: str, preset: str) -> str:
    return graph if preset == "paper" else f"{graph} ({preset})"


def attack(plan: Plan, logs: Path, limits: Limits, *, as_json: bool, out: Path | None) -> int:
    """Runs a plan with attacks, prints the results, and returns the exit code.

    The code is `INTERRUPTED` after an interruption, 3 if an attack has ``missing`` samples (`attack_results`) or a run
    failed, else 0.

    Args:
        plan: the plan.
        logs: the folder of logs.
        limits: the limits of the run.
        as_json: whether to print the results as a JSON document instead of tables.
        out: a file for the JSON document; None for no file.

    Raises:
        UserError: the plan or its data cannot be used, or a log cannot be read.
        UserError, WorldError: a file cannot be written.
    """
    if out is not None:
        check_writable(out)
    console = Console(stderr=True)
    if (done := run_with_progress(plan, logs, limits, console)) is None:
        return INTERRUPTED
    found = attack_results(done)
    if left_out := attacks_left_out(found, plan.attacks):
        console.print(f"Attacks that do not apply, and were not run: {left_out}. {NEEDS}", markup=False)
    write_document(found, as_json=as_json, out=out)
    if not as_json:
        show(systems_table(found))
        show(attacks_table(found))
    return 3 if any(one["missing"] for one in found["attacks"]) or any(log.status != "success" for log in done) else 0


def attacks_left_out(found: Mapping[str, Any], attacks: Sequence[Attack]) -> str:
    """The attacks that do not apply to a system, by system; empty if all apply."""
    run = {(one["of"], one["attack"]) for one in found["attacks"]}
    systems = dict.fromkeys(one["system"] for one in found["systems"])
    left = {system: [attack for attack in attacks if (system, attack) not in run] for system in systems}
    return "; ".join(f"{', '.join(names)} on {system}" for system, names in left.items() if names)


def systems_table(found: Mapping[str, Any]) -> Table:
    """One row per run without an attack: its accuracy, and how many right verdicts are flagged."""
    caption = "Flagged: right verdicts whose document has a flag (false alarms)."
    columns = ("without attack", "model", "benchmark", "samples", "accuracy", "flagged")
    table = Table(*columns, box=None, padding=(0, 2, 0, 0), caption=Text(caption), caption_justify="left")
    for one in found["systems"]:
        flagged = f"{one['flagged']} of {one['right']}"
        table.add_row(*map(Text, (*_names_of_run(one), str(one["n"]), share_with_interval(one["accuracy"]), flagged)))
    return table


def attacks_table(found: Mapping[str, Any]) -> Table:
    """One row per run under attack: its flips, withheld verdicts, flagged flips and missing samples."""
    caption = (
        "Right samples: the verdict is right without the attack, and the debate under attack has ended. Flips: right "
        "samples with a wrong answer under attack. Flip rate: flips as a share of the right samples, with a 95% Wilson "
        "interval. As aimed: flips to the answer that the attack argues for. Withheld: right samples without an answer "
        "under attack; they are not flips. Flagged: flips whose document says that all cited evidence has one origin, "
        "that the decision is to escalate, that quotes are missing or not verified, that no quote bears the verdict "
        "out or that this is not known (assess), or that a second opinion doubts it. Missing: samples whose verdict is "
        "right without the attack, but whose debate under attack failed or did not run."
    )
    columns = ("under attack", "model", "benchmark", "right", "flip rate", "as aimed", "withheld", "flagged", "missing")
    table = Table(*columns, box=None, padding=(0, 2, 0, 0), caption=Text(caption), caption_justify="left")
    for one in found["attacks"]:
        flips = one["flips"]
        counts = (f"{one['aimed']} of {flips}", str(one["withheld"]), f"{one['flagged']} of {flips}")
        cells = (*_names_of_run(one), str(one["right"]), share_with_interval(one["flip_rate"]), *counts)
        table.add_row(*map(Text, (*cells, str(one["missing"]))))
    return table


def _names_of_run(one: Mapping[str, Any]) -> tuple[str, str, str]:
    return one["system"], one["model"] or "", one["benchmark"]


def share_with_interval(share: Sequence[float | None]) -> str:
    """The text of a share with its interval, such as ``0.250 [0.10, 0.49]``; a dash if one of the numbers is None.

    Args:
        share: three numbers from 0 to 1: the share, and the lower and the upper end of its interval.
    """
    value, low, high = share
    if value is None or low is None or high is None:
        return "-"
    return f"{value:.3f} [{low:.2f}, {high:.2f}]"
