"""Fixtures for all tests of evaluations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from inspect_ai._util import package


@pytest.fixture(scope="session", autouse=True)
def _packages_are_listed_once() -> Iterator[None]:
    """Let Inspect list all installed packages only once, instead of once for each task."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(package, "packages_distributions", cache(packages_distributions))
        yield


@pytest.fixture(autouse=True)
def _recovery_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new folder for Inspect's recovery files, so that they are not written to the user's data folder."""
    folder = tmp_path_factory.mktemp("inspect")
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    return folder
