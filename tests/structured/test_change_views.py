"""change_views.py: the changes of a stream as JSON data, applied as a web page applies them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    SecretStr,
    computed_field,
    field_serializer,
    field_validator,
    model_serializer,
)
from typing_extensions import TypedDict

from support.albums import SEA, Album
from support.example_counts import examples
from support.sync_and_async import API
from toolcast import ToolCallPart, ToolOrchestratingLLM
from toolcast.events import Finish, ToolCallDelta, ToolCallDone, ToolCallStart
from toolcast.parsing.partial_value import MISSING
from toolcast.parsing.path_changes import PathChange
from toolcast.structured.change_views import JSONPatchChanges, PlainChange, SentDocument
from toolcast.testing import ScriptedLLM
from toolcast.values.plain_data import to_plain


class Color(Enum):
    RED = "red"


class Point(BaseModel):
    x: int
    y: int = 0


class Words(RootModel[list[str]]):
    pass


@dataclass
class Place:
    name: str
    at: Point | None = None


class Typed(TypedDict, total=False):
    a: str
    b: list[int]


class Everything(BaseModel):
    title: str = Field(alias="theTitle")
    on: date
    color: Color
    path: list[Point]
    words: Words
    place: Place
    typed: Typed
    by_year: dict[int, str]
    either: int | Point | str
    note: str = "none"
    key: SecretStr | None = None
    secret: str = Field(default="", exclude=True)
    price: float = 0

    @field_validator("note")
    @classmethod
    def stripped(cls, note: str) -> str:
        return note.strip()

    @field_serializer("price")
    def rounded(self, price: float) -> str:
        return f"{price:.2f}"

    @computed_field
    @property
    def length(self) -> float:
        return float(len(self.path))


class Whole(BaseModel):
    first: str
    last: str

    @model_serializer
    def name(self) -> str:
        return f"{self.first} {self.last[:1]}."


class Meeting(BaseModel):
    host: Whole
    guests: list[Whole] = []


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    id: int = Field(validation_alias=AliasChoices("id", "ID"))


EVERYTHING = {
    "theTitle": 'A "title" é',
    "on": "2026-01-31",
    "color": "red",
    "path": [{"x": 1}, {"x": 2, "y": 3}],
    "words": ["one", "two"],
    "place": {"name": "Oslo", "at": {"x": 5}},
    "typed": {"a": "text", "b": [1, 2]},
    "by_year": {"1999": "a", "2001": "b"},
    "either": "text",
    "note": "  spaces  ",
    "key": "hunter2-canary",
    "secret": "hunter2-canary",
    "price": 1.5,
}
CASES: list[tuple[Any, Any]] = [
    (Album, SEA.model_dump(mode="json")),
    (Everything, EVERYTHING),
    (Meeting, {"host": {"first": "Ada", "last": "Lovelace"}, "guests": [{"first": "Alan", "last": "Turing"}]}),
    (Open, {"ID": 3, "other": {"a": ["b"]}, "a.b": "dotted"}),
    (list[Point], {"value": [{"x": 1}, {"x": 2}]}),
    (list[str], {"value": ["one", "two"]}),
    (str | int, {"value": "some text"}),
    (dict[str, list[float]], {"a": [1, 2.5], "b": []}),
    (Place, {"name": "Oslo", "at": None}),
]


def stream_of(output: Any, pieces: list[str], **options: Any) -> Any:
    name = ToolOrchestratingLLM(output, "x", ScriptedLLM()).preview().tools
    (tool,) = name
    text = "".join(pieces)
    events = [ToolCallStart("1", tool), *(ToolCallDelta("1", piece) for piece in pieces)]
    llm = ScriptedLLM([*events, ToolCallDone("1", tool, text), Finish("tool_use")])
    return ToolOrchestratingLLM(output, "x", llm, **options).stream()


def apply_change(document: Any, change: PathChange) -> Any:
    """Apply a change as a web page would."""
    steps = change.path if isinstance(change.path, tuple) else tuple(change.path.split(".")) if change.path else ()
    if not steps:
        return document + change.value if change.kind == "text" else change.value
    parent = document
    for step in steps[:-1]:
        parent = parent[int(step)] if isinstance(parent, list) else parent[step]
    last: Any = int(steps[-1]) if isinstance(parent, list) else steps[-1]
    if change.kind == "text":
        parent[last] += change.value
    elif isinstance(parent, list) and last == len(parent):
        parent.append(change.value)
    else:
        parent[last] = change.value
    return document


def apply_operation(document: Any, operation: dict[str, Any]) -> Any:
    """Apply an operation of RFC 6902. Replacing what is not there is an error, and so is adding what is."""
    assert json.loads(json.dumps(operation)) == operation
    steps = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
    if not steps:
        return operation["value"]
    parent = document
    for step in steps[:-1]:
        parent = parent[int(step)] if isinstance(parent, list) else parent[step]
    if isinstance(parent, list):
        place = int(steps[-1])
        assert place <= len(parent)
        parent[place : place + (operation["op"] == "replace")] = [operation["value"]]
    else:
        assert (operation["op"] == "replace") == (steps[-1] in parent)
        parent[steps[-1]] = operation["value"]
    return document


def check(output: Any, pieces: list[str]) -> None:
    """Both formats lead to the JSON of the result, without anything secret on the way."""
    result = to_plain(stream_of(output, pieces).final())
    document: Any = None
    for change in stream_of(output, pieces).changes():
        assert "canary" not in repr(change)
        assert json.loads(json.dumps(change.value)) == change.value
        document = apply_change(document, change)
    assert document == result
    document = None
    for operation in stream_of(output, pieces).changes("json-patch"):
        assert "canary" not in repr(operation)
        document = apply_operation(document, operation)
    assert document == result


@pytest.mark.parametrize(("output", "arguments"), CASES)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 10**6])
def test_applied_changes_make_the_result(output: Any, arguments: Any, size: int) -> None:
    text = json.dumps(arguments)
    check(output, [text[at : at + size] for at in range(0, len(text), size)])


@settings(max_examples=examples(60))
@given(st.sampled_from(CASES), st.data())
def test_for_every_split(case: tuple[Any, Any], data: st.DataObject) -> None:
    output, arguments = case
    text = json.dumps(arguments, ensure_ascii=data.draw(st.booleans()))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    check(output, [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)])


def test_nothing_is_sent_twice() -> None:
    text = json.dumps(SEA.model_dump(mode="json"))
    changes = list(stream_of(Album, [text[at : at + 3] for at in range(0, len(text), 3)]).changes())
    assert [change for change in changes if change.path == ""] == [PathChange("set", "", {})]
    sent = sum(len(change.value) for change in changes if change.kind == "text")
    assert sent == len(SEA.title) + len(SEA.artist) + sum(len(song.title) for song in SEA.songs)


def test_a_default_is_sent_when_its_object_closes() -> None:
    changes = list(stream_of(list[Point], ['{"value": [{"x": 1}, ', '{"x": 2}', "]}"]).changes())
    assert PathChange("set", "0.y", 0) in changes
    assert changes.index(PathChange("set", "0.y", 0)) < changes.index(PathChange("set", "1", {}))


def test_a_patch_replaces_a_growing_string_when_it_has_grown_by_a_quarter() -> None:
    class Page(BaseModel):
        text: str
        done: bool

    body = "word " * 2000
    text = json.dumps({"text": body, "done": True})
    operations = list(stream_of(Page, [text[at : at + 4] for at in range(0, len(text), 4)]).changes("json-patch"))
    texts = [one["value"] for one in operations if one["path"] == "/text"]
    assert texts[0] == ""
    assert texts[-1] == body
    assert len(texts) < 60
    assert sum(map(len, texts)) < 6 * len(body)
    assert operations[-1] == {"op": "add", "path": "/done", "value": True}


class Shouted(BaseModel):
    text: str

    @field_validator("text")
    @classmethod
    def louder(cls, text: str) -> str:
        return f"{text}!"


def test_text_that_a_validator_adds_is_appended() -> None:
    pieces = ['{"text": "He', 'y"}']
    changes = list(stream_of(Shouted, pieces).changes())
    assert changes[-2:] == [PathChange("text", "text", "y"), PathChange("text", "text", "!")]
    assert list(stream_of(Shouted, pieces).changes("json-patch"))[-1]["value"] == "Hey!"


def test_what_leads_nowhere_is_left_to_the_end() -> None:
    document = SentDocument({"a": [1]})
    assert document.replace(("b", "c"), 1) == []
    assert document.replace(("a", 3), 1) == []
    assert document.replace(("a", 0), 2) == [PlainChange("set", ("a", 0), 2)]
    assert document._append(("b",), "text") == []
    assert document.root == {"a": [2]}


def test_a_patch_ends_with_all_of_the_text() -> None:
    patch = JSONPatchChanges(MISSING)
    assert patch.last("a long text") == [{"op": "replace", "path": "", "value": "a long text"}]
    assert patch.last("a long text!") == [{"op": "replace", "path": "", "value": "a long text!"}]


def test_pointers_are_escaped() -> None:
    (*_, last) = stream_of(dict[str, str], [json.dumps({"a/b~c": "x"})]).changes("json-patch")
    assert last == {"op": "replace", "path": "/a~1b~0c", "value": "x"}


@pytest.mark.parametrize("format", ["data", "json-patch"])
def test_parallel_calls(format: Any, api: API) -> None:
    calls = [ToolCallPart(str(at), "Point", json.dumps({"x": at})) for at in range(3)]
    make = ToolOrchestratingLLM(Point, "x", ScriptedLLM(calls), allow_parallel_tool_calls=True)
    document: Any = None
    for change in api.view(make, "changes", format):
        document = apply_change(document, change) if format == "data" else apply_operation(document, change)
    assert document == [{"x": 0, "y": 0}, {"x": 1, "y": 0}, {"x": 2, "y": 0}]


@pytest.mark.parametrize("format", ["data", "json-patch"])
def test_a_repeated_request_begins_a_new_document(format: Any, api: API) -> None:
    make = ToolOrchestratingLLM(Point, "x", ScriptedLLM({"x": 1, "y": "no"}, {"x": 2}), max_attempts=2)
    document: Any = None
    for change in api.view(make, "changes", format):
        document = apply_change(document, change) if format == "data" else apply_operation(document, change)
    assert document == {"x": 2, "y": 0}


def test_objects_of_parallel_calls_have_the_index_of_their_call(api: API) -> None:
    llm = ScriptedLLM([ToolCallPart(str(at), "Point", json.dumps({"x": at})) for at in range(2)])
    make = ToolOrchestratingLLM(Point, "x", llm, allow_parallel_tool_calls=True)
    *changes, last = api.view(make, "changes", "objects")
    assert {change.path.partition(".")[0] for change in changes} == {"0", "1"}
    assert last == PathChange("set", "", [Point(x=0), Point(x=1)])


def test_objects_are_instances(api: API) -> None:
    make = ToolOrchestratingLLM(Album, "x", ScriptedLLM(SEA))
    changes = api.view(make, "changes", "objects")
    assert changes[-1] == PathChange("set", "", SEA)
    assert PathChange("set", "songs.1", SEA.songs[1]) in changes


def test_an_unknown_format() -> None:
    stream = stream_of(Point, ['{"x": 1}'])
    with pytest.raises(ValueError, match="format='xml': expected 'data', 'objects' or 'json-patch'"):
        stream.changes("xml")
    assert stream.final() == Point(x=1)
