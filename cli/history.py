"""``moot list``, ``show`` and ``delete`` for debates on this machine or in a database, and ``moot corpora``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from moot.cli.database import Database, using_database
from moot.cli.parameters import AsJson, MostDebates, OfGraph, OfStatus, Yes

if TYPE_CHECKING:
    from moot.core.store import Run

Ids = Annotated[
    list[str], typer.Argument(metavar="ID...", help="Ids of debates, or the beginnings of ids; see `moot list`.")
]
SHOWN = 8
"""Number of characters of an id that the table shows."""
LONGEST = 70
"""Maximum number of characters of a claim that the table shows."""
THREADS_STAY = (
    "The server's own table of threads is not changed by this command. The server removes a thread 30 days after the "
    "thread's last change, or at once if the debate is deleted on the page."
)
corpora = typer.Typer(help="List, show and delete corpora.")


def list_command(
    graph: OfGraph = None,
    status: OfStatus = None,
    answer: Annotated[str | None, typer.Option(help="Only debates with this answer.")] = None,
    text: Annotated[str | None, typer.Option(help="Only debates whose claim contains this text.")] = None,
    since: Annotated[str | None, typer.Option(metavar="DAY", help="Only debates from this day (UTC) on.")] = None,
    stage: Annotated[
        str | None,
        typer.Option(help="Only checks in this stage: new, in_review, approved, corrected or withdrawn."),
    ] = None,
    limit: MostDebates = 50,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """List the stored debates of this machine or, with --database or MOOT_DATABASE, of a database; newest first."""
    found = []
    _check_stage(stage)
    wanted = {"graph": graph, "status": status, "answer": answer}
    with using_database(database):
        for entry in _list_entries(_parse_day(since)):
            same = (
                str(entry.get(key)).casefold() == value.casefold() for key, value in wanted.items() if value is not None
            )
            fits = stage is None or entry.get("review", {}).get("stage") == stage
            if all(same) and fits and (text is None or text.casefold() in str(entry.get("claim")).casefold()):
                found.append(entry)
            if len(found) == limit:
                break
    if as_json:
        _print_json(found)
        return
    if not found:
        is_filtered = any((graph, status, answer, text, since, stage))
        print("No stored debate matches." if is_filtered else "No debates are stored yet.")  # noqa: T201
        return
    from moot.cli.tables import show
    from rich.table import Table
    from rich.text import Text

    users = ["user"] if any("user" in entry for entry in found) else []
    table = Table(
        "id", "started", *users, "system", "status", "answer", "our rating", "claim", box=None, padding=(0, 2, 0, 0)
    )
    for entry in found:
        claim = _one_line(entry.get("claim") or "")
        started = str(entry.get("started_at") or "")[:16].replace("T", " ")
        facts = (
            *(entry.get(name) for name in users),
            entry.get("graph"),
            entry.get("status"),
            (entry.get("answer") or "-") + (f" ({evidence})" if (evidence := entry.get("evidence")) else ""),
            _reviewed(entry.get("review")),
        )
        short = claim if len(claim) <= LONGEST else claim[: LONGEST - 1] + "…"
        table.add_row(
            entry["id"][-32:][:SHOWN], started, *(Text(_one_line(str(fact or ""))) for fact in facts), Text(short)
        )
    show(table)


def _check_stage(stage: str | None) -> None:
    from moot.core.errors import UserError, did_you_mean
    from moot.core.reviews import STAGES

    if stage is not None and stage not in STAGES:
        raise UserError(
            f"There is no stage {stage!r}. {did_you_mean(stage, STAGES)}Known: {', '.join(STAGES)}.",
            kind="bad_request",
        )


def _reviewed(review: dict[str, Any] | None) -> str:
    """An editor's rating and the stage of a check."""
    from moot.web.reviews import stage_in_words

    if review is None:
        return "-"
    stage = stage_in_words(review)
    return f"{review['rating']} ({stage})" if "rating" in review else stage


