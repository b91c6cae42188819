"""HTML in which everything is escaped that is not known to be markup.

`element` takes texts, and `Markup` that other elements are. Markup is made here, of the pictures, and nowhere else; so
what a model wrote is text on the page, whatever it wrote. Control codes, signs that turn the direction of the text
around them and half characters are shown by their number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from ...terminal_text import visible

_LONG = 30  # rows


class Markup(str):
    """HTML that stands on a page as it is."""

    __slots__ = ()


def clean(text: str) -> str:
    """`text` without a sign that acts on a page, or that no file can hold."""
    return visible(text).encode("utf-8", "backslashreplace").decode()


def joined(parts: Iterable[str], between: str = "") -> Markup:
    """The parts, one behind the other; those that are no markup are escaped."""
    return Markup(_escaped(between).join(map(_escaped, parts)))


def breakable(text: str) -> Markup:
    """Return a name that may be broken behind its signs, so that a long one does not push a table off the screen."""
    return joined(re.split(r"(?<=[-_/:.@])(?=\w)", clean(text)), Markup("<wbr>"))


def element(name: str, *content: str, attributes: Mapping[str, str] | None = None) -> Markup:
    """An element. Its `name` may have a class behind a dot: `p.note`."""
    name, _, classes = name.partition(".")
    given = ({"class": classes.replace(".", " ")} if classes else {}) | dict(attributes or {})
    said = "".join(f' {key}="{_escaped(value)}"' for key, value in given.items())
    return Markup(f"<{name}{said}>{joined(content)}</{name}>")


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, words: Sequence[int] = ()) -> Markup:
    """A table that scrolls where it is too wide. The columns are numbers, but for the first and those in `words`."""
    kinds = ["" if column in (0, *words) else ".number" for column in range(len(head))]
    top = [element(f"th{kind}", text, attributes={"scope": "col"}) for text, kind in zip(head, kinds, strict=True)]
    body = [
        element(
            "tr",
            element("th", row[0], attributes={"scope": "row"}),
            *(element(f"td{kind}", text) for text, kind in zip(row[1:], kinds[1:], strict=True)),
        )
        for row in rows
    ]
    inside = element(
        "table", element("caption", caption), element("thead", element("tr", *top)), element("tbody", *body)
    )
    return scrolling(caption, inside, "wide.long" if len(body) > _LONG else "wide")


def scrolling(label: str, inside: str, kind: str = "wide") -> Markup:
    """What may be wider than a phone, or longer than a page: it scrolls, by keyboard too, and the page does not."""
    return element(f"div.{kind}", inside, attributes={"role": "region", "tabindex": "0", "aria-label": label})


def facts(pairs: Iterable[tuple[str, str]]) -> Markup:
    """Names and what they are."""
    return element("dl", *(element("div", element("dt", name), element("dd", value)) for name, value in pairs))


def folded(summary: str, *content: str, is_open: bool = False) -> Markup:
    """What is seen once its `summary` is clicked on."""
    return element("details", element("summary", summary), *content, attributes={"open": ""} if is_open else None)


def _escaped(text: str) -> str:
    return text if isinstance(text, Markup) else escape(clean(text))
