"""`python -m memopt fit-model`: what `memopt fit` starts, which hands it a request as JSON and prints its answer."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

from ..._fitwords import FORMAT
from ..._visible import line
from ...errors import MemoptError
from .presets import PRESETS
from .request import Request
from .switches import configured

DONE, CANNOT, WRONG = 0, 1, 2  # exit codes


def main(arguments: list[str]) -> int:
    """Answers the request on standard input."""
    if arguments:
        print("memopt: fit-model is what memopt fit starts; its request is JSON on standard input", file=sys.stderr)
        return WRONG
    asked: dict[str, Any] = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):  # what a model's own code prints is no part of the answer
        code, text = _answered(asked)
    if text:
        print(text)
    return code


def _answered(asked: dict[str, Any]) -> tuple[int, str]:
    """The exit code, and what is printed."""
    as_json = asked.get("format") == "json"
    try:
        if asked.get("list"):
            return DONE, json.dumps({"format": f"{FORMAT}/presets", "presets": {k: {"is": v[0], "config": v[1]} for k, v in PRESETS.items()}}, indent=1) if as_json else presets()
        from .fit import answer_of

        answer = answer_of(request_of(asked["request"]))
        if asked.get("html"):
            answer.save_html(asked["html"])
    except (ValueError, TypeError, OSError) as e:
        print(f"memopt: {line(' '.join(str(e).split()))}", file=sys.stderr)
        return WRONG, ""
    except MemoptError as e:
        print(f"memopt: {line(str(e))}", file=sys.stderr)
        return WRONG if e.code == "INVALID_ARGUMENT" else CANNOT, ""
    if not answer:
        print(f"memopt: {answer.verdict}", file=sys.stderr)
    return DONE if answer else CANNOT, json.dumps(answer.to_dict(), indent=1, ensure_ascii=False) if as_json else str(answer)


def request_of(given: dict[str, Any]) -> Request:
    """A request as the command line gives it: whole numbers may be text."""
    fields: dict[str, Any] = {}
    for name, value in configured(given).items():
        kind = str(Request.__dataclass_fields__[name].type)
        if isinstance(value, str) and kind.startswith("int"):
            if not value.isascii() or not value.isdigit():
                raise ValueError(f"--{name.replace('_', '-')} is {value!r}; give a whole number")
            value = int(value)
        if isinstance(value, str) and kind == "float":
            try:
                value = float(value)
            except ValueError:
                raise ValueError(f"--{name.replace('_', '-')} is {value!r}; give a number") from None
        fields[name] = value
    return Request(**fields)


def presets() -> str:
    """The presets, one a line."""
    wide = max(map(len, PRESETS))
    return "\n".join(f"{name.ljust(wide)}  {what}" for name, (what, _) in PRESETS.items())


