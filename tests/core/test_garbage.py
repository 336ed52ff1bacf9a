import gc
from collections.abc import Iterator

import pytest
from moot.core.garbage import EVERY, collected_seldom
from moot.web.app import app
from starlette.testclient import TestClient


@pytest.fixture(autouse=True)
def as_python_has_it() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_only_within_it_is_garbage_collected_seldom() -> None:
    with collected_seldom():
        assert gc.get_threshold() == (EVERY, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_the_last_that_leaves_it_restores_what_was() -> None:
    first, second = collected_seldom(), collected_seldom()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold()[0] == EVERY
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("chosen", [(0, 10, 10), (2 * EVERY, 5, 5)])
def test_a_collector_that_is_off_or_rarer_stays_so(chosen: tuple[int, int, int]) -> None:
    gc.set_threshold(*chosen)
    with collected_seldom():
        assert gc.get_threshold() == chosen


def test_the_server_does_so_as_long_as_it_runs() -> None:
    with TestClient(app):
        assert gc.get_threshold()[0] == EVERY
    assert gc.get_threshold()[0] == 700
