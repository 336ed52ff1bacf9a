"""MkDocs hooks of the site. They include files and tables, adapt links, and let drawings work offline."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_origin, is_typeddict

import mermaidx
import typer
from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url
from moot.cli.main import app
from moot.cli.tables import setting_rows
from moot.graphs import load_graph
from moot.graphs._registry import DESCRIPTIONS, OTHER_GRAPHS
from pydantic import BaseModel

ROOT = Path(__file__).parents[1]
FILE = re.compile(r"^(?:\[.+\]\(.+\):\n)?<!-- FILE: (.+\.(py|md|toml)) -->$", re.M)
"""The mark for a file to include on a page. The line before it may be a link, for readers of the repository.

On the site, the file replaces both.
"""
KINDS = {".py": "python", ".toml": "toml"}
"""The language of a block of code, by file suffix."""
PLACEHOLDER = re.compile(r"^<!-- (SETTINGS|COMMANDS|REFERENCE)(?: (\w+))? -->$", re.M)
"""The mark for settings, commands, or the reference of a package, such as ``REFERENCE nodes``."""
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
SECTIONS = (
    "Classes",
    "Settings",
    "State and results",
    "Nodes",
    "Steps as functions",
    "Edges",
    "Functions",
    "Types and values",
)
"""The sections of a package's reference."""
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
    made = {"SETTINGS": settings_table, "COMMANDS": commands_page, "REFERENCE": package_reference}
    text = PLACEHOLDER.sub(lambda found: made[found[1]](*filter(None, [found[2]])), text)
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
    """A table of all settings except prompts; a setting precedes those of fewer systems."""
    kinds: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for system in (*DESCRIPTIONS, *OTHER_GRAPHS):
        for row in setting_rows(load_graph(system, others=True).settings):
            if not row[0].endswith("_prompt"):
                kinds[row].append(system)
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


def graphs_reference() -> str:
    """A section of the reference for each graph, with the class of settings that its own module defines, if any."""
    names = DESCRIPTIONS | OTHER_GRAPHS
    return "\n\n".join(f"::: moot.graphs.{n}\n    options:\n      members: [{own_settings(n)}]" for n in names)


def own_settings(name: str) -> str:
    """The name of the class of settings that a graph's module defines; empty if another module defines it."""
    kind = import_module(f"moot.graphs.{name}").graph.builder._kind
    return kind.__name__ if kind.__module__.startswith(f"moot.graphs.{name}") else ""


def section_of(value: Any) -> str:
    """The section of a package's page for a public object."""
    if get_origin(value) is not None:
        return "Types and values"
    if inspect.isclass(value):
        return "Settings" if issubclass(value, BaseModel) else "State and results" if is_typeddict(value) else "Classes"
    if not callable(value):
        return "Types and values"
    returned = str(inspect.signature(value).return_annotation)
    if returned == "Node":
        return "Nodes"
    if "Send" in returned:
        return "Edges"
    return "Steps as functions" if inspect.iscoroutinefunction(value) else "Functions"


def package_reference(name: str) -> str:
    """The reference of a package: its docstring, its public names by kind, and for graphs also the systems."""
    package = import_module(f"moot.{name}")
    kinds: dict[str, list[str]] = {section: [] for section in SECTIONS}
    for public in package.__all__:
        kinds[section_of(getattr(package, public))].append(f"::: {package.__name__}.{public}")
    parts = [inspect.getdoc(package) or ""]
    for kind, names in kinds.items():
        parts += [f"## {kind}", *names] if names else []
    return "\n\n".join([*parts, *(["## Systems", graphs_reference()] if name == "graphs" else [])])


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
