"""Inputs of tools that Anthropic refuses as they are: other keys, and unions at the root."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, ConfigDict, Field

from support.bound_thoughts_service import BoundThoughtsService, Call
from support.sync_and_async import API
from toolcast import Anthropic, Engine, LLMError, Session, Settings, ToolOrchestratingLLM, user
from toolcast.llms.client import client_of
from toolcast.providers.anthropic.decoder import AnthropicDecoder
from toolcast.providers.anthropic.tool_inputs import RenamedKeys, RenamingDecoder, tool_input, with_own_keys
from toolcast.providers.base import RequestInput
from toolcast.providers.http_errors import ErrorSource
from toolcast.stores import SQLiteStore
from toolcast.values.tool_spec import ToolSpec, legal_name


class Place(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    town: str = Field(alias="城市")
    street: str = Field(alias="Straße & Nr.")


class Person(BaseModel):
    """A person."""

    model_config = ConfigDict(populate_by_name=True)
    name: str = Field(alias="姓名")
    homes: list[Place]
    more: dict[str, str] = {}


LI = Person(name="李", homes=[Place(town="北京", street='A "b" 1')], more={"姓名": "x"})


def sent(value: Any, *keys: str) -> Any:
    """What the model writes: with the keys that were sent to it."""
    if isinstance(value, list):
        return [sent(each, *keys) for each in value]
    if not isinstance(value, dict):
        return value
    return {legal_name(key) if key in keys else key: sent(each, *keys) for key, each in value.items()}


WRITTEN = sent(LI.model_dump(by_alias=True), "城市", "Straße & Nr.", "姓名")


@pytest.fixture
def service() -> Iterator[BoundThoughtsService]:
    with BoundThoughtsService() as double:
        yield double


def claude(double: BoundThoughtsService) -> Anthropic:
    return Anthropic("claude-opus-5", base_url=double.base, api_key="k", max_retries=0)


def test_other_keys_are_renamed_and_mapped_back(service: BoundThoughtsService, api: API) -> None:
    service.script += [(Call("c1", "Person", WRITTEN),)] * 2
    make = ToolOrchestratingLLM(Person, "Make one", claude(service))
    assert api.call(make) == LI
    found = [item for item in api.stream(make).items if item.homes and item.homes[0].street]
    assert found[-1] == LI
    schema = service.bodies[0]["tools"][0]["input_schema"]
    assert schema["properties"][legal_name("姓名")]["description"] == "This is '姓名'."
    assert legal_name("姓名") in schema["required"]


def test_in_turns_and_sessions(service: BoundThoughtsService, tmp_path: Path) -> None:
    def visit(person: Person) -> str:
        """Visit someone."""
        return person.homes[0].town

    service.script += [(Call("c1", "visit", {"person": WRITTEN}),), ("Done.",), (Call("c2", "Person", WRITTEN),)]
    store = SQLiteStore(tmp_path / "chats.db")
    with Session(Engine(claude(service), [visit]), id="ada", store=store) as session:
        turn = session.run("Visit Li")
        assert (turn.text, turn.rounds) == ("Done.", 2)
        assert "北京" in str(session.engine.history[2].parts)
    with Session.resume("ada", Engine(claude(service), [visit]), store) as session:
        assert session.run("Who was it?", output_cls=Person).output == LI
    store.close()
    assert service.refusals == []


class Cat(BaseModel):
    """A cat."""

    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    """A dog."""

    kind: Literal["dog"]
    name: str


CAT, DOG = Cat.model_json_schema(), Dog.model_json_schema()
NAME = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
OBJECT = {"type": "object", "properties": {"name": {"type": "string"}, "id": {"type": "integer"}}}
ROOTS: dict[str, Any] = {
    "anyOf": {"anyOf": [CAT, DOG], "description": "An animal"},
    "oneOf": {"oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}], "$defs": {"Cat": CAT, "Dog": DOG}},
    "allOf": {"allOf": [CAT, NAME]},
    "beside": {**OBJECT, "anyOf": [{"required": ["name"]}, {"required": ["id"]}, True]},
}


@pytest.mark.parametrize("name", ROOTS)
def test_a_union_at_the_root_is_one_object(name: str) -> None:
    schema = tool_input(ToolSpec("animal", "", ROOTS[name])).schema
    assert schema.keys().isdisjoint(("anyOf", "oneOf", "allOf"))
    assert schema["type"] == "object"
    kinds = schema["properties"].get("kind")
    if name in ("anyOf", "oneOf"):
        assert [each["const"] for each in kinds["anyOf"]] == ["cat", "dog"]
        assert schema["required"] == ["kind"]
        assert "The properties are those of one of these: kind, lives; or kind, name." in schema["description"]
    elif name == "allOf":
        assert schema["required"] == ["kind", "lives", "name"]
    else:
        assert list(schema["properties"]) == ["name", "id"]


def test_a_schema_that_is_taken_is_not_changed() -> None:
    spec = ToolSpec("cat", "", Cat.model_json_schema())
    assert tool_input(spec).schema is spec.parameters


def test_data_in_a_schema_is_not_renamed() -> None:
    about = {"properties": {"a b": {"default": {"a b": 1}, "enum": [{"a b": 1}]}}, "$defs": {"properties": {"c d": 1}}}
    schema = tool_input(ToolSpec("t", "", about)).schema
    assert schema["properties"][legal_name("a b")]["default"] == {"a b": 1}
    assert schema["$defs"] == about["$defs"]


def test_strict_tools(service: BoundThoughtsService) -> None:
    """platform.claude.com/docs/en/agents-and-tools/tool-use/strict-tool-use: it is sent where it is asked for."""

    def find(name: str, limit: int = 3) -> str:
        """Find a thing."""
        return name

    def note(about: dict[str, str]) -> str:
        """Note something."""
        return ""

    def asked(model: str, **settings: Any) -> Any:
        llm = Anthropic(model, api_key="k")
        return client_of(llm).preview(
            client_of(llm).build_request("Hi", [find, note], None, Settings(**settings), parallel=True)
        )

    request = asked("claude-opus-5", strict=True)
    strict, loose = json.loads(request.body)["tools"]
    assert (strict["strict"], strict["input_schema"]["additionalProperties"]) == (True, False)
    assert "strict" not in loose
    assert request.notes == ("a strict schema of note ('about' is an open map)",)
    for settings in ({}, {"strict": False}):
        assert "strict" not in json.loads(asked("claude-opus-5", **settings).body)["tools"][0]
    assert asked("claude-3-5-haiku-latest", strict=True).notes == ("strict",)


# -- keys as they stream

KEYS = {"a": "名", "b": "sp ace", 'q"': 'quo"te'}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["a", "b", 'q"', "{", "[,:"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*KEYS, "c", ""]) | st.text(), inner),
    max_leaves=8,
)


def renamed(value: Any) -> Any:
    if isinstance(value, list):
        return [renamed(each) for each in value]
    return {KEYS.get(key, key): renamed(each) for key, each in value.items()} if isinstance(value, dict) else value


@given(VALUES, st.booleans(), st.data())
def test_keys_are_renamed_at_any_cut(value: Any, ascii: bool, data: Any) -> None:
    text = json.dumps(value, ensure_ascii=ascii, indent=data.draw(st.sampled_from([None, 1])))
    keys, out, at = RenamedKeys(KEYS), "", 0
    while at < len(text):
        size = data.draw(st.integers(1, len(text) - at))
        out += keys.more(text[at : at + size])
        at += size
    assert json.loads(out) == renamed(value)
    assert (out, keys.rest()) == (with_own_keys(KEYS, text), "")


@given(st.text(alphabet='{}[]",:\\au0 \ud800'))
def test_any_text_stays_as_long(text: str) -> None:
    """Also one that is no JSON."""
    assert with_own_keys({}, text) == text


def test_a_key_that_was_cut_off_is_kept() -> None:
    assert with_own_keys(KEYS, '{"a": 1, "b') == '{"名": 1, "b'
    assert with_own_keys(KEYS, r'{"\x": 1}') == r'{"\x": 1}'


def test_a_response_with_renamed_keys_is_read_event_by_event() -> None:
    source = ErrorSource("anthropic", "m")
    decoder = RenamingDecoder(AnthropicDecoder(source, RequestInput("m", (user("Hi"),))), {})
    assert (decoder.model, decoder.open_call, decoder.more_text(b"{}"), decoder.failed) == (None, None, None, False)
    assert decoder.feed(b"") == []
    with pytest.raises(LLMError):
        decoder.close()
    assert decoder.failed
    decoder.expect_body()
    assert (decoder.failed, decoder.feed(b"")) == (False, [])
