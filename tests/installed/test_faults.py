"""Errors in packages that add graphs, sources or benchmarks: messages name the package, and other graphs still run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from moot.core.errors import UserError, WorldError
from moot.evals._benchmarks import catalogue
from moot.evals._runs.identity import version_of
from moot.graphs import _registry as registry
from moot.graphs import load_graph
from moot.retrievers import _search as search
from moot.retrievers import open_retriever
from moot.retrievers._search import about_source

from tests.commands import moot
from tests.conftest import free_port

RING = """
from moot.nodes import Debate, RoundsSettings, agent_node, agents_needs, compare_node, consensus_or_rounds
from moot.nodes import neighbours, no_round_left, to_agents, vote_node


def another(state, settings):
    return "vote" if no_round_left(state, settings) else to_agents("answer", state, settings, neighbours)


builder = Debate("ring", RoundsSettings, agents_needs)
builder.add_node("answer", agent_node())
builder.add_node("compare", compare_node())
builder.add_node("vote", vote_node(consensus_or_rounds))
builder.add_round(another, ["answer"])
builder.add_edge("answer", "compare")
builder.add_conditional_edges("compare", another, ["answer", "vote"])
builder.add_verdict("vote")
graph = builder.compile()
"""
SHELF = """
from moot.retrievers import UserError

class Shelf:
    "the shelf in the hall."
    name = "shelf"

    async def search(self, query, k):
        if query == "key":
            raise UserError("Set SHELF_KEY.", kind="missing_key")
        return [{"text": "Eggs."}] * 3 if query == "eggs" else 1 / 0

shelf = Shelf()
"""
Install = Callable[..., None]


def test_a_package_that_cannot_be_imported_fails_only_if_it_is_used(install: Install) -> None:
    """Lists leave out its graph and its benchmark, and report the error."""
    install("torn", "import no_such_module", graph="torn = torn:graph", benchmark="tears = torn:tears")
    used = moot("verify", "Bees fly.", "--graph", "torn", "--model", "fake:1")
    assert used.returncode == 2
    assert 'The package torn 1.0 declares the graph torn = "torn:graph", but it cannot be imported' in used.stderr
    assert "No module named 'no_such_module'" in used.stderr
    for arguments in (
        ["--help"],
        ["settings", "rag"],
        ["verify", "Bees fly.", "--graph", "rag", "--model", "fake:1", "--corpus", "demo-news"],
    ):
        assert (done := moot(*arguments)).returncode == 0, done.stderr
    for arguments, own_name in ((["graphs"], "isolate"), (["eval", "tasks"], "math")):
        listed = moot(*arguments)
        assert listed.returncode == 0
        assert own_name in listed.stdout
        assert "not listed: The package torn 1.0 declares" in listed.stderr


def test_a_package_cannot_reuse_a_name_of_moot(install: Install) -> None:
    """Commands that use this name fail, and the server does not start. Other names can still be used."""
    install("greedy", RING, graph="rag = greedy:graph", source="wikipedia = greedy:x", benchmark="fever = greedy:x")
    message = 'The package greedy 1.0 declares the graph rag = "greedy:graph", but moot has its own rag.'
    port = str(free_port())
    for command in (["verify", "Bees fly.", "--graph", "rag"], ["settings", "rag"], ["serve", "--port", port]):
        done = moot(*command)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert moot("settings", "madke").returncode == 0
    with pytest.raises(UserError, match="source wikipedia"):
        search.resolve("wikipedia")
    with pytest.raises(UserError, match="benchmark fever"):
        catalogue.load_benchmark("fever")
    assert search.resolve("bm25") == ("wikipedia", "")


@pytest.mark.parametrize(
    ("point", "module", "message"),
    [
        ("ring = own:builder", RING, "it is not a graph that moot.nodes.Debate compiled"),
        ("round = own:graph", RING, "its debate is named 'ring'"),
        ("my-ring = own:graph", RING, "a name may contain only letters, digits and underscores"),
        ("1ring = own:graph", RING, "must not begin with a digit"),
        ("ring = own:missing", RING, "it cannot be imported (AttributeError"),
        ("ring = own:graph", "raise SystemExit(7)", "it cannot be imported (SystemExit: 7)"),
    ],
)
def test_a_graph_that_cannot_be_used_is_refused(install: Install, point: str, module: str, message: str) -> None:
    install("own", module, graph=point)
    for _ in range(2):  # the second time, the package is not imported again
        with pytest.raises(UserError, match="The package own 1.0 declares the graph") as error:
            load_graph(point.partition(" ")[0])
        assert message in error.value.detail


def test_if_two_packages_declare_the_same_graph_the_error_names_both(install: Install) -> None:
    install("own", RING, graph="ring = own:graph")
    install("theirs", RING, graph="ring = theirs:graph")
    with pytest.raises(UserError, match=r"package (own 1.0 .* package theirs|theirs 1.0 .* package own) 1.0 declares"):
        load_graph("ring")


def test_the_error_for_an_unknown_graph_suggests_a_packages_graph(install: Install) -> None:
    """The title of a graph that was compiled without a name is its declared name."""
    install("own", RING, graph="ring = own:graph")
    with pytest.raises(UserError, match="There is no graph 'rign'. Did you mean ring[?]"):
        load_graph("rign")
    assert registry.graph_title("ring") == "ring"


def test_the_version_of_a_packages_graph_changes_with_its_code(install: Install, tmp_path: Path) -> None:
    install("own", RING, graph="ring = own:graph")
    settings = load_graph("ring").settings()
    before = version_of("ring", settings)
    assert before.startswith("own 1.0 ")
    (tmp_path / "own.py").write_text(RING + "\n# changed")
    assert version_of("ring", settings) != before


async def test_a_packages_source_is_searched_by_its_name(install: Install) -> None:
    """An exception of the source becomes a `WorldError` that names the source; a `UserError` is raised unchanged."""
    install("own", SHELF, source="shelf = own:shelf")
    source: Any = await open_retriever("shelf")
    first, second = await source.search("eggs", 2)
    assert (first["text"], first["retrievals"][0]["retriever"], second["source"]) == ("Eggs.", "shelf", "shelf")
    assert about_source("shelf") == "the shelf in the hall"
    with pytest.raises(WorldError, match="shelf failed .ZeroDivisionError"):
        await source.search("anything", 2)
    with pytest.raises(UserError, match="SHELF_KEY"):
        await source.search("key", 2)


async def test_a_packages_source_must_be_an_object_with_an_async_search(install: Install) -> None:
    """A class is refused, and so is a corpus after the source's name."""
    install("own", SHELF, source="shelf = own:shelf\nclassy = own:Shelf")
    with pytest.raises(UserError, match="it is not an object with `async def search"):
        await open_retriever("classy")
    with pytest.raises(UserError, match="Known: .*, web, classy, shelf, langchain:"):
        await open_retriever("shelf:corpus")


def test_an_object_that_is_not_a_benchmark_is_refused(install: Install) -> None:
    install("own", "box = object()", benchmark="box = own:box")
    with pytest.raises(UserError, match="it is of the type object, not a moot.evals.Benchmark"):
        catalogue.load_benchmark("box")
