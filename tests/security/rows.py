"""The table of attacks: requests of a caller, and the refusals that every server must answer.

To add an attack, add a `Row` to a list, or a list to `ROWS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

SHORT = "The Suez Canal has locks."
CLAIM = {"claim": SHORT}


@dataclass(frozen=True)
class Row:
    """A request, and the answer that is expected.

    Args:
        id: what the caller attempts.
        path: the path with the query. ``{thread}``, ``{assistant}`` and ``{inner}`` (the port of a website in the
            private network) are replaced, also in the body.
        body: the body, as JSON; bytes are sent unchanged; None for no body.
        answers: a pattern that the text of the answer contains.
        statuses: the expected statuses.
        method: the method.
        missing: servers that lack the route. They may answer with any error.
        headers: headers that are added, or that replace those of a usual request with a valid token.
    """

    id: str
    path: str
    body: Any
    answers: str
    statuses: tuple[int, ...] = (422,)
    method: str = "POST"
    missing: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


def run_with(context: Any, graph: str = "tool_mad") -> dict[str, Any]:
    """The body of a run with settings."""
    return {"assistant_id": graph, "input": CLAIM, "context": context}


DECOYS: tuple[Any, ...] = ({}, 5)
"""Values of a key that the server ignores in a run."""
MODULE: Any = {"sources": ["langchain:evilmod:x"]}
UNLISTED = {
    "MOOT_LANGCHAIN_SOURCES": [
        MODULE,
        {"fallback": ["bm25", "langchain:evilmod:x"]},
        {"embedder": "langchain:evilmod:x"},
        {"debaters": [{"name": "one", "retriever": "langchain:evilmod:x"}, {"name": "two"}]},
        {"debate_settings": MODULE},
        {"debate_settings": {"debaters": [{"name": "one", "retriever": "langchain:evilmod:x"}]}},
    ],
    "MOOT_MCP_SERVERS": [
        {"sources": ["mcp:evil/run"]},
        {"sources": ["mcp:sh -c id/run", "mcp:http://127.0.0.1:9/mcp/run"]},
        {"fallback": ["bm25", "mcp:evil/run"]},
        {"debaters": [{"name": "one", "retriever": ["bm25", "mcp:evil/run"]}, {"name": "two"}]},
        {"debate_settings": {"sources": ["mcp:evil/run"]}},
    ],
    "MOOT_EMBEDDERS": [
        *({name: "/etc"} for name in ("embedder", "reranker", "cross_encoder", "source_summaries")),
        *({name: "somebody/model"} for name in ("embedder", "reranker", "cross_encoder", "source_summaries")),
        *({"embedder": name} for name in ("OPENAI:x", " openai:x", "anthropic:x", "file:///etc", "./", "model")),
        {"reranker": "model"},
        {"debate_settings": {"embedder": "/etc"}},
    ],
    "MOOT_MODELS": [
        *(
            {"model": name}
            for name in (
                "vllm:x",
                "ollama:x",
                "lmstudio:x",
                "llamacpp:x",
                "jan:x",
                "bedrock_converse:x",
                "google_vertexai:x",
            )
        ),
        {"models": {"judge": "vllm:x"}},
        {"models": {"judge": {"model": "vllm:x"}}},
        *({name: ["vllm:x", "vllm:y", "vllm:z"]} for name in ("agents", "debaters", "judges")),
        {"agents": [{"model": "vllm:x"}, {"model": {"model": "vllm:y"}}]},
        {"embedder": "ollama:x"},
    ],
    "reads no path": [
        {"calibration": name}
        for name in (
            "/dev/zero",
            "/etc/passwd",
            "../secret",
            "../secret.json",
            "..",
            "calibrations/../../secret",
            "..\\secret",
            "%2e%2e%2fsecret",
            "x\u0000",
            "~root/x",
            "C:x",
            ".secret",
            "x.json.json",
        )
    ],
}
"""Settings that name what the operator has not listed, by a text of the refusal."""
NAMES = [
    Row(f"{word}: {settings}", "/runs/wait", run_with(settings), word)
    for word, all_settings in UNLISTED.items()
    for settings in all_settings
]


def routes(settings: Any, word: str) -> list[Row]:
    """The same settings on every route that takes settings."""
    run, rpc = run_with(settings, "rag"), {"jsonrpc": "2.0", "id": 1}
    cron, graph = run | {"schedule": "0 0 * * *"}, {"graph_id": "rag", "context": settings}
    batch = {"id": "6f0c2b1e-2a63-4d0e-9d0b-7c1f5b7a4e19", "name": "x", "graph": "rag", "input": {}}
    tool = rpc | {"method": "tools/call", "params": {"name": "rag", "arguments": CLAIM | {"settings": settings}}}
    own = rpc | {"method": "tools/call", "params": {"name": "own", "arguments": CLAIM | settings}}
    message = rpc | {"method": "message/send", "params": {"context": settings}}
    on_thread = {f"/threads/{{thread}}/runs{end}": run for end in ("", "/wait", "/stream")}
    bodies = {
        **dict.fromkeys(("/runs", "/runs/wait", "/runs/stream"), run),
        **on_thread,
        "/runs/batch": [run_with({}), run],
        "/runs/crons": cron,
        "/threads/{thread}/runs/crons": cron,
        "/threads/{thread}/commands": {"id": 1, "method": "run.start", "params": run},
        "/assistants": graph,
        "/a2a/rag": message,
    }
    found = [Row(f"{word} on {path}", path, body, word) for path, body in bodies.items()]
    configured = run_with(None, "rag") | {"config": {"configurable": settings}}
    found += [
        *(Row(f"{word} beside params", "/runs/wait", run | {"params": other}, word) for other in DECOYS),
        Row(f"{word} beside a graph_id", "/runs/wait", run | {"graph_id": "none"}, word),
        Row(f"{word} as configurable", "/runs/wait", configured, word),
        Row(f"{word} in an assistant", "/assistants/{assistant}", {"context": settings}, word, method="PATCH"),
        Row(f"{word} with an assistant", "/runs/wait", run | {"assistant_id": "{assistant}"}, word),
        *(Row(f"{word} on {path}", path, tool, word, (200,)) for path in ("/mcp", "/mcp/")),
        Row(f"{word} of an assistant as a tool", "/mcp", own, word, (200,)),
    ]
    claims = {"of the batch": {"claims": [CLAIM], "context": settings}}
    claims |= {"of a row": {"claims": [CLAIM | {"settings": settings}], "context": {}}}
    for name, more in claims.items():
        path = "/moot/api/batches"
        found.append(Row(f"{word} {name}", path, batch | more, word, missing=("service",)))
    return found


ROUTES = [
    *routes(MODULE, "MOOT_LANGCHAIN_SOURCES"),
    *routes({"model": "vllm:x"}, "MOOT_MODELS"),
    *routes({"embedder": "/etc"}, "MOOT_EMBEDDERS"),
    *routes({"calibration": "/dev/zero"}, "reads no path"),
]
FILES = [
    Row(
        f"the calibration {id}",
        "/runs/wait",
        run_with({"model": "fake:1", "calibration": id}),
        f"no calibration '{id}'",
        (200,),
    )
    for id in ("missing", "linked", "linked.json", "pipe", "device")
]
"""Calibrations of the operator's folder that are missing, or that lead out of it."""

