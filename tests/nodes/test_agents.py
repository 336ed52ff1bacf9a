"""Agents of a debate: who hears whom, who is in which group, and how agents are declared. No model is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.graphs import load_graph
from moot.graphs.tit_for_tat import TitForTatSettings
from moot.nodes._speakers.agents import (
    AgentsSettings,
    all_others,
    groups_of,
    n_agents,
    neighbours,
    no_agents,
    same_group,
)
from moot.nodes._speakers.turns import Agent
from pydantic import ValidationError

from tests.each import each

COUNTS = st.integers(1, 12)


def names_of(count: int) -> list[str]:
    return [agent.name for agent in n_agents(count)]


# --- who hears whom ---------------------------------------------------------------------------------------------------


@given(COUNTS)
def test_an_agent_hears_only_other_agents_and_each_at_most_once(count: int) -> None:
    """With `all_others` it hears all of them, with `no_agents` none of them."""
    names = names_of(count)
    grouped = [same_group(groups_of(names, size)) for size in (2, 3)]
    for topology in (all_others, neighbours, no_agents, *grouped):
        for name in names:
            heard = topology(name, names)
            assert name not in heard
            assert len(set(heard)) == len(heard)
            assert set(heard) <= set(names)
    assert {len(all_others(name, names)) for name in names} == {count - 1}
    assert all(no_agents(name, names) == [] for name in names)


@given(COUNTS)
def test_neighbours_form_a_ring(count: int) -> None:
    names = names_of(count)
    ring = {name: neighbours(name, names) for name in names}
    assert {len(heard) for heard in ring.values()} == {min(2, count - 1)}
    assert all(name in ring[other] for name in names for other in ring[name])
    reached, newest = {names[0]}, [names[0]]
    while newest:
        newest = [other for name in newest for other in ring[name] if other not in reached]
        reached |= set(newest)
    assert reached == set(names)


# --- groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "size", "groups"),
    [
        ("abcd", 2, ["ab", "cd"]),
        ("abcde", 2, ["ab", "cde"]),
        ("abcde", 3, ["abc", "de"]),
        ("abcdef", 3, ["abc", "def"]),
        ("abc", 2, ["abc"]),
        ("ab", 3, ["ab"]),
        ("a", 2, ["a"]),
        ("", 2, []),
    ],
)
def test_agents_are_split_into_groups(names: str, size: int, groups: list[str]) -> None:
    assert ["".join(group) for group in groups_of(names, size)] == groups


@given(st.integers(2, 30), st.sampled_from([2, 3]))
def test_groups_contain_every_agent_once_in_order(count: int, size: int) -> None:
    """No group has a single agent. With `same_group`, an agent hears the others of its group that still take part."""
    names = names_of(count)
    groups = groups_of(names, size)
    assert [name for group in groups for name in group] == names
    assert min(map(len, groups)) >= 2
    for group in groups:
        for name in group:
            assert same_group(groups)(name, names) == [other for other in group if other != name]
    remaining = names[1:]
    assert all(set(same_group(groups)(name, remaining)) <= set(remaining) for name in remaining)


@each(("count", "size"), [(count, size) for count in range(2, 12) for size in (2, 3)])
def test_a_group_has_two_or_three_agents(count: int, size: int) -> None:
    assert {len(group) for group in groups_of(names_of(count), size)} <= {2, 3}


# --- how agents are declared ------------------------------------------------------------------------------------------


def declared_agents(given: Any) -> Sequence[Agent]:
    return AgentsSettings.model_validate({"agents": given}).agents


@each(
    "given",
    [
        0,
        1,
        -3,
        51,
        10**9,
        True,
        "3",
        2.5,
        None,
        [{}],
        [{}, 3],
        [{"name": "eve"}, {"name": "eve"}],
        [{"name": "agent-2"}, {}],
        [{"name": "summariser"}, {}],
        [{"name": "judge"}, {}],
        [{"name": "moderator"}, {}],
        [{"name": "equivalence"}, {}],
        [{"name": "Eve"}, {}],
        [{"name": "eve adams"}, {}],
        [{"nmae": "eve"}, {}],
        [{"persona": ""}, {}],
        [{"seed": -1}, {}],
        [{"parameters": 0}, {}],
        [{"tokens": -1e12}, {}],
        [{"model": "gpt"}, {}],
    ],
)
def test_invalid_agent_declarations_are_refused(given: Any) -> None:
    with pytest.raises(ValidationError, match="agents"):
        declared_agents(given)


def test_a_minimum_above_the_number_of_agents_is_refused() -> None:
    assert AgentsSettings.model_validate({"agents": 3, "min_agents": 3}).min_agents == 3
    with pytest.raises(ValidationError, match="only 3 agents"):
        AgentsSettings.model_validate({"agents": 3, "min_agents": 4})


def test_models_may_be_set_only_for_roles_that_exist() -> None:
    known = AgentsSettings.model_validate({"agents": [{"name": "eve"}, {}], "models": {"eve": "fake:1"}})
    assert known.models == {"eve": "fake:1"}
    with pytest.raises(ValidationError, match="no role 'agent-1'"):
        AgentsSettings.model_validate({"agents": [{"name": "eve"}, {}], "models": {"agent-1": "fake:1"}})
    with pytest.raises(ValidationError, match="no role 'summariser'"):
        load_graph("society_of_minds").settings.model_validate({"models": {"summariser": "fake:1"}})
    load_graph("chat_eval").settings.model_validate({"models": {"summariser": "fake:1"}})


# --- the two sides ----------------------------------------------------------------------------------------------------


def names_of_sides(given: Any) -> list[str]:
    return [debater.name for debater in TitForTatSettings.model_validate({"debaters": given}).debaters]


@pytest.mark.parametrize(
    "given",
    [
        [],
        [{}],
        [{}, {}, {}],
        [{"name": "negative"}, {"name": "affirmative"}],
        [{"name": "pro"}, {"name": "con"}],
        2,
        "both",
        None,
        [1, 2],
    ],
)
def test_invalid_sides_are_refused(given: Any) -> None:
    with pytest.raises(ValidationError, match="debaters"):
        names_of_sides(given)
