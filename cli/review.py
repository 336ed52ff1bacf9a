"""``moot review``: an editor's decision about a check, and its history."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from moot.cli.database import Database, using_database
from moot.cli.history import document_id
from moot.cli.parameters import AsJson

if TYPE_CHECKING:
    from moot.core.reviews import Action, History

FIELDS = ("rating", "title", "summary", "context", "to_readers", "look_again")
"""The fields that a history tells, in order; notes follow."""
LABELS = {"to_readers": "to readers", "look_again": "look again on"}


def review_command(
    id: Annotated[str, typer.Argument(help="The check's id, or the beginning of it; see `moot list`.")] = "",
    save: Annotated[bool, typer.Option("--save", help="Save a draft: the check is in review.")] = False,
    approve: Annotated[bool, typer.Option("--approve", help="Approve; needs a rating and a summary.")] = False,
    correct: Annotated[
        str | None, typer.Option(metavar="SENTENCE", help="Correct an approved check, and say to readers why.")
    ] = None,
    withdraw: Annotated[
        str | None, typer.Option(metavar="SENTENCE", help="Withdraw an approved check, and say to readers why.")
    ] = None,
    rating: Annotated[str | None, typer.Option(help="Your rating, in the words of your scale.")] = None,
    title: Annotated[str | None, typer.Option(help="Your title.")] = None,
    summary: Annotated[str | None, typer.Option(help="Your summary for readers.")] = None,
    context: Annotated[str | None, typer.Option(help="Context for readers.")] = None,
    note: Annotated[
        str | None, typer.Option(help="A note among editors, never for readers; `moot export` hands it over.")
    ] = None,
    look_again: Annotated[str | None, typer.Option(metavar="DAY", help="The day to look at the check again.")] = None,
    acknowledge: Annotated[
        list[str] | None,
        typer.Option(metavar="WARNING", help="A warning of the check that you approve it in spite of. Repeatable."),
    ] = None,
    based_on: Annotated[
        int | None, typer.Option(help="The number of the last entry that you have seen; a newer one stops this.")
    ] = None,
    person: Annotated[
        str | None, typer.Option(help="Who decides.", show_default="the configuration's `editor`")
    ] = None,
    due: Annotated[bool, typer.Option("--due", help="List the checks to look at again by today.")] = False,
    comment_on: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="PASSAGE TEXT",
            help="A comment among editors on a passage, which is named by its id or by its number in the report; it is "
            "never shown to readers.",
        ),
    ] = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Decide about a check as its editor; without an action, print its history. Nothing is ever overwritten."""
    from moot.core.errors import UserError

    asked: dict[Action, bool] = {"save": save, "approve": approve}
    asked |= {"correct": correct is not None, "withdraw": withdraw is not None, "comment": comment_on is not None}
    chosen = [action for action, is_asked in asked.items() if is_asked]
    written: dict[str, Any] = {"rating": rating, "title": title, "summary": summary, "context": context, "note": note}
    written |= {"look_again": look_again, "acknowledged": acknowledge, "to_readers": correct or withdraw}
    change = {name: value for name, value in written.items() if value is not None}
    if len(chosen) > 1 or (comment_on and change):
        raise UserError(
            "Choose one of --save, --approve, --correct, --withdraw and --comment-on, which takes nothing else.",
            kind="bad_request",
        )
    if comment_on:
        change = {"passage": comment_on[0], "note": comment_on[1]}
    if not chosen and change:
        chosen = ["plan"] if change.keys() <= {"look_again", "note"} and look_again else ["save"]
    with using_database(database):
        if due:
            _print_due(as_json=as_json)
            return
        if not id:
            raise UserError("Name a check by its id (see `moot list`), or give --due.", kind="bad_request")
        found, machine = _decide(id, chosen, change, person, based_on)
    if as_json:
        from moot.core.reviews import as_plain

        print(json.dumps({"stage": found.stage, "machine": machine, "history": as_plain(found)}, indent=2))  # noqa: T201
        return
    _print_history(found, machine)


def _decide(
    id: str, chosen: list[Action], change: dict[str, Any], person: str | None, based_on: int | None
) -> tuple[History, dict[str, Any]]:
    """A check's history, after the chosen action if there is one, and the claim and the machine's verdict."""
    from moot.core.reviews import history_of
    from moot.core.store import open_store
    from moot.transcript.document import checked_parts
    from moot.transcript.report.sources import sources_of
    from moot.web import debates
    from moot.web.reviews import decide

    stem = document_id(id)
    document = debates.load(stem)
    with checked_parts():
        numbers = sources_of(document).numbers
    machine = {
        "claim": document["claim"],
        "verdict": document["answer"],
        "status": document["status"],
        "document": stem,
        "passages": numbers,
    }
    if not chosen:
        return history_of(open_store(), debates.check_of(stem)), machine
    return decide(stem, chosen[0], change, person=person, based_on=based_on), machine


def _print_history(history: History, machine: dict[str, Any]) -> None:
    from moot.core.reviews import changes
    from moot.retrievers._evidence import clean
    from moot.web.reviews import moment, standing

    of_version, settled = history.of_version(machine["document"]), history.settled
    lines = [machine["claim"], f"Machine's verdict: {machine['verdict'] or 'none'}", standing(of_version)]
    if settled and not of_version:
        lines.append(f"An editor decided about another version, {settled.document[-32:][:8]}: {standing(history)}")
    for entry, changed in zip(history, changes(history), strict=True):
        lines += ["", f"{entry.number}. {entry.action}, {entry.person}, {moment(entry)}"]
        for name in FIELDS:
            if name in changed and (name != "to_readers" or entry.to_readers):  # which belongs to one entry
                before, after = changed[name]
                was = f" (was: {before})" if before and name != "to_readers" else ""
                lines.append(f"   {LABELS.get(name, name)}: {after or 'none'}{was}")
        place = machine["passages"].get(entry.passage, f"{entry.passage}, of another version")
        lines += [f"   on [{place}]: {entry.note}"] if entry.passage else []
        lines += [f"   note: {entry.note}"] if entry.note and not entry.passage else []
        lines += [f"   new version: {entry.version[:8]}"] if entry.version else []
        lines += [f"   in spite of: {', '.join(entry.acknowledged)}"] if "acknowledged" in changed else []
    print(clean("\n".join(lines)))  # noqa: T201


def _print_due(*, as_json: bool) -> None:
    from datetime import UTC, datetime

    from moot.core.errors import UserError
    from moot.core.reviews import due, in_words
    from moot.core.store import existing_store
    from moot.retrievers._evidence import clean

    store = existing_store()
    histories = due(store, datetime.now(UTC).date()) if store else {}
    found = [history[-1] for history in histories.values() if not isinstance(history, UserError)]
    faults = [history.detail for history in histories.values() if isinstance(history, UserError)]
    for detail in faults:
        print(f"moot: {detail}", file=sys.stderr)  # noqa: T201
    if as_json:
        print(json.dumps([json.loads(one.model_dump_json()) for one in found], indent=2))  # noqa: T201
    else:
        for one in found:
            line = f"{one.debate[:8]}  {one.look_again}  {in_words(one.stage)}  {one.rating or '-'}  {one.title}"
            print(clean(line))  # noqa: T201
        if not histories:
            print("No check is due.")  # noqa: T201
    if faults:
        raise SystemExit(2)
