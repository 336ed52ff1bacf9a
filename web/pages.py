"""The local page, its files, and its routes next to the LangGraph API."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from moot.core.callers import CALLED_MODELS, names_in_variable
from moot.core.config import value_of
from moot.core.endpoint import PROVIDERS, find_endpoint, is_loopback
from moot.core.errors import MootError, UserError
from moot.graphs import load_graph
from moot.graphs._registry import descriptions, graph_title
from moot.graphs.presets import PRESETS
from moot.nodes._models.chat_models import EMBEDDED
from moot.nodes._models.prices import read_prices
from moot.nodes._steps.person_replies import check_person_reply
from moot.nodes._texts.given import LONGEST_GIVEN
from moot.nodes._texts.given_files import read_given_file
from moot.nodes._texts.task import TASKS
from moot.nodes._texts.verdict import caveat_in_words, caveats, citations_in_words, verdict_citations
from moot.nodes._vendors.catalogue import VENDORS, providers_here, unavailable_reason
from moot.retrievers._corpus import known_corpora
from moot.retrievers._evidence import clean
from moot.retrievers._search import ABOUT, WEB
from moot.retrievers._search import INSTALLED as SOURCES
from moot.transcript import ending, round_sections
from moot.transcript.document import checked_parts
from moot.transcript.end import other_warnings
from moot.transcript.report.claim_review import claim_review
from moot.transcript.report.head import verdict_chip
from moot.transcript.report.report import LONGEST_TITLE, icons, report, styles
from moot.transcript.report.sources import marks_of
from moot.transcript.report.summary import summarised
from moot.web import claims, debates, table
from moot.web.batches import routes as batches
from moot.web.caller import (
    USERS,
    body_of,
    caller_client,
    http_status,
    parse_json,
    public_text,
    read_upload,
    readable_corpora,
)
from moot.web.docs import PLACE, docs_page
from moot.web.kept import LARGEST, Document, parse_document
from moot.web.live_view import STEPS, debate_view
from moot.web.login import LOG_IN, TOKEN
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
LARGEST_FILE = 64 * 2**20
"""Maximum size of a file of evidence, in bytes."""
THREAD_ID_LENGTH = 36
"""Length of a thread's id, in characters."""
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "json": "application/json"}
DOWNLOADS = {"md": "text/markdown", "html": "text/html", "claimreview": "application/ld+json"}
STATIC = {
    file.name: (file.read_bytes(), KINDS[file.name.rpartition(".")[2]])
    for file in files("moot.web").joinpath("static").iterdir()
    if file.name.rpartition(".")[2] in KINDS
}
"""The page's own files; no other file is served."""
STATIC["page.css"] = (styles().encode() + STATIC["page.css"][0], KINDS["css"])
STATIC["index.html"] = (STATIC["index.html"][0].replace(b"<!-- icons -->", icons().encode()), KINDS["html"])

Handler = Callable[[Request], Awaitable[Response]]


def json_handler(handler: Callable[[Request], Awaitable[Any]]) -> Handler:
    """Wraps a handler: turns its value or `MootError` into a JSON response; a response is passed on. Adds `HEADERS`."""

    async def answer(request: Request) -> Response:
        try:
            found = await handler(request)
        except MootError as error:
            found = JSONResponse({"detail": public_text(error), "kind": error.kind}, http_status(error))
        response = found if isinstance(found, Response) else JSONResponse(found)
        response.headers.update(HEADERS)
        return response

    return answer


# --- the page ---------------------------------------------------------------------------------------------------------


async def page(request: Request) -> Response:
    """The page. Its script shows the view that belongs to the address."""
    content, kind = STATIC["index.html"]
    return Response(_with_log_out_link(content), media_type=kind)


def _with_log_out_link(content: bytes) -> bytes:
    link = f' <a href="{LOG_IN}">Log out</a>'.encode() if os.environ.get(TOKEN) or os.environ.get(USERS) else b""
    return content.replace(b"</nav>", link + b"</nav>")


