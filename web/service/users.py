"""Who may use the service: ``MOOT_USERS`` names a TOML file with a table for each user.

.. code-block:: toml

    [ann]
    token_sha256 = "..."       # printf %s "$TOKEN" | sha256sum
    corpora = ["press"]        # those that she may read; without it all
    debates_a_day = 100
    usd_a_day = 5.0

A session's cookie holds who it is and until when, signed with the hash of the user's token: every process knows it, and
none does once the token was changed.
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
"""Names that no user has: Aegra calls the owner of what all have in common so."""
DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class User:
    """A user, as the file has them.

    Args:
        token_sha256: the SHA-256 of the token, in hexadecimal digits.
        corpora: those that the user may read; None for all.
        debates_a_day: how many may be begun within 24 hours; None for any number.
        usd_a_day: how many USD debates of 24 hours may have cost before a further one is begun; None for any.
    """

    token_sha256: str
    corpora: tuple[str, ...] | None = None
    debates_a_day: int | None = None
    usd_a_day: float | None = None


@dataclass(frozen=True)
class Users:
    """The users, by name."""

    by_name: Mapping[str, User]
    _by_digest: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_digest", {user.token_sha256: name for name, user in self.by_name.items()})

    def of_token(self, token: bytes) -> str | None:
        """The user who has a token."""
        return self._by_digest.get(hashlib.sha256(token).hexdigest())

    def session(self, name: str, seconds: int) -> str:
        """What the cookie of a new session holds."""
        until = int(time.time()) + seconds
        return f"{name}.{until}.{self._signed(name, until)}"

    def of_session(self, cookie: str) -> str | None:
        """The user of a session; None if it is none, or is over."""
        name, _, rest = cookie.partition(".")
        until, _, signature = rest.partition(".")
        if name not in self.by_name or not re.fullmatch(r"[0-9]{1,12}", until) or int(until) < time.time():
            return None
        return name if hmac.compare_digest(signature.encode(), self._signed(name, int(until)).encode()) else None

    def _signed(self, name: str, until: int) -> str:
        key = self.by_name[name].token_sha256.encode()
        return hmac.new(key, f"moot session {name} {until}".encode(), "sha256").hexdigest()


def read_users() -> Users | None:
    """The users that ``MOOT_USERS`` names; None if it is not set. Blocking.

    Raises:
        UserError: the file cannot be read, or a table is none of a user.
    """
    if not (named := os.environ.get(USERS, "").strip()):
        return None
    try:
        said = tomllib.loads(Path(named).read_text(encoding="utf-8"))
        users = TypeAdapter(dict[str, User]).validate_python(said)
    except OSError as error:
        raise _fault(f"the file cannot be read ({error.strerror})") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise _fault(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except ValueError as error:
        raise _fault(f"the file is no valid TOML ({error})") from error
    known = set(User.__dataclass_fields__)
    for name, user in users.items():
        if not NAME.fullmatch(name) or name in RESERVED:
            raise _fault(
                f"{name[:40]!r} is no name: lower-case letters, digits, - and _, up to 40; not {' or '.join(RESERVED)}"
            )
        if unknown := {*said[name]} - known:
            raise _fault(f"{name} has {sorted(unknown)[0]!r}; known are {', '.join(sorted(known))}")
        if not DIGEST.fullmatch(user.token_sha256):
            raise _fault(f"the token_sha256 of {name} has to be 64 hexadecimal digits, in lower case")
    if not users:
        raise _fault("the file names nobody")
    if len({user.token_sha256 for user in users.values()}) < len(users):
        raise _fault("two users have the same token")
    return Users(users)


def _fault(problem: str) -> UserError:
    return UserError(f"{USERS}: {problem}.", kind="invalid_environment")
