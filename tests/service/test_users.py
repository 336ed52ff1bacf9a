"""The service's file of users, their sessions, the corpora that they may read, and the service's variables."""

from __future__ import annotations

import hashlib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.graphs._registry import INSTALLED
from moot.service.config import environment
from moot.service.quotas import check_corpora, check_prices
from moot.service.users import User, Users, read_users

from tests.installed.package import EXAMPLE

DIGEST = hashlib.sha256(b"a token").hexdigest()
OTHER = hashlib.sha256(b"another token").hexdigest()


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "names no user"),
        ("[ann", "not valid TOML"),
        ("[ann]", "ann.token_sha256: Field required"),
        ('[ann]\ntoken_sha256 = "1234"', "64 hexadecimal digits"),
        (f'[Ann]\ntoken_sha256 = "{DIGEST}"', "'Ann' is not a name"),
        (f'[system]\ntoken_sha256 = "{DIGEST}"', "'system' is not a name"),
        (f'[ann]\ntoken_sha256 = "{DIGEST}"\ncolour = "red"', "ann has the unknown field 'colour'"),
        (f'[ann]\ntoken_sha256 = "{DIGEST}"\n[bob]\ntoken_sha256 = "{DIGEST}"', "the same token"),
    ],
)
def test_an_invalid_file_of_users_is_refused(
    content: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "users.toml").write_text(content)
    monkeypatch.setenv("MOOT_USERS", str(tmp_path / "users.toml"))
    with pytest.raises(UserError, match=fault):
        read_users()


def test_the_file_named_by_the_variable_moot_users_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOOT_USERS", raising=False)
    assert read_users() is None  # without the variable, there are no users
    monkeypatch.setenv("MOOT_USERS", "/nowhere/users.toml")
    with pytest.raises(UserError, match="cannot be read"):
        read_users()


def test_who_may_approve_sees_the_checks_of_the_same_house() -> None:
    users = Users(
        {
            "ann": User(DIGEST, approves=True),
            "bob": User(OTHER),
            "cid": User("c", approves=True, house="daily"),
            "dee": User("d", house="daily"),
        }
    )
    assert {name: {*users.colleagues_of(name)} for name in users.by_name} == {
        "ann": {"bob"},
        "bob": set(),
        "cid": {"dee"},
        "dee": set(),
    }


def test_a_session_expires_and_cannot_be_forged() -> None:
    users = Users({"ann": User(DIGEST), "bob": User(OTHER)})
    assert (users.user_of_token(b"a token"), users.user_of_token(b"no token")) == ("ann", None)
    cookie = users.session_cookie("ann", 60)
    assert users.user_of_session(cookie) == "ann"
    name, until, signature = cookie.split(".")
    assert users.user_of_session(f"{name}.{int(until) + 60}.{signature}") is None
    assert users.user_of_session(cookie.replace("ann.", "bob.")) is None
    assert users.user_of_session(users.session_cookie("ann", -1)) is None
    assert Users({"ann": User(OTHER)}).user_of_session(cookie) is None  # Ann has a new token now
    for odd in ("", "ann", "ann..", f"ann.x.{signature}", f"ann.{until}.é"):
        assert users.user_of_session(odd) is None


@pytest.mark.parametrize(
    "body",
    [
        {"context": {"corpus": "law"}},
        {"context": {"sources": ["hybrid:law"]}},
        {"config": {"configurable": {"debaters": [{"name": "a", "retriever": "bm25:law"}]}}},
        [{"context": {}}, {"context": {"fallback": ["chroma:law"]}}],
    ],
)
def test_a_user_with_a_list_of_corpora_may_read_only_listed_corpora(body: object) -> None:
    with pytest.raises(UserError, match="may not read the corpus 'law'"):
        check_corpora(body, User(DIGEST, corpora=("press",)))
    check_corpora(body, User(DIGEST, corpora=("press", "law")))
    check_corpora(body, User(DIGEST))
    check_corpora({"input": {"claim": "bm25:law"}}, User(DIGEST, corpora=("press",)))


async def test_the_model_of_moot_model_needs_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is checked for the systems of installed packages, too."""
    monkeypatch.setenv("MOOT_MODEL", "openai:stub")
    point = EntryPoint("chaired", "chaired_debate.debate:graph", "moot.graphs")
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.setattr(INSTALLED, "_points", {"chaired": [point]})
    monkeypatch.setattr(INSTALLED, "_loaded", {})
    client: Any = None  # unused, because the request names a graph
    with pytest.raises(UserError, match="No price is known for openai:stub"):
        await check_prices({"assistant_id": "chaired", "input": {"claim": "Bees fly."}}, client)


def test_the_error_names_the_missing_or_invalid_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOOT_DATABASE", raising=False)
    with pytest.raises(UserError, match="MOOT_DATABASE is not set"):
        environment(Path("aegra.json"), 1)
    for wrong in ("mysql://x", "postgresql"):
        monkeypatch.setenv("MOOT_DATABASE", wrong)
        with pytest.raises(UserError, match="MOOT_DATABASE does not begin with postgresql://"):
            environment(Path("aegra.json"), 1)
    monkeypatch.setenv("MOOT_DATABASE", "postgresql://x/y")
    monkeypatch.setenv("REDIS_URL", "")
    with pytest.raises(UserError, match="REDIS_URL is not set"):
        environment(Path("aegra.json"), 1)
    monkeypatch.setenv("REDIS_URL", "redis://x")
    assert environment(Path("aegra.json"), 0)["WORKER_COUNT"] == "0"
