"""``moot eval run`` reads settings from its options and from a plan, and groups similar failures."""

from __future__ import annotations

from pathlib import Path

import pytest
from moot.cli.eval_run import failure_key, plan_of, settings_of
from moot.core.errors import UserError
from moot.graphs import load_graph


def test_a_dotted_key_changes_one_value_of_a_default() -> None:
    debaters = load_graph("tool_mad").settings().model_dump(mode="json")["debaters"]
    found = settings_of(["debaters.1.retriever=bm25:mine", "rounds=2"], "mine", ["tool_mad", "rag"])
    assert found["debaters"] == [debaters[0], debaters[1] | {"retriever": "bm25:mine"}]
    assert (found["corpus"], found["rounds"]) == ("mine", 2)


def test_a_key_value_pair_overrides_the_option_corpus() -> None:
    assert settings_of(["corpus=other"], "mine", []) == {"corpus": "other"}


def test_a_dotted_key_is_refused_if_the_graphs_defaults_differ() -> None:
    with pytest.raises(UserError, match="run each graph by itself, or write a plan"):
        settings_of(["debaters.1.retriever=bm25"], None, ["tool_mad", "madke"])


def test_the_sample_seed_0_overrides_the_seed_of_a_plan(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("graphs: [rag]\ntasks: [fever]\nsample_seed: 7\n")
    assert [plan_of(plan, [], [], {}, sample_seed=seed).sample_seed for seed in (0, None)] == [0, 7]


def test_failures_that_differ_only_in_an_amount_are_grouped() -> None:
    first, second = (
        f"A call was not made: it may take {n} tokens, and the ceiling leaves 20 tokens." for n in ("1,620", "990")
    )
    assert failure_key(first) == failure_key(second)
    assert failure_key("The endpoint answered with 429.") != failure_key("The endpoint answered with 503.")
