"""Secrets are hidden in traces, errors and other texts."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, quote_plus
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.core.redaction import HIDDEN, environment_keys, hide_environment_keys, hide_secrets, redact

from tests.each import each

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Incorrect key sk-proj-abcdefghijklmnop1234.", f"Incorrect key {HIDDEN}."),
        ("GET https://me:secret@host.test/v1?q=1 failed", f"GET https://{HIDDEN}@host.test/v1?q=1 failed"),
        ("POST /search?api_key=abcdef123&q=bees", f"POST /search?api_key={HIDDEN}&q=bees"),
        ("{'Authorization': 'Bearer abc.def'}", f"{{'Authorization': 'Bearer {HIDDEN}'}}"),
        ("sent Bearer abcdefghijklmnop1 to it", f"sent Bearer {HIDDEN} to it"),
        ("tavily said: tvly-dev-abcdefghijklmnop", f"tavily said: {HIDDEN}"),
        ("Risk-averse bees; the key is in the token economy: see p. 3.", None),
        ("ls_tracing_sample_rate, ls_structured_output_format, task-oriented-dialogue-systems", None),
        ("mail me@host.test, or read //comments and https://host.test/a", None),
    ],
)
def test_only_parts_of_a_text_that_look_like_secrets_are_hidden(text: str, expected: str | None) -> None:
    assert hide_secrets({"text": [text]}) == {"text": [expected or text]}


def test_texts_in_fields_with_names_of_secrets_are_hidden() -> None:
    headers = {"X-Api-Key": "a", "authorization": ["b", "c"], "Set-Cookie": "d", "accept": "json"}
    assert hide_secrets({"headers": headers}) == {
        "headers": {"X-Api-Key": HIDDEN, "authorization": [HIDDEN, HIDDEN], "Set-Cookie": HIDDEN, "accept": "json"}
    }
    plain = {"key": "score", "max_tokens": 5, "tokens": {"input": 3}, "keywords": ["bees"], "token": None}
    assert hide_secrets(plain) == plain


def test_keys_in_custom_headers_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment variable contains the headers. Only values of headers with names of secrets are hidden."""
    lines = "X-Team: biology-lab\nApi-Key: gate-0815-0815\nAuthorization: Bearer ab12cd34"
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", lines)
    shown = redact("biology-lab sent gate-0815-0815, Bearer ab12cd34")
    assert shown == "biology-lab sent [OPENAI_CUSTOM_HEADERS], Bearer [OPENAI_CUSTOM_HEADERS]"


def test_keys_of_the_environment_are_hidden_in_all_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "open sesame/1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:hunter%2F2222@host.test/v1")

    class Odd:
        def __repr__(self) -> str:
            return "Odd(open sesame/1)"

    value = {"open sesame/1": ("see open%20sesame%2F1", "hunter/2222"), "odd": Odd(), "short": "open"}
    shown = ["see [SHOP_PASSWORD]", "[OPENAI_BASE_URL]"]
    assert hide_secrets(value) == {"[SHOP_PASSWORD]": shown, "odd": "Odd([SHOP_PASSWORD])", "short": "open"}


def test_dates_ids_numbers_and_none_are_kept() -> None:
    value: dict[str, Any] = {"at": datetime(2026, 1, 1, tzinfo=UTC), "id": UUID(int=1), "n": 1.5, "none": None}
    assert hide_secrets(value) == value


@given(JSON)
def test_hiding_secrets_a_second_time_changes_nothing(value: Any) -> None:
    once = hide_secrets(value)
    assert hide_secrets(once) == once


@each(
    "part", ["a-", "a.", "sk-", "://", "://a", "a@", "token", "token  ", "token=", "bearer ", "Bearer  1", "eyJ", "'"]
)
def test_secrets_are_hidden_quickly_in_long_repetitive_texts(part: str) -> None:
    # If the time grew with the square of the length, a million characters would exceed the test's timeout.
    assert hide_secrets(part * (1_000_000 // len(part)))


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("MY_SERVICE_CREDENTIALS", "user:pass-word-1", True),
        ("GITHUB_PAT", "0123456789abcdef", True),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG", True),
        ("AWS_ACCESS_KEY_ID", "abcdefgh12345678", True),
        ("AWS_BEARER_TOKEN_BEDROCK", "abcdefgh12345678", True),
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/credentials/4f6a-11", True),
        ("SSH_KEY_PASSPHRASE", "correct horse", True),
        ("PGPASSWORD", "correct horse", True),
        ("SMTP_PASS", "correct horse", True),
        ("DB_PWD", "correct horse", True),
        ("SHOP_APIKEY", "abcdefgh12345678", True),
        ("OLDPWD", "work place", False),
        ("GIT_ASKPASS", "git-prompt", False),
        ("AWS_REGION", "us-east-1", False),
        ("AWS_PROFILE", "production", False),
        ("AWS_SHARED_CREDENTIALS_FILE", "/home/me/.aws/credentials", False),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/secrets/token", False),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/keys/service.json", False),
        ("GOOGLE_APPLICATION_CREDENTIALS", "C:\\keys\\service.json", False),
        ("SHOP_CREDENTIALS", "/bm9/wYXRo+base64ThatBeginsLikeAPath", True),
        ("USE_TOKEN", "true", False),
        ("XPATH", "//div/section", False),
    ],
)
def test_environment_variables_with_secrets_are_recognised(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, hidden: bool
) -> None:
    monkeypatch.setenv(name, value)
    assert redact(f"said {value}.") == (f"said [{name}]." if hidden else f"said {value}.")


def test_a_secret_inside_a_json_variable_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable's whole value is also hidden. A text from a field without a secret is kept."""
    account = {"type": "service_account", "client_email": "me@host.test", "private_key": "-----BEGIN\nabcdefgh"}
    monkeypatch.setenv("SHOP_CREDENTIALS", json.dumps(account))
    assert redact(f"key {account['private_key']} of service_account") == "key [SHOP_CREDENTIALS] of service_account"
    assert redact(json.dumps({"a": account["private_key"]})) == '{"a": "[SHOP_CREDENTIALS]"}'
    assert redact(json.dumps(account)) == "[SHOP_CREDENTIALS]"


KEY = 'open "sesame" über/1'


def test_only_keys_of_the_environment_are_hidden_in_replies_and_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """All spellings of a key are hidden. Text that only looks like a key is kept."""
    monkeypatch.setenv("SHOP_PASSWORD", KEY)
    keys = environment_keys()
    spellings = (KEY, json.dumps(KEY), json.dumps(KEY, ensure_ascii=False), quote(KEY, safe=""), quote_plus(KEY))
    reply: Any = {"content": [{"text": text} for text in spellings], KEY: None, "n": 1.5}
    shown = str(hide_environment_keys(reply, keys))
    assert (shown.count("[SHOP_PASSWORD]"), "sesame" in shown) == (6, False)
    harmless: Any = {
        "text": "the token: sk-proj-abcdefghijklmnop1234 at ssh://git@host.test",
        "number": 1,
        "none": None,
    }
    assert hide_environment_keys(harmless, keys) == harmless
    assert hide_environment_keys(reply, ()) is reply