async def report_page(request: Request) -> Response:
    """The page with a debate's report and the possible actions, or with the reason why the debate cannot be shown.

    If the debate already has a document, but is running again on this server, redirects to the live view.
    """
    try:
        found = await _find_document(request)
        document = await run_in_threadpool(debates.load, found["id"])
    except MootError as error:
        missing = error.kind == "missing_file"
        lost = LOST.format(
            title="No such check" if missing else "This check cannot be shown", why=escape(public_text(error))
        )
        return await _page_with("", lost, http_status(error))
    if found.get("thread") and found.get("can") == "watch":
        return RedirectResponse(f"/moot?thread={found['thread']}")
    thread = found.get("placed") or ""
    facts = {key: found.get(key) or "" for key in ("id", "can")} | {"thread": thread, "graph": document["graph"]}
    facts["sum-up"] = "yes" * bool(_needs_summary(document))
    try:
        part = await run_in_threadpool(report, document, "part")
    except UserError as error:  # usually, another version wrote the document; it can still be downloaded
        part = FAULTY.format(claim=escape(document["claim"] or "(no claim)"), fault=escape(error.detail))
        facts["can"] = "file"
    tools = " ".join(f'data-{name}="{escape(str(value))}"' for name, value in facts.items())
    bar = f'<section id="tools" class="tools-of" aria-label="What can be done" {tools}></section>'
    return await _page_with(document["claim"], bar + part)


LOST = """<main id="main" class="page"><section class="msg"><h1>{title}</h1><p>{why}</p>
<p><a class="btn" href="/moot/debates">Past checks</a> <a class="btn" href="/moot">New check</a></p></section></main>"""
FAULTY = """<main class="doc" id="top"><h1>{claim}</h1>
<div class="msg"><h2>This check cannot be shown</h2><p>{fault}</p>
<p>Another version of moot may have made it. Its file is still stored.</p></div></main>"""


def _needs_summary(document: Document) -> bool:
    wants = document["status"] == "done" and document["settings"].get("reader_summary")
    return bool(wants) and not document.get("reader_summary")


async def _page_with(title: str, content: str, status: int = 200) -> Response:
    """The page with a title, and with content in place of its ``main`` element."""
    whole = STATIC["index.html"][0].decode()
    before, _, rest = whole.partition("<main")
    text = before + content + rest.partition("</main>")[2]
    text = text.replace("<title>moot</title>", f"<title>{escape((title or 'A check')[:LONGEST_TITLE])} - moot</title>")
    if 'id="top"' in content:
        text = text.replace('href="#main"', 'href="#top"')
    return Response(_with_log_out_link(text.encode()), status, media_type="text/html")


async def example_page(request: Request) -> Response:
    """The page with the report of a recorded debate, for people who have no model yet."""
    document = parse_document(EXAMPLE.read_bytes())
    part = await run_in_threadpool(report, document, "part")
    return await _page_with(document["claim"], EXAMPLE_BAR + part)


EXAMPLE = files("moot.web").joinpath("example.json")
EXAMPLE_BAR = """<section class="tools-of" aria-label="About this example"><p class="note"><b>An example.</b>
This debate was recorded: for each role a strong reader, who saw only that role's prompts, wrote the replies.
<a href="/moot">Check a claim of your own</a></p></section>"""


async def api(request: Request) -> Response:
    """The page that lists the server's routes, for developers."""
    return Response(await docs_page(request.app), media_type="text/html")


async def static(request: Request) -> Response:
    """One of the page's own files, except the HTML."""
    name = request.path_params["name"]
    if name not in STATIC or name.endswith(".html"):
        raise UserError("There is no such file.", kind="missing_file")
    return _static_file_response(name)


def _static_file_response(name: str) -> Response:
    content, kind = STATIC[name]
    return Response(content, media_type=kind)


async def health(request: Request) -> Any:
    """The health check for Aegra. On LangGraph's server, another route with the same path comes first."""
    return {"ok": True}


async def redirect_to_page(request: Request) -> Response:
    """Redirects from ``/moot/`` to the page."""
    return RedirectResponse("/moot")


# --- data for the page ------------------------------------------------------------------------------------------------


async def choices(request: Request) -> Any:
    """The choices that the page offers: graphs with their settings, presets, models, sources, corpora and tasks."""
    return await run_in_threadpool(_choices)


