"""``moot claims``: finds the claims of a text, as a table that a person edits and ``moot batch`` reads."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from textwrap import shorten
from typing import Any, cast

from moot.cli.options import parse_pairs, parse_settings
from moot.cli.resuming import check_models, parse_mode
from moot.cli.signals import Stop, end_now
from moot.cli.waiting import waiting
from moot.core.config import usual_settings, value_of
from moot.core.endpoint import close_clients
from moot.core.errors import USER_KINDS, UserError
from moot.core.files import check_writable, write_atomically, write_error
from moot.core.words import count_with_noun
from moot.graphs.find_claims import graph
from moot.nodes._claims.places import sentences_in
from moot.nodes._claims.reading import read_article
from moot.nodes._claims.state import ClaimSettings
from moot.nodes._claims.steps import check_text
from moot.nodes._models.chat_models import EMBEDDED
from moot.nodes._models.debate_ledger import LedgerUse, ledger_use
from moot.nodes._runtime.settings import Settings
from moot.retrievers._evidence import clean
from moot.transcript.claims import claims_csv, filled_words, place_in_words
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

SHOWN = 3
"""Maximum number of dropped claims, and of unread parts of the text, that are printed."""
LONGEST = 160
"""Maximum length of a quote on the screen, in characters."""
STEPS = 3
"""Number of the graph's steps for each part of the text."""
NO_MODEL = (
    "The built-in model is too weak to find claims. Name another one with --model provider:name (or as default: moot "
    "config set model NAME), or list every sentence to choose from, without a model: --sentences"
)
RELATIVE = re.compile(
    r"\b(yesterday|today|ago|(last|this|next) (year|month|week|summer|winter|spring|autumn))\b", re.IGNORECASE
)
"""Words for times relative to a text's publication."""
UNDATED = (
    "The text's date of publication is not known, so words like “last year” are left unchanged. Give it with --date, "
    "e.g. 2025-06-20."
)
SENTENCES = "Each claim is an unchanged sentence: delete the sentences that you do not want to check."
JsonObject = dict[str, Any]


def find_claims(
    given: str,
    pairs: list[str],
    named: dict[str, Any],
    stop: Stop,
    *,
    title: str | None,
    date: str | None,
    ledger: str | None,
    fresh: bool,
    as_json: bool,
    out: Path | None,
) -> int:
    """Finds the claims of a text, shows or writes them, and returns the exit code.

    The code is 3 if a part could not be read, 2 or 3 if the graph ended with an error, else 0.

    Raises:
        UserError: the text cannot be read, or a setting is not valid.
        WorldError: a page cannot be fetched.
        UserError, WorldError: the file cannot be written.
    """
    defaults = {name: value for name, value in usual_settings().items() if name not in ClaimSettings.without}
    settings = parse_settings(graph.context_schema, pairs, {**defaults, **named}, "find_claims")  # type: ignore[arg-type]
    check_models(settings)
    if settings.model == EMBEDDED and not {"model", *settings.models} & {*defaults, *named, *parse_pairs(pairs)}:
        raise UserError(NO_MODEL, kind="invalid_setting")
    check_out(out)
    article = text_of(given, title, date)
    use = LedgerUse(parse_mode(ledger or value_of("ledger") or "record"), adopt=not fresh)
    runner = asyncio.Runner()
    try:
        with ledger_use(use):
            found = stop.run(runner, _run_graph(article, settings))
    except (asyncio.CancelledError, KeyboardInterrupt):
        note = "The same command continues; answered calls are not paid again." if use.mode == "record" else ""
        print(f"moot: interrupted. {note}".rstrip(), file=sys.stderr)  # noqa: T201
        end_now(stop.exit_code)
    runner.close()
    write_claims(found, as_json=as_json, out=out)
    if found["error"]:
        print(f"moot: {found['error']['detail']}", file=sys.stderr)  # noqa: T201
        return 2 if found["error"]["kind"] in USER_KINDS else 3
    return 3 if found["unread"] else 0


def list_sentences(given: str, *, title: str | None, date: str | None, as_json: bool, out: Path | None) -> int:
    """Shows or writes the sentences of a text as claims, without a model, and returns the exit code.

    Sentences of fewer than `LEAST_SENTENCE_WORDS` words are left out.

    Raises:
        UserError: the text cannot be read, is empty or too long; its date is not valid; or ``out`` has an unknown
            suffix.
        WorldError: a page cannot be fetched.
        UserError, WorldError: the file cannot be written.
    """
    check_out(out)
    article = check_text(text_of(given, title, date))
    own: JsonObject = {
        "speaker": None,
        "date": article.get("date"),
        "filled": [],
        "also": [],
        "score": None,
        "reason": "",
    }
    places = sentences_in(article["text"], article.get("sections") or [])
    claims = [{"id": f"c{n}", "claim": " ".join(one["quote"].split()), **one, **own} for n, one in enumerate(places, 1)]
    found = {**article, "claims": claims, "usage": {"calls": 0}, "error": None}
    write_claims(found | {key: [] for key in ("left_out", "dropped", "unread", "warnings")}, as_json=as_json, out=out)
    return 0


def check_out(out: Path | None) -> None:
    """Checks that the file can be written, before any call is paid.

    Raises:
        UserError, WorldError: its suffix is not .csv or .json, or it cannot be written.
    """
    if out is not None:
        if out.suffix.lower() not in (".csv", ".json"):
            raise UserError(f"--out takes a name that ends in .csv or .json, not {out.name}.", kind="invalid_setting")
        check_writable(out)


