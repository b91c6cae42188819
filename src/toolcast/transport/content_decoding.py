"""Content encodings of response bodies, decoded incrementally.

httpx decompresses all data of one network read at once, so that 291 kB of gzip become 300 MB in memory. Here a chunk is
at most `PIECE` bytes, and a body at most `LIMIT`. A decoder is fed with the received bytes, and then read until it
returns none. There is no I/O here.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Protocol

from ..errors import LimitExceeded, MalformedEvent, StreamInterrupted

PIECE = 256 * 1024
LIMIT = 64 * 1024 * 1024


class Decompressor(Protocol):
    """The return type of `zlib.decompressobj`, which has no public name."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class Plain:
    """A decoder of bodies that are not encoded. The HTTP library itself detects a truncated one."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> None:
        """Add a chunk."""
        self._held = data

    def take(self) -> bytes:
        """Return decoded bytes; none if more must be fed."""
        data, self._held = self._held, b""
        return data


class Inflated:
    """A decoder of gzip and deflate.

    Raises `MalformedEvent` for invalid data, and `LimitExceeded` for more than `limit` decoded bytes.
    """

    def __init__(self, encoding: str, limit: int = LIMIT) -> None:
        self._encoding = encoding
        self._limit = limit
        self._total = 0
        self._held = b""
        self._empty = True
        # zlib may have more output after a full chunk, although it has consumed all of the input.
        self._full = False
        self._inflate: Decompressor | None = zlib.decompressobj(31) if encoding == "gzip" else None

    def feed(self, data: bytes) -> None:
        """Add a compressed chunk."""
        self._held += data
        self._empty = self._empty and not data

    def take(self) -> bytes:
        """Return at most `PIECE` decoded bytes; none if more must be fed."""
        while (inflate := self._ready()) is not None:
            if plain := self._step(inflate):
                return plain
        return b""

    def close(self) -> None:
        """End the body. Raise `StreamInterrupted` if the compressed data is truncated."""
        if not self._empty and not (self._inflate is not None and self._inflate.eof):
            raise StreamInterrupted(f"the {self._encoding} body ended in the middle of its data")

    def _ready(self) -> Decompressor | None:
        """Return the decompressor if it has input or pending output."""
        if self._inflate is None:
            self._inflate = _deflate(self._held)
        elif self._inflate.eof and not self._next_member():
            return None
        return self._inflate if self._held or self._full else None

    def _next_member(self) -> bool:
        """Start the next gzip member, if one follows (RFC 1952, 2.2). Other trailing data is dropped."""
        if self._encoding == "gzip" and self._held[:2] == b"\x1f\x8b":
            self._inflate = zlib.decompressobj(31)
            return True
        if self._held != b"\x1f":
            self._held = b""
        return False

    def _step(self, inflate: Decompressor) -> bytes:
        try:
            plain = inflate.decompress(self._held, PIECE)
        except zlib.error as fault:
            raise MalformedEvent(f"the body is not the {self._encoding} it claims to be: {fault}") from None
        self._held = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
        self._full = len(plain) == PIECE and not inflate.eof
        self._total += len(plain)
        if self._total > self._limit:
            raise LimitExceeded(f"the {self._encoding} body is longer than {self._limit} bytes when decoded")
        return plain


def decoder(headers: Mapping[str, str], limit: int = LIMIT) -> Plain | Inflated:
    """Return the decoder for the content encoding in `headers`, whose names are in lower case.

    Raise `MalformedEvent` for an encoding that is not supported.
    """
    if "content-encoding" not in headers:
        return Plain()
    named = [name.strip().lower() for name in headers["content-encoding"].split(",")]
    encodings = [name for name in named if name not in ("", "identity")]
    if not encodings:
        return Plain()
    if encodings in (["gzip"], ["x-gzip"], ["deflate"]):
        return Inflated(encodings[0].removeprefix("x-"), limit)
    raise MalformedEvent(f"the body comes in an encoding that was not asked for: {', '.join(encodings)[:100]!r}")


def _deflate(start: bytes) -> Decompressor | None:
    """Return a decompressor for `deflate`: zlib (RFC 9110, 8.4.1.2), or raw deflate, which some servers send."""
    if len(start) < 2:
        return None
    wrapped = start[0] & 15 == 8 and int.from_bytes(start[:2], "big") % 31 == 0
    return zlib.decompressobj(15 if wrapped else -15)
