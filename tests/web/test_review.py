"""An editor's day on one machine: the panel of a check, two editors at once, bad input, and damaged histories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import pytest
import sqlalchemy as sa
from moot.core.errors import UserError
from moot.core.store import open_store
from moot.core.tables import reviews
from moot.transcript.report.head import warnings_of_verdict
from moot.transcript.report.names import Names
from moot.web import debates
from moot.web.reviews import decide

from tests.web.conftest import Served
from tests.web.documents import a_debate, with_evidence

if TYPE_CHECKING:
    from playwright.async_api import Page


async def a_check(served: Served, monkeypatch: pytest.MonkeyPatch, claim: str, **more: Any) -> str:
    """The id of a stored check; Ada is the editor of this machine."""
    monkeypatch.setenv("MOOT_HOME", str(served.home))
    served.home.mkdir(exist_ok=True)
    (served.home / "config.toml").write_text('editor = "Ada"\n', encoding="utf-8")
    document = with_evidence(await a_debate(), 1) | {"answer": "SUPPORTS", "raw_verdict": "SUPPORTS", "claim": claim}
    document |= {"warnings": [], "id": uuid4().hex}
    return debates.save(document | more)


async def write(page: Page, **fields: str) -> None:
    """Write into the panel."""
    for name, text in fields.items():
        await page.locator(f"#review #{name.replace('_', '-')}").fill(text)


async def test_an_editor_drafts_approves_corrects_and_withdraws_a_check(
    page: Page, served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    id = await a_check(served, monkeypatch, "Platypuses lay eggs on Tuesdays.")
    panel, head = page.locator("#review"), page.locator("main")
    await page.goto(f"/moot/debates/{id}")
    await panel.get_by_text("Nobody has looked at it.").wait_for()
    await head.get_by_text("Not reviewed", exact=True).wait_for()
    await panel.get_by_label("Our rating").select_option("Mostly false")
    await write(page, note="Ask the zoo.")
    await panel.get_by_role("button", name="Save draft").click()
    await head.get_by_text("In review", exact=True).wait_for()
    await write(page, title="Not on Tuesdays", summary="Their eggs know no days. [1]")
    for box in await panel.get_by_role("checkbox").all():
        await box.check()
    await panel.get_by_role("button", name="Approve").click()
    await head.get_by_role("heading", name="Not on Tuesdays").wait_for()
    await head.get_by_role("heading", name="Mostly false").wait_for()
    await head.get_by_text("Checked and approved by Ada").wait_for()
    await page.screenshot(path=tmp_path / "approved.png", full_page=True)
    await panel.get_by_text("Correct or withdraw it").click()
    await panel.get_by_label("Our rating").select_option("False")
    await panel.get_by_role("button", name="Correct", exact=True).click()
    await panel.get_by_text("Say to readers why").wait_for()  # nothing is lost
    await write(page, to_readers="The rating was too mild.")
    await panel.get_by_role("button", name="Correct", exact=True).click()
    await head.get_by_text("The rating was too mild.").wait_for()
    assert "Ask the zoo." not in await head.inner_text()
    await panel.locator(".hist del").get_by_text("Mostly false").wait_for()
    await panel.get_by_text("Correct or withdraw it").click()
    await write(page, to_readers="The zoo has moved.")
    await panel.get_by_role("button", name="Withdraw").click()
    await head.get_by_role("heading", name="Withdrawn").wait_for()
    await page.goto("/moot/debates?stage=withdrawn")
    await page.get_by_text("Was “False”").wait_for()
    assert [row.stage for row in stored(id)] == ["in_review", "approved", "corrected", "withdrawn"]


async def test_the_second_of_two_editors_sees_what_the_first_did_and_decides(
    page: Page, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await a_check(served, monkeypatch, "Platypuses lay eggs on Mondays.")
    panel = page.locator("#review")
    await page.goto(f"/moot/debates/{id}")
    await panel.get_by_text("Nobody has looked at it.").wait_for()
    await write(page, summary="My words.")
    decide(id, "save", {"rating": "False", "summary": "Bo's words."}, person="Bo", based_on=0)
    await panel.get_by_role("button", name="Save draft").click()
    await panel.get_by_text("The check was changed since you opened it, by Bo").wait_for()
    await panel.locator(".newer ins").first.wait_for()
    assert await panel.locator(".newer ins").all_inner_texts() == ["False", "Bo's words."]
    assert await panel.locator("#summary").input_value() == "My words."
    assert await panel.locator("#rating").input_value() == "False"  # theirs: nothing was written here
    assert len(stored(id)) == 1
    await panel.get_by_role("button", name="Save draft").click()
    await panel.get_by_text("Draft saved: Ada").first.wait_for()
    assert [json.loads(row.entry)["summary"] for row in stored(id)] == ["Bo's words.", "My words."]


async def test_an_editor_comments_on_a_passage_and_loses_no_draft(
    page: Page, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await a_check(served, monkeypatch, "Platypuses lay eggs on Wednesdays.")
    decide(id, "save", {"rating": "False"}, person="Bo")
    panel = page.locator("#review")
    await page.goto(f"/moot/debates/{id}")
    await panel.get_by_text("Draft saved: Bo").first.wait_for()
    await write(page, summary="A draft.")
    await panel.locator("summary", has_text="Comment on a passage").click()
    await panel.get_by_label("Passage", exact=True).select_option("1")
    await write(page, comment="Which zoo?")
    await panel.get_by_role("button", name="Save draft").click()
    await panel.get_by_text("which this would not save").wait_for()
    await panel.get_by_role("button", name="Add the comment").click()
    await panel.locator(".hist").get_by_text("Which zoo?").wait_for()
    assert await panel.locator(".hist a").get_attribute("href") == "#s1"
    assert await panel.locator("#summary").input_value() == "A draft."
    assert await panel.locator("#comment").input_value() == ""
    assert await panel.locator("#rating").input_value() == "False"
    entry = json.loads(stored(id)[-1].entry)
    assert (entry["action"], entry["passage"]) == ("comment", debates.load(id)["evidence"][0]["id"])
    assert "Which zoo?" not in await page.locator("main").inner_text()
    # A colleague saves a draft meanwhile: the next comment is added only once its writer has seen that.
    decide(id, "save", {"summary": "Bo's words."}, person="Bo")
    await panel.locator("summary", has_text="Comment on a passage").click()
    await write(page, comment="Which pond?")
    await panel.get_by_role("button", name="Add the comment").click()
    await panel.locator(".newer ins").get_by_text("Bo's words.").wait_for()
    assert await panel.locator("#comment").input_value() == "Which pond?"
    assert await panel.locator("#summary").input_value() == "A draft."
    await panel.get_by_role("button", name="Take theirs").click()
    assert await panel.locator("#summary").input_value() == "Bo's words."
    await panel.get_by_role("button", name="Add the comment").click()
    await panel.locator(".hist").get_by_text("Which pond?").wait_for()
    assert len(stored(id)) == 4


async def test_words_and_warnings_of_another_version_are_looked_at_anew(
    page: Page, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned = [{"kind": "unwarranted", "where": "judge", "detail": "No quote bears it out."}]
    first = await a_check(served, monkeypatch, "Platypuses lay eggs at night.", warnings=warned)
    words: Any = {"rating": "False", "summary": "They do not [2].", "acknowledged": every_warning(first)}
    decide(first, "save", words, person="Bo")
    document = debates.load(first)
    replaced = {"check": document["id"], "document": first, "answer": document["answer"]}
    anew = document | {"id": uuid4().hex, "evidence": document["evidence"][::-1], "replaces": replaced}
    id = debates.save(anew)
    with pytest.raises(UserError, match=r"written for another version .* in which \[2\] is another source"):
        decide(id, "approve", {"acknowledged": every_warning(id)}, person="Bo")
    with pytest.raises(UserError, match="warnings that are not acknowledged"):
        decide(id, "approve", {"summary": "They do not [3]."}, person="Bo")
    panel = page.locator("#review")
    await page.goto(f"/moot/debates/{id}")
    await panel.get_by_text("look at the numbers of their sources").wait_for()
    boxes = await panel.get_by_role("checkbox").all()
    assert [await box.is_checked() for box in boxes] == [False]
    for box in boxes:
        await box.check()
    await panel.get_by_role("button", name="Approve").click()  # the editor has seen the words in the form
    await page.locator("main").get_by_text("Checked and approved by Ada").wait_for()


async def test_looking_again_hides_no_draft_of_a_colleague(
    page: Page, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await a_check(served, monkeypatch, "Platypuses lay eggs on Thursdays.")
    panel = page.locator("#review")
    await page.goto(f"/moot/debates/{id}")
    await write(page, summary="My words.")
    decide(id, "save", {"summary": "Bo's words."}, person="Bo", based_on=0)
    await panel.dispatch_event("changed")  # as after "Read its pages again"
    await panel.get_by_text("The check was changed since you opened it.").wait_for()
    assert await panel.locator(".newer ins").all_inner_texts() == ["Bo's words."]
    assert await panel.locator("#summary").input_value() == "My words."


async def test_past_checks_are_selected_by_person_and_rating(
    page: Page, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = [f"Otters count to {number}." for number in (3, 4, 5)]
    ids = [await a_check(served, monkeypatch, claim) for claim in claims]
    for id, person, rating in zip(ids, ("Cy", "Cy", "Dee"), ("True", "Half true", "Half true"), strict=True):
        decide(id, "approve", {"rating": rating, "summary": "So.", "acknowledged": every_warning(id)}, person=person)
    await page.goto("/moot/debates")
    await page.get_by_label("With", exact=True).select_option("Cy")
    await page.get_by_label("Our rating").select_option("Half true")
    await page.get_by_role("button", name="Find").click()
    await page.get_by_text(claims[1]).wait_for()
    assert await page.locator(".checks .claim").count() == 1
    assert await page.get_by_label("With", exact=True).input_value() == "Cy"
    assert await page.get_by_label("Our rating").input_value() == "Half true"
    await page.context.add_cookies([{"name": "moot-language", "value": "de", "url": served.url}])
    await page.reload()
    assert await page.locator("#rating option:checked").inner_text() == "Halb wahr"
    await page.goto(f"/moot/debates/{ids[1]}")
    assert await page.locator(".hist ins").first.inner_text() == "Halb wahr"
    await page.context.clear_cookies()
    await page.goto("/moot/debates?person=Nobody")
    await page.get_by_text("No check matches.").wait_for()
    assert await page.get_by_label("With", exact=True).input_value() == "Nobody"


async def test_bad_input_is_refused_in_a_sentence_and_changes_nothing(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned = [{"kind": "unwarranted", "where": "judge", "detail": "No quote bears it out."}]
    id = await a_check(served, monkeypatch, "Platypuses lay eggs on Sundays.", warnings=warned)
    with httpx.Client(base_url=served.url) as client:

        def post(**body: Any) -> tuple[int, str]:
            answer = client.post(f"/moot/api/debates/{id}/review", json=body)
            return answer.status_code, answer.json()["detail"]

        full = {"rating": "False", "summary": "So."}
        read = {"acknowledged": ["unwarranted"]}
        for body, code, said in (
            ({"action": "approve"}, 422, "must have this form"),
            ({"action": "publish", "based_on": 0}, 422, "no action 'publish'"),
            (
                {"action": "correct", "based_on": 0, **full, **read},
                422,
                "that is new cannot be",
            ),
            ({"action": "save", "based_on": 0, "rating": "Fals"}, 422, "Did you mean"),
            ({"action": "save", "based_on": 0, "person": "Bo"}, 422, "person"),
            ({"action": "save", "based_on": 0, "look_again": "soon"}, 422, "look_again"),
            ({"action": "save", "based_on": 3}, 409, "changed since you opened it"),
            ({"action": "approve", "based_on": 0, **full}, 422, "not acknowledged: unwarranted"),
            (
                {"action": "approve", "based_on": 0, "rating": "False", **read},
                422,
                "a summary",
            ),
        ):
            status, detail = post(**body)
            assert (status, said in detail) == (code, True), (body, detail)
        assert stored(id) == []
        assert client.get(f"/moot/api/debates/{'0' * 32}/review").status_code == 404
        foreign = client.post(
            f"/moot/api/debates/{id}/review",
            json={"action": "save", "based_on": 0},
            headers={"Origin": "https://x.test"},
        )
        assert foreign.status_code == 403
        (served.home / "config.toml").unlink()
        assert post(action="save", based_on=0, **full) == (422, post(action="save", based_on=0, **full)[1])
        assert "moot config set editor" in post(action="save", based_on=0, **full)[1]


async def test_a_history_that_was_changed_by_hand_is_said_everywhere(
    page: Page, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await a_check(served, monkeypatch, "Platypuses lay eggs on Fridays.")
    decide(id, "approve", {"rating": "False", "summary": "So.", "acknowledged": every_warning(id)})
    forged = sa.func.replace(reviews.c.entry, "False", "True")
    changed = sa.update(reviews).where(reviews.c.debate == debates.check_of(id)).values(entry=forged)
    open_store().do(lambda connection: connection.execute(changed))
    await page.goto(f"/moot/debates/{id}")
    await page.locator("#review").get_by_text("was changed by hand").wait_for()
    assert await page.locator("main").get_by_text("Our rating").count() == 0
    assert await page.locator("main").get_by_text("Its review history was changed by hand").count() == 1
    await page.goto("/moot/debates")
    await page.get_by_text("History changed by hand").first.wait_for()
    with httpx.Client(base_url=served.url) as client:
        assert client.get(f"/moot/api/debates/{id}/html").status_code == 422


def every_warning(id: str) -> list[str]:
    document = debates.load(id)
    return [one.kind for one in warnings_of_verdict(document, Names(document))]


def stored(id: str) -> list[Any]:
    """The rows of a check's history."""
    query = sa.select(reviews).where(reviews.c.debate == debates.check_of(id)).order_by(reviews.c.number)
    return open_store().do(lambda connection: [*connection.execute(query).all()])
