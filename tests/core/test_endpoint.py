"""Addresses are shown without the user's name and password."""

from __future__ import annotations

import pytest
from moot.core.endpoint import without_user


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://me:word@host.test/v1", "http://host.test/v1"),
        ("http://me:w@rd@host.test/v1", "http://host.test/v1"),
        ("https://host.test?mail=me@host.test", "https://host.test?mail=me@host.test"),
        ("http://host.test/@me", "http://host.test/@me"),
    ],
)
def test_an_address_is_shown_without_user_and_password(address: str, shown: str) -> None:
    assert without_user(address) == shown
