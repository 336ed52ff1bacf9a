"""Every row of the table of attacks is refused by every server that ships."""

from __future__ import annotations

import re

import pytest

from tests.each import each
from tests.security.rows import ROWS, Row
from tests.security.servers import SECRET, Target

pytestmark = pytest.mark.timeout(600)


@each("row", ROWS)
def test_a_caller_is_refused(target: Target, row: Row) -> None:
    status, answer = target.send(row.method, row.path, row.body, row.headers)
    if target.name in row.missing:
        assert status >= 400
    else:
        assert status in row.statuses, answer[:1000]
        assert re.search(row.answers, answer), answer[:1000]
    assert not target.mark.exists(), "a module was imported"
    assert target.inner.visits == [], "a private address was called"
    assert SECRET not in answer
