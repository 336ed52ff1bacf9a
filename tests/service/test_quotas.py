"""Quotas of debates, tokens and USD, and the corpora of a user. Attempts to get around these limits fail."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.service.running import CONTEXT, TOKENS, Service, begin, missing_requirements, status

pytestmark = [
    pytest.mark.skipif(bool(missing_requirements()), reason=missing_requirements() or "none"),
    pytest.mark.timeout(600),
]

PRICED = {"model": "openai:gpt-5"}


def run_debate(client: httpx.Client, claim: str, context: Any = PRICED, **more: Any) -> httpx.Response:
    """Run a debate, by default with a priced model; return the response, which may be a refusal."""
    asked = {"assistant_id": "standard_prompting", "input": {"claim": claim}, "context": context}
    return client.post("/runs/wait", json={**asked, **more})


def check_refused(answer: httpx.Response, reason: str) -> None:
    """Check that a request was refused because of a quota, and that the response contains ``reason``."""
    assert (answer.status_code, answer.json().get("kind")) == (429, "quota"), answer.text[:300]
    assert reason in answer.json()["detail"]


def log_in(client: httpx.Client, user: str) -> str:
    """Log a user in; return the HTML of the page that shows the user's usage."""
    with httpx.Client(base_url=str(client.base_url), follow_redirects=True) as browser:
        browser.post("/moot/login", data={"token": TOKENS[user], "next": "/moot"}).raise_for_status()
        return browser.get("/moot/login").text


def test_the_cost_of_a_deleted_debate_counts_against_the_quota(service: Service) -> None:
    with service.client_of("dee") as dee:
        assert run_debate(dee, "Dill is green.").json()["status"] == "done"
        assert service.query("UPDATE moot.spent SET usd = 0.5 WHERE person = 'dee' AND usd > 0 RETURNING 1") == [(1,)]
        check_refused(run_debate(dee, "Dill is blue."), "spent $0.50 in 24 hours, and may spend $0.50")
        for one in dee.get("/moot/api/debates").json()["debates"]:
            dee.request("DELETE", f"/moot/api/debates/{one['id']}").raise_for_status()
        assert dee.get("/moot/api/debates").json()["total"] == 0
        check_refused(run_debate(dee, "Dill is red."), "spent $")
        assert "In the last 24 hours: 1 debate, " in log_in(dee, "dee")


def test_a_user_with_a_quota_in_usd_cannot_use_unpriced_models(service: Service) -> None:
    with service.client_of("eve") as eve:
        own = {"graph_id": "standard_prompting", "context": CONTEXT}
        assert eve.post("/assistants", json=own).json()["kind"] == "invalid_setting"
        debaters = [{"name": name, "retriever": "bm25:demo-news", "model": "openai:stub"} for name in ("one", "two")]
        before = len(service.stub.prompts())
        for context, more in (
            (CONTEXT, {}),
            ({**PRICED, "models": {"agent-1": "openai:stub"}}, {}),
            ({**PRICED, "models": {"agent-1": {"model": "openai:stub", "temperature": 1}}}, {}),
            ({**PRICED, "debaters": debaters}, {"assistant_id": "tool_mad"}),
            (PRICED, {"command": {"update": {"settings": CONTEXT}}, "input": None}),
        ):
            refused = run_debate(eve, "Leeks are long.", context, **more)
            assert (refused.status_code, refused.json()["kind"]) == (422, "invalid_setting"), refused.text
            assert "No price is known for " in refused.json()["detail"]
        assert len(service.stub.prompts()) == before
        assert run_debate(eve, "Leeks are short.").json()["status"] == "done"
        assert "In the last 24 hours: 1 debate," in log_in(eve, "eve")


def test_after_a_debate_of_unknown_cost_a_quota_in_usd_allows_no_debate(service: Service) -> None:
    with service.client_of("fay") as fay:
        insert = "INSERT INTO moot.spent (id, person, tokens) VALUES ('untold', 'fay', 0) RETURNING 1"
        assert service.query(insert)
        check_refused(run_debate(fay, "Chives are thin."), "the cost of 1 of your debates is not known")
        assert service.query("DELETE FROM moot.spent WHERE id = 'untold' RETURNING 1")


def test_used_tokens_count_against_the_quota(service: Service) -> None:
    with service.client_of("ida") as ida:
        assert run_debate(ida, "Sage is wise.", CONTEXT).json()["status"] == "done"
        assert service.query("UPDATE moot.spent SET tokens = 10000 WHERE person = 'ida' AND tokens > 0 RETURNING 1")
        check_refused(run_debate(ida, "Sage is grey.", CONTEXT), "used 10,000 tokens in 24 hours, and may use 10,000")


def test_the_cost_of_finding_claims_counts_against_the_quota(service: Service) -> None:
    with service.client_of("fay") as fay:
        asked = {"assistant_id": "find_claims", "input": {"text": "The bridge opened in 1932."}, "context": PRICED}
        assert fay.post("/runs/wait", json=asked).raise_for_status().json()["status"] == "done"
        assert service.query("SELECT tokens > 0, usd > 0 FROM moot.spent WHERE person = 'fay'") == [(True, True)]


