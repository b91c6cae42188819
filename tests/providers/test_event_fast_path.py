"""An envelope gives the text of events that differ in nothing else, and never of any other."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from toolcast.errors import MalformedEvent
from toolcast.events import Event, TextDelta, ToolCallDelta
from toolcast.providers.anthropic.adapter import AnthropicAdapter
from toolcast.providers.base import ProviderAdapter, RequestInput
from toolcast.providers.chat_completions.adapter import OpenAIChatAdapter
from toolcast.providers.chat_completions.services import GENERIC, SERVICES
from toolcast.providers.cohere.adapter import CohereAdapter
from toolcast.providers.event_fast_path import Envelope
from toolcast.providers.google.adapter import GoogleAdapter
from toolcast.providers.ollama.adapter import OllamaAdapter
from toolcast.providers.openai.adapter import OpenAIResponsesAdapter

TEXTS = ["abcd", 'a"b', "\\", "\n", "é", "\U0001f600", '"}}]}', " ", "x" * 100]


def event(arguments: str, ascii: bool = True, /, **more: Any) -> bytes:
    call = {"index": 0, "function": {"arguments": arguments}}
    payload = {"id": "c1", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}], **more}
    return f"data: {json.dumps(payload, ensure_ascii=ascii)}\n\n".encode()


def learned(arguments: str = "abcd") -> Envelope:
    envelope = Envelope()
    envelope.learn(event(arguments), "arguments", arguments)
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
def test_only_a_certain_position_is_learned(data: bytes, arguments: str) -> None:
    envelope = Envelope()
    envelope.learn(data, "arguments", arguments)
    assert envelope.text(data) is None


def test_gives_up_where_every_event_is_another() -> None:
    envelope = Envelope()
    for number in range(100):
        assert envelope.text(event("abcd", created=number)) is None
        envelope.forget()
        envelope.learn(event("abcd", created=number), "arguments", "abcd")
    assert envelope.text(event("abcd", created=99)) is None


@pytest.mark.parametrize(("length", "text"), [(4000, "abcd"), (4001, None)])
def test_longer_events_are_not_learned(length: int, text: str | None) -> None:
    first = event("x" * (length - len(event(""))))
    envelope = Envelope()
    envelope.learn(first, "arguments", "x" * (length - len(event(""))))
    assert envelope.text(event("abcd")) == text


def test_a_clock_that_ticks_now_and_then_is_learned_anew() -> None:
    envelope = Envelope()
    for number in range(100):
        envelope.learn(event("abcd", created=number), "arguments", "abcd")
        assert envelope.text(event("efgh", created=number)) == "efgh"


# OpenAI's padding: another string of letters and digits in every event, so that its length does not reveal the text.


PADDINGS = ["", "a", "Zz09", "x" * 50, "0"]


def padded(arguments: str, padding: str = "kH3", ascii: bool = True, /, **more: Any) -> bytes:
    return event(arguments, ascii, obfuscation=padding, **more)


def learned_padded(arguments: str = "abcd", padding: str = "kH3") -> Envelope:
    envelope = Envelope()
    envelope.learn(padded(arguments, padding), "arguments", arguments)
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
    envelope.learn(padded("abcd", usage=None), "arguments", "abcd")
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
        envelope.learn(padded("abcd", "x" * (number % 9), created=number), "arguments", "abcd")
        assert envelope.text(padded("abcd", "y", created=number + 1)) is None


# Blanks before the last brace, a number, a time.


def blank(arguments: str, blanks: int = 3) -> bytes:
    call = {"type": "content_block_delta", "index": 0, "delta": {"arguments": arguments}}
    return f"event: content_block_delta\ndata: {json.dumps(call)[:-1]}{' ' * blanks}}}\n\n".encode()


def numbered(arguments: str, number: object, *, last: bool = False, **more: Any) -> bytes:
    fields = {"type": "100 %d", "sequence_number": number, "arguments": arguments, **more}
    if last:
        fields["sequence_number"] = fields.pop("sequence_number")
    return f"event: delta\ndata: {json.dumps(fields)}\n\n".encode()


def timed(arguments: str, time: str = "2026-03-04T05:06:07.12Z", model: str = "m") -> bytes:
    message = {"role": "assistant", "arguments": arguments}
    return json.dumps({"model": model, "created_at": time, "message": message, "done": False}).encode() + b"\n"


def taught(data: bytes, arguments: str = "abcd") -> Envelope:
    envelope = Envelope()
    envelope.learn(data, "arguments", arguments)
    return envelope


@pytest.mark.parametrize("text", [*TEXTS, '"}', '"}   }', "\\"])
@pytest.mark.parametrize("first", [0, 1, 14])
def test_passes_over_blanks(text: str, first: int) -> None:
    envelope = taught(blank(text, first), text)
    assert [envelope.text(blank(text, count)) for count in range(20)] == [text] * 20
    assert [envelope.text(blank(other)) for other in TEXTS] == TEXTS


@pytest.mark.parametrize(
    "other",
    [
        blank("abcd").replace(b"   ", b" \t "),
        blank("abcd").replace(b"   ", b" \n "),
        blank("abcd").replace(b"   ", b" , "),
        blank("abcd").replace(b"   ", b'  }, "a": {'),
        blank("abcd").replace(b"   ", b"abc"),
        blank("abcd").replace(b"event: content_block_delta", b"event: content_block_start"),
        blank("abcd").replace(b"event: content_block_delta\n", b""),
        blank("abcd").replace(b'"abcd"', b"1"),
        blank("abcd").replace(b'"abcd"', b'"a", "b": "c"'),
    ],
)
def test_passes_over_nothing_but_blanks(other: bytes) -> None:
    assert taught(blank("abcd")).text(other) is None


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("more", [{}, {"obfuscation": "kH3"}])
def test_the_next_event_has_the_next_number(last: bool, more: dict[str, Any]) -> None:
    envelope = taught(numbered("abcd", 7, last=last, **more))
    for number, text in enumerate(TEXTS, 8):
        assert envelope.text(numbered("abcd", number + 1, last=last, **more)) is None
        assert envelope.text(numbered("abcd", number - 1, last=last, **more)) is None
        assert envelope.text(numbered(text, number, last=last, **more)) == text


@pytest.mark.parametrize("number", ["8", 8.5, 80, 7, None, -8])
@pytest.mark.parametrize("last", [False, True])
def test_knows_no_event_with_another_number(number: object, last: bool) -> None:
    assert taught(numbered("abcd", 7, last=last)).text(numbered("abcd", number, last=last)) is None


@pytest.mark.parametrize("number", [0, 99, 10**14 - 1, 10**15 - 1, 10**40])
def test_numbers_may_become_longer(number: int) -> None:
    found = taught(numbered("abcd", number)).text(numbered("efgh", number + 1))
    assert found == ("efgh" if number < 10**15 else None)


def test_a_number_between_the_text_and_the_padding_is_not_passed_over() -> None:
    fields = {"arguments": "abcd", "sequence_number": 7, "obfuscation": "kH3"}
    data = f"data: {json.dumps(fields)}\n\n".encode()
    assert taught(data).text(data.replace(b"7", b"8")) is None
    assert taught(data).text(data.replace(b"kH3", b"q")) == "abcd"


@pytest.mark.parametrize("text", [*TEXTS, '", "message": {"role": "assistant", "arguments": "'])
def test_passes_over_a_time(text: str) -> None:
    envelope = taught(timed(text), text)
    for time in ("2026-03-04T05:06:07.123456789Z", "2026-03-04T05:06:07+01:00", "0"):
        assert [envelope.text(timed(other, time)) for other in [*TEXTS, text]] == [*TEXTS, text]


@pytest.mark.parametrize(
    "other",
    [timed("abcd", time) for time in ("", "a b", '"', "\\", '", "message": "', "é", "\n")]
    + [
        timed("abcd", model="other"),
        timed("abcd").replace(b'"2026-03-04T05:06:07.12Z"', b'"a", "b": "c"'),
        timed("abcd").replace(b'"2026-03-04T05:06:07.12Z"', b"null"),
        timed("abcd").replace(b"assistant", b"user"),
        timed("abcd").replace(b"assistant", b"abcd"),
        timed("abcd")[:60],
    ],
)
def test_passes_over_nothing_but_a_time(other: bytes) -> None:
    assert taught(timed("abcd")).text(other) is None


# In the decoder: events that are recognized give what they would give if each were taken apart.


def start(id: str = "call_1", index: int = 0) -> bytes:
    call = {"index": index, "id": id, "function": {"name": "f", "arguments": ""}}
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}).encode() + b"\n\n"


def decode(pieces: list[bytes]) -> list[Event]:
    decoder = OpenAIChatAdapter(GENERIC).decoder(RequestInput("m", ()))
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


def fast_path(monkeypatch: pytest.MonkeyPatch, text: Any) -> None:
    """Let `text` find the text of an event."""
    monkeypatch.setattr(Envelope, "text", text)


def seen_by_fast_path(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Return the list of what is found from now on: the text of an event, or None."""
    found: list[str | None] = []
    known = Envelope.text
    fast_path(monkeypatch, lambda self, data: found.append(known(self, data)) or found[-1])
    return found


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
    fast_path(monkeypatch, lambda self, data: None)
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
    fast_path(monkeypatch, lambda self, data: None)
    assert with_it == decode(pieces)


