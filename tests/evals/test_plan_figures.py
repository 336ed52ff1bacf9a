"""The page of plans lists every figure of every plan, and how often the debaters of a table answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

import pytest
from moot.evals._runs.plan import make_cells, make_plan
from moot.graphs import load_graph
from moot.nodes._runtime.settings import checked_settings

from tests.conftest import StartStub
from tests.evals.test_plans import PAGE, PLANS, SOURCE, written_plan

NOT_A_FIGURE = "sample_seed"
CODE = re.compile(r"`([^`]+)`")
OPTIONS = ["a quay", "a mole", "a pier", "a dock"]
BY_NAME = {file.stem: file for file in PLANS}


def numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """The numbers in a plan's values, each with the name of its field or setting."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from numbers(one, key)
    elif isinstance(value, list):
        for one in value:
            yield from numbers(one, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, float(value)


def figures(plan: dict[str, Any]) -> set[tuple[str, float, str]]:
    """The figures of a plan: the name, the number, and the label of the system (empty for all systems)."""
    found = {(name, value, "") for name, value in numbers({**plan, "graphs": None, "seeds": None})}
    found |= {
        (name, value, system.get("label", system["graph"]))
        for system in plan["graphs"]
        for name, value in numbers(system.get("settings", {}))
    }
    found |= {("seeds", float(len(plan["seeds"])), "")} if "seeds" in plan else set()
    return {figure for figure in found if figure[0] != NOT_A_FIGURE}


def listed_figures() -> list[tuple[str, set[float], list[str], str]]:
    """The rows of the page's table: a name, its numbers, patterns of plans, and the label of a system (else empty)."""
    rows = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and re.match(r"`\w+: [\d.]+`", cells[0]):
            first, *others = CODE.findall(cells[0])
            name, _, value = first.partition(": ")
            plans, _, label = cells[1].partition(": ")
            rows.append((name, {float(value), *map(float, others)}, CODE.findall(plans), label))
    return rows


@pytest.mark.parametrize(
    "file", [one for one in PLANS if re.match(r"s[0-4]-", one.stem)], ids=lambda file: file.stem
)  # the others are plans of ours
def test_the_page_lists_each_figure_of_a_plan(file: Any) -> None:
    rows = [row for row in listed_figures() if any(fnmatch(file.stem, pattern) for pattern in row[2])]
    for name, value, label in figures(written_plan(file)):
        assert any(name == row[0] and value in row[1] and row[3] in ("", label) for row in rows), (name, value, label)


def test_each_listed_figure_is_in_a_plan() -> None:
    for name, values, patterns, label in listed_figures():
        for pattern in patterns:
            files = [file for stem, file in BY_NAME.items() if fnmatch(stem, pattern)]
            known = {figure[:2] for file in files for figure in figures(written_plan(file)) if label in ("", figure[2])}
            assert files
            assert any((name, value) in known for value in values), (name, pattern)


# --- answers ----------------------------------------------------------------------------------------------------------

NOBODY_AGREES = [
    {"match": r"You are \"(qwen|agent-1|debater-1|affirmative|rag)\"", "fields": {"answer": "REFUTES"}},
    {"fields": {"answer": "SUPPORTS", "preferred": None}},
]
"""The first debater always gives another answer than all others, and a moderator prefers none."""


def listed_answers() -> list[tuple[str, int, str]]:
    """For each plan and each debate of its table, the number of answers on the page."""
    found = re.findall(r"^\| ((?:`s[\w-]+`(?:, )?)+) \| (\d+): (.+) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    return [
        (plan, int(count), label)
        for plans, count, labels in found
        for plan in CODE.findall(plans)
        for label in labels.split(", ")
    ]


def local(value: Any) -> Any:
    """A plan's values with the scripted endpoint and a corpus of the demo."""
    if isinstance(value, dict):
        return {key: local(one) for key, one in value.items()}
    if isinstance(value, list):
        return list(map(local, value))
    if isinstance(value, str) and value.startswith(("openai:", "vllm:")):
        return "openai:stub"
    return "bm25:demo-news" if isinstance(value, str) and SOURCE.fullmatch(value) else value


@pytest.mark.parametrize(("plan", "count", "label"), listed_answers())
async def test_debaters_who_never_agree_answer_as_often_as_the_page_says(
    start_stub: StartStub, plan: str, count: int, label: str
) -> None:
    start_stub(NOBODY_AGREES)
    written = local(written_plan(BY_NAME[plan]))
    [graph] = [system for system in written["graphs"] if system["label"] == label]
    system = load_graph(graph["graph"])
    shared = {key: value for key, value in written["settings"].items() if key in system.settings.model_fields}
    only = {"graphs": [graph], "settings": shared, "tasks": ["fever"], "models": ["openai:stub"], "seeds": [1]}
    [cell] = make_cells(make_plan(written | only | {"tests": []}))
    settings = checked_settings(system.settings, cell.settings | {"structured_output": "json_schema"})
    document = await system.graph.ainvoke({"claim": "Quay 4 was opened in 1874."}, context=settings)
    assert document["status"] == "done", document["error"]
    answers = Counter(turn["agent"] for turn in document["turns"] if turn["step"] in ("respond", "argue"))
    assert set(answers.values()) == {count}, answers


def test_the_page_counts_the_answers_of_all_debates_of_a_table() -> None:
    """A debate is a system with a setting for its rounds."""
    listed = {(plan, label) for plan, _, label in listed_answers()}
    for plan in {plan for plan, _, _ in listed_answers()}:
        for system in written_plan(BY_NAME[plan])["graphs"]:
            fields = load_graph(system["graph"]).settings.model_fields
            if not {"max_rounds", "rounds"}.isdisjoint(fields) and system["graph"] != "react":
                assert (plan, system["label"]) in listed
