"""``moot claims``: finds the claims of a text, and prints or writes them for editing and for ``moot batch``."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from textwrap import shorten
from typing import Any, cast

from moot.cli.asking import check_given
from moot.cli.options import parse_settings
from moot.cli.output import note_demonstration
from moot.cli.resuming import check_models, parse_mode
from moot.cli.signals import Stop, end_now
from moot.cli.waiting import waiting
from moot.core.config import usual_settings, value_of
from moot.core.endpoint import close_clients
from moot.core.errors import USER_KINDS, UserError
from moot.core.files import check_writable, write_atomically, write_error
from moot.core.words import count_with_noun
from moot.graphs.find_claims import graph
from moot.nodes._claims.places import LEAST_SENTENCE_WORDS, sentences_in
from moot.nodes._claims.reading import read_article
from moot.nodes._claims.state import ClaimSettings
from moot.nodes._claims.steps import check_text
from moot.nodes._models.replies import StoreUse, store_use
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
    "No model is named to find the claims. Name one with --model provider:name (or as default: moot config set model "
    "NAME, or the variable MOOT_MODEL). Or list the sentences of the text, which needs no model: --sentences"
)
RELATIVE = re.compile(
    r"\b(yesterday|today|ago|(last|this|next) (year|month|week|summer|winter|spring|autumn))\b", re.IGNORECASE
)
"""English words for times relative to the publication of a text."""
UNDATED = (
    "The text's date of publication is not known, so words like “last year” are left unchanged. Give the date "
    "with --date, e.g. 2025-06-20."
)
SENTENCES = (
    "Each claim is an unchanged sentence: delete the sentences that you do not want to check. Sentences of fewer than "
    f"{LEAST_SENTENCE_WORDS} words are left out."
)
JsonObject = dict[str, Any]


def find_claims(
    given: str,
    pairs: list[str],
    named: dict[str, Any],
    stop: Stop,
    *,
    title: str | None,
    date: str | None,
    replies: str | None,
    fresh: bool,
    as_json: bool,
    out: Path | None,
) -> int:
    """Finds the claims of a text, prints or writes them, and returns the exit code.

    The code is 2 or 3 if the graph ended with an error, 3 if there is no claim or a part of the text could not be read,
    else 0. Ctrl-C and SIGTERM end the process with the code 130 or 143.

    Args:
        given: a file, the address of a page, or ``-`` for standard input.
        pairs: settings as ``KEY=VALUE``.
        named: settings from options such as ``--model``; a pair for the same setting overrides its value.
        stop: handles Ctrl-C and SIGTERM.
        title: the title; None for the title in the document.
        date: the date of publication; None for the date in the document.
        replies: how stored replies are used; None for the value of `moot config`, or ``record`` if there is none.
        fresh: whether to start a new run even if one is unfinished.
        as_json: whether to print a JSON document.
        out: the file to write; None for no file.

    Raises:
        UserError: the text cannot be read, no model is named, or a setting, the mode or the suffix of ``out`` is not
            valid.
        WorldError: a page cannot be fetched.
        UserError, WorldError: ``out`` cannot be written.
    """
    defaults = {name: value for name, value in usual_settings().items() if name not in ClaimSettings.without}
    settings = parse_settings(graph.context_schema, pairs, {**defaults, **named}, "find_claims")  # type: ignore[arg-type]
    if given != "-":
        check_given([given])
    if settings.model is None and not settings.models:
        raise UserError(NO_MODEL, kind="missing_model")
    check_models(settings)
    check_out(out)
    article = read_input(given, title, date)
    note_demonstration(settings.models_named(), "claims")
    use = StoreUse(parse_mode(replies or value_of("replies") or "record"), adopt=not fresh)
    runner = asyncio.Runner()
    try:
        with store_use(use):
            found = stop.run(runner, _run_graph(article, settings))
    except (asyncio.CancelledError, KeyboardInterrupt):
        note = (
            "The same command without --fresh continues; answered calls are not paid again."
            if use.mode in ("record", "reuse")
            else ""
        )
        print(f"moot: interrupted. {note}".rstrip(), file=sys.stderr)  # noqa: T201
        end_now(stop.exit_code)
    runner.close()
    write_claims(found, as_json=as_json, out=out)
    if found["error"]:
        print(f"moot: {found['error']['detail']}", file=sys.stderr)  # noqa: T201
        return 2 if found["error"]["kind"] in USER_KINDS else 3
    return 3 if found["unread"] or not found["claims"] else 0


def list_sentences(given: str, *, title: str | None, date: str | None, as_json: bool, out: Path | None) -> int:
    """Prints or writes the sentences of a text as claims, without a model; the exit code is 0, or 3 if there are none.

    Sentences of fewer than `LEAST_SENTENCE_WORDS` words are left out. The arguments are those of `find_claims`.

    Raises:
        UserError: the text cannot be read, is empty or is too long; or its date or the suffix of ``out`` is not valid.
        WorldError: a page cannot be fetched.
        UserError, WorldError: ``out`` cannot be written.
    """
    check_out(out)
    article = check_text(read_input(given, title, date))
    own: JsonObject = {
        "speaker": None,
        "date": article.get("date"),
        "filled": [],
        "also": [],
        "score": None,
        "reason": "",
        "note": "",
    }
    places = sentences_in(article["text"], article.get("sections") or [])
    claims = [{"id": f"c{n}", "claim": " ".join(one["quote"].split()), **one, **own} for n, one in enumerate(places, 1)]
    found = {**article, "claims": claims, "usage": {"calls": 0}, "error": None}
    write_claims(found | {key: [] for key in ("left_out", "dropped", "unread", "warnings")}, as_json=as_json, out=out)
    return 0 if claims else 3


def check_out(out: Path | None) -> None:
    """Checks that the file ``out`` can be written; does nothing if ``out`` is None.

    `find_claims` checks this before it pays for calls.

    Raises:
        UserError: its suffix is not .csv or .json, or it cannot be written.
        WorldError: the disk is full or fails.
    """
    if out is not None:
        if out.suffix.lower() not in (".csv", ".json"):
            raise UserError(f"--out takes a name that ends in .csv or .json, not {out.name}.", kind="invalid_setting")
        check_writable(out)


def read_input(given: str, title: str | None, date: str | None) -> JsonObject:
    """The input of the graph `find_claims`, read from a file, a page or standard input.

    A given title or date replaces the title or date in the document. The arguments are those of `find_claims`.

    Raises:
        UserError, WorldError: the file or the page cannot be read.
    """
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
                cast(Any, article), context=cast(Any, settings), stream_mode=modes, subgraphs=True
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
    """Writes the claims to the file ``out``, and prints them if ``out`` is None or ``as_json`` is true.

    They are printed as a JSON document if ``as_json``, as coloured text at a terminal, and as CSV elsewhere. If not
    ``as_json``, a summary follows on standard error.

    Raises:
        UserError, WorldError: ``out`` cannot be written. The JSON document is printed, so that it is not lost.
    """
    table = claims_csv(found["claims"], found.get("url") or found.get("source") or "text", found.get("url") or "")
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
    """Prints each claim with its score and the reason for the score, its speaker, its quote, and its places.

    Words that the claim has but its quote does not have are underlined.
    """
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
        lines += [clean(one["note"])] if one["note"] else []
        console.print(Padding(Text("\n".join(lines), style="dim"), (0, 0, 1, 4)))


def print_summary(found: JsonObject, out: Path | None) -> None:
    """Prints on standard error how many claims were found, left out and dropped, and which parts were not read.

    Other warnings and the next command follow.
    """
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    if found["claims"] and not found.get("date") and any(RELATIVE.search(one["claim"]) for one in found["claims"]):
        console.print(Text(UNDATED, "yellow"))
    repeated, left_out = sum(len(one["also"]) for one in found["claims"]), len(found["left_out"])
    parts = [count_with_noun(len(found["claims"]), "claim")]
    quoted = sum(bool(one["note"]) for one in found["claims"])
    parts += [f"{repeated} repeated"] if repeated else []
    parts += [f"{quoted} with a note (column `note`): compare them with the text"] if quoted else []
    why = "less worth checking (--set min_score=0 keeps them, unless max_claims is set)"
    parts += [f"{left_out} left out: {why}"] if left_out else []
    parts += [f"{len(found['dropped'])} dropped"] if found["dropped"] else []
    calls, failed = found["usage"]["calls"], found["error"] is not None
    explained = f"{count_with_noun(calls, 'call')} to models." if calls or failed else SENTENCES
    console.print(Text("; ".join(parts) + f". {explained}"))
    for one in found["dropped"][:SHOWN]:
        words = shorten(clean(one["claim"] or one["quote"]), LONGEST, placeholder=" ...")
        console.print(Text(f"Dropped: “{words}” {clean(one['why'])}", "dim"))
    if more := found["dropped"][SHOWN:]:
        console.print(Text(f"{len(more)} more were dropped: --json lists all.", "dim"))
    for one in found["unread"][:SHOWN]:
        console.print(Text(f"Not read: characters {one['start']}-{one['end']}. {clean(one['why'])}", "yellow"))
    if (more := len(found["unread"]) - SHOWN) > 0:
        console.print(Text(f"{count_with_noun(more, 'other part')} of the text could not be read either.", "yellow"))
    for warned in found["warnings"]:
        console.print(Text(clean(warned["detail"]), "yellow"))
    if found["claims"] and out is not None and out.suffix.lower() == ".csv":
        console.print(Text(f"You can edit {out}. To check its claims: moot batch {out} --out FOLDER"))
    elif found["claims"] and out is None:
        console.print(Text("To write a table that you can edit: --out claims.csv"))