@pytest.mark.pure_only
def test_the_decoder_recognizes_padded_events(monkeypatch: pytest.MonkeyPatch) -> None:
    found = seen_by_fast_path(monkeypatch)
    texts = ['{"a', '":"', *LIKE_PADDING]
    events = decode([start(), *(padded(text, "aB3" * number) for number, text in enumerate(texts)), DONE])
    assert [found.arguments for found in events if type(found) is ToolCallDelta] == texts
    assert [text for text in found if text is not None] == texts[2:]


@pytest.mark.pure_only
def test_the_decoder_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = seen_by_fast_path(monkeypatch)
    texts = ['{"a', '":"', "b", "c", "{", '"}', "d"]
    events = decode([start(), *map(event, texts), b"data: [DONE]\n\n"])
    assert [found.arguments for found in events if type(found) is ToolCallDelta] == texts
    # Not the first, with which the call begins, nor the second, which is learned from. What "{" may mean takes a look
    # at the call; it is learned from as well.
    assert [text for text in found if text is not None] == texts[2:]


@pytest.mark.pure_only
@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("together", [1, 2, 7, 100])
def test_events_that_come_together_are_recognized_one_by_one(together: int, newline: bytes) -> None:
    texts = ['{"a', '":"', *"bcdefghijklmnop", '"}']
    sent = [piece.replace(b"\n", newline) for piece in (start(), *map(event, texts), b"data: [DONE]\n\n")]
    pieces = [b"".join(sent[first : first + together]) for first in range(0, len(sent), together)]
    decoder = OpenAIChatAdapter(GENERIC).decoder(RequestInput("m", ()))
    taken_apart: list[Any] = []
    apart = decoder._chunk  # what every other event goes through
    decoder._chunk = lambda chunk, out: taken_apart.append(chunk) or apart(chunk, out)
    events = [found for piece in pieces for found in decoder.feed(piece)] + decoder.close()
    assert [found.arguments for found in events if type(found) is ToolCallDelta] == texts
    assert len(taken_apart) == 3  # the beginning of the call, and those that are learned from


