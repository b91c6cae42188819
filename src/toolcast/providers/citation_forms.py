"""The citations and search results of responses, in the form of each provider, as `Citation`s and `Grounding`.

A decoder imports this module when the first of them arrives. Places are in characters of the text of the response;
one that the provider does not name is None. Sources: the reference pages named at each function, and the types of the
providers' SDKs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from ..messages import TextPart
from ..values.citations import Citation, Grounding
from .response_decoder import as_dict, as_list, as_str


def anthropic_citation(raw: Any, start: int, end: int, provider: str) -> Citation:
    """Return a citation of a text block (platform.claude.com/docs/en/build-with-claude/citations).

    Args:
        raw: The citation.
        start: The start of the block in the text of the response.
        end: The end of the block.
        provider: The name of the provider.
    """
    found = as_dict(raw)
    index = found.get("document_index", found.get("search_result_index"))
    return Citation(
        as_str(found.get("type")),
        start,
        end,
        as_str(found.get("url")) or None,
        as_str(found.get("title")) or as_str(found.get("document_title")) or None,
        as_str(found.get("cited_text")) or None,
        _int(index),
        as_str(found.get("file_id")) or None,
        as_str(found.get("source")) or None,
        _range(found.get("start_page_number"), found.get("end_page_number")),
        _range(found.get("start_block_index"), found.get("end_block_index")),
        _range(found.get("start_char_index"), found.get("end_char_index")),
        provider,
        found or None,
    )


_NOTHING: tuple[str, dict[str, Any]] = ("", {})  # no kind, and no fields


def bedrock_citation(raw: Any, start: int, end: int, provider: str) -> Citation:
    """Return a citation of a block of Converse (`Citation`, `CitationLocation` in Bedrock's API reference).

    The arguments are those of `anthropic_citation`.
    """
    found = as_dict(raw)
    kind, place = next(((kind, as_dict(each)) for kind, each in as_dict(found.get("location")).items()), _NOTHING)
    numbers = _range(place.get("start"), place.get("end"))
    index = place.get("documentIndex", place.get("searchResultIndex"))
    texts = [as_str(as_dict(piece).get("text")) for piece in as_list(found.get("sourceContent"))]
    return Citation(
        kind,
        start,
        end,
        as_str(place.get("url")) or None,
        as_str(found.get("title")) or as_str(place.get("domain")) or None,
        "".join(texts) or None,
        _int(index),
        source_id=as_str(found.get("source")) or None,
        pages=numbers if kind == "documentPage" else None,
        blocks=numbers if kind in ("documentChunk", "searchResultLocation") else None,
        characters=numbers if kind == "documentChar" else None,
        provider=provider,
        raw=found or None,
    )


def cited_texts(part: TextPart, provider: str) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Yield the text of a part in pieces, each with the citations of this provider that it goes back with.

    A citation of a place that overlaps an earlier one is left out: a block has one text.
    """
    own = [c for c in part.citations if c.raw is not None and c.provider == provider and c.end is not None]
    at = 0
    for (start, end), cited in groupby(sorted(own, key=_place), key=_place):
        if at <= start < end <= len(part.text):
            yield part.text[at:start], []
            yield part.text[start:end], [citation.raw for citation in cited if citation.raw is not None]
            at = end
    yield part.text[at:], []


def _place(citation: Citation) -> tuple[int, int]:
    return citation.start or 0, citation.end or 0


def openai_citation(raw: Any, offset: int | None, provider: str) -> Citation:
    """Return an annotation of a text: of the Responses protocol, or of chat completions, which OpenRouter has, too.

    Args:
        raw: The annotation (`ResponseOutputText.annotations`; `ChatCompletionMessage.annotations`).
        offset: The start of the annotated text in the text of the response; None: not known.
        provider: The name of the provider.
    """
    annotation = as_dict(raw)
    kind = as_str(annotation.get("type"))
    found = as_dict(annotation.get(kind)) or annotation
    start, end = _int(found.get("start_index")), _int(found.get("end_index"))
    if kind == "file_citation":  # "the index in the output text at which to insert the file citation"
        start = end = _int(found.get("index"))
    return Citation(
        kind,
        *_moved(start, end, offset),
        as_str(found.get("url")) or None,
        as_str(found.get("title")) or as_str(found.get("filename")) or as_str(found.get("name")) or None,
        as_str(found.get("content")) or None,
        file_id=as_str(found.get("file_id")) or None,
        source_id=as_str(found.get("container_id")) or None,
        provider=provider,
        raw=annotation or None,
    )


def cohere_citations(raw: Any, offset: int | None, provider: str) -> list[Citation]:
    """Return a citation of Cohere's for each of its sources: documents, or results of tools.

    Args:
        raw: The citation (docs.cohere.com/docs/documents-and-citations).
        offset: The start of its text block in the text of the response; None if it cites a thought or a plan.
        provider: The name of the provider.
    """
    found = as_dict(raw)
    place = _moved(_int(found.get("start")), _int(found.get("end")), offset)
    cited: list[Citation] = []
    for source in [as_dict(each) for each in as_list(found.get("sources"))] or [{}]:
        kind = as_str(source.get("type")) or "citation"
        content = as_dict(source.get("document")) or as_dict(source.get("tool_output"))
        cited.append(
            Citation(
                kind,
                *place,
                url=as_str(content.get("url")) or None,
                title=as_str(content.get("title")) or None,
                cited_text=as_str(content.get("snippet")) or as_str(content.get("text")) or None,
                source_id=as_str(source.get("id")) or None,
                provider=provider,
                raw=found or None,
            )
        )
    return cited


def mistral_citations(chunk: Mapping[str, Any], at: int, provider: str) -> list[Citation]:
    """Return the citations of a `reference` chunk, which follows the text that its sources support.

    Args:
        chunk: The chunk (docs.mistral.ai/capabilities/citations): `reference_ids` are keys of a tool's result.
        at: The length of the text before it.
        provider: The name of the provider.
    """
    kind = as_str(chunk.get("type"))
    ids: list[str | None] = [str(id) for id in as_list(chunk.get("reference_ids"))]
    url, title = as_str(chunk.get("url")) or None, as_str(chunk.get("title")) or None
    return [
        Citation(kind, at, at, url, title, source_id=id, provider=provider, raw=dict(chunk)) for id in ids or [None]
    ]


def search_grounding(citations: Sequence[object], results: Sequence[object], provider: str) -> Grounding:
    """Return the sources that xAI and Perplexity list beside a response of chat completions.

    Args:
        citations: The URLs. Perplexity's model refers to the first of them as `[1]`.
        results: Perplexity's `search_results`, which have the same URLs with their titles.
        provider: The name of the provider.
    """
    known = {url: result for result in map(as_dict, results) if (url := as_str(result.get("url")))}
    urls = [url for url in map(_url, citations) if url] or list(known)
    sources: list[Citation] = []
    for url in urls:
        result = known.get(url, {})
        sources.append(
            Citation(
                "search_result" if result else "citation",
                url=url,
                title=as_str(result.get("title")) or None,
                cited_text=as_str(result.get("snippet")) or None,
                provider=provider,
                raw=result or None,
            )
        )
    raw = {"citations": list(citations), "search_results": list(results)}
    return Grounding((), tuple(sources), None, provider, {name: found for name, found in raw.items() if found})


def _url(value: object) -> str:
    return as_str(value) or as_str(as_dict(value).get("url"))


class GoogleGrounding:
    """The metadata about searches and sources of one Gemini response.

    A stream may have several of each, and the indexes of supports count the chunks of all of them
    (`GroundingSupport` in the reference of the Gemini API). Places are in bytes of UTF-8.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._raw: dict[str, Any] = {}
        self._queries: list[str] = []
        self._sources: list[dict[str, Any]] = []
        self._supports: list[dict[str, Any]] = []
        self._recited: list[dict[str, Any]] = []

    def add(self, name: str, value: Any) -> None:
        """Add one of the candidate's fields: `groundingMetadata`, `urlContextMetadata` or `citationMetadata`."""
        found = as_dict(value)
        self._raw[name] = as_dict(self._raw.get(name)) | found
        if name == "citationMetadata":
            _extend(self._recited, as_list(found.get("citationSources")) or as_list(found.get("citations")))
        elif name == "groundingMetadata":
            self._queries += [
                query
                for field in ("webSearchQueries", "imageSearchQueries", "retrievalQueries")
                for query in map(as_str, as_list(found.get(field)))
                if query and query not in self._queries
            ]
            _extend(self._sources, as_list(found.get("groundingChunks")))
            _extend(self._supports, as_list(found.get("groundingSupports")))

    def grounding(self) -> Grounding:
        """Return the queries and the sources."""
        entry = as_str(
            as_dict(as_dict(self._raw.get("groundingMetadata")).get("searchEntryPoint")).get("renderedContent")
        )
        sources = [self._citation(chunk, (None, None), chunk) for chunk in self._sources]
        pages = as_list(as_dict(self._raw.get("urlContextMetadata")).get("urlMetadata"))
        for page in map(as_dict, pages):
            url = as_str(page.get("retrievedUrl")) or None
            sources.append(Citation("urlMetadata", url=url, provider=self._provider, raw=page))
        return Grounding(tuple(self._queries), tuple(sources), entry or None, self._provider, self._raw)

    def citations(self, text: str) -> Iterator[Citation]:
        """Yield the citations of the response, whose whole text is `text`."""
        data = text.encode("utf-8", "surrogatepass")
        for support in self._supports:
            segment = as_dict(support.get("segment"))
            place = _characters(text, data, segment)
            for index in as_list(support.get("groundingChunkIndices")):
                number = _int(index)
                if number is not None and 0 <= number < len(self._sources):
                    yield self._citation(self._sources[number], place, support)
        for found in self._recited:
            place = _characters(text, data, found)
            url, title = as_str(found.get("uri")) or None, as_str(found.get("title")) or None
            yield Citation("citationSource", *place, url=url, title=title, provider=self._provider, raw=found)

    def _citation(
        self, chunk: Mapping[str, Any], place: tuple[int | None, int | None], raw: Mapping[str, Any]
    ) -> Citation:
        kind, found = next(((kind, as_dict(each)) for kind, each in chunk.items()), _NOTHING)
        span = as_dict(as_dict(found.get("ragChunk")).get("pageSpan"))
        first, last = _int(span.get("firstPage")), _int(span.get("lastPage"))
        page = _int(found.get("pageNumber"))
        pages = (page, page + 1) if page is not None else None
        return Citation(
            kind,
            *place,
            url=as_str(found.get("uri")) or as_str(found.get("sourceUri")) or None,
            title=as_str(found.get("title")) or as_str(found.get("domain")) or None,
            cited_text=as_str(found.get("text")) or None,
            source_id=as_str(found.get("documentName")) or as_str(found.get("placeId")) or None,
            pages=pages if first is None or last is None else (first, last + 1),
            provider=self._provider,
            raw=raw,
        )


def _extend(known: list[dict[str, Any]], new: list[object]) -> None:
    """Add the objects of a list, which begins with those that are known if a chunk repeats the earlier ones."""
    found = [as_dict(each) for each in new]
    known += found[len(known) :] if known and found[: len(known)] == known else found


def _characters(text: str, data: bytes, segment: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the place of a segment in characters. Its own text decides, if it has one.

    The indexes count from the start of a part, which is not always that of the text.
    """
    start, end = _int(segment.get("startIndex")) or 0, _int(segment.get("endIndex")) or 0
    own = as_str(segment.get("text"))
    if 0 <= start < end <= len(data):
        try:
            before, cited = data[:start].decode(), data[start:end].decode()
        except UnicodeDecodeError:
            cited, before = "", ""
        if cited and own in ("", cited):
            return len(before), len(before) + len(cited)
    at = text.find(own) if own else -1
    return (None, None) if at < 0 else (at, at + len(own))


def _moved(start: int | None, end: int | None, offset: int | None) -> tuple[int | None, int | None]:
    return (None, None) if start is None or end is None or offset is None else (start + offset, end + offset)


def _int(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _range(start: Any, end: Any) -> tuple[int, int] | None:
    first, last = _int(start), _int(end)
    return None if first is None or last is None else (first, last)
