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
        (event("abcd").replace(b"abcd", b"\\ud800"), "\ufffd"),  # it had to be repaired
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


# OpenAI's padding: another string of letters and digits in every event, so that nobody can tell the text by its length.


PADDINGS = ["", "a", "Zz09", "x" * 50, "0"]


def padded(arguments: str, padding: str = "kH3", ascii: bool = True, /, **more: Any) -> bytes:
    return event(arguments, ascii, obfuscation=padding, **more)


def learned_padded(arguments: str = "abcd", padding: str = "kH3") -> Envelope:
    envelope = Envelope()
    envelope.learn(padded(arguments, padding), arguments)
    return envelope


@pytest.mark.parametrize("ascii", [True, False])
@pytest.mark.parametrize("first", TEXTS)
@pytest.mark.parametrize("padding", PADDINGS)
def test_passes_over_padding(first: str, padding: str, ascii: bool) -> None:
    envelope = learned_padded(first, padding)
    for other in PADDINGS:
        assert [envelope.text(padded(text, other, ascii)) for text in TEXTS] == TEXTS
        assert envelope.text(padded("a", other, service="b")) is None


def test_padding_may_stand_anywhere_after_the_arguments() -> None:
    envelope = Envelope()
    envelope.learn(padded("abcd", usage=None), "abcd")
    assert [envelope.text(padded(text, "Q7", usage=None)) for text in TEXTS] == TEXTS
    assert envelope.text(padded("abcd", usage={"prompt_tokens": 1})) is None


LIKE_PADDING = [
    '"}}]}}], "obfuscation": "abc"}',
    '"}}]}}],"obfuscation":"',
    ', "obfuscation": "',
    '"obfuscation": "abc"',
    'obfuscation": "',
    '"}\n\ndata: {"obfuscation": "abc"}',
    "obfuscation",
]


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("text", LIKE_PADDING)
def test_arguments_that_look_like_padding_are_arguments(text: str, padding: str) -> None:
    assert learned_padded().text(padded(text, padding)) == text
    envelope = learned_padded(text, padding)
    assert [envelope.text(padded(other, "q")) for other in [*TEXTS, *LIKE_PADDING]] == [*TEXTS, *LIKE_PADDING]
    assert learned(text).text(event(text)) == text


@pytest.mark.parametrize(
    "other",
    [
        event("abcd"),
        padded("abcd", "a b"),
        padded("abcd", "a-b"),
        padded("abcd", "é"),
        padded("abcd", "é", False),
        padded("abcd", "\\"),
        padded("abcd", '"'),
        padded("abcd", '", "choices": "'),
        padded("abcd", usage={"prompt_tokens": 1}),
        padded("abcd", created=3),
        padded("abcd").replace(b'"kH3"', b"null"),
        padded("abcd").replace(b'"kH3"', b"3"),
        padded("abcd").replace(b'"kH3"', b'"a", "obfuscation": "b"'),
        padded("abcd").replace(b'"kH3"', b'"a", "usage": "b"'),
        padded("abcd").replace(b'"index": 0, "function"', b'"index": 1, "function"'),
        padded("abcd") + padded("abcd"),
        padded("abcd")[:-1],
        padded("abcd").replace(b"abcd", b'a", "b": "c'),
        padded("abcd").replace(b"abcd", b"a\\"),
        padded("abcd").replace(b"abcd", b"\n"),
        padded("abcd").replace(b"abcd", b"\\ud800"),
        padded("abcd").replace(b'"abcd"', b"1"),
        b"data: [DONE]\n\n",
        b"",
    ],
)
def test_knows_no_other_event_beside_a_padded_one(other: bytes) -> None:
    assert learned_padded().text(other) is None


def test_knows_no_padding_that_does_not_end() -> None:
    assert learned_padded().text(padded("abcd").replace(b'"kH3"', b'"')) is None


def test_knows_no_padded_event_where_none_was_padded() -> None:
    assert learned().text(padded("abcd")) is None


def test_a_second_field_that_varies_is_never_recognized() -> None:
    envelope = Envelope()
    for number in range(100):
        envelope.learn(padded("abcd", "x" * (number % 9), created=number), "abcd")
        assert envelope.text(padded("abcd", "y", created=number + 1)) is None


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


DONE = b"data: [DONE]\n\n"

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


@pytest.mark.parametrize("seed", range(60))
def test_the_decoder_gives_the_same_of_padded_events(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Now and then one without padding, with another, or one that wants to be taken for padding."""
    chance = random.Random(seed)
    texts = [*TEXTS, *LIKE_PADDING, "{", "}"]
    paddings = [*PADDINGS, *PADDINGS, "a b", '"', "\\"]
    pieces = [start(), padded('{"'), padded("a")]
    for _ in range(60):
        kind = chance.random()
        if kind < 0.15:
            pieces.append(chance.choice(OTHERS))
        elif kind < 0.25:
            pieces.append(event(chance.choice(texts)))
        else:
            pieces.append(padded(chance.choice(texts), chance.choice(paddings)))
        if chance.random() < 0.1:
            pieces[-2:] = [b"".join(pieces[-2:])]
    pieces.append(DONE)
    with_it = decode(pieces)
    monkeypatch.setattr(Envelope, "text", lambda self, data: None)
    assert with_it == decode(pieces)


def test_the_decoder_recognizes_padded_events(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str | None] = []
    known = Envelope.text
    monkeypatch.setattr(Envelope, "text", lambda self, data: found.append(known(self, data)) or found[-1])
    texts = ['{"a', '":"', *LIKE_PADDING]
    events = decode([start(), *(padded(text, "aB3" * number) for number, text in enumerate(texts)), DONE])
    assert [found.arguments for found in events if type(found) is ToolCallDelta] == texts
    assert [text for text in found if text is not None] == texts[2:]


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


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("together", [1, 2, 7, 100])
def test_events_that_come_together_are_recognized_one_by_one(together: int, newline: bytes) -> None:
    texts = ['{"a', '":"', *"bcdefghijklmnop", '"}']
    sent = [piece.replace(b"\n", newline) for piece in (start(), *map(event, texts), b"data: [DONE]\n\n")]
    pieces = [b"".join(sent[first : first + together]) for first in range(0, len(sent), together)]
    decoder = OpenAIChatWire(GENERIC).decoder(Conversation("m", ()))
    taken_apart: list[Any] = []
    apart = decoder._chunk  # what every other event goes through
    decoder._chunk = lambda chunk, out: taken_apart.append(chunk) or apart(chunk, out)
    events = [found for piece in pieces for found in decoder.feed(piece)] + decoder.close()
    assert [found.arguments for found in events if type(found) is ToolCallDelta] == texts
    assert len(taken_apart) == 3  # the beginning of the call, and those that are learned from
