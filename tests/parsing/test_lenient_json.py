"""Lenient JSON: repairs, refusals, and truncated text, which is never repaired."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.shared_data import json_suite, needs_shared
from toolcast.parsing.lenient_json import LenientResult, parse_lenient


def only(text: str) -> LenientResult | None:
    """The object, or else the array, if there are not several."""
    values = parse_lenient(text)
    chosen = [value for value in values if value.text[0] == "{"] or values
    return chosen[0] if len(chosen) == 1 else None


FENCE = "took the JSON out of a markdown fence"
AROUND = "left out the text around the JSON"
UNOPENED = "left out brackets that close nothing"
COMMAS = "left out trailing commas"
QUOTES = "put double quotes for others"
KEYS = "put keys in quotes"
COMMENTS = "left out comments"
PYTHON = "took Python's True, False and None as JSON's"
UNDEFINED = "took undefined as null"
CONTROLS = "escaped control characters in strings"
HALVES = "put U+FFFD for half surrogate pairs"
APOSTROPHE = "took \\' as '"
TWO = "took one of 2 equal values"

REPAIRED: list[tuple[str, Any, list[str]]] = [
    # strict
    ('{"a": 1}', {"a": 1}, []),
    (' \n{"a":[1,\t{}],"b":[]}\r\n', {"a": [1, {}], "b": []}, []),
    ("[true, false, null, -0.5e+3]", [True, False, None, -500.0], []),
    # fences
    ('```json\n{"a": 1}\n```', {"a": 1}, [FENCE]),
    ('```\n{"a": 1}\n```', {"a": 1}, [FENCE]),
    ('~~~json5\n{"a": 1}\n~~~', {"a": 1}, [FENCE]),
    ('````\n```json\n{"a": 1}\n```\n````', {"a": 1}, [FENCE]),
    ('```json {"a": 1}', {"a": 1}, [FENCE]),
    ('{"a": 1}\n```', {"a": 1}, [FENCE]),
    ('Here it is:\n```json\n{"a": 1}\n```\nEnjoy!', {"a": 1}, [FENCE, AROUND]),
    ('{"a": "```json\\n{}\\n```"}', {"a": "```json\n{}\n```"}, []),
    ('```json\n{"a": "```\n}"}\n```', {"a": "```\n}"}, [FENCE, CONTROLS]),
    # words around it
    ('Sure! {"a": 1}', {"a": 1}, [AROUND]),
    ('{"a": 1}. As you wished, "sir".', {"a": 1}, [AROUND]),
    ('\ufeff{"a": 1}', {"a": 1}, [AROUND]),
    ('Here {is} it: {"a": 1}', {"a": 1}, [AROUND]),
    ('See [this {one}], it\'s {"a": 1} {or so} [ ]', {"a": 1}, [AROUND]),
    ('{title: string} is {"title": "x"}', {"title": "x"}, [AROUND]),
    ('{"a": "{[}\\"]"} (with {braces})', {"a": '{[}"]'}, [AROUND]),
    ('As [1] says: {"a": 1}', {"a": 1}, [AROUND]),
    ("The list is [1, 2].", [1, 2], [AROUND]),
    ('<tool_call>{"a": 1}</tool_call>', {"a": 1}, [AROUND]),
    # twice
    ('{"a": 1}{"a": 1}', {"a": 1}, [TWO]),
    ('{"a":1}\n{"a": 1 ,}', {"a": 1}, [TWO]),
    ("[1] [1]", [1], [TWO]),
    ('{"a": 1}, or again {"a": 1}', {"a": 1}, [AROUND, TWO]),
    # brackets too many at the end
    ('{"a": {"b": [1]}}}', {"a": {"b": [1]}}, [UNOPENED]),
    ('```json\n{"a": 1}\n]}\n```', {"a": 1}, [FENCE, UNOPENED]),
    # inside
    ('{"a": [1, 2,], "b": {"c": 3,} , }', {"a": [1, 2], "b": {"c": 3}}, [COMMAS]),
    ("{'a': 'say \"yes\"'}", {"a": 'say "yes"'}, [QUOTES]),
    ("['it\\'s']", ["it's"], [APOSTROPHE, QUOTES]),
    ('{"a": "it\\\'s"}', {"a": "it's"}, [APOSTROPHE]),
    ("{“a”: „it’s b“, ‘c’: ‚d’}", {"a": "it’s b", "c": "d"}, [QUOTES]),
    ('{"a": "the “b” it’s"}', {"a": "the “b” it’s"}, []),
    ("{a: 1, $b-c: 2, é_1: 3, 4: 5}", {"a": 1, "$b-c": 2, "é_1": 3, "4": 5}, [KEYS]),
    ('{"a": 1 // one, {\n, /* two, } */ "b": 2 # three ]\n}', {"a": 1, "b": 2}, [COMMENTS]),
    ('{"a": "http://x#y /* no */"}', {"a": "http://x#y /* no */"}, []),
    ('{"a": True, "b": [False, None]}', {"a": True, "b": [False, None]}, [PYTHON]),
    ('{"a": undefined}', {"a": None}, [UNDEFINED]),
    ('{"a": "b\nc\td\x00\x1f"}', {"a": "b\nc\td\x00\x1f"}, [CONTROLS]),
    ('{"a": "\\ud83d", "b": "\\ude00\\ud83d\\ud83d\\ude00"}', {"a": "\ufffd", "b": "\ufffd\ufffd😀"}, [HALVES]),
    ('{"a": "\ud83d"}', {"a": "\ufffd"}, [HALVES]),
    ('{"a": "\\u00e9\\n\\/"}', {"a": "é\n/"}, []),
    ("Ok:\n```\n{'a': None,}\n```", {"a": None}, [FENCE, AROUND, QUOTES, PYTHON, COMMAS]),
]


@pytest.mark.fault(67, 70, 71, 72, 73)
@pytest.mark.parametrize(("text", "value", "repairs"), REPAIRED, ids=[text for text, _, _ in REPAIRED])
def test_what_is_put_right(text: str, value: Any, repairs: list[str]) -> None:
    found = only(text)
    assert found is not None
    assert json.loads(found.text) == value
    assert list(found.repairs) == repairs
    assert only(found.text) == LenientResult(found.text, ())


NOTHING = [
    *("", " ", "no brackets", "5", '"{"', "'", "```json\n5\n```", "{}{", "}", "[,]", "{,}", "[1,,2]", "{a}", "[see]"),
    # several values
    *('{"a": 1}{"a": 2}', "[1] or [2]", '{"a": 1}{"a": 1.0}', '{} like {"a": 1}', '{"a": 1}, {"b": 2}'),
    # cut off
    *('{"a": 1', '{"a": "b', "{'a': 'b", '{"a": "b}', '{"a": ["b"}', '{"a": 1, ', '{"a": [{"b": 1}', "{“a"),
    *('```json\n{"a": "b\n```', '{"a": {"b": 1}', '{"a": 1 // }', '{"a": 1 /* }', '{"a": 1}{"a": 1', "{"),
    *('{"a": "\\u12', '{"a": tr', '{"a": -', "{'a': 'b\"}", '{"a": 1} {b', 'so [it is: {"a": 1}', "{'a': 'b’}"),
    # numbers and words that are none
    *("[Nan]", "[-Inf]", "[+1]", "[01]", "[1.]", "[.5]", "[0x1]", "[1_000]", "[nul]", "[Nonesuch]"),
    # broken, and what is inside is not the answer
    *('{"a": "b" "c": {"d": 1}}', '{"a" {"b": 1}}', '{"a": "a "b" c", "d": {"e": 1}}', "{'a': 'it's', 'b': {}}"),
    *(
        '{a: so to say, b: {"c": 1}}',
        '[[{}] {"a": 1} x]',
        '{"a": "\\d", "b": {}}',
        '{“a": 1, "b”: {}}',
        '[{} {"a": 1}]',
    ),
    *('{"a": "b "}" c", "d": {"e": 1}', "{‘a': 1}", '{"a": 1 /}', '{{"a": 1}}', '{"a": "\\x41"}', '{"a": x} {"a": 1}'),
    # beside it is JSON, too
    *('"a": {"b": 1}}', '"a": {"b": 1}', '{"a": 1}, "b": 2', '{"a": 1}, "b": 2}', '} {"a": 1}', '{"a": 1} or so }'),
    *('{is] {"a": 1}', '{is {"a": 1} }'),
]


@pytest.mark.fault(72, 73)
@pytest.mark.parametrize("text", NOTHING)
def test_what_is_refused(text: str) -> None:
    assert only(text) is None


def test_numbers_stay_as_they_were_written() -> None:
    written = "[1e400, 1.10, -0, 1E+05, " + "9" * 5_000 + "]"
    assert only(f"so: {written}") == LenientResult(written, (AROUND,))


def test_depth() -> None:
    assert only("[" * 200 + "1," + "]" * 200) is not None
    assert only("[" * 201 + "1," + "]" * 201) is None


def test_many_brackets_among_the_words() -> None:
    assert only("{x}" * 499 + '{"a": 1}') is not None
    assert only("{x}" * 500 + '{"a": 1}') is None
    assert only('{"a": 1}' + "}" * 10_000) is None


@needs_shared
@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in json_suite() if path.stem[:2] == "y_"])
def test_suite(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    value = json.loads(text)
    found = only(text)
    if isinstance(value, (dict, list)):
        assert found is not None
        assert repr(json.loads(found.text)) == repr(value)
        assert found.repairs == ()
    else:
        assert found is None


# -- any text -----------------------------------------------------------------------------------------------------

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)


def containers(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        SCALARS | text,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
        max_leaves=12,
    ).filter(lambda value: isinstance(value, (dict, list)))


WORDS = st.text(alphabet="ab é.,:;()`*\n<>!-_/#", max_size=12)


@given(containers(st.text()), WORDS, WORDS, st.booleans(), st.sampled_from([None, 2]))
def test_any_value_stays_as_it_is(value: Any, before: str, after: str, ascii: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii, indent=indent)
    alone = LenientResult(text, ())
    assert only(text) == alone
    for around, repairs in ((before + "%s" + after, {AROUND, FENCE}), ("```json\n%s\n```", {FENCE})):
        found = only(around % text)
        assert found is not None
        assert json.loads(found.text) == value
        assert set(found.repairs) <= repairs


@given(containers(st.text()), st.sampled_from(["", "```json\n", "So, {here} it is: "]), st.data())
def test_no_beginning_of_a_value_is_one(value: Any, before: str, data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = data.draw(st.integers(0, len(text) - 1))
    assert only(before + text[:cut]) is None
    assert only(before + text[:cut] + "\n```") is None


@given(containers(st.text(alphabet="ab'\"{}[],: \\", max_size=6)), st.data())
def test_what_python_writes_is_read_whole_and_never_in_part(value: Any, data: st.DataObject) -> None:
    text = repr(value)
    found = only(text)
    assert found is not None
    assert json.loads(found.text) == value
    assert only(text[: data.draw(st.integers(0, len(text) - 1))]) is None


NASTY = st.text(alphabet="{}[]:,\"'“”‘’\\/*#`~ \n\tab01.-eu\x00\ud83d\ufeff", max_size=40)
PIECES = st.lists(
    st.sampled_from(
        ['{"a":', "{", "}", "[", "]", '"b"', "'", '"', ",", ":", " ", "//", "/*", "*/", "None", "1", "\\u", "```"]
    )
).map("".join)


@given(NASTY | PIECES | st.text())
def test_any_text_gives_strict_json_or_nothing(text: str) -> None:
    found = only(text)
    if found is not None:
        assert isinstance(json.loads(found.text), (dict, list))
        assert found.text.encode()
        assert only(found.text) == LenientResult(found.text, ())


# -- what it costs --------------------------------------------------------------------------------------------------


def calls_made(text: str) -> int:
    """How many functions run to read `text`."""
    count = 0

    def notice(*_: Any) -> None:
        nonlocal count
        count += 1

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        only(text)
    finally:
        sys.setprofile(before)
    return count


COSTLY = [
    *(
        "{",
        "[",
        "}",
        "'",
        '"',
        "{'",
        "[]",
        "{}",
        "{x}",
        "{ x ",
        "[/*",
        "[1,",
        '{"a":',
        "```json\n",
        "#",
        "{a:{",
        "[x",
        "[[x",
    ),
    *('{"a": 1} ', '"a": ', "\\", "[1,1", '["', "“", "\n"),
]


@pytest.mark.fault(141)
@pytest.mark.parametrize("piece", COSTLY)
@pytest.mark.parametrize(
    ("before", "after"), [("", ""), ("[", "]"), ('["', '"]'), ("[1,", "x]"), ("[" * 100, "]" * 100)]
)
def test_twice_the_text_is_twice_the_work(piece: str, before: str, after: str) -> None:
    once, twice = (calls_made(before + piece * times + after) for times in (2_000, 4_000))
    assert twice <= 2 * once + 100
    assert once <= 40 * len(before + piece * 2_000 + after) + 1_000
