"""An envelope gives the arguments of events that differ in nothing else, and never of any other."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from toolcast.events import Event, ToolCallDelta
from toolcast.providers.compatible import GENERIC
from toolcast.providers.envelopes import Envelope
from toolcast.providers.openai_chat import OpenAIChatWire
from toolcast.providers.wire import Conversation

TEXTS = ["abcd", 'a"b', "\\", "\n", "é", "\U0001f600", '"}}]}', " ", "x" * 100]


def event(arguments: str, ascii: bool = True, /, **more: Any) -> bytes:
    call = {"index": 0, "function": {"arguments": arguments}}
    payload = {"id": "c1", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}], **more}
    return f"data: {json.dumps(payload, ensure_ascii=ascii)}\n\n".encode()


def learned(arguments: str = "abcd") -> Envelope:
    envelope = Envelope()
    envelope.learn(event(arguments), arguments)
    return envelope


@pytest.mark.parametrize("ascii", [True, False])
@pytest.mark.parametrize("first", TEXTS)
def test_knows_the_same_event_with_another_text(first: str, ascii: bool) -> None:
    envelope = learned(first)
    assert [envelope.text(event(text, ascii)) for text in TEXTS] == TEXTS


@pytest.mark.parametrize(
    "other",
    [
        event("abcd", usage={"prompt_tokens": 1}),
        event("abcd").replace(b'"index": 0', b'"index": 1'),
        event("abcd")[:-1],
        event("abcd") + event("abcd"),
        event("abcd").replace(b"abcd", b'a", "b": "c'),
        event("abcd").replace(b"abcd", b"a\\"),
        event("abcd").replace(b"abcd", b"\\ud800"),
        event("abcd").replace(b"abcd", b"\n"),
        event("abcd").replace(b'"abcd"', b'"'),
        event("abcd").replace(b'"abcd"', b"1"),
        b"data: [DONE]\n\n",
        b"",
    ],
)
def test_knows_no_other_event(other: bytes) -> None:
    assert learned().text(other) is None


def test_knows_nothing_before_it_has_learned_and_after_it_forgot() -> None:
    assert Envelope().text(event("abcd")) is None
    envelope = learned()
    envelope.forget()
    assert envelope.text(event("abcd")) is None


@pytest.mark.parametrize(
    ("data", "arguments"),
    [
        (b"data: {}\n\n", "abcd"),
        (event("abcd"), "other"),
        (event("abcd", arguments="abcd"), "abcd"),  # which of the two was it?
    ],
)
def test_learns_only_what_is_certain(data: bytes, arguments: str) -> None:
    envelope = Envelope()
    envelope.learn(data, arguments)
    assert envelope.text(data) is None


def test_gives_up_where_every_event_is_another() -> None:
    envelope = Envelope()
    for number in range(100):
        assert envelope.text(event("abcd", created=number)) is None
        envelope.forget()
        envelope.learn(event("abcd", created=number), "abcd")
    assert envelope.text(event("abcd", created=99)) is None


def test_a_clock_that_ticks_now_and_then_is_learned_anew() -> None:
    envelope = Envelope()
    for number in range(100):
        envelope.learn(event("abcd", created=number), "abcd")
        assert envelope.text(event("efgh", created=number)) == "efgh"


# In the decoder: events that are recognized give what they would give if each were taken apart.


def start(id: str = "call_1", index: int = 0) -> bytes:
    call = {"index": index, "id": id, "function": {"name": "f", "arguments": ""}}
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}).encode() + b"\n\n"


def decode(pieces: list[bytes]) -> list[Event]:
    decoder = OpenAIChatWire(GENERIC).decoder(Conversation("m", ()))
    decoder.feed(b": %s\n\n" % (b"x" * 2_000))  # by now it is clear that these are events
    events = [found for piece in pieces for found in decoder.feed(piece)]
    return events + decoder.close()


def delta(**delta: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"


OTHERS = [
    delta(content="Text."),
    delta(reasoning_content="Hm."),
    delta(reasoning_details=[{"type": "reasoning.text", "text": "Hm", "index": 0}]),
    start("call_2", 1),
    event("more").replace(b'{"index": 0, "function"', b'{"index": 1, "function"'),
    event("", usage={"prompt_tokens": 3, "completion_tokens": 4}),
    b": ping\n\n",
    b"data: noise\n\n",
    event("{"),
    event('{"a": 1}'),
]


@pytest.mark.parametrize("seed", range(60))
def test_the_decoder_gives_the_same_with_and_without(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    pieces = [start(), event('{"'), event("a")]
    for _ in range(40):
        pieces.append(chance.choice(OTHERS) if chance.random() < 0.2 else event(chance.choice([*TEXTS, "{", "}"])))
        if chance.random() < 0.1:
            pieces[-2:] = [b"".join(pieces[-2:])]
    pieces += [b"data: [DONE]\n\n"]
    with_it = decode(pieces)
    monkeypatch.setattr(Envelope, "text", lambda self, data: None)
    assert with_it == decode(pieces)


def test_the_decoder_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str | None] = []
    known = Envelope.text
    monkeypatch.setattr(Envelope, "text", lambda self, data: found.append(known(self, data)) or found[-1])
    texts = ['{"a', '":"', "b", "c", "{", '"}', "d"]
    events = decode([start(), *map(event, texts), b"data: [DONE]\n\n"])
    assert [found.arguments for found in events if type(found) is ToolCallDelta] == texts
    # Not the first, with which the call begins, nor the second, which is learned from. What "{" may mean takes a look
    # at the call; it is learned from as well.
    assert [text for text in found if text is not None] == texts[2:]
