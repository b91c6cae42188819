"""Mistral's protocol: chat completions, and what is different in it.

Fields that it does not know are refused, so nothing is sent that it has no use for. Thoughts come as chunks of the
content, and go back as they came: `ThinkingPart.opaque` holds the chunk, its pieces put together. Ids of tool calls
have exactly nine letters and digits: any other id becomes one that is always the same, in the call and in its result.
After a result only the model may speak: where the user does, because a turn was broken off, a word of the model's
stands in between.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Any, ClassVar

from ...credentials import API_KEY_VARIABLES, Secret
from ...events import Event, RawEvent, ThinkingDelta
from ...messages import AudioPart, DocumentPart, Message, Part, ThinkingPart, ToolResultPart
from ...settings import Settings
from ...tool_spec import ToolSpec, legal_name
from ..base import RequestInput, RequestOptions, ResponseDecoder
from ..chat_completions.adapter import ChatRequestEncoder, OpenAIChatAdapter
from ..chat_completions.decoder import OpenAIChatDecoder
from ..chat_completions.services import ServiceSpec
from ..content_parts import base64_of, data_url
from ..http_adapter import effort
from ..http_errors import ErrorSource
from ..response_decoder import as_dict, as_list, as_str

MISTRAL = ServiceSpec(
    "mistral",
    "https://api.mistral.ai/v1",
    key_env=API_KEY_VARIABLES["mistral"],
    url_env=("MISTRAL_BASE_URL",),
    stream_options=False,
    strict=True,
    response_format="json_schema",
)


class MistralAdapter(OpenAIChatAdapter):
    """The wire of Mistral's API, at one address, with one key."""

    def __init__(
        self,
        *,
        api_key: Secret | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str | Secret] | None = None,
    ) -> None:
        super().__init__(MISTRAL, api_key=api_key, base_url=base_url, headers=headers)

    def frame(self, terms: RequestOptions, settings: Settings) -> MistralRequestEncoder:
        """What requests with these terms and settings have in common."""
        return MistralRequestEncoder(MISTRAL, terms, settings)

    def answer(self, source: ErrorSource, conversation: RequestInput) -> ResponseDecoder:
        """What reads the protocol's own events."""
        return MistralDecoder(source, conversation)


