"""The decoder of Mistral's responses: chat completions with thoughts as chunks of the content."""

# pyright: reportPrivateUsage=false
# The tables of methods follow their class: in a class body, a compiled class has no methods yet.

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

from ...events import Event, RawEvent, TextCitation, ThinkingDelta, ToolCallDelta
from ..base import RequestInput
from ..chat_completions.decoder import READERS, OpenAIChatDecoder, Reader
from ..http_errors import ErrorSource
from ..response_decoder import as_dict, as_list, as_str


class MistralDecoder(OpenAIChatDecoder):
    """A decoder of one response of Mistral."""

    def __init__(self, source: ErrorSource, request_input: RequestInput) -> None:
        super().__init__(source, request_input)
        self._readers = _READERS
        self._text_length = 0
        self._thought_chunk: dict[str, Any] | None = None  # the chunk of the open thought, its fragments joined

    def _adder(self, kind: type[Event]) -> Callable[[str], bool]:
        return super()._adder(kind) if kind is ToolCallDelta else self._add_text

    def _add_text(self, text: str) -> bool:
        self._text_length += len(text)
        return True

    def _content(self, value: Any, out: list[Event]) -> None:
        if isinstance(value, str):
            self._text_length += len(value)
            self._text(value, out)
            return
        for found in self._objects(value, "content", out):
            if found.get("type") == "thinking":
                self._thinking(found, out)
            elif text := as_str(found.get("text")):
                self._text_length += len(text)
                self._text(text, out)
            elif found.get("type") in ("reference", "tool_reference"):
                from ..citation_forms import mistral_citations

                cited = mistral_citations(found, self._text_length, self._source.provider)
                out += [TextCitation(citation) for citation in cited]
            elif found.get("type") != "text":
                out.append(RawEvent(found))

    def _thinking(self, chunk: dict[str, Any], out: list[Event]) -> None:
        self._has_content = self._thinks = True
        thinking = chunk.get("thinking")
        items = [{"type": "text", "text": thinking}] if isinstance(thinking, str) else as_list(thinking)
        if self._thought_chunk is None:
            self._thought_chunk = {"type": "thinking", "thinking": []}
        open_chunk = self._thought_chunk
        open_chunk["thinking"] += items
        open_chunk.update(
            {name: value for name, value in chunk.items() if name not in _CHUNK_FIELDS and value is not None}
        )
        if text := "".join(as_str(as_dict(item).get("text")) for item in items):
            out.append(ThinkingDelta(text))
        if chunk.get("closed"):
            self._end_thought(out)

    def _end_thought(self, out: list[Event]) -> None:
        super()._end_thought(out)
        chunk, self._thought_chunk = self._thought_chunk, None
        if chunk is not None and chunk["thinking"]:
            out.append(ThinkingDelta(opaque={"mistral": chunk | {"thinking": _joined(chunk["thinking"])}}))


_READERS: Mapping[str, Reader] = {**READERS, "content": MistralDecoder._content}
_CHUNK_FIELDS = ("type", "thinking")


def _joined(items: list[Any]) -> list[Any]:
    """Return the items of a thought, with consecutive text joined."""
    joined: list[Any] = []
    for is_text, some in groupby(items, _is_text):
        found = list(some)
        joined += [{"type": "text", "text": "".join([item["text"] for item in found])}] if is_text else found
    return joined


def _is_text(item: Any) -> bool:
    return as_dict(item).keys() == {"type", "text"} and item["type"] == "text" and isinstance(item["text"], str)
