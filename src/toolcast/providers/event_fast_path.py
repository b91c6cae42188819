"""The fast path for stream events: the bytes around the text, learned from one event and recognized in the next.

A provider wraps every few characters in hundreds of bytes, mostly the same ones each time. An event that begins and
ends like the previous one, with exactly one JSON string between, differs from it in that string only: the beginning
leaves a JSON parser inside a string that has just opened, the string ends it, and the rest parses as before. So only
the string is decoded. Other variable parts are skipped if they have the expected form: padding (a string of letters and
digits from OpenAI, blanks before the last brace from Anthropic), the sequence number of the event, which must be the
next, and Ollama's timestamp. Events with any other variable part are not recognized; after a few attempts the fast path
is disabled for the response.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from jiter import from_json

_padding = re.compile(rb'"obfuscation":\s*"(?P<word>[0-9A-Za-z]*)"|\}(?P<blank> *)\}\s*\Z').search
_IS_PADDING: dict[str, Callable[[bytes], bool]] = {"word": bytes.isalnum, "blank": (b" " * 1000).startswith}
_time = re.compile(rb'"created_at":\s*"([0-9A-Za-z:.+-]+)"').search
_is_time = re.compile(rb"[0-9A-Za-z:.+-]+").fullmatch
_number = re.compile(rb'("sequence_number":\s*)([0-9]{1,15})')
_TRIES = 32
_LONGEST = 4_000  # bytes; longer events contain whole values, and no two of them are alike


class Envelope:
    """The bytes around the text of the last event."""

    __slots__ = (
        "_after",
        "_before",
        "_counts_before",
        "_end",
        "_is_padding",
        "_middle",
        "_next",
        "_numbered",
        "_skip",
        "_stamped",
        "_start",
        "_tries",
        "_varies",
    )

    def __init__(self) -> None:
        self._before: bytes | tuple[()] = ()  # no event begins with an empty tuple
        self._after = b""
        self._start = self._end = 0  # of the string with its quotes, if nothing else varies
        self._varies = False
        self._middle = b""  # the bytes between the text and the padding, if there is any
        self._skip = 0
        self._stamped = b""  # the bytes between a timestamp and the text, if there is one
        self._is_padding: Callable[[bytes], bool] = bytes.isalnum
        self._numbered = b""  # the bytes before the text, or after it, with %d for the sequence number in them
        self._counts_before = True
        self._next = 0
        self._tries = _TRIES

    @property
    def is_learned(self) -> bool:
        """True if the last event was learned or recognized."""
        return bool(self._before)

    def text(self, data: bytes) -> str | None:
        """Return the text of an event that differs from the last one in it alone; None for any other event."""
        if data.startswith(self._before) and data.endswith(self._after):
            start, end = self._start, len(data) + self._end
            if self._varies:
                if self._stamped:
                    start = self._start_after_time(data)
                if self._middle:
                    end = data.rfind(self._middle, start, end) + 1
                    if not end:
                        return None
                    padding = data[end + self._skip : self._end]
                    if not self._is_padding(padding) and padding:
                        return None
            if end <= start:  # the beginning and the end overlap
                return None
            try:
                text: str = from_json(data[start:end])
            except ValueError:  # not exactly one string: it ends earlier, or is invalid
                return None
            self._tries = _TRIES
            if self._numbered:
                self._count()
            return text
        return None

    def _start_after_time(self, data: bytes) -> int:
        """Return the start of the string, if nothing but a timestamp precedes it."""
        end = data.find(self._stamped, self._start)
        return end + len(self._stamped) - 1 if _is_time(data, self._start + 1, end) else len(data)

    def _count(self) -> None:
        """Expect the next sequence number."""
        part = self._numbered % self._next
        self._next += 1
        if self._counts_before:
            self._before, self._start = part, len(part) - 1
        else:
            self._after, self._end = part, -len(part)

    def forget(self) -> None:
        """Discard the learned bytes after an event of another kind."""
        self._before = ()

    def learn(self, data: bytes, key: str, text: str) -> None:
        """Learn the bytes around `text`, the value of `key`, in one whole event."""
        if not self._tries:
            return
        if len(data) > _LONGEST:
            self.forget()
            return
        self._tries -= 1
        found = _finder(key)(data)
        try:
            if found is None or data.count(b'"%b"' % key.encode()) != 1 or from_json(b'"%b"' % found[1]) != text:
                return
        except ValueError:  # the event had to be repaired first
            return
        start, end = found.span(1)
        rest, self._middle = end + 1, b""
        if padding := _padding(data, end):
            first, rest = padding.span(padding.lastindex or 0)
            self._middle, self._skip = data[end:first], first - end - 1
            self._is_padding = _IS_PADDING[padding.lastgroup or ""]
        self._stamped = b""
        if time := _time(data, 0, start):
            self._stamped, start = data[time.end(1) : start], time.start(1)
        self._before, self._after = before, after = data[:start], data[rest:]
        self._start, self._end = start - 1, rest - len(data)
        self._numbered = b""
        if number := _number.search(before) or _number.search(after):
            self._counts_before = number.string is before
            self._next = int(number[2]) + 1
            self._numbered = _number.sub(rb"\1%d", number.string.replace(b"%", b"%%"), 1)
            self._count()
        self._varies = bool(self._middle or self._stamped or self._numbered)


@cache
def _finder(key: str) -> Callable[[bytes], re.Match[bytes] | None]:
    return re.compile(rb'"%b":\s*"((?:[^"\\]|\\.)*)"' % key.encode()).search