UPLOADS = [
    Row(f"a file named {name} to {route}", f"/moot/api/{route}?name={quote(name)}", {"claim": SHORT}, answers, statuses)
    for name, answers, statuses in (
        ("a.\0", "zero character", (422,)),
        ("a\0.csv", "zero character", (422,)),
        ("/etc/passwd", SHORT + "|not supported|no column|read from files", (200, 422)),
        ("../../secret.json", SHORT + "|not supported|no column|read from files", (200, 422)),
    )
    for route in ("claims/text", "claims/rows", "texts")
]
"""Names of uploaded files that look like paths of the server. Only what was uploaded is read."""

PRIVATE = (
    *("127。0。0。1", "①②⑦.⓪.⓪.①", "１２７．０．０．１", "127｡0｡0｡1", "127.0.0。1"),
    *("2130706433", "0x7f.1", "0x7f000001", "0177.0.0.1", "127.1", "127.0.0.1.", "localhost.", "LOCALHOST."),
    *("0", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "169.254.169.254", "224.0.0.1"),
    *("240.0.0.1", "192.0.2.1", "[::1]", "[::]", "[::127.0.0.1]", "[::ffff:127.0.0.1]", "[::ffff:0:127.0.0.1]"),
    *("[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2002:a00:1::1]", "[fec0::1]", "[fe80::1]"),
    *("[fd00::1]", "[ff02::1]", "[2001:0:7f00:1::80ff:fffe]", "[2001:db8::1]", "[fe80::1%25lo]", "[::1%25lo]"),
    *("user@127.0.0.1", "example.org@127.0.0.1", "example.org:80@127.0.0.1", "127.0.0.1\\@example.org"),
)
"""Hosts that are not public, in many spellings. Most of them lead to this machine."""


