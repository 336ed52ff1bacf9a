"""Logs of a made-up study: two benchmarks, two models, a debate in three runs, its control, and two single systems."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.evals.made_logs import call, debate, write_log
from tests.evals.made_study import N, R, S

SMALL, LARGE = "openai:small", "openai:large"
BENCHMARKS = {"fever": 60, "feverous": 40}
RATES = {"debate": 0.8, "debate alone": 0.55, "single": 0.5, "large": 0.7}
"""The chance that a system is right on an item."""
LABELS = (S, R, N)


def gold_of(benchmark: str) -> dict[str, str]:
    """The right label of each item."""
    return {f"{n:03}": LABELS[n % (3 if benchmark == "fever" else 2)] for n in range(BENCHMARKS[benchmark])}


def documents(benchmark: str, system: str, seed: int) -> dict[str, Any]:
    """The result documents of a run."""
    draw = random.Random(f"{benchmark} {system} {seed}")
    model = LARGE if system == "large" else SMALL

    def said(right: str, chance: float) -> str:
        return right if draw.random() < chance else draw.choice([label for label in LABELS if label != right])

    found = {}
    for id, right in gold_of(benchmark).items():
        rounds = [[said(right, chance) for _ in range(3)] for chance in (0.5, 0.7)] if system == "debate" else [[]]
        found[id] = debate(said(right, RATES[system]), *rounds, task=benchmark, calls=[call(model=model)])
    return found


def write_study(folder: Path, **facts: Any) -> Path:
    """Write the logs of the study; ``facts`` are metadata of all of them."""
    for benchmark in BENCHMARKS:
        gold = gold_of(benchmark)
        groups = {id: f"page-{int(id) // 2}" for id in gold} if benchmark == "feverous" else None
        for system, seeds, model, more in (
            ("debate", (1, 2, 3), SMALL, {}),
            ("debate alone", (1, 2, 3), SMALL, {"control": "answers_alone", "of": "debate"}),
            ("single", (1,), SMALL, {}),
            ("large", (1,), LARGE, {}),
        ):
            for seed in seeds:
                name = f"{benchmark}-{system.replace(' ', '-')}-{seed}"
                known = {"benchmark": benchmark, "system": system, "model": model, "seed": seed, **more, **facts}
                parts = {"prompts": {"agents/answer": "0a1b2c3d"}}
                write_log(folder, name, documents(benchmark, system, seed), gold, groups=groups, parts=parts, **known)
    return folder
