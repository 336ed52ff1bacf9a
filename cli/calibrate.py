"""``moot calibrate``: estimates how often a system's verdicts are right, from labelled runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from moot.cli.parameters import AsJson

if TYPE_CHECKING:
    from moot.evals._analyses.calibrating import FittedCalibration


def calibrate(
    logs: Annotated[
        list[Path], typer.Argument(help="Inspect's logs of one system with the same settings, or folders of such logs.")
    ],
    alpha: Annotated[
        float,
        typer.Option(min=0.001, max=0.5, help="Largest allowed share of claims on which a wrong verdict is acted on."),
    ] = 0.1,
    feature: Annotated[
        list[str] | None,
        typer.Option(
            help="What the confidence is computed from: confidence, votes, warrants, token_probability. Repeatable. "
            "One half of the debates is then used to weigh these features.",
            show_default="confidence, unchanged",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("calibration.json"),
    as_json: AsJson = False,
) -> None:
    """Estimate how often verdicts are right, and when to act on them, from labelled runs.

    The written file is for `moot verify --calibration`.
    """
    from dataclasses import asdict

    from moot.cli.output import write_document
    from moot.core.files import write_atomically, write_error
    from moot.evals._analyses.calibrating import fit_logs
    from moot.nodes._texts.calibrated import FEATURES, guarantee

    named = list(dict.fromkeys(feature or ["confidence"]))
    if unknown := [name for name in named if name not in FEATURES]:
        raise typer.BadParameter(
            f"there is no feature {unknown[0][:40]!r}. Known: {', '.join(FEATURES)}.", param_hint="--feature"
        )
    fitted = fit_logs(logs, alpha, [name for name in FEATURES if name in named])
    found = fitted.calibration
    try:
        write_atomically(out, found.model_dump_json(indent=1) + "\n")
    except OSError as error:
        raise write_error(out, error) from error
    figures = {key: value for key, value in asdict(fitted).items() if key != "calibration"}
    summary = {"file": str(out), "n": found.n, "alpha": alpha, "least_confidence": found.least_confidence}
    summary |= {name: getattr(found, name) for name in ("doubt_below", "features", "weights", "weighted_on")}
    summary |= figures
    write_document(summary | {"guarantee": guarantee(found.n, alpha)}, as_json=as_json, out=None)
    if not as_json:
        for line in calibration_lines(fitted, out):
            typer.echo(line)
    for note in fitted.notes:
        typer.echo(note, err=True)


def calibration_lines(fitted: FittedCalibration, out: Path) -> list[str]:
    """The lines that describe a calibration; ``out`` is its file."""
    from moot.nodes._texts.calibrated import guarantee

    found, bound = fitted.calibration, fitted.calibration.bound
    left = [f"{fitted.unfinished} unfinished", f"{fitted.repeated} further runs of an item"]
    left += [f"{fitted.attacked} under attack"]
    left_out = " and ".join(note for note in left if not note.startswith("0 "))
    acts = (
        f"Act on verdicts with a confidence of at least {found.least_confidence:.2f}: {fitted.acted:,} of the "
        f"{found.n:,} cases reach it, and {fitted.wrong:,} of these verdicts were wrong. Escalate verdicts with a "
        "lower confidence."
        if found.least_confidence is not None
        else f"No confidence is high enough to act on at alpha {found.alpha:g}: every verdict is escalated."
    )
    doubts = []
    if found.doubt_below is not None:
        doubts.append(
            f"Doubt verdicts to which a second opinion gives less than {found.doubt_below:.2f}: "
            f"--set second_opinion=true --set doubt_below={found.doubt_below:g}"
        )
    weighed = []
    if found.weights is not None:
        pairs = (f"{name} {weight:+.2f}" for name, weight in zip(found.features, found.weights, strict=True))
        weighed.append(
            f"The confidence is computed from {', '.join(found.features)}. Their weights ({', '.join(pairs)}) are from "
            f"{found.weighted_on:,} further debates."
        )
    return [
        f"Fitted on {found.n:,} cases of {bound.graph}, {bound.task['name']}, {bound.settings['model']}"
        + (f" (left out: {left_out})." if left_out else "."),
        *weighed,
        acts,
        *doubts,
        guarantee(found.n, found.alpha),
        f"Written to {out}. Use it with the same settings: moot verify ... --calibration {out}",
    ]
