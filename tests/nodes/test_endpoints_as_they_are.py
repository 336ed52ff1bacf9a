"""What endpoints of many kinds say, and what moot makes of it. Each endpoint is scripted, behind a real HTTP server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiohttp import web
from moot.core.endpoint import Limits
from moot.core.refusal_words import TABLE, meaning_of, parse_refusal
from moot.graphs import load_graph
from moot.nodes._models.contexts import forget_contexts
from moot.nodes._models.prices import cost_of, costs_of
from moot.nodes._models.reply_limits import forget_replies
from moot.nodes._models.reply_parsing import read_reply
from moot.retrievers._encoders import TextsTooLong, open_encoder

from tests.nodes.test_read_reply import ANSWER, model_message
from tests.retrievers.conftest import Answer, Serve, Server
from tests.retrievers.conftest import serve as serve  # a fixture

# langchain-openai warns of a refused schema, and advises a method that moot does not use.
pytestmark = pytest.mark.filterwarnings("ignore:Invalid schema for OpenAI")
REPLY = {"rationale": "So.", "citations": [], "answer": "SUPPORTS"}
TEXT = json.dumps(REPLY)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    forget_contexts()
    forget_replies()
    yield
    forget_contexts()
    forget_replies()


@pytest.fixture
def endpoint(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """A function like `serve`; models with the prefix ``openai:`` use the server that it starts."""

    async def start(answer: Answer) -> Server:
        server = await serve(answer)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")
        return server

    return start


def completion(content: str | None, finish: str = "stop", prompt: int = 100, reply: int = 20, **usage: Any) -> Any:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish}
    counts = {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply, **usage}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": counts}


def refusal(message: str, status: int = 400, **fields: Any) -> web.Response:
    return web.json_response({"error": {"message": message, **fields}}, status=status)


async def debate(endpoint: Serve, respond: Callable[[int, Any], Any], **settings: Any) -> tuple[Any, list[Any]]:
    """The document of a debate with one call, and the bodies of its requests."""

    def answer(number: int, body: Any) -> Any:
        said = respond(number, body)
        return web.json_response(said) if isinstance(said, dict) else said

    server = await endpoint(answer)
    system = load_graph("standard_prompting")
    context = system.settings.model_validate({"model": "openai:m", "max_wait": 0, **settings})
    return await system.graph.ainvoke({"claim": "It is so."}, context=context), server.bodies


def test_every_line_of_the_table_of_refusals_names_who_says_it_and_where() -> None:
    for line in TABLE:
        assert line["who"]
        assert line["source"]
        assert meaning_of("The parameter `top_k` is not supported in this context=('a', 'b').") is None


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("The input token count (6715) exceeds the maximum number of tokens allowed (2000).", (2000, 6715, None)),
        ("This model's maximum prompt length is 2000 but the request contains 6715 tokens.", (2000, 6715, None)),
        ("`inputs` tokens + `max_new_tokens` must be <= 2000. Given: 6715 `inputs` tokens", (2000, 6715, None)),
        ("Range of input length should be [1, 2000]", (2000, None, None)),
        ("Your request exceeded model token limit: 2000 (requested: 6715)", (2000, 6715, None)),
        ("input length and max_tokens exceed context limit: 86888 + 119866 > 204648", (204648, 86888, None)),
        ("length of prompt_tokens (163280) must be less than max_seq_len (32768).", (32768, 163280, None)),
        ("input length exceeds maximum allowed", (None, None, None)),
    ],
)
def test_prompts_that_are_too_long_are_known_in_the_words_of_many_providers(text: str, numbers: Any) -> None:
    assert meaning_of(text) == "too_long"
    assert parse_refusal(text) == numbers


@pytest.mark.parametrize(
    ("response", "kind", "words"),
    [
        (refusal("Invalid schema for response_format 'A': In context=('x',), no.", 400), "bad_request", "structured"),
        (
            refusal("max_tokens is too large: 32000. This model supports at most 9."),
            "bad_request",
            "Lower `max_tokens`",
        ),
        (refusal("Content Exists Risk"), "refused", "Content Exists Risk"),
        (refusal("Your input was flagged.", 403, metadata={"reasons": ["violence"]}), "refused", "flagged"),
        (refusal("API key not valid."), "authentication", "OPENAI_API_KEY"),
        (refusal("Provider error", metadata={"raw": '{"detail": "no frogs"}'}), "bad_request", "no frogs"),
        (
            web.json_response({"detail": [{"loc": ["body", "top"], "msg": "bad"}]}, status=422),
            "bad_request",
            "top: bad",
        ),
        (completion("", "content_filter: PROHIBITED"), "refused", "PROHIBITED"),
        (completion("", "RECITATION"), "refused", "RECITATION"),
        ({"choices": [{"finish_reason": "content_filter"}]}, "refused", "content_filter"),
    ],
)
async def test_the_words_of_a_provider_reach_the_user(endpoint: Serve, response: Any, kind: str, words: str) -> None:
    body, status = (response, 200) if isinstance(response, dict) else (json.loads(response.body), response.status)
    document, bodies = await debate(endpoint, lambda n, _: web.json_response(body, status=status))
    assert document["error"]["kind"] == kind
    assert words in document["error"]["detail"]
    assert len(bodies) <= 2


@pytest.mark.parametrize("code", ["json_validate_failed", "tool_use_failed"])
async def test_what_a_model_failed_to_write_is_asked_again(endpoint: Serve, code: str) -> None:
    document, _ = await debate(endpoint, lambda n, _: refusal("Failed.", code=code) if n == 1 else completion(TEXT))
    assert (document["answer"], document["calls"][0]["attempts"]) == ("SUPPORTS", 2)


async def test_an_error_in_a_choice_is_a_server_error_that_is_retried(endpoint: Serve) -> None:
    lost = completion("", "error")
    lost["choices"][0]["error"] = {"code": 502, "message": "Upstream lost"}
    document, bodies = await debate(endpoint, lambda n, _: lost if n == 1 else completion(TEXT))
    assert (document["answer"], len(bodies)) == ("SUPPORTS", 2)


async def test_the_older_name_of_the_limit_is_learnt_once(endpoint: Serve) -> None:
    def respond(number: int, body: Any) -> Any:
        if "max_completion_tokens" in body:
            return refusal("body.max_completion_tokens: Extra inputs are not permitted", 422)
        return completion(TEXT)

    document, bodies = await debate(endpoint, respond, max_tokens=700)
    assert document["answer"] == "SUPPORTS"
    assert [body.get("max_tokens") for body in bodies] == [None, 700]


def thinks(number: int, body: Any) -> Any:
    """The reply of a model that writes 900 hidden tokens first."""
    limit = body.get("max_completion_tokens")
    if limit and limit < 950:
        return completion("", "length", reply=limit)
    return completion(TEXT, reply=920, completion_tokens_details={"reasoning_tokens": 900})


@pytest.mark.parametrize(
    ("settings", "answer", "limits"),
    [
        ({"budget": 60_000}, "SUPPORTS", [512, 4608]),
        ({"budget": 1500}, None, [512]),
        ({"max_tokens": 600}, None, [600]),
    ],
)
async def test_a_reply_of_thoughts_alone_is_asked_again_with_more_room_if_a_ceiling_allows(
    endpoint: Serve, settings: Any, answer: str | None, limits: list[int]
) -> None:
    document, bodies = await debate(endpoint, thinks, **settings)
    assert document["answer"] == answer
    assert [body["max_completion_tokens"] for body in bodies] == limits
    assert answer or "max_tokens" in document["error"]["detail"]


async def test_cached_prompt_tokens_are_counted_and_priced(endpoint: Serve) -> None:
    cached: Any = {"prompt_tokens_details": {"cached_tokens": 60}}
    document, _ = await debate(endpoint, lambda n, _: completion(TEXT, **cached))
    [call] = document["calls"]
    assert call["cached_tokens"] == 60
    price: Any = {"input": 1.0, "cached": 0.25, "output": 2.0}
    assert list(costs_of(100, 20, price, 60)) == pytest.approx([55e-6, 40e-6])
    assert cost_of([call], {"openai:m": price}) == pytest.approx(95e-6)


@pytest.mark.parametrize(
    "text",
    [
        TEXT[:-1] + ",}",
        TEXT.replace("So.", "So\nit is."),
        json.dumps({"AnswerReply": REPLY, "type": "object"}),
        json.dumps({"type": "object", "properties": REPLY}),
        json.dumps(TEXT),
    ],
)
def test_json_that_can_be_read_in_one_way_is_read(text: str) -> None:
    assert read_text(text) == "SUPPORTS"


def read_text(text: str, *, plain: bool = False) -> str | None:
    found, _, _ = read_reply(model_message(text), ANSWER, plain=plain)
    return found.answer if found else None


def test_json_that_can_be_read_in_two_ways_is_not_read() -> None:
    other = {**REPLY, "answer": "REFUTES"}
    assert read_text(json.dumps({"draft": REPLY, "final": other})) is None
    assert read_text(json.dumps({"draft": REPLY, "final": "I cannot decide."})) is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("It is known. \n**Answer:** SUPPORTS", "SUPPORTS"),
        ("Answer: SUPPORTS\nAnswer: REFUTES", None),
        ("Answer: perhaps", None),
        ("I cannot decide.", None),
    ],
)
def test_an_answer_in_plain_words_counts_only_if_no_json_was_requested(text: str, answer: str | None) -> None:
    assert read_text(text, plain=True) == answer
    assert read_text(text) is None


async def test_a_request_for_too_many_embeddings_is_halved_and_a_long_text_is_named(endpoint: Serve) -> None:
    def respond(number: int, body: Any) -> Any:
        texts = body["input"]
        if len(texts) > 10:
            return refusal("batch size is invalid, it should not be larger than 10")
        if any(len(text) > 500 for text in texts):
            return refusal("This model's maximum context length is 512 tokens")
        data = [{"index": i, "embedding": [1.0, float(len(text))]} for i, text in enumerate(texts)]
        return web.json_response({"object": "list", "model": "e", "data": data})

    server = await endpoint(respond)
    encoder = await open_encoder("openai:stub-embedding", Limits(attempts=1))
    texts = [f"text {n}" for n in range(40)]
    assert len(await encoder.embed(texts)) == 40
    assert [len(body["input"]) for body in server.bodies] == [40, 20, 10, 10, 10, 10]
    with pytest.raises(TextsTooLong, match="Long words") as caught:
        await encoder.embed(["short", "Long words " * 60, "tiny"])
    assert sorted(caught.value.vectors) == ["short", "tiny"]
