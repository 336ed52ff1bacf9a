"""What the site's build does beside MkDocs: README and files on its pages, links that hold there, pictures offline."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mermaidx
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
SECTION = re.compile(r"^<!-- README: (.+) -->$", re.M)
FILE = re.compile(r"^<!-- FILE: (.+\.py) -->$", re.M)
DRAWS = "assets/javascripts/mermaid.min.js"
MERMAID = Path(mermaidx.__file__).parent / "assets" / "mermaid.js"
"""Mermaid's own release, as that package carries it: nothing is fetched, neither here nor by a reader's browser."""
FILL = re.compile(r"^\tclassDef .*\n", re.M)
LINKS = {
    r"\.\./README\.md#systems": "systems.md",
    r"\.\./graphs/(\w+)(?:/__init__)?\.py": r"api/graphs.md#moot.graphs.\1",
    r"docs/graphs\.md": "graphs.md",
    r"docs/pictures/([\w-]+)\.jpg": r"pictures/\1.jpg",
    r"docs/howto/(\w+)\.md(#[\w-]+)?": r"howto/\1.md\2",
}
"""Links that hold in the repository, and what they are on the site."""


def on_files(files: Any, *, config: Any) -> Any:
    """The script that draws joins the site."""
    files.append(File.generated(config, DRAWS, abs_src_path=str(MERMAID)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """README's sections and files take the place of their names; drawings have the theme's colours, in the dark too."""
    text = SECTION.sub(lambda found: section(found[1]), markdown)
    text = FILE.sub(lambda found: f"```python\n{(ROOT / found[1]).read_text(encoding='utf-8')}```", text)
    up = "../" * page.file.src_uri.count("/")
    for there, here in LINKS.items():
        text = re.sub(rf"\]\({there}\)", f"]({up}{here})", text)
    return FILL.sub("", text)


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """A page with drawings loads the script that draws, before the theme would look for it elsewhere."""
    if 'class="mermaid"' not in output:
        return output
    script = f'<script src="{get_relative_url(DRAWS, page.url)}"></script>'
    return output.replace("</head>", f"{script}</head>", 1)


def section(heading: str) -> str:
    """The section of README under a heading of the second level, without it; its own headings move up by one.

    Raises:
        PluginError: there is no such section.
    """
    text = README.read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if found is None:
        raise PluginError(f"README has no section {heading!r}, which a page of docs/ takes over.")
    return re.sub(r"^###", "##", found[1].strip(), flags=re.M)
