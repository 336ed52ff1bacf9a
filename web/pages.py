"""The local page, its files, and its routes next to the LangGraph API."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from functools import cache, partial
from html import escape
from importlib.resources import files
from typing import Any

from babel import negotiate_locale
from moot.core.callers import CALLED_MODELS, names_in_variable
from moot.core.config import value_of
from moot.core.endpoint import PROVIDERS, find_endpoint, is_loopback
from moot.core.errors import MootError, UserError
from moot.core.reviews import STAGES
from moot.graphs import load_graph
from moot.graphs._evidence import evidence_settings
from moot.graphs._registry import descriptions, graph_title
from moot.nodes._models.chat_models import EMBEDDED
from moot.nodes._models.prices import read_prices
from moot.nodes._runtime.settings import checked_settings
from moot.nodes._steps.person_replies import check_person_reply
from moot.nodes._texts.given import LONGEST_GIVEN
from moot.nodes._texts.given_files import read_given_file
from moot.nodes._texts.task import TASKS
from moot.nodes._texts.verdict import caveat_in_words, caveats, citations_in_words, verdict_citations
from moot.nodes._vendors.catalogue import VENDORS, providers_here, unavailable_reason
from moot.retrievers._archives import host_of
from moot.retrievers._corpus import known_corpora
from moot.retrievers._evidence import clean
from moot.retrievers._search import ABOUT, NO_WEB_SEARCH, SET_UP_WEB_SEARCH, WEB, resolve, web_search
from moot.retrievers._search import INSTALLED as SOURCES
from moot.transcript import ending, round_sections
from moot.transcript.document import checked_parts
from moot.transcript.end import other_warnings
from moot.transcript.language import LANGUAGES, current_language, direction, listed, speaking, t, texts_of
from moot.transcript.report.codes import source_words
from moot.transcript.report.head import verdict_chip
from moot.transcript.report.report import LONGEST_TITLE, report
from moot.transcript.report.reviewed import Review
from moot.transcript.report.sources import marks_of
from moot.transcript.report.summary import needs_summary, summarised
from moot.transcript.templates import styles, templates
from moot.web import claims, debates, rechecks, review_api, reviews, table
from moot.web.batches import routes as batches
from moot.web.caller import (
    USERS,
    body_of,
    caller_client,
    has_auth,
    http_status,
    parse_json,
    public_text,
    read_upload,
    readable_corpora,
)
from moot.web.claims import LARGEST_TABLE, MOST_ROWS
from moot.web.docs import PLACE, docs_page
from moot.web.earlier import checked_before
from moot.web.expected import expected
from moot.web.kept import LARGEST, Document, parse_document
from moot.web.live_view import STEPS, debate_view
from moot.web.login import LOG_IN, TOKEN
from moot.web.repeats import doubt_of, near_claims, same_claim
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
LARGEST_SETTINGS = 2**20
"""Maximum size of the settings of a check, in bytes."""
LARGEST_FILE = 64 * 2**20
"""Maximum size of a file of evidence, in bytes."""
LONGEST_WANTED = 300
"""Maximum number of characters of a word or name by which checks are selected."""
LARGEST_CHOICE = 100_000
"""Maximum size of a choice of evidence, in bytes."""
CHOSEN_LANGUAGE = "moot-language"
"""The cookie with the language that a user chose on the page."""
MOST_LANGUAGES = 20
"""Maximum number of a browser's languages that are considered."""
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

Handler = Callable[[Request], Awaitable[Response]]


def json_handler(handler: Callable[[Request], Awaitable[Any]]) -> Handler:
    """Wraps a handler: turns its value or `MootError` into a JSON response; a response is passed on. Adds `HEADERS`.

    Texts are in the page's language (`page_language`).
    """

    async def answer(request: Request) -> Response:
        try:
            with speaking(page_language(request)):
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
    return Response(_frame(request), media_type=KINDS["html"])


def page_language(request: Request) -> str:
    """The language that the user chose on the page, else the first of the browser's in which there are texts."""
    if (chosen := request.cookies.get(CHOSEN_LANGUAGE)) in LANGUAGES:
        return str(chosen)
    asked = request.headers.get("accept-language", "").split(",")[:MOST_LANGUAGES]
    preferred = [one.partition(";")[0].strip() for one in asked]
    return negotiate_locale(preferred, [*LANGUAGES], sep="-") or "en"


def _frame(request: Request) -> str:
    """The page without a view."""
    values = {
        "lang": current_language(),
        "direction": direction(),
        "languages": LANGUAGES,
        "chosen": request.cookies.get(CHOSEN_LANGUAGE),
        "log_out": LOG_IN if os.environ.get(TOKEN) or os.environ.get(USERS) else "",
    }
    text: str = templates("moot.web", "static").get_template("index.html").render(values)
    return text


