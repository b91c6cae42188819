"""The framing of AWS event streams: every cut gives the same messages, and botocore reads the same."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import pairwise
from typing import Any
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer  # type: ignore[import-untyped]  # it has no types
from hypothesis import example, given, strategies as st

from support.aws_event_messages import HeaderType, event, exception, header, message, text_headers
from toolcast.errors import LimitExceeded, LLMError, MalformedEvent
from toolcast.providers.aws_event_stream import AWSEventMessage, AWSEventStream, is_event_stream

TEXT = st.text(max_size=20)
VALUES: dict[HeaderType, st.SearchStrategy[Any]] = {
    "true": st.none(),
    "false": st.none(),
    "byte": st.integers(-(2**7), 2**7 - 1),
    "short": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "bytes": st.binary(max_size=30),
    "str": TEXT,
    "time": st.integers(0, 2**53),
    "uuid": st.binary(min_size=16, max_size=16),
}
NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=20)
HEADERS = st.dictionaries(
    NAMES, st.sampled_from(sorted(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind])), max_size=4
).map(lambda found: b"".join(header(name, kind, value) for name, (kind, value) in found.items()))
MESSAGES = st.lists(st.builds(message, HEADERS, st.binary(max_size=60)), max_size=4)


def ours(*chunks: bytes) -> tuple[list[AWSEventMessage], str]:
    """The messages, and the error that ended them."""
    stream, found = AWSEventStream(), list[AWSEventMessage]()
    try:
        for each in chunks:
            for one in stream.feed(each):
                found.append(one)
    except LLMError as error:
        return found, f"{type(error).__name__}: {error.message}"
    return found, "" if stream.between else "unfinished"


def theirs(body: bytes) -> list[tuple[dict[str, Any], bytes]]:
    buffer = EventStreamBuffer()
    buffer.add_data(body)
    return [(each.headers, each.payload) for each in buffer]


def cut(body: bytes, places: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


@given(MESSAGES, st.lists(st.integers(0, 10_000), max_size=6))
def test_every_cut_is_read_as_botocore_reads_the_whole(messages: list[bytes], places: list[int]) -> None:
    body = b"".join(messages)
    expected = [AWSEventMessage(*each) for each in theirs(body)]
    assert len(expected) == len(messages)
    assert ours(body) == (expected, "")
    assert ours(*cut(body, places)) == (expected, "")
    assert ours(*(body[at : at + 1] for at in range(len(body)))) == (expected, "")


@given(MESSAGES.filter(bool), st.integers(0, 10_000), st.integers(1, 255), st.lists(st.integers(0, 10_000), max_size=4))
@example([message(b"", b"")], 8, 1, [])
def test_a_changed_byte_is_an_error_at_the_same_place_for_every_cut(
    messages: list[bytes], place: int, change: int, places: list[int]
) -> None:
    body = bytearray(b"".join(messages))
    body[place % len(body)] ^= change
    whole = ours(bytes(body))
    assert "Error" not in whole[1] and whole[1].startswith("MalformedEvent")
    assert ours(*cut(bytes(body), places)) == whole
    assert ours(*(bytes(body[at : at + 1]) for at in range(len(body)))) == whole
    for found, expected in zip(whole[0], messages, strict=False):  # the messages before the damage are there
        assert theirs(expected) == [(found.headers, found.payload)]


@given(MESSAGES.filter(bool), st.integers(1, 10_000))
def test_an_incomplete_message_is_noticed(messages: list[bytes], missing: int) -> None:
    body = b"".join(messages)
    kept = body[: len(body) - 1 - missing % len(body)]
    borders = {0, *(len(b"".join(messages[:number])) for number in range(len(messages)))}
    found, problem = ours(kept)
    assert problem == ("" if len(kept) in borders else "unfinished")
    assert len(found) < len(messages)


def test_the_types_of_headers() -> None:
    kinds: dict[HeaderType, Any] = {
        "true": True,
        "false": False,
        "byte": -3,
        "short": -300,
        "int": -(2**20),
        "long": 2**40,
        "bytes": b"\x00\xff",
        "str": "é",
        "time": 1_700_000_000_000,
        "uuid": bytes(range(16)),
    }
    body = message(b"".join(header(kind, kind, value) for kind, value in kinds.items()), b"x")
    ((found,), problem) = ours(body)
    assert (found.headers, found.payload, problem) == (kinds, b"x", "")
    assert (found.text("str"), found.text("int"), found.text("none")) == ("é", "", "")


@pytest.mark.parametrize(
    "headers",
    [
        b"\x05abc",  # a name without its end
        b"\x01a",  # no type
        b"\x01a\x0a",  # an unknown type
        b"\x01a\x04\x00",  # half a number
        b"\x01a\x07\x00\x09abc",  # a text without its end
        b"\x01a\x07\x00\x01\xff",  # no UTF-8
        b"\x01\xff\x00",  # no UTF-8 in the name
        b"\x01a\x09abc",  # half a UUID
    ],
)
def test_headers_that_cannot_be_read(headers: bytes) -> None:
    before = event("messageStart", {})
    found, problem = ours(before + message(headers, b"{}"))
    assert len(found) == 1
    assert problem.startswith("MalformedEvent") and "headers of a message" in problem


def prelude(total: int, headers: int) -> bytes:
    lengths = struct.pack("!II", total, headers)
    return lengths + struct.pack("!I", crc32(lengths))


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (prelude(16 + 25 * 2**20, 0), LimitExceeded),
        (prelude(2**19, 2**18), LimitExceeded),
        (prelude(15, 0), MalformedEvent),
        (prelude(20, 5), MalformedEvent),
        (b"\x00" * 12, MalformedEvent),
    ],
)
def test_lengths_that_cannot_be(start: bytes, kind: type[LLMError]) -> None:
    """Refused by the first twelve bytes: nothing is waited for."""
    stream = AWSEventStream()
    assert list(stream.feed(start[:11])) == []
    with pytest.raises(kind):
        list(stream.feed(start[11:]))


def test_the_largest_message_of_botocore_is_read() -> None:
    body = message(b"", b"x" * 24 * 2**20)
    ((found,), _) = ours(body[:1000], body[1000:])
    assert len(found.payload) == 24 * 2**20
    assert theirs(body) == [({}, found.payload)]


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_a_buffer_of_any_type(make: Any) -> None:
    stream = AWSEventStream()
    assert len(list(stream.feed(make(event("a", {}) + event("b", {}))))) == 2
    assert stream.between


def test_what_begins_as_an_event_stream() -> None:
    assert is_event_stream(event("messageStart", {})) and is_event_stream(exception("x", {}))
    assert is_event_stream(message(b"", b"x" * 2**20))
    for text in (b"", b"{}", b" {}", b"\n\n", b"\t{", b"data: {}", b"<html>", b"\xef\xbb\xbf{}"):
        assert not is_event_stream(text)


def test_a_recorded_message_of_the_documentation() -> None:
    """The test vector of the AWS SDKs, "all_headers" without its headers: an empty message and one with a payload."""
    empty = bytes.fromhex("000000100000000005c248eb7d98c8ff")
    payload = bytes.fromhex("0000001d00000000fd528c5a") + b"{'foo':'bar'}" + bytes.fromhex("c3653936")
    found, problem = ours(empty + payload)
    assert [each.payload for each in found] == [b"", b"{'foo':'bar'}"]
    assert problem == ""
    assert text_headers(event_type="x")[1:12] == b":event-type"
