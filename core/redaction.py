"""Keeps keys out of what is shown, stored or sent: errors, documents, traces.

What is hidden: the values of keys that the environment holds, wherever they stand; what a field holds whose name says
that it is a secret (``api_key``, ``authorization``); and in any text what looks like a key, a value given to such a
name, or a user in an address. LangSmith's own rules are not used: one of them takes quadratic time, which a document
that somebody else wrote can turn into hours.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from datetime import date
from functools import lru_cache
from numbers import Number
from typing import Any, TypeVar, cast
from urllib.parse import quote, quote_plus, unquote
from uuid import UUID

KEY_NAME = re.compile(
    r".*_(?:KEY|TOKEN|SECRET|PASSPHRASE|CREDENTIALS?|PAT|PASS|PWD)|.*(?:APIKEY|PASSWORD|PASSWD)"
    r"|AWS_(?!.*_FILE$).*(?:KEY|TOKEN|SECRET|CREDENTIALS).*",
    re.IGNORECASE,
)
"""Names of variables that hold keys. Of AWS's, most hold none (``AWS_REGION``, ``AWS_PROFILE``), and stand in texts."""
HEADERS = "OPENAI_CUSTOM_HEADERS"
"""The variable whose lines are headers that go with each request: ``name: value``."""
FILE_NAME = re.compile(r"(?:~|\.{0,2}|[A-Za-z]:)[/\\][^\n{]*\.\w{1,8}")
"""A path, such as ``GOOGLE_APPLICATION_CREDENTIALS`` holds: no secret, and error texts need it."""
PASSWORD = re.compile(r"://[^:/@\s]*:([^/\s]+)@")
"""A user's password in an address."""

T = TypeVar("T")

Keys = tuple[tuple[str, str], ...]
"""Texts that are not to be shown, each with what is shown instead."""


def held_keys() -> Keys:
    """The keys that the environment holds, in all forms in which addresses and JSON write them; longest first.

    A user's password in an address (``OPENAI_BASE_URL``, a proxy's) is one, too, and so is what a header of
    ``OPENAI_CUSTOM_HEADERS`` holds whose name says that it is a secret.
    """
    variables = list(os.environ.items())  # each look into the environment takes a while
    named = {part: name for name, value in variables if KEY_NAME.fullmatch(name) for part in _parts(value.strip())}
    named |= {unquote(user[1]): name for name, value in variables if (user := PASSWORD.search(value))}
    named |= dict.fromkeys(_secret_headers(os.environ.get(HEADERS, "")), HEADERS)
    forms = {form: n for v, n in named.items() if len(v) >= 8 for form in _written(v)}
    return tuple((form, f"[{forms[form]}]") for form in sorted(forms, key=len, reverse=True))  # one may begin another


def _secret_headers(lines: str) -> Iterator[str]:
    """What secret headers hold, without the scheme before it (``Bearer``)."""
    for line in lines.splitlines():
        name, _, value = line.partition(":")
        if _is_secret(name.strip()) and value.split():
            yield value.split()[-1]


def _written(key: str) -> tuple[str, ...]:
    return key, quote(key, safe=""), quote_plus(key), json.dumps(key)[1:-1], json.dumps(key, ensure_ascii=False)[1:-1]


def _parts(value: str) -> list[str]:
    """What is secret of a key: all of it; of credentials in JSON the secret fields, too; of a path nothing."""
    if FILE_NAME.fullmatch(value):
        return []
    if not value.startswith("{"):
        return [value]
    try:
        fields: dict[str, Any] = json.loads(value)
    except (ValueError, RecursionError):
        return [value]
    secret = [of for name, of in fields.items() if isinstance(of, str) and _is_secret(name)]
    return [value, *secret]


def redact(text: str, keys: Keys | None = None) -> str:
    """The text without the value of any key that the environment holds (endpoints like to echo them).

    Args:
        text: what may hold keys.
        keys: as `held_keys` gives them, where many texts are looked through.
    """
    for value, shown in held_keys() if keys is None else keys:
        text = text.replace(value, shown)
    return text


