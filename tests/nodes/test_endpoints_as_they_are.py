"""What endpoints of many kinds say, and what moot makes of it. Each endpoint is scripted, behind a real HTTP server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from moot.core.endpoint import Limits
from moot.core.refusal_words import TABLE, meaning_of, parse_refusal
from moot.graphs import load_graph
from moot.nodes._models.contexts import context_of
from moot.nodes._models.prices import cost_of, costs_of
from moot.nodes._models.reply_parsing import read_reply
from moot.retrievers._encoders import TextsTooLong, open_encoder

from tests.nodes.test_read_reply import ANSWER, model_message
from tests.retrievers.conftest import Serve
from tests.retrievers.conftest import endpoint as endpoint  # a fixture, and the one that it needs
from tests.retrievers.conftest import serve as serve

# langchain-openai warns of a refused schema, and advises a method that moot does not use.
pytestmark = pytest.mark.filterwarnings("ignore:Invalid schema for OpenAI")
REPLY = {"rationale": "So.", "citations": [], "answer": "SUPPORTS"}
TEXT = json.dumps(REPLY)


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
        ("Requested input length 6715 exceeds maximum input length 2000", (2000, 6715, None)),
        ("Input length (6715 tokens) exceeds the maximum allowed length (2000 tokens).", (2000, 6715, None)),
        ("Input length (6715) exceeds model's maximum context length (2000).", (2000, 6715, None)),
        ("The maximum context length of V3 is 2000. Your request will take 6715 tokens.", (2000, 6715, None)),
        ("prompt token count of 6715 exceeds the limit of 2000", (2000, 6715, None)),
        ("desc = prompt token count (6715) cannot exceed 2000.", (2000, 6715, None)),
        (
            "The sum of prompt length (6715.0), query length (0) should not exceed max_num_tokens (2000)",
            (2000, 6715, None),
        ),
        ("request (6715 tokens) exceeds context size (2000 tokens)", (2000, 6715, None)),
        ("Context size has been exceeded.", (None, None, None)),
        ("Malformed input request: expected maxLength: 6000, actual: 6715", (None, None, None)),
        ("litellm.ContextWindowExceededError: over the window", (None, None, None)),
        (
            "The number of input and output tokens (6715) exceeded this model context window limit (2000).",
            (2000, 6715, None),
        ),
        ("Request prompt has 6715 tokens in total, larger than the model input length limit 2000.", (2000, 6715, None)),
    ],
)
def test_prompts_that_are_too_long_are_known_in_the_words_of_many_providers(text: str, numbers: Any) -> None:
    assert meaning_of(text) == "too_long"
    assert parse_refusal(text) == numbers


@pytest.mark.parametrize(
    "text",
    [
        "Too many tokens, please wait before trying again.",
        "Your prompt would exceed the limit of 30,000 input tokens per minute. Please reduce the prompt length.",
        "rpc error: context deadline exceeded",
        "Extra usage is required for long context requests.",
    ],
)
def test_other_limits_are_not_taken_for_a_prompt_that_is_too_long(text: str) -> None:
    assert meaning_of(text) is None


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
        (refusal("max_tokens (32000) cannot exceed 8192."), "bad_request", "Lower `max_tokens`"),
        (refusal("`max_completion_tokens` is not valid: above maximum value"), "bad_request", "Lower `max_tokens`"),
        (refusal('"nomic" does not support generate'), "bad_request", "made for chats"),
        (refusal("model requires more system memory than is available", 500), "bad_request", "a smaller model"),
        (refusal("The input text may contain sensitive information."), "refused", "sensitive"),
        ({"error": "model runner has stopped"}, "bad_response", "instead of a reply: model runner has stopped"),
        ({"error_code": 17, "error_msg": "daily limit reached"}, "bad_response", "daily limit reached"),
        ({"success": False, "errors": [{"message": "no upstream"}]}, "bad_response", "no upstream"),
        ({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, "quota", "insufficient balance"),
    ],
)
async def test_the_words_of_a_provider_reach_the_user(endpoint: Serve, response: Any, kind: str, words: str) -> None:
    body, status = (response, 200) if isinstance(response, dict) else (json.loads(response.body), response.status)
    document, bodies = await debate(endpoint, lambda n, _: web.json_response(body, status=status))
    assert document["error"]["kind"] == kind
    assert words in document["error"]["detail"]
    assert len(bodies) <= 3


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


@pytest.mark.parametrize(
    "words",
    [
        "messages[0].role: unknown variant `developer`, expected one of `system`, `user`",
        "developer is not one of ['system', 'assistant', 'user'] - 'messages.0.role'",
        "Input should be 'system' or 'user'; input tag 'developer' found using 'role' does not match",
        "invalid parameter 'messages[0].role': invalid role 'developer', must be one of: system, user",
    ],
)
async def test_an_endpoint_that_refuses_the_role_developer_gets_system(endpoint: Serve, words: str) -> None:
    def respond(number: int, body: Any) -> Any:
        if body["messages"][0]["role"] == "developer":
            return refusal(words)
        return completion(TEXT)

    document, bodies = await debate(endpoint, respond, model="openai:o3-mini", temperature=None)
    assert document["answer"] == "SUPPORTS"
    assert [body["messages"][0]["role"] for body in bodies] == ["developer", "system"]


async def test_a_model_without_the_role_system_gets_its_instructions_from_the_user(endpoint: Serve) -> None:
    def respond(number: int, body: Any) -> Any:
        if "system" in [message["role"] for message in body["messages"]]:
            return refusal("System role not supported")
        if "max_completion_tokens" in body:  # a second part that is refused
            return refusal("body.max_completion_tokens: Extra inputs are not permitted", 422)
        return completion(TEXT)

    document, bodies = await debate(endpoint, respond, max_tokens=700)
    assert (document["answer"], len(bodies)) == ("SUPPORTS", 3)
    asked = "\n\n".join(message["content"] for message in bodies[0]["messages"])
    assert bodies[-1]["messages"] == [{"role": "user", "content": asked}]


async def test_a_refusal_that_no_shortening_ends_is_shown_and_forgotten(endpoint: Serve) -> None:
    document, _ = await debate(endpoint, lambda n, _: refusal("Your input is too long, friend."))
    assert "HTTP 400: Your input is too long, friend." in document["error"]["detail"]
    url = f"{document['error']['detail'].partition('/v1')[0]}/v1"
    assert context_of("openai:m", url) is None


@pytest.mark.parametrize(
    "full", [completion("", "model_context_window_exceeded"), completion("", "length", prompt=2000, reply=0)]
)
async def test_a_prompt_that_leaves_no_room_for_a_reply_is_shortened(endpoint: Serve, full: Any) -> None:
    def respond(number: int, body: Any) -> Any:
        return full if len(json.dumps(body["messages"])) > 6000 else completion(TEXT)

    given = [{"title": f"Report {n}", "text": f"It is so, says part {n}. " * 40} for n in range(12)]
    await endpoint(lambda number, body: web.json_response(respond(number, body)))
    context = {"model": "openai:m"}
    document = await load_graph("standard_prompting").graph.ainvoke(
        {"claim": "It is so.", "given": given}, context=context
    )
    assert document["answer"] == "SUPPORTS"
    assert document["calls"][-1]["left_out"]["ids"]


async def test_an_endpoint_that_refuses_stream_options_gets_none(endpoint: Serve) -> None:
    def respond(number: int, body: Any) -> Any:
        assert body["stream"]
        if "stream_options" in body:
            return refusal("Unrecognized request argument supplied: stream_options")
        part = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        choice = {"index": 0, "delta": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
        text = f"data: {json.dumps({**part, 'choices': [choice]})}\n\ndata: [DONE]\n\n"
        return web.Response(text=text, content_type="text/event-stream")

    server = await endpoint(respond)
    graph = load_graph("standard_prompting").graph
    modes: Any = ["messages", "values"]
    for _ in range(2):  # what was learnt holds for the next debate
        context = {"model": "openai:m", "max_wait": 0}
        async for mode, part in graph.astream({"claim": "It is so."}, context=context, stream_mode=modes):
            document: Any = part if mode == "values" else None
        assert document["answer"] == "SUPPORTS"
    assert ["stream_options" in body for body in server.bodies] == [True, False, False]


@pytest.mark.parametrize(
    ("response", "kind", "words"),
    [
        (completion(TEXT), None, ""),
        (completion("", "content_filter"), "refused", "content filter being triggered"),
        (
            refusal(
                "The response was filtered due to Azure OpenAI's content management policy.", code="content_filter"
            ),
            "refused",
            "content management policy",
        ),
        (
            refusal("The API deployment for this resource does not exist.", 404, code="DeploymentNotFound"),
            "unknown_model",
            "Check its name.",
        ),
    ],
)
async def test_a_debate_with_azure(
    endpoint: Serve, monkeypatch: pytest.MonkeyPatch, response: Any, kind: str | None, words: str
) -> None:
    body, status = (response, 200) if isinstance(response, dict) else (json.loads(response.body), response.status)
    server = await endpoint(lambda number, _: web.json_response(body, status=status))
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.url)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k" * 20)
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    monkeypatch.delenv("OPENAI_BASE_URL")
    context = {"model": "azure_openai:mine", "max_tokens": 900}
    document = await load_graph("standard_prompting").graph.ainvoke({"claim": "It is so."}, context=context)
    assert (document["error"] or {}).get("kind") == kind, document["error"]
    assert words in str(document["error"])
    assert (server.paths, len(server.bodies)) == (["/openai/deployments/mine/chat/completions"], 1)
    assert server.bodies[0]["max_completion_tokens"] == 900


def test_langchains_warnings_about_a_refused_schema_are_not_shown() -> None:
    program = (
        "import warnings, moot.nodes._models.call.sending;"
        'warnings.warn("Invalid schema for OpenAI\'s structured output feature, which is");'
        'warnings.warn("This model does not support OpenAI\'s structured output feature, which is")'
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""


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
        ({"budget": 60_000, "model": "openai:deepseek-r1:7b"}, "SUPPORTS", [4608]),  # its name says that it thinks
    ],
)
async def test_a_reply_of_thoughts_alone_is_asked_again_with_more_room_if_a_ceiling_allows(
    endpoint: Serve, settings: Any, answer: str | None, limits: list[int]
) -> None:
    document, bodies = await debate(endpoint, thinks, **settings)
    assert document["answer"] == answer
    assert [body["max_completion_tokens"] for body in bodies] == limits
    assert answer or "max_tokens" in document["error"]["detail"]


@pytest.mark.parametrize(
    ("cut", "limits"),
    [
        ("Let me see. " * 60, [512, 4608]),  # a thought without a mark at its beginning
        (f"<think>{'hm ' * 500}</think>{TEXT[:20]}", [512, 4608]),
        (TEXT[:20], [512, 4608]),  # the other tokens are hidden, and not counted as thoughts
        ('{"rationale": "' + "So it is said. " * 60, [512, 512]),  # no thoughts: asked for a shorter reply
    ],
)
async def test_a_reply_that_thoughts_cut_short_is_asked_again_with_more_room(
    endpoint: Serve, cut: str, limits: list[int]
) -> None:
    document, bodies = await debate(
        endpoint, lambda n, _: completion(cut, "length", reply=512) if n == 1 else completion(TEXT), budget=60_000
    )
    assert document["answer"] == "SUPPORTS"
    assert [body["max_completion_tokens"] for body in bodies] == limits


async def test_cached_prompt_tokens_are_counted_and_priced(endpoint: Serve) -> None:
    ways: Any = [
        {"prompt_tokens_details": {"cached_tokens": 60}},
        {"prompt_cache_hit_tokens": 60},
        {"cached_tokens": 60},
    ]
    for cached in ways:
        document, _ = await debate(endpoint, lambda n, _, cached=cached: completion(TEXT, **cached))  # type: ignore[misc]
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
        json.dumps({"name": "AnswerReply", "arguments": TEXT}),
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
        ("It is known. So the answer is SUPPORTS.", "SUPPORTS"),
        ("It is known, so \\boxed{SUPPORTS}.", "SUPPORTS"),
        ("I would not say \\boxed{SUPPORTS}.", None),
        ("Answer: SUPPORTS\n\\boxed{REFUTES}", None),
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
