"""html_repr.py, the `_repr_html_` methods and the repr of an orchestrator: what a notebook shows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, SecretStr

from support.albums import SEA, Album
from support.sync_and_async import API
from toolcast import (
    Engine,
    OpenAI,
    Prices,
    ToolCallPart,
    ToolcastError,
    ToolOrchestratingLLM,
    Turn,
    Usage,
    ValidationError,
    is_partial,
)
from toolcast.errors import NoToolCallError, RateLimited
from toolcast.messages import assistant
from toolcast.testing import ScriptedLLM
from toolcast.values.approvals import PermissionRequest
from toolcast.values.html_repr import grid, table

HOSTILE = "<script>alert(1)</script><img src=x onerror='alert(2)'>\"&\x1b[2J\u202e"
TAGS = {"div", "strong", "table", "tr", "th", "td", "pre"}


class Checker(HTMLParser):
    """A parser that accepts the tags of tables alone."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag in TAGS
        assert [name for name, _ in attrs] in ([], ["style"])

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def text_of(shown: str) -> str:
    """The text of HTML, after checking that it is harmless."""
    checker = Checker()
    checker.feed(shown)
    checker.close()
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    return checker.text


def html(value: Any) -> str:
    return text_of(value._repr_html_())


@pytest.mark.parametrize("value", [HOSTILE, {HOSTILE: [HOSTILE]}, f"two\n{HOSTILE}"])
def test_everything_is_escaped(value: Any) -> None:
    shown = text_of(table(HOSTILE, [(HOSTILE, value)]))
    assert shown.count("<script>alert(1)</script>") >= 3


def test_data_are_tables_inside_the_table() -> None:
    rows = [{"title": "Foam", "seconds": 1}, {"title": "Salt", "live": True}]
    shown = table("x", [("songs", rows), ("tags", ["a", "b"]), ("nothing", []), ("mixed", [{"a": 1}, 2]), ("no", 0)])
    assert shown.count("<table") == 2
    text = re.sub(r"\s+", " ", text_of(shown))
    assert "songs title seconds live Foam 1 Salt True tags a b nothing [] mixed" in text
    assert text.strip().endswith("no 0")


def test_deep_data_are_json() -> None:
    value: Any = "end"
    for _ in range(6):
        value = {"in": value}
    shown = table("x", [("value", value)])
    assert shown.count("<table") == 4
    assert "end" in text_of(shown)
    wide = [dict.fromkeys(map(str, range(20)), 1)]
    assert "<pre" in table("x", [("wide", wide)])


def test_large_data_are_cut() -> None:
    cell = {"a": {"b": [{"c": "x" * 10} for _ in range(50)]}}
    assert len(table("x", [("all", [cell] * 50), *[(str(at), [cell] * 50) for at in range(49)]])) < 5_000_000


def test_a_grid() -> None:
    shown = grid("Songs", ("title", "seconds"), [("Foam", None), *[("Salt", at) for at in range(60)]], "61 songs")
    text = re.sub(r"\s+", " ", text_of(shown))
    assert text.startswith("Songs title seconds Foam Salt 0")
    assert text.endswith("… 11 more 61 songs ")


def test_colours_are_those_of_the_notebook() -> None:
    shown = grid("x", ("a",), [("b",)], "note") + table("x", [("a", {"b": "c\nd"})], "note")
    assert set(re.findall(r"background:([^;\"]*)", shown)) == {"none"}
    assert "color:" not in shown


def test_long_values_are_cut() -> None:
    assert len(table("x", [(str(at), "word " * 10_000) for at in range(200)])) < 60 * 4100
    assert "150 more" in text_of(table("x", [(str(at), at) for at in range(200)]))


def test_a_result(api: API) -> None:
    result = api.run(ToolOrchestratingLLM(Album, "x", ScriptedLLM(SEA, prices=Prices(2.5, 10))))
    shown = html(result)
    for word in ("Result: Album", SEA.title, "scripted scripted", "10 tokens in, 5 out, about $0.000075", "requests"):
        assert word in shown


