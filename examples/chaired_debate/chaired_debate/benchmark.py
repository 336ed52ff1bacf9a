"""A benchmark: motions and whether they were carried, as JSON Lines with the fields ``motion`` and ``carried``."""

from typing import Any

from moot.evals import Benchmark, Item


def item(record: Any) -> Item:
    """Converts a record to an item: the motion becomes the claim, and ``carried`` becomes a label of the task."""
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
