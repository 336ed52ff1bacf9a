"""The lock files list the tried versions of all that the extras need, each with hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCKS = {
    "requirements.lock": None,
    "deploy/requirements.lock": {"service", "chroma", "encoders", "anthropic"},
}


def versions(file: str) -> dict[str, str]:
    """The version of each package in a file of requirements."""
    lines = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", (ROOT / file).read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in lines}


@pytest.mark.parametrize("file", LOCKS)
def test_each_package_of_a_lock_has_its_tried_version_and_hashes(file: str) -> None:
    locked, tried = versions(file), versions("constraints.txt")
    assert {name: version for name, version in locked.items() if tried.get(name, version) != version} == {}
    entries = re.split(r"\n(?=\S)", (ROOT / file).read_text())[1:]
    assert len(entries) == len(locked)
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize(("file", "extras"), LOCKS.items())
def test_a_lock_has_every_dependency_of_its_extras(file: str, extras: set[str] | None) -> None:
    """If this fails, run .ci/lock."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    lines = project["dependencies"] + [line for extra in extras or optional for line in optional[extra]]
    needed = {canonicalize_name(Requirement(line).name) for line in lines} - {"moot"}
    assert needed - versions(file).keys() == set()


def test_the_full_lock_has_all_constraints() -> None:
    assert versions("constraints.txt").keys() - versions("requirements.lock").keys() == set()