def fetching(id: str, url: str) -> Row:
    """A request to fetch a web page from a private address, which must be refused or fail."""
    path = f"/moot/api/claims/text?url={quote(url, safe='{}')}"
    return Row(id, path, {}, "private network|user name|valid|cannot be reached", (422, 502))


ADDRESSES = [
    *(fetching(f"fetch {host}", f"http://{host}:{{inner}}/") for host in PRIVATE),
    *(
        fetching(f"redirect to {host}", f"http://localhost:{{inner}}/to?http://{quote(host, safe='[]:@%')}:{{inner}}/")
        for host in PRIVATE
    ),
    fetching("redirect to a redirect", "http://localhost:{inner}/to?http://127.1:{inner}/to?http://localhost:{inner}/"),
    *(
        Row(
            f"webhook {host} on {path}",
            path,
            run_with({"model": "fake:1"}, "rag") | {"webhook": f"http://{host}:{{inner}}/"} | more,
            "Webhook|user name|valid",
        )
        for host in PRIVATE
        for path, more in (("/runs/wait", {}), ("/runs/crons", {"schedule": "0 0 * * *"}))
    ),
]

LARGE, NESTED = b" " * (9 * 2**20), b"[" * 100_000
JSON_ROUTES = (
    *("/runs", "/runs/wait", "/runs/stream", "/threads", "/threads/search", "/threads/{thread}/runs", "/assistants"),
    *("/threads/{thread}/state", "/threads/{thread}/history", "/assistants/search", "/store/items/search", "/a2a/rag"),
)
BODIES = [
    *(Row(f"9 MiB to {path}", path, LARGE, "at most 8,388,608 bytes", (413,)) for path in (*JSON_ROUTES, "/ok", "/x")),
    Row("9 MiB to MCP", "/mcp", LARGE, '"error":.*at most 8,388,608 bytes', (413,)),
    Row("65 MiB to be read", "/moot/api/texts?name=a.txt", b" " * (65 * 2**20), "at most 67,108,864 bytes", (413,)),
    Row("a long form", "/moot/login", b"token=" + b"x" * 5000, "at most 4,096 bytes", (413,)),
    *(Row(f"deep nesting to {path}", path, NESTED, "not valid JSON") for path in JSON_ROUTES),
    *(Row(f"half a text to {path}", path, b'{"metadata": "', "not valid JSON") for path in JSON_ROUTES),
    *(Row(f"half a character to {path}", path, b'{"name": "\\ud800"}', "not valid JSON") for path in JSON_ROUTES),
]
"""Bodies that are too large, or that are not JSON, on routes of LangGraph, of MCP and of moot."""


