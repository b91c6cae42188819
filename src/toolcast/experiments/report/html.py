"""The HTML of a report, made by jinja2 from the templates of this package: every value in them is escaped.

What a model wrote is text on the page, whatever it wrote. Control codes, signs that turn the direction of the text
around them and half characters are shown by their number. The one exception is the SVG of a picture, which is markup:
it is drawn here, and only its template marks it as safe.

The dataclasses are what the templates show. jinja2 is in `toolcast[report]` and loaded when a page is made.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from ...terminal_text import visible

if TYPE_CHECKING:
    from jinja2 import Environment

    from .chart_rendering import Picture


@dataclass(frozen=True, slots=True)
class Cell:
    """A value with a form of its own.

    A name may be broken behind its signs, so that a long one does not push a table off the screen; a link, shown as a
    name, leads to `detail`; a status has the class `detail`; prose keeps its line ends and is not squeezed.
    """

    text: str
    form: Literal["name", "link", "status", "prose"]
    detail: str = ""

    @property
    def pieces(self) -> list[str]:
        """The parts of a name between which a line may be broken."""
        return re.split(r"(?<=[-_/:.@])(?=\w)", self.text)


Value: TypeAlias = str | Cell


@dataclass(frozen=True, slots=True)
class Table:
    """A table that scrolls where it is too wide. The columns are numbers, but for the first and those in `words`."""

    caption: str
    head: Sequence[Value]
    rows: Sequence[Sequence[Value]]
    words: Container[int] = ()

    @property
    def classes(self) -> list[str]:
        """The class of the cells of each column."""
        return ["" if column == 0 or column in self.words else "number" for column in range(len(self.head))]


@dataclass(frozen=True, slots=True)
class Fold:
    """A text that is shown when its summary is clicked on."""

    summary: str
    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a run, or of the comparison: a heading, and below it what there is, in the order of the fields.

    `tone` is the class of `text`.
    """

    heading: str
    text: str = ""
    tone: str = ""
    pictures: Sequence[Picture] = ()
    table: Table | None = None
    facts: Sequence[tuple[str, Value]] = ()
    notes: Sequence[str] = ()
    folds: Sequence[Fold] = ()


def render(template: str, values: Mapping[str, object]) -> str:
    """Return the text of a template of this package. Raises `ImportError` where jinja2 is missing."""
    return environment().get_template(template).render(values)


def clean(text: str) -> str:
    """Return `text` without a sign that acts on a page, or that no file can store."""
    return visible(text).encode("utf-8", "backslashreplace").decode()


@lru_cache(1)
def environment() -> Environment:
    """Return the environment of the templates. Raises `ImportError`, with what to install, where jinja2 is missing."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined  # an extra: loaded when a page is made
    except ImportError as error:
        raise ImportError(f"the report needs jinja2 ({error}): pip install 'toolcast[report]'") from error

    return Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _printable(value: object) -> object:
    """Return what a template puts on the page for `value`. It is escaped after this, unless it is markup."""
    return value if hasattr(value, "__html__") else clean(str(value))
