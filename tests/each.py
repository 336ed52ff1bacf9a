"""A table of cases as one test instead of hundreds of parametrized tests."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]


def each(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, but one test runs all rows; its failure names every row that failed."""
    cases = [dict(zip(names, row, strict=True)) if isinstance(names, tuple) else {names: row} for row in rows]
    assert cases

    def decorate(test: Test) -> Test:
        @wraps(test)
        def run_all(**fixtures: Any) -> None:
            failures = []
            for case in cases:
                try:
                    test(**case, **fixtures)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 (reported below)
                    failures.append(f"{case!r}\n{type(error).__name__}: {error}")
            if failures:
                pytest.fail("\n\n".join([f"{len(failures)} of {len(cases)} cases", *failures]), pytrace=False)

        left = [p for p in inspect.signature(test).parameters.values() if p.name not in cases[0]]
        run_all.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]
        return run_all

    return decorate