async def report_page(request: Request) -> Response:
    """The page with a debate's report and the possible actions, or with the reason why the debate cannot be shown.

    If the debate already has a document, but is running again on this server, redirects to the live view.
    """
    try:
        found = await _find_document(request)
        document = await run_in_threadpool(debates.load, found["id"])
        review = await run_in_threadpool(_review_on_page, found["id"])
    except MootError as error:
        missing = error.kind == "missing_file"
        title = t("No such check") if missing else t("This check cannot be shown")
        lost = LOST.format(title=title, why=escape(public_text(error)), past=t("Past checks"), new=t("New check"))
        return await _page_with(request, "", lost, http_status(error))
    if found.get("thread") and found.get("can") == "watch":
        return RedirectResponse(f"/moot?thread={found['thread']}")
    thread = found.get("placed") or ""
    facts = {key: found.get(key) or "" for key in ("id", "can")} | {"thread": thread, "graph": document["graph"]}
    asks = needs_summary(document) and not (review.fault or review.has_begun)
    facts["sum-up"] = "yes" * (asks and await run_in_threadpool(debates.is_mine, found["id"]))
    panel = f'<section id="review" class="panel" aria-labelledby="h-review" data-id="{escape(found["id"])}"></section>'
    facts["stage"] = "damaged" if review.fault else review.of_version.stage
    try:
        part = await run_in_threadpool(report, document, "part", _asked_language(request), review)
    except UserError as error:  # usually, another version wrote the document; it can still be downloaded
        part = FAULTY.format(
            claim=escape(document["claim"] or t("(no claim)")),
            title=t("This check cannot be shown"),
            fault=escape(error.detail),
            kept=t("Another version of moot may have made it. Its file is still stored."),
        )
        facts["can"], panel = "file", ""
    tools = " ".join(f'data-{name}="{escape(str(value))}"' for name, value in facts.items())
    bar = f'<section id="tools" class="tools-of" aria-label="{t("What can be done")}" {tools}></section>'
    return await _page_with(request, document["claim"], f'<div class="checked"><div>{bar}{part}</div>{panel}</div>')


def _review_on_page(id: str) -> Review:
    """The review of a document; a history that was changed by hand does not keep the report from its readers."""
    try:
        return reviews.review_of(id)
    except UserError as error:
        if error.kind != "damaged_store":
            raise
        return Review(fault=error.detail)


LOST = """<main id="main" class="page"><section class="msg"><h1>{title}</h1><p>{why}</p>
<p><a class="btn" href="/moot/debates">{past}</a> <a class="btn" href="/moot">{new}</a></p></section></main>"""
FAULTY = """<main class="doc" id="top"><h1>{claim}</h1>
<div class="msg"><h2>{title}</h2><p>{fault}</p>
<p>{kept}</p></div></main>"""


async def _page_with(request: Request, title: str, content: str, status: int = 200) -> Response:
    """The page with a title, and with content in place of its ``main`` element."""
    whole = _frame(request)
    before, _, rest = whole.partition("<main")
    text = before + content + rest.partition("</main>")[2]
    text = text.replace(
        "<title>moot</title>", f"<title>{escape((title or t('A check'))[:LONGEST_TITLE])} - moot</title>"
    )
    if 'id="top"' in content:
        text = text.replace('href="#main"', 'href="#top"')
    return Response(text, status, media_type="text/html")


async def example_page(request: Request) -> Response:
    """The page with the report of a recorded debate, for people who have no model yet."""
    document = parse_document(EXAMPLE.read_bytes())
    part = await run_in_threadpool(report, document, "part")
    about = t("This debate was recorded: a strong reader wrote the replies, each from its prompt alone.")
    bar = EXAMPLE_BAR.format(
        name=t("About this example"), lead=t("An example."), about=about, own=t("Check a claim of your own")
    )
    return await _page_with(request, document["claim"], bar + part)


EXAMPLE = files("moot.web").joinpath("example.json")
EXAMPLE_BAR = """<section class="tools-of" aria-label="{name}"><p class="note"><b>{lead}</b>
{about}
<a href="/moot">{own}</a></p></section>"""


async def api(request: Request) -> Response:
    """The page that lists the server's routes, for developers."""
    return Response(await docs_page(request.app), media_type="text/html")


