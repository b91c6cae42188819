"""Server-sent events and JSON lines: the same frames for every cut, for everything real servers write."""

from __future__ import annotations

import itertools
from typing import Any

import httpx_sse
import pytest
from hypothesis import given, strategies as st

from toolcast.errors import LimitExceeded
from toolcast.providers.sse import LIMIT, SSE, JSONLines, ServerSentEvents


def events(pieces: list[bytes], limit: int = LIMIT) -> list[SSE]:
    machine = ServerSentEvents(limit)
    found = [event for piece in pieces for event in machine.feed(piece)]
    return found + machine.close()


def documents(pieces: list[bytes]) -> list[bytes]:
    machine = JSONLines()
    found = [document for piece in pieces for document in machine.feed(piece)]
    return found + machine.close()


def every_cut(body: bytes) -> list[list[bytes]]:
    single = [[body[:at], body[at:]] for at in range(len(body) + 1)]
    return [[body], [body[at : at + 1] for at in range(len(body))], *single]


SSE_BODIES = [
    pytest.param(b"data: a\n\ndata: b\n\n", [("", b"a"), ("", b"b")], id="lf"),
    pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [("", b"a"), ("", b"b")], id="crlf"),
    pytest.param(b"data: a\r\rdata: b\r\r", [("", b"a"), ("", b"b")], id="cr"),
    pytest.param(b"data: a\r\n\ndata: b\n\rdata: c\r\r\n", [("", b"a"), ("", b"b"), ("", b"c")], id="mixed"),
    pytest.param(b"\xef\xbb\xbfdata: a\n\n", [("", b"a")], id="bom"),
    pytest.param(b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", [("", b"a")], id="bom in the middle is no bom"),
    pytest.param(b"data: \xef\xbb\xbfa\n\n", [("", b"\xef\xbb\xbfa")], id="bom inside data is kept"),
    pytest.param(b": ping\n\n:\n\ndata: a\n: x\n\n", [("", b"a")], id="comments"),
    pytest.param(b"data: a\ndata: b\n\n", [("", b"a\nb")], id="two data lines"),
    pytest.param(b"data: a\r\ndata: b\r\n\r\n", [("", b"a\nb")], id="two data lines with crlf"),
    pytest.param(b"data:a\n\ndata:  a\n\n", [("", b"a"), ("", b" a")], id="no space and two spaces"),
    pytest.param(b"data\n\ndata: a\ndata\n\n", [("", b""), ("", b"a\n")], id="data without a colon"),
    pytest.param(b"event: x\ndata: a\n\ndata: b\n\n", [("x", b"a"), ("", b"b")], id="event name"),
    pytest.param(b"event: ping\n\ndata: b\n\n", [("", b"b")], id="an event without data is none"),
    pytest.param(b"id: \x00\nretry: soon\nfoo: 1\nerror: x\ndata: a\n\n", [("", b"a")], id="other fields are ignored"),
    pytest.param(
        b'error: {"code":1}\n\ndata: b\n\n', [("error", b'{"code":1}'), ("", b"b")], id="llama.cpp's error field"
    ),
    pytest.param(
        "data: \u2028\u2029\x85\x0b\x0c\x1c\n\n".encode(),
        [("", "\u2028\u2029\x85\x0b\x0c\x1c".encode())],
        id="line ends of Unicode are text",
    ),
    pytest.param(b"data: a\n\ndata: b", [("", b"a"), ("", b"b")], id="no blank line at the end"),
    pytest.param(b"data: a\n\n\n\ndata: b\n\n\n", [("", b"a"), ("", b"b")], id="more blank lines"),
    pytest.param(b"data: a\n\ndata: b\nid: 1\n\ndata: c\n\n", [("", b"a"), ("", b"b"), ("", b"c")], id="between"),
    pytest.param(b"", [], id="nothing"),
    pytest.param(b"\n\n", [], id="blank"),
]


@pytest.mark.fault(41, 42, 43, 44, 45, 46, 47, 49)
@pytest.mark.parametrize(("body", "expected"), SSE_BODIES)
def test_server_sent_events_for_every_cut(body: bytes, expected: list[tuple[str, bytes]]) -> None:
    for pieces in every_cut(body):
        assert events(pieces) == expected, pieces


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_a_buffer_of_any_type(make: Any) -> None:
    assert events([make(b"data: a\n\n"), make(b"data: b\n")]) == [("", b"a"), ("", b"b")]
    assert documents([make(b"1\n"), make(b"2")]) == [b"1", b"2"]


def test_whole_events_after_whole_events() -> None:
    machine = ServerSentEvents()
    assert machine.feed(b"data: a\n\n") == [SSE("", b"a")]
    assert machine.feed(b"data: b\n\n") == [SSE("", b"b")]
    assert machine.feed(b"data: c\n\ndata: d\n\n") == [("", b"c"), ("", b"d")]
    assert machine.feed(b"data: e\ndata: f\n\n: x\n\n") == [("", b"e\nf")]
    assert machine.feed(b"") == []
    assert machine.feed(b"event: x\ndata: g\n\n") == [("x", b"g")]
    assert machine.close() == []


