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
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, create_model


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


class Answer(BaseModel):
    """The answer to a question."""

    text: str
    sure: bool


class Page(BaseModel):
    """A page of Markdown."""

    title: str
    body: str


class Branch(BaseModel):
    """A tree with one branch at each level."""

    name: str
    weight: int
    child: Branch | None = None


class Numbers(BaseModel):
    """A list of numbers."""

    numbers: list[int]


class Rate(BaseModel):
    price: float
    unit: str
    stock: int


class Catalogue(BaseModel):
    """Products by name."""

    products: dict[str, Rate]


class Index(BaseModel):
    """Pages by word."""

    words: dict[str, int]


class Decision(BaseModel):
    kind: Literal["decision"]
    text: str
    votes: dict[str, int]


class Task(BaseModel):
    kind: Literal["task"]
    text: str
    owner: str
    due: datetime


class Remark(BaseModel):
    kind: Literal["remark"]
    text: str
    reference: int | str


class Topic(BaseModel):
    heading: str
    began: datetime
    entries: list[Annotated[Decision | Task | Remark, Field(discriminator="kind")]]


class Minutes(BaseModel):
    """The minutes of a meeting."""

    held: datetime
    present: list[str]
    next_meeting: datetime | None
    topics: list[Topic]


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


def tiny() -> Document:
    """31 bytes: the smallest answer that is an object."""
    return _document("tiny", Answer(text="Forty-two", sure=True))


def markdown(length: int, name: str) -> Document:
    """A string of `length` characters: running text with escapes and, in each paragraph, an emoji."""
    line = '## Tides \U0001f30a\n\nThe sea *rises*, it falls, and `nobody` asks "why".\n\n'
    body = (line * (length // len(line) + 1))[:length]
    return _document(name, Page(title="Of water", body=body))


def fields(count: int) -> Document:
    """One object of `count` fields, strings and numbers by turns."""
    types: dict[str, Any] = {f"field_{number:05}": (int if number % 2 else str, ...) for number in range(count)}
    wide = create_model("Wide", __doc__="An object of many fields.", **types)
    values = {name: number if number % 2 else f"{_WORDS[number % 8]} water" for number, name in enumerate(types)}
    return _document(f"{count:,} fields", wide(**values))


def levels(depth: int) -> Document:
    """Objects inside one another, `depth` of them, each with a string and a number before the next."""
    branch: Branch | None = None
    for number in reversed(range(depth)):
        branch = Branch(name=f"{_WORDS[number % 8]} branch", weight=100 + number, child=branch)
    assert branch is not None
    return _document(f"{depth} levels", branch)


def numbers(count: int) -> Document:
    """A list of `count` integers of three digits."""
    return _document(f"{count:,} ints", Numbers(numbers=[100 + 7 * number % 900 for number in range(count)]))


def models_by_name(count: int) -> Document:
    """A dict of `count` small objects."""
    rates = {f"product {number:04}": Rate(price=number + 0.5, unit="kg", stock=number) for number in range(count)}
    return _document(f"dict of {count}", Catalogue(products=rates))


def keys(count: int) -> Document:
    """A dict of `count` numbers by short keys, 16 bytes each."""
    words = {f"w{number:06}": 10_000 + number % 9_999 for number in range(count)}
    return _document(f"{count:,} keys", Index(words=words))


def minutes() -> Document:
    """30 KB: a list of tagged unions with datetimes, plain unions and dicts."""
    begun = datetime(2026, 3, 4, 9, 0, tzinfo=UTC)
    topics = [
        Topic(
            heading=f"{_WORDS[number % 8]} water, part {10 + number}",
            began=begun + timedelta(minutes=5 * number),
            entries=[
                Remark(kind="remark", text="The harbour asks for them.", reference=number if number % 2 else "none"),
                Decision(kind="decision", text="The tables are printed.", votes={"for": 10 + number, "against": 3}),
                Task(kind="task", text="Print the tables.", owner="Jones", due=begun + timedelta(days=number)),
                Remark(kind="remark", text='It is called "never still" by the pilots.', reference=100 + number),
            ],
        )
        for number in range(72)
    ]
    present = [f"{word} Jones" for word in _WORDS]
    return _document("minutes", Minutes(held=begun, present=present, next_meeting=None, topics=topics))


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
