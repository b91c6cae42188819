"""What one event costs on each wire: the same text, in the bytes of each service, through that wire's decoder.

`arguments`: the text is what a tool call is given. `text`: it is the answer itself, held to a schema. The bytes vary as
the services' own do: OpenAI pads and numbers its events, Anthropic ends them in some blanks, Gemini counts tokens and
ends its lines in CRLF, Ollama writes the time on each line.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from math import inf
from time import process_time
from typing import Any, Literal

from documents import Document, chat_events, message_events, text_events
from page import table

from toolcast.providers.anthropic.adapter import AnthropicAdapter
from toolcast.providers.base import ProviderAdapter, RequestInput, ResponseDecoder
from toolcast.providers.chat_completions.adapter import OpenAIChatAdapter
from toolcast.providers.chat_completions.services import SERVICES
from toolcast.providers.google.adapter import GoogleAdapter
from toolcast.providers.mistral.adapter import MistralAdapter
from toolcast.providers.ollama.adapter import OllamaAdapter
from toolcast.providers.openai.adapter import OpenAIResponsesAdapter
from toolcast.values.tool_spec import NamedTool, ToolSpec

Kind = Literal["arguments", "text"]


@dataclass(frozen=True)
class Dialect:
    """One service's way to send a text in pieces. `events`: the bytes, given the pieces and the name of the tool."""

    name: str
    kind: Kind
    make: Callable[[], ProviderAdapter]
    events: Callable[[list[str], str], list[bytes]]

    def sent(self, document: Document) -> list[bytes]:
        """The document's events, 4 characters each."""
        return self.events(document.pieces(4), document.type.__name__)

    def decoder(self, document: Document) -> ResponseDecoder:
        """What reads the document's events."""
        tool = ToolSpec(document.type.__name__, "", document.type.model_json_schema())
        mode = "json_schema" if self.kind == "text" else None
        return self.make().decoder(RequestInput("m", (), (tool,), NamedTool(tool.name), mode=mode))


# ---- the bytes


def blank_padded_events(pieces: list[str], tool: str) -> list[bytes]:
    """Anthropic's messages with the blanks that it puts before the last brace of each event."""
    found = message_events(pieces, tool)
    return [event[:-3] + b" " * (number * 7 % 15) + event[-3:] for number, event in enumerate(found)]


def response_events(pieces: list[str], tool: str, *, kind: Kind = "arguments") -> list[bytes]:
    """The pieces as OpenAI's Responses stream a tool call, or text: each event is numbered and padded."""
    text = "".join(pieces)
    before: dict[str, Any] = {"item_id": "msg_68d8f0c8a3e481a0852cda3180856290", "output_index": 0}
    after: dict[str, Any] = {}
    if kind == "arguments":
        grows, before["item_id"] = "function_call_arguments", "fc_68d8f0c8a3e481a0852cda3180856290"
        item = {"type": "function_call", "id": before["item_id"], "call_id": "call_Ukpeudv7mpU6", "name": tool}
        begun, whole = item | {"arguments": ""}, item | {"arguments": text}
    else:
        grows, before["content_index"], after["logprobs"] = "output_text", 0, []
        item = {"type": "message", "id": before["item_id"], "role": "assistant"}
        begun, whole = item | {"content": []}, item | {"content": [{"type": "output_text", "text": text}]}
    usage = {"input_tokens": 60, "output_tokens": len(pieces), "total_tokens": 60 + len(pieces)}
    answer = {"id": "resp_68d8f0c8", "model": "gpt-4o-mini-2024-07-18", "status": "completed", "output": [whole]}
    message = [
        ("output_item.added", {"output_index": 0, "item": begun}),
        *(
            (f"{grows}.delta", {**before, "delta": piece, **after, "obfuscation": f"{number * 7_919:x}"})
            for number, piece in enumerate(pieces)
        ),
        ("output_item.done", {"output_index": 0, "item": whole}),
        ("completed", {"response": answer | {"usage": usage}}),
    ]
    return [_numbered(f"response.{name}", number, fields) for number, (name, fields) in enumerate(message)]


def _numbered(name: str, number: int, fields: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _json({"type": name, "sequence_number": number, **fields}))


