"""Rendering of a chart by matplotlib without a display: as SVG for the page, as PNG for a file.

The SVG is embedded in the page and takes its colours, light or dark: text, background and grid colours are variables of
the style sheet. Its text stays text. Neither form has a time or a version, and ids come from the chart's name: the same
data gives the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import takewhile
from typing import Any, Final, TypeAlias
from xml.etree import ElementTree

from ...lazy.lazy_dataclasses import dataclass
from .chart_specs import Chart
from .html import clean

Figure: TypeAlias = Any
Axes: TypeAlias = Any
"""Types of matplotlib, whose keyword arguments have no annotations."""

INK: Final = "#1d2030"
FAINT: Final = "#5f6578"
GRID: Final = "#dfe2ec"
PAPER: Final = "#ffffff"
_VARIABLES: Final = {INK: "--words", FAINT: "--faint", GRID: "--line", PAPER: "--front"}
"""The colours of the page, and the variables of its style sheet that replace them."""

MARKERS: Final = "osD^vP"

_WIDTH = 9.0
_TITLE = 0.3  # inches
_LETTERS = 90  # of a title
_CONTEXT = 6  # letters beside those that differ
_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_LONG = re.compile(r"-?\d+\.\d{3,}")
_STYLE: Final[Mapping[str, Any]] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": ["DejaVu Sans"],
    "font.size": 11,
    "text.color": INK,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlecolor": INK,
    "axes.labelcolor": FAINT,
    "axes.edgecolor": FAINT,
    "axes.facecolor": PAPER,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "ytick.major.size": 0,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "patch.edgecolor": PAPER,
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart `height` inches high, drawn on demand: `draw` is called with the figure.

    `name` is that of its file, `alt` its description for screen readers, `title` the run, which is written above it.
    `chart` makes its interactive form. `svg` and `png` raise `ImportError` if matplotlib is missing.
    """

    name: str
    alt: str
    height: float
    draw: Callable[[Figure], None]
    chart: Callable[[], Chart] | None = None
    title: str = ""

    def json(self) -> str:
        """Return the interactive form as JSON, or an empty string if there is none."""
        return self.chart().json(self.title) if self.chart else ""

    def svg(self) -> str:
        """Return the chart as an element of a page."""
        saved = self._saved("svg", ("Date", "Creator", "Format", "Type"))
        return _inline(saved.decode(), self.name, f"{self.title}: {self.alt}" if self.title else self.alt)

    def png(self) -> bytes:
        """Return the chart as a file, 1,800 pixels wide: sharp at 900."""
        return self._saved("png", ("Software",))

    def _saved(self, form: str, omitted: Sequence[str]) -> bytes:
        """Render the chart in one of matplotlib's formats, without the metadata in `unsaid`."""
        matplotlib, saved = _matplotlib(), io.BytesIO()
        with matplotlib.rc_context({**_STYLE, "svg.hashsalt": self.name}):
            above = _TITLE if self.title else 0.0
            figure: Figure = matplotlib.figure.Figure(figsize=(_WIDTH, self.height + above), layout="constrained")
            if self.title:
                heading, rest = figure.subfigures(2, 1, height_ratios=(above, self.height))
                heading.text(0.01, 0.35, label(self.title, _LETTERS), color=FAINT, va="center")
                self.draw(rest)
            else:
                self.draw(figure)
            figure.savefig(saved, format=form, dpi=200, metadata=dict.fromkeys(omitted))
        return saved.getvalue()


def label(text: str, most: int = 28) -> str:
    """Return `text` in characters of the font, truncated in the middle: names of a grid differ at their ends."""
    text = " ".join(clean(text).split())
    if len(text) > most:
        text = f"{text[: (most - 1) // 2]}…{text[-(most // 2) :]}"
    return "".join(each if ord(each) in _characters() else "\N{WHITE SQUARE}" for each in text) or "(no name)"


def labels(texts: Sequence[str]) -> dict[str, str]:
    """Return a label for each of `texts`. If two are the same, they are truncated around what differs."""
    found = {text: label(text) for text in texts}
    if len({*found.values()}) == len(found):
        return found
    start = max(_common(texts) - _CONTEXT, 0)
    end = max(_common([text[::-1] for text in texts]) - _CONTEXT, 0)
    return {text: label(f"…{text[start : len(text) - end]}{'…' if end else ''}") for text in texts}


def _common(texts: Sequence[str]) -> int:
    """Return how many letters all of `texts` begin with."""
    return sum(1 for _ in takewhile(lambda letters: len({*letters}) == 1, zip(*texts, strict=False)))


def contrasting(colour: str) -> str:
    """Return black or white, whichever is readable on `colour`."""
    red, green, blue = _channels(colour)
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 120 else "#fffffe"


def _channels(colour: str) -> Sequence[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def _matplotlib() -> Any:
    """Import matplotlib with its figures: without pyplot, which would look for a display."""
    try:
        import_module("matplotlib.figure")
        return import_module("matplotlib")
    except ImportError as error:
        raise ImportError(f"the pictures need matplotlib ({error}): pip install 'toolcast[report]'") from error


@lru_cache(1)
def _characters() -> frozenset[int]:
    """Return the characters of the charts' font. It comes with matplotlib."""
    manager: Any = import_module("matplotlib.font_manager")
    return frozenset(manager.get_font(manager.findfont("DejaVu Sans")).get_charmap())


def _inline(svg: str, name: str, alt: str) -> str:
    """Convert the SVG for embedding: no head, unique ids, the page's colours and fonts."""
    root = ElementTree.fromstring(svg)
    ids = {href.removeprefix("#") for each in root.iter() if (href := each.get(_HREF, "")).startswith("#")}
    for each in root.iter():
        each.tag = each.tag.removeprefix(_SVG)
        each.text, each.tail = (text if text and text.strip() else None for text in (each.text, each.tail))
        given = dict(each.attrib)
        each.attrib.clear()
        each.attrib.update(_attributes(given, name, keep_id=given.get("id") in ids or "clip" in each.tag))
    for parent in (*root.iter(),):
        for child in (*parent,):
            if child.tag in ("metadata", "style"):
                parent.remove(child)
    lines = {"stroke-linejoin": "round", "stroke-linecap": "butt"}  # matplotlib's own style sheet
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": clean(alt), **lines}
    return ElementTree.tostring(root, "unicode")


def _attributes(given: Mapping[str, str], name: str, *, keep_id: bool) -> Iterator[tuple[str, str]]:
    """Yield the attributes of an element as the page needs them."""
    for key, value in given.items():
        if key == "id":
            if keep_id:
                yield key, f"{name}-{value}"
        elif key == _HREF:
            yield "href", "".join(value.split()) if value.startswith("data:") else f"#{name}-{value[1:]}"
        elif key == "clip-path":
            yield key, value.replace("#", f"#{name}-")
        elif key == "style":
            yield from _restyled(value)
        elif key == "transform" and value.startswith("rotate(-0 "):
            continue
        else:
            yield (
                key,
                _LONG.sub(lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), " ".join(value.split())),
            )


def _restyled(style: str) -> Iterator[tuple[str, str]]:
    """Yield a style as attributes, which the page's policy allows, without fonts and with the page's colours."""
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if value and name != "font-family":
            yield name, f"var({_VARIABLES[value]})" if value in _VARIABLES else value
