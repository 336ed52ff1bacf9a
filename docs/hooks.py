"""MkDocs hooks of the site. They include files and tables, adapt links, and let drawings work offline."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mermaidx
import typer
from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url
from moot.cli.main import app

ROOT = Path(__file__).parents[1]
FILE = re.compile(r"^(?:\[.+\]\(.+\):\n)?<!-- FILE: (.+\.(py|md|toml)) -->$", re.M)
"""The mark for a file to include on a page. The line before it may be a link, for readers of the repository.

On the site, the file replaces both.
"""
KINDS = {".py": "python", ".toml": "toml"}
"""The language of a block of code, by file suffix."""
PLACEHOLDER = re.compile(r"^<!-- (SETTINGS|COMMANDS) -->$", re.M)
MERMAID_PATH = "assets/javascripts/mermaid.min.js"
MERMAID = Path(mermaidx.__file__).parent / "assets" / "mermaid.js"
"""Mermaid's script in the package `mermaidx`. With it, neither the build nor a browser needs another website."""
CLASS_STYLE = re.compile(r"^\tclassDef .*\n", re.M)
LINKS = {
    r"docs/([\w/-]+\.md(?:#[\w-]+)?)": r"\1",
    r"(?:\.\./)?graphs/(\w+)(?:/__init__)?\.py": r"api/graphs.md#moot.graphs.\1",
    r"README\.md": "index.md",
    r"SECURITY\.md": "security.md",
}
"""Patterns of links in the repository, and their targets on the site."""
MOST_NAMED = 8
"""Maximum number of systems that a row of a table names. Rows with more systems show a number or "all"."""


def on_files(files: Any, *, config: Any) -> Any:
    """Adds Mermaid's script to the site."""
    files.append(File.generated(config, MERMAID_PATH, abs_src_path=str(MERMAID)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replaces placeholders by files and tables, adapts links, and removes the drawings' own colours.

    Drawings then have the colours of the theme, also in dark mode.
    """
    text = FILE.sub(lambda found: file_as_markdown(ROOT / found[1]), markdown)
    text = PLACEHOLDER.sub(lambda found: {"SETTINGS": settings_table, "COMMANDS": commands_page}[found[1]](), text)
    up = "../" * page.file.src_uri.count("/")
    for link, target in LINKS.items():
        text = re.sub(rf"\]\({link}\)", f"]({up}{target})", text)
    return CLASS_STYLE.sub("", text)


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Adds the site's copy of Mermaid's script to pages with drawings, so that the theme does not download one."""
    if 'class="mermaid"' not in output:
        return output
    script = f'<script src="{get_relative_url(MERMAID_PATH, page.url)}"></script>'
    return output.replace("</head>", f"{script}</head>", 1)


def file_as_markdown(file: Path) -> str:
    """The content of a file on a page: Markdown unchanged, other files as a block of code."""
    text = file.read_text(encoding="utf-8")
    return text if file.suffix == ".md" else f"```{KINDS[file.suffix]}\n{text}```"


def settings_table() -> str:
    """A table of all settings except prompts, from `cli/listings.jsonl`; a setting precedes those of fewer systems."""
    kinds: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for line in (ROOT / "cli/listings.jsonl").read_text(encoding="utf-8").splitlines():
        command, *row = json.loads(line)
        if command.startswith("settings ") and not row[0].endswith("_prompt"):
            kinds[tuple(row)].append(command.removeprefix("settings "))
    all_systems = {system for systems in kinds.values() for system in systems}
    rows = ["| setting | default; values | meaning | systems |", "|---|---|---|---|"]
    for (name, default, values, about), systems in sorted(kinds.items(), key=lambda kind: -len(kind[1])):
        if len(others := all_systems - {*systems}) <= 1:
            named = " except ".join(["all", *(f"`{system}`" for system in others)])
        elif len(systems) <= MOST_NAMED:
            named = ", ".join(f"`{system}`" for system in systems)
        else:
            named = f"{len(systems)} systems"
        rows.append(table_row(f"`{name}`", f"{short_default(default)}; {values}", about, named))
    return "\n".join(rows)


def short_default(default: str) -> str:
    """A default for a table, as code; a long default is replaced by a reference to `moot settings`."""
    return f"`{default}`" if len(default) <= 40 else "a list; see `moot settings`"


def commands_page() -> str:
    """The help of all commands as Markdown, from the program itself."""
    program: Any = typer.main.get_command(app)
    return "\n".join(
        line for name in sorted(program.commands) for line in command_help(program.commands[name], f"moot {name}")
    )


def command_help(command: Any, name: str) -> Iterator[str]:
    """Yields a command's help as Markdown, then the help of its subcommands."""
    yield f"\n## {name}\n\n{one_line(command.help)}\n"
    subcommands = getattr(command, "commands", {})
    if not subcommands:
        parts = [part for part in command.params if not part.hidden]
        arguments = [part.metavar or part.name.upper() for part in parts if part.param_type_name == "argument"]
        names = [
            ", ".join(part.opts) if part.param_type_name == "option" else part.metavar or part.name.upper()
            for part in parts
        ]
        yield f"```console\n{' '.join([name, *arguments, '[OPTIONS]'])}\n```\n"
        yield "| option | meaning |\n|---|---|"
        yield from (table_row(f"`{option}`", one_line(part.help)) for option, part in zip(names, parts, strict=True))
        yield table_row("`--help`, `-h`", "Show this and exit.")
    for subcommand in sorted(subcommands):
        yield from command_help(subcommands[subcommand], f"{name} {subcommand}")


def table_row(*texts: str) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(text.replace('|', chr(92) + '|').replace(chr(10), '<br>') for text in texts)} |"


def one_line(text: str | None) -> str:
    """A help text in one line."""
    return " ".join((text or "").split())
