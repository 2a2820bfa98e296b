"""What the service says in the command line's words, in those of memopt.plan: --budget 8GB is memory_budget="8GB"."""

from __future__ import annotations

import json
import re
import shlex

# Flags that are arguments; what is not among them is a setting that config takes.
_ARGUMENTS = {
    "budget": "memory_budget",
    "output": "save_to",
    **{
        flag: flag.replace("-", "_")
        for flag in ("dims", "activation-budget", "max-overhead", "strategy", "level", "config", "boundary", "compat", "loss", "optimizer", "emit", "html", "show")
    },
}

# Only what is surely a value is taken for one: the next word of a sentence is none.
_SIZE = r"\d[\w.]*%?"
_DIM = r"""[^\s,;='"\\]+=\w+"""
_DIMS = rf"{_DIM}(?:,{_DIM})*|(?<=--dims )'(?:[^']|'\\'')*'"  # names that a shell would take apart are quoted for it
_WORD = r"(?:on|off|auto|rows|none)\b"
_LOSSES = r"(?<=--loss )[a-z0-9-]+(?:, [a-z0-9-]+)*$"
_FLAG = rf"--[a-z][a-z-]*[a-z](?: (?:{_DIMS}|{_SIZE}|{_WORD}|{_LOSSES}))?"
_FLAGS = re.compile(rf"(?<!\S){_FLAG}(?: {_FLAG})*")


def in_python(message: str) -> str:
    message = re.sub("^configs: budget: ", "configs: memory_budget: ", message)
    return _FLAGS.sub(lambda found: ", ".join(map(_argument, re.findall(_FLAG, found[0]))), message)


def _argument(flag: str) -> str:
    name, _, value = flag[2:].partition(" ")
    argument = _ARGUMENTS.get(name)
    if argument is None:
        return f'config={{"{name.replace("-", "_")}": {_quoted(value)}}}' if value else flag
    return f"{argument}={_dims(value) if name == 'dims' else _quoted(value)}"


def _dims(sizes: str) -> str:
    pairs = (size.rpartition("=") for word in shlex.split(sizes) for size in word.split(","))
    inside = ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {n}" for name, _, n in pairs)
    return f"{{{inside}}}" if inside else ""


def _quoted(values: str) -> str:
    return ", ".join(value if value.isdigit() else f'"{value}"' for value in values.split(", ") if value)
