"""The table of state keys has every key that nodes read and write in debates, and docstrings agree with the table."""

from __future__ import annotations

import inspect
import re
import runpy
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from moot.graphs import DESCRIPTIONS, load_graph
from moot.nodes import Node

from tests.conftest import MODELS, StartStub, reading_demo, says

STATE_KEYS = runpy.run_path(str(Path(__file__).parents[1] / "docs/state_keys.py"))
UNSEEN = {"human_review_node"}
"""Factories of nodes that no debate of this test runs, because these nodes wait for a person."""


class Recording(dict[str, Any]):
    """A state that records which of its keys are read.

    ``required`` has the keys read by subscript. ``optional`` has the keys read by `get` or tested by ``in``.
    """

    def __init__(self, state: dict[str, Any]) -> None:
        super().__init__(state)
        self.required: set[str] = set()
        self.optional: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.required.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.optional.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.optional.add(str(key))
        return super().__contains__(key)


def factories_by_step() -> dict[Any, set[str]]:
    """Maps the code object of each step to the names of the public factories that make the step."""
    found: dict[Any, set[str]] = defaultdict(set)
    for name, factory in STATE_KEYS["factories"]().items():
        for arguments in STATE_KEYS["EXAMPLES"].get(name, {"()": {}}).values():
            found[factory(**arguments).step.__code__].add(name)
    return found


async def test_the_table_has_every_key_that_a_node_reads_or_writes(
    monkeypatch: pytest.MonkeyPatch, start_stub: StartStub
) -> None:
    """The debates run nodes of every public factory except those in `UNSEEN`."""
    known, original = factories_by_step(), Node._run_step
    keys_by_step: dict[Any, Any] = {}
    seen: set[str] = set()
    lacking: set[tuple[str, str, str]] = set()

    async def recorded(node: Node, state: Any, run: Any) -> dict[str, Any]:
        code = getattr(node.step, "__code__", None)
        if code not in known:
            return await original(node, state, run)
        seen.update(known[code])
        keys = keys_by_step.get(node.step) or keys_by_step.setdefault(node.step, STATE_KEYS["keys_of"](node))
        recording = Recording(state)
        update = await original(node, recording, run)
        found = {
            "required": recording.required - keys.required - keys.optional,
            "optional": recording.optional - keys.required - keys.optional,
            "written": update.keys() - keys.written,
        }
        lacking.update((node.called, how, key) for how, names in found.items() for key in names)
        return update

    monkeypatch.setattr(Node, "_run_step", recorded)
    start_stub([says("rag", "SUPPORTS"), says("search", "REFUTES"), {"fields": {"citations": []}}])
    agreeing = {"model": "openai:stub", "embedder": "openai:stub-embedding", "scoring": "consensus_only"}
    differing: dict[str, Any] = {"models": MODELS, "embedder": "openai:stub-embedding", "max_rounds": 1}
    runs: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        *((name, {"model": "fake:1"}, {}) for name in DESCRIPTIONS),
        ("tool_mad", agreeing, {}),
        ("tool_mad_consistency", differing, {}),
        ("cortex_debate", {"model": "fake:1", "evaluation": "peer"}, {}),
        ("madke", {"model": "fake:1"}, {"task": "short_answer"}),
    ]
    for name, models, given in runs:
        system = load_graph(name)
        settings = system.settings.model_validate(models | reading_demo(system.settings))
        await system.graph.ainvoke({"claim": "Saffron is made from roots.", **given}, context=settings)
    assert lacking == set()
    assert set(STATE_KEYS["factories"]()) - seen <= UNSEEN


def test_docstrings_of_factories_name_the_keys_that_their_nodes_read() -> None:
    rows: dict[str, set[str]] = defaultdict(set)
    for call, keys in STATE_KEYS["rows"]().items():
        rows[call.partition("(")[0]] |= keys.required | keys.optional
    keys = set().union(*rows.values())
    for name, factory in STATE_KEYS["factories"]().items():
        (documented,) = re.findall(r"Reads: ([^.:]+)[.:]", inspect.getdoc(factory) or "")
        assert set(re.findall(r"\w+", documented)) & keys == rows[name], name