def test_text_of_the_model_is_escaped(api: API) -> None:
    result = api.run(ToolOrchestratingLLM(str | int, "x", ScriptedLLM({"value": HOSTILE})))
    assert "<script>" in html(result)
    response = api.chat(ScriptedLLM(HOSTILE), "x")
    assert "<script>" in html(response)


def test_a_turn() -> None:
    turn = Engine(ScriptedLLM("It rains.")).submit("x")
    shown = html(turn)
    assert "It rains." in shown
    assert "end_turn" in shown
    waiting = Turn[Any](end="approval", pending=(PermissionRequest("1", "mail", "{}"),))
    assert "waiting for approval mail" in re.sub(r"\s+", " ", html(waiting))


def test_usage() -> None:
    assert "reasoning_tokens 3" in html(Usage(10, 5, reasoning_tokens=3))
    assert Usage(1000, 5).describe() == "1,000 tokens in, 5 out"
    mixed = Usage(10, 5).with_cost("0.5") + Usage(1, 1)
    assert mixed.describe() == "11 tokens in, 6 out, at least $0.500000"


def test_partial_objects(api: API) -> None:
    items = api.stream(ToolOrchestratingLLM(Album, "x", ScriptedLLM(SEA))).items
    shown = html(items[4])
    assert "Album (partial)" in shown
    assert SEA.title in shown
    assert "artist" not in shown


def masked(value: Any) -> str:
    return "***"


def fails_on_short_text(value: str) -> str:
    if len(value) < 12:
        raise RuntimeError("not whole")
    return value.upper()


@dataclass
class Pin:
    pin: Annotated[str, PlainSerializer(masked)]


class Member(BaseModel):
    model_config = ConfigDict(extra="allow")
    user: str
    password: Annotated[str, PlainSerializer(masked)]
    pins: list[Pin]
    remark: Annotated[str, PlainSerializer(fails_on_short_text)]


@pytest.mark.parametrize("parallel", [False, True])
def test_partial_objects_are_shown_by_the_serializers_of_their_class(api: API, parallel: bool) -> None:
    data = {"user": "ann", "password": "hunter2", "pins": [{"pin": "hunter2"}], "remark": "all is well", "more": "x"}
    make = ToolOrchestratingLLM(Member, "x", ScriptedLLM(data), allow_parallel_tool_calls=parallel)
    items = [items[0] if parallel else items for items in api.stream(make).items]
    shown = [html(item) for item in items if is_partial(item)]
    assert shown and not any("hunter2" in text for text in shown)
    for word in ("ann", "***", "pin", "more"):
        assert word in shown[-1]
    assert "remark" not in shown[-1]


@dataclass
class Point:
    x: str
    y: int


def test_a_partial_dataclass(api: API) -> None:
    items = api.stream(ToolOrchestratingLLM(Point, "x", ScriptedLLM({"x": "\ud800 and more", "y": 1}))).items
    assert "more" in html([item for item in items if is_partial(item)][-1])


def test_a_stream_shows_no_value_that_its_serializer_masks() -> None:
    data = {"user": "ann", "password": "hunter2", "pins": [], "remark": "x"}
    for parallel in (False, True):
        stream = ToolOrchestratingLLM(Member, "x", ScriptedLLM(data), allow_parallel_tool_calls=parallel).stream()
        for _ in range(5):
            next(stream)
        assert "hunter2" not in html(stream) and "***" in html(stream)


def test_a_stream_shows_its_latest_object() -> None:
    stream = ToolOrchestratingLLM(Album, "x", ScriptedLLM(SEA)).stream()
    assert "ObjectStream waiting" in re.sub(r"\s+", " ", html(stream))
    for _ in range(5):
        next(stream)
    assert SEA.title in html(stream)
    stream.final()
    assert SEA.songs[1].title in html(stream)


def test_errors() -> None:
    assert "no such <thing>" in html(ToolcastError("no such <thing>"))
    error = RateLimited("too many <b>", provider="openai", model="gpt-4o", request_id="req_1")
    shown = html(error)
    for word in ("RateLimited", "too many <b>", "openai gpt-4o", "req_1"):
        assert word in shown


