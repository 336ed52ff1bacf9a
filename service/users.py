"""The users of the service: ``MOOT_USERS`` names a TOML file with a table for each user.

.. code-block:: toml

    [ann]
    token_sha256 = "..."       # printf %s "$TOKEN" | sha256sum
    corpora = ["press"]        # corpora that the user may read; default: all
    debates_a_day = 100
    tokens_a_day = 2_000_000
    usd_a_day = 5.0
    approves = true            # may approve checks; default: nobody may
    house = "daily"            # whose checks she sees once they are in review; default: the house of all without one

A session's cookie contains the user's name and the time when the session expires, signed with the hash of the user's
token. Every process can check a cookie. If a user's token changes, the user's cookies become invalid.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from moot.core.errors import UserError
from moot.web.caller import EVERYBODY, USERS
from pydantic import TypeAdapter, ValidationError

NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
RESERVED = (EVERYBODY, "system")
"""Names that no user may have, because they stand for the owners of shared data."""
DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class User:
    """A user in the file that ``MOOT_USERS`` names.

    Args:
        token_sha256: the SHA-256 of the token, in hexadecimal digits.
        corpora: corpora that the user may read; None for all.
        debates_a_day: the maximum number of debates that the user may start within 24 hours; None for no limit.
        tokens_a_day: once the user has spent this many tokens within 24 hours, no further debate may start; None for
            no limit.
        usd_a_day: once the user has spent this many USD within 24 hours, no further debate may start. With this limit,
            models without a price are refused. None for no limit.
        approves: whether the user may approve, correct and withdraw checks, also those of others in the same house
            that are in review or were decided.
        house: the name of the user's house. All users without one are one house.
    """

    token_sha256: str
    corpora: tuple[str, ...] | None = None
    debates_a_day: int | None = None
    tokens_a_day: int | None = None
    usd_a_day: float | None = None
    approves: bool = False
    house: str = ""


@dataclass(frozen=True)
class Users:
    """All users of the service."""

    by_name: Mapping[str, User]
    _by_digest: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_digest", {user.token_sha256: name for name, user in self.by_name.items()})

    def user_of_token(self, token: bytes) -> str | None:
        """The name of the user with this token; None if no user has this token."""
        return self._by_digest.get(hashlib.sha256(token).hexdigest())

    def colleagues_of(self, name: str) -> frozenset[str]:
        """The others whose checks in review this user may see: those of the same house, if the user may approve."""
        user = self.by_name[name]
        others = (other for other, one in self.by_name.items() if one.house == user.house and other != name)
        return frozenset(others) if user.approves else frozenset()

    def session_cookie(self, name: str, seconds: int) -> str:
        """The cookie of a user's new session."""
        until = int(time.time()) + seconds
        return f"{name}.{until}.{self._signature(name, until)}"

    def user_of_session(self, cookie: str) -> str | None:
        """The name of the user whose session has this cookie; None if the cookie is not valid or has expired."""
        name, _, rest = cookie.partition(".")
        until, _, signature = rest.partition(".")
        if name not in self.by_name or not re.fullmatch(r"[0-9]{1,12}", until) or int(until) < time.time():
            return None
        return name if hmac.compare_digest(signature.encode(), self._signature(name, int(until)).encode()) else None

    def end_session(self, cookie: str) -> None:
        """Does nothing: the browser forgets the cookie. Any process accepts it until it expires."""

    def _signature(self, name: str, until: int) -> str:
        key = self.by_name[name].token_sha256.encode()
        return hmac.new(key, f"moot session {name} {until}".encode(), "sha256").hexdigest()


def read_users() -> Users | None:
    """The users in the file that ``MOOT_USERS`` names; None if the variable is not set or blank. Blocking."""
    if not (named := os.environ.get(USERS, "").strip()):
        return None
    try:
        tables = tomllib.loads(Path(named).read_text(encoding="utf-8"))
        users = TypeAdapter(dict[str, User]).validate_python(tables)
    except OSError as error:
        raise _users_error(f"the file cannot be read ({error.strerror})") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise _users_error(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except ValueError as error:
        raise _users_error(f"the file is not valid TOML ({error})") from error
    known = set(User.__dataclass_fields__)
    for name, user in users.items():
        if not NAME.fullmatch(name) or name in RESERVED:
            raise _users_error(
                f"{name[:40]!r} is not a name: a name is a lower-case letter, followed by up to 39 lower-case letters, "
                f"digits, - and _. The names {' and '.join(RESERVED)} are reserved"
            )
        if unknown := {*tables[name]} - known:
            raise _users_error(
                f"{name} has the unknown field {sorted(unknown)[0]!r}; the fields are {', '.join(sorted(known))}"
            )
        if not DIGEST.fullmatch(user.token_sha256):
            raise _users_error(f"the token_sha256 of {name} must be 64 hexadecimal digits in lower case")
    if not users:
        raise _users_error("the file names no user")
    if len({user.token_sha256 for user in users.values()}) < len(users):
        raise _users_error("two users have the same token")
    return Users(users)


def _users_error(problem: str) -> UserError:
    return UserError(f"{USERS}: {problem}.", kind="invalid_environment")
