"""Content encodings, undone piece by piece and within bounds."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given, strategies as st

from toolcast.errors import LimitExceeded, LLMError, MalformedEvent, StreamInterrupted
from toolcast.transport.content_decoding import PIECE, Inflated, Plain, decoder

TEXT = b"the sea, the sea " * 20


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


ENCODERS = {"gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress, "raw": raw_deflate}


def read(body: Plain | Inflated, pieces: list[bytes]) -> list[bytes]:
    """The plain pieces that come out."""
    plain: list[bytes] = []
    for piece in pieces:
        body.feed(piece)
        while data := body.take():
            plain.append(data)
    if isinstance(body, Inflated):
        body.close()
    return plain


def body_of(encoding: str) -> Plain | Inflated:
    return decoder({"content-encoding": "deflate" if encoding == "raw" else encoding})


@pytest.mark.fault(17)
@pytest.mark.parametrize("encoding", ENCODERS)
def test_any_cut_gives_the_same(encoding: str) -> None:
    packed = ENCODERS[encoding](TEXT)
    for cut in range(len(packed) + 1):
        assert b"".join(read(body_of(encoding), [packed[:cut], packed[cut:]])) == TEXT
    single = [packed[at : at + 1] for at in range(len(packed))]
    assert b"".join(read(body_of(encoding), single)) == TEXT


@pytest.mark.parametrize("named", ["", "identity", "Identity, identity", None])
def test_a_plain_body_passes_as_it_is(named: str | None) -> None:
    body = decoder({} if named is None else {"content-encoding": named})
    assert read(body, [b"\x1f\x8b", b"", b"x"]) == [b"\x1f\x8b", b"x"]


@pytest.mark.parametrize("encoding", ENCODERS)
def test_an_empty_body_is_empty(encoding: str) -> None:
    assert read(body_of(encoding), []) == []
    assert read(body_of(encoding), [b""]) == []
    assert read(body_of(encoding), [ENCODERS[encoding](b"")]) == []


@pytest.mark.fault(18)
@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_body_cut_short_is_reported(encoding: str) -> None:
    packed = ENCODERS[encoding](TEXT)
    for length in range(1, len(packed)):
        with pytest.raises(StreamInterrupted):
            read(body_of(encoding), [packed[:length]])


@pytest.mark.fault(19)
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_body_that_is_something_else_is_malformed(encoding: str) -> None:
    with pytest.raises(MalformedEvent, match=encoding):
        read(body_of(encoding), [b"data: {}\n\n"])


@pytest.mark.fault(19)
@pytest.mark.parametrize("named", ["br", "zstd", "gzip, gzip", "gzip, br", "\r\n"])
def test_an_encoding_not_asked_for_is_malformed(named: str) -> None:
    if named.strip():
        with pytest.raises(MalformedEvent, match="not asked for"):
            decoder({"content-encoding": named})
    else:
        assert isinstance(decoder({"content-encoding": named}), Plain)


def test_gzip_members_in_a_row_and_what_follows_them() -> None:
    two = gzip.compress(b"one ") + gzip.compress(b"two")
    for cut in range(len(two) + 1):
        assert b"".join(read(Inflated("gzip"), [two[:cut], two[cut:]])) == b"one two"
    assert b"".join(read(Inflated("gzip"), [two + b"\0" * 512])) == b"one two"
    assert b"".join(read(Inflated("gzip"), [two, b"\x1f", b"rest"])) == b"one two"
    assert b"".join(read(Inflated("deflate"), [zlib.compress(b"one"), b"\x1f\x8b"])) == b"one"


def test_pieces_are_bounded_and_complete() -> None:
    data = bytes(3 * PIECE + 5)
    plain = read(Inflated("gzip"), [gzip.compress(data)])
    assert b"".join(plain) == data
    assert max(map(len, plain)) == PIECE


@pytest.mark.fault(20)
@pytest.mark.gate("G6")
def test_a_bomb_is_refused_in_little_memory() -> None:
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(300)) + packer.flush()
    body = Inflated("gzip")
    body.feed(bomb)
    tracemalloc.start()
    with pytest.raises(LimitExceeded):
        while body.take():
            pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(bomb) > 290_000
    assert peak < 4 << 20


@given(st.sampled_from(["gzip", "deflate"]), st.lists(st.binary(max_size=50)), st.booleans())
def test_any_bytes_end_in_pieces_or_an_error_of_ours(encoding: str, pieces: list[bytes], real: bool) -> None:
    start = [ENCODERS[encoding](TEXT)[:-9]] if real else []
    try:
        plain = read(Inflated(encoding, limit=10_000), start + pieces)
    except LLMError:
        return
    assert sum(map(len, plain)) <= 10_000
