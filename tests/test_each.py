"""A table of cases runs as one test."""

from __future__ import annotations

import pytest

from tests.each import each


def fail_or_skip(row: str) -> None:
    assert row != "wrong", "this row failed"
    pytest.skip("no model")


def test_a_skip_does_not_hide_the_failure_of_an_earlier_row() -> None:
    with pytest.raises(pytest.fail.Exception, match="1 of 2 cases(?s:.*)this row failed"):
        each("row", ["wrong", "skipped"])(fail_or_skip)()
    with pytest.raises(pytest.skip.Exception):
        each("row", ["skipped", "wrong"])(fail_or_skip)()
