"""Citations: the sources that a provider names for stretches of the model's text, and what a search has found.

URLs, titles and texts in them come from web pages and documents: they are untrusted. `web_link` returns
the URLs that may be shown as links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final
from urllib.parse import urlsplit

from ..lazy.lazy_dataclasses import dataclass

_LONGEST_URL: Final = 8000
_TUPLE: Any = tuple  # typed as Any, so that isinstance does not narrow Any to an unknown type


@dataclass(frozen=True, slots=True)
class Citation:
    """A source of a stretch of the model's text.

    The place in the text is in characters, as Python counts them: `part.text[citation.start : citation.end]` is the
    stretch. An empty one marks a place behind the text that the source supports. Both are None where the service does
    not name a place, or one that is not in the text.

    Attributes:
        kind: The service's name of the form, such as `url_citation` or `page_location`.
        start: The index of the first character: in the text of the part for a citation in `TextPart.citations`, in that
            of the whole message for one in `Message.citations` or in an event.
        end: The index after the last character.
        url: The URL of the source. It is untrusted: `Citation.link` is the URL if it may be shown as a link.
        title: The title of the source.
        cited_text: The text of the source, if the service repeats it.
        document: The index of the cited document or search result among those of the request, from 0.
        file_id: The id of the file at the provider.
        source_id: The id of the source in the request or in a tool's result.
        pages: The range of pages in the source, from 1, its end excluded.
        blocks: The range of content blocks in the source, from 0, its end excluded.
        characters: The range of characters in the source, from 0, its end excluded.
        provider: The provider that cites.
        raw: The service's object, unchanged. Where the provider wants citations back, it is sent with the text.
    """

    kind: str
    start: int | None = None
    end: int | None = None
    url: str | None = None
    title: str | None = None
    cited_text: str | None = None
    document: int | None = None
    file_id: str | None = None
    source_id: str | None = None
    pages: tuple[int, int] | None = None
    blocks: tuple[int, int] | None = None
    characters: tuple[int, int] | None = None
    provider: str = ""
    raw: Mapping[str, Any] | None = field(default=None, repr=False, hash=False)

    @property
    def link(self) -> str | None:
        """The URL, if it is one of HTTP or HTTPS that shows where it leads; else None."""
        return web_link(self.url)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data, without the fields that are not set."""
        return _set_fields(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Citation:
        """Return the citation from the data of `to_dict`."""
        fields = dict(data)
        fields |= {name: tuple(fields[name]) for name in ("pages", "blocks", "characters") if fields.get(name)}
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Grounding:
    """The queries and the sources of a search that the provider ran for a response.

    Attributes:
        queries: The queries.
        sources: What was found, in the service's order, as citations without a place. A service that writes `[1]` in
            the text refers to the first of them.
        search_entry_point: The HTML of search suggestions that Google wants to be shown with the response. It is data:
            toolcast never renders it.
        provider: The provider.
        raw: The service's objects, by the names of their fields.
    """

    queries: tuple[str, ...] = ()
    sources: tuple[Citation, ...] = ()
    search_entry_point: str | None = field(default=None, repr=False)
    provider: str = ""
    raw: Mapping[str, Any] | None = field(default=None, repr=False, hash=False)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data, without the fields that are not set."""
        data = _set_fields(self)
        return data | {"sources": [source.to_dict() for source in self.sources]} if self.sources else data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Grounding:
        """Return the value from the data of `to_dict`."""
        fields: dict[str, Any] = dict(data)
        fields["queries"] = tuple(fields.get("queries", ()))
        fields["sources"] = tuple([Citation.from_dict(source) for source in fields.get("sources", ())])
        return cls(**fields)


def _set_fields(value: Citation | Grounding) -> dict[str, Any]:
    found: dict[str, Any] = {name: getattr(value, name) for name in value.__match_args__}
    return {
        name: list(each) if isinstance(each, _TUPLE) else dict(each) if name == "raw" else each
        for name, each in found.items()
        if name == "kind" or each not in (None, "", ())
    }


def web_link(url: str | None) -> str | None:
    """Return a URL that may be shown as a link; None for any other.

    It is one of HTTP or HTTPS with a host, without a user name, which would disguise the host, and without blanks,
    backslashes and invisible characters, which browsers remove or read as others.
    """
    if not url or len(url) > _LONGEST_URL or not url.isprintable() or any(sign in url for sign in " \\\"'<>`"):
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return None
    return url if parts.scheme in ("http", "https") and host and "@" not in parts.netloc else None


def describe_citation(citation: Citation) -> str:
    """Return a line of text for people: the title or the document, the pages, and the URL if it may be a link."""
    name = citation.title or citation.source_id or citation.file_id
    if name is None and citation.document is not None:
        name = f"document {citation.document + 1}"
    words = [name] if name else []
    if citation.pages is not None:
        first, last = citation.pages[0], citation.pages[1] - 1
        words.append(f"page {first}" if last <= first else f"pages {first} to {last}")
    # The URL is always shown: a title can be any text, also that of another URL.
    words += [url for url in (citation.link,) if url is not None]
    return ", ".join(words) or citation.kind


def shifted(citation: Citation, by: int) -> Citation:
    """Return a citation with its place moved by a number of characters."""
    if not by or citation.start is None or citation.end is None:
        return citation
    return replace(citation, start=citation.start + by, end=citation.end + by)


def place_citations(citations: Sequence[Citation], texts: Sequence[str]) -> list[list[Citation]]:
    """Return the citations of each of the `texts` of a message, with their places in that text.

    Args:
        citations: Citations with places in all the texts together. One that begins in a text ends in it too. One
            without a place belongs to the last text, and so does one whose place is in none, without it.
        texts: The texts.
    """
    placed: list[list[Citation]] = [[] for _ in texts]
    lengths = [len(text) for text in texts]
    for citation in citations:
        at, start, end = _find(citation, lengths)
        if at < 0:
            continue
        placed[at].append(
            citation if (start, end) == (citation.start, citation.end) else replace(citation, start=start, end=end)
        )
    return placed


def _find(citation: Citation, lengths: Sequence[int]) -> tuple[int, int | None, int | None]:
    """Return the index of the text that a citation belongs to, -1 if there is none, and its place there."""
    start, end = citation.start, citation.end
    last = len(lengths) - 1
    if start is None or end is None or not 0 <= start <= end <= sum(lengths):
        return last, None, None
    offset = 0
    for at, length in enumerate(lengths):
        # A mark behind a text belongs to it, not to the next one.
        if start < offset + length or (start == end == offset + length and length):
            return at, start - offset, min(end - offset, length)
        offset += length
    return last, None, None
