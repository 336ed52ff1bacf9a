"""A fixture that installs packages of one module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import invalidate_caches
from pathlib import Path

import pytest
from moot.core.installed import Plugins
from moot.evals._benchmarks import catalogue
from moot.graphs import _registry as registry
from moot.retrievers import _search as search

from tests.installed.package import write_package

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """A function that writes a package and clears the caches, as if this process had just started."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    packages = []

    def write_package_and_clear_caches(package: str, module: str = "", **entry_points: str) -> None:
        write_package(tmp_path, package, module, **entry_points)
        packages.append(package)
        invalidate_caches()
        for kind, module_of_kind in (("graph", registry), ("source", search), ("benchmark", catalogue)):
            plugins = module_of_kind.INSTALLED
            monkeypatch.setattr(plugins, "_points", Plugins(kind, (), "invalid_setting")._points)
            monkeypatch.setattr(plugins, "_loaded", {})

    yield write_package_and_clear_caches
    for package in packages:
        sys.modules.pop(package, None)
