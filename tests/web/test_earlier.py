"""Whether a claim was checked before: the user's own debates, published fact checks, and what a terminal shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from moot.cli.earlier import tell_earlier_checks
from moot.transcript.report.head import warnings_of_verdict
from moot.transcript.report.names import Names
from moot.web import debates
from moot.web.earlier import ALIKE, checked_before, in_words, own_checks
from moot.web.kept import current_user
from moot.web.repeats import similarity
from moot.web.reviews import decide

from tests.retrievers.conftest import Serve, serve  # noqa: F401
from tests.retrievers.vendors import CHECKED, FACT_CHECKS, REVIEW, starter
from tests.web.documents import a_debate

CLAIM = "Lake Baikal is 5,000 metres deep."


def test_similarity_is_the_share_of_common_words() -> None:
    # Lake, Baikal, 000, metres and deep are common; 5 and 6 are not.
    assert similarity(CLAIM, "Lake Baikal is 6,000 metres deep.") == pytest.approx(5 / 7)
    assert similarity(CLAIM, "The moon is made of cheese.") == 0
    assert similarity("Is it?", " is it? ") == 1


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("Vaccines cause autism.", "Autism is caused by vaccines.", True),
        ("Bridges in Rome are older than those in Paris.", "The bridges of Rome are older than those of Paris.", True),
        ("Vaccines cause autism.", "Vaccines contain aluminium salts.", False),
        ("贝加尔湖深五千米。", "贝加尔湖的深度是五千米。", True),
        ("贝加尔湖深五千米。", "月亮是奶酪做的。", False),
    ],
)
def test_one_claim_in_other_words_is_found(one: str, other: str, alike: bool) -> None:
    assert (similarity(one, other) >= ALIKE) == alike


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))


async def test_an_own_check_has_the_editors_rating_once_it_is_approved() -> None:
    document = await a_debate() | {"models": {"judge": {"model": "openai:stub", "reported": []}}, "claim": CLAIM}
    id = debates.save(document)
    read = [one.kind for one in warnings_of_verdict(document, Names(document))]
    words = {"rating": "Half true", "title": "Not quite", "summary": "It is not so deep.", "acknowledged": read}
    decide(id, "approve", words, person="Ada")
    [[found]] = own_checks([CLAIM])
    assert (found["verdict"], found["title"]) == ("Half true", "Not quite")
    decide(id, "withdraw", {"to_readers": "We erred."}, person="Ada")
    [[found]] = own_checks([CLAIM])
    assert (found["verdict"], found["title"]) == ("withdrawn", "")


async def test_own_checks_are_found_and_only_the_users_own() -> None:
    document = await a_debate() | {"models": {"judge": {"model": "openai:stub", "reported": []}}}
    others = ["Lake Baikal is 5,000 metres deep, they say.", "Lake Baikal freezes in January.", "The moon is cheese."]
    ids = [debates.save({**document, "claim": claim}) for claim in (CLAIM, *others)]
    [found] = own_checks([CLAIM])
    assert [one["id"] for one in found] == ids[:2]
    assert (found[0]["claim"], found[0]["verdict"], found[0]["by"]) == (CLAIM, document["answer"], "")
    token = current_user.set("ann")
    try:
        assert own_checks([CLAIM]) == [[]]
        debates.save({**document, "claim": CLAIM})
        assert len(own_checks([CLAIM])[0]) == 1
    finally:
        current_user.reset(token)


async def test_published_fact_checks_are_shown_if_there_is_a_key(
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [unknown] = await checked_before([CLAIM])
    assert (unknown["checks"], unknown["problem"]) == ([], "")
    forged = {"text": "x", "claimReview": [REVIEW | {"url": "javascript:alert(1)"}]}
    reply = json.dumps({"claims": [CHECKED, forged]})
    await starter(serve, monkeypatch)(FACT_CHECKS, found={"/v1alpha1/claims:search": reply})
    [found] = await checked_before([CLAIM])
    first, second = found["checks"]
    assert (first["by"], first["verdict"], first["date"]) == ("Lake Facts", "False", "2024-03-01")
    assert (first["title"], first["url"]) == (REVIEW["title"], REVIEW["url"])
    assert second["url"] == ""
    assert in_words(first).endswith(f"({REVIEW['title']}, {REVIEW['url']})")
    assert in_words(second).endswith(f"({REVIEW['title']}, without an address)")


async def test_a_service_that_fails_is_named_and_does_not_end_the_check(
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await starter(serve, monkeypatch)(FACT_CHECKS, found={"/v1alpha1/claims:search": "<html>"})
    [found] = await checked_before([CLAIM])
    assert found["checks"] == []
    assert "cannot be read" in found["problem"]


def test_a_terminal_is_told_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    import asyncio

    document = asyncio.run(a_debate()) | {"models": {"judge": {"model": "openai:stub", "reported": []}}}
    id = debates.save({**document, "claim": f"{CLAIM}\x1b[31m"})
    debates.save({**document, "claim": f"{CLAIM} Demonstration.", "models": {"a": {"model": "fake:1", "reported": []}}})
    tell_earlier_checks([CLAIM])
    out, err = capsys.readouterr()
    assert out == ""
    assert f"moot show {id[-32:][:8]}" in err
    assert CLAIM in err
    assert "\x1b" not in err
    assert "Demonstration" not in err
