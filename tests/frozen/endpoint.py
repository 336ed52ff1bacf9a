"""The scripted endpoint of the frozen debates: an OpenAI-compatible server whose replies depend only on the request.

A reply depends on the model's name, the form of the reply, and the data in the prompt: texts between tags and the
speaker's name. It does not depend on the instructions. So if the wording of a prompt changes, the rest of the debate
stays the same, and only the requests with this prompt differ from the recording.

The part of the model's name before the first "-" is its mood:

    mixed       about half of the answers are the model's own; confidences, scores and verdicts vary
    agree       every model gives the same answer, quotes evidence, and finds statements supported
    split       each model keeps its own answer; nobody agrees, and nothing is closed
    second      some first replies are unusable; the second try is good
    unusable    some replies are unusable at both tries
    cut         some first replies end with finish_reason "length"
    filtered    some first replies end with finish_reason "content_filter"
    refuses     some first replies are refusals
    wrapped     replies have thoughts before them, and a fence around them
    busy        some requests get HTTP 429 once
    down        some requests get HTTP 500 once
    dead        every request gets HTTP 500
    small       prompts of more than 1,500 tokens are refused; tokens are not counted
    uncounted   as mixed, but tokens are not counted
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import itertools
import json
import random
import re
import struct
from collections import Counter
from typing import Any

from aiohttp import web

stub = importlib.import_module("tests.stub_replies")  # this program has no types
Draw, embed, flatten = stub.Draw, stub.embed, stub.flatten

WRITER = stub.Writer(["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"], 90, trace=False)
TAGGED = re.compile(r"<(\w+)([^<>\n]*)>\n(.*?)\n</\1>", re.S)
EVIDENCE = re.compile(r'<evidence id="([^"]+)"[^<>\n]*>\n[^\n]*\n(.*?)\n</evidence>', re.S)
NAMED = re.compile(r'\bYou are "([^"]+)"')
SENTENCE = re.compile(r"[^.?!]+[.?!]")
TOPICS = (
    "kilogram",
    "platypus eggs",
    "Saturn moon",
    "saffron flower",
    "atomic number",
    "Suez Canal",
    "Venus axis",
    "tea",
)
SHORT = ("Robert Goddard", "R. H. Goddard", "Wernher von Braun", "Nihonium", "nihonium")
NUMBERS = ("42", "42.0", "17", "1200")
EXPRESSIONS = (r"\frac{1}{2}", "0.5", "x^2 + 1", "x^2+1")
CONTEXT = 1500
UNCOUNTED = ("small", "uncounted")
"""Moods without counts of tokens. How much of a prompt fits would otherwise depend on the order of the replies."""
NUMBERS_OF_RUNS = itertools.count(1)


class Replies:
    """Makes the reply to one request."""

    def __init__(self, body: dict[str, Any], schema: dict[str, Any]) -> None:
        messages = body.get("messages", [])
        self.schema = schema
        self.prompt = flatten(messages)
        self.users = flatten([m for m in messages if m["role"] != "system"])
        self.model = body["model"]
        self.mood, _, self.role = self.model.partition("@")[0].partition("-")
        self.tries = sum(m["role"] == "user" for m in messages)
        self.tool_results = sum(m["role"] == "tool" for m in messages)
        tagged = [f"{tag}{more}{text}" for tag, more, text in TAGGED.findall(self.users)]
        fields = ",".join(schema.get("properties", {}))
        key = (self.role, fields, *tagged, *NAMED.findall(self.users), str(body.get("seed")), str(self.tool_results))
        self.first = Draw("first", *key)
        self.draw = Draw(str(self.tries), self.mood, *key)
        self.claim = next(
            (text for tag, _, text in TAGGED.findall(self.users) if tag in ("claim", "question", "topic")), ""
        )
        self.own = Draw(self.role, self.claim)

    def chance(self, share: float) -> bool:
        return bool(self.draw.uniform(0, 1) < share)

    def content(self) -> str:
        """The reply as text: the JSON of the wanted fields."""
        return json.dumps(self.value(self.schema, ""), ensure_ascii=False)

    def value(self, schema: dict[str, Any], name: str) -> Any:
        """A value of a field. Fields with a meaning for debates are filled as `FILLED` says, the others by `Writer`."""
        schema = self.resolved(schema)
        if name in FILLED:
            return FILLED[name](self, schema)
        if schema.get("type") == "object":
            return {key: self.value(one, key) for key, one in schema["properties"].items()}
        if schema.get("type") == "boolean":
            return self.truth(name)
        if (
            schema.get("type") == "array"
            and name != "verdicts"
            and self.resolved(schema["items"]).get("type") == "object"
        ):
            return [self.value(schema["items"], "") for _ in range(self.draw.integer(1, 2))]
        return WRITER.from_schema(schema, self.draw, self.schema, name)

    def resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            schema = self.schema["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
        return schema

    def truth(self, name: str) -> bool:
        settled = name in ("agree", "close", "debate_resolved", "same")
        if self.mood in ("agree", "split"):
            return bool((self.mood == "agree") == (settled or name == "supported"))
        return self.chance(0.3 if settled else 0.15 if name == "noncommittal" else 0.7)

    def answer(self, schema: dict[str, Any]) -> Any:
        options = next((one for one in schema.get("anyOf", []) if "enum" in one), schema)
        if "anyOf" in schema and self.mood != "agree" and self.chance(0.6):
            return None
        choices = options.get("enum")
        if not choices:
            choices = NUMBERS if "pattern" in schema else EXPRESSIONS if "LaTeX" in self.prompt else SHORT
        if self.mood == "agree":
            return Draw(self.claim).pick(choices)
        return (self.own if self.mood == "split" or self.chance(0.5) else self.draw).pick(choices)

    def reasons(self, schema: dict[str, Any]) -> str:
        first = self.claim.strip().rstrip("?.!") + ". " if self.chance(0.8) else ""
        return first + " ".join(WRITER.sentences(self.draw, 30) for _ in range(self.draw.integer(1, 2)))

    def citations(self, schema: dict[str, Any]) -> list[dict[str, str]]:
        """Citations of the evidence in the prompt. Some quotes are not in the text, and some ids are not known."""
        shown = EVIDENCE.findall(self.users)
        cited = []
        for _ in range(self.draw.integer(1, 2) if shown else int(self.chance(0.1))):
            ident, text = self.draw.pick(shown) if shown else ("ev-0000000000", "Nothing was shown to me at all.")
            words = text.split(" ")
            start = self.draw.integer(0, max(0, len(words) - 8))
            quote = " ".join(words[start : start + self.draw.integer(5, 8)])
            if self.mood != "agree":
                kind = self.draw.uniform(0, 1)
                quote = quote[::-1] if kind < 0.12 else quote.upper() if kind < 0.2 else quote
                ident = "ev-ffffffffff" if kind > 0.9 else ident
            cited.append({"evidence_id": ident, "quote": quote})
        return cited

    def evidence_id(self, schema: dict[str, Any]) -> str:
        shown = re.findall(r"\bev-[0-9a-f]{10}\b", self.users)
        return str(self.draw.pick(shown)) if shown and self.chance(0.9) else "ev-ffffffffff"

    def query(self, schema: dict[str, Any]) -> str:
        return f"{self.claim[:60]} {self.draw.pick(TOPICS)}".strip()

    def answer_sentences(self) -> list[str]:
        text = next((text for tag, _, text in TAGGED.findall(self.users) if tag == "answer"), self.claim)
        return [one.strip() for one in SENTENCE.findall(text)] or [text]

    def statements(self, schema: dict[str, Any]) -> list[str]:
        return self.answer_sentences()[:3]

    def questions(self, schema: dict[str, Any]) -> list[str]:
        told = next((one for one in self.answer_sentences() if len(one.split()) > 5), "Nothing is said.")
        good = self.mood == "agree" or self.chance(0.7)
        return [f"{told.rstrip('.')}?" if good else WRITER.sentences(self.draw, 20)] * schema.get("minItems", 3)

    def verdicts(self, schema: dict[str, Any]) -> list[Any]:
        count = schema.get("minItems", len(schema.get("prefixItems", [])))
        return [{"index": i, "reason": "As it reads.", "supported": self.truth("supported")} for i in range(count)]

    def last_words(self) -> str:
        """The reply of an agent with tools that needs no further search: an answer or not."""
        if self.chance(0.4):
            return "Nothing more has to be searched for."
        labels = re.findall(r"^  - (.+?)(?: - .*)?$", self.prompt, re.M)
        answer = self.answer({"enum": labels} if labels else {})
        return json.dumps({"rationale": self.reasons({}), "citations": self.citations({}), "answer": answer})

    def confidence(self, schema: dict[str, Any]) -> float:
        low, high = schema.get("minimum", 0), schema.get("maximum", 1)
        return float(round(low + (high - low) * self.draw.integer(4, 10) / 10, 2))


FILLED: dict[str, Any] = {
    "answer": Replies.answer,
    "preferred": Replies.answer,
    "rationale": Replies.reasons,
    "argument": Replies.reasons,
    "testimony": Replies.reasons,
    "citations": Replies.citations,
    "evidence_id": Replies.evidence_id,
    "query": Replies.query,
    "supporting_query": Replies.query,
    "challenging_query": Replies.query,
    "gap": Replies.query,
    "statements": Replies.statements,
    "questions": Replies.questions,
    "verdicts": Replies.verdicts,
    "confidence": Replies.confidence,
}


class Endpoint:
    """The server. It keeps the bodies of the requests of one debate at a time (`start_run`)."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.embedded: list[str] = []
        self.failing_sources = False
        self.articles: dict[str, dict[str, Any]] = {}
        self.url = ""
        self._seen: Counter[str] = Counter()
        self._number = 0
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/{run}/v1/chat/completions", self.chat)
        app.router.add_post("/{run}/v1/embeddings", self.embeddings)
        app.router.add_get("/{run}/w/api.php", self.wikipedia)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)

    async def __aenter__(self) -> Endpoint:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def start_run(self, *, failing_sources: bool = False) -> int:
        """Forget all requests, and take a new address; return the number of the run in this process."""
        self._number = next(NUMBERS_OF_RUNS)
        self.requests, self.embedded, self._seen = [], [], Counter()
        self.failing_sources = failing_sources
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/{self._number}"
        return self._number

    def check_run(self, request: web.Request) -> None:
        """Raise an error for a request of a debate that has ended."""
        if request.match_info["run"] != str(self._number):
            raise web.HTTPGone(text="This debate has ended.")

    async def chat(self, request: web.Request) -> web.StreamResponse:
        self.check_run(request)
        body = await request.json()
        self.requests.append(body)
        await asyncio.sleep(random.uniform(0, 0.002))  # the order of concurrent replies must not matter
        wanted = body.get("response_format") or {}
        schema = (wanted.get("json_schema") or {}).get("schema") or schema_in_words(flatten(body["messages"]))
        replies = Replies(body, schema)
        text = json.dumps(body, sort_keys=True)
        self._seen[text] += 1
        if error := self.refusal(replies, first=self._seen[text] == 1):
            return error
        message, finish = self.message(body, replies)
        size = len(message.get("content") or "") + len(json.dumps(message.get("tool_calls", "")))
        # The figure is rounded, because documents contain it, and a word more in a prompt should change few documents.
        counts = {"prompt_tokens": (len(replies.prompt) // 1200 + 1) * 300, "completion_tokens": size // 4 + 1}
        used = None if replies.mood in UNCOUNTED else {**counts, "total_tokens": sum(counts.values())}
        head = {"id": "chatcmpl-1", "created": 1, "model": body["model"]}
        if body.get("stream"):
            return await self.stream(request, head, message, finish, used)
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return web.json_response({**head, "object": "chat.completion", "choices": [choice], "usage": used})

    def refusal(self, replies: Replies, *, first: bool) -> web.Response | None:
        """The HTTP error that the mood asks for, if any."""
        some = replies.first.uniform(0, 1) < 0.15
        if replies.mood == "dead" or (replies.mood == "down" and some and first):
            return web.json_response({"error": {"message": "The model crashed."}}, status=500)
        if replies.mood == "busy" and some and first:
            error = {"error": {"message": "Too many requests."}}
            return web.json_response(error, status=429, headers={"Retry-After": "0"})
        tokens = len(replies.prompt) // 4 + 1
        if replies.mood == "small" and tokens > CONTEXT:
            words = (
                f"This model's maximum context length is {CONTEXT} tokens. However, your messages resulted in {tokens} "
                "tokens."
            )
            return web.json_response({"error": {"message": words, "code": "context_length_exceeded"}}, status=400)
        return None

    def message(self, body: dict[str, Any], replies: Replies) -> tuple[dict[str, Any], str]:
        """The reply's message and its ``finish_reason``."""
        tools = [tool["function"] for tool in body.get("tools") or []]
        if tools and body.get("tool_choice") != "none":
            if replies.tool_results >= 1 + replies.own.integer(0, 3):
                return {"role": "assistant", "content": replies.last_words()}, "stop"
            tool = replies.draw.pick(tools)
            arguments = json.dumps({name: replies.query({}) for name in tool["parameters"]["properties"]})
            function = {"name": tool["name"], "arguments": arguments}
            call = {"id": f"call_{replies.tool_results}", "type": "function", "function": function}
            return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        text, finish, mood = replies.content(), "stop", replies.mood
        if mood == "wrapped":
            text = f'<think>First {{"answer": "REFUTES"}}?</think>\nHere it is:\n```json\n{text}\n```'
        some = replies.first.uniform(0, 1) < 0.4
        if some and (mood == "unusable" or replies.tries == 1):
            if mood in ("second", "unusable"):
                text = replies.first.pick(["I would rather not say.", text[: len(text) // 2], "{}", ""])
            if mood in ("cut", "filtered"):
                text, finish = text[: len(text) // 2], "length" if mood == "cut" else "content_filter"
            if mood == "refuses":
                return {"role": "assistant", "content": None, "refusal": "I cannot help with that."}, "stop"
        return {"role": "assistant", "content": text}, finish

    async def stream(
        self,
        request: web.Request,
        head: dict[str, Any],
        message: dict[str, Any],
        finish: str,
        used: dict[str, int] | None,
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        content = message.get("content") or ""
        half = len(content) // 2
        rest = {key: value for key, value in message.items() if key != "content"}
        if "tool_calls" in rest:
            rest["tool_calls"] = [{**call, "index": i} for i, call in enumerate(rest["tool_calls"])]
        deltas = [({**rest, "content": content[:half]}, None), ({"content": content[half:]}, None), ({}, finish)]
        for delta, end in deltas:
            choice = {"index": 0, "delta": delta, "finish_reason": end}
            chunk = {**head, "object": "chat.completion.chunk", "choices": [choice]}
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        usage = {**head, "object": "chat.completion.chunk", "choices": [], "usage": used}
        await response.write(f"data: {json.dumps(usage)}\n\ndata: [DONE]\n\n".encode())
        await response.write_eof()
        return response

    async def embeddings(self, request: web.Request) -> web.Response:
        self.check_run(request)
        body = await request.json()
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        self.embedded += texts
        data = []
        for index, text in enumerate(texts):
            vector: Any = embed(text)
            if body.get("encoding_format") == "base64":
                vector = base64.b64encode(struct.pack(f"<{stub.EMBEDDING_DIM}f", *vector)).decode()
            data.append({"object": "embedding", "index": index, "embedding": vector})
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return web.json_response({"object": "list", "data": data, "model": body["model"], "usage": usage})

    async def wikipedia(self, request: web.Request) -> web.Response:
        self.check_run(request)
        if self.failing_sources:
            return web.json_response({"error": "down"}, status=403)
        if "pageids" in request.query:
            return web.json_response({"query": {"pages": [self.articles[request.query["pageids"]]]}})
        draw, words = Draw(request.query["gsrsearch"]), request.query["gsrsearch"].split()
        pages = []
        for index in range(1, int(request.query["gsrlimit"]) + 1):
            title = f"{draw.pick(TOPICS)} {draw.integer(1, 9)}"
            text = f"{title} is told of in {draw.integer(1900, 2000)}, and of {draw.pick(words)} as well."
            url = f"https://wiki.example/{title.replace(' ', '_')}"
            page = {"title": title, "index": index, "fullurl": url, "extract": text}
            pages.append(page | {"pageid": len(self.articles), "lastrevid": 1000 + index})
            self.articles[str(len(self.articles))] = pages[-1]
        return web.json_response({"batchcomplete": True, "query": {"pages": pages}})


def schema_in_words(prompt: str) -> dict[str, Any]:
    """The JSON schema that a prompt contains, for requests without ``response_format``; empty if it contains none."""
    for start in [found.start() for found in re.finditer(r'\{"(?:\$defs|properties|type)"', prompt)]:
        try:
            schema, _ = json.JSONDecoder().raw_decode(prompt[start:])
        except ValueError:
            continue
        if "properties" in schema:
            return dict(schema)
    return {}
