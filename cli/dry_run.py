"""``moot eval run --dry-run``: prints what a plan is expected to take, and what a ceiling lets it find."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from moot.cli.output import write_document
from moot.cli.tables import show
from moot.core.words import count_with_noun
from moot.evals._report.ceilings import ASSUMED_DISCORDANT, detectable_with
from moot.evals._runs.dry_run import HOUR, DryRun, Expected
from moot.evals._runs.run_plan import Limits
from moot.evals._stats.sample_size import ALPHA, POWER
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text


def print_expected(dry: DryRun, limits: Limits, *, as_json: bool) -> None:
    """Rehearses a plan, and prints what it takes, by system and in total.

    Raises:
        UserError: as `DryRun.expected`.
    """
    console = Console(stderr=True)
    with Progress(BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), console=console) as bars:
        bar = bars.add_task("rehearsing", total=2 * len(dry.cells))
        found = asyncio.run(dry.expected(lambda cell: bars.update(bar, advance=1, description=cell.system)))
    document = document_of(found, dry, limits)
    write_document(document, as_json=as_json, out=None)
    if as_json:
        return
    show(expected_table(found, document, dry, limits))
    for sentence in [*document["notes"], *document["within_ceilings"]]:
        console.print(Text(sentence), soft_wrap=True)


def document_of(found: Sequence[Expected], dry: DryRun, limits: Limits) -> dict[str, Any]:
    """The JSON document: each system's amounts and the totals, each from the least to the most."""
    rows = [asdict(one) | {end: amounts_of(getattr(one, end), limits) for end in ("least", "most")} for one in found]
    total = {end: total_of([row[end] for row in rows]) for end in ("least", "most")}
    return {
        "systems": rows,
        "total": total,
        "rehearsed": dry.rehearsed,
        "reply_tokens": dry.reply_tokens,
        "tokens_per_second": dry.tokens_per_second,
        "at_once": limits.at_once,
        "notes": list(dry.notes),
        "conflicting": dry.conflicting,
        "within_ceilings": within_ceilings(found, total["most"], limits),
    }


def amounts_of(took: Any, limits: Limits) -> dict[str, float | None]:
    """Amounts as plain JSON, with the hours of debates that share `Limits.at_once` places."""
    amounts = took._asdict()
    seconds = amounts.pop("seconds")
    return {**amounts, "hours": seconds / limits.at_once / HOUR}


def total_of(rows: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """The sum of each amount; None if one of its parts is unknown."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return {name: None if None in values else math.fsum(values) for name, values in columns.items()}


def within_ceilings(found: Sequence[Expected], most: dict[str, float | None], limits: Limits) -> list[str]:
    """How many items a ceiling leaves, and what these can show, in sentences; none without a ceiling."""
    tokens = (most["prompt_tokens"] or 0) + (most["reply_tokens"] or 0)
    pairs = {
        "tokens": (limits.budget, tokens),
        "USD": (limits.max_cost, most["usd"]),
        "calls": (limits.max_calls, most["calls"]),
    }
    if limits.max_cost is not None and most["usd"] is None:
        return ["The cost is unknown, because a model has no price: MOOT_PRICES names a file of prices."]
    shares = {name: ceiling / need for name, (ceiling, need) in pairs.items() if ceiling is not None and need}
    if not shares:
        return []
    unit, share = min(shares.items(), key=lambda one: one[1])
    if share >= 1:
        return [f"The ceiling of {unit} is enough for all items, even if every debate is as long as it may be."]
    sentences = [f"The ceiling of {unit} is enough for {share:.0%} of what the plan takes at most."]
    tests = max(1, len(found) - len({(one.benchmark, one.model) for one in found}))  # each control, each further system
    for name in dict.fromkeys(one.benchmark for one in found):
        items = max(one.items for one in found if one.benchmark == name)
        sentences.append(f"{name}: {what_items_show(max(math.floor(share * items), 0), items, tests)}")
    sentences.append(
        "A run that stops at its ceiling may have all items of some systems and none of others. With --limit, all "
        "systems have the same items."
    )
    return sentences


def what_items_show(items: int, of: int, tests: int) -> str:
    """What a number of items can show in a paired test, alone and as the first of several tests (Holm)."""
    if not items:
        return f"not one of {count_with_noun(of, 'item')}, so nothing can be found."
    alone, corrected = (detectable_with(items, alpha) for alpha in (ALPHA, ALPHA / tests))
    said = "no difference" if alone is None else f"a difference of {alone:.3f} or more"
    also = "none" if corrected is None else f"{corrected:.3f}"
    return (
        f"{items:,} of {count_with_noun(of, 'item')} (--limit {items}). A paired test of so many items finds "
        f"{said} with a power of {POWER:.0%}, if {ASSUMED_DISCORDANT:.0%} of the items are right in one system alone; "
        f"as the first of {count_with_noun(tests, 'test')} (Holm), {also}. Smaller differences will not be found."
    )


def expected_table(found: Sequence[Expected], document: dict[str, Any], dry: DryRun, limits: Limits) -> Table:
    """The table of systems, with the totals in its last row."""
    caption = (
        f"From {count_with_noun(dry.rehearsed, 'item')} of each benchmark, rehearsed twice: with replies that all "
        f"agree, and with random ones. Each reply has about {dry.reply_tokens} tokens (--reply-tokens); models that "
        f"think write more. Hours: {dry.tokens_per_second:g} tokens per second in each reply (--tokens-per-second), "
        f"{limits.at_once} samples at once (--at-once); reading and searching take no time. USD: without the lower "
        "price of prompts in the endpoint's cache."
    )
    names = ("system", "benchmark", "model", "debates", "calls", "prompt tokens", "reply tokens", "USD", "hours")
    table = Table(box=None, padding=(0, 2, 0, 0), caption=Text(caption), caption_justify="left")
    for name in names:
        table.add_column(name, justify="right" if names.index(name) > 2 else "left")
    for one, row in zip(found, document["systems"], strict=True):
        table.add_row(*map(Text, (one.system, one.benchmark, one.model or "", f"{one.debates:,}", *cells_of(row))))
    debates = sum(one.debates for one in found)
    table.add_row(*map(Text, ("all", "", "", f"{debates:,}", *cells_of(document["total"]))), style="bold")
    return table


def cells_of(row: dict[str, Any]) -> list[str]:
    """The cells with the amounts of a row, each from the least to the most."""
    kinds: dict[str, Callable[[float], str]] = dict.fromkeys(("calls", "prompt_tokens", "reply_tokens"), in_short)
    kinds |= {"usd": "{:,.2f}".format, "hours": "{:,.2f}".format}
    cells = []
    for name, format_one in kinds.items():
        least, most = (row[end][name] for end in ("least", "most"))
        ends = [] if least is None else [format_one(least), format_one(most)]
        cells.append(" to ".join(dict.fromkeys(ends)) or "unknown")
    return cells


def in_short(amount: float) -> str:
    """A number with three significant digits: ``950``, ``12.3k``, ``4.9G``."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if amount >= size:
            return f"{amount / size:.3g}{unit}"
    return f"{amount:,.0f}"