# The same on every wire, for events of all kinds, however they are cut.


def sse(name: str, newline: bytes = b"\n", blanks: int = 0, /, **payload: Any) -> bytes:
    head = b"event: %b%b" % (name.encode(), newline) if name else b""
    body = json.dumps(payload).encode()
    return b"%bdata: %b%b}%b%b" % (head, body[:-1], b" " * blanks, newline, newline)


class Sent(NamedTuple):
    """The events of a response: its first event, one with more text, others, and the last ones."""

    wire: ProviderAdapter
    begun: Callable[[int], bytes]
    more: Callable[[str, int, random.Random], bytes]
    others: Callable[[int, random.Random], bytes]
    ended: Callable[[int], bytes]


def block(kind: str, index: int, **more: Any) -> bytes:
    return sse(f"content_block_{kind}", type=f"content_block_{kind}", index=index, **more)


def anthropic(start: dict[str, Any], kind: str, field: str) -> Sent:
    message = {"id": "m1", "model": "m", "usage": {"input_tokens": 1}}
    ends = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}

    def more(text: str, number: int, chance: random.Random) -> bytes:
        name, blanks = "content_block_delta", chance.choice((0, 0, 3, 9))
        return sse(name, b"\n", blanks, type=name, index=0, delta={"type": kind, field: text})

    def other(number: int, chance: random.Random) -> bytes:
        found = block("start", number, content_block={"type": "text", "text": "abc"})
        return chance.choice((found, sse("ping", type="ping"), b"event: ping\n", b": x\n\n", b"data: noise\n\n"))

    return Sent(
        AnthropicAdapter(),
        lambda number: (
            sse("message_start", type="message_start", message=message) + block("start", 0, content_block=start)
        ),
        more,
        other,
        lambda number: sse("message_delta", **ends) + sse("message_stop", type="message_stop"),
    )


