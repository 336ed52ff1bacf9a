"""Messages of models: which are read as replies, and which are unusable."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from moot.nodes._models.reply_parsing import find_objects, read_reply
from moot.nodes._steps.faithfulness import StatementsReply, verdicts_reply
from moot.nodes._steps.relevance import questions_reply
from moot.nodes._texts.replies import QueryReply, Reply, answer_reply
from moot.nodes._texts.task import make_task

from tests.each import each

ANSWER = answer_reply(make_task())
VALID: dict[str, Any] = {
    "rationale": 'It says "{so}" \\ and {"answer": "REFUTES"}.',
    "citations": [{"evidence_id": "ev-0123456789", "quote": "é\n‹…›"}, {"evidence_id": "ev-1", "quote": "{}"}],
    "answer": "SUPPORTS",
}
VERDICTS = {"verdicts": [{"index": i, "reason": "stated", "supported": i == 0} for i in range(2)]}


def model_message(text: str, finish: str = "stop", **more: Any) -> AIMessage:
    return AIMessage(text, response_metadata={"finish_reason": finish}, additional_kwargs=more)


@each(
    "around",
    [
        "%s",
        "  \n%s\n",
        "```json\n%s\n```",
        "```\n%s```",
        "Certainly! Here it is: %s Let me know.",
        'In {braces} and {} and {\'quotes\'}, {"a", "b"}: %s',
        "<think>\\frac{1}{2} is {half</think>%s",
        "\ufeff%s",
        "%s {",
        "%s\n%s",
    ],
)
@each("indent", [None, 2])
def test_a_json_object_is_found_even_in_a_code_fence_or_in_prose(around: str, indent: int | None) -> None:
    text = around.replace("%s", json.dumps(VALID, indent=indent))
    assert set(map(json.dumps, find_objects(text))) == {json.dumps(VALID)}
    found, outcome, problem = read_reply(model_message(text), ANSWER)
    assert found is not None
    assert (found.answer, found.citations[0].quote, outcome, problem) == ("SUPPORTS", "é\n‹…›", "ok", "")


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        (ANSWER, VALID),
        (verdicts_reply(2), VERDICTS),
        (QueryReply, {"query": 'the "{query}"'}),
        (StatementsReply, {"statements": ["One {}.", '{"statements": []}']}),
        (questions_reply(2), {"questions": ["Who?", "When?"]}),
    ],
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_an_incomplete_reply_is_never_usable(reply: type[Reply], value: dict[str, Any], ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert read_reply(model_message(text), reply)[0] is not None
    for raw in {text.encode()[:n] for n in range(len(text.encode()))}:
        cut = raw.decode(errors="replace")
        found, outcome, problem = read_reply(model_message(cut), reply)
        assert (found, outcome) == (None, "unparsed" if cut.strip() else "empty")
        assert problem


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{" * 100_000,
        '{"' * 100_000,
        '{"a":' * 100_000,
        '{"a":' + "[" * 100_000,
        '{"a":[' * 50_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        "{ " * 100_000,
        '{"query": "' + "\\u00e9" * 100_000,
        '{"query": ' + "9" * 100_000 + "}",
    ],
)
def test_a_hostile_reply_is_refused_within_a_second(text: str) -> None:
    started = time.thread_time()
    assert read_reply(model_message(text), QueryReply)[:2] == (None, "unparsed")
    assert time.thread_time() - started < 1  # because parsing blocks the event loop


@each(
    "text",
    [
        "SUPPORTS",
        "null",
        "true",
        "5",
        "NaN",
        '"SUPPORTS"',
        "[]",
        "[1, 2]",
        '["SUPPORTS"]',
        "{}",
        '{"answer": NaN}',
        '{"rationale": NaN, "citations": NaN, "answer": Infinity}',
        '{"rationale": "So.", "citations": [], "answer": null}',
        '{"rationale": "So.", "citations": [], "answer": 1}',
        '{"rationale": "So.", "citations": [], "answer": ["SUPPORTS"]}',
        '{"rationale": "So.", "citations": [], "answer": ""}',
        '{"rationale": "So.", "citations": [], "answer": "MOSTLY TRUE"}',
        '{"rationale": "So.", "citations": [], "answer": "not SUPPORTS"}',
        '{"rationale": "So.", "citations": null, "answer": "SUPPORTS"}',
        '{"rationale": "So.", "citations": ["ev-1"], "answer": "SUPPORTS"}',
        '{"rationale": " ", "citations": [], "answer": "SUPPORTS"}',
        '{"rationale": "So.", "answer": "SUPPORTS"}',
        '{"citations": [], "answer": "SUPPORTS"}',
        '{"rationale": "\\ud800", "citations": [], "answer": "SUPPORTS"}',  # half of a surrogate pair
        "{'rationale': 'So.', 'citations': [], 'answer': 'SUPPORTS'}",
        '{"result": {"answer": "SUPPORTS"}}',
        '{"answer": "SUPPORTS"',
    ],
)
def test_a_text_without_a_valid_reply_is_unparsed(text: str) -> None:
    """The description of the problem is short."""
    found, outcome, problem = read_reply(model_message(text), ANSWER)
    assert (found, outcome) == (None, "unparsed")
    assert 10 < len(problem) <= 1000


@pytest.mark.parametrize(
    "verdicts",
    [
        [],
        [(0, True)],
        [(0, True), (0, True)],
        [(1, True), (2, True)],
        [(0, True), (1, True), (2, True)],
        [(-1, True), (0, True)],
        [(0, True), (float("nan"), True)],
        [(0, True), (0.5, True)],
        [(0, True), (1, None)],
    ],
)
def test_invalid_verdicts_are_unparsed(verdicts: list[tuple[float, bool | None]]) -> None:
    """Each index must occur exactly once, and ``supported`` must be true or false."""
    value = {"verdicts": [{"index": i, "reason": "", "supported": s} for i, s in verdicts]}
    assert read_reply(model_message(json.dumps(value)), verdicts_reply(2))[:2] == (None, "unparsed")


@pytest.mark.parametrize(
    ("message", "outcome"),
    [
        (model_message(json.dumps(VALID), "length"), "cut"),
        (model_message(json.dumps(VALID), "content_filter"), "refused"),
        (model_message(json.dumps(VALID), refusal="I cannot help."), "refused"),
        (model_message("", refusal="I cannot help."), "refused"),
        (model_message("", "content_filter"), "refused"),
        (model_message("", "length"), "cut"),
        (model_message(""), "empty"),
        (model_message(" \n\t"), "empty"),
        (model_message("I cannot help."), "unparsed"),
    ],
)
def test_the_outcome_says_why_a_message_is_unusable(message: AIMessage, outcome: str) -> None:
    """The finish reason and a refusal take precedence over the content."""
    found, seen, problem = read_reply(message, ANSWER)
    assert (found, seen) == (None, outcome)
    assert problem


DRAFT = json.dumps({**VALID, "answer": "REFUTES"})


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f"<think>Suppose {DRAFT} - no.</think>\n{json.dumps(VALID)}", "SUPPORTS"),
        (f"{json.dumps(VALID)} and again {json.dumps(VALID)}", "SUPPORTS"),
        (f'{{"note": "the schema"}} {json.dumps(VALID)}', "SUPPORTS"),
        (f"<think>Suppose {DRAFT}", None),
        (f"First {DRAFT}, then {json.dumps(VALID)}", None),
        (f'{{"draft": {DRAFT}, "final": {{"rationale": "cut', None),
        (f'{{"draft": {DRAFT}, "final": {{"rationale": ', None),
        (f'{{"draft": [{DRAFT}', None),
    ],
)
def test_drafts_and_thoughts_are_not_read_as_answers(text: str, answer: str | None) -> None:
    """A message with several different replies is unusable. Equal replies count as one reply."""
    found, outcome, _ = read_reply(model_message(text), ANSWER)
    assert (getattr(found, "answer", None), outcome) == (answer, "ok" if answer else "unparsed")


def test_invisible_and_control_characters_are_removed_from_a_reply() -> None:
    quote = {"evidence_id": "ev-1\u200b", "quote": "so\u00ad it\u202e is"}
    value = {"rationale": "\ufeffBecause\x07\r\nso.", "citations": [quote], "answer": "SUP\u200bPORTS"}
    found, outcome, _ = read_reply(model_message(json.dumps(value)), ANSWER)
    assert (found and found.model_dump(), outcome) == (
        {
            "rationale": "Because\nso.",
            "citations": [{"evidence_id": "ev-1", "quote": "so it is"}],
            "answer": "SUPPORTS",
        },
        "ok",
    )