def _choices() -> dict[str, Any]:
    """As `choices`. Blocking.

    ``lacks`` maps ``web``, ``embedded`` and the offered model to the reason why each cannot be used, or to an empty
    text. ``about`` says where the offered model is. ``unset`` is true if no model was configured and none can be used,
    except the built-in one.
    ``usual`` is ``embedded`` if `moot config` or ``MOOT_MODEL`` names the built-in model, else empty.
    """
    may_read = readable_corpora.get()
    corpora = [name for name in known_corpora() if may_read is None or name in may_read]
    searched = [f"{kind}:{corpus}" for kind in ("hybrid", "chroma", "bm25") for corpus in corpora]
    prices = read_prices()
    offered, lacks = _offered_model()
    return {
        **_fixed_choices(),
        "models": ["embedded", *prices],
        "prices": prices,
        "lacks": {"web": _missing_for_web_search(), "embedded": unavailable_reason("embedded"), offered: lacks},
        "unset": lacks == NO_KEY,
        "model": offered,
        "about": _about_model(offered) if not lacks else "",
        "usual": "embedded" if value_of("model") == EMBEDDED else "",
        "embedded": EMBEDDED,
        "sources": [
            *(kind for kind in ABOUT if kind not in ("langchain", "object")),
            "web",
            *SOURCES.names(),
            *searched,
        ],
        "corpora": corpora,
    }


EXAMPLE_MODEL = "openai:gpt-4o-mini"
"""The model offered in addition to the built-in one if no model is configured and no provider's example is usable."""

NO_KEY = "Needs a key (OPENAI_API_KEY); none is set"


def _offered_model() -> tuple[str, str]:
    """The model offered in addition to the built-in one, and the reason why it cannot be used, or an empty text.

    The model is the first of these that exists: the model of `moot config` or ``MOOT_MODEL``, unless it is the built-in
    one; the first model in ``MOOT_MODELS``; the example of the first provider that can be used and whose example has a
    price; `EXAMPLE_MODEL`.
    """
    listed = [name for name in names_in_variable(CALLED_MODELS) if not name.endswith(":*")]
    named = value_of("model")
    named = next(iter(listed), None) if not named or named.partition(":")[0] == "embedded" else named
    if named:
        return named, unavailable_reason(named.partition(":")[0])
    priced = [one for one in providers_here() if one["example"] in read_prices()]
    ready = next((one["example"] for one in priced if not one["why_not"]), None)
    return (ready, "") if ready else (EXAMPLE_MODEL, NO_KEY)


def _about_model(name: str) -> str:
    """Where a model that can be used is: on this machine, at another address, or behind a key that is set."""
    provider = name.partition(":")[0]
    if provider == "fake":
        return "Random replies, for tests"
    if (known := PROVIDERS.get(provider)) is None:
        return "With your key, which is set" if VENDORS[provider].keys else "With the credentials of this machine"
    address = find_endpoint(provider).base_url
    titles = {one["provider"]: one["title"] for one in providers_here()} | {"openai": known.base_url_variable}
    if is_loopback(address):
        return f"On this machine ({titles[provider]})"
    is_own = address.rstrip("/") == PROVIDERS["openai"].base_url
    return "With your key, which is set" if is_own else f"At the address in {known.base_url_variable}"


def _missing_for_web_search() -> str:
    """The reason why web search cannot be used; empty if it can be used."""
    ready = any(WEB[kind].source.key() for kind in ("tavily", "serper"))
    return "" if ready else "Needs a search key (TAVILY_API_KEY or SERPER_API_KEY); none is set"


@cache
def _fixed_choices() -> dict[str, Any]:
    """The choices that do not change while this process runs."""
    graphs = [
        {"name": name, "about": about, "settings": load_graph(name).settings.model_json_schema()}
        for name, about in descriptions().items()
    ]
    presets = [{"name": name, **asdict(preset)} for name, preset in PRESETS.items()]
    tasks = {name: known.about for name, known in TASKS.items()}
    methods = {one["name"]: graph_title(one["name"]) for one in graphs}
    return {"graphs": graphs, "presets": presets, "tasks": tasks, "methods": methods, "steps": STEPS}


