"""Docstring parsing: the description, and a text for each parameter.

The three common styles are recognized line by line: Google (`Args:` and an indented list), NumPy (`Parameters`
underlined) and Sphinx (`:param x: ...`, also `@param x: ...`). Text outside of their sections is the description;
sections about results and errors are skipped. Text in none of these styles is all description.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from inspect import cleandoc
from itertools import pairwise
from typing import Final

from ..lazy_dataclasses import dataclass

_PARAMETERS = (
    "Args",
    "Arguments",
    "Parameters",
    "Params",
    "Keyword Args",
    "Keyword Arguments",
    "Other Parameters",
)
_OTHERS = ("Attributes", "Examples?", "Raises", "Returns?", "See Also", "Warns", "Yields?")
_SECTION = "|".join((*_PARAMETERS, *_OTHERS))
# Patterns are text, which `re` compiles and caches when it is used: compiling them delays every import.
_GOOGLE: Final = rf"({_SECTION}):$"
_NUMPY: Final = rf"({_SECTION})$"
_UNDERLINE: Final = r"-{3,}$"
_FIELD: Final = r"[:@](\w+)(?:\s+([^:]*))?:\s*(.*)$"
_PARAM_FIELDS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
_GOOGLE_ITEM: Final = r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*)|)$"
_NUMPY_ITEM: Final = r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$"


@dataclass(frozen=True, slots=True)
class Docstring:
    """A parsed docstring: `description` as written, `parameters` each on one line."""

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])


def parse(docstring: str | None) -> Docstring:
    """Parse a docstring."""
    lines = cleandoc(docstring or "").splitlines()
    reader = _DocstringParser()
    for line, following in pairwise([*lines, ""]):
        reader.feed(line.rstrip(), following.strip())
    return Docstring("\n".join(reader.description).strip(), dict(reader.finished()))


class _DocstringParser:
    """The state of parsing: in the description, in a list of parameters, or in a skipped section."""

    def __init__(self) -> None:
        self.description: list[str] = []
        self._handle: Callable[[str], None] = self.description.append
        self._indent: int | None = None  # of the items of a Google section
        self._text: list[str] = []  # of the parameters being described
        self._parameters: dict[str, list[str]] = {}

    def feed(self, line: str, following: str) -> None:
        if field := re.match(_FIELD, line):
            self._field(field[1], field[2] or "", field[3])
        elif section := re.match(_GOOGLE, line):
            self._begin_section(section[1], self._google)
        elif (section := re.match(_NUMPY, line)) and re.match(_UNDERLINE, following):
            self._begin_section(section[1], self._numpy)
        else:
            self._handle(line)

    def finished(self) -> Iterator[tuple[str, str]]:
        for name, lines in self._parameters.items():
            if text := " ".join(word for word in lines if word):
                yield name, text

    def _begin_section(self, section: str, feed: Callable[[str], None]) -> None:
        self._handle = feed if section in _PARAMETERS else _skip
        self._indent = None
        self._text = []

    def _field(self, field: str, argument: str, text: str) -> None:
        """`:param int x: text`; its text goes on until the next field or blank line."""
        self._text = []
        self._handle = self._continue_text
        if field in _PARAM_FIELDS and argument:
            self._begin([argument.split()[-1]], text)

    def _continue_text(self, line: str) -> None:
        self._text.append(line.strip())
        if not line:
            self._text = []

    def _google(self, line: str) -> None:
        text = line.lstrip()
        if not text:
            return
        indent = len(line) - len(text)
        self._indent = indent if self._indent is None else self._indent
        if indent < self._indent:
            self._handle = self.description.append
            self._handle(line)
            return
        item = re.match(_GOOGLE_ITEM, text) if indent == self._indent else None
        if item is None:
            self._text.append(text)
        else:
            self._begin([item[1]], item[2] or "")

    def _numpy(self, line: str) -> None:
        item = re.match(_NUMPY_ITEM, line)
        if item is None:
            self._text.append(line.strip())
        else:
            self._begin(re.findall(r"\w+", item[1]), "")

    def _begin(self, names: Iterable[str], text: str) -> None:
        self._text = [text.strip()]
        self._parameters.update(dict.fromkeys((name.lstrip("*") for name in names), self._text))


def _skip(line: str) -> None:
    """Ignore `line`."""
