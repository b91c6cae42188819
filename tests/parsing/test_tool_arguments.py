"""Arguments: strict JSON, misplaced strings decoded once, lenient JSON, and the list of repairs."""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from hypothesis import given, strategies as st
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Json as JsonText,
    PlainValidator,
    RootModel,
    StringConstraints,
    Tag,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from support.shared_data import json_suite, needs_shared
from toolcast.errors import TryAgain
from toolcast.parsing import lenient_json, tool_arguments
from toolcast.parsing.json_stream import JSONStream, JSONStreamError
from toolcast.parsing.partial_value import PartialValue, plan_for
from toolcast.parsing.tool_arguments import is_lax, parse_json, portable_object, validate_json_text
from toolcast.tools.output_schema import output_schema


class Song(BaseModel):
    title: str
    seconds: int = 0


class Album(BaseModel):
    name: str
    songs: list[Song] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    cat: str = ""
    lives: list[int]


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: dict[str, int]


class Color(enum.Enum):
    RED = "red"
    ONE = "1"


class Level(enum.IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    tags: list[int]


class Settings(TypedDict):
    size: list[int]


@dataclass
class Box:
    sides: tuple[int, int]


class Node(BaseModel):
    value: int = 0
    node: Node | None = None


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    count: int
    when: date | None = None
    tags: list[int] = []


class Aliased(BaseModel):
    numbers: list[int] = Field([], alias="theNumbers")
    other: list[int] = Field([], validation_alias=AliasChoices("one", AliasPath("two", 0)))


def validator_of(type_form: Any) -> Any:
    return TypeAdapter(type_form).validator


def of(type_form: Any, text: str) -> tuple[Any, tuple[str, ...]]:
    return parse_json(validator_of(type_form), text)


def refused(type_form: Any, text: str) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        of(type_form, text)
    return caught.value


# Strict JSON

ANYTHING = validator_of(Any)


@pytest.mark.fault(60, 61, 64)
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": NaN}', "NaN is not a JSON number at line 1, column 7, in ['a']"),
        ("[Infinity]", "Infinity is not a JSON number at line 1, column 2"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ("1e400", "1e400 is too large for a float"),
        ("-1.5E+400", "-1.5E+400 is too large for a float"),
        ("[1e0000000400]", "too large for a float"),
        ("9" * 400 + ".0", f"Invalid JSON: {'9' * 40}… is too large for a float"),
        ("9" * 250 + "e99", "too large for a float"),
        ("[" * 201 + "]" * 201, "more than 200 containers"),
        ('{"a":' * 200 + "{ \n}" + "}" * 200, "more than 200 containers"),
    ],
)
def test_what_pydantic_alone_takes_is_refused(text: str, why: str) -> None:
    errors = refused(Any, text).errors()
    assert [error["type"] for error in errors] == ["json_invalid"]
    assert why in errors[0]["msg"]
    assert errors[0]["input"] == text


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "NaN", "b": "Infinity War", "c": "ab1e400"}',
        "1e300",
        "1e-400",
        "[" + "1" * 300 + "]",
        "0." + "1" * 500,
        json.dumps([[]] * 300),
        "[" * 200 + "]" * 200,
    ],
)
def test_what_only_looks_lax_is_read(text: str) -> None:
    assert parse_json(ANYTHING, text) == (json.loads(text), ())


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e400", "9" * 400 + ".0", "[" * 201 + "]" * 201])
@pytest.mark.parametrize("filler", ["x", "\U0001f30a", '\\"', "1 "])
def test_a_lax_number_is_found_where_the_parts_of_a_long_text_meet(number: str, filler: str) -> None:
    """The cheap test reads long text in parts."""
    for before in range(tool_arguments._PART - 420, tool_arguments._PART + 5, 3):
        text = '["' + (filler * before)[: before - before % len(filler)] + f'", {number}]'
        assert is_lax(text)


def test_a_string_that_does_not_end_costs_no_more_than_its_length() -> None:
    """With the square of its length this text would take an hour."""
    assert is_lax('"' + r"\"" * 500_000 + "1e999")


