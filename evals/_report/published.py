"""A table of the papers' figures for systems, benchmarks and models that a report covers, next to the report's own.

A figure stands beside a system only if the system used the paper's models (`same_models`), whatever their provider.

The figures are printed in the papers' tables; ``published.jsonl`` names each table. A figure is in the file only if its
paper states the measure and the kind of items, and both are as in the benchmark here. So these figures are left out:

- CortexDebate's figures on GPQA, LongBench and SQuAD,
- all figures on MedQA, because the papers do not state the number of options,
- PROClaim's figures on FEVEROUS, because they are for two labels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from moot.evals._report.comparison import Study, System
from moot.evals._report.scores import SYSTEM, TITLES
from moot.evals._report.tables import Cell, Table, columns, make_table
from moot.evals._stats.estimates import estimate
from moot.evals._stats.significance import Interval, wilson

MODEL_SETS = {
    "five models of 7 to 9 billion parameters": (
        *("Qwen2.5-7B", "Mistral-7B", "llama-3-typhoon-v1.5-8b", "Llama-3.1-8B", "gemma-2-9b"),
    ),
    "a model for each role (its table 2)": (
        *("gpt-5-mini", "DeepSeek-V3.2", "DeepSeek-R1", "Qwen3-235B-A22B", "Hermes-3-Llama-3.1-405B"),
    ),
}
"""The models of papers that use several, by the words for them in ``published.jsonl``."""
ENDING = re.compile(r"(-(instruct(-turbo|-v[\d.]+)?|chat|it))?(-\d{4}-\d{2}-\d{2}|-\d{4})?$")
"""The endings of models' names that papers leave out: the kind of tuning, and a date."""


class PublishedFigure(NamedTuple):
    """A figure of a paper."""

    source: str
    """The paper."""
    where: str
    """The table in the paper."""
    benchmark: str
    """The name of the benchmark in the catalogue."""
    graph: str
    """The graph that is moot's version of the paper's system."""
    model: str
    """The paper's name of the model."""
    measure: str
    """"first" for the benchmark's first measure, else the key of a measure."""
    value: float
    """The figure, in [0, 1]."""
    n: int
    """The number of items that the figure is over."""
    low: float | None = None
    """The lower end of the interval; None if no interval is printed."""
    high: float | None = None
    """The upper end of the interval; None if no interval is printed."""


@lru_cache(maxsize=1)
def published_figures() -> tuple[PublishedFigure, ...]:
    """All figures in ``published.jsonl``."""
    text = files("moot.evals._report").joinpath("published.jsonl").read_text(encoding="utf-8")
    return tuple(PublishedFigure(**json.loads(line)) for line in text.splitlines())


def figure_interval(figure: PublishedFigure) -> tuple[Interval, str]:
    """A paper's figure with its interval, and a text that says whether the interval was printed or computed.

    If the paper prints no interval, Wilson's interval is computed from the value and the number of items. For an F1,
    this is impossible. So the result for an F1 without a printed interval has no interval, and the text is "none".
    """
    if figure.low is not None and figure.high is not None:
        return Interval(figure.value, figure.low, figure.high, figure.n), "theirs, as printed"
    if figure.measure == "token_f1" or figure.measure == "macro_f1":
        return Interval(figure.value, None, None, figure.n, reason="none is printed"), "none"
    right = round(figure.value * figure.n)
    computed = wilson([place < right for place in range(figure.n)])
    return Interval(figure.value, computed.low, computed.high, figure.n), "Wilson's, from their value and n"


def plain_model(name: str) -> str:
    """A model's name without provider, owner and `ENDING`, in small letters.

    >>> plain_model("vllm:meta-llama/Llama-3.3-70B-Instruct-Turbo")
    'llama-3.3-70b'
    """
    return ENDING.sub("", name.partition(":")[2].rpartition("/")[2].lower() or name.lower())


def same_models(figure: PublishedFigure, system: System) -> bool:
    """Whether a system's calls went to the paper's models, and to all of them.

    A system of a paper with a model for each role may have fewer roles, but has several models.
    """
    theirs = set(map(plain_model, MODEL_SETS.get(figure.model, (figure.model,))))
    ours = {plain_model(model) for observation in system.observations for model, _ in observation.models}
    fewer_roles = figure.model.startswith("a model for each role") and len(ours) > 1
    return ours == theirs or (fewer_roles and ours < theirs)


def published_table(studies: Sequence[Study]) -> Table | None:
    """Our figures next to papers' figures of the same systems on the same benchmarks; None if no paper has any."""
    heads = [SYSTEM, *columns("text", benchmark="", measure=""), *columns("share", ours="ours")]
    heads += [
        *columns("text", model="our model"),
        *columns("share", theirs="theirs (the paper's)"),
        *columns("count", n="their n"),
    ]
    heads += columns("text", their_model="their model", interval="their interval", source="source")
    rows: list[list[Cell]] = []
    for study in studies:
        for system in (system for system in study.measured if system.control is None):
            for figure in published_figures():
                if (figure.benchmark, figure.graph) != (study.benchmark.name, system.runs[0].graph):
                    continue
                if not same_models(figure, system):
                    continue
                measure = study.first_measure if figure.measure == "first" else figure.measure
                if measure not in study.benchmark.metrics:
                    continue
                theirs, origin = figure_interval(figure)
                named: list[Cell] = [study.benchmark.title, TITLES[measure]]
                our_cells: list[Cell] = [estimate(system, measure, study.same_items), study.model or "several"]
                place = f"{figure.source}, {figure.where}"
                their_cells: list[Cell] = [theirs, figure.n, figure.model, origin, place]
                rows.append([system.label, *named, *our_cells, *their_cells])
    return make_table(
        "published",
        "The papers' figures and ours",
        "Figures of the same models only. The papers' figures are from other items, prompts and evidence than ours, so "
        "a difference says nothing about the system, and is not tested. Our figures are over the items on which all "
        "our systems have an outcome. In brackets are 95% intervals. Ours are those of the table of systems. Theirs "
        "are as printed, else Wilson's from their value and number of items; an F1 without a printed interval has no "
        "interval.",
        heads,
        rows,
    )