def mistral_events(pieces: list[str], tool: str) -> list[bytes]:
    """The pieces as models at Mistral's stream a tool call that grows: each repeats its type, without a name."""
    frame = {"id": "c7d4b54a2f4b4c7f9a5b", "created": 1758968150, "model": "mistral-medium-2508"}

    def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return b"data: %b\n\n" % _json({**frame, "object": "chat.completion.chunk", "choices": [choice], **more})

    def call(name: str, arguments: str, **more: str) -> dict[str, Any]:
        function = {"name": name, "arguments": arguments}
        return {"tool_calls": [{**more, "type": "function", "function": function, "index": 0}]}

    usage = {"prompt_tokens": 60, "total_tokens": 60 + len(pieces), "completion_tokens": len(pieces)}
    return [
        event({"role": "assistant", "content": ""}),
        event(call(tool, "", id="gSIMJiOkT")),
        *(event(call("", piece)) for piece in pieces),
        event({"content": ""}, "tool_calls", usage=usage),
        b"data: [DONE]\n\n",
    ]


def gemini_events(pieces: list[str], tool: str) -> list[bytes]:
    """The pieces as Gemini streams text: each event a whole answer with its usage, lines that end in CRLF."""
    details = [{"modality": "TEXT", "tokenCount": 60}]
    asked = {"promptTokenCount": 60, "totalTokenCount": 60, "promptTokensDetails": details}
    counts = asked | {"candidatesTokenCount": len(pieces), "totalTokenCount": 60 + len(pieces)}
    return [*(_candidate(piece, {}, asked) for piece in pieces), _candidate("", {"finishReason": "STOP"}, counts)]


def _candidate(text: str, more: dict[str, Any], usage: dict[str, Any]) -> bytes:
    candidate = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0, **more}
    model = {"modelVersion": "gemini-2.5-flash", "responseId": "w1peaMz6INOvnvgPgYfPiQY"}
    return b"data: %b\r\n\r\n" % _json({"candidates": [candidate], "usageMetadata": usage, **model})


def ollama_events(pieces: list[str], tool: str) -> list[bytes]:
    """The pieces as Ollama streams text: a line each, and on each the time."""
    begun = datetime(2026, 3, 4, 5, 6, 7, 123_456, tzinfo=UTC)

    def line(number: int, content: str, **more: Any) -> bytes:
        now = (begun + timedelta(microseconds=20_011 * number)).isoformat()
        message = {"role": "assistant", "content": content}
        return _json({"model": "qwen3:8b", "created_at": now, "message": message, "done": False, **more}) + b"\n"

    ended = {"done": True, "done_reason": "stop", "prompt_eval_count": 60, "eval_count": len(pieces)}
    return [*(line(number, piece) for number, piece in enumerate(pieces)), line(len(pieces), "", **ended)]


def _json(payload: dict[str, Any]) -> bytes:
    return json.dumps(payload, separators=(",", ":")).encode()


_chat = partial(OpenAIChatAdapter, SERVICES["openai"])
_responses = partial(OpenAIResponsesAdapter, SERVICES["openai"])

DIALECTS = (
    Dialect("OpenAI chat", "arguments", _chat, chat_events),
    Dialect("OpenAI chat, padded", "arguments", _chat, partial(chat_events, padded=True)),
    Dialect("OpenAI Responses", "arguments", _responses, response_events),
    Dialect("Anthropic", "arguments", AnthropicAdapter, blank_padded_events),
    Dialect("Mistral", "arguments", MistralAdapter, mistral_events),
    Dialect("OpenAI chat", "text", _chat, text_events),
    Dialect("OpenAI Responses", "text", _responses, partial(response_events, kind="text")),
    Dialect("Gemini", "text", GoogleAdapter, gemini_events),
    Dialect("Ollama", "text", OllamaAdapter, ollama_events),
)
"""The ways to compare; the first of each kind is what the others are compared to."""


# ---- measuring


def by_wire(document: Document, rounds: int) -> str:
    """A table: microseconds for one event on each wire, and the ratio to the chat wire's of the same kind."""
    costs = _costs(document, rounds)
    chat = {dialect.kind: seconds for dialect, seconds in reversed(costs.items())}
    lines = [
        [dialect.name, dialect.kind, f"{seconds * 1e6:.2f}", f"{seconds / chat[dialect.kind]:.2f}"]
        for dialect, seconds in costs.items()
    ]
    return table(["", "what grows", "us", "times chat"], lines)


def _costs(document: Document, rounds: int) -> dict[Dialect, float]:
    """Seconds for one piece in each dialect, the least of so many rounds, dialects in turn."""
    sent = {dialect: dialect.sent(document) for dialect in DIALECTS}
    least = dict.fromkeys(DIALECTS, inf)
    for _ in range(rounds):
        for dialect, events in sent.items():
            feed = dialect.decoder(document).feed
            gc.collect()
            begun = process_time()
            for event in events:
                feed(event)
            least[dialect] = min(least[dialect], (process_time() - begun) / len(document.pieces(4)))
    return least
