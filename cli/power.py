"""``moot eval power``: computes how many items are needed to tell two systems apart, and the power of n items."""

from __future__ import annotations

from dataclasses import asdict

from moot.cli.output import write_document
from moot.cli.tables import show
from moot.core.errors import UserError
from moot.evals._stats.sample_size import ALPHA, POWER, Separation, separation
from rich.table import Table
from rich.text import Text


def print_power(first: float, second: float, n: int, discordant: float | None, *, as_json: bool) -> None:
    """Prints, for each design, the power of n items, and how many items are needed to tell two accuracies apart.

    Args:
        first: one system's accuracy.
        second: the other system's accuracy.
        n: the number of items.
        discordant: the share of items that only one system gets right; None if it is not known.
        as_json: whether to print a JSON document, and no table.

    Raises:
        UserError: an accuracy is not between 0 and 1, the accuracies do not allow the share of discordant items, or
            scipy or statsmodels is not installed.
    """
    try:
        found = separation(first, second, n, discordant)
    except ValueError as error:
        raise UserError(f"{str(error)[0].upper()}{str(error)[1:]}.", kind="invalid_setting") from error
    write_document(asdict(found), as_json=as_json, out=None)
    if not as_json:
        show(designs_table(found))


def designs_table(found: Separation) -> Table:
    """The table of the designs, one row per design."""
    favourable = (
        f"In the most favourable pairing of {found.n:,} items, the exact McNemar test gives p = {found.smallest_p:.2g}"
    )
    conclusion = (
        "so these items may tell the two systems apart."
        if found.separable
        else "so no pairing can tell the two systems apart."
    )
    unreachable = any(design.items_needed is None or design.detectable is None for design in found.designs)
    about_none = " None in a cell: that power cannot be reached." * unreachable
    caption = (
        f"A difference of {found.difference:+.3f}. Items: the number needed for a power of {POWER:.0%} at "
        f"p = {ALPHA:g}; for two samples, the number for each system. Detectable: the smallest gain over the second "
        f"accuracy that {found.n:,} items detect with that power.{about_none}\n{favourable}, {conclusion}"
    )
    columns = ("design", "discordant", f"power at {found.n:,}", "items", "detectable")
    table = Table(*columns, box=None, padding=(0, 2, 0, 0), caption=Text(caption), caption_justify="left")
    for design in found.designs:
        table.add_row(
            design.name,
            "" if design.discordant is None else f"{design.discordant:.1%}",
            f"{design.power:.0%}",
            "none" if design.items_needed is None else f"{design.items_needed:,}",
            "none" if design.detectable is None else f"{design.detectable:.3f}",
        )
    return table
