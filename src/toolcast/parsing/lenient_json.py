"""JSON as models really write it: in a markdown fence, among words, with single quotes, comments, trailing commas.

Strategy: the text is searched for brackets. From each that opens, a value is read by a scanner with one function per
state, its steps, which writes it down again as strict JSON, with every repair in words. What is complete is a value;
where something does not fit, the bracket was one of the prose. Of all values one object must be left over or, where
there is no object, one array. The same value written several times is one value.

The form may be guessed, what is missing never. So there is no value at all where

* the text ends within a bracket, a string or a comment: it was cut off;
* JSON is broken: after something quoted, or after a whole value inside the bracket, comes what does not fit. The
  objects inside it are not the answer;
* brackets of the prose do not pair, or enclose a value;
* what stands beside the value is JSON too: a bracket that closes nothing, but in `{"a": 1}}`; a key; another member.

What needs no repair is read by Pydantic. Otherwise no character is read twice: what did not fit ends a reading, and as
nothing in it had closed, all brackets it had opened are of the prose; the search goes on behind them. At most
`_MAX_BRACKETS` are looked at outside of values, and at most `_MAX_DEPTH` may be open in one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, NoReturn

from pydantic_core import from_json

_MAX_DEPTH: Final = 200  # as a JSONStream has it
_MAX_BRACKETS: Final = 1_000

_CLOSER = {"{": "}", "[": "]"}
_PYTHON = "took Python's True, False and None as JSON's"
_WORDS = {
    "True": ("true", _PYTHON),
    "False": ("false", _PYTHON),
    "None": ("null", _PYTHON),
    "undefined": ("null", "took undefined as null"),
}
_CONTROL = {chr(code): json.dumps(chr(code))[1:-1] for code in range(32)}
_HALVES = "put U+FFFD for half surrogate pairs"
_DOUBLE, _SINGLE = "“”„‟", "‘’‚‛"
_ENDS = {'"': '"', "'": "'"} | dict.fromkeys(_DOUBLE, "“”") | dict.fromkeys(_SINGLE, "‘’")  # of a string, by its begin
_TWIN = dict.fromkeys(_DOUBLE, '"') | dict.fromkeys(_SINGLE, "'")

# Where a run of characters ends that a string may hold as they are.
_unplain = {quote: re.compile(rf'["{"".join(_ENDS)}\\\x00-\x1f\ud800-\udfff]').search for quote in _ENDS}
_unplain['"'] = re.compile(r'["\\\x00-\x1f\ud800-\udfff]').search
_escape = re.compile(
    r"\\(?:[\"\\/bfnrt]"
    r"|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}"
    r"|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
).match
_half_pair = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}").match
_no_space = re.compile(r"[^ \t\n\r]").search
_comment = re.compile(r"(?://|#)[^\n\r]*|/\*.*?\*/", re.DOTALL).match
_number = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?").match
_word = re.compile(r"[A-Za-z]+").match
_no_json_number = re.compile(r"(-?)(?:(NaN|nan)|Infinity|inf)\b").match
_bare_key = re.compile(r"[\w$][\w$-]*").match
_bracket = re.compile(r"[\[\]{}]").search
_fence = re.compile(r"(?:`{3,}|~{3,})[\w+-]*")
_key_before = re.compile(r"[\"'”’]\s*:\s*\Z").search
_member_after = re.compile(r"\s*,\s*[\"'“‘]").match


class LenientResult(NamedTuple):
    """The JSON text that a text held, and the repairs it took, as text.

    It is strict JSON but for its numbers: `NaN`, `Infinity` and what overflows a float are for the reader to refuse.
    """

    text: str
    repairs: tuple[str, ...]


def lenient(text: str) -> LenientResult | None:
    """The one JSON object or array that `text` holds; None where there is none, several, or only a part of one."""
    try:
        found, outside = _strict_inside(text) or _search(text)
        chosen = _chosen(found)
        around = _repairs_around(outside, more=len(chosen) < len(found))
    except _NoValueError:
        return None
    if len(chosen) > 1:
        around.append(f"took one of {len(chosen)} equal values")
    return LenientResult(chosen[0].text, (*around, *chosen[0].repairs))


class _NoValueError(Exception):
    """Nothing may be taken from this text."""


class NotJSONError(Exception):
    """This bracket is one of the prose."""


def _strict_inside(text: str) -> tuple[list[LenientResult], list[str]] | None:
    """Return what `_search` does if there is nothing to repair between the first bracket and the last; else None.

    So a long answer in a fence costs little more than one without.
    """
    first = _bracket(text)
    if first is None or first[0] not in _CLOSER:
        return None
    start, end = first.start(), text.rfind(_CLOSER[first[0]]) + 1
    if _bracket(text, end):
        return None
    with suppress(ValueError, TypeError):  # the second for half a surrogate pair
        from_json(text[start:end])
        return [LenientResult(text[start:end], ())], [text[:start], text[end:]]
    return None


def _search(text: str) -> tuple[list[LenientResult], list[str]]:
    """All values of `text`, and what stands before, between and behind them."""
    found: list[LenientResult] = []
    outside: list[str] = []
    prose: list[tuple[str, int]] = []  # what closes its open brackets, and how many values there were before each
    pos = end = 0
    for _ in range(_MAX_BRACKETS):
        bracket = _bracket(text, pos)
        if bracket is None:
            break
        pos = bracket.start()
        if text[pos] in _CLOSER:
            now = _Reading(text, pos)
            if _is_value(now):
                found.append(LenientResult("".join(now.out), tuple(now.repairs)))
                outside.append(text[end:pos])
                end = now.pos
            else:
                prose += [(closer, len(found)) for closer in now.open]
            pos = now.pos
        else:
            _close_in_prose(prose, text[pos], len(found))
            pos += 1
    if prose or _bracket(text, pos):
        raise _NoValueError
    return found, [*outside, text[end:]]


def _close_in_prose(prose: list[tuple[str, int]], closer: str, count: int) -> None:
    """Take away the bracket that closes; behind a value (`count` came so far) one may close that never opened."""
    if prose.pop() != (closer, count) if prose else not count:
        raise _NoValueError


def _chosen(found: list[LenientResult]) -> list[LenientResult]:
    """The values that the text means: its objects, if there are any, and all of them equal."""
    chosen = [value for value in found if value.text[0] == "{"] or found
    if len({value.text for value in chosen}) != 1:
        raise _NoValueError
    return chosen


def _repairs_around(outside: list[str], *, more: bool) -> list[str]:
    """What is left out, in words; `more`: values, too."""
    around = "".join(outside)
    words = _fence.sub("", around).strip("]} \t\n\r")
    unopened = sum(map(around.count, "]}")) > sum(map(around.count, "[{"))
    torn = any(map(_key_before, outside[:-1])) or any(map(_member_after, outside[1:]))
    if torn or (unopened and words):
        raise _NoValueError
    said = {
        "took the JSON out of a markdown fence": _fence.search(around) is not None,
        "left out the text around the JSON": more or words != "",
        "left out brackets that close nothing": unopened,
    }
    return [repair for repair, happened in said.items() if happened]


class _Reading:
    """A value being read: where in which text, what is written of it so far, and what is still open."""

    __slots__ = ("is_json", "open", "out", "pos", "repairs", "text")

    def __init__(self, text: str, pos: int) -> None:
        self.text = text
        self.pos = pos
        self.out: list[str] = []
        self.open: list[str] = []  # the brackets that will close it
        self.repairs: dict[str, None] = {}
        self.is_json = False  # whether it can no longer be prose


Step = Callable[[_Reading], "Step | None"]


def _is_value(now: _Reading) -> bool:
    """Whether a whole value begins here. It has been read then; otherwise, as far as it could have been one."""
    step: Step | None = _open
    try:
        while step is not None:
            step = step(now)
    except NotJSONError:
        return False
    return True


def _misfit(now: _Reading) -> NoReturn:
    raise _NoValueError if now.is_json else NotJSONError


def _next_char(now: _Reading) -> str:
    """The character behind spaces and comments, where the reading now is."""
    while True:
        found = _no_space(now.text, now.pos)
        if found is None:
            raise _NoValueError
        now.pos = found.start()
        char = found.group()
        if char not in "/#":
            return char
        comment = _comment(now.text, now.pos)
        if comment is None:
            raise _NoValueError
        now.pos = comment.end()
        now.repairs["left out comments"] = None


# Steps: each reads what may stand here, and says what may stand behind it.


def _open(now: _Reading) -> Step:
    if len(now.open) == _MAX_DEPTH:
        raise _NoValueError
    char = now.text[now.pos]
    now.out.append(char)
    now.open.append(_CLOSER[char])
    now.pos += 1
    return _member


def _member(now: _Reading) -> Step | None:
    char = _next_char(now)
    if char == now.open[-1]:
        if now.out[-1] == ", ":
            now.out.pop()
            now.repairs["left out trailing commas"] = None
        return _close(now)
    return _key(now, char) if now.open[-1] == "}" else _value(now)


def _key(now: _Reading, char: str) -> Step:
    bare = _bare_key(now.text, now.pos)
    if bare is not None:
        now.out.append(f'"{bare.group()}"')
        now.pos = bare.end()
        now.repairs["put keys in quotes"] = None
    else:
        _string(now, char)
    if _next_char(now) != ":":
        _misfit(now)
    now.out.append(": ")
    now.pos += 1
    return _value


def _value(now: _Reading) -> Step:
    char = _next_char(now)
    if char in _CLOSER:
        return _open(now)
    if (number := _no_json_number(now.text, now.pos)) is not None:
        now.out.append("NaN" if number[2] else f"{number[1]}Infinity")
        now.pos = number.end()
        return _after
    scalar = _number(now.text, now.pos) or _word(now.text, now.pos)
    if scalar is None:
        _string(now, char)
        return _after
    token = scalar.group()
    if token in _WORDS:
        token, repair = _WORDS[token]
        now.repairs[repair] = None
    elif char.isalpha() and token not in ("true", "false", "null"):
        _misfit(now)
    now.out.append(token)
    now.pos = scalar.end()
    return _after


def _after(now: _Reading) -> Step | None:
    char = _next_char(now)
    if char == now.open[-1]:
        return _close(now)
    if char != ",":
        _misfit(now)
    now.out.append(", ")
    now.pos += 1
    return _member


def _close(now: _Reading) -> Step | None:
    now.out.append(now.open.pop())
    now.pos += 1
    now.is_json = True
    return _after if now.open else None


# Strings


def _string(now: _Reading, quote: str) -> None:
    """Read a string, or find that here is none."""
    if quote not in _ENDS:
        _misfit(now)
    text, ends, unplain = now.text, _ENDS[quote], _unplain[quote]
    now.is_json = True
    pieces = ['"']
    pos = now.pos + 1
    while True:
        stop = unplain(text, pos)
        if stop is None:
            raise _NoValueError
        pieces.append(text[pos : stop.start()])
        pos = stop.end()
        char = stop.group()
        if char in ends:
            break
        if char == "\\":
            piece, pos = _escaped(now, pos - 1)
        else:
            piece = _raw(now, quote, char)
        pieces.append(piece)
    if quote != '"':
        now.repairs["put double quotes for others"] = None
    now.out.append("".join(pieces) + '"')
    now.pos = pos


def _escaped(now: _Reading, pos: int) -> tuple[str, int]:
    """The escape that stands at `pos` as JSON has it, and where it ends."""
    found = _escape(now.text, pos)
    if found is not None:
        return found.group(), found.end()
    if now.text.startswith("\\'", pos):
        now.repairs["took \\' as '"] = None
        return "'", pos + 2
    half = _half_pair(now.text, pos)
    if half is None:
        raise _NoValueError
    now.repairs[_HALVES] = None
    return "\\ufffd", half.end()


def _raw(now: _Reading, quote: str, char: str) -> str:
    """A character as JSON has it in a string; the string, begun with `quote`, did not escape it."""
    if char == _TWIN.get(quote):  # begun by one kind of quote and ended by another?
        raise _NoValueError
    if char == '"':
        return '\\"'
    if char < " ":
        now.repairs["escaped control characters in strings"] = None
        return _CONTROL[char]
    if "\ud800" <= char <= "\udfff":
        now.repairs[_HALVES] = None
        return "\\ufffd"
    return char
