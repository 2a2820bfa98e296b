"""Escapes invisible characters and terminal controls as the service does: \\u202e."""

from __future__ import annotations

# Marks and letters without a glyph; str.isprintable calls them printable.
_BLANK = [(0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF)]


def line(text: str) -> str:
    """A text on one line."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_spelled, text))


def lines(text: str) -> str:
    """A text of any number of lines."""
    return "\n".join(map(line, text.split("\n")))


def class_of(x: object) -> str:
    """The name of an object's class, which is whatever its author wrote, to show."""
    return line(type(x).__name__)


def _spelled(c: str) -> str:
    n = ord(c)
    if c.isprintable() and not any(first <= n <= last for first, last in _BLANK):
        return c
    if c in "\n\t":
        return {"\n": "\\n", "\t": "\\t"}[c]
    if n < 0x20:
        return f"\\x{n:02x}"
    return f"\\u{n:04x}" if n <= 0xFFFF else f"\\U{n:08x}"
