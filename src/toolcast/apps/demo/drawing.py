"""Python source and objects on a terminal: in colours, wrapped to its width, and drawn again in their place."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final, cast

from pydantic import BaseModel

_LOOKS: Final = {"title": "1", "dim": "2", "name": "36", "text": "32", "number": "33"}
_TOKENS: Final = re.compile(
    r"""(?P<name>\w+(?==))|(?P<text>'[^']*'|"[^"]*")|(?P<number>\b\d[\d.]*\b)|(?P<title>\b[A-Z]\w+(?=\())"""
)


def on_terminal() -> bool:
    """Return whether a person looks at a terminal that understands escape codes."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def has_colours() -> bool:
    """Return whether the output may be coloured: on a terminal, without NO_COLOR."""
    return on_terminal() and not os.environ.get("NO_COLOR")


def look(name: str, text: str) -> str:
    """Return the text in one of the looks above; in pipes, and with NO_COLOR, as it is."""
    return f"\x1b[{_LOOKS[name]}m{text}\x1b[0m" if has_colours() else text


def coloured(line: str) -> str:
    """Return a line of Python with the looks of its parts."""
    return _TOKENS.sub(lambda found: look(str(found.lastgroup), found[0]), line)


def width() -> int:
    """Return the columns that a line may have: in the last one some terminals begin a new row."""
    return max(shutil.get_terminal_size().columns - 1, 8)


def wrapped(text: str, indent: str = "  ") -> list[str]:
    """Return the lines of a text, none of them wider than the terminal."""
    return textwrap.wrap(text, width(), initial_indent=indent, subsequent_indent=indent) or [""]


def pretty(value: object, indent: str = "  ", before: str = "", after: str = "") -> Iterator[str]:
    """Yield the lines of an object: on one line if it fits, else a field or an item on each."""
    line = f"{indent}{before}{value!r}{after}"
    opening = closing = ""
    parts: list[tuple[str, object]] = []
    if isinstance(value, list):
        opening, closing, parts = "[", "]", [("", item) for item in cast("list[object]", value)]
    elif isinstance(value, BaseModel):
        opening, closing = f"{type(value).__name__}(", ")"
        parts = [(f"{name}=", part) for name, part in value.__repr_args__()]
    if not parts or len(line) <= min(width(), 72):
        yield from code_lines(line, indent)
        return
    yield from code_lines(f"{indent}{before}{opening}", indent)
    for name, part in parts:
        yield from pretty(part, f"{indent}  ", name, ",")
    yield from code_lines(f"{indent}{closing}{after}", indent)


def code_lines(line: str, indent: str) -> list[str]:
    """Return a line of Python as lines that the terminal has room for."""
    return textwrap.wrap(line, width(), subsequent_indent=f"{indent}  ", drop_whitespace=False)


class GrowingLines:
    """Lines on a terminal that are drawn again in their place."""

    def __init__(self) -> None:
        self._rows = 0

    def draw(self, lines: list[str]) -> None:
        """Draw the lines over the last ones, in one write: a terminal shows no half of it."""
        back = f"\x1b[{self._rows}A" if self._rows else ""
        text = "".join(f"{coloured(line)}\x1b[K\n" for line in lines)
        sys.stdout.write(f"{back}{text}\x1b[J")
        sys.stdout.flush()
        self._rows = len(lines)


def print_source(source: str, indent: str = "  ") -> None:
    """Print Python source, in colours if rich is installed."""
    given = source.strip("\n").split("\n")
    lines = [part for line in given for part in _wrapped_source(f"{indent}{line}")]
    if find_spec("rich") is None or not has_colours():
        print(*lines, sep="\n", flush=True)
        return
    from rich.console import Console
    from rich.syntax import Syntax

    text = Syntax("", "python", theme="ansi_dark").highlight("\n".join(lines))
    Console(file=sys.stdout).print(text, soft_wrap=True, end="")


def _wrapped_source(line: str) -> list[str]:
    margin = line[: len(line) - len(line.lstrip())]
    return code_lines(line, margin) if line.strip() else [""]
