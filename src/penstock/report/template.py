"""The page that reports are written on: it needs no other file, and no network."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from penstock.report import curves, figures

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --line: #8884; --ground: #8881 }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 1040px; margin: 2em auto; padding: 0 1em }}
h1 {{ font-size: 1.5em; overflow-wrap: anywhere }}
h2 {{ font-size: 1.15em; margin-top: 2em; border-bottom: 1px solid var(--line) }}
pre {{ background: var(--ground); padding: 1em; overflow-x: auto; font-size: 13px }}
img {{ max-width: 100%; background: #fff }} details {{ margin-top: 1em }}
summary {{ cursor: pointer; font-weight: 600 }}
dl {{ display: grid; grid-template-columns: 11em 1fr; gap: 0 1em }} dt {{ font-weight: 600 }} dd {{ margin: 0 }}
dd {{ overflow-wrap: anywhere }} .pair {{ display: flex; flex-wrap: wrap }}
.pair img {{ flex: 1 1 320px; min-width: 0 }}
@media (max-width: 600px) {{ dl {{ grid-template-columns: 1fr }} dd {{ margin: 0 0 .5em }} pre {{ font-size: 11px }} }}
table.values {{ border-collapse: collapse; font-size: 14px }}
table.values th, table.values td {{ text-align: left; padding: .2em .8em .2em 0; vertical-align: top }}
table.values th, table.values td {{ border-bottom: 1px solid var(--line) }}
table.values td:first-child {{ white-space: nowrap }}
table.events td {{ padding-right: 1em; vertical-align: top; overflow-wrap: anywhere }}
{style}</style></head><body>
<h1>{title}</h1>
<dl>{summary}</dl>
{sections}
<script>{script}</script>
</body></html>
"""


def page_of(title: str, summary: Mapping[str, str], sections: Iterable[str]) -> str:
    """A page."""
    listed = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(str(v))}</dd>" for k, v in summary.items())
    return _PAGE.format(
        title=html.escape(title),
        style=figures.STYLE + curves.STYLE,
        summary=listed,
        sections="\n".join(sections),
        script=curves.SCRIPT,
    )


def section(title: str, body: str) -> str:
    """A part of a page below a heading; "" where there is nothing to show."""
    return f"<h2>{html.escape(title)}</h2>\n{body}" if body else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of text below a head. A wide one is scrolled by itself."""
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide" tabindex="0"><table class="values"><tr>{top}</tr>{body}</table></div>'
