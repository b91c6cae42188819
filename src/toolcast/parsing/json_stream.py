"""A push machine for JSON text that arrives in pieces: text goes in, changes come out.

Strategy: the machine is a `_Reading` (what is remembered between two feeds) and one function per state, its
steps. A step takes the text and a position, appends the changes it finds and returns the position behind what
it has read; which step is next is an attribute of the reading. Runs of plain characters, of digits and of
white space are measured by compiled regular expressions. What cannot be decided at the end of a piece (half
an escape, half a literal: 11 characters at most) stays in `held` and is put before the next piece; keys and
numbers that are cut are collected in `parts`. Older text is never looked at again, so a feed costs what its
own length asks for, and a text cut in any way gives the same changes.

Rules: the grammar of RFC 8259, and where that leaves a choice, the strict side. Text that Python could not
encode again (half a surrogate pair, escaped or raw), numbers that overflow a float, `NaN`, a byte order mark
and more than `max_depth` open containers are errors. A key that comes twice is reported twice: the consumer
lets the last one win. How many digits an integer may have is for validation to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import inf
from typing import Any, Final, NoReturn

OBJECT: Final = 0  # (OBJECT, offset): an object opened at this absolute character offset
ARRAY: Final = 1  # (ARRAY, offset)
KEY: Final = 2  # (KEY, name): a complete key, decoded
STRING: Final = 3  # (STRING,): a string value opened
GROW: Final = 4  # (GROW, text): more decoded characters of the open string value
STRING_END: Final = 5  # (STRING_END,)
SCALAR: Final = 6  # (SCALAR, text): the JSON text of a finished number, true, false or null
CLOSE: Final = 7  # (CLOSE, end): the innermost container closed; `end` is the offset just after its bracket

Change = tuple[Any, ...]
Path = tuple[str | int, ...]

_STRING: Change = (STRING,)
_STRING_END: Change = (STRING_END,)
_WORDS = {"t": "true", "f": "false", "n": "null"}
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
# Any tail of a legal escape that has been cut is completed to a legal escape by the rest of this one.
_LONGEST_ESCAPE = r"\ud83d\udc00"

# Where a run ends; None: not within this text.
_end_of_plain = re.compile(r'["\\\x00-\x1f\ud800-\udfff]').search
_end_of_space = re.compile(r"[^ \t\n\r]").search
_end_of_number = re.compile(r"[^-+.0-9eE]").search
_number = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?").fullmatch
_escape = re.compile(
    r"\\(?:([\"\\/bfnrt])"
    r"|u(?![dD][89a-fA-F])([0-9a-fA-F]{4})"
    r"|u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2}))"
).match
_surrogate = re.compile(r"\\u[dD][89a-fA-F]").match


class JSONStreamError(ValueError):
    """Where and why a text is not JSON.

    Attributes: `offset` in characters from 0; `line` and `column` from 1; `path`, the keys and indexes of the
    containers that were open; `incomplete`, whether the text was right so far and only ended too early.
    """

    def __init__(self, what: str, offset: int, line: int, column: int, path: Path, incomplete: bool) -> None:
        super().__init__(what, offset, line, column, path, incomplete)
        self.what: str = what
        self.offset: int = offset
        self.line: int = line
        self.column: int = column
        self.path: Path = path
        self.incomplete: bool = incomplete

    def __str__(self) -> str:
        inside = "".join(f"[{key!r}]" for key in self.path)
        return f"{self.what} at line {self.line}, column {self.column}" + (f", in {inside}" if inside else "")


class _Reading:
    """What is remembered between two feeds: nothing of it grows with the text, but an open key or number."""

    __slots__ = ("after", "base", "error", "held", "line", "line_start", "max_depth", "parts", "path", "step")

    def __init__(self, max_depth: int) -> None:
        self.step: Step = _value
        self.after: Step = _end  # the step behind a value, which the innermost open container decides
        self.path: list[Any] = []  # per open container: its index so far, or its newest key
        self.parts: list[str] = []
        self.held = ""
        self.base = 0  # absolute offset of the text being fed
        self.line = 1
        self.line_start = 0
        self.max_depth = max_depth
        self.error: JSONStreamError | None = None


Step = Callable[[_Reading, str, int, list[Change]], int]


class JSONStream:
    """A machine that turns the pieces of one JSON text into changes, as soon as each is certain.

    `max_depth` is how many containers may be open at once.
    """

    __slots__ = ("_now",)

    def __init__(self, max_depth: int = 200) -> None:
        self._now = _Reading(max_depth)

    @property
    def done(self) -> bool:
        """Whether the root value is complete."""
        return self._now.step is _end and self._now.error is None

    @property
    def open(self) -> bool:
        """Whether the root value has begun, and has neither ended nor failed."""
        now = self._now
        begun = now.step is not _value or bool(now.path or now.held)
        return begun and now.step is not _end and now.error is None

    def feed(self, text: str) -> list[Change]:
        """The changes that the next piece brings. Raises `JSONStreamError`, the same one ever after."""
        now = self._now
        if now.held:
            text = _resume(now, text)
        changes: list[Change] = []
        pos, size = 0, len(text)
        while pos < size:
            step = now.step
            pos = step(now, text, pos, changes)
        now.base += size
        return changes

    def close(self) -> list[Change]:
        """The changes that the end of the text brings. Raises `JSONStreamError` where it ends too early."""
        now = self._now
        if now.error is not None:
            raise now.error.with_traceback(None)
        changes: list[Change] = []
        if now.step is _in_number:
            _finish_number(now, 0, changes, at_end=True)
        if now.step is not _end:
            _fail(now, 0, "the text ends too early", incomplete=True)
        return changes


def _fail(now: _Reading, pos: int, what: str, *, incomplete: bool = False) -> NoReturn:
    keyless = now.step in (_first_key, _next_key, _in_key)
    path = tuple(now.path[:-1] if keyless else now.path)
    offset = now.base + pos
    now.error = JSONStreamError(what, offset, now.line, offset - now.line_start + 1, path, incomplete)
    now.held = now.held or " "  # whatever is fed now goes by way of _resume, which raises the error again
    raise now.error


def _resume(now: _Reading, text: str) -> str:
    if now.error is not None:
        raise now.error.with_traceback(None)
    text = now.held + text
    now.base -= len(now.held)
    now.held = ""
    return text


def _skip(now: _Reading, text: str, pos: int, expected: str) -> int:
    """Skip white space, the only place where a line can end; anything else is not what was expected."""
    stop = _end_of_space(text, pos)
    end = stop.start() if stop else len(text)
    if end == pos:
        _fail(now, pos, f"expected {expected}, found {text[pos]!r}")
    lines = text.count("\n", pos, end)
    if lines:
        now.line += lines
        now.line_start = now.base + text.rindex("\n", pos, end) + 1
    return end


# Steps: what may stand at `pos`, and what that makes of the reading.


def _value(now: _Reading, text: str, pos: int, changes: list[Change]) -> int:
    char = text[pos]
    if char == '"':
        changes.append(_STRING)
        now.step = _in_string
        return pos + 1
    if char in "-0123456789":
        now.step = _in_number
        return _in_number(now, text, pos, changes)
    if char == " ":
        return pos + 1
    if char == "{":
        return _open(now, pos, OBJECT, changes)
    if char == "[":
        return _open(now, pos, ARRAY, changes)
    if char in _WORDS:
        return _word(now, text, pos, changes)
    return _skip(now, text, pos, "a value")


def _first_item(now: _Reading, text: str, pos: int, changes: list[Change]) -> int:
    char = text[pos]
    if char == "]":
        return _close(now, pos, changes)
    if char in " \t\n\r":
        return _skip(now, text, pos, "a value or ']'")
    now.step = _value
    return _value(now, text, pos, changes)


def _after_item(now: _Reading, text: str, pos: int, changes: list[Change]) -> int:
    char = text[pos]
    if char == ",":
        now.path[-1] += 1
        now.step = _value
        return pos + 1
    if char == "]":
        return _close(now, pos, changes)
    return _skip(now, text, pos, "',' or ']'")


def _first_key(now: _Reading, text: str, pos: int, changes: list[Change]) -> int:
    if text[pos] == "}":
        return _close(now, pos, changes)
    if text[pos] == '"':
        now.step = _in_key
        return pos + 1
    return _skip(now, text, pos, "a key or '}'")


def _next_key(now: _Reading, text: str, pos: int, changes: list[Change]) -> int:
    if text[pos] == '"':
        now.step = _in_key
        return pos + 1
    if text[pos] == " ":
        return pos + 1
    return _skip(now, text, pos, "a key")


def _colon(now: _Reading, text: str, pos: int, changes: list[Change]) -> int:
    if text[pos] == ":":
        now.step = _value
        return pos + 1
    return _skip(now, text, pos, "':'")


def _after_member(now: _Reading, text: str, pos: int, changes: list[Change]) -> int:
    if text[pos] == ",":
        now.step = _next_key
        return pos + 1
    if text[pos] == "}":
        return _close(now, pos, changes)
    return _skip(now, text, pos, "',' or '}'")


def _end(now: _Reading, text: str, pos: int, changes: list[Change]) -> int:
    return _skip(now, text, pos, "nothing more")


def _open(now: _Reading, pos: int, kind: int, changes: list[Change]) -> int:
    if len(now.path) == now.max_depth:
        _fail(now, pos, f"more than {now.max_depth} containers are open")
    changes.append((kind, now.base + pos))
    if kind == OBJECT:
        now.path.append("")
        now.step = _first_key
        now.after = _after_member
    else:
        now.path.append(0)
        now.step = _first_item
        now.after = _after_item
    return pos + 1


def _close(now: _Reading, pos: int, changes: list[Change]) -> int:
    path = now.path
    path.pop()
    changes.append((CLOSE, now.base + pos + 1))
    if not path:
        now.step = now.after = _end
    else:
        now.step = now.after = _after_item if type(path[-1]) is int else _after_member
    return pos + 1


def _in_string(now: _Reading, text: str, pos: int, changes: list[Change]) -> int:
    stop = _end_of_plain(text, pos)
    if stop is None:
        changes.append((GROW, text[pos:]))
        return len(text)
    end = stop.start()
    if text[end] == '"':
        run = text[pos:end]
    else:
        run, end = _unescape(now, text, pos, end)
    if run:
        changes.append((GROW, run))
    if end < len(text):
        changes.append(_STRING_END)
        now.step = now.after
    return end + 1


def _in_key(now: _Reading, text: str, pos: int, changes: list[Change]) -> int:
    stop = _end_of_plain(text, pos)
    if stop is None:
        now.parts.append(text[pos:])
        return len(text)
    end = stop.start()
    if text[end] == '"':
        name = text[pos:end]
    else:
        name, end = _unescape(now, text, pos, end)
    if end == len(text):
        now.parts.append(name)
        return end
    if now.parts:
        name = "".join((*now.parts, name))
        now.parts.clear()
    changes.append((KEY, name))
    now.path[-1] = name
    now.step = _colon
    return end + 1


def _unescape(now: _Reading, text: str, start: int, stop: int) -> tuple[str, int]:
    """The characters from `start` decoded, and where the string ends: at its quote or with the text.

    `stop` is the first character that is not plain.
    """
    pieces = [text[start:stop]]
    while stop < len(text) and text[stop] != '"':
        found = _escape(text, stop)
        if found is None:
            _check_cut_escape(now, text, stop)
            now.held = text[stop:]
            stop = len(text)
            break
        pieces.append(_decoded(found))
        start = found.end()
        special = _end_of_plain(text, start)
        stop = special.start() if special else len(text)
        pieces.append(text[start:stop])
    return "".join(pieces), stop


def _decoded(escape: re.Match[str]) -> str:
    short, code, high, low = escape.groups()
    if short:
        return _SHORT.get(short, short)
    if code:
        return chr(int(code, 16))
    return chr(0x10000 + (int(high, 16) - 0xD800 << 10) + int(low, 16) - 0xDC00)


def _check_cut_escape(now: _Reading, text: str, pos: int) -> None:
    """Raise unless what stands at `pos` is the beginning of a legal escape and the text ends within it."""
    rest = text[pos : pos + len(_LONGEST_ESCAPE)]
    if rest[0] != "\\":
        what = "half a surrogate pair" if rest[0] >= "\ud800" else "a control character"
        _fail(now, pos, f"{what} in a string: {rest[0]!r}")
    if _escape(rest + _LONGEST_ESCAPE[len(rest) :]) is None or len(rest) == len(_LONGEST_ESCAPE):
        _fail(now, pos, "half a surrogate pair" if _surrogate(rest) else "not a JSON escape")


def _in_number(now: _Reading, text: str, pos: int, changes: list[Change]) -> int:
    stop = _end_of_number(text, pos)
    if stop is None:
        now.parts.append(text[pos:])
        return len(text)
    end = stop.start()
    now.parts.append(text[pos:end])
    _finish_number(now, end, changes)
    return end


def _finish_number(now: _Reading, pos: int, changes: list[Change], *, at_end: bool = False) -> None:
    number = "".join(now.parts)
    now.parts.clear()
    found = _number(number)
    if found is None:
        cut = at_end and _number(number + "0") is not None
        what = "the text ends within a number" if cut else "not a JSON number"
        _fail(now, pos - len(number), what, incomplete=cut)
    if found.lastindex and (found[2] or len(number) > 300) and float(number) in (inf, -inf):
        _fail(now, pos - len(number), "a number too large for a float")
    changes.append((SCALAR, number))
    now.step = now.after


def _word(now: _Reading, text: str, pos: int, changes: list[Change]) -> int:
    word = _WORDS[text[pos]]
    if text.startswith(word, pos):
        changes.append((SCALAR, word))
        now.step = now.after
        return pos + len(word)
    if not word.startswith(text[pos : pos + len(word)]):
        _fail(now, pos, f"expected {word}")
    now.held = text[pos:]
    return len(text)