async def list_debates(request: Request) -> Any:
    """One page of the list of debates. The query has the page's number as ``page``; the default is 1.

    If the query has words in ``q``, only debates whose claim contains all these words are listed.
    """
    digits = request.query_params.get("page", "1")
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 7 else 0
    if number < 1:
        raise UserError("`page` must be a whole number from 1 to 999999.", kind="bad_request")
    words = request.query_params.get("q", "")[:LONGEST_TITLE]
    entries, total = await table.list_page(number, caller_client(request.scope), words)
    return {"debates": entries, "page": number, "pages": -(-total // debates.PAGE_SIZE), "total": total}


async def resume_debate(request: Request) -> Any:
    """Resumes a debate, as `table.resume` does; returns its thread and new run."""
    return await table.resume(request.path_params["id"], caller_client(request.scope))


async def import_document(request: Request) -> Any:
    """Stores the request's body, a document of ``moot verify --out``; returns the stored document's id."""
    content = await body_of(request, LARGEST)
    return {"id": await run_in_threadpool(_import_document, content)}


def _import_document(content: bytes) -> str:
    document = parse_document(content)
    report(document, "md")  # raises if the document cannot be shown, so that it is not stored
    return debates.save(document)


async def texts_in_file(request: Request) -> Any:
    """A file's texts in the form of the input ``given``. The body is the file; ``name`` in the query is its name."""
    return await read_upload(request, LARGEST_FILE, read_given_file)


async def convert_evidence(request: Request) -> Any:
    """Converts texts to evidence, as if a person had added them to a debate. The body is the list of texts."""
    texts = parse_json(await body_of(request, 8 * LONGEST_GIVEN))
    return await run_in_threadpool(_convert_evidence, texts)


def _convert_evidence(texts: Any) -> Any:
    reply: Any = check_person_reply("evidence", {"add": texts}, {"evidence": []})
    return reply.pieces(0)


# --- one debate -------------------------------------------------------------------------------------------------------


async def get_debate(request: Request) -> Any:
    """A debate's document with its transcript, by the id of the debate, of its document or of its thread."""
    found = await _find_document(request)
    return {**found, **await run_in_threadpool(_document_in_words, found["id"])}


async def _find_document(request: Request) -> dict[str, Any]:
    """The id of a debate's document, the fields of `table.status_and_action`, and the debate's thread as ``placed``.

    ``placed`` is None if the server does not have the thread. If the debate is not in the table, the fields of
    `table.status_and_action` are missing.

    """
    id, client = request.path_params["id"], caller_client(request.scope)
    if len(id) == THREAD_ID_LENGTH and not await table.thread_exists(id, client):  # so that the server checks the owner
        raise UserError("There is no such thread.", kind="missing_file")
    stem, row = await table.find_debate(id, client)
    if stem is None:
        raise UserError(
            "This debate has no document yet: it is still running, or it was stopped before its document was written.",
            kind="missing_file",
        )
    more = await table.status_and_action(row, client) if row else {}
    run = row.served if row else None
    own = id if len(id) == THREAD_ID_LENGTH else None
    placed = run[0] if run and await table.thread_exists(run[0], client) else own
    return {"id": stem, **more, "placed": placed}


def _document_in_words(id: str) -> dict[str, Any]:
    document = debates.load(id)
    answer = asdict(verdict_chip(document))
    try:
        words = describe_document(document, has_ended=True)
    except UserError as error:  # usually, another version wrote the document; the page shows its plain content
        words = {"fault": error.detail}
    return {"document": document, "said": words, "chip": answer}


def describe_document(document: Document, *, has_ended: bool) -> dict[str, Any]:
    """A debate in words: sections, notes on evidence, warnings, and how the debate ended, with the citations.

    ``caveats`` are warnings shown with the verdict; ``warnings`` are the others. ``end`` is None unless ``has_ended``.

    """
    with checked_parts():
        sections = [asdict(section) for section in round_sections(document)]
        end = _ending(document) if has_ended else None
        marks = {piece["id"]: marks_of(piece) for piece in document["evidence"]}
        warned = {
            "caveats": [clean(caveat_in_words(one)) for one in caveats(document)],
            "warnings": [clean(text) for text in other_warnings(document, without_caveats=True)],
        }
    return {"sections": sections, "end": end, "marks": marks, **warned}


def _ending(document: Document) -> dict[str, Any]:
    end_lines = asdict(ending(document))["lines"]
    cited = verdict_citations(document, fabricated=True)
    return {"lines": end_lines, "citations": cited, "cites": citations_in_words(document)}


async def describe_running(request: Request) -> Any:
    """A running debate in words. The request's body is the debate's document so far."""
    content = await body_of(request, LARGEST)
    return await run_in_threadpool(_describe_running, content)


def _describe_running(content: bytes) -> dict[str, Any]:
    return describe_document(parse_json(content), has_ended=False)


async def running_view(request: Request) -> Any:
    """The page's view of the running debate in the body. ``open`` in the query: see ``wanted`` in `debate_view`."""
    content = await body_of(request, LARGEST)
    wanted = request.query_params.getlist("open")
    return await run_in_threadpool(_running_view, content, wanted)


def _running_view(content: bytes, wanted: list[str]) -> dict[str, Any]:
    document = parse_json(content)
    if not isinstance(document, dict):
        raise UserError("This is not a debate.", kind="bad_request")
    return debate_view(document, wanted)


async def write_summary(request: Request) -> Any:
    """Adds a summary to a finished debate's document, unless it has one or the setting `reader_summary` is off."""
    stem, _ = await table.find_debate(request.path_params["id"], caller_client(request.scope))
    if stem is None:
        raise UserError("This debate has no document yet.", kind="missing_file")
    document = await run_in_threadpool(debates.load, stem)
    summed = await summarised(document, "record")
    if summed is not document:
        await run_in_threadpool(debates.replace, stem, summed)
    return {"id": stem}


async def delete_debate(request: Request) -> Any:
    """Deletes a debate, as `table.delete` does."""
    await table.delete(request.path_params["id"], caller_client(request.scope))
    return {}


async def download_debate(request: Request) -> Response:
    """A debate as a file of the kind ``json``, ``md``, ``html`` or ``claimreview``.

    For ``claimreview``, the query must have ``publisher`` and ``url``.
    """
    id, kind = request.path_params["id"], request.path_params["kind"]
    if kind != "json" and kind not in DOWNLOADS:
        raise UserError(
            f"There is no download as {kind[:20]!r}. Known: json, md, html, claimreview.", kind="missing_file"
        )
    await table.find_debate(id, caller_client(request.scope))
    query = request.query_params
    text = await run_in_threadpool(_download, id, kind, query.get("publisher", ""), query.get("url", ""))
    end = "claimreview.json" if kind == "claimreview" else kind
    name = {"Content-Disposition": f'attachment; filename="moot-{id}.{end}"'}
    return Response(text, media_type=(KINDS | DOWNLOADS)[kind], headers=name)


def _download(id: str, kind: str, publisher: str, url: str) -> str | bytes:
    document = debates.load(id)
    if kind == "claimreview":
        return claim_review(document, publisher, url)
    return debates.content_of(id) if kind == "json" else report(document, kind)


def route(path: str, handler: Callable[[Request], Awaitable[Any]], method: str = "GET") -> Route:
    """A route of the page; `json_handler` wraps its handler."""
    return Route(path, json_handler(handler), methods=[method])


ROUTES: list[Route] = [
    route("/ok", health),
    route("/moot", page),
    route("/moot/", redirect_to_page),
    route(PLACE, api),
    route("/moot/claims", page),
    route("/moot/example", example_page),
    route("/moot/batches/{id}", page),
    route("/moot/debates", page),
    route("/moot/debates/{id}", report_page),
    route("/moot/static/{name}", static),
    route("/moot/api/choices", choices),
    route("/moot/api/debates", list_debates),
    route("/moot/api/debates/import", import_document, "POST"),
    route("/moot/api/said", describe_running, "POST"),
    route("/moot/api/told", running_view, "POST"),
    route("/moot/api/added", convert_evidence, "POST"),
    route("/moot/api/texts", texts_in_file, "POST"),
    route("/moot/api/claims/text", claims.read_text, "POST"),
    route("/moot/api/claims/sentences", claims.list_sentences, "POST"),
    route("/moot/api/claims/csv", claims.claims_as_csv, "POST"),
    route("/moot/api/claims/rows", claims.read_rows, "POST"),
    route("/moot/api/batches", batches.list_batches),
    route("/moot/api/batches", batches.start_batch, "POST"),
    route("/moot/api/batches/{id}", batches.show_batch),
    route("/moot/api/batches/{id}", batches.delete_batch, "DELETE"),
    route("/moot/api/batches/{id}/csv", batches.download_table),
    route("/moot/api/batches/{id}/zip", batches.download_reports),
    route("/moot/api/batches/{id}/stop", batches.stop_batch, "POST"),
    route("/moot/api/batches/{id}/go-on", batches.resume_batch, "POST"),
    route("/moot/api/debates/{id}", get_debate),
    route("/moot/api/debates/{id}", delete_debate, "DELETE"),
    route("/moot/api/debates/{id}/resume", resume_debate, "POST"),
    route("/moot/api/debates/{id}/summary", write_summary, "POST"),
    route("/moot/api/debates/{id}/{kind}", download_debate),
]
