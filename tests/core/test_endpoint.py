"""Addresses are shown without the user's name and password."""

from __future__ import annotations

import pytest
from moot.core.endpoint import check_address, without_user
from moot.core.errors import UserError


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


@pytest.mark.parametrize("address", ["http://me:w#rd@host.test/v1", "http://me:w/rd@:1/v1", "ftp://me:w?rd@host.test"])
def test_the_error_for_an_invalid_address_shows_no_password(address: str) -> None:
    with pytest.raises(UserError, match="not a web address") as raised:
        check_address(address, "OPENAI_BASE_URL")
    assert "rd" not in str(raised.value.detail).split("which")[0]
