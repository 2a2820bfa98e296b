"""The class of plans."""

from __future__ import annotations

import html
import json
import os
from typing import TYPE_CHECKING, Any

from ._section import Section
from ._visible import line, lines
from ._whole import write

if TYPE_CHECKING:
    from ._fields import Plan as _Plan
else:
    _Plan = Section

__all__ = ["Report", "Section"]

WIDTH = 80


_UNTRAINED = {
    "buffers": "buffers",
    "frozen": "named frozen",
    "others": "not named trainable",
    "unused": "not reached from the loss",
}


class Report(_Plan):
    """A plan: its JSON (memopt.plan/1) by attribute or by item, and the table of `memopt plan` as str()."""

    __slots__ = ("_json", "_text")
    _json: str
    _text: str

    def __init__(self, plan_json: str, text: str = "") -> None:
        super().__init__(json.loads(plan_json))
        object.__setattr__(self, "_json", plan_json)
        object.__setattr__(self, "_text", text)

    @property
    def text(self) -> str:
        """The table of `memopt plan`."""
        return lines(str(self._text))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan file as made by the service; it appears complete or not at all."""
        write(path, self._json.encode())

    def __reduce__(self) -> tuple[Any, ...]:
        return Report, (self._json, self._text)

    def __str__(self) -> str:
        return self.text.rstrip("\n") or repr(self)

    def __repr__(self) -> str:
        title, rows = self._summary()
        return "\n".join(_cut(line) for line in [title, *(f"  {label:<10} {value}" for label, value in rows)])

    def _repr_html_(self) -> str:
        title, rows = self._summary()
        cells = "".join(
            f'<tr><th style="text-align:left">{html.escape(label)}</th>'
            f'<td style="text-align:left">{html.escape(value)}</td></tr>'
            for label, value in rows
        )
        return f"<table><caption>{html.escape(title)}</caption>{cells}</table>"

    def _summary(self) -> tuple[str, list[tuple[str, str]]]:
        get = self._get
        title = "memopt plan of " + os.path.basename(get("model", "path") or "?")
        dims = ", ".join(f"{k}={v}" for k, v in (get("dims") or {}).items())
        if dims:
            title += f" at {dims}"
        rows = []
        peak, before = get("result", "peak"), get("baseline", "peak")
        if peak is not None:
            text = show_bytes(peak)
            if before:
                text += f", {peak / before:.1%} of {show_bytes(before)} with everything kept"
            rows.append(("peak", text))
        if get("memory", "total"):
            rows.append(("total", f"{show_bytes(get('memory', 'total'))} with weights, gradients and optimizer"))
        if get("result", "overhead") is not None:
            rows.append(("extra time", f"{get('result', 'overhead'):.1%}, {get('result', 'recomputed_nodes') or 0} nodes computed again"))
        if get("bound", "gap") is not None:
            rows.append(("gap", f"{get('bound', 'gap'):.1%} to the proven bound"))
        if get("floor", "peak"):
            rows.append(("floor", f"{show_bytes(get('floor', 'peak'))}, held by {get('floor', 'node') or '?'}"))
        trains = get("trains")
        if trains:
            untrained = [
                f"{len(trains[key])} {words}"
                for key, words in _UNTRAINED.items()
                if trains.get(key)
            ]
            text = f"{trains['parameters']:,} parameters, {show_bytes(trains['bytes'])}"
            rows.append(("trains", text + ("; not " + ", ".join(untrained) if untrained else "")))
        clusters = get("clusters") or []
        if clusters:
            rows.append(("clusters", f"{sum(bool(c.get('on')) for c in clusters)} of {len(clusters)} on"))
        rows += [("warning", str(w)) for w in get("warnings") or []]
        return line(title), [(label, line(value)) for label, value in rows]

    def _get(self, *names: str) -> Any:
        value: Any = self._fields
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return value


def show_bytes(n: float) -> str:
    """1536 → '1.50 KiB'."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(n) < 1024:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.2f} {unit}"
        n /= 1024
    return f"{n:.2f} TiB"


def show_share(share: float, digits: int = 1, sign: bool = True) -> str:
    """0.05 → '+5.0 %', as the command writes it."""
    return f"{100 * share:{'+' if sign else ''}.{digits}f} %"


def enough(n: int) -> str:
    """The shortest text of a size that is no less: 15,899,362 → '15.2 MiB'."""
    if n < 1024:
        return f"{n} B"
    units = ("KiB", "MiB", "GiB", "TiB")
    power = next((i for i in range(1, len(units)) if n < 1000 * 1024**i), len(units))
    return f"{-(-n * 10 // 1024**power) / 10:.10g} {units[power - 1]}"


class Bytes(int):
    """A number of bytes: it prints as people read it, and is a number to what logs or saves it."""

    def __repr__(self) -> str:
        return show_bytes(self)

    __str__ = __repr__


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
