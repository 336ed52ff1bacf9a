"""The options of ``moot eval attack``. The implementation is imported when the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from moot.cli.completing import completion_for
from moot.cli.parameters import AsJson, CorpusOfAll, Logs, MostItems, SamplesAtOnce, SampleSeed, SettingsOfAll


def eval_attack(
    plan: Annotated[
        Path | None,
        typer.Argument(
            help="A plan in YAML with `attacks`. Options override its fields; --graph, --defence or "
            "--preset replaces its systems."
        ),
    ] = None,
    graph: Annotated[
        list[str] | None,
        typer.Option(help="A debate system. Repeatable.  [default: tool_mad]", autocompletion=completion_for("graphs")),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="A benchmark and its file; your own: claims=FILE. Repeatable."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="Model of all roles, as provider:name. Repeatable.", autocompletion=completion_for("models")),
    ] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            help="injection, poison_one_host, poison_many_hosts, adaptive or lying_debater. Repeatable.  [default: the "
            "plan's attacks; all attacks if there is no plan]"
        ),
    ] = None,
    defence: Annotated[
        list[str] | None,
        typer.Option(
            help="none, origin_share, datamarking, both (origin_share and datamarking), or isolate (a debate system). "
            "Repeatable.  [default: none, both, isolate]"
        ),
    ] = None,
    preset: Annotated[
        list[str] | None,
        typer.Option(help="The defaults of the systems' settings: paper or practical. Repeatable.  [default: paper]"),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(help="A source whose results are attacked, such as web. Repeatable.  [default: all sources]"),
    ] = None,
    pieces: Annotated[
        int | None, typer.Option(min=1, max=5, help="Number of poisoned passages in each search.", show_default="3")
    ] = None,
    kept_back: Annotated[bool, typer.Option("--kept-back", help="Use the held-out templates and passages.")] = False,
    attacker: Annotated[
        str | None, typer.Option(help="The model that writes adaptive passages.", show_default="the debate's model")
    ] = None,
    settings: SettingsOfAll = None,
    corpus: CorpusOfAll = None,
    limit: MostItems = None,
    sample_seed: SampleSeed = None,
    logs: Logs = Path("logs"),
    at_once: SamplesAtOnce = 16,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Maximum tokens for all debates, including earlier runs.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(min=0, help="Maximum USD for all debates, including earlier runs.")
    ] = None,
    max_calls: Annotated[
        int | None, typer.Option(min=1, help="Maximum model calls for all debates, including earlier runs.")
    ] = None,
    max_seconds: Annotated[float | None, typer.Option(min=0, help="Maximum duration of this run, in seconds.")] = None,
    as_json: AsJson = False,
    out: Annotated[Path | None, typer.Option(help="Write the JSON document to this file.")] = None,
) -> None:
    """Attack debate systems. Measure flipped verdicts and flagged flips, and accuracy and false alarms without attacks.

    Every debate also runs without an attack. After an interruption, run the same command again to continue.
    """
    from moot.cli.attack import ATTACKS, ISOLATE, systems_of
    from moot.cli.attack import attack as run_attacks
    from moot.cli.eval_run import plan_of, settings_of
    from moot.evals._runs.run_plan import Limits

    graphs = graph or ["tool_mad"]
    named = plan is None or graph or defence or preset
    systems = systems_of(graphs, defence or ["none", "both", ISOLATE], preset or ["paper"]) if named else []
    given: dict[str, Any] = {"models": tuple(model or ()), "limit": limit, "sample_seed": sample_seed, "pieces": pieces}
    given |= {"attacks": tuple(attack or (() if plan else ATTACKS)), "kept_back": kept_back, "attacker": attacker}
    given["attacked_sources"] = tuple(source or ())
    wanted = plan_of(plan, systems, task or [], settings_of(settings or [], corpus, graph or []), **given)
    limits = Limits(at_once, budget=budget, max_cost=max_cost, max_calls=max_calls, max_seconds=max_seconds)
    raise SystemExit(run_attacks(wanted, logs, limits, as_json=as_json, out=out))