_BROKEN_OFF = "I stopped here."
_LEGAL_ID = re.compile(r"[a-zA-Z0-9]{9}")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class MistralRequestEncoder(ChatRequestEncoder):
    """One chat-completions request, as Mistral wants it, but for its messages."""

    def _tools(self, terms: RequestOptions, thinking: bool) -> None:
        super()._tools(terms, thinking)
        if self.fields.get("tool_choice") == "required":
            self.fields["tool_choice"] = "any"

    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        # Not `strict`: what a schema may hold then is written nowhere. Of the schema of an answer it is.
        described = {"description": tool.description} if tool.description else {}
        return {
            "type": "function",
            "function": {"name": self.names.sent[tool.name], **described, "parameters": tool.parameters},
        }

    def _settings(self, settings: Settings) -> None:
        super()._settings(settings.with_(seed=None, thinking=None))
        if settings.seed is not None:
            self.fields["random_seed"] = settings.seed
        thinking = settings.thinking
        if thinking is None:
            return
        if "magistral" not in self.fields["model"]:
            # True: the one level, besides none, that every model with levels has.
            self.fields["reasoning_effort"] = "high" if thinking is True else effort(thinking)
        elif thinking:
            self.fields["prompt_mode"] = "reasoning"
        else:
            self.notes.append("thinking")

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = []
        for message in super()._messages(messages):
            if sent and (sent[-1]["role"], message["role"]) == ("tool", "user"):
                sent.append({"role": "assistant", "content": _BROKEN_OFF})
            sent.append(message)
        return sent

    def _message(self, message: Message) -> Iterator[dict[str, Any]]:
        # An answer that said nothing is refused.
        if message.role != "assistant" or message.text or message.tool_calls or _thoughts(message):
            yield from super()._message(message)

    def _part(self, part: Part) -> dict[str, Any]:
        match part:
            case AudioPart():
                return {"type": "input_audio", "input_audio": part.url or base64_of(part)}
            case DocumentPart():
                name = {"document_name": part.name} if part.name else {}
                return {"type": "document_url", "document_url": part.url or data_url(part), **name}
            case _:
                return super()._part(part)

    def _assistant(self, message: Message) -> dict[str, Any]:
        sent = super()._assistant(message)
        if chunks := _thoughts(message):
            sent["content"] = [*chunks, *([{"type": "text", "text": message.text}] if message.text else [])]
        return {name: value for name, value in sent.items() if value is not None}

    def _result(self, result: ToolResultPart) -> dict[str, Any]:
        return super()._result(result) | ({"name": legal_name(result.name)} if result.name else {})

    def _id(self, id: str) -> str:
        if _LEGAL_ID.fullmatch(id):
            return id
        number = int.from_bytes(blake2b(id.encode(errors="replace"), digest_size=8).digest(), "big")
        return "".join(_DIGITS[number // 62**place % 62] for place in range(9))


def _thoughts(message: Message) -> list[Any]:
    """The chunks of a message's thoughts, as far as they are Mistral's own."""
    found = [part.opaque.get("mistral") for part in message.parts if isinstance(part, ThinkingPart) and part.opaque]
    return [chunk for chunk in found if chunk]


class MistralDecoder(OpenAIChatDecoder):
    """The events of one answer."""

    def __init__(self, source: ErrorSource, conversation: RequestInput) -> None:
        super().__init__(source, conversation)
        self._thought_chunk: dict[str, Any] | None = None  # the chunk of the thought that is open, its pieces joined

    def _content(self, value: Any, out: list[Event]) -> None:
        if isinstance(value, str):
            self._text(value, out)
            return
        for part in as_list(value):
            found = as_dict(part)
            if found.get("type") == "thinking":
                self._thinking(found, out)
            elif text := as_str(found.get("text")):
                self._text(text, out)
            elif found.get("type") != "text":
                out.append(RawEvent(part))

    def _thinking(self, chunk: dict[str, Any], out: list[Event]) -> None:
        self._spoken = self._thinks = True
        thinking = chunk.get("thinking")
        items = [{"type": "text", "text": thinking}] if isinstance(thinking, str) else as_list(thinking)
        if self._thought_chunk is None:
            self._thought_chunk = {"type": "thinking", "thinking": []}
        kept = self._thought_chunk
        kept["thinking"] += items
        kept.update({name: value for name, value in chunk.items() if name not in _SPELLED and value is not None})
        if text := "".join(as_str(as_dict(item).get("text")) for item in items):
            out.append(ThinkingDelta(text))
        if chunk.get("closed"):
            self._end_thought(out)

    def _end_thought(self, out: list[Event]) -> None:
        super()._end_thought(out)
        chunk, self._thought_chunk = self._thought_chunk, None
        if chunk is not None and chunk["thinking"]:
            out.append(ThinkingDelta(opaque={"mistral": chunk | {"thinking": _joined(chunk["thinking"])}}))

    _readers: ClassVar[Mapping[str, Callable[[Any, Any, list[Event]], None]]] = {
        **OpenAIChatDecoder._readers,
        "content": _content,
    }


_SPELLED = ("type", "thinking")


def _joined(items: list[Any]) -> list[Any]:
    """These items of a thought, text that came in pieces in one."""
    joined: list[Any] = []
    for is_text, some in groupby(items, _is_text):
        found = list(some)
        joined += [{"type": "text", "text": "".join([item["text"] for item in found])}] if is_text else found
    return joined


def _is_text(item: Any) -> bool:
    return as_dict(item).keys() == {"type", "text"} and item["type"] == "text" and isinstance(item["text"], str)
