"""Equal parts of observations are kept once, and stay equal to what they were."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from moot.evals._runs import logs
from moot.evals._runs.logs import read_runs
from moot.evals._stats.sharing import SharedParts

from tests.evals.made_logs import debate, write_log

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 0.5]) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=12,
)


@given(st.lists(PLAIN, max_size=8))
def test_shared_values_are_the_same_values(values: list[Any]) -> None:
    parts = SharedParts()
    shared = [parts.share(value) for value in values]
    assert json.dumps(shared) == json.dumps(values)  # JSON also tells 1, 1.0 and true apart


def test_equal_parts_are_one_object() -> None:
    parts, texts = SharedParts(), ("".join("ab"), "".join("ab"))
    first, second = (parts.share((Counter({text: 2}), {"deep": [text, {"k": text}]})) for text in texts)
    assert first is second
    assert isinstance(first[0], Counter)
    frozen = frozenset("a")
    assert parts.share([frozen])[0] is frozen


def test_many_logs_are_read_by_processes_in_their_order(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    names = [f"log-{n:02}" for n in range(2 * logs.LOGS_OF_A_PROCESS)]
    for name in names:
        write_log(tmp_path, name, {"1": debate("SUPPORTS", ["SUPPORTS"])}, {"1": "SUPPORTS"}, system=name, key=name)
    found, _ = read_runs([tmp_path], len)
    assert [run.system for run in found] == names
    assert all(run.observations[0].cost == 1 for run in found)