def test_simultaneous_requests_do_not_exceed_the_quota(service: Service) -> None:
    def ask(number: int) -> int:
        with service.client_of("gus", ("page", "worker-1", "worker-2")[number % 3]) as gus:
            asked = {"assistant_id": "standard_prompting", "input": {"claim": f"No {number}."}, "context": CONTEXT}
            return gus.post("/runs", json=asked).status_code

    with ThreadPoolExecutor(12) as pool:
        codes = sorted(pool.map(ask, range(12)))
    assert codes == [200] * 3 + [429] * 9


def test_debates_at_once_stay_within_the_quota_of_tokens(service: Service) -> None:
    """Each debate reserves its budget or what is left, which may be too little. At the end, no reservation is left."""

    def ask(number: int) -> tuple[int, Any]:
        with service.client_of("kim", ("page", "worker-1", "worker-2")[number % 3]) as kim:
            answer = run_debate(
                kim, f"Kale no. {number}.", {**CONTEXT, "samples": 5, "budget": 4000}, assistant_id="self_consistency"
            )
            return answer.status_code, answer.json()

    with ThreadPoolExecutor(25) as pool:
        answers = list(pool.map(ask, range(50)))
    spent = "SELECT sum(tokens), count(*) FROM moot.spent WHERE person = 'kim'"
    ((tokens, debates),) = service.query(spent)
    assert 0 < tokens <= 10_000
    ran = [found for code, found in answers if code == 200 and "status" in found]
    assert len(ran) == debates
    assert len([found for found in ran if found["status"] == "done"]) >= 2
    assert {found["error"]["kind"] for found in ran if found["status"] != "done"} <= {"budget_exhausted"}
    assert service.query("SELECT * FROM moot.reserved") == []


def test_the_reservation_of_a_dead_process_does_not_count(service: Service) -> None:
    """That of a living process does, and a debate can spend no more than what is left."""
    add = "INSERT INTO moot.reserved (key, person, process, tokens, usd) SELECT 'held', 'lea', {}, 10000, 0 RETURNING 1"
    alive = "(SELECT id FROM moot.servers WHERE seen > now() - interval '5 s' LIMIT 1)"
    with service.client_of("lea") as lea:
        assert service.query(add.format("'a process that was killed'"))
        assert run_debate(lea, "Rye is tall.", CONTEXT).json()["status"] == "done"
        assert service.query("DELETE FROM moot.reserved RETURNING 1")
        assert service.query(add.format(alive))
        check_refused(run_debate(lea, "Rye is short.", CONTEXT), "your running debates may use 10,000 more")
        left = "9900 - (SELECT sum(tokens) FROM moot.spent WHERE person = 'lea')"
        assert service.query(f"UPDATE moot.reserved SET tokens = {left} RETURNING 1")
        failed = run_debate(lea, "Rye is blue.", CONTEXT).json()
        assert (failed["status"], failed["error"]["kind"]) == ("failed", "budget_exhausted")
        assert service.query("DELETE FROM moot.reserved RETURNING 1")


def test_a_branch_counts_as_a_debate_but_a_reply_to_a_question_does_not(service: Service) -> None:
    with service.client_of("hal") as hal:
        thread, run = begin(hal, "Basil is sweet.", ask_person=["remark"])
        service.wait_for(lambda: status(hal, (thread, run)) == "interrupted", "no question was asked")
        checkpoint = hal.get(f"/threads/{thread}/state").json()["checkpoint"]
        named = {"assistant_id": "society_of_minds", "context": CONTEXT}
        for branch in (
            {"checkpoint": checkpoint},
            {"checkpoint_id": checkpoint["checkpoint_id"]},
            {"command": {"goto": "open"}},
            {"command": {"resume": {"accept": True}, "update": {"claim": "Basil is sour."}}},
        ):
            check_refused(hal.post(f"/threads/{thread}/runs", json={**named, **branch}), "1 debate in 24 hours")
        reply = {**named, "command": {"resume": {"accept": True}}}
        answer = hal.post(f"/threads/{thread}/runs/wait", json=reply).raise_for_status().json()
        assert answer["status"] == "done"


def test_a_state_update_with_a_forbidden_corpus_is_refused(service: Service) -> None:
    with service.client_of("ann") as ann:
        thread, run = begin(ann, "Thyme grows.", ask_person=["remark"])
        service.wait_for(lambda: status(ann, (thread, run)) == "interrupted", "no question was asked")
        settings = {"settings": {"sources": ["chroma:law"]}}
        named = {"assistant_id": "society_of_minds"}
        for path, body in (
            ("state", {"values": settings}),
            ("runs", {**named, "command": {"update": settings}}),
            ("runs", {**named, "command": {"goto": {"node": "open", "input": settings}}}),
        ):
            refused = ann.post(f"/threads/{thread}/{path}", json=body)
            assert (refused.status_code, refused.json()["kind"]) == (422, "unknown_corpus"), path
