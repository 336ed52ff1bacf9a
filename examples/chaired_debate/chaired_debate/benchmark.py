"""A benchmark: motions and how they ended, as JSON Lines with the fields ``motion`` and ``carried``."""

from typing import Any

from moot.evals import Benchmark, Item


def item(record: Any) -> Item:
    """A record as what is asked, and the right answer as moot's task writes it."""
    carried = record.fields["carried"]
    return Item(claim=record.fields["motion"], gold=("SUPPORTS" if carried else "REFUTES",))


motions = Benchmark(
    name="motions",
    title="Motions of the council",
    task="fever",
    licence="CC0",
    source="https://example.org/motions",
    files=("motions.jsonl",),
    read=item,
    metrics=("accuracy", "macro_f1"),
)
