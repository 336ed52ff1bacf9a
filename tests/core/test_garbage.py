"""`collected_seldom` raises and restores the garbage collector's threshold; commands end without a final collection."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from moot.core.garbage import ALLOCATIONS, collected_seldom
from moot.web.app import app
from starlette.testclient import TestClient


@pytest.fixture(autouse=True)
def fixed_thresholds() -> Iterator[None]:
    """Start each test with fixed thresholds, and restore the thresholds after it."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_the_threshold_is_raised_only_within_the_context() -> None:
    with collected_seldom():
        assert gc.get_threshold() == (ALLOCATIONS, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_the_last_context_to_exit_restores_the_thresholds() -> None:
    first, second = collected_seldom(), collected_seldom()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold()[0] == ALLOCATIONS
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("thresholds", [(0, 10, 10), (2 * ALLOCATIONS, 5, 5)])
def test_thresholds_of_zero_or_above_the_raised_threshold_stay(thresholds: tuple[int, int, int]) -> None:
    gc.set_threshold(*thresholds)
    with collected_seldom():
        assert gc.get_threshold() == thresholds


def test_the_server_raises_the_threshold_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))  # a home without batches, which the server would resume
    with TestClient(app):
        assert gc.get_threshold()[0] == ALLOCATIONS
    assert gc.get_threshold()[0] == 700


PROGRAM = """
import sys
from moot.cli.main import run
class Link:
    def __del__(self): print("freed")
link = Link()
link.itself = link
sys.argv[1:] = ["--version"]
run()
"""


def test_a_command_ends_without_a_final_garbage_collection() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("moot")
    assert "freed" not in done.stdout
