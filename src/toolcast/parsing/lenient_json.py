"""Lenient parsing of JSON in prose or markdown, with single quotes, comments, trailing commas and the like.

The text is searched for brackets. At each opening bracket a scanner with one function per grammar state, a step, reads
a value and writes it again as strict JSON, with a list of the repairs. A complete value is kept; a bracket after which
the grammar does not match belongs to the prose. Values in a thought are none (`thoughts`). The same value written
several times counts as one; of different ones, the type that is expected decides (`arguments.parse_json`).

The form may be guessed, missing text never. So nothing is returned if

* the text ends within a bracket, a string or a comment: it was cut off;
* JSON is broken: the grammar does not match after a quoted string, or after a complete value
  inside the bracket. The objects inside it are not the answer;
* brackets of the prose do not pair, or enclose a value;
* the text beside the value is JSON too: an unmatched closing bracket (except in `{"a": 1}}`), a key, another member.

JSON that needs no repair is parsed by Pydantic. Otherwise no character is read twice: where the grammar does not match,
nothing inside has closed yet, so all brackets opened since belong to the prose and the search continues after them. At
most `_MAX_BRACKETS` brackets are visited outside of values, and at most `_MAX_DEPTH` may be open in one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, NoReturn

from pydantic_core import from_json

from .thoughts import STARTS, TAG, behind_thoughts, find_end, find_tag, searcher

_MAX_DEPTH: Final = 200  # the same as the default of JSONStream
_MAX_BRACKETS: Final = 1_000

_CLOSER = {"{": "}", "[": "]"}
_PYTHON = "took Python's True, False and None as JSON's"
_LITERALS = {
    "True": ("true", _PYTHON),
    "False": ("false", _PYTHON),
    "None": ("null", _PYTHON),
    "undefined": ("null", "took undefined as null"),
}
_CONTROL = {chr(code): json.dumps(chr(code))[1:-1] for code in range(32)}
_HALVES = "put U+FFFD for half surrogate pairs"
_DOUBLE, _SINGLE = "“”„‟", "‘’‚‛"
_ENDS = (
    {'"': '"', "'": "'"} | dict.fromkeys(_DOUBLE, "“”") | dict.fromkeys(_SINGLE, "‘’")
)  # closing quotes by opening quote
_TWIN = dict.fromkeys(_DOUBLE, '"') | dict.fromkeys(_SINGLE, "'")

# Searches for the end of a run of characters that need no escape, by opening quote.
_unplain = {quote: re.compile(rf'["{"".join(_ENDS)}\\\x00-\x1f\ud800-\udfff]').search for quote in _ENDS}
_unplain['"'] = re.compile(r'["\\\x00-\x1f\ud800-\udfff]').search
_escape = re.compile(
    r"\\(?:[\"\\/bfnrt]"
    r"|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}"
    r"|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
).match
_half_surrogate = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}").match
_no_space = re.compile(r"[^ \t\n\r]").search
_comment = re.compile(r"(?://|#)[^\n\r]*|/\*.*?\*/", re.DOTALL).match
_number = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?").match
_literal = re.compile(r"[A-Za-z]+").match
_no_json_number = re.compile(r"(-?)(?:(NaN|nan)|Infinity|inf)\b").match
_bare_key = re.compile(r"[\w$][\w$-]*").match
_bracket = re.compile(r"[\[\]{}]").search
_bracket_or_tag = searcher(rf"{STARTS}\]{{}}", rf"{TAG}|[\[\]{{}}]")
_fence = re.compile(r"(?:`{3,}|~{3,})[\w+-]*")
_key_before = re.compile(r"[\"'”’]\s*:\s*\Z").search
_member_after = re.compile(r"\s*,\s*[\"'“‘]").match


class LenientResult(NamedTuple):
    """The JSON text found in a text, and the repairs that it needed.

    It is strict JSON except for its numbers: `NaN`, `Infinity` and numbers that overflow a float are left for the
    validator to refuse.
    """

    text: str
    repairs: tuple[str, ...]


def parse_lenient(text: str) -> tuple[LenientResult, ...]:
    """Return the different JSON objects and arrays in `text`, objects first; none where one may be torn or cut off."""
    for part in (text, behind_thoughts(text)):  # a draft in a thought may be broken
        try:
            found, surroundings = _find_strict(part) or _search(part)
            return _different(found, surroundings)
        except _NoJSONValueError:
            continue
    return ()


class _NoJSONValueError(Exception):
    """Raised if no value may be taken from the text."""


class NotJSONError(Exception):
    """Raised if a bracket belongs to the prose."""


def _find_strict(text: str) -> tuple[list[LenientResult], list[str]] | None:
    """Return the result of `_search` if the text between the first and the last bracket is strict JSON; else None.

    A long answer in a fence then costs little more than one without.
    """
    first = _bracket(text)
    if first is None or first[0] not in _CLOSER:
        return None
    start, end = first.start(), text.rfind(_CLOSER[first[0]]) + 1
    if _bracket(text, end) or find_tag(text, 0, start) or find_tag(text, end):
        return None
    with suppress(ValueError, TypeError):  # TypeError for half a surrogate pair
        from_json(text[start:end])
        return [LenientResult(text[start:end], ())], [text[:start], text[end:]]
    return None


def _search(text: str) -> tuple[list[LenientResult], list[str]]:
    """Return all values in `text`, and the text before, between and after them."""
    found: list[LenientResult] = []
    surroundings: list[str] = []
    prose: list[tuple[str, int]] = []  # the closing bracket of each open one, and the number of values before it
    pos = end = 0
    for _ in range(_MAX_BRACKETS):
        bracket = _bracket_or_tag(text, pos)
        if bracket is None:
            break
        pos = bracket.start()
        if bracket.lastgroup is not None:
            if bracket["begin"] is None:
                found, surroundings, prose = [], [], []  # all before was a thought
                pos = end = bracket.end()
            else:
                surroundings.append(text[end:pos])
                over = find_end(text, bracket.end())
                pos = end = len(text) if over is None else over.end()
            surroundings.append("thought")
        elif text[pos] in _CLOSER:
            state = _State(text, pos)
            if _is_value(state):
                found.append(LenientResult("".join(state.out), tuple(state.repairs)))
                surroundings.append(text[end:pos])
                end = state.pos
            else:
                prose += [(closer, len(found)) for closer in state.open]
            pos = state.pos
        else:
            _close_in_prose(prose, text[pos], len(found))
            pos += 1
    if prose or _bracket(text, pos):
        raise _NoJSONValueError
    return found, [*surroundings, text[end:]]


def _close_in_prose(prose: list[tuple[str, int]], closer: str, count: int) -> None:
    """Remove the prose bracket that `closer` closes.

    After the first of the `count` values found so far, a closing bracket without an opening one is tolerated.
    """
    if prose.pop() != (closer, count) if prose else not count:
        raise _NoJSONValueError


def _different(found: list[LenientResult], surroundings: list[str]) -> tuple[LenientResult, ...]:
    """Return the different ones of the values found, with all repairs; raise if there is none."""
    first: dict[str, LenientResult] = {}
    for value in sorted(found, key=lambda value: value.text[0] == "["):
        first.setdefault(value.text, value)
    if not first:
        raise _NoJSONValueError
    results: list[LenientResult] = []
    for text, value in first.items():
        equal = sum(other.text == text for other in found)
        around = _repairs_around(surroundings, more=equal < len(found))
        equals = [f"took one of {equal} equal values"] if equal > 1 else []
        results.append(LenientResult(text, (*around, *equals, *value.repairs)))
    return tuple(results)


def _repairs_around(surroundings: list[str], *, more: bool) -> list[str]:
    """Return the repairs for the text outside of the values; `more` is True if values were left out too."""
    around = "".join(surroundings)
    words = _fence.sub("", around).strip("]} \t\n\r")
    unopened = sum(map(around.count, "]}")) > sum(map(around.count, "[{"))
    torn = any(map(_key_before, surroundings[:-1])) or any(map(_member_after, surroundings[1:]))
    if torn or (unopened and words):
        raise _NoJSONValueError
    found_repairs = {
        "took the JSON out of a markdown fence": _fence.search(around) is not None,
        "left out the text around the JSON": more or words != "",
        "left out brackets that close nothing": unopened,
    }
    return [repair for repair, happened in found_repairs.items() if happened]


class _State:
    """The state of reading one value: the position, the strict JSON written so far, the open brackets."""

    __slots__ = ("is_json", "open", "out", "pos", "repairs", "text")

    def __init__(self, text: str, pos: int) -> None:
        self.text = text
        self.pos = pos
        self.out: list[str] = []
        self.open: list[str] = []  # closing brackets of the open containers
        self.repairs: dict[str, None] = {}
        self.is_json = False  # True from the point at which it cannot be prose any more


Step = Callable[[_State], "Step | None"]


def _is_value(state: _State) -> bool:
    """Return whether a complete value begins at the position, after reading it as far as it matches."""
    step: Step | None = _open_container
    try:
        while step is not None:
            step = step(state)
    except NotJSONError:
        return False
    return True


def _raise_no_match(state: _State) -> NoReturn:
    raise _NoJSONValueError if state.is_json else NotJSONError


def _next_char(state: _State) -> str:
    """Skip white space and comments; return the character after them."""
    while True:
        found = _no_space(state.text, state.pos)
        if found is None:
            raise _NoJSONValueError
        state.pos = found.start()
        char = found.group()
        if char not in "/#":
            return char
        comment = _comment(state.text, state.pos)
        if comment is None:
            raise _NoJSONValueError
        state.pos = comment.end()
        state.repairs["left out comments"] = None


# Steps, one per grammar state: each reads its token and returns the next step.


def _open_container(state: _State) -> Step:
    if len(state.open) == _MAX_DEPTH:
        raise _NoJSONValueError
    char = state.text[state.pos]
    state.out.append(char)
    state.open.append(_CLOSER[char])
    state.pos += 1
    return _member


def _member(state: _State) -> Step | None:
    char = _next_char(state)
    if char == state.open[-1]:
        if state.out[-1] == ", ":
            state.out.pop()
            state.repairs["left out trailing commas"] = None
        return _close_container(state)
    return _key(state, char) if state.open[-1] == "}" else _value(state)


def _key(state: _State, char: str) -> Step:
    bare = _bare_key(state.text, state.pos)
    if bare is not None:
        state.out.append(f'"{bare.group()}"')
        state.pos = bare.end()
        state.repairs["put keys in quotes"] = None
    else:
        _string(state, char)
    if _next_char(state) != ":":
        _raise_no_match(state)
    state.out.append(": ")
    state.pos += 1
    return _value


def _value(state: _State) -> Step:
    char = _next_char(state)
    if char in _CLOSER:
        return _open_container(state)
    if (number := _no_json_number(state.text, state.pos)) is not None:
        state.out.append("NaN" if number[2] else f"{number[1]}Infinity")
        state.pos = number.end()
        return _after
    scalar = _number(state.text, state.pos) or _literal(state.text, state.pos)
    if scalar is None:
        _string(state, char)
        return _after
    token = scalar.group()
    if token in _LITERALS:
        token, repair = _LITERALS[token]
        state.repairs[repair] = None
    elif char.isalpha() and token not in ("true", "false", "null"):
        _raise_no_match(state)
    state.out.append(token)
    state.pos = scalar.end()
    return _after


def _after(state: _State) -> Step | None:
    char = _next_char(state)
    if char == state.open[-1]:
        return _close_container(state)
    if char != ",":
        _raise_no_match(state)
    state.out.append(", ")
    state.pos += 1
    return _member


def _close_container(state: _State) -> Step | None:
    state.out.append(state.open.pop())
    state.pos += 1
    state.is_json = True
    return _after if state.open else None


# Strings


def _string(state: _State, quote: str) -> None:
    """Read a string; raise if there is none."""
    if quote not in _ENDS:
        _raise_no_match(state)
    text, ends, unplain = state.text, _ENDS[quote], _unplain[quote]
    state.is_json = True
    chunks = ['"']
    pos = state.pos + 1
    while True:
        stop = unplain(text, pos)
        if stop is None:
            raise _NoJSONValueError
        chunks.append(text[pos : stop.start()])
        pos = stop.end()
        char = stop.group()
        if char in ends:
            break
        if char == "\\":
            chunk, pos = _normalize_escape(state, pos - 1)
        else:
            chunk = _escape_raw(state, quote, char)
        chunks.append(chunk)
    if quote != '"':
        state.repairs["put double quotes for others"] = None
    state.out.append("".join(chunks) + '"')
    state.pos = pos


def _normalize_escape(state: _State, pos: int) -> tuple[str, int]:
    """Return the escape at `pos` as strict JSON, and the position after it."""
    found = _escape(state.text, pos)
    if found is not None:
        return found.group(), found.end()
    if state.text.startswith("\\'", pos):
        state.repairs["took \\' as '"] = None
        return "'", pos + 2
    half = _half_surrogate(state.text, pos)
    if half is None:
        raise _NoJSONValueError
    state.repairs[_HALVES] = None
    return "\\ufffd", half.end()


def _escape_raw(state: _State, quote: str, char: str) -> str:
    """Return a character that was not escaped as strict JSON has it inside a string that begins with `quote`."""
    if char == _TWIN.get(quote):  # perhaps the end: opened by one kind of quote and closed by another
        raise _NoJSONValueError
    if char == '"':
        return '\\"'
    if char < " ":
        state.repairs["escaped control characters in strings"] = None
        return _CONTROL[char]
    if "\ud800" <= char <= "\udfff":
        state.repairs[_HALVES] = None
        return "\\ufffd"
    return char
