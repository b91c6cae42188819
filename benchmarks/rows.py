"""The ways to read a stream, one row of the tables each: limits that nothing can beat, and toolcast's own layers.

`measure.py` defines a row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from documents import Document, Orders, chat_events, orders
from jiter import from_json
from measure import Read, Row

from toolcast import OpenAI, ToolOrchestratingLLM
from toolcast.parsing.json_stream import JSONStream
from toolcast.parsing.partial_value import PartialValue, plan_for
from toolcast.testing import Recorded, ReplayNetwork


def concatenate(document: Document, pieces: Iterable[str]) -> Read:
    """The text, and nothing done with it."""

    def read() -> str:
        text = ""
        for piece in pieces:
            text += piece
        return text

    return read


def validate_once(document: Document, pieces: Iterable[str]) -> Read:
    """The object, from the whole text."""

    def read() -> Any:
        return document.type.model_validate_json("".join(pieces))

    return read


def split_events(document: Document, pieces: Iterable[bytes]) -> Read:
    """The decoded payload of each event."""

    def read() -> Any:
        rest = b""
        payload: Any = None
        for piece in pieces:
            *events, rest = (rest + piece).split(b"\n\n")
            for event in events:
                if event != b"data: [DONE]":
                    payload = from_json(event[6:])
        return payload

    return read


def parse(document: Document, pieces: Iterable[str]) -> Read:
    """The changes that each piece brings."""

    def read() -> bool:
        stream = JSONStream()
        for piece in pieces:
            stream.feed(piece)
        stream.close()
        return stream.done

    return read


def grow(document: Document, pieces: Iterable[str]) -> Read:
    """A typed snapshot for each piece that changed something."""
    plan = plan_for(document.type)

    def read() -> Any:
        growing = PartialValue(plan)
        item: Any = None
        for piece in pieces:
            if growing.feed(piece):
                item = growing.value
        return item

    return read


def stream(document: Document, pieces: Iterable[bytes]) -> Read:
    """The public stream, from the bytes of the wire to the validated object."""
    make = _orchestrator(document, pieces)

    def read() -> Any:
        last: Any = None
        for item in make.stream():
            last = item
        return last

    return read


def astream(document: Document, pieces: Iterable[bytes]) -> Read:
    """The public async stream, on asyncio."""
    make = _orchestrator(document, pieces)

    async def consume() -> Any:
        last: Any = None
        async for item in make.astream():
            last = item
        return last

    return lambda: _runner.run(consume())


def keep(document: Document, pieces: Iterable[bytes]) -> Read:
    """Every snapshot of the public stream, all kept."""
    make = _orchestrator(document, pieces)
    return lambda: list(make.stream())


def _orchestrator(document: Document, pieces: Iterable[bytes]) -> ToolOrchestratingLLM[Any]:
    """What reads the pieces, warm: it has read a document of this type before, at once."""
    known = orders(2, "known", Orders) if document.type is Orders else document
    before = Recorded(chat_events([known.text], document.type.__name__))
    network = ReplayNetwork(before, Recorded(pieces))
    llm = OpenAI("gpt-4o-mini", api_key="none", base_url="http://localhost/v1", network=network)
    make = ToolOrchestratingLLM(document.type, prompt="Make one.", llm=llm)
    make.stream().final()
    return make


_runner = asyncio.Runner()

LIMIT = Row("limit: split SSE, decode payloads", split_events, from_wire=True)
ONCE = Row("limit: validate once at the end", validate_once)
GROW = Row("toolcast: text to snapshots", grow)
SYNC = Row("toolcast: SSE bytes to snapshots", stream, from_wire=True)
ASYNC = Row("toolcast: the same, async", astream, from_wire=True)
ROWS = (
    Row("limit: concatenate", concatenate),
    ONCE,
    LIMIT,
    Row("toolcast: parse only", parse),
    GROW,
    SYNC,
    ASYNC,
)
