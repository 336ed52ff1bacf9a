"""``moot verify``: runs a debate, and prints it live with its verdict, or prints only its result document."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from langgraph.types import Command
from moot.cli.ask import PersonPrompt
from moot.cli.beside import Control, run_control
from moot.cli.earlier import tell_earlier_checks
from moot.cli.output import note_demonstration, write_document
from moot.cli.report import renderer_of
from moot.cli.resuming import DebateSetup, PersonReplies, note_reading, resume_message
from moot.cli.screen import PipedConsole, Screen
from moot.cli.signals import Stop, Threads, end_now
from moot.cli.waiting import waiting
from moot.core.endpoint import close_clients
from moot.core.errors import USER_KINDS, MootError, UserError
from moot.core.store import open_store
from moot.core.words import count_with_noun
from moot.graphs import DebateSystem
from moot.nodes._models.replies import StoreUse, store_use
from moot.nodes._runtime.document import blank_document, unfinished
from moot.nodes._runtime.running import DebateRun, Update
from moot.transcript import Live
from moot.transcript.end import control_lines, control_start
from moot.transcript.language import check_language
from moot.transcript.report.summary import needs_summary, summarised
from moot.web.debates import for_history, history_is_on, store_locally
from moot.web.expected import expected, given_bytes
from rich.console import Console


def debate_and_print(
    system: DebateSystem,
    given: Mapping[str, Any],
    setup: DebateSetup,
    stop: Stop,
    *,
    as_json: bool,
    out: Path | None,
    language: str | None = None,
    control: Control | None = None,
) -> int:
    """Runs a debate, prints it live or only its document, and returns the exit code.

    If the debate is done and ``control`` is given, the control runs next. The debate's document is stored and written
    before the control runs, and again with the control's result. With ``as_json``, the document is printed only once,
    at the end.

    If a signal came or a thread is still busy, this function ends the process and does not return. A thread may be busy
    with a search that exceeded its time limit.

    Raises:
        UserError: there are no texts in the language, ``out`` has an unknown suffix, or MOOT_HISTORY is not valid.
        UserError, WorldError: ``out`` cannot be written, or the store cannot be used for a person's replies.
    """
    if language is not None:
        check_language(language)
    if out is not None:
        renderer_of(out)
    history_is_on()  # raises if the value of MOOT_HISTORY is not valid
    if setup.earlier is not None and setup.earlier.replies and (message := resume_message(setup.earlier)):
        print(message, file=sys.stderr, flush=True)  # noqa: T201
    elif words := expected_in_words(system, given, setup, control):
        print(f"moot: {words}", file=sys.stderr, flush=True)  # noqa: T201
    note_demonstration(setup.settings.models_named())
    note_reading(setup.settings, system)
    console = PipedConsole(stderr=as_json, quiet=as_json, soft_wrap=not Console().is_terminal)
    live = Live(setup.settings)
    screen = Screen(console, live.speakers, PipedConsole(stderr=True, soft_wrap=console.soft_wrap))
    runner = asyncio.Runner()
    threads = Threads(runner)
    if setup.earlier is None and setup.use.mode != "replay":
        tell_earlier_checks([given["claim"]])
    with store_use(replace(setup.use, ends=False)):
        document = run_debate(system, given, setup, lambda new: screen.show(live.feed(new)), runner, stop, console)
        document = add_summary(document, runner, stop)
    next_control = control if document["status"] == "done" else None
    written: Any = {"out": out, "language": language}
    write_and_end(document, setup.use, as_json=as_json and not next_control, **written)
    if not as_json:
        screen.show(live.end(document))
    elif document["error"]:
        print(f"moot: {document['error']['detail']}", file=sys.stderr)  # noqa: T201
    if next_control:
        screen.show(control_start(next_control.name, next_control.equal))

        def run_beside(control: DebateSystem, setup: DebateSetup) -> dict[str, Any]:
            with store_use(setup.use):
                return run_debate(control, given, setup, lambda new: None, runner, stop, console)

        try:
            document["beside"] = run_control(next_control, document, setup, run_beside)
        finally:
            write(document, as_json=as_json, **written)
            if fault := store_locally(document):
                print(f"moot: {fault}", file=sys.stderr)  # noqa: T201
        screen.show(control_lines(document))
        if as_json and document["beside"]["error"]:
            print(f"moot: {document['beside']['error']['detail']}", file=sys.stderr)  # noqa: T201
    if document["status"] == "interrupted" or is_control_interrupted(document):
        print(interrupted_message(document, setup.use, out), file=sys.stderr)  # noqa: T201
    elif out is not None and not as_json:
        what = "result" if document["status"] == "done" else "record of the failure"
        print(f"moot: the {what} is in {out}.", file=sys.stderr)  # noqa: T201
    if stop.signal or threads.busy:
        end_now(exit_code(document, stop))
    runner.close()
    return exit_code(document, stop)


def expected_in_words(
    system: DebateSystem, given: Mapping[str, Any], setup: DebateSetup, control: Control | None
) -> str:
    """What a debate and its control are expected to take; empty for a replay, and if it is not known.

    If the file of prices cannot be used, says so: a debate without a ceiling on its cost needs no prices.
    """
    if setup.use.mode == "replay":
        return ""
    size, reads_store = given_bytes(given.get("given") or ()), setup.use.mode != "off"
    try:
        words = expected(system.name, setup.settings, size, reads_store=reads_store).in_words()
    except UserError as error:
        return f"The expected cost is not known: {error.detail}"
    return f"{words} The control takes about as much again." if words and control else words


def write(document: dict[str, Any], *, as_json: bool, out: Path | None, language: str | None = None) -> None:
    """Writes a document or its report, in a language, to ``out`` if given, and prints it if ``as_json``.

    Raises:
        UserError, WorldError: ``out`` cannot be written. Then the document is printed.
    """
    render = renderer_of(out, language) if out is not None else None
    write_document(document, as_json=as_json, out=out, render=render)


def write_and_end(
    document: dict[str, Any], use: StoreUse, *, as_json: bool, out: Path | None, language: str | None = None
) -> None:
    """Writes a document as `write` does, then stores it in the history and marks the debate as done or failed, at once.

    A debate whose process is killed before, or whose ``out`` cannot be written, is resumed at no cost. An error of the
    store is only printed. Only the modes ``record`` and ``reuse`` have a run to mark, unless it was interrupted.
    """
    write(document, as_json=as_json, out=out, language=language)
    try:
        kept, store = for_history(document), open_store()
        if use.mode in ("record", "reuse") and document["status"] != "interrupted":
            ended = store.end(document["id"], "done" if document["status"] == "done" else "failed", kept)
            if kept and not ended:
                print("moot: another process has taken over this debate, and stores it.", file=sys.stderr)  # noqa: T201
        elif kept:
            store.put(kept)
    except MootError as error:
        print(f"moot: {error.detail}", file=sys.stderr)  # noqa: T201


def run_debate(
    system: DebateSystem,
    given: Mapping[str, Any],
    setup: DebateSetup,
    update: Update,
    runner: asyncio.Runner,
    stop: Stop,
    console: Console,
) -> dict[str, Any]:
    """Runs a debate and returns its result document. Interrupts are answered from the store or at the terminal.

    If a signal or the end of standard input stops the debate, the document has the results so far.

    Args:
        system: the debate's system.
        given: the debate's input.
        setup: the debate's settings and use of the store.
        update: called with the writes of each node.
        runner: runs the debate's coroutines.
        stop: cancels the debate if a signal comes.
        console: the console for the spinner.
    """
    running, person, replies = (
        DebateRun(system.graph, setup.settings, update),
        PersonPrompt(),
        PersonReplies(setup.use),
    )

    def reply(value: dict[str, Any]) -> Any:
        debate = document["id"]
        if (stored := stop.run(runner, replies.find(debate, value))) is not None:
            return stored
        answer = stop.ask(lambda: person.reply(value))
        stop.run(runner, replies.store(debate, value, answer))
        return answer

    document: dict[str, Any] = {}
    try:
        with waiting(console):
            document = stop.run(runner, running.run(dict(given)))
        while running.waits:
            waits = sorted(running.waits.items(), key=lambda wait: str(wait[1]["about"]))
            resume = {id: reply(value) for id, value in waits}
            with waiting(console):
                document = stop.run(runner, running.run(Command(resume=resume)))
    except (EOFError, KeyboardInterrupt):
        return document
    except asyncio.CancelledError:  # before the first step ended, or between two steps
        if document:
            return document
        return unfinished(blank_document(system.name, setup.settings) | {"claim": given["claim"], "messages": []})
    return document


def add_summary(document: dict[str, Any], runner: asyncio.Runner, stop: Stop) -> dict[str, Any]:
    """Adds the summary for readers if the settings ask for it; an interruption leaves the document unchanged."""
    if not needs_summary(document):
        return document

    async def summarise() -> dict[str, Any]:
        try:
            return await summarised(document)
        finally:
            await close_clients()

    try:
        return stop.run(runner, summarise())
    except (asyncio.CancelledError, KeyboardInterrupt):
        return document


def interrupted_message(document: Mapping[str, Any], use: StoreUse, out: Path | None) -> str:
    """The message that a debate or its control was interrupted, and how to continue."""
    is_control = is_control_interrupted(document)
    run = document["beside"]["document"] if is_control else document
    calls = count_with_noun(run["usage"]["calls"], "call")
    text = f"moot: interrupted after {calls}{' of the control' * is_control}."
    if out is not None:
        text += f" The debate so far is in {out}."
    if use.mode in ("off", "replay"):
        return f"{text} The same command starts again from the beginning."
    return f"{text} The same command without --fresh resumes the debate, and pays for no reply again."


def exit_code(document: Mapping[str, Any], stop: Stop) -> int:
    """The exit code: 0 without an error, 2 for user errors, 3 for other errors.

    After an interruption, the code is 143 if SIGTERM was the cause, else 130. If the debate has no error, an error
    or an interruption of its control decides the code.
    """
    if document["status"] == "interrupted" or is_control_interrupted(document):
        return stop.exit_code
    error = document["error"] or (document.get("beside") or {}).get("error")
    if not error:
        return 0
    return 2 if error["kind"] in USER_KINDS else 3


def is_control_interrupted(document: Mapping[str, Any]) -> bool:
    """Whether the control of a debate was interrupted."""
    control = (document.get("beside") or {}).get("document") or {}
    return bool(control.get("status") == "interrupted")
