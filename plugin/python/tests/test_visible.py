"""What names in a model hold never reaches a terminal through Python."""

import json
import os
import tempfile
import unittest

from memopt import MemoptError
from memopt.report import Report

EVIL = "\x1b[2J\r\n\x7f\x85\x9b\u061c\u200b\u200e\u2028\u202e\u2066\ufeff\ufe0f\U000e0041\nEVIL"


def shows(text: str) -> None:
    assert not [line for line in text.split("\n") if line.startswith("EVIL")], text
    bad = [c for c in text if c in EVIL and not c.isascii() or c < " " and c != "\n" or "\x7f" <= c < "\xa0"]
    assert not bad, bad


class Visible(unittest.TestCase):
    def test_report(self) -> None:
        plan = {
            "model": {"path": "/x/m" + EVIL},
            "dims": {"b" + EVIL: 2},
            "floor": {"peak": 4, "node": "n" + EVIL},
            "result": {"peak": 5},
            "warnings": ["w" + EVIL],
        }
        report = Report(json.dumps(plan), "")
        for text in (repr(report), str(report), report._repr_html_(), repr(report.floor), str(report.model), f"{report}"):
            shows(text)
        assert report.floor.node == "n" + EVIL, "fields are as the model has them"
        shows(str(Report(json.dumps(plan), "table\x1b\u202e\n")))

    def test_errors(self) -> None:
        e = MemoptError("no" + EVIL.replace("\nEVIL", ""), stderr=("x" + EVIL,), hint="h")
        shows(str(e))
        shows(repr(e))

    def test_saving_keeps_permissions_and_links(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            name, link = os.path.join(folder, "n" * 255), os.path.join(folder, "link")
            os.symlink("n" * 255, link)
            report = Report("{}")
            report.save(link)
            os.chmod(name, 0o640)
            report.save(link)
            self.assertTrue(os.path.islink(link))
            self.assertEqual(os.stat(name).st_mode & 0o777, 0o640)
            self.assertEqual(sorted(os.listdir(folder)), ["link", "n" * 255])


if __name__ == "__main__":
    unittest.main()
