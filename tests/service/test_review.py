"""Two users of a service: one puts a check in review, the other approves it; others do neither see nor change it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.service.running import CONTEXT, Service, missing_requirements

pytestmark = [
    pytest.mark.skipif(bool(missing_requirements()), reason=missing_requirements() or "none"),
    pytest.mark.timeout(600),
]
FULL = {"rating": "Mostly false", "title": "Not so", "summary": "They are not.", "note": "SECRET"}


def checked(client: httpx.Client, claim: str) -> str:
    """The id of the document of a new check."""
    asked = {"assistant_id": "standard_prompting", "input": {"claim": claim}, "context": CONTEXT}
    client.post("/runs/wait", json=asked).raise_for_status()
    [listed] = client.get("/moot/api/debates", params={"q": claim}).json()["debates"]
    return str(listed["id"])


def review(client: httpx.Client, id: str, **body: Any) -> httpx.Response:
    """The review of a check or, with a body, the answer to a decision."""
    path = f"/moot/api/debates/{id}/review"
    return client.post(path, json=body) if body else client.get(path)


def test_an_approver_of_the_same_house_decides_about_a_check_in_review(service: Service) -> None:
    with service.client_of("moe") as moe, service.client_of("nia") as nia, service.client_of("oli") as oli:
        id = checked(moe, "Herons fear rain.")
        assert review(nia, id).status_code == 404  # nobody sees a check that is not in review
        found = review(moe, id).raise_for_status().json()
        assert (found["person"], found["may_approve"], found["actions"]) == ("moe", False, ["save", "plan", "comment"])
        refused = review(moe, id, action="approve", based_on=0, **FULL)
        assert (refused.status_code, "Save a draft" in refused.json()["detail"]) == (403, True)
        review(moe, id, action="save", based_on=0, rating="False").raise_for_status()
        [listed] = nia.get("/moot/api/debates", params={"stage": "in_review"}).json()["debates"]
        assert (listed["id"], listed["owner"], listed["review"]["person"], "can" in listed) == (id, "moe", "moe", False)
        kinds = [one["kind"] for one in review(nia, id).json()["warnings"]]
        approved = review(nia, id, action="approve", based_on=1, acknowledged=kinds, **FULL).raise_for_status().json()
        assert [(one["person"], one["action"]) for one in approved["history"]] == [("moe", "save"), ("nia", "approve")]
        stale = review(moe, id, action="plan", based_on=1, look_again="2999-01-01")
        assert (stale.status_code, "by nia (approved" in stale.json()["detail"]) == (409, True)
        for client in (moe, nia):
            page = client.get(f"/moot/api/debates/{id}/html").raise_for_status().text
            assert "Checked and approved by nia" in page
            assert "SECRET" not in page
        # The approver owns nothing: the check cannot be deleted or resumed. Nor may its owner delete it now.
        assert nia.delete(f"/moot/api/debates/{id}").status_code == 404
        assert nia.post(f"/moot/api/debates/{id}/resume").status_code == 422
        assert moe.delete(f"/moot/api/debates/{id}").status_code == 403
        # Nor once a draft follows a withdrawal.
        review(nia, id, action="withdraw", based_on=2, to_readers="We erred.").raise_for_status()
        review(moe, id, action="save", based_on=3, rating="False").raise_for_status()
        assert moe.delete(f"/moot/api/debates/{id}").status_code == 403
        # Another house, in which somebody may approve, sees nothing of it.
        assert (review(oli, id).status_code, oli.get(f"/moot/api/debates/{id}/json").status_code) == (404, 404)
        assert review(oli, id, action="save", based_on=2).status_code == 404
        assert oli.get("/moot/api/debates", params={"q": "Herons fear"}).json()["debates"] == []
        # A file with the same id is no version of it: it has a history of its own.
        document = moe.get(f"/moot/api/debates/{id}/json").json()
        copy = oli.post("/moot/api/debates/import", json=document | {"answer": None}).raise_for_status().json()["id"]
        assert review(oli, copy).json()["history"] == []


def test_a_user_without_the_right_keeps_the_own_drafts(service: Service) -> None:
    with service.client_of("moe") as moe, service.client_of("nia") as nia:
        id = checked(moe, "Storks fear snow.")
        review(moe, id, action="plan", based_on=0, look_again="2999-01-01").raise_for_status()
        assert review(nia, id).status_code == 404  # a day is no draft: the check stays private
        review(moe, id, action="save", based_on=1, rating="False").raise_for_status()
        assert review(moe, id).json()["stage"] == "in_review"
        assert moe.delete(f"/moot/api/debates/{id}").status_code == 200
