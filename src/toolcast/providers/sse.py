"""Incremental parsers of server-sent events and of JSON lines. No I/O, no text decoding.

Both accept input cut anywhere and return the same events for every cut. Line ends are normalized to LF first: a CR ends
a line at once, and an LF that follows it, even in the next input, is dropped. The rest after the last line end waits in
a bytearray that only grows at its end, so that an event that arrives byte by byte takes linear time. The commonest
input, whole events of one `data:` line each, is split by `bytes.split` alone; anything else is read line by line (HTML
standard, section 9.2.6).

Lines end at CR, LF and CRLF and nowhere else: U+2028, U+0085 and the like are legal inside a JSON string. More lenient
than the standard: the last event is read without its blank line, because real servers leave it out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from ..errors import LimitExceeded

Bytes: TypeAlias = bytes | bytearray | memoryview
"""A chunk of a response, as an HTTP library may return it."""

LIMIT = 16 * 1024 * 1024
"""The default limit of the length of an event or line, in bytes."""

MEDIA_LIMIT = 64 * 1024 * 1024
"""The limit of protocols in which one event can contain a whole image, as base64: 48 MiB of it. A service sends an
image in one piece, and a PNG of 4,096 by 4,096 pixels can be longer than `LIMIT`."""

_BOM = b"\xef\xbb\xbf"


class SSE(NamedTuple):
    """One server-sent event: its name (`""` if it has none), and its data lines joined by LF."""

    event: str
    data: bytes


def to_bytes(data: object) -> bytes:
    """Return a copy of a buffer that is not exactly `bytes`: the HTTP library may overwrite it with the next chunk.

    Callers compare the type themselves, as this costs a fifth of a call for each chunk.

    Raises:
        TypeError: For anything else: `bytes(5)` would be five null bytes.
    """
    if isinstance(data, (bytes, bytearray)):
        return bytes(data)
    if isinstance(data, memoryview):
        return data.tobytes()
    raise TypeError(
        f"a chunk of a response is of type {type(data).__name__}: expected bytes, bytearray or memoryview. Encode text "
        "as UTF-8 first."
    )


# Takes half the time of SSE(event, data), which calls a Python-level __new__.
_new: Callable[[type[SSE], tuple[str, bytes]], SSE] = tuple[str, bytes].__new__


class _Lines:
    """The base of both parsers: line ends, the byte order mark, the incomplete last line, the limit."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._after_cr = False
        self._begun = False

    def _whole(self, data: bytes) -> bytes:
        """Return all bytes up to the last line end, with LF ends only; the rest waits."""
        # The CR has ended the line already; waiting for its LF would delay the last event of a read.
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        end = data.rfind(b"\n") + 1
        # `_rest` is not searched again: it has no line end, so a line of many reads takes linear time.
        if not end:
            self._rest += data
            self._check(len(self._rest))
            return b""
        if self._rest:
            whole = bytes(self._rest + data[:end])
            self._rest = bytearray(data[end:])
        else:
            whole = data[:end]
            self._rest += data[end:]
        return whole if self._begun else self._without_bom(whole)

    def _last(self) -> bytes:
        """Return the incomplete last line, which the end of the body completes."""
        last = bytes(self._rest)
        self._rest = bytearray()
        return last if self._begun else self._without_bom(last)

    def _without_bom(self, data: bytes) -> bytes:
        self._begun = True
        return data.removeprefix(_BOM)

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise LimitExceeded(
                f"one event of the response is longer than {self._limit} bytes; expected line ends between events"
            )