def show_command(
    id: Annotated[str, typer.Argument(help="The debate's id, or the beginning of it.")],
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Print a debate of `moot list`: its transcript, or with --json its result document."""
    from moot.core.errors import UserError
    from moot.core.reviews import History, histories
    from moot.core.store import open_store
    from moot.web import debates
    from moot.web.reviews import standing

    with using_database(database):
        stem = document_id(id)
        document, check = debates.load(stem), debates.check_of(stem)
        found = histories(open_store(), [check]).get(check, History())
    if as_json:
        _print_json(document)
        return
    from moot.cli.screen import Screen
    from moot.transcript import ending, round_sections
    from moot.transcript.document import checked_parts
    from moot.transcript.line import Line
    from rich.console import Console

    with checked_parts():
        sections = [*round_sections(document), ending(document)]
    console = Console(soft_wrap=not Console().is_terminal)
    screen = Screen(console, {turn["agent"] for turn in document["turns"]})
    for section in sections:
        heading = [Line("", "", section.heading, "heading")] if section.heading != "Verdict" else []
        screen.show([*heading, *section.lines])
    if isinstance(found, UserError):
        screen.show([Line("", "", found.detail, "failure")])
        return
    screen.show([Line("", "", standing(found.of_version(stem)), "outcome")])
    if decided := found.of_version(stem).decided:
        told = (decided.title, decided.summary, decided.context, decided.to_readers)
        screen.show([Line("", "", text) for text in told if text])


def delete_command(
    ids: Ids,
    yes: Yes = False,
    database: Database = None,
) -> None:
    """Delete debates of `moot list` for good: their documents and their stored replies."""
    from moot.core.errors import UserError

    with using_database(database):
        found = [_find_debate(id) for id in ids]
        if running := [id for id, _, row in found if row and row.status == "running"]:
            raise UserError(f"The debate {running[0]} is still running: stop it first.", kind="bad_request")
        if not yes:
            typer.confirm(f"Delete {len(found)} debate{'s' * (len(found) > 1)} for good?", abort=True)
        for id, stems, row in found:
            _delete(stems, row)
            print(f"Deleted: {id}")  # noqa: T201
        if database:
            print(THREADS_STAY, file=sys.stderr)  # noqa: T201


def _delete(stems: list[str], row: Run | None) -> None:
    """Deletes the documents (by their ids) of a debate, and its row in the store with the replies."""
    from moot.core.store import open_store
    from moot.web import debates

    if row:
        open_store().delete(row.id)
    for stem in stems:
        debates.delete(stem)


def document_id(id: str) -> str:
    """The id of a debate's document.

    Args:
        id: the beginning of the id of the debate or of the document.

    Raises:
        UserError: there is no such debate, there are several, or the debate has no document.
    """
    from moot.core.errors import UserError

    name, stems, _ = _find_debate(id)
    if not stems:
        raise UserError(
            f"{name} has no document: it is a debate that has not ended or was stopped early, or a `moot claims` run.",
            kind="missing_file",
        )
    return stems[0]


def _find_debate(id: str) -> tuple[str, list[str], Run | None]:
    """The id of a debate, the ids of its documents, and its row in the store, by the beginning of one of the ids.

    Raises:
        UserError: no debate or more than one has an id with this beginning.
    """
    from moot.core.errors import UserError
    from moot.core.store import existing_store
    from moot.web import debates

    store = existing_store()
    found = debates.listed() if store else []
    stems = [
        one.id for one in found if one.has_document and id and (one.id.startswith(id) or one.id[-32:].startswith(id))
    ]
    rows = {row.id: row for row in store.runs(id=id[-32:], limit=2)} if store and id else {}
    names = {stem[-32:] for stem in stems} | {*rows}
    if len(names) != 1:
        known = f"The ids of several debates begin with {id[:40]!r}: give more of the id." if names else ""
        raise UserError(known or f"There is no debate {id[:40]!r}; see `moot list`.", kind="unknown_debate")
    [name] = names
    return name, stems, store.run(name) if store else None


def _list_entries(since: str) -> Any:
    """Yields the entries of `moot list`, newest first.

    They are debates with a document, and debates in the store that have no document and are not done.

    Args:
        since: the first day (UTC), as YYYYMMDD; empty for all days.
    """
    from moot.core.store import existing_store
    from moot.web import debates
    from moot.web.reviews import in_lists
    from moot.web.table import undocumented_entry

    if (store := existing_store()) is None:
        return
    for one in debates.listed():
        if one.id[:8] < since:
            return
        user = {"user": one.person} if one.person else {}
        if one.has_document:
            yield debates.entry(one.id) | user | {"review": in_lists([one.id])[one.id]}
        elif row := store.run(one.debate):
            yield {**undocumented_entry(row), "status": row.status, **user}


def _parse_day(since: str | None) -> str:
    """A day as YYYYMMDD; empty for None.

    Raises:
        UserError: the text is not a date in ISO format.
    """
    from datetime import date

    from moot.core.errors import UserError

    if since is None:
        return ""
    try:
        return f"{date.fromisoformat(since):%Y%m%d}"
    except ValueError as error:
        raise UserError(f"--since takes a day such as 2026-11-22, not {since!r}.", kind="invalid_setting") from error


def _print_json(found: Any) -> None:
    import json

    print(json.dumps(found, ensure_ascii=False, indent=2))  # noqa: T201


def _one_line(text: str) -> str:
    """A text on one line, without control characters."""
    from moot.retrievers._evidence import clean

    return " ".join(clean(text).split())


# --- corpora ----------------------------------------------------------------------------------------------------------


@corpora.callback(invoke_without_command=True)
def corpora_command(context: typer.Context, as_json: AsJson = False) -> None:
    """List the corpora, each with its number of passages."""
    if context.invoked_subcommand is None:
        corpora_list(as_json)


@corpora.command("list")
def corpora_list(as_json: AsJson = False) -> None:
    """List the corpora. `moot corpora` does the same."""
    from moot.retrievers._corpus import known_corpora

    found = [_corpus_facts(name) for name in known_corpora()]
    if as_json:
        _print_json(found)
        return
    from moot.cli.tables import show
    from rich.table import Table
    from rich.text import Text

    table = Table("corpus", "passages", "encoder", "", box=None, padding=(0, 2, 0, 0))
    for one in found:
        passages = "-" if one["passages"] is None else f"{one['passages']:,}"
        table.add_row(*map(Text, (one["name"], passages, one["encoder"] or "-", one["state"])))
    show(table)


@corpora.command("show")
def corpora_show(name: str, as_json: AsJson = False) -> None:
    """Show the number of passages, the encoder and the state of a corpus."""
    found = _corpus_facts(_checked_corpus_name(name))
    if as_json:
        _print_json(found)
        return
    for key, value in found.items():
        if value is not None:
            print(f"{key}: {value}")  # noqa: T201


@corpora.command("delete")
def corpora_delete(name: str, yes: Yes = False) -> None:
    """Delete a corpus for good; of a demo corpus, only its index."""
    from moot.core.errors import UserError
    from moot.retrievers._corpus import delete_corpus, read_manifest

    if read_manifest(_checked_corpus_name(name)) is None:
        raise UserError(
            f"The demo corpus {name!r} comes with moot. It has no index here to delete.", kind="invalid_corpus"
        )
    if not yes:
        typer.confirm(f"Delete the corpus {name} for good?", abort=True)
    delete_corpus(name)
    print(f"Deleted: {name}")  # noqa: T201


def _checked_corpus_name(name: str) -> str:
    """The name, after a check that there is a corpus with this name.

    Raises:
        UserError: there is no such corpus.
    """
    from moot.core.errors import UserError
    from moot.retrievers._corpus import known_corpora

    names = known_corpora()
    if name not in names:
        raise UserError(f"There is no corpus {name!r}. Known: {', '.join(names)}.", kind="unknown_corpus")
    return name


def _corpus_facts(name: str) -> dict[str, Any]:
    """The name, number of passages, encoder and state of a corpus; the number and the encoder are None if not known."""
    from moot.core.errors import MootError
    from moot.retrievers._corpus import read_manifest

    try:
        manifest = read_manifest(name)
    except MootError as error:
        return {"name": name, "passages": None, "encoder": None, "state": f"damaged: {error.detail}"}
    if manifest is None:
        state = "comes with moot; encoded when first searched by meaning"
        return {"name": name, "passages": None, "encoder": None, "state": state}
    state = "complete" if manifest.complete else "not complete: index it again"
    return {"name": name, "passages": manifest.passages, "encoder": manifest.encoder, "state": state}