def without_keys(value: T, keys: Keys) -> T:
    """Plain data without the value of any key that the environment holds; objects of other kinds stay as they are.

    What models say and what sources find passes it before anybody else reads it, and both in the same way: so quotes
    still match. Other than `anonymised` it hides nothing that only looks like a key: debates may be about such texts.

    Args:
        value: a text, or lists and dicts with texts.
        keys: as `held_keys` gives them; without any, the value comes back as it is.
    """
    if not keys:
        return value
    if isinstance(value, str):
        return cast(T, redact(value, keys))
    if isinstance(value, dict):
        return cast(T, {without_keys(name, keys): without_keys(of, keys) for name, of in value.items()})
    return cast(T, [without_keys(of, keys) for of in value]) if isinstance(value, list) else value


# --- traces -----------------------------------------------------------------------------------------------------------

HIDDEN = "[hidden]"

SECRET_NAME = re.compile(
    r"(?:(?:[-_]|api)key|token|secret|passw(?:or)?d|passphrase|authorization|cookie|credentials?|[-_]pat)$",
    re.IGNORECASE,
)
"""Names of fields whose texts are secrets."""
SHAPES = (
    re.compile(r"()\b(?:(?:sk|pk|rk|tvly|glpat|xox[abps])[-_]|lsv2_|ls__|hf_|gh[opsu]_|github_pat_)[\w-]{16,}"),
    re.compile(r"()\b(?:A[KS]IA[0-9A-Z]{16}|AIza[\w-]{35})"),
    re.compile(r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)[^-]{16,}"),
)
"""What is a key by its own shape, as others of `SECRETS`."""
SECRETS = (
    *SHAPES,
    re.compile(r"(\bbearer\s{1,9})(?=\S{0,200}\d)[\w.~+/=-]{16,}", re.IGNORECASE),
    re.compile(
        r"((?<![a-z0-9])(?:(?:api|access|secret|private)[-_]?key|token|secret|password|passwd|authorization)[\"']?"
        r"\s{0,9}[=:]\s{0,9}[\"']?(?:(?:basic|bearer|token)\s{1,9})?)[^\s\"'&,;]{6,}",
        re.IGNORECASE,
    ),
    re.compile(r"(://)[^\s/]+(?=@)"),
)
"""What looks like a secret in a text, after what may stay of it. Each takes time in proportion to the text."""

PLAIN = (Number, date, UUID, type(None))
SHORTEST = 8
"""Characters of the shortest text that is looked at."""


def anonymised(value: Any, keys: Keys | None = None) -> Any:
    """A copy of plain data in which nothing is a key any more; of other objects what `repr` says.

    Args:
        value: what is sent.
        keys: as `held_keys` gives them, by default the environment's of this moment.
    """
    return _without(value, held_keys() if keys is None else keys, secret=False)


def _without(value: Any, keys: Keys, *, secret: bool) -> Any:
    if isinstance(value, str):
        return HIDDEN if secret and value else _text(value, keys)
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, Mapping):
        return {
            _text(str(name), keys): _without(of, keys, secret=secret or _is_secret(str(name)))
            for name, of in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_without(of, keys, secret=secret) for of in value]
    return _without(repr(value), keys, secret=secret)


def _text(text: str, keys: Keys) -> str:
    return text if len(text) < SHORTEST else _looked_through(text, keys)


@lru_cache(maxsize=1000)
def _is_secret(name: str) -> bool:
    return bool(SECRET_NAME.search(name))


@lru_cache(maxsize=1000)
def _looked_through(text: str, keys: Keys) -> str:
    """Kept, as the runs of one debate hold the same texts many times."""
    text = redact(text, keys)
    for secret in SECRETS:
        text = secret.sub(rf"\g<1>{HIDDEN}", text)
    return text