LONG: list[Any] = [
    {f"key{number:05}": number for number in range(20_000)},
    {f"key{number:05}": {} for number in range(20_000)},
    {f"key{number:05}": "Infinity, NaN, 1e400 \\" for number in range(10_000)},
    [1234567890123456789] * 10_000,
    [[[[[[]]]]]] * 5_000,
    ["1" * 5_000, 10**300],
]


class Counting:
    """A validator that counts its validations, each of which is to be the only one."""

    def __init__(self) -> None:
        self.validations = 0

    def validate_json(self, text: str, *, context: Any = None) -> Any:
        self.validations += 1
        return ANYTHING.validate_json(text, context=context)


@pytest.mark.parametrize("value", LONG, ids=["numbers", "empty", "strings", "digits", "nested", "run"])
@pytest.mark.parametrize("around", ["%s", "```json\n%s\n```", "Here: %s!"])
def test_a_long_valid_text_costs_one_validation_by_pydantic(
    monkeypatch: pytest.MonkeyPatch, value: Any, around: str
) -> None:
    """No part of it is read in Python: neither by a JSONStream nor by the steps of the lenient reader."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("read in Python")

    monkeypatch.setattr(tool_arguments, "JSONStream", refuse)
    monkeypatch.setattr(lenient_json, "_is_value", refuse)
    counting = Counting()
    assert parse_json(counting, around % json.dumps(value))[0] == value
    assert counting.validations == (1 if around == "%s" else 2)


def test_a_long_value_in_quotes_is_not_read_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_arguments, "JSONStream", None)
    songs = [{"name": "a", "n": 1234567890}] * 10_000
    value, repairs = parse_json(
        validator_of(dict[str, list[dict[str, str | int]]]), json.dumps({"a": json.dumps(songs)})
    )
    assert value == {"a": songs}
    assert len(repairs) == 1


def _texts(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    members = st.lists(inner, max_size=3)
    return members.map(lambda texts: f"[{', '.join(texts)}]") | members.map(
        lambda texts: "{" + ",".join(f'"{index}[NaN": {text}' for index, text in enumerate(texts)) + "}"
    )


LEAVES = [
    "1e400",
    "-1E+400",
    "1e-400",
    "NaN",
    "-Infinity",
    '"NaN"',
    '"\\""',
    '"1e400 \\\\"',
    "9" * 310,
    "9" * 310 + ".5",
    "1e20",
]


@given(st.recursive(st.sampled_from(LEAVES), _texts, max_leaves=6), st.sampled_from([0, 197, 198, 199, 200, 201]))
def test_what_pydantic_takes_is_refused_exactly_where_a_json_stream_refuses_it(text: str, depth: int) -> None:
    text = f"[[{'[]' * 150}], {'[' * depth}{text}{']' * depth}]"
    stream = JSONStream()
    try:
        stream.feed(text)
        stream.close()
    except JSONStreamError:
        assert refused(Any, text)
    else:
        assert parse_json(ANYTHING, text)[1] == ()


NOT_JSON = [
    "",
    " ",
    '{"a": 1',
    '{"a": 1, ',
    "[1 2]",
    "{'a': 1",
    "```json\n[1,\n```",
    "\x00",
    "[NaN,]",
    "[1e400,]",
    "7,",
]


@pytest.mark.parametrize("text", NOT_JSON)
def test_text_that_is_not_json(text: str) -> None:
    assert refused(Any, text).errors()[0]["type"] == "json_invalid"


@pytest.mark.fault(67)
def test_text_that_cannot_be_encoded() -> None:
    assert refused(Any, '"\ud83d"').errors()[0]["type"] == "string_unicode"


@pytest.mark.fault(64)
@pytest.mark.parametrize("depth", [202, 10_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_deep_nesting_is_a_clean_error(depth: int) -> None:
    assert refused(Any, "[" * depth + "1" + "]" * depth).errors()[0]["type"] == "json_invalid"
    assert refused(Node, '{"node":' * depth + "{}" + "}" * depth).errors()[0]["type"] == "json_invalid"


@pytest.mark.fault(62)
@pytest.mark.parametrize("type_form", [int, Any, Decimal])
def test_an_integer_of_five_thousand_digits(type_form: Any) -> None:
    assert refused(type_form, "1" * 5_000).errors()


def accepts(text: str) -> bool:
    machine = JSONStream()
    try:
        machine.feed(text)
        machine.close()
    except JSONStreamError:
        return False
    return True


@needs_shared
@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in json_suite()])
def test_suite_as_the_machine_has_it(path: Path) -> None:
    check_strictness(path.read_bytes().decode(errors="surrogateescape"))


@given(st.text(alphabet="NaInfity-+.0123456789eE[]{},: \n", max_size=30))
def test_random_text_as_the_machine_has_it(text: str) -> None:
    check_strictness(text)


def check_strictness(text: str) -> None:
    """What the machine accepts is read without repairs, and nothing else is."""
    try:
        _, repairs = parse_json(ANYTHING, text)
    except ValidationError:
        assert not accepts(text)
    else:
        assert accepts(text) is (repairs == ())


def test_plain_validator_objects_without_a_title() -> None:
    class Untitled:
        def validate_json(self, input: str, /, *, context: Any = None) -> Any:
            return json.loads(input)

    assert parse_json(Untitled(), "[1]") == ([1], ())
    with pytest.raises(ValidationError, match="1 validation error for JSON"):
        parse_json(Untitled(), "NaN")


def test_the_error_names_the_model() -> None:
    assert refused(Album, '{"name": NaN}').title == "Album"


def calls_made(work: Callable[[], object]) -> int:
    """Return how many functions run in `work`."""
    count = 0

    def notice(*_: Any) -> None:
        nonlocal count
        count += 1

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def object_of(keys: int) -> str:
    return json.dumps({f"key {number}": number for number in range(keys)})


@pytest.mark.fault(146)
def test_an_object_of_very_many_keys() -> None:
    assert len(of(dict[str, int], object_of(200_000))[0]) == 200_000


@pytest.mark.fault(146)
@pytest.mark.parametrize("form", [dict[str, int], dict[str, Any], Any])
def test_twice_the_keys_are_twice_the_work(form: Any) -> None:
    once, twice = (calls_made(partial(of, form, object_of(keys))) for keys in (5_000, 10_000))
    assert twice <= 2 * once + 100
    once, twice = (calls_made(partial(grown, form, object_of(keys))) for keys in (2_000, 4_000))
    assert twice <= 2.2 * once


def grown(form: Any, text: str) -> None:
    """Read every snapshot of a text that comes in pieces."""
    machine = PartialValue(plan_for(form))
    for start in range(0, len(text), 24):
        if machine.feed(text[start : start + 24]):
            assert machine.value is not None


# Decoding once


def text_in(value: Any) -> str:
    """A JSON string that holds JSON text."""
    return json.dumps(json.dumps(value))


DECODED: list[Any] = [
    (list[int], text_in([1]), [1], ["the whole answer"]),
    (Album, text_in({"name": "x"}), Album(name="x"), ["the whole answer"]),
    (Album, f'{{"name": "x", "songs": {text_in([{"title": "y"}])}}}', None, ["`songs`"]),
    (Album, f'{{"name": "x", "songs": [{text_in({"title": "y"})}]}}', None, ["`songs[0]`"]),
    (list[list[int]], '["[1]", [2], " [3]\\n"]', [[1], [2], [3]], ["`[0]`", "`[2]`"]),
    (dict[str, list[int]], '{"a b": "[1]", "c": [2]}', {"a b": [1], "c": [2]}, ["`a b`"]),
    (dict[int, list[int]], '{"1": "[1]"}', {1: [1]}, ["`1`"]),
    (Mapping[str, int], '"{}"', {}, ["the whole answer"]),
    (Sequence[int], '"[1]"', [1], ["the whole answer"]),
    (set[int], '"[1]"', {1}, ["the whole answer"]),
    (frozenset[int], '"[1]"', frozenset({1}), ["the whole answer"]),
    (tuple[int, list[int]], '[1, "[2]"]', (1, [2]), ["`[1]`"]),
    (list[list[int]] | None, '["[1]"]', [[1]], ["`[0]`"]),
    (list[int] | None, '"null"', None, ["the whole answer"]),
    (list[int] | dict[str, int], '"{}"', {}, ["the whole answer"]),
    (Settings, '{"size": "[1]"}', {"size": [1]}, ["`size`"]),
    (Point, '{"x": 1, "tags": "[2]"}', Point(1, [2]), ["`tags`"]),
    (Point, '"[1, [2]]"', Point(1, [2]), ["the whole answer"]),
    (Box, '{"sides": "[1, 2]"}', Box((1, 2)), ["`sides`"]),
    (list[Box], '["{\\"sides\\": [1, 2]}"]', [Box((1, 2))], ["`[0]`"]),
    (RootModel[list[Song]], '["{\\"title\\": \\"x\\"}"]', None, ["`[0]`"]),
    (Annotated[list[int], BeforeValidator(lambda value: value)], '"[1]"', [1], ["the whole answer"]),
    (Annotated[list[int], AfterValidator(lambda value: value)] | bool, '"[1]"', [1], ["the whole answer"]),
    (Literal[1, 2], '"1"', 1, ["the whole answer"]),
    (Strict, '{"count": "5"}', Strict(count=5), ["`count`"]),
    (Strict, '{"count": 5, "tags": "[1]", "when": "2020-01-01"}', None, ["`tags`"]),
    (Aliased, '{"theNumbers": "[1]", "one": "[2]"}', None, ["`theNumbers`", "`one`"]),
    (Aliased, '{"two": ["[2]", "[3]"]}', None, ["`two[0]`"]),
    (Node, '{"node": {"node": "{\\"value\\": 3}"}}', None, ["`node.node`"]),
    (int | None, '"null"', None, ["the whole answer"]),
    (float | None, '"null"', None, ["the whole answer"]),
    (bool | None, '"null"', None, ["the whole answer"]),
    (None, '"null"', None, ["the whole answer"]),
    (list[list[int]], '"[\\"[1]\\"]"', [[1]], ["the whole answer", "`[0]`"]),
    (list[int], '"[1, 2,]"', [1, 2], ["the whole answer"]),
    (Album, """{"name": "a", "songs": "[{'title': 'b', 'seconds': 1}]"}""", None, ["`songs`"]),
    (Album, '{"name": "a", "songs": "```json\\n[{\\"title\\": \\"b\\"}]\\n```"}', None, ["`songs`"]),
    (Node, '{"node": "{\\"node\\": \\"{\'value\': 3}\\"}"}', None, ["`node`", "`node.node`"]),
]


@pytest.mark.fault(90)
@pytest.mark.parametrize(("type_form", "text", "value", "places"), DECODED, ids=lambda case: str(case)[:40])
def test_strings_where_something_else_is_required(type_form: Any, text: str, value: Any, places: list[str]) -> None:
    result, repairs = of(type_form, text)
    assert repairs == tuple(f"decoded the JSON text in {place}" for place in places)
    if value is not None:
        assert result == value


def test_decoded_values_have_their_real_types() -> None:
    album, _ = of(Album, f'{{"name": "x", "songs": {text_in([{"title": "y", "seconds": 3}])}}}')
    assert album == Album(name="x", songs=[Song(title="y", seconds=3)])
    node, _ = of(Node, '{"node": {"node": "{\\"value\\": 3}"}}')
    assert node == Node(node=Node(node=Node(value=3)))
    aliased, _ = of(Aliased, '{"theNumbers": "[1]", "two": ["[2]", "[3]"]}')
    assert (aliased.numbers, aliased.other) == ([1], [2])


DISCRIMINATED = Annotated[Cat | Dog, Field(discriminator="kind")]


def kind_of(value: Any) -> str | None:
    return value.get("kind") if isinstance(value, dict) else None


CALLED = Annotated[Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")], Discriminator(kind_of)]


@pytest.mark.parametrize("pet", [DISCRIMINATED, CALLED, Cat | Dog])
def test_unions_of_models(pet: Any) -> None:
    cat = Cat(kind="cat", cat="[1]", lives=[9])
    inside = '{"kind": "cat", "cat": "[1]", "lives": "[9]"}'
    assert of(pet, inside) == (cat, ("decoded the JSON text in `lives`",))
    assert of(dict[str, pet], f'{{"cat": {inside}}}') == (
        {"cat": cat},
        ("decoded the JSON text in `cat.lives`",),
    )
    whole = '{"kind": "cat", "cat": "[1]", "lives": [9]}'
    assert of(list[pet], f"[{json.dumps(whole)}]") == ([cat], ("decoded the JSON text in `[0]`",))


def test_strings_in_the_places_of_strings_are_never_touched() -> None:
    class Codes(BaseModel):
        code: str
        limited: Annotated[str, StringConstraints(pattern="^[0-9]+$")]
        numbers: list[int]

    text = '{"code": "00123", "limited": "7", "numbers": "[1]"}'
    value, repairs = of(Codes, text)
    assert (value.code, value.limited, value.numbers) == ("00123", "7", [1])
    assert repairs == ("decoded the JSON text in `numbers`",)


UNTOUCHED: list[Any] = [
    (Annotated[str, StringConstraints(max_length=2)], '"123"'),
    (Annotated[str, StringConstraints(pattern="^x")], '"[1]"'),
    (Literal["a", "b"], '"1"'),
    (Literal["a", "1"] | None, '"null"'),
    (Literal["it's"] | None, '"null"'),
    (Color, '"blue"'),
    (Color | None, '"null"'),
    (date, '"5x"'),
    (list[int], '"[1"'),
    (list[int], '"[NaN]"'),
    (list[float], '"[1e400]"'),
    (list[int], '"\\"[1]\\""'),
    (list[int], '"one, two"'),
    (list[int], '""'),
    (list[int], "[1, 2"),
    (int, '"five"'),
    (dict[int, int], '{"x": 1}'),
    (Song, '{"title": 5}'),
    (Level, '"2"'),
    (JsonText[list[int]], '"{}"'),
    (JsonText[list[int]], '"[\\"x\\"]"'),
]


@pytest.mark.parametrize(("type_form", "text"), UNTOUCHED, ids=lambda case: str(case)[:40])
def test_what_is_not_repaired_keeps_its_first_error(type_form: Any, text: str) -> None:
    with pytest.raises(ValidationError) as plain:
        validator_of(type_form).validate_json(text)
    assert refused(type_form, text).errors() == plain.value.errors()


def test_a_string_that_a_users_validator_refuses_is_not_decoded() -> None:
    seen: list[Any] = []

    def check(value: Any) -> Any:
        seen.append(value)
        raise ValueError("no")

    assert refused(Annotated[str, PlainValidator(check)], '"1"').errors()[0]["type"] == "value_error"
    assert seen == ["1"]


def test_an_error_of_ones_own_that_borrows_a_name() -> None:
    def check(value: str) -> str:
        raise PydanticCustomError("enum", "none of mine")

    assert refused(Annotated[str, AfterValidator(check)], '"1"').errors()[0]["msg"] == "none of mine"


def test_the_first_error_stands_where_the_repair_is_not_enough() -> None:
    error = refused(Album, '{"name": 5, "songs": "[]"}')
    assert [(details["loc"], details["type"]) for details in error.errors()] == [
        (("name",), "string_type"),
        (("songs",), "list_type"),
    ]


def test_what_stands_beside_a_repair_stays_as_it_was() -> None:
    class Bill(BaseModel):
        total: Decimal
        exact: int
        factor: float
        lines: list[Decimal]
        note: dict[str, Any]

    text = """{"total": 1.25, "exact": 12345678901234567890123, "factor": 1E300, "lines": %s,
               "note": {"é\\"": [], "b": {}, "c": [true, null, "\\ud83d\\ude00"], "d": [-0.0, 2]}}"""
    bill, repairs = of(Bill, text % '"[2.5]"')
    assert repairs == ("decoded the JSON text in `lines`",)
    assert bill == of(Bill, text % "[2.5]")[0]
    assert bill.note == {'é"': [], "b": {}, "c": [True, None, "😀"], "d": [-0.0, 2]}


def test_validation_stays_in_json_mode_after_a_repair() -> None:
    strict, _ = of(Strict, '{"count": 1, "when": "2020-02-01", "tags": "[1]"}')
    assert strict.when == date(2020, 2, 1)


def test_an_ambiguous_location_takes_the_deepest_place() -> None:
    class Deep(BaseModel):
        node: Deep | None = None
        items: list[int] = []

    text = '{"items": [1], "node": {"items": [1], "node": {"items": "[1]"}}}'
    assert of(Deep, text)[1] == ("decoded the JSON text in `node.node.items`",)


def test_text_that_is_decoded_too_often_is_refused() -> None:
    class Deep(BaseModel):
        node: Deep | None = None

    def within(depth: int) -> str:
        return json.dumps({"node": within(depth - 1)}) if depth else "{}"

    assert len(of(Deep, within(4))[1]) == 4
    assert refused(Deep, within(6)).errors()[0]["type"] == "model_type"


def test_locations_by_field_name_find_nothing_and_repair_nothing() -> None:
    class ByName(BaseModel):
        model_config = ConfigDict(loc_by_alias=False)
        numbers: list[int] = Field(alias="theNumbers")

    assert refused(ByName, '{"theNumbers": "[1]"}').errors()[0]["type"] == "list_type"


@pytest.mark.fault(69)
def test_a_repeated_key_is_the_last_one() -> None:
    assert of(dict[str, list[int]], '{"a": "[1]", "a": "[2]"}')[0] == {"a": [2]}


def test_a_repair_that_nests_too_deep_keeps_the_first_error() -> None:
    inner = json.dumps("[" * 150 + "1" + "]" * 150)
    document = '{"a": ' * 100 + f'{{"numbers": {inner}}}' + "}" * 100

    class Chain(BaseModel):
        a: Chain | None = None
        numbers: list[Any] = []

    assert refused(Chain, document).errors()[0]["type"] == "list_type"
    assert of(Chain, f'{{"numbers": {inner}}}')[1] == ("decoded the JSON text in `numbers`",)


@given(st.lists(st.integers(), max_size=3), st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False)))
def test_random_values_come_back_from_their_text(numbers: list[int], table: dict[str, float]) -> None:
    class Both(BaseModel):
        numbers: list[int]
        table: dict[str, Any]

    finite = {key: value for key, value in table.items() if abs(value) < 1e308}
    text = json.dumps({"numbers": json.dumps(numbers), "table": json.dumps(finite)})
    value, repairs = of(Both, text)
    assert (value.numbers, value.table) == (numbers, finite)
    assert repairs == ("decoded the JSON text in `numbers`", "decoded the JSON text in `table`")


