"""One server of each kind for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.security.servers import Target, running_target
from tests.service.running import missing_requirements


@pytest.fixture(scope="package", params=["serve", "dev", "service"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Each server that ships. The service is skipped if its requirements are missing."""
    if request.param == "service" and missing_requirements():
        pytest.skip(missing_requirements())
    with running_target(request.param, tmp_path_factory.mktemp(request.param)) as found:
        yield found
