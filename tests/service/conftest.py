"""A service that most tests of this folder share, because its start takes half a minute."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import running_stub
from tests.installed.package import install_tutorial
from tests.service.running import Service, running_service


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One web process and two workers. A package that contains a debate system is installed."""
    folder = tmp_path_factory.mktemp("service")
    with running_stub(folder / "stub", latency_ms=300) as stub, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(install_tutorial(folder)))
        with running_service(folder, stub) as found:
            yield found