async def static(request: Request) -> Response:
    """One of the page's own files, except the HTML; ``texts.js`` has the texts of the page's language."""
    name = request.path_params["name"]
    if name == "texts.js":
        texts = json.dumps(texts_of(current_language()), ensure_ascii=False)
        return Response(f"export default {texts};", media_type=KINDS["js"])
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
    """The choices that the page offers: graphs with their settings, models, sources, corpora and tasks."""
    return await run_in_threadpool(_choices)


def _choices() -> dict[str, Any]:
    """As `choices`. Blocking.

    ``web`` says which web search is used. ``lacks`` maps ``web``, ``embedded`` and the offered model to the reason why
    each cannot be used, or to an empty text. ``about`` says where the offered model is. ``unset`` is true if no model
    was configured and none can be used, except the built-in one. ``usual`` is ``embedded`` if `moot config` or
    ``MOOT_MODEL`` names the built-in model, else empty.
    """
    may_read = readable_corpora.get()
    corpora = [name for name in known_corpora() if may_read is None or name in may_read]
    searched = [f"{kind}:{corpus}" for kind in ("hybrid", "chroma", "bm25") for corpus in corpora]
    offered, lacks = _offered_model()
    return {
        **_fixed_choices(),
        "steps": {name: (kind, t(doing)) for name, (kind, doing) in STEPS.items()},
        "models": ["embedded", *read_prices()],
        "lacks": {"web": _missing_for_web_search(), "embedded": unavailable_reason("embedded"), offered: t(lacks)},
        "web": _about_web_search(),
        "unset": lacks == NO_KEY,
        "model": offered,
        "about": _about_model(offered) if not lacks else "",
        "usual": "embedded" if value_of("model") == EMBEDDED else "",
        "embedded": EMBEDDED,
        "sources": [
            *(kind for kind in ABOUT if kind not in ("langchain", "mcp", "object")),
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
        return t("Random replies, for tests")
    if (known := PROVIDERS.get(provider)) is None:
        has_keys = VENDORS[provider].keys
        return t("With your key, which is set") if has_keys else t("With the credentials of this machine")
    address = find_endpoint(provider).base_url
    titles = {one["provider"]: one["title"] for one in providers_here()} | {"openai": known.base_url_variable}
    if is_loopback(address):
        return t("On this machine ({server})", server=titles[provider])
    is_own = address.rstrip("/") == PROVIDERS["openai"].base_url
    there = t("At the address in {variable}", variable=known.base_url_variable)
    return t("With your key, which is set") if is_own else there


NO_WEB = f"{NO_WEB_SEARCH[:1].upper()}{NO_WEB_SEARCH[1:]}. {SET_UP_WEB_SEARCH}"


def _missing_for_web_search() -> str:
    """The reason why web search cannot be used; empty if it can be used."""
    return "" if web_search() else t(NO_WEB)


def _about_web_search() -> str:
    """The web search that is used, and its host if it is the operator's own; empty if there is none."""
    if not (name := web_search()):
        return ""
    source = WEB[name].source
    if own := source.own_address():
        return t("By {name} at {host}", name=source.name, host=host_of(own))
    return t("By {name}", name=source.name)


async def evidence(request: Request) -> Any:
    """The settings of a system for the evidence that words name (`evidence_settings`), and the sources in words.

    The body has the ``graph``, the ``words``, and perhaps a ``corpus`` and whether texts are ``given``.
    """
    asked: Any = parse_json(await body_of(request, LARGEST_CHOICE))
    if not isinstance(asked, dict):
        asked = {}
    graph, words, corpus = asked.get("graph"), asked.get("words"), asked.get("corpus")
    named = isinstance(graph, str) and isinstance(words, list) and all(isinstance(word, str) for word in words)
    if not named or not isinstance(corpus, str | None):
        raise UserError('The body is {"graph": "...", "words": ["web", ...], "corpus": "..."}.', kind="bad_request")
    if corpus and (may_read := readable_corpora.get()) is not None and corpus not in may_read:
        raise UserError(f"There is no corpus {corpus[:100]!r} that you may read.", kind="unknown_corpus")
    return await run_in_threadpool(_evidence, graph, words, corpus or None, asked.get("given") is True)


def _evidence(graph: str, words: list[str], corpus: str | None, given: bool) -> dict[str, Any]:
    """As `evidence`. Blocking."""
    kind = load_graph(graph).settings
    found = evidence_settings(kind, words, {"corpus": corpus}, graph=graph, given=given)
    return {"settings": found, "used": _used_in_words(found, given)}


def _used_in_words(found: Mapping[str, Any], given: bool) -> str:
    """The sources that settings name, in a sentence; blocking."""
    named = [
        found.get("sources", ()),
        *(one["retriever"] for one in found.get("debaters") or found.get("agents") or ()),
    ]
    names = [name for one in named for name in ([one] if isinstance(one, str) else one)]
    resolved = [":".join(filter(None, resolve(name))) for name in names]
    words = [*([t("the texts added here")] if given else []), *dict.fromkeys(map(source_words, resolved))]
    return (told := listed(words))[:1].upper() + told[1:] + "."


@cache
def _fixed_choices() -> dict[str, Any]:
    """The choices that do not change while this process runs."""
    graphs = [
        {"name": name, "about": about, "settings": load_graph(name).settings.model_json_schema()}
        for name, about in descriptions().items()
    ]
    tasks = {name: known.about for name, known in TASKS.items()}
    methods = {one["name"]: graph_title(one["name"]) for one in graphs}
    return {"graphs": graphs, "tasks": tasks, "methods": methods}


async def expected_cost(request: Request) -> Any:
    """What checks are expected to take, in ``words``, which are empty if that is not known.

    The body has the ``graph`` and the ``context`` of each check, and optionally their ``count``, and the bytes of the
    texts that are ``given`` to each.
    """
    found = parse_json(await body_of(request, LARGEST_SETTINGS))
    body = {"count": 1, "given": 0, "context": {}, **(found if isinstance(found, dict) else {})}
    numbers = body["count"], body["given"]
    if not isinstance(body.get("graph"), str) or not all(type(one) is int and 0 <= one < 10**9 for one in numbers):
        form = '{"graph": ..., "context": {}, "count": 1, "given": 0}'
        raise UserError(f"The body must have this form: {form}.", kind="bad_request")
    return {"words": await run_in_threadpool(_expected_words, body["graph"], body["context"], *numbers)}


def _expected_words(graph: str, context: Any, count: int, given: int) -> str:
    settings = checked_settings(load_graph(graph).settings, context, graph)
    # The store does not know the users of an `Auth` object, so it would tell what the debates of others took.
    return expected(graph, settings, given, reads_store=not has_auth()).times(count).in_words(count)


async def list_debates(request: Request) -> Any:
    """One page of the list of debates. The query has the page's number as ``page``; the default is 1.

    The query may select debates: with all words of ``q`` in the claim, with a ``state`` (`table.STATES`), in a
    ``stage`` of review (`STAGES`), with the ``person`` who decided last, with an editor's ``rating``, with a ``site``
    on which the claim appeared or which the verdict quotes, and of one ``list``. Without ``list``, debates of one list
    of claims are one entry. With ``choices``, the answer also has the persons and ratings that there are.
    """
    digits = request.query_params.get("page", "1")
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 7 else 0
    if number < 1:
        raise UserError("`page` must be a whole number from 1 to 999999.", kind="bad_request")
    names = ("q", "state", "site", "list", "stage", "person", "rating")
    asked = {name: request.query_params.get(name, "")[:LONGEST_WANTED] for name in names}
    if asked["state"] not in ("", *table.STATES):
        raise UserError(f"`state` is one of {', '.join(table.STATES)}.", kind="bad_request")
    if asked["stage"] not in ("", *STAGES):
        raise UserError(f"`stage` is one of {', '.join(STAGES)}.", kind="bad_request")
    client, wanted = caller_client(request.scope), table.Wanted(asked.pop("q"), **asked)
    entries, total = await table.list_page(number, client, wanted)
    more = await table.review_choices(client) if "choices" in request.query_params else {}
    return {"debates": entries, "page": number, "pages": -(-total // debates.PAGE_SIZE), "total": total, **more}


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
    return {"document": document, "said": words, "chip": answer, "needs_summary": needs_summary(document)}


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
    """Adds a summary to a finished debate's document, unless it has one or the setting `reader_summary` is off.

    Nor does a check get one after its editor has begun (`Review.has_begun`).
    """
    stem, _ = await table.find_debate(request.path_params["id"], caller_client(request.scope))
    if stem is None or not await run_in_threadpool(debates.is_mine, stem):
        raise UserError("This debate has no document yet, or it is not yours.", kind="missing_file")
    if (await run_in_threadpool(reviews.review_of, stem)).has_begun:
        return {"id": stem}
    document = await run_in_threadpool(debates.load, stem)
    summed = await summarised(document, "record")
    if summed is not document:
        await run_in_threadpool(debates.replace, stem, summed)
    return {"id": stem}


async def delete_debate(request: Request) -> Any:
    """Deletes a debate, as `table.delete` does; see `reviews.check_deletable`."""
    stem, _ = await table.find_debate(request.path_params["id"], caller_client(request.scope))
    if stem is not None:
        await run_in_threadpool(reviews.check_deletable, stem)
    await table.delete(request.path_params["id"], caller_client(request.scope))
    return {}


async def download_debate(request: Request) -> Response:
    """A debate as a file of the kind ``json``, ``md``, ``html`` or ``claimreview``.

    For ``claimreview``, the query must have ``publisher`` and ``url``, and ``unreviewed`` if nobody approved the check.
    ``language`` in the query is the report's.
    """
    id, kind = request.path_params["id"], request.path_params["kind"]
    if kind != "json" and kind not in DOWNLOADS:
        raise UserError(
            f"There is no download as {kind[:20]!r}. Known: json, md, html, claimreview.", kind="missing_file"
        )
    stem, _ = await table.find_debate(id, caller_client(request.scope))
    if stem is None:
        raise UserError("This debate has no document yet.", kind="missing_file")
    query = request.query_params
    if kind == "claimreview":
        named = (query.get("publisher", ""), query.get("url", ""))
        asked = partial(reviews.claim_review_of, stem, *named, unreviewed="unreviewed" in query)
        text: str | bytes = await run_in_threadpool(asked)
    elif kind == "json":
        text = await run_in_threadpool(debates.content_of, stem)
    else:
        text = await run_in_threadpool(reviews.report_of, stem, kind, _asked_language(request))
    end = "claimreview.json" if kind == "claimreview" else kind
    name = {"Content-Disposition": f'attachment; filename="moot-{id}.{end}"'}
    return Response(text, media_type=(KINDS | DOWNLOADS)[kind], headers=name)


def _asked_language(request: Request) -> str | None:
    """The language of a report that ``language`` in the query names; None for the claim's."""
    return request.query_params.get("language") or None


async def find_earlier(request: Request) -> Any:
    """Whether claims were checked before (`checked_before`), and what is odd about them as a list.

    The body is ``{"claims": ["...", ...]}``. Each claim also gets a ``doubt`` (`doubt_of`), and the index of an earlier
    claim of the list that is the ``same``, or ``near``, which is nearly the same; None if there is none.
    """
    body = parse_json(await body_of(request, LARGEST_TABLE))
    claims = body.get("claims") if isinstance(body, dict) else None
    if not isinstance(claims, list) or not all(isinstance(one, str) and one.strip() for one in claims):
        raise UserError('The body must be {"claims": ["...", ...]}.', kind="bad_request")
    if len(claims) > MOST_ROWS:
        raise UserError(f"At most {MOST_ROWS} claims can be looked up at a time.", kind="bad_request")
    found = await checked_before(claims, await table.visible_threads(caller_client(request.scope)))
    odd = await run_in_threadpool(_odd_claims, claims)
    return {"found": [{**one, **about} for one, about in zip(found, odd, strict=True)]}


def _odd_claims(claims: list[str]) -> list[dict[str, Any]]:
    """As `find_earlier`. Blocking."""
    first: dict[str, int] = {}
    firsts = [first.setdefault(same_claim(claim), index) for index, claim in enumerate(claims)]
    near = {second: one for one, second in near_claims(claims)}
    return [
        {"doubt": doubt_of(claim), "same": None if firsts[n] == n else firsts[n], "near": near.get(n)}
        for n, claim in enumerate(claims)
    ]


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
    route("/moot/api/evidence", evidence, "POST"),
    route("/moot/api/expected", expected_cost, "POST"),
    route("/moot/api/debates", list_debates),
    route("/moot/api/due", rechecks.due_checks),
    route("/moot/api/earlier", find_earlier, "POST"),
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
    route("/moot/api/batches/{id}/xlsx", batches.download_sheet),
    route("/moot/api/batches/{id}/zip", batches.download_reports),
    route("/moot/api/batches/{id}/stop", batches.stop_batch, "POST"),
    route("/moot/api/batches/{id}/go-on", batches.resume_batch, "POST"),
    route("/moot/api/debates/{id}", get_debate),
    route("/moot/api/debates/{id}", delete_debate, "DELETE"),
    route("/moot/api/debates/{id}/resume", resume_debate, "POST"),
    route("/moot/api/debates/{id}/summary", write_summary, "POST"),
    route("/moot/api/debates/{id}/recheck", rechecks.look_again, "POST"),
    route("/moot/api/debates/{id}/anew", rechecks.debate_anew, "POST"),
    route("/moot/api/debates/{id}/review", review_api.show_review),
    route("/moot/api/debates/{id}/review", review_api.change_review, "POST"),
    route("/moot/api/debates/{id}/{kind}", download_debate),
]
