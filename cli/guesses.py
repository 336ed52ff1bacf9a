"""Commands that people guess: aliases of existing commands, and hints for commands that do not exist."""

from __future__ import annotations

import os
import re
import shlex
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from moot.cli.completing import names
from typer.core import TyperGroup

PANELS = {
    "Check claims": ("verify", "claims", "batch", "serve", "service", "report", "demo"),
    "Stored debates": ("list", "show", "delete"),
    "Configure and look up": ("config", "models", "index", "corpora", "graphs", "presets", "tasks", "settings"),
    "Measure and operate": ("eval", "calibrate", "replies", "worker", "assistants", "schema"),
}
"""Commands by heading, in the order of help."""
OTHER_NAMES = {
    "check": "verify",
    "debate": "verify",
    "history": "list",
    "ls": "list",
    "systems": "graphs",
    "methods": "graphs",
}
HINTS = {
    "page": "The page is opened by: moot serve --open",
    "web": "The page is opened by: moot serve --open",
    "ui": "The page is opened by: moot serve --open",
    "resume": "To resume an interrupted debate, run the same `moot verify` again, or moot verify CLAIM --resume",
    "export": "To write reports: moot report ID --html. To print the result document: moot show ID --json",
    "run": "To check a claim: moot verify CLAIM. Many: moot batch FILE --out FOLDER. Benchmarks: moot eval run",
}
GROUP_GUESSES = {
    "corpora": {
        "ls": "list",
        "add": "To add files to a corpus: moot index PATH --corpus NAME",
        "create": "To make a corpus: moot index PATH --corpus NAME",
        "index": "To add files to a corpus: moot index PATH --corpus NAME",
    },
    "config": {"ls": "show", "list": "show", "edit": "To set a value: moot config set KEY VALUE"},
    "eval": {"list": "To list the benchmarks: moot eval tasks", "benchmarks": "tasks"},
    "replies": {
        "list": "To list the debates with stored replies: moot replies",
        "ls": "To list the debates with stored replies: moot replies",
    },
}
"""Guesses within each group of commands: an alias or a hint for each wrong name."""
LEAST_CLAIM_WORDS = 3
"""Minimum number of words after ``moot`` at which the words count as a claim."""
LISTS = ("graphs", "models", "tasks", "presets", "list")
"""Commands that list something themselves; ``list`` after such a command is ignored."""
EXTRAS = {"assistants": "server", "eval": "evals", "serve": "server", "service": "service"}
"""Commands that need an extra of moot, with the name of the extra. Other commands report a missing extra themselves."""


EXAMPLES = {
    "verify": 'moot verify "The Suez Canal has locks."',
    "index": "moot index reports/ --corpus cases",
    "claims": "moot claims article.pdf --out claims.csv",
    "batch": "moot batch claims.csv --out verdicts",
}
"""An example of each command for people."""


class GuessingGroup(TyperGroup):
    """A group of commands that accepts aliases. Its error for an unknown name suggests a command."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for command in self.commands.values():  # Typer would keep the line breaks of docstrings
            paragraphs = (command.help or "").split("\n\n")
            command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs) or None

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of commands, in the order of help."""
        order = [name for panel in PANELS.values() for name in panel]
        known = super().list_commands(ctx)
        return sorted(known, key=lambda name: order.index(name) if name in order else len(order))

    def invoke(self, ctx: Any) -> Any:
        """Runs the command.

        If a package of an extra is missing, the error names the extra. If a setting was written as an option, the error
        suggests ``--set``. If an argument or option is missing, the error has an example of the command.
        """
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            command = str(ctx.invoked_subcommand)
            if command not in EXTRAS or find_spec(str(error.name).partition(".")[0]):
                raise
            from moot.core.lazy import missing_package

            raise missing_package(error, EXTRAS[command], f"moot {command}") from error
        except Exception as error:
            setting = str(getattr(error, "option_name", "")).lstrip("-").replace("-", "_") + "="
            options = getattr(getattr(getattr(error, "ctx", None), "command", None), "params", ())
            if any("--set" in one.opts for one in options) and setting in names("settings"):
                error.possibilities = [f"--set {setting}..."]  # type: ignore[attr-defined]
            if type(error).__name__ == "MissingParameter" and (example := EXAMPLES.get(str(ctx.invoked_subcommand))):
                error.message = f"For example: {example}"  # type: ignore[attr-defined]
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolves the name or an alias of a command. The error for an unknown name has a hint.

        ``help`` prints the help of the group and exits; ``help NAME`` becomes ``NAME --help``.
        """
        word = args[0]
        guesses = GROUP_GUESSES.get(str(ctx.info_name), {}) if ctx.parent else OTHER_NAMES | HINTS
        if word == "help" and not args[1:]:
            print(self.get_help(ctx))  # noqa: T201
            ctx.exit()
        if word == "help":
            args = [args[1], "--help"]
        elif word in LISTS and args[1:2] == ["list"]:
            args = [word, *args[2:]]
        elif guesses.get(word) in self.commands:
            args = [guesses[word], *args[1:]]
        if args[0] not in self.commands:
            ctx.fail(
                guesses.get(word)
                or ("" if ctx.parent else hint_for(args))
                or self._unknown_name_text(ctx, args[0], guesses)
            )
        return super().resolve_command(ctx, args)

    def _unknown_name_text(self, ctx: Any, word: str, guesses: dict[str, str]) -> str:
        """The error's text for an unknown name: it suggests the most similar command, if any."""
        near = get_close_matches(word, [*self.commands, *guesses], n=1)
        named = guesses.get(near[0], near[0]) if near else ""
        known = f"Did you mean {ctx.command_path} {named}?" if named in self.commands else f"See: {ctx.command_path} -h"
        return f"There is no command {word!r}. {known}"


def hint_for(args: list[str]) -> str:
    """A hint for arguments that begin with a file or an address, or have enough words for a claim; else empty."""
    word = args[0]
    is_address = word.startswith(("http://", "https://"))
    if not is_address and Path(word).suffix.lower() in (".csv", ".tsv", ".jsonl"):
        return f"To check the claims of a list: moot batch {word} --out FOLDER"
    if is_address or os.path.isfile(word):  # `Path.is_file` would raise an error for a long claim
        return f"To find the claims of a text: moot claims {word}"
    words = [one for one in args if not one.startswith("-")]
    if len(" ".join(words).split()) >= LEAST_CLAIM_WORDS:
        claim = " ".join(words)
        quoted = shlex.quote(claim) if re.search(r'["$`\\!]', claim) else f'"{claim}"'
        return f"To check a claim: moot verify {quoted}"
    return ""
