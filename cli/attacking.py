"""The options of ``moot eval attack``. What it does is imported when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from moot.cli.completing import completing


def eval_attack(
    plan: Annotated[
        Path | None, typer.Argument(help="A plan in YAML with `attacks`; its systems are taken as they are.")
    ] = None,
    graph: Annotated[
        list[str] | None,
        typer.Option(help="A debate system. Repeatable.  [default: tool_mad]", autocompletion=completing("graphs")),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="A benchmark and its file; your own: claims=FILE. Repeatable."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="Model of all roles, as provider:name. Repeatable.", autocompletion=completing("models")),
    ] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            help="injection, poison_one_host, poison_many_hosts, adaptive or lying_debater. Repeatable.  [default: all]"
        ),
    ] = None,
    defence: Annotated[
        list[str] | None,
        typer.Option(
            help="none, origin_share, datamarking, both (of these two), or isolate, which is a graph of its own. "
            "Repeatable.  [default: none, both, isolate]"
        ),
    ] = None,
    pieces: Annotated[int | None, typer.Option(min=1, max=5, help="Poisoned passages.", show_default="3")] = None,
    kept_back: Annotated[
        bool, typer.Option("--kept-back", help="Use the templates and passages that are kept back for a check.")
    ] = False,
    attacker: Annotated[
        str | None, typer.Option(help="The model that writes adaptive passages.", show_default="that of the debate")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of every system that has it. Repeatable."),
    ] = None,
    corpus: Annotated[str | None, typer.Option(help="The corpus that every system reads; see `moot index`.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="How many items of each benchmark at most.")] = None,
    sample_seed: Annotated[
        int | None, typer.Option(help="Draws the items at random.", show_default="the first ones")
    ] = None,
    logs: Annotated[Path, typer.Option(help="The folder of Inspect's logs.")] = Path("logs"),
    at_once: Annotated[int, typer.Option(min=1, max=1000, help="Samples in flight.")] = 16,
    budget: Annotated[int | None, typer.Option(min=1, help="Most tokens of all debates together.")] = None,
    max_cost: Annotated[float | None, typer.Option(min=0, help="Most USD of all debates together.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON document and nothing else.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the JSON document to this file.")] = None,
) -> None:
    """Attack debate systems: how often verdicts flip, how many flips are flagged, what defences cost.

    Every debate is held undisturbed first. Interrupted or killed, the same command goes on where it was.
    """
    from moot.cli.attack import ATTACKS, ISOLATE, systems_of
    from moot.cli.attack import attack as run_attacks
    from moot.cli.run import plan_of, settings_of
    from moot.evals.runs.run import Limits

    graphs = graph or ["tool_mad"]
    systems = systems_of(graphs, defence or ["none", "both", ISOLATE]) if plan is None or graph or defence else []
    given: dict[str, Any] = {"models": tuple(model or ()), "limit": limit, "sample_seed": sample_seed, "pieces": pieces}
    given |= {"attacks": tuple(attack or (() if plan else ATTACKS)), "kept_back": kept_back, "attacker": attacker}
    wanted = plan_of(plan, systems, task or [], settings_of(settings or [], corpus, graph or []), **given)
    limits = Limits(at_once, budget=budget, max_cost=max_cost)
    raise SystemExit(run_attacks(wanted, logs, limits, as_json=as_json, out=out))
