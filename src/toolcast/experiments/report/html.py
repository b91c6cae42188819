"""HTML of a report, rendered by jinja2 from the templates of this package with every value escaped.

A model's text is text on the page, whatever it contains. Control characters, characters that change the text direction
and unpaired surrogates are shown by their number. The exceptions are made here, and only their templates mark them as
safe: the SVG of a chart, its interactive form as JSON, the style sheet, the scripts, and the policy that allows them.

The dataclasses are the data of the templates. jinja2 is in `toolcast[report]` and imported when a page is rendered.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from ...lazy.lazy_dataclasses import dataclass
from ...text.terminal_text import visible

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True, slots=True)
class Cell:
    """A value with a format.

    A name may be broken after its punctuation, so that a long one does not push a table off the screen; a link, shown
    as a name, leads to `detail`; a status has the class `detail`; prose keeps its line ends and is not squeezed, and an
    opening, the first words of a text, is squeezed to two lines.
    """

    text: str
    form: Literal["name", "link", "status", "prose", "opening"]
    detail: str = ""

    @property
    def pieces(self) -> list[str]:
        """The parts of a name between which a line may be broken."""
        return re.split(r"(?<=[-_/:.@])(?=\w)", self.text)


Value: TypeAlias = str | Cell


@dataclass(frozen=True, slots=True)
class Table:
    """A table that scrolls if it is too wide. Columns are numbers, except for the first and those in `words`.

    `runs` are the slugs of its rows where each row is about a run, which the reader may hide.
    """

    caption: str
    head: Sequence[Value]
    rows: Sequence[Sequence[Value]]
    words: Container[int] = ()
    runs: Sequence[str] = ()

    @property
    def classes(self) -> list[str]:
        """The class of the cells of each column."""
        return ["" if column == 0 or column in self.words else "number" for column in range(len(self.head))]


@dataclass(frozen=True, slots=True)
class Fold:
    """A text that is shown when its summary is clicked on. `opening` are its first words."""

    summary: str
    text: str
    note: str = ""
    opening: str = ""


class Drawing(Protocol):
    """A chart as the templates need it."""

    @property
    def alt(self) -> str:
        """The description for screen readers."""
        ...

    def svg(self) -> str:
        """Return the chart as an element of a page."""
        ...

    def json(self) -> str:
        """Return its interactive form, which the page's script draws, or an empty string."""
        ...


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a run, or of the comparison: a heading, then its content in the order of the fields.

    `tone` is the class of `text`.
    """

    heading: str
    text: str = ""
    tone: str = ""
    pictures: Sequence[Drawing] = ()
    table: Table | None = None
    facts: Sequence[tuple[str, Value]] = ()
    notes: Sequence[str] = ()
    folds: Sequence[Fold] = ()


def render(template: str, values: Mapping[str, object]) -> str:
    """Return the text of a template of this package. Raises `ImportError` where jinja2 is missing."""
    return environment().get_template(template).render(values)


def clean(text: str) -> str:
    """Return `text` with characters escaped that act on a page, or that no file can store."""
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
    """Return the form of `value` for a template. It is escaped after this, unless it is markup."""
    return value if hasattr(value, "__html__") else clean(str(value))
