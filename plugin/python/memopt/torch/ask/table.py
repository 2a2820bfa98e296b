"""Tables as text and as HTML."""

from __future__ import annotations

import html as markup
import re
from collections.abc import Sequence

from ..._visible import line


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table whose first row is the head; numbers are right-aligned."""
    if not rows:
        return []
    rows = [[line(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    numeric = [all(re.match(r"[-+−]?\d|$", row[i]) for row in rows[1:]) for i in range(len(rows[0]))]
    return ["  ".join(cell.rjust(w) if n else cell.ljust(w) for cell, w, n in zip(row, widths, numeric, strict=True)).rstrip() for row in rows]


def html_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{markup.escape(line(c))}</{tag}>" for c in row) + "</tr>"

    return f"<table><caption>{markup.escape(title)}</caption>{cells('th', head)}{''.join(cells('td', row) for row in rows)}</table>"
