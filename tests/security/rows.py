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


MODULE: Any = {"sources": ["langchain:evilmod:x"]}
UNLISTED = {
    "MOOT_LANGCHAIN_SOURCES": [
        MODULE,
        {"fallback": ["bm25", "langchain:evilmod:x"]},
        {"debaters": [{"name": "one", "retriever": "langchain:evilmod:x"}, {"name": "two"}]},
        {"debate_settings": MODULE},
        {"debate_settings": {"debaters": [{"name": "one", "retriever": "langchain:evilmod:x"}]}},
    ],
    "MOOT_EMBEDDERS": [
        *({name: "/etc"} for name in ("embedder", "reranker", "cross_encoder", "source_summaries")),
        *({name: "somebody/model"} for name in ("embedder", "reranker", "cross_encoder", "source_summaries")),
        *({"embedder": name} for name in ("OPENAI:x", " openai:x", "anthropic:x", "file:///etc", "./", "model")),
        {"reranker": "model"},
        {"debate_settings": {"embedder": "/etc"}},
    ],
    "MOOT_MODELS": [
        *({"model": name} for name in ("vllm:x", "ollama:x", "bedrock_converse:x", "google_vertexai:x")),
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

ROWS = [*NAMES, *ROUTES, *FILES, *UPLOADS, *ADDRESSES]