def mcp(fault: str, message: Any, code: int, status: int = 200, **headers: str) -> Row:
    """A faulty message to MCP, which must be answered with an error of JSON-RPC."""
    return Row(f"MCP: {fault}", "/mcp", message, f'"error": ?{{"code": ?{code},', (status,), headers=headers)


IDS: Any = ([], {}, True, 1.5)
ARGUMENTS: Any = ([], "x", 5, False)
PARAMS: Any = ([], "x", 5, None, {}, {"name": 5}, {"name": None}, {"name": "nothing"}, {"name": "rag\0"})
PING: Any = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
CALL: Any = PING | {"method": "tools/call"}
MESSAGES = [
    *(
        mcp(fault, message, -32700, 400)
        for fault, message in {
            "nothing": b"",
            "half an object": b'{"jsonrpc": ',
            "deep nesting": NESTED,
            "half a character": b'{"jsonrpc": "2.0", "id": "\\udfff", "method": "ping"}',
            "other bytes": b'{"jsonrpc": "2.0", "id": "\xff", "method": "ping"}',
            "an id of 5,000 digits": b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b"}",
            "not a number": b'{"jsonrpc": "2.0", "id": NaN, "method": "ping"}',
        }.items()
    ),
    *(
        mcp(f"{message!r:.60}", message, -32600, 400)
        for message in (
            *(5, "ping", [], [PING], {}, PING | {"jsonrpc": "1.0"}, PING | {"jsonrpc": 2}, PING | {"method": 5}),
            *(PING | {"id": id} for id in IDS),
            {"jsonrpc": "2.0", "id": 1},
        )
    ),
    *(mcp(kind, PING, -32600, 400, **{"Content-Type": kind}) for kind in ("application/xml", "text/html")),
    *(mcp(method, PING | {"method": method}, -32601) for method in ("", "tools/CALL", "resources/list")),
    *(
        mcp(f"{params!r:.60}", CALL | {"params": params}, -32602)
        for params in (
            *PARAMS,
            *({"name": "rag", "arguments": arguments} for arguments in ARGUMENTS),
        )
    ),
    mcp("no params", CALL, -32602),
    mcp("no version", PING | {"method": "initialize"}, -32602),
]
ABOVE = [
    row
    for settings, graph in (
        ({"samples": 3000}, "self_consistency"),
        ({"max_concurrency": 900}, "rag"),
        ({"timeout": 3000}, "rag"),
        ({"k": 50}, "rag"),
        ({"agents": 40}, "society_of_minds"),
        ({"max_rounds": 20}, "tool_mad"),
        ({"robustness_calls": 1000}, "rag"),
    )
    for row in (
        Row(f"{settings}", "/runs/wait", run_with(settings, graph), "this server allows at most .* MOOT_MAXIMA"),
        Row(f"an assistant: {settings}", "/assistants", {"graph_id": graph, "context": settings}, "MOOT_MAXIMA"),
    )
]
"""Settings that multiply calls, above what the server allows."""
MANY = [Row("many runs", "/runs/batch", [run_with({}, "rag")] * 101, "at most 100 runs|once for each run", (422, 501))]

BATCH = {"id": "6f0c2b1e-2a63-4d0e-9d0b-7c1f5b7a4e19", "name": "x", "graph": "rag", "claims": [CLAIM], "context": {}}
SHAPES = [
    Row(f"given is {given!r}", "/moot/api/batches", BATCH | {"input": {"given": given}}, "given", missing=("service",))
    for given in (5, {"a": 1}, "text")
]
"""Inputs of another shape."""

ROWS = [*SHAPES, *NAMES, *ROUTES, *FILES, *UPLOADS, *ADDRESSES, *BODIES, *MESSAGES, *ABOVE, *MANY]
