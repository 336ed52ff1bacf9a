"""``moot recheck``: reads the pages that checks cite again, and debates anew what rests on a passage that changed."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

import typer
from moot.cli.history import document_id
from moot.cli.output import note_demonstration
from moot.cli.resuming import DebateSetup, check_models, check_packages
from moot.cli.screen import PipedConsole
from moot.cli.signals import Stop, Threads, end_now
from moot.cli.verify import add_summary, exit_code, run_debate, write_and_end
from moot.core.endpoint import close_clients
from moot.core.errors import MootError, UserError
from moot.core.reviews import Finding, due
from moot.core.store import existing_store
from moot.core.words import count_with_noun
from moot.graphs import DebateSystem, load_graph
from moot.nodes._models.replies import StoreUse, store_use
from moot.retrievers._evidence import clean
from moot.transcript.document import settings_of
from moot.transcript.report.sources import sources_of, title_of
from moot.web import debates
from moot.web.expected import Expected, expected, given_bytes, together
from moot.web.rechecks import (
    FOUND,
    Cited,
    Looked,
    addresses,
    cited,
    input_anew,
    latest,
    look,
    person_here,
    record,
    record_version,
)

LONGEST = 100
"""Maximum number of characters of a quote, a title or a claim in a line."""


@dataclass(frozen=True)
class Check:
    """A check to look at again: the newest finished version, and its quotes."""

    stem: str
    document: dict[str, Any]
    quotes: list[Cited]


def recheck(
    ids: Sequence[str],
    *,
    all_due: bool,
    debates_anew: bool,
    yes: bool,
    person: str | None,
    next_day: str | None,
    as_json: bool,
) -> int:
    """Looks at checks again, and returns the exit code: 3 if something could not be done, else 0."""
    if all_due == bool(ids):
        raise UserError("Name checks by their ids (see `moot list`), or give --due.", kind="bad_request")
    if not debates.history_is_on():
        raise UserError("Looking again adds to the history of checks: set MOOT_HISTORY to on.", kind="bad_request")
    if next_day is not None:
        check_day(next_day)
    code = 0
    checks: list[Check] = []
    busy: list[Threads] = []
    told: list[dict[str, Any]] = []
    for stem in dict.fromkeys(_stems(ids, all_due=all_due)):
        try:
            found = latest(stem)
            checks.append(Check(*found, cited(found[1])))
        except UserError as error:
            if not all_due:
                raise
            print(f"moot: {stem[-32:][:8]}: {error.detail}", file=sys.stderr)  # noqa: T201
            code = 3
    if not checks:
        print("[]" if as_json else "No check is due.")  # noqa: T201
        return code
    pages = sum(len(addresses(check.quotes)) for check in checks)
    said = f"{count_with_noun(len(checks), 'check')}: {count_with_noun(pages, 'cited page')} to read again."
    if debates_anew:
        said += f" {cost_in_words(checks)} At most: only a check that rests on a passage that is gone is debated anew."
    print(f"moot: {said}", file=sys.stderr, flush=True)  # noqa: T201
    if debates_anew and not yes:
        typer.confirm("Go on?", abort=True, err=True)
    who = person or person_here()
    for check in checks:
        try:
            looked = asyncio.run(_look(check.document))
            record(check.stem, check.document, looked, who, next_day=next_day)
        except MootError as error:
            print(f"moot: {check.stem[-32:][:8]}: {error.detail}", file=sys.stderr)  # noqa: T201
            code = 3
            continue
        about = told_of(check, looked)
        told.append(about)
        if not as_json:
            print(in_words(check, looked))  # noqa: T201
        code = max(code, 0 if looked.is_complete else 3)
        if not (looked.changed and debates_anew):
            continue
        anew = _debate_anew(check, looked.changed, who, busy)
        if anew is None or anew["status"] != "done":
            code = 3
            continue
        about["version"] = anew["id"]
        if not as_json:
            words = f"Debated anew: {anew['answer'] or 'no verdict'} (was: {check.document['answer'] or 'no verdict'})."
            print(f"  {words} It is {anew['id'][:8]}; see `moot show {anew['id'][:8]}`.")  # noqa: T201
    if as_json:
        print(json.dumps(told, ensure_ascii=False, indent=2))  # noqa: T201
    if any(threads.busy for threads in busy):
        end_now(code)
    return code


def check_day(text: str) -> None:
    """Checks that a text is a day such as 2027-01-15."""
    try:
        date.fromisoformat(text)
    except ValueError as error:
        raise UserError(
            f"--look-again takes a day such as 2027-01-15, not {text[:40]!r}.", kind="bad_request"
        ) from error


def _stems(ids: Sequence[str], *, all_due: bool) -> list[str]:
    """The ids of the documents to look at again."""
    if not all_due:
        return [document_id(id) for id in ids]
    store = existing_store()
    names = due(store, datetime.now(UTC).date()) if store else {}
    return [stem for name in names for stem in debates.versions(name)[-1:]]


async def _look(document: dict[str, Any]) -> Looked:
    try:
        return await look(document)
    finally:
        await close_clients()


def cost_in_words(checks: Sequence[Check]) -> str:
    """What it takes if all checks are debated anew, in words."""
    parts: list[Expected] = []
    for check in checks:
        try:
            settings = settings_of(check.document)
            size = given_bytes(piece for piece in check.document["evidence"] if piece["source"] == "given")
            parts.append(expected(check.document["graph"], settings, size))
        except UserError as error:
            return f"What new debates cost is not known: {error.detail}"
    return together(parts).in_words(len(parts)) or "What new debates cost is not known."


def told_of(check: Check, looked: Looked) -> dict[str, Any]:
    """What looking again found, as plain values."""
    numbers = sources_of(check.document).numbers
    found = [{"source": numbers[one.passage], **one.model_dump()} for one in looked.findings]
    about = {"document": check.stem, "claim": check.document["claim"], "verdict": check.document["answer"]}
    return {**about, "findings": found, "not_from_the_web": looked.unread, "fault": looked.fault, "version": None}


def in_words(check: Check, looked: Looked) -> str:
    """What looking again found, in lines."""
    sources = sources_of(check.document)
    lines = [_short(check.document["claim"])]
    for one in looked.findings:
        piece = sources.pieces[one.passage]
        place = f"[{sources.numbers[one.passage]}] {_short(title_of(piece))}, {piece.get('url', '')}"
        lines += [f"  {place}", f"    {_quote_in_words(one)}"]
        lines += [f"    {clean(one.detail)}"] if one.detail else []
        lines += [f"    It now says: “{_short(one.now, 3 * LONGEST)}”"] if one.now else []
    if looked.unread:
        lines.append(f"  {count_with_noun(looked.unread, 'quote')} from no web page: nothing to read again.")
    lines += [f"  {looked.fault}"] if looked.fault else []
    return "\n".join(lines)


def _quote_in_words(one: Finding) -> str:
    decides = " (the verdict rests on it)" if one.decides else ""
    return f"“{_short(one.quote)}”{decides}: {FOUND[one.found]}."


def _short(text: str, longest: int = LONGEST) -> str:
    plain = " ".join(clean(text).split())
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"


# --- debating anew ----------------------------------------------------------------------------------------------------


def _debate_anew(check: Check, findings: Sequence[Finding], who: str, busy: list[Threads]) -> dict[str, Any] | None:
    """Debates a check anew, stores its new version, and returns the document; None if the debate could not begin.

    The threads of its searches are added to ``busy``.
    """
    try:
        given = input_anew(check.stem, check.document, findings)
        system: DebateSystem = load_graph(check.document["graph"])
        settings = settings_of(check.document)
        check_packages(settings, system)
        check_models(settings, system)
    except MootError as error:
        print(f"moot: it is not debated anew: {error.detail}", file=sys.stderr)  # noqa: T201
        return None
    note_demonstration(settings.models_named())
    setup = DebateSetup(settings, StoreUse("record", replaces=check.stem))
    runner, console = asyncio.Runner(), PipedConsole(stderr=True)
    busy.append(Threads(runner))
    with Stop() as stop:
        with store_use(replace(setup.use, ends=False)):
            document = run_debate(system, given, setup, lambda _: None, runner, stop, console)
            document = add_summary(document, runner, stop)
        document = debates.replacing(document, check.stem)
        write_and_end(document, setup.use, as_json=False, out=None)
        if document["status"] == "done":
            record_version(check.stem, check.document, document["id"], who, document["answer"] or "no verdict")
        elif document["error"]:
            print(f"moot: it was not debated anew: {document['error']['detail']}", file=sys.stderr)  # noqa: T201
        else:
            print("moot: interrupted. The same command goes on, and pays for no reply again.", file=sys.stderr)  # noqa: T201
        if stop.signal:
            end_now(exit_code(document, stop))
    if not busy[-1].busy:
        runner.close()
    return document