def text_of(given: str, title: str | None, date: str | None) -> JsonObject:
    """The graph's input from a file, an address or standard input."""
    article: JsonObject = dict(read_article(given) if given != "-" else {"text": sys.stdin.read(), "source": "stdin"})
    return article | {key: value for key, value in (("title", title), ("date", date)) if value}


async def _run_graph(article: JsonObject, settings: Settings) -> JsonObject:
    """Runs the graph and returns its output; shows progress if standard error is a terminal."""
    modes: Any = ["values", "updates"]
    values: JsonObject = {}
    done = 0
    try:
        with waiting(Console(stderr=True)) as say:
            say("reading the text")
            async for namespace, mode, chunk in graph.astream(
                article, context=settings, stream_mode=modes, subgraphs=True
            ):
                if mode == "values" and not namespace:
                    values = cast(JsonObject, chunk)
                done += mode == "updates" and bool(namespace)
                parts = len(values.get("parts") or [])
                say(f"finding claims: {done} of {STEPS * parts} steps" if done < STEPS * parts else "joining claims")
    finally:
        await close_clients()
    return {key: values[key] for key in graph.output_schema.__annotations__ if key in values}


def write_claims(found: JsonObject, *, as_json: bool, out: Path | None) -> None:
    """Writes the claims to ``out`` if it is given. Prints them if it is not given, or with ``as_json``.

    Without ``as_json``, a summary follows on standard error.

    Raises:
        UserError, WorldError: the file cannot be written.
    """
    table = claims_csv(found["claims"], found.get("url") or found.get("source") or "text")
    document = json.dumps(found, ensure_ascii=False, indent=2)
    console = Console()
    if out is not None:
        try:
            write_atomically(out, table if out.suffix.lower() == ".csv" else document + "\n")
        except OSError as error:  # the result has cost money: print it instead of losing it
            print(document)  # noqa: T201
            raise write_error(out, error) from error
    if as_json:
        print(document)  # noqa: T201
    elif out is None and not console.is_terminal:
        print(table, end="")  # noqa: T201
    elif out is None:
        show_claims(found, console)
    if not as_json:
        print_summary(found, out)


def show_claims(found: JsonObject, console: Console) -> None:
    """Prints each claim (filled-in words underlined) with its score, its quote from the text, and the reason."""
    for one in found["claims"]:
        claim = Text(one["claim"], style="bold")
        for filled in one["filled"]:
            claim.stylize("italic underline", filled["start"], filled["end"])
        score = "" if one["score"] is None else f"{one['score']:.2f}  "
        console.print(Text.assemble((f"{one['id']}  {score}", "cyan"), claim))
        speaker = f" ({clean(one['speaker'])})" if one["speaker"] else ""
        lines = [f"“{shorten(clean(one['quote']), LONGEST, placeholder=' ...')}”{speaker}, {place_in_words(one)}"]
        lines += [f"also {place_in_words(other)}" for other in one["also"]]
        lines += [f"filled in: {', '.join(words)}"] if (words := filled_words(one)) else []
        lines += [clean(one["reason"])] if one["reason"] else []
        console.print(Padding(Text("\n".join(lines), style="dim"), (0, 0, 1, 4)))


def print_summary(found: JsonObject, out: Path | None) -> None:
    """Prints on standard error how many claims were found, left out and dropped, and which parts were not read."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    if found["claims"] and not found.get("date") and any(RELATIVE.search(one["claim"]) for one in found["claims"]):
        console.print(Text(UNDATED, "yellow"))
    repeated, left_out = sum(len(one["also"]) for one in found["claims"]), len(found["left_out"])
    parts = [count_with_noun(len(found["claims"]), "claim")]
    parts += [f"{repeated} repeated"] if repeated else []
    parts += [f"{left_out} less worth checking (--set min_score=0 keeps them)"] if left_out else []
    parts += [f"{len(found['dropped'])} dropped"] if found["dropped"] else []
    calls = f"{count_with_noun(found['usage']['calls'], 'call')} to models." if found["usage"]["calls"] else SENTENCES
    console.print(Text("; ".join(parts) + f". {calls}"))
    for one in found["dropped"][:SHOWN]:
        words = shorten(clean(one["claim"] or one["quote"]), LONGEST, placeholder=" ...")
        console.print(Text(f"Dropped: “{words}” {clean(one['why'])}", "dim"))
    if more := found["dropped"][SHOWN:]:
        console.print(Text(f"And {len(more)} more: --json has them all.", "dim"))
    for one in found["unread"][:SHOWN]:
        console.print(Text(f"Not read: characters {one['start']}-{one['end']}. {clean(one['why'])}", "yellow"))
    if (more := len(found["unread"]) - SHOWN) > 0:
        console.print(Text(f"{count_with_noun(more, 'other part')} of the text could not be read either.", "yellow"))
    for warned in found["warnings"]:
        console.print(Text(clean(warned["detail"]), "yellow"))
    if found["claims"] and out is not None and out.suffix.lower() == ".csv":
        console.print(Text(f"{out} can be edited, and checked with: moot batch {out} --out FOLDER"))
    elif found["claims"] and out is None:
        console.print(Text("Write a table to edit with --out claims.csv"))
