"""An incremental JSON parser: push text in chunks of any size, get a list of changes.

The parser is a `_State` (all that is remembered between two feeds) and one function per grammar state, a step. A step
takes the text and a position, appends the changes it finds and returns the position after the text it has consumed;
`state.step` is the next step. Runs of plain characters, digits and white space are measured by compiled regular
expressions. A token that cannot be decided at the end of a chunk (half an escape, half a literal: 11 characters at
most) stays in `pending` and is prepended to the next chunk; partial keys and numbers are collected in `parts`. Older
text is never read again, so the cost of a feed is linear in its own length, and a text cut at any positions gives the
same changes.

The grammar is RFC 8259, with the strict choice wherever it leaves one. Text that Python could not encode again (half a
surrogate pair, escaped or raw), numbers that overflow a float, `NaN`, a byte order mark and more than `max_depth` open
containers are errors. A repeated key is reported twice: the consumer lets the last one win. The number of digits of an
integer is left to validation.
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
_LITERALS = {"t": "true", "f": "false", "n": "null"}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
# Completes every truncated legal escape to a legal one, so that one regular expression decides both cases.
_LONGEST_ESCAPE = r"\ud83d\udc00"

# Searches for the end of a run; None: the run goes on after this text.
_end_of_plain = re.compile(r'["\\\x00-\x1f\ud800-\udfff]').search
_end_of_space = re.compile(r"[^ \t\n\r]").search
_end_of_number = re.compile(r"[^-+.0-9eE]").search
_number = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?").fullmatch
# A short integer with what ends it: all that is to be checked of it. Most numbers are, if the chunk does not end there.
_integer = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?=[,\]} \n\r\t])").match
_escape = re.compile(
    r"\\(?:([\"\\/bfnrt])"
    r"|u(?![dD][89a-fA-F])([0-9a-fA-F]{4})"
    r"|u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2}))"
).match
_surrogate = re.compile(r"\\u[dD][89a-fA-F]").match


class JSONStreamError(ValueError):
    """The position and the reason at which a text is not JSON.

    Attributes:
        reason: The error without its position.
        offset: Characters from the beginning of the text, from 0.
        line: The line, from 1.
        column: The column in characters, from 1.
        path: The keys and indexes of the open containers.
        incomplete: True if the text was valid up to its end, and ended too early.
    """

    def __init__(self, reason: str, offset: int, line: int, column: int, path: Path, incomplete: bool) -> None:
        super().__init__(reason, offset, line, column, path, incomplete)
        self.reason: str = reason
        self.offset: int = offset
        self.line: int = line
        self.column: int = column
        self.path: Path = path
        self.incomplete: bool = incomplete

    def __str__(self) -> str:
        inside = "".join(f"[{key!r}]" for key in self.path)
        return f"{self.reason} at line {self.line}, column {self.column}" + (f", in {inside}" if inside else "")


class _State:
    """The state between two feeds. Only an unfinished key or number grows with the text."""

    __slots__ = ("after", "base", "error", "line", "line_start", "max_depth", "parts", "path", "pending", "step")

    def __init__(self, max_depth: int) -> None:
        self.step: Step = _value
        self.after: Step = _end  # the step after a value, which depends on the innermost open container
        self.path: list[Any] = []  # for each open container its current index or key
        self.parts: list[str] = []
        self.pending = ""
        self.base = 0  # absolute offset of the current chunk
        self.line = 1
        self.line_start = 0
        self.max_depth = max_depth
        self.error: JSONStreamError | None = None


Step = Callable[[_State, str, int, list[Change]], int]


class JSONStream:
    """An incremental parser of one JSON text.

    Args:
        max_depth: The number of containers that may be open at once.
    """

    __slots__ = ("_state",)

    def __init__(self, max_depth: int = 200) -> None:
        self._state = _State(max_depth)

    @property
    def done(self) -> bool:
        """True if the root value is complete."""
        return self._state.step is _end and self._state.error is None

    @property
    def open(self) -> bool:
        """True if the root value has begun and has neither ended nor failed."""
        state = self._state
        begun = state.step is not _value or bool(state.path or state.pending)
        return begun and state.step is not _end and state.error is None

    def feed(self, text: str) -> list[Change]:
        """Parse the next chunk and return its changes.

        Raises:
            JSONStreamError: If the text is not JSON; every later call raises the same error.
        """
        state = self._state
        if state.pending:
            text = _resume(state, text)
        changes: list[Change] = []
        pos, size = 0, len(text)
        while pos < size:
            step = state.step
            pos = step(state, text, pos, changes)
        state.base += size
        return changes

    def close(self) -> list[Change]:
        """End the text and return the last changes.

        Raises:
            JSONStreamError: If the text ends before the root value is complete.
        """
        state = self._state
        if state.error is not None:
            raise state.error.with_traceback(None)
        changes: list[Change] = []
        if state.step is _in_number:
            _finish_number(state, 0, changes, at_end=True)
        if state.step is not _end:
            _raise_error(state, 0, "the text ends too early", incomplete=True)
        return changes


def _raise_error(state: _State, pos: int, reason: str, *, incomplete: bool = False) -> NoReturn:
    keyless = state.step in (_first_key, _next_key, _in_key)
    path = tuple(state.path[:-1] if keyless else state.path)
    offset = state.base + pos
    state.error = JSONStreamError(reason, offset, state.line, offset - state.line_start + 1, path, incomplete)
    state.pending = state.pending or " "  # not empty, so that the next feed goes through _resume, which raises again
    raise state.error


def _resume(state: _State, text: str) -> str:
    if state.error is not None:
        raise state.error.with_traceback(None)
    text = state.pending + text
    state.base -= len(state.pending)
    state.pending = ""
    return text


def _skip(state: _State, text: str, pos: int, expected: str) -> int:
    """Skip white space, the only place where a line can end; raise if there is none."""
    stop = _end_of_space(text, pos)
    end = stop.start() if stop else len(text)
    if end == pos:
        _raise_error(state, pos, f"expected {expected}, found {text[pos]!r}")
    lines = text.count("\n", pos, end)
    if lines:
        state.line += lines
        state.line_start = state.base + text.rindex("\n", pos, end) + 1
    return end


# Steps, one per grammar state: each consumes the text at `pos` and sets the next step.


def _value(state: _State, text: str, pos: int, changes: list[Change]) -> int:
    char = text[pos]
    if char == '"':
        changes.append(_STRING)
        state.step = _in_string
        return pos + 1
    if char in "-0123456789":
        found = _integer(text, pos)
        if found is not None:
            return _integers(state, text, found, changes)
        state.step = _in_number
        return _in_number(state, text, pos, changes)
    if char == " ":
        return pos + 1
    if char == "{":
        return _open_container(state, pos, OBJECT, changes)
    if char == "[":
        return _open_container(state, pos, ARRAY, changes)
    if char in _LITERALS:
        return _literal(state, text, pos, changes)
    return _skip(state, text, pos, "a value")


def _integers(state: _State, text: str, found: re.Match[str] | None, changes: list[Change]) -> int:
    """Add the integer that was found and, in an array, those that follow it, without the steps between them."""
    in_array = state.after is _after_item
    pos = 0
    while found is not None:
        number = found[0]
        changes.append((SCALAR, number))
        pos = found.end()
        if not in_array or text[pos] != ",":
            state.step = state.after
            return pos
        state.path[-1] += 1
        pos += 1
        found = _integer(text, pos)
    state.step = _value
    return pos


def _first_item(state: _State, text: str, pos: int, changes: list[Change]) -> int:
    char = text[pos]
    if char == "]":
        return _close_container(state, pos, changes)
    if char in " \t\n\r":
        return _skip(state, text, pos, "a value or ']'")
    state.step = _value
    return _value(state, text, pos, changes)


def _after_item(state: _State, text: str, pos: int, changes: list[Change]) -> int:
    char = text[pos]
    if char == ",":
        state.path[-1] += 1
        state.step = _value
        return pos + 1
    if char == "]":
        return _close_container(state, pos, changes)
    return _skip(state, text, pos, "',' or ']'")


def _first_key(state: _State, text: str, pos: int, changes: list[Change]) -> int:
    if text[pos] == "}":
        return _close_container(state, pos, changes)
    if text[pos] == '"':
        state.step = _in_key
        return pos + 1
    return _skip(state, text, pos, "a key or '}'")


def _next_key(state: _State, text: str, pos: int, changes: list[Change]) -> int:
    if text[pos] == '"':
        state.step = _in_key
        return pos + 1
    if text[pos] == " ":
        return pos + 1
    return _skip(state, text, pos, "a key")


def _colon(state: _State, text: str, pos: int, changes: list[Change]) -> int:
    if text[pos] == ":":
        state.step = _value
        return pos + 1
    return _skip(state, text, pos, "':'")


def _after_member(state: _State, text: str, pos: int, changes: list[Change]) -> int:
    if text[pos] == ",":
        state.step = _next_key
        return pos + 1
    if text[pos] == "}":
        return _close_container(state, pos, changes)
    return _skip(state, text, pos, "',' or '}'")


def _end(state: _State, text: str, pos: int, changes: list[Change]) -> int:
    return _skip(state, text, pos, "nothing more")


def _open_container(state: _State, pos: int, kind: int, changes: list[Change]) -> int:
    if len(state.path) == state.max_depth:
        _raise_error(state, pos, f"more than {state.max_depth} containers are open")
    changes.append((kind, state.base + pos))
    if kind == OBJECT:
        state.path.append("")
        state.step = _first_key
        state.after = _after_member
    else:
        state.path.append(0)
        state.step = _first_item
        state.after = _after_item
    return pos + 1


def _close_container(state: _State, pos: int, changes: list[Change]) -> int:
    path = state.path
    path.pop()
    changes.append((CLOSE, state.base + pos + 1))
    if not path:
        state.step = state.after = _end
    else:
        state.step = state.after = _after_item if type(path[-1]) is int else _after_member
    return pos + 1


def _in_string(state: _State, text: str, pos: int, changes: list[Change]) -> int:
    stop = _end_of_plain(text, pos)
    if stop is None:
        changes.append((GROW, text[pos:]))
        return len(text)
    end = stop.start()
    if text[end] == '"':
        run = text[pos:end]
    else:
        run, end = _unescape(state, text, pos, end)
    if run:
        changes.append((GROW, run))
    if end < len(text):
        changes.append(_STRING_END)
        state.step = state.after
    return end + 1


def _in_key(state: _State, text: str, pos: int, changes: list[Change]) -> int:
    stop = _end_of_plain(text, pos)
    if stop is None:
        state.parts.append(text[pos:])
        return len(text)
    end = stop.start()
    if text[end] == '"':
        name = text[pos:end]
    else:
        name, end = _unescape(state, text, pos, end)
    if end == len(text):
        state.parts.append(name)
        return end
    if state.parts:
        name = "".join((*state.parts, name))
        state.parts.clear()
    changes.append((KEY, name))
    state.path[-1] = name
    state.step = _colon
    return end + 1


def _unescape(state: _State, text: str, start: int, stop: int) -> tuple[str, int]:
    """Decode the characters from `start`; return them and the end of the string: its quote or the end of the text.

    `stop` is the first character that is not plain.
    """
    chunks = [text[start:stop]]
    while stop < len(text) and text[stop] != '"':
        found = _escape(text, stop)
        if found is None:
            _check_cut_escape(state, text, stop)
            state.pending = text[stop:]
            stop = len(text)
            break
        chunks.append(_decoded(found))
        start = found.end()
        special = _end_of_plain(text, start)
        stop = special.start() if special else len(text)
        chunks.append(text[start:stop])
    return "".join(chunks), stop


def _decoded(escape: re.Match[str]) -> str:
    short, code, high, low = escape.groups()
    if short:
        return _ESCAPES.get(short, short)
    if code:
        return chr(int(code, 16))
    return chr(0x10000 + (int(high, 16) - 0xD800 << 10) + int(low, 16) - 0xDC00)


def _check_cut_escape(state: _State, text: str, pos: int) -> None:
    """Raise unless the text ends within a legal escape that begins at `pos`."""
    rest = text[pos : pos + len(_LONGEST_ESCAPE)]
    if rest[0] != "\\":
        reason = "half a surrogate pair" if rest[0] >= chr(0xD800) else "a control character"
        _raise_error(state, pos, f"{reason} in a string: {rest[0]!r}")
    if _escape(rest + _LONGEST_ESCAPE[len(rest) :]) is None or len(rest) == len(_LONGEST_ESCAPE):
        _raise_error(state, pos, "half a surrogate pair" if _surrogate(rest) else "not a JSON escape")


def _in_number(state: _State, text: str, pos: int, changes: list[Change]) -> int:
    stop = _end_of_number(text, pos)
    if stop is None:
        state.parts.append(text[pos:])
        return len(text)
    end = stop.start()
    state.parts.append(text[pos:end])
    _finish_number(state, end, changes)
    return end


def _finish_number(state: _State, pos: int, changes: list[Change], *, at_end: bool = False) -> None:
    number = "".join(state.parts)
    state.parts.clear()
    found = _number(number)
    if found is None:
        cut = at_end and _number(number + "0") is not None
        reason = "the text ends within a number" if cut else "not a JSON number"
        _raise_error(state, pos - len(number), reason, incomplete=cut)
    if found.lastindex and (found[2] or len(number) > 300) and float(number) in (inf, -inf):
        _raise_error(state, pos - len(number), "a number too large for a float")
    changes.append((SCALAR, number))
    state.step = state.after


def _literal(state: _State, text: str, pos: int, changes: list[Change]) -> int:
    word = _LITERALS[text[pos]]
    if text.startswith(word, pos):
        changes.append((SCALAR, word))
        state.step = state.after
        return pos + len(word)
    if not word.startswith(text[pos : pos + len(word)]):
        _raise_error(state, pos, f"expected {word}")
    state.pending = text[pos:]
    return len(text)
