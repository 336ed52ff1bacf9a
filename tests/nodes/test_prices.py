"""Prices of models: the table, a user's file that overrides it, and the cost of calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.core.errors import UserError
from moot.nodes._models.prices import cost_of, paid_calls, price_of, read_prices

TABLE = (Path(__file__).parents[2] / "nodes" / "_models" / "prices.jsonl").read_text(encoding="utf-8").splitlines()
MINI, FULL, FAKE = "openai:gpt-4o-mini", "openai:gpt-4o", "fake:1"


def call(model: str, prompt: int | None, completion: int | None, outcome: str = "ok") -> Any:
    return {"model": model, "prompt_tokens": prompt, "completion_tokens": completion, "outcome": outcome}


@pytest.fixture(autouse=True)
def _no_price_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOOT_PRICES", raising=False)


def test_local_and_fake_models_have_an_unknown_price() -> None:
    models = ("embedded:smollm2-135m", "ollama:llama3.2", "vllm:Qwen/Qwen3-8B", FAKE)
    assert [price_of(model, read_prices()) for model in models] == [None] * len(models)


@pytest.mark.parametrize(
    ("model", "priced_as"),
    [
        (f"{MINI}-2024-07-18", MINI),
        (f"{FULL}-2024-11-20", FULL),
        (f"{FULL}-2024-05-13", None),  # the snapshot has its own price
        (f"{FULL}-mini-audio", None),
        (f"{FULL}-0513", None),
        ("ollama:gpt-4o", None),
        ("object:ChatOpenAI(gpt-4o)", FULL),
        ("object:ChatOpenAI(gpt-4o-mini-2024-07-18)", MINI),
        ("object:ChatAnthropic(claude-haiku-4-5)", "anthropic:claude-haiku-4-5"),
        ("object:Own(gpt-4o)", None),
        ("object:ChatOllama(gpt-4o)", None),
    ],
)
def test_a_dated_snapshot_without_a_price_has_the_price_of_its_model(model: str, priced_as: str | None) -> None:
    """A model of another provider, or with another suffix, does not get this price."""
    prices = read_prices()
    assert price_of(model, prices) == (prices[priced_as] if priced_as else prices.get(model))


@pytest.mark.parametrize(
    ("calls", "cost"),
    [
        ([], 0.0),
        # 1,000 x 0.15 + 200 x 0.60 + 4,000 x 2.50 + 100 x 10, each per million tokens
        ([call(MINI, 1000, 200), call(FULL, 4000, 100)], 0.01127),
        ([call(f"{MINI}-2024-07-18", 1000, 200, "cut")], 0.00027),
        ([call(MINI, 1000, 200), call(FAKE, None, None, "failed"), call(MINI, None, None, "failed")], 0.00027),
        ([call(MINI, 1000, 0, "failed")], 0.00015),
        ([call(MINI, 1000, 200), call(FAKE, 5, 5)], None),
        ([call(FAKE, 5, 5, "failed")], None),
        ([call(MINI, 1000, 200), call(MINI, None, None)], None),
        ([call(MINI, 0, 0)], None),  # the endpoint does not count tokens and reports 0
        ([call(MINI, 10, None)], None),
        ([call(MINI, 1000, 200), {**call(FAKE, 0, 0), "shared": True}], 0.00027),
        (paid_calls([call(MINI, 1000, 200), cast(Any, call(FULL, 4000, 100) | {"from_store": True})]), 0.00027),
    ],
)
def test_the_cost_of_calls_follows_from_their_tokens(calls: list[Any], cost: float | None) -> None:
    """The cost is None if the tokens or the price of a call are unknown. Failed calls without tokens cost nothing."""
    assert cost_of(calls, read_prices()) == (None if cost is None else pytest.approx(cost, rel=1e-12))


@given(st.lists(st.tuples(st.sampled_from([MINI, FULL]), st.integers(1, 10**6), st.integers(0, 10**6)), max_size=20))
def test_the_cost_of_several_calls_is_the_sum_of_the_cost_of_each_call(counts: list[tuple[str, int, int]]) -> None:
    """If one cost is unknown, the sum is unknown."""
    prices, calls = read_prices(), [call(*row) for row in counts]
    costs = [cost_of([single], prices) for single in calls]
    assert all(cost is not None and cost > 0 for cost in costs)
    assert cost_of(calls, prices) == pytest.approx(sum(cost or 0 for cost in costs))
    assert cost_of([*calls, call(FAKE, 1, 1)], prices) is None


def test_a_users_file_overrides_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "mine.jsonl"
    lines = [{"model": MINI, "input": 1, "output": 2.5, "note": "ours"}, {"model": FAKE, "input": 0, "output": 0}]
    own.write_text("\ufeff" + "\n\n".join(map(json.dumps, lines)))
    monkeypatch.setenv("MOOT_PRICES", str(own))
    shipped = {json.loads(line)["model"] for line in TABLE}
    assert read_prices() == read_prices(own)
    assert set(read_prices()) == shipped | {FAKE}
    assert cost_of([call(MINI, 1000, 200), call(FAKE, 10, 10)], read_prices()) == pytest.approx(0.0015)
    monkeypatch.delenv("MOOT_PRICES")
    assert read_prices()[MINI] == {"input": 0.15, "output": 0.6, "cached": 0.075}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"model": "openai:x", "input": -1, "output": 1}', "input"),
        ('{"model": "openai:x", "input": 1, "output": NaN}', "output"),
        ('{"model": "openai:x", "input": 1, "output": 1e999}', "output"),
        ('{"model": "openai:x", "input": "1", "output": 1}', "input"),
        ('{"model": "openai:x", "input": true, "output": 1}', "input"),
        ('{"model": "openai:x", "input": null, "output": 1}', "input"),
        ('{"model": "openai:x", "input": 1}', "output"),
        ('{"model": "x", "input": 1, "output": 1}', "model"),
        ('{"model": "openai:x", "input": 1, "output": 1, "cache_write": 1}', "cache_write"),
        ('["openai:x", 1, 1]', "object"),
        ('{"model": "openai:x", ', "JSON"),
        ('{"model": "openai:first", "input": 1, "output": 1}', "already"),
    ],
)
def test_the_error_for_an_invalid_price_names_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    own = tmp_path / "mine.jsonl"
    own.write_text(f'{{"model": "openai:first", "input": 1, "output": 1}}\n\n{line}\n')
    with pytest.raises(UserError, match=rf"mine\.jsonl, line 3: .*{message}") as caught:
        read_prices(own)
    assert caught.value.kind == "invalid_file"


def test_a_missing_or_unreadable_price_file_is_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary.jsonl"
    binary.write_bytes(b"\xff\xfe\x00{")
    for path, kind in ((tmp_path / "none.jsonl", "missing_file"), (tmp_path, "invalid_file"), (binary, "invalid_file")):
        with pytest.raises(UserError, match=path.name) as caught:
            read_prices(path)
        assert caught.value.kind == kind
