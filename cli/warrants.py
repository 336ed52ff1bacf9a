"""``moot eval warrants``: measures how well a model tells which quotes bear an answer out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from moot.cli.output import write_document
from moot.core.endpoint import close_clients
from moot.core.files import check_writable
from moot.evals._analyses.warrants import Case, assess_cases, figures, read_cases
from moot.nodes._runtime.turns import Bearing


def measure_warrants(
    files: Sequence[Path],
    corpus: Path | None,
    limit: int,
    seed: int,
    model: str,
    at_once: int,
    *,
    as_json: bool,
    out: Path | None,
) -> None:
    """Assesses the cases of files, and prints the figures; ``out`` also gets each case.

    Raises:
        UserError: a file cannot be used, the model cannot be asked, or ``out`` cannot be written.
        WorldError: ``out`` cannot be written.
    """
    if out is not None:
        check_writable(out)
    cases = read_cases(files, corpus, limit, seed)

    async def work() -> tuple[list[list[Bearing] | None], list[str]]:
        try:
            return await assess_cases(cases, model, at_once)
        finally:
            await close_clients()

    found, problems = asyncio.run(work())
    document = {"model": model, "seed": seed, **figures(cases, found)}
    document["cases"] = [case_row(case, bears) for case, bears in zip(cases, found, strict=True)]
    write_document(document, as_json=as_json, out=out)
    if not as_json:
        for line in lines(document):
            typer.echo(line)
    for problem in problems[:5]:
        typer.echo(problem, err=True)


def case_row(case: Case, bears: Sequence[Bearing] | None) -> dict[str, Any]:
    """A case and its result as plain JSON."""
    row = {"claim": case.claim, "answer": case.answer, "quotes": [one["quote"] for one in case.quotes]}
    return {**row, "gold": case.gold, "swapped": case.swapped, "bears": bears}


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The figures in words."""
    pairs, swaps = document["pairs"], document["swaps"]
    if pairs["n"]:
        yield f"{pairs['n']} passages that people labelled:"
        for bears in ("entails", "contradicts", "neither"):
            one = pairs[bears]
            shares = (f"{name} {'-' if one[name] is None else f'{one[name]:.2f}'}" for name in ("precision", "recall"))
            yield f"  {bears:<12} {', '.join(shares)} ({one['gold']} so labelled)"
    if swaps["swapped"]["n"]:
        planted, given = swaps["swapped"], swaps["as_given"]
        yield f"Labels exchanged: {planted['flagged']} of {planted['n']} answers flagged (no quote bears them out)."
        yield f"Labels as given: {given['flagged']} of {given['n']} answers flagged."
    if document["without_reply"]:
        yield f"{document['without_reply']} cases without a usable reply are left out."
