"""What the page, the reports of debates and those of evaluations share: templates, styles, and texts in Markdown."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files
from typing import Any

from moot.retrievers._evidence import clean
from moot.transcript.language import t
from moot.transcript.report.paper import around_quotes

LOOK = files("moot.transcript").joinpath("look")
"""The folder of the templates and styles."""
MARKUP = re.compile(r"[\\`*_{}\[\]#|~$^]|^[-+=:]|(?<=^\d)[.)]|(?<=^\d\d)[.)]")
"""Characters that Markdown would interpret."""


def escaped(text: object) -> str:
    """A text that Markdown shows unchanged, in one line."""
    line = " ".join(clean(str(text)).split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKUP.sub(r"\\\g<0>", line)


def styles() -> str:
    """The style sheet of a debate's report, for a page that shows the report's body."""
    return "\n".join(LOOK.joinpath(f"{name}.css").read_text(encoding="utf-8") for name in ("tokens", "base", "report"))


@lru_cache
def templates(package: str = "moot.transcript", folder: str = "look") -> Any:
    """The templates in a package's folder and those that all reports share.

    Texts in HTML are escaped; in Markdown, the filter ``md`` escapes them.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, folder), PackageLoader("moot.transcript", "look")]),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.globals["t"] = t
    environment.filters["md"] = escaped
    environment.filters["around_quotes"] = around_quotes
    return environment
