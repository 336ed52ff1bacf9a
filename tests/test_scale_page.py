"""Checks the page about a million claims: its costs and hours follow from its other figures and from the prices."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from moot.nodes._models.prices import costs_of, price_of, read_prices

PAGE = (Path(__file__).parents[1] / "docs" / "howto" / "scale.md").read_text(encoding="utf-8")
MILLION = 1_000_000
TOKENS_PER_REPLY = 200
"""The length of a reply in the columns named "200". Real models write longer replies than the measured model."""


def numbers(row: str) -> list[float]:
    """The number at the start of each cell in a row. The first cell, the row's name, is left out."""
    line = re.search(rf"^\| {re.escape(row)} \|(.+)\|$", PAGE, re.M)
    assert line, row
    return [float(re.match(r"[\d.,]+", cell.strip())[0].rstrip(",").replace(",", "")) for cell in line[1].split("|")]  # type: ignore[index]


CALLS, PROMPTS, REPLIES = map(numbers, ("calls to models", "tokens of prompts", "tokens of replies"))


@pytest.mark.parametrize("model", ["openai:gpt-4.1-nano", "openai:gpt-4.1-mini", "openai:gpt-4.1"])
def test_costs_follow_from_tokens_and_prices(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOOT_PRICES", raising=False)
    price = price_of(model, read_prices())
    assert price
    expected = [
        round(sum(costs_of(round(prompts * MILLION), round(replies * MILLION), price)))
        for calls, prompts, measured_replies in zip(CALLS, PROMPTS, REPLIES, strict=True)
        for replies in (measured_replies, calls * TOKENS_PER_REPLY)
    ]
    assert numbers(f"`{model}`") == expected


def test_hours_and_token_rates_follow_from_the_measurements() -> None:
    hours = [calls * MILLION * 2 / 200 / 3600 for calls in CALLS]  # 2 s per call, 200 calls at once
    assert numbers("hours") == [pytest.approx(value, rel=0.03) for value in hours]
    rates = [(p + r) / duration / 60 for p, r, duration in zip(PROMPTS, REPLIES, hours, strict=True)]
    assert numbers("tokens a minute that the endpoint must allow") == [pytest.approx(rate, rel=0.03) for rate in rates]
    for core_hours, processor_time in {
        "core-hours of workers": "processor time of the worker, without HTTP",
        "core-hours of `moot batch`": "processor time of `moot batch`, which collects the rows",
        "core-hours of Postgres": "processor time of Postgres",
    }.items():
        expected = [ms / 1000 * MILLION / 3600 for ms in numbers(processor_time)]
        assert numbers(core_hours) == [pytest.approx(value, abs=0.05, rel=0.03) for value in expected]
