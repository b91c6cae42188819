"""The documents that are streamed: types, their JSON text, and the same text as a service would send it.

Everything is made by counting, so a document is the same in every run and on every machine. The numbers in it have
a fixed width where JSON allows, so one item of a list costs what the others cost.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from pydantic import BaseModel


class Song(BaseModel):
    title: str
    seconds: int


class Album(BaseModel):
    """A music album."""

    title: str
    artist: str
    year: int
    songs: list[Song]


class Essay(BaseModel):
    """A long text about one subject."""

    title: str
    words: int
    body: str
    sources: list[str]


class Status(enum.Enum):
    NEW = "new"
    PAID = "paid"
    SENT = "sent"


class Address(BaseModel):
    city: str
    zip: int


class Order(BaseModel):
    id: int
    customer: str
    placed: datetime
    status: Status
    total: float
    coupon: str | None
    ship_to: Address
    tags: list[str]
    stock: dict[str, int]


class Orders(BaseModel):
    """What was ordered."""

    orders: list[Order]


class LooseAddress(BaseModel):
    city: str | None = None
    zip: int | None = None


class LooseOrder(BaseModel):
    id: int | None = None
    customer: str | None = None
    placed: datetime | None = None
    status: Status | None = None
    total: float | None = None
    coupon: str | None = None
    ship_to: LooseAddress | None = None
    tags: list[str] | None = None
    stock: dict[str, int] | None = None


class LooseOrders(BaseModel):
    """What was ordered, every field optional."""

    orders: list[LooseOrder] | None = None


@dataclass(frozen=True)
class Document:
    """One JSON text and the type that it is an instance of."""

    name: str
    type: type[BaseModel]
    text: str

    @cached_property
    def whole(self) -> BaseModel:
        """The object that the text makes."""
        return self.type.model_validate_json(self.text)

    def pieces(self, size: int) -> list[str]:
        """The text, `size` characters a piece."""
        return [self.text[start : start + size] for start in range(0, len(self.text), size)]


def album() -> Document:
    """About 300 bytes: what a first try of the library streams."""
    songs = [Song(title=f"{word} water", seconds=180 + 7 * n) for n, word in enumerate(_WORDS[:6])]
    return _document("album", Album(title="Sea of Glass", artist="The Tides", year=1999, songs=songs))


def orders(count: int, name: str, type: type[BaseModel] = Orders) -> Document:
    """A list of `count` nested objects of about 200 bytes each."""
    text = _document(name, Orders(orders=[_order(number) for number in range(count)])).text
    return Document(name, type, text)


def essay(length: int = 38_000) -> Document:
    """40 KB, nearly all of it one string of `length` characters, with the escapes that running text has."""
    line = 'The sea is "never" still: it rises, it falls, and nobody asks why.\n'
    body = (line * (length // len(line) + 1))[:length]
    sources = [f"Annals of the coast, volume {number}, page {7 * number}" for number in range(10, 45)]
    return _document("essay", Essay(title="Of water", words=6_500, body=body, sources=sources))


def chat_events(pieces: list[str], tool: str, *, padded: bool = False) -> list[bytes]:
    """The pieces as OpenAI's chat completions stream a tool call: one server-sent event a piece.

    One event comes before those of the pieces, three come after them: stop reason, usage, `[DONE]`. `padded`: with the
    padding against listeners that OpenAI puts into each event, so that no two are alike.
    """
    function = {"name": tool, "arguments": ""}
    call = {"index": 0, "id": "call_Ukpeudv7mpU6xGXc8D91WxRd", "type": "function", "function": function}
    events = [_event({"role": "assistant", "content": None, "tool_calls": [call], "refusal": None})]
    for number, piece in enumerate(pieces):
        padding = {"obfuscation": f"{number:08x}"} if padded else {}
        events.append(_event({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}, **padding))
    usage = {"prompt_tokens": 60, "completion_tokens": len(pieces), "total_tokens": 60 + len(pieces)}
    return [*events, _event({}, "tool_calls"), _sse({**_HEAD, "choices": [], "usage": usage}), b"data: [DONE]\n\n"]


def text_events(pieces: list[str], tool: str) -> list[bytes]:
    """The pieces as OpenAI's chat completions stream plain text: for readers that find the JSON in the text."""
    usage = {"prompt_tokens": 60, "completion_tokens": len(pieces), "total_tokens": 60 + len(pieces)}
    head = _event({"role": "assistant", "content": "", "refusal": None})
    events = [_event({"content": piece}) for piece in pieces]
    return [head, *events, _event({}, "stop"), _sse({**_HEAD, "choices": [], "usage": usage}), b"data: [DONE]\n\n"]


def message_events(pieces: list[str], tool: str) -> list[bytes]:
    """The pieces as Anthropic's messages stream a tool call: two events before those of the pieces, three after."""
    block = {"type": "tool_use", "id": "toolu_01T1x1fJ34qAmk2tNTrN7Up6", "name": tool, "input": {}}
    usage = {"input_tokens": 60, "output_tokens": 1}
    message = {"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-haiku-4-5", "content": []}
    stop = {"stop_reason": None, "stop_sequence": None}
    return [
        _named("message_start", message={**message, **stop, "usage": usage}),
        _named("content_block_start", index=0, content_block=block),
        *(
            _named("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": piece})
            for piece in pieces
        ),
        _named("content_block_stop", index=0),
        _named("message_delta", delta={**stop, "stop_reason": "tool_use"}, usage={"output_tokens": len(pieces)}),
        _named("message_stop"),
    ]


def _document(name: str, value: BaseModel) -> Document:
    return Document(name, type(value), value.model_dump_json())


def _order(number: int) -> Order:
    return Order(
        id=100_000 + number,
        customer=f"{_WORDS[number % 8]} Jones",
        placed=datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC) + timedelta(minutes=number),
        status=list(Status)[number % 3],
        total=100 + number % 800 + 0.25,
        coupon=None if number % 2 else "SPRING",
        ship_to=Address(city="Port Royal", zip=10_000 + number),
        tags=["gift", "fast"],
        stock={"north": 10 + number % 80, "south": 20},
    )


def _event(delta: dict[str, Any], finish: str | None = None, **more: str) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _sse({**_HEAD, "choices": [choice], "usage": None, **more})


def _named(event: str, **fields: Any) -> bytes:
    return f"event: {event}\n".encode() + _sse({"type": event, **fields})


def _sse(payload: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(payload, separators=(",", ":")).encode() + b"\n\n"


_WORDS = ("Clear", "Green", "Black", "White", "Still", "Sweet", "Broad", "Young")
_HEAD = {
    "id": "chatcmpl-CKMFysCpYZvN5QZx8HIisPxkwrNwZ",
    "object": "chat.completion.chunk",
    "created": 1758968150,
    "model": "gpt-4o-mini-2024-07-18",
    "service_tier": "default",
    "system_fingerprint": "fp_560af6e559",
}
