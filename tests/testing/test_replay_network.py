"""Replayed responses in chunks, and the virtual clock."""

from __future__ import annotations

import anyio
import pytest

from toolcast.errors import ConnectFailed, ToolcastError
from toolcast.testing import Recorded, ReplayNetwork, VirtualClock
from toolcast.values.http_request import HTTPRequest

REQUEST = HTTPRequest("POST", "http://example.com", {}, b"")


def read(network: ReplayNetwork) -> list[bytes]:
    """The pieces of the next answer."""
    reply = network.open(REQUEST, connect=None, read=None)
    return list(iter(reply.read, b""))


async def aread(network: ReplayNetwork) -> list[bytes]:
    reply = await network.aopen(REQUEST, connect=None, read=None)
    pieces = []
    while piece := await reply.read(None):
        pieces.append(piece)
    await reply.aclose()
    await reply.aclose()
    return pieces


@pytest.mark.parametrize(
    ("body", "piece", "expected"),
    [
        (b"abcde", 2, [b"ab", b"cd", b"e"]),
        ("é", 1, [b"\xc3", b"\xa9"]),
        ("abc", None, [b"abc"]),
        ("", None, []),
        (b"", 3, []),
    ],
)
def test_a_body_in_pieces(body: bytes | str, piece: int | None, expected: list[bytes]) -> None:
    network = ReplayNetwork(Recorded.of(body, piece), Recorded.of(body, piece))
    assert read(network) == expected
    assert anyio.run(aread, network) == expected


def test_status_and_headers() -> None:
    network = ReplayNetwork(Recorded.of("no", status=404), Recorded([b"x"], 201, {"a": "b"}))
    reply = network.open(REQUEST, connect=None, read=None)
    assert (reply.status, reply.headers["content-type"]) == (404, "text/event-stream")

    async def main() -> None:
        reply = await network.aopen(REQUEST, connect=None, read=None)
        assert (reply.status, reply.headers) == (201, {"a": "b"})

    anyio.run(main)


def test_replies_are_counted_until_they_are_given_back() -> None:
    network = ReplayNetwork(Recorded([b"a"]), Recorded([b"b"]))
    first = network.open(REQUEST, connect=None, read=None)
    network.open(REQUEST, connect=None, read=None)
    assert (network.open_replies, network.closed_replies) == (2, 0)
    first.close()
    first.close()
    assert (network.open_replies, network.closed_replies) == (1, 1)
    assert network.requests == [REQUEST, REQUEST]


def test_exceptions_where_they_stand() -> None:
    refused, broken = ConnectFailed("no"), OSError("reset")
    network = ReplayNetwork(refused, Recorded([b"a", broken]))
    with pytest.raises(ConnectFailed) as caught:
        network.open(REQUEST, connect=None, read=None)
    assert caught.value is refused
    assert network.open_replies == 0
    reply = network.open(REQUEST, connect=None, read=None)
    assert reply.read() == b"a"
    with pytest.raises(OSError, match="reset"):
        reply.read()


def test_one_request_too_many() -> None:
    network = ReplayNetwork(Recorded())
    read(network)
    with pytest.raises(ToolcastError, match="1 answers are recorded, but another request was made"):
        read(network)


def test_closing_takes_nothing_away() -> None:
    network = ReplayNetwork(Recorded([b"a"]), Recorded([b"b"]))
    network.close()
    assert read(network) == [b"a"]
    anyio.run(network.aclose)
    assert read(network) == [b"b"]


def test_the_clock_moves_when_advanced() -> None:
    clock = VirtualClock(now=5, wall=100)
    clock.sleep(2)
    anyio.run(clock.asleep, 0.5)
    clock.advance(1)
    assert (clock.now(), clock.time()) == (8.5, 103.5)
    assert clock.slept == [2, 0.5]