@pytest.mark.fault(53)
@pytest.mark.gate("G6")
@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b"data: " + b"x" * 40], id="without a line end"),
        pytest.param([b"data: "] + [b"x"] * 40, id="byte by byte"),
        pytest.param([b"data: " + b"x" * 40 + b"\n\n"], id="with a line end"),
        pytest.param([b"data: a\n\n", b"data: " + b"x" * 40 + b"\n\n"], id="after another"),
        pytest.param([b"data: xxxxxxxxxx\n"] * 4, id="in many lines"),
    ],
)
def test_an_event_over_the_limit(pieces: list[bytes]) -> None:
    with pytest.raises(LimitExceeded, match="32 bytes"):
        events(pieces, limit=32)


@pytest.mark.fault(53)
@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n", b"\r\n\r\n"])
def test_an_event_may_be_as_long_as_the_limit(end: bytes) -> None:
    body = b"data: " + b"x" * 26
    assert events([body + end], limit=len(body + end)) == [("", b"x" * 26)]
    assert events([body[:9], body[9:] + end], limit=len(body + end)) == [("", b"x" * 26)]
    with pytest.raises(LimitExceeded):
        events([body + end], limit=25)


def test_many_events_together_may_pass_the_limit() -> None:
    assert len(events([b"data: a\n\n" + b"data: b\n\n" * 20], limit=32)) == 21


TEXT = st.text(st.sampled_from("da:t e\n\r\n\r\u2028\ufeff{}0\x00é"), max_size=60)


@pytest.mark.fault(42)
@given(body=TEXT.map(str.encode), cuts=st.lists(st.integers(0, 120), max_size=8))
def test_any_cut_of_anything_gives_the_same(body: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(body)]
    pieces = [body[a:b] for a, b in itertools.pairwise(edges)]
    assert events(pieces) == events([body])
    assert documents(pieces) == documents([body])


def by_httpx_sse(body: str) -> list[tuple[str, bytes]]:
    # Its line splitting cuts at Unicode's line ends, so it is given the lines.
    decoder = httpx_sse._decoders.SSEDecoder()
    lines = body.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    decoded = [decoder.decode(line) for line in lines]
    return [("" if e.event == "message" else e.event, e.data.encode()) for e in decoded if e is not None]


LINES = st.sampled_from(
    ["data: a", "data:b", "data", "event: x", "", "", ": c", "id: 1", "foo", "data:  {}", "retry: 5"]
)


@pytest.mark.fault(44)
@given(lines=st.lists(LINES), end=st.sampled_from(["\n", "\r\n", "\r"]))
def test_agrees_with_httpx_sse(lines: list[str], end: str) -> None:
    body = end.join([*lines, "", ""])
    # An event without data, which the standard drops, httpx_sse passes on.
    expected = [found for found in by_httpx_sse(body) if found[1] or "data" in lines]
    ours = events([body.encode()])
    assert [found for found in ours if found[1]] == [found for found in expected if found[1]]


@pytest.mark.fault(54)
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}'], id="lf"),
        pytest.param(b'{"a":1}\r\n\r\n{"b":2}\r\n', [b'{"a":1}', b'{"b":2}'], id="crlf and blank lines"),
        pytest.param(b'\xef\xbb\xbf{"a":1}\n  \n{"b":2}', [b'{"a":1}', b'{"b":2}'], id="no last line end, bom"),
        pytest.param(b'{"a":1}{"b":[{}]} {"c":2}\n', [b'{"a":1}', b'{"b":[{}]}', b'{"c":2}'], id="on one line"),
        pytest.param(b'{"a":"} {\\"}{"}\n', [b'{"a":"} {\\"}{"}'], id="brackets in a string"),
        pytest.param(b'{"a":1}{"b"', [b'{"a":1}', b'{"b"'], id="the second one cut off"),
        pytest.param(b'}{"b":1}', [b'}{"b":1}'], id="brackets that do not match"),
        pytest.param(b"", [], id="nothing"),
    ],
)
def test_json_lines_for_every_cut(body: bytes, expected: list[bytes]) -> None:
    for pieces in every_cut(body):
        assert documents(pieces) == expected, pieces


@pytest.mark.fault(53)
def test_a_line_over_the_limit() -> None:
    with pytest.raises(LimitExceeded):
        JSONLines(8).feed(b'{"a":1234567}\n')


@pytest.mark.parametrize(
    ("data", "crlf"),
    [
        (b"data: a\n\n", False),
        (b"data: a\r\n\r\n", True),
        (b": x\r\ndata: a\r\n\r\n", True),
        (b"data: a\r\r", False),
        (b"event: b\ndata: a\n\n", False),
    ],
)
def test_crlf_line_ends_are_detected(data: bytes, crlf: bool) -> None:
    machine = ServerSentEvents()
    machine.feed(data)
    assert machine.crlf is crlf


@pytest.mark.parametrize(
    ("data", "between"), [(b"", False), (b"{}\n", True), (b"{}\r\n", True), (b"{}\r", False), (b"{}\n{", False)]
)
def test_between_two_lines(data: bytes, between: bool) -> None:
    machine = JSONLines()
    machine.feed(data)
    assert machine.between is between


@pytest.mark.parametrize(
    "body", [b"data: a\r\n\r\n", b"data: a\r\n\r\ndata: b\r\n\r\n", b"data: a\n\n", b"data: a\n\ndata: b\n\n"]
)
def test_the_line_ends_of_whole_events_are_noted(body: bytes) -> None:
    machine = ServerSentEvents()
    machine.feed(body)
    assert machine.crlf is (b"\r\n" in body)