# JSON as models write it

SONG = Song(title="x", seconds=1)
ONE_SONG = Album(name="x", songs=[SONG])
FENCED = "took the JSON out of a markdown fence"
REPAIRED: list[Any] = [
    (Song, '```json\n{"title": "x", "seconds": 1}\n```', SONG, [FENCED]),
    (Song, '{"title": "x", "seconds": 1,}', SONG, ["left out trailing commas"]),
    (Song, "{'title': 'x', 'seconds': 1}", SONG, ["put double quotes for others"]),
    (Song, '{"title": "x", "seconds": 1}}', SONG, ["left out brackets that close nothing"]),
    (Song, '{"title": "x", "seconds": 1}' * 2, SONG, ["took one of 2 equal values"]),
    (Song, '{"title": "\ud83d", "seconds": 1}', None, ["put U+FFFD for half surrogate pairs"]),
    (Song, '{"title": "\\ud83d", "seconds": 1}', None, ["put U+FFFD for half surrogate pairs"]),
    (
        Album,
        """{'name': 'x', 'songs': '[{"title": "x", "seconds": "1"}]'}""",
        ONE_SONG,
        ["put double quotes for others", "decoded the JSON text in `songs`"],
    ),
]


@pytest.mark.parametrize(("type_form", "text", "value", "repairs"), REPAIRED, ids=lambda case: str(case)[:40])
def test_json_as_models_write_it(type_form: Any, text: str, value: Any, repairs: list[str]) -> None:
    result, found_repairs = of(type_form, text)
    assert list(found_repairs) == repairs
    assert result == (value or Song(title="\ufffd", seconds=1))


