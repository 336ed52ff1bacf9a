"""Removes secrets from errors, documents and traces before they are shown, stored or sent.

`redact` hides the values of the environment's keys in a text. `hide_secrets` also hides the values of fields whose name
marks a secret (``api_key``, ``authorization``). In texts, it also hides key-like strings, values that follow such a
name, and the user names and passwords in addresses. LangSmith's own rules are not used: one of them takes quadratic
time, which would be hours for a hostile document.
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
"""Names of variables that hold keys. Names of AWS's other variables (``AWS_REGION``, ``AWS_PROFILE``) do not match,
because the values of these variables occur in ordinary texts.
"""
HEADERS = "OPENAI_CUSTOM_HEADERS"
"""The variable with headers for each request to a model. Each line is a header: ``name: value``."""
FILE_NAME = re.compile(r"(?:~|\.{0,2}|[A-Za-z]:)[/\\][^\n{]*\.\w{1,8}")
"""The path of a file, as in ``GOOGLE_APPLICATION_CREDENTIALS``. Paths are not secret, and error texts need them."""
PASSWORD = re.compile(r"://[^:/@\s]*:([^/\s]+)@")
"""A user's password in an address."""

T = TypeVar("T")

Keys = tuple[tuple[str, str], ...]
"""Secret texts, each with its replacement."""


def environment_keys() -> Keys:
    """The keys in the environment in all their spellings, the longest first; also passwords in addresses."""
    return _find_keys(tuple(os.environ.items()))


@lru_cache(maxsize=1)
def _find_keys(variables: tuple[tuple[str, str], ...]) -> Keys:
    """The secrets in environment variables, with their replacements."""
    secrets = {
        part: name for name, value in variables if KEY_NAME.fullmatch(name) for part in _secret_parts(value.strip())
    }
    passwords = {user[1]: name for name, value in variables if (user := PASSWORD.search(value))}
    secrets |= passwords | {unquote(password): name for password, name in passwords.items()}
    secrets |= dict.fromkeys(_secret_headers(dict(variables).get(HEADERS, "")), HEADERS)
    forms = {form: name for secret, name in secrets.items() if len(secret) >= 8 for form in _spellings(secret)}
    longest_first = sorted(forms, key=len, reverse=True)  # so that a key is replaced before a key that is its prefix
    return tuple((form, f"[{forms[form]}]") for form in longest_first)


def _secret_headers(lines: str) -> Iterator[str]:
    """The last word of each secret header's value; earlier words, such as ``Bearer``, name a scheme."""
    for line in lines.splitlines():
        name, _, value = line.partition(":")
        if _marks_secret(name.strip()) and value.split():
            yield value.split()[-1]


def _spellings(key: str) -> tuple[str, ...]:
    """A key unchanged, percent-encoded for addresses, and escaped for JSON."""
    return key, quote(key, safe=""), quote_plus(key), json.dumps(key)[1:-1], json.dumps(key, ensure_ascii=False)[1:-1]


def _secret_parts(value: str) -> list[str]:
    """The whole value and, if it is a JSON object, its secret texts; nothing if the value is the path of a file."""
    if FILE_NAME.fullmatch(value):
        return []
    if not value.startswith("{"):
        return [value]
    try:
        fields: dict[str, Any] = json.loads(value)
    except (ValueError, RecursionError):
        return [value]
    secret = [field for name, field in fields.items() if isinstance(field, str) and _marks_secret(name)]
    return [value, *secret]


def redact(text: str, keys: Keys | None = None) -> str:
    """A text without the values of the environment's keys (endpoints often echo them), or of these ``keys``."""
    for value, replacement in environment_keys() if keys is None else keys:
        text = text.replace(value, replacement)
    return text


def hide_environment_keys(value: T, keys: Keys) -> T:
    """Plain data without the values of the environment's keys; other objects, such as tuples, are unchanged."""
    if not keys:
        return value
    # Unlike `hide_secrets`, this keeps text that only looks like a key: debates may be about it. Quotes still match,
    # because replies and sources both pass through here before other code reads them.
    if isinstance(value, str):
        return cast(T, redact(value, keys))
    if isinstance(value, dict):
        return cast(
            T, {hide_environment_keys(name, keys): hide_environment_keys(item, keys) for name, item in value.items()}
        )
    return cast(T, [hide_environment_keys(item, keys) for item in value]) if isinstance(value, list) else value


# --- traces -----------------------------------------------------------------------------------------------------------

HIDDEN = "[hidden]"

SECRET_NAME = re.compile(
    r"(?:(?:[-_]|api)key|token|secret|passw(?:or)?d|passphrase|authorization|cookie|credentials?|[-_]pat)$",
    re.IGNORECASE,
)
"""The end of the name of a field or a header whose texts are secrets."""
SHAPES = (
    re.compile(r"()\b(?:(?:sk|pk|rk|tvly|glpat|xox[abps])[-_]|lsv2_|ls__|hf_|gh[opsu]_|github_pat_)[\w-]{16,}"),
    re.compile(r"()\b(?:A[KS]IA[0-9A-Z]{16}|AIza[\w-]{35})"),
    re.compile(r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)[^-]{16,}"),
)
"""Patterns of keys that are recognisable by their form. The first group of a match is not hidden, as in `SECRETS`."""
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
"""Patterns of secrets in a text. The first group of a match stays; the rest is hidden. Each pattern takes linear time.
"""

PLAIN = (Number, date, UUID, type(None))
"""Types whose values are never hidden."""
SHORTEST = 8
"""Minimum number of characters of a text that is searched for secrets."""


def hide_secrets(value: Any, keys: Keys | None = None) -> Any:
    """A copy of plain data without secrets; other objects are replaced by their `repr` without secrets."""
    return _hide_secrets(value, environment_keys() if keys is None else keys, secret=False)


def _hide_secrets(value: Any, keys: Keys, *, secret: bool) -> Any:
    """The same as `hide_secrets`, but if ``secret`` is true, all texts in the data are hidden."""
    if isinstance(value, str):
        return HIDDEN if secret and value else _hide_secrets_in_text(value, keys)
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, Mapping):
        return {
            _hide_secrets_in_text(str(name), keys): _hide_secrets(item, keys, secret=secret or _marks_secret(str(name)))
            for name, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_hide_secrets(item, keys, secret=secret) for item in value]
    return _hide_secrets(repr(value), keys, secret=secret)


def _hide_secrets_in_text(text: str, keys: Keys) -> str:
    """Hides all secrets in a text of at least `SHORTEST` characters; shorter texts are unchanged."""
    return text if len(text) < SHORTEST else _hide_secrets_in_long_text(text, keys)


@lru_cache(maxsize=1000)
def _marks_secret(name: str) -> bool:
    """Whether the name of a field or a header marks a secret."""
    return bool(SECRET_NAME.search(name))


@lru_cache(maxsize=1000)
def _hide_secrets_in_long_text(text: str, keys: Keys) -> str:
    """Hides all secrets in a text; cached, because the traces of one debate contain the same texts many times."""
    text = redact(text, keys)
    for secret in SECRETS:
        text = secret.sub(rf"\g<1>{HIDDEN}", text)
    return text
