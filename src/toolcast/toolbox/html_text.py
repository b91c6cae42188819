"""HTML as text that a model can read: headings, paragraphs, lists, tables, links with their URLs. No I/O.

Pages are not trusted, and must not block the program. The parser of the standard library takes a minute for 80 kB of
`<a ` in Python 3.11.7, without releasing the GIL. So no pattern here ever backtracks (`*+`, `(?>`): a tag that does not
end consumes the rest of the page, as in a browser. Scripts, styles and other invisible elements are left out. The
output is limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from ..lazy.lazy_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Page:
    """The title and the text of a page. `cut`: the text was limited."""

    title: str
    text: str
    cut: bool = False


def page_text(html: str, base: str, limit: int = 1_000_000) -> Page:
    """Convert the HTML of a page at the URL `base` to text of about `limit` characters at most."""
    writer = _Writer(base, limit)
    for tag, text in _tokens(html):
        if tag is None:
            writer.text(text)
        else:
            writer.tag(tag, text)
        if writer.left < 0:
            break
    return writer.page()


class _Tag(NamedTuple):
    name: str
    attributes: str = ""
    closes: bool = False


# Python stores where to backtrack to until an atomic group ends: without `{1,99}`, 33 MB for 100 kB of `=a` in a tag.
_TOKEN = re.compile(
    r"""
    (?P<text> [^<]++)
  | <!--(?:>|->|.*?(?:--!?>|\Z))
  | <[!?][^>]*+(?:>|\Z)
  | <(?P<closes>/?)(?P<name>[a-zA-Z][^\s/>]*+)
     (?P<attributes>(?>(?:[^>=]++|=++\s*+(?:"[^"]*+"?|'[^']*+'?)?){1,99})*)(?:>|\Z)
  | </[^>]*+(?:>|\Z)
  | (?P<sign> <)
    """,
    re.VERBOSE | re.DOTALL,
)
# Elements whose content is no HTML: it ends at their own end tag, whatever it contains.
_RAW = frozenset(("script", "style", "iframe", "noembed", "noframes", "xmp", "textarea", "title"))


def _tokens(html: str) -> Iterator[tuple[_Tag | None, str]]:
    """Yield tags and texts in turn. The tag of an element with raw text comes with its content."""
    at = 0
    while (found := _TOKEN.match(html, at)) is not None:
        at = found.end()
        if found["name"] is None:
            yield None, found["text"] or found["sign"] or ""
            continue
        tag = _Tag(found["name"].lower(), found["attributes"], bool(found["closes"]))
        content = ""
        if tag.name in _RAW and not tag.closes:
            end = re.compile(rf"</{tag.name}(?=[\s/>])", re.IGNORECASE).search(html, at)
            content = html[at : end.start() if end else None]
            at = end.start() if end else len(html)
        yield tag, content


_ATTRIBUTE = re.compile(r"""([^\s"'>/=]++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++)))?""")


def _attribute(tag: _Tag, wanted: str) -> str:
    """Return the value of an attribute, or an empty text."""
    for name, *values in _ATTRIBUTE.findall(tag.attributes):
        if name.lower() == wanted:
            return _plain("".join(values)).strip()
    return ""


_LONG_NUMBER = re.compile(r"&#[xX]?[0-9a-fA-F]{9,}+;?")


def _plain(text: str) -> str:
    """Decode character references such as `&amp;`. Python refuses to parse a number of thousands of digits."""
    return unescape(_LONG_NUMBER.sub("\ufffd", text)) if "&" in text else text


_INVISIBLE = frozenset(("template", "svg", "math"))
_PARAGRAPHS = (
    "address", "article", "aside", "blockquote", "body", "details", "dialog", "div", "dl", "fieldset", "figcaption",
    "figure", "footer", "form", "header", "hgroup", "html", "main", "nav", "ol", "p", "pre", "search", "section",
    "summary", "table", "ul",
)  # fmt: skip
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_BREAKS: Mapping[str, str] = {
    **dict.fromkeys(_PARAGRAPHS, "\n\n"),
    **{name: f"\n\n{sign} " for name, sign in _HEADINGS.items()},
    **dict.fromkeys(("br", "tr", "dt", "dd", "option", "caption"), "\n"),
    "li": "\n- ",
    "hr": "\n\n---\n\n",
}
_ENDS: Mapping[str, str] = dict.fromkeys((*_PARAGRAPHS, *_HEADINGS), "\n\n")
_NBSP_MARK = "\ue000"  # a space that stays where it is
_LONGEST_LINK = 500


class _Writer:
    """The text written so far. `left` is the number of characters that may follow."""

    def __init__(self, base: str, limit: int) -> None:
        self.left: int = limit
        self._base = base
        self._title = ""
        self._written: list[str] = []
        self._link = ""
        self._link_begins = 0
        self._invisible = ""
        self._depth = 0
        self._preformatted = 0

    def text(self, text: str) -> None:
        """Write the text between tags."""
        if self._invisible:
            return
        text = _plain(text).replace(_NBSP_MARK, " ")
        if self._preformatted:
            self._write(text.expandtabs(4).replace(" ", _NBSP_MARK))
        else:
            self._write(_SPACES.sub(" ", text))

    def tag(self, tag: _Tag, content: str) -> None:
        """Write the separators of a tag, and update the state."""
        if self._invisible:
            self._depth += 0 if tag.name != self._invisible else -1 if tag.closes else 1
            self._invisible = self._invisible if self._depth else ""
        elif tag.name in _INVISIBLE and not tag.closes and not tag.attributes.endswith("/"):
            self._invisible, self._depth = tag.name, 1
        elif tag.closes:
            self._end(tag)
        else:
            self._begin(tag, content)

    def page(self) -> Page:
        """Return the page."""
        self._end_link()
        text = "".join(self._written)
        for pattern, shown in _TIDY:
            text = pattern.sub(shown, text)
        return Page(" ".join(self._title.split())[:300], text.replace(_NBSP_MARK, " ").strip(), self.left < 0)

    def _begin(self, tag: _Tag, content: str) -> None:
        self._write(_BREAKS.get(tag.name, ""))
        match tag.name:
            case "a":
                self._end_link()
                self._link, self._link_begins = self._absolute(_attribute(tag, "href")), len(self._written)
            case "base":
                self._base = self._absolute(_attribute(tag, "href")) or self._base
            case "img":
                self._write(_SPACES.sub(" ", _attribute(tag, "alt")))
            case "title":
                self._title = self._title or _plain(content[:1000])
            case "td" | "th" if self._written and not self._written[-1].endswith("\n"):
                self._write(" | ")
            case "pre":
                self._preformatted += 1
            case "textarea" | "xmp":
                self.text(content)
            case _:
                pass

    def _end(self, tag: _Tag) -> None:
        if tag.name == "a":
            self._end_link()
        elif tag.name == "pre":
            self._preformatted = max(self._preformatted - 1, 0)
        self._write(_ENDS.get(tag.name, ""))

    def _write(self, text: str) -> None:
        if text:
            self._written.append(text)
            self.left -= len(text)

    def _end_link(self) -> None:
        text = "".join(self._written[self._link_begins :]).strip() if self._link else ""
        if text and text != self._link:
            self._write(f" ({self._link})")
        self._link = ""

    def _absolute(self, link: str) -> str:
        """Return the absolute URL of a link to another page, unless it is too long."""
        if not link or link.startswith("#") or len(link) > _LONGEST_LINK:
            return ""
        try:
            url = urljoin(self._base, link)
            fits = urlsplit(url).scheme in ("http", "https", "mailto") and len(url) <= 2 * _LONGEST_LINK
        except ValueError:
            return ""
        return url if fits else ""


_SPACES = re.compile(r"\s+")
_TIDY = (
    (re.compile(r" {2,}"), " "),
    (re.compile(r" ?\n ?"), "\n"),
    (re.compile(r"\n{3,}"), "\n\n"),
)