@pytest.mark.parametrize("text", ["{'title': 5}", '```json\n{"titel": "x"}\n```', "{'title': 'x'", "[1,]", "a {b} c"])
def test_the_first_error_stands_where_leniency_is_not_enough(text: str) -> None:
    with pytest.raises(ValidationError) as plain:
        validator_of(Song).validate_json(text)
    assert refused(Song, text).errors() == plain.value.errors()


@pytest.mark.parametrize("text", ['{"x": 1}{"y": 2}', '{"x": 1, "y": 2}\n{"x": 3', ' {"x": 1} [2]', '{"x": 1} end'])
def test_joined_values_are_named(text: str) -> None:
    """A service may join two calls in the arguments of one."""
    problem = refused(Song, text).errors()[0]["msg"]
    assert "trailing characters" in problem
    assert ("two values are joined" in problem) is not text.endswith("end")


def test_json_that_does_not_fit_is_not_read_leniently(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(text: str) -> None:
        raise AssertionError(text)

    monkeypatch.setattr("toolcast.parsing.lenient_json.parse_lenient", never)
    for text in ('{"title": 5}', "[1]", '"{}"', '{"title": "x", "seconds": "[1]"}'):
        assert refused(Song, text).errors()[0]["type"] != "json_invalid"


def test_a_wrapped_value_is_found_with_and_without_its_wrapper() -> None:
    shape = output_schema(list[int])
    assert shape.read("{'value': [1]}", None) == ([1], ("put double quotes for others",))
    whole = "took the whole arguments as the value"
    assert shape.read("```\n[1, 2,]\n```", None) == ([1, 2], (whole, FENCED, "left out trailing commas"))


# Users' validators


class Judged(BaseModel):
    numbers: list[int]

    @field_validator("numbers")
    @classmethod
    def judge(cls, numbers: list[int], info: ValidationInfo) -> list[int]:
        if info.context:
            raise info.context["error"]
        return numbers


@pytest.mark.parametrize("text", ['{"numbers": [1]}', '{"numbers": "[1]"}', "{'numbers': [1]}"])
@pytest.mark.parametrize("error", [TryAgain("more"), KeyError("x"), RuntimeError("y")])
def test_other_exceptions_of_validators_pass_through(text: str, error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        parse_json(Judged.__pydantic_validator__, text, context={"error": error})
    assert caught.value is error


def test_the_context_reaches_both_validations() -> None:
    validator = Judged.__pydantic_validator__
    assert parse_json(validator, '{"numbers": "[1]"}', context={})[0] == Judged(numbers=[1])
    with pytest.raises(ValidationError, match="list_type"):
        parse_json(validator, '{"numbers": "[1]"}', context={"error": ValueError("z")})


# One closed value


def test_decode_once_is_for_json_that_was_read_before() -> None:
    validator = validator_of(list[list[int]])
    assert validate_json_text(validator, "[[1]]") == ([[1]], ())
    assert validate_json_text(validator, '"[[1]]"') == ([[1]], ("decoded the JSON text in the whole answer",))
    assert validate_json_text(validator, '["[1]"]') == ([[1]], ("decoded the JSON text in `[0]`",))


@pytest.mark.parametrize(
    ("text", "found"),
    [('{"a": 1}', {"a": 1}), ('{"a": NaN}', None), (f'{{"a": 1{"0" * 400}}}', None), ("[1]", None), ('{"a"', None)],
)
def test_an_object_that_every_service_can_read(text: str, found: object) -> None:
    assert portable_object(text) == found
