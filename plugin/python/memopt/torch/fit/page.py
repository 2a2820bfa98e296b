"""The page of an answer: pictures of who holds a step's bytes, in plain HTML and SVG, without anything from elsewhere."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence

from ..._visible import line
from ...report import show_bytes
from .account import OWNERS, Line

_COLUMNS = 240  # of a timeline
_WIDE, _HIGH = 1072, 300  # of a picture
_COLORS = ("#3f74bd", "#58a36a", "#9270bf", "#e2912c", "#c2587a", "#cf5a45", "#4aa3a8", "#a9a13a", "#7d6a55", "#5d86a3", "#8b949e", "#b3a1c7")  # by owner
_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2024; --soft: #626b75; --line: #d9dee4; --panel: #f5f7f9; --good: #23764a; --bad: #b3261e; }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e4e7ea; --soft: #98a2ad; --line: #343b43; --panel: #1d2226; --good: #6fc894; --bad: #f28b82; } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 28px 24px 56px; }
h1 { font-size: 24px; line-height: 1.3; margin: 0 0 12px; overflow-wrap: anywhere; } h2 { font-size: 18px; margin: 36px 0 6px; }
.good { color: var(--good); } .bad { color: var(--bad); } .soft, figcaption, footer { color: var(--soft); font-size: 13px; }
.scroll { overflow-x: auto; margin: 8px 0; } figure { margin: 10px 0 0; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; } th { font-weight: 600; color: var(--soft); font-size: 13px; }
td.n, th.n { text-align: right; white-space: nowrap; } tr.sum td { font-weight: 600; }
svg { display: block; width: 100%; height: auto; background: var(--panel); } svg text { fill: var(--soft); font-size: 12px; }
svg .budget { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 6 4; fill: none; } svg .turn { stroke: var(--soft); stroke-dasharray: 2 4; } svg .hot { fill: transparent; } svg .hot:hover { fill: var(--ink); fill-opacity: .14; }
.legend { display: flex; flex-wrap: wrap; gap: 3px 18px; font-size: 13px; margin: 8px 0 0; padding: 0; list-style: none; }
.key { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 6px; }
footer { margin-top: 44px; padding-top: 12px; border-top: 1px solid var(--line); }
"""
_STYLE += "".join(f".o{i} {{ fill: {c}; background: {c}; }} " for i, c in enumerate(_COLORS))


def text(said: str) -> str:
    """A text of whoever wrote it, as markup."""
    return html.escape(line(said))


