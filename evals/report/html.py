"""A report as one HTML page that opens offline: styles and pictures are in it, and nothing is loaded.

Everything that comes from logs is escaped by the template engine.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

from moot.evals.report.drawing import Picture, adaptive
from moot.evals.report.tables import Nested, is_number, shown
from moot.evals.stats.measures import package

if TYPE_CHECKING:
    from moot.evals.report.write import Report

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Comparison of debate systems</title>
<style>
:root { color-scheme: light dark; --ink: #1c1c1c; --soft: #595959; --line: #c8c8c8; --ground: #fff; --link: #0b57a4 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --soft: #adadad; --line: #4a4a4a; --ground: #141414; --link: #8ab8f0 }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground); margin: 0 auto;
  max-width: 76rem; padding: 1rem 1.25rem 4rem }
h1, h2, h3 { line-height: 1.25 }
h2 { margin-top: 3rem; border-bottom: 1px solid var(--line) }
a { color: var(--link) }
nav ul { columns: 16rem; padding-left: 1.25rem }
.scroll { overflow-x: auto; margin: .5rem 0 1.5rem }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums }
caption { text-align: left; color: var(--soft); padding-bottom: .5rem; max-width: min(60rem, 92vw) }
th, td { padding: .25rem .75rem .25rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line) }
th, td { min-width: 8rem; max-width: 40rem; overflow-wrap: break-word }
td { overflow-wrap: anywhere }
th.number, td.number { text-align: right; min-width: 3.5rem }
td.number { white-space: nowrap }
thead th { vertical-align: bottom }
tbody th { font-weight: 600 }
tbody th.nested { font-weight: 400; padding-left: 1.25rem }
figure { margin: 1rem 0 2rem }
figure img { max-width: 100%; height: auto }
figcaption, .soft { color: var(--soft) }
@page { size: landscape; margin: 12mm }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt }
  table { font-size: 7.5pt }
  th, td { min-width: 5rem; padding-right: .5rem }
  th.number, td.number { min-width: 2rem }
  .scroll { overflow: visible }
  figure, tr { break-inside: avoid }
}
</style>
</head>
<body>
<main>
<h1>Comparison of debate systems</h1>
<p class="soft">moot {{ report.moot_version }}, {{ report.made }}.</p>
{% macro notes(of) %}{% if of %}<ul>{% for note in of %}<li>{{ note }}</li>{% endfor %}</ul>{% endif %}{% endmacro %}
{{ notes(report.notes) }}
<nav aria-label="Contents"><ul>
{% for section in report.sections %}<li><a href="#{{ section.name }}">{{ section.title }}</a></li>
{% endfor %}</ul></nav>
{% for section in report.sections %}
<section aria-labelledby="{{ section.name }}">
<h2 id="{{ section.name }}">{{ section.title }}</h2>
<p class="soft">Licence of the data: {{ section.licence }}.</p>
{{ notes(section.notes) }}
{% for table in section.tables %}
{% set id = section.name ~ "-" ~ table.key %}
<h3 id="{{ id }}">{{ table.title }}</h3>
<div class="scroll" role="region" aria-labelledby="{{ id }}" tabindex="0">
<table>
<caption>{{ table.caption }}</caption>
<thead><tr>
{% for column in table.columns %}\
<th scope="col"{% if is_number(column) %} class="number"{% endif %}>{{ column.title }}</th>
{% endfor %}</tr></thead>
<tbody>
{% for row in table.rows %}<tr>
<th scope="row"{% if is_nested(row[0]) %} class="nested"{% endif %}>{{ shown(row[0], "text") }}</th>
{% for column in table.columns[1:] %}\
<td{% if is_number(column) %} class="number"{% endif %}>{{ shown(row[loop.index], column.kind) }}</td>
{% endfor %}</tr>
{% endfor %}</tbody>
</table>
</div>
{% for picture in section.pictures if picture.of == table.key %}
<figure><img src="{{ data(picture) }}" alt="{{ picture.alt }}"><figcaption>{{ picture.title }}</figcaption></figure>
{% endfor %}
{% endfor %}
</section>
{% endfor %}
</main>
</body>
</html>
"""


def html_page(report: Report) -> str:
    """The page.

    Raises:
        UserError: Jinja2 is not installed.
    """
    jinja = package("jinja2")
    environment = jinja.Environment(
        autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    page: str = environment.from_string(PAGE).render(
        report=report, shown=shown, is_number=is_number, data=data_address, is_nested=lambda c: isinstance(c, Nested)
    )
    return page


def data_address(picture: Picture) -> str:
    """A picture as an address that holds it."""
    return f"data:image/svg+xml;base64,{b64encode(adaptive(picture.svg).encode()).decode()}"
