"""The docstring of every factory of nodes names the keys of the state that its nodes read in debates."""

from __future__ import annotations

import inspect
import re
import sys
from collections import defaultdict
from importlib import import_module
from types import FunctionType
from typing import Any

import pytest
from moot.graphs import DESCRIPTIONS, load_graph
from moot.nodes import Node

from tests.conftest import MODELS, StartStub, reading_demo, says

ARGUMENTS: dict[str, dict[str, Any]] = {
    "conclude_node": {"reason": "single_pass"},
    "end_agreed_node": {"reason": lambda settings: "consensus"},
    "human_review_node": {"moment": "evidence"},
    "vote_node": {"reason": "single_pass"},
}
"""The required arguments of factories."""
OTHERS = {"debate_node", "graph_node"}
"""Factories whose nodes run another graph, with the keys of that graph."""
SHARED = ("_node.", "respond_node.", "speaker_node.")
"""The beginnings of the names of steps that several factories make."""
PASSED = {"vote_node": {"graphs", "rounds", "task"}}
"""Keys that a factory's step reads through functions of moot.nodes which graphs pass to the factory."""
TRIGGERS = ("self_critique", "unwarranted")
"""Triggers of a gate for which it asks its agents again, or assesses their answers."""
FEW_KNOWN = {"seed_k": 1, "max_premises": 1, "novelty_threshold": 0, "min_request_similarity": 0}
"""Settings of a trial in which little is known before the debates, so that searches find what joins the record."""
UNSEEN = {"human_review_node"}
"""Factories of nodes that no debate of this test runs, because these nodes wait for a person."""


class Recording(dict[str, Any]):
    """A state that records which of its keys are read, except by functions that a graph passes to a factory."""

    def __init__(self, state: dict[str, Any]) -> None:
        super().__init__(state)
        self.read: set[str] = set()

    def note(self, key: object) -> None:
        if not str(sys._getframe(2).f_globals["__name__"]).startswith("moot.graphs"):
            self.read.add(str(key))

    def __getitem__(self, key: str) -> Any:
        self.note(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.note(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.note(key)
        return super().__contains__(key)


def code_of(step: Any) -> tuple[Any, ...]:
    """The code of a step; if several factories share it, with the code of the functions that the factory gave it."""
    if not step.__qualname__.startswith(SHARED):
        return (step.__code__,)
    inner = inspect.getclosurevars(step).nonlocals.values()
    return step.__code__, *(one.__code__ for one in inner if isinstance(one, FunctionType))


def factories() -> dict[str, Any]:
    """The public functions that return a node of a debate."""
    nodes = import_module("moot.nodes")
    named = {name: getattr(nodes, name) for name in nodes.__all__}
    return {
        name: made
        for name, made in named.items()
        if inspect.isfunction(made)
        and inspect.signature(made).return_annotation == "Node"
        and not made.__module__.startswith(("moot.nodes._claims", "moot.nodes._steps.reader"))
        and name not in OTHERS
    }


def documented_keys(factory: Any) -> set[str]:
    """The keys that the docstring of a factory names as read."""
    (text,) = re.findall(r"Reads: ([^.:]+)[.:]", inspect.getdoc(factory) or "")
    return set(re.findall(r"\w+", text))


async def test_docstrings_of_factories_name_the_keys_that_their_nodes_read(
    monkeypatch: pytest.MonkeyPatch, start_stub: StartStub
) -> None:
    made = {name: code_of(factory(**ARGUMENTS.get(name, {})).step) for name, factory in factories().items()}
    known = {code: name for name, code in made.items()}
    assert len(known) == len(made)
    original, read = Node._run_step, defaultdict[str, set[str]](set)

    async def recorded(node: Node, state: Any, run: Any) -> dict[str, Any]:
        name = known.get(code_of(node.step)) if isinstance(node.step, FunctionType) else None
        recording = Recording(state)
        update = await original(node, recording, run)
        if name:
            read[name] |= recording.read
        return update

    monkeypatch.setattr(Node, "_run_step", recorded)
    agree = says("reader", "SUPPORTS")
    start_stub([says("rag", "SUPPORTS"), says("search", "REFUTES"), agree, {"fields": {"citations": []}}])
    stub = {"embedder": "openai:stub-embedding"}
    differing: dict[str, Any] = {"models": MODELS, "max_rounds": 1} | stub
    runs: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        *((name, {"model": "fake:1"}, {}) for name in DESCRIPTIONS),
        ("tool_mad", {"model": "openai:stub", "scoring": "consensus_only"} | stub, {}),
        ("rag", {"model": "openai:stub-rag", "assess": True} | stub, {}),
        ("tool_mad_consistency", differing, {}),
        ("cortex_debate", {"model": "fake:1", "evaluation": "peer"}, {}),
        ("madke", {"model": "fake:1"}, {"task": "short_answer"}),
        ("proclaim", {"model": "fake:1", "procedure": "lean"} | FEW_KNOWN, {}),
        *(("gated", {"model": "openai:stub-reader", "trigger": one, "min_verified": 0}, {}) for one in TRIGGERS),
    ]
    for name, models, given in runs:
        system = load_graph(name)
        settings = system.settings.model_validate(models | reading_demo(system.settings))
        await system.graph.ainvoke({"claim": "Saffron is made from roots.", **given}, context=settings)
    silent = {name: keys - documented_keys(factories()[name]) - PASSED.get(name, set()) for name, keys in read.items()}
    assert {name: keys for name, keys in silent.items() if keys} == {}
    assert made.keys() - read.keys() <= UNSEEN
