"""What stands around the text in the events of a tool call, learned from one event and recognized in the next.

A service wraps every few characters in hundreds of bytes, and mostly in the same ones. An event that begins and ends
as the one before it, with one whole JSON string between, says the same but for that string: what it begins with leaves
a JSON reader inside of a string that has just opened, the string ends it, and the rest is read as it was before. So
the string is all that has to be decoded. OpenAI puts random padding into each event, a string of letters and digits
of its own: that is passed over. Services that put a clock into each event are not recognized; after a few vain tries
they cost nothing more.
"""

from __future__ import annotations

import re

from jiter import from_json

_KEY = b'"arguments"'
_find = re.compile(rb'"arguments":\s*"((?:[^"\\]|\\.)*)"').search
_padding = re.compile(rb'"obfuscation":\s*"([0-9A-Za-z]*)"').search
_TRIES = 32


class Envelope:
    """The bytes around the arguments in the event that came last."""

    __slots__ = ("_after", "_before", "_end", "_known", "_middle", "_start", "_tries")

    def __init__(self) -> None:
        self._known = False
        self._before = self._after = b""
        self._middle: bytes | None = None  # what stands between the arguments and the padding, if there is one
        self._start = self._end = 0
        self._tries = _TRIES

    def text(self, data: bytes) -> str | None:
        """The arguments in an event that differs from the last in them alone; None for any other."""
        if self._known and data.startswith(self._before) and data.endswith(self._after):
            end = self._end if self._middle is None else self._end_in(data, self._middle)
            try:
                text: str = from_json(data[self._start : end])
            except ValueError:  # not one string: it ends earlier, or is no legal one
                return None
            self._tries = _TRIES
            return text
        return None

    def _end_in(self, data: bytes, middle: bytes) -> int:
        """Where the arguments end, if nothing but padding stands between `middle` and what comes after."""
        end = data.find(middle, self._start + 1)
        first, last = end + len(middle), len(data) - len(self._after)
        return end + 1 if end > 0 and (first == last or data[first:last].isalnum()) else 0

    def forget(self) -> None:
        """Another event came between: what was learned may no longer hold."""
        self._known = False

    def learn(self, data: bytes, arguments: str) -> None:
        """Take from one whole event, with these arguments, what is around them."""
        if not self._tries:
            return
        self._tries -= 1
        found = _find(data)
        try:
            if found is None or data.count(_KEY) != 1 or from_json(b'"%s"' % found[1]) != arguments:
                return
        except ValueError:  # what was read had to be repaired first
            return
        start, end = found.span(1)
        padding = _padding(data, end)
        self._middle = data[end : padding.start(1)] if padding else None
        self._before, self._after = data[:start], data[padding.end(1) if padding else end :]
        self._start, self._end = start - 1, end + 1 - len(data)  # the string with its quotes
        self._known = True
