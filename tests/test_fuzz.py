"""A hundred thousand damaged inputs: every machine takes them, or raises an error of the library, and nothing else.

The inputs are real ones with bytes changed, cut out, doubled or put in, fed in random pieces; the seeds are fixed, so
that a failure comes back. Hypothesis looks for what breaks each machine in its own tests; this is the mass.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from support.albums import SEA, Album
from support.chunks import USAGE, call_deltas, delta, sse
from support.extent import nightly
from support.turns import PROTOCOLS, Protocol, Turn
from toolcast import ToolcastError
from toolcast.parsing.json_stream import JSONStream, JSONStreamError
from toolcast.parsing.partial_value import PartialValue, plan_for
from toolcast.providers.base import RequestInput
from toolcast.providers.chat_completions.adapter import OpenAIChatAdapter
from toolcast.providers.chat_completions.services import SERVICES
from toolcast.providers.llama_cpp.adapter import LlamaCppAdapter
from toolcast.providers.ollama.adapter import OllamaAdapter
from toolcast.providers.sse import JSONLines, ServerSentEvents
from toolcast.values.retries import retry_after
from toolcast.values.tool_spec import NamedTool, ToolSpec

RUNS = nightly(7_500, 3_000)

pytestmark = pytest.mark.slow

ALBUM = ToolSpec("Album", "An album.", {"type": "object", "properties": {"title": {"type": "string"}}})
FORCED = RequestInput("m", (), (ALBUM,), NamedTool("Album"))
TEXT = SEA.model_dump_json()

STREAM = b"".join(sse(*list(call_deltas(TEXT))[:12], delta("tool_calls"), USAGE))
SPOKEN = b"".join(sse(*(delta(content=TEXT[at : at + 16]) for at in range(0, len(TEXT), 16)), delta("stop"), USAGE))
LINES = (
    b"\n".join(
        json.dumps(
            {"model": "m", "message": {"role": "assistant", "content": TEXT[at : at + 24]}, "done": False}
        ).encode()
        for at in range(0, len(TEXT), 24)
    )
    + b'\n{"model":"m","message":{"content":""},"done":true,"done_reason":"stop","eval_count":3}\n'
)

NASTY = (
    *(
        b"\x00",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xe2\x80\xa8",
        b"\r",
        b"\n",
        b"\r\n\r\n",
        b"data:",
        b": ping\n\n",
        b"[DONE]",
    ),
    *(b'"', b"\\", b"\\u", b"\\ud83d", b"{", b"}", b"[", b"]", b"null", b"NaN", b"1e999", b"-", b'{"error":"x"}'),
    *(b'"choices":null', b'"delta":null', b'"index":-1', b'"id":""', b'"done":true', b'"name":5', b'"arguments":{}'),
)


def damaged(body: bytes, chance: random.Random) -> list[bytes]:
    """`body` with a few faults, in random pieces."""
    data = bytearray(body)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                data[at : at + chance.randint(1, 30)] = b""
            case 1:
                data[at:at] = chance.choice(NASTY)
            case 2:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case _:
                data[at:at] = data[at : at + chance.randint(1, 60)]
    pieces = []
    while data:
        size = chance.choice((1, 3, 40, 400, len(data)))
        pieces.append(bytes(data[:size]))
        del data[:size]
    return pieces


def read(machine: Any, pieces: list[Any], allowed: tuple[type[Exception], ...]) -> None:
    """Feed a machine to its end, or to the first error that it may raise."""
    try:
        for piece in pieces:
            machine.feed(piece)
        machine.close()
    except allowed:
        pass


def _decoder(protocol: Protocol) -> Any:
    return protocol.wire().decoder(replace(FORCED, tool_choice="auto"))


MACHINES: dict[str, tuple[bytes, Callable[[], Any]]] = {
    "server-sent events": (STREAM, ServerSentEvents),
    "JSON lines": (LINES, JSONLines),
    "openai chat": (STREAM, lambda: OpenAIChatAdapter(SERVICES["openai"]).decoder(FORCED)),
    "openai chat with thoughts": (SPOKEN, lambda: OpenAIChatAdapter(SERVICES["huggingface"]).decoder(FORCED)),
    "ollama": (LINES, lambda: OllamaAdapter().decoder(FORCED)),
    "llama.cpp": (SPOKEN, lambda: LlamaCppAdapter().decoder(FORCED)),
}
# What a model does, on every wire; the chat wire is fuzzed above.
TURN = Turn(
    "I think so.", "It is:", (("call00001", "Album", TEXT[:120] + '"}'), ("call00002", "Album", "{}")), "length"
)
MACHINES |= {
    name: (
        b"".join(protocol.stream(TURN if protocol.in_pieces else replace(TURN, calls=()))),
        partial(_decoder, protocol),
    )
    for name, protocol in PROTOCOLS.items()
    if name != "chat"
}


@pytest.mark.gate("G1")
@pytest.mark.parametrize("name", MACHINES)
def test_bytes(name: str) -> None:
    body, make = MACHINES[name]
    chance = random.Random(name)
    for _ in range(RUNS):
        read(make(), damaged(body, chance), (ToolcastError,))


@pytest.mark.gate("G1")
def test_texts() -> None:
    chance = random.Random("texts")
    plan = plan_for(Album)
    for _ in range(RUNS):
        pieces = [piece.decode("utf-8", "replace") for piece in damaged(TEXT.encode(), chance)]
        read(JSONStream(), pieces, (JSONStreamError,))
        read(PartialValue(plan, fail_fast=False), pieces, (JSONStreamError,))


@pytest.mark.gate("G1")
def test_headers() -> None:
    chance = random.Random("headers")
    words = ("7", "-1", "nan", "inf", "1e400", "soon", "Wed, 21 Oct 2026 07:28:00 GMT", "0x7", "\u0665", "9" * 400)
    for _ in range(RUNS):
        value = "".join(chance.choice(words)[: chance.randint(0, 30)] for _ in range(chance.randint(1, 3)))
        waits = retry_after({chance.choice(("retry-after", "retry-after-ms")): value, "date": value}, 1.8e9)
        assert waits is None or waits >= 0
