"""The page of memopt.fit: it shows what the answer says, whole or not at all, and needs nothing beside it."""

from __future__ import annotations

import os
import re
from html.parser import HTMLParser
from unittest import main
from xml.dom import minidom

from test_fit import LLAMA, InFolder

import memopt

VOID = {"meta"}


class Markup(HTMLParser):
    """Reads a page strictly: what is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes another element")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th", "h1"):
            self.cells.append(data)


def read(page: str) -> Markup:
    found = Markup()
    found.feed(page)
    found.close()
    if found.open:
        raise AssertionError(f"{found.open} are not closed")
    return found


class TestPage(InFolder):
    given = {"batch": 2, "seq": 64, "for_device": "torch-core", "largest": False}

    def test_shows_the_answer(self):
        answer = memopt.fit(self.config(LLAMA), budget="8MiB", **self.given)
        path = os.path.join(self.folder, "fit.html")
        answer.save_html(path)
        with open(path, encoding="utf-8") as f:
            page = f.read()
        found = read(page)
        self.assertEqual(found.cells[0], answer.verdict)
        for row in [*answer.owners(), *answer.rungs()]:
            for cell in filter(None, row):
                self.assertIn(cell, found.cells)
        self.assertFalse(found.tags & {"script", "link", "img", "iframe", "image"})
        self.assertNotRegex(page, r"https?://|@import|url\(")
        for picture in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
            minidom.parseString(picture)
        self.assertEqual(sorted(os.listdir(self.folder)), ["config.json", "fit.html"])

    def test_timeline(self):
        """The timeline's peak is that of the phase."""
        for optimizer, context in (("none", "torch-core"), ("adamw", "h100")):
            with self.subTest(optimizer=optimizer, device=context):
                answer = memopt.fit(self.config(LLAMA), optimizer=optimizer, **{**self.given, "for_device": context})
                later = next(p for p in answer.phases if p.name == "later steps")
                self.assertEqual(int(answer.alive.total.max()), later.total - later.bytes["slack"])
                self.assertEqual(answer.alive.rows["weights"][0], later.bytes["weights"])

    def test_escapes(self):
        """Names are whatever their authors wrote."""
        answer = memopt.fit(self.config(LLAMA), **self.given)
        answer.notes.append("<script>alert('x')</script> & \u202e\x07")
        page = answer.html()
        self.assertIn("&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; \\u202e\\x07", page)
        self.assertFalse(read(page).tags & {"script"})

    def test_cannot_be_written(self):
        answer = memopt.fit(self.config(LLAMA), **self.given)
        with self.assertRaisesRegex(OSError, "cannot be replaced by a file"):
            answer.save_html(self.folder)


if __name__ == "__main__":
    main()