class Row(BaseModel):
    a: int
    b: int
    c: int
    d: int
    e: int
    f: int
    g: int
    h: int


def test_a_validation_error_shows_fields_with_what_came(api: API) -> None:
    make = ToolOrchestratingLLM(Row, "x", ScriptedLLM(dict.fromkeys("abcdefgh", HOSTILE)))
    with pytest.raises(ValidationError) as caught:
        api.call(make)
    shown = html(caught.value)
    assert "h Input should be a valid integer" in re.sub(r"\s+", " ", shown)


def test_a_validation_error_without_faults_shows_its_message() -> None:
    assert "odd" in html(ValidationError("odd"))


# Secrets.

WORD = "hunter2-canary"


class Vault(BaseModel):
    key: SecretStr
    name: str = ""


class Login(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)
    password: str = Field(min_length=40)


def test_secrets_are_masked(api: API) -> None:
    result = api.run(ToolOrchestratingLLM(Vault, "x", ScriptedLLM({"key": WORD, "name": "ada"})))
    assert "ada" in html(result)
    assert WORD not in html(result) + html(result.response)
    for item in api.stream(ToolOrchestratingLLM(Vault, "x", ScriptedLLM({"key": WORD, "name": "ada"}))).items[:-1]:
        assert WORD not in html(item)
    call = ToolCallPart("1", "Vault", f'{{"key": "{WORD}"}}')
    turn = Engine(ScriptedLLM([call])).submit("x", output_cls=Vault)
    assert WORD not in html(turn)
    hidden = Turn[Any]((assistant(WORD),), hidden_tools=frozenset({"Vault"}))
    assert WORD not in html(hidden)


@pytest.mark.parametrize("answer", [{"password": WORD}, f'{{"password": "{WORD}"'])
def test_hidden_input_is_in_no_error(answer: Any, api: API) -> None:
    with pytest.raises((ValidationError, NoToolCallError)) as caught:
        api.call(ToolOrchestratingLLM(Login, "x", ScriptedLLM(answer)))
    assert WORD not in html(caught.value)
    if isinstance(caught.value, ValidationError):
        assert WORD not in caught.value._render_traceback_()[0]


class Excluding(BaseModel):
    first: str
    password: str = Field(exclude=True)
    silent: str = Field(repr=False)
    last: str


def test_fields_that_are_not_shown_elsewhere_are_not_shown_here() -> None:
    answer = {"first": "Ada", "password": WORD, "silent": WORD, "last": "Lovelace"}
    stream = ToolOrchestratingLLM(Excluding, "x", ScriptedLLM(answer)).stream()
    shown = [html(item) for item in stream if is_partial(item)]
    assert "Ada" in shown[-1]
    assert not any(WORD[:6] in each for each in shown)


# The repr of an orchestrator.


class Song(BaseModel):
    title: str


@pytest.mark.parametrize(
    ("output_cls", "name"),
    [(Song, "Song"), (list[Song], "list[Song]"), (Song | Album, "Song | Album"), (len, "len"), (dict[str, int], None)],
)
def test_the_repr_of_an_orchestrator(output_cls: Any, name: str | None) -> None:
    llm = OpenAI("gpt-4o", api_key=WORD)
    if output_cls is len:

        def length(text: str) -> int:
            return len(text)

        output_cls, name = length, "length"
    shown = repr(ToolOrchestratingLLM(output_cls, "A {thing}", llm))
    assert shown == f"ToolOrchestratingLLM({name or 'dict[str, int]'}, prompt='A {{thing}}', llm=OpenAI('gpt-4o'))"


def test_a_long_prompt_is_shortened() -> None:
    make = ToolOrchestratingLLM(Song, "word " * 1000, ScriptedLLM(), allow_parallel_tool_calls=True)
    assert len(repr(make)) < 300
    assert repr(make).endswith("allow_parallel_tool_calls=True)")


def test_an_instance_that_was_not_made_has_a_repr() -> None:
    assert "ToolOrchestratingLLM(" in repr(ToolOrchestratingLLM.__new__(ToolOrchestratingLLM))