def document(title: str, fits: bool, parts: Sequence[str]) -> str:
    """The page with its parts, below its verdict."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{text(title)} – memopt</title>\n<style>{_STYLE}</style>\n</head>\n'
        f'<body>\n<main>\n<h1 class="{"good" if fits else "bad"}">{text(title)}</h1>\n'
        + "\n".join(parts)
        + "\n<footer>Made by memopt fit, before anything of the model was allocated. Point at a picture for its figures.</footer>\n</main>\n</body>\n</html>\n"
    )


def section(name: str, *parts: str) -> str:
    return f"<h2>{text(name)}</h2>\n" + "\n".join(parts)


def grid(rows: Sequence[Sequence[str]], head: bool = True, total: bool = False) -> str:
    """A table; its numbers are right-aligned, and its last row may be a sum."""
    body = rows[1:] if head else rows
    numeric = [all(re.match(r"[-+−]?\d|[–?]?$|none$", row[i]) for row in body) for i in range(len(rows[0]))]

    def cells(row: Sequence[str], tag: str) -> str:
        right = f'<{tag} class="n">', f"<{tag}>"
        return "".join(f"{right[0] if n else right[1]}{text(cell)}</{tag}>" for cell, n in zip(row, numeric, strict=True))

    made = [f"<tr>{cells(row, 'td')}</tr>" for row in body]
    if total:
        made[-1] = made[-1].replace("<tr>", '<tr class="sum">')
    top = f"<thead><tr>{cells(rows[0], 'th')}</tr></thead>" if head else ""
    return f'<div class="scroll"><table>{top}<tbody>{"".join(made)}</tbody></table></div>'


def bars(rows: Sequence[tuple[str, Mapping[str, int]]], budget: int | None, owners: Sequence[str] = OWNERS) -> str:
    """A bar a row, of the bytes of its owners, against the budget."""
    left, right, high = 20 + 7 * max(len(name) for name, _ in rows), 110, 26
    totals = [sum(parts.values()) for _, parts in rows]
    most = _most(max(totals), budget)
    scale = (_WIDE - left - right) / most
    drawn = []
    for i, (name, parts) in enumerate(rows):
        x, y = float(left), i * high + 4
        drawn.append(f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{text(name)}</text>')
        for k, owner in enumerate(owners):
            if not (size := parts.get(owner, 0)):
                continue
            said = text(f"{name}: {owner}, {show_bytes(size)}")
            drawn.append(f'<rect class="o{k}" x="{x:.1f}" y="{y}" width="{size * scale:.1f}" height="{high - 8}"><title>{said}</title></rect>')
            x += size * scale
        drawn.append(f'<text x="{x + 6:.1f}" y="{y + 14}">{show_bytes(totals[i])}</text>')
    if budget is not None and budget <= most:
        drawn.append(f'<path class="budget" d="M{left + budget * scale:.1f} 0V{len(rows) * high}"><title>budget, {show_bytes(budget)}</title></path>')
    picture = f'<svg viewBox="0 0 {_WIDE} {len(rows) * high}" role="img" aria-label="bytes by owner">{"".join(drawn)}</svg>'
    shown = [owner for owner in owners if any(parts.get(owner) for _, parts in rows)] if len(owners) > 1 else []
    return f"<figure>{picture}{_legend(shown, budget, most)}</figure>"


def timeline(of: Line, budget: int | None) -> str:
    """The bytes alive from node to node. A column of several nodes shows the fullest of them."""
    total, n = of.total, len(of.total)
    count = min(n, _COLUMNS)
    edges = [i * n // count for i in range(count + 1)]
    picked = [a + int(total[a:b].argmax()) for a, b in zip(edges, edges[1:], strict=False)]
    most, left, top = _most(int(total.max()), budget), 76, 8
    wide, scale = (_WIDE - left) / count, (_HIGH - top) / most
    floor = [0.0] * count
    drawn = []
    owners = [owner for owner in OWNERS if owner in of.rows and of.rows[owner].any()]
    for owner in owners:
        roof = [floor[k] + float(of.rows[owner][i]) for k, i in enumerate(picked)]
        # Along the roof to the right, and back along the floor.
        there = "".join(f"L{left + k * wide:.1f} {_HIGH - y * scale:.1f}H{left + (k + 1) * wide:.1f}" for k, y in enumerate(roof))
        back = "".join(f"L{left + (k + 1) * wide:.1f} {_HIGH - floor[k] * scale:.1f}H{left + k * wide:.1f}" for k in reversed(range(count)))
        drawn.append(f'<path class="{_class(owner)}" d="M{there[1:]}{back}Z"/>')
        floor = roof
    for quarter in range(1, 5):
        y = _HIGH - quarter * (_HIGH - top) / 4
        drawn.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{show_bytes(most * quarter / 4)}</text>')
    turn = left + of.step.first_backward / n * (_WIDE - left)
    drawn.append(f'<path class="turn" d="M{turn:.1f} 0V{_HIGH}"><title>the backward pass begins</title></path>')
    if budget is not None and budget <= most:
        drawn.append(f'<path class="budget" d="M{left} {_HIGH - budget * scale:.1f}H{_WIDE}"><title>budget, {show_bytes(budget)}</title></path>')
    for k, i in enumerate(picked):
        held = "; ".join(f"{owner} {show_bytes(int(of.rows[owner][i]))}" for owner in owners if of.rows[owner][i])
        said = text(f"{of.place(i)}: {show_bytes(int(total[i]))} ({held})")
        drawn.append(f'<rect class="hot" x="{left + k * wide:.1f}" y="0" width="{wide:.1f}" height="{_HIGH}"><title>{said}</title></rect>')
    picture = f'<svg viewBox="0 0 {_WIDE} {_HIGH}" role="img" aria-label="bytes alive over the step">{"".join(drawn)}</svg>'
    said = f"{n:,} operators from left to right; the dotted line is where the backward pass begins. The peak, {show_bytes(int(total.max()))}, is at {of.place(int(total.argmax()))}."
    return f"<figure>{picture}{_legend(owners, budget, most)}<figcaption>{text(said)}</figcaption></figure>"


def _most(taken: int, budget: int | None) -> int:
    """The end of an axis: the budget is drawn unless what is taken would be too small beside it."""
    return max(1, taken, budget if budget is not None and budget < 3 * taken else 0)


def _class(owner: str) -> str:
    return f"o{OWNERS.index(owner)}"


def _legend(owners: Sequence[str], budget: int | None, most: int) -> str:
    items = [f'<li><span class="key {_class(owner)}"></span>{text(owner)}</li>' for owner in owners]
    if budget is not None:
        items.append(f"<li>{'dashed: ' if budget <= most else ''}budget {show_bytes(budget)}{'' if budget <= most else ', beyond the drawing'}</li>")
    return f'<ul class="legend">{"".join(items)}</ul>'
