"""One picture, drawn by matplotlib without a screen: as SVG for a page, as PNG for a file.

The SVG stands in the page itself and takes the page's colours, light or dark: its ink, its paper and its grid are
variables of the style sheet. Its letters stay text. Nothing in either form says when or by what version it was made,
and ids come from the picture's name: the same figures give the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, TypeAlias
from xml.etree import ElementTree

from .html import clean

Figure: TypeAlias = Any
Axes: TypeAlias = Any
"""matplotlib's. Most of its methods pass keywords on, whose types nobody has written down."""

INK: Final = "#1d2030"
FAINT: Final = "#5f6578"
GRID: Final = "#dfe2ec"
PAPER: Final = "#ffffff"
_VARIABLES: Final = {INK: "--words", FAINT: "--faint", GRID: "--line", PAPER: "--front"}
"""The colours that are the page's, and the variables that stand for them there."""

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""Okabe and Ito's, which every eye can tell apart, but for black and yellow: one of them is lost on any paper."""

MARKERS: Final = "osD^vP"

_WIDTH = 9.0
_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_LONG = re.compile(r"-?\d+\.\d{3,}")
_FONT = re.compile(r"font-family: [^;]*;? ?")
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
    """A picture `height` inches high, drawn when it is asked for: `draw` is given the figure.

    `name` is that of its file, `alt` says what it shows to those who do not see it. Both forms raise `ImportError`
    where matplotlib is missing.
    """

    name: str
    alt: str
    height: float
    draw: Callable[[Figure], None]

    def svg(self) -> str:
        """The picture as a part of a page."""
        saved = self._saved("svg", ("Date", "Creator", "Format", "Type"))
        return _inline(saved.decode(), self.name, self.alt)

    def png(self) -> bytes:
        """The picture as a file, 1,800 pixels wide: sharp at 900."""
        return self._saved("png", ("Software",))

    def _saved(self, form: str, unsaid: Sequence[str]) -> bytes:
        """The picture in one of matplotlib's forms, which does not say what is `unsaid`."""
        matplotlib, saved = _matplotlib(), io.BytesIO()
        with matplotlib.rc_context({**_STYLE, "svg.hashsalt": self.name}):
            figure: Figure = matplotlib.figure.Figure(figsize=(_WIDTH, self.height), layout="constrained")
            self.draw(figure)
            figure.savefig(saved, format=form, dpi=200, metadata=dict.fromkeys(unsaid))
        return saved.getvalue()


def label(text: str, most: int = 28) -> str:
    """`text` as a picture can write it: in signs that its font has, and short: names of a grid differ at their ends."""
    text = " ".join(clean(text).split())
    if len(text) > most:
        text = f"{text[: (most - 1) // 2]}…{text[-(most // 2) :]}"
    return "".join(sign if ord(sign) in _signs() else "\N{WHITE SQUARE}" for sign in text) or "(no name)"


def contrasting(colour: str) -> str:
    """Black or white: what can be read on `colour`."""
    red, green, blue = _channels(colour)
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 120 else "#fffffe"


def _channels(colour: str) -> Sequence[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def _matplotlib() -> Any:
    """matplotlib with its figures: without pyplot, which would ask what screen there is."""
    try:
        import_module("matplotlib.figure")
        return import_module("matplotlib")
    except ImportError as error:
        raise ImportError(f"the pictures need matplotlib ({error}): pip install 'toolcast[report]'") from error


@lru_cache(1)
def _signs() -> frozenset[int]:
    """What the font of the pictures can write. It comes with matplotlib."""
    manager: Any = import_module("matplotlib.font_manager")
    return frozenset(manager.get_font(manager.findfont("DejaVu Sans")).get_charmap())


def _inline(svg: str, name: str, alt: str) -> str:
    """The SVG as a part of a page: no head, ids that no other picture has, the page's colours and letters."""
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
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": clean(alt)}
    return ElementTree.tostring(root, "unicode")


def _attributes(given: Mapping[str, str], name: str, *, keep_id: bool) -> Iterator[tuple[str, str]]:
    """The attributes of an element, as the page has them."""
    for key, value in given.items():
        if key == "id":
            if keep_id:
                yield key, f"{name}-{value}"
        elif key == _HREF:
            yield "href", "".join(value.split()) if value.startswith("data:") else f"#{name}-{value[1:]}"
        elif key == "clip-path":
            yield key, value.replace("#", f"#{name}-")
        elif key == "style":
            yield key, _restyled(value)
        elif key == "transform" and value.startswith("rotate(-0 "):
            continue
        else:
            yield (
                key,
                _LONG.sub(lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), " ".join(value.split())),
            )


def _restyled(style: str) -> str:
    """A style with the page's letters, and the page's colours where the picture has them too."""
    style = _FONT.sub("", style)
    for colour, variable in _VARIABLES.items():
        style = style.replace(colour, f"var({variable})")
    return style