def responses(kind: str, item: dict[str, Any]) -> Sent:
    def at(name: str, number: int, **more: Any) -> bytes:
        return sse(f"response.{name}", type=f"response.{name}", sequence_number=number, output_index=0, **more)

    def more(text: str, number: int, chance: random.Random) -> bytes:
        return at(f"{kind}.delta", number, delta=text, obfuscation=chance.choice(("", "a", "Zz09", "a b", '"')))

    def other(number: int, chance: random.Random) -> bytes:
        return chance.choice((at("odd", number, delta="abc"), at("in_progress", number), b": x\n\n", b"id: 5\n"))

    return Sent(
        OpenAIResponsesAdapter(SERVICES["openai"]),
        lambda number: at("output_item.added", number, item=item),
        more,
        other,
        lambda number: at("completed", number, response={"status": "completed", "output": []}),
    )


def gemini() -> Sent:
    def part(number: int, *parts: dict[str, Any], **more: Any) -> bytes:
        candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0, **more}
        usage = {"promptTokenCount": 9, "candidatesTokenCount": number // 10}
        return sse("", b"\r\n", candidates=[candidate], usageMetadata=usage)

    def other(number: int, chance: random.Random) -> bytes:
        parts = chance.choice(([], [{"text": "a", "thought": True}], [{"text": "a"}, {"text": "b"}], [{"text": ""}]))
        return part(number, *parts)

    return Sent(
        GoogleAdapter(),
        lambda number: part(number, {"text": "Begun."}),
        lambda text, number, chance: part(number, {"text": text}),
        other,
        lambda number: part(number, {"text": ""}, finishReason="STOP"),
    )


def ollama() -> Sent:
    def line(number: int, done: bool = False, /, **message: Any) -> bytes:
        time = f"2026-03-04T05:06:07.{number:x}"
        spoken = {"role": "assistant", **message}
        return json.dumps({"model": "m", "created_at": time, "message": spoken, "done": done}).encode() + b"\n"

    def other(number: int, chance: random.Random) -> bytes:
        found = line(number, thinking="abc", content=chance.choice(("", "abc")))
        return chance.choice((found, b"\n", b"{}\n", b'{"error": \n', b" "))

    return Sent(
        OllamaAdapter(),
        lambda number: line(number, content="Begun."),
        lambda text, number, chance: line(number, content=text),
        other,
        lambda number: line(number, True, content=""),
    )


def cohere(begun: dict[str, Any], more: Callable[[str], dict[str, Any]]) -> Sent:
    def at(kind: str, message: dict[str, Any], index: int = 0, blanks: int = 0) -> bytes:
        return sse(kind, b"\n", blanks, type=kind, index=index, delta={"message": message})

    kind, start = next(iter(begun.items()))

    def other(number: int, chance: random.Random) -> bytes:
        plan = sse("tool-plan-delta", type="tool-plan-delta", delta={"message": {"tool_plan": "abc"}})
        thought = at("content-delta", {"content": {"thinking": "abc"}}, number)
        cited = at("citation-start", {"citations": {"start": 0, "end": 1, "text": "abc"}})
        return chance.choice((plan, thought, cited, sse("citation-end", type="citation-end"), b": x\n\n", b"id: 5\n"))

    return Sent(
        CohereAdapter(),
        lambda number: sse("message-start", type="message-start", id="c") + at(f"{kind}-start", start),
        lambda text, number, chance: at(f"{kind}-delta", more(text), blanks=chance.choice((0, 0, 3))),
        other,
        lambda number: sse("message-end", type="message-end", delta={"finish_reason": "MAX_TOKENS"}),
    )


SENT = {
    "cohere arguments": cohere(
        {"tool-call": {"tool_calls": {"id": "t1", "type": "function", "function": {"name": "f", "arguments": ""}}}},
        lambda text: {"tool_calls": {"function": {"arguments": text}}},
    ),
    "cohere text": cohere(
        {"content": {"content": {"type": "text", "text": "Begun."}}}, lambda text: {"content": {"text": text}}
    ),
    "anthropic arguments": anthropic({"type": "tool_use", "id": "t1", "name": "f"}, "input_json_delta", "partial_json"),
    "anthropic text": anthropic({"type": "text", "text": ""}, "text_delta", "text"),
    "responses arguments": responses(
        "function_call_arguments", {"type": "function_call", "id": "f1", "call_id": "c1", "name": "f"}
    ),
    "responses text": responses("output_text", {"type": "message", "id": "m1"}),
    "gemini text": gemini(),
    "ollama text": ollama(),
}


def answer(sent: Sent, chance: random.Random, odd: float) -> list[bytes]:
    pieces = [sent.begun(1)]
    for number in range(2, 60):
        text = chance.choice([*TEXTS, *LIKE_PADDING, "{", "}"])
        pieces.append(sent.others(number, chance) if chance.random() < odd else sent.more(text, number, chance))
    return [*pieces, sent.ended(60)]


def cut(pieces: list[bytes], chance: random.Random) -> list[bytes]:
    """The same bytes, here and there in other pieces."""
    out: list[bytes] = []
    for piece in pieces:
        place = chance.randrange(len(piece)) if chance.random() < 0.15 else 0
        if out and chance.random() < 0.1:
            out[-1] += piece
        elif place:
            out += [piece[:place], piece[place:]]
        else:
            out.append(piece)
    return out


def read(sent: Sent, pieces: list[bytes]) -> list[Event]:
    decoder = sent.wire.decoder(RequestInput("m", ()))
    return [found for piece in pieces for found in decoder.feed(piece)] + decoder.close()


@pytest.mark.parametrize("name", SENT)
@pytest.mark.parametrize("seed", range(40))
def test_every_decoder_gives_the_same_with_and_without(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    pieces = answer(SENT[name], chance, 0.15)
    with_it = read(SENT[name], cut(pieces, chance))
    assert with_it == read(SENT[name], pieces)
    fast_path(monkeypatch, lambda self, data: None)
    assert with_it == read(SENT[name], [b"".join(pieces)])


@pytest.mark.pure_only
@pytest.mark.parametrize("together", [1, 5])
@pytest.mark.parametrize("name", SENT)
def test_every_decoder_uses_it(name: str, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = seen_by_fast_path(monkeypatch)
    sent = answer(SENT[name], random.Random(1), 0)
    events = read(SENT[name], [b"".join(sent[first : first + together]) for first in range(0, len(sent), together)])
    given = [event.arguments if isinstance(event, ToolCallDelta) else event.text for event in events[1:] if grew(event)]
    found = [text for text in looked if text]
    assert len(given) >= len(found) > 10
    assert not set(found) - set(given)


def grew(event: Event) -> bool:
    return isinstance(event, (TextDelta, ToolCallDelta))


def test_text_in_the_middle_of_a_line_is_no_event() -> None:
    """Nor is it one to the envelope, though it looks like the last one."""
    texts = ['{"a', '":"', "b"]
    pieces = [start(), *map(event, texts), b"da", event("not this"), event("c"), DONE]
    assert decode(pieces) == decode([start(), *map(event, texts), event("c"), DONE])


def test_nothing_comes_after_the_end() -> None:
    pieces = [start(), event('{"a'), event('":1}'), DONE]
    assert decode([*pieces, event("more")]) == decode(pieces)


def test_an_event_of_several_lines_is_not_learned_from() -> None:
    several = event("ab").replace(b'"choices"', b'\ndata: "choices"')
    looks_so = several.replace(b"\ndata: ", b"\n").replace(b"ab", b"cd")
    with pytest.raises(MalformedEvent):
        decode([start(), several, looks_so, DONE])