class ServerSentEvents(_Lines):
    """A parser of server-sent events from bytes cut anywhere.

    An event longer than `limit` bytes raises `LimitExceeded`.

    Attributes:
        between: One event has ended, and no other has begun.
        crlf: The lines end in CRLF, as far as seen.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        super().__init__(limit)
        self._event = ""
        self._data: list[bytes] = []
        self._size = 0
        self.between: bool = True
        self.crlf: bool = False

    def feed(self, data: Bytes) -> list[SSE]:
        """Return the events that `data` completes."""
        if type(data) is not bytes:
            data = to_bytes(data)
        # The two forms in which nearly all reads arrive: whole events of one line each, cut by one call of `split`.
        if (
            self.between
            and data.startswith(b"data: ")
            and data.endswith(b"\n\n")
            and len(data) <= self._limit
            and b"\r" not in data
        ):
            self._begun = True
            if data.find(b"\n") == len(data) - 2:
                return [_new(SSE, ("", data[6:-2]))]
            blocks = data[6:-2].split(b"\n\ndata: ")
            # Any other line end would be a second line of an event, or a field of another name.
            if data.count(b"\n") == 2 * len(blocks):
                return [_new(SSE, ("", block)) for block in blocks]
        if (
            self.between
            and data.startswith(b"data: ")
            and data.endswith(b"\r\n\r\n")
            and len(data) <= self._limit
            and data.count(b"\r") == data.count(b"\n") == 2
        ):
            self._begun = True
            self.crlf = True
            return [_new(SSE, ("", data[6:-4]))]
        # `between` decides whether the next read may take the short way, so it counts everything that is unfinished.
        out: list[SSE] = []
        whole = self._whole(data)
        if whole:
            self.crlf = b"\r\n" in data
            self._lines(whole[:-1], out)
        self.between = self._begun and not (self._rest or self._after_cr or self._data or self._event)
        return out

    def close(self) -> list[SSE]:
        """Return the last event, if the body ended without the blank line after it."""
        out: list[SSE] = []
        self._lines(self._last(), out)
        self._dispatch(out)
        return out

    def _lines(self, text: bytes, out: list[SSE]) -> None:
        for line in text.split(b"\n"):
            if line:
                self._field(line)
            else:
                self._dispatch(out)

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"error" and value.startswith(b"{"):
            # llama.cpp before 2025 writes a failure as a field of its own instead of an event.
            self._event = "error"
            self._append(value)

    def _append(self, value: bytes) -> None:
        self._size += len(value) + 1
        self._check(self._size)
        self._data.append(value)

    def _dispatch(self, out: list[SSE]) -> None:
        # An event without data is none (section 9.2.6), and comments as a sign of life come without.
        if self._data:
            out.append(SSE(self._event, b"\n".join(self._data)))
            self._data = []
            self._size = 0
        self._event = ""


# Strings first, so that a bracket inside one is skipped with it.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]', re.DOTALL)
_TWO_DOCUMENTS = re.compile(rb"[}\]]\s*[{\[]")


class JSONLines(_Lines):
    """A parser of JSON documents, one per line, from bytes cut anywhere; several on one line are separated.

    Blank lines are skipped. A line longer than `limit` bytes raises `LimitExceeded`. `between`: a line has ended, and
    no other has begun.
    """

    between: bool = False

    def feed(self, data: Bytes) -> list[bytes]:
        """Return the documents that `data` completes, undecoded."""
        if type(data) is not bytes:
            data = to_bytes(data)
        whole = self._whole(data)
        self.between = self._begun and not (self._rest or self._after_cr)
        return self._documents(whole) if whole else []

    def close(self) -> list[bytes]:
        """Return the last document, if the body ended without a line end."""
        return self._documents(self._last())

    def _documents(self, text: bytes) -> list[bytes]:
        out: list[bytes] = []
        for line in text.split(b"\n"):
            self._check(len(line))
            # Some servers write two documents on a line; a search is cheaper than matching the brackets of each line.
            if line := line.strip(b" \t"):
                out += _apart(line) if _TWO_DOCUMENTS.search(line) else [line]
        return out


def _apart(line: bytes) -> list[bytes]:
    """Return the documents on one line; the whole line if its brackets do not match."""
    out: list[bytes] = []
    depth = start = 0
    for token in _TOKEN.finditer(line):
        bracket = token.group()
        if bracket in b"{[":
            depth += 1
        elif bracket in b"}]":
            depth -= 1
            if depth == 0:
                out.append(line[start : token.end()].strip())
                start = token.end()
    rest = line[start:].strip()
    return [*out, rest] if rest else out
