"""The options of ``moot claims``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from moot.cli.completing import completion_for
from moot.cli.models import typed_model, with_model
from moot.cli.parameters import AsJson


def claims(
    text: Annotated[
        str,
        typer.Argument(
            metavar="FILE|URL|-",
            help="A PDF, HTML, .docx, .xlsx, .csv, .txt or .md file, a page's address, or - for standard input.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Write the claims to this file: .csv (to edit, and for `moot batch`) or .json."),
    ] = None,
    as_json: AsJson = False,
    split: Annotated[
        bool, typer.Option("--split", help="Split a sentence with several claims into separate claims.")
    ] = False,
    sentences: Annotated[
        bool,
        typer.Option(
            "--sentences", help="List all sentences except very short ones, to choose from. No model is called."
        ),
    ] = False,
    title: Annotated[str | None, typer.Option(help="The text's title.", show_default="as the document says")] = None,
    date: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="When the text was published: a year, a month or a day; used to resolve words such as `last week`.",
            show_default="as the document says",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            callback=typed_model,
            help="Model of all roles, as provider:name or `auto`. Required, unless `moot config set model` has set one "
            "or --sentences is given.",
            autocompletion=completion_for("models"),
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting, such as min_score=0.7 or max_claims=20; see `moot settings find_claims`. Repeatable.",
            autocompletion=completion_for("settings find_claims"),
        ),
    ] = None,
    replies: Annotated[
        str | None, typer.Option(metavar="MODE", help="record, reuse, replay or off; see `moot verify`.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start a new run, even if one is unfinished.")] = False,
) -> None:
    """Find the checkable claims of a text, for a person to edit and for `moot batch`.

    The exit code is 0 if claims were found and all of the text was read, 3 if there is no claim or a part was not read,
    2 or 3 after an error, and 130 after Ctrl-C.
    """
    from moot.cli.signals import Stop

    with Stop() as stop:  # before the slow imports, so that `stop` also handles Ctrl-C during them
        from moot.cli.claims.find import find_claims, list_sentences

        if sentences:
            raise SystemExit(list_sentences(text, title=title, date=date, as_json=as_json, out=out))
        named = {"model": model, "split": split or None}
        known = {name: value for name, value in named.items() if value is not None}
        how: Any = {"title": title, "date": date, "replies": replies, "fresh": fresh, "as_json": as_json, "out": out}
        raise SystemExit(with_model(lambda: find_claims(text, settings or [], known, stop, **how), known, stop.ask))
