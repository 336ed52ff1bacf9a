"""A decorator that runs a table of cases as one test."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]


def each(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, but one test runs all rows; its failure names every row that failed.

    The rows share the test's fixtures. If a row skips the test, the remaining rows do not run, and the test is skipped
    unless an earlier row failed.

    Args:
        names: the name of one parameter, or a tuple of names.
        rows: the rows, at least one. A row is a value of the parameter. For a tuple of names, a row is a tuple with a
            value for each name.
    """
    cases = [dict(zip(names, row, strict=True)) if isinstance(names, tuple) else {names: row} for row in rows]
    assert cases

    def decorate(test: Test) -> Test:
        @wraps(test)
        def run_all(**fixtures: Any) -> None:
            failures: list[str] = []
            for case in cases:
                try:
                    test(**case, **fixtures)
                except pytest.skip.Exception:
                    if not failures:
                        raise
                    break
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 (reported below)
                    failures.append(f"{case!r}\n{type(error).__name__}: {error}")
            if failures:
                pytest.fail("\n\n".join([f"{len(failures)} of {len(cases)} cases", *failures]), pytrace=False)

        fixture_parameters = [p for p in inspect.signature(test).parameters.values() if p.name not in cases[0]]
        run_all.__signature__ = inspect.Signature(fixture_parameters)  # type: ignore[attr-defined]
        return run_all

    return decorate
