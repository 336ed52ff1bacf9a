"""The tight schema: it allows replies within its limits, but no typical errors of weak models."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from moot.nodes._models.chat_models import ChatModel, open_chat_model
from moot.nodes._models.speaker import Speaker
from moot.nodes._steps.faithfulness import StatementsReply, verdicts_reply
from moot.nodes._steps.relevance import questions_reply
from moot.nodes._texts.replies import QueryReply, Reply, answer_reply, tight_schema
from moot.nodes._texts.task import make_task

from tests.conftest import StartStub
from tests.each import each

IDS = ["ev-0123456789", "ev-1"]
LONGEST = 220
FEVER = make_task()
TASKS = [FEVER, make_task(labels=['"yes"', "no"]), make_task(options=[f"option {i}" for i in range(26)])]
CITATION = {"evidence_id": "ev-1", "quote": "a few words"}
VERDICT = {"index": 0, "reason": "stated", "supported": True}


def texts(longest: int) -> st.SearchStrategy[str]:
    """Texts that are not blank and have at most ``longest`` characters."""
    return st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=longest).filter(str.strip)


def answer_replies(labels: list[str], ids: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    cited = st.fixed_dictionaries({"evidence_id": st.sampled_from(ids or [""]), "quote": texts(60)})
    citations = st.lists(cited, min_size=1, max_size=3) if ids else st.just([])
    return st.fixed_dictionaries(
        {"rationale": texts(LONGEST), "citations": citations, "answer": st.sampled_from(labels)}
    )


def verdict_replies(count: int) -> st.SearchStrategy[dict[str, Any]]:
    numbered = [
        st.fixed_dictionaries({"index": st.just(i), "reason": texts(40), "supported": st.booleans()})
        for i in range(count)
    ]
    return st.fixed_dictionaries({"verdicts": st.tuples(*numbered).map(list)})


def question_replies(count: int) -> st.SearchStrategy[dict[str, Any]]:
    listed = st.lists(texts(LONGEST), min_size=count, max_size=count)
    return st.fixed_dictionaries({"questions": listed, "noncommittal": st.booleans()})


# For each case: the class of the replies, the ids that may be cited, and replies within the limits.
WITHIN_LIMITS: list[tuple[type[Reply], list[str], st.SearchStrategy[dict[str, Any]]]] = [
    (QueryReply, [], st.fixed_dictionaries({"query": texts(100)})),
    (StatementsReply, [], st.fixed_dictionaries({"statements": st.lists(texts(LONGEST), min_size=1, max_size=3)})),
    *((answer_reply(task), ids, answer_replies(task["labels"], ids)) for task in TASKS for ids in (IDS, [])),
    *((verdicts_reply(n), [], verdict_replies(n)) for n in (1, 2, 8)),
    *((questions_reply(n), [], question_replies(n)) for n in (1, 3, 5)),
]


def allows(reply: type[Reply], ids: list[str], value: object) -> bool:
    """Whether the tight schema for a class of replies allows a value. The schema itself must be valid."""
    schema = tight_schema(reply, ids, LONGEST)
    Draft202012Validator.check_schema(schema)
    return bool(Draft202012Validator(schema).is_valid(value))


@given(st.data())
def test_replies_within_the_limits_are_allowed(data: st.DataObject) -> None:
    """These replies are also valid for the class of the reply."""
    for reply, ids, values in WITHIN_LIMITS:
        value = data.draw(values)
        assert allows(reply, ids, value), (reply, value)
        reply.model_validate(value)


@each(
    ("reply", "value"),
    [
        (QueryReply, {}),
        (QueryReply, {"query": "q" * 101}),
        (QueryReply, {"query": "q", "mood": "good"}),
        (StatementsReply, {"statements": []}),
        (StatementsReply, {"statements": ["Yes."] * 4}),
        (StatementsReply, {"statements": ["s" * (LONGEST + 1)]}),
        (answer_reply(FEVER), {"rationale": "So.", "citations": [CITATION], "answer": "LIKELY"}),
        (answer_reply(FEVER), {"rationale": "So.", "citations": [], "answer": "SUPPORTS"}),
        (answer_reply(FEVER), {"rationale": "So.", "citations": [CITATION] * 4, "answer": "SUPPORTS"}),
        (
            answer_reply(FEVER),
            {"rationale": "So.", "citations": [{**CITATION, "evidence_id": "ev-2"}], "answer": "REFUTES"},
        ),
        (
            answer_reply(FEVER),
            {"rationale": "So.", "citations": [{**CITATION, "quote": "q" * 61}], "answer": "REFUTES"},
        ),
        (verdicts_reply(1), {"verdicts": [{**VERDICT, "index": 1}]}),
        (verdicts_reply(2), {"verdicts": [{**VERDICT, "index": 1}, VERDICT]}),
        (verdicts_reply(1), {"verdicts": [{**VERDICT, "reason": "r" * 41}]}),
        (verdicts_reply(1), {"verdicts": [{"index": 0, "supported": True}]}),
        (questions_reply(3), {"questions": ["Who?"] * 2}),
        (questions_reply(3), {"questions": ["Who?"] * 4}),
    ],
)
def test_typical_errors_of_weak_models_are_not_allowed(reply: type[Reply], value: dict[str, Any]) -> None:
    assert not allows(reply, IDS, value)


async def test_requests_to_a_model_with_the_option_tight_have_the_tight_schema(start_stub: StartStub) -> None:
    stub = start_stub()
    opened = await open_chat_model("openai:stub-a")
    reply = answer_reply(FEVER)
    speaker = Speaker("rag", ChatModel("x", opened.chat, opened.endpoint, tight=True), prompts={"do": "Do.\n---\nIt."})
    answer = await speaker.ask("do", {}, reply, IDS)
    assert {c.evidence_id for c in answer.citations} <= set(IDS)
    [request] = stub.requests()
    sent = request["response_format"]["json_schema"]["schema"]
    # JSON texts are compared, because the order of the fields must also be the same.
    assert json.dumps(sent) == json.dumps(tight_schema(reply, IDS, LONGEST))
